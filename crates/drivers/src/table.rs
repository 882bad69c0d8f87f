//! A table whose entries have generations, so that a name kept too long names nothing.

use corelane_seam::{File, Socket};

/// The name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Key {
    /// For a kernel interface that carries 64 bits.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The key in bits that the kernel gave back.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

impl From<Socket> for Key {
    fn from(socket: Socket) -> Self {
        Self { index: socket.index, generation: socket.generation }
    }
}

impl From<Key> for Socket {
    fn from(key: Key) -> Self {
        Self { index: key.index, generation: key.generation }
    }
}

impl From<&File> for Key {
    fn from(file: &File) -> Self {
        Self { index: file.index, generation: file.generation }
    }
}

impl From<Key> for File {
    fn from(key: Key) -> Self {
        Self::new(key.index, key.generation)
    }
}

const NONE: u32 = u32::MAX;

enum Content<T> {
    Free { next: u32 },
    Taken(T),
}

struct Entry<T> {
    generation: u32,
    content: Content<T>,
}

/// The table. Its size is bounded by what it stands for (descriptors, operations under way); freed entries are
/// taken again, the last freed first, and their storage is kept.
pub(crate) struct Table<T> {
    slots: Vec<Entry<T>>,
    free: u32,
}

impl<T> Table<T> {
    /// Bytes of memory that each entry takes.
    #[cfg(test)]
    pub(crate) const ENTRY_BYTES: usize = size_of::<Entry<T>>();

    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: NONE }
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        let index = self.free;
        if let Some(slot) = self.slots.get_mut(index as usize) {
            match std::mem::replace(&mut slot.content, Content::Taken(value)) {
                Content::Free { next } => self.free = next,
                Content::Taken(_) => unreachable!("the list of free entries holds a taken one"),
            }
            return Key { index, generation: slot.generation };
        }
        let index = self.slots.len() as u32;
        assert!(index < NONE, "a table has at most 2^32 - 1 entries");
        self.slots.push(Entry { generation: 0, content: Content::Taken(value) });
        Key { index, generation: 0 }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        match self.slots.get(key.index as usize) {
            Some(Entry { generation, content: Content::Taken(value) }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slots.get_mut(key.index as usize) {
            Some(Entry { generation, content: Content::Taken(value) }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The entry at `index`, whatever its generation: for links within a table, which end before their entries do.
    ///
    /// # Panics
    /// If it is free.
    pub(crate) fn at(&mut self, index: u32) -> &mut T {
        match &mut self.slots[index as usize].content {
            Content::Taken(value) => value,
            Content::Free { .. } => unreachable!("a link to a free entry"),
        }
    }

    /// The key of the taken entry at `index`.
    ///
    /// # Panics
    /// If it is free.
    pub(crate) fn key_at(&self, index: u32) -> Key {
        let slot = &self.slots[index as usize];
        assert!(matches!(slot.content, Content::Taken(_)), "a link to a free entry");
        Key { index, generation: slot.generation }
    }

    /// Frees the entry at `index`, for links as in [`Table::at`].
    ///
    /// # Panics
    /// If it is free already.
    pub(crate) fn remove_at(&mut self, index: u32) -> T {
        match self.remove(self.key_at(index)) {
            Some(value) => value,
            None => unreachable!("the entry was just named"),
        }
    }

    /// The names of all entries in use of which `wanted` is true.
    pub(crate) fn keys(&self, wanted: impl Fn(&T) -> bool) -> Vec<Key> {
        let keys = self.slots.iter().enumerate().map(|(index, slot)| Key { index: index as u32, generation: slot.generation });
        keys.filter(|&key| self.get(key).is_some_and(&wanted)).collect()
    }

    /// Frees all entries.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Key, T)> {
        (0..self.slots.len()).filter_map(|index| {
            let key = Key { index: index as u32, generation: self.slots[index].generation };
            Some((key, self.remove(key)?))
        })
    }

    /// Frees the entry; its name is void from now on.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        assert!(self.free != key.index, "a taken entry is not on the list of free ones");
        let slot = &mut self.slots[key.index as usize];
        let content = std::mem::replace(&mut slot.content, Content::Free { next: self.free });
        slot.generation = slot.generation.wrapping_add(1);
        self.free = key.index;
        match content {
            Content::Taken(value) => Some(value),
            Content::Free { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_with_its_entry() {
        let mut table = Table::new();
        let first = table.insert("first");
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second");
        assert_eq!(second.index, first.index);
        assert!(table.get(first).is_none() && table.get_mut(first).is_none() && table.remove(first).is_none());
        assert_eq!(table.get(second), Some(&"second"));
        assert_eq!(table.key_at(second.index), second);
        assert_eq!(Key::from_bits(second.bits()), second);
    }

    #[test]
    fn entries_freed_last_are_taken_first() {
        let mut table = Table::new();
        let keys: Vec<_> = (0..4).map(|number| table.insert(number)).collect();
        table.remove(keys[1]);
        table.remove(keys[3]);
        let again: Vec<_> = (0..3).map(|number| table.insert(number).index).collect();
        assert_eq!(again, [3, 1, 4]);
        table.remove(keys[0]);
        assert_eq!(table.drain().map(|(key, number)| (key.index, number)).collect::<Vec<_>>(), [(1, 1), (2, 2), (3, 0), (4, 2)]);
        assert_eq!(table.drain().count(), 0);
    }

    #[test]
    fn a_key_outside_the_table_names_nothing() {
        let table: Table<u8> = Table::new();
        assert_eq!(table.get(Key { index: 9, generation: 0 }), None);
    }
}
