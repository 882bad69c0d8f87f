//! Who asks for the groups that are listened for at an interface, and when that is answered.

use corelane_wire::packet::mld::Query;

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// An answer to a query that waits for its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    due: u64,
    /// In the words of the first version.
    pub is_v1: bool,
}

/// The answer to who asks for listeners.
#[derive(Debug)]
pub(crate) struct Listeners {
    answer: Option<Answer>,
    /// What chance has drawn last.
    drawn: u64,
}

impl Listeners {
    pub const fn new(seed: u64) -> Self {
        Self { answer: None, drawn: seed }
    }

    /// Somebody has asked.
    pub fn hear(&mut self, now: u64, query: &Query) {
        self.drawn = self.drawn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let due = moment(now, query, self.drawn >> 16);
        // One that is to be given earlier answers this as well.
        if self.answer.is_none_or(|answer| due < answer.due) {
            self.answer = Some(Answer { due, is_v1: query.is_v1 });
        }
    }

    /// When the answer is due.
    pub fn due(&self) -> Option<u64> {
        self.answer.map(|answer| answer.due)
    }

    /// The answer, if it is time.
    pub fn take(&mut self, now: u64) -> Option<Answer> {
        self.answer.take_if(|answer| answer.due <= now)
    }
}

/// A moment within the time in which to answer, so that not all of a link speak at once; some of that time is left for the way.
fn moment(now: u64, query: &Query, draw: u64) -> u64 {
    now + draw % (u64::from(query.delay) * MILLISECOND * 3 / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn an_answer_is_given_within_its_time() {
        let query = |delay| Query { group: Ipv6Addr::UNSPECIFIED, delay, is_v1: false };
        for draw in (0..10_000).map(|number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            assert!((5..5 + 1000 * MILLISECOND).contains(&moment(5, &query(1000), draw)));
            assert_eq!(moment(5, &query(0), draw), 5);
        }
    }
}
