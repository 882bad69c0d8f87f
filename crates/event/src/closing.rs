//! How often each descriptor's number was closed, and whether anybody wants to know: what makes an interest end with its open file.
//!
//! Reading and counting are single atomic operations on memory that is there already, so a close may be told in a signal handler, or
//! between fork(2) and execve(2), where only the process that made the queues counts.

use corelane_os::events::home;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Numbers in one part of the table, and parts: 1,048,576 numbers, the most that a process has by default (fs.nr_open, proc(5)).
const PART: usize = 1024;
const PARTS: usize = 1024;

#[derive(Default)]
struct DescriptorCounts {
    closes: AtomicU32,
    watchers: AtomicU32,
}

type Part = OnceLock<Box<[DescriptorCounts]>>;

static TABLE: [Part; PARTS] = [const { Part::new() }; PARTS];

/// The entry of a number; none where it is beyond the table, or nobody ever watched one nearby.
fn entry(number: RawFd) -> Option<&'static DescriptorCounts> {
    let number = usize::try_from(number).ok()?;
    Some(&TABLE.get(number / PART)?.get()?[number % PART])
}

/// What somebody who wants to know of closes of a number has seen of them.
#[derive(Clone, Copy)]
pub struct Watch {
    /// None where closes are found by identity alone.
    counts: Option<&'static DescriptorCounts>,
    closes: u32,
}

impl Watch {
    /// Of a descriptor of our own, which nobody else closes.
    pub const NONE: Self = Self { counts: None, closes: 0 };

    /// Whether the number was closed since this was made.
    pub fn is_closed(&self) -> bool {
        self.counts.is_some_and(|counts| counts.closes.load(Ordering::Acquire) != self.closes)
    }
}

/// Someone wants to know of closes of `number` from now on.
pub fn watch(number: RawFd) -> Watch {
    let part = usize::try_from(number).ok().and_then(|number| TABLE.get(number / PART));
    // What lies beyond the table is not counted.
    let Some(part) = part else { return Watch::NONE };
    let entries = part.get_or_init(|| (0..PART).map(|_| DescriptorCounts::default()).collect());
    let counts = &entries[number as usize % PART];
    counts.watchers.fetch_add(1, Ordering::AcqRel);
    Watch { counts: Some(counts), closes: counts.closes.load(Ordering::Acquire) }
}

/// One less wants to know.
pub fn unwatch(number: RawFd) {
    if let Some(entry) = entry(number) {
        let before = entry.watchers.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "who watches no more has watched");
    }
}

/// The process whose closes are counted: a child of vfork(2) has its parent's memory and other descriptors.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether every close by the C library is told before it happens.
static ALL_TOLD: AtomicBool = AtomicBool::new(false);

/// Whoever calls this tells of closes from now on.
pub fn promise() {
    ALL_TOLD.store(true, Ordering::Release);
}

/// Whether closes are told.
pub fn are_told() -> bool {
    ALL_TOLD.load(Ordering::Acquire)
}

/// From now on closes in the calling process are counted.
pub fn begin() {
    PROCESS.store(home::process(), Ordering::Release);
}

/// Whether anybody wants to know of closes of `number`.
#[cfg(test)]
pub fn is_watched(number: RawFd) -> bool {
    entry(number).is_some_and(|entry| entry.watchers.load(Ordering::Acquire) > 0)
}

/// `number` is about to be closed. Returns whether anybody wanted to know.
pub fn count(number: RawFd) -> bool {
    let Some(entry) = entry(number) else { return false };
    if entry.watchers.load(Ordering::Acquire) == 0 || PROCESS.load(Ordering::Acquire) != home::process() {
        return false;
    }
    entry.closes.fetch_add(1, Ordering::AcqRel);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_are_counted_while_somebody_watches() {
        const NUMBER: RawFd = 700_123;
        begin();
        assert!(!count(NUMBER));
        let (first, second) = (watch(NUMBER), watch(NUMBER));
        assert!(!first.is_closed() && count(NUMBER));
        let third = watch(NUMBER);
        assert!(first.is_closed() && second.is_closed() && !third.is_closed());
        unwatch(NUMBER);
        assert!(count(NUMBER) && third.is_closed(), "one that is left is enough");
        unwatch(NUMBER);
        unwatch(NUMBER);
        let fourth = watch(NUMBER);
        unwatch(NUMBER);
        assert!(!count(NUMBER) && !fourth.is_closed(), "nobody wants to know");
    }

    #[test]
    fn numbers_beyond_the_table_are_counted_never() {
        let beyond = (PART * PARTS) as RawFd;
        for number in [beyond, RawFd::MAX, -1, RawFd::MIN] {
            assert!(!watch(number).is_closed() && !count(number));
            unwatch(number);
        }
    }
}
