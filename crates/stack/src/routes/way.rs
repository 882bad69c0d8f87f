//! What a route comes to.

use std::net::IpAddr;

/// How a packet gets to where it is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    /// The address of ours that it leaves from.
    pub source: IpAddr,
    /// The neighbour that gets it: the destination itself, or a router.
    pub hop: IpAddr,
    /// The number of the interface that it leaves by.
    pub interface: usize,
}
