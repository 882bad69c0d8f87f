//! What a translation is told.

use corelane_rss::Transport;
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// External addresses at most.
pub const EXTERNALS_MAX: usize = 256;
/// Forwards at most.
pub const FORWARDS_MAX: usize = 1024;
/// Sessions of a lane at most: their numbers have 24 bits, so that an index entry has room for 7 bits of its hash.
pub const SESSIONS_MAX: usize = 1 << 24;
/// Seconds of the longest timeout.
pub const TIMEOUT_MAX: u32 = 8_000;

/// What is kept the same from one destination to the next (RFC 4787, section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// A port of an inside host keeps its external port for further destinations wherever their answers come to the same lane with it: with one lane, always.
    #[default]
    Independent,
    /// Each flow has an external port of its own.
    Dependent,
}

/// Seconds without a packet after which a session ends; 1 to [`TIMEOUT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// UDP. Default: 300 (RFC 4787, REQ-5).
    pub udp: u32,
    /// A connection that is established. Default: 7,440, that is 2 hours and 4 minutes (RFC 5382, REQ-5).
    pub established: u32,
    /// A connection that is opened or has been closed. Default: 240 (RFC 5382, REQ-5).
    pub transitory: u32,
    /// Echo requests and their replies. Default: 60 (RFC 5508, REQ-2).
    pub echo: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { udp: 300, established: 7_440, transitory: 240, echo: 60 }
    }
}

/// Ports of an external address that lead to an inside host, whoever sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// TCP or UDP.
    pub transport: Transport,
    /// One of the external addresses.
    pub external: Ipv4Addr,
    /// Its ports.
    pub ports: RangeInclusive<u16>,
    /// The inside host.
    pub inside: Ipv4Addr,
    /// The host's port for the first of `ports`; the others follow in order.
    pub inside_port: u16,
}

impl Forward {
    /// The ports of the inside host.
    pub(crate) fn inside_ports(&self) -> RangeInclusive<u16> {
        self.inside_port..=self.inside_port.saturating_add(self.ports.end().saturating_sub(*self.ports.start()))
    }
}

/// What a translation is told. Each lane of a program has the same, but for its number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The addresses that inside hosts appear with; at least one, [`EXTERNALS_MAX`] at most. A host keeps to one of them while that has ports (RFC 4787, REQ-2).
    pub externals: Vec<Ipv4Addr>,
    /// Ports and identifiers that are given to inside hosts, in equal parts by lanes. Default: 1024 to 65535. The gateway's own sockets must not use them.
    pub ports: RangeInclusive<u16>,
    /// The number of the lane, and how many there are.
    pub lane: (usize, usize),
    /// Which flows share an external port.
    pub mapping: Mapping,
    /// Sessions of the lane at most. Default: 131,072, for which up to 9 MiB are used.
    pub sessions: usize,
    /// Sessions of one inside address at most. Default: 2,048.
    pub sessions_each: usize,
    /// When sessions end.
    pub timeouts: Timeouts,
    /// Ports that lead inside, [`FORWARDS_MAX`] at most.
    pub forwards: Vec<Forward>,
}

impl Settings {
    /// The defaults with one external address, for the only lane.
    #[must_use]
    pub fn new(external: Ipv4Addr) -> Self {
        Self {
            externals: vec![external],
            ports: 1024..=65535,
            lane: (0, 1),
            mapping: Mapping::default(),
            sessions: 1 << 17,
            sessions_each: 1 << 11,
            timeouts: Timeouts::default(),
            forwards: Vec::new(),
        }
    }

    /// The same for the lane of that number among so many.
    #[must_use]
    pub fn for_lane(mut self, lane: usize, lanes: usize) -> Self {
        self.lane = (lane, lanes);
        self
    }

