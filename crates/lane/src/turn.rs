//! One turn of a lane, and the governor that decides between going on, spinning and sleeping.

use crate::control::{Control, Order};
use crate::core::{Core, LaneSettings};
use crate::mesh::Message;
use corelane_seam::{Completion, Driver, Handle, Wait};
use corelane_watch::{LaneCounter, LaneState};
use std::sync::Arc;

/// What a lane runs: sorts completions, serves, and leaves operations in the core's outbox. It never sees the type of
/// the driver.
pub trait Work {
    /// Takes note of one completion; what it means for a service is worked off by [`Work::serve`].
    fn complete(&mut self, core: &mut Core, completion: Completion);
    /// Hands each connection's bytes to its service, once.
    fn serve(&mut self, core: &mut Core);
    /// A timer started with `handle` has come.
    fn expired(&mut self, core: &mut Core, handle: Handle);
    /// A message from lane `from`.
    fn message(&mut self, core: &mut Core, from: usize, message: Message);
    /// Submits what this turn made: at most one send a connection.
    fn flush(&mut self, core: &mut Core);
    /// Whether there is something to do in the next turn without another completion.
    fn has_work(&self) -> bool;
    /// Begins to drain.
    fn drain(&mut self, core: &mut Core, driver: &mut dyn Driver);
    /// Whether a drain has come to its end.
    fn is_drained(&self) -> bool;
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

/// A lane: its driver, its core, and the work it does. A value with a [`turn`](Lane::turn); a runner gives it a thread.
pub struct Lane<D: Driver, W: Work> {
    // Order matters: the driver ends first (nothing is in the kernel then), then the work's leases, then the arena.
    driver: D,
    work: W,
    core: Core,
    control: Arc<Control>,
    settings: LaneSettings,
    completions: Vec<Completion>,
    expired: Vec<Handle>,
    draining: bool,
    announced_sleep: bool,
    /// When the last productive turn ended: where spinning is counted from.
    productive_at: u64,
    turns: u64,
}

impl<D: Driver, W: Work> Lane<D, W> {
    /// Puts a lane together; its doorbell is connected here.
    pub fn new(driver: D, work: W, core: Core, control: Arc<Control>, settings: LaneSettings) -> Self {
        control.bell(core.lane()).set(driver.bell());
        let productive_at = driver.now();
        core.row.set(LaneCounter::LaneState, LaneState::Running as u64);
        Self {
            driver,
            work,
            core,
            control,
            settings,
            completions: Vec::with_capacity(settings.turn_completions),
            expired: Vec::with_capacity(settings.turn_other),
            draining: false,
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
            self.core.mesh.awake();
            self.core.tasks.awake();
        }
        if !self.obey() {
            return self.end();
        }
        let wait = self.govern();
        self.collect(wait);
        let mut done = self.completions.len();
        self.core.row.add(LaneCounter::Completions, done as u64);
        for completion in self.completions.drain(..) {
            self.work.complete(&mut self.core, completion);
        }
        self.work.serve(&mut self.core);
        done += self.timers() + self.tasks() + self.messages();
        self.work.flush(&mut self.core);
        self.publish();
        let submitted = self.core.hand_over(&mut self.driver);
        self.account(done > 0 || submitted)
    }

    /// The work, to look at it from a test or a runner.
    pub fn work(&self) -> &W {
        &self.work
    }

    /// The lane's core, for what must be set up before the first turn.
    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Carries out the program's order; false if the lane is to end.
    fn obey(&mut self) -> bool {
        let order = self.control.order();
        if order >= Order::Drain && !self.draining {
            self.draining = true;
            self.core.now = self.driver.now();
            self.core.row.set(LaneCounter::LaneState, LaneState::Draining as u64);
            self.work.drain(&mut self.core, &mut self.driver);
            self.core.hand_over(&mut self.driver);
        }
        order != Order::Stop && !(self.draining && self.work.is_drained())
    }

    fn end(&mut self) -> Turn {
        self.core.row.set(LaneCounter::LaneState, LaneState::Ended as u64);
        self.note_gauges();
        Turn::Ended
    }

