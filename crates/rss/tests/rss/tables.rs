//! Tables are fair, and rewriting one moves no more than it must.

use corelane_rss::{Buckets, Error, FlowId, Shares, Table};
use proptest::prelude::*;

const SIZES: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

fn buckets(count: usize) -> Buckets {
    Buckets::new(count).unwrap()
}

fn even(count: usize, lanes: usize) -> Table {
    Table::even(buckets(count), lanes).unwrap()
}

fn moved(from: &Table, to: &Table) -> usize {
    from.moves(to).unwrap().count()
}

#[test]
fn even_filling_is_round_robin() {
    for count in SIZES {
        for lanes in 1..=count.min(256) {
            let table = even(count, lanes);
            assert!(table.buckets().all().all(|bucket| table.lane(bucket) == bucket.index() % lanes));
        }
    }
}

#[test]
fn bounds_are_errors() {
    assert_eq!(Table::even(Buckets::DEFAULT, 0), Err(Error::NoLanes));
    assert_eq!(Table::even(Buckets::DEFAULT, 129), Err(Error::MoreLanesThanBuckets { lanes: 129, buckets: 128 }));
    assert_eq!(Table::even(buckets(1024), 257), Err(Error::LaneRange { got: 256, most: 255 }));
    assert_eq!(Table::weighted(Buckets::DEFAULT, &[0, 0]), Err(Error::NoLanes));
    assert_eq!(Table::weighted(buckets(1), &[1, 0, 1]), Err(Error::MoreLanesThanBuckets { lanes: 2, buckets: 1 }));
    assert_eq!(even(8, 8).with(8), Err(Error::MoreLanesThanBuckets { lanes: 9, buckets: 8 }));
    assert_eq!(even(8, 2).with(256), Err(Error::LaneRange { got: 256, most: 255 }));
    assert_eq!(even(8, 1).without(0), Err(Error::LastLane { lane: 0 }));
    assert_eq!(even(8, 2).reweighted(&[0]), Err(Error::NoLanes));
    assert_eq!(even(8, 2).moves(&even(4, 2)).err(), Some(Error::TableSizes { from: 8, to: 4 }));
    for count in [0, 3, 127, 2048, usize::MAX] {
        assert_eq!(Buckets::new(count), Err(Error::BucketCount { got: count, most: 1024 }));
    }
    assert_eq!(buckets(8).bucket(8), Err(Error::BucketRange { got: 8, count: 8 }));
    let mut table = even(4, 2);
    assert_eq!(table.set(buckets(8).bucket(7).unwrap(), 0), Err(Error::BucketRange { got: 7, count: 4 }));
    assert_eq!(table.set(buckets(4).bucket(3).unwrap(), 256), Err(Error::LaneRange { got: 256, most: 255 }));
    assert_eq!(table, even(4, 2));
}

#[test]
fn one_bucket_is_given_by_hand() {
    let mut table = even(128, 4);
    let hot = table.buckets().of(FlowId(0x51cc_c178));
    assert_eq!((hot.index(), table.lane(hot)), (120, 0));
    table.set(hot, 3).unwrap();
    assert_eq!(table.lane_of(FlowId(0x51cc_c178)), 3);
    assert_eq!(table.counts()[..5], [31, 32, 32, 33, 0]);
    let change: Vec<_> = even(128, 4).moves(&table).unwrap().map(|m| (m.bucket.index(), m.from, m.to)).collect();
    assert_eq!(change, [(120, 0, 3)]);
    assert!(table.owned(3).any(|bucket| bucket == hot));
}

#[test]
fn buckets_of_a_larger_table_are_cut() {
    let table = even(4, 4);
    let of_larger = buckets(128).bucket(126).unwrap();
    assert_eq!(table.lane(of_larger), 2);
}

#[test]
fn weights_interleave() {
    let table = Table::weighted(buckets(8), &[1, 3]).unwrap();
    assert_eq!(table.counts()[..2], [2, 6]);
    let alone: Vec<_> = table.owned(0).map(|bucket| bucket.index()).collect();
    assert!(alone[1] - alone[0] > 1, "{table}");
    assert_eq!(Shares::new(&[2, 0, 1]).unwrap().take(6).collect::<Vec<_>>(), [0, 2, 0, 0, 2, 0]);
}

