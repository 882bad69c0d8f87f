//! An answer being written: its head, and content of a known length, or the beginning of what comes in parts.

use crate::deliver::{Deliver, Delivery, Now};
use crate::desk::Desk;
use crate::facts::{Facts, Framing};
use crate::log::Sent;
use crate::ours::is_ours;
use crate::outcome::{Answered, Begun, Behind, Done, Given};
use corelane::service::{Chain, Refused, Segment};
use corelane_wire::http1::{DIGITS_MAX, Date, Status, check_field, decimal};
use std::rc::Rc;

/// Most bytes of an answer's head: clients refuse longer ones.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// An answer: field lines, then content, with which it is written. Dropped without that, nothing is.
///
/// Content-Length, Transfer-Encoding, Connection and Date are written by themselves: whoever gives one of them makes the answer a 500 (Internal Server Error), as with all that could not be sent.
pub struct Answer<D> {
    to: D,
    desk: Rc<Desk>,
    facts: Facts,
    status: Status,
    head: Vec<u8>,
    /// What is wrong with a field line that was given.
    fault: bool,
}

impl<D> Answer<D> {
    pub(crate) fn new(to: D, desk: Rc<Desk>, facts: Facts, status: Status) -> Self {
        // Another answer would have to follow it (RFC 9110 section 15.2).
        let fault = status.code() < 200;
        let mut answer = Self { to, head: desk.take_memory(), desk, facts, status, fault };
        answer.begin_head();
        answer
    }

    /// An answer that another server has given, with the date that it gave it.
    pub(crate) fn dated(to: D, desk: Rc<Desk>, facts: Facts, (status, date): (Status, &[u8])) -> Self {
        let mut head = desk.take_memory();
        desk.begin_head_of(&mut head, status, facts, date);
        desk.put_fields(&mut head, status, facts);
        Self { to, head, desk, facts, status, fault: status.code() < 200 }
    }

    fn begin_head(&mut self) {
        self.head.clear();
        self.desk.begin_head(&mut self.head, self.status, self.facts);
        self.desk.put_fields(&mut self.head, self.status, self.facts);
    }

    /// A field line. One with a name or value that could not be sent makes the answer a 500 (Internal Server Error): it is a fault of the application.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.fault |=
            check_field(name, value).is_err() || is_ours(name) || self.head.len() + name.len() + value.len() > HEAD_BYTES_MAX;
        if !self.fault && !self.desk.sets(self.status, self.facts, name.as_bytes()) {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                self.head.extend_from_slice(part);
            }
        }
        self
    }

    /// A field line with a number.
    pub fn number(self, name: &str, value: u64) -> Self {
        self.field(name, decimal(value, &mut [0; DIGITS_MAX]))
    }

    /// A field line with a date.
    pub fn date(self, name: &str, value: Date) -> Self {
        self.field(name, value.text())
    }

    /// What the content is: the field Content-Type.
    pub fn media(self, media: &str) -> Self {
        self.field("Content-Type", media)
    }

    /// Field lines that were put together before, each with its line end; they are not looked at.
    pub(crate) fn lines(mut self, lines: &[u8]) -> Self {
        self.desk.put_lines(&mut self.head, self.status, self.facts, lines);
        self
    }

    /// Ends the head, with what tells the end of the content.
    fn end_head(&mut self, framing: Option<Framing>) {
        if std::mem::take(&mut self.fault) {
            self.status = Status::INTERNAL_SERVER_ERROR;
            self.begin_head();
        }
        let head = &mut self.head;
        match framing {
            Some(Framing::Length(length)) => {
                head.extend_from_slice(b"Content-Length: ");
                head.extend_from_slice(decimal(length, &mut [0; DIGITS_MAX]));
                head.extend_from_slice(b"\r\n\r\n");
            }
            Some(Framing::Chunked) => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n"),
            Some(Framing::UntilClose) | None => head.extend_from_slice(b"\r\n"),
        }
    }
}

impl<D: Deliver> Answer<D> {
    /// Answers with a copy of `content`. Where the lane has no memory for an answer that is given at once, it is kept until there is some.
    ///
    /// # Errors
    /// [`Refused::TooLarge`] for more than a lane of this size ever lends, nothing is answered then. A held answer that is refused memory is answered with 503 (Service
    /// Unavailable), and says so: [`Later`](crate::Later).
    pub fn bytes<H: From<D::Done>>(self, content: &[u8]) -> Result<H, Refused> {
        self.whole(content, Behind::Nothing)
    }

