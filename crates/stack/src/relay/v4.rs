//! The relay of DHCP for IPv4 (RFC 2131, RFC 1542 section 4, RFC 3046).
//!
//! ```text
//! client --255.255.255.255:67, or our address--> hops, giaddr = our address, option 82 = the interface's name --> each server
//! server --giaddr:67--> without option 82 --> all of the link, or chaddr without ARP
//! ```
//!
//! Clients are not believed: a request that names a relay already, or has a relay's option, goes no further (RFC 3046, section 2.1). So there is one relay between client and server.

use super::sending::{Bounds, NAME_BYTES_MAX, begin, message, send_to_servers};
use crate::counts::Drop;
use crate::outward::Outward;
use crate::packet::{Ip, Packet};
use crate::settings::InterfaceSettings;
use corelane_wire::packet::IpProtocol;
use corelane_wire::packet::dhcp::{self, Choice, Header, Operation, View};
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::xdr::Writer;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Relays that a request may have passed with us, at most (RFC 1542, section 4.1.1).
const HOPS_MAX: u8 = 16;
/// Bytes of the longest message that is relayed, as it comes: what fits into a packet of Ethernet; and of what a relay adds.
const BYTES_MAX: usize = 1472;
const ADDED_BYTES_MAX: usize = 4 + NAME_BYTES_MAX;

/// What is set of one interface that relays.
#[derive(Debug)]
pub(super) struct Agent {
    interface: usize,
    own: Ipv4Addr,
    servers: Box<[Ipv4Addr]>,
    /// What our option says: the name of the interface.
    information: Box<[u8]>,
    bounds: Bounds,
}

impl Agent {
    /// For the servers of IPv4 that are named; none without an address of ours.
    pub fn of(interface: usize, one: &InterfaceSettings, bounds: Bounds) -> Option<Self> {
        let own = one.networks.iter().find_map(|network| v4(network.address))?;
        let servers = one.relay.iter().filter_map(|server| v4(*server)).collect();
        let name = one.name.as_bytes();
        let information = [&[dhcp::CIRCUIT, name.len() as u8], name].concat().into();
        Some(Self { interface, own, servers, information, bounds })
    }

    /// Our address at its interface.
    pub const fn own(&self) -> Ipv4Addr {
        self.own
    }

    /// Relays the message that a packet carries.
    ///
    /// # Errors
    /// Why it goes no further.
    pub fn hear(&mut self, out: &mut Outward<'_>, packet: &Packet, ip: &Ip) -> Result<(), Drop> {
        let mut memory = [0; BYTES_MAX];
        let message = message(packet, ip, &mut memory).ok_or(Drop::Relay)?;
        let view = View::new(message).map_err(|_| Drop::Malformed)?;
        match view.header().operation {
            Operation::Request if packet.interface == self.interface => self.ask(out, &view),
            Operation::Reply if !ip.is_to_all() => self.answer(out, &view, ip.source, packet.interface),
            Operation::Request | Operation::Reply => Err(Drop::Relay),
        }
    }

    /// Passes a client's request on to each server.
    fn ask(&mut self, out: &mut Outward<'_>, view: &View<'_>) -> Result<(), Drop> {
        let header = view.header();
        let is_relayed = !header.relay.is_unspecified() || view.options().any(|option| option.code == dhcp::RELAY_INFORMATION);
        if is_relayed || header.hops >= HOPS_MAX {
            return Err(Drop::Relay);
        }
        if !self.bounds.requests.take(out.now, header.hardware_address) {
            return Err(Drop::RelayLimited);
        }
        let header = Header { hops: header.hops + 1, relay: self.own, ..header };
        let information = Choice { code: dhcp::RELAY_INFORMATION, data: &self.information };
        let mut memory = [0; BYTES_MAX + ADDED_BYTES_MAX];
        let message = written(&header, view.options().chain([information]), &mut memory);
        let servers = self.servers.iter().map(|server| end(*server, dhcp::SERVER_PORT));
        send_to_servers(out, end(self.own, dhcp::SERVER_PORT), servers, message);
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
        if !self.bounds.replies.take(out.now) {
            return Err(Drop::RelayLimited);
        }
        let mut memory = [0; BYTES_MAX + ADDED_BYTES_MAX];
        let options = view.options().filter(|option| option.code != dhcp::RELAY_INFORMATION);
        let message = written(&header, options, &mut memory);
        let (from, to) = (end(self.own, dhcp::SERVER_PORT), end(to, dhcp::CLIENT_PORT));
        let has_left = begin(out, self.interface, from, to, message)
            && out.send_draft_to(self.interface, station, (from.ip(), to.ip()), IpProtocol::UDP);
        out.tally.relay_replies += u64::from(has_left);
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

fn end(address: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(address.into(), port)
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}
