//! The right, and the duty, to answer a request.

use crate::answer::Answer;
use crate::deliver::Now;
use crate::desk::Desk;
use crate::due::Due;
use crate::facts::Facts;
use crate::held::Held;
use crate::log::Trace;
use crate::outcome::{Answered, Done, Given, Switched};
use corelane::Output;
use corelane::service::{ConnectionId, Hold, Order, Refused};
use corelane_wire::http1::Status;
use std::rc::Rc;
use std::time::Duration;

/// Answers one request: now, or later with [`Reply::hold`].
pub struct Reply<'o> {
    pub(crate) output: &'o mut Output,
    pub(crate) desk: &'o Rc<Desk>,
    pub(crate) facts: Facts,
    trace: Trace<'o>,
}

impl<'o> Reply<'o> {
    pub(crate) fn new(output: &'o mut Output, desk: &'o Rc<Desk>, facts: Facts, trace: Trace<'o>) -> Self {
        Self { output, desk, facts, trace }
    }

    /// An answer with this status, to be completed. One below 200 ends no request, and makes the answer a 500 (Internal Server Error).
    pub fn answer(self, status: Status) -> Answer<Now<'o>> {
        let Self { output, desk, facts, .. } = self;
        Answer::new(Now { output, desk }, desk.clone(), facts, status)
    }

    /// The log is to have that the request was sent on to this upstream, if one is chosen; where this server answers, `why` says why.
    pub(crate) fn passed(&mut self, upstream: Option<&str>, why: Option<&'static str>) {
        if let Some(log) = self.desk.log() {
            self.trace.passed(log, upstream, why);
        }
    }

    /// An answer that another server has given, with its date where it has one.
    pub(crate) fn passed_on(self, status: Status, date: Option<&[u8]>) -> Answer<Now<'o>> {
        let Some(date) = date else { return self.answer(status) };
        let Self { output, desk, facts, .. } = self;
        Answer::dated(Now { output, desk }, desk.clone(), facts, (status, date))
    }

    /// Tells the client an interim answer that another server has given: its whole head. Without memory it is left out, as nothing hangs on it.
    pub(crate) fn hint(&mut self, head: &[u8]) {
        if self.output.write(head).is_ok() {
            self.desk.count_answer(Status::EARLY_HINTS.code());
        }
    }

    /// Has the client's protocol change to that of `to`, which is another connection of this service, with `lines`, each with its line end, of which one is Upgrade: 101 (Switching Protocols).
    ///
    /// # Errors
    /// [`Refused::Memory`]: nothing was written.
    pub(crate) fn switch(self, lines: &[u8], to: ConnectionId) -> Result<Switched, Refused> {
        let mut writer = self.output.writer();
        let parts = [b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n", lines, b"\r\n"];
        parts.iter().try_for_each(|part| writer.put(part))?;
        writer.finish()?;
        self.desk.count_answer(Status::SWITCHING_PROTOCOLS.code());
        Ok(Switched(to))
    }

    /// Answers 200 (OK) with plain text.
    ///
    /// # Errors
    /// As for [`Answer::bytes`].
    pub fn text<H: From<Answered>>(self, text: &str) -> Result<H, Refused> {
        self.answer(Status::OK).media("text/plain; charset=utf-8").bytes(text.as_bytes())
    }

    /// Answers with a status, and its code and phrase as plain text.
    ///
    /// # Errors
    /// As for [`Reply::text`].
    pub fn status<H: From<Answered>>(self, status: Status) -> Result<H, Refused> {
        self.answer(status).explained()
    }

    /// Holds the answer's place: [`Held`] answers later, from wherever it is taken to on this lane. Requests behind it go on meanwhile, and their answers wait.
    ///
    /// `reserve` bytes of memory are kept for it (0 for none), and if nobody has answered after `age` (for ever with none; `answer_limit` is the bound of
    /// all), the client is told 503 (Service Unavailable), and the connection closes.
    ///
    /// # Errors
    /// [`Refused::Memory`] if the memory to be kept is not lent now, [`Refused::TooLarge`] if it never is. Nothing is held then, and the request is not offered again: whoever passes the
    /// error on has it answered with 503 (Service Unavailable), or 500. So hold before anything is done for the request. A ticket is left in each call of [`Application::request`](crate::Application::request).
    pub fn hold<H: From<Answered>>(self, reserve: usize, age: Option<Duration>) -> Result<(Held, H), Refused> {
        let hold = Hold::new(Order::Kept).reserve(reserve);
        let timed = age.map(|age| (age, self.desk.timed().token()));
        let hold = timed.map_or(hold, |(age, token)| hold.expires(age, token));
        let ticket = self.output.hold(hold)?;
        let note = self.trace.into_note(self.desk.log());
        self.desk.give(Given::Whole(Done::Held));
        let due = Due::new(self.desk.clone(), timed.map(|(_, token)| token), note);
        Ok((Held::new(ticket, self.facts, due), Answered(Done::Held).into()))
    }
}
