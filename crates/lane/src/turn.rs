//! One turn of a lane, and the governor that decides between going on, spinning and sleeping.

use crate::control::{Control, Counts, Order, Word};
use crate::kit::{Kit, LaneSettings};
use crate::mesh::Message;
use corelane_seam::{Completion, Driver, Handle, Wait};
use corelane_watch::{LaneCounter, LaneState};
use std::sync::Arc;

/// What a lane runs: sorts completions, serves, and leaves operations in the kit's outbox. It never sees the type of
/// the driver.
pub trait Work {
    /// Takes note of one completion; what it means for a service is worked off by [`Work::serve`].
    fn complete(&mut self, kit: &mut Kit, completion: Completion);
    /// Hands each connection's bytes to its service, once.
    fn serve(&mut self, kit: &mut Kit);
    /// A timer started with `handle` has come.
    fn expired(&mut self, kit: &mut Kit, handle: Handle);
    /// A message from lane `from`.
    fn message(&mut self, kit: &mut Kit, from: usize, message: Message);
    /// Somebody outside of the lanes says something ([`Control::tell`]).
    fn told(&mut self, kit: &mut Kit, driver: &mut dyn Driver, word: Word);
    /// Submits what this turn made: at most one send a connection.
    fn flush(&mut self, kit: &mut Kit);
    /// Looks at what the driver alone knows, before what was submitted is carried out.
    fn look(&mut self, driver: &dyn Driver);
    /// Whether there is something to do in the next turn without another completion.
    fn has_work(&self) -> bool;
    /// Begins to drain.
    fn drain(&mut self, kit: &mut Kit, driver: &mut dyn Driver);
    /// In a drain: whether nothing is left to do but what other lanes may still ask for.
    fn is_quiet(&mut self, kit: &mut Kit) -> bool;
    /// In a drain: no lane has anything left to do, so none will ask any more. Now what waited for that may end.
    fn all_are_quiet(&mut self, kit: &mut Kit);
    /// Whether a drain has come to its end.
    fn is_drained(&self) -> bool;
    /// The lane ends, however it came to that: what users gave to it is dropped, fenced.
    fn end(&mut self, kit: &mut Kit);
}

/// What a turn was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something was done.
    Productive,
    /// Nothing was there.
    Empty,
    /// The lane has drained, or was told to stop: no more turns.
    Ended,
}

/// A lane: its driver, its kit, and the work it does. A value with a [`turn`](Lane::turn); a runner gives it a thread.
pub struct Lane<D: Driver, W: Work> {
    // Order matters: the driver ends first (nothing is in the kernel then), then the work's leases, then the arena.
    driver: D,
    work: W,
    kit: Kit,
    control: Arc<Control>,
    settings: LaneSettings,
    completions: Vec<Completion>,
    expired: Vec<Handle>,
    draining: bool,
    /// What this lane last said of itself in the drain, and whether all have come to agree.
    said: Option<Option<Counts>>,
    agreed: bool,
    announced_sleep: bool,
    /// When the last productive turn ended: where spinning is counted from.
    productive_at: u64,
    turns: u64,
}

impl<D: Driver, W: Work> Lane<D, W> {
    /// Puts a lane together; its doorbell is connected here.
    pub fn new(driver: D, work: W, mut kit: Kit, control: Arc<Control>, settings: LaneSettings) -> Self {
        control.bell(kit.lane()).set(driver.bell());
        kit.offload_max = driver.offload_max();
        let productive_at = driver.now();
        kit.row.set(LaneCounter::LaneState, LaneState::Running as u64);
        Self {
            driver,
            work,
            kit,
            control,
            settings,
            completions: Vec::with_capacity(settings.turn_completions),
            expired: Vec::with_capacity(settings.turn_other),
            draining: false,
            said: None,
            agreed: false,
            announced_sleep: false,
            productive_at,
            turns: 0,
        }
    }

    /// Turns until the lane has ended.
    pub fn run(&mut self) {
        while self.turn() != Turn::Ended {}
    }

