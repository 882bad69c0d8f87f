//! What connections of a lane are to be told: noted in a call, told behind it, in order.

use crate::table::LaneTable;
use crate::table::notices::Note;
use crate::words::names::ConnectionId;

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
