//! The engine over connections: a client of a lane that opens them, paces requests, and gives every answer to the workload.

use crate::aim::{TAKEN_MAX, is_taken};
use crate::course::{Course, Cx, Event, Phase, Word, nanoseconds};
use crate::flights::{Flight, Flights};
use crate::kinds::Kind;
use crate::pacer::Pacer;
use crate::plan::Mode;
use crate::workload::{Answers, Workload};
use corelane::{ConnectionId, Ending, Input, Next, Origin, Output, Peer, Says, ServiceError, StreamService};
use std::collections::VecDeque;

/// Connections of one lane that are being opened at once.
const OPENING_MAX: u32 = 128;

/// How long a place whose connection was lost, or could not be had, waits for the next one.
const PAUSE: u64 = 100_000_000;

/// Places that one look for overdue answers goes through.
const SCAN_PLACES: usize = 1_024;

/// Arrivals that one turn sends at the most.
const ARRIVALS_PER_TURN: usize = 1_024;

/// Opened connections between two words about them.
const TELL_EVERY: u32 = 256;

/// The client on one lane.
pub struct Engine<W: Workload> {
    course: Course,
    workload: W,
    places: Vec<Place<W::Connection>>,
    pacer: Pacer,
    /// Number of this lane's first place among all.
    first: u64,
    next_to_open: u32,
    opening: u32,
    open: u32,
    /// A connection was open at some time.
    had_one: bool,
    /// The most that were open at once, and since when.
    most_open: u32,
    opened_at: u64,
    /// The first requests of a closed loop are sent.
    begun: bool,
    /// Places to be opened again, and when.
    again: VecDeque<(u64, u32)>,
    /// Places with requests for which the lane had no memory, when these were to start, and how many.
    owing: Vec<(u32, u64, usize)>,
    scan_at: u64,
    /// When the alarm comes.
    alarm_at: u64,
    scan_from: usize,
    early: Option<String>,
}

/// A place for a connection, which outlives the connection.
struct Place<C> {
    id: Option<ConnectionId>,
    state: Option<C>,
    flights: Flights,
    /// When the present connection was asked for, and when it was to be.
    asked: u64,
    intended: u64,
    /// Why it is being broken off.
    failing: Option<Kind>,
    is_open: bool,
    /// How often a connection was asked for.
    attempts: u64,
    /// Ends that turned out to be taken, one after the other, where the run is aimed.
    taken: u32,
    /// Requests that it still makes, where connections are made at a rate.
    left: u32,
    /// When the first byte of the answer came that is not complete, where connections are made at a rate.
    first_byte: Option<u64>,
}

impl<C> Default for Place<C> {
    fn default() -> Self {
        Self {
            id: None,
            state: None,
            flights: Flights::default(),
            asked: 0,
            intended: 0,
            failing: None,
            is_open: false,
            attempts: 0,
            taken: 0,
            left: 0,
            first_byte: None,
        }
    }
}

impl<W: Workload> Engine<W> {
    /// The client of the lane that `course` is for.
    pub fn new(course: Course, workload: W) -> Self {
        let plan = course.plan.clone();
        let count = plan.connections_of(course.lane);
        let first = (0..course.lane).map(|lane| u64::from(plan.connections_of(lane))).sum();
        Self {
            workload,
            places: (0..count).map(|_| Place::default()).collect(),
            pacer: Pacer::new(&plan, course.lane),
            first,
            next_to_open: 0,
            opening: 0,
            open: 0,
            had_one: false,
            most_open: 0,
            opened_at: 0,
            begun: false,
            again: VecDeque::new(),
            owing: Vec::new(),
            scan_at: 0,
            alarm_at: u64::MAX,
            scan_from: 0,
            early: None,
            course,
        }
    }

    fn by_connection(&self) -> bool {
        matches!(self.course.plan.mode, Mode::Connections { .. })
    }

    fn depth(&self) -> usize {
        self.course.plan.depth as usize
    }

    /// Everything that is due, and the next alarm.
    fn work(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.course.tick(now);
        match self.course.phase {
            Phase::Opening => self.open_places(cx),
            Phase::Running => self.run(cx),
            Phase::Ending => self.wind_up(cx),
            Phase::Ready | Phase::Over => {}
        }
        self.open_again(cx);
        self.scan(cx);
        self.set_alarm(cx, self.next_alarm(now));
    }

