//! Which driver the lanes use: chosen once, for all of them.

use crate::admin::messages::Degraded;
use crate::error::Error;
use corelane_drivers::{EpollDriver, Probes, UringDriver};
use corelane_seam::{Arena, Fault, Reason, Record, Tuning};
use std::fmt;
use std::str::FromStr;

/// The driver that the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DriverChoice {
    /// The one that our measurements favour where it is available, else the other.
    #[default]
    Auto,
    /// `io_uring`, and nothing else.
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
    pub(crate) note: Option<Record>,
}

/// Makes the choice by making a driver of the kind.
pub(crate) fn choose(choice: DriverChoice) -> Result<ChosenDriver, Error> {
    let (first, second) = match choice {
        DriverChoice::Uring => return only(DriverKind::Uring),
        DriverChoice::Epoll => return only(DriverKind::Epoll),
        DriverChoice::Auto if ring_is_favoured() => (DriverKind::Uring, DriverKind::Epoll),
        DriverChoice::Auto => (DriverKind::Epoll, DriverKind::Uring),
    };
    let Err(why) = attempt(first) else { return Ok(ChosenDriver { kind: first, note: None }) };
    match attempt(second) {
        Ok(()) => Ok(ChosenDriver {
            kind: second,
            note: Some(Degraded::DriverRefused.note(format_args!("{first} refused: {why}; serving with {second}"))),
        }),
        Err(error) => Err(Error::Driver(format!("none can be used here: {first}: {why}; {second}: {error}"))),
    }
}

/// The driver that was asked for by name.
fn only(kind: DriverKind) -> Result<ChosenDriver, Error> {
    match attempt(kind) {
        Ok(()) => Ok(ChosenDriver { kind, note: None }),
        Err(why) => Err(Error::Driver(format!("{kind} was asked for by name and is refused: {why}, or let auto choose"))),
    }
}

/// The ring costs a little less (BENCHMARKS.md). Only where it works, and yet the kernel would show its waiting as one for
/// disks (before 6.15), is it left alone; where it is refused, that is to be found out and said.
fn ring_is_favoured() -> bool {
    attempt(DriverKind::Uring).is_err() || corelane_drivers::tried(Probes::default()).uring_no_iowait
}

/// Tries the calls that serving files takes and for which there is no other way; for services that are to refuse at their start what they could not do later.
///
/// # Errors
/// In words, which call the system refuses, and the remedy.
pub fn calls_on_files() -> Result<(), String> {
    corelane_drivers::probe_file_calls().map_err(|why| why.to_string())
}

/// Makes a driver of the kind, on a thread of its own.
pub(crate) fn attempt(kind: DriverKind) -> Result<(), corelane_drivers::Error> {
    corelane_drivers::apart(move || make(kind))
}

fn make(kind: DriverKind) -> Result<(), corelane_drivers::Error> {
    let refused = |_| corelane_drivers::Error::Refused { call: "mmap", fault: Fault::of(Reason::NoMemory) };
    let arena = Arena::new(corelane_seam::LEASE_BYTES_MAX).map_err(refused)?;
    match kind {
        DriverKind::Uring => UringDriver::new(arena, Tuning::default(), Probes::default()).map(drop),
        DriverKind::Epoll => EpollDriver::new(arena, Tuning::default(), Probes::default()).map(drop),
    }
}
