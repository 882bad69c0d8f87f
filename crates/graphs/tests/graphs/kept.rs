//! What a file knows, as those who look at it expect.

use crate::disk::{Pages, vlan};
use corelane_graphs::{Error, FILE_BYTES, NOTES_MAX, Name, Reading, Span, Store, Subject, View, view};

const NOON: u64 = 1_700_049_600; // 12:00 UTC

fn day(store: &Store<Pages>, now: u64) -> View {
    view(store.disk(), Span::Day, now).unwrap()
}

/// Records a counter every ten seconds.
fn count(store: &mut Store<Pages>, from: u64, counts: &[u64]) {
    for (at, count) in (from..).step_by(10).zip(counts) {
        store.record(at * 1000, &[(vlan(1), Reading::Counter(*count))]).unwrap();
    }
}

#[test]
fn a_counter_that_begins_again_is_no_spike_and_one_that_was_away_neither() {
    let mut store = Store::open(Pages::default()).unwrap();
    count(&mut store, NOON, &[1_000_000, 1_000_100, 1_000_200, 50, 150]);
    let curve = &day(&store, NOON + 50).curves[0];
    assert_eq!((curve.average[287], curve.most[287]), (10.0, 10.0));
    store.record((NOON + 50) * 1000, &[]).unwrap();
    count(&mut store, NOON + 60, &[9_000_000, 9_000_100]);
    assert_eq!(day(&store, NOON + 80).curves[0].most[287], 10.0, "nobody knows when it grew");
}

#[test]
fn a_gap_is_a_gap() {
    let mut store = Store::open(Pages::default()).unwrap();
    count(&mut store, NOON, &[0, 100]);
    count(&mut store, NOON + 900, &[90_000, 90_100]);
    let average = &day(&store, NOON + 920).curves[0].average;
    assert_eq!((average[284], average[287]), (10.0, 10.0));
    assert!(average[285].is_nan() && average[286].is_nan() && average[..284].iter().all(|value| value.is_nan()));
}

#[test]
fn a_second_at_the_border_belongs_to_the_step_that_ends() {
    let mut store = Store::open(Pages::default()).unwrap();
    count(&mut store, NOON - 10, &[0, 100]);
    let average = &day(&store, NOON).curves[0].average;
    assert!(average[286] == 10.0 && average[287].is_nan());
}

#[test]
fn the_most_outlives_the_average_in_a_year() {
    let mut store = Store::open(Pages::default()).unwrap();
    let counts: Vec<u64> = (0..200_u64)
        .scan(0, |sum, number| {
            *sum += if number == 77 { 10_000 } else { 100 };
            Some(*sum)
        })
        .collect();
    count(&mut store, NOON, &counts);
    count(&mut store, NOON + 86_400, &[0, 1]);
    let year = view(store.disk(), Span::Year, NOON + 86_400).unwrap();
    let curve = &year.curves[0];
    assert_eq!(curve.most[364], 1000.0);
    assert!(curve.average[364] > 10.0 && curve.average[364] < 20.0, "{}", curve.average[364]);
}

#[test]
fn readings_of_one_name_are_put_together_and_what_is_no_number_is_unknown() {
    let mut store = Store::open(Pages::default()).unwrap();
    let gauge = |value| (Name::new(Subject::Whole, "burst"), Reading::Gauge(value));
    for (at, count) in [(NOON, 0), (NOON + 10, 50)] {
        let lanes = [(vlan(1), Reading::Counter(count)), (vlan(1), Reading::Counter(count)), gauge(3.0), gauge(8.0)];
        store.record(at * 1000, &lanes).unwrap();
    }
    for wrong in [f64::NAN, -1.0, f64::INFINITY, 1e300] {
        store.record((NOON + 20) * 1000, &[gauge(wrong)]).unwrap();
        store.record((NOON + 30) * 1000, &[gauge(wrong)]).unwrap();
    }
    let curves = day(&store, NOON + 30).curves;
    assert_eq!(curves.iter().map(|curve| curve.most[287]).collect::<Vec<_>>(), [8.0, 10.0]);
    assert_eq!(curves[0].average[287], 8.0);
}

#[test]
fn a_clock_that_goes_back_is_a_gap_and_no_more() {
    let mut store = Store::open(Pages::default()).unwrap();
    count(&mut store, NOON + 86_400 * 400, &[0, 100]);
    count(&mut store, NOON, &[200, 300, 400]);
    let seen = day(&store, NOON + 30);
    assert_eq!(seen.curves[0].average[287], 10.0);
    assert_eq!(seen.curves[0].average.iter().filter(|value| !value.is_nan()).count(), 1);
}

