//! Whether packets come in numbers, so that the lane takes them in by itself, and when it looks for more.
//!
//! ```text
//! few, or a burst: the kernel receives, as ever
//! PRESSURE at once, or within AGAIN, and BURST of them: receiving is left to the lane -> it looks as long as packets come, and after pauses that grow to AGAIN
//!          fewer than PRESSURE without a look, or QUIET looks in vain -> few
//!          the kernel cannot be told any more: RARELY -> RESTS looks in vain -> none, until something comes
//! ```
//!
//! In numbers are they also that come to the queue and not to the lane: dropped, forwarded, or the kernel's.

/// When a lane that has found nothing several times looks again, in nanoseconds, as long as receiving is left to it.
pub const AGAIN: u64 = 500_000;
/// How often the pause doubles until it is that long: an asker that was just answered may ask again soon.
const DOUBLINGS: u32 = 3;
/// Packets that come at once, or within [`AGAIN`], from which on a lane takes them in by itself.
const PRESSURE: u64 = 48;
/// Looks in a row that find nothing until the kernel receives again.
const QUIET: u32 = 8;
/// When a lane looks again that found nothing so often, and may not have the kernel receive, in nanoseconds.
const RARELY: u64 = 10 * AGAIN;
/// Packets that a look has come at once, before the lane handles them: few, so that they are in its cache still.
const BATCH: u64 = 64;
/// Nanoseconds of a packet, where packets are just in numbers.
const EACH: u64 = AGAIN / PRESSURE;
/// Packets in numbers that are a burst still, beyond one in [`EACH`]. The kernel receives them as they come, and so do looks: a queue of few places (256 of a veth) would lose some while the lane
/// handles others, and the lane's own ring has room. A flood that lasts is left to the lane, which takes in batches: a longer ring would only have its packets wait.
const BURST: u64 = 2048;
/// Looks in a row that find nothing until such a lane looks no more: a second. The kernel receives by itself soon after the last look, at once what comes first, and then the lane looks
/// again.
const RESTS: u32 = QUIET + 200;

/// What is known of it.
#[derive(Debug)]
pub struct Pressure {
    /// Receiving is left to the lane.
    is_deferring: bool,
    /// Packets came, so there may be more: they are to be looked for before the lane sleeps.
    goes_on: bool,
    /// Packets that have come to the queue, and when that was noted.
    seen: u64,
    seen_at: u64,
    look_at: u64,
    /// Looks in a row that have found nothing.
    quiet: u32,
    /// Nanoseconds that packets may still have come early by, to be a burst.
    credit: u64,
}

impl Pressure {
    /// That of a queue whose receiving is left to the lane, and nothing has come yet.
    pub const fn new() -> Self {
        Self { is_deferring: true, goes_on: false, seen: 0, seen_at: 0, look_at: 0, quiet: 0, credit: BURST * EACH }
    }

    /// Whether there may be more than has come: a look is due.
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// How many packets are to wait behind a look, of so many for which there are frames: it goes on until then.
    pub fn most(&self, frames: u64) -> u64 {
        (self.credit / EACH).max(BATCH).min(frames.max(1))
    }

    /// When a lane that sleeps is to look. Where a look is due already it is made with the next receive: nobody wakes for that, for a lane that leaves others their time receives
    /// nothing meanwhile.
    pub fn wakes_at(&self) -> Option<u64> {
        (self.is_deferring && !self.goes_on && self.quiet < RESTS).then_some(self.look_at)
    }

    /// The lane attends to the port: what has waited for [`AGAIN`] is looked for with its next receive.
    pub fn attended(&mut self, now: u64) {
        if self.wakes_at().is_some_and(|time| time <= now) {
            (self.goes_on, self.look_at) = (true, now + self.pause());
        }
    }

