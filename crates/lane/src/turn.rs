//! One turn of a lane, and the governor that decides between going on, spinning and sleeping.

use crate::calls::{Calls, OVERRAN};
use crate::control::{Control, Counts, Order};
use crate::fence::fenced;
use crate::kit::Kit;
use crate::seats::{Seat, Seats};
use crate::settings::{Budget, LaneSettings};
use crate::work::{Said, Seated, Work, Works};
use corelane_seam::{
    Code, Completion, DatagramOutcome, Driver, FileOp, FileOutcome, Handle, Level, Op, Outcome, Payer, PipeCounters, Record,
    SendCounters, StreamOutcome, Wait, nanoseconds,
};
use corelane_watch::{LaneCounter, LaneHistogram, LaneState};
use std::panic::resume_unwind;
use std::sync::Arc;

/// The code of docs/messages.md, where a test of the facade looks for it.
const WORK_BROKEN: Code = Code::new("CL-0025");

/// What a turn was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something was done.
    Productive,
    /// Nothing was there.
    Empty,
    /// No more turns: the lane has drained, was told to stop, or has lost the works that it lives for.
    Ended,
}

/// A lane: its driver, its kit, and the works that it runs. A value with a [`turn`](Lane::turn); a runner gives it a thread.
pub struct Lane<D: Driver> {
    // Order matters: the driver ends first (nothing is in the kernel then), then the works' leases, then the arena.
    driver: D,
    works: Seats,
    kit: Kit,
    control: Arc<Control>,
    settings: LaneSettings,
    completions: Vec<Completion>,
    expired: Vec<Handle>,
    draining: bool,
    /// What this lane last said about itself in the drain, and whether all lanes agree that it is over.
    said: Option<Option<Counts>>,
    agreed: bool,
    announced_sleep: bool,
    /// What all works said in their last call.
    heard: Said,
    /// When the last productive turn ended: spinning is counted from here.
    productive_at: u64,
    /// Completions that this turn found.
    collected: usize,
    /// Whether the last turn was productive, and how long it took is not known yet.
    is_unmeasured: bool,
    turns: u64,
}

impl<D: Driver> Lane<D> {
    /// Puts a lane together; its doorbell is connected here.
    ///
    /// # Panics
    /// With more works than [`Handle::WORKS_MAX`], or none that the lane lives for.
    pub fn new(driver: D, works: Works, mut kit: Kit, control: Arc<Control>, settings: LaneSettings) -> Self {
        control.bell(kit.lane()).set(driver.bell());
        kit.offload_max = driver.offload_max();
        kit.calls = driver.call_clock().map(|clock| Box::new(Calls::new(clock)));
        let productive_at = driver.now();
        kit.row.set(LaneCounter::LaneState, LaneState::Running as u64);
        let works = Seats::new(works.0.into_iter().map(|(work, budget)| {
            let budget = budget.unwrap_or(Budget::of(&settings));
            kit.add_work(budget);
            (work, budget)
        }));
        Self {
            driver,
            works,
            kit,
            control,
            settings,
            completions: Vec::with_capacity(settings.turn_completions),
            expired: Vec::with_capacity(settings.turn_other),
            draining: false,
            said: None,
            agreed: false,
            announced_sleep: false,
            heard: Said::default(),
            productive_at,
            collected: 0,
            is_unmeasured: false,
            turns: 0,
        }
    }

    /// Turns until the lane has ended.
    pub fn run(&mut self) {
        while self.turn() != Turn::Ended {}
    }

    /// One pass: collect, serve, tasks, timers, messages, flush. Waits in the driver if there is nothing to do.
    ///
    /// # Panics
    /// With the panic of the last work that the lane lives for, if that broke.
    pub fn turn(&mut self) -> Turn {
        assert!(self.completions.is_empty() && self.expired.is_empty(), "a turn begins with all handed over");
        if std::mem::take(&mut self.announced_sleep) {
            self.works.awake();
            self.kit.tasks.awake();
        }
        if !self.obey() {
            return self.end();
        }
        self.hear();
        let wait = self.govern();
        let Some(mut done) = self.collect(wait) else { return Turn::Empty };
        let is_over = self.serve();
        if !is_over {
            done += self.tasks() + self.timers() + self.finish();
            self.agree();
            self.kit.tell_left_out(self.kit.now);
            self.publish();
            done += usize::from(self.kit.hand_over(&mut self.driver));
        }
        self.account(is_over || done > 0)
    }

