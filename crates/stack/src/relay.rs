//! Relay of DHCP for IPv4: requests of a link's clients go to servers elsewhere, and their answers to the clients (RFC 2131, RFC 1542 section 4, RFC 3046).
//!
//! ```text
//! client --255.255.255.255:67, or our address--> takes? --request--> hops, giaddr = our address, option 82 = the interface's name --> each server
//! server --giaddr:67--> takes? --reply--> from a server, by the way to it? --> without option 82 --> all of the link, or chaddr without ARP
//! ```
//!
//! Nothing is kept of a client: what an answer needs stands in it. So a request may come to any lane and its answer to another; bounds are of each lane.
//! Clients are not believed: a request that names a relay already, or has a relay's option, goes no further (RFC 3046, section 2.1). So there is one relay between client and server.

use crate::counts::Drop;
use crate::outward::{Limiter, Outward, SharedLimiter};
use crate::packet::{Ip, Packet};
use crate::routes::check_own;
use crate::settings::{Error, InterfaceSettings, Network, RELAY_SERVERS_MAX, Settings};
use crate::udp;
use corelane_wire::packet::IpProtocol;
use corelane_wire::packet::dhcp::{self, Choice, Header, Operation, View};
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::xdr::Writer;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Relays that a request may have passed with us, at most (RFC 1542, section 4.1.1).
const HOPS_MAX: u8 = 16;
/// Bytes of the longest message that is relayed, as it comes: what fits into a packet of Ethernet.
const BYTES_MAX: usize = 1472;
/// Bytes of the longest name of a circuit, and of what a relay adds with it.
const CIRCUIT_BYTES_MAX: usize = 64;
const ADDED_BYTES_MAX: usize = 4 + CIRCUIT_BYTES_MAX;
/// Requests of one interface: so many a second and at once, and of each client's share alone; and answers.
const REQUESTS: (u64, u64) = (500, 250);
const OF_A_CLIENT: (u64, u64) = (5, 5);
const REPLIES: (u64, u64) = (2000, 1000);

/// What is set of one interface that relays.
#[derive(Debug)]
struct Agent {
    interface: usize,
    own: Ipv4Addr,
    servers: Box<[Ipv4Addr]>,
    /// What our option says: the name of the interface.
    information: Box<[u8]>,
    requests: SharedLimiter,
    replies: Limiter,
}

/// The owner of what relaying needs.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    agents: Vec<Agent>,
    by_interface: BTreeMap<usize, usize>,
    by_address: BTreeMap<Ipv4Addr, usize>,
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
            let agent = Agent::of(interface, one, settings).ok_or_else(|| Error::Relay { interface: one.name.clone() })?;
            made.by_interface.insert(interface, made.agents.len());
            made.by_address.insert(agent.own, made.agents.len());
            made.agents.push(agent);
        }
        Ok(made)
    }

    /// Whether a packet is for the relay: a datagram to the servers' port, for all of a link that is relayed or for our address there.
    pub fn takes(&self, packet: &Packet, ip: &Ip) -> bool {
        let port = || packet.transport(ip).next().and_then(|head| Some(u16::from_be_bytes([*head.get(2)?, *head.get(3)?])));
        self.agent_of(packet, ip).is_some() && port() == Some(dhcp::SERVER_PORT)
    }

    fn agent_of(&self, packet: &Packet, ip: &Ip) -> Option<usize> {
        match ip.destination {
            IpAddr::V4(to) if to.is_broadcast() => self.by_interface.get(&packet.interface).copied(),
            IpAddr::V4(to) => self.by_address.get(&to).copied(),
            IpAddr::V6(_) => None,
        }
    }

    /// Relays the message that a packet carries, which is for the relay.
    ///
    /// # Errors
    /// Why it goes no further.
    pub fn hear(&mut self, out: &mut Outward<'_>, packet: &mut Packet, ip: Ip) -> Result<(), Drop> {
        let _ends = udp::look(out, packet, ip)?;
        let ip = packet.ip.unwrap_or(ip);
        let mut memory = [0; BYTES_MAX];
        let message = message(packet, &ip, &mut memory).ok_or(Drop::Relay)?;
        let view = View::new(message).map_err(|_| Drop::Malformed)?;
        // reason: what is taken has an agent.
        let agent = self.agent_of(packet, &ip).expect("who is not for the relay is not taken");
        let agent = &mut self.agents[agent];
        match view.header().operation {
            Operation::Request if packet.interface == agent.interface => agent.ask(out, &view),
            Operation::Reply if !ip.is_to_all() => agent.answer(out, &view, ip.source, packet.interface),
            Operation::Request | Operation::Reply => Err(Drop::Relay),
        }
    }
}

