//! What is kept of a request whose answer comes later, until its line can be written.

use super::format::{Asked, Ended, GONE, Sent};
use super::kept::KeptLine;
use super::lane::LaneLog;
use std::cell::RefCell;
use std::rc::Rc;

/// Where the line of a request comes from.
pub(crate) enum Trace<'a> {
    /// It has just come.
    Asked(Asked<'a>),
    /// It came before: none if nothing is logged, or somebody else has the note now.
    Noted(&'a mut Option<Note>),
}

/// A request that was noted. Dropped before its answer has ended it has its line all the same, which says so.
pub(crate) struct Note {
    log: Rc<RefCell<LaneLog>>,
    /// None once its line is written.
    kept: Option<Box<KeptLine>>,
}

impl<'a> Trace<'a> {
    /// The same, for a part of its life.
    pub fn again(&mut self) -> Trace<'_> {
        match self {
            Self::Asked(asked) => Trace::Asked(*asked),
            Self::Noted(note) => Trace::Noted(note),
        }
    }

    /// A note of it; none if nothing is logged.
    pub fn into_note(self, log: Option<&Rc<RefCell<LaneLog>>>) -> Option<Note> {
        match self {
            Self::Asked(asked) => log.map(|log| Note::new(log, asked)),
            Self::Noted(note) => note.take(),
        }
    }

    /// It is sent on to this upstream, if one is chosen; where this server answers, `why` says why.
    pub fn passed(&mut self, log: &RefCell<LaneLog>, upstream: Option<&str>, why: Option<&'static str>) {
        match self {
            Self::Asked(_) => log.borrow_mut().passed.set(upstream, why),
            Self::Noted(note) => note.iter_mut().for_each(|note| note.kept().passed.set(upstream, why)),
        }
    }

    /// It was answered.
    pub fn answered(self, log: &RefCell<LaneLog>, sent: Sent, persists: bool) {
        match self {
            Self::Noted(note) => {
                if let Some(mut note) = note.take() {
                    note.note_sent(sent);
                    note.end(Ended::whole(persists));
                }
            }
            Self::Asked(asked) => log.borrow_mut().answered(asked, sent, Ended::whole(persists)),
        }
    }
}

impl Note {
    fn new(log: &Rc<RefCell<LaneLog>>, asked: Asked<'_>) -> Self {
        Self { log: log.clone(), kept: Some(log.borrow_mut().keep(asked)) }
    }

    /// An answer has begun, or goes on: so much of it was sent.
    pub fn note_sent(&mut self, sent: Sent) {
        self.kept().sent = Some(sent);
    }

    /// If the request was sent on, this is why this server has answered, or has broken off.
    pub fn because(&mut self, why: &'static str) {
        self.kept().passed.because(why);
    }

    /// The same, where nothing was known before.
    pub fn because_unless_known(&mut self, why: &'static str) {
        let passed = &mut self.kept().passed;
        if passed.shown().is_some_and(|(_, known)| known.is_none()) {
            passed.because(why);
        }
    }

    fn kept(&mut self) -> &mut KeptLine {
        // reason: only the end takes it, and takes the note with it.
        self.kept.as_mut().expect("a note ends once")
    }

    /// The answer has ended.
    pub fn end(mut self, ended: Ended) {
        self.write(ended);
    }

    fn write(&mut self, ended: Ended) {
        // Whoever drops a note while a line is put together unwinds.
        let Ok(mut log) = self.log.try_borrow_mut() else { return };
        if let Some(kept) = self.kept.take() {
            let sent = kept.sent.unwrap_or(Sent { status: GONE, bytes: 0 });
            log.end(kept, sent, ended);
            log.ring();
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        self.write(Ended::Cut);
    }
}