    fn next_alarm(&self, now: u64) -> u64 {
        if self.course.phase == Phase::Over {
            return u64::MAX;
        }
        let is_running = self.course.phase == Phase::Running;
        let arrival = if is_running { self.pacer.next_due() } else { u64::MAX };
        let owing = if is_running && !self.owing.is_empty() { now + PAUSE / 100 } else { u64::MAX };
        self.course.next_tick().min(self.next_opening()).min(arrival).min(owing).min(self.scan_at)
    }

    /// When a place may be opened again: never, while there is no room for one more, or nobody knows yet whether any can be had.
    fn next_opening(&self) -> u64 {
        let may_be = self.course.phase <= Phase::Running && self.had_one && self.opening < OPENING_MAX;
        self.again.front().filter(|_| may_be).map_or(u64::MAX, |&(at, _)| at)
    }

    // Opening.

    fn open_places(&mut self, cx: &mut Cx<'_>) {
        if self.by_connection() {
            (0..self.places.len() as u32).for_each(|place| self.pacer.has_room(place, 0));
            return self.course.ready(cx);
        }
        // Until one is had, nobody knows whether more are worth asking for.
        let most = if self.had_one { self.places.len() as u32 } else { OPENING_MAX.min(self.places.len() as u32) };
        while self.opening < OPENING_MAX && self.next_to_open < most {
            self.open_place(cx, self.next_to_open, cx.now());
            self.next_to_open += 1;
        }
        let patience = nanoseconds(self.course.plan.timeout).saturating_add(2 * PAUSE);
        if self.had_one && cx.now().saturating_sub(self.opened_at) > patience {
            self.course.ready(cx);
        }
    }

    fn open_place(&mut self, cx: &mut Cx<'_>, index: u32, intended: u64) {
        let plan = &self.course.plan;
        let place = &mut self.places[index as usize];
        let source = plan.source_of(self.first + u64::from(index), place.attempts);
        place.attempts += 1;
        let asked = cx.connect_from(source, plan.target, index);
        (place.asked, place.intended, place.failing, place.first_byte) = (cx.now(), intended, None, None);
        match asked {
            Ok(id) => {
                place.id = Some(id);
                self.opening += 1;
                self.course.peaks.at_once = self.course.peaks.at_once.max(u64::from(self.opening + self.open));
            }
            Err(error) => {
                let kind = if matches!(error, ServiceError::Full { .. }) { Kind::TableFull } else { Kind::Other };
                self.connection_failed(cx, index, kind);
            }
        }
    }

    fn open_again(&mut self, cx: &mut Cx<'_>) {
        while self.next_opening() <= cx.now() {
            let Some((at, index)) = self.again.pop_front() else { return };
            self.open_place(cx, index, at);
        }
    }

    /// A connection that was asked for could not be had.
    fn connection_failed(&mut self, cx: &mut Cx<'_>, index: u32, kind: Kind) {
        let intended = self.places[index as usize].intended;
        self.course.note(kind, 1, intended, cx.now());
        // Of those that were asked for together, another may still be had.
        let is_last = self.opening == 0 || self.by_connection();
        if !self.had_one && is_last && self.course.phase < Phase::Ending {
            let fault = cx.fault().map_or_else(|| "no connection could be opened".to_owned(), |fault| fault.to_string());
            self.course.tell(Event::Unreachable { lane: Some(self.course.lane), kind, fault });
            self.had_one = true; // said once
        }
        self.place_is_void(cx, index);
    }

    /// A place without a connection gets another one, sooner or later.
    fn place_is_void(&mut self, cx: &mut Cx<'_>, index: u32) {
        match self.by_connection() {
            true => self.has_room(cx, index),
            false => self.again.push_back((cx.now() + PAUSE, index)),
        }
        self.wake(cx);
    }

    fn connection_open(&mut self, cx: &mut Cx<'_>, index: u32) {
        let now = cx.now();
        let number = self.first + u64::from(index);
        let place = &mut self.places[index as usize];
        (place.is_open, place.state, place.flights) = (true, Some(self.workload.connection(number)), Flights::default());
        place.taken = 0;
        self.course.connected(place.intended, now);
        self.had_one = true;
        self.opening -= 1;
        self.open += 1;
        if self.open > self.most_open {
            // A target that closes what it has accepted opens places for ever, but never more of them.
            (self.most_open, self.opened_at) = (self.open, now);
        }
        if self.course.phase != Phase::Opening {
            return self.wake_at(cx, self.next_opening());
        }
        let all = self.open as usize == self.places.len();
        if all || self.open.is_multiple_of(TELL_EVERY) {
            self.course.tell(Event::Opened { lane: self.course.lane, connections: self.open });
        }
        if all {
            self.course.ready(cx);
        }
        // More places are to be opened, or the start has its time now.
        self.wake(cx);
    }

