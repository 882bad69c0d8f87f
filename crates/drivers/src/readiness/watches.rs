//! Directories that are watched: one descriptor a lane tells of all of them, opened with the first.
//!
//! ```text
//! Watch -> number (inotify_add_watch) -> Watched, more      notice of the number -> Changed, to each that watches it
//! ```
//!
//! The same directory has the same number for all who watch it.

use super::endpoint::EndpointKind;
use super::source::ReadinessSource;
use super::state::ReadinessDriver;
use corelane_os::watches::{self, Notice};
use corelane_seam::slab::Key;
use corelane_seam::{Completion, Fault, File, FileOutcome, Handle, Outcome, Reason};
use std::os::fd::AsFd;

fn changed(handle: Handle) -> Completion {
    Completion::last(handle, Outcome::File(FileOutcome::Changed))
}

impl<S: ReadinessSource> ReadinessDriver<S> {
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
        if directory.is_far {
            return Err(Fault::of(Reason::Unsupported));
        }
        if self.watches.len() >= self.tuning.watches_max {
            return Err(Fault::of(Reason::Busy));
        }
        let notices = match self.watches.notices {
            Some(notices) => notices,
            None => self.enter(watches::open()?, EndpointKind::Notices)?,
        };
        self.watches.notices = Some(notices);
        self.counters.calls_work += 1;
        watches::watch(self.endpoints.at(notices.index).descriptor.as_fd(), directory.file.as_fd())
    }

    /// Tells what was told.
    pub(super) fn take_notices(&mut self, key: Key, completions: &mut Vec<Completion>) {
        assert!(self.watches.notices == Some(key), "one descriptor tells of watches");
        let (notices, watches) = (self.endpoints.at(key.index).descriptor.as_fd(), &mut self.watches);
        let mut forgotten = 0;
        let read = watches::read(notices, |notice| {
            let ended = match notice {
                Notice::Of(number) => watches.take(number),
                Notice::Lost => {
                    let (numbers, handles) = watches.take_all();
                    forgotten += numbers.len() as u64;
                    // Where nothing has happened the system would watch on, for nobody.
                    numbers.into_iter().for_each(|number| watches::forget(notices, number));
                    handles
                }
            };
            completions.extend(ended.into_iter().map(changed));
        });
        self.counters.calls_work += read + forgotten;
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
