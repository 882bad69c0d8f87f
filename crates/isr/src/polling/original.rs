//! FreeBSD's controller.

use super::handlers::{HandlerError, Handlers};
use super::knobs::{Knob, KnobError, Knobs};
use std::time::Duration;

/// What the controller's burst is at first: frames.
const BURST_FIRST: u32 = 5;
/// Polls that may be pending: with more than these the controller has stalled, and forgets them.
const PENDING_MAX: u32 = 100;
/// A tick that comes earlier than this part of one after the last full one is short: microseconds times ticks a second.
const SHORT: i32 = 500_000;
/// What a part of a second in microseconds, times ticks a second, is divided by: a tick in per cent.
const PER_CENT: i32 = 10_000;
/// A pending poll takes this part off the burst.
const PENDING_PART: u32 = 8;

/// How long the loop of an idle CPU sleeps at most, before it looks again whether it is to poll.
pub const IDLE_SLEEP: Duration = Duration::from_secs(3);

/// What a handler is called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Frames that each handler may take.
    pub frames: u32,
    /// Whether it looks at the card's status too.
    pub checks_status: bool,
}

/// The controller's read-only variables, by the original's names. The counts begin again at 0 after 2^32 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// Frames of each interface that a tick takes, as the controller has found: 1 to `burst_max`.
    pub burst: u32,
    /// Frames of each interface that this tick may still take.
    pub residual_burst: u32,
    /// Ticks since the card's status was looked at.
    pub reg_frac_count: u32,
    /// Ticks less than half of one after the last full one.
    pub short_ticks: u32,
    /// Ticks that came while a poll was pending.
    pub lost_polls: u32,
    /// Ticks whose polls have not ended.
    pub pending_polls: u32,
    /// How often pending polls were forgotten.
    pub stalled: u32,
    /// Ticks that came while the last one's poll was scheduled and had not begun.
    pub suspect: u32,
    /// Where the controller is: 0 at rest, 1 and 2 scheduled, 3 and 4 polled, 5 the protocols have run, 6 goes again for a pending poll. Calls leave 0, 2, 4, 5 or 6.
    pub phase: u32,
    /// Handlers that are registered.
    pub handlers: u32,
}

/// FreeBSD's controller, a value: each event is told to it with the time, and it says what is to be done.
///
/// ```text
/// clock, HZ times a second --.tick(now) -> true: schedule a poll
/// the poll that was scheduled --.poll(now) -> Chunk: call each of .handlers() with it; the protocols run
/// nothing is left for them --.end(now) -> true: schedule a poll
/// the CPU is idle --.idle_poll() -> Chunk: call each handler with it; None: sleep, IDLE_SLEEP at most
/// ```
///
/// **Arithmetic** is the original's, of signed 32 bits. A time that a clock went back by counts as little; at 1000 ticks a second, one above 2.1 seconds
/// is taken for another, since it is multiplied by that. Neither ends anything.
///
/// **A stall** that comes while a poll runs schedules one more than it counts. The end of that one finds nothing pending, and here leaves it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    hz: u32,
    knobs: Knobs,
    handlers: Handlers,
    variables: Variables,
    /// The last full tick.
    full_us: u64,
    /// When this tick's first poll began.
    start_us: u64,
}

impl Original {
    /// A controller at rest for `hz` ticks a second.
    ///
    /// # Errors
    /// A knob or `hz` is out of its range.
    pub fn new(hz: u32, knobs: Knobs) -> Result<Self, KnobError> {
        knobs.check(hz)?;
        let variables = Variables { burst: BURST_FIRST, ..Variables::default() };
        Ok(Self { hz, knobs, handlers: Handlers::default(), variables, full_us: 0, start_us: 0 })
    }

    /// Ticks a second.
    #[must_use]
    pub const fn hz(&self) -> u32 {
        self.hz
    }

    /// The knobs as they are.
    #[must_use]
    pub const fn knobs(&self) -> Knobs {
        self.knobs
    }

    /// The variables as they are.
    #[must_use]
    pub fn variables(&self) -> Variables {
        Variables { handlers: self.handlers.all().len() as u32, ..self.variables }
    }

    /// The handlers that are registered, in the order in which they are called.
    #[must_use]
    pub fn handlers(&self) -> &[u32] {
        self.handlers.all()
    }

