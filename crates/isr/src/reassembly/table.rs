//! Datagrams by their keys: buckets, the newest first in each, and all of them by age, as well as those of each source and of each family.

use super::fragment::Key;
use corelane_seam::slab::Slab;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Buckets.
pub(super) const BUCKETS: usize = 1024;

/// Sources that are told apart: what falls together is counted together.
const SOURCES: usize = 1024;

/// Neighbours in a list.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    newer: Option<u32>,
    older: Option<u32>,
}

/// The ends of a list.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    newest: Option<u32>,
    oldest: Option<u32>,
    length: usize,
}

/// What a source has here.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    datagrams: Ends,
    pieces: usize,
}

struct ReassemblyQueue<T> {
    key: Key,
    bucket: usize,
    source: usize,
    value: T,
    in_bucket: Links,
    in_source: Links,
    in_family: Links,
    in_all: Links,
}

/// The table.
pub(super) struct ReassemblyQueues<T> {
    secret: u128,
    entries: Slab<ReassemblyQueue<T>>,
    buckets: Box<[Ends]>,
    sources: Box<[Share]>,
    /// Those of IPv4 and of IPv6: each family waits for a time of its own.
    families: [Ends; 2],
    all: Ends,
}

/// Which of its four lists an entry is linked in.
type Lists<T> = fn(&mut ReassemblyQueue<T>) -> &mut Links;

impl<T> ReassemblyQueues<T> {
    pub fn new(secret: u128) -> Self {
        let (buckets, sources) = (vec![Ends::default(); BUCKETS].into(), vec![Share::default(); SOURCES].into());
        Self { secret, entries: Slab::new(), buckets, sources, families: Default::default(), all: Ends::default() }
    }

    pub fn len(&self) -> usize {
        assert_eq!(self.all.length, self.entries.len(), "every entry is in the list of all");
        self.entries.len()
    }

    pub fn at(&self, index: u32) -> &T {
        &self.entries.at(index).value
    }

