//! Which parts of an arena are free: a binary buddy allocator over unit numbers, without touching the memory itself.
//!
//! Blocks are powers of two of `UNIT` bytes. A freed block is *not* merged at once: it goes on a short stack of its
//! size, so that the next request of that size gets the memory that is still in the cache. Merging happens when a
//! request would fail otherwise. (Knuth, The Art of Computer Programming 1, section 2.5.)

use crate::payer::Payer;

/// Bytes of the smallest block.
pub(crate) const UNIT: usize = 256;
/// Number of block sizes: 256 B, 512 B, ... 4 MiB.
pub(crate) const ORDERS: usize = 15;
/// Bytes of the largest lease: 4 MiB.
pub const LEASE_BYTES_MAX: usize = UNIT << (ORDERS - 1);
/// Units of the largest block.
const TOP_UNITS: u32 = 1 << (ORDERS - 1);
const NONE: u32 = u32::MAX;
const FREE: u32 = 1 << 31;

/// The state of a unit that begins a block.
#[derive(Clone, Copy)]
enum Field {
    /// The next free block of this order; of a block that is taken, who pays for it.
    Next,
    Previous,
    References,
    /// The block's order, with `FREE` set while it is in a list.
    Order,
}

/// Blocks of one size that were freed last, kept out of the lists: taking one back is a pop.
const HOT_MAX: usize = 16;

#[derive(Clone, Copy)]
struct Hot {
    units: [u32; HOT_MAX],
    count: usize,
}

pub(crate) struct Buddy {
    /// Four words a unit, only those of a block's first unit are in use; zeroed lazily by the operating system.
    fields: Vec<[u32; 4]>,
    heads: [u32; ORDERS],
    /// A bit for each order whose list has a block.
    listed: u16,
    hot: [Hot; ORDERS],
    used_units: u32,
    peak_units: u32,
    /// Whether anything was freed since the last merge: otherwise another merge cannot help.
    merge_may_help: bool,
}

impl Buddy {
    /// Manages `units` units, a multiple of the largest block.
    pub(crate) fn new(units: u32) -> Self {
        assert!(units > 0 && units.is_multiple_of(TOP_UNITS), "an arena is made of largest blocks");
        assert!(units <= FREE, "unit numbers leave a bit for what is free");
        let mut buddy = Self {
            fields: vec![[0; 4]; units as usize],
            heads: [NONE; ORDERS],
            listed: 0,
            hot: [Hot { units: [0; HOT_MAX], count: 0 }; ORDERS],
            used_units: 0,
            peak_units: 0,
            merge_may_help: false,
        };
        for block in (0..units / TOP_UNITS).rev() {
            buddy.link(block * TOP_UNITS, ORDERS - 1);
        }
        buddy
    }

    /// The order of the smallest block that holds `bytes`, or none if no block does.
    pub(crate) fn order_of(bytes: usize) -> Option<usize> {
        let units = bytes.div_ceil(UNIT).max(1);
        let order = units.next_power_of_two().trailing_zeros() as usize;
        (order < ORDERS).then_some(order)
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.used_units as usize * UNIT
    }

    pub(crate) fn bytes_peak(&self) -> usize {
        self.peak_units as usize * UNIT
    }

    /// Takes a block of `order` with one reference; none when memory is used up.
    pub(crate) fn take(&mut self, order: usize) -> Option<u32> {
        let found = self.take_hot(order).or_else(|| self.split_down(order)).or_else(|| {
            self.merge();
            self.split_down(order)
        })?;
        assert!(found.is_multiple_of(1 << order), "a block begins at a multiple of its size");
        assert!(self.references(found) == 0, "a block is taken by one at a time");
        self.set(found, Field::Order, order as u32);
        self.set(found, Field::References, 1);
        self.used_units += 1 << order;
        assert!(self.used_units as usize <= self.fields.len(), "no more is taken than there is");
        self.peak_units = self.peak_units.max(self.used_units);
        Some(found)
    }

