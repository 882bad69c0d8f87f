//! Small files in the lane's memory, up to a number of bytes.
//!
//! Who enters is put at the end of a short queue; who is asked for there moves to the long one, who is not leaves soon, and is remembered by its hash, so that it enters
//! the long queue if it comes again. So a crawler that asks for each file once takes a tenth of the memory and no more (S3-FIFO: Yang and others, "FIFO queues are all you need
//! for cache eviction", SOSP 2023).

use super::directories::{Directory, TRUE_FOR, VOUCHED_FOR};
use super::entity::Entity;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::rc::{Rc, Weak};

/// Bytes counted for an entry, beside its name and its content.
const ENTRY_BYTES: usize = 256;
/// As often as this a use is noted.
const USES_MAX: u8 = 3;
/// Names that are remembered after they have left, at the least.
const GHOSTS_MIN: usize = 256;

/// What is known of a name.
#[derive(Clone)]
pub(super) enum Known {
    /// This lies there.
    File(Rc<Entity>),
    /// Nothing lies there: kept only for what would lie beside a file.
    Nothing,
}

impl Known {
    /// Whether it was found to be another one since.
    fn is_outdated(&self) -> bool {
        if let Self::File(entity) = self { entity.is_outdated() } else { false }
    }
}

/// When something was last seen to be so, and for how long that is taken for true.
#[derive(Clone)]
pub(super) struct Seen {
    /// In nanoseconds of the lane's clock.
    at: u64,
    /// Where it lies, if that is watched, or is to be.
    directory: Option<Rc<Directory>>,
    standing: Standing,
}

/// Whether the directory stood while something in it was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// All the while.
    Vouches,
    /// Not yet: what happened between the look and its watch nobody tells.
    Comes,
    /// It says nothing of this.
    Irrelevant,
}

impl Seen {
    /// It is true for a second, and no longer than nothing is told of the directory, if there is one, nor than until that stands, if it does not yet: then a look
    /// is vouched for.
    pub fn at(at: u64, directory: Option<Rc<Directory>>) -> Self {
        let comes = directory.as_ref().is_some_and(|directory| !directory.stands());
        Self { at, directory, standing: if comes { Standing::Comes } else { Standing::Irrelevant } }
    }

    /// It is true until something is told of the directory, which stood while it was seen.
    pub fn vouched(at: u64, directory: Rc<Directory>) -> Self {
        assert!(directory.stands(), "nobody else would tell of a change");
        Self { at, directory: Some(directory), standing: Standing::Vouches }
    }

    fn holds(&self, now: u64) -> bool {
        let age = now.saturating_sub(self.at);
        match &self.directory {
            Some(directory) if directory.is_told() => false,
            Some(directory) if directory.stands() => match self.standing {
                Standing::Vouches => age <= VOUCHED_FOR,
                Standing::Comes => false,
                Standing::Irrelevant => age <= TRUE_FOR,
            },
            _ => age <= TRUE_FOR,
        }
    }
}

/// A name in a queue, and which of its entries is meant.
type Queued = (Rc<[u8]>, u64);

struct Cached {
    known: Known,
    seen: Seen,
    uses: Cell<u8>,
    bytes: usize,
    stamp: u64,
    is_main: bool,
}

/// The cache.
pub(super) struct Cache {
    entries: BTreeMap<Rc<[u8]>, Cached>,
    small: VecDeque<Queued>,
    main: VecDeque<Queued>,
    ghosts: VecDeque<u64>,
    ghost_set: BTreeSet<u64>,
    small_bytes: usize,
    bytes: usize,
    bytes_max: usize,
    stamp: u64,
}

impl Cache {
    pub fn new(bytes_max: usize) -> Self {
        let (entries, small, main, ghosts, ghost_set) = Default::default();
        Self { entries, small, main, ghosts, ghost_set, small_bytes: 0, bytes: 0, bytes_max, stamp: 0 }
    }

    /// What is known of `key`, if that is taken for true at `now`; this is a use.
    pub fn get(&self, key: &[u8], now: u64) -> Option<&Known> {
        let entry = self.entries.get(key).filter(|entry| entry.seen.holds(now) && !entry.known.is_outdated())?;
        entry.uses.set((entry.uses.get() + 1).min(USES_MAX));
        Some(&entry.known)
    }

    /// What was known of `key`, however long ago.
    pub fn peek(&self, key: &[u8]) -> Option<&Known> {
        self.entries.get(key).map(|entry| &entry.known)
    }

    /// Whether it has this file under `key`.
    pub fn has(&self, key: &[u8], entity: &Weak<Entity>) -> bool {
        matches!(self.peek(key), Some(Known::File(known)) if std::ptr::eq(Rc::as_ptr(known), entity.as_ptr()))
    }