    /// Whether a translation can be made so.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), Error> {
        if self.externals.is_empty() || self.externals.len() > EXTERNALS_MAX {
            return Err(Error::Externals { got: self.externals.len() });
        }
        let is_twice = |place: usize| self.externals[..place].contains(&self.externals[place]);
        if let Some(place) = (0..self.externals.len()).find(|place| is_twice(*place)) {
            return Err(Error::Twice { external: self.externals[place] });
        }
        let (lane, lanes) = self.lane;
        if lane >= lanes || self.ports.clone().count() / 2 < lanes || *self.ports.start() == 0 {
            return Err(Error::Ports { ports: self.ports.clone(), lane, lanes });
        }
        if self.sessions == 0 || self.sessions > SESSIONS_MAX || self.sessions_each == 0 {
            return Err(Error::Sessions { got: self.sessions, each: self.sessions_each });
        }
        let Timeouts { udp, established, transitory, echo } = self.timeouts;
        match [udp, established, transitory, echo].into_iter().find(|seconds| !(1..=TIMEOUT_MAX).contains(seconds)) {
            Some(got) => Err(Error::Timeout { got }),
            None => self.check_forwards(&self.forwards),
        }
    }

    /// Whether these forwards can be.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check_forwards(&self, forwards: &[Forward]) -> Result<(), Error> {
        if forwards.len() > FORWARDS_MAX {
            return Err(Error::Forwards { got: forwards.len() });
        }
        let wrong = |forward: &&Forward| {
            let ports = usize::from(*forward.ports.end()).saturating_sub((*forward.ports.start()).into());
            let is_there = self.externals.contains(&forward.external) && !self.externals.contains(&forward.inside);
            let has_ports = !forward.ports.is_empty() && *forward.ports.start() > 0 && forward.inside_port > 0;
            !is_there || !has_ports || usize::from(forward.inside_port) + ports > usize::from(u16::MAX)
        };
        forwards.iter().find(wrong).map_or(Ok(()), |wrong| Err(Error::Forward { forward: Box::new(wrong.clone()) }))
    }
}

/// What is wrong with settings: their author is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No external address, or too many.
    Externals {
        /// How many.
        got: usize,
    },
    /// An external address is there twice.
    Twice {
        /// That address.
        external: Ipv4Addr,
    },
    /// Not every lane has two ports, or there is no such lane.
    Ports {
        /// The ports of all lanes.
        ports: RangeInclusive<u16>,
        /// The number of the lane.
        lane: usize,
        /// How many lanes there are.
        lanes: usize,
    },
    /// There are to be no sessions, or too many.
    Sessions {
        /// In all.
        got: usize,
        /// Of one address.
        each: usize,
    },
    /// A timeout that is too short or too long.
    Timeout {
        /// Its seconds.
        got: u32,
    },
    /// Too many forwards.
    Forwards {
        /// How many.
        got: usize,
    },
    /// A forward leads from no external address, to one, or over the last port.
    Forward {
        /// That forward.
        forward: Box<Forward>,
    },
    /// Two forwards have a port in common: outside, or at the inside host, whose answers could then be of either.
    Overlap {
        /// One of them.
        one: Box<Forward>,
        /// The other.
        other: Box<Forward>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Externals { got } => write!(f, "{got} external addresses: there may be 1 to {EXTERNALS_MAX}"),
            Self::Twice { external } => write!(f, "the external address {external} is there twice: leave one out"),
            Self::Ports { ports, lane, lanes } => {
                let (first, last) = (ports.start(), ports.end());
                write!(
                    f,
                    "ports {first} to {last} for lane {lane} of {lanes}: each lane needs two, from 1 on; lanes count from 0"
                )
            }
            Self::Sessions { got, each } => {
                write!(
                    f,
                    "{got} sessions, {each} of one address: there may be 1 to {SESSIONS_MAX}, and of one address 1 at least"
                )
            }
            Self::Timeout { got } => write!(f, "a timeout of {got} seconds: it may be 1 to {TIMEOUT_MAX}"),
            Self::Forwards { got } => write!(f, "{got} forwards: there may be {FORWARDS_MAX}; one may have a range of ports"),
            Self::Forward { forward } => {
                write!(f, "{forward}: it leads from an external address to another, and from ports to as many ports up to 65535")
            }
            Self::Overlap { one, other } => {
                write!(f, "{one} and {other} have a port in common: whose answers are whose could not be told")
            }
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, external, ports, inside, inside_port } = self;
        let protocol = corelane_rss::Protocol::from(*transport);
        write!(f, "{protocol} {external}:{}-{} to {inside}:{inside_port}", ports.start(), ports.end())
    }
}
