//! Datagrams, and ports with bounded queues.

use super::binding::{Binding, Owner};
use super::unix::is_unix;
use corelane_seam::Fault;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A queue that asks for no size (net.core.rmem_default, socket(7)), and the least one.
const QUEUE_BYTES: usize = 208 << 10;
const QUEUE_BYTES_MIN: usize = 2 << 10;
/// Datagrams that a Unix socket keeps (net.unix.max_dgram_qlen, unix(7)).
const UNIX_QUEUE_MAX: usize = 10;
/// What a datagram costs in a queue beside its payload, in bytes.
const OVERHEAD_BYTES: usize = 512;

/// One datagram.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// A datagram socket.
pub(crate) struct DatagramPort {
    pub(crate) place: Binding,
    /// The only one that it hears and speaks to, if there is one.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) owner: Owner,
    /// What the network said of something sent to its peer.
    pub(crate) fault: Option<Fault>,
    /// Datagrams for which there was no room.
    pub(crate) dropped: u32,
    limit: usize,
    queued_bytes: usize,
    queue: VecDeque<Packet>,
    pub(crate) last_arrival: u64,
}

impl DatagramPort {
    pub(crate) fn new(place: Binding, peer: Option<SocketAddr>, owner: Owner, receive_buffer_bytes: u32) -> Self {
        let wish = receive_buffer_bytes as usize;
        let limit = if wish == 0 { QUEUE_BYTES } else { wish.max(QUEUE_BYTES_MIN) };
        Self { place, peer, owner, fault: None, dropped: 0, limit, queued_bytes: 0, queue: VecDeque::new(), last_arrival: 0 }
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.fault.is_some() || !self.queue.is_empty()
    }

    /// Whether it has `peer` as its only one; without any it hears everybody.
    pub(crate) fn hears(&self, peer: SocketAddr, connected: bool) -> bool {
        self.peer == connected.then_some(peer)
    }

    /// The datagrams that wait.
    pub(crate) fn front(&self) -> Option<&Packet> {
        self.queue.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.queued_bytes -= packet.bytes.len() + OVERHEAD_BYTES;
        Some(packet)
    }

    /// Returns whether there was room: one that is over the limit by itself still fits into an empty queue. Over Unix sockets datagrams are counted.
    pub(crate) fn push(&mut self, packet: Packet) -> bool {
        let bytes = packet.bytes.len() + OVERHEAD_BYTES;
        let fits = match is_unix(self.place.address.ip()) {
            true => !self.is_full(),
            false => self.queue.is_empty() || self.queued_bytes + bytes <= self.limit,
        };
        if fits {
            self.queued_bytes += bytes;
            self.queue.push_back(packet);
        } else {
            self.dropped += 1;
        }
        fits
    }

    /// Whether a Unix socket takes no more.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= UNIX_QUEUE_MAX
    }
}
