//! Options of sockets that the library has no name for.

use crate::errno;
use corelane_seam::Fault;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option of a socket, as the bytes that it is given by (setsockopt(2)).
///
/// # Errors
/// What the system says.
pub fn set_bytes(socket: BorrowedFd, level: i32, option: i32, value: &[u8]) -> Result<(), Fault> {
    let length = value.len() as libc::socklen_t;
    // SAFETY: `value` has `length` readable bytes.
    let answer = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), length) };
    errno::checked(answer as isize).map(drop).map_err(errno::fault)
}
