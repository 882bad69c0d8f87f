//! The engine over connections: a client of a lane that opens them, paces requests, and gives every answer to the workload.

use crate::aim::{TAKEN_MAX, is_taken};
use crate::course::{Course, Cx, Event, Phase, Word, nanoseconds};
use crate::flights::{Flight, Flights};
use crate::kinds::Kind;
use crate::pace::{ARRIVALS_PER_TURN, Owed, PAUSE, Pace};
use crate::plan::Mode;
use crate::workload::{Answers, Taken, Workload};
use corelane::service::{ConnectionId, Ending, Origin, Says, ServiceError};
use corelane::{Input, Next, Output, Peer, StreamService};
use std::collections::VecDeque;

/// Connections of one lane that are being opened at once.
const OPENING_MAX: u32 = 128;

/// Places that one look for overdue answers goes through.
const SCAN_CLIENTS: usize = 1_024;

/// Opened connections between two words about them.
const TELL_EVERY: u32 = 256;

/// The clients of one lane.
pub struct Engine<W: Workload> {
    course: Course,
    workload: W,
    clients: Vec<StreamClient<W::Connection>>,
    pace: Pace,
    next_to_open: u32,
    opening: u32,
    open: u32,
    /// A connection was open at some time.
    had_one: bool,
    /// When the lane began.
    began: u64,
    /// The most that were open at once, and since when.
    most_open: u32,
    opened_at: u64,
    /// Places to be opened again, and when.
    again: VecDeque<(u64, u32)>,
    scan_from: usize,
}

/// A client: it outlives its connections, of which it has one at a time.
struct StreamClient<C> {
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
    /// Requests that it still makes: on the present connection, or, where connections are made at a rate, since that had its time.
    left: u32,
    /// The present connection ends in order: by its peer's word, or because it has made its requests.
    ends: bool,
    /// What was in flight on a connection that ended in order: asked again on the next one.
    unanswered: Vec<Flight>,
    /// The last connection is open, or has ended in order.
    is_well: bool,
    /// When the first byte of the answer came that is not complete, where connections are made at a rate.
    first_byte: Option<u64>,
    /// Since when requests wait for memory.
    waits_since: Option<u64>,
}

impl<C> Default for StreamClient<C> {
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
            ends: false,
            unanswered: Vec::new(),
            is_well: false,
            first_byte: None,
            waits_since: None,
        }
    }
}

impl<C> StreamClient<C> {
    /// Whether requests may be written on its connection.
    fn takes_requests(&self) -> bool {
        self.is_open && !self.ends
    }
}

impl<W: Workload> Engine<W> {
    /// The clients of the lane that `course` is for.
    pub fn new(course: Course, workload: W) -> Self {
        let plan = course.plan.clone();
        let count = plan.connections_of(course.lane);
        Self {
            workload,
            clients: (0..count).map(|_| StreamClient::default()).collect(),
            pace: Pace::new(&plan, course.lane),
            next_to_open: 0,
            opening: 0,
            open: 0,
            had_one: false,
            began: 0,
            most_open: 0,
            opened_at: 0,
            again: VecDeque::new(),
            scan_from: 0,
            course,
        }
    }

    fn by_connection(&self) -> bool {
        self.course.counts_connections()
    }

    fn is_sink(&self) -> bool {
        self.course.plan.mode == Mode::Sink
    }

    fn depth(&self) -> usize {
        self.course.plan.depth as usize
    }

    /// Everything that is due, and the next alarm.
    fn work(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now().nanoseconds();
        self.course.tick(now);
        match self.course.phase {
            Phase::Opening => self.open_clients(cx),
            Phase::Running => self.run(cx),
            Phase::Ending => self.wind_up(cx),
            Phase::Ready | Phase::Over => {}
        }
        self.open_again(cx);
        self.scan(cx);
        let at = self.next_alarm(now);
        self.pace.set_alarm(cx, &mut self.course, at);
    }

    fn next_alarm(&self, now: u64) -> u64 {
        let at = self.pace.next_alarm(&self.course, now);
        let at = if self.course.phase == Phase::Opening { at.min(self.opening_due()) } else { at };
        if self.course.phase == Phase::Over { at } else { at.min(self.next_opening()) }
    }

