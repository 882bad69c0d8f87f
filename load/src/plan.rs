//! What a run is to do: checked once, then shared by all lanes.

use crate::aim::{Aim, Aimed};
use crate::arrivals::Arrivals;
use crate::particulars::Particulars;
use crate::secure::Secure;
use corelane::Address;
use corelane::lanes::{DriverChoice, PacketPort, Transport};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub use crate::arrivals::LONGEST;

/// What decides when the next request is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// A request follows an answer: so many are always in flight.
    Closed,
    /// Requests have their own times, whether the answers come or not.
    Open {
        /// Requests a second.
        rate: f64,
        /// How they follow one another.
        arrivals: Arrivals,
    },
    /// Connections have their own times; each makes so many requests, one after the other, and is closed.
    Connections {
        /// Connections a second.
        rate: f64,
        /// How they follow one another.
        arrivals: Arrivals,
        /// Requests on each.
        requests: u32,
    },
    /// Nothing is waited for: as much goes as the system takes, in bursts, and what comes back is counted. Only over datagrams:
    /// a connection pushes back.
    Flood,
    /// Nothing is asked: what the peer sends by itself is taken and counted. Only over connections.
    Sink,
}

impl Mode {
    /// Whether requests, or connections, have times of their own.
    pub fn has_times(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Connections { .. })
    }

    /// Whether bytes go one way and have no answer: how many there are is what counts.
    pub fn is_one_way(&self) -> bool {
        matches!(self, Self::Flood | Self::Sink)
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// After so long, the warm-up not included.
    For(Duration),
    /// After so many requests (or connections, if these are what is made at a rate).
    Requests(u64),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workload's name.
    pub workload: String,
    /// The target as the user wrote it.
    pub url: String,
    /// Where that is.
    pub target: Address,
    /// How requests travel.
    pub transport: Transport,
    /// What decides when the next request is sent.
    pub mode: Mode,
    /// Connections, or sockets for datagrams, of all lanes; with [`Mode::Connections`] the most at once.
    pub connections: u32,
    /// Connections that are asked for a second while they are opened, of all lanes together; none for as fast as they come.
    pub opening_rate: Option<f64>,
    /// Most requests in flight on each connection; of a flood, datagrams that are handed to the system at once, a burst at least.
    pub depth: u32,
    /// Requests on each connection in a closed loop, after which it is closed and another one opened; none for as many as it takes.
    pub requests_each: Option<u32>,
    /// Bytes of a request.
    pub size: usize,
    /// When it ends.
    pub extent: Extent,
    /// Before measuring begins.
    pub warm_up: Duration,
    /// How long an answer, or a connection, is waited for.
    pub timeout: Duration,
    /// Whether it is over where nothing can be had of the target at all; else each connection is tried, and what it came to is counted.
    pub gives_up: bool,
    /// Bytes of the kernel's buffers of each connection, to send from and to receive into (SO_SNDBUF, SO_RCVBUF); 0 leaves them to the kernel.
    pub buffers: (u32, u32),
    /// Lanes; more than connections are not used.
    pub lanes: usize,
    /// The CPUs of the lanes.
    pub cpus: Option<Vec<usize>>,
    /// What the lanes ask the operating system through.
    pub driver: DriverChoice,
    /// The interface by whose frames requests travel; none: by the kernel's sockets.
    pub packet: Option<PacketPort>,
    /// How long a lane looks for work before it sleeps. `Duration::MAX` for ever.
    pub spin: Duration,
    /// Addresses to connect from, in turn; none leaves it to the system.
    pub sources: Vec<IpAddr>,
    /// What random arrivals come from.
    pub seed: u64,
    /// Quantiles to report, in percent.
    pub quantiles: Vec<f64>,
    /// Datagrams in trains, as one send, where the kernel can.
    pub trains: bool,
    /// How its connections speak TLS; none for plain ones.
    pub secure: Option<Secure>,
    /// What only the workload understands.
    pub particulars: Particulars,
    /// Which lanes of the target the connections lead to; none leaves it to chance.
    pub aim: Option<Aim>,
    /// The ends from which they do: follows from `aim` when the plan is settled.
    pub aimed: Option<Arc<Aimed>>,
}

