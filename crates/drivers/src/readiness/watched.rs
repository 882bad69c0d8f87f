//! Which directories are watched, by the numbers that the system has given and by the handles of those who watch.

use corelane_seam::Handle;
use corelane_seam::ordered::Ordered;
use corelane_seam::slab::Key;

/// The watches of a driver.
#[derive(Default)]
pub(super) struct Watches {
    /// What tells, from the first watch on.
    pub(super) notices: Option<Key>,
    by_number: Ordered<i32, Vec<Handle>>,
    by_handle: Ordered<Handle, i32>,
}

impl Watches {
    pub(super) fn len(&self) -> usize {
        self.by_handle.len()
    }

    pub(super) fn add(&mut self, number: i32, handle: Handle) {
        let other = self.by_handle.insert(handle, number);
        assert!(other.is_none(), "one handle names one watch at a time");
        self.by_number.or_insert_with(number, Vec::new).push(handle);
    }

    /// Takes all that have this number.
    pub(super) fn take(&mut self, number: i32) -> Vec<Handle> {
        let handles = self.by_number.remove(number).unwrap_or_default();
        for handle in &handles {
            let known = self.by_handle.remove(*handle);
            assert!(known == Some(number), "a watch has one number");
        }
        handles
    }

    /// Takes all: their numbers, and who watches.
    pub(super) fn take_all(&mut self) -> (Vec<i32>, Vec<Handle>) {
        let numbers = self.by_number.take_all().map(|(number, _)| number).collect();
        (numbers, self.by_handle.take_all().map(|(handle, _)| handle).collect())
    }

    /// Takes one; returns its number if nobody else has it.
    pub(super) fn remove(&mut self, handle: Handle) -> Option<Option<i32>> {
        let number = self.by_handle.remove(handle)?;
        // reason: both tables name the same watches.
        let handles = self.by_number.get_mut(number).expect("a number is known as long as somebody has it");
        handles.retain(|other| *other != handle);
        if !handles.is_empty() {
            return Some(None);
        }
        self.by_number.remove(number);
        Some(Some(number))
    }

    /// Those of the works that `is_gone` names.
    pub(super) fn of_works(&self, is_gone: impl Fn(u8) -> bool) -> Vec<Handle> {
        self.by_handle.keys().filter(|handle| is_gone(handle.work())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_agree() {
        let handle = |index| Handle::new(0, index, 0);
        let mut watches = Watches::default();
        for (number, index) in [(1, 0), (1, 1), (2, 2), (2, 3), (3, 4)] {
            watches.add(number, handle(index));
        }
        assert_eq!((watches.remove(handle(0)), watches.remove(handle(0))), (Some(None), None));
        assert_eq!((watches.remove(handle(1)), watches.remove(handle(4))), (Some(Some(1)), Some(Some(3))));
        assert_eq!((watches.take(2), watches.take(2)), (vec![handle(2), handle(3)], vec![]));
        assert!(watches.by_handle.is_empty() && watches.by_number.is_empty());
        watches.add(5, handle(7));
        assert_eq!((watches.take_all(), watches.take_all()), ((vec![5], vec![handle(7)]), (vec![], vec![])));
    }
}
