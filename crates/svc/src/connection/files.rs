//! Parts of files in an output that are to be read before they leave.

use crate::connection::output::Output;
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
    /// Notes a part of a file that was written.
    pub(crate) fn note_file(&mut self, segment: &Segment) {
        if let Segment::File(part) = segment {
            self.has_files = true;
            self.has_far_files |= part.file.is_far();
        }
    }

    /// Whether parts of files are read before they leave through a transform that passes others as they are, or does not.
    pub(crate) fn are_read(&self, passes_files: bool) -> bool {
        !passes_files || self.has_far_files
    }

    /// The part of a file that is to leave next, and is far.
    pub(crate) fn far_at_front(&self) -> Option<&FilePart> {
        match self.chain.front() {
            Some(Segment::File(part)) if self.has_far_files && part.file.is_far() => Some(part),
            _ => None,
        }
    }

    /// Moves what lies ahead of the first part of a far file, or all, to the end of `to`.
    pub(crate) fn move_near(&mut self, to: &mut Chain) {
        let is_near = |segment: &&Segment| !matches!(segment, Segment::File(part) if part.file.is_far());
        let ahead = self.chain.segments().take_while(is_near).map(Segment::len).sum();
        self.chain.move_to(ahead, to);
        self.has_far_files = !(self.chain.is_empty() && self.has_no_holes());
    }

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
