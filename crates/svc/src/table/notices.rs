//! Notices to connections of a lane, by others, by timers and by tickets: noted in a call, told behind it, in order.

use crate::words::names::ConnectionId;
use crate::words::ticket::Name;
use corelane_seam::Chain;
use std::collections::VecDeque;

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

/// Notices that wait to be told.
#[derive(Default)]
pub(crate) struct Notices(VecDeque<Note>);

impl Notices {
    /// Has a connection told something after the call that is under way.
    pub(crate) fn add(&mut self, note: Note) {
        self.0.push_back(note);
    }

    /// How much is to be told.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The notice that is to be told next.
    pub(crate) fn take_next(&mut self) -> Note {
        // reason: who takes them counts them before, and nobody else does.
        self.0.pop_front().expect("as many notices wait as were counted")
    }

    /// Whether something is to be told to a connection.
    pub(crate) fn are_for(&self, id: ConnectionId) -> bool {
        self.0.iter().any(|note| note.to == id)
    }

    /// Nothing of it is told any more.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
