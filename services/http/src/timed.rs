//! Answers that are held for a time only, and what the log has to say of them.

use crate::log::Note;
use std::collections::VecDeque;

/// The answers of a lane that are held for a time only, each by its token. There are as many at the most as `requests_in_flight_max` allows tickets.
#[derive(Default)]
pub(crate) struct Timed {
    last: u64,
    /// The tokens grow. None where nothing is logged.
    waiting: VecDeque<(u64, Option<Note>)>,
}

impl Timed {
    /// The token of the next one.
    pub fn token(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Keeps the note of one that is held now.
    pub fn keep(&mut self, token: u64, note: Option<Note>) {
        assert!(self.waiting.back().is_none_or(|(last, _)| *last < token), "tokens are kept as they are given");
        self.waiting.push_back((token, note));
    }

    /// Ends its waiting; none if somebody else has.
    pub fn take(&mut self, token: u64) -> Option<Option<Note>> {
        let at = self.waiting.binary_search_by_key(&token, |(token, _)| *token).ok()?;
        self.waiting.remove(at).map(|(_, note)| note)
    }
}
