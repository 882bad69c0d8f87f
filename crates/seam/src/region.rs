//! The bytes of a lane's memory, whoever has made them.
//!
//! Holds a marked cell: memory is allocated and freed by hand, because it is aligned and must not be written to be zero.
#![allow(unsafe_code)]

use crate::error::Error;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;

/// Memory that somebody has made for an [`Arena`](crate::Arena), of whatever the system has: a mapped memory file, huge pages, pages that are locked. It is given back
/// by its drop, behind the last lease of the arena and the last parcel of another lane, on whichever thread that is.
///
/// # Safety
/// As long as the value lives, the memory from `base` on, `bytes` long, can be read and written, and nobody else writes to it or takes it away. It was initialised, and
/// holds no secret. Both functions always say the same, also when the value has been moved.
pub unsafe trait RegionMemory: Send + 'static {
    /// Where it begins.
    fn base(&self) -> NonNull<u8>;

    /// How many bytes there are.
    fn bytes(&self) -> usize;

    /// Puts new pages of zeros into this range, in place of those that are there: whoever in the system still reads these goes on reading them, and they are gone with the last
    /// who does. Returns whether it did; the bytes are as they were if not. By default it cannot; nor can it where the range does not begin and end with pages.
    ///
    /// # Safety
    /// The range lies within the memory, and nobody in this program reads or writes it meanwhile, or counts on what it holds.
    unsafe fn renew(&self, _range: Range<usize>) -> bool {
        false
    }
}

/// A piece of memory that an arena or frame memory lends parts of.
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    /// Whose it is: dropped behind the last part that is lent.
    memory: Box<dyn RegionMemory>,
}

// SAFETY: a region is memory that belongs to no thread. Which part of it may be touched, and by whom, is decided by the arena or frame memory that lends it.
unsafe impl Send for Region {}

impl Region {
    /// Reserves `bytes`, aligned to `alignment`.
    pub(crate) fn new(bytes: usize, alignment: usize) -> Result<Self, Error> {
        Allocated::new(bytes, alignment, 0).map(|memory| Self::of(Box::new(memory)))
    }

    /// The same, of which no more is committed than is touched: so some 32 MiB are reserved for it at the least.
    pub(crate) fn untouched(bytes: usize, alignment: usize) -> Result<Self, Error> {
        Allocated::new(bytes, alignment, MAPPED_BYTES).map(|memory| Self::of(Box::new(memory)))
    }

    /// A region of memory that somebody has made.
    pub(crate) fn of(memory: Box<dyn RegionMemory>) -> Self {
        let (base, bytes) = (memory.base(), memory.bytes());
        assert!(bytes > 0, "a region has bytes");
        Self { base, bytes, memory }
    }

    /// Where it begins.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts new pages into a range, where that can be done.
    ///
    /// # Safety
    /// As of [`RegionMemory::renew`].
    pub(crate) unsafe fn renew(&self, range: Range<usize>) -> bool {
        assert!(range.start <= range.end && range.end <= self.bytes, "{range:?} lies within {} bytes", self.bytes);
        // SAFETY: within the memory; the rest is the caller's promise.
        unsafe { self.memory.renew(range) }
    }

    /// The address `offset` bytes behind the beginning.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.bytes);
        // SAFETY: whoever lends the region asks for offsets inside it, so the address stays inside the memory.
        unsafe { self.base.add(offset) }
    }
}

/// From here on the allocator asks the system, where it has no free piece that is as long (mallopt(3), `M_MMAP_THRESHOLD`). A shorter one is often a piece that was used and
/// given back, and is written with zeros, all of it.
const MAPPED_BYTES: usize = 32 << 20;

/// Zeroed memory of the allocator, which the system commits as it is touched where the allocator asks it: what a region is by default.
struct Allocated {
    base: NonNull<u8>,
    bytes: usize,
    /// The memory that it lies in, as it was allocated.
    allocation: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the allocation belongs to this value alone, and to no thread.
unsafe impl Send for Allocated {}

// SAFETY: the allocation holds so many bytes from its aligned beginning on, is zeroed, lives as long as the value, and is nobody else's.
unsafe impl RegionMemory for Allocated {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Allocated {
    fn new(bytes: usize, alignment: usize, least: usize) -> Result<Self, Error> {
        let refused = Error::ArenaRefused { bytes };
        // Aligned here: asked for aligned zeroes, the standard allocator would write them, and so commit all of it at once.
        let length = bytes.checked_add(alignment).ok_or(refused)?.max(least);
        let layout = Layout::from_size_align(length, 1).map_err(|_| refused)?;
        assert!(bytes > 0 && alignment.is_power_of_two(), "a region has bytes and an alignment");
        // SAFETY: the layout's size is not zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
        let skip = allocation.align_offset(alignment);
        assert!(skip < alignment, "an aligned address lies within the alignment");
        // SAFETY: the allocation is longer than the region by the alignment.
        let base = unsafe { allocation.add(skip) };
        Ok(Self { base, bytes, allocation, layout })
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc_zeroed` with this layout; whoever owned the region knows that nobody uses it any more.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}