    /// Whether a connection failed only because its end is taken, and another end leads to the same lane.
    fn may_move(&mut self, cx: &Cx<'_>, index: u32) -> bool {
        let place = &mut self.places[index as usize];
        let may = self.course.plan.aimed.is_some() && cx.fault().is_some_and(is_taken) && place.taken < TAKEN_MAX;
        place.taken += u32::from(may);
        may
    }

    // Running.

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.begin(cx);
        for (index, intended, count) in std::mem::take(&mut self.owing) {
            self.request_on(cx, index, intended, count);
            self.has_room(cx, index);
        }
        self.pace(cx);
        if self.pacer.is_done() && self.course.ends_by_count() {
            return self.course.give_up();
        }
        self.despair(cx);
    }

    /// Begins on all places that are open when the run does.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::replace(&mut self.begun, true) {
            self.pacer.start(self.course.start);
            (0..self.places.len() as u32).for_each(|index| self.begin_on(cx, index));
        }
    }

    /// The first requests of an open place.
    fn begin_on(&mut self, cx: &mut Cx<'_>, index: u32) {
        match self.course.plan.mode {
            Mode::Closed => self.request_on(cx, index, cx.now(), self.depth() - self.load_of(index)),
            // It had room from the start on, however late the lane is.
            Mode::Open { .. } if self.places[index as usize].is_open => self.pacer.has_room(index, self.course.start),
            _ => {}
        }
    }

    /// Sends what is due, each on the next connection that has room.
    fn pace(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        for burst in 1..=ARRIVALS_PER_TURN {
            if self.course.all_started() {
                return;
            }
            let Some((intended, could, index)) = self.take_due(cx) else { return };
            if self.course.take(intended, 1) == 0 {
                return;
            }
            self.course.offered(intended, could, now);
            match self.course.plan.mode {
                Mode::Connections { requests, .. } => {
                    self.places[index as usize].left = requests;
                    self.course.asked(intended, now);
                    self.course.peaks.burst = self.course.peaks.burst.max(burst as u64);
                    self.open_place(cx, index, intended);
                }
                _ => {
                    self.send_on(cx, index, intended, 1);
                    self.has_room(cx, index);
                }
            }
        }
    }

    /// The next arrival that is due, on a place that is still open since it had room (or has none yet, where each arrival is a connection).
    fn take_due(&mut self, cx: &mut Cx<'_>) -> Option<(u64, u64, u32)> {
        let (by_connection, places) = (self.by_connection(), &self.places);
        self.pacer.take_due(cx.now(), |index| {
            let place = &places[index as usize];
            by_connection || place.is_open && place.id.is_some_and(|id| cx.connection(id).is_some())
        })
    }

    /// Requests of a place that are in flight, or wait for memory.
    fn load_of(&self, index: u32) -> usize {
        let owed: usize = self.owing.iter().filter(|owed| owed.0 == index).map(|owed| owed.2).sum();
        self.places[index as usize].flights.len() + owed
    }

    /// Lets arrivals have the place if one more request may be in flight there.
    fn has_room(&mut self, cx: &mut Cx<'_>, index: u32) {
        let place = &self.places[index as usize];
        if self.load_of(index) < self.depth() && (place.is_open || self.by_connection()) {
            self.pacer.has_room(index, cx.now());
        }
        self.wake_at(cx, self.pacer.next_due());
    }

    /// Sends `count` requests, or as many as there are still to be made, on a connection that is not the one of this call.
    fn request_on(&mut self, cx: &mut Cx<'_>, index: u32, intended: u64, count: usize) {
        let granted = self.course.take(intended, count);
        self.send_on(cx, index, intended, granted);
    }

    /// Sends requests that were granted; they are given back if the connection is gone.
    fn send_on(&mut self, cx: &mut Cx<'_>, index: u32, intended: u64, granted: usize) {
        let (place, sent) = (&self.places[index as usize], cx.now());
        match place.id.filter(|_| place.is_open).and_then(|id| cx.connection(id)) {
            Some(output) => self.send(index, Flight { intended, sent }, granted, output),
            None => self.course.give_back(intended, granted),
        }
    }

    fn send(&mut self, index: u32, flight: Flight, count: usize, output: &mut Output) {
        let place = &mut self.places[index as usize];
        let Some(state) = place.state.as_mut().filter(|_| count > 0) else { return };
        let before = output.len();
        let written = self.workload.request(state, place.flights.next_number(), count, output);
        if written < count {
            self.course.give_back(flight.intended, count - written);
            self.owing.push((index, flight.intended, count - written));
        }
        (0..written).for_each(|_| place.flights.push(flight));
        self.course.sent(flight, written as u64, (output.len() - before) as u64);
    }

    /// What the workload holds back goes on.
    fn go_on(&mut self, cx: &Cx<'_>, index: u32, output: &mut Output) {
        let place = &mut self.places[index as usize];
        let Some(state) = place.state.as_mut() else { return };
        let before = output.len();
        self.workload.go_on(state, output);
        let bytes = (output.len() - before) as u64;
        if bytes > 0 {
            self.course.sent(Flight { intended: cx.now(), sent: cx.now() }, 0, bytes);
        }
    }

    /// With a number of requests to make and nobody who answers, the run would never end by itself.
    fn despair(&mut self, cx: &mut Cx<'_>) {
        let patience = nanoseconds(self.course.plan.timeout).saturating_mul(2).saturating_add(10 * PAUSE);
        let waits = match self.course.plan.mode {
            Mode::Open { .. } => self.pacer.is_late(cx.now()),
            Mode::Connections { .. } => false,
            _ => true,
        };
        if !waits && self.course.in_flight == 0 {
            self.course.heard = cx.now();
        }
        if self.course.ends_by_count() && cx.now().saturating_sub(self.course.heard) > patience {
            self.early = Some(format!("nothing was answered for {:.1} s", patience as f64 / 1e9));
            self.course.give_up();
        }
    }

    // Ending.

    fn wind_up(&mut self, cx: &mut Cx<'_>) {
        self.course.count_not_sent(&mut self.pacer, cx.now());
        let is_busy = self.by_connection() && self.opening + self.open > 0;
        if self.course.is_cut() || self.course.in_flight == 0 && !is_busy {
            self.course.over(cx.now(), self.open, self.early.take());
        }
    }

    /// Breaks off connections whose oldest request waits for too long, a part of all at a time.
    fn scan(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if now < self.scan_at {
            return;
        }
        let timeout = nanoseconds(self.course.plan.timeout);
        let end = (self.scan_from + SCAN_PLACES).min(self.places.len());
        for place in &mut self.places[self.scan_from..end] {
            let overdue = place.flights.oldest().is_some_and(|flight| now.saturating_sub(flight.sent) >= timeout);
            if let Some(id) = place.id.filter(|_| overdue && place.failing.is_none()) {
                place.failing = Some(Kind::ClientTimeout);
                cx.abort(id);
            }
        }
        self.scan_from = if end == self.places.len() { 0 } else { end };
        let parts = self.places.len().div_ceil(SCAN_PLACES) as u64;
        self.scan_at = now + (timeout / 8).clamp(PAUSE / 100, 10 * PAUSE) / parts;
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.wake_at(cx, cx.now());
    }

    /// Has [`Engine::work`] called no later than at `at`.
    fn wake_at(&mut self, cx: &mut Cx<'_>, at: u64) {
        if at < self.alarm_at {
            self.set_alarm(cx, at);
        }
    }

    fn set_alarm(&mut self, cx: &mut Cx<'_>, at: u64) {
        self.alarm_at = at;
        self.course.call_at(at);
        cx.set_alarm(at);
    }
}