    /// When a client may be opened again: never, while there is no room for one more, or nobody knows yet whether any can be had.
    fn next_opening(&self) -> u64 {
        let may_be = self.course.phase <= Phase::Running && self.had_one && self.opening < OPENING_MAX;
        self.again.front().filter(|_| may_be).map_or(u64::MAX, |&(at, _)| at)
    }

    // Opening.

    fn open_clients(&mut self, cx: &mut Cx<'_>) {
        if self.by_connection() {
            (0..self.clients.len() as u32).for_each(|client| self.pace.pacer.offer(client, 0));
            return self.course.ready(cx);
        }
        // Until one is had, nobody knows whether more are worth asking for.
        let most = if self.had_one { self.clients.len() as u32 } else { OPENING_MAX.min(self.clients.len() as u32) };
        while self.opening < OPENING_MAX && self.next_to_open < most && self.opening_due() <= cx.now().nanoseconds() {
            self.open_client(cx, self.next_to_open, cx.now().nanoseconds());
            self.next_to_open += 1;
        }
        if self.opening_due() != u64::MAX && self.opening_due() > cx.now().nanoseconds() {
            return; // nothing is late before it has its time
        }
        let patience = nanoseconds(self.course.plan.timeout).saturating_add(2 * PAUSE);
        if self.had_one && cx.now().nanoseconds().saturating_sub(self.opened_at) > patience {
            self.course.ready(cx);
        }
    }

    /// When the next client may be opened for the first time, by the pace that was asked for; never, where all were, or as many are being opened as may be.
    fn opening_due(&self) -> u64 {
        let Some(rate) = self.course.plan.opening_rate else { return 0 };
        if self.next_to_open as usize == self.clients.len() || self.opening >= OPENING_MAX {
            return u64::MAX;
        }
        let own = rate / self.course.plan.lanes as f64;
        self.began + (f64::from(self.next_to_open) / own * 1e9) as u64
    }

    fn open_client(&mut self, cx: &mut Cx<'_>, index: u32, intended: u64) {
        let plan = &self.course.plan;
        let client = &mut self.clients[index as usize];
        let source = plan.source_of(self.pace.first + u64::from(index), client.attempts);
        client.attempts += 1;
        let asked = cx.connect_from(source.map(Into::into), plan.target.clone(), index);
        (client.asked, client.intended, client.failing, client.first_byte) = (cx.now().nanoseconds(), intended, None, None);
        if !matches!(plan.mode, Mode::Connections { .. }) {
            client.left = plan.requests_each.unwrap_or(u32::MAX);
        }
        match asked {
            Ok(id) => {
                client.id = Some(id);
                self.opening += 1;
                self.course.peaks.at_once = self.course.peaks.at_once.max(u64::from(self.opening + self.open));
            }
            Err(error) => {
                let kind = if matches!(error, ServiceError::Full { .. }) { Kind::TableFull } else { Kind::Other };
                self.connection_failed(cx, index, kind, None);
            }
        }
    }

    fn open_again(&mut self, cx: &mut Cx<'_>) {
        while self.next_opening() <= cx.now().nanoseconds() {
            let Some((at, index)) = self.again.pop_front() else { return };
            self.open_client(cx, index, at);
        }
    }

    /// A connection that was asked for could not be had.
    fn connection_failed(&mut self, cx: &mut Cx<'_>, index: u32, kind: Kind, refused: Option<String>) {
        let (client, now) = (&mut self.clients[index as usize], cx.now().nanoseconds());
        client.is_well = false;
        match client.unanswered.is_empty() {
            true => self.course.note(kind, 1, client.intended, now),
            false => client.unanswered.drain(..).for_each(|flight| self.course.failed(kind, flight, now)),
        }
        // Of those that were asked for together, another may still be had.
        let is_last = self.opening == 0 || self.by_connection();
        if !self.had_one && is_last && self.course.phase < Phase::Ending {
            let fault = refused.or_else(|| cx.fault().map(|fault| fault.to_string()));
            let fault = fault.unwrap_or_else(|| "no connection could be opened".to_owned());
            self.course.tell(Event::Unreachable { lane: Some(self.course.lane), kind, fault });
            self.had_one = true; // said once
        }
        self.client_is_void(cx, index);
    }

