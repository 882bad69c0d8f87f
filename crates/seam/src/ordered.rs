//! Tables in the order of their keys, all by one tree.
//!
//! A `BTreeMap` is compiled anew for each type of key and of value. A lane has some twenty of them, which were a fifth of all that the compiler makes of an
//! unoptimised program. So a key is a number here ([`Rank`]), the tree is of numbers alone, and a value lies in a slab. This crate compiles the tree once.

use crate::slab::{Key, Slab};
use crate::{Handle, Payer, PortId};
use std::collections::btree_map::{self, BTreeMap};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// A key as a number that has its order.
pub trait Rank: Copy {
    /// The number. Equal keys alone have the same.
    fn rank(self) -> u128;

    /// The key that has this number, which [`Rank::rank`] gave.
    fn of_rank(rank: u128) -> Self;
}

macro_rules! unsigned {
    ($($number:ty),*) => {$(
        impl Rank for $number {
            fn rank(self) -> u128 {
                self.into()
            }

            fn of_rank(rank: u128) -> Self {
                rank as Self
            }
        }
    )*};
}

unsigned!(u16, u32, u64);

impl Rank for i32 {
    fn rank(self) -> u128 {
        (self.cast_unsigned() ^ 1 << 31).into()
    }

    fn of_rank(rank: u128) -> Self {
        (rank as u32 ^ 1 << 31).cast_signed()
    }
}

impl Rank for Handle {
    fn rank(self) -> u128 {
        self.bits().into()
    }

    fn of_rank(rank: u128) -> Self {
        Self::from_bits(rank as u64)
    }
}

impl Rank for Key {
    fn rank(self) -> u128 {
        u128::from(self.index) << 32 | u128::from(self.generation)
    }

    fn of_rank(rank: u128) -> Self {
        Self::new((rank >> 32) as u32, rank as u32)
    }
}

impl Rank for PortId {
    fn rank(self) -> u128 {
        Key::new(self.index, self.generation).rank()
    }

    fn of_rank(rank: u128) -> Self {
        let Key { index, generation } = Key::of_rank(rank);
        Self { index, generation }
    }
}

impl Rank for Payer {
    fn rank(self) -> u128 {
        self.0.into()
    }

    fn of_rank(rank: u128) -> Self {
        Self(rank as u32)
    }
}

/// Numbers in their order, each with the place of a value. Nothing in it is generic: other crates call what this one has compiled.
#[derive(Default)]
struct Tree(BTreeMap<u128, u32>);

impl Tree {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, rank: u128) -> Option<u32> {
        self.0.get(&rank).copied()
    }

    fn insert(&mut self, rank: u128, place: u32) -> Option<u32> {
        self.0.insert(rank, place)
    }

    fn remove(&mut self, rank: u128) -> Option<u32> {
        self.0.remove(&rank)
    }

    fn walk(&self, from: Bound<u128>, to: Bound<u128>) -> Walk<'_> {
        Walk(self.0.range((from, to)))
    }

    fn take(&mut self) -> Vec<(u128, u32)> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}

struct Walk<'a>(btree_map::Range<'a, u128, u32>);

impl Walk<'_> {
    fn next(&mut self) -> Option<(u128, u32)> {
        self.0.next().map(|(rank, place)| (*rank, *place))
    }

    fn next_back(&mut self) -> Option<(u128, u32)> {
        self.0.next_back().map(|(rank, place)| (*rank, *place))
    }
}

/// Values by their keys, in the order of these, as in a `BTreeMap`. Its owner bounds what is in it.
///
/// ```
/// use corelane_seam::ordered::Ordered;
///
/// let mut table: Ordered<i32, &str> = Ordered::default();
/// table.insert(7, "seven");
/// table.insert(-7, "less");
/// assert_eq!(table.iter().collect::<Vec<_>>(), [(-7, &"less"), (7, &"seven")]);
/// assert_eq!((table.remove(7), table.get(7)), (Some("seven"), None));
/// ```
pub struct Ordered<K, V> {
    tree: Tree,
    values: Slab<V>,
    keys: PhantomData<K>,
}

