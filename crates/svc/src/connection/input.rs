//! What has arrived on a connection and was not yet taken.

use corelane_seam::{Arena, Chain, Lease, Segment, Shared};
use std::ops::Range;

/// Whether more bytes will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputEnd {
    Open,
    /// The peer has finished.
    Ended,
    /// It has ended without the peer saying so.
    Cut,
}

/// The bytes that have arrived, as a chain of leases. Taking them moves the leases; only
/// [`Input::contiguous`] copies, and only what it must join.
pub struct Input {
    pub(super) chain: Chain,
    pub(super) filled: Option<Lease>,
    pub(super) end: InputEnd,
    pub(super) copied: usize,
    /// Bytes that the lease being filled held when the driver was given it.
    pub(super) filling_from: usize,
    /// More bytes were to be joined than any lease can hold.
    pub(super) is_too_long: bool,
    /// Bytes that the system has passed on by itself.
    pub(super) unseen: u64,
    arena: Arena,
}

/// Bytes at the front of an input, to be moved into an output.
#[must_use = "nothing is taken until it is moved somewhere; `Input::skip` drops bytes"]
pub struct Taken<'a> {
    pub(super) chain: &'a mut Chain,
    pub(super) bytes: usize,
}

impl Input {
    /// An empty one, for what a service keeps of its input beside the connection's own ([`Input::append`]).
    pub fn new(arena: Arena) -> Self {
        Self {
            chain: Chain::new(),
            filled: None,
            end: InputEnd::Open,
            copied: 0,
            filling_from: 0,
            is_too_long: false,
            unseen: 0,
            arena,
        }
    }

    /// How many bytes are there.
    pub fn len(&self) -> usize {
        self.chain.len()
    }

    /// Bytes that came before these and were passed on by the system itself ([`Cx::bridge`](crate::Cx::bridge)), since the last call. Nobody sees them.
    pub fn unseen(&mut self) -> u64 {
        std::mem::take(&mut self.unseen)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// Whether the peer has finished: no more bytes will come.
    pub fn is_finished(&self) -> bool {
        self.end != InputEnd::Open
    }

    /// Whether the input has ended without the peer saying so. Behind a transform whose streams have an end of their own (TLS's close_notify, RFC 8446,
    /// section 6.1), somebody else may have cut it. False as long as the input has not ended.
    pub fn is_truncated(&self) -> bool {
        self.end == InputEnd::Cut
    }

    /// The lease that [`Next::Fill`](crate::Next::Fill) asked to be filled, once it is full or the stream has ended.
    pub fn filled(&mut self) -> Option<Lease> {
        self.filled.take()
    }

    /// The bytes that lie together at the front; empty only if the input is empty.
    pub fn first(&self) -> &[u8] {
        self.chain.front().and_then(Segment::bytes).unwrap_or(&[])
    }

    /// All bytes, in the pieces in which they lie.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.chain.segments().filter_map(Segment::bytes)
    }

    /// A part of what [`Input::first`] shows, as a view to keep; the bytes stay in the input. None if [`Input::first`] does not show so much.
    pub fn shared(&self, range: Range<usize>) -> Option<Shared> {
        let Some(Segment::Shared(first)) = self.chain.front() else { return None };
        (range.start <= range.end && range.end <= first.len()).then(|| first.slice(range))
    }

    /// The first `bytes` bytes in one piece; they stay in the input. Copies (and counts) only if they straddle.
    /// None if fewer are there yet, or if the lane does not lend so much now: then the service is called again when it does. Asking for more
    /// than a lane can ever lend (at most [`LEASE_BYTES_MAX`](corelane_seam::LEASE_BYTES_MAX)) ends the connection as aborted.
    pub fn contiguous(&mut self, bytes: usize) -> Option<&[u8]> {
        if bytes > self.chain.len() {
            return None;
        }
        if self.first().len() < bytes {
            self.join(bytes)?;
        }
        debug_assert!(self.first().len() >= bytes, "what was joined lies together");
        Some(&self.first()[..bytes])
    }

