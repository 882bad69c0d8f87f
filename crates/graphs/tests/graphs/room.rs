//! Where there are more series than room.

use crate::disk::{Pages, vlan};
use corelane_graphs::{Reading, SERIES_MAX, Span, Store, view};

const NOON: u64 = 1_700_049_600; // 12:00 UTC
const DAY: u64 = 86_400;

/// Two readings of series `from` to `to`, ten seconds apart, after which each has grown by its number and 1.
fn twice(store: &mut Store<Pages>, at: u64, from: u64, to: u64) {
    for turn in 0..2 {
        let readings: Vec<_> = (from..to).map(|number| (vlan(number), Reading::Counter(turn * 10 * (number + 1)))).collect();
        store.record((at + turn * 10) * 1000, &readings).unwrap();
    }
}

#[test]
fn a_series_without_room_is_counted_and_has_room_when_another_was_not_seen_for_a_day() {
    let most = SERIES_MAX as u64;
    let mut store = Store::open(Pages::default()).unwrap();
    twice(&mut store, NOON, 0, most + 3);
    assert_eq!(store.refused(), 3);
    // Today every column has a value of today.
    twice(&mut store, NOON + 600, most, most + 1);
    assert_eq!(store.refused(), 1);
    // All but the first are seen tomorrow, after a kill.
    let mut store = Store::open(store.disk().clone()).unwrap();
    twice(&mut store, NOON + DAY, 1, most);
    assert_eq!(store.refused(), 0);
    twice(&mut store, NOON + DAY + 600, most + 7, most + 9);
    assert_eq!(store.refused(), 1, "one column only was not seen today");
    for (span, step) in [(Span::Day, 287), (Span::Week, 335), (Span::Year, 365)] {
        let mut store = Store::open(store.disk().clone()).unwrap();
        store.record((NOON + DAY + 1200) * 1000, &[]).unwrap();
        let now = NOON + DAY + 610;
        let view = view(store.disk(), span, now).unwrap();
        let new: Vec<_> = view.curves.iter().filter(|curve| curve.name.subject() == vlan(most + 7).subject()).collect();
        assert_eq!((new.len(), new[0].average[step]), (1, (most + 8) as f32), "{span:?}");
        assert_eq!(new[0].average.iter().filter(|value| !value.is_nan()).count(), 1, "nothing of the one before: {span:?}");
        assert!(view.curves.iter().all(|curve| curve.name.subject() != vlan(0).subject()), "{span:?}");
        assert!(view.curves.len() <= SERIES_MAX);
    }
}

#[test]
fn the_longest_unseen_gives_way_first() {
    let most = SERIES_MAX as u64;
    let mut store = Store::open(Pages::default()).unwrap();
    twice(&mut store, NOON, 0, most);
    twice(&mut store, NOON + DAY, 0, 5);
    twice(&mut store, NOON + DAY, 6, most);
    twice(&mut store, NOON + 2 * DAY, 0, 1);
    let mut store = Store::open(store.disk().clone()).unwrap();
    twice(&mut store, NOON + 3 * DAY, most, most + 1);
    let view = view(store.disk(), Span::Year, NOON + 3 * DAY).unwrap();
    let has = |number| view.curves.iter().any(|curve| curve.name.subject() == vlan(number).subject());
    assert_eq!((has(0), has(4), has(5), has(6)), (true, true, false, true));
}

/// Interfaces that have a curve, or more than one, in the year that ends then.
fn of_year(store: &Store<Pages>, now: u64, number: u64) -> usize {
    let curves = view(store.disk(), Span::Year, now).unwrap().curves;
    curves.iter().filter(|curve| curve.name == vlan(number)).count()
}

#[test]
fn what_was_seen_today_before_a_kill_keeps_its_column() {
    let most = SERIES_MAX as u64;
    let mut store = Store::open(Pages::default()).unwrap();
    twice(&mut store, NOON, 0, most);
    let mut store = Store::open(store.disk().clone()).unwrap();
    twice(&mut store, NOON + 600, most, most + 1);
    assert_eq!(store.refused(), 1, "each column has a value of today");
}

#[test]
fn the_last_day_counts_wherever_its_row_lies() {
    // The ring of a year begins anew with the second of these days.
    let last = (NOON / DAY / 366 + 1) * 366 * DAY - DAY;
    let most = SERIES_MAX as u64;
    let mut store = Store::open(Pages::default()).unwrap();
    twice(&mut store, last, 0, most);
    twice(&mut store, last + DAY, 0, most - 1);
    let mut store = Store::open(store.disk().clone()).unwrap();
    twice(&mut store, last + 2 * DAY, most, most + 1);
    let now = last + 2 * DAY + 20;
    assert_eq!((store.refused(), of_year(&store, now, 0), of_year(&store, now, most - 1)), (0, 1, 0));
}

#[test]
fn series_that_were_seen_when_the_clock_was_ahead_make_room_a_day_after_it_was_set() {
    let most = SERIES_MAX as u64;
    let mut store = Store::open(Pages::default()).unwrap();
    twice(&mut store, NOON + 3650 * DAY, 0, most);
    twice(&mut store, NOON, most, most + 1);
    assert_eq!(store.refused(), 1, "nobody knows that they were not seen today");
    twice(&mut store, NOON + DAY, most, most + 1);
    assert_eq!(store.refused(), 0);
}

#[test]
fn a_series_that_lost_its_column_gets_another_or_none() {
    let most = SERIES_MAX as u64;
    let mut store = Store::open(Pages::default()).unwrap();
    twice(&mut store, NOON, 0, most);
    twice(&mut store, NOON + DAY, 1, most + 1);
    twice(&mut store, NOON + DAY + 600, 0, 1);
    assert_eq!(store.refused(), 1, "its column is another's, and there is no room today");
    let seen = view(store.disk(), Span::Day, NOON + DAY + 610).unwrap();
    let new = seen.curves.iter().find(|curve| curve.name == vlan(most)).unwrap();
    assert_eq!(new.average.iter().filter(|value| !value.is_nan()).count(), 1, "it has its own values alone");
}

#[test]
fn a_series_that_has_its_column_is_not_written_again() {
    let mut store = Store::open(Pages::default()).unwrap();
    for milliseconds in [0, 300, 600] {
        store.record(NOON * 1000 + milliseconds, &[(vlan(1), Reading::Counter(milliseconds))]).unwrap();
    }
    let names = 4096..4096 + SERIES_MAX as u64 * 256;
    assert_eq!(store.disk().written.iter().filter(|(offset, _)| names.contains(offset)).count(), 1);
}
