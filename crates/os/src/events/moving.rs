//! What operations do with descriptors that others own, by number: nothing here waits for a peer. What is done with files may wait for a disk, and takes
//! descriptors of its own, which stay what they are meanwhile.

use rustix::fs::{Mode, OFlags, fcntl_getfl, fstat};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, sockopt};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::Path;

use super::borrowed;

/// Connections that broke before they were accepted, and are skipped by one call.
const BROKEN_MAX: usize = 64;

fn number(error: Errno) -> i32 {
    error.raw_os_error()
}

/// Bytes that have come are written to the beginning of `place`: how many; 0 at the end of a stream (recv(2)).
///
/// # Errors
/// EAGAIN where nothing has come; what the connection ended with.
pub fn receive(socket: RawFd, place: &mut [u8]) -> Result<usize, i32> {
    let socket = borrowed(socket)?;
    retry_on_intr(|| rustix::net::recv(socket, &mut *place, RecvFlags::DONTWAIT)).map(|(bytes, _)| bytes).map_err(number)
}

/// Sends from the beginning of `bytes`: how many (send(2)).
///
/// # Errors
/// EAGAIN where there is no room; EPIPE and what else the connection ended with. No signal is sent.
pub fn send(socket: RawFd, bytes: &[u8]) -> Result<usize, i32> {
    let socket = borrowed(socket)?;
    retry_on_intr(|| rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)).map_err(number)
}

/// A connection that has come to a listener that does not block: itself not blocking, closed by execve(2) (accept4(2)).
///
/// # Errors
/// EAGAIN where none has come; EMFILE and what else the system says.
pub fn accept(listener: RawFd) -> Result<OwnedFd, i32> {
    let listener = borrowed(listener)?;
    for _ in 0..BROKEN_MAX {
        match retry_on_intr(|| rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)) {
            Err(Errno::CONNABORTED) => {}
            answer => return answer.map_err(number),
        }
    }
    Err(libc::EAGAIN)
}

/// Begins to connect a socket that does not block to an address as the system has it (connect(2)).
///
/// # Errors
/// EINPROGRESS where that goes on; else why it cannot be.
pub fn connect(socket: RawFd, address: &[u8]) -> Result<(), i32> {
    let length = libc::socklen_t::try_from(address.len()).map_err(|_| libc::EINVAL)?;
    // SAFETY: the call reads `length` bytes, which are there.
    let answer = unsafe { libc::connect(socket, address.as_ptr().cast(), length) };
    match crate::errno::checked(answer as isize) {
        // It goes on where a signal interrupted it.
        Err(libc::EINTR) => Err(libc::EINPROGRESS),
        answer => answer.map(|_| ()),
    }
}

/// `address` as the system has it.
pub fn address_bytes(address: &SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(address) => [&(libc::AF_INET as u16).to_ne_bytes()[..], &port, &address.ip().octets(), &[0; 8]].concat(),
        SocketAddr::V6(address) => [
            &(libc::AF_INET6 as u16).to_ne_bytes()[..],
            &port,
            &address.flowinfo().to_be_bytes(),
            &address.ip().octets(),
            &address.scope_id().to_ne_bytes(),
        ]
        .concat(),
    }
}

/// Takes the error that waits at a socket (SO_ERROR, socket(7)).
///
/// # Errors
/// That error.
pub fn take_error(socket: RawFd) -> Result<(), i32> {
    sockopt::socket_error(borrowed(socket)?).map_err(number)?.map_err(number)
}

/// Whether calls with this descriptor do not wait (O_NONBLOCK).
///
/// # Errors
/// EBADF if it is not open.
pub fn is_nonblocking(descriptor: RawFd) -> Result<bool, i32> {
    Ok(fcntl_getfl(borrowed(descriptor)?).map_err(number)?.contains(OFlags::NONBLOCK))
}

/// Another descriptor of the same open file, closed by execve(2).
///
/// # Errors
/// EBADF; too many descriptors.
pub fn duplicate(descriptor: RawFd) -> Result<OwnedFd, i32> {
    rustix::io::fcntl_dupfd_cloexec(borrowed(descriptor)?, 0).map_err(number)
}

/// Opens a regular file to read it.
///
/// # Errors
/// What open(2) says; EINVAL where it is no regular file.
pub fn open(path: &Path) -> Result<OwnedFd, i32> {
    // Nobody waits for the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty())).map_err(number)?;
    let kind = rustix::fs::FileType::from_raw_mode(fstat(&file).map_err(number)?.st_mode);
    if kind.is_file() { Ok(file) } else { Err(libc::EINVAL) }
}

/// Sends at most `length` bytes of a file from `offset` on to a socket that does not block: how many; 0 at the file's end (sendfile(2)). May wait for the disk.
/// A peer that is gone is told to the calling thread by SIGPIPE, too.
///
/// # Errors
/// EAGAIN where the socket has no room; what either says.
pub fn send_file(socket: &OwnedFd, file: &OwnedFd, offset: u64, length: usize) -> Result<usize, i32> {
    let mut offset = offset;
    retry_on_intr(|| rustix::fs::sendfile(socket, file, Some(&mut offset), length)).map_err(number)
}

/// Reads from `offset` on: how many bytes; 0 at the file's end (pread(2)).
///
/// # Errors
/// What the system says.
pub fn read_at(file: &OwnedFd, place: &mut [u8], offset: u64) -> Result<usize, i32> {
    retry_on_intr(|| rustix::io::pread(file, &mut *place, offset)).map_err(number)
}

/// Writes from `offset` on: how many bytes (pwrite(2)).
///
/// # Errors
/// What the system says.
pub fn write_at(file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<usize, i32> {
    retry_on_intr(|| rustix::io::pwrite(file, bytes, offset)).map_err(number)
}

/// What was written is on the disk (fsync(2)).
///
/// # Errors
/// What the system says.
pub fn sync(file: &OwnedFd) -> Result<(), i32> {
    retry_on_intr(|| rustix::fs::fsync(file.as_fd())).map_err(number)
}
