//! Wakes the thread that writes a journal.
//!
//! It says how it sleeps, and each sleep has its own number, so a lane rings once for it, and writes to no line of memory that another lane reads. Sleep is
//! announced before the rings are looked at once more, and lines are put into them before the announcement is looked at, with a fence between on
//! both sides: so at least one of them sees the other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// In the two lowest bits of a number: how the thread sleeps.
const KINDS: u64 = 0b11;
const AWAKE: u64 = 0;
/// It wakes by itself soon: it is woken only for a ring that is half full.
const NAPS: u64 = 1;
/// Any line wakes it.
const SLEEPS: u64 = 2;

pub(super) struct Bell {
    state: AtomicU64,
    thread: OnceLock<Thread>,
}

impl Bell {
    pub fn new() -> Self {
        Self { state: AtomicU64::new(AWAKE), thread: OnceLock::new() }
    }

    /// The calling thread is the one to be woken, from now on and alone.
    pub fn hang(&self) {
        let hung = self.thread.set(thread::current());
        assert!(hung.is_ok(), "one thread writes a journal");
    }

    /// Wakes it however it sleeps; what is asked of it was said before.
    pub fn ring(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Wakes it if it sleeps, or naps and a ring is half full, unless this was `rung` for that sleep before.
    pub fn ring_for(&self, rung: &mut u64, is_half_full: impl FnOnce() -> bool) {
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        let is_due = match state & KINDS {
            SLEEPS => state != *rung,
            NAPS => state != *rung && is_half_full(),
            _ => false,
        };
        if is_due {
            *rung = state;
            self.ring();
        }
    }

    /// Sleeps for so long, or until somebody rings.
    pub fn nap(&self, time: Duration) {
        self.announce(NAPS);
        thread::park_timeout(time);
        self.announce(AWAKE);
    }

    /// Sleeps until somebody rings, unless there is work.
    pub fn sleep(&self, has_work: impl FnOnce() -> bool) {
        self.announce(SLEEPS);
        if !has_work() {
            thread::park();
        }
        self.announce(AWAKE);
    }

    fn announce(&self, kind: u64) {
        let number = (self.state.load(Ordering::Relaxed) & !KINDS) + KINDS + 1;
        self.state.store(number | kind, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}
