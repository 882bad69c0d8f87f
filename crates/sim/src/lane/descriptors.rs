//! A lane's descriptor table, as a thread has one after unshare(2) with CLONE_FILES: its numbers and its limit are its own.

use corelane_seam::{Fault, Reason};
use std::collections::BTreeSet;

/// The table is full (EMFILE).
pub(crate) const NO_DESCRIPTOR: Fault = Fault { reason: Reason::NoDescriptor, number: 24 };
/// The first number that is free: standard input, output and error come before it.
const FIRST: i32 = 3;

/// Which numbers of a lane are open.
#[derive(Default)]
pub(crate) struct Descriptors {
    /// Numbers that were open once and are not now.
    free: BTreeSet<i32>,
    /// How many numbers were ever open.
    ever: usize,
    /// The most that may be open; none for no limit.
    limit: Option<usize>,
    /// Others fill the table for some time.
    pub(crate) is_filled: bool,
}

impl Descriptors {
    /// Opens the lowest number that is free (open(2)), unless the table is full.
    pub(crate) fn open(&mut self) -> Result<i32, Fault> {
        if self.is_filled || self.limit.is_some_and(|limit| self.count() >= limit) {
            return Err(NO_DESCRIPTOR);
        }
        Ok(self.free.pop_first().unwrap_or_else(|| {
            self.ever += 1;
            FIRST + self.ever as i32 - 1
        }))
    }

    pub(crate) fn close(&mut self, number: i32) {
        let was_ever = (FIRST..FIRST + self.ever as i32).contains(&number);
        assert!(was_ever && self.free.insert(number), "descriptor {number} is closed and was not open");
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.ever - self.free.len()
    }

    /// What is open above the limit stays open.
    pub(crate) fn limit(&mut self, most: usize) {
        self.limit = Some(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_opened_up_to_the_limit() {
        let mut table = Descriptors::default();
        table.limit(3);
        assert_eq!([(); 4].map(|()| table.open()), [Ok(3), Ok(4), Ok(5), Err(NO_DESCRIPTOR)]);
        table.close(4);
        table.close(3);
        assert_eq!((table.count(), table.open(), table.open(), table.open()), (1, Ok(3), Ok(4), Err(NO_DESCRIPTOR)));
        table.is_filled = true;
        table.close(5);
        assert_eq!((table.open(), table.count()), (Err(NO_DESCRIPTOR), 2));
    }

    #[test]
    #[should_panic(expected = "was not open")]
    fn nothing_is_closed_twice() {
        let mut table = Descriptors::default();
        let number = table.open().unwrap();
        table.close(number);
        table.close(number);
    }
}
