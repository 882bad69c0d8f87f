//! Short lists of the prefixes that begin alike: a copy of what the tree has, to be found without a walk.

use crate::blocks::{Blocks, Item};
use crate::hashed::Hashed;

/// Bits that the prefixes of a group share, and the fewest that one has: hardly a network of the Internet is wider.
pub(crate) const SHARED: u8 = 28;

/// Bits of the longest prefix in a group: those that are not shared, and one that says where they end, are 32.
const LONGEST: u8 = SHARED + 31;

/// Prefixes in a line.
const LINE: usize = 8;

/// Prefixes of a group, at most: what has more is left to the tree.
const GROUP_MAX: usize = 64;

/// Lines of a group, at most.
const LINES_MAX: u32 = (GROUP_MAX / LINE) as u32;

/// A cache line of prefixes, the longest ones first.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    /// The bits behind the shared ones, then a 1 and zeros. 0 where there is no prefix.
    keys: [u32; LINE],
    values: [u32; LINE],
}

impl Item for Line {
    const EMPTY: Self = Self { keys: [0; LINE], values: [0; LINE] };

    fn of_link(link: u32) -> Self {
        Self { values: [link; LINE], ..Self::EMPTY }
    }

    fn link(self) -> u32 {
        self.values[0]
    }
}

impl Line {
    /// The first prefix that these bits begin with.
    #[inline]
    fn find(&self, bits: u32) -> Option<(u8, u32)> {
        // All are compared at once: where a jump depended on which one it is, it would be guessed wrong.
        let begins = |key: u32| (key ^ bits) & !(key ^ key.wrapping_sub(1)) == 0;
        let all = (0..LINE).fold(0, |all, at| all | u32::from(begins(self.keys[at])).wrapping_neg() & 1 << at);
        let at = (all | 1 << (LINE - 1)).trailing_zeros() as usize % LINE;
        let key = self.keys[at];
        // All bits begin as what is empty does, which comes last.
        (key != 0 && begins(key)).then(|| (LONGEST - key.trailing_zeros() as u8, self.values[at]))
    }
}

/// A prefix as a group has it, and its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    length: u8,
    bits: u32,
    value: u32,
}

/// The prefixes of a group, to be gathered.
pub(crate) struct Entries {
    entries: [Entry; GROUP_MAX],
    length: usize,
}

impl Entries {
    pub fn new() -> Self {
        Self { entries: [Entry::default(); GROUP_MAX], length: 0 }
    }

    /// Adds one; says whether it belongs to a group and there is room for it.
    pub fn add(&mut self, length: u8, bits: u32, value: impl FnOnce() -> u32) -> bool {
        let has_room = self.length < GROUP_MAX && length <= LONGEST;
        if has_room {
            self.entries[self.length] = Entry { length, bits, value: value() };
            self.length += 1;
        }
        has_room
    }

    /// Leaves all of them to the tree.
    pub const fn clear(&mut self) {
        self.length = 0;
    }
}

/// The groups of a table, by the bits that their prefixes share. A group that is not here may be in the tree.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// Where the lines of a group begin times [`LINES_MAX`], and how many they are, less 1; plus 1.
    places: Hashed,
    lines: Blocks<Line, 1024>,
}

impl Groups {
    pub fn new() -> Self {
        Self { places: Hashed::new(), lines: Blocks::new() }
    }

    /// Bytes of memory that are held.
    pub const fn bytes(&self) -> usize {
        self.places.bytes() + self.lines.bytes()
    }

    /// Chunks that a copy does not have.
    #[cfg(test)]
    pub fn own_chunks(&self, copy: &Self) -> usize {
        self.places.own_chunks(&copy.places) + self.lines.own_chunks(&copy.lines)
    }

    /// The longest prefix of an address among those of its group.
    #[inline]
    pub fn find(&self, (shared, bits): (u32, u32)) -> Option<(u8, u32)> {
        let place = self.places.get(shared).checked_sub(1)?;
        let (mut at, last) = (place / LINES_MAX, place / LINES_MAX + place % LINES_MAX);
        loop {
            let found = self.lines.get(at).find(bits);
            if found.is_some() || at == last {
                return found;
            }
            at += 1;
        }
    }

