//! What is owed to a request's framing, whatever the answer is.

use crate::request::Whose;
use crate::rules::Matched;
use corelane_wire::http1::{Request as Head, Status, Version};

/// What of a request its answer must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// It asked for the head alone.
    pub is_head: bool,
    /// The client knows no chunks (RFC 9112 section 6.1).
    pub is_old: bool,
    /// The connection outlives the answer, as far as its head says.
    pub persists: bool,
    /// The field lines that rules have for its path.
    pub fields: Matched,
    /// The connection closes behind the answer. A lane that drains sees to that itself, when all is answered that had come.
    pub closes: bool,
    /// Which of several applications answers it.
    pub whose: Whose,
}

/// How the end of an answer's content is told, and how much of it is still to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

impl Facts {
    /// Those of most requests.
    pub const USUAL: Self =
        Self { is_head: false, is_old: false, persists: true, fields: Matched::NONE, closes: false, whose: Whose::Anybody };

    /// Those of the last answer to a client of which nothing is known.
    pub const LAST: Self =
        Self { is_head: false, is_old: false, persists: false, fields: Matched::NONE, closes: true, whose: Whose::Anybody };

    pub fn of(head: &Head<'_>) -> Self {
        let is_old = head.version == Version::Http10;
        let is_head = head.method == corelane_wire::http1::Method::Head;
        let closes = !head.persists;
        Self { is_head, is_old, persists: head.persists, fields: Matched::NONE, closes, whose: Whose::Anybody }
    }

    /// The framing of content of which the length is known, or is not (RFC 9112 section 6.3).
    pub fn framing(self, length: Option<u64>) -> Framing {
        match length {
            Some(length) => Framing::Length(length),
            None if self.is_old => Framing::UntilClose,
            None => Framing::Chunked,
        }
    }

    /// Whether content follows the head of an answer with `status` (RFC 9110 sections 9.3.2, 6.4.1 and 15.3.6).
    pub fn has_content(self, status: Status) -> bool {
        !self.is_head && !status.is_without_content() && status != Status::RESET_CONTENT
    }
}
