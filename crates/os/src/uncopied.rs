//! Sends whose bytes the kernel reads from where they lie, and the notices that say that it has.
//!
//! Sources: the kernel's Documentation/networking/msg_zerocopy.rst, recvmsg(2) (MSG_ERRQUEUE), connect(2) (AF_UNSPEC).

use crate::options::set_bytes;
use corelane_seam::Fault;
use rustix::net::{SendFlags, Shutdown};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Has a send leave its bytes where they are until a notice of it comes, on a socket that [allows](allow) it. A call that took something counts as one, from 0, modulo 2^32.
pub const UNCOPIED: SendFlags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);

/// Lets a socket send so (SO_ZEROCOPY, socket(7)).
///
/// # Errors
/// `Unsupported` and others for a socket that never does.
pub fn allow(socket: BorrowedFd) -> Result<(), Fault> {
    const SO_ZEROCOPY: i32 = 60;
    set_bytes(socket, libc::SOL_SOCKET, SO_ZEROCOPY, &1_i32.to_ne_bytes())
}

/// The kernel has read what these calls sent, first and last included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The number of the first call.
    pub first: u32,
    /// That of the last.
    pub last: u32,
    /// It has copied their bytes all the same.
    pub is_copied: bool,
}

/// Room for the messages beside a notice: an error with the address that it came from, and what else may come.
const BESIDE_BYTES: usize = 256;

/// The next notice that waits at a socket; none if there is none.
pub fn next_notice(socket: BorrowedFd) -> Option<Notice> {
    loop {
        let mut beside = [MaybeUninit::<u64>::uninit(); BESIDE_BYTES / size_of::<u64>()];
        // SAFETY: all zeros are a message header: no address, no bytes, nothing beside.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_control = beside.as_mut_ptr().cast();
        header.msg_controllen = BESIDE_BYTES;
        // SAFETY: the header names `beside` alone, which has so many bytes and outlives the call.
        let answer = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        match crate::errno::checked(answer) {
            Ok(_) => {}
            Err(libc::EINTR) => continue,
            Err(_) => return None,
        }
        // A Unix socket has no queue of errors, and answers as if it were asked for bytes.
        if header.msg_flags & libc::MSG_ERRQUEUE == 0 {
            return None;
        }
        // What is no notice is an error that nobody asked for: it is taken off the queue.
        if let Some(notice) = notice_in(&header) {
            return Some(notice);
        }
    }
}

/// The notice among the messages of a header that recvmsg(2) has filled.
fn notice_in(header: &libc::msghdr) -> Option<Notice> {
    /// What an error's origin is in a notice (linux/errqueue.h).
    const ORIGIN_ZEROCOPY: u8 = 5;
    /// Its code where bytes were copied.
    const CODE_COPIED: u8 = 1;
    // SAFETY: the kernel has filled the header's messages, and said how long they are.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: it is not null, so it lies whole within the messages.
        let (level, kind, length) = unsafe { ((*message).cmsg_level, (*message).cmsg_type, (*message).cmsg_len) };
        let is_error = matches!((level, kind), (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR));
        // SAFETY: as above; an error is as long as its message says.
        let least = unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32) } as usize;
        if is_error && length >= least {
            // SAFETY: the message is long enough for one, which may lie anywhere.
            let error = unsafe { libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().read_unaligned() };
            if error.ee_errno == 0 && error.ee_origin == ORIGIN_ZEROCOPY {
                return Some(Notice { first: error.ee_info, last: error.ee_data, is_copied: error.ee_code & CODE_COPIED != 0 });
            }
        }
        // SAFETY: as above.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    None
}