    /// Notes what was seen; it may be too large to be kept.
    pub fn put(&mut self, key: &[u8], known: Known, seen: Seen) {
        let content = if let Known::File(entity) = &known { entity.charge() } else { 0 };
        let bytes = ENTRY_BYTES + 2 * key.len() + content;
        if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.bytes == bytes) {
            (entry.known, entry.seen) = (known, seen);
            return;
        }
        self.remove(key);
        // What would drive out most of the others is not worth it.
        if bytes > self.bytes_max / 4 {
            return;
        }
        let (key, stamp): (Rc<[u8]>, u64) = (key.into(), self.stamp);
        self.stamp += 1;
        let is_main = self.ghost_set.remove(&hash(&key));
        let queue = if is_main { &mut self.main } else { &mut self.small };
        queue.push_back((key.clone(), stamp));
        self.small_bytes += if is_main { 0 } else { bytes };
        self.bytes += bytes;
        self.entries.insert(key, Cached { known, seen, uses: Cell::new(0), bytes, stamp, is_main });
        self.shrink_to(self.bytes_max);
        self.sweep();
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let Some(entry) = self.entries.remove(key) else { return false };
        self.bytes -= entry.bytes;
        self.small_bytes -= if entry.is_main { 0 } else { entry.bytes };
        true
    }

    /// Forgets those whose keys are meant.
    pub fn forget(&mut self, is_meant: impl Fn(&[u8]) -> bool) {
        let meant: Vec<_> = self.entries.keys().filter(|key| is_meant(key)).cloned().collect();
        for key in &meant {
            self.remove(key);
        }
        self.sweep();
    }

    /// Lets go until no more than `bytes` are kept; returns how many were let go.
    pub fn shrink_to(&mut self, bytes: usize) -> usize {
        let before = self.bytes;
        while self.bytes > bytes {
            match self.small_bytes > self.bytes_max / 10 || self.main.is_empty() {
                true => self.leave_small(),
                false => self.leave_main(),
            }
        }
        before - self.bytes
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first of the short queue moves to the long one, or leaves.
    fn leave_small(&mut self) {
        // reason: bytes are counted for entries alone, and each stands in a queue.
        let (key, stamp) = self.small.pop_front().expect("what is counted stands in a queue");
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.stamp == stamp) else { return };
        if entry.uses.replace(0) > 0 {
            entry.is_main = true;
            self.small_bytes -= entry.bytes;
            self.main.push_back((key, stamp));
            return;
        }
        self.remove(&key);
        self.remember(hash(&key));
    }

    /// The first of the long queue goes to its end, or leaves.
    fn leave_main(&mut self) {
        // reason: it was looked whether there is one.
        let (key, stamp) = self.main.pop_front().expect("the queue is not empty");
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.stamp == stamp) else { return };
        match entry.uses.get().checked_sub(1) {
            Some(uses) => {
                entry.uses.set(uses);
                self.main.push_back((key, stamp));
            }
            None => drop(self.remove(&key)),
        }
    }

    fn remember(&mut self, ghost: u64) {
        if self.ghost_set.insert(ghost) {
            self.ghosts.push_back(ghost);
        }
        while self.ghosts.len() > self.entries.len().max(GHOSTS_MIN) {
            // reason: there are more than so many.
            let oldest = self.ghosts.pop_front().expect("who is one too many is there");
            self.ghost_set.remove(&oldest);
        }
    }

    /// Takes out of the queues what is no entry any more, once that is most of them.
    fn sweep(&mut self) {
        if self.small.len() + self.main.len() <= 2 * self.entries.len() + GHOSTS_MIN {
            return;
        }
        let entries = &self.entries;
        let is_there = |(key, stamp): &Queued| entries.get(key).is_some_and(|entry| entry.stamp == *stamp);
        self.small.retain(is_there);
        self.main.retain(is_there);
    }
}

