//! The lane's kit: what its works may use, and where they put what they want done.

use crate::calls::{Calls, Overrun};
use crate::control::{Control, Order};
use crate::report::{Report, Throttle};
use crate::settings::{Budget, LaneSettings};
use crate::tasks::Tasks;
use crate::wheel::{TimerId, Wheel};
use corelane_seam::parcel::Guests;
use corelane_seam::{Arena, DatagramOp, Driver, Handle, Level, Op, Payer, Record, Role, Socket, StreamOp, nanoseconds};
use corelane_watch::{LaneHistogram, LaneRow};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Timers fire at multiples of this, in nanoseconds.
pub const TIMER_RESOLUTION: u64 = 1_000_000;

/// Each work's own part of the kit, kept while another work has its turn.
#[derive(Clone, Copy)]
struct Own {
    alarm: u64,
    budget: Budget,
    payer: Payer,
}

/// What the works of a lane may use: memory, clock, timers, tasks, and the outbox for operations. During a call into a work, the alarm,
/// the budget, the payer and the number in handles are that work's own.
pub struct Kit {
    /// The lane's memory.
    pub arena: Arena,
    /// The parcels of other lanes that are on this one.
    pub guests: Guests,
    /// The lane's tasks.
    pub tasks: Tasks,
    /// The lane's row of counters.
    pub row: LaneRow,
    /// The time, in nanoseconds, at which the work wants a turn even if nothing happens until then; `u64::MAX` if it does not. To the
    /// clock's own resolution, unlike timers.
    pub alarm: u64,
    /// What the work may take of a turn. It may change this, from the next turn on.
    pub budget: Budget,
    pub(crate) wheel: Wheel<Handle>,
    /// No timer comes before this, so the wheel need not be asked.
    pub(crate) timers_from: u64,
    pub(crate) now: u64,
    /// Nanoseconds since 1970 when the monotonic clock was 0, as of the last look, and when that was.
    pub(crate) epoch: u64,
    pub(crate) epoch_at: u64,
    /// The place of the work that is called now; its number is one more.
    at: usize,
    owns: Vec<Own>,
    outbox: Vec<(Handle, Op)>,
    /// A send was submitted since the lane last looked.
    pub(crate) has_sent: bool,
    /// Connections to finish, on our side, after the outbox.
    finished: Vec<Socket>,
    report: Box<dyn Report>,
    /// Lines that were not told after all.
    dropped: Option<Arc<AtomicU64>>,
    throttle: Throttle,
    pub(crate) offload_max: usize,
    lane: usize,
    control: Arc<Control>,
    /// Requests that came in this turn and are answered in it, so far.
    requests: Cell<u64>,
    /// How long calls take; none where nobody asks.
    pub(crate) calls: Option<Box<Calls>>,
}

impl Kit {
    /// Requests were taken: they are answered in this turn, unless they are held.
    #[inline]
    pub fn note_requests(&self, taken: usize) {
        self.requests.set(self.requests.get() + taken as u64);
    }

    /// Of the requests of this turn some are held, and will be answered later. A service may hold more than it has counted: what it takes for a request is its own affair,
    /// and it may have counted it in an earlier turn.
    pub fn note_held(&self, held: usize) {
        self.requests.set(self.requests.get().saturating_sub(held as u64));
    }

    /// Requests that were held are answered, after they have waited for so long on the average. Those of this turn are answered in it.
    pub fn note_answered(&self, answered: u64, waited_nanoseconds: u64) {
        match waited_nanoseconds {
            0 => self.requests.set(self.requests.get() + answered),
            _ => self.row.record_many(LaneHistogram::RequestNanoseconds, waited_nanoseconds, answered),
        }
    }

    /// The turn has ended that took so long, and with it the requests that were answered in it.
    #[inline]
    pub(crate) fn end_requests(&self, nanoseconds: u64) {
        let answered = self.requests.replace(0);
        if answered > 0 {
            self.row.record_many(LaneHistogram::RequestNanoseconds, nanoseconds, answered);
        }
    }

