//! When a router says to a link that it is there (RFC 4861, section 6.2), as a pure value: times and questions in, moments out.
//!
//! All is said to the whole link, at the least three seconds apart: so however many ask, that is the bound.

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Advertisements after the interface came up, and nanoseconds between them at most (section 10: MAX_INITIAL_RTR_ADVERTISEMENTS, MAX_INITIAL_RTR_ADVERT_INTERVAL).
const INITIAL: u8 = 3;
const INITIAL_APART: u64 = 16 * SECOND;
/// Nanoseconds between two at the least, and until a question is answered at the most (MIN_DELAY_BETWEEN_RAS, MAX_RA_DELAY_TIME).
const APART: u64 = 3 * SECOND;
const ANSWERS_AFTER: u64 = SECOND / 2;

/// The moments of one interface.
#[derive(Debug)]
pub(super) struct Advertiser {
    /// Nanoseconds between two that nobody has asked for, at most; none for a lane that only answers.
    every: Option<u64>,
    is_up: bool,
    said: u8,
    last: Option<u64>,
    due: Option<u64>,
    /// What chance has drawn last.
    drawn: u64,
}

impl Advertiser {
    /// Of a lane that speaks unasked each so many seconds, or only answers.
    pub fn new(seconds: Option<u16>, seed: u64) -> Self {
        let every = seconds.map(|seconds| u64::from(seconds) * SECOND);
        Self { every, is_up: false, said: 0, last: None, due: None, drawn: seed }
    }

    /// Notes whether packets can leave.
    pub fn note(&mut self, now: u64, is_up: bool) {
        if std::mem::replace(&mut self.is_up, is_up) != is_up {
            (self.said, self.due) = (0, self.every.filter(|_| is_up).map(|_| now));
        }
    }

    /// Somebody asks for routers.
    pub fn hear(&mut self, now: u64) {
        if self.is_up {
            let earliest = self.last.map_or(now, |last| now.max(last + APART));
            let answers = earliest + self.draw(ANSWERS_AFTER);
            self.due = Some(self.due.map_or(answers, |due| due.min(answers)));
        }
    }

    /// When something is to be said.
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// Whether it is to be said now; then the next time is drawn.
    pub fn take(&mut self, now: u64) -> bool {
        if self.due.take_if(|due| *due <= now).is_none() {
            return false;
        }
        self.last = Some(now);
        self.said = self.said.saturating_add(1);
        self.due = self.every.map(|every| {
            // Between a third of the time and all of it.
            let after = every / 3 + self.draw(every - every / 3);
            now + if self.said < INITIAL { after.min(INITIAL_APART) } else { after }
        });
        true
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.drawn = self.drawn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.drawn >> 16) % below.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_three_times_soon_and_then_within_the_interval() {
        let mut advertiser = Advertiser::new(Some(600), 7);
        advertiser.note(0, true);
        let mut said = Vec::new();
        while let Some(now) = advertiser.due().filter(|due| *due < 36_000 * SECOND) {
            assert!(now == 0 || !advertiser.take(now - 1));
            assert!(advertiser.take(now));
            said.push(now);
        }
        let apart: Vec<_> = said.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(apart[..2].iter().all(|apart| *apart == INITIAL_APART), "{apart:?}");
        assert!(apart[2..].iter().all(|apart| (200 * SECOND..=600 * SECOND).contains(apart)));
        assert!(apart.len() > 60 && apart[3] != apart[4]);
        advertiser.note(said[9], false);
        assert_eq!(advertiser.due(), None);
    }

    #[test]
    fn who_asks_is_answered_soon_and_all_who_ask_no_more_often_than_each_three_seconds() {
        let mut advertiser = Advertiser::new(None, 7);
        advertiser.hear(5);
        assert_eq!(advertiser.due(), None, "nothing can leave");
        advertiser.note(0, true);
        let mut said = Vec::new();
        for now in (0..60 * SECOND).step_by(SECOND as usize / 100) {
            advertiser.hear(now);
            said.extend(Some(now).filter(|_| advertiser.take(now)));
        }
        assert!(said[0] <= ANSWERS_AFTER && (16..=20).contains(&said.len()), "{said:?}");
        assert!(said.windows(2).all(|pair| pair[1] - pair[0] >= APART));
    }
}
