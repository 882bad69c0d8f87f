//! The places where a lane takes connections.

use crate::places::Sharing;
use corelane_seam::Socket;
use std::net::SocketAddr;

/// A place where this lane takes connections.
pub(crate) struct Listener {
    /// None while the lane is away.
    pub(crate) socket: Option<Socket>,
    pub(crate) service: u16,
    pub(crate) address: SocketAddr,
    pub(crate) sharing: Sharing,
    pub(crate) accepting: bool,
    /// Set when the system had no descriptor: accepting goes on when a connection ends or the timer comes.
    pub(crate) starved: bool,
    /// When the last connection was accepted during a drain.
    pub(crate) accepted_at: u64,
    /// Since when, in a drain, it could accept without a pause.
    pub(crate) free_since: u64,
    pub(crate) closing: bool,
}

impl Listener {
    /// From `now` on it is to find out whether anybody still waits.
    pub(crate) fn begin_to_settle(&mut self, now: u64) {
        (self.accepted_at, self.free_since, self.starved) = (now, now, false);
    }
}
