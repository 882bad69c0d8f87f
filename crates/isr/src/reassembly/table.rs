//! Datagrams by their keys: buckets, the newest first in each, and by age those of each source, of each link and of each family.

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

/// What a source, or a link, has here.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    datagrams: Ends,
    pieces: usize,
}

impl Share {
    /// A datagram that an overlap has ended has no piece, and takes a place.
    fn load(&self) -> usize {
        self.pieces.max(self.datagrams.length)
    }
}

struct ReassemblyQueue<T> {
    key: Key,
    bucket: usize,
    source: usize,
    value: T,
    in_bucket: Links,
    in_source: Links,
    in_family: Links,
    in_link: Links,
}

/// The table.
pub(super) struct ReassemblyQueues<T> {
    secret: u128,
    entries: Slab<ReassemblyQueue<T>>,
    buckets: Box<[Ends]>,
    sources: Box<[Share]>,
    /// Those of IPv4 and of IPv6: each family waits for a time of its own.
    families: [Ends; 2],
    /// By their numbers, up to the highest that was seen.
    links: Vec<Share>,
}

/// Which of its four lists an entry is linked in.
type Lists<T> = fn(&mut ReassemblyQueue<T>) -> &mut Links;

impl<T> ReassemblyQueues<T> {
    pub fn new(secret: u128) -> Self {
        let (buckets, sources) = (vec![Ends::default(); BUCKETS].into(), vec![Share::default(); SOURCES].into());
        Self { secret, entries: Slab::new(), buckets, sources, families: Default::default(), links: Vec::new() }
    }

    pub fn len(&self) -> usize {
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

    /// Counts a piece of a source and a link that have a datagram here.
    pub fn add_piece(&mut self, source: usize, link: u16) {
        self.sources[source].pieces += 1;
        self.links[usize::from(link)].pieces += 1;
    }

    /// Counts pieces of a source and a link that are gone.
    pub fn take_pieces(&mut self, source: usize, link: u16, pieces: usize) {
        for share in [&mut self.sources[source], &mut self.links[usize::from(link)]] {
            assert!(share.pieces >= pieces, "what one has was counted");
            share.pieces -= pieces;
        }
    }

    /// What a link has, by which links are compared.
    pub fn load(&self, link: u16) -> usize {
        self.links.get(usize::from(link)).map_or(0, Share::load)
    }

    /// What the link has that has most.
    pub fn most(&self) -> usize {
        self.links.iter().map(Share::load).max().unwrap_or(0)
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

    /// Of a bucket, the oldest of the link that has most; none if that has less than this.
    pub fn oldest_of(&self, bucket: usize, mut least: usize) -> Option<u32> {
        let (mut at, mut found) = (self.buckets[bucket].oldest, None);
        while let Some(index) = at {
            let entry = self.entries.at(index);
            let load = self.load(entry.key.link);
            if load > least || load == least && found.is_none() {
                (found, least) = (Some(index), load);
            }
            at = entry.in_bucket.newer;
        }
        found
    }

    /// The oldest of each family.
    pub fn oldest_of_families(&self) -> impl Iterator<Item = u32> {
        self.families.iter().filter_map(|family| family.oldest)
    }

    /// The oldest of the link that has most, but one; none if that has less than this.
    pub fn oldest(&self, least: usize, but: Option<u32>) -> Option<u32> {
        let oldest = |share: &Share| match share.datagrams.oldest {
            Some(oldest) if Some(oldest) == but => self.entries.at(oldest).in_link.newer,
            oldest => oldest,
        };
        let of_links = self.links.iter().filter_map(|share| Some((share.load(), oldest(share)?)));
        of_links.filter(|(load, _)| *load >= least).max_by_key(|(load, _)| *load).map(|(_, oldest)| oldest)
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

    /// Adds an entry, the newest, to the bucket, the source and the link of its key.
    pub fn insert(&mut self, bucket: usize, source: usize, key: Key, value: T) -> u32 {
        let [in_bucket, in_source, in_family, in_link] = [Links::default(); 4];
        let queue = ReassemblyQueue { key, bucket, source, value, in_bucket, in_source, in_family, in_link };
        let by = usize::from(key.link);
        if self.links.len() <= by {
            self.links.resize(by + 1, Share::default());
        }
        let index = self.entries.insert(queue).index;
        link(&mut self.entries, &mut self.families[usize::from(key.is_v6())], index, |entry| &mut entry.in_family);
        link(&mut self.entries, &mut self.sources[source].datagrams, index, |entry| &mut entry.in_source);
        link(&mut self.entries, &mut self.buckets[bucket], index, |entry| &mut entry.in_bucket);
        link(&mut self.entries, &mut self.links[by].datagrams, index, |entry| &mut entry.in_link);
        index
    }

    /// Removes an entry that must be there.
    pub fn remove(&mut self, index: u32) -> T {
        let ReassemblyQueue { key, bucket, source, .. } = *self.entries.at(index);
        unlink(&mut self.entries, &mut self.families[usize::from(key.is_v6())], index, |entry| &mut entry.in_family);
        unlink(&mut self.entries, &mut self.sources[source].datagrams, index, |entry| &mut entry.in_source);
        unlink(&mut self.entries, &mut self.buckets[bucket], index, |entry| &mut entry.in_bucket);
        let link = &mut self.links[usize::from(key.link)];
        unlink(&mut self.entries, &mut link.datagrams, index, |entry| &mut entry.in_link);
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
