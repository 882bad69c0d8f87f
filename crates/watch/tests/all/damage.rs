//! Files that are no page, or a damaged one: a reader says what is wrong or reads what it can, and never fails otherwise.

use crate::common::{Scratch, description};
use corelane_watch::{CounterName, Error, Kind, Page, PageError, Reader, ServiceCounter};
use proptest::prelude::*;
use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

/// The bytes of a good page and a place for bad ones.
struct Bench {
    scratch: Scratch,
    good: Vec<u8>,
}

impl Bench {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let mut description = description(3, 2);
        let counter = |number| CounterName { name: format!("counter_{number}"), kind: Kind::Counter, unit: "hits".into() };
        description.services[1].counters = (0..9).map(counter).collect();
        let mut page = Page::create(&scratch, &description).unwrap();
        page.note("a note");
        page.service(1, 1).unwrap().add(ServiceCounter::Requests, 41);
        let good = fs::read(page.path().unwrap()).unwrap();
        Self { scratch, good }
    }

    fn path(&self) -> PathBuf {
        self.scratch.path().join("file")
    }

    fn open(&self, bytes: &[u8]) -> Result<Reader, Error> {
        fs::write(self.path(), bytes).unwrap();
        Reader::open(&self.path())
    }

    /// The good page with some words changed.
    fn changed(&self, words: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = self.good.clone();
        for &(index, value) in words {
            bytes[index * 8..index * 8 + 8].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }
}

fn read_all(reader: &Reader) -> usize {
    let snapshot = reader.snapshot(5);
    assert!(snapshot.lanes.iter().all(|lane| lane.services.len() == snapshot.services.len()));
    let rows =
        snapshot.lanes.iter().flat_map(|lane| &lane.services).chain(snapshot.services.iter().map(|service| &service.values));
    let connections: usize = (0..snapshot.lanes.len()).map(|lane| reader.connections(lane).len()).sum();
    connections
        + snapshot.total.all().count()
        + rows.map(|row| row.all().map(|value| value.name.len()).sum::<usize>()).sum::<usize>()
}

#[test]
fn what_differs_is_said() {
    let bench = Bench::new("differs");
    let error = |words: &[(usize, u64)]| bench.open(&bench.changed(words)).unwrap_err();
    assert!(matches!(error(&[(0, 1)]), Error::Magic { got: 1, .. }));
    assert!(matches!(error(&[(1, 1)]), Error::LayoutVersion { expected: 6, got: 1 }));
    let other = error(&[(2, 0xabc)]);
    assert!(matches!(&other, Error::Catalogue { got: 0xabc, program, .. } if program == "test 1.0"));
    assert!(other.to_string().contains("use the `corelane` that belongs to the service"), "{other}");
    assert!(matches!(error(&[(3, 0)]), Error::Shape { what: "lanes", got: 0, .. }));
    assert!(matches!(error(&[(3, u64::MAX)]), Error::Shape { what: "lanes", .. }));
    assert!(matches!(error(&[(4, u64::MAX)]), Error::Shape { what: "services", .. }));
    assert!(matches!(error(&[(9, u64::MAX)]), Error::Shape { what: "connections a lane", .. }));
    assert!(matches!(error(&[(9, 500)]), Error::Truncated { .. }));
    assert!(matches!(error(&[(3, 4)]), Error::Truncated { .. }));
    assert!(matches!(error(&[(4, 3)]), Error::Truncated { .. }));
    let words = bench.good.len() / 8;
    let cut = bench.open(&bench.good[..bench.good.len() - 1]).unwrap_err();
    assert!(matches!(cut, Error::Truncated { expected, got } if expected == words && got == words - 1));
    assert!(matches!(bench.open(b"").unwrap_err(), Error::Memory(PageError::NoPage { got_bytes: 0, .. })));
}

