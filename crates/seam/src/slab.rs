//! Values at stable indices, named by index and generation, so that a name that was kept too long names nothing.
//!
//! Every table of the lane's that hands out names is one of these: sockets and files of a driver, connections and requests of the
//! service layer, timers, tasks. Two tables of this crate that keep a list of free entries are not:
//!
//! * The accounts of [`Arena`](crate::Arena). One stays until its last block is back, so it is named by its blocks alone, and none is named too late. With each
//!   lease several are changed, which needs no look at whether they are there, and each connection has one, which a generation would make larger.
//! * The frames of [`FrameMemory`](crate::FrameMemory). Each is there from the beginning to the end, where its number says that it lies; its place says who has it, and
//!   only one of four is that it is free.

use std::ops::{Index, IndexMut};

use crate::{File, Handle, Socket};

/// The name of an entry of a [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Where the entry stands. Freed indices are used again.
    pub index: u32,
    /// How often the index had been freed when the entry was made, modulo two to the power of the slab's generation bits.
    pub generation: u32,
}

impl Key {
    /// The key of these two parts.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// The key in 64 bits, for an interface that carries no more.
    pub const fn bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The key that [`Key::bits`] gave these bits for.
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

impl From<Handle> for Key {
    fn from(handle: Handle) -> Self {
        Self::new(handle.index(), handle.generation())
    }
}

impl From<Socket> for Key {
    fn from(socket: Socket) -> Self {
        Self::new(socket.index, socket.generation)
    }
}

impl From<Key> for Socket {
    fn from(key: Key) -> Self {
        Self { index: key.index, generation: key.generation }
    }
}

impl From<&File> for Key {
    fn from(file: &File) -> Self {
        Self::new(file.index, file.generation)
    }
}

impl From<Key> for File {
    fn from(key: Key) -> Self {
        Self::new(key.index, key.generation)
    }
}

const NONE: u32 = u32::MAX;

/// The memory with which [`Slab::roomy`] begins.
pub(crate) const ROOMY_BYTES: usize = 256 << 10;

enum Content<T> {
    Free { next: u32 },
    Taken(T),
}

struct Element<T> {
    generation: u32,
    content: Content<T>,
}

/// The table. Its owner bounds what is in it; freed entries are taken again, the last freed first, and their storage is kept.
///
/// `BITS` is how many bits of a generation count, 1 to 32 ([`HandleSlab`] has those of a handle). A name is taken
/// for another's only after its index has been freed two to that power times.
///
/// ```
/// use corelane_seam::slab::Slab;
///
/// let mut slab: Slab<&str> = Slab::new();
/// let first = slab.insert("first");
/// assert_eq!(slab.remove(first), Some("first"));
/// let second = slab.insert("second");
/// assert_eq!((second.index, slab.get(first), slab.get(second)), (first.index, None, Some(&"second")));
/// ```
pub struct Slab<T, const BITS: u32 = 32> {
    entries: Vec<Element<T>>,
    /// The entry that was freed last.
    free: u32,
    taken: usize,
    look_ups: LookUps,
}

/// How often entries were looked up by name or index, which only a build with debug assertions counts.
#[derive(Default)]
struct LookUps(#[cfg(debug_assertions)] std::sync::atomic::AtomicU64);

impl LookUps {
    #[inline]
    fn note(&self) {
        #[cfg(debug_assertions)]
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A slab whose entries are named by handles.
pub type HandleSlab<T> = Slab<T, { Handle::GENERATION_BITS }>;

impl<T, const BITS: u32> Default for Slab<T, BITS> {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl<T, const BITS: u32> Slab<T, BITS> {
    /// The most entries that a slab may have at once.
    pub const ENTRIES_MAX: usize = NONE as usize;
    /// Bytes of memory that each entry takes.
    pub const ENTRY_BYTES: usize = size_of::<Element<T>>();

    /// An empty slab, which has allocated nothing.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty slab with memory for so many entries.
    pub fn with_capacity(entries: usize) -> Self {
        const { assert!(BITS > 0 && BITS <= 32, "a generation has 1 to 32 bits") };
        Self { entries: Vec::with_capacity(entries), free: NONE, taken: 0, look_ups: LookUps::default() }
    }

    /// Room for one entry more, so that [`Slab::insert`] allocates nothing.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn try_reserve(&mut self) -> Result<(), std::collections::TryReserveError> {
        if self.free == NONE { self.entries.try_reserve(1) } else { Ok(()) }
    }

    /// An empty slab with room for many entries, of which only those that were used are resident: it begins with more than malloc(3) takes from memory
    /// that it has (M_MMAP_THRESHOLD is 128 KiB), so it lies in pages of its own, and grows by mremap(2), without a copy and without leaving smaller blocks behind.
    pub fn roomy() -> Self {
        Self::with_capacity(ROOMY_BYTES / Self::ENTRY_BYTES)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.taken
    }

    /// The number of entries that there is memory for.
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// How often an entry was looked up, by name or by index; walks over all entries are none. Only in builds with debug assertions,
    /// for tests of how often a path looks up what it could have handed on.
    #[cfg(debug_assertions)]
    pub fn look_ups(&self) -> u64 {
        self.look_ups.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Adds a value; returns its name.
    ///
    /// # Panics
    /// If there are [`Slab::ENTRIES_MAX`] entries already.
    pub fn insert(&mut self, value: T) -> Key {
        self.insert_with(|_| value)
    }

    /// Adds the value that `make` returns, which is told its name; returns that.
    ///
    /// # Panics
    /// As [`Slab::insert`].
    pub fn insert_with(&mut self, make: impl FnOnce(Key) -> T) -> Key {
        let index = self.free;
        let Some(entry) = self.entries.get_mut(index as usize) else { return self.append(make) };
        let Content::Free { next } = entry.content else { panic!("entry {index} is on the list of free ones and taken") };
        let key = Key { index, generation: entry.generation };
        entry.content = Content::Taken(make(key));
        self.free = next;
        self.taken += 1;
        key
    }

    fn append(&mut self, make: impl FnOnce(Key) -> T) -> Key {
        assert!(self.free == NONE, "the list of free entries ends, and does not lead out of the slab");
        assert!(self.entries.len() < Self::ENTRIES_MAX, "a slab has at most {} entries", Self::ENTRIES_MAX);
        assert!(self.taken == self.entries.len(), "none is free only if all are taken");
        let key = Key { index: self.entries.len() as u32, generation: 0 };
        self.entries.push(Element { generation: 0, content: Content::Taken(make(key)) });
        self.taken += 1;
        key
    }

    /// The entry of that name; none if it has been removed.
    pub fn get(&self, key: Key) -> Option<&T> {
        self.look_ups.note();
        match self.entries.get(key.index as usize) {
            Some(Element { generation, content: Content::Taken(value) }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// As [`Slab::get`], to change it.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.look_ups.note();
        match self.entries.get_mut(key.index as usize) {
            Some(Element { generation, content: Content::Taken(value) }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The entry at an index, whatever its generation; none if the index is free, or was never used.
    pub fn find(&mut self, index: u32) -> Option<&mut T> {
        self.look_ups.note();
        match self.entries.get_mut(index as usize) {
            Some(Element { content: Content::Taken(value), .. }) => Some(value),
            _ => None,
        }
    }

    /// The entry at an index, with its name; none if the index is free, or was never used.
    pub fn named(&mut self, index: u32) -> Option<(Key, &mut T)> {
        self.look_ups.note();
        match self.entries.get_mut(index as usize) {
            Some(Element { generation, content: Content::Taken(value) }) => Some((Key { index, generation: *generation }, value)),
            _ => None,
        }
    }

    /// The entry at an index that must be taken: for links between entries, which are cut before what they lead to is removed.
    ///
    /// # Panics
    /// If it is free.
    pub fn at(&self, index: u32) -> &T {
        self.look_ups.note();
        match &self.entries[index as usize].content {
            Content::Taken(value) => value,
            Content::Free { .. } => panic!("a link to the free entry {index}"),
        }
    }

    /// As [`Slab::at`], to change it.
    ///
    /// # Panics
    /// If it is free.
    pub fn at_mut(&mut self, index: u32) -> &mut T {
        self.look_ups.note();
        match &mut self.entries[index as usize].content {
            Content::Taken(value) => value,
            Content::Free { .. } => panic!("a link to the free entry {index}"),
        }
    }

    /// The name of the entry at an index; none if the index is free, or was never used.
    pub fn key_of(&self, index: u32) -> Option<Key> {
        self.look_ups.note();
        match self.entries.get(index as usize) {
            Some(Element { generation, content: Content::Taken(_) }) => Some(Key { index, generation: *generation }),
            _ => None,
        }
    }

    /// The name of the entry at an index that must be taken, as in [`Slab::at`].
    ///
    /// # Panics
    /// If it is free.
    pub fn key_at(&self, index: u32) -> Key {
        let Some(key) = self.key_of(index) else { panic!("a link to the free entry {index}") };
        key
    }

    /// The entry at an index, with its name, and beside it all others, of which it may name one; none if the index is free, or was never used.
    pub fn among(&mut self, index: u32) -> Option<(Key, &mut T, Others<'_, T>)> {
        self.look_ups.note();
        let Self { entries, look_ups, .. } = self;
        let (before, rest) = entries.split_at_mut_checked(index as usize)?;
        let (Element { generation, content: Content::Taken(value) }, behind) = rest.split_first_mut()? else { return None };
        Some((Key { index, generation: *generation }, value, Others { before, behind, look_ups }))
    }

    /// Removes the entry of that name, which is void from now on; none if it has been removed before.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        Some(self.remove_at(key.index))
    }

    /// Removes the entry at an index that must be taken, as in [`Slab::at`].
    ///
    /// # Panics
    /// If it is free.
    pub fn remove_at(&mut self, index: u32) -> T {
        self.look_ups.note();
        assert!(self.free != index, "a taken entry is not on the list of free ones");
        let entry = &mut self.entries[index as usize];
        let content = std::mem::replace(&mut entry.content, Content::Free { next: self.free });
        let Content::Taken(value) = content else { panic!("the free entry {index} is freed again") };
        entry.generation = entry.generation.wrapping_add(1) & (u32::MAX >> (32 - BITS));
        self.free = index;
        self.taken -= 1;
        value
    }

    /// All entries with their names, lowest index first.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| match &entry.content {
            Content::Taken(value) => Some((Key { index: index as u32, generation: entry.generation }, value)),
            Content::Free { .. } => None,
        })
    }

    /// The names of all entries, lowest index first.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.iter().map(|(key, _)| key)
    }

    /// All entries, lowest index first.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    /// Removes all entries, lowest index first; those that are not asked for stay.
    pub fn drain(&mut self) -> impl Iterator<Item = (Key, T)> {
        (0..self.entries.len() as u32).filter_map(|index| {
            self.find(index)?;
            let key = self.key_at(index);
            Some((key, self.remove_at(index)))
        })
    }
}

/// All entries of a slab but the one that is in hand ([`Slab::among`]).
pub struct Others<'a, T> {
    before: &'a mut [Element<T>],
    behind: &'a mut [Element<T>],
    look_ups: &'a LookUps,
}

impl<T> Others<'_, T> {
    /// As [`Slab::get_mut`]; none for the name of the one that is in hand.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.look_ups.note();
        let (index, here) = (key.index as usize, self.before.len());
        let entry = match index < here {
            true => self.before.get_mut(index),
            false => self.behind.get_mut(index.checked_sub(here + 1)?),
        };
        match entry {
            Some(Element { generation, content: Content::Taken(value) }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }
}

impl<T, const BITS: u32> Index<Key> for Slab<T, BITS> {
    type Output = T;

    /// The entry of a name whose owner knows that it is there.
    ///
    /// # Panics
    /// If it has been removed.
    fn index(&self, key: Key) -> &T {
        let Some(value) = self.get(key) else { panic!("a name of the removed entry {}", key.index) };
        value
    }
}

impl<T, const BITS: u32> IndexMut<Key> for Slab<T, BITS> {
    fn index_mut(&mut self, key: Key) -> &mut T {
        let Some(value) = self.get_mut(key) else { panic!("a name of the removed entry {}", key.index) };
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_name_ends_with_its_entry() {
        let mut slab: Slab<&str> = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index, first.index);
        assert!(slab.get(first).is_none() && slab.get_mut(first).is_none() && slab.remove(first).is_none());
        assert_eq!((slab.get(second), slab.at(second.index), slab[second]), (Some(&"second"), &"second", "second"));
        assert_eq!(slab.find(second.index), Some(&mut "second"));
        assert_eq!((slab.key_at(second.index), Key::from_bits(second.bits())), (second, second));
        assert_eq!(slab.get(Key::new(9, 0)), None);
        assert_eq!(slab.find(9), None);
    }

    #[test]
    fn one_in_hand_leaves_the_others_to_be_found() {
        let mut slab: Slab<u32> = Slab::new();
        let keys: Vec<_> = (0..4).map(|number| slab.insert(number)).collect();
        slab.remove(keys[3]);
        assert!(slab.among(3).is_none() && slab.among(4).is_none());
        let (key, one, mut others) = slab.among(1).unwrap();
        *one += 10;
        for (at, number) in [(0, 0), (2, 2)] {
            assert_eq!(others.get_mut(keys[at]), Some(&mut { number }));
            *others.get_mut(keys[at]).unwrap() += 20;
        }
        assert!([keys[1], keys[3], Key::new(2, 1), Key::new(9, 0)].iter().all(|key| others.get_mut(*key).is_none()));
        assert_eq!((key, slab.values().copied().collect::<Vec<_>>()), (keys[1], vec![20, 11, 22]));
    }

    #[test]
    fn entries_freed_last_are_taken_first() {
        let mut slab: Slab<u32> = Slab::new();
        let keys: Vec<_> = (0..4).map(|number| slab.insert(number)).collect();
        slab.remove(keys[1]);
        slab.remove(keys[3]);
        assert_eq!(slab.keys().collect::<Vec<_>>(), [keys[0], keys[2]]);
        let again: Vec<_> = (0..3).map(|number| slab.insert(number).index).collect();
        assert_eq!(again, [3, 1, 4]);
        slab.remove_at(0);
        assert_eq!(slab.drain().map(|(key, number)| (key.index, number)).collect::<Vec<_>>(), [(1, 1), (2, 2), (3, 0), (4, 2)]);
        assert_eq!((slab.drain().count(), slab.is_empty()), (0, true));
    }

    #[test]
    fn generations_count_within_their_bits() {
        let mut slab: Slab<(), 2> = Slab::new();
        let mut generations = Vec::new();
        for _ in 0..6 {
            let key = slab.insert(());
            slab.remove(key);
            generations.push(key.generation);
        }
        assert_eq!(generations, [0, 1, 2, 3, 0, 1]);
    }

    #[test]
    #[should_panic(expected = "a link to the free entry 0")]
    fn a_link_to_a_free_entry_is_no_link() {
        let mut slab: Slab<u8> = Slab::new();
        let key = slab.insert(1);
        slab.remove(key);
        slab.at(key.index);
    }

    #[test]
    #[should_panic(expected = "a name of the removed entry 0")]
    fn a_name_that_was_kept_too_long_is_no_index() {
        let mut slab: Slab<u8> = Slab::new();
        let key = slab.insert(1);
        slab.remove(key);
        slab.insert(2);
        assert_eq!(slab[key], 1);
    }

    #[test]
    #[should_panic(expected = "taken entry is not on the list of free ones")]
    fn an_entry_is_freed_once() {
        let mut slab: Slab<u8> = Slab::new();
        let key = slab.insert(1);
        slab.remove_at(key.index);
        slab.remove_at(key.index);
    }

    proptest! {
        /// Against a map from names to values, and a list of names that ended.
        #[test]
        fn a_slab_is_a_map_whose_names_are_never_given_twice(steps in proptest::collection::vec((any::<bool>(), any::<usize>()), 0..200)) {
            let (mut slab, mut model, mut ended) = (Slab::<usize>::new(), BTreeMap::new(), Vec::new());
            for (step, (add, which)) in steps.into_iter().enumerate() {
                if add || model.is_empty() {
                    let key = slab.insert(step);
                    prop_assert!(!ended.contains(&key));
                    prop_assert_eq!(model.insert(key, step), None);
                } else {
                    let key = *model.keys().nth(which % model.len()).unwrap();
                    prop_assert_eq!(slab.remove(key), model.remove(&key));
                    ended.push(key);
                }
                prop_assert!(ended.iter().all(|&key| slab.get(key).is_none()));
                prop_assert_eq!(slab.iter().map(|(key, &value)| (key, value)).collect::<BTreeMap<_, _>>(), model.clone());
                prop_assert_eq!(slab.len(), model.len());
            }
        }
    }
}
