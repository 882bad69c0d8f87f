//! Parts of files in an output that are to be read before they leave.

use crate::output::Output;
use corelane_seam::{Chain, Fault, FilePart, Lease, Segment};

/// How far the next piece of a connection's file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// Nobody has asked for one, or it is there.
    #[default]
    Idle,
    UnderWay,
    /// There is none.
    Failed(Fault),
}

impl Output {
    /// The part of a file that is to leave next.
    pub(crate) fn file_at_front(&self) -> Option<&FilePart> {
        match self.chain.front() {
            Some(Segment::File(part)) if self.has_files => Some(part),
            _ => None,
        }
    }

    /// Splits off what lies behind the bytes in memory that are to leave first.
    pub(crate) fn split_at_file(&mut self) -> Chain {
        let ahead = self.chain.segments().map_while(Segment::bytes).map(<[u8]>::len).sum();
        let mut first = Chain::new();
        self.chain.move_to(ahead, &mut first);
        self.has_files = !(self.chain.is_empty() && self.has_no_holes());
        std::mem::replace(&mut self.chain, first)
    }

    /// Puts a piece of the file in front in its place.
    pub(crate) fn take_piece(&mut self, piece: Lease) {
        let is_due = self.file_at_front().is_some_and(|part| part.length >= piece.len() as u64);
        assert!(is_due, "what was read is the beginning of the part that is to leave next");
        self.chain.skip(piece.len());
        self.chain.push_front(piece.share());
    }
}
