//! What a socket keeps of sends whose memory the kernel reads from where it lies.

use super::endpoint::Endpoint;
use crate::notices::Notices;
use corelane_os::{clock, uncopied};
use corelane_seam::slab::Key;
use corelane_seam::{Chain, Completion, Handle, Outcome};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// How often a driver that ends looks whether the kernel has read what it kept.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Chains of a socket whose storage is kept: as many are seldom in flight.
const SPARE_MAX: usize = 8;

/// What a socket keeps of its sends.
#[derive(Default)]
pub(super) struct KeptSends {
    pub(super) notices: Notices,
    pub(super) sends: VecDeque<KeptSend>,
    /// Storage for the next ones.
    pub(super) spare: Vec<Chain>,
    /// The socket never sends so.
    pub(super) is_refused: bool,
}

/// A send that has ended, and is read.
pub(super) struct KeptSend {
    pub(super) handle: Handle,
    /// The number of its last call.
    pub(super) last: u32,
    pub(super) chain: Chain,
}

impl KeptSends {
    /// Takes the notices that wait at the socket, and releases what is read, the oldest first; returns how many calls were copied all the same.
    pub(super) fn take_notices(&mut self, socket: BorrowedFd, completions: &mut Vec<Completion>) -> u64 {
        let mut copied = 0;
        while let Some(notice) = uncopied::next_notice(socket) {
            self.notices.note(notice.first, notice.last);
            if notice.is_copied {
                copied += u64::from(notice.last.wrapping_sub(notice.first)) + 1;
            }
        }
        while let Some(mut read) = self.sends.pop_front_if(|send| self.notices.has_read(send.last)) {
            read.chain.clear();
            self.keep(read.chain);
            completions.push(Completion::last(read.handle, Outcome::Released));
        }
        copied
    }

    /// Waits until the kernel has read all, or the time is over: for a driver that ends.
    pub(super) fn await_notices(&mut self, socket: BorrowedFd, deadline: u64) {
        let mut nobody_hears = Vec::new();
        self.take_notices(socket, &mut nobody_hears);
        while !self.sends.is_empty() && clock::now() < deadline {
            // reason: a socket that was broken off is always ready (POLLHUP, poll(2)), so its readiness cannot be waited for.
            std::thread::sleep(LOOK_AGAIN);
            self.take_notices(socket, &mut nobody_hears);
        }
    }

    /// The kernel still reads what is left: it must never be used again.
    pub(super) fn withhold(self) {
        self.sends.into_iter().for_each(|send| std::mem::forget(send.chain));
    }

    /// Keeps the storage of an empty chain.
    pub(super) fn keep(&mut self, chain: Chain) {
        assert!(chain.is_empty(), "a chain to be kept for reuse holds bytes");
        if self.spare.len() < SPARE_MAX {
            self.spare.push(chain);
        }
    }
}

/// A socket that was closed, and whose sends are not read yet.
pub(super) struct Parted {
    pub(super) key: Key,
    pub(super) endpoint: Endpoint,
    pub(super) kept: KeptSends,
    /// Of the close.
    pub(super) handle: Handle,
    pub(super) is_broken_off: bool,
    /// When it is broken off, or given up.
    pub(super) until: u64,
}
