//! What the world keeps for each of the test's own ends.

use corelane_seam::Fault;
use std::net::SocketAddr;

/// How far a peer's connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Not yet answered.
    Opening,
    /// Open, and there may be more to receive.
    Open,
    /// The other end has finished sending, and all of it was read.
    Ended,
    /// It could not be opened, or it was reset; the fault says which.
    Failed(Fault),
    /// Closed by this peer.
    Closed,
}

/// The world's side of a peer.
pub(crate) struct PeerState {
    pub(crate) status: Status,
    /// The connection that it is an end of, and which end.
    pub(crate) at: Option<(u64, usize)>,
    /// The datagram port that it has instead.
    pub(crate) port: Option<u64>,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// Whether a notice of it waits already.
    pub(crate) notified: bool,
    /// Whether its last send was cut short.
    pub(crate) wants_room: bool,
}

impl PeerState {
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self { status: Status::Opening, at: None, port: None, local, remote, notified: false, wants_room: false }
    }

    /// The peer's connection is end `side` of `stream`.
    pub(crate) fn open(&mut self, stream: u64, side: usize) {
        self.status = Status::Open;
        self.at = Some((stream, side));
    }

    pub(crate) fn fail(&mut self, fault: Fault) {
        self.status = Status::Failed(fault);
    }
}
