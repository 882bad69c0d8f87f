//! The user fraction by the clock: no tick, and nothing to do while nothing comes.
//!
//! FreeBSD's controller (polling(4)) looks at each tick and changes a number of packets by one. Here the network has an account of nanoseconds instead:
//!
//! ```text
//! time passes, on whatever     -> the account grows by (100 - user_frac) %, up to what the network may have of PERIOD; beside other programs, of a rest and LATE
//! the network took so long     -> the account shrinks by that
//! it is empty, others want CPU -> the network is held until the account is half full, and has a chunk's cost
//! it is empty, nobody does     -> the network goes on: what others did not want is not kept for them
//! ```
//!
//! Beside other programs the account is the whole lane's: it grows as ever, and shrinks by what services and tasks of the lane take as well. So it fills while the lane sleeps. Packets
//! are held when it is empty, and the lane is to rest then, with its services and tasks, for 1 to 3 milliseconds and longer.
//!
//! So over PERIOD and longer the network has at most 100 - user_frac per cent while others want the rest, whatever a packet costs and however fast they
//! come, and others have at most user_frac per cent while packets wait ([`Timed::is_network_first`]).
//! A value without a clock: what calls it says how long things took, in nanoseconds.

use super::knobs::Knobs;

/// Nanoseconds over which the shares hold. A port that its lane receives for leaves receiving to the lane for as long.
pub const PERIOD: u64 = 500_000;
/// How much of the time that others took at once is made up for where they are other programs: the scheduler puts a program off at its own ticks, which are up to 4 milliseconds apart, so a
/// lane that slept for others wakes late. What services take beyond the account is made up for as far as that, too.
const LATE: u64 = 8 * PERIOD;
/// For how long a lane rests at least, where it leaves its CPU to other programs; and at most, that its own part of it be [`RUN`]. To fall asleep and to wake up takes 20 us of its own
/// part, and what it had in its caches is not there any more: that is to be little beside what it does between two rests.
const REST: u64 = 2 * PERIOD;
const LONGEST_REST: u64 = 6 * PERIOD;
const RUN: u64 = PERIOD / 2;
/// A chunk that took so many times what it was to cost, and [`SLACK`] more, was interrupted: the rest of the time was somebody else's.
const INTERRUPTED: u64 = 8;
/// Nanoseconds that a chunk may take beside what its frames cost.
const SLACK: u64 = 50_000;
/// Nanoseconds that the network may be behind: what a chunk took beyond the account is made up for, as far as that goes.
const OWED: i64 = PERIOD.cast_signed() / 4;
/// The part that the newest chunk has in what a frame is taken to cost: one in 2 to this power.
const WEIGHT: u32 = 4;

/// The account.
#[derive(Clone, Debug)]
pub struct Timed {
    knobs: Knobs,
    /// Other programs on the lane's CPU have a part in the user fraction: the time that is others' is kept for them, whether they want it or not.
    other_programs: bool,
    /// Nanoseconds that the network may take.
    account: i64,
    /// Nanoseconds that a frame costs, 16 times; 0 before the first.
    cost: u64,
    is_held: bool,
    /// What the network is seen to have.
    counts: TimedCounts,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedCounts {
    /// How often it was held.
    pub held: u64,
    /// How often others took more than [`PERIOD`] at once while packets waited.
    pub overruns: u64,
}

impl Timed {
    /// A network that has taken nothing yet.
    #[must_use]
    pub fn new(knobs: Knobs, other_programs: bool) -> Self {
        let counts = TimedCounts::default();
        let mut new = Self { knobs, other_programs, account: 0, cost: 0, is_held: false, counts };
        new.account = new.most();
        new
    }

    /// From now on these hold; nothing is owed from before.
    pub fn set(&mut self, knobs: Knobs, other_programs: bool) {
        (self.knobs, self.other_programs) = (knobs, other_programs);
        (self.account, self.is_held) = (self.most(), false);
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> TimedCounts {
        self.counts
    }

    /// Whether nothing is to be governed: then nothing need be said of how long things took.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.knobs.user_frac == 0
    }

    /// Whether sleep is to be told apart from what the lane's services take.
    #[must_use]
    pub fn tells_sleep(&self) -> bool {
        self.other_programs && !self.is_idle()
    }

    /// Packets have waited while services and tasks of the lane had its time for so long. Returns whether that was longer than the shares hold over: then it is counted.
    pub fn packets_waited(&mut self, nanoseconds: u64) -> bool {
        let is_overrun = nanoseconds > PERIOD;
        self.counts.overruns += u64::from(is_overrun);
        is_overrun
    }

    /// Services and tasks of the lane had its time for so long.
    pub fn services_took(&mut self, nanoseconds: u64) {
        match self.tells_sleep() {
            true => self.charge(nanoseconds),
            false => self.slept(nanoseconds),
        }
    }

    /// The lane slept for so long, or others had its time in another way.
    pub fn slept(&mut self, nanoseconds: u64) {
        self.account = self.account.saturating_add(self.share(nanoseconds)).min(self.reserve());
        // What the rest itself took of the lane's part is lacking now. It would be as much after another one.
        let enough = if self.tells_sleep() { self.enough() / 2 } else { self.enough() };
        if self.is_held && self.account >= enough {
            self.is_held = false;
        }
    }

