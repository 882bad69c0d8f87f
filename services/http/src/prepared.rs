//! Answers that are the same each time: put together once.

use crate::deliver::{Deliver, Delivery, Now};
use crate::log::Sent;
use crate::ours::is_ours;
use crate::outcome::{Answered, Behind};
use crate::reply::Reply;
use corelane::service::Refused;
use corelane_wire::Error;
use corelane_wire::http1::{DIGITS_MAX, Status, check_field, decimal};

/// An answer with field lines and content that do not change, for [`Reply::prepared`]: only how it begins is written anew, with the date. It costs a
/// fraction of one that is put together.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) status: Status,
    /// Field lines, the end of the head, and the content.
    pub(crate) rest: Vec<u8>,
    /// Where the content begins.
    pub(crate) head: usize,
}

impl Prepared {
    /// An answer with these field lines and this content. Statuses without content have none.
    ///
    /// # Errors
    /// [`Error::Malformed`] if a field line cannot be sent, or is not the application's ([`Answer`](crate::Answer)), or the status is below 200.
    pub fn new(status: Status, fields: &[(&str, &str)], content: &[u8]) -> Result<Self, Error> {
        if status.code() < 200 {
            return Err(Error::Malformed { what: "status" });
        }
        let mut rest = Vec::new();
        for (name, value) in fields {
            check_field(name, value.as_bytes())?;
            if is_ours(name) {
                return Err(Error::Malformed { what: "field name" });
            }
            [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"].iter().for_each(|part| rest.extend_from_slice(part));
        }
        let content = if status.is_without_content() || status == Status::RESET_CONTENT { &[] } else { content };
        if !status.is_without_content() {
            rest.extend_from_slice(b"Content-Length: ");
            rest.extend_from_slice(decimal(content.len() as u64, &mut [0; DIGITS_MAX]));
            rest.extend_from_slice(b"\r\n");
        }
        rest.extend_from_slice(b"\r\n");
        let head = rest.len();
        rest.extend_from_slice(content);
        Ok(Self { status, rest, head })
    }
}

impl Reply<'_> {
    /// Answers with what was put together before.
    ///
    /// # Errors
    /// As for [`Answer::bytes`](crate::Answer::bytes).
    #[inline]
    pub fn prepared<H: From<Answered>>(self, prepared: &Prepared) -> Result<H, Refused> {
        let Self { output, desk, facts, .. } = self;
        let rest = if facts.is_head { &prepared.rest[..prepared.head] } else { &prepared.rest };
        let mut memory = desk.take_memory();
        desk.begin_head(&mut memory, prepared.status, facts);
        desk.put_fields(&mut memory, prepared.status, facts);
        desk.put_lines(&mut memory, prepared.status, facts, &rest[..prepared.head]);
        memory.extend_from_slice(&rest[prepared.head..]);
        let sent = Sent { status: prepared.status.code(), bytes: (rest.len() - prepared.head) as u64 };
        let Delivery { status, told } = Now { output, desk }.deliver(&memory, Behind::Nothing, sent);
        desk.keep_memory(memory);
        if let Some(status) = status {
            desk.count_answer(status);
        }
        told.map(|answered: Answered| answered.into())
    }
}
