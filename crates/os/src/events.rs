//! What a queue of events asks the system: readiness of descriptors that others own, alarms, changes of files, signals, processes.
//!
//! Descriptors are named by number here: a program registers what it owns, may close it at any time, and the queue must not keep it open.
//! Whoever uses a number finds out itself whether it still means the same file ([`descriptor::Identity`]).

pub mod alarm;
pub mod changes;
pub mod connector;
pub mod descriptor;
pub mod helper;
pub mod home;
pub mod moving;
pub mod polling;
pub mod process;
pub mod signals;

use std::os::fd::{BorrowedFd, RawFd};

/// Error numbers that a queue gives to its callers (errno(3)).
pub mod number {
    pub use libc::{EAGAIN, EBUSY, ECANCELED, ENOTSOCK};
    pub use libc::{
        EBADF, EEXIST, EFAULT, EINTR, EINVAL, EIO, ELOOP, EMFILE, ENOENT, ENOMEM, ENOSPC, ENOSYS, ENOTDIR, ENOTSUP, EOVERFLOW,
        EPERM, ESRCH,
    };
    pub use libc::{ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EINPROGRESS, ETIMEDOUT};
}

/// A descriptor by number, for the length of one call: whoever owns it may close it meanwhile, and then the call says EBADF, or speaks of what
/// took its place.
fn borrowed<'a>(number: RawFd) -> Result<BorrowedFd<'a>, i32> {
    if number < 0 {
        return Err(libc::EBADF);
    }
    // SAFETY: it is not -1, and it is used for one system call, which checks the number itself; nothing in memory hangs on it.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}
