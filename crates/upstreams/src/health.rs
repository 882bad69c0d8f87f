//! Whether one upstream is fit to be taken: what its users have met, and what its checks say.

use crate::settings::{Check, Settings};
use corelane::Instant;
use std::time::Duration;

/// The part of its weight, in thousandths, with which one begins that starts slowly.
const SHARE_MIN: u32 = 100;
/// All of its weight.
pub(crate) const SHARE_MAX: u32 = 1_000;

/// An upstream was ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejected {
    /// After so many failures in a row.
    pub failures: u32,
    /// For so long.
    pub lasts: Duration,
}

/// The health of one upstream, as one lane sees it.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    /// Failures in a row since it was ejected or has answered.
    failures: u32,
    /// Whose bytes may have caused the first of those that a client may have caused.
    suspect: Option<u64>,
    /// It is not the bytes of one client alone that went with all of them: the upstream is at fault.
    is_borne_out: bool,
    /// Ejections in a row: without as long a time between them as the last one took.
    ejections: u32,
    /// The end of its last ejection.
    ejected_until: Option<Instant>,
    /// How long that took.
    lasted: Duration,
    /// It has come back, and not answered yet: its first failure ejects it again.
    is_on_trial: bool,
    /// Its checks say so.
    is_down: bool,
    /// Checks in a row that have said otherwise.
    contrary: u32,
    /// When it began to start slowly.
    rises_from: Option<Instant>,
}

impl Health {
    /// Of one that is new: it starts slowly if it comes to others that serve already.
    pub fn new(rises_from: Option<Instant>) -> Self {
        Self {
            failures: 0,
            suspect: None,
            is_borne_out: false,
            ejections: 0,
            ejected_until: None,
            lasted: Duration::ZERO,
            is_on_trial: false,
            is_down: false,
            contrary: 0,
            rises_from,
        }
    }

    /// When its ejection ends, if it is ejected.
    pub fn ejected_until(&self, now: Instant) -> Option<Instant> {
        self.ejected_until.filter(|until| now < *until)
    }

    pub fn is_down(&self) -> bool {
        self.is_down
    }

    /// It starts slowly from now on.
    pub fn rise(&mut self, now: Instant) {
        self.rises_from = Some(now);
    }

    /// The part of its weight that it has, in thousandths.
    pub fn share(&self, now: Instant, settings: &Settings) -> u32 {
        let Some(from) = self.rises_from.filter(|_| !settings.slow_start.is_zero()) else { return SHARE_MAX };
        let part = (now - from).as_nanos() * u128::from(SHARE_MAX) / settings.slow_start.as_nanos();
        u32::try_from(part).unwrap_or(SHARE_MAX).clamp(SHARE_MIN, SHARE_MAX)
    }