    /// Whether a block of `order` could be taken now.
    pub(crate) fn find(&mut self, order: usize) -> bool {
        if self.hot[order].count > 0 {
            return true;
        }
        if self.listed >> order == 0 {
            self.merge();
        }
        self.listed >> order != 0
    }

    /// Adds a reference to the block that begins at `unit`.
    pub(crate) fn retain(&mut self, unit: u32) {
        let references = self.get(unit, Field::References);
        assert!(references > 0, "what is shared is taken");
        assert!(references < u32::MAX, "references are counted");
        self.set(unit, Field::References, references + 1);
    }

    /// Notes who pays for the block at `unit`, which is taken.
    pub(crate) fn set_payer(&mut self, unit: u32, payer: Payer) {
        assert!(self.references(unit) > 0, "nobody pays for a free block");
        self.set(unit, Field::Next, payer.number());
    }

    pub(crate) fn payer(&self, unit: u32) -> Payer {
        Payer::numbered(self.get(unit, Field::Next))
    }

    /// How many references the block at `unit` has.
    pub(crate) fn references(&self, unit: u32) -> u32 {
        self.get(unit, Field::References)
    }

    /// Gives one reference back; with the last one the block is free.
    pub(crate) fn release(&mut self, unit: u32) {
        let references = self.get(unit, Field::References);
        assert!(references > 0, "a block was released more often than taken");
        self.set(unit, Field::References, references - 1);
        if references == 1 {
            let order = self.get(unit, Field::Order) as usize;
            assert!(order < ORDERS, "a block that is taken is in no list of free ones");
            assert!(self.used_units >= 1 << order, "no more is given back than was taken");
            self.used_units -= 1 << order;
            self.merge_may_help = true;
            self.give_hot(unit, order);
        }
    }

    fn take_hot(&mut self, order: usize) -> Option<u32> {
        let hot = &mut self.hot[order];
        hot.count = hot.count.checked_sub(1)?;
        Some(hot.units[hot.count])
    }

    fn give_hot(&mut self, unit: u32, order: usize) {
        let hot = &mut self.hot[order];
        if hot.count == HOT_MAX {
            return self.link(unit, order);
        }
        hot.units[hot.count] = unit;
        hot.count += 1;
    }

    /// Puts the blocks that were freed last into the lists, where they can be merged.
    fn cool(&mut self) {
        for order in 0..ORDERS {
            while let Some(unit) = self.take_hot(order) {
                self.link(unit, order);
            }
        }
    }

    fn split_down(&mut self, order: usize) -> Option<u32> {
        let larger = self.listed >> order;
        if larger == 0 {
            return None;
        }
        let mut from = order + larger.trailing_zeros() as usize;
        let unit = self.heads[from];
        self.unlink(unit, from);
        assert!(self.references(unit) == 0, "what is free has no owner");
        while from > order {
            from -= 1;
            self.link(unit + (1 << from), from);
        }
        Some(unit)
    }

    /// Joins free buddies, smallest first; bounded by the number of free blocks.
    fn merge(&mut self) {
        if !std::mem::take(&mut self.merge_may_help) {
            return;
        }
        self.cool();
        for order in 0..ORDERS - 1 {
            let mut unit = self.heads[order];
            while unit != NONE {
                let after = self.get(unit, Field::Next);
                unit = self.join_with_buddy(unit, order, after);
            }
        }
    }

    /// Joins `unit` with its buddy if that is free; returns where the walk of the list goes on.
    fn join_with_buddy(&mut self, unit: u32, order: usize, after: u32) -> u32 {
        let buddy = unit ^ (1 << order);
        if self.get(buddy, Field::Order) != (FREE | order as u32) {
            return after;
        }
        let after = if after == buddy { self.get(buddy, Field::Next) } else { after };
        self.unlink(unit, order);
        self.unlink(buddy, order);
        self.link(unit.min(buddy), order + 1);
        after
    }

