//! Push on simulated lanes: each run is made from one seed.

mod datagrams;
mod files;
mod hostile;
mod streams;

use corelane::testing::{Peer, Play, RigPlan, Turn, World};
use corelane_wire::pattern;

/// One end of a stream, and how much of it has come.
pub struct Reader {
    pub peer: Peer,
    pub heard: u64,
}

impl Reader {
    pub fn new(peer: Peer) -> Self {
        Self { peer, heard: 0 }
    }

    /// Reads so many bytes at the most, each of which must be the one of its place; returns how many.
    pub fn read(&mut self, most: usize) -> usize {
        let bytes = self.peer.read(most);
        assert!(pattern::matches(self.heard, &bytes), "{} bytes from {} on are others", bytes.len(), self.heard);
        self.heard += bytes.len() as u64;
        bytes.len()
    }
}

/// One lane with 4 MiB.
pub fn small() -> RigPlan {
    RigPlan::lanes(1).memory(4 << 20)
}

/// Clients that read all that comes, as it comes.
pub struct Readers(pub Vec<Reader>);

impl Play for Readers {
    fn news(&mut self, _: &World, turn: Turn) {
        let Turn::Peer(peer) = turn else { return };
        if let Some(reader) = self.0.iter_mut().find(|reader| reader.peer.id() == peer.id()) {
            while reader.read(1 << 20) > 0 {}
        }
    }
}

impl Readers {
    /// Reads so many bytes at each at the most; returns how many that were.
    pub fn read(&mut self, most: usize) -> usize {
        self.0.iter_mut().map(|reader| reader.read(most)).sum()
    }
}
