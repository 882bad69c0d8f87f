//! The three forms of the hash are one function.

use std::net::{SocketAddrV4, SocketAddrV6};

use corelane_rss::{FlowId, HashTypes, Key, Protocol, ROWS, Toeplitz, Tuple, bitwise};
use proptest::prelude::*;

use crate::common::{hasher, input, words};

const BATCH: usize = 64;

/// A million random tuples, half of each family, a new key every few thousand.
#[test]
fn bits_tables_and_batches_agree_on_a_million_tuples() {
    let mut word = words(20);
    let mut hashed = 0;
    while hashed < 1_000_000 {
        let key = Key::random([40, 52][hashed / BATCH % 2], &mut word).unwrap();
        let toeplitz = Toeplitz::new(&key);
        for _ in 0..50 {
            hashed += compare_v4(&toeplitz, &mut word) + compare_v6(&toeplitz, &mut word);
        }
    }
}

fn compare_v4(toeplitz: &Toeplitz, word: &mut impl FnMut() -> u64) -> usize {
    let mut end = || SocketAddrV4::new((word() as u32).into(), word() as u16);
    let (local, remotes): (_, [_; BATCH]) = (end(), std::array::from_fn(|_| end()));
    let mut flows = [FlowId::default(); BATCH];
    toeplitz.batch_v4(local, &remotes, &mut flows);
    for (remote, flow) in remotes.iter().zip(flows) {
        let mut input = [0; 12];
        input[..4].copy_from_slice(&remote.ip().octets());
        input[4..8].copy_from_slice(&local.ip().octets());
        input[8..10].copy_from_slice(&remote.port().to_be_bytes());
        input[10..].copy_from_slice(&local.port().to_be_bytes());
        assert_eq!((flow, flow), (bitwise(toeplitz.key(), &input), toeplitz.hash(&input)));
    }
    BATCH
}

fn compare_v6(toeplitz: &Toeplitz, word: &mut impl FnMut() -> u64) -> usize {
    let mut end = || {
        let address = u128::from(word()) << 64 | u128::from(word());
        SocketAddrV6::new(address.into(), word() as u16, word() as u32, word() as u32)
    };
    let (local, remotes): (_, [_; BATCH]) = (end(), std::array::from_fn(|_| end()));
    let mut flows = [FlowId::default(); BATCH];
    toeplitz.batch_v6(&local, &remotes, &mut flows);
    for (remote, flow) in remotes.iter().zip(flows) {
        let mut input = [0; 36];
        input[..16].copy_from_slice(&remote.ip().octets());
        input[16..32].copy_from_slice(&local.ip().octets());
        input[32..34].copy_from_slice(&remote.port().to_be_bytes());
        input[34..].copy_from_slice(&local.port().to_be_bytes());
        assert_eq!((flow, flow), (bitwise(toeplitz.key(), &input), toeplitz.hash(&input)));
    }
    BATCH
}

#[test]
fn a_batch_does_as_many_as_both_hold() {
    let toeplitz = Toeplitz::new(&Key::MICROSOFT);
    let local = "10.0.0.1:80".parse().unwrap();
    let remotes: Vec<SocketAddrV4> = (0..9).map(|port| SocketAddrV4::new([10, 0, 0, 2].into(), port)).collect();
    for (given, taken) in [(9, 9), (9, 7), (7, 9), (0, 9), (9, 0)] {
        let mut flows = vec![FlowId(0); taken];
        toeplitz.batch_v4(local, &remotes[..given], &mut flows);
        let done = given.min(taken);
        let single = |remote: &SocketAddrV4| {
            let tuple = Tuple::new((*remote).into(), local.into(), Protocol::TCP).unwrap();
            hasher(HashTypes::DEFAULT).tuple(&tuple).unwrap().flow
        };
        assert_eq!(flows[..done], remotes[..done].iter().map(single).collect::<Vec<_>>());
        assert!(flows[done..].iter().all(|flow| *flow == FlowId(0)));
    }
}

#[test]
fn a_tuple_is_hashed_as_its_input() {
    let mut word = words(3);
    let [with_ports, without] = [HashTypes::ALL, HashTypes::from_mask(0x0a).unwrap()].map(hasher);
    for _ in 0..1_000 {
        let v4 = |word: u64| SocketAddrV4::new((word as u32).into(), (word >> 48) as u16).into();
        let v6 = |word: u64| SocketAddrV6::new((u128::from(word) << 64 | 5).into(), word as u16, 0, 0).into();
        for tuple in [
            Tuple::new(v4(word()), v4(word()), Protocol::UDP).unwrap(),
            Tuple::new(v6(word()), v6(word()), Protocol::TCP).unwrap(),
        ] {
            assert_eq!(with_ports.tuple(&tuple).unwrap().flow, bitwise(&Key::MICROSOFT, &input(&tuple, true)));
            assert_eq!(without.tuple(&tuple).unwrap().flow, bitwise(&Key::MICROSOFT, &input(&tuple, false)));
            let other = Tuple::new(tuple.source(), tuple.destination(), Protocol(132)).unwrap();
            assert_eq!(with_ports.tuple(&other).unwrap().flow, bitwise(&Key::MICROSOFT, &input(&tuple, false)));
        }
    }
}

#[test]
fn mapped_addresses_are_hashed_as_what_is_on_the_wire() {
    let mapped = Tuple::new("[::ffff:10.0.0.2]:5".parse().unwrap(), "[::ffff:10.0.0.1]:6".parse().unwrap(), Protocol::TCP);
    let plain = Tuple::new("10.0.0.2:5".parse().unwrap(), "10.0.0.1:6".parse().unwrap(), Protocol::TCP);
    assert_eq!(mapped, plain);
    assert!(Tuple::new("10.0.0.2:5".parse().unwrap(), "[::1]:6".parse().unwrap(), Protocol::TCP).is_err());
}

proptest! {
    /// Also beyond the end of the key, where zeros follow it.
    #[test]
    fn inputs_of_any_length_agree(input in prop::collection::vec(any::<u8>(), 0..3 * ROWS), seed: u64, long: bool) {
        let key = Key::random(if long { 52 } else { 40 }, words(seed)).unwrap();
        let toeplitz = Toeplitz::new(&key);
        prop_assert_eq!(bitwise(&key, &input), toeplitz.hash(&input));
        let used = &input[..input.len().min(key.bytes().len())];
        prop_assert_eq!(toeplitz.hash(used), toeplitz.hash(&input));
    }

    #[test]
    fn the_hash_is_linear(a: [u8; 36], b: [u8; 36]) {
        let toeplitz = Toeplitz::new(&Key::MICROSOFT);
        let both: Vec<u8> = a.iter().zip(&b).map(|(a, b)| a ^ b).collect();
        prop_assert_eq!(toeplitz.hash(&both).0, toeplitz.hash(&a).0 ^ toeplitz.hash(&b).0);
    }
}
