//! How a function of C fails.
//!
//! Holds a marked cell: errno.
#![allow(unsafe_code)]

use std::ffi::c_int;

/// What C gets for an error.
pub(crate) fn fail(number: i32) -> c_int {
    assert!(number > 0, "an error has a number");
    // SAFETY: the location is this thread's own.
    unsafe { *libc::__errno_location() = number };
    -1
}
