//! Short arrays of items in chunks of memory that never move: an array grows and shrinks by one item, and no change costs more than copying one.
//!
//! A copy of all has the same chunks. The first change of either within one copies that one.

use std::sync::Arc;

/// Items of the longest array.
const LONGEST: usize = 64;

/// How many items there is room for, by class.
const ROOM: [usize; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, LONGEST];

/// The class of an array, by its length.
const CLASS: [u8; LONGEST + 1] = {
    let mut classes = [0; LONGEST + 1];
    let mut length = 1;
    while length <= LONGEST {
        classes[length] = classes[length - 1];
        if ROOM[classes[length] as usize] < length {
            classes[length] += 1;
        }
        length += 1;
    }
    classes
};

/// The end of a list of free arrays.
const END: u32 = u32::MAX;

/// What arrays are of. The first of a free array holds a link.
pub(crate) trait Item: Copy {
    const EMPTY: Self;

    fn of_link(link: u32) -> Self;

    fn link(self) -> u32;
}

/// Arrays of `T`, in chunks of `CHUNK` items.
#[derive(Clone, Debug)]
pub(crate) struct Blocks<T, const CHUNK: usize> {
    chunks: Vec<Arc<[T; CHUNK]>>,
    /// The first free array of each class.
    free: [u32; ROOM.len()],
    /// What was never used of the last chunk begins here.
    fresh: usize,
}

impl<T: Item, const CHUNK: usize> Blocks<T, CHUNK> {
    pub const fn new() -> Self {
        const { assert!(CHUNK.is_power_of_two() && CHUNK >= LONGEST) };
        Self { chunks: Vec::new(), free: [END; ROOM.len()], fresh: 0 }
    }

    /// Bytes of memory that are held.
    pub const fn bytes(&self) -> usize {
        self.chunks.len() * size_of::<[T; CHUNK]>() + self.chunks.capacity() * size_of::<Arc<[T; CHUNK]>>()
    }

    /// An item.
    #[inline]
    pub fn get(&self, at: u32) -> &T {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, at: u32) -> &mut T {
        &mut Arc::make_mut(&mut self.chunks[at as usize / CHUNK])[at as usize % CHUNK]
    }

    /// Chunks that a copy does not have.
    #[cfg(test)]
    pub fn own_chunks(&self, copy: &Self) -> usize {
        let is_shared = |chunk: &Arc<[T; CHUNK]>| copy.chunks.iter().any(|other| Arc::ptr_eq(chunk, other));
        self.chunks.iter().filter(|chunk| !is_shared(chunk)).count()
    }

    /// Puts an item into an array of `length` items, before that of `rank`; says where the array is now.
    pub fn insert(&mut self, array: u32, length: usize, rank: usize, item: T) -> u32 {
        assert!(rank <= length && length < LONGEST, "an array holds {LONGEST} items");
        let (class, before) = (CLASS[length + 1], CLASS[length]);
        let to = if length > 0 && class == before { array } else { self.take(class.into()) };
        if to != array || length == 0 {
            (0..rank).for_each(|at| self.copy(array, at, to, at));
        }
        (rank..length).rev().for_each(|at| self.copy(array, at, to, at + 1));
        *self.get_mut(to + rank as u32) = item;
        if length > 0 && to != array {
            self.give(array, before.into());
        }
        to
    }

    /// Takes the item of `rank` out of an array of `length` items; says where the array is now, if it has any left.
    pub fn remove(&mut self, array: u32, length: usize, rank: usize) -> u32 {
        assert!(rank < length && length <= LONGEST, "what is taken out is there");
        let (class, before) = (CLASS[length - 1], CLASS[length]);
        let to = if length == 1 || class == before { array } else { self.take(class.into()) };
        if to != array {
            (0..rank).for_each(|at| self.copy(array, at, to, at));
        }
        (rank + 1..length).for_each(|at| self.copy(array, at, to, at - 1));
        if length == 1 || to != array {
            self.give(array, before.into());
        }
        to
    }

    /// An array of `length` items, whatever they are.
    pub fn make(&mut self, length: usize) -> u32 {
        self.take(CLASS[length].into())
    }

    /// Such an array is not used any more.
    pub fn give_back(&mut self, array: u32, length: usize) {
        self.give(array, CLASS[length].into());
    }

    fn copy(&mut self, from: u32, at: usize, to: u32, behind: usize) {
        let item = *self.get(from + at as u32);
        *self.get_mut(to + behind as u32) = item;
    }

    /// Room for an array of a class.
    fn take(&mut self, class: usize) -> u32 {
        let first = self.free[class];
        if first != END {
            self.free[class] = self.get(first).link();
            return first;
        }
        if self.chunks.len() * CHUNK - self.fresh < ROOM[class] {
            self.add_chunk();
        }
        let at = self.fresh;
        self.fresh += ROOM[class];
        // reason: a table whose bound lets it have more would need terabytes.
        u32::try_from(at).ok().filter(|at| *at < END - LONGEST as u32).expect("items have numbers of 32 bits")
    }

    fn give(&mut self, array: u32, class: usize) {
        *self.get_mut(array) = T::of_link(self.free[class]);
        self.free[class] = array;
    }

    /// What is left of the last chunk becomes free arrays.
    fn add_chunk(&mut self) {
        let end = self.chunks.len() * CHUNK;
        while self.fresh < end {
            let class = (0..ROOM.len()).rev().find(|class| ROOM[*class] <= end - self.fresh);
            let class = class.unwrap_or(0);
            self.give(self.fresh as u32, class);
            self.fresh += ROOM[class];
        }
        let chunk: Arc<[T]> = std::iter::repeat_n(T::EMPTY, CHUNK).collect();
        // reason: it was made of that length, on the heap and not on the stack.
        self.chunks.push(chunk.try_into().ok().expect("a chunk has its length"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::Random;

    /// Many arrays grow and shrink at random places beside plain vectors; what one frees another uses.
    #[test]
    fn arrays_are_as_vectors_are() {
        let (mut blocks, mut random) = (Blocks::<u32, 128>::new(), Random::new(7));
        let mut arrays: Vec<(u32, Vec<u32>)> = vec![(0, Vec::new()); 50];
        for round in 0..100_000 {
            let (at, model) = &mut arrays[random.index(50)];
            let length = model.len();
            if length < LONGEST && (length == 0 || random.below(2) == 0) {
                let rank = random.index(length + 1);
                *at = blocks.insert(*at, length, rank, round);
                model.insert(rank, round);
            } else {
                let rank = random.index(length);
                *at = blocks.remove(*at, length, rank);
                model.remove(rank);
            }
            if round % 100 == 0 {
                let items = |at: u32, length: usize| (0..length as u32).map(|rank| *blocks.get(at + rank)).collect::<Vec<_>>();
                assert!(arrays.iter().all(|(at, model)| items(*at, model.len()) == *model));
            }
        }
        assert!(blocks.bytes() < 50 * LONGEST * 4 * 4, "{} bytes: what was freed is used again", blocks.bytes());
    }

    #[test]
    fn what_is_left_of_a_chunk_is_used() {
        let mut blocks = Blocks::<u32, 64>::new();
        assert_eq!((blocks.take(0), blocks.take(ROOM.len() - 1)), (0, 64));
        let free: usize = (0..ROOM.len()).map(|class| usize::from(blocks.free[class] != END) * ROOM[class]).sum();
        assert_eq!(free, 63, "48, 12 and 3 items");
    }
}
