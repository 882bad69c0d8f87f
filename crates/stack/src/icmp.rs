//! ICMP (RFC 792, RFC 1122 section 3.2.2) and ICMP for IPv6 (RFC 4443): echoes are answered, errors are heard, and sent ([`errors`]), all within limits.
//!
//! A router is believed of what was sent, as far as that can be known (RFC 8201, section 5.2; RFC 5927, section 7.2): the packet that it quotes is longer than what it says fits,
//! has left from an address of ours, and is a datagram of a socket that is there, to a port that can be, or an answer to an echo of somebody who was sent a long one of
//! late. One router narrows half of the ways that may be narrow, at the most. So nobody who does not know a socket cuts the packets of others.

pub(crate) mod errors;
pub(crate) mod options;
mod quoted;

use crate::counts::Drop;
use crate::discovery;
use crate::fault;
use crate::outward::{Outward, Speaker};
use crate::packet::{HEADER_BYTES_V6, Ip, Packet};
use crate::reports;
use crate::routes::WayNews;
use crate::sockets::Sockets;
use corelane_wire::packet::checksum::Sum;
use corelane_wire::packet::{EtherType, IpProtocol, ethernet, icmp, icmpv6, ipv4};
use quoted::{Quoted, quoted};
use std::net::IpAddr;

/// Bytes of a header of IPv4 without options.
const HEADER_BYTES_V4: usize = ipv4::Header::BYTES;
/// Bytes of the longest packet that each link carries (RFC 8200, section 5), and of one that each host takes (RFC 791, section 3.1).
const V6_LEAST: usize = 1280;
const V4_LEAST: usize = 576;

/// A message of ICMP.
pub(crate) fn icmp(out: &mut Outward<'_>, sockets: &mut Sockets, packet: &Packet, ip: &Ip) {
    let Some(first) = checked(out, packet, ip, Sum::ZERO) else { return };
    match icmp::View::new(first).and_then(|view| view.message()) {
        Ok(icmp::Message::EchoRequest(_)) => echo(out, packet, ip, 0),
        Ok(icmp::Message::Unreachable { code, packet }) => refused(out, sockets, EtherType::IPV4, packet, code.number() == 3),
        Ok(icmp::Message::TooBig { most, packet }) => {
            too_big(out, sockets, ip.source, (EtherType::IPV4, packet), most.into());
        }
        Ok(_) => {}
        Err(_) => out.tally.drop(Drop::Malformed),
    }
}

/// A message of ICMP for IPv6.
pub(crate) fn icmpv6(out: &mut Outward<'_>, sockets: &mut Sockets, packet: &Packet, ip: &Ip) {
    let pseudo = ip.addresses().pseudo(IpProtocol::ICMPV6, ip.length).unwrap_or_default();
    let Some(first) = checked(out, packet, ip, pseudo) else { return };
    if reports::hear_query(out, packet, ip, first) {
        return;
    }
    // Neighbours have passed no router (RFC 4861, section 7.1) and no tunnel, and say what they say in one piece (RFC 6980, section 5).
    let is_of_link = packet.first.get(7) == Some(&255) && ip.tunnels == 0 && !ip.was_cut;
    match icmpv6::View::new(first).and_then(|view| view.message()) {
        Ok(icmpv6::Message::EchoRequest(_)) => echo_from_own(out, packet, ip),
        Ok(icmpv6::Message::Neighbour(message)) if is_of_link => discovery::neighbour(out, packet.interface, &message, ip),
        Ok(icmpv6::Message::Neighbour(_)) => out.tally.drop(Drop::NotOurs),
        Ok(icmpv6::Message::Unreachable { code, packet }) => {
            refused(out, sockets, EtherType::IPV6, packet, code.number() == 4);
        }
        Ok(icmpv6::Message::TooBig { most, packet }) => {
            too_big(out, sockets, ip.source, (EtherType::IPV6, packet), most as usize);
        }
        Ok(_) => {}
        Err(_) => out.tally.drop(Drop::Malformed),
    }
}

