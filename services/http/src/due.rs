//! What the log has to say of an answer that is held: whoever comes first has it, the answer or the end of its time.

use crate::desk::Desk;
use crate::log::Note;
use std::collections::VecDeque;
use std::rc::Rc;

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

/// One held answer's part of it. Dropped, nobody answers any more.
pub(crate) struct Due {
    desk: Rc<Desk>,
    kept: Kept,
}

enum Kept {
    /// Nobody else ends it.
    Here(Option<Note>),
    /// With this token at the desk, where the end of its time finds it.
    Timed(u64),
}

impl Due {
    /// Of an answer that is held: for a time, if it has a token.
    pub fn new(desk: Rc<Desk>, token: Option<u64>, note: Option<Note>) -> Self {
        let kept = match token {
            None => Kept::Here(note),
            Some(token) => {
                desk.timed().keep(token, note);
                Kept::Timed(token)
            }
        };
        Self { desk, kept }
    }

    pub fn desk(&self) -> &Rc<Desk> {
        &self.desk
    }

    /// It is answered: none if its time was up before.
    pub fn take(mut self) -> Option<Option<Note>> {
        self.end()
    }

    fn end(&mut self) -> Option<Option<Note>> {
        match &mut self.kept {
            Kept::Here(note) => Some(note.take()),
            Kept::Timed(token) => self.desk.timed().take(*token),
        }
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        // Its line is written as the note goes, unless it has its line already.
        let note = self.end();
        drop(note);
    }
}
