//! A large file that is open, for all states of it that are sent.

use corelane::Instant;
use corelane::service::{ConnectionId, File, PeerKey, Shares};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// One of so many.
pub(super) struct OpenFile {
    pub file: File,
    /// Who had it opened; none where nobody knows.
    pub peer: Option<PeerKey>,
    /// Those that it is sent to, and when they were handed a part of it last.
    readers: RefCell<BTreeMap<ConnectionId, Instant>>,
    /// How many there are, and whose.
    all: Rc<RefCell<Shares>>,
}

impl OpenFile {
    /// One more.
    pub fn new(file: File, peer: Option<PeerKey>, all: &Rc<RefCell<Shares>>) -> Self {
        all.borrow_mut().take(peer);
        Self { file, peer, readers: RefCell::default(), all: all.clone() }
    }

    /// A connection is handed a part of it.
    pub fn note_reader(&self, reader: ConnectionId, now: Instant) {
        self.readers.borrow_mut().insert(reader, now);
    }

    /// It is sent no more.
    pub fn forget_reader(&self, reader: ConnectionId) {
        self.readers.borrow_mut().remove(&reader);
    }

    /// When any of those that it is sent to was handed a part last; none if it is sent to nobody.
    pub fn moved_at(&self) -> Option<Instant> {
        self.readers.borrow().values().max().copied()
    }

    /// Those that it is sent to.
    pub fn readers(&self) -> Vec<ConnectionId> {
        self.readers.borrow().keys().copied().collect()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.all.borrow_mut().give_back(self.peer);
    }
}