    /// A connection that ended in order is followed by the next one at once, if there is anything left to do.
    fn renew(&mut self, cx: &mut Cx<'_>, index: u32) {
        let client = &self.clients[index as usize];
        let is_owed = !client.unanswered.is_empty() || self.by_connection() && client.left > 0;
        let goes_on = self.course.phase <= Phase::Running && !self.by_connection();
        match self.course.phase < Phase::Over && (is_owed || goes_on) {
            true => {
                self.course.renewed(cx.now().nanoseconds());
                self.open_client(cx, index, cx.now().nanoseconds());
            }
            false if self.by_connection() => self.offer_room(cx, index),
            false => {}
        }
        self.pace.wake(cx, &mut self.course);
    }

    /// A client without a connection gets another one, sooner or later.
    fn client_is_void(&mut self, cx: &mut Cx<'_>, index: u32) {
        match self.by_connection() {
            true => self.offer_room(cx, index),
            false => self.again.push_back((cx.now().nanoseconds() + PAUSE, index)),
        }
        self.pace.wake(cx, &mut self.course);
    }

    fn connection_open(&mut self, cx: &mut Cx<'_>, index: u32) {
        let now = cx.now().nanoseconds();
        let number = self.pace.first + u64::from(index);
        let client = &mut self.clients[index as usize];
        let before = client.state.take().filter(|_| !client.unanswered.is_empty());
        let state = match before {
            Some(before) => self.workload.connection_after(number, before),
            None => self.workload.connection(number),
        };
        (client.is_open, client.state, client.flights) = (true, Some(state), Flights::default());
        (client.taken, client.ends, client.is_well) = (0, false, true);
        client.waits_since = Some(now).filter(|_| self.course.plan.mode == Mode::Sink);
        assert!(self.opening > 0, "whoever is connected was being opened");
        self.course.connected(client.intended, now);
        self.course.opened();
        self.had_one = true;
        self.opening -= 1;
        self.open += 1;
        assert!((self.open + self.opening) as usize <= self.clients.len(), "each client has one connection");
        if self.open > self.most_open {
            // A target that closes what it has accepted opens clients for ever, but never more of them.
            (self.most_open, self.opened_at) = (self.open, now);
        }
        if self.course.phase != Phase::Opening {
            let at = self.next_opening();
            return self.pace.wake_at(cx, &mut self.course, at);
        }
        let all = self.open as usize == self.clients.len();
        if all || self.open.is_multiple_of(TELL_EVERY) {
            self.course.tell(Event::Opened { lane: self.course.lane, connections: self.open });
        }
        if all {
            self.course.ready(cx);
        }
        // More clients are to be opened, or the start has its time now.
        self.pace.wake(cx, &mut self.course);
    }

    fn note_handshake(&mut self, cx: &mut Cx<'_>, index: u32) {
        let client = &self.clients[index as usize];
        if let Some(id) = client.id.filter(|_| self.course.plan.secure.is_some()) {
            let resumed = cx.peer(id).and_then(|peer| peer.learned).is_some_and(|learned| learned.resumed);
            self.course.shaken(client.asked, cx.now().nanoseconds(), resumed);
        }
    }

    /// What TLS has against a connection's peer, in words.
    fn refusal_of(&self, cx: &mut Cx<'_>, index: u32) -> Option<String> {
        let id = self.clients[index as usize].id.filter(|_| self.course.plan.secure.is_some())?;
        cx.peer(id)?.learned?.refused.clone()
    }

    /// Takes one of the moves that a connection has which failed only because its end is taken, if another end leads to the same lane.
    fn take_move(&mut self, cx: &Cx<'_>, index: u32) -> bool {
        let client = &mut self.clients[index as usize];
        let may = self.course.plan.aimed.is_some() && cx.fault().is_some_and(is_taken) && client.taken < TAKEN_MAX;
        client.taken += u32::from(may);
        may
    }