/// Ends both ways of a connection, and keeps the socket: notices still come (shutdown(2)). What was sent leaves.
pub fn end(socket: BorrowedFd) {
    // On a connection that is broken already there is nothing left to end.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// Breaks a connection off, and keeps the socket: the peer gets a reset, and what was not sent is dropped, with a notice.
pub fn break_off(socket: BorrowedFd) {
    // One that is broken already has nothing left to break off.
    let _ = rustix::io::retry_on_intr(|| rustix::net::connect_unspec(socket));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pair, wait_for};
    use std::os::fd::AsFd;

    fn send(socket: BorrowedFd, bytes: &[u8]) {
        assert_eq!(rustix::net::send(socket, bytes, UNCOPIED), Ok(bytes.len()));
    }

    #[test]
    fn each_call_is_noticed_once_also_behind_the_end() {
        let (server, client) = pair();
        allow(server.as_fd()).unwrap();
        assert_eq!(next_notice(server.as_fd()), None);
        let mut got = vec![0; 8192];
        let mut noticed = 0;
        for round in 0..3 {
            send(server.as_fd(), &[round; 4096]);
            if round == 1 {
                send(server.as_fd(), &[round; 4096]);
            }
            if round == 2 {
                end(server.as_fd());
            }
            let mut left = if round == 1 { 8192 } else { 4096 };
            while left > 0 {
                wait_for(client.as_fd(), libc::POLLIN);
                left -= rustix::io::read(&client, &mut got[..left]).unwrap();
            }
            let calls = [1, 3, 4][usize::from(round)];
            while noticed < calls {
                wait_for(server.as_fd(), libc::POLLERR);
                while let Some(Notice { first, last, .. }) = next_notice(server.as_fd()) {
                    assert_eq!(first, noticed, "in order, on loopback");
                    noticed = last + 1;
                }
            }
            assert_eq!(noticed, calls);
        }
    }

    /// The queue of errors has no bound of its own for them. The kernel charges for each when it takes the send (`ENOBUFS` there), and joins those of one kind.
    #[test]
    fn notices_that_nobody_reads_are_all_there_however_many() {
        const SENDS: u32 = 2_000;
        let (server, client) = pair();
        allow(server.as_fd()).unwrap();
        // What bounds the errors of other kinds is as little as may be.
        rustix::net::sockopt::set_socket_recv_buffer_size(&server, 1).unwrap();
        let mut got = [0; 512];
        for _ in 0..SENDS {
            send(server.as_fd(), &[7; 512]);
            let mut left = got.len();
            while left > 0 {
                wait_for(client.as_fd(), libc::POLLIN);
                left -= rustix::io::read(&client, &mut got[..left]).unwrap();
            }
        }
        let mut noticed = 0;
        while noticed < SENDS {
            wait_for(server.as_fd(), libc::POLLERR);
            while let Some(Notice { first, last, .. }) = next_notice(server.as_fd()) {
                assert_eq!(first, noticed, "in order, on loopback");
                noticed = last + 1;
            }
        }
        assert_eq!(noticed, SENDS);
    }

    #[test]
    fn what_is_broken_off_is_noticed_though_nobody_has_read_it() {
        let (server, client) = pair();
        allow(server.as_fd()).unwrap();
        let block = vec![7; 1 << 20];
        let mut calls = 0;
        while rustix::net::send(&server, &block, UNCOPIED).is_ok() {
            calls += 1;
        }
        assert!(calls > 0);
        break_off(server.as_fd());
        let mut noticed = 0;
        while noticed < calls {
            wait_for(server.as_fd(), libc::POLLERR);
            while let Some(Notice { first, last, .. }) = next_notice(server.as_fd()) {
                noticed += last - first + 1;
            }
        }
        assert_eq!(noticed, calls);
        wait_for(client.as_fd(), libc::POLLERR);
        assert_eq!(crate::sockets::pending_error(client.as_fd()).unwrap_err().reason, corelane_seam::Reason::Reset);
    }

    #[test]
    fn a_unix_socket_does_not_allow_it() {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(allow(one.as_fd()).is_err());
        drop(other);
        assert_eq!(next_notice(one.as_fd()), None, "there is no queue of errors, and no end of answers");
    }
}
