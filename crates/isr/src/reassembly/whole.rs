//! A datagram that is complete: one header, and its pieces in order.

use super::fragment::DATAGRAM_BYTES_MAX;
use super::memory::Memory;
use super::pieces::Piece;
use super::waiting::Waiting;
use corelane_seam::Instant;
use corelane_wire::packet::checksum::Sum;
use corelane_wire::packet::{Ecn, EtherType, Network, Packet};

/// What is known of a datagram that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Pieces that were appended.
    pub pieces: usize,
    /// Bytes of its headers, in front of the first piece.
    pub header_bytes: usize,
    /// Bytes of its data, behind the headers in the first piece, and all of the others.
    pub data_bytes: usize,
    /// When the first of its fragments to arrive did: its place among the datagrams of its flow ([`Reorders`](super::Reorders)).
    pub arrived: Instant,
}

impl Datagram {
    /// Appends the pieces of a datagram of which nothing is missing. The first one's header becomes that of the whole: no fragment, its length,
    /// what it met of congestion, and its checksum. Of a datagram that would be too long, only its first piece is returned.
    pub(super) fn join<M: Memory>(
        waiting: &Waiting,
        pieces: impl Iterator<Item = Piece<M>>,
        into: &mut Vec<M>,
    ) -> Result<Self, M> {
        let (start, is_v6) = (into.len(), waiting.key.is_v6());
        let mut head = 0;
        for piece in pieces {
            head += piece.head;
            into.push(piece.memory);
        }
        assert!(into.len() == start + waiting.pieces && head > 0, "what is complete begins with a header");
        let whole = if is_v6 { head - 40 - 8 } else { head } + waiting.covered;
        if whole > DATAGRAM_BYTES_MAX {
            let first = into.drain(start..).next();
            let Some(first) = first else { unreachable!("what is complete has a piece") };
            return Err(first);
        }
        let first = &mut into[start];
        let header_bytes = if is_v6 {
            let announced = without_fragment_header(first);
            assert!(announced, "the first fragment has a fragment header");
            head - 8
        } else {
            head
        };
        mend(first.bytes_mut(), whole, waiting.ecn);
        Ok(Self { pieces: waiting.pieces, header_bytes, data_bytes: waiting.covered, arrived: waiting.arrived })
    }
}

/// Takes the fragment header of an IPv6 packet out: what is in front of it moves up. False if there is none.
fn without_fragment_header<M: Memory>(first: &mut M) -> bool {
    let place = match Packet::of_network(EtherType::IPV6, first.bytes()).map(|packet| packet.network) {
        Ok(Network::V6(_, chain)) => chain.fragment,
        _ => None,
    };
    let Some(place) = place else { return false };
    let at = 40 + place.at;
    let announced_at = place.announced_at.map_or(6, |at| 40 + at);
    let bytes = first.bytes_mut();
    bytes[announced_at] = place.header.next.0;
    bytes.copy_within(..at, 8);
    first.skip(8);
    true
}

/// Writes length and congestion into a header, and of IPv4 that it is no fragment, and the checksum.
fn mend(bytes: &mut [u8], length: usize, ecn: Ecn) {
    assert!(length <= DATAGRAM_BYTES_MAX, "a header can name the length");
    let length = (length as u16).to_be_bytes();
    if bytes[0] >> 4 == 6 {
        bytes[4..6].copy_from_slice(&length);
        bytes[1] = bytes[1] & !0x30 | (ecn as u8) << 4;
        return;
    }
    let header = usize::from(bytes[0] & 0xf) * 4;
    bytes[1] = bytes[1] & !3 | ecn as u8;
    bytes[2..4].copy_from_slice(&length);
    bytes[6..8].fill(0);
    bytes[10..12].fill(0);
    let checksum = Sum::of(&bytes[..header]).checksum();
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
}