    // Running.

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.begin(cx);
        self.send_owed(cx);
        self.pace(cx);
        if !self.pace.end_with_arrivals(&mut self.course) {
            self.despair(cx);
        }
    }

    /// Sends what there was no memory for.
    fn send_owed(&mut self, cx: &mut Cx<'_>) {
        for Owed { client, intended, count } in self.pace.take_owed() {
            match self.by_connection() {
                true => self.send_on(cx, client, intended, count),
                false => {
                    self.request_on(cx, client, intended, count);
                    self.offer_room(cx, client);
                }
            }
        }
    }

    /// Begins: in a closed loop all clients that are open make their first requests.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        if self.pace.begin(&self.course) && self.course.plan.mode == Mode::Closed {
            (0..self.clients.len() as u32)
                .for_each(|index| self.request_on(cx, index, cx.now().nanoseconds(), self.room_of(index)));
        }
    }

    /// Sends what is due, each on the next connection that has room.
    fn pace(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now().nanoseconds();
        for burst in 1..=ARRIVALS_PER_TURN {
            let Some((intended, index)) = self.next_arrival(cx) else { return };
            match self.course.plan.mode {
                Mode::Connections { requests, .. } => {
                    self.clients[index as usize].left = requests;
                    self.course.asked(intended, now);
                    self.course.peaks.burst = self.course.peaks.burst.max(burst as u64);
                    self.open_client(cx, index, intended);
                }
                _ => {
                    self.send_on(cx, index, intended, 1);
                    self.offer_room(cx, index);
                }
            }
        }
    }

    /// The next arrival that is due, on a client that is still open since it had room (or has none yet, where each arrival is a connection).
    fn next_arrival(&mut self, cx: &mut Cx<'_>) -> Option<(u64, u32)> {
        let (by_connection, clients) = (self.by_connection(), &self.clients);
        self.pace.next_arrival(&mut self.course, cx.now().nanoseconds(), |index| {
            let client = &clients[index as usize];
            by_connection || client.takes_requests() && client.id.is_some_and(|id| cx.connection(id).is_some())
        })
    }

    /// Requests of a client that are in flight, or wait for memory.
    fn load_of(&self, index: u32) -> usize {
        self.clients[index as usize].flights.len() + self.pace.owed(index)
    }

    /// Requests that a client may make beside those, in a closed loop.
    fn room_of(&self, index: u32) -> usize {
        let room = self.depth().saturating_sub(self.load_of(index));
        room.min((self.clients[index as usize].left as usize).saturating_sub(self.pace.owed(index)))
    }

    /// Lets arrivals have the client if one more request may be in flight there.
    fn offer_room(&mut self, cx: &mut Cx<'_>, index: u32) {
        let client = &self.clients[index as usize];
        let can_use = client.takes_requests() || self.by_connection();
        self.pace.offer_room(cx, &mut self.course, index, client.flights.len(), can_use);
    }

    /// Sends `count` requests, or as many as there are still to be made, on a connection that is not the one of this call.
    fn request_on(&mut self, cx: &mut Cx<'_>, index: u32, intended: u64, count: usize) {
        let granted = self.course.take(intended, count);
        self.send_on(cx, index, intended, granted);
    }

    /// Sends requests that were granted; they are given back if the connection is gone, or is about to go.
    fn send_on(&mut self, cx: &mut Cx<'_>, index: u32, intended: u64, granted: usize) {
        let (client, sent) = (&self.clients[index as usize], cx.now().nanoseconds());
        match client.id.filter(|_| client.takes_requests()).and_then(|id| cx.connection(id)) {
            Some(output) => self.send(index, Flight { intended, sent }, granted, output),
            // The connection's end says what becomes of them.
            None if self.by_connection() => self.pace.owe(&mut self.course, Owed { client: index, intended, count: granted }),
            None => self.course.give_back(intended, granted),
        }
    }

    fn send(&mut self, index: u32, flight: Flight, count: usize, output: &mut Output) {
        let client = &mut self.clients[index as usize];
        if count == 0 {
            return;
        }
        // reason: requests go on connections that are open, and the state is made as one opens.
        let state = client.state.as_mut().expect("an open connection has a state");
        let before = output.len();
        let written = self.workload.request(state, client.flights.next_number(), count, output);
        assert!(written <= count && output.len() >= before, "a workload writes no more requests than it is asked for");
        if written > 0 {
            client.waits_since = None;
        }
        if written < count {
            client.waits_since.get_or_insert(flight.sent);
            self.pace.owe(&mut self.course, Owed { client: index, intended: flight.intended, count: count - written });
        }
        (0..written).for_each(|_| client.flights.push(flight));
        if !matches!(self.course.plan.mode, Mode::Connections { .. }) {
            client.left = client.left.saturating_sub(written as u32);
        }
        self.course.sent(flight, written as u64, (output.len() - before) as u64);
    }

    /// What was in flight on a connection that ended in order goes first on the next one. What the lane has no memory for has failed.
    fn ask_again(&mut self, index: u32, now: u64, output: &mut Output) {
        let client = &mut self.clients[index as usize];
        let flights = std::mem::take(&mut client.unanswered);
        for flight in flights {
            // reason: the state is made as a connection opens.
            let state = client.state.as_mut().expect("an open connection has a state");
            let before = output.len();
            if self.workload.request(state, client.flights.next_number(), 1, output) == 0 {
                self.course.failed(Kind::Closed, flight, now);
                continue;
            }
            client.left = client.left.saturating_sub(u32::from(self.course.plan.requests_each.is_some()));
            let again = Flight { sent: now, ..flight };
            client.flights.push(again);
            self.course.asked_again(again, (output.len() - before) as u64);
        }
    }

    /// What the workload holds back goes on.
    fn go_on(&mut self, cx: &Cx<'_>, index: u32, output: &mut Output) {
        let client = &mut self.clients[index as usize];
        // reason: only what is open receives and drains.
        let state = client.state.as_mut().expect("an open connection has a state");
        let before = output.len();
        self.workload.go_on(state, output);
        let bytes = (output.len() - before) as u64;
        if bytes > 0 {
            self.course.sent(Flight { intended: cx.now().nanoseconds(), sent: cx.now().nanoseconds() }, 0, bytes);
        }
    }

    fn despair(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now().nanoseconds();
        let waits = match self.course.plan.mode {
            Mode::Open { .. } => self.pace.pacer.is_late(now),
            Mode::Connections { .. } => false,
            Mode::Closed | Mode::Flood | Mode::Sink => true,
        };
        self.pace.despair(&mut self.course, now, waits);
    }

    // Ending.

    fn wind_up(&mut self, cx: &mut Cx<'_>) {
        self.course.count_not_sent(&mut self.pace.pacer, cx.now().nanoseconds());
        if self.by_connection() {
            self.send_owed(cx);
        }
        let is_busy = self.by_connection() && self.opening + self.open > 0;
        if self.course.is_cut() || self.course.in_flight == 0 && !is_busy {
            let well = self.clients.iter().filter(|client| client.is_well && (client.is_open || !self.by_connection())).count();
            self.pace.end(&mut self.course, cx.now().nanoseconds(), well as u32);
        }
    }

    /// Breaks off connections whose oldest request waits for too long, a part of all at a time: for its answer, or, where the connection's end is what is waited
    /// for, for memory. Where nothing is asked, those on which nothing came for so long.
    fn scan(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now().nanoseconds();
        let timeout = nanoseconds(self.course.plan.timeout);
        let interval = (timeout / 8).clamp(PAUSE / 100, 10 * PAUSE);
        if !self.pace.ask_scan(&self.course, now, interval) {
            return;
        }
        let end = (self.scan_from + SCAN_CLIENTS).min(self.clients.len());
        let waits_otherwise = self.by_connection() || self.is_sink();
        for client in &mut self.clients[self.scan_from..end] {
            let oldest = client.flights.oldest().map(|flight| flight.sent);
            let since = oldest.or(client.waits_since.filter(|_| waits_otherwise));
            let overdue = since.is_some_and(|since| now.saturating_sub(since) >= timeout);
            if let Some(id) = client.id.filter(|_| overdue && client.failing.is_none()) {
                client.failing = Some(Kind::ClientTimeout);
                cx.abort(id);
            }
        }
        self.scan_from = if end == self.clients.len() { 0 } else { end };
        let parts = self.clients.len().div_ceil(SCAN_CLIENTS) as u64;
        self.pace.scan_at = now + interval / parts;
    }
}

