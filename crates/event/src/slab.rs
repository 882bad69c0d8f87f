//! Places for values, named by place and generation: a name outlives its value without meaning another.

/// The name of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// Its place, which another value may have later.
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// As a word that the kernel carries; never one of the [`RESERVED`].
    pub fn token(self) -> u64 {
        u64::from(self.index) << 32 | u64::from(self.generation)
    }

    /// The name in a token.
    pub fn from_token(token: u64) -> Self {
        assert!(token < RESERVED, "a reserved token names no value");
        Self { index: (token >> 32) as u32, generation: token as u32 }
    }
}

/// Tokens from here on name nothing in a slab: no place has the highest number.
pub const RESERVED: u64 = (u32::MAX as u64) << 32;

struct Element<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by name; each call costs the same whatever it holds.
pub struct Slab<T> {
    places: Vec<Element<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, value: T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Element { generation: 0, value: None });
            self.places.len() as u32 - 1
        });
        assert!(index < u32::MAX, "fewer values than numbers");
        let place = &mut self.places[index as usize];
        assert!(place.value.is_none(), "a free place is empty");
        place.value = Some(value);
        Key { index, generation: place.generation }
    }

    pub fn get(&self, key: Key) -> Option<&T> {
        self.places.get(key.index()).filter(|place| place.generation == key.generation)?.value.as_ref()
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.places.get_mut(key.index()).filter(|place| place.generation == key.generation)?.value.as_mut()
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index()).filter(|place| place.generation == key.generation)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    /// The name of what is in a place.
    pub fn key_at(&self, index: usize) -> Option<Key> {
        let place = self.places.get(index)?;
        place.value.is_some().then_some(Key { index: index as u32, generation: place.generation })
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn keys(&self) -> Vec<Key> {
        (0..self.places.len()).filter_map(|index| self.key_at(index)).collect()
    }
}

impl<T> std::ops::Index<Key> for Slab<T> {
    type Output = T;

    fn index(&self, key: Key) -> &T {
        // reason: who indexes holds a name that it knows to be alive; a lookup that may fail is `get`.
        self.get(key).expect("the name of a value that is there")
    }
}

impl<T> std::ops::IndexMut<Key> for Slab<T> {
    fn index_mut(&mut self, key: Key) -> &mut T {
        // reason: as above.
        self.get_mut(key).expect("the name of a value that is there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_outlives_its_value_and_means_no_other() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!((slab[first], slab.len()), ('a', 1));
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!((slab.remove(first), slab.len()), (None, 0));
        let second = slab.insert('b');
        assert_eq!(second.index(), first.index());
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&'b')));
        assert_eq!(Key::from_token(second.token()), second);
        assert!(second.token() < RESERVED);
    }
}
