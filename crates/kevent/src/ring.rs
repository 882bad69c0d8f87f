//! The ring: events in memory that a process shares with its children, taken without a call.
//!
//! ```text
//! word 0        where the next event goes: index, and how often the filling has gone round (its upper half)
//! word 1        threads of the queue's process that sleep at the queue: who puts events here by himself rings for them
//! word 16       how far events were taken: index, and how often the taking has gone round
//! word 17       threads that sleep here
//! word 32..     records, of 5 words
//! ```
//!
//! *Filling* is done under the memory's lock, and seen by one store, after the records: who dies at it leaves nothing behind. *Taking* is copying and then
//! one compare-and-swap of the position: of those that copy the same events one has them. A record is overwritten only once the position has gone past it,
//! and a position never comes back (its upper half counts rounds), so what was copied before a swap that went well is whole. A ring may be of any size from
//! 2, because a position is an index and a count of rounds, never a number that is divided.
//!
//! Other processes may write anything here. A position is checked wherever it is read; what makes no sense is refused, and never followed.

use crate::memory::{AtomicU64, Locked, Ordering, SharedMemory};
use crate::record::{Record, WORDS};
use corelane_event::Refused;
use corelane_os::events::number;

/// The fewest and the most events in a ring.
pub const SIZES: std::ops::RangeInclusive<u32> = 2..=1 << 20;

/// Where events begin, in words. Two cache lines lie between what different threads write.
pub const HEADER_WORDS: usize = 32;
const PRODUCED: usize = 0;
#[cfg(not(loom))]
pub(crate) const WAITING: usize = 1;
const CONSUMED: usize = 16;
#[cfg(not(loom))]
pub(crate) const SLEEPING: usize = 17;

const SIZE: Refused =
    Refused { number: number::EINVAL, words: "a ring has room for 2 to 1,048,576 events: the caller asks for so many" };
const PAST: Refused = Refused {
    number: number::EINVAL,
    words: "the index is beyond the ring, or beyond what is in it: the caller commits what it has read",
};
const STALE: Refused =
    Refused { number: number::EOVERFLOW, words: "others have gone round the ring since: the caller reads its position again" };
const OVERWRITTEN: Refused = Refused {
    number: number::EIO,
    words: "the ring's positions make no sense: a process that shares the ring has written over them",
};

/// A place in the endless row of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// In the ring; less than its size.
    pub index: u32,
    /// How often it has gone round; begins anew after 2^32 rounds.
    pub over: u32,
}

impl Position {
    fn word(self) -> u64 {
        u64::from(self.index) | u64::from(self.over) << 32
    }

    fn of(word: u64) -> Self {
        Self { index: word as u32, over: (word >> 32) as u32 }
    }

    /// Events from `earlier` to here; negative if that is later.
    fn after(self, earlier: Self, size: u32) -> i64 {
        let rounds = i64::from(self.over.wrapping_sub(earlier.over).cast_signed());
        rounds * i64::from(size) + i64::from(self.index) - i64::from(earlier.index)
    }

    fn advanced(self, events: u32, size: u32) -> Self {
        assert!(events <= size && self.index < size, "not further than once round");
        let left = size - self.index;
        let goes_round = events >= left;
        let index = if goes_round { events - left } else { self.index + events };
        Self { index, over: self.over.wrapping_add(u32::from(goes_round)) }
    }
}

/// See the module.
pub struct Ring {
    memory: SharedMemory,
    size: u32,
}

/// Both ends of what is in a ring.
struct Span {
    from: Position,
    count: u32,
}

impl Ring {
    /// An empty ring for `size` events.
    ///
    /// # Errors
    /// EINVAL: a size out of [`SIZES`]; ENOMEM, EMFILE: the system's.
    pub fn new(size: u32) -> Result<Self, Refused> {
        if !SIZES.contains(&size) {
            return Err(SIZE);
        }
        let words = "no memory for a ring: the operator allows the process more, or the caller asks for a smaller one";
        let refused = |error: std::io::Error| Refused { number: error.raw_os_error().unwrap_or(number::ENOMEM), words };
        let memory = SharedMemory::new(HEADER_WORDS + size as usize * WORDS).map_err(refused)?;
        Ok(Self { memory, size })
    }