    fn link(&mut self, unit: u32, order: usize) {
        assert!(self.get(unit, Field::References) == 0, "only what is free enters a list");
        let head = self.heads[order];
        self.set(unit, Field::Next, head);
        self.set(unit, Field::Previous, NONE);
        self.set(unit, Field::Order, FREE | order as u32);
        if head != NONE {
            self.set(head, Field::Previous, unit);
        }
        self.heads[order] = unit;
        self.listed |= 1 << order;
    }

    fn unlink(&mut self, unit: u32, order: usize) {
        assert!(self.get(unit, Field::Order) == FREE | order as u32, "a block leaves the list of its size");
        let (next, previous) = (self.get(unit, Field::Next), self.get(unit, Field::Previous));
        if previous == NONE {
            self.heads[order] = next;
            self.listed &= !(u16::from(next == NONE) << order);
        } else {
            self.set(previous, Field::Next, next);
        }
        if next != NONE {
            self.set(next, Field::Previous, previous);
        }
        self.set(unit, Field::Order, 0);
    }

    fn get(&self, unit: u32, field: Field) -> u32 {
        self.fields[unit as usize][field as usize]
    }

    fn set(&mut self, unit: u32, field: Field, value: u32) {
        self.fields[unit as usize][field as usize] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn order_follows_size() {
        let orders = [(0, 0), (1, 0), (256, 0), (257, 1), (65536, 8), (4 << 20, 14)];
        for (bytes, order) in orders {
            assert_eq!(Buddy::order_of(bytes), Some(order), "{bytes}");
        }
        assert_eq!(Buddy::order_of((4 << 20) + 1), None);
    }

    #[test]
    fn the_block_freed_last_is_taken_first() {
        let mut buddy = Buddy::new(TOP_UNITS);
        let blocks: Vec<_> = (0..4).map(|_| buddy.take(8).unwrap()).collect();
        buddy.release(blocks[2]);
        buddy.release(blocks[0]);
        assert_eq!(buddy.take(8), Some(blocks[0]));
        assert_eq!(buddy.take(8), Some(blocks[2]));
    }

    #[test]
    fn splinters_merge_back_into_the_largest_block() {
        let mut buddy = Buddy::new(TOP_UNITS);
        let units: Vec<_> = (0..TOP_UNITS).map(|_| buddy.take(0).unwrap()).collect();
        assert_eq!(buddy.take(0), None);
        units.iter().for_each(|&unit| buddy.release(unit));
        assert_eq!(buddy.bytes_used(), 0);
        assert!(buddy.take(ORDERS - 1).is_some());
    }

    proptest! {
        /// Blocks never overlap, and a free byte is never lost, whatever the order of calls.
        #[test]
        fn blocks_never_overlap(steps in prop::collection::vec((0usize..ORDERS, any::<u16>()), 1..400)) {
            let mut buddy = Buddy::new(2 * TOP_UNITS);
            let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
            for (order, choice) in steps {
                if choice % 3 == 0 && !taken.is_empty() {
                    let (&unit, _) = taken.iter().nth(choice as usize % taken.len()).unwrap();
                    taken.remove(&unit);
                    buddy.release(unit);
                } else {
                    let is_found = buddy.find(order);
                    let block = buddy.take(order);
                    prop_assert_eq!(is_found, block.is_some());
                    if let Some(unit) = block {
                        let end = unit + (1 << order);
                        let before = taken.range(..end).next_back().map(|(&unit, &order)| unit + (1 << order));
                        prop_assert!(before.is_none_or(|before| before <= unit));
                        taken.insert(unit, order);
                    }
                }
                let listed = (0..ORDERS).filter(|&order| buddy.heads[order] != NONE).fold(0, |listed, order| listed | 1 << order);
                prop_assert_eq!(buddy.listed, listed);
                let held: usize = taken.values().map(|&order| UNIT << order).sum();
                prop_assert_eq!(buddy.bytes_used(), held);
            }
            taken.keys().for_each(|&unit| buddy.release(unit));
            prop_assert!(buddy.take(ORDERS - 1).is_some());
            prop_assert!(buddy.take(ORDERS - 1).is_some());
            prop_assert!(buddy.take(0).is_none());
        }
    }
}
