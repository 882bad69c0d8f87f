//! What there is in the network: hosts, sockets, connections, and names.

use super::connect::{Attempt, ListenerPort};
use super::datagrams::DatagramPort;
use super::streams::Stream;
use super::table::Named;
use super::unix::Name;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// The ports that are given out, as Linux does by default (net.ipv4.ip_local_port_range).
pub(super) const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

pub(crate) struct Network {
    pub(super) hosts: Vec<Vec<IpAddr>>,
    pub(crate) streams: Named<Stream>,
    pub(crate) listeners: BTreeMap<u64, ListenerPort>,
    pub(crate) ports: BTreeMap<u64, DatagramPort>,
    pub(crate) attempts: BTreeMap<u64, Attempt>,
    /// Local and remote address of each connection, open or opening, as its opener sees it.
    pub(super) tuples: BTreeSet<(SocketAddr, SocketAddr)>,
    /// Unix names, by the numbers that they have inside.
    pub(super) names: Vec<Name>,
    pub(super) named: u64,
    pub(super) next_port: Cell<u16>,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self {
            hosts: Vec::new(),
            streams: Named::new(),
            listeners: BTreeMap::new(),
            ports: BTreeMap::new(),
            attempts: BTreeMap::new(),
            tuples: BTreeSet::new(),
            names: Vec::new(),
            named: 0,
            next_port: Cell::new(*EPHEMERAL.start()),
        }
    }

    /// A connection of which somebody has an end.
    pub(crate) fn held(&mut self, name: u64) -> &mut Stream {
        // reason: it is forgotten when both ends are closed.
        self.streams.get_mut(name).expect("a connection goes with the last of its ends")
    }

    /// A name that was never used.
    pub(crate) fn name(&mut self) -> u64 {
        self.named += 1;
        self.named
    }
}