    /// The network took so long for so many frames; returns what of it was its own.
    pub fn network_took(&mut self, nanoseconds: u64, frames: u64) -> u64 {
        let took = nanoseconds.min(self.longest(frames));
        took.saturating_mul(16).checked_div(frames).into_iter().for_each(|cost| self.note_cost(cost));
        // Beside other programs an interruption counts as the lane's, in a turn, as it counts as theirs in a rest: what nobody had is then lost by both alike.
        self.charge(if self.tells_sleep() { nanoseconds } else { took });
        took
    }

    /// The network took so long, of which all was its own: receiving what became nobody's frame, or sending.
    pub fn charge(&mut self, nanoseconds: u64) {
        let took = nanoseconds.min(INTERRUPTED * PERIOD);
        self.account = (self.account + self.share(took) - took.cast_signed()).max(-self.owed());
        if self.account <= 0 && !self.is_idle() && !self.is_held {
            self.is_held = true;
            self.counts.held += 1;
        }
    }

    /// Nobody else wants the lane's time now: the network goes on, if that time is not other programs'.
    pub fn nobody_wants(&mut self) {
        if !self.other_programs && self.is_held {
            (self.account, self.is_held) = (0, false);
        }
    }

    /// Frames that each port may bring now; none while the network is held.
    #[must_use]
    pub fn frames(&self) -> usize {
        if self.is_held { 0 } else { self.knobs.each_burst.min(self.burst()) as usize }
    }

    /// For how long others have the lane's time now, in nanoseconds, if that is held for them.
    #[must_use]
    pub fn held_for(&self) -> Option<u64> {
        let share = u64::from(100 - self.knobs.user_frac).max(1);
        let lacking = self.enough().saturating_sub(self.account).max(0).cast_unsigned();
        self.is_held.then(|| lacking.saturating_mul(100).div_ceil(share).max(1))
    }

    /// Whether packets that wait come before tasks: while the network's share is not used up.
    #[must_use]
    pub fn is_network_first(&self) -> bool {
        !self.is_idle() && !self.is_held
    }

    /// Frames of each port that the network's part of [`PERIOD`] lasts for, at what they cost now.
    #[must_use]
    pub fn burst(&self) -> u32 {
        if self.cost == 0 {
            return self.knobs.burst_max;
        }
        let frames = (self.most().cast_unsigned() * 16) / self.cost;
        u32::try_from(frames).unwrap_or(u32::MAX).clamp(1, self.knobs.burst_max)
    }

    /// Nanoseconds that a frame costs.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost / 16
    }

    /// The network's part of a time.
    fn share(&self, nanoseconds: u64) -> i64 {
        let part = u128::from(nanoseconds) * u128::from(100 - self.knobs.user_frac) / 100;
        i64::try_from(part).unwrap_or(i64::MAX)
    }

    /// The most that the account holds: the network's part of the period, or what the largest burst costs.
    fn most(&self) -> i64 {
        let part = self.share(PERIOD);
        if self.cost == 0 {
            return part;
        }
        let largest = u64::from(self.knobs.burst_max).saturating_mul(self.cost) / 16;
        part.min(i64::try_from(largest).unwrap_or(i64::MAX)).max(1)
    }

    /// The most that the account grows to while others have the time.
    fn reserve(&self) -> i64 {
        if self.other_programs { self.most().max(self.share(self.rest() + LATE)) } else { self.most() }
    }

    /// How far the account may be behind.
    fn owed(&self) -> i64 {
        if self.other_programs { self.share(LATE) } else { OWED }
    }

    /// What a chunk costs, or all that the account holds.
    fn chunk(&self) -> i64 {
        let chunk = u64::from(self.knobs.each_burst).saturating_mul(self.cost) / 16;
        i64::try_from(chunk).unwrap_or(i64::MAX).clamp(1, self.most())
    }

    /// The account that lets the network go on. A lane that leaves others their time by sleeping pays for each time that it wakes, so it rests for longer.
    fn enough(&self) -> i64 {
        if self.tells_sleep() { self.share(self.rest()).max(1) } else { self.chunk().max(self.most() / 2) }
    }

    /// For how long a lane beside other programs rests, as far as nothing is owed.
    fn rest(&self) -> u64 {
        let share = u64::from(100 - self.knobs.user_frac).max(1);
        (RUN * 100 / share).clamp(REST, LONGEST_REST)
    }

    /// The longest that so many frames take if nobody interrupts.
    fn longest(&self, frames: u64) -> u64 {
        match self.cost {
            0 => INTERRUPTED * PERIOD,
            cost => (cost.saturating_mul(INTERRUPTED) / 16).saturating_mul(frames).saturating_add(SLACK),
        }
    }

    fn note_cost(&mut self, cost: u64) {
        self.cost = if self.cost == 0 { cost } else { self.cost - (self.cost >> WEIGHT) + (cost >> WEIGHT) }.max(16);
    }
}
