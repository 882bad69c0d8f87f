//! What a run is to do: checked once, then shared by all lanes.

use crate::aim::{Aim, Aimed};
use crate::arrivals::Arrivals;
use crate::error::Error;
use crate::kinds::Kind;
use crate::workloads::{self, Particulars};
use corelane::Address;
use corelane::lanes::{DriverChoice, Transport};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

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
}

impl Mode {
    /// Whether requests, or connections, have times of their own.
    pub fn has_times(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Connections { .. })
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
    /// Most requests in flight on each connection.
    pub depth: u32,
    /// Bytes of a request.
    pub size: usize,
    /// When it ends.
    pub extent: Extent,
    /// Before measuring begins.
    pub warm_up: Duration,
    /// How long an answer, or a connection, is waited for.
    pub timeout: Duration,
    /// Lanes; more than connections are not used.
    pub lanes: usize,
    /// The CPUs of the lanes.
    pub cpus: Option<Vec<usize>>,
    /// What the lanes ask the operating system through.
    pub driver: DriverChoice,
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

/// How long a port is not used again after its connection (TIME_WAIT of Linux, tcp(7)), in seconds, and the most sources for that.
const PORT_RESTS_S: f64 = 60.0;
const RESTING_SOURCES_MAX: f64 = 200.0;

/// Most connections of one run.
pub const CONNECTIONS_MAX: u32 = 1_000_000;

/// Longest run.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

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
            depth: 1,
            size: 64,
            extent: Extent::For(Duration::from_secs(3)),
            warm_up: Duration::ZERO,
            timeout: Duration::from_secs(5),
            lanes: 1,
            cpus: None,
            driver: DriverChoice::Auto,
            spin: Duration::ZERO,
            sources: Vec::new(),
            seed: 1,
            quantiles: vec![50.0, 90.0, 99.0, 99.9],
            trains: true,
            particulars: Particulars::default(),
            aim: None,
            aimed: None,
        }
    }

    /// Checks the whole, and settles what follows from the rest: no more lanes than connections, and source addresses where one
    /// has too few ports.
    ///
    /// # Errors
    /// [`Error::Setting`] with the setting that cannot be met.
    pub fn settled(mut self) -> Result<Self, Error> {
        let wrong = |name, why: String| Err(Error::Setting { name, why });
        if self.connections == 0 || self.connections > CONNECTIONS_MAX {
            return wrong("connections", format!("{} is not between 1 and {CONNECTIONS_MAX}", self.connections));
        }
        if self.depth == 0 || self.depth > DEPTH_MAX {
            return wrong("depth", format!("{} is not between 1 and {DEPTH_MAX}", self.depth));
        }
        if let Some(rate) = self.rate().filter(|rate| !(*rate >= RATE_MIN && *rate <= RATE_MAX)) {
            return wrong("rate", format!("{rate:?} a second is not between {RATE_MIN} and {RATE_MAX}"));
        }
        if self.timeout.is_zero() || self.timeout > LONGEST {
            return wrong("timeout", format!("{:?} is not between a nanosecond and {LONGEST:?}", self.timeout));
        }
        if self.warm_up > LONGEST || matches!(self.extent, Extent::For(length) if length.is_zero() || length > LONGEST) {
            return wrong(
                "duration",
                format!("it and the warm-up must be at most {LONGEST:?}, and the duration more than nothing"),
            );
        }
        if self.extent == Extent::Requests(0) {
            return wrong("requests", "there is nothing to do: ask for at least one".to_owned());
        }
        if self.mode == Mode::Flood && self.transport != Transport::Udp {
            return wrong("mode", "a flood is for datagrams: connections push back".to_owned());
        }
        if self.target.unix().is_some() && !self.sources.is_empty() {
            return wrong("source", format!("{} has no network that an address could be of: leave it out", self.url));
        }
        if self.target.inet().is_some_and(|target| target.port() == 0) {
            return wrong("URL", format!("{} names no port", self.url));
        }
        if let Some(source) = self.sources.iter().find(|source| source.is_ipv4() != self.target.is_ipv4()) {
            return wrong("source", format!("{source} cannot reach {}: it is of the other IP version", self.target));
        }
        self.lanes = self.lanes.clamp(1, self.connections as usize);
        self.add_loopback_sources();
        self.aimed = self.aim.as_ref().map(|aim| Aimed::new(aim, &self)).transpose()?.map(Arc::new);
        Ok(self)
    }

    /// On loopback every address of 127.0.0.0/8 is this machine's (RFC 1122 section 3.2.1.3), so more ports are to be had.
    fn add_loopback_sources(&mut self) {
        let resting = match &self.mode {
            Mode::Connections { .. } => self.rate().unwrap_or(0.0) * PORT_RESTS_S / f64::from(CONNECTIONS_PER_SOURCE),
            _ => 0.0,
        };
        let wanted = self.connections.div_ceil(CONNECTIONS_PER_SOURCE).max(resting.min(RESTING_SOURCES_MAX).ceil() as u32);
        let is_loopback = matches!(self.target.ip(), Some(IpAddr::V4(address)) if address.is_loopback());
        if self.sources.is_empty() && is_loopback && wanted > 1 {
            let first = u32::from(Ipv4Addr::LOCALHOST);
            self.sources = (0..wanted).map(|number| Ipv4Addr::from(first + number).into()).collect();
        }
    }

    /// Requests, or connections, a second that are asked for.
    pub fn rate(&self) -> Option<f64> {
        match &self.mode {
            Mode::Closed | Mode::Flood => None,
            Mode::Open { arrivals: Arrivals::Recorded(times), .. }
            | Mode::Connections { arrivals: Arrivals::Recorded(times), .. } => {
                let length = *times.last()? as f64 / 1e9;
                Some(if length > 0.0 { times.len() as f64 / length } else { times.len() as f64 })
            }
            Mode::Open { rate, .. } | Mode::Connections { rate, .. } => Some(*rate),
        }
    }

    /// The kinds of errors that only its workload has.
    pub fn kinds(&self) -> &'static [Kind] {
        workloads::find(&self.workload).map_or(&[], |entry| entry.kinds)
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
        let index = number.checked_rem(self.sources.len() as u64)?;
        Some(SocketAddr::new(self.sources[index as usize], 0))
    }
}

