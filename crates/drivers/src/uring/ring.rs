//! The two queues of io_uring(7): what is submitted, what comes back, and the one call that moves both.

use super::refusal;
use crate::errors::Error;
use crate::readiness::source::Pause;
use corelane_os::errno;
use io_uring::register::Restriction;
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue, types};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Entries that one call submits.
const SUBMISSIONS: u32 = 128;
/// Completions that the kernel can post before they are taken; more it keeps to itself meanwhile (IORING_FEAT_NODROP), at
/// the price that watching ends and must be taken up again. From this number on the kernel gives the table in which it
/// finds what is to be ended its full size: with a quarter of it, to close one of 10,000 connections took 10 us more.
/// Together the queues take about 136 KiB.
pub(super) const COMPLETIONS: u32 = 8192;

/// What a ring is asked for, and nothing else ever: filters of system calls do not see what a ring does.
const OPERATIONS: [u8; 7] = [
    opcode::AsyncCancel::CODE,
    opcode::Close::CODE,
    opcode::Fsync::CODE,
    opcode::Nop::CODE,
    opcode::PollAdd::CODE,
    opcode::Read::CODE,
    opcode::Write::CODE,
];

/// A ring. Lives on the thread that made it.
pub(super) struct Ring {
    ring: IoUring,
    /// Those that found no place in the submission queue yet; bounded by what is under way.
    waiting: VecDeque<squeue::Entry>,
    /// Entries that the kernel took and whose last completion was not taken.
    under_way: usize,
    flags: EnterFlags,
}

impl Ring {
    /// Makes a ring, and enters it once: a filter may allow the one and not the other. `no_iowait` has the kernel not
    /// show the wait as one for a disk (6.15, see [`no_iowait`]). What would have to wait is done by `threads` of
    /// the kernel at the most, of each of its two kinds.
    ///
    /// # Errors
    /// Why the system refuses it.
    pub(super) fn new(no_iowait: bool, threads: usize) -> Result<Self, Error> {
        Self::with_queues(SUBMISSIONS, COMPLETIONS, threads, no_iowait)
    }

    /// The flags are those of kernel 6.1 that pay: completions are made on this thread, when it asks for them. Without
    /// them, an echo costs twice as much; registered files and ring descriptors, or a queue without its array, changed
    /// nothing that could be measured.
    pub(super) fn with_queues(submissions: u32, completions: u32, threads: usize, no_iowait: bool) -> Result<Self, Error> {
        let ring = IoUring::builder()
            .setup_cqsize(completions)
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_r_disabled()
            .build(submissions)
            .map_err(|error| refusal::of("io_uring_setup", errno::of(&error)))?;
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        // tidy: allow(worker) the name that the kernel gives its threads
        let bounded = ring.submitter().register_iowq_max_workers(&mut [threads; 2]);
        bounded.and_then(|()| restrict(&ring)).map_err(|error| refusal::of("io_uring_register", errno::of(&error)))?;
        let flags = if no_iowait { EnterFlags::GETEVENTS | EnterFlags::NO_IOWAIT } else { EnterFlags::GETEVENTS };
        let mut ring = Self { ring, waiting: VecDeque::new(), under_way: 0, flags };
        ring.call(Pause::Nanoseconds(0)).map_err(|number| refusal::of("io_uring_enter", number))?;
        Ok(ring)
    }

