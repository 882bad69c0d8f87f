//! Ends of connections that no driver has.

use crate::check::Tally;
use std::sync::{Arc, Mutex, PoisonError};

/// How many may be on their way at once, as on the real drivers.
const ON_THEIR_WAY_MAX: usize = 8;

/// An end of a connection, and what the lanes that had it were told of its bytes.
#[derive(Clone, Copy)]
pub(crate) struct StreamEnd {
    pub(crate) stream: u64,
    pub(crate) side: usize,
    pub(crate) claimed: u64,
    pub(crate) given: Tally,
}

/// Ends that were dropped while no driver had them, on whatever thread: the world closes them when it goes on.
#[derive(Clone, Default)]
pub(crate) struct Detachments(Arc<Mutex<Vec<StreamEnd>>>);

impl Detachments {
    fn add(&self, end: StreamEnd) {
        // What a panic left behind is whole: nothing is changed in two steps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(end);
    }

    /// Those that were dropped since this was asked last.
    pub(crate) fn take(&self) -> Vec<StreamEnd> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether one more may be on its way: each that is has a copy of this.
    pub(crate) fn has_room(&self) -> bool {
        Arc::strong_count(&self.0) - 1 < ON_THEIR_WAY_MAX
    }

    /// Puts an end on its way.
    pub(crate) fn begin(&self, end: StreamEnd) -> OnItsWay {
        OnItsWay { end: Some(end), dropped: self.clone() }
    }
}

/// An end on its way between two drivers. Dropping it closes it.
pub(crate) struct OnItsWay {
    /// None once a driver has it.
    end: Option<StreamEnd>,
    dropped: Detachments,
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.end.take().into_iter().for_each(|end| self.dropped.add(end));
    }
}

impl OnItsWay {
    /// A driver has it.
    pub(crate) fn arrive(mut self) -> StreamEnd {
        // reason: it has its end until a driver has it.
        self.end.take().expect("it is adopted once")
    }
}
