//! The course of a run on one lane: its phases, its clock, and the counting.
//!
//! Opening -> Ready (all connections are open; lane 0 gives the start when every lane is) -> Running (warm-up, then the window) -> Ending (nothing new
//! is sent, answers are waited for) -> Over. What is measured leaves the lane once a second.

use crate::flights::Flight;
use crate::interval::{Interval, Kinds, Times};
use crate::kinds::{Errors, Kind};
use crate::pacer::Pacer;
use crate::plan::{Extent, Mode, Plan, share};
use crate::secure::HandshakesTimed;
use corelane::service::Says;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// A second, in nanoseconds: the length of an interval.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// How long the load goes on behind the window, so that whoever reads the server's clock at its end reads it under load.
const TAIL: u64 = SECOND / 20;

/// How soon after the last lane is ready the run starts: all lanes must have heard of it.
const START_AFTER: u64 = SECOND / 100;

/// How often a lane looks whether it is told to end early.
const LOOK: u64 = SECOND / 10;

/// A lane that comes so much later than it had asked to be called was away: what is shorter than that is the system's way of waking it.
const GAP: u64 = SECOND / 50;

/// Where a lane is in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Opening,
    Ready,
    Running,
    Ending,
    Over,
}

/// What a lane tells those outside of it.
#[derive(Debug)]
pub enum Event {
    /// So many connections are open.
    Opened {
        /// The lane.
        lane: usize,
        /// Connections.
        connections: u32,
    },
    /// Every lane is ready; lane 0 tells it.
    Started {
        /// When the window begins, in nanoseconds of the lanes' clock.
        from: u64,
        /// When it ends; `u64::MAX` if a number of requests ends it.
        until: u64,
    },
    /// A second is over.
    Interval {
        /// The lane.
        lane: usize,
        /// The number of the interval: 0 begins the window, negative ones are the warm-up.
        index: i64,
        /// Its length in nanoseconds: a second, or less for the last one.
        length: u64,
        /// What was measured in it.
        interval: Box<Interval>,
    },
    /// A lane has done its part.
    Over {
        /// The lane.
        lane: usize,
        /// Why before the end that was asked for, if so.
        early: Option<String>,
        /// Connections open at the end.
        connections: u32,
        /// When the last request of the window was answered or given up; of a flood, when the last datagram went or came.
        ended: u64,
        /// What failed while the connections were opened.
        opening: Errors,
        /// How it came to its connections.
        peaks: Peaks,
        /// When it was not there.
        gaps: Gaps,
        /// What its connections did before they were open.
        handshakes: Box<HandshakesTimed>,
    },
    /// The target cannot be had.
    Unreachable {
        /// The lane that cannot have it; none if that suffices to end the run, whatever the other lanes have.
        lane: Option<usize>,
        /// Why.
        kind: Kind,
        /// The system's word.
        fault: String,
    },
}

/// How one lane opened its connections, at the most; only where connections are what is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Open or being opened at once.
    pub at_once: u64,
    /// Asked for in one turn, one right after the other.
    pub burst: u64,
}

/// Times between two turns of a lane that it did not choose by sleeping: it was stopped, or had no CPU, or its turn took so long. Only those
/// from the window's begin on, and none under 20 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// The longest, in nanoseconds.
    pub longest: u64,
    /// All of them, in nanoseconds.
    pub together: u64,
}

/// What lanes say to one another.
#[derive(Clone, Copy, Debug)]
pub enum Word {
    /// This lane's connections are open.
    Ready,
    /// All are: the run begins at this time.
    Start {
        /// On the lanes' clock.
        at: u64,
    },
}

/// An engine's calls are made with this.
pub(crate) type Cx<'a> = corelane::Cx<'a, Says<Word>>;

/// One lane's part of a run.
pub struct Course {
    pub(crate) plan: Arc<Plan>,
    pub(crate) lane: usize,
    pub(crate) phase: Phase,
    pub(crate) start: u64,
    from: u64,
    until: u64,
    /// Requests that this lane still has to start within the window; `u64::MAX` without a bound.
    left: u64,
    /// Requests in flight, of all connections.
    pub(crate) in_flight: u64,
    /// Lanes that are ready, counted by lane 0.
    ready: usize,
    /// Connections, or sockets, that are open.
    open: u64,
    current: Interval,
    current_from: u64,
    current_index: i64,
    next_look: u64,
    /// When the lane has asked to be called, at the latest.
    due: u64,
    /// When it was called last.
    called: u64,
    gaps: Gaps,
    /// It was ended from outside.
    is_cut: bool,
    /// What failed before the start.
    opening: Errors,
    pub(crate) peaks: Peaks,
    handshakes: Box<HandshakesTimed>,
    /// When the last request that counts was answered or given up.
    ended: u64,
    /// When the lane was last back after it was away.
    pub(crate) back: u64,
    /// When something was last answered, or nothing was waited for; later by the time that the lane was away since.
    pub(crate) heard: u64,
    events: Sender<Event>,
    stop: Arc<AtomicBool>,
}

