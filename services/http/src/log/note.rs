//! What is kept of a request whose answer comes later, until its line can be written.

use super::format::GONE;
use super::{Ended, LaneLog, Sent};
use corelane::Instant;
use corelane_wire::http1::Request as Head;
use std::cell::RefCell;
use std::rc::Rc;

/// A request as its line shows it.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The bytes of its head, or what came in place of one.
    pub bytes: &'a [u8],
    /// Its head, if it has one.
    pub head: Option<&'a Head<'a>>,
}

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

/// What is kept of it.
pub(crate) struct KeptLine {
    pub began: Instant,
    pub peer: Vec<u8>,
    pub request: Vec<u8>,
    pub fields: Vec<u8>,
    /// What was sent so far; none before an answer has begun.
    sent: Option<Sent>,
}

impl Default for KeptLine {
    fn default() -> Self {
        let began = Instant::from_nanoseconds(0);
        Self { began, peer: Vec::new(), request: Vec::new(), fields: Vec::new(), sent: None }
    }
}

impl KeptLine {
    pub fn begin(&mut self, now: Instant, peer: &[u8], write: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) {
        let Self { began, peer: of, request, fields, sent } = self;
        [&mut *of, request, fields].into_iter().for_each(|text| text.clear());
        (*began, *sent) = (now, None);
        of.extend_from_slice(peer);
        write(request, fields);
    }
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
        // reason: only the end takes it, and takes the note with it.
        self.kept.as_mut().expect("a note ends once").sent = Some(sent);
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
