//! Where a lane is served: addresses, and its sockets there.

pub(crate) mod listeners;
pub(crate) mod outgoing;
pub(crate) mod steering;

use corelane_rss::Transport;
use corelane_seam::Address;
use std::net::SocketAddr;

/// An address and how it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportAddress {
    /// TCP or UDP.
    pub transport: Transport,
    /// The address, with its port.
    pub address: SocketAddr,
}

impl TransportAddress {
    /// None for an address at which no flows come, because it is no IP address.
    pub(crate) fn of(transport: Transport, address: &Address) -> Option<Self> {
        Some(Self { transport, address: address.inet()? })
    }
}

/// The others that may have a listening or bound port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Other sockets may have the same port: needed with more lanes than one, or to join another process.
    pub share_port: bool,
    /// `[::]` takes IPv6 only.
    pub v6_only: bool,
}
