//! The parts of a packet that a translation needs, read once. Every length is checked here, so that rewriting cannot fail.

use crate::session::{Class, Flags};
use corelane_wire::packet::ipv4::Offset;
use corelane_wire::packet::{IpProtocol, ipv4};
use std::net::Ipv4Addr;

/// Bytes of the least header of TCP, and of UDP and ICMP.
const TCP_BYTES: usize = 20;
const SHORT_BYTES: usize = 8;

/// Where a header of IPv4 says who its packet is for.
const DESTINATION_AT: usize = 16;

/// Types of ICMP (RFC 792).
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;

/// An address and a port, or an identifier in its place.
pub(crate) type AddressAndPort = (Ipv4Addr, u16);

/// Why a packet is not translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// A length contradicts itself, or a header is cut short.
    Malformed,
    /// It is a part of a datagram.
    Fragment,
    /// It has no ports, and nothing in their place.
    Protocol,
}

/// Where a transport's fields lie in the bytes, and what is in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub class: Class,
    pub source: AddressAndPort,
    pub destination: AddressAndPort,
    pub flags: Flags,
    /// Where the network's header begins.
    pub network_at: u16,
    /// Where the transport's header begins.
    pub transport_at: u16,
    /// Where its checksum is; none if it has none, or that was cut off.
    pub checksum_at: Option<u16>,
    /// Whether it is an echo's answer, whose identifier is the destination's.
    pub is_reply: bool,
}

/// A packet that can be translated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packet {
    /// Of a flow.
    Flow(Parts),
    /// An error about a packet of a flow: who gets it, where its own message begins, and the packet.
    Error { destination: Ipv4Addr, message_at: u16, inner: Parts },
}

impl Packet {
    /// Reads the packet at the front of `bytes`, of which up to `missing` bytes more lie elsewhere.
    #[inline]
    pub fn read(bytes: &[u8], missing: usize) -> Result<Self, Unfit> {
        let view = ipv4::View::of_front(bytes, missing).map_err(|_| Unfit::Malformed)?;
        if view.fragment().is_part() {
            return Err(Unfit::Fragment);
        }
        let is_error =
            view.protocol() == IpProtocol::ICMP && view.payload().first().is_some_and(|kind| matches!(kind, 3 | 4 | 11 | 12));
        if !is_error {
            return parts(&view, 0, false).map(Self::Flow);
        }
        let (_, destination) = ends(&view);
        let message_at = view.header_bytes() as u16;
        let inner_at = message_at + SHORT_BYTES as u16;
        let inner = view.payload().get(SHORT_BYTES..).ok_or(Unfit::Malformed)?;
        // Of the packet in question only the beginning is there.
        let inner = ipv4::View::of_front(inner, usize::from(u16::MAX)).map_err(|_| Unfit::Malformed)?;
        if inner.fragment().offset != Offset::START {
            return Err(Unfit::Fragment);
        }
        Ok(Self::Error { destination, message_at, inner: parts(&inner, inner_at, true)? })
    }
}

/// Who the packet at the front of `bytes` is for, whatever else it is; none if it has no such header.
pub(crate) fn destination(bytes: &[u8]) -> Option<Ipv4Addr> {
    let is_v4 = bytes.first().is_some_and(|first| first >> 4 == 4);
    bytes.get(DESTINATION_AT..)?.first_chunk::<4>().copied().map(Ipv4Addr::from).filter(|_| is_v4)
}

fn ends(view: &ipv4::View<'_>) -> (Ipv4Addr, Ipv4Addr) {
    let field = |at: usize| view.bytes().get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>()).copied().unwrap_or_default();
    (Ipv4Addr::from(field(12)), Ipv4Addr::from(field(16)))
}

/// The parts of the packet that begins at `at` of all bytes. Of a quoted one, the first eight bytes of its transport are enough.
#[inline]
fn parts(view: &ipv4::View<'_>, at: u16, is_quoted: bool) -> Result<Parts, Unfit> {
    let carried = view.payload();
    let (class, needed, checksum) = match view.protocol() {
        IpProtocol::TCP => (Class::Tcp, TCP_BYTES, 16_u16),
        IpProtocol::UDP => (Class::Udp, SHORT_BYTES, 6),
        IpProtocol::ICMP => (Class::Echo, SHORT_BYTES, 2),
        _ => return Err(Unfit::Protocol),
    };
    let needed = if is_quoted { SHORT_BYTES } else { needed };
    let head = carried.get(..needed).and_then(|head| head.first_chunk::<SHORT_BYTES>()).ok_or(Unfit::Malformed)?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let is_reply = class == Class::Echo && head[0] == ECHO_REPLY;
    let ports = match (class, head[0]) {
        (Class::Echo, ECHO_REQUEST) => (word(4), 0),
        (Class::Echo, ECHO_REPLY) => (0, word(4)),
        (Class::Echo, _) => return Err(Unfit::Protocol),
        _ => (word(0), word(2)),
    };
    // Of headers of 60 bytes, all of this is near the beginning.
    let transport_at = at + view.header_bytes() as u16;
    let has_checksum = carried.len() >= usize::from(checksum) + 2 && (class != Class::Udp || word(6) != 0);
    let (source, destination) = ends(view);
    Ok(Parts {
        class,
        source: (source, ports.0),
        destination: (destination, ports.1),
        flags: Flags(carried.get(13).copied().filter(|_| class == Class::Tcp).unwrap_or(0)),
        network_at: at,
        transport_at,
        checksum_at: has_checksum.then_some(transport_at + checksum),
        is_reply,
    })
}
