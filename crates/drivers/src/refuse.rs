//! Refusing new connections while those under way can still be accepted.

use corelane_os::sockets;
use corelane_seam::Fault;
use std::os::fd::BorrowedFd;

const SYN: u32 = 0x02;
const ACK: u32 = 0x10;
/// Where the flags lie in the TCP header (RFC 9293 section 3.1), with which a filter of a TCP socket begins.
const FLAGS_OFFSET: u32 = 13;
const KEEP_ALL: u32 = u32::MAX;
const DROP: u32 = 0;

/// Has a listener take no new connections, while those that wait can still be accepted.
///
/// A Unix socket refuses them, whichever of its duplicates this is. A listener of TCP drops each segment that would begin one: those with
/// SYN and without ACK (a classic filter, SO_ATTACH_FILTER, socket(7)). Handshakes under way end as they would, and without waiting for first
/// bytes. A peer that begins now hears
/// nothing and repeats; it is refused when the listener closes, or reaches another listener of the port.
pub(crate) fn refuse_new(listener: BorrowedFd) -> Result<(), Fault> {
    if sockets::is_unix(listener) {
        sockets::refuse_new(listener);
        return Ok(());
    }
    // One that did not wait for them has nothing to change.
    let _ = sockets::await_first_bytes(listener, false);
    let instruction = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, FLAGS_OFFSET),
        instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, SYN | ACK),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, SYN),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, DROP),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, KEEP_ALL),
    ];
    sockets::attach_filter(listener, libc::SO_ATTACH_FILTER, &mut program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::testing::{connected, listening, wait_for};
    use corelane_seam::StreamOptions;
    use std::os::fd::AsFd;

    fn is_open(socket: BorrowedFd) -> bool {
        const ESTABLISHED: u8 = 1;
        sockets::tcp_state(socket) == Some(ESTABLISHED)
    }

    #[test]
    fn the_queue_can_be_accepted_and_nothing_new_begins() {
        let (listener, address) = listening("127.0.0.1:0", StreamOptions::default());
        let queued: Vec<_> = (0..3).map(|_| connected(&address)).collect();
        refuse_new(listener.as_fd()).unwrap();
        let late = sockets::connecting(&address, None, &StreamOptions::default()).unwrap();
        assert_eq!(sockets::connect(late.as_fd(), &address), Ok(false));
        // A segment on the loopback interface is received within the call that sends it, or before the next one's is.
        let other = listening("127.0.0.1:0", StreamOptions::default());
        let witness = connected(other.1);
        assert!(is_open(witness.as_fd()) && !is_open(late.as_fd()));
        for _ in &queued {
            wait_for(listener.as_fd(), libc::POLLIN);
            assert!(sockets::accept(listener.as_fd()).unwrap().is_some());
        }
        assert!(sockets::accept(listener.as_fd()).unwrap().is_none());
    }
}
