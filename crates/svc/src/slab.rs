//! A table whose entries are named by index and generation.

use corelane_seam::Handle;

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// Values at stable indices; a freed index is used again with the next generation.
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Adds a value; returns its index and generation.
    pub(crate) fn insert(&mut self, value: T) -> (u32, u32) {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            assert!(entry.value.is_none(), "a free entry holds nothing");
            entry.value = Some(value);
            return (index, entry.generation);
        }
        self.entries.push(Entry { generation: 0, value: Some(value) });
        (self.entries.len() as u32 - 1, 0)
    }

    pub(crate) fn get_mut(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        let entry = self.entries.get_mut(index as usize)?;
        if entry.generation == generation { entry.value.as_mut() } else { None }
    }

    pub(crate) fn get(&self, index: u32, generation: u32) -> Option<&T> {
        let entry = self.entries.get(index as usize)?;
        if entry.generation == generation { entry.value.as_ref() } else { None }
    }

    /// The value at an index, whatever its generation.
    pub(crate) fn at(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.value.as_mut()
    }

    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.entries[index as usize].generation
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?;
        let value = entry.value.take()?;
        entry.generation = Handle::next_generation(entry.generation);
        self.free.push(index);
        Some(value)
    }

    /// All values, taken out.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> {
        let indices: Vec<u32> = self.indices().collect();
        indices.into_iter().filter_map(|index| self.remove(index))
    }

    /// The values in use, lowest index first.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.value.as_ref())
    }

    /// The indices in use, lowest first.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().enumerate().filter(|(_, entry)| entry.value.is_some()).map(|(index, _)| index as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_entry_is_not_found_under_its_old_name() {
        let mut slab = Slab::new();
        let (first, generation) = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!(slab.insert('b'), (first, generation + 1));
        assert_eq!(slab.get_mut(first, generation), None);
        assert_eq!(slab.get_mut(first, generation + 1), Some(&mut 'b'));
        assert_eq!((slab.len(), slab.remove(9), slab.indices().collect::<Vec<_>>()), (1, None, vec![0]));
    }
}
