//! What connections are told by others, by timers and by tickets, after the call that is under way.

use crate::names::ConnectionId;
use crate::ticket::Name;
use corelane_seam::Chain;
use std::any::Any;

/// Something to be told to a connection after the call that is under way.
pub(crate) struct Note {
    pub(crate) to: ConnectionId,
    /// The service that says it.
    pub(crate) from: u16,
    pub(crate) notice: Notice,
}

/// What it is.
pub(crate) enum Notice {
    Message(Box<dyn Any>),
    Answer { ticket: Name, answer: Chain },
    Timer(u64),
    Close,
    Abort,
}
