//! Rows F-04, F-05 and F-07: limits, what goes at each, and what is counted.

use super::checks::{Became, Rig, limits};
use super::parts::{BOTH, IsV6, Owned, seconds};
use corelane_isr::reassembly::{Admission, EXPIRED_MAX, Limits, Memory, Reason};

fn first(identification: u16) -> Vec<u8> {
    IsV6(false).part(identification, &IsV6(false).datagram(1000), 0, 64, true)
}

fn second(identification: u16) -> Vec<u8> {
    IsV6(false).part(identification, &IsV6(false).datagram(120), 64, 128, false)
}

#[test]
fn f_04_the_limits_follow_from_the_frames() {
    let small = Limits::for_frames(4096, 2048);
    assert_eq!((small.fragments, small.datagrams, small.each_bucket()), (128, 128, 1));
    assert_eq!((small.fragments_each, small.bytes, small.keep.as_secs(), small.keep_v6.as_secs()), (16, 128 * 2048, 30, 60));
    let large = Limits::for_frames(1 << 24, 2048);
    assert_eq!((large.fragments, large.datagrams, large.each_bucket()), (1 << 19, 51_200, 100));
}

#[test]
fn f_04_datagrams_expire_after_thirty_seconds_and_of_ipv6_after_sixty() {
    for family in BOTH {
        let keep = if family.0 { 60 } else { 30 };
        let data = family.datagram(180);
        let parts = family.parts(1, &data, 64);
        let mut rig = Rig::new(limits());
        assert_eq!(rig.table.due(), None);
        assert_eq!(rig.at(5, &parts[0]), Became::Held);
        assert_eq!(rig.at(6, &parts[1]), Became::Held);
        assert_eq!(rig.at(20, &family.parts(2, &data, 64)[1]), Became::Held);
        assert_eq!(rig.table.due(), Some(seconds(5 + keep)), "counted from the first fragment that arrived");
        assert_eq!(rig.table.expire(seconds(4 + keep), |_| panic!("too early")), 0);
        let mut firsts = Vec::new();
        assert_eq!(rig.table.expire(seconds(5 + keep), |first: Owned| firsts.push(first.bytes().to_vec())), 1);
        assert_eq!(firsts, [parts[0].clone()], "ICMP answers what has a first fragment, once");
        assert_eq!(rig.table.expire(seconds(20 + keep), |_| panic!("the first fragment is missing")), 1);
        assert_eq!((rig.table.counts().timed_out, rig.table.counts().dropped, rig.alive.get()), (2, 3, 0));
        assert_eq!(rig.at(20 + keep, &parts[1]), Became::Held, "a late fragment begins anew");
    }
}

/// A datagram of IPv6 that waits does not keep those of IPv4 that came later.
#[test]
fn f_04_each_family_expires_in_its_own_time() {
    let mut rig = Rig::new(limits());
    for (second, family) in [(0, IsV6(true)), (10, IsV6(false)), (20, IsV6(true)), (45, IsV6(false))] {
        assert_eq!(rig.at(second, &family.parts(second as u16, &family.datagram(180), 64)[1]), Became::Held);
    }
    let mut ends = Vec::new();
    while let Some(due) = rig.table.due() {
        ends.push((due, rig.table.expire(due, drop)));
    }
    assert_eq!(ends, [40, 60, 75, 80].map(|second| (seconds(second), 1)));
}

#[test]
fn f_04_one_fragment_more_than_may_wait_completes_or_ends_the_datagram() {
    for family in BOTH {
        let data = family.datagram(17 * 8 - 8);
        let parts = family.parts(1, &data, 8);
        assert_eq!(parts.len(), 17);
        let mut rig = Rig::new(limits());
        rig.all(&parts);
        assert_eq!(rig.table.counts().reassembled, 1, "sixteen wait, the seventeenth completes");
        let data = family.datagram(18 * 8 - 8);
        let parts = family.parts(2, &data, 8);
        for part in &parts[..16] {
            assert_eq!(rig.arrive(part), Became::Held);
        }
        assert_eq!(rig.arrive(&parts[16]), Became::Dropped(Reason::Each));
        let counts = *rig.table.counts();
        assert_eq!((counts.of(Reason::Each), counts.dropped, rig.table.waiting()), (1, 17, (0, 0, 0)));
    }
}

#[test]
fn f_04_nothing_is_reassembled_where_it_is_off() {
    for off in [limits().with_fragments(0), limits().with_datagrams(0)] {
        let mut rig = Rig::new(limits());
        (0..10).for_each(|name| assert_eq!(rig.arrive(&first(name)), Became::Held));
        rig.table.set_limits(off);
        assert_eq!(
            (rig.table.waiting(), rig.alive.get(), rig.table.counts().dropped),
            ((0, 0, 0), 0, 10),
            "turning it off drains"
        );
        assert_eq!(rig.arrive(&first(1)), Became::Dropped(Reason::Off));
        rig.table.set_limits(limits());
        assert_eq!(rig.arrive(&first(1)), Became::Held);
    }
}

