//! The caller's memory: looked at by the kernel before it is touched, so that a pointer to nothing is EFAULT and not the program's end.
//!
//! Holds a marked cell: C's pointers.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::OnceLock;

use corelane_kevent::Record;

/// Bytes of a page of the machine, or fewer: what is rounded to more is looked at as well.
const PAGE: usize = 4096;

const MADV_POPULATE_READ: libc::c_int = 22;
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// Reads `count` values at `from`. EFAULT where they cannot be read.
pub(super) fn read<T: Copy>(from: *const T, count: usize) -> Result<Vec<T>, i32> {
    check(from, count, MADV_POPULATE_READ)?;
    // SAFETY: all of it can be read, has just been found. The types of the calls are plain numbers, for which any bytes are a value. C promises no alignment.
    Ok((0..count).map(|index| unsafe { from.add(index).read_unaligned() }).collect())
}

/// Whether `count` records can be written at `to`: looked at before anything is taken that could not be handed out then.
pub(super) fn check_room(to: *mut Record, count: usize) -> Result<(), i32> {
    check(to.cast_const(), count, MADV_POPULATE_WRITE)
}

/// Writes `values` to `to`. EFAULT where they cannot be written.
pub(super) fn write<T: Copy>(to: *mut T, values: &[T]) -> Result<(), i32> {
    check(to.cast_const(), values.len(), MADV_POPULATE_WRITE)?;
    for (index, value) in values.iter().enumerate() {
        // SAFETY: all of it can be written, has just been found.
        unsafe { to.add(index).write_unaligned(*value) };
    }
    Ok(())
}

fn check<T>(start: *const T, count: usize, advice: libc::c_int) -> Result<(), i32> {
    if count == 0 {
        return Ok(());
    }
    let bytes = count.checked_mul(size_of::<T>()).ok_or(libc::EFAULT)?;
    let end = start.addr().checked_add(bytes).ok_or(libc::EFAULT)?;
    if start.is_null() || is_told() && !is_mapped(start.addr(), end, advice) {
        return Err(libc::EFAULT);
    }
    Ok(())
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