    /// Events that it has room for.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Its words, records after [`HEADER_WORDS`] of them, for who reads them himself.
    #[cfg(not(loom))]
    pub fn words(&self) -> &[AtomicU64] {
        self.memory.words()
    }

    /// How far events were taken.
    pub fn position(&self) -> Position {
        Position::of(self.word(CONSUMED).load(Ordering::Acquire))
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Events that there are to take; as many as it has room for where it was written over.
    pub fn len(&self) -> u32 {
        self.span().map_or(self.size, |span| span.count)
    }

    /// Takes events, in the order in which they became ready, as many as there are and `records` has room for, without a call to the system. Of several
    /// threads or processes each event is one's.
    ///
    /// # Errors
    /// EIO: the ring was written over.
    pub fn take(&self, records: &mut [Record]) -> Result<usize, Refused> {
        loop {
            let span = self.span()?;
            let count = span.count.min(u32::try_from(records.len()).unwrap_or(u32::MAX));
            self.copy(&span, &mut records[..count as usize]);
            let to = span.from.advanced(count, self.size);
            if count == 0 || self.move_on(span.from, to) {
                return Ok(count as usize);
            }
        }
    }

    /// Frees what lies before `to`, and says how many events that were; of those that a thread has copied before, so many of the last are its own. `to` counts the
    /// rounds of the index that it has, so that a thread that comes late never frees what others are to read.
    ///
    /// # Errors
    /// EINVAL: no index of this ring, or beyond what is in it; EOVERFLOW: of an earlier round than the ring is in; EIO: the ring was written over.
    pub fn commit(&self, to: Position) -> Result<u32, Refused> {
        loop {
            let span = self.span()?;
            let freed = to.after(span.from, self.size);
            if to.index >= self.size || freed > i64::from(span.count) {
                return Err(PAST);
            }
            if freed <= 0 {
                // Others were faster.
                return if to.over == span.from.over || freed == 0 { Ok(0) } else { Err(STALE) };
            }
            if self.move_on(span.from, to) {
                // reason: no more than the ring's count.
                return Ok(u32::try_from(freed).expect("as many as there are"));
            }
        }
    }

    /// Copies of what was not taken yet; what is taken meanwhile may be among it.
    pub(crate) fn left(&self) -> Vec<Record> {
        let Ok(span) = self.span() else { return Vec::new() };
        let mut records = vec![Record::default(); span.count as usize];
        self.copy(&span, &mut records);
        records
    }

    /// Begins to fill; nobody else does until that is dropped.
    pub(crate) fn fill(&self) -> Result<Filling<'_>, Refused> {
        let lock = self.memory.lock();
        let span = self.span()?;
        assert!(span.count <= self.size, "a ring that makes sense holds no more than it has room for");
        let at = span.from.advanced(span.count, self.size);
        Ok(Filling { ring: self, at, room: self.size - span.count, filled: 0, _lock: lock })
    }

