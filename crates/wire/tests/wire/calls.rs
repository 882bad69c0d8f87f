//! Calls under way, against an account that is kept in the plainest way.

use corelane_seam::Random;
use corelane_wire::rpc::{CALLS_MAX, CallCounts, Calls, Overdue, Patience, Xids};
use std::time::Duration;

const PATIENCE: Patience = patience(1_000, 100, 400);

/// A patience, in nanoseconds.
const fn patience(timeout: u64, again: u64, again_max: u64) -> Patience {
    let [timeout, again, again_max] =
        [Duration::from_nanos(timeout), Duration::from_nanos(again), Duration::from_nanos(again_max)];
    Patience { timeout, again, again_max }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// A call as the account knows it.
#[derive(Clone, Copy, Debug)]
struct Noted {
    xid: u32,
    name: u64,
    ends: u64,
    due: u64,
    wait: u64,
    patience: Patience,
}

/// The account: a list that is looked through.
#[derive(Default)]
struct Account {
    under_way: Vec<Noted>,
    over: Vec<u32>,
    counts: CallCounts,
}

impl Account {
    fn begin(&mut self, now: u64, patience: Patience, xid: u32, name: u64) {
        assert!(self.under_way.iter().all(|call| call.xid != xid), "{xid} is under way already");
        let (ends, wait) = (now.saturating_add(nanoseconds(patience.timeout)), nanoseconds(patience.again));
        self.under_way.push(Noted { xid, name, ends, due: now.saturating_add(wait).min(ends), wait, patience });
        self.counts.begun += 1;
    }

    fn take(&mut self, xid: u32) -> Option<u64> {
        let index = self.under_way.iter().position(|call| call.xid == xid)?;
        self.over.push(xid);
        Some(self.under_way.swap_remove(index).name)
    }

    fn answered(&mut self, xid: u32) -> Option<u64> {
        let name = self.take(xid);
        match name {
            Some(_) => self.counts.answered += 1,
            None if self.over.contains(&xid) => self.counts.stale += 1,
            None => self.counts.unknown += 1,
        }
        name
    }

    fn next_due(&self) -> Option<u64> {
        self.under_way.iter().map(|call| call.due).min()
    }

    /// What the calls say is due, held against the account.
    fn check(&mut self, now: u64, overdue: Overdue<'_, u64>) {
        let (xid, name, ends) = match overdue {
            Overdue::Again(xid, name) => (xid, *name, false),
            Overdue::GivenUp(xid, name) => (xid, name, true),
        };
        let earliest = self.next_due();
        let call = self.under_way.iter_mut().find(|call| call.xid == xid).unwrap();
        assert_eq!((call.name, Some(call.due)), (name, earliest));
        assert!(call.due <= now);
        assert_eq!(ends, call.ends <= now, "given up at its end, and not before");
        call.wait = call.wait.saturating_mul(2).min(nanoseconds(call.patience.again_max));
        call.due = now.saturating_add(call.wait).min(call.ends);
        match ends {
            true => {
                self.take(xid);
                self.counts.given_up += 1;
            }
            false => self.counts.again += 1,
        }
    }
}

fn any_patience(random: &mut Random) -> Patience {
    let timeout = 1 + random.below(5_000);
    match random.below(3) {
        0 => Patience::stream(Duration::from_nanos(timeout)),
        _ => patience(timeout, 1 + random.below(500), 1 + random.below(2_000)),
    }
}

/// A number that may be of a call: of one under way, of one before, of none.
fn any_xid(random: &mut Random, account: &Account, last: u32) -> u32 {
    let pick = |from: &[u32], at: u64| from.get((at % from.len().max(1) as u64) as usize).copied();
    let under_way: Vec<u32> = account.under_way.iter().map(|call| call.xid).collect();
    let drawn = random.bits();
    let found = match random.below(8) {
        0 => pick(&account.over, drawn),
        1 => Some(last.wrapping_add(1 + random.below(1 << 20) as u32)),
        _ => pick(&under_way, drawn),
    };
    found.unwrap_or(last.wrapping_add(9))
}

#[test]
fn every_call_has_one_end_and_every_reply_one_meaning() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let limit = 1 + random.below(40) as u32;
        let first = if seed % 3 == 0 { u32::MAX - 20 } else { random.bits() as u32 };
        let (mut calls, mut account) = (Calls::new(limit, first), Account::default());
        let (mut now, mut last) = (0, first.wrapping_sub(1));
        for name in 0..1_500 {
            now += random.below(60);
            match random.below(5) {
                0 | 1 => {
                    let patience = any_patience(&mut random);
                    match calls.begin(now, patience, name) {
                        Ok(xid) => {
                            account.begin(now, patience, xid, name);
                            last = xid;
                        }
                        Err(back) => {
                            assert_eq!((back, account.under_way.len()), (name, limit as usize));
                            account.counts.refused += 1;
                        }
                    }
                }
                2 | 3 => {
                    let xid = any_xid(&mut random, &account, last);
                    let is_known = account.under_way.iter().any(|call| call.xid == xid);
                    assert_eq!(calls.get_mut(xid).is_some(), is_known);
                    assert_eq!(calls.answered(xid), account.answered(xid), "{xid}");
                }
                _ => {
                    while let Some(overdue) = calls.overdue(now) {
                        account.check(now, overdue);
                    }
                    assert!(account.under_way.iter().all(|call| call.due > now), "nothing is left that is due");
                }
            }
            assert_eq!((calls.len(), calls.is_empty()), (account.under_way.len(), account.under_way.is_empty()));
            assert_eq!((calls.next_due(), calls.counts()), (account.next_due(), account.counts), "seed {seed}");
        }
        let mut left: Vec<u64> = calls.drop_all().collect();
        let mut noted: Vec<u64> = account.under_way.iter().map(|call| call.name).collect();
        left.sort_unstable();
        noted.sort_unstable();
        assert_eq!((&left, calls.next_due()), (&noted, None));
        let counts = calls.counts();
        assert_eq!(counts.begun, counts.answered + counts.given_up + counts.dropped);
    }
}

