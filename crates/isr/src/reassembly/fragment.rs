//! A packet as a fragment of its datagram.

use super::counts::Reason;
use super::memory::Memory;
use corelane_wire::packet::extension::Chain;
use corelane_wire::packet::{Ecn, EtherType, FragmentFacts, IpProtocol, Network, Packet, UpperLayer};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of the longest datagram: of IPv4 with its header, of IPv6 without.
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Which datagram a fragment is of: names are a sender's, and who sends at another link in his name is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub link: u16,
    name: Name,
}

/// What the headers of all fragments of a datagram have in common, and those of no other of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    V4 { source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, identification: u16 },
    V6 { source: Ipv6Addr, destination: Ipv6Addr, identification: u32 },
}

impl Key {
    /// Whose fragments these are, as far as one can be told from others: an address of IPv4, a network of 64 bits of IPv6, at a link.
    pub fn source(&self) -> (u16, u64) {
        let source = match self.name {
            Name::V4 { source, .. } => u64::from(source.to_bits()),
            Name::V6 { source, .. } => (source.to_bits() >> 64) as u64,
        };
        (self.link, source)
    }

    pub fn is_v6(&self) -> bool {
        matches!(self.name, Name::V6 { .. })
    }
}

/// A fragment: its lengths are legal, whatever others of the datagram say.
#[derive(Debug)]
pub(super) struct Fragment<M> {
    pub key: Key,
    /// Where its data begin and end in the datagram's.
    pub start: usize,
    pub end: usize,
    pub more: bool,
    pub ecn: Ecn,
    /// The packet, from its IP header on and without padding.
    pub memory: M,
    /// Bytes in front of its data.
    pub head: usize,
}

/// Why a packet is no fragment to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotOne {
    Whole,
    Refused(Reason),
}

/// What is read out of a packet.
struct Fields {
    name: Name,
    ecn: Ecn,
    fragment: FragmentFacts,
    head: usize,
    /// Bytes of the packet, without padding.
    length: usize,
}

impl<M: Memory> Fragment<M> {
    /// Reads the packet, which has come by that link.
    pub fn read(link: u16, mut memory: M) -> Result<Self, (M, NotOne)> {
        match Fields::read(memory.bytes()) {
            Ok(Fields { name, ecn, fragment: FragmentFacts { offset, length, more, .. }, head, length: whole }) => {
                let key = Key { link, name };
                memory.truncate(whole);
                assert!(head + length == whole && length > 0, "a fragment is its headers and its data");
                Ok(Self { key, start: offset, end: offset + length, more, ecn, memory, head })
            }
            Err(not_one) => Err((memory, not_one)),
        }
    }
}

impl Fields {
    fn read(bytes: &[u8]) -> Result<Self, NotOne> {
        let protocol = if bytes.first().is_some_and(|first| first >> 4 == 6) { EtherType::IPV6 } else { EtherType::IPV4 };
        let packet = Packet::of_network(protocol, bytes).map_err(|_| NotOne::Refused(Reason::Header))?;
        let fragment = packet.fragment().ok_or(NotOne::Whole)?;
        let (name, ecn, length) = match packet.network {
            Network::V4(view) => {
                let header = view.header().map_err(|_| NotOne::Refused(Reason::Header))?;
                let (source, destination, identification) = (header.source, header.destination, header.identification);
                let name = Name::V4 { source, destination, protocol: header.protocol.0, identification };
                (name, header.traffic.ecn(), view.bytes().len())
            }
            Network::V6(view, _) => {
                let header = view.header();
                let (source, destination, identification) = (header.source, header.destination, fragment.identification);
                (Name::V6 { source, destination, identification }, header.traffic.ecn(), view.bytes().len())
            }
            Network::Arp(_) | Network::Other(..) => return Err(NotOne::Whole),
        };
        let facts = Self { name, ecn, fragment, head: packet.transport_at, length };
        unfit(&packet, 0).map_or(Ok(facts), |reason| Err(NotOne::Refused(reason)))
    }
}

/// Why a fragment can be part of no datagram, wherever that is put together: so a router need not pass it on. None also for what is no fragment. Of its data, `missing` bytes lie
/// behind those that were walked.
#[must_use]
pub fn unfit(packet: &Packet<'_>, missing: usize) -> Option<Reason> {
    let FragmentFacts { offset, length, more, .. } = packet.fragment()?;
    let (length, head) = (length + missing, packet.transport_at - packet.network_at);
    // The header that the whole will have; of IPv6, the fragment header goes.
    let header = if matches!(packet.network, Network::V6(..)) { head.saturating_sub(40 + 8) } else { head };
    if length == 0 || more && !length.is_multiple_of(8) {
        Some(Reason::TooSmall)
    } else if header + offset + length > DATAGRAM_BYTES_MAX {
        Some(Reason::TooLong)
    } else if is_headless(packet, offset) {
        Some(Reason::Headless)
    } else {
        None
    }
}

/// Whether the transport's header would be spread over fragments.
fn is_headless(packet: &Packet<'_>, offset: usize) -> bool {
    let UpperLayer::Part(protocol, data) = packet.transport else { return false };
    if offset > 0 {
        return protocol == IpProtocol::TCP && protocol.header_with_ports().is_some_and(|least| offset < least);
    }
    let (protocol, length) = match packet.network {
        Network::V6(..) => match Chain::walk(protocol, data) {
            Ok(chain) => (chain.protocol, chain.payload.len()),
            Err(_) => return true,
        },
        _ => (protocol, data.len()),
    };
    protocol.header_with_ports().is_some_and(|least| length < least)
}
