//! Signals of the process, read once and counted for every queue.

use corelane_os::events::polling::Bell;
use corelane_os::events::signals::{self, SIGNALS, SignalFd};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;

use crate::per_process::PerProcess;

/// How often each signal has come since the first interest in any.
pub type Counts = [u64; SIGNALS];

struct SignalBook {
    signals: Option<SignalFd>,
    counts: Counts,
    /// Interests of all queues in each signal, and the thread that did not block it before the first.
    uses: [(usize, Option<ThreadId>); SIGNALS],
    /// Who wants to know.
    bells: Vec<Weak<Bell>>,
}

/// A child of fork(2) reads its signals from a descriptor of its own: one that it shared with its parent would ask for the same signals in both.
static SHARED: PerProcess<Mutex<SignalBook>> = PerProcess::new(Mutex::new(SignalBook::new()), || Mutex::new(SignalBook::new()));

fn shared() -> MutexGuard<'static, SignalBook> {
    // What is behind it is whole between any two statements.
    SHARED.mine().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts `signal` for one interest more, and blocks it in the calling thread. Returns its count so far.
pub fn watch(signal: i32) -> Result<u64, i32> {
    let mut shared = shared();
    let signals = match shared.signals.take() {
        Some(signals) => signals,
        None => SignalFd::new()?,
    };
    let signals = shared.signals.insert(signals);
    let newly = signals.add(signal)?;
    let (interests, thread) = &mut shared.uses[signal as usize];
    *interests += 1;
    if newly {
        *thread = Some(std::thread::current().id());
    }
    Ok(shared.counts[signal as usize])
}

/// One interest in `signal` has ended. With the last interest the signal is no longer counted, and what waits of it is dropped. If this is the thread that
/// blocked the signal only for us, it unblocks it.
pub fn leave(signal: usize) {
    let mut shared = shared();
    let (interests, thread) = &mut shared.uses[signal];
    assert!(*interests > 0, "who leaves was counted");
    *interests -= 1;
    if *interests > 0 {
        return;
    }
    let blocked = thread.take_if(|thread| *thread == std::thread::current().id()).is_some();
    // A queue may end long after the program has closed all numbers, and opened files of its own under them.
    if shared.signals.as_ref().is_some_and(SignalFd::is_open) {
        shared.read();
    }
    if let Some(signals) = &mut shared.signals {
        signals.remove(signal as i32);
    }
    if blocked {
        signals::unblock(signal as i32);
    }
}

impl SignalBook {
    const fn new() -> Self {
        Self { signals: None, counts: [0; SIGNALS], uses: [(0, None); SIGNALS], bells: Vec::new() }
    }

    /// Reads what has come, and rings everybody's bell if that was something.
    fn read(&mut self) {
        let before = self.counts;
        if let Some(signals) = &self.signals {
            signals.read(|signal| self.counts[signal] += 1);
        }
        if before != self.counts {
            self.bells.iter().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
        }
    }
}

/// Rings `bell` when signals were read.
pub fn call(bell: &Arc<Bell>) {
    let mut shared = shared();
    shared.bells.retain(|bell| bell.strong_count() > 0);
    shared.bells.push(Arc::downgrade(bell));
}

/// The descriptor that signals are read from.
pub fn number() -> RawFd {
    let shared = shared();
    // reason: asked by a queue with an interest, whose registration has made it.
    shared.signals.as_ref().expect("signals are read once one is watched").number()
}

/// Reads what has come, rings everybody's bell if that was something, and returns the counts.
pub fn gather() -> Counts {
    let mut shared = shared();
    shared.read();
    shared.counts
}
