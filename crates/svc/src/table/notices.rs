//! What connections are told by others, by timers and by tickets, after the call that is under way.

use crate::words::names::ConnectionId;
use crate::words::ticket::Name;
use corelane_seam::Chain;

/// Something to be told to a connection after the call that is under way.
pub(crate) struct Note {
    pub(crate) to: ConnectionId,
    /// The service that says it.
    pub(crate) from: u16,
    pub(crate) notice: Notice,
}

/// What it is.
pub(crate) enum Notice {
    /// What it is lies in the post of the service that says it.
    Message,
    /// There is room again for what the service was refused.
    Resume,
    Answer {
        ticket: Name,
        answer: Chain,
    },
    Timer(u64),
    Finish,
    Close,
    Abort,
}
