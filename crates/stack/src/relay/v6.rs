//! The relay of DHCP for IPv6 (RFC 8415, section 19).
//!
//! ```text
//! client --ff02::1:2, port 547--> Relay-forward { hops, our address, his address, the interface's name, his message } --> each server
//! server --our address, port 547--> Relay-reply { ours? --> his address, the message for him } --> client, or the relay that is nearer to him
//! ```
//!
//! Relays may stand in a row, up to [`HOPS_MAX`] of them, since what a nearer one says stands within what we say (section 19.1.2). A server knows a client's link by the
//! outermost relay that names one, which is ours where the message came from the link itself.

use super::sending::{Bounds, NAME_BYTES_MAX, begin, message, send_to_servers};
use crate::counts::Drop;
use crate::outward::Outward;
use crate::packet::{Ip, Packet};
use crate::routes::{Way, is_of_link};
use crate::settings::InterfaceSettings;
use corelane_wire::packet::IpProtocol;
use corelane_wire::packet::dhcpv6::{
    CLIENT_PORT, Choice, HOPS_MAX, Header, INTERFACE_ID, Kind, RELAY_MESSAGE, SERVER_PORT, View,
};
use corelane_wire::xdr::Writer;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes of what a relay adds at most: its fixed part, and two options.
const ADDED_BYTES_MAX: usize = Header::BYTES + 2 * Choice::HEAD + NAME_BYTES_MAX;
/// Bytes of the longest message that is relayed, as it comes: what fits into a packet of Ethernet, and what relays in a row add to it.
const BYTES_MAX: usize = 1452 + HOPS_MAX as usize * ADDED_BYTES_MAX;

/// What is set of one interface that relays.
#[derive(Debug)]
pub(super) struct Agent {
    interface: usize,
    own: Ipv6Addr,
    servers: Box<[Ipv6Addr]>,
    name: Box<[u8]>,
    bounds: Bounds,
}

impl Agent {
    /// For the servers of IPv6 that are named; none without an address of ours that is not of the link alone, or for a server that has no other.
    pub fn of(interface: usize, one: &InterfaceSettings, bounds: Bounds) -> Option<Self> {
        let own = one.networks.iter().filter_map(|network| v6(network.address)).find(|own| !own.is_unicast_link_local())?;
        let servers: Box<[_]> = one.relay.iter().filter_map(|server| v6(*server)).collect();
        let are_beyond = servers.iter().all(|server| !server.is_unicast_link_local());
        are_beyond.then(|| Self { interface, own, servers, name: one.name.as_bytes().into(), bounds })
    }

    /// Our address at its interface.
    pub const fn own(&self) -> Ipv6Addr {
        self.own
    }

    /// Relays the message that a packet carries. What is of no kind that there is yet goes on (RFC 7283, section 3).
    ///
    /// # Errors
    /// Why it goes no further.
    pub fn hear(&mut self, out: &mut Outward<'_>, packet: &Packet, ip: &Ip) -> Result<(), Drop> {
        let mut memory = [0; BYTES_MAX];
        let message = message(packet, ip, &mut memory).ok_or(Drop::Relay)?;
        let kind = Kind::of(message).map_err(|_| Drop::Malformed)?;
        let from = v6(ip.source).ok_or(Drop::Relay)?;
        match kind {
            Kind::RELAY_REPLY if !ip.destination.is_multicast() => self.answer(out, message, from, packet.interface),
            kind if kind.is_of_servers() || packet.interface != self.interface => Err(Drop::Relay),
            kind => self.ask(out, kind, message, from),
        }
    }

    /// Passes the message of a client, or of a relay that is nearer to him, on to each server (sections 19.1.1 and 19.1.2).
    fn ask(&mut self, out: &mut Outward<'_>, kind: Kind, message: &[u8], from: Ipv6Addr) -> Result<(), Drop> {
        let (hops, link) = match kind {
            Kind::RELAY_FORWARD => {
                let header = View::new(message).map_err(|_| Drop::Malformed)?.header();
                if header.hops >= HOPS_MAX {
                    return Err(Drop::Relay);
                }
                // By its own address a relay is known to the server as well.
                (header.hops + 1, if is_of_link(from.into()) { self.own } else { Ipv6Addr::UNSPECIFIED })
            }
            _ => (0, self.own),
        };
        if !self.bounds.requests.take(out.now, from) {
            return Err(Drop::RelayLimited);
        }
        let header = Header { kind: Kind::RELAY_FORWARD, hops, link, peer: from };
        let options = [Choice { code: INTERFACE_ID, data: &self.name }, Choice { code: RELAY_MESSAGE, data: message }];
        let mut memory = [0; BYTES_MAX + ADDED_BYTES_MAX];
        let mut writer = Writer::new(&mut memory);
        let written = header.emit(options, &mut writer);
        assert!(written.is_ok(), "there is room for what a relay adds: {written:?}");
        let servers = self.servers.iter().map(|server| end(*server, SERVER_PORT));
        send_to_servers(out, end(self.own, SERVER_PORT), servers, writer.written());
        Ok(())
    }

    /// Passes what a server's answer carries on to whom it is for (section 19.2).
    fn answer(&mut self, out: &mut Outward<'_>, message: &[u8], from: Ipv6Addr, came_by: usize) -> Result<(), Drop> {
        let view = View::new(message).map_err(|_| Drop::Malformed)?;
        let header = view.header();
        let is_ours = header.link == self.own || header.link.is_unspecified();
        let is_named = view.option(INTERFACE_ID).is_none_or(|name| *name == *self.name);
        if !(self.servers.contains(&from) && is_ours && is_named) {
            return Err(Drop::Relay);
        }
        // Who speaks for a server from the clients' link is none.
        if !out.routes.is_expected(from.into(), came_by, true) {
            return Err(Drop::ReversePath);
        }
        let within = view.option(RELAY_MESSAGE).ok_or(Drop::Malformed)?;
        let port = match Kind::of(within).map_err(|_| Drop::Malformed)? {
            Kind::RELAY_REPLY => SERVER_PORT,
            kind if kind.is_of_clients() => return Err(Drop::Relay),
            _ => CLIENT_PORT,
        };
        let way = self.way_to(out, header.peer).ok_or(Drop::Relay)?;
        if !self.bounds.replies.take(out.now) {
            return Err(Drop::RelayLimited);
        }
        let (source, peer) = (SocketAddr::new(way.source, SERVER_PORT), end(header.peer, port));
        let has_left = begin(out, way.interface, source, peer, within)
            && out.send_draft((way.interface, way.hop), source.ip(), peer.ip(), IpProtocol::UDP);
        out.tally.relay_replies += u64::from(has_left);
        Ok(())
    }

    /// The way to a client, or to a relay that is nearer to him: by our interface, or there is none.
    fn way_to(&self, out: &Outward<'_>, peer: Ipv6Addr) -> Option<Way> {
        let is_somebody = !(peer.is_unspecified() || peer.is_multicast() || peer.is_loopback() || out.routes.is_own(peer.into()));
        let way = match is_of_link(peer.into()) {
            true => out.routes.beside(self.interface, peer.into()),
            false => out.routes.way(peer.into()),
        };
        way.filter(|way| is_somebody && way.interface == self.interface)
    }
}

fn end(address: Ipv6Addr, port: u16) -> SocketAddr {
    SocketAddr::new(address.into(), port)
}

fn v6(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    }
}