impl<W: Workload> StreamService for Engine<W> {
    type Talk = Says<Word>;
    /// The number of the connection's place on this lane.
    type Session = u32;

    fn started(&mut self, cx: &mut Cx<'_>) {
        self.opened_at = cx.now();
        self.work(cx);
    }

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> u32 {
        unreachable!("a client accepts no connections")
    }

    fn connected(&mut self, cx: &mut Cx<'_>, session: &mut u32, output: &mut Output) -> Next {
        let (index, now) = (*session, cx.now());
        self.course.tick(now);
        if self.course.phase == Phase::Running {
            // Those that were open before had room from the start on, and this one has it only now.
            self.begin(cx);
        }
        self.connection_open(cx, index);
        if self.course.phase == Phase::Running {
            match self.course.plan.mode {
                Mode::Closed => {
                    let granted = self.course.take(now, self.depth());
                    self.send(index, Flight { intended: now, sent: now }, granted, output);
                }
                Mode::Open { .. } => self.has_room(cx, index),
                Mode::Connections { .. } | Mode::Flood => {}
            }
        }
        if self.by_connection() {
            return self.next_of_connection(cx, index, output);
        }
        Next::Continue
    }

    fn receive(&mut self, cx: &mut Cx<'_>, session: &mut u32, input: &mut Input, output: &mut Output) -> Next {
        let (index, now) = (*session, cx.now());
        self.course.tick(now);
        let by_connection = self.by_connection();
        let place = &mut self.places[index as usize];
        let Some(state) = place.state.as_mut() else { return Next::Continue };
        let (before, oldest) = (input.len(), place.flights.oldest());
        if by_connection && before > 0 {
            place.first_byte.get_or_insert(now);
        }
        let mut answers = Answers::new(&mut place.flights, &mut self.course, now);
        let result = self.workload.receive(state, input, &mut answers);
        let taken = answers.end();
        if taken > 0
            && let (Some(flight), Some(first_byte)) = (oldest, place.first_byte.take())
        {
            self.course.divided(flight, first_byte, now);
        }
        self.course.received((before - input.len()) as u64, now);
        if let Err(kind) = result {
            place.failing = Some(kind);
            return Next::Abort;
        }
        self.go_on(cx, index, output);
        if taken > 0 { self.answered(cx, index, taken, output) } else { Next::Continue }
    }

