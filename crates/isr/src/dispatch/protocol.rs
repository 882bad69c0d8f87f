//! Protocols, as they are registered.

use super::policy::{Dispatch, LIMIT_DEFAULT, LIMIT_MAX, Placement};
use std::fmt;

/// The number of a protocol, 1 to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Number(u8);

impl Number {
    /// How many there are.
    pub const COUNT: usize = 16;
    /// IPv4.
    pub const IP: Self = Self(1);
    /// Group management.
    pub const IGMP: Self = Self(2);
    /// ARP.
    pub const ARP: Self = Self(4);
    /// Ethernet.
    pub const ETHER: Self = Self(5);
    /// IPv6.
    pub const IP6: Self = Self(6);
    /// IPv4 that was reassembled or taken out of a tunnel: its header is checked already.
    pub const IP_DIRECT: Self = Self(9);
    /// IPv6 likewise.
    pub const IP6_DIRECT: Self = Self(10);

    /// That number.
    ///
    /// # Errors
    /// [`Refused::Number`] for 0 and above 16.
    pub const fn new(number: u8) -> Result<Self, Refused> {
        if number == 0 || number as usize > Self::COUNT { Err(Refused::Number { got: number }) } else { Ok(Self(number)) }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize - 1
    }
}

/// Why a change was refused. Who asked for it is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// No protocol has that number.
    Number {
        /// What was given.
        got: u8,
    },
    /// Another protocol is registered by that number.
    Taken(Number),
    /// None is.
    Unknown(Number),
    /// A queue may not be so long.
    Limit {
        /// What was given.
        got: usize,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { got } => write!(f, "a protocol's number is 1 to {}, not {got}", Number::COUNT),
            Self::Taken(number) => write!(f, "protocol {} is registered already; take it out first", number.0),
            Self::Unknown(number) => write!(f, "protocol {} is not registered; register it first", number.0),
            Self::Limit { got } => write!(f, "a queue holds {LIMIT_MAX} packets at most, not {got}"),
        }
    }
}

impl std::error::Error for Refused {}

/// Asks a protocol about a packet.
pub type Ask<P, T> = Box<dyn Fn(&P) -> Option<T>>;

/// A protocol, as it is registered.
pub struct Registration<P> {
    /// Its name.
    pub name: &'static str,
    /// Its number.
    pub number: Number,
    /// Packets that its queue holds, or each of its queues; [`LIMIT_MAX`] at most.
    pub limit: usize,
    /// How a lane is chosen.
    pub placement: Placement,
    /// When its handler runs; none where the policy of all holds.
    pub dispatch: Option<Dispatch>,
    /// Computes the flow id of a packet without one.
    pub flow: Option<Ask<P, u32>>,
    /// Chooses the lane, taken modulo their number; for [`Placement::Lane`]. What it says of a flow may change only where
    /// [`Isr::begin_generation`](super::Isr::begin_generation) or [`Isr::begin_generation_of`](super::Isr::begin_generation_of) is called right after.
    pub choose: Option<Ask<P, usize>>,
    /// Tells a packet's bucket, taken modulo [`BUCKETS_MAX`](super::BUCKETS_MAX); 0 where it has none. Then each bucket has a queue of its
    /// own on a lane, which another's flood does not fill. Without it, all packets of a lane share one. The bucket of a flow never changes.
    pub bucket: Option<Ask<P, usize>>,
    /// Whether something is done when what was queued of it has been run ([`PacketStep::Drained`](super::PacketStep::Drained)): the flag D of the report.
    /// Who carries steps out does it.
    pub has_hook: bool,
}

impl<P> Registration<P> {
    /// A protocol by source, with the policy of all and a queue of [`LIMIT_DEFAULT`].
    #[must_use]
    pub const fn new(name: &'static str, number: Number) -> Self {
        let (limit, placement) = (LIMIT_DEFAULT, Placement::Source);
        Self { name, number, limit, placement, dispatch: None, flow: None, choose: None, bucket: None, has_hook: false }
    }
}
