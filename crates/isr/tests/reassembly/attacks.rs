//! The worst traffic that we could think of: what a fragment costs stays flat, and memory within its cap. Costs are counted, not timed.

use super::checks::{Became, Rig};
use super::parts::{IsV6, V4, v4_header, v4_part};
use corelane_isr::reassembly::{Limits, Reason};
use corelane_wire::packet::{IpProtocol, ipv4};
use std::net::Ipv4Addr;

/// The largest default.
fn limits() -> Limits {
    Limits::for_frames(32 * 51_200, 2048)
}

/// Hands in one packet; asserts that it cost no more than a full bucket and a full datagram.
fn arrive(rig: &mut Rig, limits: &Limits, packet: &[u8]) -> Became {
    let before = *rig.table.counts();
    let became = rig.arrive(packet);
    let after = *rig.table.counts();
    let most = (limits.each_bucket() + limits.fragments_each + 1) as u64;
    assert!(after.looked - before.looked <= most, "{} looked at", after.looked - before.looked);
    // Its own datagram, and those that it pushed out.
    let dropped = after.dropped - before.dropped;
    assert!(dropped <= 17 * (limits.fragments_each as u64 + 1), "{dropped} dropped by one");
    let (datagrams, fragments, held) = rig.table.waiting();
    assert!(datagrams <= limits.datagrams && fragments <= limits.fragments && held <= limits.bytes);
    assert_eq!(rig.alive.get(), fragments + rig.pieces.len(), "what is not held was let go");
    became
}

#[test]
fn f_04_a_ladder_of_fragments_costs_no_more_than_its_datagram_may_have() {
    let header = v4_header(1, IpProtocol(253));
    let data = vec![0; 65_000];
    let rungs = || (0..8_000).map(|rung| rung * 8);
    let up: Vec<_> = rungs().map(|at| (at + 8, at + 16)).collect();
    let down: Vec<_> = up.iter().rev().copied().collect();
    let overlapping: Vec<_> = rungs().map(|at| (at + 8, (at + 24).min(64_000))).filter(|(start, end)| start < end).collect();
    let holes: Vec<_> = rungs().step_by(2).map(|at| (at + 8, at + 16)).collect();
    for ladder in [up, down, overlapping, holes] {
        let limits = limits();
        let mut rig = Rig::new(limits);
        for &(start, end) in &ladder {
            arrive(&mut rig, &limits, &v4_part(header, &data, start, end, true));
            assert!(rig.table.waiting().1 <= limits.fragments_each);
        }
    }
}

#[test]
fn f_04_last_fragments_of_one_byte_are_charged_as_frames() {
    let limits = Limits::for_frames(32 * 64, 2048);
    let mut rig = Rig::new(limits);
    for name in 0..1_000 {
        let last = v4_part(v4_header(name, IpProtocol(253)), &[0; 65], 64, 65, false);
        assert_eq!(arrive(&mut rig, &limits, &last), Became::Held);
    }
    assert_eq!(rig.table.waiting().2, rig.table.waiting().1 * 2048);
}

#[test]
fn f_04_all_identifications_of_one_pair_are_spread() {
    let limits = limits();
    let mut rig = Rig::new(limits);
    let data = IsV6(false).datagram(120);
    for name in 0..=u16::MAX {
        arrive(&mut rig, &limits, &IsV6(false).part(name, &data, 0, 64, true));
    }
    let counts = *rig.table.counts();
    assert!(counts.of(Reason::Bucket) == 0, "no bucket was full: {counts:?}");
    assert!(counts.looked / counts.fragments <= 51_200 / 1024, "half a bucket's share is walked past on average");
}

#[test]
fn f_04_first_fragments_in_turn_keep_the_first() {
    let limits = limits();
    let mut rig = Rig::new(limits);
    let (a, b) = (vec![0xaa; 256], vec![0xbb; 256]);
    let header = v4_header(1, IpProtocol(253));
    assert_eq!(arrive(&mut rig, &limits, &v4_part(header, &a, 0, 64, true)), Became::Held);
    for _ in 0..1_000 {
        assert_eq!(arrive(&mut rig, &limits, &v4_part(header, &b, 0, 64, true)), Became::Dropped(Reason::Overlap));
        assert_eq!(arrive(&mut rig, &limits, &v4_part(header, &a, 0, 64, true)), Became::Dropped(Reason::Duplicate));
    }
    assert!(matches!(arrive(&mut rig, &limits, &v4_part(header, &a, 64, 128, false)), Became::Whole(_)));
    assert_eq!(rig.whole()[20..], a[..128]);
}

