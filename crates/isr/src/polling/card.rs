//! A card and its machine, simulated in virtual time: the gateway of the published runs, with the original's controller driven tick by tick.
//!
//! ```text
//! flows --trains of frames--> wire --bus--> ring (full: an error) --chunk--> driver, rules, stack --bus--> wire
//! ```
//!
//! The published runs ([`PUBLISHED`]) are one machine's on which one thing after another was changed. [`Machine::GATEWAY`] has few constants, each published or fitted to
//! those runs; with them all figures come within 15 % of the published ones, and in their order. What the model says beyond:
//!
//! * At 1000 ticks a second the **ring** is the limit, not the share of the CPU: what it holds is all that a tick finds. So more ticks help at first, and
//!   `user_frac` only then. With the rules as a tree the CPU has time to spare, and the ring is the limit again; the bus would be the next, at 62 MB/s.
//! * `burst_max` **cannot matter** there: the controller's burst stays below 60, so that 300 in place of 150 gives the same run, frame by frame. Its published harm has no
//!   cause in the controller.
//! * `reg_frac` is worth a thousandth of a tick where a read across the bus (`status_ns`), which it saves, takes 1 us at 1000 ticks a second. Those of the post are not known, and cost nothing here.
//! * Where the CPU is not the limit, the burst climbs to `burst_max`, and each tick asks the card for it, chunk by chunk, though nothing waits. There a larger `burst_max` takes more of the CPU
//!   for the same frames, and more polls are lost when load comes back.
//!
//! It is a model for comparing settings, not a clock: the same seed gives the same seconds.

mod machine;
mod published;
mod traffic;

pub use machine::{Machine, RULES_FLAT, RULES_SKIPTO, RULES_TREE};
pub use published::{PUBLISHED, Published};
pub use traffic::Traffic;

use super::knobs::{Knob, KnobError, Knobs};
use super::original::{Chunk, Original, Variables};
use super::tune::Seen;
use traffic::Arrivals;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// What programs want and have not had is remembered for so long: nanoseconds.
const WANTED_MOST: u64 = SECOND / 10;

/// What a second brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Frames that were forwarded.
    pub forwarded: u64,
    /// Frames that found the ring full, or the card's memory.
    pub errors: u64,
    /// CPU time that frames and polls took, the idle CPU's too: microseconds.
    pub network_us: u64,
    /// CPU time that programs had, or could have had at once: microseconds.
    pub user_us: u64,
    /// The longest time in which they had none: microseconds.
    pub longest_us: u64,
    /// The controller's burst at a tick: frames.
    pub burst_mean: u32,
    /// The most of them.
    pub burst_most: u32,
    /// The controller's variables at its end.
    pub variables: Variables,
}

impl Second {
    /// CPU time that frames and polls took, per cent.
    #[must_use]
    pub const fn network_share(&self) -> u32 {
        (self.network_us / 10_000) as u32
    }

    /// CPU time that programs had, or could have had at once, per cent.
    #[must_use]
    pub const fn user_share(&self) -> u32 {
        (self.user_us / 10_000) as u32
    }

    /// What the tuner is told of it.
    #[must_use]
    pub const fn seen(&self) -> Seen {
        Seen {
            goodput: self.forwarded,
            lost: self.errors,
            network_share: self.network_share(),
            user_share: self.user_share(),
            burst: self.burst_most,
        }
    }
}

/// The gateway as it runs. Times are nanoseconds since its start.
#[derive(Clone, Debug)]
pub struct Card {
    machine: Machine,
    original: Original,
    arrivals: Arrivals,
    now: u64,
    /// When the next tick comes.
    due: u64,
    is_scheduled: bool,
    /// Frames in the ring.
    waiting: u32,
    /// Until when the bus is taken.
    bus_free: u64,
    /// CPU time that programs want and have not had.
    wanted: u64,
    /// When programs last had the CPU.
    user_at: u64,
    second: Sums,
}

/// A second as it is counted, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Sums {
    forwarded: u64,
    errors: u64,
    network: u64,
    user: u64,
    longest: u64,
    ticks: u64,
    bursts: u64,
    burst_most: u32,
}

impl Card {
    /// A gateway that has just been switched on, with one card at `hz` ticks a second.
    ///
    /// # Errors
    /// A knob or `hz` is out of its range.
    pub fn new(machine: Machine, hz: u32, knobs: Knobs, seed: u64) -> Result<Self, KnobError> {
        let arrivals = Arrivals::new(machine.traffic, machine.wire_ns(), seed);
        let original = started(hz, knobs)?;
        let due = SECOND / u64::from(hz);
        let (now, waiting, bus_free, wanted, user_at) = (0, 0, 0, 0, 0);
        let (is_scheduled, second) = (false, Sums::default());
        Ok(Self { machine, original, arrivals, now, due, is_scheduled, waiting, bus_free, wanted, user_at, second })
    }