    /// Answers with `content` as it is, without copying it: lane memory, bytes that live as long as the program, a part of a file.
    ///
    /// # Errors
    /// As for [`Answer::bytes`].
    pub fn segment<H: From<D::Done>>(self, content: impl Into<Segment>) -> Result<H, Refused> {
        self.whole(&[], Behind::One(content.into()))
    }

    /// Answers with all of `content` as it is.
    ///
    /// # Errors
    /// As for [`Answer::bytes`].
    pub fn chain<H: From<D::Done>>(self, content: Chain) -> Result<H, Refused> {
        self.whole(&[], Behind::All(content))
    }

    /// Answers without content; statuses that have none anyway say nothing of its length.
    ///
    /// # Errors
    /// As for [`Answer::bytes`].
    pub fn empty<H: From<D::Done>>(self) -> Result<H, Refused> {
        self.bytes(&[])
    }

    /// Answers with its status in words, where that has content.
    pub(crate) fn explained<H: From<D::Done>>(self) -> Result<H, Refused> {
        if self.status.is_without_content() {
            return self.empty();
        }
        let words = format!("{} {}\n", self.status.code(), self.status.phrase());
        self.media("text/plain; charset=utf-8").bytes(words.as_bytes())
    }

    /// Answers as if with content of so many bytes, to who asked for the head alone.
    ///
    /// # Errors
    /// As for [`Answer::bytes`].
    ///
    /// # Panics
    /// If the client asked for more than the head.
    pub fn head_alone<H: From<D::Done>>(mut self, length: u64) -> Result<H, Refused> {
        assert!(self.facts.is_head, "whoever asked for the content is owed it");
        self.end_head(Some(Framing::Length(length)));
        self.deliver(Behind::Nothing, 0)
    }

    fn whole<H: From<D::Done>>(mut self, content: &[u8], behind: Behind) -> Result<H, Refused> {
        let is_faulty = self.fault;
        let length = if is_faulty || self.status == Status::RESET_CONTENT { 0 } else { content.len() + behind.len() };
        // 304 may tell the length of what it does not send, and need not; 204 must not (RFC 9110 section 8.6).
        let tells = !self.status.is_without_content() || is_faulty;
        self.end_head(tells.then_some(Framing::Length(length as u64)));
        if is_faulty || !self.facts.has_content(self.status) {
            return self.deliver(Behind::Nothing, 0);
        }
        self.head.extend_from_slice(content);
        self.deliver(behind, length as u64)
    }

    /// Delivers the head with `bytes` of content.
    fn deliver<H: From<D::Done>>(self, content: Behind, bytes: u64) -> Result<H, Refused> {
        let Self { to, desk, status, head, .. } = self;
        let Delivery { status, told } = to.deliver(&head, content, Sent { status: status.code(), bytes });
        desk.keep_memory(head);
        if let Some(status) = status {
            desk.count_answer(status);
        }
        told.map(H::from)
    }
}

impl<D> Answer<D> {
    /// Says that the connection closes, where it was said that it stays.
    fn take_back_promise(&mut self) {
        let promise = b"Connection: keep-alive\r\n";
        if let Some(at) = self.head.windows(promise.len()).position(|found| found == promise) {
            self.head.splice(at..at + promise.len(), *b"Connection: close\r\n");
        }
    }
}

impl Answer<Now<'_>> {
    /// Begins an answer whose content comes in parts ([`Exchange::produce`](crate::Exchange::produce)): of so many bytes, or, if nobody knows yet, in chunks.
    ///
    /// Where no content is owed (HEAD, 304) the exchange ends here.
    ///
    /// # Errors
    /// As for [`Answer::bytes`].
    pub fn begin(mut self, length: Option<u64>) -> Result<Begun, Refused> {
        let is_empty = self.fault || self.status == Status::RESET_CONTENT;
        let framing = if is_empty { Framing::Length(0) } else { self.facts.framing(length) };
        let has_content = !self.fault && self.facts.has_content(self.status);
        let tells = !self.status.is_without_content() || self.fault;
        self.end_head(tells.then_some(framing));
        if framing == Framing::UntilClose && self.facts.persists {
            self.take_back_promise();
        }
        let desk = self.desk.clone();
        let Answered(done) = self.deliver(Behind::Nothing, 0)?;
        desk.give(Given::Begun);
        // reason: it was delivered at once, and so written or kept.
        let Sent { status, .. } = done.sent().expect("an answer that has begun is not held");
        let framing = if has_content { framing } else { Framing::Length(0) };
        Ok(Begun { framing, status, is_kept: matches!(done, Done::Kept(_)) })
    }
}
