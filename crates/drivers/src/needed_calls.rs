//! The calls that sockets and files take and for which there is no other way, each made once: what refuses one is found at the start, and not by each client.

use crate::errors::Error;
use corelane_os::errno;
use rustix::fs::{CWD, Dir, MemfdFlags, Mode, OFlags, fcntl_setfl, fstat, memfd_create, openat, sendfile};
use rustix::io::{Errno, pread};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType, acceptfrom_with, recv, send,
    sendmsg, shutdown, socket_with,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

/// The result of a call that was tried.
type Tried = Result<(), Errno>;

/// Tries the calls that serving files takes, whichever driver makes them.
///
/// # Errors
/// [`Error::Refused`] with the first that the system, or a filter of calls around the process, does not allow.
pub fn probe_file_calls() -> Result<(), Error> {
    let file = memfd_create("corelane-probe", MemfdFlags::CLOEXEC).ok();
    let root = openat(CWD, "/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let names = |of: Result<Dir, Errno>| of.map(|mut names| names.read().transpose()).and_then(|first| first.map(drop));
    let mut calls: Vec<(&'static str, Tried)> = vec![("openat", root.as_ref().map(drop).map_err(|error| *error))];
    if let Ok(root) = &root {
        calls.push(("fstat", fstat(root).map(drop)));
        calls.push(("getdents64", names(Dir::read_from(root))));
        calls.push(("fcntl", fcntl_setfl(root, OFlags::empty())));
    }
    if let Some(file) = &file {
        calls.push(("pread64", pread(file, &mut [0_u8; 1], 0).map(drop)));
        calls.push(("sendfile", sendfile(file, file, Some(&mut 0), 0).map(drop)));
    }
    all_allowed(calls)
}

/// Tries the calls by which every driver serves connections and datagrams, on a socket that has no peer.
///
/// # Errors
/// [`Error::Refused`] with the first that the system, or a filter of calls around the process, does not allow.
pub(crate) fn probe_socket_calls() -> Result<(), Error> {
    const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
    let made = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None);
    let socket: OwnedFd = made.map_err(|error| Error::Refused { call: "socket", fault: errno::fault_of(error) })?;
    all_allowed(vec![
        ("accept4", acceptfrom_with(&socket, FLAGS).map(drop)),
        ("recvfrom", recv(&socket, &mut [0_u8; 1], RecvFlags::DONTWAIT).map(drop)),
        ("sendto", send(&socket, &[0], SendFlags::NOSIGNAL).map(drop)),
        ("sendmsg", sendmsg(&socket, &[], &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL).map(drop)),
        ("recvmmsg", receive_no_messages(socket.as_fd())),
        ("sendmmsg", send_no_messages(socket.as_fd())),
        ("shutdown", shutdown(&socket, Shutdown::Write)),
    ])
}

fn receive_no_messages(socket: BorrowedFd<'_>) -> Tried {
    // SAFETY: of no messages the call reads and writes none.
    tried(|| unsafe { libc::recvmmsg(socket.as_raw_fd(), ptr::null_mut(), 0, libc::MSG_DONTWAIT, ptr::null_mut()) } as isize)
}

fn send_no_messages(socket: BorrowedFd<'_>) -> Tried {
    // SAFETY: of no messages the call reads none.
    tried(|| unsafe { libc::sendmmsg(socket.as_raw_fd(), ptr::null_mut(), 0, libc::MSG_NOSIGNAL) } as isize)
}

fn tried(call: impl FnMut() -> isize) -> Tried {
    errno::uninterrupted(call).map(drop).map_err(Errno::from_raw_os_error)
}

/// The first that is not allowed. A call that fails otherwise was made.
fn all_allowed(calls: Vec<(&'static str, Tried)>) -> Result<(), Error> {
    let refused = |(call, tried): (&'static str, Tried)| match tried {
        Err(error @ (Errno::PERM | Errno::NOSYS)) => Some(Error::Refused { call, fault: errno::fault_of(error) }),
        _ => None,
    };
    calls.into_iter().find_map(refused).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_system_allows_all() {
        assert!(probe_file_calls().is_ok() && probe_socket_calls().is_ok());
    }
}
