//! Files that an enemy has made: whole by their checksums, and wrong.

use crate::disk::{Pages, vlan};
use corelane_graphs::{Disk, Error, Name, Reading, SERIES_MAX, Span, Store, Subject, last_known, view};
use corelane_seam::Random;
use twox_hash::XxHash64;

const NOON: u64 = 1_700_049_600;

fn honest() -> Pages {
    let mut store = Store::open(Pages::default()).unwrap();
    let rule = Name::new(Subject::Rule { number: 100, text: "count ip from any to any // é".into() }, "packets");
    for turn in 0..40 {
        let readings = [(vlan(1), Reading::Counter(turn * 100)), (rule.clone(), Reading::Gauge(turn as f64))];
        store.record((NOON + turn * 30) * 1000, &readings).unwrap();
        store.note(NOON + turn, "changed").unwrap();
    }
    store.disk().clone()
}

/// Writes what is whole by its checksum.
fn put_sealed(disk: &mut Pages, offset: u64, mut bytes: Vec<u8>) {
    let sum = XxHash64::oneshot(offset, &bytes[8..]).to_le_bytes();
    bytes[..8].copy_from_slice(&sum);
    disk.put(offset, &bytes);
}

/// The first row that was written, which is one of a day, and where it lies.
fn first_row(disk: &Pages) -> (u64, Vec<u8>) {
    disk.written.iter().find(|(offset, _)| *offset > 1_314_815).cloned().unwrap()
}

/// A number that is wrong where any number could be.
fn odd(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX - random.below(1 << 20),
        3 => (NOON - NOON % 86_400).wrapping_add(random.below(3) * 300),
        4 => u64::from(f32::INFINITY.to_bits()) << 32 | u64::from(f32::NAN.to_bits()),
        _ => random.below(u64::MAX),
    }
}

#[test]
fn nothing_that_is_sealed_makes_it_panic_or_say_what_is_no_number() {
    let honest = honest();
    let mut random = Random::new(1);
    let mut opened = 0;
    for case in 0..700 {
        let mut disk = honest.clone();
        for _ in 0..1 + random.below(3) {
            let (offset, bytes) = &honest.written[random.below(honest.written.len() as u64) as usize];
            let mut bytes = bytes.clone();
            let most = [bytes.len().min(120) as u64 - 8, 17][random.index(2)];
            let at = 8 + random.below(most) as usize;
            let odd = odd(&mut random).to_le_bytes();
            let length = (bytes.len() - at).min(1 << random.below(4));
            bytes[at..at + length].copy_from_slice(&odd[..length]);
            // Sealed for its place, or for the length that it says it has.
            let columns = u32::from_le_bytes(bytes[20..24].try_into().unwrap()) as usize;
            if *offset > 1_400_000 && columns <= SERIES_MAX {
                bytes.resize(64 + columns * 8, 0xa5);
            }
            put_sealed(&mut disk, *offset, bytes);
        }
        let mut store = match Store::open(disk.clone()) {
            Ok(store) => store,
            Err(Error::Shape | Error::Version { .. } | Error::NotOurs) => continue,
            Err(error) => panic!("case {case}: {error}"),
        };
        opened += 1;
        let now = [NOON + 1200, 0, u64::MAX / 1000][case % 3];
        for turn in 0..2_u64 {
            store.record(now.saturating_mul(1000).saturating_sub(turn), &[(vlan(1), Reading::Counter(turn))]).unwrap();
            store.note(now, "on").unwrap();
        }
        for (span, now) in Span::ALL.into_iter().flat_map(|span| [(span, now), (span, NOON + 1200), (span, u64::MAX)]) {
            let view = view(store.disk(), span, now).unwrap();
            assert!(view.curves.len() <= SERIES_MAX && view.notes.len() <= 1024);
            let values = view.curves.iter().flat_map(|curve| curve.average.iter().chain(&curve.most));
            assert!(values.into_iter().all(|value| value.is_nan() || (value.is_finite() && *value >= 0.0)), "case {case}");
        }
    }
    assert!(opened > 400, "{opened}");
}

#[test]
fn a_step_after_the_end_of_time_is_none() {
    let honest = honest();
    let (offset, row) = first_row(&honest);
    let at = u64::from_le_bytes(row[8..16].try_into().unwrap());
    let first = offset - at / 300 % 288 * 32_768;
    for at in [u64::MAX - u64::MAX % 300, u64::MAX - u64::MAX % 86_400] {
        let (mut disk, mut row, there) = (honest.clone(), row.clone(), first + at / 300 % 288 * 32_768);
        row[8..16].copy_from_slice(&at.to_le_bytes());
        put_sealed(&mut disk, there, row);
        assert!(last_known(&disk).unwrap() < Some(NOON + 3000));
        Store::open(disk).unwrap().record(NOON * 1000, &[]).unwrap();
    }
}

