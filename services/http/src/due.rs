//! What the log has to say of an answer that is held: whoever comes first has it, the answer or the end of its time.

use crate::desk::Desk;
use crate::log::Note;
use std::rc::Rc;

/// One held answer's part of it. Dropped, nobody answers any more.
pub(crate) struct Due {
    desk: Rc<Desk>,
    kept: NotePlace,
}

enum NotePlace {
    /// Nobody else ends it.
    Here(Option<Note>),
    /// With this token at the desk, where the end of its time finds it.
    Timed(u64),
}

impl Due {
    /// Of an answer that is held: for a time, if it has a token.
    pub fn new(desk: Rc<Desk>, token: Option<u64>, note: Option<Note>) -> Self {
        let kept = match token {
            None => NotePlace::Here(note),
            Some(token) => {
                desk.timed().keep(token, note);
                NotePlace::Timed(token)
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
            NotePlace::Here(note) => Some(note.take()),
            NotePlace::Timed(token) => self.desk.timed().take(*token),
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