impl Course {
    /// The part of lane `lane`; it ends early when `stop` is set.
    pub fn new(plan: Arc<Plan>, lane: usize, events: Sender<Event>, stop: Arc<AtomicBool>) -> Self {
        let left = match plan.extent {
            Extent::For(_) => u64::MAX,
            Extent::Requests(requests) => share(requests, lane, plan.lanes),
        };
        let current = Interval::of(kinds(&plan.mode));
        let handshakes = Box::new(HandshakesTimed { times: Times::new(plan.secure.is_some()), ..HandshakesTimed::default() });
        Self {
            plan,
            lane,
            phase: Phase::Opening,
            start: u64::MAX,
            from: u64::MAX,
            until: u64::MAX,
            left,
            in_flight: 0,
            ready: 0,
            open: 0,
            current,
            current_from: 0,
            current_index: 0,
            next_look: 0,
            due: u64::MAX,
            called: 0,
            gaps: Gaps::default(),
            is_cut: false,
            opening: Errors::default(),
            peaks: Peaks::default(),
            handshakes,
            ended: 0,
            back: 0,
            heard: 0,
            events,
            stop,
        }
    }

    pub(crate) fn tell(&self, event: Event) {
        // Nobody listens any more: then the lanes are about to be stopped.
        let _ = self.events.send(event);
    }

    /// This lane's connections are open (or as many as can be had).
    pub(crate) fn ready(&mut self, cx: &mut Cx<'_>) {
        assert!(self.phase == Phase::Opening, "a lane gets ready once");
        self.phase = Phase::Ready;
        match self.lane {
            0 => self.lane_is_ready(cx),
            _ => send(cx, 0, Word::Ready),
        }
    }

    /// A word of another lane.
    pub(crate) fn hear(&mut self, cx: &mut Cx<'_>, word: Word) {
        match word {
            Word::Ready => self.lane_is_ready(cx),
            Word::Start { at } => self.start_at(at),
        }
    }

    fn lane_is_ready(&mut self, cx: &mut Cx<'_>) {
        self.ready += 1;
        assert!(self.lane == 0 && self.ready <= self.plan.lanes, "each lane says once to lane 0 that it is ready");
        if self.ready < self.plan.lanes {
            return;
        }
        let at = cx.now().nanoseconds() + START_AFTER;
        (1..self.plan.lanes).for_each(|lane| send(cx, lane, Word::Start { at }));
        self.start_at(at);
        self.tell(Event::Started { from: self.from, until: self.until });
    }

    fn start_at(&mut self, at: u64) {
        assert!(self.start == u64::MAX && at < u64::MAX, "a run starts once");
        self.start = at;
        self.from = at + nanoseconds(self.plan.warm_up);
        if let Extent::For(length) = self.plan.extent {
            self.until = self.from + nanoseconds(length);
        }
        self.heard = at;
        self.ended = self.from;
        // Whole seconds before the window; the first interval of the warm-up is the short one.
        let seconds = (self.from - at).div_ceil(SECOND);
        self.current_index = -(seconds as i64);
        self.current_from = at;
    }

    /// Moves on with the clock: closes intervals, begins and ends the run. To be called before anything is counted in a turn.
    pub(crate) fn tick(&mut self, now: u64) {
        self.note_gap(now);
        while self.phase != Phase::Over && now >= self.interval_end() {
            self.close_interval(self.interval_end());
        }
        if self.phase == Phase::Ready && now >= self.start {
            assert!(self.from >= self.start && self.until >= self.from, "a window begins behind its warm-up");
            self.phase = Phase::Running;
        }
        if self.phase == Phase::Running && (now >= self.until.saturating_add(self.tail()) || self.left == 0) {
            self.phase = Phase::Ending;
        }
        if now >= self.next_look {
            self.next_look = now + LOOK;
            if self.stop.load(Ordering::Relaxed) && !self.is_cut && self.phase < Phase::Over {
                self.cut(now);
            }
        }
    }

