//! The time that sections have, and how much of the CPUs' they have taken, and of the memory.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a section may run, and what its programs have taken of CPU time and memory.
pub struct Share {
    until: Instant,
    spent: Cell<Duration>,
    taken: Cell<u64>,
}

impl Share {
    /// So many seconds from now on.
    pub fn new(seconds: u64) -> Self {
        Self::until(Instant::now() + Duration::from_secs(seconds))
    }

    /// Until then.
    pub fn until(until: Instant) -> Self {
        Self { until, spent: Cell::default(), taken: Cell::default() }
    }

    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// A program has taken so much CPU time.
    pub fn spend(&self, cpu: Duration) {
        self.spent.set(self.spent.get() + cpu);
    }

    /// What CPU time its programs have taken.
    pub fn spent(&self) -> Duration {
        self.spent.get()
    }

    /// A program has so many bytes of memory.
    pub fn take(&self, bytes: u64) {
        self.taken.set(self.taken.get().max(bytes));
    }

    /// The bytes of memory of the largest of its programs.
    pub fn taken(&self) -> u64 {
        self.taken.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_leaves_nothing() {
        assert!(Share::new(0).left().is_zero());
        assert!(Share::until(Instant::now() + Duration::from_secs(60)).left() > Duration::from_secs(30));
    }

    #[test]
    fn each_section_counts_its_own_cpu_time() {
        let first = Share::new(0);
        (1..=2).for_each(|seconds| first.spend(Duration::from_secs(seconds)));
        assert_eq!((first.spent(), Share::until(first.until).spent()), (Duration::from_secs(3), Duration::ZERO));
    }

    #[test]
    fn each_section_knows_its_largest_program() {
        let first = Share::new(0);
        [5, 7, 6].into_iter().for_each(|bytes| first.take(bytes));
        assert_eq!(first.taken(), 7);
    }
}
