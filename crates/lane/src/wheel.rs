//! The timers of one lane: a hashed hierarchical wheel (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels",
//! SOSP 1987, scheme 7).
//!
//! Time is cut into ticks as long as the wheel's resolution. A timer is due at the first tick that does not precede
//! its deadline: never early, and late by less than one resolution. Timers of different ticks come out in the order
//! of their ticks; timers of one tick in no promised order.
//!
//! There are as many levels as 64 bits need, so every deadline has its place and none is cut short. A level holds 64
//! lists. A timer's level is that of the highest digit (base 64) in which its tick differs from the cursor's, hence
//! it sinks by at least one level whenever the cursor reaches its list, and is due when it sinks through the lowest.
//! Which lists hold something stands in one bit mask a level, so a jump of the clock costs by the timers it passes
//! and not by the ticks.

use corelane_seam::slab::{Key, Slab};
use std::num::NonZeroU32;

const DIGIT_BITS: u32 = 6;
const LISTS_PER_LEVEL: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 64_usize.div_ceil(DIGIT_BITS as usize);
/// The list of timers that are due and wait to be handed out, first come first served: it comes after all levels.
const DUE: usize = LEVELS * LISTS_PER_LEVEL;
const NONE: u32 = u32::MAX;

/// Names one timer of one [`Wheel`], also after it has fired: a stale name is recognised, until the same entry has
/// been used 2^32 times over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId(Key);

/// A timer. The links close to a ring, so that the head knows the tail. Packed, and with a list that is never 0, it takes 32 bytes of the
/// slab for an 8-byte `T`.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Timer<T> {
    tick: u64,
    value: T,
    next: u32,
    previous: u32,
    list: ListNumber,
}

/// The number of a list, and one.
#[derive(Clone, Copy)]
struct ListNumber(NonZeroU32);

impl ListNumber {
    fn of(list: usize) -> Self {
        assert!(list <= DUE, "a timer is in a list of the wheel");
        Self(NonZeroU32::MIN.saturating_add(list as u32))
    }

