//! Datagrams by their keys: buckets, the newest first in each, and all of them by age.

use super::fragment::Key;
use corelane_seam::slab::Slab;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Buckets.
pub(super) const BUCKETS: usize = 1024;

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

struct ReassemblyQueue<T> {
    key: Key,
    bucket: usize,
    value: T,
    in_bucket: Links,
    in_all: Links,
}

/// The table.
pub(super) struct ReassemblyQueues<T> {
    secret: u128,
    entries: Slab<ReassemblyQueue<T>>,
    buckets: Box<[Ends]>,
    all: Ends,
}

/// Which of its two lists an entry is linked in.
type Lists<T> = fn(&mut ReassemblyQueue<T>) -> &mut Links;

impl<T> ReassemblyQueues<T> {
    pub fn new(secret: u128) -> Self {
        Self { secret, entries: Slab::new(), buckets: vec![Ends::default(); BUCKETS].into(), all: Ends::default() }
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
        let mut hasher = DefaultHasher::new();
        self.secret.hash(&mut hasher);
        key.hash(&mut hasher);
        hasher.finish() as usize % BUCKETS
    }

    /// Entries of a bucket.
    pub fn length(&self, bucket: usize) -> usize {
        self.buckets[bucket].length
    }

    /// The oldest of a bucket.
    pub fn oldest_of(&self, bucket: usize) -> Option<u32> {
        self.buckets[bucket].oldest
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

    /// Adds an entry, the newest, to the bucket of its key.
    pub fn insert(&mut self, bucket: usize, key: Key, value: T) -> u32 {
        let (in_bucket, in_all) = (Links::default(), Links::default());
        let index = self.entries.insert(ReassemblyQueue { key, bucket, value, in_bucket, in_all }).index;
        link(&mut self.entries, &mut self.buckets[bucket], index, |entry| &mut entry.in_bucket);
        link(&mut self.entries, &mut self.all, index, |entry| &mut entry.in_all);
        index
    }

    /// Removes an entry that must be there.
    pub fn remove(&mut self, index: u32) -> T {
        let bucket = self.entries.at(index).bucket;
        unlink(&mut self.entries, &mut self.buckets[bucket], index, |entry| &mut entry.in_bucket);
        unlink(&mut self.entries, &mut self.all, index, |entry| &mut entry.in_all);
        self.entries.remove_at(index).value
    }
}

/// Puts an entry in front of a list.
fn link<T>(entries: &mut Slab<ReassemblyQueue<T>>, ends: &mut Ends, index: u32, links: Lists<T>) {
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
