//! What a router changes in a packet: one hop less, a checksum that the sender left to a card, and the longest segment that its connection may ask for.

use crate::packet::{Ip, Packet};
use corelane_seam::Checksum;
use corelane_wire::packet::IpProtocol;
use corelane_wire::packet::checksum::{Sum, replaced};

/// Where the hops stand in the headers of IPv4 and IPv6; and the checksum of the first.
const V4_HOPS: usize = 8;
const V4_CHECKSUM: usize = 10;
const V6_HOPS: usize = 7;
/// Where transports have their checksum.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
/// Where TCP says how long its header is, and its flags; one of these; and the option with the longest segment (RFC 9293, section 3.2).
const TCP_LENGTH: usize = 12;
const TCP_FLAGS: usize = 13;
const TCP_BYTES: usize = 20;
const SYN: u8 = 2;
const OPTION_MSS: u8 = 2;
const OPTION_END: u8 = 0;
const OPTION_FILL: u8 = 1;

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Routers that a packet may still pass.
pub(super) fn hops(packet: &Packet, ip: &Ip) -> u8 {
    let at = if ip.source.is_ipv4() { V4_HOPS } else { V6_HOPS };
    packet.first.get(at).copied().unwrap_or(0)
}

/// Takes a hop from a packet that has more than one; of IPv4 its checksum is changed by as much (RFC 1624).
pub(super) fn take_hop(packet: &mut Packet, ip: &Ip) {
    let first = &mut packet.first;
    if ip.source.is_ipv6() {
        first[V6_HOPS] -= 1;
        return;
    }
    let at = |first: &[u8], at| word(first, at).unwrap_or_default();
    let before = Sum::ZERO.and_word(at(first, V4_HOPS));
    first[V4_HOPS] -= 1;
    let checksum = replaced(at(first, V4_CHECKSUM), before, Sum::ZERO.and_word(at(first, V4_HOPS)));
    first[V4_CHECKSUM..V4_CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Computes a checksum that the sender left to a card, as the source of the frame says, or, where senders may leave it and nobody says so, its value. False if what it
/// says cannot be.
pub(super) fn finish_sum(packet: &mut Packet, ip: &Ip, may_be_left: bool) -> bool {
    let at = match packet.first.facts.checksum {
        Checksum::Good => return true,
        Checksum::Partial { offset, .. } => usize::from(offset),
        Checksum::Unknown => {
            let at = match ip.protocol {
                IpProtocol::TCP => TCP_CHECKSUM,
                IpProtocol::UDP => UDP_CHECKSUM,
                _ => return true,
            };
            if !may_be_left || ip.was_cut || !is_left(packet, ip, at) {
                return true;
            }
            at
        }
    };
    let sum = packet.transport(ip).fold(Sum::ZERO, Sum::and);
    let place = ip.head + at;
    let Some(field) = packet.first.get_mut(place..place + 2) else { return false };
    field.copy_from_slice(&sum.checksum_of_udp().to_be_bytes());
    packet.first.facts.checksum = Checksum::Good;
    true
}

/// Whether the sum of the pseudo-header stands in the place of a checksum.
fn is_left(packet: &Packet, ip: &Ip, at: usize) -> bool {
    let stands = packet.transport(ip).next().and_then(|first| word(first, at));
    let pseudo = ip.addresses().pseudo(ip.protocol, ip.length);
    stands.is_some_and(|stands| pseudo.is_ok_and(|pseudo| pseudo.partial() == stands))
}

/// Lowers the longest segment that a connection is opened with, if it is more than `most` bytes.
pub(super) fn clamp_mss(packet: &mut Packet, ip: &Ip, most: u16) {
    let length = ip.length.min(packet.first.len().saturating_sub(ip.head));
    let Some(segment) = packet.first.get_mut(ip.head..ip.head + length) else { return };
    if segment.len() < TCP_BYTES || segment[TCP_FLAGS] & SYN == 0 {
        return;
    }
    let end = usize::from(segment[TCP_LENGTH] >> 4) * 4;
    let Some(at) = mss_at(segment.get(TCP_BYTES..end).unwrap_or_default()) else { return };
    let at = TCP_BYTES + at;
    if word(segment, at).is_none_or(|stands| stands <= most) {
        return;
    }
    // It may stand across two words of the sum.
    let (from, to) = (at & !1, (at + 3) & !1);
    let before = Sum::of(&segment[from..to]);
    segment[at..at + 2].copy_from_slice(&most.to_be_bytes());
    let checksum = replaced(word(segment, TCP_CHECKSUM).unwrap_or_default(), before, Sum::of(&segment[from..to]));
    segment[TCP_CHECKSUM..TCP_CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Where the longest segment stands among the options of TCP.
fn mss_at(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match (options.get(at)?, options.get(at + 1)) {
            (&OPTION_END, _) => return None,
            (&OPTION_FILL, _) => at += 1,
            (&OPTION_MSS, Some(4)) if at + 4 <= options.len() => return Some(at + 2),
            (_, Some(length @ 2..=255)) => at += usize::from(*length),
            _ => return None,
        }
    }
}