/// Connections from one source address to one target. The system has 28,232 ports for them by default, but connect(2) looks through those of even
/// number first: once these are taken, each connection costs a walk over all of them, milliseconds.
pub const CONNECTIONS_PER_SOURCE: u32 = 10_000;

/// Most connections of one run.
pub const CONNECTIONS_MAX: u32 = 1_000_000;

impl Plan {
    /// A closed loop of one connection with one 64-byte request in flight for 3 seconds.
    pub fn new(workload: &str, url: &str, target: impl Into<Address>) -> Self {
        let transport = if url.starts_with("udp:") || url.starts_with("unixgram:") { Transport::Udp } else { Transport::Tcp };
        Self {
            transport,
            workload: workload.to_owned(),
            url: url.to_owned(),
            target: target.into(),
            mode: Mode::Closed,
            connections: 1,
            opening_rate: None,
            depth: 1,
            requests_each: None,
            size: 64,
            extent: Extent::For(Duration::from_secs(3)),
            warm_up: Duration::ZERO,
            timeout: Duration::from_secs(5),
            gives_up: true,
            buffers: (0, 0),
            lanes: 1,
            cpus: None,
            driver: DriverChoice::Auto,
            packet: None,
            spin: Duration::ZERO,
            sources: Vec::new(),
            seed: 1,
            quantiles: vec![50.0, 90.0, 99.0, 99.9],
            trains: true,
            secure: None,
            particulars: Particulars::default(),
            aim: None,
            aimed: None,
        }
    }

    /// Requests, or connections, a second that are asked for.
    pub fn rate(&self) -> Option<f64> {
        match &self.mode {
            Mode::Closed | Mode::Flood | Mode::Sink => None,
            Mode::Open { arrivals: Arrivals::Recorded(times), .. }
            | Mode::Connections { arrivals: Arrivals::Recorded(times), .. } => {
                let length = *times.last()? as f64 / 1e9;
                Some(if length > 0.0 { times.len() as f64 / length } else { times.len() as f64 })
            }
            Mode::Open { arrivals: Arrivals::AsTheyCan, .. } | Mode::Connections { arrivals: Arrivals::AsTheyCan, .. } => None,
            Mode::Open { rate, .. } | Mode::Connections { rate, .. } => Some(*rate),
        }
    }

    /// Connections of lane `lane`: as even as can be.
    pub fn connections_of(&self, lane: usize) -> u32 {
        share(u64::from(self.connections), lane, self.lanes) as u32
    }

    /// The address that connection `number` of all comes from, when it is opened for the `attempt`th time, from 0.
    pub fn source_of(&self, number: u64, attempt: u64) -> Option<SocketAddr> {
        if let Some(aimed) = &self.aimed {
            return Some(aimed.end(number, attempt));
        }
        // Where connections follow one another fast, the ports of one address would soon all rest.
        let turn = if self.requests_each.is_some() { number + attempt * u64::from(self.connections) } else { number };
        let index = turn.checked_rem(self.sources.len() as u64)?;
        Some(SocketAddr::new(self.sources[index as usize], 0))
    }
}

/// Part `index` of `total` in `parts` whole parts that differ by at most one.
pub(crate) fn share(total: u64, index: usize, parts: usize) -> u64 {
    let (index, parts) = (index as u64, parts as u64);
    total / parts + u64::from(index < total % parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_differ_by_one_at_most_and_add_up() {
        for (total, parts) in [(10, 3), (2, 5), (0, 2), (7, 7)] {
            let shares: Vec<u64> = (0..parts).map(|index| share(total, index, parts)).collect();
            assert_eq!(shares.iter().sum::<u64>(), total);
            assert!(shares[0] - shares[parts - 1] <= 1);
        }
    }
}
