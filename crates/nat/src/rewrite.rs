//! Rewriting in place: one end of a packet, and each checksum by what has changed (RFC 1624).

use crate::packet::{AddressAndPort, Parts};
use crate::session::Class;
use corelane_wire::packet::checksum::{Sum, replaced};
use std::net::Ipv4Addr;

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

/// What was there, and what is there now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    before: Sum,
    after: Sum,
}

impl Change {
    pub const NONE: Self = Self { before: Sum::ZERO, after: Sum::ZERO };

    /// This change and another.
    fn and(self, other: Self) -> Self {
        Self { before: self.before.plus(other.before), after: self.after.plus(other.after) }
    }
}

/// Sets 16 bits.
fn set(bytes: &mut [u8], at: usize, word: u16) -> Change {
    let field = &mut bytes[at..at + 2];
    let before = u16::from_be_bytes([field[0], field[1]]);
    field.copy_from_slice(&word.to_be_bytes());
    Change { before: Sum::ZERO.and_word(before), after: Sum::ZERO.and_word(word) }
}

/// Sets the address on one side of the header at `network_at`. Says what has changed, and how the header's checksum has, which follows.
pub(crate) fn set_address(bytes: &mut [u8], network_at: usize, side: Side, address: Ipv4Addr) -> (Change, Change) {
    let at = network_at + if side == Side::Source { 12 } else { 16 };
    let [a, b, c, d] = address.octets();
    let change = set(bytes, at, u16::from_be_bytes([a, b])).and(set(bytes, at + 2, u16::from_be_bytes([c, d])));
    (change, follow(bytes, network_at + 10, change))
}

/// A checksum follows what it covers. Says how it has changed itself.
fn follow(bytes: &mut [u8], at: usize, change: Change) -> Change {
    let checksum = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    set(bytes, at, replaced(checksum, change.before, change.after))
}

/// Sets one end of a packet, and its checksums. Says what has changed behind the network's header, and in that.
pub(crate) fn set_end(bytes: &mut [u8], parts: &Parts, side: Side, (address, port): AddressAndPort) -> Change {
    let (addresses, header) = set_address(bytes, parts.network_at.into(), side, address);
    let port_at = match (parts.class, side) {
        (Class::Echo, _) => 4,
        (_, Side::Source) => 0,
        (_, Side::Destination) => 2,
    };
    let ports = set(bytes, usize::from(parts.transport_at) + port_at, port);
    // ICMP has no pseudo header.
    let covered = if parts.class == Class::Echo { ports } else { ports.and(addresses) };
    let mut checksum = Change::NONE;
    if let Some(at) = parts.checksum_at.map(usize::from) {
        checksum = follow(bytes, at, covered);
        if parts.class == Class::Udp && bytes[at..at + 2] == [0, 0] {
            // 0 would say that there is none (RFC 768). For sums of what it is part of both are the same number.
            bytes[at..at + 2].fill(0xff);
        }
    }
    addresses.and(header).and(ports).and(checksum)
}

/// The checksum of an error follows what has changed in the packet that it quotes.
pub(crate) fn follow_quoted(bytes: &mut [u8], message_at: u16, change: Change) {
    follow(bytes, usize::from(message_at) + 2, change);
}
