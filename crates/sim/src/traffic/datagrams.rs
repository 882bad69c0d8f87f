//! How datagrams travel: on a way on which they may be lost, doubled or overtaken.

use crate::faults::FaultKind;
use crate::log::{Detail, Site};
use crate::net::datagrams::{DatagramPort, Packet};
use crate::net::unix::{is_nameless, is_unix};
use crate::net::{FULL, INVALID, OUTSIDE, Owner, REFUSED, destination, find};
use crate::state::{Event, State};
use corelane_seam::Fault;
use std::net::SocketAddr;

impl State {
    /// Gives a datagram to the socket at a Unix name, if it has room; the sender learns at once what came of it.
    pub(crate) fn give(&mut self, packet: Packet) -> Result<(), Fault> {
        let name = self.at_name(packet.from, packet.to)?;
        if self.net.ports[&name].is_full() {
            return Err(FULL);
        }
        self.arrive_packet(OUTSIDE, packet);
        Ok(())
    }

    /// The datagram socket at a Unix name, for what comes from `from`.
    pub(crate) fn at_name(&self, from: SocketAddr, to: SocketAddr) -> Result<u64, Fault> {
        if is_nameless(to.ip()) || !is_unix(from.ip()) {
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
            Some(Owner::Waiting | Owner::Detached | Owner::Gone) | None => {}
        }
    }
}
