//! The facts of every flow that comes: flow id, hash type, bucket, and the lane that it belongs to.

use corelane_rss::{Bucket, FlowHasher, FlowId, HashType, Outgoing, Protocol, Table, Tuple, Way};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The facts of the flow that something came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The hash of what the receiver sees, the remote end first.
    pub id: FlowId,
    /// Which fields it covers.
    pub hash_type: HashType,
    /// The row of the table that it names.
    pub bucket: Bucket,
}

/// The program's hash, and this lane's copy of its table.
#[derive(Clone, Debug)]
pub struct Flows {
    /// Never written, so that lanes may share it.
    hasher: Arc<FlowHasher>,
    table: Table,
}

impl Flows {
    /// The flows that `hasher` tells apart and `table` gives to lanes.
    pub fn new(hasher: Arc<FlowHasher>, table: Table) -> Self {
        Self { hasher, table }
    }

    /// The flow from `peer` to `local`. None if hash types leave it out, or one end is IPv4 and the other IPv6.
    pub fn flow(&self, peer: SocketAddr, local: SocketAddr, protocol: Protocol) -> Option<Flow> {
        let hashed = self.hasher.tuple(&Tuple::new(peer, local, protocol).ok()?)?;
        let bucket = self.table.buckets().place(hashed)?;
        Some(Flow { id: hashed.flow, hash_type: hashed.hash_type, bucket })
    }

    /// The lane that the flow belongs to.
    pub fn lane(&self, flow: Flow) -> usize {
        self.table.lane(flow.bucket)
    }

    /// Whether a flow that came to lane `lane` belongs to another.
    pub(crate) fn is_stray(&self, flow: Option<Flow>, lane: usize) -> bool {
        flow.is_some_and(|flow| self.lane(flow) != lane)
    }

    /// Whether it makes a difference to lane `lane` which of the flows to it are opened: some belong to it, and some do not.
    pub(crate) fn divides(&self, lane: usize) -> bool {
        let owned = self.table.owned(lane).count();
        owned > 0 && owned < self.table.buckets().count()
    }

    /// The first port in `range` with which what `peer` sends to `local` belongs to lane `lane`.
    pub(crate) fn home_port(&self, lane: usize, local: IpAddr, peer: SocketAddr, range: RangeInclusive<u16>) -> Option<u16> {
        let flow = Outgoing { local, peer, protocol: Protocol::TCP, way: Way::Home };
        let mut ports = flow.ports(&self.hasher, range, |flow| self.table.lane_of(flow) == lane).ok()?;
        ports.next().map(|(port, _)| port)
    }

    /// Takes another table.
    pub(crate) fn set_table(&mut self, table: Table) {
        self.table = table;
    }
}
