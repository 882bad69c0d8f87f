//! What a follower of a table tells.

use std::net::IpAddr;
use std::sync::Arc;

/// A route that leads to a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The first address of the network that is reached so.
    pub destination: IpAddr,
    /// Bits of its prefix.
    pub bits: u8,
    /// The router, of the destination's family.
    pub router: IpAddr,
    /// The name of the kernel's interface that it is reached by.
    pub interface: Arc<str>,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteEvent {
    /// One more way leads to a network.
    Add(Route),
    /// No way by that router leads to exactly that network any more, by whatever interface.
    Delete {
        /// The first address of the network.
        destination: IpAddr,
        /// Bits of its prefix.
        bits: u8,
        /// The router.
        router: IpAddr,
    },
}
