//! A chain of segments: the bytes of an input, an output, or one send, without copying them together.

use crate::handle::File;
use crate::lease::Shared;
use crate::parcel::Guest;
use crate::piped::Piped;
use crate::sealed::Sealed;
use std::collections::VecDeque;

/// A part of a file, to be sent without passing through the lane's memory where the system can (sendfile(2)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The open file.
    pub file: File,
    /// Where the part begins, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub length: u64,
}

/// One piece of a chain.
#[derive(Clone, Debug)]
pub enum Segment {
    /// Bytes in the lane's memory.
    Shared(Shared),
    /// Bytes in another lane's memory.
    Guest(Guest),
    /// Bytes that live as long as the program.
    Static(&'static [u8]),
    /// Bytes that never change.
    Sealed(Sealed),
    /// Bytes of a file.
    File(FilePart),
    /// Bytes in a pipe of the system's.
    Piped(Piped),
}

impl Segment {
    /// Bytes in this piece.
    pub fn len(&self) -> usize {
        match self {
            Self::Shared(shared) => shared.len(),
            Self::Guest(guest) => guest.len(),
            Self::Static(bytes) => bytes.len(),
            Self::Sealed(sealed) => sealed.len(),
            Self::File(part) => part.length as usize,
            Self::Piped(piped) => piped.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, unless they lie in a file or in a pipe.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Shared(shared) => Some(shared),
            Self::Guest(guest) => Some(guest),
            Self::Static(bytes) => Some(bytes),
            Self::Sealed(sealed) => Some(sealed),
            Self::File(_) | Self::Piped(_) => None,
        }
    }

    /// Bytes of this lane's memory that this piece keeps in use.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn charged(&self) -> usize {
        match self {
            Self::Shared(shared) => shared.charged(),
            Self::Guest(_) | Self::Static(_) | Self::Sealed(_) | Self::File(_) | Self::Piped(_) => 0,
        }
    }

    /// Bytes of memory that this piece keeps in use, of any lane: of another's, which is charged for its blocks, those that are seen here; and those of the system's in a pipe.
    /// Bounds of outputs count these.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn held(&self) -> usize {
        match self {
            Self::Guest(guest) => guest.len(),
            Self::Piped(piped) => piped.len(),
            Self::Shared(_) | Self::Static(_) | Self::Sealed(_) | Self::File(_) => self.charged(),
        }
    }

    /// Drops the first `bytes`.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn skip(&mut self, bytes: usize) {
        match self {
            Self::Shared(shared) => shared.skip(bytes),
            Self::Guest(guest) => guest.skip(bytes),
            Self::Static(slice) => *slice = &slice[bytes..],
            Self::Sealed(sealed) => sealed.skip(bytes),
            Self::File(part) => {
                assert!(bytes as u64 <= part.length);
                part.offset += bytes as u64;
                part.length -= bytes as u64;
            }
            Self::Piped(piped) => piped.skip(bytes),
        }
    }

    /// Splits off and returns the first `bytes`; `self` keeps the rest.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn split_to(&mut self, bytes: usize) -> Segment {
        let mut front = self.clone();
        self.skip(bytes);
        match &mut front {
            Self::Shared(shared) => shared.truncate(bytes),
            Self::Guest(guest) => guest.truncate(bytes),
            Self::Static(slice) => *slice = &slice[..bytes],
            Self::Sealed(sealed) => sealed.truncate(bytes),
            Self::File(part) => part.length = bytes as u64,
            Self::Piped(piped) => piped.truncate(bytes),
        }
        front
    }
}

impl From<Shared> for Segment {
    fn from(shared: Shared) -> Self {
        Self::Shared(shared)
    }
}

impl From<Guest> for Segment {
    fn from(guest: Guest) -> Self {
        Self::Guest(guest)
    }
}

impl From<&'static [u8]> for Segment {
    fn from(bytes: &'static [u8]) -> Self {
        Self::Static(bytes)
    }
}

impl From<Piped> for Segment {
    fn from(piped: Piped) -> Self {
        Self::Piped(piped)
    }
}

impl From<Sealed> for Segment {
    fn from(sealed: Sealed) -> Self {
        Self::Sealed(sealed)
    }
}

/// Segments in order. Never holds an empty one.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    segments: VecDeque<Segment>,
    length: usize,
}