    /// The lane asks to be called again at `at` at the latest.
    pub(crate) fn call_at(&mut self, at: u64) {
        self.due = at;
    }

    /// Notes whether the lane comes late. A lane that sleeps is called when it asked to be, whether or not anything has happened meanwhile.
    fn note_gap(&mut self, now: u64) {
        let since = self.due.max(self.called);
        self.called = now;
        if now.saturating_sub(since) >= GAP {
            // Who does not listen hears nothing: that is no silence of the target.
            self.heard = (self.heard + (now - since)).min(now);
            self.back = now;
        }
        let gap = now.saturating_sub(since.max(self.from));
        if gap >= GAP && self.phase < Phase::Over {
            self.gaps.longest = self.gaps.longest.max(gap);
            self.gaps.together += gap;
        }
    }

    /// A flood ends with its window, so that all that it sent is in it.
    fn tail(&self) -> u64 {
        if self.plan.mode == Mode::Flood { 0 } else { TAIL }
    }

    /// Somebody wants the end now: the window ends here, and no answer is waited for.
    fn cut(&mut self, now: u64) {
        self.is_cut = true;
        self.until = self.until.min(now.max(self.from));
        self.give_up();
    }

    /// Whether the end is wanted now, with requests still in flight.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Ends the run for this lane: nothing new is sent.
    pub(crate) fn give_up(&mut self) {
        assert!(self.phase < Phase::Over, "a lane whose part is over does not go back to ending");
        self.phase = Phase::Ending;
    }

    /// Whether a number of requests, and no time, ends the run.
    pub(crate) fn ends_by_count(&self) -> bool {
        matches!(self.plan.extent, Extent::Requests(_))
    }

    /// The end of the present interval: the next whole second from the window's begin on.
    fn interval_end(&self) -> u64 {
        if self.start == u64::MAX {
            return u64::MAX;
        }
        let whole = self.from.saturating_add_signed((self.current_index + 1) * SECOND as i64);
        if self.current_from < self.until { whole.min(self.until) } else { u64::MAX }
    }

    fn close_interval(&mut self, at: u64) {
        let mut interval = Box::new(self.current.take());
        interval.open = self.open;
        assert!(at >= self.current_from, "an interval ends behind its begin");
        let length = at - self.current_from;
        self.tell(Event::Interval { lane: self.lane, index: self.current_index, length, interval });
        (self.current_from, self.current_index) = (at, self.current_index + 1);
    }

    /// The next time at which [`Course::tick`] has something to do.
    pub(crate) fn next_tick(&self) -> u64 {
        let phase = match self.phase {
            Phase::Opening | Phase::Ready => self.start,
            Phase::Running => self.until.saturating_add(self.tail()),
            Phase::Ending | Phase::Over => u64::MAX,
        };
        self.next_look.min(self.interval_end()).min(phase)
    }

    /// The lane's part is done: what is left of the measurements goes out.
    pub(crate) fn over(&mut self, now: u64, connections: u32, early: Option<String>) {
        if self.phase == Phase::Over {
            return;
        }
        if self.start != u64::MAX {
            self.close_interval(now.max(self.current_from));
        }
        self.phase = Phase::Over;
        let early = early.or_else(|| self.is_cut.then(|| "it was told to end".to_owned()));
        // Where somebody ended it, silence before that is part of the window.
        let ended = if self.is_cut && self.until != u64::MAX { self.until } else { self.ended.min(self.until) };
        let (lane, opening, peaks, gaps) = (self.lane, self.opening, self.peaks, self.gaps);
        let handshakes = std::mem::take(&mut self.handshakes);
        self.tell(Event::Over { lane, early, connections, ended, opening, peaks, gaps, handshakes });
    }

    /// Whether connections are what is granted and counted, and each makes its requests without being granted them.
    pub(crate) fn counts_connections(&self) -> bool {
        matches!(self.plan.mode, Mode::Connections { .. })
    }

    /// Whether requests may still be sent: those of connections that were granted also when no new one is.
    pub(crate) fn makes_requests(&self) -> bool {
        self.phase == Phase::Running || self.phase == Phase::Ending && self.counts_connections()
    }

    /// How many of `wanted` requests with this intended start may be sent; takes them off what is left to do.
    pub(crate) fn take(&mut self, intended: u64, wanted: usize) -> usize {
        if self.phase != Phase::Running {
            return 0;
        }
        if intended < self.from || self.left == u64::MAX {
            return wanted;
        }
        let granted = (wanted as u64).min(self.left);
        assert!(self.ends_by_count(), "only a number of requests can be used up");
        self.left -= granted;
        granted as usize
    }