    /// The kit of lane `lane`. `report` takes each line that an operator should see.
    pub fn new(
        lane: usize,
        control: &Arc<Control>,
        arena: Arena,
        row: LaneRow,
        settings: &LaneSettings,
        report: Box<dyn Report>,
    ) -> Self {
        let bell = control.bell(lane).clone();
        Self {
            tasks: Tasks::shared(settings.tasks_max, bell, arena.clone()),
            arena,
            guests: Guests::default(),
            row,
            alarm: u64::MAX,
            budget: Budget::of(settings),
            wheel: Wheel::roomy(TIMER_RESOLUTION),
            timers_from: u64::MAX,
            now: 0,
            epoch: 0,
            epoch_at: 0,
            at: 0,
            owns: Vec::new(),
            outbox: Vec::with_capacity(settings.turn_completions),
            has_sent: false,
            finished: Vec::new(),
            dropped: report.dropped(),
            report,
            throttle: Throttle::default(),
            offload_max: 0,
            lane,
            control: control.clone(),
            requests: Cell::new(0),
            calls: None,
        }
    }

    /// A call of a service begins. Returns what [`Kit::end_call`] is to be told: the time, if calls are timed on this lane.
    #[inline]
    pub fn begin_call(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| calls.now())
    }

    /// A call of a service of the work that is at it has ended.
    #[inline]
    pub fn end_call(&mut self, service: u16, began: u64) {
        if let Some(calls) = &mut self.calls {
            calls.end(self.at, service, began);
        }
    }

    /// The work's service that had most of the last turn, if services had the lane for longer than their share at once while packets waited. To be asked in each turn.
    #[inline]
    pub fn take_overrun(&mut self) -> Option<Overrun> {
        self.calls.as_mut()?.take_overrun(self.at)
    }

    /// This lane's number, from 0.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// How many lanes the program has.
    pub fn lanes(&self) -> usize {
        self.control.lanes()
    }

    /// Has all lanes of the program drain, and end.
    pub fn drain_program(&self) {
        self.control.give(Order::Drain);
    }

    /// The clock as this turn read it: nanoseconds of the driver's monotonic clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The time of day at this turn: nanoseconds since 1970, UTC. A clock that is set is noticed within a second.
    pub fn time_of_day(&self) -> u64 {
        self.epoch.saturating_add(self.now)
    }

    /// Looks at the time of day, unless that was done in the last second.
    #[inline]
    pub(crate) fn look_at_day(&mut self, driver: &impl Driver) {
        if self.now >= self.epoch_at {
            (self.epoch, self.epoch_at) =
                (driver.time_of_day().saturating_sub(self.now), self.now.saturating_add(nanoseconds(Duration::from_secs(1))));
        }
    }

    /// How many offloaded calls may be under way at once.
    pub fn offload_max(&self) -> usize {
        self.offload_max
    }

    /// The account that pays for the work's leases, unless the work says otherwise. It may open others under it.
    pub fn payer(&self) -> Payer {
        self.owns[self.at].payer
    }

    /// Submits an operation at the end of this turn, together with all others. Its handle, and that of what it cancels, become the
    /// work's.
    #[inline]
    pub fn submit(&mut self, handle: Handle, op: impl Into<Op>) {
        assert!(self.is_present(self.at), "a work that has left submits nothing");
        let mut op = op.into();
        match &mut op {
            Op::Cancel { target } => *target = self.own(*target),
            Op::Stream(StreamOp::Send { .. }) | Op::Datagram(DatagramOp::Send { .. }) => self.has_sent = true,
            _ => {}
        }
        self.outbox.push((self.own(handle), op));
    }

    /// The handle as the work's that is at it.
    #[inline]
    fn own(&self, handle: Handle) -> Handle {
        let work = self.at as u8 + 1;
        assert!(
            handle.work() == Handle::NOBODY.work() || handle.work() == work,
            "a work makes handles of nobody, or has its own back"
        );
        handle.of(work)
    }

    /// Whether the work at this place has not left.
    #[inline]
    fn is_present(&self, place: usize) -> bool {
        self.owns[place].payer != Payer::LANE
    }

    /// Ends our side of a connection at the end of this turn, after the operations submitted before.
    pub fn finish(&mut self, socket: Socket) {
        self.finished.push(socket);
    }

    /// Starts a timer that comes back as `handle` at `deadline` (nanoseconds) or up to a millisecond after it.
    pub fn start_timer(&mut self, deadline: u64, handle: Handle) -> TimerId {
        assert!(self.is_present(self.at), "a work that has left starts no timer");
        self.timers_from = self.timers_from.min(deadline);
        self.wheel.insert(self.now, deadline, self.own(handle))
    }

    /// Stops a timer; one that has fired already is left alone.
    pub fn stop_timer(&mut self, timer: TimerId) {
        self.wheel.cancel(timer);
    }

    /// Tells the operator something, as one line: of this lane, unless it says of which it is.
    pub fn report(&mut self, record: Record) {
        let record = if record.lane.is_none() { record.of_lane(self.lane) } else { record };
        self.report.line(record);
    }

    /// For lines that others can cause as often as they like: tells the operator at most one line of each kind a second, and how many were
    /// left out. There are few kinds, each with a name in the source.
    pub fn report_kind(&mut self, kind: &'static str, record: Record) {
        if self.throttle.pass(kind, self.now) {
            self.report(record);
        }
    }

    /// Takes up the next work of the lane, with an account of its own.
    pub(crate) fn add_work(&mut self, budget: Budget) {
        let payer = self.arena.open_payer(Payer::LANE, Role::Sum);
        assert!(payer != Payer::LANE, "a work has an account of its own");
        assert!(budget.completions > 0 && budget.other > 0, "a work that may take nothing of a turn never goes on");
        let own = Own { alarm: u64::MAX, budget, payer };
        self.owns.push(own);
        if self.owns.len() == 1 {
            self.begin(own);
        }
    }

    /// From now on the work at this place is at it.
    #[inline]
    pub(crate) fn turn_to(&mut self, place: usize) {
        assert!(self.is_present(place), "a work that has left gets no turn");
        if self.at != place {
            self.owns[self.at] = Own { alarm: self.alarm, budget: self.budget, ..self.owns[self.at] };
            self.at = place;
            self.begin(self.owns[place]);
        }
    }

    fn begin(&mut self, own: Own) {
        (self.alarm, self.budget) = (own.alarm, own.budget);
        self.arena.pay_as(own.payer);
    }

    /// The budget of the work at this place.
    pub(crate) fn budget_of(&self, place: usize) -> Budget {
        if place == self.at { self.budget } else { self.owns[place].budget }
    }

    /// When the first work wants a turn.
    pub(crate) fn first_alarm(&self) -> u64 {
        if self.owns.len() == 1 {
            return self.alarm;
        }
        let others = self.owns.iter().enumerate().filter(|(place, _)| *place != self.at);
        others.map(|(_, own)| own.alarm).fold(self.alarm, u64::min)
    }

    /// The work at this place has left: it wants nothing any more, and who paid for it is gone.
    pub(crate) fn end_work(&mut self, place: usize) {
        assert!(self.is_present(place), "a work leaves once");
        self.turn_to(place);
        self.alarm = u64::MAX;
        self.arena.pay_as(Payer::LANE);
        self.arena.abandon_payer(self.owns[place].payer);
        self.owns[place].payer = Payer::LANE;
    }

    /// When something that was left out is to be told; `u64::MAX` if nothing was.
    pub(crate) fn left_out_due(&self) -> u64 {
        self.throttle.due()
    }

    /// Tells how much was left out, of the kinds whose second is over.
    pub(crate) fn tell_left_out(&mut self, now: u64) {
        while let Some((kind, count)) = self.throttle.take(now) {
            self.tell_of(kind, count);
        }
    }

    // Apart, so that a turn with nothing to tell pays only for the check.
    #[inline(never)]
    fn tell_of(&mut self, kind: &str, count: u64) {
        self.report(Record::new(Level::Warn, format!("{count} more lines on {kind} were left out")));
    }

    /// How many lines were not told after all.
    pub(crate) fn lines_dropped(&self) -> u64 {
        self.dropped.as_ref().map_or(0, |dropped| dropped.load(Ordering::Relaxed))
    }

    /// Whether nothing was submitted in this turn, and no alarm, timer or task is due.
    pub(crate) fn is_at_rest(&self) -> bool {
        let next = self.timers_from.min(self.first_alarm());
        self.has_handed_over() && !self.guests.has_homeward() && self.now < next && !self.tasks.has_woken()
    }

    /// Whether all that was submitted is with the driver.
    pub(crate) fn has_handed_over(&self) -> bool {
        self.outbox.is_empty() && self.finished.is_empty()
    }

    /// Hands the outbox to the driver; returns whether there was anything.
    pub(crate) fn hand_over(&mut self, driver: &mut impl Driver) -> bool {
        let any = !self.has_handed_over();
        driver.push_all(&mut self.outbox);
        for socket in self.finished.drain(..) {
            driver.finish(socket);
        }
        any
    }
}
