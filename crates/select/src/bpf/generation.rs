//! A number that a process raises, and programs compare what they know with.

use super::{Map, MapKind};
use crate::errors::Error;
use corelane_os::errno::last;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the kernel maps at the least: its value lies at the beginning of a page.
const VALUE_BYTES: usize = 8;

/// A number of 32 bits, 0 at first: an array of one value that is mapped into this process (`BPF_F_MMAPABLE`, kernel 5.5). Whatever thread raises it asks the kernel for nothing.
#[derive(Debug)]
pub struct Generation {
    map: Map,
    base: NonNull<AtomicU32>,
}

// SAFETY: the mapping is of a word that is used as an atomic only, from whatever thread.
unsafe impl Send for Generation {}
// SAFETY: as above.
unsafe impl Sync for Generation {}

impl Generation {
    /// A number, with a name as [`Map::new`] takes it.
    ///
    /// # Errors
    /// As for [`Map::new`]; and [`Error::Refused`] if it cannot be mapped.
    ///
    /// # Panics
    /// If the name is longer.
    pub fn new(name: &str) -> Result<Self, Error> {
        const MAPPABLE: u32 = 1 << 10;
        let map = Map::with_flags(MapKind::Array, VALUE_BYTES, 1, name, MAPPABLE)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (shared, descriptor) = (libc::MAP_SHARED, map.descriptor.as_raw_fd());
        // SAFETY: a new mapping, which touches no memory that is in use.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), VALUE_BYTES, protection, shared, descriptor, 0) };
        if base == libc::MAP_FAILED {
            return Err(super::refused("mmap", last()));
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| super::refused("mmap", libc::ENOMEM))?;
        Ok(Self { map, base })
    }

    /// The number now.
    #[must_use]
    pub fn get(&self) -> u32 {
        self.word().load(Ordering::Acquire)
    }

    /// Another number from now on.
    pub fn raise(&self) {
        self.word().fetch_add(1, Ordering::Release);
    }

    /// The array, for a program to compare with its first 4 bytes.
    #[must_use]
    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: a word of the mapping, which lives as long as this; nobody uses it but as an atomic, and programs read it whole.
        unsafe { self.base.as_ref() }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing of it is used any more.
        let ended = unsafe { libc::munmap(self.base.as_ptr().cast(), VALUE_BYTES) };
        assert!(ended == 0, "a mapping ends once");
    }
}