    /// One pass: collect, serve, timers, tasks, messages, flush. Waits in the driver if there is nothing to do.
    pub fn turn(&mut self) -> Turn {
        if std::mem::take(&mut self.announced_sleep) {
            self.kit.mesh.awake();
            self.kit.tasks.awake();
        }
        if !self.obey() {
            return self.end();
        }
        self.hear();
        let wait = self.govern();
        self.collect(wait);
        let mut done = self.completions.len();
        self.kit.row.add(LaneCounter::Completions, done as u64);
        for completion in self.completions.drain(..) {
            self.work.complete(&mut self.kit, completion);
        }
        self.work.serve(&mut self.kit);
        done += self.timers() + self.tasks() + self.messages();
        self.work.flush(&mut self.kit);
        self.agree();
        self.kit.tell_left_out(self.kit.now);
        self.publish();
        let submitted = self.hand_over();
        self.account(done > 0 || submitted)
    }

    /// The work, to look at it from a test or a runner.
    pub fn work(&self) -> &W {
        &self.work
    }

    /// The lane's kit, for what must be set up before the first turn.
    pub fn kit(&mut self) -> &mut Kit {
        &mut self.kit
    }

    /// Carries out the program's order; false if the lane is to end.
    fn obey(&mut self) -> bool {
        let order = self.control.order();
        if order >= Order::Drain && !self.draining {
            self.draining = true;
            self.kit.now = self.driver.now();
            self.kit.row.set(LaneCounter::LaneState, LaneState::Draining as u64);
            self.work.drain(&mut self.kit, &mut self.driver);
            self.hand_over();
        }
        order != Order::Stop && !(self.draining && self.work.is_drained())
    }

    /// In a drain, lanes end together: a lane with nothing left may still be asked by one that has.
    fn agree(&mut self) {
        if !self.draining || self.agreed {
            return;
        }
        let quiet = self.work.is_quiet(&mut self.kit).then(|| self.kit.mesh.counts());
        let over = if self.said == Some(quiet) {
            self.control.all_are_quiet()
        } else {
            self.said = Some(quiet);
            self.control.is_quiet(self.kit.lane(), quiet)
        };
        if over {
            self.agreed = true;
            self.work.all_are_quiet(&mut self.kit);
        }
    }

    /// Hands on what this lane was told.
    fn hear(&mut self) {
        if !self.control.has_words(self.kit.lane()) {
            return;
        }
        self.kit.now = self.driver.now();
        for word in self.control.take_words(self.kit.lane()) {
            self.work.told(&mut self.kit, &mut self.driver, word);
        }
        self.hand_over();
    }

    /// Submits what was made; answers whether that was anything.
    fn hand_over(&mut self) -> bool {
        self.work.look(&self.driver);
        self.kit.hand_over(&mut self.driver)
    }

    fn end(&mut self) -> Turn {
        self.work.end(&mut self.kit);
        self.kit.row.add(LaneCounter::TasksPanicked, self.kit.tasks.end());
        self.kit.tell_left_out(u64::MAX);
        self.kit.row.set(LaneCounter::LaneState, LaneState::Ended as u64);
        self.note_gauges();
        Turn::Ended
    }

    /// Whether, and how long, the driver may wait: not while there is work; not within the spin budget; else until
    /// the next timer or alarm, after sleep was announced to those who could ring.
    fn govern(&mut self) -> Wait {
        // Before its first turn a lane has submitted nothing that could wake it.
        if self.turns == 0 || self.work.has_work() || self.kit.tasks.has_woken() {
            return Wait::No;
        }
        let now = self.kit.now;
        let next = self.kit.wheel.next().unwrap_or(u64::MAX).min(self.kit.alarm).min(self.kit.left_out_due());
        if next <= now {
            return Wait::No;
        }
        if self.settings.spin_nanoseconds > 0 && now.saturating_sub(self.productive_at) < self.settings.spin_nanoseconds {
            return Wait::No;
        }
        self.announced_sleep = true;
        let quiet = self.kit.mesh.before_sleep() & self.kit.tasks.before_sleep();
        match next {
            // Orders and words are given before bells are rung: one that came before the announcement is seen here.
            _ if !quiet || self.order_is_new() || self.control.has_words(self.kit.lane()) => Wait::No,
            u64::MAX => Wait::Forever,
            deadline => Wait::Until(deadline),
        }
    }

    fn order_is_new(&self) -> bool {
        match self.control.order() {
            Order::Serve => false,
            Order::Drain => !self.draining,
            Order::Stop => true,
        }
    }