/// The honest file, whose last row of a day has these bytes at this place, sealed.
fn with_last_row(at: usize, bytes: &[u8]) -> Pages {
    let mut disk = honest();
    let (offset, mut row) = disk.written.iter().rfind(|(offset, _)| *offset > 1_314_815).cloned().unwrap();
    row[at..at + bytes.len()].copy_from_slice(bytes);
    put_sealed(&mut disk, offset, row);
    disk
}

#[test]
fn a_row_that_knows_of_more_seconds_than_can_be_or_of_none_is_a_gap() {
    let known = |seconds: f32| {
        let curves = view(&with_last_row(16, &seconds.to_le_bytes()), Span::Day, NOON + 1199).unwrap().curves;
        curves.iter().all(|curve| !curve.average[287].is_nan())
    };
    assert!(known(1.0) && known(600.0), "an interval of up to a step may have ended in it");
    for wrong in [600.1, 1e30, f32::INFINITY, f32::NAN, 0.0, -1.0] {
        assert!(!known(wrong), "{wrong} seconds");
    }
}

#[test]
fn a_row_that_begins_in_the_midst_of_a_step_is_not_taken() {
    let (_, row) = first_row(&honest());
    let begin = u64::from_le_bytes(row[8..16].try_into().unwrap());
    let last = last_known(&honest()).unwrap().unwrap();
    assert!((last + 1).is_multiple_of(300) && last > begin);
    let midst = with_last_row(8, &(last - 299 + 7).to_le_bytes());
    assert_eq!(last_known(&midst).unwrap(), Some(last - 300), "the step before it is the last that is known");
}

#[test]
fn of_a_series_that_a_file_has_twice_the_last_counts() {
    let mut disk = honest();
    let (offset, name) = disk.written.iter().find(|(offset, _)| *offset == 4096).cloned().unwrap();
    // In the place of the rule, whose values are its minutes.
    put_sealed(&mut disk, offset + 256, name);
    for written in [disk.clone(), Store::open(disk).unwrap().disk().clone()] {
        let curves = view(&written, Span::Day, NOON + 1199).unwrap().curves;
        assert_eq!(curves.iter().map(|curve| (&curve.name, curve.most[287])).collect::<Vec<_>>(), [(&vlan(1), 39.0)]);
    }
}

/// Every known value with its name and step, and every note.
fn told(disk: &Pages) -> Vec<String> {
    let mut told = Vec::new();
    for span in Span::ALL {
        let view = view(disk, span, NOON + 1200).unwrap();
        for curve in view.curves {
            let known = curve.average.iter().zip(&curve.most).enumerate().filter(|(_, (average, _))| !average.is_nan());
            told.extend(known.map(|(step, values)| format!("{span:?} {step} {:?} {values:?}", curve.name)));
        }
        told.extend(view.notes.iter().map(|note| format!("{note:?}")));
    }
    told
}

#[test]
fn a_byte_that_has_changed_is_a_gap() {
    let honest = honest();
    let all = told(&honest);
    let mut places: Vec<_> = honest.written.iter().skip(1).map(|(offset, bytes)| (*offset, bytes.len())).collect();
    places.sort_unstable();
    places.dedup();
    let mut missing = 0;
    for (offset, length) in places {
        for at in (0..length).step_by(7) {
            let (mut disk, mut byte) = (honest.clone(), [0]);
            disk.read_at(offset + at as u64, &mut byte).unwrap();
            disk.put(offset + at as u64, &[byte[0] ^ 0x10]);
            let left = told(&disk);
            assert!(left.iter().all(|one| all.contains(one)), "byte {at} of {offset}");
            missing += usize::from(left.len() < all.len());
        }
    }
    assert!(missing > 100, "{missing}");
}

#[test]
fn what_was_sealed_for_another_place_is_not_taken() {
    let honest = honest();
    let mut name = [0; 256];
    honest.read_at(4096, &mut name).unwrap();
    let mut moved = honest.clone();
    moved.put(4096 + 256, &name);
    let names = |disk: &Pages| view(disk, Span::Day, NOON + 1200).unwrap().curves.len();
    assert_eq!((names(&honest), names(&moved)), (2, 1));
}