/// Keys in their order, as in a `BTreeSet`.
pub type OrderedSet<K> = Ordered<K, ()>;

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Self { tree: Tree::default(), values: Slab::new(), keys: PhantomData }
    }
}

impl<K: Rank, V> Ordered<K, V> {
    /// The number of keys.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is this key.
    pub fn contains(&self, key: K) -> bool {
        self.tree.get(key.rank()).is_some()
    }

    /// The value of a key.
    pub fn get(&self, key: K) -> Option<&V> {
        Some(self.values.at(self.tree.get(key.rank())?))
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        Some(self.values.at_mut(self.tree.get(key.rank())?))
    }

    /// The value of a key, which is made where there is none.
    pub fn or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let place = self.tree.get(key.rank()).unwrap_or_else(|| {
            let place = self.values.insert(make()).index;
            let other = self.tree.insert(key.rank(), place);
            assert!(other.is_none(), "a key that was not there is added");
            place
        });
        self.values.at_mut(place)
    }

    /// Gives a key this value; returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(key) {
            return Some(std::mem::replace(known, value));
        }
        self.or_insert_with(key, || value);
        None
    }

    /// Takes a key away; returns its value.
    pub fn remove(&mut self, key: K) -> Option<V> {
        Some(self.values.remove_at(self.tree.remove(key.rank())?))
    }

    /// All keys with their values, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        self.range(..)
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> {
        self.range(..).map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.range(..).map(|(_, value)| value)
    }

    /// The keys of a range with their values, in order.
    ///
    /// # Panics
    /// As [`BTreeMap::range`]: if the range ends before it begins.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (K, &V)> {
        let of = |bound: Bound<&K>| bound.map(|key| key.rank());
        let walk = self.tree.walk(of(range.start_bound()), of(range.end_bound()));
        InOrder { walk, values: &self.values, keys: PhantomData }
    }

    /// Takes all, in order, and leaves none.
    pub fn take_all(&mut self) -> impl Iterator<Item = (K, V)> + use<K, V> {
        let mut values = std::mem::take(&mut self.values);
        self.tree.take().into_iter().map(move |(rank, place)| (K::of_rank(rank), values.remove_at(place)))
    }
}

struct InOrder<'a, K, V> {
    walk: Walk<'a>,
    values: &'a Slab<V>,
    keys: PhantomData<K>,
}

impl<'a, K: Rank, V> InOrder<'a, K, V> {
    fn at(&self, (rank, place): (u128, u32)) -> (K, &'a V) {
        (K::of_rank(rank), self.values.at(place))
    }
}

impl<'a, K: Rank, V> Iterator for InOrder<'a, K, V> {
    type Item = (K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.walk.next()?;
        Some(self.at(next))
    }
}