    /// Whether, and how long, the driver may wait: not while there is work; not within the spin budget; else until
    /// the next timer, after sleep was announced to those who could ring.
    fn govern(&mut self) -> Wait {
        // Before its first turn a lane has submitted nothing that could wake it.
        if self.turns == 0 || self.work.has_work() || self.core.tasks.has_woken() {
            return Wait::No;
        }
        let now = self.core.now;
        let next = self.core.wheel.next();
        if next.is_some_and(|next| next <= now) {
            return Wait::No;
        }
        if self.settings.spin_nanoseconds > 0 && now.saturating_sub(self.productive_at) < self.settings.spin_nanoseconds {
            return Wait::No;
        }
        self.announced_sleep = true;
        let quiet = self.core.mesh.before_sleep() & self.core.tasks.before_sleep();
        match next {
            // Orders are given before bells are rung: one that came before the announcement is seen here.
            _ if !quiet || self.order_is_new() => Wait::No,
            Some(deadline) => Wait::Until(deadline),
            None => Wait::Forever,
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
        let mut before = self.core.now;
        if wait != Wait::No {
            before = self.driver.now();
            self.note_gauges();
            self.core.row.set(LaneCounter::LaneState, LaneState::Sleeping as u64);
        }
        self.driver.collect(wait, self.settings.turn_completions, &mut self.completions);
        self.core.now = self.driver.now().max(before);
        if wait != Wait::No {
            self.core.row.set(LaneCounter::LaneState, self.awake_state() as u64);
            self.core.row.add(LaneCounter::Sleeps, 1);
            self.core.row.add(LaneCounter::SleepNanoseconds, self.core.now - before);
        }
    }

    fn awake_state(&self) -> LaneState {
        if self.draining { LaneState::Draining } else { LaneState::Running }
    }

    fn timers(&mut self) -> usize {
        self.core.wheel.expire(self.core.now, self.settings.turn_other, &mut self.expired);
        let fired = self.expired.len();
        for handle in self.expired.drain(..) {
            self.work.expired(&mut self.core, handle);
        }
        self.core.row.add(LaneCounter::TimersFired, fired as u64);
        fired
    }

    fn tasks(&mut self) -> usize {
        let mut panicked = 0;
        let polled = self.core.tasks.run(self.settings.turn_other, &mut |_| panicked += 1);
        if polled > 0 {
            self.core.row.add(LaneCounter::TasksPolled, polled as u64);
            self.core.row.add(LaneCounter::TasksPanicked, panicked);
        }
        polled
    }

    fn messages(&mut self) -> usize {
        // The mesh is moved out so that the work may send while it takes.
        let mut arrived = std::mem::take(&mut self.core.arrived);
        let taken = self.core.mesh.take(self.settings.turn_other, |from, message| arrived.push((from, message)));
        for (from, message) in arrived.drain(..) {
            self.work.message(&mut self.core, from, message);
        }
        self.core.arrived = arrived;
        self.core.row.add(LaneCounter::MessagesReceived, taken as u64);
        taken
    }

    fn publish(&mut self) {
        let (rung, spared) = self.core.mesh.publish();
        if rung + spared > 0 {
            self.core.row.add(LaneCounter::DoorbellsRung, rung);
            self.core.row.add(LaneCounter::DoorbellsSpared, spared);
        }
    }

    /// Counts the turn, and the time of an empty one as spinning.
    fn account(&mut self, productive: bool) -> Turn {
        self.turns += 1;
        if self.turns.is_multiple_of(64) {
            self.note_gauges();
        }
        let row = &self.core.row;
        let last = row.get(LaneCounter::LastTurnNanoseconds);
        row.set(LaneCounter::LastTurnNanoseconds, self.core.now);
        if productive {
            self.productive_at = self.core.now;
            row.add(LaneCounter::TurnsProductive, 1);
            return Turn::Productive;
        }
        row.add(LaneCounter::TurnsEmpty, 1);
        if !self.announced_sleep {
            row.add(LaneCounter::SpinNanoseconds, self.core.now.saturating_sub(last));
        }
        Turn::Empty
    }

    /// Copies to the page what is counted elsewhere.
    fn note_gauges(&self) {
        let (row, counters) = (&self.core.row, self.driver.counters());
        row.set(LaneCounter::MemoryUsed, self.core.arena.used() as u64);
        row.set(LaneCounter::MemoryPeak, self.core.arena.peak() as u64);
        row.set(LaneCounter::SystemCallsSubmit, counters.calls_work);
        row.set(LaneCounter::SystemCallsWait, counters.calls_wait);
        row.set(LaneCounter::ReceivesStarved, counters.receives_starved);
        row.set(LaneCounter::ReceivesEmpty, counters.receives_empty);
        row.set(LaneCounter::EventsStale, counters.events_stale);
        row.set(LaneCounter::SendsCopiedAnyway, counters.sends_copied_anyway);
    }
}
