//! Tasks that wait for connections: each connection wakes one of them.

use std::collections::VecDeque;
use std::task::{Context, Waker};

/// Those of a service on one lane, who has waited longest first.
#[derive(Default)]
pub(super) struct Acceptors {
    waiting: VecDeque<(u64, Waker)>,
    last_place: u64,
}

impl Acceptors {
    /// One waits, in its place if it has one still, else behind all others; returns its place.
    pub(super) fn wait(&mut self, place: Option<u64>, context: &Context<'_>) -> u64 {
        if let Some((place, waker)) = self.waiting.iter_mut().find(|(known, _)| Some(*known) == place) {
            waker.clone_from(context.waker());
            return *place;
        }
        assert!(
            self.waiting.back().is_none_or(|(place, _)| *place <= self.last_place),
            "who waits has come in its place's order"
        );
        self.last_place += 1;
        self.waiting.push_back((self.last_place, context.waker().clone()));
        self.last_place
    }

    /// One waits no more; none if it was woken.
    pub(super) fn leave(&mut self, place: u64) -> Option<Waker> {
        let at = self.waiting.iter().position(|(known, _)| *known == place)?;
        self.waiting.remove(at).map(|(_, waker)| waker)
    }

    /// The task that is to be woken for a connection.
    pub(super) fn next(&mut self) -> Option<Waker> {
        self.waiting.pop_front().map(|(_, waker)| waker)
    }
}