    /// A receive ends, behind each look that was due: so many packets have come to the queue by now, and so many frames to the lane with it. Returns whether receiving is
    /// to be left to the lane from now on, or no longer, if that changes.
    pub fn came(&mut self, now: u64, seen: u64, frames: usize) -> Option<bool> {
        let (packets, since) = (seen.saturating_sub(self.seen), now.saturating_sub(self.seen_at));
        (self.seen, self.seen_at) = (seen, now);
        let is_flood = packets >= PRESSURE && since.saturating_mul(PRESSURE) <= packets.saturating_mul(AGAIN);
        let is_under_pressure = is_flood || frames as u64 >= PRESSURE;
        let (has_looked, came) = (std::mem::take(&mut self.goes_on), packets > 0 || frames > 0);
        self.quiet = if came { 0 } else { self.quiet.saturating_add(u32::from(has_looked)) };
        self.credit = self.credit.saturating_add(since).min(BURST * EACH).saturating_sub(packets.saturating_mul(EACH));
        (self.goes_on, self.look_at) = (came && self.is_deferring, now + self.pause());
        let ends = if came { !is_under_pressure && !has_looked } else { self.quiet >= QUIET };
        match self.is_deferring {
            true if ends => Some(false),
            false if is_under_pressure && self.credit < EACH => Some(true),
            _ => None,
        }
    }

    fn pause(&self) -> u64 {
        if self.quiet < QUIET { AGAIN >> (DOUBLINGS + 1).saturating_sub(self.quiet.max(1)) } else { RARELY }
    }