#[test]
fn f_04_without_limits_all_wait() {
    let unlimited =
        limits().with_fragments(usize::MAX).with_datagrams(usize::MAX).with_bytes(usize::MAX).with_fragments_each(usize::MAX);
    let mut rig = Rig::new(unlimited);
    (0..60_000).for_each(|name| assert_eq!(rig.arrive(&first(name)), Became::Held));
    assert_eq!((rig.table.waiting().0, rig.table.counts().dropped), (60_000, 0));
}

/// What is counted at a limit, with the datagrams that are left of the first `most + 1`.
fn at_limit(limits: Limits, most: u16, reason: Reason) {
    let mut rig = Rig::new(limits);
    (0..most).for_each(|name| assert_eq!(rig.at(u64::from(name), &first(name)), Became::Held));
    assert_eq!(rig.table.counts().of(reason), 0);
    assert_eq!(rig.at(20, &first(most)), Became::Held, "the new one is taken");
    assert_eq!((rig.table.counts().of(reason), rig.table.waiting().0), (1, most.into()));
    assert_eq!(rig.at(20, &second(0)), Became::Held, "the oldest went: this begins anew");
    let newest = rig.at(20, &second(most));
    assert!(matches!(newest, Became::Whole(_)), "the newest is there: {newest:?}");
}

#[test]
fn f_05_at_a_limit_the_oldest_goes() {
    // A bucket that is full is another matter: with so many datagrams allowed, none is.
    let wide = limits().with_datagrams(usize::MAX).with_fragments(usize::MAX).with_bytes(usize::MAX);
    at_limit(wide.with_fragments(8), 8, Reason::Fragments);
    at_limit(wide.with_bytes(8 * 2048), 8, Reason::Bytes);
    at_limit(wide.with_bytes(9 * 2048 - 1), 8, Reason::Bytes);
    let mut rig = Rig::new(wide.with_bytes(2047));
    assert_eq!(rig.arrive(&first(1)), Became::Dropped(Reason::Bytes), "more than there is room for at all");
    assert_eq!(rig.table.waiting(), (0, 0, 0));
}

#[test]
fn f_05_a_full_bucket_gives_its_own_oldest() {
    // One datagram a bucket: of many, some share one.
    let mut rig = Rig::new(limits().with_datagrams(512));
    (0..400).for_each(|name| assert_eq!(rig.arrive(&first(name)), Became::Held));
    let counts = *rig.table.counts();
    let evicted = counts.of(Reason::Bucket) as usize;
    assert!(evicted > 0, "of 400 in 1,024 buckets, some share one");
    assert_eq!((rig.table.waiting().0, counts.of(Reason::Datagrams)), (400 - evicted, 0));
    // The newest of a bucket is always there.
    let last = rig.arrive(&second(399));
    assert!(matches!(last, Became::Whole(_)), "{last:?}");
}

#[test]
fn f_05_a_full_table_gives_the_oldest_of_all() {
    let mut rig = Rig::new(limits().with_datagrams(3));
    (0..20).for_each(|name| assert_eq!(rig.arrive(&first(name)), Became::Held));
    let counts = *rig.table.counts();
    assert_eq!(rig.table.waiting().0 as u64 + counts.of(Reason::Bucket) + counts.of(Reason::Datagrams), 20);
    assert!(rig.table.waiting().0 <= 3 && counts.of(Reason::Datagrams) > 0);
    assert!(matches!(rig.arrive(&second(19)), Became::Whole(_)), "the newest is there");
}

#[test]
fn f_05_the_datagram_that_grows_is_not_the_one_that_goes() {
    let mut rig = Rig::new(limits().with_fragments(2));
    let data = IsV6(false).datagram(184);
    let parts = IsV6(false).parts(1, &data, 64);
    assert_eq!(rig.arrive(&parts[0]), Became::Held);
    assert_eq!(rig.arrive(&parts[1]), Became::Held);
    assert_eq!(rig.arrive(&parts[2]), Became::Dropped(Reason::Fragments), "nobody else is there to go");
    assert_eq!(rig.table.waiting().1, 2);
}

#[test]
fn f_05_what_is_dropped_anyway_pushes_nobody_out() {
    for family in BOTH {
        let data = family.datagram(184);
        let mut rig = Rig::new(limits().with_fragments(4).with_datagrams(usize::MAX));
        (1..=4).for_each(|name| assert_eq!(rig.arrive(&family.part(name, &data, 0, 64, true)), Became::Held));
        assert_eq!(rig.arrive(&family.part(4, &data, 0, 64, true)), Became::Dropped(Reason::Duplicate));
        assert_eq!(rig.arrive(&family.part(4, &data, 8, 40, true)), Became::Dropped(Reason::Overlap));
        assert_eq!(rig.table.counts().of(Reason::Fragments), 0);
        assert_eq!(rig.table.waiting().1, if family.0 { 3 } else { 4 }, "of IPv6 the datagram itself ends");
    }
}