/// The first piece of a message whose checksum is right.
fn checked<'a>(out: &mut Outward<'_>, packet: &'a Packet, ip: &Ip, pseudo: Sum) -> Option<&'a [u8]> {
    if !ip.is_good && !packet.transport(ip).fold(pseudo, Sum::and).is_right() {
        out.tally.drop(Drop::Checksum);
        return None;
    }
    packet.transport(ip).next()
}

/// Answers an echo request of IPv6 from the address that was asked, or of all stations, from that which the way back leaves by (RFC 4443, section 4.2).
fn echo_from_own(out: &mut Outward<'_>, packet: &Packet, ip: &Ip) {
    let destination = match out.routes.is_own(ip.destination) {
        true => Some(ip.destination),
        false => out.way_back(ip.source).map(|way| way.source),
    };
    destination.into_iter().for_each(|destination| echo(out, packet, &Ip { destination, ..*ip }, 129));
}

/// Answers an echo request with a message of that type.
fn echo(out: &mut Outward<'_>, packet: &Packet, ip: &Ip, kind: u8) {
    if !out.bounds.echoes.take(out.now, ip.source) {
        out.tally.errors_limited += 1;
        return;
    }
    if !out.begin_answer(ip, ip.length) {
        return;
    }
    out.draft().put(&[kind, 0, 0, 0]);
    let mut skip = 4;
    for piece in packet.transport(ip) {
        let some = piece.len().min(skip);
        skip -= some;
        out.draft().put(&piece[some..]);
    }
    if out.answer(ip, ip.protocol, true, Speaker::Stack) {
        out.tally.echoes += 1;
        note_echo(out, ip.source, ip.length + if ip.source.is_ipv4() { HEADER_BYTES_V4 } else { HEADER_BYTES_V6 });
    }
}

/// Notes an echo's answer of so many bytes, with the network's header: of a short one no router says that it is too big.
fn note_echo(out: &mut Outward<'_>, to: IpAddr, bytes: usize) {
    if bytes > if to.is_ipv4() { V4_LEAST } else { V6_LEAST } {
        out.routes.narrow_mut().note_echo(to);
    }
}

/// A router says that a packet is too big, of which `bytes` fit; 0 where it does not know how many.
fn too_big(out: &mut Outward<'_>, sockets: &Sockets, router: IpAddr, (protocol, packet): (EtherType, &[u8]), bytes: usize) {
    let Some(Quoted { local, peer, length, is_echo }) = quoted(protocol, packet) else { return };
    let least = if local.is_ipv4() { V4_LEAST } else { V6_LEAST };
    // Of IPv6 what is below the least is no word at all (RFC 8201, section 4); of IPv4 every host takes the least.
    let most = if local.is_ipv4() { bytes.max(least) } else { bytes };
    let Some(way) = out.routes.way(peer.ip()) else { return };
    let fits = most + ethernet::Header::BYTES < out.interfaces[way.interface].packet_bytes();
    if most < least || length <= most || !fits || !out.routes.is_own(local.ip()) {
        return;
    }
    let told = WayNews { router, local, peer, is_echo, most };
    learn_way(out, sockets, told);
    // The socket may be another lane's: a card brings what has no flow to one of them.
    if out.is_shared && out.bounds.words.take(out.now) {
        out.words.told.push(told);
    }
}

/// Takes a router's word of what a socket here has sent, or of an echo's answer that went from here.
pub(crate) fn learn_way(out: &mut Outward<'_>, sockets: &Sockets, told: WayNews) {
    let WayNews { router, local, peer, is_echo, most } = told;
    let was_sent = match is_echo {
        true => out.routes.narrow().has_echoed(peer.ip()),
        false => peer.port() != 0 && sockets.find(local, peer).is_some(),
    };
    if was_sent {
        out.tally.ways_narrowed += 1;
        out.routes.narrow_mut().learn(out.now, peer.ip(), most, router);
    }
}

/// Somebody says that what was sent did not arrive; the socket that it came from hears so.
fn refused(out: &mut Outward<'_>, sockets: &mut Sockets, protocol: EtherType, packet: &[u8], is_port: bool) {
    let Some(Quoted { local, peer, is_echo: false, .. }) = quoted(protocol, packet) else { return };
    if out.routes.is_own(local.ip()) {
        sockets.tell(local, peer, if is_port { fault::REFUSED } else { fault::UNREACHABLE });
    }
}
