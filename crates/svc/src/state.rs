//! What the lane knows of each of its services besides its code.

pub(crate) mod accounts;
pub(crate) mod crowd;
pub(crate) mod memory;
pub(crate) mod shares;

use crate::limits::Limits;
use crate::pending::alarms::Alarms;
use crate::state::accounts::{Payers, PeerKey};
use crate::state::shares::Shares;
use corelane_lane::Bursts;
use corelane_seam::{Address, Socket};
use corelane_watch::{ServiceCounter, ServiceRow};
use std::any::TypeId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

/// An accepted socket for which there is no room yet.
pub(crate) struct AcceptedSocket {
    pub(crate) socket: Socket,
    pub(crate) peer: Address,
    pub(crate) local: Address,
}

/// What the lane knows of a service besides its code.
pub(crate) struct ServiceState {
    pub(crate) limits: Limits,
    pub(crate) row: ServiceRow,
    /// Its connections, those that it opened itself included.
    pub(crate) open: Shares,
    /// It waits in the list of those that want to offload a call.
    pub(crate) awaits_offload: bool,
    /// It counts all of its requests, so bytes that were taken are none by themselves.
    pub(crate) counts_requests: Cell<bool>,
    /// Handshakes under way; those that wait for a place among them are not counted.
    pub(crate) handshakes: RefCell<Shares>,
    /// Datagram sockets.
    pub(crate) sockets: u32,
    pub(crate) waiting: VecDeque<AcceptedSocket>,
    pub(crate) session_type: Option<TypeId>,
    /// When the service wants to be called, each time with a name of its own.
    pub(crate) alarms: Alarms,
    /// Drops of values of this service that panicked where the lane did not see it.
    pub(crate) bursts: Bursts,
    /// The operator has been told that a held request was never answered.
    pub(crate) told_of_unanswered: bool,
    pub(crate) payers: Payers,
    /// Where the last connection was accepted.
    pub(crate) local: Option<Arc<Address>>,
}

impl ServiceState {
    /// The service as an operator is told of it: its number, and its name.
    pub(crate) fn shown(&self, number: u16) -> String {
        match self.row.name() {
            "" => format!("service {number}"),
            name => format!("service {number} ({name})"),
        }
    }

    /// The address where a connection was accepted, shared with the one before if that came there, too: so idle connections need not keep one each.
    pub(crate) fn local(&mut self, address: Address) -> Arc<Address> {
        match &self.local {
            Some(local) if **local == address => local.clone(),
            _ => self.local.insert(Arc::new(address)).clone(),
        }
    }

    /// Counts one more connection; if it was accepted, as one of its peer.
    pub(crate) fn opened(&mut self, accepted: Option<PeerKey>) {
        self.open.take(accepted);
        self.row.set(ServiceCounter::ConnectionsOpen, u64::from(self.open.share().used));
    }

    /// Counts one less.
    pub(crate) fn closed(&mut self, accepted: Option<PeerKey>) {
        self.open.give_back(accepted);
        self.row.set(ServiceCounter::ConnectionsOpen, u64::from(self.open.share().used));
    }
}
