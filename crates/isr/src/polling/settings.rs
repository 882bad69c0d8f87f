//! What a lane is told of polling, and what of it is changed while the lane runs.

use super::knobs::{HZ, Knob, KnobError, Knobs};
use std::fmt;
use std::str::FromStr;

/// Which controller a lane has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controller {
    /// [`Timed`](super::Timed): by the clock.
    #[default]
    Timed,
    /// [`Original`](super::Original): FreeBSD's, by ticks.
    Original,
}

impl Controller {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Timed, Self::Original];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timed => "timed",
            Self::Original => "original",
        }
    }

    /// What its knobs are where nobody says otherwise. By the clock a burst is bounded by its time, and a chunk is what one call brings.
    #[must_use]
    pub const fn knobs(self) -> Knobs {
        match self {
            Self::Timed => Knobs { burst_max: 20_000, each_burst: 64, ..Knobs::DEFAULT },
            Self::Original => Knobs::DEFAULT,
        }
    }
}

/// What a lane is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which controller it has.
    pub controller: Controller,
    /// Ticks a second of the original's.
    pub hz: u32,
    /// The knobs.
    pub knobs: Knobs,
    /// The user fraction is kept for other programs on the lane's CPU: the lane sleeps for as long as the time is theirs, and its services share the rest with packets. Otherwise it is
    /// kept for the lane's own services and tasks, and packets have what those do not want. The original's controller sleeps in any case.
    pub other_programs: bool,
}

impl Settings {
    /// By the clock, half of the time for others.
    pub const DEFAULT: Self =
        Self { controller: Controller::Timed, hz: 1000, knobs: Controller::Timed.knobs(), other_programs: false };

    /// Changes one thing. Another controller comes with its own knobs, but for `user_frac`, which stays.
    ///
    /// # Errors
    /// The value is out of its range, or the controller has no such knob; nothing has changed.
    pub fn change(&mut self, change: Change) -> Result<(), ChangeError> {
        match change {
            Change::Controller(controller) if controller != self.controller => {
                (self.controller, self.knobs) = (controller, Knobs { user_frac: self.knobs.user_frac, ..controller.knobs() });
            }
            Change::Controller(_) => {}
            Change::Hz(hz) => {
                let hz = KnobError::unless_in("hz", hz, HZ)?;
                self.knobs.check(hz)?;
                self.hz = hz;
            }
            Change::OtherPrograms(other_programs) => self.other_programs = other_programs,
            Change::Knob(knob @ (Knob::RegFrac | Knob::IdlePoll), _) if self.controller == Controller::Timed => {
                return Err(ChangeError::OfOriginal(knob));
            }
            Change::Knob(knob, value) => self.knobs.set(knob, value, self.hz)?,
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One thing that is changed, written as `user_frac=30`, `controller=original`, `hz=2000` or `other_programs=1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Which controller.
    Controller(Controller),
    /// Ticks a second.
    Hz(i64),
    /// Whether other programs have a part.
    OtherPrograms(bool),
    /// A knob.
    Knob(Knob, i64),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(controller) => write!(f, "controller={}", controller.name()),
            Self::Hz(hz) => write!(f, "hz={hz}"),
            Self::OtherPrograms(has) => write!(f, "other_programs={}", u32::from(*has)),
            Self::Knob(knob, value) => write!(f, "{knob}={value}"),
        }
    }
}

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Self, ChangeError> {
        let Some((name, value)) = text.split_once('=') else { return Err(ChangeError::NoPair) };
        let number = |name| value.parse().map_err(|_| ChangeError::NoNumber(name));
        match name {
            "controller" => {
                let found = Controller::ALL.into_iter().find(|controller| controller.name() == value);
                found.map(Self::Controller).ok_or(ChangeError::NoController)
            }
            "hz" => number("hz").map(Self::Hz),
            "other_programs" => match value {
                "0" | "1" => Ok(Self::OtherPrograms(value == "1")),
                _ => Err(ChangeError::NoSwitch),
            },
            name => {
                let knob = Knob::ALL.into_iter().find(|knob| knob.name() == name).ok_or(ChangeError::NoKnob)?;
                Ok(Self::Knob(knob, number(knob.name())?))
            }
        }
    }
}

/// Why something is not changed. Who asked for it is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The text has no `=`.
    NoPair,
    /// There is no such knob.
    NoKnob,
    /// The value of this is no whole number.
    NoNumber(&'static str),
    /// There is no such controller.
    NoController,
    /// Neither 0 nor 1.
    NoSwitch,
    /// A value is out of its range.
    Range(KnobError),
    /// Only the original's controller has the knob.
    OfOriginal(Knob),
}

impl From<KnobError> for ChangeError {
    fn from(error: KnobError) -> Self {
        Self::Range(error)
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPair => f.write_str("write a knob and its value, as in user_frac=30"),
            Self::NoKnob => {
                f.write_str("there is no such knob: name one of controller, hz, other_programs")?;
                Knob::ALL.iter().try_for_each(|knob| write!(f, ", {knob}"))
            }
            Self::NoNumber(name) => write!(f, "{name} is a whole number"),
            Self::NoController => f.write_str("controller is timed or original"),
            Self::NoSwitch => f.write_str("other_programs is 0 or 1"),
            Self::Range(error) => error.fmt(f),
            Self::OfOriginal(knob) => write!(f, "{knob} is of controller=original: choose that first"),
        }
    }
}

impl std::error::Error for ChangeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_are_written() {
        for text in ["controller=original", "controller=timed", "hz=2000", "other_programs=1", "user_frac=30", "burst_max=-1"] {
            assert_eq!(text.parse::<Change>().map(|change| change.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_changes_nothing() {
        let mut settings = Settings::DEFAULT;
        for (text, words) in [
            ("user_frac", "write a knob and its value"),
            ("share=3", "there is no such knob: name one of controller, hz, other_programs, user_frac, burst_max"),
            ("user_frac=half", "user_frac is a whole number"),
            ("user_frac=100", "user_frac is 0 to 99, not 100"),
            ("burst_max=9", "burst_max is 10 to 20000, not 9"),
            ("burst_max=99999999999999999999", "burst_max is a whole number"),
            ("hz=0", "hz is 1 to 1000000, not 0"),
            ("hz=19", "reg_frac is 1 to 19, not 20"),
            ("controller=", "controller is timed or original"),
            ("other_programs=2", "other_programs is 0 or 1"),
            ("reg_frac=5", "reg_frac is of controller=original"),
            ("idle_poll=1", "idle_poll is of controller=original"),
        ] {
            let refused = text.parse().and_then(|change| settings.change(change)).unwrap_err().to_string();
            assert!(refused.contains(words), "{text}: {refused}");
        }
        assert_eq!(settings, Settings::DEFAULT);
    }

    #[test]
    fn another_controller_comes_with_its_knobs_and_keeps_the_fraction() {
        let mut settings = Settings::DEFAULT;
        for text in ["user_frac=30", "each_burst=20", "controller=timed"] {
            settings.change(text.parse().unwrap()).unwrap();
        }
        assert_eq!((settings.knobs.user_frac, settings.knobs.each_burst), (30, 20));
        settings.change(Change::Controller(Controller::Original)).unwrap();
        assert_eq!(settings.knobs, Knobs { user_frac: 30, ..Knobs::DEFAULT });
        settings.change(Change::Knob(Knob::RegFrac, 7)).unwrap();
        assert_eq!(settings.knobs.reg_frac, 7);
    }
}
