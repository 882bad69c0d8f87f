//! What a lane keeps of a link, which is a connection to an upstream.

use super::dated::LastDate;
use crate::answer::HEAD_BYTES_MAX;
use corelane::service::{ConnectionId, Hold, Order, Ticket};
use corelane::{Cx, Output};
use corelane_upstreams::Upstream;
use corelane_wire::http1::{Body, FIELDS_MAX, Limits, Responses};

/// Of the heads of answers.
pub(super) const LIMITS: Limits = Limits { head_bytes: HEAD_BYTES_MAX, target_bytes: 8 << 10, fields: FIELDS_MAX };

/// What a lane keeps of a link.
pub(super) struct Up {
    /// Its name; none before it has one.
    pub id: Option<ConnectionId>,
    pub upstream: Upstream,
    pub is_connected: bool,
    /// The request that it carries.
    pub way: Option<usize>,
    pub stage: Stage,
    /// It has carried others before this one.
    pub is_reused: bool,
    /// More of the answer waits in its input, because the client takes none.
    pub waits: bool,
    /// Interim answers that have come.
    pub interim: u32,
    /// A part of the answer's head has come.
    pub has_begun: bool,
    /// As long as an answer is awaited, however long that takes, the link is not idle.
    pub ticket: Option<Ticket>,
    pub last_date: LastDate,
}

/// What comes next.
pub(super) enum Stage {
    /// It is being opened, or its request's head is to be written.
    Opening,
    Head(Responses),
    Content {
        body: Body,
        persists: bool,
    },
    /// The protocol changes as soon as the client was told.
    Switching,
    /// Bytes of another protocol, for this connection.
    Tunnel(ConnectionId),
    /// Nothing: it waits for a request.
    Idle,
    /// It is being closed.
    Over,
}

impl Up {
    pub fn is_opening(&self) -> bool {
        matches!(self.stage, Stage::Opening)
    }

    pub fn opening(upstream: Upstream, way: usize) -> Self {
        let (way, stage) = (Some(way), Stage::Opening);
        Self {
            id: None,
            upstream,
            is_connected: false,
            way,
            stage,
            is_reused: false,
            waits: false,
            interim: 0,
            has_begun: false,
            ticket: None,
            last_date: LastDate::default(),
        }
    }

    /// It carries a request, of which the head is written to `output`. An answer is read whether or not the upstream reads the request.
    pub fn begin(&mut self, output: &mut Output, way: usize, is_reused: bool) {
        assert!(matches!(self.stage, Stage::Idle | Stage::Opening), "one request at a time");
        (self.way, self.stage, self.is_reused) = (Some(way), Stage::Head(Responses::new(LIMITS)), is_reused);
        (self.waits, self.interim, self.has_begun) = (false, 0, false);
        assert!(self.ticket.is_none(), "one answer is awaited at a time");
        output.read_on(true);
        output.note_active();
        self.ticket = output.hold(Hold::new(Order::Any)).ok();
    }

    /// Whether nothing of the answer has come on a link that was used before.
    pub fn is_stale(&self) -> bool {
        self.is_reused && self.interim == 0 && !self.has_begun && self.way.is_some()
    }

    /// No answer is awaited any more.
    pub fn settle(&mut self, cx: &mut Cx<'_>) {
        if let Some(ticket) = self.ticket.take() {
            cx.answer(ticket, &b""[..]);
        }
    }
}