    fn list(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Timers that carry a `T` each. All times are nanoseconds of one clock that never goes back.
///
/// A timer takes 32 bytes (for a `T` of 8), an empty wheel about 3 KiB. Entries are used again, last in first out;
/// the slab grows only when more timers stand at once than ever before. The caller bounds their number; 2^32 - 1 is
/// the most a wheel can hold.
pub struct Wheel<T> {
    resolution: u64,
    /// The latest time that the caller told.
    now: u64,
    /// Every timer whose tick is not after this one is in the list [`DUE`].
    cursor: u64,
    timers: Slab<Timer<T>>,
    /// One bit for each level that holds something, and for each of its lists that does.
    levels: u16,
    occupied: [u64; LEVELS],
    /// The list that the cursor has reached and that is not yet moved as a whole; [`DUE`] when there is none.
    sinking: usize,
    heads: [u32; DUE + 1],
}

impl<T: Copy> Wheel<T> {
    /// Makes an empty wheel whose tick is `resolution` nanoseconds (0 counts as 1), with memory for `capacity`
    /// timers at once; more than that is taken when needed.
    pub fn new(resolution: u64, capacity: usize) -> Self {
        Self::with(resolution, Slab::with_capacity(capacity))
    }

    /// As [`Wheel::new`], for very many timers (see [`Slab::roomy`]).
    pub fn roomy(resolution: u64) -> Self {
        Self::with(resolution, Slab::roomy())
    }

    fn with(resolution: u64, timers: Slab<Timer<T>>) -> Self {
        Self {
            resolution: resolution.max(1),
            now: 0,
            cursor: 0,
            timers,
            levels: 0,
            occupied: [0; LEVELS],
            sinking: DUE,
            heads: [NONE; DUE + 1],
        }
    }

    /// The number of timers that are set and not yet handed out.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether no timer is set.
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Sets a timer; a deadline that is not after `now` is due at once. O(1).
    ///
    /// A deadline within one resolution of `u64::MAX` (584 years of nanoseconds) never fires, as its tick lies
    /// beyond the end of time.
    ///
    /// # Panics
    /// When `now` precedes a time told before, or 2^32 - 1 timers are set.
    pub fn insert(&mut self, now: u64, deadline: u64, value: T) -> TimerId {
        self.tell(now);
        let tick = deadline.div_ceil(self.resolution);
        let list = if deadline <= now { DUE } else { self.list_of(tick) };
        let key = self.timers.insert(Timer { tick, value, next: NONE, previous: NONE, list: ListNumber::of(list) });
        self.link(key.index, list);
        TimerId(key)
    }

    /// Takes a timer back before it is handed out, and returns what it carried; `None` when it has been handed out
    /// or cancelled already. O(1).
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        self.timers.get(id.0)?;
        Some(self.remove(id.0.index))
    }

    /// A time at which to call [`Wheel::expire`] again; `None` when no timer is set.
    ///
    /// It is never later than the tick at which the first timer is due. For one that is further away than the lowest
    /// level reaches (64 ticks at most) it may be earlier: the call at that time then only moves timers down, at
    /// most once a level. A time that has passed already means that there is work left from the last call.
    pub fn next(&self) -> Option<u64> {
        if self.heads[DUE] != NONE {
            return Some(self.now);
        }
        self.earliest().map(|(_, start)| start.saturating_mul(self.resolution))
    }

    /// Appends to `out` what the timers carried that are due at `now`, at most `limit` of them.
    ///
    /// The work is bounded by `limit` too: at most that many timers are moved towards the lowest level, and as many
    /// handed out, however far the clock has jumped. What did not fit stays due, before whatever becomes due later;
    /// [`Wheel::next`] is then not after `now`.
    ///
    /// # Panics
    /// When `now` precedes a time told before.
    pub fn expire(&mut self, now: u64, limit: usize, out: &mut Vec<T>) {
        self.tell(now);
        self.advance(now / self.resolution, limit);
        for _ in 0..limit {
            let index = self.heads[DUE];
            if index == NONE {
                break;
            }
            out.push(self.remove(index));
        }
    }

    fn tell(&mut self, now: u64) {
        assert!(now >= self.now, "the lane's clock went back from {} to {now}", self.now);
        self.now = now;
    }

    /// Brings the cursor to `target`, list by list, as far as `limit` moved timers allow.
    fn advance(&mut self, target: u64, limit: usize) {
        let mut left = limit;
        while left > 0 {
            match self.earliest() {
                Some((list, start)) if start <= target => {
                    self.cursor = start;
                    self.sinking = list;
                    left = self.sink(list, left);
                }
                _ => {
                    self.cursor = target;
                    return;
                }
            }
        }
    }

    /// Moves the timers of a list that the cursor has reached to lower lists; returns what is left of `limit`.
    ///
    /// A list that is left half moved is still the earliest: it starts at the cursor, and no timer joins it, since a
    /// tick that would belong there does not differ from the cursor in that level's digit any more.
    fn sink(&mut self, list: usize, limit: usize) -> usize {
        let mut left = limit;
        while left > 0 && self.heads[list] != NONE {
            let index = self.heads[list];
            self.unlink(index);
            self.link(index, self.list_of(self.timers.at(index).tick));
            left -= 1;
        }
        left
    }

    /// The occupied list of the levels that the cursor reaches first, with the tick at which it does.
    ///
    /// What a lower level holds is due before anything of a higher one, except what is left in the list that sinks.
    fn earliest(&self) -> Option<(usize, u64)> {
        if self.sinking != DUE {
            return Some((self.sinking, self.cursor));
        }
        let level = self.levels.trailing_zeros() as usize;
        let digit = self.occupied.get(level)?.trailing_zeros() as usize;
        Some((level * LISTS_PER_LEVEL + digit, start_of(self.cursor, level, digit)))
    }

    fn list_of(&self, tick: u64) -> usize {
        if tick <= self.cursor {
            return DUE;
        }
        let level = (tick ^ self.cursor).ilog2() / DIGIT_BITS;
        let digit = (tick >> (level * DIGIT_BITS)) as usize % LISTS_PER_LEVEL;
        level as usize * LISTS_PER_LEVEL + digit
    }

    fn remove(&mut self, index: u32) -> T {
        self.unlink(index);
        self.timers.remove_at(index).value
    }

    /// Puts a timer at the tail of a list.
    fn link(&mut self, index: u32, list: usize) {
        let head = self.heads[list];
        let (next, previous) = match head {
            NONE => (index, index),
            _ => (head, self.timers.at(head).previous),
        };
        let timer = self.timers.at_mut(index);
        timer.next = next;
        timer.previous = previous;
        timer.list = ListNumber::of(list);
        self.timers.at_mut(previous).next = index;
        self.timers.at_mut(next).previous = index;
        if head == NONE {
            self.heads[list] = index;
            self.mark(list, true);
        }
    }

    fn unlink(&mut self, index: u32) {
        let Timer { next, previous, list, .. } = *self.timers.at(index);
        let list = list.list();
        assert!(self.heads[list] != NONE, "the list of a timer has a head");
        if next == index {
            assert!(previous == index && self.heads[list] == index, "a timer that follows itself is alone in its list");
            self.heads[list] = NONE;
            self.mark(list, false);
            return;
        }
        self.timers.at_mut(previous).next = next;
        self.timers.at_mut(next).previous = previous;
        if self.heads[list] == index {
            self.heads[list] = next;
        }
    }

    fn mark(&mut self, list: usize, occupied: bool) {
        if list == DUE {
            return;
        }
        if list == self.sinking {
            self.sinking = DUE;
        }
        let level = list / LISTS_PER_LEVEL;
        let bit = 1 << (list % LISTS_PER_LEVEL);
        let mask = &mut self.occupied[level];
        *mask = if occupied { *mask | bit } else { *mask & !bit };
        let empty = *mask == 0;
        self.levels = if empty { self.levels & !(1 << level) } else { self.levels | 1 << level };
    }
}

/// The first tick of a list: the cursor's digits above its level, the list's own digit, and zeros below.
fn start_of(cursor: u64, level: usize, digit: usize) -> u64 {
    let shift = level as u32 * DIGIT_BITS;
    let above = cursor.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
    above.checked_shl(shift + DIGIT_BITS).unwrap_or(0) | (digit as u64) << shift
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const MS: u64 = 1_000_000;
    const DAY: u64 = 86_400 * 1_000 * MS;
    const YEAR: u64 = 365 * DAY;

    fn expired(wheel: &mut Wheel<u64>, now: u64, limit: usize) -> Vec<u64> {
        let mut out = Vec::new();
        wheel.expire(now, limit, &mut out);
        out
    }

    #[test]
    fn an_entry_takes_32_bytes() {
        assert_eq!(Slab::<Timer<u64>>::ENTRY_BYTES, 32);
        assert!(size_of::<Wheel<u64>>() <= 3 * 1024);
    }

    #[test]
    fn a_timer_fires_at_the_tick_after_its_deadline_and_not_before() {
        let mut wheel = Wheel::new(MS, 1);
        let id = wheel.insert(0, 5 * MS - 1, 7);
        assert_eq!(wheel.next(), Some(5 * MS));
        assert_eq!(expired(&mut wheel, 5 * MS - 1, 9), []);
        assert_eq!(expired(&mut wheel, 5 * MS, 9), [7]);
        assert_eq!((wheel.next(), wheel.len()), (None, 0));
        assert_eq!(wheel.cancel(id), None, "a fired timer's name is stale");
    }

    #[test]
    fn a_deadline_in_the_past_is_due_at_once() {
        let mut wheel = Wheel::new(MS, 1);
        wheel.insert(10 * MS + 5, 10 * MS + 5, 1);
        wheel.insert(10 * MS + 5, 3, 2);
        assert_eq!(wheel.next(), Some(10 * MS + 5));
        assert_eq!(expired(&mut wheel, 10 * MS + 5, 9), [1, 2]);
    }

    #[test]
    fn a_cancelled_timer_does_not_fire_and_its_entry_serves_again() {
        let mut wheel = Wheel::new(MS, 1);
        let old = wheel.insert(0, MS, 1);
        assert_eq!(wheel.cancel(old), Some(1));
        assert_eq!(wheel.cancel(old), None);
        let new = wheel.insert(0, MS, 2);
        assert_eq!(new.0.index, old.0.index);
        assert_eq!(wheel.cancel(old), None, "a stale name must not hit the entry's new timer");
        assert_eq!(expired(&mut wheel, MS, 9), [2]);
    }

    #[test]
    fn nothing_is_allocated_after_warm_up() {
        let mut wheel = Wheel::new(MS, 100);
        let before = wheel.timers.capacity();
        let mut out = Vec::with_capacity(100);
        for round in 0..1_000 {
            for timer in 0..100 {
                wheel.insert(round * MS, round * MS + timer * timer, timer);
            }
            out.clear();
            wheel.expire((round + 1) * MS, 100, &mut out);
            assert_eq!(out.len(), 100);
        }
        assert_eq!(wheel.timers.capacity(), before);
    }

    #[test]
    fn what_exceeds_the_limit_comes_first_the_next_time() {
        let mut wheel = Wheel::new(MS, 8);
        for value in 0..5 {
            wheel.insert(0, MS, value);
        }
        wheel.insert(0, 2 * MS, 99);
        assert_eq!(expired(&mut wheel, 2 * MS, 0), []);
        assert_eq!(expired(&mut wheel, 2 * MS, 2).len(), 2);
        assert!(wheel.next().unwrap() <= 2 * MS);
        assert_eq!(expired(&mut wheel, 2 * MS, 3).len(), 3);
        assert_eq!(expired(&mut wheel, 2 * MS, 3), [99]);
    }

    /// Timers that are due the moment they are set must not hold up those whose time has come.
    #[test]
    fn a_flood_of_past_deadlines_does_not_starve_the_wheel() {
        let mut wheel = Wheel::new(MS, 64);
        wheel.insert(0, 3 * MS, 777);
        let mut turns = 0;
        loop {
            for _ in 0..4 {
                wheel.insert(5 * MS, 0, 0);
            }
            turns += 1;
            if expired(&mut wheel, 5 * MS, 4).contains(&777) {
                break;
            }
            assert!(turns < 10, "still not served after {turns} turns");
        }
    }

    #[test]
    fn a_jump_of_years_moves_no_more_timers_than_the_limit() {
        let mut wheel = Wheel::new(MS, 1_000);
        for value in 0..1_000 {
            wheel.insert(0, 1 + value * (YEAR / 500), value);
        }
        let mut fired = expired(&mut wheel, 3 * YEAR, 10);
        assert!(fired.len() <= 10);
        while wheel.next().is_some() {
            let more = expired(&mut wheel, 3 * YEAR, 10);
            assert!(more.len() <= 10);
            fired.extend(more);
        }
        assert_eq!(fired, (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_list_that_was_emptied_serves_the_next_round() {
        let mut wheel = Wheel::new(1, 1);
        for round in 0..10 {
            let now = round * 64;
            assert_eq!(expired(&mut wheel, now + 22, 9), []);
            wheel.insert(now + 22, now + 36, round);
            assert_eq!(wheel.next(), Some(now + 36));
            assert_eq!(expired(&mut wheel, now + 35, 9), []);
            assert_eq!(expired(&mut wheel, now + 36, 9), [round]);
        }
    }

    #[test]
    fn a_half_moved_list_may_be_cancelled_empty_and_used_again() {
        let mut wheel = Wheel::new(1, 2);
        let ids = [wheel.insert(0, 70, 1), wheel.insert(0, 80, 2)];
        assert_eq!(expired(&mut wheel, 64, 1), [], "one of the two is moved");
        assert!(wheel.next().unwrap() <= 64);
        assert_eq!(ids.map(|id| wheel.cancel(id)), [Some(1), Some(2)]);
        let round = 64 * 64;
        assert_eq!(expired(&mut wheel, round, 9), []);
        wheel.insert(round, round + 70, 3);
        assert_eq!(wheel.next(), Some(round + 64));
        assert_eq!(expired(&mut wheel, round + 70, 9), [3]);
    }

    #[test]
    fn deadlines_at_the_end_of_time_are_safe() {
        for resolution in [0, 1, 3, MS, u64::MAX] {
            let mut wheel = Wheel::new(resolution, 2);
            wheel.insert(0, u64::MAX, 1);
            let id = wheel.insert(1, u64::MAX - 1, 2);
            assert!(wheel.next().is_some());
            assert_eq!(expired(&mut wheel, u64::MAX - 2, 9), []);
            assert_eq!(wheel.cancel(id), Some(2));
            assert_eq!(wheel.len(), 1);
        }
        let mut fine = Wheel::new(1, 1);
        fine.insert(0, u64::MAX, 1);
        assert_eq!(expired(&mut fine, u64::MAX, usize::MAX), [1], "a tick of 1 ns loses nothing at the end");
    }

    #[test]
    #[should_panic(expected = "clock went back from 5 to 4")]
    fn a_clock_that_goes_back_is_refused() {
        let mut wheel = Wheel::new(MS, 1);
        wheel.insert(5, 9, ());
        wheel.expire(4, 1, &mut Vec::new());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert { delay: u64 },
        Past { ago: u64 },
        Cancel { pick: usize },
        Advance { by: u64, limit: usize },
        SleepUntilNext,
    }

    /// Mostly near the scales at which levels change, sometimes days and years.
    fn span() -> impl Strategy<Value = u64> {
        prop_oneof![
            4 => 0..3 * MS,
            4 => 0..200 * MS,
            2 => 0..10_000 * MS,
            1 => 0..40 * DAY,
            1 => 0..30 * YEAR,
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => span().prop_map(|delay| Step::Insert { delay }),
            1 => span().prop_map(|ago| Step::Past { ago }),
            2 => any::<usize>().prop_map(|pick| Step::Cancel { pick }),
            3 => (span(), 0..6_usize).prop_map(|(by, limit)| Step::Advance { by, limit }),
            1 => span().prop_map(|by| Step::Advance { by, limit: usize::MAX }),
            3 => Just(Step::SleepUntilNext),
        ]
    }

    /// The wheel beside an ordered map from (time due, value) to the timer's name.
    struct Pair {
        wheel: Wheel<u64>,
        model: BTreeMap<(u64, u64), TimerId>,
        gone: Vec<TimerId>,
        resolution: u64,
        now: u64,
        inserted: u64,
    }

    impl Pair {
        fn new(resolution: u64, now: u64) -> Self {
            let wheel = Wheel::new(resolution, 0);
            Self { wheel, model: BTreeMap::new(), gone: Vec::new(), resolution, now, inserted: 0 }
        }

        fn insert(&mut self, deadline: u64) {
            let value = self.inserted;
            self.inserted += 1;
            let id = self.wheel.insert(self.now, deadline, value);
            let due = if deadline <= self.now { self.now } else { deadline.next_multiple_of(self.resolution) };
            self.model.insert((due, value), id);
        }

        fn cancel(&mut self, pick: usize) {
            let Some((&key, &id)) = self.model.iter().nth(pick % self.model.len().max(1)) else {
                return;
            };
            self.model.remove(&key);
            assert_eq!(self.wheel.cancel(id), Some(key.1));
            self.gone.push(id);
        }

        fn expire(&mut self, by: u64, limit: usize) {
            self.now += by;
            let fired = expired(&mut self.wheel, self.now, limit);
            assert!(fired.len() <= limit);
            for value in &fired {
                let key = *self.model.keys().find(|key| key.1 == *value).expect("fires once, and not when cancelled");
                assert!(key.0 <= self.now, "{key:?} fired early, at {}", self.now);
                self.gone.extend(self.model.remove(&key));
            }
            if limit == usize::MAX {
                assert!(self.first_due().is_none_or(|due| due > self.now), "missed at {}", self.now);
                assert!(self.wheel.next().is_none_or(|next| next > self.now), "would look again at {}", self.now);
            }
        }

        fn first_due(&self) -> Option<u64> {
            self.model.keys().next().map(|key| key.0)
        }

        fn check(&mut self) {
            assert_eq!(self.wheel.len(), self.model.len());
            match (self.wheel.next(), self.first_due()) {
                (None, None) => {}
                (Some(next), Some(due)) => {
                    assert!(next <= due.max(self.now), "{next} is later than {due}")
                }
                (next, due) => panic!("the wheel says {next:?}, the model {due:?}"),
            }
            if let Some(&stale) = self.gone.last() {
                assert_eq!(self.wheel.cancel(stale), None);
            }
        }

        fn apply(&mut self, step: &Step) {
            match *step {
                Step::Insert { delay } => self.insert(self.now + delay),
                Step::Past { ago } => self.insert(self.now.saturating_sub(ago)),
                Step::Cancel { pick } => self.cancel(pick),
                Step::Advance { by, limit } => self.expire(by, limit),
                Step::SleepUntilNext => {
                    let next = self.wheel.next().unwrap_or(self.now);
                    self.expire(next.saturating_sub(self.now), 2);
                }
            }
            self.check();
        }

        /// A lane that sleeps exactly as long as `next` says gets every timer at its tick, and wakes a bounded
        /// number of times for it.
        fn drain(&mut self) {
            self.expire(0, usize::MAX);
            for _ in 0..self.model.len() * LEVELS {
                let Some(next) = self.wheel.next() else { break };
                assert!(next > self.now, "asked to wake at {next}, which has passed");
                let due = self.first_due();
                let before = self.model.len();
                self.expire(next - self.now, usize::MAX);
                assert!(self.model.len() == before || due == Some(self.now), "fired late");
                self.check();
            }
            assert!(self.wheel.is_empty() && self.model.is_empty());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 500, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_an_ordered_map(
            resolution in prop_oneof![Just(MS), 1..10 * MS, Just(1_u64)],
            start in span(),
            steps in prop::collection::vec(step(), 1..120),
        ) {
            let mut pair = Pair::new(resolution, start);
            for step in &steps {
                pair.apply(step);
            }
            pair.drain();
        }
    }
}
