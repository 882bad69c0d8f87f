//! The parts of services outside of the lanes, made of the places where they listen.

use crate::lanes::choice::Chosen;
use crate::lanes::place::Place;
use corelane_seam::Record;
use std::any::Any;

/// One place where a service of an entry listens, when all do.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Opened<'a> {
    /// The place.
    pub place: &'a Place,
    /// The choices for it.
    pub chosen: &'a Chosen,
}

/// Is called once, outside of the lanes, when all of them listen.
pub(crate) type OnceStarted = fn(&[Opened<'_>]) -> Beside;

/// The part of a service that is outside of the lanes while they run.
#[derive(Default)]
pub struct Beside {
    pub(crate) notes: Vec<Record>,
    pub(crate) kept: Vec<Box<dyn Any + Send>>,
    pub(crate) at_rotation: Vec<Box<dyn Fn() + Send>>,
}

impl Beside {
    /// With a note for the operator ([`Running::notes`](crate::lanes::Running::notes)).
    pub fn note(mut self, note: Record) -> Self {
        self.notes.push(note);
        self
    }

    /// With something that is dropped after the lanes have ended.
    pub fn keep(mut self, kept: impl Any + Send) -> Self {
        self.kept.push(Box::new(kept));
        self
    }

    /// With something to be done at SIGUSR1 and at SIGHUP, such as opening a log file anew, on the thread that waits for it ([`Running::run_until_told`](crate::lanes::Running::run_until_told)): what takes
    /// long is only begun there.
    pub fn at_rotation(mut self, call: impl Fn() + Send + 'static) -> Self {
        self.at_rotation.push(Box::new(call));
        self
    }
}
