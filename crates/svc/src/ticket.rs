//! The right to answer one held request, exactly once.

use crate::names::{ConnectionId, Order};
use std::cell::RefCell;
use std::rc::Rc;

/// Tickets that were dropped without an answer, until the lane looks.
#[derive(Clone, Default)]
pub(crate) struct LostTickets(Rc<RefCell<Vec<(ConnectionId, u32, Order)>>>);

impl LostTickets {
    pub(crate) fn take(&self) -> Vec<(ConnectionId, u32, Order)> {
        std::mem::take(&mut self.0.borrow_mut())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

/// The right to answer one request that was held with [`Output::hold`](crate::Output::hold). Answering spends it. One that is
/// dropped instead is counted (`tickets_dropped`), and ends the connection as aborted if its place was to be kept.
#[derive(Debug)]
#[must_use = "a ticket that is dropped leaves a request without its answer"]
pub struct Ticket {
    connection: ConnectionId,
    number: u32,
    order: Order,
    lost: Option<LostTickets>,
}

impl Ticket {
    pub(crate) fn new(connection: ConnectionId, number: u32, order: Order, lost: LostTickets) -> Self {
        Self { connection, number, order, lost: Some(lost) }
    }

    /// The connection that asked.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    pub(crate) fn spend(mut self) -> (u32, Order) {
        self.lost = None;
        (self.number, self.order)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(lost) = &self.lost {
            lost.0.borrow_mut().push((self.connection, self.number, self.order));
        }
    }
}

impl std::fmt::Debug for LostTickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LostTickets({})", self.0.borrow().len())
    }
}