    /// The word that changes with each filling.
    #[cfg(not(loom))]
    pub(crate) fn produced(&self) -> &AtomicU64 {
        self.word(PRODUCED)
    }

    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        &self.memory.words()[index]
    }

    /// What there is to take.
    fn span(&self) -> Result<Span, Refused> {
        loop {
            let from = self.position();
            let to = Position::of(self.word(PRODUCED).load(Ordering::Acquire));
            if self.position() != from {
                // The two were read too far apart to belong together.
                continue;
            }
            let count = to.after(from, self.size);
            let makes_sense = from.index < self.size && to.index < self.size && (0..=i64::from(self.size)).contains(&count);
            // reason: it is at most the size.
            return if makes_sense { Ok(Span { from, count: count as u32 }) } else { Err(OVERWRITTEN) };
        }
    }

    fn copy(&self, span: &Span, records: &mut [Record]) {
        assert!(records.len() <= span.count as usize, "only what is there is copied");
        let mut at = span.from;
        for record in records {
            let words = std::array::from_fn(|word| self.slot(at, word).load(Ordering::Relaxed));
            *record = Record::from_words(words);
            at = at.advanced(1, self.size);
        }
    }

    fn slot(&self, at: Position, word: usize) -> &AtomicU64 {
        self.word(HEADER_WORDS + at.index as usize * WORDS + word)
    }

    /// The position goes on, unless somebody else was faster.
    fn move_on(&self, from: Position, to: Position) -> bool {
        // Released: what was copied was copied before a filler sees the new position, and overwrites it.
        self.word(CONSUMED).compare_exchange(from.word(), to.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("size", &self.size).field("position", &self.position()).finish_non_exhaustive()
    }
}

/// A ring that is being filled: what was put is seen when this is dropped.
pub(crate) struct Filling<'a> {
    ring: &'a Ring,
    at: Position,
    room: u32,
    filled: u32,
    _lock: Locked<'a>,
}

impl Filling<'_> {
    /// For how many more there is room.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// How many were put.
    pub fn filled(&self) -> u32 {
        self.filled
    }

    /// Puts one, which there is room for.
    pub fn put(&mut self, record: &Record) {
        assert!(self.room > 0, "a full ring takes nothing");
        for (index, word) in record.to_words().into_iter().enumerate() {
            self.ring.slot(self.at, index).store(word, Ordering::Relaxed);
        }
        self.at = self.at.advanced(1, self.ring.size);
        (self.room, self.filled) = (self.room - 1, self.filled + 1);
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        assert!(self.room + self.filled <= self.ring.size, "what is put takes room that there was");
        if self.filled > 0 {
            self.ring.word(PRODUCED).store(self.at.word(), Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::record::Kind;
    use loom::sync::Arc;
    use loom::thread;

    fn put(ring: &Ring, id: u64) -> bool {
        let mut filling = ring.fill().expect("a whole ring");
        let has_room = filling.room() > 0;
        if has_room {
            filling.put(&Record { user: !id, ..Record::new(Kind::Signal, id, 1) });
        }
        has_room
    }

    /// What one take brings; whole records alone.
    fn take(ring: &Ring) -> Vec<u64> {
        let mut records = [Record::default(); 2];
        let count = ring.take(&mut records).expect("a whole ring");
        let whole = |record: &Record| {
            assert_eq!(record.user, !record.id, "a torn record");
            record.id
        };
        records[..count].iter().map(whole).collect()
    }

    #[test]
    fn loom_two_takers_and_a_filler_that_overwrites_see_each_event_once_and_whole() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(2).expect("memory"));
            assert!(put(&ring, 1) && put(&ring, 2));
            let takers: Vec<_> = (0..2)
                .map(|_| {
                    let ring = ring.clone();
                    thread::spawn(move || take(&ring))
                })
                .collect();
            let third = put(&ring, 3);
            let mut seen: Vec<u64> = takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect();
            seen.extend(take(&ring));
            seen.extend(take(&ring));
            seen.sort_unstable();
            assert_eq!(seen, if third { vec![1, 2, 3] } else { vec![1, 2] });
        });
    }

    #[test]
    fn loom_a_commit_that_comes_late_frees_nothing_of_others() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(2).expect("memory"));
            assert!(put(&ring, 1) && put(&ring, 2));
            let one = Position { index: 1, over: 0 };
            let committers: Vec<_> = (0..2)
                .map(|_| {
                    let ring = ring.clone();
                    thread::spawn(move || ring.commit(one).expect("within the round"))
                })
                .collect();
            let freed: u32 = committers.into_iter().map(|committer| committer.join().expect("no panic")).sum();
            assert_eq!((freed, take(&ring)), (1, vec![2]));
        });
    }
}