    /// Takes back what was granted with [`Course::take`] and could not be sent yet.
    pub(crate) fn give_back(&mut self, intended: u64, count: usize) {
        if intended >= self.from && self.left != u64::MAX {
            assert!(self.ends_by_count(), "only what can be used up was taken");
            self.left += count as u64;
        }
    }

    /// Whether all requests that were asked for are started.
    pub(crate) fn all_started(&self) -> bool {
        self.left == 0
    }

    /// Counts requests as sent.
    pub(crate) fn sent(&mut self, flight: Flight, count: u64, bytes: u64) {
        self.in_flight += count;
        if self.is_recorded(flight.intended, flight.sent) {
            self.current.sent += count;
            self.current.bytes_sent += bytes;
        }
    }

    /// Counts datagrams of a flood as handed to the system.
    pub(crate) fn flooded(&mut self, count: u64, bytes: u64, now: u64) {
        if self.is_recorded(now, now) {
            self.ended = now;
            self.current.sent += count;
            self.current.bytes_sent += bytes;
        }
    }

    /// Counts datagrams of a flood that came back, also behind the window: they were sent in it.
    pub(crate) fn returned(&mut self, count: u64, now: u64) {
        (self.heard, self.ended) = (now, now);
        self.current.requests += count;
        if self.in_window(now) {
            self.current.in_window += count;
        }
    }

    /// Counts what came unasked, in whole pieces, and what the workload counts of it.
    pub(crate) fn arrived(&mut self, pieces: u64, counted: &[(usize, u64)], now: u64) {
        self.heard = now;
        if now >= self.start && self.is_recorded(now, now) {
            self.ended = now;
            self.current.requests += pieces;
            self.current.in_window += if self.in_window(now) { pieces } else { 0 };
            counted.iter().for_each(|&(place, amount)| self.current.counted[place] += amount);
        }
    }

    /// Counts a connection, or a socket, as open.
    pub(crate) fn opened(&mut self) {
        (self.open, self.current.opened) = (self.open + 1, self.current.opened + 1);
    }

    /// Counts one as ended.
    pub(crate) fn closed(&mut self) {
        assert!(self.open > 0, "what has ended was open");
        (self.open, self.current.closed) = (self.open - 1, self.current.closed + 1);
    }

    /// Records how the time of a request, from sending to its answer, was divided by the answer's first byte.
    pub(crate) fn divided(&mut self, flight: Flight, first_byte: u64, now: u64) {
        if self.is_recorded(flight.intended, now) {
            self.current.response.record(first_byte.saturating_sub(flight.sent), 1);
            self.current.transfer.record(now.saturating_sub(first_byte), 1);
        }
    }

    /// Counts a connection as asked for, where these are what is measured.
    pub(crate) fn asked(&mut self, intended: u64, now: u64) {
        self.current.asked += u64::from(self.is_recorded(intended, now));
    }

    /// Counts a request of an open loop as offered, and how late it goes: `could` is when it could have gone first.
    pub(crate) fn offered(&mut self, intended: u64, could: u64, now: u64) {
        if self.is_recorded(intended, now) {
            self.current.offered += 1;
            self.current.lag.record(now.saturating_sub(could), 1);
        }
    }

    /// Counts the requests of an open loop that were due in the window, up to now, and will never be sent.
    pub(crate) fn count_not_sent(&mut self, pacer: &mut Pacer, now: u64) {
        pacer.start(self.start); // a lane that slept through its whole window has its arrivals all the same
        let not_sent = pacer.take_left(self.from, self.until.min(now)).min(self.left);
        self.current.offered += not_sent;
    }

    /// Counts requests as answered.
    pub(crate) fn answered(&mut self, flight: Flight, now: u64, count: u64) {
        assert!(self.in_flight >= count, "what is answered was sent");
        self.in_flight -= count;
        self.heard = now;
        if self.in_window(now) {
            self.current.in_window += count;
        }
        if self.is_recorded(flight.intended, now) {
            self.ended = now;
            self.current.requests += count;
            self.current.latency.record(now.saturating_sub(flight.intended), count);
            self.current.service.record(now.saturating_sub(flight.sent), count);
        }
    }

    /// Counts what the workload counts of an answer, where its request counts too.
    pub(crate) fn count(&mut self, flight: Flight, outcome: Result<(), Kind>, now: u64, counted: &[(usize, u64)]) {
        let counts = match outcome {
            Ok(()) => self.is_recorded(flight.intended, now),
            Err(_) => self.counts_as_failed(flight, now),
        };
        if counts {
            counted.iter().for_each(|&(place, amount)| self.current.counted[place] += amount);
        }
    }