#[test]
fn a_page_that_grew_is_read_as_it_was() {
    let bench = Bench::new("grew");
    let before = bench.open(&bench.good).unwrap().snapshot(0);
    let longer = [&bench.good[..], &[0xff; 5000]].concat();
    assert_eq!(bench.open(&longer).unwrap().snapshot(0), before);
    assert_eq!(before.services[1].values.get(ServiceCounter::Requests), 41);
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..100_u64, Just(u64::MAX), Just(240), Just(241)]
}

#[test]
fn damaged_pages_do_no_harm() {
    let bench = Bench::new("damaged");
    let words = bench.good.len() / 8;
    // Most of the damage where lengths stand: behind the version and hash, which would refuse it.
    let index = prop_oneof![3..words, 3..40_usize, 3..400_usize];
    let damage = (proptest::collection::vec((index, word()), 0..60), 0..words * 8 + 999, any::<bool>());
    let (read, refused) = (Cell::new(0), Cell::new(0));
    proptest!(|((changes, length, cut) in damage)| {
        let mut bytes = bench.changed(&changes);
        if cut {
            bytes.resize(length, 0xa5);
        }
        match bench.open(&bytes) {
            // A page of this size cannot say more than this, whatever it says.
            Ok(reader) => {
                prop_assert!(read_all(&reader) < 1 << 20);
                read.set(read.get() + 1);
            }
            Err(_) => refused.set(refused.get() + 1),
        }
    });
    assert!(read.get() > 0 && refused.get() > 0, "{read:?} read, {refused:?} refused");
}

#[test]
fn foreign_words_do_no_harm() {
    let bench = Bench::new("foreign");
    // Many of each fit into few of the files, few into most.
    let few = || prop_oneof![0..2_u64, 0..6_u64];
    let connections = prop_oneof![0..4_u64, 0..600_u64];
    let noise = (any::<u64>(), 80..400_000_u64)
        .prop_map(|(seed, length)| (1..=length).map(|number| (seed.wrapping_mul(number) >> 56) as u8).collect::<Vec<_>>());
    let foreign = (noise, few(), few(), connections, any::<bool>());
    let (read, refused) = (Cell::new(0), Cell::new(0));
    proptest!(|((mut bytes, lanes, services, connections, looks_right) in foreign)| {
        if looks_right {
            bytes[..24].copy_from_slice(&bench.good[..24]);
            bytes[24..32].copy_from_slice(&lanes.to_ne_bytes());
            bytes[32..40].copy_from_slice(&services.to_ne_bytes());
            bytes[72..80].copy_from_slice(&connections.to_ne_bytes());
        }
        match bench.open(&bytes) {
            Ok(reader) => {
                prop_assert!(looks_right && read_all(&reader) < 1 << 20);
                read.set(read.get() + 1);
            }
            Err(_) => refused.set(refused.get() + 1),
        }
    });
    assert!(read.get() > 0 && refused.get() > 0, "{read:?} read, {refused:?} refused");
}

#[test]
fn what_is_cut_off_while_it_is_looked_at_is_read_as_zeros_and_said() {
    let bench = Bench::new("cut-off");
    let words = bench.good.len() as u64 / 8;
    for left in [words - 1, words / 2, 513, 1, 0] {
        let reader = bench.open(&bench.good).unwrap();
        let whole = reader.snapshot(1);
        assert_eq!((whole.services[1].values.get(ServiceCounter::Requests), whole.notes.len()), (41, 1));
        fs::File::options().write(true).open(bench.path()).unwrap().set_len(8 * left).unwrap();
        read_all(&reader);
        reader.steering();
        let notes = reader.snapshot(2).notes;
        assert!(notes.last().is_some_and(|note| note.contains("cut off")), "{notes:?}");
        // What comes in the place of what was there is not the process's.
        fs::write(bench.path(), &bench.good).unwrap();
        read_all(&reader);
        assert!(reader.notes().last().is_some_and(|note| note.contains("cut off")));
    }
}
