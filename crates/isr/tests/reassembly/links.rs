//! Each link has an equal part of what may wait, whatever comes by others.

use super::checks::{Became, Rig, limits};
use super::parts::{IsV6, v4_header, v4_part};
use corelane_isr::reassembly::{Limits, Reason};
use corelane_wire::packet::{IpProtocol, ipv4};
use std::net::Ipv4Addr;
use std::ops::Range;

/// The first fragment of a datagram that nobody completes, from somewhere else each time.
fn forged(number: u32) -> Vec<u8> {
    half(number, 0..64)
}

/// The other one, after all.
fn rest_of(number: u32) -> Vec<u8> {
    half(number, 64..128)
}

fn half(number: u32, bytes: Range<usize>) -> Vec<u8> {
    let source = Ipv4Addr::from(number.wrapping_mul(2_654_435_761));
    let header = ipv4::Header { source, ..v4_header(number as u16, IpProtocol::UDP) };
    v4_part(header, &[0; 128], bytes.start, bytes.end, bytes.start == 0)
}

/// Honest datagrams.
const HONEST: u16 = 8;

/// All honest datagrams of one link pass, with twice as many forged fragments by each of these links between any two of theirs as may wait at all.
fn all_pass(limits: Limits, flooded: &[u16]) {
    let mut rig = Rig::new(limits);
    let data = IsV6(false).datagram(4 * 64 - 8);
    let mut number = 0;
    for name in 0..HONEST {
        let parts = IsV6(false).parts(name, &data, 64);
        let (last, before) = parts.split_last().unwrap();
        for part in before {
            assert_eq!(rig.by(1, 0, part), Became::Held);
            for _ in 0..2 * limits.fragments {
                for link in flooded {
                    number += 1;
                    rig.by(*link, 0, &forged(number));
                }
            }
        }
        assert!(matches!(rig.by(1, 0, last), Became::Whole(_)), "{name} of {limits:?}");
    }
    let counts = rig.table.counts();
    assert_eq!(counts.fragments, counts.dropped + counts.joined + rig.table.waiting().1 as u64);
    assert_eq!(counts.joined, 4 * u64::from(HONEST));
}

#[test]
fn a_flood_by_one_link_takes_nothing_of_another() {
    let limits = Limits::for_frames(4096, 2048);
    for flooded in [&[0][..], &[9], &[0, 3]] {
        all_pass(limits, flooded);
        all_pass(limits.with_datagrams(limits.datagrams / 2), flooded);
        all_pass(limits.with_bytes(limits.bytes / 2), flooded);
    }
    all_pass(Limits::for_lane(2048), &[0]);
}

/// A part that nobody else uses is anybody's.
#[test]
fn a_link_alone_has_all_and_gives_it_back() {
    let limits = limits().with_datagrams(usize::MAX).with_fragments(100).with_bytes(usize::MAX);
    let mut rig = Rig::new(limits);
    (0..100).for_each(|number| assert_eq!(rig.by(4, 0, &forged(number)), Became::Held));
    assert_eq!((rig.table.waiting().1, rig.table.counts().dropped), (100, 0));
    (0..50).for_each(|number| assert_eq!(rig.by(2, 1, &forged(number)), Became::Held));
    let counts = *rig.table.counts();
    assert_eq!((counts.of(Reason::Fragments), counts.dropped), (50, 50));
    // What is left of the one are its newest, and the other has all of its own.
    rig.table.set_limits(limits.with_fragments(101));
    (50..100).for_each(|number| assert!(matches!(rig.by(4, 2, &rest_of(number)), Became::Whole(_)), "{number}"));
    (0..50).for_each(|number| assert!(matches!(rig.by(2, 2, &rest_of(number)), Became::Whole(_)), "{number}"));
}

/// Who has most pays himself, also where that is the datagram that grows.
#[test]
fn a_datagram_that_grows_takes_nothing_of_a_link_that_has_less() {
    let mut rig = Rig::new(limits().with_fragments(8).with_datagrams(usize::MAX));
    let parts = IsV6(false).parts(1, &IsV6(false).datagram(8 * 64 - 8), 64);
    parts[..5].iter().for_each(|part| assert_eq!(rig.by(0, 0, part), Became::Held));
    (0..3).for_each(|number| assert_eq!(rig.by(1, 0, &forged(number)), Became::Held));
    assert_eq!(rig.by(0, 0, &parts[5]), Became::Dropped(Reason::Fragments));
    (0..3).for_each(|number| assert!(matches!(rig.by(1, 0, &rest_of(number)), Became::Whole(_)), "{number}"));
    assert_eq!(rig.table.waiting(), (0, 0, 0), "it had most when room was needed");
}

/// Datagrams that an overlap has ended hold nothing, and take places all the same.
#[test]
fn datagrams_that_overlaps_have_ended_take_no_place_of_another_link() {
    let mut rig = Rig::new(limits().with_datagrams(64));
    let mine = IsV6(false).parts(1, &IsV6(false).datagram(120), 64);
    assert_eq!(rig.by(1, 0, &mine[0]), Became::Held);
    for number in 0..1000_u32 {
        for (start, end) in [(0, 64), (8, 40)] {
            let mut part = IsV6(true).part(1, &[0; 128], start, end, true);
            // From another network each time.
            part[10..14].copy_from_slice(&number.to_be_bytes());
            rig.by(0, 0, &part);
        }
    }
    assert!(rig.table.counts().of(Reason::Overlap) > 500);
    assert!(matches!(rig.by(1, 0, &mine[1]), Became::Whole(_)));
}