const DEPTH_MAX: u32 = 65_536;
const RATE_MIN: f64 = 0.001;
const RATE_MAX: f64 = 1e9;

/// Part `index` of `total` in `parts` whole parts that differ by at most one.
pub(crate) fn share(total: u64, index: usize, parts: usize) -> u64 {
    let (index, parts) = (index as u64, parts as u64);
    total / parts + u64::from(index < total % parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::new("echo", "tcp://127.0.0.1:7", "127.0.0.1:7".parse::<corelane::Address>().unwrap())
    }

    #[test]
    fn shares_differ_by_one_at_most_and_add_up() {
        for (total, parts) in [(10, 3), (2, 5), (0, 2), (7, 7)] {
            let shares: Vec<u64> = (0..parts).map(|index| share(total, index, parts)).collect();
            assert_eq!(shares.iter().sum::<u64>(), total);
            assert!(shares[0] - shares[parts - 1] <= 1);
        }
    }

    #[test]
    fn many_connections_on_loopback_come_from_several_addresses() {
        let settled = Plan { connections: 70_000, ..plan() }.settled().unwrap();
        assert_eq!(settled.sources.len(), 7);
        assert_eq!(settled.source_of(8, 3).unwrap().to_string(), "127.0.0.2:0");
        assert_eq!(plan().settled().unwrap().source_of(5, 0), None);
    }

    #[test]
    fn impossible_settings_are_named() {
        let open = |rate| Mode::Open { rate, arrivals: Arrivals::Fixed };
        for (plan, name) in [
            (Plan { connections: 0, ..plan() }, "connections"),
            (Plan { depth: 0, ..plan() }, "depth"),
            (Plan { mode: open(0.0), ..plan() }, "rate"),
            (Plan { mode: open(f64::NAN), ..plan() }, "rate"),
            (Plan { extent: Extent::Requests(0), ..plan() }, "requests"),
            (Plan { extent: Extent::For(Duration::ZERO), ..plan() }, "duration"),
            (Plan { timeout: Duration::ZERO, ..plan() }, "timeout"),
            (Plan { target: "127.0.0.1:0".parse().unwrap(), ..plan() }, "URL"),
            (Plan { sources: vec!["::1".parse().unwrap()], ..plan() }, "source"),
            (Plan { mode: Mode::Flood, ..plan() }, "datagrams"),
        ] {
            let error = plan.settled().unwrap_err().to_string();
            assert!(error.contains(name), "{name}: {error}");
        }
        assert_eq!(Plan { lanes: 8, connections: 3, ..plan() }.settled().unwrap().lanes, 3);
    }
}