/// Whoever finds two names with the same only has one of them kept longer.
fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::super::entity::Content;
    use super::*;
    use corelane::service::FileFacts;
    use corelane_wire::http1::Coding;
    use std::time::Duration;

    /// Of so many entries with a name of four bytes.
    fn room_for(entries: usize) -> Cache {
        Cache::new(entries * (ENTRY_BYTES + 8))
    }

    fn key(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }

    fn put(cache: &mut Cache, number: u32) {
        cache.put(&key(number), Known::Nothing, Seen::at(0, None));
        let kept: usize = cache.entries.values().map(|entry| entry.bytes).sum();
        let small: usize = cache.entries.values().filter(|entry| !entry.is_main).map(|entry| entry.bytes).sum();
        assert!(kept == cache.bytes && small == cache.small_bytes && kept <= cache.bytes_max);
        assert!(cache.small.len() + cache.main.len() <= 2 * cache.entries.len() + GHOSTS_MIN + 1);
        assert!(cache.ghost_set.len() <= cache.ghosts.len() && cache.ghosts.len() <= cache.entries.len().max(GHOSTS_MIN));
    }

    #[test]
    fn what_is_asked_for_outlives_a_crawler() {
        let mut cache = room_for(100);
        for number in 0..50 {
            put(&mut cache, number);
            assert!(cache.get(&key(number), 0).is_some());
        }
        (1_000..5_000).for_each(|number| put(&mut cache, number));
        assert!((0..50).all(|number| cache.peek(&key(number)).is_some()), "what was used stays");
        assert!(cache.entries.len() <= 100);
    }

    #[test]
    fn who_comes_again_soon_stays() {
        let mut cache = room_for(100);
        (0..200).for_each(|number| put(&mut cache, number));
        assert!(cache.peek(&key(99)).is_none() && cache.ghost_set.contains(&hash(&key(99))));
        put(&mut cache, 99);
        (200..290).for_each(|number| put(&mut cache, number));
        assert!(cache.peek(&key(99)).is_some());
    }

    #[test]
    fn what_was_seen_too_long_ago_is_not_used() {
        let mut cache = room_for(10);
        cache.put(b"a", Known::Nothing, Seen::at(5, None));
        assert!(cache.get(b"a", TRUE_FOR + 5).is_some() && cache.get(b"a", TRUE_FOR + 6).is_none());
        assert!(cache.peek(b"a").is_some());
        cache.put(b"a", Known::Nothing, Seen::at(7, None));
        assert!(cache.get(b"a", TRUE_FOR + 6).is_some());
    }

    #[test]
    fn removed_and_put_again_without_end_takes_no_more() {
        let mut cache = room_for(10);
        for round in 0..10_000 {
            put(&mut cache, round % 3);
            assert!(cache.remove(&key(round % 3)));
        }
        assert_eq!((cache.bytes(), cache.small_bytes), (0, 0));
    }

    #[test]
    fn those_that_are_meant_are_forgotten_and_no_others() {
        let mut cache = room_for(2_000);
        (0..2_000).for_each(|number| put(&mut cache, number));
        let is_meant = |key: &[u8]| key[3] & 1 == 1;
        cache.forget(is_meant);
        assert!((0..2_000).all(|number| cache.peek(&key(number)).is_none() == (number & 1 == 1)));
        assert_eq!(cache.bytes(), 1_000 * (ENTRY_BYTES + 8));
        cache.forget(|_| true);
        assert_eq!((cache.bytes(), cache.small_bytes, cache.entries.len()), (0, 0, 0));
        assert!(cache.small.len() + cache.main.len() <= GHOSTS_MIN);
    }

    /// What is lent to others is taken from those that are used least, and no more than is wanted.
    #[test]
    fn it_shrinks_as_far_as_it_is_told_to() {
        let mut cache = room_for(100);
        (0..100).for_each(|number| put(&mut cache, number));
        assert!((0..20).all(|number| cache.get(&key(number), 0).is_some()));
        let before = cache.bytes();
        assert_eq!(cache.shrink_to(before), 0);
        assert_eq!(cache.shrink_to(before / 2 + 1), before / 2);
        assert_eq!(cache.bytes(), before / 2);
        assert!((0..20).all(|number| cache.peek(&key(number)).is_some()), "who was asked for stays");
        assert_eq!((cache.shrink_to(0), cache.bytes(), cache.entries.len()), (before / 2, 0, 0));
    }

    /// What is put again under its name may be larger or smaller than before.
    #[test]
    fn what_grows_and_shrinks_is_charged_as_it_is() {
        let mut cache = Cache::new(1 << 20);
        for name in ["x", "a/long.css", "x", "x", "b.html"] {
            let facts = FileFacts::of_file(26, Duration::ZERO);
            let entity = Rc::new(Entity::new(name, Coding::Identity, facts, Content::Empty, Duration::ZERO));
            assert!(entity.charge() > size_of::<Entity>() + entity.lines().len() && entity.charge() < 2_000);
            cache.put(b"a", Known::File(entity.clone()), Seen::at(0, None));
            assert_eq!(cache.bytes(), ENTRY_BYTES + 2 + entity.charge());
        }
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let mut cache = Cache::new(1000);
        cache.put(&[0; 200], Known::Nothing, Seen::at(0, None));
        assert_eq!(cache.bytes(), 0);
        let mut none = Cache::new(0);
        none.put(b"a", Known::Nothing, Seen::at(0, None));
        assert!(none.peek(b"a").is_none());
    }
}