    /// The first work of a type, for a test or a runner to look at; none if there is none, or it has left.
    pub fn work<W: Work>(&self) -> Option<&W> {
        self.works.seats.iter().find_map(|seat| seat.work.as_ref()?.any().downcast_ref())
    }

    /// The lane's kit, for what must be set up before the first turn.
    pub fn kit(&mut self) -> &mut Kit {
        &mut self.kit
    }

    /// Calls the work at a place, if it is there, behind a fence; one that panics leaves.
    fn call<R: Default>(&mut self, place: usize, call: impl FnOnce(&mut Caller<'_, D>) -> R) -> R {
        // Normal: another may have left in this turn.
        let Seat { work: Some(work), inbox, due, .. } = &mut self.works.seats[place] else { return R::default() };
        self.kit.turn_to(place);
        let mut caller = Caller { work: work.as_mut(), inbox, due, kit: &mut self.kit, driver: &mut self.driver };
        match fenced(|| call(&mut caller)) {
            Ok(said) => said,
            Err(words) => {
                self.broke(place, words);
                R::default()
            }
        }
    }

    /// Calls each work, and notes what it says of itself.
    fn call_each(&mut self, mut call: impl FnMut(&mut Caller<'_, D>) -> Said) {
        let mut heard = Said::default();
        for place in self.works.places() {
            let said = self.call(place, &mut call);
            self.works.seats[place].said = said;
            heard = heard.and(said);
        }
        self.heard = heard;
    }

    /// A work has panicked: it leaves, and the others go on. If the lane does not live for any of them, it is broken itself.
    fn broke(&mut self, place: usize, words: String) {
        self.kit.row.add(LaneCounter::WorksBroken, 1);
        let name = self.leave(place);
        if !self.works.keep_lane() {
            resume_unwind(Box::new(words));
        }
        let record = Record::new(Level::Warn, format!("its work {name:?} broke and has left; the others go on: {words}"));
        self.kit.report(record.with_code(WORK_BROKEN));
    }

    /// A work leaves: its sockets close, and its operations and timers end unseen.
    fn leave(&mut self, place: usize) -> &'static str {
        assert!(place < usize::from(Handle::WORKS_MAX), "a seat's number fits in handles");
        assert!(self.works.seats[place].work.is_some(), "a work leaves that is there");
        let (work, inbox, due) = self.works.vacate(place);
        let name = work.work().name();
        // A broken work may panic again as it is dropped; its panic was already reported.
        let _ = fenced(|| drop(work));
        self.kit.hand_over(&mut self.driver);
        self.driver.abandon(place as u8 + 1);
        self.kit.row.add(LaneCounter::CompletionsForeign, due.len() as u64);
        inbox.into_iter().for_each(|completion| end_foreign(&self.kit, &mut self.driver, completion));
        self.kit.end_work(place);
        if let Some(sole) = self.works.sole() {
            self.kit.turn_to(sole);
        }
        name
    }

    /// Carries out the program's order; false if the lane is to end.
    fn obey(&mut self) -> bool {
        let order = self.control.order();
        if order >= Order::Drain && !self.draining {
            self.draining = true;
            assert!(self.said.is_none() && !self.agreed, "nothing was said of a drain that had not begun");
            self.kit.now = self.driver.now();
            // A lane that drains also sleeps: what it does tells less than that it has begun.
            self.kit.row.set(LaneCounter::DrainBeganNanoseconds, self.kit.now.max(1));
            self.kit.row.set(LaneCounter::LaneState, LaneState::Draining as u64);
            self.call_each(|seat| seat.work.drain(seat.kit, seat.driver));
            self.kit.hand_over(&mut self.driver);
        }
        if self.heard.ended {
            self.leave_in_order();
        }
        order != Order::Stop && self.works.keep_lane()
    }

    /// Has those leave that have come to their end.
    fn leave_in_order(&mut self) {
        for place in self.works.places() {
            if self.works.seats[place].said.ended {
                self.call(place, |seat| seat.work.work_mut().end(seat.kit));
                // It may have broken as it ended.
                if self.works.seats[place].work.is_some() {
                    self.leave(place);
                }
            }
        }
    }

    /// In a drain, lanes end together: a lane with nothing left may still be asked by one that has.
    fn agree(&mut self) {
        if !self.draining || self.agreed {
            return;
        }
        let quiet = self.is_quiet().then(|| self.works.counts());
        let over = if self.said == Some(quiet) {
            self.control.all_are_quiet()
        } else {
            self.said = Some(quiet);
            self.control.report_quiet(self.kit.lane(), quiet)
        };
        // What a lane or work sent that is gone by now is in no count, and may have come in this turn.
        if over && quiet.is_some() {
            self.agreed = true;
            self.call_each(|seat| seat.work.all_are_quiet(seat.kit));
        }
    }

    /// Whether none of the works that the lane lives for has anything left to do of its own.
    fn is_quiet(&mut self) -> bool {
        self.works.places().all(|place| {
            let Seat { work: Some(_), keeps_lane: true, .. } = self.works.seats[place] else { return true };
            self.call(place, |seat| seat.work.work().is_quiet(seat.kit))
        })
    }

    /// Has the works hear what they were told.
    fn hear(&mut self) {
        if !self.control.has_words(self.kit.lane()) {
            return;
        }
        self.kit.now = self.driver.now();
        self.control.hear(self.kit.lane());
        self.call_each(|seat| seat.work.hear(seat.kit, seat.driver));
        self.kit.hand_over(&mut self.driver);
    }

    fn end(&mut self) -> Turn {
        assert!(self.completions.is_empty() && self.expired.is_empty(), "a lane ends with all handed over");
        for place in self.works.places() {
            self.call(place, |seat| seat.work.work_mut().end(seat.kit));
        }
        self.kit.row.add(LaneCounter::TasksPanicked, self.kit.tasks.end());
        self.kit.tell_left_out(u64::MAX);
        self.note_length(self.driver.now());
        self.kit.row.set(LaneCounter::LaneState, LaneState::Ended as u64);
        self.note_gauges();
        Turn::Ended
    }

    /// Whether, and how long, the driver may wait: not while there is work; not within the spin budget; else until
    /// the next timer or alarm, after sleep was announced to those who could ring.
    fn govern(&mut self) -> Wait {
        // Sends mostly complete at once: so look once more before announcing sleep.
        let has_sent = std::mem::take(&mut self.kit.has_sent);
        // Before its first turn a lane has submitted nothing that could wake it.
        if self.turns == 0 || has_sent || self.have_more() || self.kit.tasks.has_woken() {
            return Wait::No;
        }
        let now = self.kit.now;
        // The wheel may need a turn before a timer comes.
        self.kit.timers_from = self.kit.wheel.next().unwrap_or(u64::MAX);
        let next = self.kit.timers_from.min(self.kit.first_alarm()).min(self.kit.left_out_due());
        if next <= now {
            return Wait::No;
        }
        assert!(!self.announced_sleep, "a sleep is announced once, and taken back at the next turn");
        if now.saturating_sub(self.productive_at) < nanoseconds(self.settings.spin) {
            return Wait::No;
        }
        assert!(self.kit.has_handed_over(), "a lane sleeps when all that was submitted is with the driver");
        self.announced_sleep = true;
        let quiet = self.works.before_sleep() & self.kit.tasks.before_sleep();
        match next {
            // Orders and words are given before bells are rung, so one that came before the announcement is seen here.
            _ if !quiet || self.order_is_new() || self.control.has_words(self.kit.lane()) => Wait::No,
            u64::MAX => Wait::Forever,
            deadline => Wait::Until(deadline),
        }
    }

    /// Whether the works have something to do without news.
    fn have_more(&self) -> bool {
        self.heard.more || self.heard.ended || self.works.have_waiting()
    }

    fn order_is_new(&self) -> bool {
        match self.control.order() {
            Order::Serve => false,
            Order::Drain => !self.draining,
            Order::Stop => true,
        }
    }

    /// Collects completions, and gives them to their works; returns how many. None if the lane sleeps on.
    fn collect(&mut self, wait: Wait) -> Option<usize> {
        let mut before = self.kit.now;
        if wait != Wait::No {
            before = self.driver.now();
            self.note_length(before);
            self.note_gauges();
            self.kit.row.set(LaneCounter::LaneState, LaneState::Sleeping as u64);
        }
        let room = if self.works.are_shared() { self.works.room(&self.kit) } else { self.kit.budget.completions };
        self.driver.collect(wait, room, &mut self.completions);
        if self.driver.is_asleep() {
            assert!(wait != Wait::No && self.completions.is_empty(), "a lane sleeps when it may, and until something comes");
            return None;
        }
        self.kit.now = self.driver.now().max(before);
        // Also a lane that may not wait rests, where others are to have a part of its CPU.
        let rested = if wait == Wait::No { self.driver.slept().unwrap_or(0) } else { 0 };
        self.note_length(self.kit.now.saturating_sub(rested));
        if rested > 0 {
            self.kit.row.together(|row| {
                // A turn that brings nothing spins from here on.
                row.set(LaneCounter::LastTurnNanoseconds, self.kit.now);
                row.add(LaneCounter::SleepNanoseconds, rested);
            });
        }
        self.judge_calls();
        self.kit.look_at_day(&self.driver);
        if wait != Wait::No {
            let passed = self.kit.now - before;
            let slept = self.driver.slept().map_or(passed, |slept| slept.min(passed));
            // Together: a lane that is awake, and whose last turn began before its sleep, would look stalled.
            self.kit.row.together(|row| {
                row.set(LaneCounter::LaneState, self.awake_state() as u64);
                row.set(LaneCounter::LastTurnNanoseconds, self.kit.now);
                row.add(LaneCounter::Sleeps, 1);
                row.add(LaneCounter::SleepNanoseconds, slept);
            });
        }
        let collected = self.completions.len();
        self.collected = collected;
        if collected > 0 {
            self.kit.row.add(LaneCounter::Completions, collected as u64);
            let Self { works, kit, driver, completions, .. } = self;
            works.route(completions, |completion| end_foreign(kit, driver, completion));
            assert!(self.completions.is_empty(), "each completion was its work's, or nobody's and ended");
        }
        Some(collected)
    }

    /// Finds out who had the last turn, where that was too long.
    fn judge_calls(&mut self) {
        let Some(calls) = &mut self.kit.calls else { return };
        if let Some(took) = calls.end_turn(self.driver.take_overrun()) {
            let words = format!("tasks took {:.1} ms in one turn while packets waited", took as f64 / 1e6);
            self.kit.report_kind("long turns of tasks", Record::new(Level::Warn, words).with_code(OVERRAN));
        }
    }

    /// Hands over what was collected, and has each work serve. True if the turn is over: the only work on the lane had completions, and nothing
    /// came of them.
    fn serve(&mut self) -> bool {
        let is_shared = self.works.are_shared();
        let may_skip = !(is_shared || self.draining);
        let mut is_over = false;
        for place in self.works.places() {
            is_over = self.call(place, |seat| {
                // A work alone on its lane gets everything.
                let at_most = if is_shared { seat.kit.budget.completions } else { usize::MAX };
                seat.work.serve(seat.kit, seat.inbox, at_most, may_skip)
            });
        }
        may_skip && is_over
    }

    /// Hands over timers and messages, and has each work flush; returns how many messages were taken.
    fn finish(&mut self) -> usize {
        self.call_each(|seat| {
            let at_most = seat.kit.budget.other;
            seat.work.finish(seat.kit, seat.driver, seat.due, at_most)
        });
        let taken = self.heard.taken as usize;
        if taken > 0 {
            self.kit.row.record(LaneHistogram::ChannelMessages, taken as u64);
        }
        taken
    }

    fn awake_state(&self) -> LaneState {
        if self.draining { LaneState::Draining } else { LaneState::Running }
    }

    fn timers(&mut self) -> usize {
        if self.kit.now < self.kit.timers_from {
            return 0;
        }
        let room = if self.works.are_shared() { self.works.room_for_timers(&self.kit) } else { self.kit.budget.other };
        self.kit.wheel.expire(self.kit.now, room, &mut self.expired);
        self.kit.timers_from = self.kit.wheel.next().unwrap_or(u64::MAX);
        let fired = self.expired.len();
        assert!(fired <= room, "no more timers come than there is room for");
        if fired > 0 {
            let foreign = self.works.route_timers(&mut self.expired);
            self.kit.row.add(LaneCounter::TimersFired, (fired - foreign) as u64);
            self.kit.row.add(LaneCounter::CompletionsForeign, foreign as u64);
        }
        fired
    }

    fn tasks(&mut self) -> usize {
        if !self.kit.tasks.has_woken() || self.driver.outranks_tasks() {
            return 0;
        }
        let mut panicked = 0;
        // Tasks belong to the lane, whoever spawned them.
        let before = self.kit.arena.pay_as(Payer::LANE);
        self.kit.tasks.tell_time(self.kit.now);
        let began = self.kit.begin_call();
        let polled = self.kit.tasks.run(self.settings.turn_other, &mut |_| panicked += 1);
        assert!(polled <= self.settings.turn_other && panicked <= polled as u64, "tasks are polled within their share of a turn");
        self.kit.arena.pay_as(before);
        if let Some(calls) = &mut self.kit.calls {
            calls.end_tasks(began);
        }
        if polled > 0 {
            self.kit.row.add(LaneCounter::TasksPolled, polled as u64);
            self.kit.row.add(LaneCounter::TasksPanicked, panicked);
        }
        polled
    }

    fn publish(&mut self) {
        if !(self.heard.sent || self.draining) {
            return;
        }
        let (rung, spared) = self.works.publish(self.draining);
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
        let row = self.kit.row.writer();
        let last = row.get(LaneCounter::LastTurnNanoseconds);
        row.set(LaneCounter::LastTurnNanoseconds, self.kit.now);
        row.set(LaneCounter::Serving, 0);
        if productive {
            self.productive_at = self.kit.now;
            self.is_unmeasured = true;
            row.together(|row| {
                row.add(LaneCounter::TurnsProductive, 1);
                row.record(LaneHistogram::TurnCompletions, self.collected as u64);
            });
            return Turn::Productive;
        }
        row.add(LaneCounter::TurnsEmpty, 1);
        if !self.announced_sleep {
            row.add(LaneCounter::SpinNanoseconds, self.kit.now.saturating_sub(last));
        }
        Turn::Empty
    }

    /// Records how long the last turn took, if it was productive: here the clock is read anyway.
    fn note_length(&mut self, ended: u64) {
        if std::mem::take(&mut self.is_unmeasured) {
            let length = ended.saturating_sub(self.productive_at);
            self.kit.row.record(LaneHistogram::TurnNanoseconds, length);
            self.kit.end_requests(length);
        }
    }

    /// Copies to the page what is counted elsewhere.
    fn note_gauges(&self) {
        let (row, counters) = (self.kit.row.writer(), self.driver.counters());
        row.set(LaneCounter::TasksMaxHits, self.kit.tasks.refused());
        row.set(LaneCounter::WordsRefused, self.control.words_refused(self.kit.lane()));
        row.set(LaneCounter::MemoryUsed, self.kit.arena.used() as u64);
        row.set(LaneCounter::ReportLinesDropped, self.kit.lines_dropped());
        row.set(LaneCounter::MemoryPeak, self.kit.arena.peak() as u64);
        row.set(LaneCounter::MemoryLimitHits, self.kit.arena.refused());
        row.set(LaneCounter::SystemCallsSubmit, counters.calls_work);
        row.set(LaneCounter::SystemCallsWait, counters.calls_wait);
        row.set(LaneCounter::ReceivesStarved, counters.receives_starved);
        row.set(LaneCounter::ReceivesEmpty, counters.receives_empty);
        row.set(LaneCounter::EventsStale, counters.events_stale);
        if counters.sends != SendCounters::default() {
            self.note_sends(&counters.sends);
        }
        if counters.pipes != PipeCounters::default() {
            row.set(LaneCounter::BytesPiped, counters.pipes.bytes);
            row.set(LaneCounter::PipesHeld, counters.pipes.held);
            row.set(LaneCounter::PipesMaxHits, counters.pipes.refused);
        }
        // Without a condition: there may be no pair again, between which no byte was passed on.
        row.set(LaneCounter::BytesBridged, counters.bridges.bytes);
        row.set(LaneCounter::PairsBridged, counters.bridges.pairs);
        row.set(LaneCounter::BridgedPairsMaxHits, counters.bridges.refused);
        row.set(LaneCounter::PairsSpoiled, counters.bridges.spoiled);
    }

    /// How large sends left, and what became of their memory.
    fn note_sends(&self, sends: &SendCounters) {
        let row = self.kit.row.writer();
        row.set(LaneCounter::SendsUncopied, sends.uncopied);
        row.set(LaneCounter::SendsCopiedAnyway, sends.copied_anyway);
        row.set(LaneCounter::SendsCopiedSeen, sends.copied_seen);
        row.set(LaneCounter::SendsCopiedRefused, sends.copied_refused);
        row.set(LaneCounter::SendsCopiedShort, sends.copied_short);
        row.set(LaneCounter::SendsCopiedFull, sends.copied_full);
        row.set(LaneCounter::SendsSealed, sends.sealed);
        row.set(LaneCounter::SendsFromFile, sends.from_file);
        row.set(LaneCounter::MemoryWithheld, sends.withheld_bytes);
        row.set(LaneCounter::MemoryRenewed, sends.renewed_bytes);
    }
}

/// What a call into a work needs.
struct Caller<'a, D> {
    work: &'a mut dyn Seated,
    inbox: &'a mut Vec<Completion>,
    due: &'a mut Vec<Handle>,
    kit: &'a mut Kit,
    driver: &'a mut D,
}

/// Ends a completion that belongs to nobody, or to a work that has left: what it opened closes, and its memory goes home.
fn end_foreign(kit: &Kit, driver: &mut impl Driver, completion: Completion) {
    let Completion { handle, outcome, .. } = completion;
    kit.row.add(LaneCounter::CompletionsForeign, (handle.work() != Handle::NOBODY.work()).into());
    match &outcome {
        Outcome::Stream(StreamOutcome::Accepted { socket, .. })
        | Outcome::Stream(StreamOutcome::Connected { socket, .. })
        | Outcome::Datagram(DatagramOutcome::Bound { socket, .. }) => {
            driver.push(Handle::NOBODY, Op::Close { socket: *socket, reset: true });
        }
        Outcome::File(FileOutcome::Opened { file, .. }) => {
            driver.push(Handle::NOBODY, Op::File(FileOp::Close { file: file.clone() }))
        }
        _ => {}
    }
    // The value of an offloaded call is the user's.
    let _ = fenced(|| drop(outcome));
}

impl<D: Driver> Drop for Lane<D> {
    /// However the lane ended, nobody may wait for its answer for ever.
    fn drop(&mut self) {
        self.control.lane_ended(self.kit.lane());
    }
}