#[test]
fn f_05_what_never_fits_pushes_nobody_out() {
    let mut rig = Rig::new(limits().with_bytes(3 * 2048));
    assert_eq!(rig.arrive(&first(1)), Became::Held);
    let huge = Owned::new(&first(2), 4 * 2048, &rig.alive);
    let outcome = rig.table.arrive(seconds(0), 0, huge, &mut rig.pieces);
    assert!(matches!(outcome, Admission::Dropped(Reason::Bytes, _)), "{outcome:?}");
    assert_eq!(rig.table.waiting(), (1, 1, 2048));
}

#[test]
fn f_07_what_is_counted_adds_up() {
    let mut rig = Rig::new(limits());
    let data = IsV6(false).datagram(120);
    rig.all(&IsV6(false).parts(1, &data, 64));
    rig.arrive(&first(2));
    rig.arrive(&first(2));
    rig.table.expire(seconds(30), drop);
    rig.arrive(&first(3));
    let counts = *rig.table.counts();
    assert_eq!((counts.fragments, counts.reassembled, counts.joined), (5, 1, 2));
    assert_eq!((counts.timed_out, counts.of(Reason::Duplicate), counts.dropped), (1, 1, 2));
    assert_eq!(counts.fragments, counts.joined + counts.dropped + rig.table.waiting().1 as u64);
}

#[test]
fn a_packet_that_is_dropped_comes_back_for_icmp() {
    let mut rig = Rig::new(limits());
    let mut odd = first(1);
    odd.pop();
    odd[3] -= 1;
    let packet = Owned::new(&odd, 2048, &rig.alive);
    let outcome = rig.table.arrive(seconds(0), 0, packet, &mut rig.pieces);
    let Admission::Dropped(Reason::TooSmall, packet) = outcome else { panic!("{outcome:?}") };
    assert_eq!(packet.bytes(), odd);
}

#[test]
fn f_05_a_bucket_over_a_lower_limit_gives_until_it_is_within() {
    let mut rig = Rig::new(limits().with_fragments(usize::MAX).with_datagrams(51_200).with_bytes(usize::MAX));
    (0..5_000).for_each(|name| assert_eq!(rig.arrive(&first(name)), Became::Held));
    assert_eq!((rig.table.waiting().0, rig.table.counts().dropped), (5_000, 0), "a hundred fit into a bucket");
    let low = limits().with_fragments(usize::MAX).with_datagrams(5_120).with_bytes(usize::MAX);
    assert_eq!(low.each_bucket(), 10);
    rig.table.set_limits(low);
    let (mut most, mut before) = (0, 0);
    for name in 5_000..40_000 {
        rig.arrive(&first(name));
        let now = rig.table.counts().of(Reason::Bucket);
        (most, before) = (most.max(now - before), now);
    }
    assert!(most > 1, "one that was over its limit gave more than one");
    // Of 1,024 buckets with ten each, as far as the table holds them.
    assert!(rig.table.waiting().0 <= 5_120);
}

#[test]
fn f_04_lower_limits_hold_at_once() {
    let wide = limits();
    for (low, reason) in [
        (wide.with_datagrams(7), Reason::Datagrams),
        (wide.with_fragments(7), Reason::Fragments),
        (wide.with_bytes(7 * 2048), Reason::Bytes),
    ] {
        let mut rig = Rig::new(wide);
        (0..50).for_each(|name| assert_eq!(rig.arrive(&first(name)), Became::Held));
        rig.table.set_limits(low);
        assert_eq!((rig.table.waiting(), rig.table.counts().of(reason)), ((7, 7, 7 * 2048), 43));
        assert!(matches!(rig.arrive(&second(49)), Became::Whole(_)), "the newest are left");
    }
}

#[test]
fn f_04_a_burst_expires_in_several_calls() {
    let mut rig = Rig::new(limits().with_datagrams(51_200));
    (0..600).for_each(|name| assert_eq!(rig.arrive(&first(name)), Became::Held));
    let mut firsts = 0;
    let calls: Vec<_> = (0..4).map(|_| (rig.table.expire(seconds(30), |_| firsts += 1), rig.table.due().is_some())).collect();
    assert_eq!(calls, [(EXPIRED_MAX, true), (EXPIRED_MAX, true), (88, false), (0, false)]);
    assert_eq!((firsts, rig.alive.get()), (600, 0));
}
