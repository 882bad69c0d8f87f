//! Datagrams: ports with bounded queues, and a way on which they may be lost, doubled or overtaken.

use super::names::{self, is_unix};
use super::{Binding, INVALID, OUTSIDE, Owner, REFUSED, destination, find};
use crate::faults::FaultKind;
use crate::log::{Detail, Site};
use crate::world::{Event, State};
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
    last_arrival: u64,
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
    fn hears(&self, peer: SocketAddr, connected: bool) -> bool {
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
    fn push(&mut self, packet: Packet) -> bool {
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
}

impl DatagramPort {
    /// Whether a Unix socket takes no more.
    fn is_full(&self) -> bool {
        self.queue.len() >= UNIX_QUEUE_MAX
    }
}

impl State {
    /// Gives a datagram to the socket at a Unix name, if it has room; the sender learns at once what came of it.
    pub(crate) fn give(&mut self, packet: Packet) -> Result<(), Fault> {
        let name = self.at_name(packet.from, packet.to)?;
        if self.net.ports[&name].is_full() {
            return Err(names::FULL);
        }
        self.arrive_packet(OUTSIDE, packet);
        Ok(())
    }

    /// The datagram socket at a Unix name, for what comes from `from`.
    pub(crate) fn at_name(&self, from: SocketAddr, to: SocketAddr) -> Result<u64, Fault> {
        if names::is_nameless(to.ip()) || !is_unix(from.ip()) {
            return Err(INVALID);
        }
        self.hearer(self.net.host_of(OUTSIDE, to.ip()), from, to).ok_or_else(|| self.net.nobody_at(to))
    }

    /// Sends a datagram from `port` on its way.
    pub(crate) fn emit(&mut self, port: u64, packet: Packet) {
        if self.strikes(FaultKind::DatagramLoss) {
            return;
        }
        let Some(host) = self.net.ports.get(&port).map(|port| port.place.host) else { return };
        let copies = if self.strikes(FaultKind::DatagramDuplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let latency = self.latency();
            let mut time = self.clock.now() + latency;
            if self.strikes(FaultKind::DatagramReorder) {
                time += 4 * latency;
            } else if let Some(port) = self.net.ports.get_mut(&port) {
                port.last_arrival = port.last_arrival.max(time);
                time = port.last_arrival;
            }
            self.clock.at(time, Event::Packet { host, packet: packet.clone() });
        }
    }

    /// A datagram arrives, if somebody is there and has room.
    pub(crate) fn arrive_packet(&mut self, host: usize, packet: Packet) {
        let to = destination(packet.to);
        let there = self.net.host_of(host, to.ip());
        let (now, bytes) = (self.clock.now(), packet.bytes.len() as u64);
        let Some(name) = self.hearer(there, packet.from, to) else {
            self.log.note(now, Site::World, "has no port for a datagram of", Detail::Amount(bytes));
            return self.send_word_back(host, packet.from, to);
        };
        let Some(port) = self.net.ports.get_mut(&name) else { return };
        let event = if port.push(Packet { to, ..packet }) { "gets" } else { "has no room for" };
        self.log.note(now, Site::Port(name), event, Detail::Amount(bytes));
        self.wake_port(name);
    }

    /// Who hears what `from` sends to `to` on `host`: who has it as its only peer comes first.
    fn hearer(&self, host: usize, from: SocketAddr, to: SocketAddr) -> Option<u64> {
        [true, false].into_iter().find_map(|connected| {
            let hears = self.net.ports.iter().filter(|(_, port)| port.hears(from, connected));
            find(hears.map(|(&name, port)| (name, &port.place)), host, from, to)
        })
    }

    /// Tells the sender that nobody is there (ICMP, RFC 792), if it would listen. The word may be lost as any datagram.
    fn send_word_back(&mut self, host: usize, from: SocketAddr, to: SocketAddr) {
        if self.speaker(host, from, to).is_some() && !self.strikes(FaultKind::DatagramLoss) {
            let latency = self.latency();
            self.clock.after(latency, Event::NobodyThere { host, from, to });
        }
    }

    pub(crate) fn nobody_there(&mut self, host: usize, from: SocketAddr, to: SocketAddr) {
        let Some(name) = self.speaker(host, from, to) else { return };
        if let Some(port) = self.net.ports.get_mut(&name) {
            port.fault = Some(REFUSED);
        }
        self.log.note(self.clock.now(), Site::Port(name), "hears that nobody is there", Detail::Nothing);
        self.wake_port(name);
    }

    /// Who at `from` has `to` as its only peer.
    fn speaker(&self, host: usize, from: SocketAddr, to: SocketAddr) -> Option<u64> {
        let is_at = |port: &DatagramPort| port.place.host == host && port.place.address == from;
        self.net.ports.iter().find(|(_, port)| is_at(port) && port.hears(to, true)).map(|(&name, _)| name)
    }

    fn wake_port(&mut self, name: u64) {
        match self.net.ports.get(&name).map(|port| port.owner) {
            Some(Owner::Lane(lane, socket)) => self.wake_socket(lane, socket),
            Some(Owner::Peer(peer)) => self.notify(peer),
            Some(Owner::Waiting | Owner::Gone) | None => {}
        }
    }
}