impl Chain {
    /// An empty chain; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes in all segments.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes of lane memory that the segments keep in use; a block shared by several segments counts for each.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn charged(&self) -> usize {
        self.segments.iter().map(Segment::charged).sum()
    }

    /// Bytes of memory, of any lane, that the segments keep in use ([`Segment::held`]).
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn held(&self) -> usize {
        self.segments.iter().map(Segment::held).sum()
    }

    /// Appends a segment; an empty one vanishes.
    pub fn push(&mut self, segment: impl Into<Segment>) {
        let segment = segment.into();
        if !segment.is_empty() {
            self.length += segment.len();
            self.segments.push_back(segment);
        }
    }

    /// Puts a segment in front; an empty one vanishes.
    pub fn push_front(&mut self, segment: impl Into<Segment>) {
        let segment = segment.into();
        if !segment.is_empty() {
            self.length += segment.len();
            self.segments.push_front(segment);
        }
    }

    /// Moves all segments of `other` behind these; `other` keeps its storage.
    pub fn append(&mut self, other: &mut Chain) {
        self.length += std::mem::take(&mut other.length);
        // One by one: the usual chain has one, and moving that costs less than moving a range.
        while let Some(segment) = other.segments.pop_front() {
            self.segments.push_back(segment);
        }
    }

    /// Removes and returns the first segment.
    pub fn pop(&mut self) -> Option<Segment> {
        let segment = self.segments.pop_front()?;
        self.length -= segment.len();
        Some(segment)
    }

    /// The first segment.
    pub fn front(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// The segments in order.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> + ExactSizeIterator + Clone {
        self.segments.iter()
    }

    /// Drops the first `bytes`, or everything if there are fewer; returns how many were dropped.
    pub fn skip(&mut self, bytes: usize) -> usize {
        let bytes = bytes.min(self.length);
        let mut left = bytes;
        while left > 0 {
            // reason: the length is the sum of all.
            let front = self.segments.front_mut().expect("a chain has as many bytes as its segments");
            if front.len() > left {
                front.skip(left);
                break;
            }
            left -= front.len();
            self.segments.pop_front();
        }
        self.length -= bytes;
        bytes
    }

    /// Moves the first `bytes` (or all, if there are fewer) to the end of `to`, without copying them.
    pub fn move_to(&mut self, bytes: usize, to: &mut Chain) {
        if bytes >= self.length {
            return to.append(self);
        }
        let mut left = bytes;
        while left > 0 {
            // reason: the length is the sum of all.
            let mut part = self.segments.pop_front().expect("a chain has as many bytes as its segments");
            if part.len() > left {
                let front = part.split_to(left);
                self.segments.push_front(std::mem::replace(&mut part, front));
            }
            left -= part.len();
            self.length -= part.len();
            to.push(part);
        }
    }

    /// The system still reads these bytes, and nobody knows for how long ([`Shared::withhold`]). Returns how many bytes of this lane's memory that is, and how many of those are
    /// used again.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn withhold(self) -> (usize, usize) {
        let (bytes, mut renewed) = (self.charged(), 0);
        for segment in self.segments {
            match segment {
                Segment::Shared(shared) => renewed += shared.withhold(),
                // Another lane's: it never comes home.
                Segment::Guest(guest) => std::mem::forget(guest),
                Segment::Static(_) | Segment::Sealed(_) | Segment::File(_) | Segment::Piped(_) => {}
            }
        }
        (bytes, renewed)
    }

    /// Drops everything and keeps the storage for reuse.
    pub fn clear(&mut self) {
        self.segments.clear();
        self.length = 0;
    }

    /// Copies views that use under a quarter of their block to fitting memory, so that a chain which waits does not keep
    /// large blocks; as far as the arena has memory. Returns how many bytes were copied.
    pub fn compact(&mut self) -> usize {
        let mut copied = 0;
        for segment in &mut self.segments {
            let Segment::Shared(shared) = segment else { continue };
            if !shared.is_sparse() {
                continue;
            }
            if let Some(fitted) = shared.fitted() {
                copied += fitted.len();
                *shared = fitted;
            }
        }
        copied
    }

    /// Copies the first bytes into `to`, as many as fit and lie in memory; returns how many.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let mut done = 0;
        for bytes in self.segments.iter().map_while(Segment::bytes) {
            let part = bytes.len().min(to.len() - done);
            to[done..done + part].copy_from_slice(&bytes[..part]);
            done += part;
            if done == to.len() {
                break;
            }
        }
        done
    }
}

/// Lets a file part's segment be named where a chain is built.
impl From<FilePart> for Segment {
    fn from(part: FilePart) -> Self {
        Segment::File(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Arena;
    use proptest::prelude::*;

    fn chain_of(arena: &Arena, parts: &[Vec<u8>]) -> Chain {
        let mut chain = Chain::new();
        for (index, part) in parts.iter().enumerate() {
            match index % 2 {
                0 => chain.push(arena.copy_of(part).unwrap().share()),
                _ => chain.push(Segment::Static(Box::leak(part.clone().into_boxed_slice()))),
            }
        }
        chain
    }

    fn bytes_of(chain: &Chain) -> Vec<u8> {
        let mut bytes = vec![0; chain.len()];
        assert_eq!(chain.copy_to(&mut bytes), chain.len());
        bytes
    }

    proptest! {
        /// A chain behaves as the bytes it stands for.
        #[test]
        fn behaves_as_its_bytes(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8), skip in 0usize..80, take in 0usize..80) {
            let arena = Arena::new(1).unwrap();
            let mut model: Vec<u8> = parts.concat();
            let mut chain = chain_of(&arena, &parts);
            prop_assert_eq!(bytes_of(&chain), model.clone());
            let skipped = chain.skip(skip);
            prop_assert_eq!(skipped, skip.min(model.len()));
            model.drain(..skipped);
            let mut moved = Chain::new();
            chain.move_to(take, &mut moved);
            let rest = model.split_off(take.min(model.len()));
            prop_assert_eq!(bytes_of(&moved), model);
            prop_assert_eq!(bytes_of(&chain), rest);
            prop_assert!(chain.segments().chain(moved.segments()).all(|segment| !segment.is_empty()));
        }
    }

    #[test]
    fn a_file_part_moves_its_offset() {
        let file = File::new(0, 0);
        let mut chain = Chain::new();
        chain.push(Segment::File(FilePart { file, offset: 100, length: 50 }));
        let mut front = Chain::new();
        chain.move_to(20, &mut front);
        let parts: Vec<_> = front.segments().chain(chain.segments()).cloned().collect();
        assert!(matches!(parts[0], Segment::File(FilePart { offset: 100, length: 20, .. })));
        assert!(matches!(parts[1], Segment::File(FilePart { offset: 120, length: 30, .. })));
    }
}
