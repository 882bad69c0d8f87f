//! A ring of any size, filled and emptied.
#![allow(clippy::unwrap_used, reason = "all of it is test code")]

use super::*;
use crate::record::Kind;

fn record(id: u64) -> Record {
    Record::new(Kind::Signal, id, 1)
}

/// Puts as many of `ids` as there is room for.
fn put(ring: &Ring, ids: std::ops::Range<u64>) -> u32 {
    let mut filling = ring.fill().unwrap();
    for id in ids {
        if filling.room() > 0 {
            filling.put(&record(id));
        }
    }
    filling.filled()
}

fn take(ring: &Ring, room: usize) -> Vec<u64> {
    let mut records = vec![Record::default(); room];
    let count = ring.take(&mut records).unwrap();
    records[..count].iter().map(|record| record.id).collect()
}

#[test]
fn a_ring_is_of_any_size_from_two() {
    for size in [2, 3, 5, 7, 100] {
        let ring = Ring::new(size).unwrap();
        let (mut next, mut expected) = (0, 0);
        for step in 0..200 {
            next += u64::from(put(&ring, next..next + 1 + step % 4));
            for id in take(&ring, 1 + (step as usize * 7) % 5) {
                assert_eq!(id, expected);
                expected += 1;
            }
        }
        assert!(next - expected <= u64::from(size) && expected > 100);
    }
    for size in [0, 1, (1 << 20) + 1, u32::MAX] {
        assert_eq!(Ring::new(size).unwrap_err(), SIZE);
    }
}

#[test]
fn a_full_ring_takes_nothing_and_an_empty_one_gives_nothing() {
    let ring = Ring::new(3).unwrap();
    assert_eq!((put(&ring, 0..9), put(&ring, 9..10), ring.is_empty()), (3, 0, false));
    assert_eq!((take(&ring, 9), take(&ring, 9), ring.is_empty()), (vec![0, 1, 2], vec![], true));
}

#[test]
fn a_commit_frees_up_to_its_position_and_never_beyond() {
    let ring = Ring::new(3).unwrap();
    put(&ring, 0..3);
    let at = |index, over| ring.commit(Position { index, over });
    assert_eq!((at(3, 0), at(1, 1), at(2, 7)), (Err(PAST), Err(PAST), Err(PAST)));
    assert_eq!((at(2, 0), at(1, 0), at(2, 0)), (Ok(2), Ok(0), Ok(0)), "who comes late frees nothing");
    put(&ring, 3..5);
    assert_eq!((ring.position(), at(1, 1)), (Position { index: 2, over: 0 }, Ok(2)));
    assert_eq!((at(2, 0), at(0, u32::MAX)), (Err(STALE), Err(STALE)));
    assert_eq!((take(&ring, 3), at(2, 1)), (vec![4], Ok(0)));
}

#[test]
fn rounds_begin_anew_and_nothing_is_lost() {
    let ring = Ring::new(3).unwrap();
    let last = Position { index: 2, over: u32::MAX };
    ring.word(PRODUCED).store(last.word(), Ordering::Relaxed);
    ring.word(CONSUMED).store(last.word(), Ordering::Relaxed);
    assert_eq!(put(&ring, 0..3), 3);
    assert_eq!((take(&ring, 1), ring.position()), (vec![0], Position { index: 0, over: 0 }));
    assert_eq!((ring.commit(last), take(&ring, 3)), (Err(STALE), vec![1, 2]));
}

#[test]
fn positions_that_make_no_sense_are_refused() {
    let ring = Ring::new(3).unwrap();
    put(&ring, 0..2);
    for (word, value) in [(PRODUCED, 3), (PRODUCED, u64::MAX), (CONSUMED, 3), (CONSUMED, 1 << 40), (CONSUMED, 9)] {
        let before = ring.word(word).swap(value, Ordering::Relaxed);
        assert_eq!(ring.take(&mut [record(0); 2]), Err(OVERWRITTEN));
        assert_eq!(ring.commit(Position { index: 1, over: 0 }), Err(OVERWRITTEN));
        assert_eq!((ring.fill().err(), ring.left()), (Some(OVERWRITTEN), vec![]));
        ring.word(word).store(before, Ordering::Relaxed);
    }
    assert_eq!(take(&ring, 3), vec![0, 1]);
}
