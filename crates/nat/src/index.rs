//! From the hash of a key to its session: open addresses, four bytes an entry, so that the index of many sessions lies in the cache.

use corelane_seam::fetch;

/// Entries among which the likely one is looked for: where half of all are free, hardly one lies further from its home.
const LIKELY: usize = 4;

/// An entry: bits of the hash above the number of the session, counted from 1, and below that its way. 0 is free.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    entries: Vec<u32>,
    /// Bits of number and way.
    bits: u32,
}

impl Index {
    /// For so many sessions with two keys each; half of the entries stay free. The memory is used as sessions come.
    pub fn new(sessions: usize) -> Self {
        let entries = (4 * sessions).next_power_of_two();
        let bits = u32::try_from(sessions + 1).map_or(u32::BITS, |most| u32::BITS - most.leading_zeros()) + 1;
        assert!(bits < u32::BITS - 4, "an entry has room for bits of the hash");
        Self { entries: vec![0; entries], bits }
    }

    /// Where to begin.
    const fn home(&self, hash: u64) -> usize {
        hash as usize & (self.entries.len() - 1)
    }

    const fn entry(&self, hash: u64, number: u32, way: u32) -> u32 {
        (hash >> 32) as u32 >> self.bits << self.bits | (number + 1) << 1 | way
    }

    /// Asks for the memory in which a look-up begins.
    #[inline]
    pub fn fetch(&self, hash: u64) {
        fetch(&self.entries[self.home(hash)]);
    }

    /// The number of the session that is likely meant: whose entry is the first of a few that has the hash's bits. It is of use for who fetches it before
    /// it is needed. All entries are compared, because a jump that is guessed wrong costs more.
    #[inline]
    pub fn likely(&self, hash: u64) -> u32 {
        let (tag, mask) = (self.entry(hash, 0, 0) & !((1 << self.bits) - 1), (1 << self.bits) - 1);
        let home = self.home(hash);
        let entry = (0..LIKELY).rev().fold(0, |likely, step| {
            let entry = self.entries[(home + step) & (self.entries.len() - 1)];
            std::hint::select_unpredictable(entry & !mask == tag, entry, likely)
        });
        ((entry & mask) >> 1).wrapping_sub(1)
    }

    /// The number of the session that has a key of that hash and is the one that is meant.
    #[inline]
    pub fn find(&self, hash: u64, way: u32, mut is_meant: impl FnMut(u32) -> bool) -> Option<u32> {
        let (tag, mask) = (self.entry(hash, 0, way) & !((1 << self.bits) - 1), (1 << self.bits) - 1);
        let mut at = self.home(hash);
        loop {
            let entry = self.entries[at];
            if entry == 0 {
                return None;
            }
            if (entry & !mask) == tag && entry & 1 == way {
                let number = ((entry & mask) >> 1) - 1;
                if is_meant(number) {
                    return Some(number);
                }
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
    }

    /// Notes a session's key, which is not there yet.
    pub fn insert(&mut self, hash: u64, number: u32, way: u32) {
        let mut at = self.home(hash);
        while self.entries[at] != 0 {
            at = (at + 1) & (self.entries.len() - 1);
        }
        self.entries[at] = self.entry(hash, number, way);
    }

    /// Takes a session's key out. Those behind it move up as far as they may; `hash_of` says the hash of each by number and way.
    pub fn remove(&mut self, hash: u64, number: u32, way: u32, hash_of: impl Fn(u32, u32) -> u64) {
        let (entry, last) = (self.entry(hash, number, way), self.entries.len() - 1);
        let mut hole = self.home(hash);
        while self.entries[hole] != entry {
            assert!(self.entries[hole] != 0, "what is taken out is there");
            hole = (hole + 1) & last;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & last;
            let entry = self.entries[at];
            if entry == 0 {
                break;
            }
            let (number, way) = (((entry & ((1 << self.bits) - 1)) >> 1) - 1, entry & 1);
            let home = self.home(hash_of(number, way));
            // It may stand in the hole if that is not before where it begins.
            if at.wrapping_sub(home) & last >= at.wrapping_sub(hole) & last {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = 0;
    }

    /// Bytes of memory, all of it in use.
    pub const fn bytes(&self) -> usize {
        self.entries.len() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::Random;
    use std::collections::BTreeMap;

    /// Hashes that fall into few places and over the end, beside a plain map.
    #[test]
    fn keys_come_and_go_as_in_a_map() {
        let mut random = Random::new(3);
        let hashes: Vec<u64> = (0..64).map(|_| random.bits() & !0xff | (250 + random.below(8))).collect();
        let (mut index, mut model) = (Index::new(64), BTreeMap::new());
        for _ in 0..100_000 {
            let (number, way) = (random.below(64) as u32, random.below(2) as u32);
            let hash = hashes[number as usize].rotate_left(way * 8) & !0xff | hashes[number as usize] & 0xff;
            let hash_of = |number: u32, way: u32| {
                let hash = hashes[number as usize];
                hash.rotate_left(way * 8) & !0xff | hash & 0xff
            };
            assert_eq!(index.find(hash, way, |found| found == number).is_some(), model.contains_key(&(number, way)));
            if model.remove(&(number, way)).is_some() {
                index.remove(hash, number, way, hash_of);
            } else {
                index.insert(hash, number, way);
                model.insert((number, way), ());
            }
        }
        for (number, way) in model.keys() {
            let hash = hashes[*number as usize];
            index.remove(hash.rotate_left(way * 8) & !0xff | hash & 0xff, *number, *way, |number, way| {
                let hash = hashes[number as usize];
                hash.rotate_left(way * 8) & !0xff | hash & 0xff
            });
        }
        assert!(index.entries.iter().all(|entry| *entry == 0));
    }
}