impl<K: Rank, V> DoubleEndedIterator for InOrder<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let next = self.walk.next_back()?;
        Some(self.at(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(i32, u8),
        Make(i32, u8),
        Change(i32, u8),
        Remove(i32),
        TakeAll,
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = || prop_oneof![-6..6, Just(i32::MIN), Just(i32::MAX)];
        prop_oneof![
            6 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Insert(key, value)),
            3 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Make(key, value)),
            3 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Change(key, value)),
            6 => key().prop_map(Step::Remove),
            1 => Just(Step::TakeAll),
        ]
    }

    proptest! {
        /// A table answers as a `BTreeMap` does, whatever is done to both.
        #[test]
        fn it_is_a_map_in_order(steps in prop::collection::vec(step(), 0..60), from in -7..7, to in -7..7) {
            let (mut table, mut model) = (Ordered::<i32, u8>::default(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Insert(key, value) => prop_assert_eq!(table.insert(key, value), model.insert(key, value)),
                    Step::Make(key, value) => {
                        prop_assert_eq!(*table.or_insert_with(key, || value), *model.entry(key).or_insert(value));
                    }
                    Step::Change(key, value) => {
                        prop_assert_eq!(table.get_mut(key).map(|known| *known = value), model.get_mut(&key).map(|known| *known = value));
                    }
                    Step::Remove(key) => prop_assert_eq!(table.remove(key), model.remove(&key)),
                    Step::TakeAll => {
                        let all: Vec<_> = std::mem::take(&mut model).into_iter().collect();
                        prop_assert_eq!(table.take_all().collect::<Vec<_>>(), all);
                    }
                }
                prop_assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(table.get(from).copied(), model.get(&from).copied());
                prop_assert_eq!(table.contains(from), model.contains_key(&from));
            }
            let pairs = |(key, value): (i32, &u8)| (key, *value);
            let wanted: Vec<(i32, u8)> = model.iter().map(|(key, value)| (*key, *value)).collect();
            prop_assert_eq!(table.iter().map(pairs).collect::<Vec<_>>(), wanted.clone());
            prop_assert_eq!(table.iter().rev().map(pairs).collect::<Vec<_>>(), wanted.iter().rev().copied().collect::<Vec<_>>());
            prop_assert_eq!(table.keys().collect::<Vec<_>>(), wanted.iter().map(|one| one.0).collect::<Vec<_>>());
            prop_assert_eq!(table.values().copied().collect::<Vec<_>>(), wanted.iter().map(|one| one.1).collect::<Vec<_>>());
            let (from, to) = (from.min(to), from.max(to));
            let of = |range: (Bound<i32>, Bound<i32>)| {
                (table.range(range).map(pairs).collect::<Vec<_>>(), model.range(range).map(|(key, value)| (*key, *value)).collect::<Vec<_>>())
            };
            for range in [(Bound::Included(from), Bound::Excluded(to)), (Bound::Excluded(from), Bound::Unbounded), (Bound::Unbounded, Bound::Included(to))] {
                let (found, wanted) = of(range);
                prop_assert_eq!(found, wanted);
            }
        }

        /// Numbers have the order of their keys, and are theirs alone.
        #[test]
        fn ranks_are_in_order(numbers: [(i32, u32, u64); 2], parts: [(u32, u32); 2]) {
            let [one, other] = numbers;
            prop_assert_eq!(one.0.cmp(&other.0), one.0.rank().cmp(&other.0.rank()));
            prop_assert_eq!((i32::of_rank(one.0.rank()), u32::of_rank(one.1.rank()), u64::of_rank(one.2.rank())), one);
            let keys = parts.map(|(index, generation)| Key::new(index, generation));
            prop_assert_eq!(keys[0].cmp(&keys[1]), keys[0].rank().cmp(&keys[1].rank()));
            prop_assert_eq!(Key::of_rank(keys[0].rank()), keys[0]);
            let ports = parts.map(|(index, generation)| PortId { index, generation });
            prop_assert_eq!(ports[0].cmp(&ports[1]), ports[0].rank().cmp(&ports[1].rank()));
            prop_assert_eq!(PortId::of_rank(ports[1].rank()), ports[1]);
            let handles = numbers.map(|(_, index, generation)| Handle::new(3, index >> 4, generation as u32));
            prop_assert_eq!(handles[0].cmp(&handles[1]), handles[0].rank().cmp(&handles[1].rank()));
            prop_assert_eq!(Handle::of_rank(handles[0].rank()), handles[0]);
            let payers = parts.map(|(number, _)| Payer(number));
            prop_assert_eq!(payers[0].cmp(&payers[1]), payers[0].rank().cmp(&payers[1].rank()));
            prop_assert_eq!(Payer::of_rank(payers[1].rank()), payers[1]);
        }
    }
}
