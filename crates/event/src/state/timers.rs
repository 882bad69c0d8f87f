//! Timers of one clock: who is due when, and one alarm for the first.

use corelane_os::events::alarm::{Alarm, Clock};
use corelane_os::events::polling::{Readiness, Set};
use corelane_seam::slab::Key;
use std::collections::BTreeSet;

use crate::set::Token;

/// Interests by the instant at which they are due.
pub struct Timers {
    clock: Clock,
    due: BTreeSet<(u64, Key)>,
    /// Made with the first timer.
    alarm: Option<Alarm>,
    /// What the alarm is set to.
    set_to: Option<u64>,
    /// It has gone off, and stays readable until it is set again.
    heard: bool,
}

impl Timers {
    pub fn new(clock: Clock) -> Self {
        Self { clock, due: BTreeSet::new(), alarm: None, set_to: None, heard: false }
    }

    fn token(&self) -> Token {
        match self.clock {
            Clock::Monotonic => Token::Monotonic,
            Clock::Wall => Token::Wall,
        }
    }

    /// Puts the alarm, if there is one, into a set.
    pub fn register(&self, set: &Set) -> Result<(), i32> {
        let Some(alarm) = &self.alarm else { return Ok(()) };
        set.add(alarm.number(), Readiness::IN, self.token().word())
    }

    /// Has an alarm, in `set`.
    pub fn prepare(&mut self, set: &Set) -> Result<(), i32> {
        if self.alarm.is_none() {
            let alarm = Alarm::new(self.clock)?;
            set.add(alarm.number(), Readiness::IN, self.token().word())?;
            self.alarm = Some(alarm);
        }
        Ok(())
    }

    /// Its alarm is another's to look after.
    pub fn take_alarm(&mut self) -> Option<Alarm> {
        self.alarm.take()
    }

    /// `key` is due at `due`.
    pub fn insert(&mut self, due: u64, key: Key) {
        let new = self.due.insert((due, key));
        assert!(new, "an interest waits for one instant");
    }

    /// `key`, due at `due`, is not waited for any more.
    pub fn remove(&mut self, due: u64, key: Key) {
        self.due.remove(&(due, key));
    }

    /// The next that is due by now.
    pub fn expired(&mut self, now: u64) -> Option<Key> {
        let &(due, key) = self.due.first().filter(|(due, _)| *due <= now)?;
        self.due.remove(&(due, key));
        Some(key)
    }

    /// What its clock shows.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// The alarm has gone off: it is to be set again, to never if nothing else is due.
    pub fn heard(&mut self) {
        self.heard = true;
    }

    /// Sets the alarm to the first.
    pub fn settle(&mut self) {
        let first = self.due.first().map(|(due, _)| *due);
        let Some(alarm) = self.alarm.as_ref().filter(|_| self.heard || first != self.set_to) else { return };
        alarm.set(first);
        self.heard = false;
        self.set_to = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_that_no_set_took_is_made_again() {
        let mut timers = Timers::new(Clock::Monotonic);
        assert!(timers.prepare(&corelane_os::testing::set_that_refuses()).is_err());
        let set = Set::new().expect("a set");
        timers.prepare(&set).expect("the set takes it");
        timers.insert(1, Key::new(0, 0));
        timers.settle();
        let mut room = corelane_os::events::polling::room::<2>();
        let reports = set.collect(&mut room, Some(std::time::Duration::ZERO));
        assert_eq!(reports.map(<[_]>::len), Ok(1), "what is due is reported");
    }
}
