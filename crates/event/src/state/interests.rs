//! An origin's interests: one a filter at most, so that going through them looks at those alone that are there.

use corelane_seam::slab::Key;

use crate::record::Filter;

/// Filters that an origin with a descriptor may have interests in.
const FILTERS: usize = 8;

/// See the module.
pub struct Interests {
    keys: [Key; FILTERS],
    /// Places that are taken, a bit each.
    taken: u8,
}

impl Default for Interests {
    fn default() -> Self {
        // What stands in a place that is not taken is not looked at.
        Self { keys: [Key::new(0, 0); FILTERS], taken: 0 }
    }
}

impl Interests {
    /// The interest in a filter.
    pub fn get(&self, filter: Filter) -> Option<Key> {
        let place = place(filter);
        (self.taken & 1 << place != 0).then_some(self.keys[place])
    }

    /// There is an interest in a filter from now on.
    pub fn put(&mut self, filter: Filter, key: Key) {
        let place = place(filter);
        assert!(self.taken & 1 << place == 0, "an origin has one interest a filter");
        self.keys[place] = key;
        self.taken |= 1 << place;
    }

    /// The interest in a filter, which is none from now on.
    pub fn take(&mut self, filter: Filter) -> Option<Key> {
        let key = self.get(filter);
        self.taken &= !(1 << place(filter));
        key
    }

    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// In the order of their filters.
    pub fn iter(&self) -> Walk<'_> {
        Walk { keys: &self.keys, left: self.taken }
    }
}

/// The interests one after the other.
pub struct Walk<'a> {
    keys: &'a [Key; FILTERS],
    left: u8,
}

impl Iterator for Walk<'_> {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        let place = self.left.trailing_zeros() as usize;
        let key = *self.keys.get(place)?;
        self.left &= self.left - 1;
        Some(key)
    }
}

/// The place of a filter.
fn place(filter: Filter) -> usize {
    match filter {
        Filter::Read => 0,
        Filter::Write => 1,
        Filter::Vnode => 2,
        Filter::Empty => 3,
        Filter::Process | Filter::ProcessDescriptor => 4,
        Filter::Ready => 5,
        Filter::Poll => 6,
        Filter::Except => 7,
        // reason: the other filters have no descriptor, and are never asked about.
        _ => unreachable!("{filter:?} has no descriptor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::slab::Slab;

    #[test]
    fn interests_are_gone_through_in_the_order_of_their_filters() {
        let (mut slab, mut interests): (Slab<Filter>, _) = (Slab::new(), Interests::default());
        let [read, poll, write] = [Filter::Read, Filter::Poll, Filter::Write].map(|filter| {
            let key = slab.insert(filter);
            interests.put(filter, key);
            key
        });
        assert_eq!(interests.iter().collect::<Vec<_>>(), [read, write, poll]);
        assert_eq!((interests.take(Filter::Read), interests.take(Filter::Read)), (Some(read), None));
        assert_eq!((interests.get(Filter::Write), interests.get(Filter::Vnode)), (Some(write), None));
        assert_eq!(interests.iter().collect::<Vec<_>>(), [write, poll]);
        assert_eq!((interests.take(Filter::Poll), interests.take(Filter::Write)), (Some(poll), Some(write)));
        assert!(interests.is_empty() && interests.iter().next().is_none());
    }
}
