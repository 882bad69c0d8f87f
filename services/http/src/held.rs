//! An answer's place, held until it can be given.

use crate::answer::{Answer, Deliver};
use crate::desk::Desk;
use crate::facts::Facts;
use corelane::service::{Chain, ConnectionId, Refused, Ticket};
use corelane::{Cx, Talk};
use corelane_wire::http1::Status;
use std::rc::Rc;

/// What is answered where no memory is lent for the answer that was meant.
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

/// The right, and the duty, to answer one request later. Dropped without that, its connection is broken off, and counted (`tickets_dropped`).
pub struct Held {
    ticket: Ticket,
    desk: Rc<Desk>,
    facts: Facts,
}

impl Held {
    pub(crate) fn new(ticket: Ticket, desk: Rc<Desk>, facts: Facts) -> Self {
        Self { ticket, desk, facts }
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
        let Self { ticket, desk, facts } = self;
        desk.look(cx.time_of_day());
        Answer::new(Later { cx, ticket }, desk, facts, status)
    }
}

/// Into the place that was held.
///
/// If memory is refused for it, the client is told 503 (Service Unavailable) instead, and the caller of the refusal.
pub struct Later<'c, 'l, T: Talk> {
    cx: &'c mut Cx<'l, T>,
    ticket: Ticket,
}

impl<T: Talk> Deliver for Later<'_, '_, T> {
    type Done = ();

    fn deliver(self, bytes: &[u8], content: Option<Chain>) -> Result<(), Refused> {
        let Self { cx, mut ticket } = self;
        let mut writer = cx.answer_writer(&mut ticket);
        match writer.put(bytes).and_then(|()| writer.finish()) {
            Ok(mut chain) => {
                content.into_iter().for_each(|mut content| chain.append(&mut content));
                cx.answer_chain(ticket, chain);
                Ok(())
            }
            Err(refused) => {
                cx.answer(ticket, UNAVAILABLE);
                Err(refused)
            }
        }
    }
}
