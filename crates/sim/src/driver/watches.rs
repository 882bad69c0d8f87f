//! Watched directories: what happens in one is told once to each lane that watches it, some time later.

use crate::check::Booked;
use crate::faults::FaultKind;
use crate::lane::{Undelivered, Watching};
use crate::state::{Event, State, entry};
use corelane_seam::{Completion, Fault, FileOutcome, Outcome, Reason};

/// The system allows no more watches (ENOSPC).
const NO_MORE: Fault = Fault { reason: Reason::Busy, number: 28 };
/// How late notices come that are late, in nanoseconds: a second.
const LATE_MAX: u64 = 1_000_000_000;

impl State {
    /// Watches a directory, which has these contents.
    pub(super) fn watch(&mut self, lane: usize, asked: Booked, content: usize) {
        let is_full = self.lanes[lane].watches.len() >= self.lanes[lane].tuning.watches_max;
        if is_full || self.strikes(FaultKind::RefusedFileWatch) {
            let fault = if is_full { Fault::of(Reason::Busy) } else { NO_MORE };
            return self.complete(lane, asked, None, Outcome::Failed(fault));
        }
        self.lanes[lane].watches.push(Watching { asked, content, is_told: false });
        let told = entry(asked, None, FileOutcome::Watched.into());
        self.enqueue(lane, Undelivered { completion: Completion { more: true, ..told.completion }, ..told });
    }

    /// Tells the lanes what has happened in the file system since this was done last.
    pub(crate) fn tell_of_files(&mut self) {
        for directory in self.files.take_touched() {
            for lane in 0..self.lanes.len() {
                self.tell_lane(lane, directory);
            }
        }
    }

    fn tell_lane(&mut self, lane: usize, directory: usize) {
        let concerns = |watch: &Watching| !watch.is_told && watch.content == directory;
        if !self.lanes[lane].watches.iter().any(concerns) {
            return;
        }
        let are_lost = self.strikes(FaultKind::LostFileNotices);
        let delay = if self.strikes(FaultKind::LateFileNotice) { self.random.below(LATE_MAX) } else { self.random.delay() };
        for watch in self.lanes[lane].watches.iter_mut().filter(|watch| concerns(watch) || (are_lost && !watch.is_told)) {
            watch.is_told = true;
            self.clock.after(delay, Event::Told { lane, number: watch.asked.number });
        }
    }

    /// A notice reaches its lane, if that watches still.
    pub(crate) fn told(&mut self, lane: usize, number: u64) {
        if let Some(asked) = self.take_watch(lane, number) {
            self.complete(lane, asked, None, FileOutcome::Changed.into());
        }
    }

    /// Ends a watch; returns whether it was still under way.
    pub(super) fn stop_watch(&mut self, lane: usize, number: u64) -> bool {
        let watch = self.take_watch(lane, number);
        if let Some(asked) = watch {
            self.complete_cancelled(lane, asked, None, Outcome::Failed(Fault::CANCELLED));
        }
        watch.is_some()
    }

    fn take_watch(&mut self, lane: usize, number: u64) -> Option<Booked> {
        let watches = &mut self.lanes[lane].watches;
        let index = watches.iter().position(|watch| watch.asked.number == number)?;
        Some(watches.remove(index).asked)
    }
}
