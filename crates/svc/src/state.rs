//! What the lane knows of each of its services besides its code.

use crate::alarms::Alarms;
use crate::limits::Limits;
use crate::memory::{Payers, PeerKey};
use corelane_lane::Bursts;
use corelane_seam::{Address, Socket};
use corelane_watch::ServiceRow;
use std::any::TypeId;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

/// An accepted socket for which there is no room yet.
pub(crate) struct Arrived {
    pub(crate) socket: Socket,
    pub(crate) peer: Address,
    pub(crate) local: Address,
}

/// What the lane knows of a service besides its code.
pub(crate) struct ServiceState {
    pub(crate) limits: Limits,
    pub(crate) row: ServiceRow,
    pub(crate) open: u32,
    /// Connections that are in their handshakes.
    pub(crate) handshakes: Cell<u32>,
    /// Datagram sockets.
    pub(crate) sockets: u32,
    pub(crate) waiting: VecDeque<Arrived>,
    pub(crate) session_type: Option<TypeId>,
    /// When the service wants to be called, in nanoseconds; `u64::MAX` if it does not.
    pub(crate) alarms: Alarms,
    /// Drops of values of this service that panicked where the lane did not see it.
    pub(crate) bursts: Bursts,
    /// The operator has been told that a held request was never answered.
    pub(crate) told_of_unanswered: bool,
    /// How many connections each peer has opened.
    pub(crate) accepted: BTreeMap<PeerKey, u32>,
    pub(crate) payers: Payers,
}

/// What one peer may have of so many.
pub(crate) fn half(connections: u32) -> u32 {
    (connections / 2).max(1)
}