    fn collect(&mut self, wait: Wait) {
        let mut before = self.kit.now;
        if wait != Wait::No {
            before = self.driver.now();
            self.note_gauges();
            self.kit.row.set(LaneCounter::LaneState, LaneState::Sleeping as u64);
        }
        self.driver.collect(wait, self.settings.turn_completions, &mut self.completions);
        self.kit.now = self.driver.now().max(before);
        if wait != Wait::No {
            self.kit.row.set(LaneCounter::LaneState, self.awake_state() as u64);
            self.kit.row.add(LaneCounter::Sleeps, 1);
            self.kit.row.add(LaneCounter::SleepNanoseconds, self.kit.now - before);
        }
    }

    fn awake_state(&self) -> LaneState {
        if self.draining { LaneState::Draining } else { LaneState::Running }
    }

    fn timers(&mut self) -> usize {
        self.kit.wheel.expire(self.kit.now, self.settings.turn_other, &mut self.expired);
        let fired = self.expired.len();
        for handle in self.expired.drain(..) {
            self.work.expired(&mut self.kit, handle);
        }
        self.kit.row.add(LaneCounter::TimersFired, fired as u64);
        fired
    }

    fn tasks(&mut self) -> usize {
        let mut panicked = 0;
        let polled = self.kit.tasks.run(self.settings.turn_other, &mut |_| panicked += 1);
        if polled > 0 {
            self.kit.row.add(LaneCounter::TasksPolled, polled as u64);
            self.kit.row.add(LaneCounter::TasksPanicked, panicked);
        }
        polled
    }

    fn messages(&mut self) -> usize {
        // The mesh is moved out so that the work may send while it takes.
        let mut arrived = std::mem::take(&mut self.kit.arrived);
        let taken = self.kit.mesh.take(self.settings.turn_other, |from, message| arrived.push((from, message)));
        for (from, message) in arrived.drain(..) {
            self.work.message(&mut self.kit, from, message);
        }
        self.kit.arrived = arrived;
        self.kit.row.add(LaneCounter::MessagesReceived, taken as u64);
        taken
    }

    fn publish(&mut self) {
        let (rung, spared) = self.kit.mesh.publish();
        if rung + spared > 0 {
            self.kit.row.add(LaneCounter::DoorbellsRung, rung);
            self.kit.row.add(LaneCounter::DoorbellsSpared, spared);
        }
    }

    /// Counts the turn, and the time of an empty one as spinning.
    fn account(&mut self, productive: bool) -> Turn {
        self.turns += 1;
        if self.turns.is_multiple_of(64) {
            self.note_gauges();
        }
        let row = &self.kit.row;
        let last = row.get(LaneCounter::LastTurnNanoseconds);
        row.set(LaneCounter::LastTurnNanoseconds, self.kit.now);
        if productive {
            self.productive_at = self.kit.now;
            row.add(LaneCounter::TurnsProductive, 1);
            return Turn::Productive;
        }
        row.add(LaneCounter::TurnsEmpty, 1);
        if !self.announced_sleep {
            row.add(LaneCounter::SpinNanoseconds, self.kit.now.saturating_sub(last));
        }
        Turn::Empty
    }

    /// Copies to the page what is counted elsewhere.
    fn note_gauges(&self) {
        let (row, counters) = (&self.kit.row, self.driver.counters());
        row.set(LaneCounter::MemoryUsed, self.kit.arena.used() as u64);
        row.set(LaneCounter::ReportLinesDropped, self.kit.lines_dropped());
        row.set(LaneCounter::MemoryPeak, self.kit.arena.peak() as u64);
        row.set(LaneCounter::MemoryLimitHits, self.kit.arena.refused());
        row.set(LaneCounter::SystemCallsSubmit, counters.calls_work);
        row.set(LaneCounter::SystemCallsWait, counters.calls_wait);
        row.set(LaneCounter::ReceivesStarved, counters.receives_starved);
        row.set(LaneCounter::ReceivesEmpty, counters.receives_empty);
        row.set(LaneCounter::EventsStale, counters.events_stale);
        row.set(LaneCounter::SendsCopiedAnyway, counters.sends_copied_anyway);
    }
}

impl<D: Driver, W: Work> Drop for Lane<D, W> {
    /// However it ended: who waits for an answer must not wait for ever.
    fn drop(&mut self) {
        self.control.lane_ended(self.kit.lane());
    }
}
