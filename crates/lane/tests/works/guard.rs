//! What every toy asserts of its lane, from inside.

use corelane_lane::{Budget, Kit};
use corelane_sim::Random;
use std::cell::Cell;
use std::rc::Rc;

/// Calls until a work panics; none if it never does.
#[derive(Clone, Default)]
pub struct Mine(Rc<Cell<Option<u32>>>);

impl Mine {
    pub fn after(calls: u32) -> Self {
        Self(Rc::new(Cell::new(Some(calls))))
    }

    pub fn step(&self) {
        match self.0.get() {
            Some(0) => {
                self.0.set(None);
                panic!("a mine");
            }
            left => self.0.set(left.map(|left| left - 1)),
        }
    }
}

/// Counts what a work is handed, and keeps its alarm.
pub struct Guard {
    budget: Budget,
    /// Whether others are on the lane all the time: only then there is a budget.
    is_shared: bool,
    mine: Mine,
    random: Random,
    completions: usize,
    timers: usize,
    messages: usize,
    alarm: u64,
    /// Turns in which there was more for the work than its budget.
    full: Rc<Cell<u64>>,
}

/// The longest time to the next alarm, in nanoseconds.
const ALARM_MAX: u64 = 3_000_000;

impl Guard {
    pub fn new(seed: u64, budget: Budget, is_shared: bool, mine: Mine, full: Rc<Cell<u64>>) -> Self {
        let (random, alarm) = (Random::new(seed), u64::MAX);
        Self { budget, is_shared, mine, random, completions: 0, timers: 0, messages: 0, alarm, full }
    }

    fn may(&self, counted: usize, most: usize) {
        assert!(counted <= most || !self.is_shared, "{counted} at once, where the budget is {most}");
        self.full.set(self.full.get() + u64::from(counted == most));
    }

    pub fn completed(&mut self) {
        self.mine.step();
        self.completions += 1;
        self.may(self.completions, self.budget.completions);
    }

    /// At the beginning of `serve`. The alarm is what this work set last; when it has come there is a new one.
    pub fn serves(&mut self, kit: &mut Kit) {
        self.mine.step();
        assert_eq!(kit.budget, self.budget, "a work has its own budget");
        assert_eq!(kit.alarm, self.alarm, "a work has its own alarm");
        self.completions = 0;
        if kit.now() >= self.alarm || self.alarm == u64::MAX {
            kit.alarm = kit.now() + 1 + self.random.below(ALARM_MAX);
            self.alarm = kit.alarm;
        }
    }

    /// Wants no turn any more.
    pub fn rests(&mut self, kit: &mut Kit) {
        (kit.alarm, self.alarm) = (u64::MAX, u64::MAX);
    }

    pub fn expired(&mut self) {
        self.mine.step();
        self.timers += 1;
        self.may(self.timers, self.budget.other);
    }

    pub fn received(&mut self, lanes: usize) {
        self.mine.step();
        self.messages += 1;
        self.may(self.messages, self.budget.other * (lanes - 1));
    }

    pub fn flushes(&mut self, kit: &Kit) {
        self.mine.step();
        assert_eq!(kit.alarm, self.alarm, "nobody else has set the alarm");
        (self.timers, self.messages) = (0, 0);
    }
}
