//! The packet that an error of ICMP quotes, as far as it is one of ours.

use crate::packet::HEADER_BYTES_V6;
use corelane_wire::packet::{EtherType, IpProtocol, fragment};
use std::net::{IpAddr, SocketAddr};

/// The types of answers to echoes (RFC 792; RFC 4443, section 4.2).
const ECHO_REPLY: u8 = 0;
const ECHO_REPLY_V6: u8 = 129;
/// The bits of IPv4's field that say where a fragment begins.
const OFFSET: u16 = 0x1fff;

/// A packet that was sent. It may be cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    /// From whom and to whom; without ports for an answer to an echo.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// Bytes of the packet, as its header says.
    pub length: usize,
    pub is_echo: bool,
}

/// Reads a packet of UDP, or an answer to an echo; none for others, and for a fragment without the header of its transport.
pub(crate) fn quoted(protocol: EtherType, packet: &[u8]) -> Option<Quoted> {
    let word = |at: usize| packet.get(at..at + 2).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])));
    let (source, destination, head, length, inner): (IpAddr, IpAddr, usize, usize, u8) = if protocol == EtherType::IPV4 {
        let head = packet.first_chunk::<20>().filter(|head| head[0] >> 4 == 4)?;
        let at = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        if word(6)? & usize::from(OFFSET) != 0 {
            return None;
        }
        (at(12).into(), at(16).into(), usize::from(head[0] & 0xf) * 4, word(2)?, head[9])
    } else {
        let source = <[u8; 16]>::try_from(packet.get(8..24)?).ok()?;
        let destination = <[u8; 16]>::try_from(packet.get(24..40)?).ok()?;
        let (head, inner) = behind_fragment(packet)?;
        (source.into(), destination.into(), head, HEADER_BYTES_V6 + word(4)?, inner)
    };
    let first = *packet.get(head)?;
    let is_echo = match IpProtocol(inner) {
        IpProtocol::UDP => false,
        IpProtocol::ICMP if first == ECHO_REPLY && source.is_ipv4() => true,
        IpProtocol::ICMPV6 if first == ECHO_REPLY_V6 && source.is_ipv6() => true,
        _ => return None,
    };
    let ports = if is_echo { (0, 0) } else { (word(head)?, word(head + 2)?) };
    let (local, peer) = (SocketAddr::new(source, ports.0 as u16), SocketAddr::new(destination, ports.1 as u16));
    Some(Quoted { local, peer, length, is_echo })
}

/// Where the transport's header begins in a packet of IPv6 that we may have sent, and which: the first fragment has its header in front.
fn behind_fragment(packet: &[u8]) -> Option<(usize, u8)> {
    match IpProtocol(*packet.get(6)?) {
        IpProtocol::FRAGMENT => {
            let view = fragment::View::new(packet.get(HEADER_BYTES_V6..)?).ok()?;
            let is_first = view.header().offset.bytes() == 0;
            is_first.then_some((HEADER_BYTES_V6 + fragment::Header::BYTES, view.header().next.0))
        }
        protocol => Some((HEADER_BYTES_V6, protocol.0)),
    }
}