    fn join(&mut self, bytes: usize) -> Option<()> {
        debug_assert!((self.first().len()..=self.len()).contains(&bytes), "what is there and straddles is joined");
        self.is_too_long |= bytes > self.arena.lend_max();
        let mut lease = self.arena.lease(bytes)?;
        let copied = self.chain.copy_to(&mut lease.spare()[..bytes]);
        assert_eq!(copied, bytes, "an input holds bytes in memory only");
        lease.advance(bytes);
        self.chain.skip(bytes);
        self.chain.push_front(lease.share());
        self.copied += bytes;
        Some(())
    }

    /// Where `byte` stands first, if it is there.
    pub fn position(&self, byte: u8) -> Option<usize> {
        let mut before = 0;
        for bytes in self.pieces() {
            if let Some(at) = bytes.iter().position(|&found| found == byte) {
                return Some(before + at);
            }
            before += bytes.len();
        }
        None
    }

    /// Drops the first `bytes`, or all.
    pub fn skip(&mut self, bytes: usize) {
        self.chain.skip(bytes);
    }

    /// The first `bytes` (or all, if there are fewer), to be moved into an output.
    pub fn take(&mut self, bytes: usize) -> Taken<'_> {
        let bytes = bytes.min(self.chain.len());
        Taken { chain: &mut self.chain, bytes }
    }

    /// All bytes, to be moved into an output.
    pub fn take_all(&mut self) -> Taken<'_> {
        self.take(usize::MAX)
    }

    /// Moves bytes of another input behind these, without copying.
    pub fn append(&mut self, taken: Taken<'_>) {
        debug_assert!(taken.bytes <= taken.chain.len(), "what is taken is there");
        taken.chain.move_to(taken.bytes, &mut self.chain);
    }

    /// Moves the first `bytes`, or all, to the end of a chain, without copying.
    pub fn take_to(&mut self, bytes: usize, chain: &mut Chain) {
        match bytes >= self.chain.len() && chain.is_empty() {
            true => std::mem::swap(&mut self.chain, chain),
            false => self.chain.move_to(bytes, chain),
        }
    }

    /// Copies what uses under a quarter of its block to fitting memory: for bytes that wait beside the connection's own input, where the lane does not
    /// do it. Returns how many bytes were copied.
    pub fn compact(&mut self) -> usize {
        let copied = self.chain.compact();
        debug_assert!(copied <= self.chain.len(), "each byte is copied once");
        copied
    }

    /// The first `bytes` as one view to keep; conditions and copying as for [`Input::contiguous`].
    pub fn take_shared(&mut self, bytes: usize) -> Option<Shared> {
        self.contiguous(bytes)?;
        let Some(Segment::Shared(shared)) = self.chain.front() else { return None };
        debug_assert!(shared.len() >= bytes, "what lies together is in one view");
        let view = shared.slice(0..bytes);
        self.chain.skip(bytes);
        Some(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(parts: &[&[u8]]) -> Input {
        let arena = Arena::new(1).unwrap();
        let mut input = Input::new(arena.clone());
        parts.iter().for_each(|part| input.chain.push(arena.copy_of(part).unwrap().share()));
        input
    }

    #[test]
    fn only_what_straddles_is_copied() {
        let mut input = input(&[b"hello ", b"wor", b"ld"]);
        assert_eq!(input.contiguous(6), Some(&b"hello "[..]));
        assert_eq!(input.copied, 0);
        assert_eq!(input.contiguous(8), Some(&b"hello wo"[..]));
        assert_eq!((input.copied, input.len()), (8, 11));
        assert_eq!(input.contiguous(12), None);
        assert_eq!(&*input.take_shared(8).unwrap(), b"hello wo");
        assert_eq!(input.position(b'd'), Some(2));
        assert_eq!(input.position(b'x'), None);
    }

    #[test]
    fn a_part_of_what_lies_together_can_be_kept() {
        let mut input = input(&[b"hello ", b"world"]);
        let kept = input.shared(1..4).unwrap();
        assert!(input.shared(1..7).is_none());
        input.skip(100);
        assert_eq!((&*kept, input.shared(0..0).is_none()), (&b"ell"[..], true));
    }

    #[test]
    fn taking_never_takes_more_than_is_there() {
        let mut input = input(&[b"abc"]);
        assert_eq!(input.take(2).bytes, 2);
        assert_eq!(input.take_all().bytes, 3);
        input.skip(100);
        assert!(input.is_empty() && input.first().is_empty());
    }
}