    /// Sets the knobs as they are to be. Another number of ticks starts the controller anew, as it takes a boot.
    ///
    /// # Errors
    /// A knob or `hz` is out of its range; nothing has changed.
    pub fn set(&mut self, hz: u32, knobs: Knobs) -> Result<(), KnobError> {
        if hz != self.original.hz() {
            self.original = started(hz, knobs)?;
            self.is_scheduled = false;
            return Ok(());
        }
        knobs.check(hz)?;
        for knob in Knob::ALL {
            self.original.set(knob, knobs.get(knob).into())?;
        }
        Ok(())
    }

    /// Has frames visit so many rules from now on.
    pub const fn set_rules(&mut self, rules: u32) {
        self.machine.rules = rules;
    }

    /// Lets a second pass.
    pub fn second(&mut self) -> Second {
        self.second = Sums::default();
        let end = self.now.saturating_add(SECOND);
        while self.now < end {
            if self.is_scheduled {
                self.poll();
            } else {
                self.rest();
            }
        }
        let sums = &self.second;
        Second {
            forwarded: sums.forwarded,
            errors: sums.errors,
            network_us: sums.network / 1000,
            user_us: sums.user / 1000,
            longest_us: sums.longest / 1000,
            burst_mean: (sums.bursts / sums.ticks.max(1)) as u32,
            burst_most: sums.burst_most,
            variables: self.original.variables(),
        }
    }

    fn poll(&mut self) {
        self.is_scheduled = false;
        let is_first = self.original.variables().residual_burst == 0;
        let chunk = self.original.poll(self.now / 1000);
        self.take(chunk, is_first);
        self.is_scheduled |= self.original.end(self.now / 1000);
    }

    /// The driver takes frames of the ring, and they go through rules and stack.
    fn take(&mut self, chunk: Chunk, is_first: bool) {
        self.network(self.machine.call_ns(is_first, chunk.checks_status));
        let frames = chunk.frames.min(self.waiting);
        self.waiting -= frames;
        for _ in 0..frames {
            self.network(self.machine.each_ns());
            self.bus_free = self.bus_free.max(self.now) + self.machine.bus_ns();
            self.second.forwarded += 1;
        }
    }

    fn network(&mut self, ns: u64) {
        self.second.network += ns;
        self.pass(ns);
    }

    /// The CPU is not the controller's until the next tick.
    fn rest(&mut self) {
        self.second.longest = self.second.longest.max(self.now - self.user_at);
        let (from, left) = (self.now, self.due - self.now);
        match self.original.idle_poll() {
            Some(chunk) if self.wanted == 0 => self.take(chunk, false),
            Some(_) => self.user(left.min(self.wanted)),
            None => self.user(left),
        }
        self.second.user += self.now - from;
        self.user_at = self.now;
    }

    fn user(&mut self, ns: u64) {
        self.wanted = self.wanted.saturating_sub(ns);
        self.pass(ns);
    }

    /// Time passes, with the ticks and the frames that come in it.
    fn pass(&mut self, ns: u64) {
        let mut until = self.now + ns;
        let wanted = ns * u64::from(self.machine.user_wants.min(100)) / 100;
        self.wanted = (self.wanted + wanted).min(WANTED_MOST);
        let period = SECOND / u64::from(self.original.hz());
        while self.due <= until {
            self.receive(self.due);
            self.is_scheduled |= self.original.tick(self.due / 1000);
            let burst = self.original.variables().burst;
            self.second.ticks += 1;
            self.second.bursts += u64::from(burst);
            self.second.burst_most = self.second.burst_most.max(burst);
            self.due += period;
            until += self.machine.clock_ns.min(period / 2);
        }
        self.receive(until);
        self.now = until;
    }

    /// Frames come from the wire over the bus into the ring.
    fn receive(&mut self, until: u64) {
        while let Some(at) = self.arrivals.next(until) {
            let begins = self.bus_free.max(at);
            if self.waiting < self.machine.ring && begins - at <= self.machine.held_ns() {
                self.waiting += 1;
                self.bus_free = begins + self.machine.bus_ns();
            } else {
                self.second.errors += 1;
                self.arrivals.lost();
            }
        }
    }
}

/// A controller with the card's handler.
fn started(hz: u32, knobs: Knobs) -> Result<Original, KnobError> {
    let mut original = Original::new(hz, knobs)?;
    let registered = original.register(0);
    debug_assert!(registered.is_ok(), "none was registered");
    Ok(original)
}
