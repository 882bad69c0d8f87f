//! Counts that a program keeps and a process reads without asking the kernel.

use super::{Map, MapKind};
use crate::errors::Error;
use corelane_os::errno::last;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a count's place: a line of the cache, so that CPUs which count beside each other do not share one.
const PLACE_BYTES: usize = 64;

/// Numbers of 8 bytes, all zero at first: an array that is mapped into this process (`BPF_F_MMAPABLE`, kernel 5.5).
#[derive(Debug)]
pub struct Counts {
    map: Map,
    base: NonNull<AtomicU64>,
    entries: usize,
}

// SAFETY: the mapping is of words that are only read here, and as atomics, from whatever thread.
unsafe impl Send for Counts {}
// SAFETY: as above.
unsafe impl Sync for Counts {}

impl Counts {
    /// So many counts, with a name as [`Map::new`] takes it.
    ///
    /// # Errors
    /// As for [`Map::new`]; and [`Error::Refused`] if it cannot be mapped.
    ///
    /// # Panics
    /// If the name is longer.
    pub fn new(entries: usize, name: &str) -> Result<Self, Error> {
        const MAPPABLE: u32 = 1 << 10;
        let map = Map::with_flags(MapKind::Array, PLACE_BYTES, entries, name, MAPPABLE)?;
        let (bytes, protection) = (entries * PLACE_BYTES, libc::PROT_READ);
        // SAFETY: a new mapping, which touches no memory that is in use.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, map.descriptor.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(super::refused("mmap", last()));
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| super::refused("mmap", libc::ENOMEM))?;
        Ok(Self { map, base, entries })
    }

    /// One of them, as of now.
    ///
    /// # Panics
    /// For a number outside.
    #[must_use]
    pub fn get(&self, number: usize) -> u64 {
        assert!(number < self.entries, "count {number} of {}", self.entries);
        // SAFETY: a word of the mapping, which lives as long as this; the kernel writes it whole.
        unsafe { self.base.byte_add(number * PLACE_BYTES).as_ref() }.load(Ordering::Relaxed)
    }

    /// The array, for a program to count in.
    #[must_use]
    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing of it is used any more.
        let ended = unsafe { libc::munmap(self.base.as_ptr().cast(), self.entries * PLACE_BYTES) };
        assert!(ended == 0, "a mapping ends once");
    }
}
