//! The fragments of datagrams: of each in order and without overlaps.

use super::counts::Reason;
use super::fragment::Fragment;
use super::memory::Memory;
use super::waiting::Waiting;
use corelane_seam::slab::Slab;

/// What a fragment has come to.
#[derive(Debug)]
pub(super) struct Piece<M> {
    /// Where its data begin and end in the datagram's.
    pub start: usize,
    pub end: usize,
    /// Bytes in front of its data: the headers, of the first fragment alone.
    pub head: usize,
    pub memory: M,
    next: Option<u32>,
}

/// A place between two pieces: the last that begins where a fragment begins or before it, and the one behind that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    before: Option<u32>,
    after: Option<u32>,
}

/// What became of others, or of itself, when a fragment was put between pieces that it overlaps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cuts {
    /// Fragments of which a part went.
    pub cut: u64,
    /// Fragments that went as a whole.
    pub covered: usize,
}

/// The pieces of all datagrams that wait.
pub(super) struct Pieces<M> {
    pieces: Slab<Piece<M>>,
    /// Bytes of memory in use by all of them.
    held: usize,
}

impl<M: Memory> Pieces<M> {
    pub fn new() -> Self {
        Self { pieces: Slab::new(), held: 0 }
    }

    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes of memory in use by all of them.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether the first piece of a datagram is there.
    pub fn has_first(&self, waiting: &Waiting) -> bool {
        waiting.first.is_some_and(|first| self.pieces.at(first).start == 0)
    }

    /// Gives all pieces of a datagram away, which is not to be asked for them again.
    pub fn take(&mut self, waiting: &Waiting) -> impl Iterator<Item = Piece<M>> {
        let mut at = waiting.first;
        std::iter::from_fn(move || {
            let piece = self.remove(at?);
            at = piece.next;
            Some(piece)
        })
    }

    fn remove(&mut self, index: u32) -> Piece<M> {
        let piece = self.pieces.remove_at(index);
        assert!(self.held >= piece.memory.held(), "what is in use was counted");
        self.held -= piece.memory.held();
        piece
    }

    /// Puts a fragment, which does not clash, into its gap; returns what that cut of others.
    pub fn insert(&mut self, waiting: &mut Waiting, Gap { before, after }: Gap, mut fragment: Fragment<M>) -> Cuts {
        assert!(fragment.start < fragment.end && !waiting.is_spoilt, "a piece has data, for a datagram that waits");
        let had = before.map_or(0, |before| self.pieces.at(before).end);
        let cut = had.saturating_sub(fragment.start);
        fragment.start += cut;
        assert!(fragment.start < fragment.end, "what others cover as a whole clashes");
        let head = if fragment.start == 0 { fragment.head } else { 0 };
        fragment.memory.skip(fragment.head - head + cut);
        assert_eq!(fragment.memory.bytes().len(), head + fragment.end - fragment.start, "a piece is its headers and its data");
        let (next, mut cuts) = self.cut_following(waiting, after, fragment.end);
        cuts.cut += u64::from(cut > 0);
        self.held += fragment.memory.held();
        let Fragment { start, end, memory, .. } = fragment;
        let piece = self.pieces.insert(Piece { start, end, head, memory, next }).index;
        match before {
            Some(before) => self.pieces.at_mut(before).next = Some(piece),
            None => waiting.first = Some(piece),
        }
        waiting.pieces += 1;
        waiting.covered += end - start;
        waiting.reaches = waiting.reaches.max(end);
        assert!(waiting.covered <= waiting.reaches, "no byte of a datagram is held twice");
        cuts
    }

    /// Where a fragment that begins at `start` belongs, and how many pieces were walked past.
    pub fn place(&self, waiting: &Waiting, start: usize) -> (Gap, u64) {
        let (mut place, mut looked) = (Gap { before: None, after: waiting.first }, 0);
        while let Some(at) = place.after.filter(|&at| self.pieces.at(at).start <= start) {
            place = Gap { before: Some(at), after: self.pieces.at(at).next };
            looked += 1;
        }
        (place, looked)
    }

    /// Why a fragment cannot be put between two pieces.
    pub fn clash(&self, place: Gap, fragment: &Fragment<M>) -> Option<Reason> {
        let before = place.before.map(|before| self.pieces.at(before)).filter(|piece| piece.end > fragment.start);
        let reaches_after = place.after.is_some_and(|after| self.pieces.at(after).start < fragment.end);
        let is_same = before.is_some_and(|piece| {
            let data = &piece.memory.bytes()[piece.head..];
            piece.start == fragment.start && data == &fragment.memory.bytes()[fragment.head..]
        });
        let is_overlap = match fragment.key.is_v6() {
            true => before.is_some() || reaches_after,
            false => before.is_some_and(|piece| piece.end >= fragment.end),
        };
        match (is_same, is_overlap) {
            (true, _) => Some(Reason::Duplicate),
            (false, true) => Some(Reason::Overlap),
            (false, false) => None,
        }
    }

    /// Cuts what follows so that it begins at `end`; returns the first that is left, and what was cut.
    fn cut_following(&mut self, waiting: &mut Waiting, mut after: Option<u32>, end: usize) -> (Option<u32>, Cuts) {
        let mut cuts = Cuts::default();
        while let Some(at) = after.filter(|&at| self.pieces.at(at).start < end) {
            let piece = self.pieces.at_mut(at);
            assert_eq!(piece.head, 0, "what follows another is not the first");
            if piece.end > end {
                let cut = end - piece.start;
                piece.memory.skip(cut);
                piece.start = end;
                waiting.covered -= cut;
                cuts.cut += 1;
                break;
            }
            let piece = self.remove(at);
            after = piece.next;
            waiting.pieces -= 1;
            waiting.covered -= piece.end - piece.start;
            cuts.covered += 1;
        }
        (after, cuts)
    }
}
