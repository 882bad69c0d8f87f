//! What the engines do alike on a lane, whatever they send: begin, ask to be called, keep what the lane's memory had no room for, and end.

use crate::course::{Course, Cx, Phase, nanoseconds};
use crate::pacer::Pacer;
use crate::plan::Plan;
use corelane::Instant;

/// How long a client whose connection or socket was lost, or could not be had, waits for the next one.
pub(crate) const PAUSE: u64 = 100_000_000;

/// Arrivals that one turn sends at the most.
pub(crate) const ARRIVALS_PER_TURN: usize = 1_024;

/// Requests that were granted, and for which the lane had no memory.
#[derive(Clone, Copy)]
pub(crate) struct Owed {
    /// On which client they go.
    pub(crate) client: u32,
    /// When they were to start.
    pub(crate) intended: u64,
    pub(crate) count: usize,
}

/// The pace of one lane's engine.
pub(crate) struct Pace {
    pub(crate) pacer: Pacer,
    /// Number of this lane's first client among all.
    pub(crate) first: u64,
    /// The first requests are sent, or have their time.
    begun: bool,
    owing: Vec<Owed>,
    /// When overdue answers are looked for again.
    pub(crate) scan_at: u64,
    /// When the alarm comes.
    alarm_at: u64,
    /// Why the lane ends before it has done all.
    early: Option<String>,
}

impl Pace {
    pub(crate) fn new(plan: &Plan, lane: usize) -> Self {
        assert!(lane < plan.lanes, "an engine is for one of the plan's lanes");
        Self {
            pacer: Pacer::new(plan, lane),
            first: (0..lane).map(|lane| u64::from(plan.connections_of(lane))).sum(),
            begun: false,
            owing: Vec::new(),
            scan_at: 0,
            alarm_at: u64::MAX,
            early: None,
        }
    }

    /// Begins, if that has not been done.
    pub(crate) fn begin(&mut self, course: &Course) -> bool {
        assert!(course.phase >= Phase::Running && course.start < u64::MAX, "a lane begins when all have agreed on the start");
        let is_first = !std::mem::replace(&mut self.begun, true);
        if is_first {
            self.pacer.start(course.start);
        }
        is_first
    }

    /// The next time at which any engine has something to do.
    pub(crate) fn next_alarm(&self, course: &Course, now: u64) -> u64 {
        if course.phase == Phase::Over {
            return u64::MAX;
        }
        let is_running = course.phase == Phase::Running;
        let arrival = if is_running { self.pacer.next_due() } else { u64::MAX };
        let owing = if course.makes_requests() && self.owes() { now + PAUSE / 100 } else { u64::MAX };
        course.next_tick().min(arrival).min(owing).min(self.scan_at)
    }

    /// Whether to look for requests that wait for too long. Not before a lane that was away has listened for `interval`: what is answered
    /// may be there to be read.
    pub(crate) fn ask_scan(&mut self, course: &Course, now: u64, interval: u64) -> bool {
        if course.back > 0 {
            self.scan_at = self.scan_at.max(course.back + interval);
        }
        now >= self.scan_at
    }

    /// Has the engine called no later than at `at`.
    pub(crate) fn wake_at(&mut self, cx: &mut Cx<'_>, course: &mut Course, at: u64) {
        if at < self.alarm_at {
            self.set_alarm(cx, course, at);
        }
    }

    /// Has the engine called at once.
    pub(crate) fn wake(&mut self, cx: &mut Cx<'_>, course: &mut Course) {
        self.wake_at(cx, course, cx.now().nanoseconds());
    }

    /// Lets arrivals have a client with so many requests in flight, if one more may be there and the client can take it now; and has the engine called
    /// when the next arrival is due.
    pub(crate) fn offer_room(&mut self, cx: &mut Cx<'_>, course: &mut Course, client: u32, in_flight: usize, can_use: bool) {
        if can_use && in_flight + self.owed(client) < course.plan.depth as usize {
            self.pacer.offer(client, cx.now().nanoseconds());
        }
        self.wake_at(cx, course, self.pacer.next_due());
    }

    pub(crate) fn set_alarm(&mut self, cx: &mut Cx<'_>, course: &mut Course, at: u64) {
        self.alarm_at = at;
        course.call_at(at);
        // reason: a service may have one alarm, whatever its bound is.
        cx.start_alarm(Instant::from_nanoseconds(at), 0).expect("one alarm is always to be had");
    }

    /// Requests that were granted and cannot go now.
    pub(crate) fn owe(&mut self, course: &mut Course, owed: Owed) {
        assert!(owed.count > 0, "what is owed is to be sent");
        if !course.counts_connections() {
            course.give_back(owed.intended, owed.count);
        }
        self.owing.push(owed);
    }

    /// What a client owes is not to be sent any more: how many that are, and when the first of them was to start.
    pub(crate) fn forget(&mut self, client: u32) -> Option<(usize, u64)> {
        let owed = self.owing.extract_if(.., |owed| owed.client == client);
        owed.map(|owed| (owed.count, owed.intended)).reduce(|(count, first), (more, _)| (count + more, first))
    }

    /// Requests of a client that wait for memory.
    pub(crate) fn owed(&self, client: u32) -> usize {
        self.owing.iter().filter(|owed| owed.client == client).map(|owed| owed.count).sum()
    }

    /// Whether any requests wait for memory.
    pub(crate) fn owes(&self) -> bool {
        !self.owing.is_empty()
    }

    /// What is owed, to be tried again.
    pub(crate) fn take_owed(&mut self) -> Vec<Owed> {
        std::mem::take(&mut self.owing)
    }

    /// The next request that is due and may still be made, and the client on which it goes.
    pub(crate) fn next_arrival(&mut self, course: &mut Course, now: u64, can_use: impl FnMut(u32) -> bool) -> Option<(u64, u32)> {
        if course.all_started() {
            return None;
        }
        let (intended, could, client) = self.pacer.take_due(now, can_use)?;
        if course.take(intended, 1) == 0 {
            return None;
        }
        course.offered(intended, could, now);
        Some((intended, client))
    }

    /// Ends a run of a number of requests when all of them have come up; says whether that is so.
    pub(crate) fn end_with_arrivals(&self, course: &mut Course) -> bool {
        let is_over = self.pacer.is_done() && !self.owes() && course.ends_by_count();
        if is_over {
            course.give_up();
        }
        is_over
    }

    /// With a number of requests to make and nobody who answers, the run would never end by itself, or only when all of them are given
    /// up. `waits`: something is to be sent that is not, beside what waits for memory.
    pub(crate) fn despair(&mut self, course: &mut Course, now: u64, waits: bool) {
        let patience = nanoseconds(course.plan.timeout).saturating_mul(2).saturating_add(10 * PAUSE);
        if !waits && !self.owes() && course.in_flight == 0 {
            course.heard = now;
        }
        let is_running = course.phase == Phase::Running && course.ends_by_count();
        if is_running && now.saturating_sub(course.heard) > patience {
            self.early = Some(format!("nothing was answered for {:.1} s", patience as f64 / 1e9));
            course.give_up();
        }
    }

    /// The lane has done its part, with so many connections or sockets open.
    pub(crate) fn end(&mut self, course: &mut Course, now: u64, open: u32) {
        assert!(course.phase == Phase::Ending, "a lane's part is over once, after it has stopped sending");
        course.over(now, open, self.early.take());
    }
}
