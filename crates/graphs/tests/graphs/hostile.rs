//! Files that an enemy has made: whole by their checksums, and wrong.

use crate::disk::{Pages, vlan};
use corelane_graphs::{Disk, Error, Name, Reading, SERIES_MAX, Span, Store, Subject, view};
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
            let at = 8 + random.below(bytes.len().min(120) as u64 - 8) as usize;
            let odd = odd(&mut random).to_le_bytes();
            let length = (bytes.len() - at).min(1 << random.below(4));
            bytes[at..at + length].copy_from_slice(&odd[..length]);
            // Sealed for its place, or for the length that it says it has.
            let columns = u32::from_le_bytes(bytes[20..24].try_into().unwrap()) as usize;
            if *offset > 1_400_000 && columns <= SERIES_MAX {
                bytes.resize(64 + columns * 8, 0xa5);
            }
            let sum = XxHash64::oneshot(*offset, &bytes[8..]).to_le_bytes();
            bytes[..8].copy_from_slice(&sum);
            disk.put(*offset, &bytes);
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
fn what_was_sealed_for_another_place_is_not_taken() {
    let honest = honest();
    let mut bytes = vec![0; 64 + 16];
    let (offset, _) = honest.written.iter().rev().find(|(offset, _)| *offset > 1_400_000).unwrap();
    honest.read_at(*offset, &mut bytes).unwrap();
    let mut moved = honest.clone();
    moved.put(offset + 32_768, &bytes);
    moved.put(*offset, &[0; 80]);
    let known = |disk: &Pages| {
        let view = view(disk, Span::Day, NOON + 1200).unwrap();
        view.curves.iter().flat_map(|curve| &curve.average).filter(|value| !value.is_nan()).count()
    };
    assert!(known(&moved) < known(&honest));
}
