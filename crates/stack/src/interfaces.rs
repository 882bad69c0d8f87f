//! All interfaces of a stack. What is to be done with each is found without looking through them: which may be changed is noted, and when the clock gives one something to do.

use crate::interface::Interface;
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

/// An interface, and what is noted of it.
#[derive(Debug)]
struct Noted {
    interface: Interface,
    /// Whoever has it may have changed it since its place was looked at, and since somebody asked for what has changed.
    is_unplaced: bool,
    is_touched: bool,
    /// Its place in the order of times.
    due: Option<u64>,
}

/// The interfaces, by their numbers.
#[derive(Debug)]
pub(crate) struct Interfaces {
    all: Vec<Noted>,
    unplaced: Vec<usize>,
    touched: Vec<usize>,
    /// When the clock alone gives which of them something to do.
    dues: BTreeSet<(u64, usize)>,
}

impl Interfaces {
    pub fn new(interfaces: Vec<Interface>) -> Self {
        let noted = |interface| Noted { interface, is_unplaced: false, is_touched: false, due: None };
        let all = interfaces.into_iter().map(noted).collect();
        Self { all, unplaced: Vec::new(), touched: Vec::new(), dues: BTreeSet::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.all.iter().map(|noted| &noted.interface)
    }

    /// One that may have changed since this was asked last, for its news to be taken.
    pub fn next_touched(&mut self) -> Option<(usize, &mut Interface)> {
        self.settle();
        let number = self.touched.pop()?;
        let noted = &mut self.all[number];
        assert!(noted.is_touched, "an interface that is touched is noted once");
        noted.is_touched = false;
        Some((number, &mut noted.interface))
    }

    /// Puts those that may have changed into the order of times.
    fn settle(&mut self) {
        let Self { all, unplaced, touched, dues } = self;
        for number in unplaced.drain(..) {
            let noted = &mut all[number];
            let (due, before) = (noted.interface.due(), noted.due);
            if due != before {
                let was_there = before.is_none_or(|time| dues.remove(&(time, number)));
                assert!(was_there, "what is due has its place");
                dues.extend(due.map(|time| (time, number)));
            }
            (noted.due, noted.is_unplaced) = (due, false);
            if !std::mem::replace(&mut noted.is_touched, true) {
                touched.push(number);
            }
        }
    }

    /// When the clock alone gives one of them something to do.
    pub fn due(&mut self) -> Option<u64> {
        self.settle();
        self.dues.first().map(|(due, _)| *due)
    }

    /// One that has something to do now.
    pub fn next_due(&mut self, now: u64) -> Option<usize> {
        self.settle();
        self.dues.first().filter(|(due, _)| *due <= now).map(|(_, number)| *number)
    }
}

impl Index<usize> for Interfaces {
    type Output = Interface;
    fn index(&self, number: usize) -> &Interface {
        &self.all[number].interface
    }
}

/// Whoever may change one has that noted.
impl IndexMut<usize> for Interfaces {
    fn index_mut(&mut self, number: usize) -> &mut Interface {
        let noted = &mut self.all[number];
        if !noted.is_unplaced {
            noted.is_unplaced = true;
            self.unplaced.push(number);
        }
        &mut noted.interface
    }
}