/// Packets whose datagrams share a bucket of a table with the rig's secret.
fn of_one_bucket(number: usize) -> Vec<Vec<u8>> {
    let data = vec![0; 64];
    let packet = |name: u32| {
        let header = v4_header(name as u16, IpProtocol(253));
        let source = Ipv4Addr::from(u32::from(V4[0]) + (name >> 16));
        v4_part(ipv4::Header { source, ..header }, &data, 0, 64, true)
    };
    // One datagram a bucket: whoever pushes the first out shares its bucket.
    let narrow = Limits::for_frames(32 * 512, 2048);
    assert_eq!(narrow.each_bucket(), 1);
    let mut rig = Rig::new(narrow);
    let mut found = vec![packet(0)];
    for packet in (1..).map(packet) {
        rig.table.set_limits(narrow.with_fragments(0));
        rig.table.set_limits(narrow);
        rig.arrive(&found[0]);
        let before = rig.table.counts().of(Reason::Bucket);
        rig.arrive(&packet);
        if rig.table.counts().of(Reason::Bucket) > before {
            found.push(packet);
        }
        if found.len() == number {
            break;
        }
    }
    found
}

#[test]
fn f_05_who_knows_the_secret_fills_one_bucket_and_no_more() {
    let limits = limits();
    let packets = of_one_bucket(150);
    let mut rig = Rig::new(limits);
    for packet in &packets {
        assert_eq!(arrive(&mut rig, &limits, packet), Became::Held);
    }
    assert_eq!((rig.table.waiting().0, rig.table.counts().of(Reason::Bucket)), (100, 50));
}

#[test]
fn f_05_a_full_bucket_gives_its_oldest_first() {
    let limits = Limits::for_frames(32 * 1024, 2048);
    assert_eq!(limits.each_bucket(), 2);
    let (mut rig, packets) = (Rig::new(limits), of_one_bucket(3));
    packets.iter().for_each(|packet| assert_eq!(rig.arrive(packet), Became::Held));
    for there in &packets[1..] {
        assert_eq!(rig.arrive(there), Became::Dropped(Reason::Duplicate));
    }
    assert_eq!(rig.arrive(&packets[0]), Became::Held, "it begins anew");
}

#[test]
fn f_05_a_row_of_datagrams_that_overlaps_ended_is_let_go_in_steps() {
    // Of IPv6: each ends by an overlap and holds nothing, but its name. Then fragments of others fill the table.
    let limits = Limits::for_frames(32 * 64, 2048).with_datagrams(51_200);
    let mut rig = Rig::new(limits);
    let data = IsV6(true).datagram(184);
    for name in 0..10_000 {
        assert_eq!(arrive(&mut rig, &limits, &IsV6(true).part(name, &data, 0, 64, true)), Became::Held);
        assert_eq!(arrive(&mut rig, &limits, &IsV6(true).part(name, &data, 8, 72, true)), Became::Dropped(Reason::Overlap));
    }
    assert_eq!((rig.table.waiting().0, rig.table.waiting().1), (10_000, 0));
    let pushed_out = |rig: &Rig| rig.table.counts().of(Reason::Fragments);
    for name in 0..2_000 {
        let before = pushed_out(&rig);
        arrive(&mut rig, &limits, &IsV6(false).part(name, &data, 0, 64, true));
        assert!(pushed_out(&rig) - before <= 17, "{} at once", pushed_out(&rig) - before);
    }
    let last = IsV6(false).part(1_999, &data, 64, 192, false);
    assert!(matches!(arrive(&mut rig, &limits, &last), Became::Whole(_)), "they pass again");
}

#[test]
fn f_05_a_full_table_gives_the_oldest_of_the_bucket_before_the_oldest_of_all() {
    let limits = limits();
    let mut rig = Rig::new(limits);
    let data = IsV6(true).datagram(120);
    let [first, second] = [(0, 64, true), (64, 128, false)].map(|(start, end, more)| IsV6(true).part(9, &data, start, end, more));
    let pair = of_one_bucket(2);
    assert_eq!(arrive(&mut rig, &limits, &first), Became::Held);
    assert_eq!(arrive(&mut rig, &limits, &pair[0]), Became::Held);
    for name in 2..51_200_u16 {
        assert_eq!(arrive(&mut rig, &limits, &IsV6(false).part(name, &data, 0, 64, true)), Became::Held);
    }
    assert_eq!((rig.table.waiting().0, rig.table.counts().dropped), (51_200, 0), "it is full, and no bucket is");
    // Datagrams are at their limit, and fragments are as well: one of each goes.
    rig.table.set_limits(limits.with_fragments(usize::MAX).with_bytes(usize::MAX));
    assert!(matches!(rig.arrive(&pair[1]), Became::Held));
    assert_eq!((rig.table.waiting().0, rig.table.counts().of(Reason::Datagrams)), (51_200, 1));
    assert!(matches!(rig.arrive(&second), Became::Whole(_)), "the oldest of all is there");
}