    /// Counts a connection that follows one which has ended in order.
    pub(crate) fn renewed(&mut self, now: u64) {
        self.current.renewed += u64::from(self.is_recorded(now, now));
    }

    /// Counts requests that are sent a second time: they are in flight since the first.
    pub(crate) fn asked_again(&mut self, flight: Flight, bytes: u64) {
        if self.is_recorded(flight.intended, flight.sent) {
            self.current.asked_again += 1;
            self.current.bytes_sent += bytes;
        }
    }

    /// Counts a request as failed; one that waited in vain stays in the histogram with the time that it waited. Those count that were to
    /// start in the window, whenever it is known that they failed: by the time of their end, what is waited for in vain would be counted
    /// over a window that is longer by the waiting.
    pub(crate) fn failed(&mut self, kind: Kind, flight: Flight, now: u64) {
        assert!(self.in_flight > 0, "what fails was sent");
        self.in_flight -= 1;
        if self.counts_as_failed(flight, now) {
            self.ended = now;
            self.current.errors.add(kind, 1);
            if matches!(kind, Kind::ClientTimeout | Kind::Lost) {
                self.current.latency.record(now.saturating_sub(flight.intended), 1);
                self.current.service.record(now.saturating_sub(flight.sent), 1);
            }
        }
    }

    /// [`Course::failed`] of a request whose answer says so: somebody answers.
    pub(crate) fn failed_as_answered(&mut self, kind: Kind, flight: Flight, now: u64) {
        self.heard = now;
        self.failed(kind, flight, now);
    }

    /// Counts something of a kind that took no request with it.
    pub(crate) fn note(&mut self, kind: Kind, count: u64, intended: u64, now: u64) {
        if self.start == u64::MAX {
            self.opening.add(kind, count);
        } else if self.is_recorded(intended, now) {
            self.current.errors.add(kind, count);
        }
    }

    /// Counts bytes as received, from the start on.
    pub(crate) fn received(&mut self, bytes: u64, now: u64) {
        if now >= self.start && (now < self.from || self.in_window(now)) {
            self.current.bytes_received += bytes;
        }
    }

    /// Records how long a connection took to be had.
    pub(crate) fn connected(&mut self, asked: u64, now: u64) {
        if self.is_recorded(asked, now) {
            self.current.connect.record(now.saturating_sub(asked), 1);
        }
    }

    /// Counts a handshake of TLS, on a connection that was asked for at `asked`.
    pub(crate) fn shaken(&mut self, asked: u64, now: u64, resumed: bool) {
        self.handshakes.times.record(now.saturating_sub(asked), 1);
        let count = if resumed { &mut self.handshakes.resumed } else { &mut self.handshakes.full };
        *count += 1;
    }

    /// Records how long a connection lived.
    pub(crate) fn disconnected(&mut self, asked: u64, now: u64) {
        if self.is_recorded(asked, now) {
            self.current.connection.record(now.saturating_sub(asked), 1);
        }
    }

    /// Whether what happened belongs into the present interval: everything does in the warm-up, and then what counts.
    fn is_recorded(&self, intended: u64, now: u64) -> bool {
        now < self.from || self.counts(intended, now)
    }

    fn counts_as_failed(&self, flight: Flight, now: u64) -> bool {
        now < self.from || self.in_window(flight.intended)
    }

    /// In a closed loop that ends by time, what is answered in the window counts; else what was to start in it.
    fn counts(&self, intended: u64, now: u64) -> bool {
        let by = match (&self.plan.mode, self.plan.extent) {
            (Mode::Closed, Extent::For(_)) => now,
            _ => intended,
        };
        self.in_window(by)
    }

    fn in_window(&self, at: u64) -> bool {
        (self.from..self.until).contains(&at)
    }
}

/// The kinds of times that runs of this mode have.
pub(crate) fn kinds(mode: &Mode) -> Kinds {
    let (has_rate, by_connection) = (mode.has_times(), matches!(mode, Mode::Connections { .. }));
    [!mode.is_one_way(), has_rate, has_rate, by_connection, by_connection, by_connection, by_connection]
}

fn send(cx: &mut Cx<'_>, lane: usize, word: Word) {
    // reason: a channel holds far more than the few words of a run.
    let sent = cx.send(lane, word);
    assert!(sent.is_ok(), "lane {lane} takes no words");
}

/// A duration in the clock's unit.
pub(crate) fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
