//! What connections are told by others, by timers and by tickets, after the call that is under way.

use crate::table::LaneTable;
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

impl LaneTable {
    /// Has a connection told something after the call that is under way.
    pub(crate) fn note(&mut self, note: Note) {
        self.notices.push_back(note);
    }

    /// How much is to be told.
    pub(crate) fn notes(&self) -> usize {
        self.notices.len()
    }

    /// What is to be told next.
    pub(crate) fn next_note(&mut self) -> Note {
        // reason: who takes them counts them before, and nobody else does.
        self.notices.pop_front().expect("as many notices wait as were counted")
    }

    /// Whether something is to be told to a connection.
    pub(crate) fn is_noted(&self, id: ConnectionId) -> bool {
        self.notices.iter().any(|note| note.to == id)
    }

    /// Nothing of it is told any more.
    pub(crate) fn forget_notes(&mut self) {
        self.notices.clear();
    }
}
