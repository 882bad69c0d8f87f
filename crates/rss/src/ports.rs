//! Source ports that lead a flow to where it is wanted.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use crate::tuple::Addresses;
use crate::{Error, FlowHasher, FlowId, Protocol, Tuple};

/// Who receives the packets whose hash matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// The peer: what we send, as a generator of load that aims at its lanes wants it.
    There,
    /// We: what the peer sends back, so that an outgoing connection comes home to the lane that opened it.
    Home,
}

/// A flow that is to be opened and whose source port is still free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outgoing {
    /// Our address.
    pub local: IpAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// Which direction is hashed.
    pub way: Way,
}

impl Outgoing {
    /// The ports in `range`, in order, with which the flow id is `wanted`, each with that flow id. Costs two look-ups a
    /// port and no memory. Where the hash type takes no ports, all of them or none are wanted.
    ///
    /// ```
    /// # use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Outgoing, Protocol, Table, Way};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let hasher = FlowHasher::new(&Key::MICROSOFT, HashTypes::DEFAULT);
    /// let table = Table::even(Buckets::DEFAULT, 4)?;
    /// let flow = Outgoing { local: [10, 0, 0, 1].into(), peer: ([10, 0, 0, 2], 80).into(), protocol: Protocol::TCP, way: Way::Home };
    /// let mut ports = flow.ports(&hasher, 32768..=60999, |flow| table.lane_of(flow) == 3)?;
    /// assert!(ports.next().is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::MixedFamilies`]; [`Error::NotHashed`] where no enabled hash type fits.
    pub fn ports<F: FnMut(FlowId) -> bool>(
        self,
        hasher: &FlowHasher,
        range: RangeInclusive<u16>,
        wanted: F,
    ) -> Result<SourcePorts<'_, F>, Error> {
        let there = Tuple::new(SocketAddr::new(self.local, 0), self.peer, self.protocol)?;
        let (tuple, which) = match self.way {
            Way::There => (there, 0),
            Way::Home => (there.reversed(), 1),
        };
        let hashed = hasher.tuple(&tuple).ok_or(Error::NotHashed { mask: hasher.types().mask() })?;
        let addresses = if matches!(tuple.addresses, Addresses::V4(_)) { 8 } else { 32 };
        let at = addresses + 2 * which;
        let rows = hasher.toeplitz().rows();
        let rows = hashed.hash_type.takes_ports().then_some([&rows[at], &rows[at + 1]]);
        Ok(SourcePorts { without_port: hashed.flow, rows, range, wanted })
    }
}

/// The ports that [`Outgoing::ports`] finds, each with its flow id.
#[derive(Clone, Debug)]
pub struct SourcePorts<'a, F> {
    /// The flow id with source port 0, which adds nothing.
    without_port: FlowId,
    /// What the bytes of the port add, where it is hashed.
    rows: Option<[&'a [u32; 256]; 2]>,
    range: RangeInclusive<u16>,
    wanted: F,
}

impl<F: FnMut(FlowId) -> bool> Iterator for SourcePorts<'_, F> {
    type Item = (u16, FlowId);

    fn next(&mut self) -> Option<(u16, FlowId)> {
        let Self { without_port, rows, range, wanted } = self;
        let flow = |port: u16| {
            let [high, low] = port.to_be_bytes().map(usize::from);
            rows.map_or(*without_port, |rows| FlowId(without_port.0 ^ rows[0][high] ^ rows[1][low]))
        };
        range.map(|port| (port, flow(port))).find(|(_, flow)| wanted(*flow))
    }
}