/// The message that a datagram carries, if it is no longer than one may be.
fn message<'m>(packet: &Packet, ip: &Ip, memory: &'m mut [u8; BYTES_MAX]) -> Option<&'m [u8]> {
    let (mut skip, mut length) = (udp::HEAD, 0);
    for piece in packet.transport(ip) {
        let some = piece.len().min(skip);
        skip -= some;
        let piece = &piece[some..];
        memory.get_mut(length..length + piece.len())?.copy_from_slice(piece);
        length += piece.len();
    }
    Some(&memory[..length])
}

impl Agent {
    fn of(interface: usize, one: &InterfaceSettings, settings: &Settings) -> Option<Self> {
        let own = one.networks.iter().find_map(|network| v4(network.address))?;
        let is_ours = |server: &Ipv4Addr| {
            settings.interfaces.iter().flat_map(|one| &one.networks).any(|network| network.address == IpAddr::V4(*server))
        };
        let is_of_host = |server: &Ipv4Addr| check_own(&Network { address: (*server).into(), bits: 32 }).is_ok();
        let (name, are_hosts) = (one.name.as_bytes(), one.relay.iter().all(|server| is_of_host(server) && !is_ours(server)));
        if !are_hosts || one.relay.len() > RELAY_SERVERS_MAX || name.is_empty() || name.len() > CIRCUIT_BYTES_MAX {
            return None;
        }
        let each = || Limiter::new(OF_A_CLIENT.0, OF_A_CLIENT.1);
        Some(Self {
            interface,
            own,
            servers: one.relay.clone().into(),
            information: [&[dhcp::CIRCUIT, name.len() as u8], name].concat().into(),
            requests: SharedLimiter::new(settings.secret ^ interface as u128, Limiter::new(REQUESTS.0, REQUESTS.1), each),
            replies: Limiter::new(REPLIES.0, REPLIES.1),
        })
    }

