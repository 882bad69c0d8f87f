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
