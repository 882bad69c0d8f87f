//! The bytes of a lane's memory, as they were asked of the system, whoever gives them back.
//!
//! Holds a marked cell: memory is allocated and freed by hand, because it is aligned and must not be written to be zero.
#![allow(unsafe_code)]

use crate::error::Error;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// An aligned piece of zeroed memory, which the system commits as it is touched.
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    /// What the region lies in, as it was allocated.
    allocation: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a region is memory that belongs to no thread. Which part of it may be touched, and by whom, is decided by the arena or frame memory that lends it.
unsafe impl Send for Region {}

impl Region {
    /// Reserves `bytes`, aligned to `alignment`.
    pub(crate) fn new(bytes: usize, alignment: usize) -> Result<Self, Error> {
        let refused = Error::ArenaRefused { bytes };
        // Aligned here: asked for aligned zeroes, the standard allocator would write them, and so commit all of it at once.
        let length = bytes.checked_add(alignment).ok_or(refused)?;
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

    /// Where it begins.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address `offset` bytes behind the beginning.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.bytes);
        // SAFETY: whoever lends the region asks for offsets inside it, so the address stays inside the allocation.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc_zeroed` with this layout; whoever owned the region knows that nobody uses it any more.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}
