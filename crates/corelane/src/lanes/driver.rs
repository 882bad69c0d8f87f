//! Which driver the lanes use: chosen once, for all of them.

use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::uring;
use corelane_drivers::{EpollDriver, Probes};
use corelane_os::lane_memory::LaneMemory;
use corelane_seam::{Fault, Reason, Record, Tuning};
use std::fmt;
use std::str::FromStr;

/// The driver that the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DriverChoice {
    /// The one that our measurements favour where it is available, else the other. Without the feature `uring` it is epoll.
    #[default]
    Auto,
    /// `io_uring`, and nothing else. It takes the feature `uring`: without it lanes do not start, and the error says so.
    Uring,
    /// `epoll`, and nothing else.
    Epoll,
}

impl FromStr for DriverChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "epoll" => Ok(Self::Epoll),
            _ => Err(Error::Setting { name: "driver", why: format!("{text:?} is none: use auto, uring or epoll") }),
        }
    }
}

/// The driver in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverKind {
    /// io_uring(7): all that a turn asks for goes to the kernel in one call.
    Uring,
    /// epoll(7): what is ready is told, and each operation is a call of its own.
    Epoll,
}

impl fmt::Display for DriverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Uring { "uring" } else { "epoll" })
    }
}

/// Refuses what no driver takes.
///
/// # Errors
/// [`Error::Setting`], with the range.
pub(crate) fn check(settings: &Tuning) -> Result<(), Error> {
    corelane_drivers::check(settings).map_err(|why| Error::Setting { name: "driver", why: why.to_string() })
}

/// A choice made, and what the operator should know of it.
pub(crate) struct ChosenDriver {
    pub(crate) kind: DriverKind,
    /// The features of the kernel that such a driver found.
    pub(crate) found: Probes,
    pub(crate) note: Option<Record>,
}

/// Makes the choice by making a driver of the kind.
pub(crate) fn choose(choice: DriverChoice) -> Result<ChosenDriver, Error> {
    choose_by(choice, attempt, uring::is_favoured)
}

/// The end of an attempt to make a driver.
type Tried = Result<Probes, corelane_drivers::Error>;

fn choose_by(
    choice: DriverChoice,
    attempt: fn(DriverKind) -> Tried,
    is_ring_favoured: fn(&Tried) -> bool,
) -> Result<ChosenDriver, Error> {
    let only = |kind| match attempt(kind) {
        Ok(found) => Ok(ChosenDriver { kind, found, note: None }),
        Err(why) => Err(Error::Driver(format!("{kind} was asked for by name and is refused: {why}, or let auto choose"))),
    };
    let ring = match choice {
        DriverChoice::Uring => return only(DriverKind::Uring),
        DriverChoice::Epoll => return only(DriverKind::Epoll),
        DriverChoice::Auto => attempt(DriverKind::Uring),
    };
    let (first, second, tried) = match is_ring_favoured(&ring) {
        true => (DriverKind::Uring, DriverKind::Epoll, ring),
        false => (DriverKind::Epoll, DriverKind::Uring, attempt(DriverKind::Epoll)),
    };
    let why = match tried {
        Ok(found) => return Ok(ChosenDriver { kind: first, found, note: None }),
        Err(why) => why,
    };
    match attempt(second) {
        Ok(found) => Ok(ChosenDriver {
            kind: second,
            found,
            note: Some(Degraded::DriverRefused.note(format_args!("{first} refused: {why}; serving with {second}"))),
        }),
        Err(error) => Err(Error::Driver(format!("none can be used here: {first}: {why}; {second}: {error}"))),
    }
}

/// Tries the calls that serving files takes and for which there is no other way; for services that are to refuse at their start what they could not do later.
///
/// # Errors
/// In words, which call the system refuses, and the remedy.
pub fn calls_on_files() -> Result<(), String> {
    corelane_drivers::probe_file_calls().map_err(|why| why.to_string())
}

/// Makes a driver of the kind, on a thread of its own. Returns the features of the kernel that it found.
pub(crate) fn attempt(kind: DriverKind) -> Tried {
    corelane_drivers::apart(move || make(kind))
}

fn make(kind: DriverKind) -> Tried {
    let refused = |_| corelane_drivers::Error::Refused { call: "mmap", fault: Fault::of(Reason::NoMemory) };
    let arena = LaneMemory::arena(1).map_err(refused)?;
    match kind {
        DriverKind::Uring => uring::attempt(arena),
        DriverKind::Epoll => EpollDriver::new(arena, Tuning::default(), Probes::default()).map(|driver| driver.probes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::without::uring as without;
    use corelane_seam::Arena;

    /// The choice of a program that was built without io_uring.
    fn without_a_ring(choice: DriverChoice) -> Result<ChosenDriver, Error> {
        let attempt = |kind| match kind {
            DriverKind::Uring => without::attempt(Arena::new(1).unwrap()),
            DriverKind::Epoll => attempt(kind),
        };
        choose_by(choice, attempt, without::is_favoured)
    }

    #[test]
    fn a_program_without_io_uring_takes_epoll_and_has_nothing_to_say() {
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            let ChosenDriver { kind, note, .. } = without_a_ring(choice).unwrap();
            assert_eq!((kind, note.is_none()), (DriverKind::Epoll, true), "{choice:?}");
        }
    }

    #[test]
    fn a_program_without_io_uring_says_which_feature_brings_it() {
        let Err(refused) = without_a_ring(DriverChoice::Uring) else { panic!("there is no ring") };
        let words = "driver: uring was asked for by name and is refused: this program was built without io_uring: use epoll, or build it with the \
                     feature \"uring\" of corelane, or let auto choose";
        assert_eq!(refused.to_string(), words);
    }
}
