//! What the answers of a lane share: the date, memory to put heads together in, and the counts of what was answered.

use corelane_wire::http1::Date;
use std::cell::Cell;
use std::time::Duration;

/// The first memory for a head: most are shorter.
const HEAD_BYTES: usize = 1024;
/// What is kept of it for the next head, at the most.
const HEAD_BYTES_KEPT: usize = 64 << 10;

/// One for each service of a lane, shared by its answers.
pub(crate) struct Desk {
    second: Cell<u64>,
    date: Cell<[u8; Date::BYTES]>,
    head: Cell<Vec<u8>>,
    /// Answers by the first digit of their status, since they were counted last.
    answers: [Cell<usize>; 5],
}

impl Desk {
    pub fn new() -> Self {
        let head = Cell::new(Vec::with_capacity(HEAD_BYTES));
        Self { second: Cell::new(u64::MAX), date: Cell::new([b' '; Date::BYTES]), head, answers: [const { Cell::new(0) }; 5] }
    }

    /// Notes the time of day.
    pub fn look(&self, since_1970: Duration) {
        let second = since_1970.as_secs();
        if self.second.replace(second) != second {
            self.date.set(Date::from_unix_seconds(i64::try_from(second).unwrap_or(i64::MAX)).text());
        }
    }

    /// The date as it was noted last.
    pub fn date(&self) -> [u8; Date::BYTES] {
        assert!(self.second.get() != u64::MAX, "the time of day is noted before anything is answered");
        self.date.get()
    }

    /// Empty memory for a head.
    pub fn take_memory(&self) -> Vec<u8> {
        self.head.take()
    }

    /// Keeps it for the next one.
    pub fn keep_memory(&self, mut memory: Vec<u8>) {
        if memory.capacity() <= HEAD_BYTES_KEPT {
            memory.clear();
            self.head.set(memory);
        }
    }

    pub fn count_answer(&self, status: u16) {
        assert!((100..600).contains(&status), "a status is one");
        let count = &self.answers[usize::from(status / 100) - 1];
        count.set(count.get() + 1);
    }

    /// How many were answered since the last call, by the first digit of their status.
    pub fn take_answers(&self) -> [usize; 5] {
        [0, 1, 2, 3, 4].map(|class: usize| self.answers[class].take())
    }
}
