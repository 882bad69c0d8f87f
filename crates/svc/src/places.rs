//! Where a lane is served: addresses, and its sockets there.

use corelane_rss::Transport;
use corelane_seam::{Address, Socket};
use std::net::SocketAddr;

/// An address and how it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// TCP or UDP.
    pub transport: Transport,
    /// The address, with its port.
    pub address: SocketAddr,
}

impl Place {
    /// None for an address at which no flows come, because it is no IP address.
    pub(crate) fn of(transport: Transport, address: &Address) -> Option<Self> {
        Some(Self { transport, address: address.inet()? })
    }
}

/// Who else may have a listening or bound port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Other sockets may have the same port: needed with more lanes than one, or to join another process.
    pub share_port: bool,
    /// `[::]` takes IPv6 only.
    pub v6_only: bool,
}

/// A place where this lane takes connections.
pub(crate) struct Listener {
    /// None while the lane is away.
    pub(crate) socket: Option<Socket>,
    pub(crate) service: u16,
    pub(crate) address: Address,
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