    pub fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self.entries.at_mut(index).value
    }

    /// The entry at an index that may be free.
    pub fn get(&mut self, index: u32) -> Option<&T> {
        self.entries.find(index).map(|entry| &entry.value)
    }

    /// The bucket of a key. What is hashed begins with the secret, so nobody who lacks that can aim at a bucket.
    pub fn bucket(&self, key: &Key) -> usize {
        self.hash(key) % BUCKETS
    }

    /// The source of a key; nobody can aim at another's, likewise.
    pub fn source(&self, key: &Key) -> usize {
        self.hash(&key.source()) % SOURCES
    }

    fn hash(&self, what: &impl Hash) -> usize {
        let mut hasher = DefaultHasher::new();
        self.secret.hash(&mut hasher);
        what.hash(&mut hasher);
        hasher.finish() as usize
    }

    /// Datagrams and pieces of a source.
    pub fn share(&self, source: usize) -> (usize, usize) {
        let Share { datagrams, pieces } = &self.sources[source];
        (datagrams.length, *pieces)
    }

    /// Counts a piece of a source.
    pub fn add_piece(&mut self, source: usize) {
        self.sources[source].pieces += 1;
    }

    /// Counts pieces of a source that are gone.
    pub fn take_pieces(&mut self, source: usize, pieces: usize) {
        assert!(self.sources[source].pieces >= pieces, "what a source has was counted");
        self.sources[source].pieces -= pieces;
    }

    /// The oldest of a source but `index`.
    pub fn oldest_of_source(&self, source: usize, but: Option<u32>) -> Option<u32> {
        match self.sources[source].datagrams.oldest {
            Some(oldest) if Some(oldest) == but => self.entries.at(oldest).in_source.newer,
            oldest => oldest,
        }
    }

    /// The oldest of a bucket that is of that source.
    pub fn oldest_of_both(&self, bucket: usize, source: usize) -> Option<u32> {
        let mut at = self.buckets[bucket].oldest;
        while let Some(index) = at {
            let entry = self.entries.at(index);
            if entry.source == source {
                break;
            }
            at = entry.in_bucket.newer;
        }
        at
    }

    /// Entries of a bucket.
    pub fn length(&self, bucket: usize) -> usize {
        self.buckets[bucket].length
    }

    /// The oldest of a bucket.
    pub fn oldest_of(&self, bucket: usize) -> Option<u32> {
        self.buckets[bucket].oldest
    }

    /// The oldest of each family.
    pub fn oldest_of_families(&self) -> impl Iterator<Item = u32> {
        self.families.iter().filter_map(|family| family.oldest)
    }

    /// The oldest of all.
    pub fn oldest(&self) -> Option<u32> {
        self.all.oldest
    }

    /// The oldest of all but `index`.
    pub fn oldest_but(&self, index: u32) -> Option<u32> {
        match self.all.oldest {
            Some(oldest) if oldest == index => self.entries.at(oldest).in_all.newer,
            oldest => oldest,
        }
    }

    /// The entry of that key, and how many were looked at.
    pub fn find(&self, key: &Key) -> (Option<u32>, u64) {
        let (mut at, mut looked) = (self.buckets[self.bucket(key)].newest, 0);
        while let Some(index) = at {
            let entry = self.entries.at(index);
            looked += 1;
            if entry.key == *key {
                break;
            }
            at = entry.in_bucket.older;
        }
        (at, looked)
    }

    /// Adds an entry, the newest, to the bucket and the source of its key.
    pub fn insert(&mut self, bucket: usize, source: usize, key: Key, value: T) -> u32 {
        let [in_bucket, in_source, in_family, in_all] = [Links::default(); 4];
        let queue = ReassemblyQueue { key, bucket, source, value, in_bucket, in_source, in_family, in_all };
        let index = self.entries.insert(queue).index;
        link(&mut self.entries, &mut self.families[usize::from(key.is_v6())], index, |entry| &mut entry.in_family);
        link(&mut self.entries, &mut self.sources[source].datagrams, index, |entry| &mut entry.in_source);
        link(&mut self.entries, &mut self.buckets[bucket], index, |entry| &mut entry.in_bucket);
        link(&mut self.entries, &mut self.all, index, |entry| &mut entry.in_all);
        index
    }

    /// Removes an entry that must be there.
    pub fn remove(&mut self, index: u32) -> T {
        let ReassemblyQueue { key, bucket, source, .. } = *self.entries.at(index);
        unlink(&mut self.entries, &mut self.families[usize::from(key.is_v6())], index, |entry| &mut entry.in_family);
        unlink(&mut self.entries, &mut self.sources[source].datagrams, index, |entry| &mut entry.in_source);
        unlink(&mut self.entries, &mut self.buckets[bucket], index, |entry| &mut entry.in_bucket);
        unlink(&mut self.entries, &mut self.all, index, |entry| &mut entry.in_all);
        self.entries.remove_at(index).value
    }
}

/// Puts an entry in front of a list.
fn link<T>(entries: &mut Slab<ReassemblyQueue<T>>, ends: &mut Ends, index: u32, links: Lists<T>) {
    assert!(ends.newest.is_none() == (ends.length == 0) && ends.newest.is_none() == ends.oldest.is_none());
    *links(entries.at_mut(index)) = Links { newer: None, older: ends.newest };
    match ends.newest {
        Some(newest) => links(entries.at_mut(newest)).newer = Some(index),
        None => ends.oldest = Some(index),
    }
    ends.newest = Some(index);
    ends.length += 1;
}

/// Takes an entry out of a list.
fn unlink<T>(entries: &mut Slab<ReassemblyQueue<T>>, ends: &mut Ends, index: u32, links: Lists<T>) {
    let Links { newer, older } = std::mem::take(links(entries.at_mut(index)));
    assert!(newer.is_none() == (ends.newest == Some(index)), "only the newest of a list has nobody in front of it");
    assert!(older.is_none() == (ends.oldest == Some(index)), "only the oldest of a list has nobody behind it");
    match newer {
        Some(newer) => links(entries.at_mut(newer)).older = older,
        None => ends.newest = older,
    }
    match older {
        Some(older) => links(entries.at_mut(older)).newer = newer,
        None => ends.oldest = newer,
    }
    assert!(ends.length > 0, "what is taken out of a list was in it");
    ends.length -= 1;
}
