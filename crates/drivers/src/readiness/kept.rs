//! What a socket keeps of sends whose memory the kernel reads from where it lies.

use super::endpoint::Endpoint;
use crate::means::{Own, Ways};
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

/// Whether a socket sends so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody has asked it.
    #[default]
    Unasked,
    Allowed,
    /// It never does.
    Refused,
}

/// What a socket keeps of its sends.
#[derive(Default)]
pub(super) struct KeptSends {
    pub(super) notices: Notices,
    pub(super) sends: VecDeque<KeptSend>,
    /// Storage for the next ones.
    pub(super) spare: Vec<Chain>,
    pub(super) standing: Standing,
    /// What was seen of its uncopied sends.
    pub(super) own: Own,
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
    pub(super) fn take_notices(&mut self, socket: BorrowedFd, ways: &mut Ways, completions: &mut Vec<Completion>) -> u64 {
        let mut copied = 0;
        while let Some(notice) = uncopied::next_notice(socket) {
            self.notices.note(notice.first, notice.last);
            ways.note(&mut self.own, notice.is_copied, clock::now);
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
        let (mut nobody_hears, mut nobody_asks) = (Vec::new(), Ways::default());
        self.take_notices(socket, &mut nobody_asks, &mut nobody_hears);
        while !self.sends.is_empty() && clock::now() < deadline {
            // reason: a socket that was broken off is always ready (POLLHUP, poll(2)), so its readiness cannot be waited for.
            std::thread::sleep(LOOK_AGAIN);
            self.take_notices(socket, &mut nobody_asks, &mut nobody_hears);
        }
    }

    /// The kernel still reads what is left: nobody writes to it again. Returns how many bytes that is, and how many of them are used again.
    pub(super) fn withhold(self) -> (usize, usize) {
        let each = self.sends.into_iter().map(|send| send.chain.withhold());
        each.fold((0, 0), |(bytes, renewed), (more, of_them)| (bytes + more, renewed + of_them))
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
