//! The caller's memory: looked at by the kernel before it is touched, so that a pointer to nothing is EFAULT and not the program's end.
//!
//! Holds a marked cell: C's pointers.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::OnceLock;

/// Bytes of a page of the machine, or fewer: what is rounded to more is looked at as well.
const PAGE: usize = 4096;

const MADV_POPULATE_READ: libc::c_int = 22;
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// Values in the caller's memory, which can be followed.
pub(super) struct Memory<T> {
    start: *mut T,
    count: usize,
}

impl<T: Copy> Memory<T> {
    /// `count` values at `start` that can be read. EFAULT where they cannot.
    pub fn to_read(start: *const T, count: usize) -> Result<Self, i32> {
        Self::checked(start.cast_mut(), count, MADV_POPULATE_READ)
    }

    /// Room for so many there, which can be written to, and read.
    pub fn to_write(start: *mut T, count: usize) -> Result<Self, i32> {
        Self::checked(start, count, MADV_POPULATE_WRITE)
    }

    /// What is there. ENOMEM where there is no memory for a copy.
    pub fn read(&self) -> Result<Vec<T>, i32> {
        let mut copies = Vec::new();
        copies.try_reserve_exact(self.count).map_err(|_| libc::ENOMEM)?;
        // SAFETY: all of it can be read, was found when this was made. The types of the calls are plain numbers, for which any bytes are a value. C promises
        // no alignment.
        copies.extend((0..self.count).map(|index| unsafe { self.start.add(index).read_unaligned() }));
        Ok(copies)
    }

    /// Writes `values` to its beginning; only to what was made to be written to.
    pub fn write(&self, values: &[T]) {
        assert!(values.len() <= self.count, "no more than there is room for");
        for (index, value) in values.iter().enumerate() {
            // SAFETY: all of it can be written to, was found when this was made.
            unsafe { self.start.add(index).write_unaligned(*value) };
        }
    }

    fn checked(start: *mut T, count: usize, advice: libc::c_int) -> Result<Self, i32> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(libc::EFAULT)?;
        let end = start.addr().checked_add(bytes).ok_or(libc::EFAULT)?;
        let is_there = || !start.is_null() && (!is_told() || is_mapped(start.addr(), end, advice));
        if count == 0 || is_there() { Ok(Self { start, count }) } else { Err(libc::EFAULT) }
    }
}

/// Whether the pages of memory can be used as `advice` says (madvise(2)).
fn is_mapped(start: usize, end: usize, advice: libc::c_int) -> bool {
    let first = start / PAGE * PAGE;
    // SAFETY: the advice changes nothing but whether pages are there; an address that is none is refused.
    unsafe { libc::madvise(ptr::without_provenance_mut(first), end - first, advice) == 0 }
}

/// Whether this kernel (from 5.14) tells: where it does not, null alone is found.
fn is_told() -> bool {
    static TOLD: OnceLock<bool> = OnceLock::new();
    *TOLD.get_or_init(|| {
        let place = ptr::from_ref(&TOLD).addr();
        is_mapped(place, place + 1, MADV_POPULATE_READ)
    })
}