#[test]
fn a_clock_that_goes_back_again_and_again_leaves_the_step_known() {
    let mut store = Store::open(Pages::default()).unwrap();
    for _ in 0..6 {
        for (at, count) in [(NOON, 0), (NOON + 119, 1190)] {
            store.record(at * 1000, &[(vlan(1), Reading::Counter(count))]).unwrap();
        }
    }
    assert_eq!(day(&store, NOON + 119).curves[0].average[287], 10.0, "more is known than a step has seconds");
}

#[test]
fn notes_are_kept_in_order_and_the_oldest_make_room() {
    let mut store = Store::open(Pages::default()).unwrap();
    for number in 0..NOTES_MAX as u64 + 5 {
        store.note(NOON + number / 100, &format!("rule {number} added {}", "é".repeat(200))).unwrap();
    }
    let mut store = Store::open(store.disk().clone()).unwrap();
    store.note(NOON + 50, "reload").unwrap();
    store.note(NOON + 9000, "later").unwrap();
    let notes = day(&store, NOON + 100).notes;
    assert_eq!((notes.len(), notes[0].text.starts_with("rule 7 added é")), (NOTES_MAX - 1, true), "{:?}", notes[0]);
    assert_eq!(notes.last().unwrap().text, "reload");
    assert!(notes.iter().all(|note| note.text.len() <= 224));
    assert!(day(&store, NOON + 86_400 * 3).notes.is_empty());
}

#[test]
fn another_process_goes_on_with_the_step_and_other_series() {
    let mut store = Store::open(Pages::default()).unwrap();
    count(&mut store, NOON, &[0, 100, 200]);
    let mut store = Store::open(store.disk().clone()).unwrap();
    for (at, value) in [(30, 0), (40, 400)] {
        let rule = Name::new(Subject::Rule { number: 100, text: "count ip from any to any".into() }, "packets");
        store.record((NOON + at) * 1000, &[(vlan(1), Reading::Counter(value)), (rule, Reading::Counter(value))]).unwrap();
    }
    let curves = day(&store, NOON + 40).curves;
    // 200 bytes in 20 seconds, and 400 in 10.
    assert_eq!(
        curves.iter().map(|curve| (curve.average[287], curve.most[287])).collect::<Vec<_>>(),
        [(20.0, 40.0), (40.0, 40.0)]
    );
}

#[test]
fn a_file_of_others_is_left_alone() {
    let mut other = Pages::default();
    other.put(0, b"#!/bin/sh\n");
    let mut longer = other.clone();
    longer.put(10, &[7; 500]);
    let mut zeros = Pages::default();
    zeros.put(0, &[0; 100]);
    for disk in [other, longer, zeros] {
        let bytes = disk.bytes;
        assert!(matches!(Store::open(disk.clone()), Err(Error::NotOurs)));
        assert!(matches!(view(&disk, Span::Day, NOON), Err(Error::NotOurs)));
        assert_eq!((disk.written.len(), disk.bytes), (0, bytes));
    }
    let made = Store::open(Pages::default()).unwrap().disk().clone();
    assert_eq!(made.bytes, FILE_BYTES);
    let (mut newer, mut damaged) = (made.clone(), made);
    newer.put(16, &[2]);
    damaged.put(20, &[1]);
    let newer = Store::open(newer).unwrap_err();
    assert!(matches!(newer, Error::Version { found: 2, known: 1 }) && newer.to_string().contains("version 2"), "{newer}");
    assert!(matches!(Store::open(damaged), Err(Error::Shape)));
}

#[test]
fn a_full_disk_is_told_and_the_next_reading_goes_on() {
    let disk = Store::open(Pages::default()).unwrap().disk().clone();
    let mut store = Store::open(disk).unwrap();
    count(&mut store, NOON, &[0, 100]);
    store.disk().is_full.set(true);
    assert!(store.record((NOON + 20) * 1000, &[(vlan(1), Reading::Counter(200)), (vlan(2), Reading::Counter(1))]).is_err());
    assert!(store.note(NOON, "x").is_err());
    store.disk().is_full.set(false);
    count(&mut store, NOON + 30, &[300, 400]);
    assert_eq!(day(&store, NOON + 40).curves[0].average[287], 10.0);
}
