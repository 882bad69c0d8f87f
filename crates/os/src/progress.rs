//! How far a connection over TCP has come with what it was given.
//!
//! Sources: tcp(7) (TCP_INFO, SIOCOUTQ), RFC 4898 (tcpEStatsAppHCThruOctetsAcked).

use crate::sockets;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Where `tcpi_bytes_acked` and `tcpi_bytes_received` stand in what TCP_INFO tells.
const ACKED_AT: usize = 120;
const RECEIVED_AT: usize = 128;
/// So often both numbers are asked for until they are of one moment.
const TRIES: usize = 8;

/// Bytes of a connection's stream to its peer, both counted from the same place: a few before its first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Given to the system, by whomever.
    pub given: u64,
    /// Of them, those that the peer has taken.
    pub taken: u64,
}

/// How far it has come. None of other sockets, and where acknowledgements come so fast that the two numbers are never of one moment. Costs three system calls.
pub fn of(socket: BorrowedFd) -> Option<Progress> {
    let mut taken = told(socket, ACKED_AT)?;
    for _ in 0..TRIES {
        let under_way = sockets::unsent_bytes(socket)? as u64;
        let after = told(socket, ACKED_AT)?;
        if after == taken {
            return Some(Progress { given: taken + under_way, taken });
        }
        taken = after;
    }
    None
}

/// Bytes of its peer's stream that a connection has taken in, each once, however often it came; the end counts as one. None of other sockets.
pub fn arrived(socket: BorrowedFd) -> Option<u64> {
    told(socket, RECEIVED_AT)
}

fn told(socket: BorrowedFd, at: usize) -> Option<u64> {
    let mut info = [0_u8; RECEIVED_AT + 8];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` has `length` writable bytes, the first of what the system tells, and `length` is writable itself; the call writes no more than that.
    let answer = unsafe {
        let value = info.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_TCP, libc::TCP_INFO, value, &mut length)
    };
    let is_whole = answer == 0 && length as usize == info.len();
    info[at..].first_chunk().filter(|_| is_whole).map(|bytes| u64::from_ne_bytes(*bytes))
}

/// Whether a connection over TCP is no more: it was broken off, or both ends have been passed and noted. So is every other socket.
pub fn has_ended(socket: BorrowedFd) -> bool {
    const CLOSE: u8 = 7;
    sockets::tcp_state(socket).is_none_or(|state| state == CLOSE)
}

/// Bytes that a socket's send buffer may take, with what the system needs beside them (SO_SNDBUF, socket(7)); 0 where nobody tells.
pub fn send_buffer_bytes(socket: BorrowedFd) -> usize {
    rustix::net::sockopt::socket_send_buffer_size(socket).unwrap_or(0)
}
