//! Names of a directory's entries that have changed, for who asks for them.

use std::collections::VecDeque;
use std::ffi::OsString;

/// Names that one interest keeps until they are taken; each has at most 255 bytes.
const NAMES: usize = 1024;

/// What has happened to an entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It is new.
    Created = 1,
    /// It was removed.
    Removed = 2,
    /// It was renamed: this is what it was called, in this directory.
    MovedFrom = 4,
    /// It was renamed: this is what it is called, in this directory.
    MovedTo = 8,
}

/// An entry that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// How.
    pub what: Happened,
    /// Its name in the directory.
    pub name: OsString,
}

/// What one interest has of names.
#[derive(Default)]
pub struct Names {
    entries: VecDeque<Named>,
    lost: u64,
}

impl Names {
    /// The newest; what there is no room for is counted.
    pub fn push(&mut self, named: Named) {
        if self.entries.len() < NAMES {
            self.entries.push_back(named);
        } else {
            self.lose();
        }
    }

    /// One more was not seen, at least.
    pub fn lose(&mut self) {
        self.lost = self.lost.saturating_add(1);
    }

    /// The oldest of at most `room`, and how many were lost since this was last asked.
    pub fn take(&mut self, room: usize) -> (Vec<Named>, u64) {
        let count = room.min(self.entries.len());
        (self.entries.drain(..count).collect(), std::mem::take(&mut self.lost))
    }
}
