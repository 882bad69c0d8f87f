//! The features that this machine lets lanes have: every one is tried, none is looked up where it can be tried. With the feature `doctor`.
//!
//! ```text
//! SUBJECTS: code, name, cost, remedy, command, examine     the only list; docs/doctor.md is held to it
//! subject.examine() -> Found { state, words }              the probe itself is in the crate that owns the feature
//! examine() -> [Finding { subject, found }]                what `corelane doctor` prints of the machine
//! examine_for(&lanes) -> [Finding]                         and of a configuration
//! ```
//!
//! A subject's code never changes and is never used again, so that a page in a manual, an alarm or a script may name it.

mod configuration;
mod features;
mod limits;
mod subjects;

pub use subjects::SUBJECTS;

use crate::Lanes;
use std::fmt;

/// How a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As it should be.
    Fine,
    /// Lanes serve, and it costs something.
    Degraded,
    /// Its purpose cannot be had.
    Missing,
}

impl State {
    /// One word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Degraded => "degraded",
            Self::Missing => "missing",
        }
    }
}

/// The result of a look at a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// How it is.
    pub state: State,
    /// The observation, in words.
    pub words: String,
}

impl Found {
    fn fine(words: impl Into<String>) -> Self {
        Self { state: State::Fine, words: words.into() }
    }

    fn degraded(words: impl Into<String>) -> Self {
        Self { state: State::Degraded, words: words.into() }
    }

    fn missing(words: impl Into<String>) -> Self {
        Self { state: State::Missing, words: words.into() }
    }

    /// Fine in these words, or missing for this reason.
    fn tried(fine: &str, result: Result<(), impl fmt::Display>) -> Self {
        match result {
            Ok(()) => Self::fine(fine),
            Err(why) => Self::missing(why.to_string()),
        }
    }

    /// The same, but for what lanes can do without.
    fn or_degraded(self) -> Self {
        Self { state: self.state.min(State::Degraded), ..self }
    }
}

/// A feature, or a fact of the machine, that makes a difference to lanes.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Its number, from 1001, which never changes.
    pub number: u16,
    /// Its name.
    pub name: &'static str,
    /// The cost if it is not fine.
    pub cost: &'static str,
    /// The remedy.
    pub remedy: &'static str,
    /// A command that does it, or shows more; empty if there is none.
    pub command: &'static str,
    examine: Examine,
}

/// The look that a subject takes.
#[derive(Clone, Copy, Debug)]
enum Examine {
    Machine(fn() -> Found),
    Configuration(fn(&Lanes) -> Found),
}

impl Subject {
    /// The code by which manuals name it: `CL-1001`.
    pub fn code(&self) -> String {
        format!("CL-{:04}", self.number)
    }
}

/// A subject, and how it was found to be.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The subject that was looked at.
    pub subject: Subject,
    /// How it is.
    pub found: Found,
}

/// Looks at every subject of the machine, in the order of their codes. Sockets, rings, a tap interface and the like are made for it and gone
/// when it returns; nothing of the machine is changed.
pub fn examine() -> Vec<Finding> {
    found(|subject| match subject.examine {
        Examine::Machine(examine) => Some(examine()),
        Examine::Configuration(_) => None,
    })
}

/// Looks whether these lanes could be started now, and what would stand in their way, in the order of the codes. Ports and Unix names are taken
/// for a moment, and given back.
pub fn examine_for(lanes: &Lanes) -> Vec<Finding> {
    found(|subject| match subject.examine {
        Examine::Machine(_) => None,
        Examine::Configuration(examine) => Some(examine(lanes)),
    })
}

/// The finding where no lanes can be made of the settings, for the reason in these words.
///
/// # Panics
/// Never: the subject is in the list.
pub fn refused(words: impl Into<String>) -> Finding {
    let subject = SUBJECTS.iter().find(|subject| subject.number == SETTINGS);
    // reason: it is in the list, or no line of a configuration could be told.
    Finding { subject: *subject.expect("the list has the settings"), found: Found::missing(words) }
}

/// The number of what is wrong with settings themselves.
const SETTINGS: u16 = 1101;

fn found(look: impl Fn(&Subject) -> Option<Found>) -> Vec<Finding> {
    SUBJECTS.iter().filter_map(|subject| Some(Finding { subject: *subject, found: look(subject)? })).collect()
}
