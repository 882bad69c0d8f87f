//! Directories that are watched: one descriptor a lane tells of all of them, opened with the first.
//!
//! ```text
//! Watch -> number (inotify_add_watch) -> Watched, more      notice of the number -> Changed, to each that watches it
//! ```
//!
//! The same directory has the same number for all who watch it.

use super::endpoint::Kind;
use super::source::Source;
use super::state::ReadinessDriver;
use corelane_os::watches::{self, Notice};
use corelane_seam::slab::Key;
use corelane_seam::{Completion, Fault, File, FileOutcome, Handle, Outcome, Reason};
use std::collections::BTreeMap;
use std::os::fd::AsFd;

/// The watches of a driver.
#[derive(Default)]
pub(super) struct Watches {
    /// What tells, from the first watch on.
    notices: Option<Key>,
    by_number: BTreeMap<i32, Vec<Handle>>,
    by_handle: BTreeMap<Handle, i32>,
}

impl Watches {
    fn add(&mut self, number: i32, handle: Handle) {
        let other = self.by_handle.insert(handle, number);
        assert!(other.is_none(), "one handle names one watch at a time");
        self.by_number.entry(number).or_default().push(handle);
    }

    /// Takes all that have this number.
    fn take(&mut self, number: i32) -> Vec<Handle> {
        let handles = self.by_number.remove(&number).unwrap_or_default();
        for handle in &handles {
            let known = self.by_handle.remove(handle);
            assert!(known == Some(number), "a watch has one number");
        }
        handles
    }

    fn take_all(&mut self) -> Vec<Handle> {
        self.by_number.clear();
        std::mem::take(&mut self.by_handle).into_keys().collect()
    }

    /// Takes one; returns its number if nobody else has it.
    fn remove(&mut self, handle: Handle) -> Option<Option<i32>> {
        let number = self.by_handle.remove(&handle)?;
        // reason: both tables name the same watches.
        let handles = self.by_number.get_mut(&number).expect("a number is known as long as somebody has it");
        handles.retain(|other| *other != handle);
        if !handles.is_empty() {
            return Some(None);
        }
        self.by_number.remove(&number);
        Some(Some(number))
    }

    /// Those of the works that `is_gone` names.
    pub(super) fn of_works(&self, is_gone: impl Fn(u8) -> bool) -> Vec<Handle> {
        self.by_handle.keys().filter(|handle| is_gone(handle.work())).copied().collect()
    }
}

fn changed(handle: Handle) -> Completion {
    Completion::last(handle, Outcome::File(FileOutcome::Changed))
}

impl<S: Source> ReadinessDriver<S> {
    /// Watches a directory; what is pushed behind it is carried out when it is watched.
    pub(super) fn watch_directory(&mut self, handle: Handle, directory: &File) -> Completion {
        match self.begin_watch(directory) {
            Ok(number) => {
                self.watches.add(number, handle);
                Completion { more: true, ..Completion::last(handle, Outcome::File(FileOutcome::Watched)) }
            }
            Err(fault) => Completion::failed(handle, fault),
        }
    }

    fn begin_watch(&mut self, directory: &File) -> Result<i32, Fault> {
        let directory = self.file(directory).ok_or(Fault::CANCELLED)?;
        if self.watches.by_handle.len() >= self.tuning.watches_max {
            return Err(Fault::of(Reason::Busy));
        }
        let notices = match self.watches.notices {
            Some(notices) => notices,
            None => self.adopt(watches::open()?, Kind::Notices)?,
        };
        self.watches.notices = Some(notices);
        self.counters.calls_work += 1;
        watches::watch(self.endpoints.at(notices.index).descriptor.as_fd(), directory.as_fd())
    }

    /// Tells what was told.
    pub(super) fn take_notices(&mut self, key: Key, completions: &mut Vec<Completion>) {
        assert!(self.watches.notices == Some(key), "one descriptor tells of watches");
        let (notices, watches) = (self.endpoints.at(key.index).descriptor.as_fd(), &mut self.watches);
        self.counters.calls_work += watches::read(notices, |notice| {
            let ended = match notice {
                Notice::Of(number) => watches.take(number),
                Notice::Lost => watches.take_all(),
            };
            completions.extend(ended.into_iter().map(changed));
        });
    }

    /// Ends a watch, if it has not ended.
    pub(super) fn end_watch(&mut self, handle: Handle, completions: &mut Vec<Completion>) {
        let Some(unused) = self.watches.remove(handle) else { return };
        if let (Some(number), Some(notices)) = (unused, self.watches.notices) {
            self.counters.calls_work += 1;
            watches::forget(self.endpoints.at(notices.index).descriptor.as_fd(), number);
        }
        completions.push(Completion::failed(handle, Fault::CANCELLED));
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
        assert_eq!((watches.take_all(), watches.take_all()), (vec![handle(7)], vec![]));
    }
}
