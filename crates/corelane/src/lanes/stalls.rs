//! The watch for turns that take too long: a thread that reads the lanes' page, and asks the lane's own thread only where it is.
//!
//! ```text
//! page (LastTurnNanoseconds, LaneState, Serving) -> Watch::look -> Stall { lane, age, serving } -> halt::Sampler, unwind::Names -> report
//! ```
//!
//! A lane in an endless loop and one that waits in a call are seen alike. The lane itself does one store a call, and one a turn.
//!
//! Without the feature `profile`, `without::stalls` stands in its place.

use crate::error::Error;
use crate::lanes::builder::Lanes;
use corelane_os::halt::Sampler;
use corelane_os::{clock, report};
use corelane_seam::{Code, Level, Record};
use corelane_unwind::{Function, Names};
use corelane_watch::{LaneCounter, LaneRow, LaneState, Page, Reader, Serving};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The code of a stall (docs/stalls.md).
const STALL: Code = Code::new("CL-1201");
/// How long a thread may take to say where it is.
const PATIENCE: Duration = Duration::from_millis(500);
/// Functions that are told of one stall at the most.
const FUNCTIONS_MAX: usize = 40;
/// Stalls of one lane that are told in a second at the most, for each is many lines, and looked for in the whole program.
const TOLD_MAX: u32 = 5;
/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

impl Lanes {
    /// A turn that takes this long is reported once, while it lasts: by which lane, for which service and connection, and in which functions; and counted
    /// (`stalls`). 10 ms to an hour; by default nobody watches. A thread of its own looks at the page, twice in this time; the lanes do nothing for it. Only to
    /// tell the functions it sends the lane's thread the signal SIGRTMIN+5, for which the process then has a handler: calls in which the thread waits may end
    /// with EINTR (signal(7)). With the feature `profile`.
    pub fn stall(mut self, limit: Duration) -> Self {
        self.stall = Some(limit);
        self
    }
}

/// The thread that watches; it ends when this is dropped.
pub(crate) struct Stalls {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stalls {
    /// Watches lanes with these threads for turns of `limit` and longer.
    ///
    /// # Errors
    /// What the system says of the thread; [`Error::Page`] never: the page has a row for each lane.
    pub(crate) fn watch(page: &Page, threads: Vec<u32>, services: Vec<String>, limit: Duration) -> Result<Self, Error> {
        let rows = (0..threads.len()).map(|lane| page.lane(lane)).collect::<Result<Vec<LaneRow>, _>>()?;
        let told = vec![StallsTold::default(); threads.len()];
        let watching = Watching::since(clock::now(), limit);
        let mut watch = Watch { reader: Reader::of(page)?, rows, threads, services, watching, told, sampler: None };
        let (stop, stopped) = channel::<()>();
        let body = move || {
            let mut pause = watch.pause();
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                watch.look(pause);
                pause = watch.pause();
            }
        };
        let thread = Builder::new().name("corelane-stalls".to_owned()).spawn(body);
        let thread = thread.map_err(|error| Error::System { what: "starting the thread that watches for stalls", error })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It waits for nobody for long.
            let _ = thread.join();
        }
    }
}

struct Watch {
    reader: Reader,
    rows: Vec<LaneRow>,
    threads: Vec<u32>,
    services: Vec<String>,
    watching: Watching,
    /// The news told of each lane.
    told: Vec<StallsTold>,
    /// Made when it is needed first.
    sampler: Option<Sampler>,
}

/// Since when the lanes are watched without a break. All times in nanoseconds of [`clock::now`].
///
/// A process that was stopped (SIGSTOP, a frozen control group, a suspended machine) did not look for as long, and its lanes did not run: no turn was too long for that.
struct Watching {
    since: u64,
    looked: u64,
    /// How long a turn may take.
    limit: u64,
}

impl Watching {
    fn since(now: u64, limit: Duration) -> Self {
        Self { since: now, looked: now, limit: limit.as_nanos() as u64 }
    }

    /// The lanes are looked at now, after a pause that was to be this long. If it took a quarter of the limit longer, the process was not running.
    fn look(&mut self, now: u64, pause: Duration) {
        let late = now.saturating_sub(self.looked).saturating_sub(pause.as_nanos() as u64);
        if late > self.limit / 4 {
            self.since = now;
        }
        self.looked = now;
    }

    /// For how long a turn that began then has been watched.
    fn age(&self, began: u64, now: u64) -> u64 {
        now.saturating_sub(began.max(self.since))
    }

    fn is_too_long(&self, began: u64, now: u64) -> bool {
        self.age(began, now) >= self.limit
    }
}

/// How much was told of one lane.
#[derive(Clone, Debug, Default)]
struct StallsTold {
    /// When the last turn began that was looked at.
    began: u64,
    /// Since when stalls are counted, and how many were told since.
    since: u64,
    count: u32,
    /// How many were not, since the last one that was.
    left_out: u64,
}

