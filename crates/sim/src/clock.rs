//! Virtual time: a clock that moves only when the world moves it, and what is to happen when.

use corelane_seam::slab::{Key, Slab};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Where every world's clock begins, in nanoseconds: not 0, which could hide a forgotten time.
const START: u64 = 1_000_000_000;
/// The time of day when its clock shows 0, in nanoseconds since 1970: the first of January 2026, UTC.
const BEGUN_AT: u64 = 1_767_225_600_000_000_000;

/// The clock with its agenda; equal times keep the order in which they were entered.
pub(crate) struct Clock<E> {
    now: u64,
    entered: u64,
    /// The soonest on top: its time, its number among all that were ever entered, and where the event lies. Events are large, and are not moved about.
    agenda: BinaryHeap<Reverse<(u64, u64, Key)>>,
    events: Slab<E>,
}

impl<E> Clock<E> {
    pub(crate) fn new() -> Self {
        Self { now: START, entered: 0, agenda: BinaryHeap::new(), events: Slab::new() }
    }

    /// Nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Nanoseconds since 1970.
    pub(crate) fn time_of_day(&self) -> u64 {
        BEGUN_AT.saturating_add(self.now)
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, nanoseconds: u64) {
        self.now = self.now.saturating_add(nanoseconds);
    }

    /// Moves to `time`; never back.
    pub(crate) fn advance_to(&mut self, time: u64) {
        self.now = self.now.max(time);
    }

    /// Enters what happens at `time`.
    pub(crate) fn at(&mut self, time: u64, event: E) {
        let key = self.events.insert(event);
        self.agenda.push(Reverse((time, self.entered, key)));
        self.entered += 1;
    }

    /// Enters what happens `delay` nanoseconds from now.
    pub(crate) fn after(&mut self, delay: u64, event: E) {
        self.at(self.now.saturating_add(delay), event);
    }

    /// Strikes events out, those first that would have come first.
    pub(crate) fn strike_out(&mut self, mut is_void: impl FnMut(&E) -> bool) {
        let latest_first = std::mem::take(&mut self.agenda).into_sorted_vec();
        let (events, mut kept) = (&mut self.events, Vec::with_capacity(latest_first.len()));
        for entry in latest_first.into_iter().rev() {
            let key = entry.0.2;
            match events.get(key).is_some_and(&mut is_void) {
                true => drop(events.remove(key)),
                false => kept.push(entry),
            }
        }
        self.agenda = kept.into();
    }

    /// When the next event is due.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.agenda.peek().map(|entry| entry.0.0)
    }

    /// The next event whose time has come.
    pub(crate) fn due(&mut self) -> Option<E> {
        let next = self.agenda.peek_mut().filter(|entry| entry.0.0 <= self.now)?;
        let Reverse((.., key)) = PeekMut::pop(next);
        self.events.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_entry() {
        let mut clock = Clock::new();
        for (delay, name) in [(20, 'c'), (10, 'a'), (10, 'b')] {
            clock.after(delay, name);
        }
        assert_eq!((clock.due(), clock.next_time()), (None, Some(START + 10)));
        clock.after(5, 'x');
        clock.strike_out(|&name| name == 'x');
        clock.advance(15);
        assert_eq!([clock.due(), clock.due(), clock.due()], [Some('a'), Some('b'), None]);
        clock.advance_to(START + 20);
        clock.advance_to(START);
        assert_eq!((clock.due(), clock.now()), (Some('c'), START + 20));
    }
}
