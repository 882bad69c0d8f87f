//! The alarms of a service: few, each named by a token of its own, and as exact as the lane's clock.

use corelane_seam::Instant;
use std::cmp::Reverse;
use std::time::Duration;

/// When an alarm is to come: [`After`](When::After) so long, or [`At`](When::At) an instant. Made from either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So long after this turn's time.
    After(Duration),
    /// At this time.
    At(Instant),
}

impl When {
    pub(crate) fn from(self, now: Instant) -> Instant {
        match self {
            Self::After(duration) => now + duration,
            Self::At(instant) => instant,
        }
    }
}

impl From<Duration> for When {
    fn from(duration: Duration) -> Self {
        Self::After(duration)
    }
}

impl From<Instant> for When {
    fn from(instant: Instant) -> Self {
        Self::At(instant)
    }
}

/// The alarms of one service that are set.
pub(crate) struct Alarms {
    /// By token. There are few (`alarms_max`), so that whatever is looked for is looked through.
    set: Vec<(u64, u64)>,
    /// When the first one comes; `u64::MAX` for never.
    first: u64,
    /// Those that have come, the next one last, while they are told.
    due: Vec<(u64, u64)>,
}

impl Default for Alarms {
    fn default() -> Self {
        Self { set: Vec::new(), first: u64::MAX, due: Vec::new() }
    }
}

impl Alarms {
    /// When the first one comes; `u64::MAX` for never.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Sets the alarm of this token, or moves it. False, and nothing, if it is not set and there are `most` already.
    pub(crate) fn start(&mut self, token: u64, at: u64, most: u32) -> bool {
        match self.set.binary_search_by_key(&token, |&(token, _)| token) {
            Ok(place) => {
                let before = std::mem::replace(&mut self.set[place].1, at);
                self.changed(before, at);
            }
            Err(_) if self.set.len() >= most as usize => return false,
            Err(place) => {
                self.set.insert(place, (token, at));
                self.first = self.first.min(at);
            }
        }
        true
    }

    /// Ends the alarm of this token, whether it has come and was not told yet or not.
    pub(crate) fn stop(&mut self, token: u64) {
        self.due.retain(|&(_, due)| due != token);
        if let Ok(place) = self.set.binary_search_by_key(&token, |&(token, _)| token) {
            let (_, at) = self.set.remove(place);
            self.changed(at, u64::MAX);
        }
    }

    /// Takes those that have come by `now`, to be told one after the other ([`Alarms::next_due`]): what is set meanwhile comes later.
    pub(crate) fn come(&mut self, now: u64) {
        assert!(self.due.is_empty(), "alarms come while others are told");
        if self.first > now {
            return;
        }
        let Self { set, due, .. } = self;
        due.extend(set.iter().filter(|&&(_, at)| at <= now).map(|&(token, at)| (at, token)));
        due.sort_unstable_by_key(|&alarm| Reverse(alarm));
        set.retain(|&(_, at)| at > now);
        self.look();
    }

    /// The token of the next one that has come and was not told yet, the earliest first.
    pub(crate) fn next_due(&mut self) -> Option<u64> {
        self.due.pop().map(|(_, token)| token)
    }

    fn changed(&mut self, before: u64, after: u64) {
        match before == self.first && after > before {
            true => self.look(),
            false => self.first = self.first.min(after),
        }
    }

    fn look(&mut self) {
        self.first = self.set.iter().map(|&(_, at)| at).min().unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(alarms: &mut Alarms, now: u64) -> Vec<u64> {
        alarms.come(now);
        std::iter::from_fn(|| alarms.next_due()).collect()
    }

    #[test]
    fn each_comes_once_in_the_order_of_time_unless_it_is_moved_or_stopped() {
        let mut alarms = Alarms::default();
        for (token, at) in [(7, 30), (1, 20), (9, 10), (3, 20)] {
            assert!(alarms.start(token, at, 4));
        }
        assert!(!alarms.start(5, 1, 4), "there are as many as may be");
        assert!(alarms.start(9, 25, 4), "moving takes no room");
        assert_eq!((alarms.first(), told(&mut alarms, 19)), (20, vec![]));
        assert_eq!((told(&mut alarms, 27), alarms.first()), (vec![1, 3, 9], 30));
        alarms.stop(7);
        assert_eq!((alarms.first(), told(&mut alarms, u64::MAX - 1)), (u64::MAX, vec![]));
    }

    #[test]
    fn one_that_has_come_can_be_stopped_by_the_one_before_it_and_set_for_later() {
        let mut alarms = Alarms::default();
        (0..3).for_each(|token| assert!(alarms.start(token, token, 9)));
        alarms.come(5);
        assert_eq!(alarms.next_due(), Some(0));
        alarms.stop(1);
        assert!(alarms.start(0, 0, 9));
        assert_eq!((alarms.next_due(), alarms.next_due()), (Some(2), None));
        assert_eq!((alarms.first(), told(&mut alarms, 5)), (0, vec![0]));
    }
}
