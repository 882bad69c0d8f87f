//! What the lane knows of each of its services besides its code.

use crate::accounts::{Payers, PeerKey};
use crate::alarms::Alarms;
use crate::limits::Limits;
use corelane_lane::Bursts;
use corelane_seam::{Address, Socket};
use corelane_watch::{ServiceCounter, ServiceRow};
use std::any::TypeId;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
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
    pub(crate) open: u32,
    /// It waits in the list of those that want to offload a call.
    pub(crate) awaits_offload: bool,
    /// It counts all of its requests, so bytes that were taken are none by themselves.
    pub(crate) counts_requests: Cell<bool>,
    /// Connections that are in their handshakes.
    pub(crate) handshakes: Cell<u32>,
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
    /// How many connections each peer has opened.
    pub(crate) accepted: BTreeMap<PeerKey, u32>,
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
        assert!(self.open < self.limits.connections_max, "connections are bounded");
        self.open += 1;
        self.row.set(ServiceCounter::ConnectionsOpen, u64::from(self.open));
        if let Some(peer) = accepted {
            *self.accepted.entry(peer).or_default() += 1;
        }
    }

    /// Counts one less.
    pub(crate) fn closed(&mut self, accepted: Option<PeerKey>) {
        assert!(self.open > 0, "a connection is counted from its admission");
        self.open -= 1;
        self.row.set(ServiceCounter::ConnectionsOpen, u64::from(self.open));
        if let Some(peer) = accepted {
            self.uncount_accepted(peer);
        }
    }

    /// Counts one less of those that a peer has opened; who has none is forgotten.
    fn uncount_accepted(&mut self, peer: PeerKey) {
        // reason: counted when it was accepted.
        let count = self.accepted.get_mut(&peer).expect("an accepted connection was counted");
        assert!(*count > 0, "who has none is forgotten");
        *count -= 1;
        if *count == 0 {
            self.accepted.remove(&peer);
        }
    }
}
