//! A flow as its receiver sees it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{Error, Protocol};

/// Source and destination address, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Addresses {
    V4([Ipv4Addr; 2]),
    V6([Ipv6Addr; 2]),
}

/// A flow as its receiver sees it: addresses, ports and protocol. The source is the remote end.
///
/// Written as `66.9.149.187:2794 > 161.142.100.80:1766 tcp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    pub(crate) addresses: Addresses,
    /// Source and destination port, 0 where the protocol has none.
    pub(crate) ports: [u16; 2],
    pub(crate) protocol: Protocol,
}

impl Tuple {
    /// The flow from `source` to `destination`. IPv4 addresses that are mapped into IPv6 become what they are on the
    /// wire, IPv4 (RFC 4291, 2.5.5.2). Flow labels and scopes are left out, for no hash type takes them.
    ///
    /// # Errors
    /// [`Error::MixedFamilies`] for one IPv4 and one IPv6 address.
    pub fn new(source: SocketAddr, destination: SocketAddr, protocol: Protocol) -> Result<Self, Error> {
        let addresses = match (source.ip().to_canonical(), destination.ip().to_canonical()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4([source, destination]),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6([source, destination]),
            (source, destination) => return Err(Error::MixedFamilies { source, destination }),
        };
        Ok(Self { addresses, ports: [source.port(), destination.port()], protocol })
    }

    /// The end that sends, which is remote to the receiver.
    #[must_use]
    pub fn source(&self) -> SocketAddr {
        self.end(0)
    }

    /// The end that receives.
    #[must_use]
    pub fn destination(&self) -> SocketAddr {
        self.end(1)
    }

    /// The protocol.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The same flow in the other direction: what the receiver sends, as the other end sees it.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let addresses = match self.addresses {
            Addresses::V4([source, destination]) => Addresses::V4([destination, source]),
            Addresses::V6([source, destination]) => Addresses::V6([destination, source]),
        };
        Self { addresses, ports: [self.ports[1], self.ports[0]], ..*self }
    }

    fn end(&self, which: usize) -> SocketAddr {
        let address = match self.addresses {
            Addresses::V4(both) => IpAddr::V4(both[which]),
            Addresses::V6(both) => IpAddr::V6(both[which]),
        };
        SocketAddr::new(address, self.ports[which])
    }
}

impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {}", self.source(), self.destination(), self.protocol)
    }
}