    /// Sets a knob, also while polls are pending. A burst above a lowered `burst_max` comes down to it. With a `reg_frac` of no more ticks than have passed
    /// since the last look at the status, they are counted anew.
    ///
    /// # Errors
    /// The value is out of the knob's range; nothing has changed.
    pub fn set(&mut self, knob: Knob, value: i64) -> Result<(), KnobError> {
        self.knobs.set(knob, value, self.hz)?;
        let v = &mut self.variables;
        v.burst = v.burst.min(self.knobs.burst_max);
        if v.reg_frac_count >= self.knobs.reg_frac {
            v.reg_frac_count = 0;
        }
        Ok(())
    }

    /// Has a handler called, after all that are.
    ///
    /// # Errors
    /// It is registered, or [`HANDLERS_MAX`](super::HANDLERS_MAX) are.
    pub fn register(&mut self, handler: u32) -> Result<(), HandlerError> {
        self.handlers.register(handler)
    }

    /// Has a handler no longer called; the last one is called in its place.
    ///
    /// # Errors
    /// It is not registered.
    pub fn remove(&mut self, handler: u32) -> Result<(), HandlerError> {
        self.handlers.remove(handler)
    }

    /// The clock's tick. Returns whether a poll is to be scheduled.
    // tidy: allow(tick) the original's word: it is the clock's, not a lane's
    pub fn tick(&mut self, now_us: u64) -> bool {
        if self.handlers.all().is_empty() {
            return false;
        }
        let v = &mut self.variables;
        if ticks(self.full_us, now_us, self.hz) < SHORT {
            v.short_ticks = v.short_ticks.wrapping_add(1);
        } else {
            self.full_us = now_us;
        }
        if v.pending_polls > PENDING_MAX {
            v.stalled = v.stalled.wrapping_add(1);
            v.pending_polls = 0;
            v.phase = 0;
        }
        let schedules = v.phase <= 2;
        if schedules {
            if v.phase != 0 {
                v.suspect = v.suspect.wrapping_add(1);
            }
            v.phase = 2;
        }
        if v.pending_polls > 0 {
            v.lost_polls = v.lost_polls.wrapping_add(1);
        }
        v.pending_polls += 1;
        schedules
    }

    /// The poll that was scheduled. Returns what each handler is called with.
    pub fn poll(&mut self, now_us: u64) -> Chunk {
        let v = &mut self.variables;
        let mut checks_status = false;
        if v.residual_burst == 0 {
            self.start_us = now_us;
            v.reg_frac_count += 1;
            checks_status = v.reg_frac_count == self.knobs.reg_frac;
            if checks_status {
                v.reg_frac_count = 0;
            }
            v.residual_burst = v.burst;
        }
        let frames = v.residual_burst.min(self.knobs.each_burst);
        v.residual_burst -= frames;
        v.phase = 4;
        Chunk { frames, checks_status }
    }

    /// The handlers have been called, and the protocols have nothing left. Returns whether a poll is to be scheduled.
    pub fn end(&mut self, now_us: u64) -> bool {
        let v = &mut self.variables;
        v.phase = 5;
        if v.residual_burst > 0 {
            return true;
        }
        let load = ticks(self.start_us, now_us, self.hz) / PER_CENT;
        v.burst =
            if load > 100 - self.knobs.user_frac as i32 { (v.burst - 1).max(1) } else { (v.burst + 1).min(self.knobs.burst_max) };
        v.pending_polls = v.pending_polls.saturating_sub(1);
        let goes_again = v.pending_polls > 0;
        if goes_again {
            v.burst -= v.burst / PENDING_PART; // it stays above 0
        }
        v.phase = if goes_again { 6 } else { 0 };
        goes_again
    }

    /// What a CPU that has nothing else to do calls each handler with; nothing where `idle_poll` is off or none is registered.
    #[must_use]
    pub fn idle_poll(&self) -> Option<Chunk> {
        let polls = self.knobs.idle_poll && !self.handlers.all().is_empty();
        polls.then_some(Chunk { frames: self.knobs.each_burst, checks_status: false })
    }
}

/// The time between two moments in millionths of a tick, in the original's arithmetic.
const fn ticks(from_us: u64, to_us: u64, hz: u32) -> i32 {
    (to_us.wrapping_sub(from_us) as i32).wrapping_mul(hz as i32)
}
