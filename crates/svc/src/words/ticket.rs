//! The right to answer one held request, exactly once.

use crate::words::names::{ConnectionId, Order};
use corelane_seam::Lease;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Tickets that were dropped without an answer, until the lane looks.
#[derive(Clone, Default)]
pub(crate) struct LostTickets(Rc<RefCell<Vec<(ConnectionId, Name)>>>);

impl LostTickets {
    pub(crate) fn take(&self) -> Vec<(ConnectionId, Name)> {
        std::mem::take(&mut self.0.borrow_mut())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

/// Which request of its connection a ticket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) number: u32,
    pub(crate) order: Order,
    /// It was given for one that had expired.
    pub(crate) is_renewed: bool,
}

/// How a request is held ([`Output::hold`](crate::Output::hold)): an [`Order`] alone, or also memory for the answer and an expiry.
///
/// ```
/// # mod corelane { pub mod service { pub use corelane_svc::{Hold, Order}; } }
/// use corelane::service::{Hold, Order};
/// use std::time::Duration;
///
/// let hold = Hold::new(Order::Kept).reserve(4096).expires(Duration::from_secs(5), 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Hold {
    pub(crate) order: Order,
    pub(crate) reserve: usize,
    pub(crate) expiry: Option<(Duration, u64)>,
}

impl Hold {
    /// In this order. No memory is kept for the answer, which may take as long as `answer_limit` says.
    pub const fn new(order: Order) -> Self {
        Self { order, reserve: 0, expiry: None }
    }

    /// Keeps memory for an answer of so many bytes, so the answer leaves however short the lane's memory is by then. From now on the memory is charged to the
    /// connection, and counts as its output.
    pub const fn reserve(self, bytes: usize) -> Self {
        Self { reserve: bytes, ..self }
    }

    /// Has [`StreamService::expired`](crate::StreamService::expired) called with `token` if there is no answer `after` this time, or up to a
    /// millisecond later. Then this ticket is void. If the connection ends first, it is not called: drop what the service keeps beside the ticket
    /// in [`closed`](crate::StreamService::closed).
    pub const fn expires(self, after: Duration, token: u64) -> Self {
        Self { expiry: Some((after, token)), ..self }
    }
}

impl From<Order> for Hold {
    fn from(order: Order) -> Self {
        Self::new(order)
    }
}

/// The right to answer one request that [`Output::hold`](crate::Output::hold) held. Answering spends it. Dropping it instead
/// is counted (`tickets_dropped`), and ends the connection as aborted if the answer's place was to be kept.
#[must_use = "a ticket that is dropped leaves a request without its answer"]
pub struct Ticket {
    connection: ConnectionId,
    name: Name,
    /// Memory for the answer.
    reserved: Option<Lease>,
    lost: Option<LostTickets>,
}

impl Ticket {
    pub(crate) fn new(connection: ConnectionId, name: Name, reserved: Option<Lease>, lost: LostTickets) -> Self {
        Self { connection, name, reserved, lost: Some(lost) }
    }

    /// The connection that asked.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// The memory that is kept for the answer.
    pub(crate) fn take_reserved(&mut self) -> Option<Lease> {
        self.reserved.take()
    }

    pub(crate) fn spend(mut self) -> Name {
        self.lost = None;
        self.name
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(lost) = &self.lost {
            lost.0.borrow_mut().push((self.connection, self.name));
        }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reserved = self.reserved.as_ref().map_or(0, Lease::capacity);
        write!(f, "Ticket({:?}, {:?}, {reserved} bytes kept)", self.connection, self.name)
    }
}

impl std::fmt::Debug for LostTickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LostTickets({})", self.0.borrow().len())
    }
}
