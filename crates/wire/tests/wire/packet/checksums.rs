//! The checksum against its definition, in pieces, in part, and after changes.

use crate::hostile::Random;
use corelane_wire::Error;
use corelane_wire::packet::IpProtocol;
use corelane_wire::packet::checksum::{Addresses, Sum, complete, replaced};
use corelane_wire::packet::udp;
use std::net::{Ipv4Addr, Ipv6Addr};

/// As RFC 1071, section 4.1 has it: word by word.
fn plain(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u64 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn random_bytes(random: &mut Random, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.next() as u8).collect()
}

#[test]
fn the_example_of_rfc_1071() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!((Sum::of(&bytes).partial(), Sum::of(&bytes).checksum()), (0xddf2, 0x220d));
}

#[test]
fn the_example_of_rfc_1624() {
    let [before, after] = [0x5555_u16, 0x3285].map(|word| Sum::of(&word.to_be_bytes()));
    assert_eq!(replaced(0xdd2f, before, after), 0);
}

#[test]
fn each_length_at_each_place_is_as_word_by_word() {
    let mut random = Random::new(3);
    let bytes = random_bytes(&mut random, 700);
    for length in 0..600 {
        for start in 0..9 {
            let bytes = &bytes[start..start + length];
            assert_eq!(Sum::of(bytes).partial(), plain(bytes), "{length} bytes from {start} on");
        }
    }
    let ones = vec![0xff; 65_535];
    assert_eq!(Sum::of(&ones).partial(), plain(&ones));
    assert_eq!((Sum::of(&[0; 64]).partial(), Sum::of(&[0xff; 64]).partial()), (0, 0xffff));
}

#[test]
fn pieces_sum_as_the_whole() {
    let mut random = Random::new(4);
    for _ in 0..2_000 {
        let length = random.below(300);
        let bytes = random_bytes(&mut random, length);
        let (mut sum, mut rest) = (Sum::ZERO, &bytes[..]);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(1 + random.below(rest.len()));
            (sum, rest) = (sum.and(piece), behind);
        }
        assert_eq!(sum.partial(), plain(&bytes));
    }
}

#[test]
fn a_change_gives_the_checksum_of_what_was_changed() {
    let mut random = Random::new(5);
    for _ in 0..20_000 {
        let mut bytes = random_bytes(&mut random, 40);
        let before = Sum::of(&bytes).checksum();
        let at = 2 * random.below(16);
        let length = 2 + 2 * random.below(3);
        let new = random_bytes(&mut random, length);
        let old = bytes[at..at + new.len()].to_vec();
        bytes[at..at + new.len()].copy_from_slice(&new);
        let changed = replaced(before, Sum::of(&old), Sum::of(&new));
        assert_eq!(changed, Sum::of(&bytes).checksum(), "{old:?} became {new:?}");
    }
}

#[test]
fn a_partial_sum_is_completed_to_the_whole() {
    let mut random = Random::new(6);
    let v4 = Addresses::V4 { source: Ipv4Addr::new(192, 0, 2, 1), destination: Ipv4Addr::BROADCAST };
    let v6 = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };
    for round in 0..200 {
        let addresses = if round % 2 == 0 { v4 } else { v6 };
        let data = random_bytes(&mut random, round);
        let header = udp::Header { source: random.next() as u16, destination: 9 };
        let whole = super::build::in_front(&data, |to| header.emit(&addresses, &data, to));
        let mut partial = super::build::in_front(&data, |to| header.emit_partial(&addresses, data.len(), to));
        assert_ne!(partial, whole);
        // In a frame, behind other headers.
        partial.splice(0..0, [0xee; 34]);
        complete(&mut partial, 34, 6).unwrap();
        assert_eq!(partial[34..], whole);
    }
}

#[test]
fn a_place_outside_of_the_frame_is_refused() {
    let mut bytes = [1; 20];
    for (start, offset) in [(20, 0), (21, 0), (14, 5), (usize::MAX, 6), (6, usize::MAX), (usize::MAX, usize::MAX)] {
        assert!(matches!(complete(&mut bytes, start, offset), Err(Error::Truncated { got: 20, .. })), "{start} + {offset}");
    }
    assert_eq!(bytes, [1; 20]);
    assert_eq!(complete(&mut bytes, 14, 4), Ok(()));
}

#[test]
fn pseudo_headers_are_as_their_rfcs_have_them() {
    let v4 = Addresses::V4 { source: Ipv4Addr::new(1, 2, 3, 4), destination: Ipv4Addr::new(5, 6, 7, 8) };
    let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 0, 17, 0x12, 0x34];
    assert_eq!(v4.pseudo(IpProtocol::UDP, 0x1234).unwrap().partial(), plain(&bytes));
    let (source, destination) = (Ipv6Addr::from([7; 16]), Ipv6Addr::from([9; 16]));
    let v6 = Addresses::V6 { source, destination };
    let bytes = [&[7; 16][..], &[9; 16], &[0, 0, 0x12, 0x34], &[0, 0, 0, 6]].concat();
    assert_eq!(v6.pseudo(IpProtocol::TCP, 0x1234).unwrap().partial(), plain(&bytes));
    assert!(v4.pseudo(IpProtocol::UDP, 65_536).is_err());
}

#[test]
fn no_datagram_is_sent_without_checksum() {
    // Whose sum is 0xffff, so that the checksum would be 0.
    let addresses = Addresses::V4 { source: Ipv4Addr::UNSPECIFIED, destination: Ipv4Addr::UNSPECIFIED };
    let header = udp::Header { source: 0xffff - 17 - 16, destination: 0 };
    let bytes = super::build::in_front(&[], |to| header.emit(&addresses, &[], to));
    assert_eq!(bytes[6..], [0xff, 0xff]);
    assert!(udp::View::new(&bytes).unwrap().is_checksum_right(&addresses));
}
