//! Signals of the process, read once and counted for every queue.

use corelane_os::events::polling::Bell;
use corelane_os::events::signals::{SIGNALS, Signals};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How often each signal has come since the first interest in any.
pub type Counts = [u64; SIGNALS];

struct Shared {
    signals: Option<Signals>,
    counts: Counts,
    /// Who wants to know.
    bells: Vec<Weak<Bell>>,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { signals: None, counts: [0; SIGNALS], bells: Vec::new() });

fn shared() -> MutexGuard<'static, Shared> {
    // What is behind it is whole between any two statements.
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts `signal` from now on, and blocks it in the calling thread. Returns its count so far.
pub fn watch(signal: i32) -> Result<u64, i32> {
    let mut shared = shared();
    let signals = match shared.signals.take() {
        Some(signals) => signals,
        None => Signals::new()?,
    };
    let signals = shared.signals.insert(signals);
    signals.add(signal)?;
    Ok(shared.counts[signal as usize])
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
    let mut counts = shared.counts;
    if let Some(signals) = &shared.signals {
        signals.read(|signal| counts[signal] += 1);
    }
    if counts != shared.counts {
        shared.counts = counts;
        shared.bells.iter().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
    }
    counts
}