    /// Receiving is left to the lane from now on, or no longer.
    pub fn defers(&mut self, is_deferring: bool) {
        // One look more ends the time for which the kernel leaves it to others.
        (self.is_deferring, self.goes_on, self.quiet) = (is_deferring, true, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One whose kernel receives, at that time.
    fn few(now: u64) -> Pressure {
        let mut pressure = Pressure::new();
        pressure.defers(false);
        assert_eq!(pressure.came(now, 0, 0), None);
        assert_eq!((pressure.goes_on(), pressure.wakes_at()), (false, None), "nobody looks, and nobody wakes");
        pressure
    }

    /// The same behind a burst, with which so many packets have come by that time.
    fn behind_a_burst() -> (Pressure, u64, u64) {
        let mut pressure = few(0);
        assert_eq!((pressure.came(1, BURST - 1, 64), pressure.most(4_096)), (None, BATCH), "one less");
        (pressure, 1, BURST - 1)
    }

    #[test]
    fn many_at_once_that_last_are_left_to_the_lane_wherever_they_go() {
        let (mut pressure, now, seen) = behind_a_burst();
        assert_eq!(pressure.came(now, seen + 48, 48), Some(true));
        // None of them is the lane's.
        let (mut pressure, now, seen) = behind_a_burst();
        assert_eq!(pressure.came(now + AGAIN, seen + 48, 0), None, "they may come so");
        assert_eq!(pressure.came(now + AGAIN, seen + 97, 0), Some(true));
        // As many, over a longer time, are few.
        let (mut pressure, now, seen) = behind_a_burst();
        assert_eq!(pressure.came(now + 1, seen + 47, 47), None);
        assert_eq!(pressure.came(now + 2 * AGAIN, seen + 47 + 48, 47), None);
        assert_eq!(pressure.came(now + 2 * AGAIN + 1, seen + 47 + 48 + 96, 48), Some(true));
    }

    #[test]
    fn a_burst_behind_another_has_room_as_time_has_passed() {
        let (mut pressure, now, seen) = behind_a_burst();
        assert_eq!(pressure.came(now + 1_000 * EACH, seen, 0), None);
        assert_eq!(pressure.most(4_096), 1_001);
        assert_eq!(pressure.came(now + 1_000 * EACH, seen + 1_000, 64), None);
        assert_eq!(pressure.came(now + 1_000 * EACH, seen + 1_048, 48), Some(true));
        assert_eq!((pressure.came(now + 9_000 * EACH, seen + 1_048, 0), pressure.most(4_096)), (None, BURST));
    }

    #[test]
    fn while_they_come_it_is_looked_and_a_lane_that_sleeps_looks_again() {
        let mut pressure = few(0);
        assert_eq!(pressure.came(1_000, BURST, 64), Some(true));
        pressure.defers(true);
        assert!(pressure.goes_on());
        let seen = BURST + 64;
        assert_eq!(pressure.came(2_000, seen, 64), None);
        assert!(pressure.goes_on());
        assert_eq!(pressure.came(3_000, seen, 0), None);
        // The pause doubles with each look in vain, and begins anew with what comes.
        let mut now = 3_000;
        for pause in [AGAIN / 8, AGAIN / 4, AGAIN / 2, AGAIN, AGAIN] {
            assert_eq!((pressure.goes_on(), pressure.wakes_at()), (false, Some(now + pause)));
            pressure.attended(now + pause - 1);
            assert!(!pressure.goes_on());
            now += pause;
            pressure.attended(now);
            assert_eq!((pressure.goes_on(), pressure.wakes_at()), (true, None), "nobody wakes again for a look that is due");
            assert_eq!(pressure.came(now, seen, 0), None);
        }
        pressure.attended(now + AGAIN);
        assert_eq!(pressure.came(now + AGAIN, seen + 1, 1), None);
        assert_eq!(pressure.came(now + AGAIN, seen + 1, 0), None);
        assert_eq!(pressure.wakes_at(), Some(now + AGAIN + AGAIN / 8));
    }

    #[test]
    fn where_nothing_comes_the_kernel_receives_again() {
        let mut pressure = Pressure::new();
        let mut looks = 0;
        let ends = (1..100).find_map(|number| {
            pressure.attended(number * AGAIN);
            looks += u32::from(pressure.goes_on());
            pressure.came(number * AGAIN, 0, 0)
        });
        assert_eq!((ends, looks), (Some(false), QUIET));
        // It could not be told: it is looked for rarely, and often again once something came.
        assert_eq!(pressure.wakes_at(), Some(u64::from(QUIET) * AGAIN + RARELY));
        let (mut now, mut looks) = (0, 0);
        while let Some(time) = pressure.wakes_at() {
            now = time;
            pressure.attended(now);
            pressure.came(now, 0, 0);
            looks += 1;
            assert!(looks <= 1_000, "a lane that may not tell the kernel wakes for ever");
        }
        assert!((200_000_000..=1_500_000_000).contains(&now), "{now} ns until it rests");
        pressure.attended(now + 100 * RARELY);
        assert!(!pressure.goes_on(), "nor does it look when it is woken by something else");
        assert_eq!(pressure.came(now + 100 * RARELY, 1, 1), Some(false));
        assert!(pressure.goes_on(), "a packet that came by itself has it look again");
        assert_eq!(pressure.came(now + 200 * RARELY, 61, 60), None);
        assert_eq!((pressure.goes_on(), pressure.wakes_at()), (true, None));
    }

    /// A ring of few places behind the port would else lose what comes while the lane handles a batch.
    #[test]
    fn a_look_takes_a_burst_in_as_it_comes_and_a_flood_by_batches() {
        let mut pressure = Pressure::new();
        assert_eq!((pressure.most(4_096), pressure.most(1_000), pressure.most(16)), (BURST, 1_000, 16));
        pressure.came(1, 1_500, 64);
        assert_eq!(pressure.most(4_096), BURST - 1_500);
        pressure.came(2, 3_000, 64);
        assert_eq!(pressure.most(4_096), BATCH, "it lasts");
        pressure.came(2 + 100 * EACH, 3_000, 0);
        assert_eq!(pressure.most(4_096), 100);
    }

    #[test]
    fn a_few_that_come_without_a_look_end_it() {
        let mut pressure = Pressure::new();
        assert_eq!(pressure.came(10 * AGAIN, 1, 1), Some(false));
    }
}