    /// Queues an entry, to be submitted by the next [`Ring::enter`].
    ///
    /// # Safety
    /// Memory that the entry names must stay until its last completion was taken, or [`Ring::under_way`] is 0. If the
    /// kernel writes to it, nobody else may touch it; if it reads, nobody may write.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry) {
        self.waiting.push_back(entry);
    }

    /// Whether something was queued since it was last submitted.
    pub(super) fn has_queued(&mut self) -> bool {
        !self.waiting.is_empty() || !self.ring.submission().is_empty()
    }

    /// Entries whose last completion is still to be taken, submitted or not.
    pub(super) fn under_way(&mut self) -> usize {
        self.under_way + self.waiting.len() + self.ring.submission().len()
    }

    /// Submits what is queued, lets the kernel make the completions that it can, and waits for one as long as `pause`
    /// says. Returns how many calls it took. If the kernel lacks memory for an entry, it stays queued.
    ///
    /// # Errors
    /// `EINTR` if a signal ended the wait.
    pub(super) fn enter(&mut self, pause: Pause) -> Result<u64, i32> {
        let mut calls = 0;
        loop {
            self.fill();
            let last = self.waiting.is_empty();
            calls += 1;
            match self.call(if last { pause } else { Pause::Nanoseconds(0) }) {
                Ok(_) if !last => {}
                Ok(_) | Err(libc::ETIME | libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => return Ok(calls),
                Err(number) => return Err(number),
            }
        }
    }

    /// Gives each completion to `take`: user data, result, and whether it is the last of its entry. Returns how many.
    pub(super) fn take(&mut self, mut take: impl FnMut(u64, i32, bool)) -> usize {
        let mut taken = 0;
        for completion in self.ring.completion() {
            let last = !cqueue::more(completion.flags());
            if last {
                assert!(self.under_way > 0, "an entry has one last completion");
                self.under_way -= 1;
            }
            taken += 1;
            take(completion.user_data(), completion.result(), last);
        }
        taken
    }

    /// Whether the kernel keeps completions for which there was no place: the next [`Ring::enter`] brings them.
    pub(super) fn has_overflown(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    fn fill(&mut self) {
        let mut submission = self.ring.submission();
        while !submission.is_full() {
            let Some(entry) = self.waiting.pop_front() else { break };
            // SAFETY: whoever queued the entry promised that its memory stays.
            let pushed = unsafe { submission.push(&entry) };
            assert!(pushed.is_ok(), "there is a place");
        }
    }

    /// One call. Only the completions that are there already, or come within the pause, end it.
    fn call(&mut self, pause: Pause) -> Result<usize, i32> {
        let queued = self.ring.submission().len() as u32;
        let least = u32::from(pause != Pause::Nanoseconds(0));
        let submitter = self.ring.submitter();
        let answer = if let Pause::Nanoseconds(nanoseconds @ 1..) = pause {
            let time = types::Timespec::from(Duration::from_nanos(nanoseconds));
            let arguments = types::SubmitArgs::new().timespec(&time);
            let flags = self.flags | EnterFlags::EXT_ARG;
            // SAFETY: the argument is what EXT_ARG says, and outlives the call, as the time in it does.
            unsafe { submitter.enter(queued, least, flags.bits(), Some(&arguments)) }
        } else {
            // SAFETY: no argument is given.
            unsafe { submitter.enter::<libc::sigset_t>(queued, least, self.flags.bits(), None) }
        };
        let submitted = answer.map_err(|error| errno::of(&error))?;
        assert!(submitted <= queued as usize);
        self.under_way += submitted;
        Ok(submitted)
    }
}

/// Has a ring do [`OPERATIONS`] alone, with no flag and no further registration, and begin. Whoever brings other code to this thread is refused
/// the rest (EACCES), for as long as the ring is there.
fn restrict(ring: &IoUring) -> io::Result<()> {
    let submitter = ring.submitter();
    submitter.register_restrictions(&mut OPERATIONS.map(Restriction::sqe_op))?;
    submitter.register_enable_rings()
}

/// Enters a ring with the flag that keeps a waiting thread out of the machine's iowait (`IORING_ENTER_NO_IOWAIT` of
/// io_uring_enter(2), kernel 6.15).
///
/// # Errors
/// Why it does not work.
pub(super) fn no_iowait() -> Result<(), Error> {
    Ring::with_queues(1, 2, 2, true).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn no_operation(data: u64) -> squeue::Entry {
        opcode::Nop::new().build().user_data(data)
    }

    /// More entries than either queue holds all come back, each once, and none is forgotten in the kernel.
    #[test]
    fn queues_that_are_full_lose_nothing() {
        let mut ring = Ring::with_queues(2, 4, 2, false).unwrap();
        for data in 0..100 {
            // SAFETY: the entry names no memory.
            unsafe { ring.push(no_operation(data)) };
        }
        assert!(ring.has_queued() && ring.under_way() == 100);
        let (mut seen, mut overflows) = (Vec::new(), 0);
        while ring.under_way() > 0 {
            ring.enter(Pause::Nanoseconds(0)).unwrap();
            overflows += usize::from(ring.has_overflown());
            ring.take(|data, result, last| {
                assert!(result == 0 && last);
                seen.push(data);
            });
        }
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert!(overflows > 0, "the case was not reached");
        assert!(!ring.has_queued());
    }

    /// What a ring is not for it refuses, by itself: a socket, which filters of socket(2) would not see it make; and to have its restrictions lifted.
    #[test]
    fn what_a_ring_is_not_for_is_refused_and_it_goes_on() {
        let mut ring = Ring::new(false, 2).unwrap();
        let socket = opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build().user_data(1);
        let flagged = no_operation(2).flags(squeue::Flags::ASYNC);
        for (data, entry) in [(1, socket), (2, flagged), (3, no_operation(3))] {
            // SAFETY: no entry names memory.
            unsafe { ring.push(entry) };
            ring.enter(Pause::Endless).unwrap();
            let expected = if data == 3 { 0 } else { -libc::EACCES };
            assert_eq!(ring.take(|told, result, last| assert_eq!((told, result, last), (data, expected, true))), 1);
        }
        let submitter = ring.ring.submitter();
        let lifted = submitter.register_restrictions(&mut [Restriction::sqe_op(opcode::Socket::CODE)]);
        assert!(lifted.is_err() && submitter.register_files(&[]).is_err(), "what it may is settled");
    }

    #[test]
    fn a_pause_ends_with_a_completion_or_at_its_time_and_not_before() {
        let mut ring = Ring::new(no_iowait().is_ok(), 2).unwrap();
        let begin = corelane_os::clock::now();
        assert_eq!(ring.enter(Pause::Nanoseconds(1_100_000)), Ok(1));
        assert!(corelane_os::clock::now() - begin >= 1_100_000);
        // SAFETY: the entry names no memory.
        unsafe { ring.push(no_operation(7)) };
        assert_eq!(ring.enter(Pause::Endless), Ok(1));
        assert_eq!(ring.take(|data, _, _| assert_eq!(data, 7)), 1);
    }

    #[test]
    fn an_entry_may_have_several_completions_and_one_last() {
        let (read, write) = std::io::pipe().unwrap();
        let mut ring = Ring::new(false, 2).unwrap();
        let poll = opcode::PollAdd::new(types::Fd(read.as_raw_fd()), libc::POLLIN as u32).multi(true).build().user_data(1);
        // SAFETY: the entry names no memory.
        unsafe { ring.push(poll) };
        for _ in 0..3 {
            std::io::Write::write_all(&mut &write, b"x").unwrap();
            ring.enter(Pause::Endless).unwrap();
            assert_eq!(ring.take(|data, events, last| assert_eq!((data, events, last), (1, libc::POLLIN.into(), false))), 1);
        }
        // SAFETY: the entry names no memory.
        unsafe { ring.push(opcode::AsyncCancel::new(1).build().user_data(2)) };
        let mut ended = Vec::new();
        while ring.under_way() > 0 {
            ring.enter(Pause::Endless).unwrap();
            ring.take(|data, result, last| ended.push((data, result, last)));
        }
        ended.sort_unstable();
        assert_eq!(ended, [(1, -libc::ECANCELED, true), (2, 0, true)]);
    }
}
