//! What a queue of events asks the system: readiness of descriptors that others own, alarms, changes of files, signals, processes.
//!
//! Descriptors are named by number here: a program registers what it owns, may close it at any time, and the queue must not keep it open.
//! Whoever uses a number finds out itself whether it still means the same file ([`descriptor::Identity`]).

pub mod alarm;
pub mod changes;
pub mod descriptor;
pub mod home;
pub mod polling;
pub mod process;
pub mod signals;

/// Error numbers that a queue gives to its callers (errno(3)).
pub mod number {
    pub use libc::{EBADF, EEXIST, EINTR, EINVAL, EIO, ELOOP, EMFILE, ENOENT, ENOMEM, ENOSYS, ENOTDIR, ENOTSUP, EPERM, ESRCH};
    pub use libc::{ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ETIMEDOUT};
}
