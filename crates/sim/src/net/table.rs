//! What there is in the network under names of its own, found by one step: simulated programs look for a connection at every byte of it.

use std::ops::Index;

/// Things by the names that the network gave them, in the order of these. A name is never used again, so a place is one thing's for ever.
pub(crate) struct Named<T>(Vec<Option<Box<T>>>);

impl<T> Named<T> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn insert(&mut self, name: u64, thing: T) {
        let place = Self::place(name);
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        let before = self.0[place].replace(Box::new(thing));
        assert!(before.is_none(), "a name is given once");
    }

    pub(crate) fn remove(&mut self, name: u64) {
        let gone = self.0[Self::place(name)].take();
        assert!(gone.is_some(), "what is forgotten was there");
    }

    pub(crate) fn get(&self, name: u64) -> Option<&T> {
        self.0.get(Self::place(name))?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, name: u64) -> Option<&mut T> {
        self.0.get_mut(Self::place(name))?.as_deref_mut()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten().map(|thing| &**thing)
    }

    fn place(name: u64) -> usize {
        usize::try_from(name).expect("fewer names are given than memory has bytes")
    }
}

impl<T> Index<u64> for Named<T> {
    type Output = T;

    fn index(&self, name: u64) -> &T {
        // reason: it is looked for by its owner.
        self.get(name).expect("it is forgotten after the last that has its name")
    }
}