    /// Passes a client's request on to each server.
    fn ask(&mut self, out: &mut Outward<'_>, view: &View<'_>) -> Result<(), Drop> {
        let header = view.header();
        let is_relayed = !header.relay.is_unspecified() || view.options().any(|option| option.code == dhcp::RELAY_INFORMATION);
        if is_relayed || header.hops >= HOPS_MAX {
            return Err(Drop::Relay);
        }
        if !self.requests.take(out.now, client_of(&header)) {
            return Err(Drop::RelayLimited);
        }
        let header = Header { hops: header.hops + 1, relay: self.own, ..header };
        let information = Choice { code: dhcp::RELAY_INFORMATION, data: &self.information };
        let mut memory = [0; BYTES_MAX + ADDED_BYTES_MAX];
        let message = written(&header, view.options().chain([information]), &mut memory);
        out.tally.relay_requests += 1;
        for server in &self.servers {
            let (from, to) = (end(self.own, dhcp::SERVER_PORT), end(*server, dhcp::SERVER_PORT));
            match out.routes.way(to.ip()) {
                None => out.tally.drop(Drop::NoRoute),
                Some(way) if begin(out, way.interface, from, to, message) => {
                    out.send_draft((way.interface, way.hop), from.ip(), to.ip(), IpProtocol::UDP);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Passes a server's answer on to its client (RFC 1542, section 4.1.2; RFC 2131, section 4.1).
    fn answer(&mut self, out: &mut Outward<'_>, view: &View<'_>, from: IpAddr, came_by: usize) -> Result<(), Drop> {
        let header = view.header();
        let is_of_server = self.servers.iter().any(|server| IpAddr::V4(*server) == from);
        if !is_of_server || header.relay != self.own || !self.is_named(view)? {
            return Err(Drop::Relay);
        }
        // Who speaks for a server from the clients' link is none.
        if !out.routes.is_expected(from, came_by, true) {
            return Err(Drop::ReversePath);
        }
        let (to, station) = client(out, &header)?;
        if !self.replies.take(out.now) {
            return Err(Drop::RelayLimited);
        }
        let mut memory = [0; BYTES_MAX + ADDED_BYTES_MAX];
        let options = view.options().filter(|option| option.code != dhcp::RELAY_INFORMATION);
        let message = written(&header, options, &mut memory);
        let (from, to) = (end(self.own, dhcp::SERVER_PORT), end(to, dhcp::CLIENT_PORT));
        if begin(out, self.interface, from, to, message) {
            out.tally.relay_replies += 1;
            out.send_draft_to(self.interface, station, (from.ip(), to.ip()), IpProtocol::UDP);
        }
        Ok(())
    }

    /// Whether a circuit that an answer names is ours; a server may say nothing of it.
    fn is_named(&self, view: &View<'_>) -> Result<bool, Drop> {
        let ours = &self.information[2..];
        for option in view.options().filter(|option| option.code == dhcp::RELAY_INFORMATION) {
            let mut within = option.within().map_err(|_| Drop::Malformed)?;
            if within.any(|one| one.code == dhcp::CIRCUIT && one.data != ours) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// For the bound of a client's requests: his hardware address, as a network of IPv6.
fn client_of(header: &Header) -> IpAddr {
    let [a, b, c, d, e, f, ..] = header.hardware_address;
    Ipv6Addr::from_bits(u128::from(u64::from_be_bytes([0, 0, a, b, c, d, e, f])) << 64).into()
}

/// To which address and station an answer goes: to all of the link where the client asks for that or has no address to be named by.
fn client(out: &Outward<'_>, header: &Header) -> Result<(Ipv4Addr, Mac), Drop> {
    let [a, b, c, d, e, f, ..] = header.hardware_address;
    let station = Mac([a, b, c, d, e, f]);
    let is_ethernet = (header.hardware, header.hardware_bytes) == dhcp::ETHERNET && !station.is_group() && station != Mac([0; 6]);
    let named = [header.yours, header.client].into_iter().find(|address| !address.is_unspecified());
    match named {
        Some(address) if out.routes.is_own(address.into()) || address.is_multicast() || address.is_loopback() => Err(Drop::Relay),
        Some(address) if is_ethernet && header.flags & dhcp::BROADCAST == 0 && !out.routes.is_broadcast(address.into()) => {
            Ok((address, station))
        }
        _ => Ok((Ipv4Addr::BROADCAST, Mac::BROADCAST)),
    }
}

/// A message as it is sent on: it comes of one with at most [`BYTES_MAX`] bytes.
fn written<'m, 'o>(header: &Header, options: impl Iterator<Item = Choice<'o>>, memory: &'m mut [u8]) -> &'m [u8] {
    let mut writer = Writer::new(memory);
    let written = header.emit(options, &mut writer);
    assert!(written.is_ok(), "there is room for what a relay adds: {written:?}");
    let length = writer.len();
    &memory[..length]
}

/// Writes a datagram into the draft; false if frames are used up, which is counted.
fn begin(out: &mut Outward<'_>, interface: usize, from: SocketAddr, to: SocketAddr, message: &[u8]) -> bool {
    let length = udp::HEAD + message.len();
    if !out.begin(interface, false, length, out.most_to(interface, to.ip())) {
        out.tally.drop(Drop::Frames);
        return false;
    }
    udp::put_head(out, from, to, length);
    out.draft().put(message);
    udp::seal(out, from, to, length);
    true
}

fn end(address: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(address.into(), port)
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}
