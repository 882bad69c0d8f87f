//! What the answers of a lane share: the date, memory to put heads together in, and the counts of what was answered.

use crate::log::LaneLog;
use corelane::{Cx, Talk};
use corelane_wire::http1::Date;
use std::cell::{Cell, RefCell};

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
    /// None where nothing is logged.
    log: Option<RefCell<LaneLog>>,
}

impl Desk {
    pub fn new(log: Option<LaneLog>) -> Self {
        let (head, answers) = (Cell::new(Vec::with_capacity(HEAD_BYTES)), [const { Cell::new(0) }; 5]);
        Self { second: Cell::new(u64::MAX), date: Cell::new([b' '; Date::BYTES]), head, answers, log: log.map(RefCell::new) }
    }

    /// Notes the time.
    pub fn look(&self, cx: &Cx<'_, impl Talk>) {
        let second = cx.time_of_day().as_secs();
        if self.second.replace(second) != second {
            let date = Date::from_unix_seconds(i64::try_from(second).unwrap_or(i64::MAX));
            self.date.set(date.text());
            if let Some(log) = &self.log {
                log.borrow_mut().look(date);
            }
        }
        if let Some(log) = &self.log {
            log.borrow_mut().turn(cx.now());
        }
    }

    /// Notes the time, and whose connection this call is for.
    pub fn begin_call(&self, cx: &mut Cx<'_, impl Talk>) {
        self.look(cx);
        if let Some(log) = &self.log {
            let id = cx.id();
            log.borrow_mut().begin_call(cx.peer_address(id));
        }
    }

    /// Where answers are logged.
    pub fn log(&self) -> Option<&RefCell<LaneLog>> {
        self.log.as_ref()
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
