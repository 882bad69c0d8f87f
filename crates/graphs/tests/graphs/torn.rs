//! Killed in each write, at each byte.

use crate::disk::{Pages, vlan};
use corelane_graphs::{Reading, Span, Store, View, view};

// Two minutes before midnight UTC: every step of every span ends soon.
const BEGIN: u64 = 1_700_092_800 - 120;
const NOW: u64 = BEGIN + 1000;

/// Readings each minute with a rate that tells the minute, and notes; what was written is kept.
fn played() -> Pages {
    let mut store = Store::open(Pages::default()).unwrap();
    let mut counts = [0; 2];
    for minute in 0..8_u64 {
        for (number, count) in counts.iter_mut().enumerate() {
            *count += 60 * (1 + minute) * (1 + number as u64);
        }
        let readings: Vec<_> = (0..).zip(counts).map(|(number, count)| (vlan(number), Reading::Counter(count))).collect();
        store.record((BEGIN + minute * 60) * 1000, &readings).unwrap();
        if minute % 3 == 1 {
            store.note(BEGIN + minute * 60, &format!("minute {minute}")).unwrap();
        }
    }
    store.disk().clone()
}

/// Known cells: span, step, series, average and most as their bits.
fn cells(disk: &Pages) -> Vec<(Span, usize, String, u32, u32)> {
    let mut found = Vec::new();
    for span in Span::ALL {
        let View { curves, .. } = view(disk, span, NOW).unwrap();
        for curve in curves {
            let known = curve.average.iter().zip(&curve.most).enumerate().filter(|(_, (average, _))| !average.is_nan());
            let name = format!("{:?}", curve.name);
            found.extend(known.map(|(step, (average, most))| (span, step, name.clone(), average.to_bits(), most.to_bits())));
        }
    }
    found
}

#[test]
fn killed_in_a_write_it_knows_what_was_whole_before_and_nothing_else() {
    let played = played();
    let (mut disk, mut whole) = (Pages::default(), Vec::new());
    // Whatever was true at some time.
    let mut true_once: Vec<_> = Vec::new();
    let mut torn = 0;
    for (offset, bytes) in &played.written {
        let mut after = disk.clone();
        after.put(*offset, bytes);
        let finished = Store::open(after.clone()).unwrap();
        true_once.extend(cells(finished.disk()));
        if after.bytes >= 64 {
            true_once.extend(cells(&after));
        }
        for length in 0..bytes.len() {
            let mut cut = disk.clone();
            cut.put(*offset, &bytes[..length]);
            let store = Store::open(cut).unwrap_or_else(|error| panic!("{length} bytes at {offset}: {error}"));
            let found = cells(store.disk());
            let lie = found.iter().find(|cell| !true_once.contains(cell));
            assert_eq!(lie, None, "{length} bytes at {offset}");
            // What is being written may be missing, with what is made of it: one step of a day.
            let lost = whole.iter().filter(|(span, step, name, ..): &&(Span, usize, String, u32, u32)| {
                *span == Span::Day && !found.iter().any(|cell| (cell.0, cell.1, &cell.2) == (*span, *step, name))
            });
            let mut steps: Vec<_> = lost.map(|cell| cell.1).collect();
            steps.dedup();
            assert!(steps.len() <= 1, "{length} bytes at {offset}: {steps:?}");
            torn += 1;
        }
        disk = after;
        whole = cells(finished.disk());
    }
    assert!(torn > 1000 && !whole.is_empty(), "{torn} kills, {} cells", whole.len());
    // The last step has ended by a kill; it is in the coarser spans all the same.
    for span in Span::ALL {
        assert_eq!(whole.iter().filter(|cell| cell.0 == span).count(), 4, "{span:?}: two steps of two series");
    }
}

#[test]
fn a_file_that_was_cut_is_opened_and_goes_on() {
    let played = played();
    let mut ends: Vec<u64> = (0..=64).collect();
    for (offset, bytes) in &played.written {
        ends.extend(
            [0, 1, 7, 8, 60, 65, 71].map(|more| offset + more).into_iter().filter(|end| *end < offset + bytes.len() as u64),
        );
    }
    let all = cells(Store::open(played.clone()).unwrap().disk());
    for end in ends {
        let mut cut = played.clone();
        cut.cut(end);
        let mut store = Store::open(cut).unwrap();
        assert!(cells(store.disk()).iter().all(|cell| all.contains(cell) || cell.0 != Span::Day), "cut at {end}");
        for turn in 0..2 {
            store.record((NOW + turn * 10) * 1000, &[(vlan(5), Reading::Counter(turn * 70))]).unwrap();
        }
        let seen = view(store.disk(), Span::Day, NOW + 10).unwrap();
        let curve = seen.curves.iter().find(|curve| curve.name == vlan(5)).unwrap();
        assert_eq!(curve.average[287], 7.0, "cut at {end}");
    }
}
