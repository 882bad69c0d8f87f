//! An answer's place, held until it can be given.

use crate::answer::Answer;
use crate::backlog::{UNAVAILABLE, UNAVAILABLE_AND_CLOSED};
use crate::deliver::{Deliver, Delivery};
use crate::due::Due;
use crate::facts::Facts;
use crate::log::{Ended, Sent};
use crate::outcome::Behind;
use corelane::service::{Chain, ConnectionId, Refused, Ticket};
use corelane::{Cx, Talk};
use corelane_wire::http1::Status;

/// The right, and the duty, to answer one request later. Dropped without that, its connection is broken off, and counted (`tickets_dropped`).
pub struct Held {
    ticket: Ticket,
    facts: Facts,
    due: Due,
}

impl Held {
    pub(crate) fn new(ticket: Ticket, facts: Facts, due: Due) -> Self {
        Self { ticket, facts, due }
    }

    /// The connection whose request it is.
    pub fn connection(&self) -> ConnectionId {
        self.ticket.connection()
    }

    /// Whether the client asked for the head alone.
    pub fn is_head(&self) -> bool {
        self.facts.is_head
    }

    /// An answer with this status, to be completed; its `Done` is nothing.
    pub fn answer<'c, 'l, T: Talk>(self, cx: &'c mut Cx<'l, T>, status: Status) -> Answer<Later<'c, 'l, T>> {
        let Self { ticket, mut facts, due } = self;
        let desk = due.desk().clone();
        desk.look(cx);
        facts.persists &= !desk.is_last_held(ticket.connection());
        Answer::new(Later { cx, ticket, due, persists: facts.persists }, desk, facts, status)
    }
}

/// Into the place that was held.
///
/// If memory is refused for it, the client is told 503 (Service Unavailable) instead, and the caller of the refusal. Where its time was up before, the client was told so
/// then, and nothing is sent now.
pub struct Later<'c, 'l, T: Talk> {
    cx: &'c mut Cx<'l, T>,
    ticket: Ticket,
    due: Due,
    persists: bool,
}

impl<T: Talk> Deliver for Later<'_, '_, T> {
    type Done = ();

    fn deliver(self, bytes: &[u8], content: Behind, sent: Sent) -> Delivery<()> {
        let Self { cx, ticket, due, persists } = self;
        let Some(note) = due.take() else {
            // Its ticket is void: svc counts what comes now (`answers_late`).
            cx.answer_chain(ticket, Chain::new());
            return Delivery { status: None, told: Ok(()) };
        };
        let is_there = cx.peer_address(ticket.connection()).is_some();
        let (sent, told) = put(cx, ticket, persists, (bytes, content, sent));
        if !is_there {
            // Whoever has gone was sent nothing.
            return Delivery { status: None, told };
        }
        if let Some(mut note) = note {
            note.note_sent(sent);
            note.end(Ended::whole(persists));
        }
        Delivery { status: Some(sent.status), told }
    }
}

/// Puts an answer into its place: what is sent there, and what its author is told.
fn put(
    cx: &mut Cx<'_, impl Talk>,
    mut ticket: Ticket,
    persists: bool,
    (bytes, content, sent): (&[u8], Behind, Sent),
) -> (Sent, Result<(), Refused>) {
    let mut writer = cx.answer_writer(&mut ticket);
    match writer.put(bytes).and_then(|()| writer.finish()) {
        Ok(mut chain) => {
            match content {
                Behind::Nothing => {}
                Behind::One(segment) => chain.push(segment),
                Behind::All(mut content) => chain.append(&mut content),
            }
            cx.answer_chain(ticket, chain);
            (sent, Ok(()))
        }
        Err(refused) => {
            cx.answer(ticket, if persists { UNAVAILABLE } else { UNAVAILABLE_AND_CLOSED });
            (Sent { status: Status::SERVICE_UNAVAILABLE.code(), bytes: 0 }, Err(refused))
        }
    }
}