#[test]
fn a_lane_that_comes_and_goes_leaves_the_others_in_peace() {
    let two = even(128, 2);
    let three = two.with(2).unwrap();
    assert_eq!(three.counts()[..3], [43, 43, 42]);
    assert_eq!(moved(&two, &three), 42);
    let back = three.without(2).unwrap();
    assert_eq!(back.counts()[..3], [64, 64, 0]);
    assert_eq!(moved(&three, &back), 42);
    assert_eq!(three.with(2).unwrap(), three);
    assert_eq!(two.without(7).unwrap(), two);
    assert_eq!(two.without(usize::MAX).unwrap(), two);
}

fn any_table() -> impl Strategy<Value = Table> {
    let weights = prop::collection::vec(0..1000_u32, 1..40);
    (weights, 5..SIZES.len())
        .prop_filter_map("no lane, or too many", |(weights, size)| Table::weighted(buckets(SIZES[size]), &weights).ok())
}

proptest! {
    #[test]
    fn shares_are_fair_to_a_bucket(weights in prop::collection::vec(1..1000_u32, 1..30), size in 5..SIZES.len()) {
        let table = Table::weighted(buckets(SIZES[size]), &weights).unwrap();
        let total: u32 = weights.iter().sum();
        let counts = table.counts();
        prop_assert_eq!(counts.iter().sum::<usize>(), SIZES[size]);
        // Whoever has more than one bucket has no more than half a bucket too many by any other lane's measure.
        for (lane, weight) in weights.iter().enumerate() {
            prop_assert!(counts[lane] >= 1);
            for (other, its) in weights.iter().enumerate() {
                let ahead = (2 * counts[lane] as u64 - 1) * u64::from(*its);
                let behind = (2 * counts[other] as u64 + 1) * u64::from(*weight);
                prop_assert!(counts[lane] == 1 || ahead <= behind, "{lane} {other} of {total}");
            }
        }
    }

    #[test]
    fn leaving_moves_what_the_lane_had(table in any_table(), lane in 0..40_usize) {
        let before = table.counts();
        let Ok(after) = table.without(lane) else {
            prop_assert_eq!(before[lane], table.buckets().count());
            return Ok(());
        };
        prop_assert_eq!(moved(&table, &after), before[lane]);
        prop_assert!(table.moves(&after).unwrap().all(|change| change.from == lane));
        prop_assert_eq!(after.counts()[lane], 0);
        // A lane that was given some is no richer than one that was not given any.
        let grown: Vec<_> = after.owners().filter(|owner| after.counts()[*owner] > before[*owner]).collect();
        let poorest = after.owners().map(|owner| after.counts()[owner]).min().unwrap();
        prop_assert!(grown.iter().all(|owner| after.counts()[*owner] <= poorest + 1));
    }

    #[test]
    fn coming_takes_a_fair_share_and_no_more(table in any_table(), lane in 0..256_usize) {
        let before = table.counts();
        let others = table.owners().filter(|owner| *owner != lane).count();
        let share = table.buckets().count() / (others + 1);
        let Ok(after) = table.with(lane) else {
            prop_assert_eq!(share, 0);
            return Ok(());
        };
        prop_assert_eq!(after.counts()[lane], before[lane].max(share));
        prop_assert_eq!(moved(&table, &after), share.saturating_sub(before[lane]));
        prop_assert!(table.moves(&after).unwrap().all(|change| change.to == lane));
        prop_assert!(after.owners().filter(|owner| *owner != lane).count() == others, "nobody is left without");
    }

    #[test]
    fn new_weights_move_only_the_difference(table in any_table(), weights in prop::collection::vec(0..50_u32, 1..30)) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let after = table.reweighted(&weights).unwrap();
        let (before, wanted) = (table.counts(), Table::weighted(table.buckets(), &weights).unwrap().counts());
        prop_assert_eq!(after.counts(), wanted);
        let least: usize = before.iter().zip(wanted).map(|(before, wanted)| before.saturating_sub(wanted)).sum();
        prop_assert_eq!(moved(&table, &after), least);
    }
}
