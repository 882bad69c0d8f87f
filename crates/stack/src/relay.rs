//! Relay of DHCP: requests of a link's clients go to servers elsewhere, and their answers to the clients.
//!
//! ```text
//! client --a group of the link, or our address--> takes? --request--> bounds --with our address and the interface's name--> each server
//! server --our address--> takes? --answer--> from a server, by the way to it? --> client
//! ```
//!
//! Nothing is kept of a client: what an answer needs stands in it. So a request may come to any lane and its answer to another; bounds are of each lane.

mod sending;
mod v4;
mod v6;

use crate::counts::Drop;
use crate::outward::Outward;
use crate::packet::{Ip, Packet};
use crate::routes::check_own;
use crate::settings::{Error, InterfaceSettings, Network, RELAY_SERVERS_MAX, Settings};
use crate::udp;
use corelane_wire::packet::{dhcp, dhcpv6};
use sending::{Bounds, NAME_BYTES_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The owner of what relaying needs.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    v4: Agents<v4::Agent>,
    v6: Agents<v6::Agent>,
}

/// What relays for interfaces, each known by its number and by our address there.
#[derive(Debug)]
struct Agents<A> {
    all: Vec<A>,
    by_interface: BTreeMap<usize, usize>,
    by_address: BTreeMap<IpAddr, usize>,
}

/// Whether each interface that relays DHCP can.
///
/// # Errors
/// [`Error::Relay`].
pub fn check_relay(settings: &Settings) -> Result<(), Error> {
    Relay::new(settings).map(drop)
}

impl Relay {
    /// # Errors
    /// [`Error::Relay`].
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let mut made = Self::default();
        for (interface, one) in settings.interfaces.iter().enumerate().filter(|(_, one)| !one.relay.is_empty()) {
            made.add(interface, one, settings).ok_or_else(|| Error::Relay { interface: one.name.clone() })?;
        }
        Ok(made)
    }

    /// An interface that relays; none if it cannot.
    fn add(&mut self, interface: usize, one: &InterfaceSettings, settings: &Settings) -> Option<()> {
        let is_ours =
            |server: IpAddr| settings.interfaces.iter().flat_map(|one| &one.networks).any(|network| network.address == server);
        let is_of_host =
            |server: IpAddr| check_own(&Network { address: server, bits: if server.is_ipv4() { 32 } else { 128 } }).is_ok();
        let are_hosts = one.relay.iter().all(|server| is_of_host(*server) && !is_ours(*server));
        if !are_hosts || one.relay.len() > RELAY_SERVERS_MAX || one.name.is_empty() || one.name.len() > NAME_BYTES_MAX {
            return None;
        }
        if one.relay.iter().any(IpAddr::is_ipv4) {
            let agent = v4::Agent::of(interface, one, Bounds::new(settings.secret ^ interface as u128))?;
            self.v4.add(interface, agent.own().into(), agent);
        }
        if one.relay.iter().any(IpAddr::is_ipv6) {
            let agent = v6::Agent::of(interface, one, Bounds::new(!settings.secret ^ interface as u128))?;
            self.v6.add(interface, agent.own().into(), agent);
        }
        Some(())
    }

    /// Whether a packet is for the relay: a datagram to the servers' port, for all servers of a link that is relayed or for our address there.
    pub fn takes(&self, packet: &Packet, ip: &Ip) -> bool {
        let (is_known, of_servers) = match ip.destination {
            IpAddr::V4(_) => (self.v4.place(packet, ip).is_some(), dhcp::SERVER_PORT),
            IpAddr::V6(_) => (self.v6.place(packet, ip).is_some(), dhcpv6::SERVER_PORT),
        };
        let port = || packet.transport(ip).next().and_then(|head| Some(u16::from_be_bytes([*head.get(2)?, *head.get(3)?])));
        is_known && port() == Some(of_servers)
    }

    /// Relays the message that a packet carries, which is for the relay.
    ///
    /// # Errors
    /// Why it goes no further.
    pub fn hear(&mut self, out: &mut Outward<'_>, packet: &mut Packet, ip: Ip) -> Result<(), Drop> {
        let _ends = udp::look(out, packet, ip)?;
        let ip = packet.ip.unwrap_or(ip);
        match ip.destination {
            IpAddr::V4(_) => self.v4.of(packet, &ip).hear(out, packet, &ip),
            IpAddr::V6(_) => self.v6.of(packet, &ip).hear(out, packet, &ip),
        }
    }
}

impl<A> Default for Agents<A> {
    fn default() -> Self {
        Self { all: Vec::new(), by_interface: BTreeMap::new(), by_address: BTreeMap::new() }
    }
}

impl<A> Agents<A> {
    fn add(&mut self, interface: usize, own: IpAddr, agent: A) {
        self.by_interface.insert(interface, self.all.len());
        self.by_address.insert(own, self.all.len());
        self.all.push(agent);
    }

    /// Which of them a packet is for.
    fn place(&self, packet: &Packet, ip: &Ip) -> Option<usize> {
        let place = match ip.is_to_all() || ip.destination == IpAddr::V6(dhcpv6::RELAYS_AND_SERVERS) {
            true => self.by_interface.get(&packet.interface),
            false => self.by_address.get(&ip.destination),
        };
        place.copied()
    }

    fn of(&mut self, packet: &Packet, ip: &Ip) -> &mut A {
        // reason: what is taken has an agent.
        let place = self.place(packet, ip).expect("who is not for the relay is not taken");
        &mut self.all[place]
    }
}