    fn drained(&mut self, cx: &mut Cx<'_>, session: &mut u32, output: &mut Output) -> Next {
        self.course.tick(cx.now());
        self.go_on(cx, *session, output);
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_>, session: u32, ending: Ending) {
        let now = cx.now();
        self.course.tick(now);
        let by_connection = self.by_connection();
        let place = &mut self.places[session as usize];
        let was_open = std::mem::replace(&mut place.is_open, false);
        place.id = None;
        let kind = place.failing.take().or_else(|| kind_of(ending, cx));
        match was_open {
            true => self.open -= 1,
            false => {
                self.opening -= 1;
                if self.may_move(cx, session) {
                    return self.open_place(cx, session, self.places[session as usize].intended);
                }
                return self.connection_failed(cx, session, kind.unwrap_or(Kind::Other));
            }
        }
        if by_connection && place.flights.had_one() {
            self.course.disconnected(place.intended, now);
        }
        let mut flights = std::mem::take(&mut place.flights);
        if let Some(kind) = kind {
            if flights.is_empty() && self.course.phase <= Phase::Running {
                self.course.note(kind, 1, now, now);
            }
            while let Some(flight) = flights.pop() {
                self.course.failed(kind, flight, now);
            }
        }
        self.place_is_void(cx, session);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_>, _from: Origin, word: Word) {
        self.course.hear(cx, word);
        self.wake(cx);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>) {
        self.work(cx);
    }
}

impl<W: Workload> Engine<W> {
    /// Some requests of a connection are answered: the next ones go, or there is room for them.
    fn answered(&mut self, cx: &mut Cx<'_>, index: u32, count: usize, output: &mut Output) -> Next {
        let now = cx.now();
        match self.course.plan.mode {
            Mode::Closed => {
                let granted = self.course.take(now, count);
                self.send(index, Flight { intended: now, sent: now }, granted, output);
            }
            Mode::Open { .. } => self.has_room(cx, index),
            Mode::Connections { .. } => return self.next_of_connection(cx, index, output),
            Mode::Flood => {}
        }
        if self.course.phase == Phase::Ending && self.course.in_flight == 0 || self.course.all_started() {
            self.wake(cx);
        }
        Next::Continue
    }

    /// Where connections are made at a rate: the next request of this one, or its end.
    fn next_of_connection(&mut self, cx: &mut Cx<'_>, index: u32, output: &mut Output) -> Next {
        let place = &mut self.places[index as usize];
        if place.left == 0 {
            return Next::Close;
        }
        place.left -= 1;
        let now = cx.now();
        // The first one was to start when its connection was.
        let intended = if place.flights.next_number() == 0 { place.intended } else { now };
        self.send(index, Flight { intended, sent: now }, 1, output);
        Next::Continue
    }
}

/// What an ending means to a client; nothing if it is its own.
fn kind_of(ending: Ending, cx: &Cx<'_>) -> Option<Kind> {
    match ending {
        Ending::Completed | Ending::Closing => None,
        Ending::EndOfStream => Some(Kind::Closed),
        Ending::Error => Some(cx.fault().map_or(Kind::Other, Kind::of)),
        Ending::Aborted => Some(Kind::Other),
    }
}
