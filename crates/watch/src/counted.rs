//! All that a service counts, written into its row.

use crate::catalogue::ServiceCounter;
use crate::own::OwnCounter;
use crate::page::ServiceRow;

/// What a service counts: a [counter that all services have](ServiceCounter), or [one of its own](OwnCounter).
pub trait Counted: Copy {
    /// Counts `n` more.
    fn add(self, row: &ServiceRow, n: u64);

    /// Sets a gauge.
    fn set(self, row: &ServiceRow, value: u64);
}

impl Counted for ServiceCounter {
    #[inline]
    fn add(self, row: &ServiceRow, n: u64) {
        row.add(self, n);
    }

    #[inline]
    fn set(self, row: &ServiceRow, value: u64) {
        row.set(self, value);
    }
}

impl<C: OwnCounter> Counted for C {
    #[inline]
    fn add(self, row: &ServiceRow, n: u64) {
        row.add_own(self, n);
    }

    #[inline]
    fn set(self, row: &ServiceRow, value: u64) {
        row.set_own(self, value);
    }
}