impl<W: Workload> StreamService for Engine<W> {
    type Talk = Says<Word>;
    /// The number of the connection's client on this lane.
    type Session = u32;

    fn started(&mut self, cx: &mut Cx<'_>) {
        (self.began, self.opened_at) = (cx.now().nanoseconds(), cx.now().nanoseconds());
        self.work(cx);
    }

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> u32 {
        unreachable!("a client accepts no connections")
    }

    fn connected(&mut self, cx: &mut Cx<'_>, session: &mut u32, output: &mut Output) -> Next {
        let (index, now) = (*session, cx.now().nanoseconds());
        self.course.tick(now);
        if self.course.phase == Phase::Running {
            // Those that were open before come first.
            self.begin(cx);
        }
        self.note_handshake(cx, index);
        self.connection_open(cx, index);
        self.ask_again(index, now, output);
        match self.course.plan.mode {
            Mode::Closed if self.course.phase == Phase::Running => {
                let granted = self.course.take(now, self.room_of(index));
                self.send(index, Flight { intended: now, sent: now }, granted, output);
            }
            // It has room from here on, whether the run has begun or not.
            Mode::Open { .. } => self.offer_room(cx, index),
            Mode::Closed | Mode::Connections { .. } | Mode::Flood | Mode::Sink => {}
        }
        if self.by_connection() {
            return self.next_of_connection(cx, index, output);
        }
        Next::Continue
    }