impl StallsTold {
    /// How many stalls were left out, if another one may be told at this time; else it is left out itself.
    fn admit(&mut self, now: u64) -> Option<u64> {
        if now.saturating_sub(self.since) >= SECOND {
            (self.since, self.count) = (now, 0);
        }
        if self.count == TOLD_MAX {
            self.left_out += 1;
            return None;
        }
        self.count += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Watch {
    /// Until the next look: half of the limit, or all of it while every lane sleeps.
    fn pause(&self) -> Duration {
        let sleeps = |row: &LaneRow| row.get(LaneCounter::LaneState) == LaneState::Sleeping as u64;
        let limit = Duration::from_nanos(self.watching.limit);
        if self.rows.iter().all(sleeps) { limit } else { limit / 2 }
    }

    fn look(&mut self, pause: Duration) {
        self.watching.look(clock::now(), pause);
        for lane in 0..self.rows.len() {
            let began = self.rows[lane].get(LaneCounter::LastTurnNanoseconds);
            if self.told[lane].began != began && began > 0 && self.is_stalled(lane, began) {
                self.told[lane].began = began;
                self.tell(lane, began);
            }
        }
    }

    /// Whether a lane is in the turn that began then, for too long. Only what is read together is believed: a lane that wakes at this moment would look stalled.
    fn is_stalled(&self, lane: usize, began: u64) -> bool {
        let now = clock::now();
        if !self.watching.is_too_long(began, now) {
            return false;
        }
        let snapshot = self.reader.snapshot(now);
        let seen = &snapshot.lanes[lane];
        seen.is_awake() && seen.is_whole && seen.values.get(LaneCounter::LastTurnNanoseconds) == began
    }

    fn tell(&mut self, lane: usize, began: u64) {
        // The lane never writes this word.
        self.rows[lane].add(LaneCounter::Stalls, 1);
        let now = clock::now();
        let Some(left_out) = self.told[lane].admit(now) else { return };
        let more = if left_out > 0 { format!(" ({left_out} stalls were left out)") } else { String::new() };
        let for_whom = self.for_whom(self.rows[lane].get(LaneCounter::Serving));
        let milliseconds = self.watching.age(began, now) / 1_000_000;
        let say = |words: String| report::line(Record::new(Level::Warn, words).with_code(STALL).of_lane(lane));
        say(format!("in one turn for {milliseconds} ms, {for_whom}{more}"));
        match self.functions(self.threads[lane]) {
            Ok(functions) => functions.iter().for_each(|function| say(format!("  {function}"))),
            Err(why) => say(format!("  in which functions is not known: {why}")),
        }
    }

    /// Whom the lane's call is for, by the word on its page.
    fn for_whom(&self, serving: u64) -> String {
        Serving::words(Serving::of(serving, |service| self.services.get(service).map(String::as_str)))
    }

    /// The functions in which a thread is, the innermost first.
    fn functions(&mut self, thread: u32) -> std::io::Result<Vec<String>> {
        let sampler = match &mut self.sampler {
            Some(sampler) => sampler,
            none => none.insert(Sampler::new()?),
        };
        let stack = sampler.look(thread, PATIENCE)?;
        let mut names = Names::of(std::process::id())?;
        let frames = names.frames(&stack);
        let functions: Vec<Function> = frames.into_iter().flat_map(|address| names.describe(address)).collect();
        // Of the library what the program has called, but not what has called the program.
        let own = functions.iter().position(|function| !function.is_library()).unwrap_or(0);
        let told = functions.iter().enumerate().filter(|(place, function)| *place < own || !function.is_library());
        Ok(told.map(|(_, function)| function.to_string()).take(FUNCTIONS_MAX).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_in_which_the_process_was_stopped_is_no_longer_for_that() {
        let (limit, pause) = (Duration::from_secs(4), Duration::from_secs(2));
        let mut watching = Watching::since(0, limit);
        watching.look(3 * SECOND, pause);
        watching.look(5 * SECOND, pause);
        assert!(watching.is_too_long(SECOND, 5 * SECOND) && !watching.is_too_long(2 * SECOND, 5 * SECOND));
        // Then it does not look for a minute.
        watching.look(65 * SECOND, pause);
        assert!(!watching.is_too_long(2 * SECOND, 65 * SECOND));
        // A turn that goes on is too long by what it took since.
        watching.look(67 * SECOND, pause);
        watching.look(69 * SECOND, pause);
        assert!(watching.is_too_long(2 * SECOND, 69 * SECOND));
        assert_eq!(watching.age(2 * SECOND, 69 * SECOND), 4 * SECOND);
    }

    #[test]
    fn a_lane_that_stalls_again_and_again_is_told_of_so_often_and_then_how_much_was_left_out() {
        let mut told = StallsTold::default();
        assert!((0..TOLD_MAX.into()).all(|at| told.admit(7 * SECOND + at) == Some(0)));
        assert_eq!((told.admit(7 * SECOND + 9), told.admit(8 * SECOND - 1)), (None, None));
        assert_eq!((told.admit(8 * SECOND), told.admit(8 * SECOND)), (Some(2), Some(0)));
    }
}
