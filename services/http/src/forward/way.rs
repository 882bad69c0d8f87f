//! A request on its way to an upstream, and the answer on its way back: what both connections share.

use super::dated::DateText;
use super::fault::Fault;
use super::head::write_answer_lines;
use corelane::service::{ConnectionId, Instant, Shared};
use corelane_upstreams::{Caller, Tried, Upstream};
use corelane_wire::http1::{Fields, Framing, Method, Request as Head, Status, Version};
use std::collections::VecDeque;

/// Bytes of an answer that wait for the client, and pieces in which they lie: with as many the upstream is not read from. A piece may keep a block of the lane's memory.
const WAITING_BYTES_MAX: usize = 128 << 10;
const WAITING_PIECES_MAX: usize = 16;
/// What is kept of the memory for field lines that are not needed any more.
const KEPT_BYTES: usize = 4 << 10;

/// Early hints that wait for the client.
const HINTS_BYTES_MAX: usize = 16 << 10;
const HINT_BEGIN: &[u8] = b"HTTP/1.1 103 Early Hints\r\n";
const HINT_END: &[u8] = b"\r\n";

/// What is passed on of an answer's head, beside its field lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerHead {
    pub status: Status,
    /// None where it has none that is one.
    pub date: Option<DateText>,
    /// The length of its content, where it has told that.
    pub length: Option<u64>,
}

/// What is to be known of a request that is on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// It asks for the head alone.
    pub is_head: bool,
    /// It may be sent twice (RFC 9110 section 9.2.2).
    pub is_idempotent: bool,
    pub expects_continue: bool,
    /// It knows of no interim answers.
    pub is_old: bool,
    pub is_chunked: bool,
    pub has_content: bool,
}

impl Facts {
    pub fn of(head: &Head<'_>) -> Self {
        use Method::{Delete, Get, Head as HeadAlone, Options, Put};
        Self {
            is_head: head.method == HeadAlone,
            is_idempotent: matches!(head.method, Get | HeadAlone | Options | Put | Delete),
            expects_continue: head.expects_continue,
            is_old: head.version == Version::Http10,
            is_chunked: head.framing == Framing::Chunked,
            has_content: !matches!(head.framing, Framing::None | Framing::Length(0)),
        }
    }

    /// As the framing of an answer asks for it.
    pub fn method(&self) -> Method<'static> {
        if self.is_head { Method::Head } else { Method::Get }
    }
}

/// A request on its way.
pub(super) struct Way {
    pub client: ConnectionId,
    pub facts: Facts,
    /// The one that it is sent to, which it uses until its end; none as long as it waits for names to be resolved.
    pub upstream: Option<Upstream>,
    /// Whom that is chosen for.
    pub caller: Caller,
    pub tried: Tried,
    /// The number of its connection there, as long as that has to do with it.
    pub up: Option<usize>,
    /// The head that is sent, once more if it comes to that: memory of the lane, for which the client pays. None once it is not sent again.
    pub head: Option<Shared>,
    /// Some of the content was handed on, or all of it.
    pub content_began: bool,
    pub content_ended: bool,
    /// It may be sent once more to the same upstream.
    pub may_repeat: bool,
    /// The upstream has said 100 (Continue), and the client is to be told.
    pub invites: bool,
    /// Early hints that the client is to be told (103, RFC 8297).
    pub hints: Vec<u8>,
    /// The protocols that the client asks for, with a comma behind each; empty where the protocol is not to change.
    pub offers: Vec<u8>,
    /// The upstream changes the protocol.
    pub switches: bool,
    pub answer: Option<AnswerHead>,
    /// Field lines of the answer.
    pub lines: Vec<u8>,
    /// Content of the answer that the client has no room for yet.
    pub pieces: VecDeque<Shared>,
    waiting_bytes: usize,
    /// All of it has come.
    pub ended: bool,
    pub fault: Option<Fault>,
    /// When it was sent to its upstream.
    pub began_at: Instant,
    /// When it has said a whole head or some content last, or was told something.
    pub active_at: Instant,
}

impl Way {
    pub fn new((client, facts): (ConnectionId, Facts), (upstream, caller): (Option<Upstream>, Caller), now: Instant) -> Self {
        Self {
            client,
            facts,
            upstream,
            caller,
            tried: Tried::default(),
            up: None,
            head: None,
            content_began: false,
            content_ended: !facts.has_content,
            may_repeat: true,
            invites: false,
            hints: Vec::new(),
            offers: Vec::new(),
            switches: false,
            answer: None,
            lines: Vec::new(),
            pieces: VecDeque::new(),
            waiting_bytes: 0,
            ended: false,
            fault: None,
            began_at: now,
            active_at: now,
        }
    }

    /// Becomes another one, in the memory of this.
    pub fn renew(&mut self, new: Self) {
        self.forget();
        let (lines, pieces) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.pieces));
        *self = Self { lines, pieces, ..new };
    }

    /// The client has what stood in the answer's head.
    pub fn forget_lines(&mut self) {
        forget(&mut self.lines);
    }

    /// It has ended: nothing of it waits for the next one, memory of the lane least of all.
    pub fn forget(&mut self) {
        self.pieces.clear();
        self.head = None;
        self.hints = Vec::new();
        self.offers = Vec::new();
        forget(&mut self.lines);
    }

    /// Keeps field lines that the client may be told before the answer. They help and are not needed: those that come faster than the client takes them are left out.
    pub fn hint(&mut self, fields: Fields<'_>) {
        write_answer_lines(&mut self.lines, fields, false);
        let bytes = self.lines.len() + HINT_BEGIN.len() + HINT_END.len();
        if !self.facts.is_old && !self.lines.is_empty() && self.hints.len() + bytes <= HINTS_BYTES_MAX {
            [HINT_BEGIN, &self.lines, HINT_END].iter().for_each(|part| self.hints.extend_from_slice(part));
        }
        self.lines.clear();
    }

    /// Whether more of the answer may wait.
    pub fn has_room(&self) -> bool {
        self.waiting_bytes < WAITING_BYTES_MAX && self.pieces.len() < WAITING_PIECES_MAX
    }

    pub fn push(&mut self, piece: Shared) {
        assert!(!self.ended, "content comes before its end");
        self.waiting_bytes += piece.len();
        self.pieces.push_back(piece);
    }

    /// Drops the first piece, which the client was sent.
    pub fn pop(&mut self) -> Option<Shared> {
        let piece = self.pieces.pop_front()?;
        self.waiting_bytes -= piece.len();
        Some(piece)
    }

    /// Whether it is the upstream that everybody waits for.
    pub fn awaits_upstream(&self) -> bool {
        self.up.is_some() && self.content_ended && self.pieces.is_empty() && !self.ended
    }
}

/// Empties memory, of which little is kept.
fn forget(memory: &mut Vec<u8>) {
    match memory.capacity() > KEPT_BYTES {
        true => *memory = Vec::new(),
        false => memory.clear(),
    }
}
