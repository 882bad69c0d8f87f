//! Numbers and notes about them, to be found with one look at memory. What has no room is not noted: where there is no note, one looks elsewhere.

use std::sync::Arc;

/// Numbers of a bucket: with their notes they fill a cache line.
const BUCKET: usize = 8;

/// Buckets of a chunk of memory, 64 KiB.
const CHUNK: usize = 1024;

/// Numbers for each bucket. Those that are split last have twice as many, where one of a hundred finds no room.
const LOAD: usize = 2;

/// Names, which are numbers plus 1, and their notes; 0 where there is none.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket {
    names: [u32; BUCKET],
    notes: [u32; BUCKET],
}

const EMPTY: Bucket = Bucket { names: [0; BUCKET], notes: [0; BUCKET] };

impl Bucket {
    fn position(&self, name: u32) -> Option<usize> {
        self.names.iter().position(|other| *other == name)
    }
}

/// A hash table that grows by one bucket at a time (Litwin: "Linear Hashing", 1980), so that no change moves more than the numbers of one.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    /// A copy has the same, until one of both changes something there.
    chunks: Vec<Arc<[Bucket; CHUNK]>>,
    buckets: usize,
    /// The highest power of two in `buckets`.
    half: usize,
    noted: usize,
}

impl Hashed {
    pub fn new() -> Self {
        let mut hashed = Self { chunks: Vec::new(), buckets: CHUNK, half: CHUNK, noted: 0 };
        hashed.add_chunk();
        hashed
    }

    /// Bytes of memory that are held.
    pub const fn bytes(&self) -> usize {
        self.chunks.len() * size_of::<[Bucket; CHUNK]>() + self.chunks.capacity() * size_of::<Arc<[Bucket; CHUNK]>>()
    }

    /// Chunks that a copy does not have.
    #[cfg(test)]
    pub fn own_chunks(&self, copy: &Self) -> usize {
        let is_shared = |chunk: &Arc<[Bucket; CHUNK]>| copy.chunks.iter().any(|other| Arc::ptr_eq(chunk, other));
        self.chunks.iter().filter(|chunk| !is_shared(chunk)).count()
    }

    /// The note about a number, which is below 2^32 - 1; 0 where there is none.
    #[inline]
    pub fn get(&self, number: u32) -> u32 {
        let place = self.place(number);
        let bucket = &self.chunks[place / CHUNK][place % CHUNK];
        // All are compared at once: where a jump depended on which one it is, it would be guessed wrong.
        (0..BUCKET).fold(0, |found, at| found | u32::from(bucket.names[at] == number + 1).wrapping_neg() & bucket.notes[at])
    }

    /// Notes that about a number, 0 for nothing; says whether there was room.
    pub fn note(&mut self, number: u32, note: u32) -> bool {
        let place = self.place(number);
        let bucket = self.bucket_mut(place);
        let held = bucket.position(number + 1);
        let Some(at) = held.or_else(|| bucket.position(0)) else { return note == 0 };
        bucket.names[at] = if note == 0 { 0 } else { number + 1 };
        bucket.notes[at] = note;
        self.noted = self.noted + usize::from(note != 0) - usize::from(held.is_some());
        if self.noted > self.buckets * LOAD {
            self.split();
        }
        true
    }

    /// One bucket more: half of an older one's numbers are its.
    fn split(&mut self) {
        if self.buckets == self.chunks.len() * CHUNK {
            self.add_chunk();
        }
        let old = std::mem::replace(self.bucket_mut(self.buckets - self.half), EMPTY);
        self.buckets += 1;
        if self.buckets == 2 * self.half {
            self.half = self.buckets;
        }
        for (at, name) in old.names.into_iter().enumerate().filter(|(_, name)| *name != 0) {
            let place = self.place(name - 1);
            let bucket = self.bucket_mut(place);
            (bucket.names[at], bucket.notes[at]) = (name, old.notes[at]);
        }
    }

    fn add_chunk(&mut self) {
        let chunk: Arc<[Bucket]> = std::iter::repeat_n(EMPTY, CHUNK).collect();
        // reason: it was made of that length, on the heap and not on the stack.
        self.chunks.push(chunk.try_into().expect("a chunk has its length"));
    }

    /// The bucket of a number.
    #[inline]
    fn place(&self, number: u32) -> usize {
        let hash = (u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        let place = hash & (2 * self.half - 1);
        std::hint::select_unpredictable(place < self.buckets, place, place & (self.half - 1))
    }

    fn bucket_mut(&mut self, place: usize) -> &mut Bucket {
        &mut Arc::make_mut(&mut self.chunks[place / CHUNK])[place % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::Random;
    use std::collections::BTreeMap;

    /// Notes come and go beside a plain map. What had no room is forgotten by both.
    #[test]
    fn notes_are_as_a_map_has_them() {
        let (mut hashed, mut model, mut random) = (Hashed::new(), BTreeMap::new(), Random::new(3));
        let mut refused = 0;
        for round in 1..60_000 {
            let number = random.below(40_000) as u32;
            let note = if random.below(4) == 0 { 0 } else { round };
            if !hashed.note(number, note) {
                refused += 1;
            } else if note == 0 {
                model.remove(&number);
            } else {
                model.insert(number, note);
            }
            assert_eq!(hashed.noted, model.len());
        }
        assert!((0..40_000).all(|number| hashed.get(number) == model.get(&number).copied().unwrap_or(0)));
        assert!(hashed.buckets > 8 * CHUNK && hashed.noted <= LOAD * hashed.buckets, "{} buckets", hashed.buckets);
        assert!(refused < model.len() / 50, "{refused} of {}", model.len());
    }

    #[test]
    fn a_full_bucket_refuses_what_it_does_not_have() {
        let mut hashed = Hashed::new();
        let numbers = (0..1 << 20).filter(|number| hashed.place(*number) == 5).take(BUCKET + 1).collect::<Vec<_>>();
        assert!(numbers[..BUCKET].iter().all(|number| hashed.note(*number, 1)));
        assert!(!hashed.note(numbers[BUCKET], 1) && hashed.note(numbers[BUCKET], 0) && hashed.note(numbers[0], 9));
        assert_eq!((hashed.get(numbers[0]), hashed.get(numbers[1]), hashed.get(numbers[BUCKET])), (9, 1, 0));
        assert!(hashed.note(numbers[3], 0) && hashed.note(numbers[BUCKET], 2));
        assert_eq!((hashed.get(numbers[3]), hashed.get(numbers[BUCKET])), (0, 2));
    }
}