    fn receive(&mut self, cx: &mut Cx<'_>, session: &mut u32, input: &mut Input, output: &mut Output) -> Next {
        let (index, now) = (*session, cx.now().nanoseconds());
        self.course.tick(now);
        let (by_connection, is_sink) = (self.by_connection(), self.is_sink());
        let client = &mut self.clients[index as usize];
        // reason: only what is open receives.
        let state = client.state.as_mut().expect("an open connection has a state");
        let (before, oldest) = (input.len(), client.flights.oldest());
        if by_connection && before > 0 {
            client.first_byte.get_or_insert(now);
        }
        if is_sink && before > 0 {
            client.waits_since = Some(now);
        }
        let mut answers = Answers::new(&mut client.flights, &mut self.course, now);
        let result = self.workload.receive(state, input, &mut answers);
        let Taken { count: taken, is_last } = answers.end();
        if taken > 0
            && let (Some(flight), Some(first_byte)) = (oldest, client.first_byte.take())
        {
            self.course.divided(flight, first_byte, now);
        }
        self.course.received((before - input.len()) as u64, now);
        if let Err(kind) = result {
            client.failing = Some(kind);
            return Next::Abort;
        }
        if is_last {
            return self.end_in_order(index);
        }
        self.go_on(cx, index, output);
        if taken > 0 { self.answered(cx, index, taken, output) } else { Next::Continue }
    }