    /// A group has these prefixes from now on; none where it is left to the tree.
    pub fn put(&mut self, shared: u32, entries: &mut Entries) {
        let entries = &mut entries.entries[..entries.length];
        entries.sort_unstable_by(|one, other| other.cmp(one));
        let Some(first) = self.room(shared, entries.len().div_ceil(LINE)) else { return };
        for (at, entries) in (first..).zip(entries.chunks(LINE)) {
            let line = self.lines.get_mut(at);
            *line = Line::EMPTY;
            for (place, entry) in entries.iter().enumerate() {
                line.keys[place] = entry.bits | 1 << (LONGEST - entry.length);
                line.values[place] = entry.value;
            }
        }
    }

    /// The first of so many lines for a group; none where it needs none, or its place cannot be noted.
    fn room(&mut self, shared: u32, many: usize) -> Option<u32> {
        if let Some(place) = self.places.get(shared).checked_sub(1) {
            let (first, held) = (place / LINES_MAX, (place % LINES_MAX) as usize + 1);
            if held == many {
                return Some(first);
            }
            self.places.note(shared, 0);
            self.lines.give_back(first, held);
        }
        if many == 0 {
            return None;
        }
        let first = self.lines.make(many);
        let is_noted = first < u32::MAX / LINES_MAX && self.places.note(shared, first * LINES_MAX + many as u32);
        if !is_noted {
            self.lines.give_back(first, many);
        }
        is_noted.then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(groups: &mut Groups, shared: u32, prefixes: impl IntoIterator<Item = (u8, u32, u32)>) {
        let mut entries = Entries::new();
        prefixes.into_iter().for_each(|(length, bits, value)| assert!(entries.add(length, bits, || value)));
        groups.put(shared, &mut entries);
    }

    #[test]
    fn the_longest_of_a_group_is_found_in_whichever_line_it_is() {
        let mut groups = Groups::new();
        put(&mut groups, 7, [(SHARED, 0, 1), (LONGEST, 5 << 1, 2), (SHARED + 1, 1 << 31, 3)]);
        let find = |groups: &Groups, bits: u32| groups.find((7, bits));
        assert_eq!(find(&groups, 5 << 1 | 1), Some((LONGEST, 2)));
        assert_eq!((find(&groups, 9), find(&groups, 1 << 31)), (Some((SHARED, 1)), Some((SHARED + 1, 3))));
        assert_eq!(groups.find((8, 0)), None);
        // As many as there may be: all bits of the last line's are those of others' too.
        put(&mut groups, 7, (0..63).map(|at| (SHARED + 6, at << 26, at)).chain([(SHARED, 0, 99)]));
        assert!((0..63).all(|at| find(&groups, at << 26 | 77) == Some((SHARED + 6, at))));
        assert_eq!(find(&groups, 63 << 26), Some((SHARED, 99)));
        put(&mut groups, 7, [(SHARED + 2, 0, 5)]);
        assert_eq!((find(&groups, 0), find(&groups, 1 << 30)), (Some((SHARED + 2, 5)), None));
        put(&mut groups, 7, []);
        assert_eq!(find(&groups, 0), None);
    }

    #[test]
    fn what_is_too_long_or_too_much_is_no_groups() {
        let mut entries = Entries::new();
        assert!(!entries.add(LONGEST + 1, 0, || 1));
        assert!((0..GROUP_MAX).all(|_| entries.add(LONGEST, 0, || 1)) && !entries.add(LONGEST, 0, || 1));
    }

    /// Lines that one group has had are used by others.
    #[test]
    fn lines_are_used_again() {
        let mut groups = Groups::new();
        let mut most = 0;
        for round in 0..20 {
            (0..2_000).for_each(|shared| put(&mut groups, shared, (0..1 + round % 5 * 9).map(|at| (SHARED + 6, at << 26, at))));
            most = if round == 4 { groups.bytes() } else { most };
            assert!(round < 5 || groups.bytes() <= most, "{round}: {} and {most}", groups.bytes());
        }
    }
}