    /// A use has failed; `client` may have caused that by its bytes, if one is named. The upstream is ejected if that was one too many, others are there, and not all in the row go with one client.
    pub fn failed(&mut self, now: Instant, settings: &Settings, others: bool, client: Option<u64>) -> Option<Ejected> {
        if settings.failures_max == 0 || self.ejected_until(now).is_some() {
            // Uses that were under way when it was ejected say nothing new.
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        self.is_borne_out |= client.is_none_or(|client| self.suspect.is_some_and(|suspect| suspect != client));
        self.suspect = self.suspect.or(client);
        let failures_max = if self.is_on_trial { 1 } else { settings.failures_max };
        if self.failures < failures_max || !others || !self.is_borne_out {
            return None;
        }
        if self.ejected_until.is_some_and(|until| now - until >= self.lasted) {
            self.ejections = 0;
        }
        let factor = 1_u32.checked_shl(self.ejections).unwrap_or(u32::MAX);
        self.lasted = settings.ejection.saturating_mul(factor).min(settings.ejection_max);
        self.ejections = self.ejections.saturating_add(1);
        let until = now + self.lasted;
        (self.ejected_until, self.rises_from, self.is_on_trial) = (Some(until), Some(until), true);
        let failures = std::mem::take(&mut self.failures);
        (self.suspect, self.is_borne_out) = (None, false);
        Some(Ejected { failures, lasts: self.lasted })
    }

    /// A use was answered.
    pub fn answered(&mut self, now: Instant) {
        if self.ejected_until(now).is_none() {
            (self.failures, self.is_on_trial) = (0, false);
            (self.suspect, self.is_borne_out) = (None, false);
        }
    }

    /// A check has ended; returns whether the upstream is up, if that has changed.
    pub fn checked(&mut self, now: Instant, check: &Check, is_well: bool) -> Option<bool> {
        // No client has to do with a check.
        self.is_borne_out |= !is_well;
        if is_well != self.is_down {
            self.contrary = 0;
            return None;
        }
        self.contrary += 1;
        if self.contrary < if self.is_down { check.rise } else { check.fall } {
            return None;
        }
        (self.is_down, self.contrary) = (!is_well, 0);
        if is_well {
            // A check has seen what users would have to find out.
            self.ejected_until = self.ejected_until.map(|until| until.min(now));
            self.rise(now);
        }
        Some(is_well)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings { slow_start: Duration::from_secs(10), ..Settings::new() }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanoseconds(seconds * 1_000_000_000)
    }

    fn fail(health: &mut Health, now: Instant, times: u32) -> Option<u64> {
        (0..times).find_map(|_| health.failed(now, &settings(), true, None)).map(|ejected| ejected.lasts.as_secs())
    }

    #[test]
    fn five_failures_in_a_row_eject_and_an_answer_begins_anew() {
        let mut health = Health::new(None);
        assert_eq!(fail(&mut health, at(0), 4), None);
        health.answered(at(0));
        assert_eq!(
            (fail(&mut health, at(0), 4), health.failed(at(0), &settings(), false, None)),
            (None, None),
            "there is no other"
        );
        let ejected = health.failed(at(0), &settings(), true, None);
        assert_eq!(ejected, Some(Ejected { failures: 6, lasts: Duration::from_secs(10) }));
        assert_eq!((health.ejected_until(at(9)), health.ejected_until(at(10))), (Some(at(10)), None));
        assert_eq!(fail(&mut health, at(5), 9), None, "it is ejected already");
    }

    #[test]
    fn failures_that_go_with_one_client_alone_eject_nobody() {
        let mut health = Health::new(None);
        let fail = |health: &mut Health, client| health.failed(at(0), &settings(), true, Some(client)).is_some();
        assert!((0..20).all(|_| !fail(&mut health, 1)));
        assert!(fail(&mut health, 2), "another one has met the same");
        let mut health = Health::new(None);
        (0..20).for_each(|_| assert!(!fail(&mut health, 1)));
        assert!(health.failed(at(0), &settings(), true, None).is_some(), "nobody's bytes had to do with it");
        let mut health = Health::new(None);
        (0..20).for_each(|_| assert!(!fail(&mut health, 1)));
        health.answered(at(0));
        assert!(!fail(&mut health, 2) && (0..3).all(|_| !fail(&mut health, 2)), "an answer ends the row");
        health.checked(at(0), &Check::every(Duration::from_secs(1)), false);
        assert!(fail(&mut health, 2), "a check has failed as well");
    }

    #[test]
    fn ejections_grow_to_their_bound_and_are_forgotten_in_time() {
        let mut health = Health::new(None);
        let mut now = 0;
        let mut lasted = vec![fail(&mut health, at(now), 5).unwrap()];
        for _ in 0..6 {
            now += lasted.last().unwrap();
            lasted.push(fail(&mut health, at(now), 1).expect("it is on trial"));
        }
        assert_eq!(lasted, [10, 20, 40, 80, 160, 300, 300]);
        now += 300;
        health.answered(at(now));
        assert_eq!(fail(&mut health, at(now + 299), 4), None, "its trial is over");
        assert_eq!(fail(&mut health, at(now + 299), 1), Some(300));
        now += 299 + 300;
        health.answered(at(now));
        assert_eq!(fail(&mut health, at(now + 300), 5), Some(10), "it was well for as long as it was out");
    }

    #[test]
    fn an_answer_to_what_was_under_way_brings_nobody_back() {
        let mut health = Health::new(None);
        fail(&mut health, at(0), 5);
        health.answered(at(1));
        assert_eq!(fail(&mut health, at(10), 1), Some(20), "it is on trial still");
    }

    #[test]
    fn checks_take_it_out_and_bring_it_back() {
        let (mut health, check) = (Health::new(None), Check::every(Duration::from_secs(1)));
        let mut told = Vec::new();
        for (second, is_well) in [false, false, true, false, false, false, true, false, true, true].into_iter().enumerate() {
            told.push(health.checked(at(second as u64), &check, is_well));
        }
        let (down, up) = (Some(false), Some(true));
        assert_eq!(told, [None, None, None, None, None, down, None, None, None, up]);
        fail(&mut health, at(20), 5);
        let last =
            |health: &mut Health, times, second, is_well| (0..times).map(|_| health.checked(at(second), &check, is_well)).last();
        assert_eq!(last(&mut health, 3, 20, false), Some(down));
        assert!(health.is_down());
        assert_eq!(last(&mut health, 2, 21, true), Some(up));
        assert_eq!((health.is_down(), health.ejected_until(at(21))), (false, None), "a check ends an ejection");
    }

    #[test]
    fn one_that_comes_back_gets_its_part_slowly() {
        let mut health = Health::new(None);
        assert_eq!(health.share(at(0), &settings()), 1_000);
        fail(&mut health, at(0), 5);
        let shares = [10, 11, 15, 20, 99].map(|second| health.share(at(second), &settings()));
        assert_eq!(shares, [100, 100, 500, 1_000, 1_000]);
        assert_eq!(health.share(at(10), &Settings::new()), 1_000, "nothing starts slowly unless that is asked for");
    }
}