#[test]
fn waiting_doubles_up_to_its_bound_and_ends_with_the_time() {
    let mut calls = Calls::new(1, 0);
    let xid = calls.begin(50, PATIENCE, ()).unwrap();
    let mut sent = Vec::new();
    while let Some(now) = calls.next_due() {
        match calls.overdue(now).unwrap() {
            Overdue::Again(again, ()) => assert_eq!(again, xid),
            Overdue::GivenUp(over, ()) => assert_eq!((over, now), (xid, 1_050)),
        }
        sent.push(now);
    }
    assert_eq!(sent, [150, 350, 750, 1_050]);
    assert_eq!(calls.counts(), CallCounts { begun: 1, again: 3, given_up: 1, ..CallCounts::default() });
}

#[test]
fn who_comes_late_sends_once_and_gives_up_once() {
    let mut calls = Calls::new(4, 0);
    calls.begin(0, PATIENCE, 'a').unwrap();
    assert!(matches!(calls.overdue(750), Some(Overdue::Again(_, 'a'))));
    assert_eq!(calls.overdue(750), None);
    assert_eq!(calls.next_due(), Some(950));
    assert!(matches!(calls.overdue(u64::MAX - 1), Some(Overdue::GivenUp(_, 'a'))));
    assert_eq!(calls.overdue(u64::MAX), None);
}

#[test]
fn who_waits_for_ever_is_never_due() {
    let mut calls = Calls::new(2, 0);
    calls.begin(5, Patience::stream(Duration::MAX), ()).unwrap();
    assert_eq!((calls.next_due(), calls.overdue(u64::MAX)), (None, None));
    // Nothing is too little: it is due at once, and then not again at the same time.
    calls.begin(5, patience(3, 0, 0), ()).unwrap();
    assert!(matches!(calls.overdue(5), Some(Overdue::Again(..))));
    assert_eq!(calls.overdue(5), None);
    assert_eq!(calls.next_due(), Some(6));
}

#[test]
fn a_call_that_is_never_answered_stops_no_other() {
    let mut calls = Calls::new(2, 100);
    let stuck = calls.begin(0, Patience::stream(Duration::MAX), 0).unwrap();
    for name in 1..100_000 {
        let xid = calls.begin(0, Patience::stream(Duration::from_nanos(9)), name).unwrap();
        assert_ne!(xid, stuck);
        assert_eq!(calls.answered(xid), Some(name));
    }
    assert_eq!(calls.answered(stuck), Some(0));
}

#[test]
fn a_call_that_is_taken_back_is_gone() {
    let mut calls = Calls::new(2, 0);
    let (one, two) = (calls.begin(0, PATIENCE, 1).unwrap(), calls.begin(0, PATIENCE, 2).unwrap());
    assert_eq!([calls.take_back(one), calls.take_back(one), calls.answered(one)], [Some(1), None, None]);
    assert_eq!((calls.answered(two), calls.next_due()), (Some(2), None));
    assert_eq!(calls.counts(), CallCounts { begun: 2, answered: 1, dropped: 1, stale: 1, ..CallCounts::default() });
}

#[test]
fn the_bounds_of_how_many_are_kept() {
    assert!(Calls::new(0, 0).begin(0, PATIENCE, ()).is_ok(), "one at least");
    let mut many = Calls::new(u32::MAX, 0);
    (0..CALLS_MAX).for_each(|_| assert!(many.begin(0, PATIENCE, ()).is_ok()));
    assert_eq!(many.begin(0, PATIENCE, ()), Err(()));
    assert_eq!(many.drop_all().count(), CALLS_MAX as usize);
}

#[test]
fn numbers_go_round_and_back() {
    for first in [0, 7, u32::MAX - 1] {
        let xids = Xids::new(first);
        for made in [0, 1, 5, 1 << 32, (1 << 32) + 3, u64::MAX] {
            let older = made.checked_sub(1 << 32);
            assert_eq!(xids.call(xids.of(made), made), older, "older by all numbers that there are");
            for back in 1..=made.min(4) {
                assert_eq!(xids.call(xids.of(made - back), made), Some(made - back), "{first} {made} {back}");
            }
        }
    }
}
