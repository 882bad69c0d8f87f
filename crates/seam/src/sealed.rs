//! Bytes that never change, and so may be shared with whoever receives them.

use std::ops::{Deref, Range};
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// Memory whose bytes never change as long as the value lives, of whoever has made it: plain memory, or a sealed file that is mapped.
pub trait SealedMemory: 'static {
    /// All of its bytes: always the same ones, at the same place.
    fn bytes(&self) -> &[u8];

    /// The file that they are in from its beginning on, as the table of descriptors of this thread has it. Nobody can write to that file or cut it off (fcntl(2),
    /// `F_SEAL_WRITE` and `F_SEAL_SHRINK`). None where there is no such file.
    fn file(&self) -> Option<BorrowedFd<'_>>;
}

/// A view of bytes that never change, of one lane. A driver may give the receiver their very pages: that is released as soon as it is sent, because nobody writes
/// to them later. New contents are new memory. Cloning counts within the lane.
#[derive(Clone)]
pub struct Sealed {
    memory: Rc<dyn SealedMemory>,
    start: u32,
    length: u32,
}

impl Sealed {
    /// The most bytes: 2 GiB.
    pub const BYTES_MAX: usize = 1 << 31;

    /// All of what somebody has made.
    ///
    /// # Panics
    /// If it has more than [`Sealed::BYTES_MAX`].
    pub fn new(memory: impl SealedMemory) -> Self {
        let bytes = memory.bytes().len();
        assert!(bytes <= Self::BYTES_MAX, "{bytes} bytes are sealed at once, at most {} may be", Self::BYTES_MAX);
        Self { memory: Rc::new(memory), start: 0, length: bytes as u32 }
    }

    /// The same bytes in plain memory: they are copied wherever they are sent.
    ///
    /// # Panics
    /// As of [`Sealed::new`].
    pub fn plain(bytes: impl Into<Box<[u8]>>) -> Self {
        struct Plain(Box<[u8]>);
        impl SealedMemory for Plain {
            fn bytes(&self) -> &[u8] {
                &self.0
            }

            fn file(&self) -> Option<BorrowedFd<'_>> {
                None
            }
        }
        Self::new(Plain(bytes.into()))
    }

    /// The file in which the bytes are, and where they begin in it.
    pub fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        self.memory.file().map(|file| (file, self.start.into()))
    }

    /// A view of a part.
    ///
    /// # Panics
    /// If the range is not within it.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.length as usize, "{range:?} of {} bytes", self.length);
        let length = (range.end - range.start) as u32;
        Self { memory: self.memory.clone(), start: self.start + range.start as u32, length }
    }

    /// Drops the first `bytes` from the view.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.length as usize, "{bytes} of {} bytes", self.length);
        self.start += bytes as u32;
        self.length -= bytes as u32;
    }

    /// Drops all but the first `bytes` from the view.
    pub fn truncate(&mut self, bytes: usize) {
        self.length = self.length.min(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

impl Deref for Sealed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory.bytes()[self.start as usize..][..self.length as usize]
    }
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({} bytes from {})", self.length, self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chain, Segment};

    #[test]
    fn parts_are_views_of_the_whole() {
        let whole = Sealed::plain(*b"0123456789");
        let mut part = whole.slice(2..8);
        part.skip(1);
        part.truncate(100);
        assert_eq!(&*part, b"34567");
        part.truncate(2);
        assert_eq!((&*part, &*part.slice(1..2)), (&b"34"[..], &b"4"[..]));
        assert!(whole.file().is_none());
    }

    #[test]
    fn a_chain_splits_it_as_any_other_bytes() {
        let mut chain = Chain::new();
        chain.push(Sealed::plain(*b"0123456789"));
        let mut front = Chain::new();
        chain.move_to(4, &mut front);
        chain.skip(1);
        let parts: Vec<_> = front.segments().chain(chain.segments()).map(|part| part.bytes().unwrap().to_vec()).collect();
        assert_eq!(parts, [b"0123".to_vec(), b"56789".to_vec()]);
        assert_eq!((front.held(), front.charged()), (0, 0));
    }

    #[test]
    fn a_segment_stays_as_small_as_a_part_of_a_file() {
        const { assert!(size_of::<Segment>() <= 40) };
    }

    #[test]
    #[should_panic(expected = "of 3 bytes")]
    fn a_part_lies_within() {
        drop(Sealed::plain(*b"abc").slice(2..4));
    }
}
