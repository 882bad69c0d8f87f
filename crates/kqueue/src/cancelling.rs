//! Threads that are cancelled (pthread_cancel(3)).
//!
//! The C library ends a cancelled thread at its next call that may wait, by unwinding its stack. Our functions make such calls on the way (files, random numbers),
//! and hold locks at some: none of them is a place where a thread may end.
//!
//! Holds a marked cell: C's functions.
#![allow(unsafe_code)]

use std::ffi::c_int;

/// PTHREAD_CANCEL_DISABLE, the same for every C library of Linux.
const DISABLED: c_int = 1;

unsafe extern "C" {
    /// pthread_setcancelstate(3), which touches the calling thread alone, and not errno.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Makes a call in which the thread is not cancelled: it is at its next one of the C library.
pub(crate) fn uncancelled<T>(call: impl FnOnce() -> T) -> T {
    let mut before = DISABLED;
    // SAFETY: the place is ours; it cannot fail with this state.
    unsafe { pthread_setcancelstate(DISABLED, &raw mut before) };
    let answer = call();
    // SAFETY: as above, with what it was before.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
    answer
}
