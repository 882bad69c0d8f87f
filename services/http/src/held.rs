//! An answer's place, held until it can be given.

use crate::answer::Answer;
use crate::deliver::{Behind, Deliver};
use crate::desk::Desk;
use crate::facts::Facts;
use crate::log::{Ended, Note, Sent};
use corelane::service::{ConnectionId, Refused, Ticket};
use corelane::{Cx, Talk};
use corelane_wire::http1::Status;
use std::rc::Rc;

/// What is answered where no memory is lent for the answer that was meant.
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
const UNAVAILABLE_AND_CLOSED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The right, and the duty, to answer one request later. Dropped without that, its connection is broken off, and counted (`tickets_dropped`).
pub struct Held {
    ticket: Ticket,
    desk: Rc<Desk>,
    facts: Facts,
    /// None where nothing is logged.
    note: Option<Note>,
}

impl Held {
    pub(crate) fn new(ticket: Ticket, desk: Rc<Desk>, facts: Facts, note: Option<Note>) -> Self {
        Self { ticket, desk, facts, note }
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
        let Self { ticket, desk, facts, note } = self;
        desk.look(cx);
        Answer::new(Later { cx, ticket, note, persists: facts.persists }, desk, facts, status)
    }
}

/// Into the place that was held.
///
/// If memory is refused for it, the client is told 503 (Service Unavailable) instead, and the caller of the refusal.
pub struct Later<'c, 'l, T: Talk> {
    cx: &'c mut Cx<'l, T>,
    ticket: Ticket,
    note: Option<Note>,
    persists: bool,
}

impl<T: Talk> Deliver for Later<'_, '_, T> {
    type Done = ();

    fn deliver(self, bytes: &[u8], content: Behind, sent: Sent) -> Result<(), Refused> {
        let Self { cx, mut ticket, note, persists } = self;
        // Whoever has gone was sent nothing.
        let note = note.filter(|_| cx.peer_address(ticket.connection()).is_some());
        let end = |note: Option<Note>, sent| {
            if let Some(mut note) = note {
                note.has_sent(sent);
                note.end(Ended::whole(persists));
            }
        };
        let mut writer = cx.answer_writer(&mut ticket);
        match writer.put(bytes).and_then(|()| writer.finish()) {
            Ok(mut chain) => {
                match content {
                    Behind::Nothing => {}
                    Behind::One(segment) => chain.push(segment),
                    Behind::All(mut content) => chain.append(&mut content),
                }
                cx.answer_chain(ticket, chain);
                end(note, sent);
                Ok(())
            }
            Err(refused) => {
                cx.answer(ticket, if persists { UNAVAILABLE } else { UNAVAILABLE_AND_CLOSED });
                end(note, Sent { status: Status::SERVICE_UNAVAILABLE.code(), bytes: 0 });
                Err(refused)
            }
        }
    }
}
