//! Names of a folder's entries that have changed, for C.
//!
//! Holds a marked cell: C's pointers and C's names.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::os::unix::ffi::OsStrExt;

use corelane_event::{Named, Queue};

use crate::cancelling::uncancelled;
use crate::failing::fail;

/// `struct corelane_name`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// `CORELANE_NAME_*`.
    pub what: c_uint,
    /// Ends with a zero.
    pub name: [c_char; 256],
}

impl From<&Named> for Name {
    fn from(named: &Named) -> Self {
        let mut name = [0; 256];
        // The last stays zero; the kernel's names have no more than 255 bytes.
        for (place, byte) in name[..255].iter_mut().zip(named.name.as_bytes()) {
            // A character has a sign on some machines, and none on others: the same bits.
            *place = c_char::from_ne_bytes([*byte]);
        }
        Self { what: named.what as c_uint, name }
    }
}

/// Stores the oldest names of entries that have changed in the folder `fd`, at most `room`: how many, or -1 with errno: EBADF (no queue of this process), ENOENT
/// (not registered with NOTE_NAMES), EFAULT (`names` is null with room), EINVAL (negative room).
///
/// # Safety
///
/// `names` points to `room` records, or `room` is 0; `lost` is null or points to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corelane_names(kq: c_int, fd: c_int, names: *mut Name, room: c_int, lost: *mut u64) -> c_int {
    let take = || {
        let queue = Queue::of(kq).ok_or(libc::EBADF)?;
        let room = usize::try_from(room).map_err(|_| libc::EINVAL)?;
        if room > 0 && names.is_null() {
            return Err(libc::EFAULT);
        }
        queue.names(fd, room).map_err(|refused| refused.number)
    };
    match uncancelled(take) {
        Ok((taken, were_lost)) => {
            for (index, named) in taken.iter().enumerate() {
                // SAFETY: there is room for as many, says the caller, and no more were asked for. C promises no more alignment than its own.
                unsafe { names.add(index).write_unaligned(named.into()) };
            }
            if !lost.is_null() {
                // SAFETY: room for a number, says the caller.
                unsafe { lost.write_unaligned(were_lost) };
            }
            // reason: at most as many as `room`, which is of this type.
            c_int::try_from(taken.len()).expect("as many as there is room for")
        }
        Err(number) => fail(number),
    }
}
