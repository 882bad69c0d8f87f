//! The fragments of a datagram, in order and without overlaps.

use super::counts::Reason;
use super::fragment::Fragment;
use super::memory::Memory;
use super::{Reassembly, Waiting};

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

impl<M: Memory> Reassembly<M> {
    /// Takes all pieces of a datagram that has been removed.
    pub(super) fn take_pieces(&mut self, waiting: &Waiting) -> impl Iterator<Item = Piece<M>> {
        self.table.take_pieces(waiting.source, waiting.pieces);
        let mut at = waiting.first;
        std::iter::from_fn(move || {
            let piece = self.remove_piece(at?);
            at = piece.next;
            Some(piece)
        })
    }

    fn remove_piece(&mut self, index: u32) -> Piece<M> {
        let piece = self.pieces.remove_at(index);
        assert!(self.held >= piece.memory.held(), "what is in use was counted");
        self.held -= piece.memory.held();
        piece
    }

    /// Puts a fragment, which does not clash, where it belongs.
    pub(super) fn insert(&mut self, index: u32, Gap { before, after }: Gap, mut fragment: Fragment<M>) {
        let had = before.map_or(0, |before| self.pieces.at(before).end);
        let cut = had.saturating_sub(fragment.start);
        self.counts.cut += u64::from(cut > 0);
        fragment.start += cut;
        let head = if fragment.start == 0 { fragment.head } else { 0 };
        fragment.memory.skip(fragment.head - head + cut);
        assert_eq!(fragment.memory.bytes().len(), head + fragment.end - fragment.start, "a piece is its headers and its data");
        let next = self.cut_following(index, after, fragment.end);
        self.held += fragment.memory.held();
        let Fragment { start, end, memory, .. } = fragment;
        let piece = self.pieces.insert(Piece { start, end, head, memory, next }).index;
        match before {
            Some(before) => self.pieces.at_mut(before).next = Some(piece),
            None => self.table.at_mut(index).first = Some(piece),
        }
        let waiting = self.table.at_mut(index);
        waiting.pieces += 1;
        waiting.covered += end - start;
        waiting.reaches = waiting.reaches.max(end);
        assert!(waiting.covered <= waiting.reaches, "no byte of a datagram is held twice");
        let source = waiting.source;
        self.table.add_piece(source);
    }

    /// Where a fragment that begins at `start` belongs, and how many pieces were walked past.
    pub(super) fn place(&self, index: u32, start: usize) -> (Gap, u64) {
        let (mut place, mut looked) = (Gap { before: None, after: self.table.at(index).first }, 0);
        while let Some(at) = place.after.filter(|&at| self.pieces.at(at).start <= start) {
            place = Gap { before: Some(at), after: self.pieces.at(at).next };
            looked += 1;
        }
        (place, looked)
    }

    /// Why a fragment cannot be put between two pieces.
    pub(super) fn clash(&self, place: Gap, fragment: &Fragment<M>) -> Option<Reason> {
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

    /// Cuts what follows so that it begins at `end`; returns the first that is left.
    fn cut_following(&mut self, index: u32, mut after: Option<u32>, end: usize) -> Option<u32> {
        while let Some(at) = after.filter(|&at| self.pieces.at(at).start < end) {
            let piece = self.pieces.at_mut(at);
            assert_eq!(piece.head, 0, "what follows another is not the first");
            if piece.end > end {
                let cut = end - piece.start;
                piece.memory.skip(cut);
                piece.start = end;
                self.table.at_mut(index).covered -= cut;
                self.counts.cut += 1;
                break;
            }
            let piece = self.remove_piece(at);
            after = piece.next;
            let waiting = self.table.at_mut(index);
            waiting.pieces -= 1;
            waiting.covered -= piece.end - piece.start;
            let source = waiting.source;
            self.table.take_pieces(source, 1);
            self.counts.covered += 1;
            self.counts.dropped += 1;
        }
        after
    }
}