    fn drained(&mut self, cx: &mut Cx<'_>, session: &mut u32, output: &mut Output) -> Next {
        self.course.tick(cx.now().nanoseconds());
        self.go_on(cx, *session, output);
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_>, session: u32, ending: Ending) {
        let now = cx.now().nanoseconds();
        self.course.tick(now);
        let by_connection = self.by_connection();
        let refused = self.refusal_of(cx, session);
        let client = &mut self.clients[session as usize];
        assert!(client.id.is_some(), "what ends was opened, or was to be");
        client.failing = refused.as_ref().map(|_| Kind::Tls).or(client.failing);
        let was_open = std::mem::replace(&mut client.is_open, false);
        client.id = None;
        let is_idle = was_open && ending == Ending::EndOfStream && client.flights.is_empty() && client.failing.is_none();
        let in_order = std::mem::take(&mut client.ends)
            || is_idle && client.state.as_ref().is_some_and(|state| self.workload.may_end(state));
        let kind = client.failing.take().or_else(|| kind_of(ending, cx)).filter(|_| !in_order);
        if !was_open {
            return self.not_opened(cx, session, ending, refused);
        }
        self.pace.pacer.withdraw(session, now);
        assert!(self.open > 0, "a connection that was open was counted");
        self.open -= 1;
        self.course.closed();
        if by_connection && client.flights.had_one() {
            self.course.disconnected(client.intended, now);
        }
        let mut flights = std::mem::take(&mut client.flights);
        client.waits_since = None;
        let owed = if by_connection || !in_order { self.pace.forget(session) } else { None };
        if in_order {
            client.unanswered = std::iter::from_fn(|| flights.pop()).collect();
            // The next connection makes them instead.
            client.left += owed.map_or(0, |(count, _)| count as u32);
            return self.renew(cx, session);
        }
        client.is_well = false;
        if let Some(kind) = kind {
            match owed.filter(|_| by_connection) {
                Some((count, intended)) => self.course.note(kind, count as u64, intended, now),
                None if flights.is_empty() && self.course.phase <= Phase::Running => self.course.note(kind, 1, now, now),
                None => {}
            }
            while let Some(flight) = flights.pop() {
                self.course.failed(kind, flight, now);
            }
        }
        self.client_is_void(cx, session);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_>, _from: Origin, word: Word) {
        self.course.hear(cx, word);
        self.pace.wake(cx, &mut self.course);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        self.work(cx);
    }
}

impl<W: Workload> Engine<W> {
    /// A connection has ended before it was open. What its lane has broken off, and TLS has not refused, did not come to be in time.
    fn not_opened(&mut self, cx: &mut Cx<'_>, index: u32, ending: Ending, refused: Option<String>) {
        assert!(self.opening > 0, "a connection that does not open was being opened");
        self.opening -= 1;
        if self.take_move(cx, index) {
            return self.open_client(cx, index, self.clients[index as usize].intended);
        }
        let kind = match (&refused, ending) {
            (Some(_), _) => Kind::Tls,
            (None, Ending::Aborted) => Kind::ClientTimeout,
            (None, ending) => kind_of(ending, cx).unwrap_or(Kind::Other),
        };
        self.connection_failed(cx, index, kind, refused);
    }

    /// Nothing more comes on this connection, as its peer says, or because it has made its requests. What is in flight needs no more
    /// of it: nobody reads it.
    fn end_in_order(&mut self, index: u32) -> Next {
        let client = &mut self.clients[index as usize];
        client.ends = true;
        if client.flights.is_empty() { Next::Close } else { Next::Abort }
    }

    /// Some requests of a connection are answered: the next ones go, or there is room for them.
    fn answered(&mut self, cx: &mut Cx<'_>, index: u32, count: usize, output: &mut Output) -> Next {
        let now = cx.now().nanoseconds();
        match self.course.plan.mode {
            Mode::Closed => {
                let granted = self.course.take(now, self.room_of(index).min(count));
                self.send(index, Flight { intended: now, sent: now }, granted, output);
                if self.clients[index as usize].left == 0 && self.load_of(index) == 0 {
                    return self.end_in_order(index);
                }
            }
            Mode::Open { .. } => self.offer_room(cx, index),
            Mode::Connections { .. } => return self.next_of_connection(cx, index, output),
            Mode::Flood | Mode::Sink => {}
        }
        if self.course.phase == Phase::Ending && self.course.in_flight == 0 || self.course.all_started() {
            self.pace.wake(cx, &mut self.course);
        }
        Next::Continue
    }

    /// Where connections are made at a rate: the next request of this one, or its end.
    fn next_of_connection(&mut self, cx: &mut Cx<'_>, index: u32, output: &mut Output) -> Next {
        let client = &mut self.clients[index as usize];
        if client.left == 0 {
            return Next::Close;
        }
        client.left -= 1;
        let now = cx.now().nanoseconds();
        // The first one was to start when its connection was.
        let intended = if client.flights.next_number() == 0 { client.intended } else { now };
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
