//! Why a connection stays on its lane.

use corelane_seam::{Fault, Reason};
use std::fmt;

/// Why a connection cannot go to another lane now. It stays as it is, and is served on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stays {
    /// This side opened it, from a port that was chosen for this lane.
    Outgoing,
    /// It has no session yet: the handshake of its transform is not over.
    Handshake,
    /// It ends, or one of its sides has finished.
    Ending,
    /// The lane drains.
    Draining,
    /// It is one of a pair, and the other is of this lane.
    Paired,
    /// Its service has started timers for it.
    Timers,
    /// It waits for memory, or for a place with the helper threads.
    Waiting,
    /// Something is under way: a request, an answer, a notice, or memory that it holds.
    Busy,
    /// Its service does not pack its session ([`StreamService::pack`](crate::StreamService::pack)).
    Service,
    /// Its transform cannot be packed ([`Transform::pack`](crate::Transform::pack)).
    Transform,
    /// The system does not let it go: `Busy` if as many are on their way as may be, `Unsupported` where connections cannot leave.
    System(Fault),
}

impl Stays {
    /// Whether no other connection can go now either: as many are on their way as may be.
    #[must_use]
    pub const fn is_for_all(self) -> bool {
        matches!(self, Self::System(Fault { reason: Reason::Busy, .. }))
    }
}

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outgoing => "this side opened it, and its answers belong to this lane",
            Self::Handshake => "its handshake is not over",
            Self::Ending => "it ends",
            Self::Draining => "its lane drains",
            Self::Paired => "it is one of a pair",
            Self::Timers => "its service has timers for it",
            Self::Waiting => "it waits for memory or a helper",
            Self::Busy => "it is busy",
            Self::Service => "its service does not pack its session",
            Self::Transform => "its transform cannot be packed",
            Self::System(fault) => return write!(f, "the system keeps it: {fault}"),
        })
    }
}
