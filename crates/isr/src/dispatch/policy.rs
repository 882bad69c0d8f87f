//! Where and when.

use std::fmt;
use std::str::FromStr;

/// Packets that a protocol's queue holds, unless it says otherwise.
pub const LIMIT_DEFAULT: usize = 256;

/// Packets that a protocol's queue holds at most.
pub const LIMIT_MAX: usize = 10_240;

/// When a packet's handler runs. Written as the variant in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// Later, on the lane that is chosen for the packet.
    Deferred,
    /// At once, if this lane is the one that is chosen and nothing is queued or running on it; else later.
    Hybrid,
    /// At once and on this lane, whichever would be chosen.
    Direct,
}

impl fmt::Display for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deferred => "deferred",
            Self::Hybrid => "hybrid",
            Self::Direct => "direct",
        })
    }
}

impl FromStr for Dispatch {
    type Err = NoDispatch;

    fn from_str(text: &str) -> Result<Self, NoDispatch> {
        [Self::Deferred, Self::Hybrid, Self::Direct].into_iter().find(|dispatch| dispatch.to_string() == text).ok_or(NoDispatch)
    }
}

/// A word that is no policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDispatch;

impl fmt::Display for NoDispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy of dispatch is direct, hybrid or deferred")
    }
}

impl std::error::Error for NoDispatch {}

/// How a lane is chosen. Written as `source`, `flow` and `cpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// By where the packet came from.
    Source,
    /// By its flow id, which the protocol is asked for if nobody has computed it; by source without one.
    Flow,
    /// The protocol says. Where it has no opinion: this lane under hybrid dispatch, else by source.
    Lane,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Flow => "flow",
            Self::Lane => "cpu",
        })
    }
}
