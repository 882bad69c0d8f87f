//! Which keys are taken, and what a symmetric one does.

use corelane_rss::{Error, FlowHasher, HashTypes, Key, Protocol, Tuple};
use proptest::prelude::*;

use crate::common::words;

fn refusal(bytes: &[u8]) -> Error {
    Key::new(bytes).unwrap_err()
}

/// Good bytes, which tests then spoil.
fn good() -> [u8; 40] {
    Key::MICROSOFT.bytes().try_into().unwrap()
}

#[test]
fn the_known_keys_are_good() {
    for key in [Key::MICROSOFT, Key::SYMMETRIC] {
        assert_eq!(Key::new(key.bytes()), Ok(key));
    }
    assert_eq!(Key::default(), Key::MICROSOFT);
}

#[test]
fn a_key_has_one_of_two_lengths() {
    for length in (0..100).filter(|length| ![40, 52].contains(length)) {
        let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
        assert_eq!(refusal(&bytes), Error::KeyLength { got: length });
        assert_eq!(Key::random(length, words(1)), Err(Error::KeyLength { got: length }));
    }
}

#[test]
fn degenerate_keys_are_refused_by_name() {
    assert_eq!(refusal(&[0; 40]), Error::KeyConstant);
    assert_eq!(refusal(&[0xff; 52]), Error::KeyConstant);
    assert_eq!(refusal(&[0x6d; 40]), Error::KeyFewWindows { got: 8, least: 16 });
    assert_eq!(refusal(&[0x55; 40]), Error::KeyFewWindows { got: 2, least: 16 });

    let mut hole = good();
    hole[20..24].fill(0);
    assert_eq!(refusal(&hole), Error::KeyZeroWindow { bit: 160 });
}

#[test]
fn a_key_that_leaves_a_field_out_of_the_bucket_is_refused() {
    // The low seven bits of the windows of the IPv4 source port, input bits 64 to 79, are bits 89 to 110 of the key.
    let mut deaf = good();
    deaf[11] &= 0x80;
    deaf[12] = 0;
    deaf[13] &= 0x01;
    assert_eq!(refusal(&deaf), Error::KeyIgnoresField { field: "IPv4 source port", reached: 1, of: 128 });
}

/// Each field in turn gets key bits of a sequence that repeats a sum of six, so that the low seven bits of its windows
/// reach only 64 values. What the longer IPv6 source lacks, the IPv4 source in front of it lacks too.
#[test]
fn a_field_must_reach_every_bucket() {
    for (field, first, bits) in [
        ("IPv4 source", 0, 32),
        ("IPv4 destination", 32, 32),
        ("IPv4 source port", 64, 16),
        ("IPv4 destination port", 80, 16),
        ("IPv6 destination", 128, 128),
        ("IPv6 source port", 256, 16),
        ("IPv6 destination port", 272, 16),
    ] {
        let mut key = good();
        let mut state = 1_u8;
        for bit in first + 25..first + bits + 31 {
            let mask = 0x80 >> (bit % 8);
            key[bit / 8] = key[bit / 8] & !mask | if state & 1 == 1 { mask } else { 0 };
            state = state >> 1 | (state ^ state >> 1) << 5 & 0x20;
        }
        assert_eq!(refusal(&key), Error::KeyIgnoresField { field, reached: 64, of: 128 });
    }
}

#[test]
fn random_keys_differ_and_broken_entropy_is_reported() {
    let mut word = words(9);
    let keys: Vec<Key> = (0..100).map(|_| Key::random(40, &mut word).unwrap()).collect();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(Key::random(40, || 0), Err(Error::KeyEntropy { draws: 16 }));
    let mut draws = 0;
    let late = Key::random(52, || {
        draws += 1;
        if draws <= 7 { 0 } else { word() }
    });
    assert_eq!(late.unwrap().bytes().len(), 52);
}

#[test]
fn a_key_is_not_shown_by_accident() {
    assert!(!format!("{:?}", Key::MICROSOFT).contains("109"));
    assert!(!format!("{:?}", Key::MICROSOFT).contains("6d"));
}

proptest! {
    #[test]
    fn a_symmetric_key_hashes_both_directions_alike(a: u128, b: u128, ports: [u16; 2], v6: bool, protocol in 0..20_u8) {
        let end = |address: u128, port| if v6 {
            std::net::SocketAddr::from((std::net::Ipv6Addr::from(address | 1 << 127), port))
        } else {
            std::net::SocketAddr::from((std::net::Ipv4Addr::from(address as u32), port))
        };
        let tuple = Tuple::new(end(a, ports[0]), end(b, ports[1]), Protocol(protocol)).unwrap();
        let symmetric = FlowHasher::new(&Key::SYMMETRIC, HashTypes::ALL);
        prop_assert_eq!(symmetric.tuple(&tuple), symmetric.transmit(&tuple));
    }

    #[test]
    fn the_symmetric_property_is_recognised(seed: u64, bit in 0..40_usize * 8) {
        prop_assert!(Key::SYMMETRIC.is_symmetric());
        prop_assert!(!Key::MICROSOFT.is_symmetric());
        prop_assert!(!Key::random(40, words(seed)).unwrap().is_symmetric());
        // A repetition of 16 bits at any place of the key is needed: one other bit and it is gone, but for the last
        // bit, which no window of the longest input holds.
        let mut bytes: Vec<u8> = Key::SYMMETRIC.bytes().to_vec();
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        if let Ok(key) = Key::new(&bytes) {
            prop_assert_eq!(key.is_symmetric(), bit == 319);
        }
    }
}
