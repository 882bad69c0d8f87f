//! The knobs, by the names that FreeBSD gives them (`kern.polling.*`, polling(4)).

use std::fmt;
use std::ops::RangeInclusive;

/// What `burst_max` is at least, and what `each_burst` becomes where `burst_max` is lowered below it.
const BURST_MAX_LEAST: u32 = 10;
const BURST_MAX_MOST: u32 = 20_000;

/// Ticks a second that are accepted: times are whole microseconds, so a tick has one at least.
pub const HZ: RangeInclusive<u32> = 1..=1_000_000;

/// What a controller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// The share of a tick that is kept for programs: per cent.
    pub user_frac: u32,
    /// Frames of each interface that one tick may take at most: the controller finds its burst below it.
    pub burst_max: u32,
    /// Frames of each interface that are taken before the protocols run.
    pub each_burst: u32,
    /// The card's status is looked at in each so many ticks.
    pub reg_frac: u32,
    /// Whether a CPU that has nothing to do polls.
    pub idle_poll: bool,
}

impl Knobs {
    /// FreeBSD's.
    pub const DEFAULT: Self = Self { user_frac: 50, burst_max: 150, each_burst: 5, reg_frac: 20, idle_poll: false };

    /// What a knob is set to; `idle_poll` is 0 or 1.
    #[must_use]
    pub const fn get(&self, knob: Knob) -> u32 {
        match knob {
            Knob::UserFrac => self.user_frac,
            Knob::BurstMax => self.burst_max,
            Knob::EachBurst => self.each_burst,
            Knob::RegFrac => self.reg_frac,
            Knob::IdlePoll => self.idle_poll as u32,
        }
    }

    /// What a knob may be set to at `hz` ticks a second, with the others as they are.
    #[must_use]
    pub const fn range(&self, knob: Knob, hz: u32) -> RangeInclusive<u32> {
        match knob {
            Knob::UserFrac => 0..=99,
            Knob::BurstMax => BURST_MAX_LEAST..=BURST_MAX_MOST,
            Knob::EachBurst => 1..=self.burst_max,
            Knob::RegFrac => 1..=hz,
            Knob::IdlePoll => 0..=1,
        }
    }

    /// Sets a knob at `hz` ticks a second. Where `burst_max` gets below `each_burst`, the latter becomes 10.
    ///
    /// # Errors
    /// The value is out of the knob's range; nothing has changed.
    pub fn set(&mut self, knob: Knob, value: i64, hz: u32) -> Result<(), KnobError> {
        let value = KnobError::unless_in(knob.name(), value, self.range(knob, hz))?;
        match knob {
            Knob::UserFrac => self.user_frac = value,
            Knob::BurstMax => self.burst_max = value,
            Knob::EachBurst => self.each_burst = value,
            Knob::RegFrac => self.reg_frac = value,
            Knob::IdlePoll => self.idle_poll = value == 1,
        }
        if self.each_burst > self.burst_max {
            self.each_burst = BURST_MAX_LEAST;
        }
        Ok(())
    }

    /// Whether all of them may be used at `hz` ticks a second.
    ///
    /// # Errors
    /// The first that is out of its range, or `hz` itself out of [`HZ`].
    pub fn check(&self, hz: u32) -> Result<(), KnobError> {
        KnobError::unless_in("hz", hz.into(), HZ)?;
        for knob in Knob::ALL {
            KnobError::unless_in(knob.name(), self.get(knob).into(), self.range(knob, hz))?;
        }
        Ok(())
    }
}

impl Default for Knobs {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One of the [`Knobs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Knob {
    /// [`Knobs::user_frac`].
    UserFrac,
    /// [`Knobs::burst_max`].
    BurstMax,
    /// [`Knobs::each_burst`].
    EachBurst,
    /// [`Knobs::reg_frac`].
    RegFrac,
    /// [`Knobs::idle_poll`].
    IdlePoll,
}

impl Knob {
    /// Each of them. `burst_max` comes before `each_burst`, whose range it bounds.
    pub const ALL: [Self; 5] = [Self::UserFrac, Self::BurstMax, Self::EachBurst, Self::RegFrac, Self::IdlePoll];

    /// The original's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserFrac => "user_frac",
            Self::BurstMax => "burst_max",
            Self::EachBurst => "each_burst",
            Self::RegFrac => "reg_frac",
            Self::IdlePoll => "idle_poll",
        }
    }

    /// What it is, in a line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::UserFrac => "per cent of the time that packets leave to others",
            Self::BurstMax => "frames of each interface before others have their part, at most",
            Self::EachBurst => "frames of each interface that are taken before the protocols run",
            Self::RegFrac => "ticks from one look at the card's status to the next",
            Self::IdlePoll => "whether a CPU that has nothing to do polls (0 or 1)",
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value that is out of its range: the original's EINVAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnobError {
    /// The knob's name, or `hz`.
    pub name: &'static str,
    /// What was asked for.
    pub value: i64,
    /// The least that is accepted.
    pub least: u32,
    /// The most that is accepted.
    pub most: u32,
}

impl KnobError {
    pub(super) fn unless_in(name: &'static str, value: i64, range: RangeInclusive<u32>) -> Result<u32, Self> {
        let (least, most) = range.into_inner();
        u32::try_from(value).ok().filter(|value| (least..=most).contains(value)).ok_or(Self { name, value, least, most })
    }
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, least, most } = self;
        write!(f, "{name} is {least} to {most}, not {value}")
    }
}

impl std::error::Error for KnobError {}
