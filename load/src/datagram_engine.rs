//! The engine over datagrams: a client of a lane that opens sockets, paces requests, and knows what is lost, doubled and late.

use crate::aim::{TAKEN_MAX, is_taken};
use crate::course::{Course, Cx, Event, Phase, Word, nanoseconds};
use crate::flights::{Flight, Flights};
use crate::kinds::Kind;
use crate::pace::{ARRIVALS_PER_TURN, Owed, PAUSE, Pace};
use crate::plan::{Mode, Plan};
use crate::workload::{Answers, DatagramWorkload};
use corelane::service::{Arrival, DATAGRAM_BYTES_MAX, Fault, Origin, Reason, Says, Shared, SocketId, Unix};
use corelane::{Address, DatagramService, Datagrams, Replies};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A flood that is refused within this time, and that nothing has come back of, has no target; later, its target has gone.
const REFUSAL_WITHIN: u64 = 1_000_000_000;

/// The clients of one lane.
pub struct DatagramEngine<W: DatagramWorkload> {
    course: Course,
    workload: W,
    clients: Vec<DatagramClient<W::Socket>>,
    /// Which client a socket belongs to.
    names: BTreeMap<SocketId, usize>,
    pace: Pace,
    open: usize,
    /// Something was answered at some time.
    was_answered: bool,
    flood: FloodCounts,
}

/// What one lane's part of a flood has come to.
#[derive(Default)]
struct FloodCounts {
    sent: u64,
    returned: u64,
    /// When the last burst had left.
    left_at: u64,
}

struct DatagramClient<S> {
    socket: Option<SocketId>,
    state: Option<S>,
    flights: Flights,
    /// A burst of a flood is on its way out.
    is_leaving: bool,
    /// How often a socket was asked for.
    attempts: u64,
}

impl<W: DatagramWorkload> DatagramEngine<W> {
    /// The clients of the lane that `course` is for.
    pub fn new(course: Course, workload: W) -> Self {
        let plan = course.plan.clone();
        let client =
            |_| DatagramClient { socket: None, state: None, flights: Flights::default(), is_leaving: false, attempts: 0 };
        Self {
            workload,
            clients: (0..plan.connections_of(course.lane)).map(client).collect(),
            names: BTreeMap::new(),
            pace: Pace::new(&plan, course.lane),
            open: 0,
            was_answered: false,
            flood: FloodCounts::default(),
            course,
        }
    }

    fn depth(&self) -> usize {
        self.course.plan.depth as usize
    }

    /// Datagrams of a flood that are handed to the system at once.
    fn at_once(&self) -> usize {
        self.depth().max(self.workload.train_datagrams())
    }

    /// Everything that is due, and the next alarm.
    fn work(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now().nanoseconds();
        self.course.tick(now);
        if self.course.phase == Phase::Running {
            self.run(cx);
        }
        self.scan(cx);
        if self.course.phase == Phase::Ending {
            self.wind_up(cx);
        }
        let at = self.pace.next_alarm(&self.course, now);
        self.pace.set_alarm(cx, &mut self.course, at);
    }

    fn open_sockets(&mut self, cx: &mut Cx<'_>) {
        (0..self.clients.len()).for_each(|index| self.open_socket(cx, index));
    }

    fn open_socket(&mut self, cx: &mut Cx<'_>, index: usize) {
        let (plan, client) = (&self.course.plan, &mut self.clients[index]);
        let any: IpAddr = if plan.target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let source = plan.source_of(self.pace.first + index as u64, client.attempts).unwrap_or(SocketAddr::new(any, 0));
        // Without a name of its own, which the system chooses, nothing could be sent back to it.
        let local: Address = if plan.target.unix().is_some() { Unix::UNNAMED.into() } else { source.into() };
        client.attempts += 1;
        match cx.open_datagrams(local, Some(plan.target.clone())) {
            Ok(socket) => {
                client.socket = Some(socket);
                self.names.insert(socket, index);
            }
            Err(error) => self.unreachable(None, Kind::TableFull, error.to_string()),
        }
    }

    fn unreachable(&self, lane: Option<usize>, kind: Kind, fault: String) {
        self.course.tell(Event::Unreachable { lane, kind, fault });
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if self.pace.begin(&self.course) {
            (0..self.clients.len()).for_each(|index| match self.course.plan.mode {
                Mode::Closed => self.request_on(cx, index, cx.now().nanoseconds(), self.depth()),
                Mode::Flood => self.request_on(cx, index, cx.now().nanoseconds(), self.at_once()),
                _ => self.pace.pacer.offer(index as u32, self.course.start),
            });
        }
        for Owed { client, intended, count } in self.pace.take_owed() {
            self.request_on(cx, client as usize, intended, count);
            self.offer_room(cx, client as usize);
        }
        self.pace(cx);
        self.pace.end_with_arrivals(&mut self.course);
    }

    fn pace(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now().nanoseconds();
        for _ in 0..ARRIVALS_PER_TURN {
            let Some((intended, index)) = self.pace.next_arrival(&mut self.course, now, |_| true) else { return };
            self.send(cx, index as usize, Flight { intended, sent: now }, 1, None);
            self.offer_room(cx, index as usize);
        }
    }

    fn offer_room(&mut self, cx: &mut Cx<'_>, index: usize) {
        self.pace.offer_room(cx, &mut self.course, index as u32, self.clients[index].flights.len(), true);
    }

    fn request_on(&mut self, cx: &mut Cx<'_>, index: usize, intended: u64, count: usize) {
        let granted = self.course.take(intended, count);
        self.send(cx, index, Flight { intended, sent: cx.now().nanoseconds() }, granted, None);
    }

    /// Requests that were granted and cannot go now.
    fn owe(&mut self, index: usize, intended: u64, count: usize) {
        self.pace.owe(&mut self.course, Owed { client: index as u32, intended, count });
    }

    /// Sends `count` requests of a client, behind those that it owes: into `replies` if this call is for its socket.
    fn send(&mut self, cx: &mut Cx<'_>, index: usize, flight: Flight, count: usize, replies: Option<&mut Replies>) {
        if count > 0 && self.pace.owed(index as u32) > 0 {
            return self.owe(index, flight.intended, count);
        }
        let size = self.workload.request_bytes();
        let longest = (DATAGRAM_BYTES_MAX / size).clamp(1, self.workload.train_datagrams());
        let (mut left, mut replies) = (count, replies);
        while left > 0 {
            let train = left.min(longest);
            let Some(requests) = self.write(cx, index, train) else { return self.owe(index, flight.intended, left) };
            let client = &self.clients[index];
            // reason: requests begin when every socket is open.
            let socket = client.socket.expect("who sends has a socket");
            let output = match replies.as_deref_mut() {
                Some(replies) => Some(replies),
                None => cx.datagrams(socket),
            };
            // Normal: the socket has closed, as it does when its lane is stopped.
            let Some(output) = output else { return self.course.give_back(flight.intended, left) };
            let taken = hand_over(&self.course.plan, output, &requests, size);
            if taken > 0 {
                self.handed_over(index, flight, taken);
            }
            left -= taken;
            if taken < train {
                return self.owe(index, flight.intended, left);
            }
        }
    }

    fn handed_over(&mut self, index: usize, flight: Flight, count: usize) {
        let bytes = (count * self.workload.request_bytes()) as u64;
        if self.is_flood() {
            self.flood.sent += count as u64;
            self.clients[index].is_leaving = true;
            return self.course.flooded(count as u64, bytes, flight.sent);
        }
        let client = &mut self.clients[index];
        (0..count).for_each(|_| client.flights.push(flight));
        self.course.sent(flight, count as u64, bytes);
    }

    fn is_flood(&self) -> bool {
        self.course.plan.mode == Mode::Flood
    }

    /// The next `count` requests of a client, one behind the other. None if the lane's memory is used up.
    fn write(&mut self, cx: &mut Cx<'_>, index: usize, count: usize) -> Option<Shared> {
        let size = self.workload.request_bytes();
        let mut lease = cx.lease(count * size).ok()?;
        let client = &mut self.clients[index];
        // reason: requests begin when every socket is open, and the state is made as one opens.
        let state = client.state.as_mut().expect("an open socket has a state");
        let first = client.flights.next_number();
        for (number, request) in (first..).zip(lease.spare()[..count * size].chunks_exact_mut(size)) {
            self.workload.request(state, number, request);
        }
        lease.advance(count * size);
        Some(lease.share())
    }

    /// Gives up requests that wait for too long; in a closed loop the next ones follow.
    fn scan(&mut self, cx: &mut Cx<'_>) {
        let (now, timeout) = (cx.now().nanoseconds(), nanoseconds(self.course.plan.timeout));
        let interval = (timeout / 16).clamp(PAUSE / 100, PAUSE);
        if !self.pace.ask_scan(&self.course, now, interval) {
            return;
        }
        self.pace.scan_at = now + interval;
        for index in 0..self.clients.len() {
            let mut lost = 0;
            while let Some(flight) =
                self.clients[index].flights.oldest().filter(|flight| now.saturating_sub(flight.sent) >= timeout)
            {
                self.clients[index].flights.pop();
                self.course.failed(Kind::Lost, flight, now);
                lost += 1;
            }
            self.go_on(cx, index, lost, None);
        }
        let is_late = self.pace.pacer.is_late(now);
        self.pace.despair(&mut self.course, now, is_late);
    }

    /// So many requests of a client are done with.
    fn go_on(&mut self, cx: &mut Cx<'_>, index: usize, done: usize, replies: Option<&mut Replies>) {
        if done == 0 {
            return;
        }
        match self.course.plan.mode {
            Mode::Closed => {
                let granted = self.course.take(cx.now().nanoseconds(), done);
                self.send(cx, index, Flight { intended: cx.now().nanoseconds(), sent: cx.now().nanoseconds() }, granted, replies);
            }
            Mode::Flood if self.course.phase == Phase::Running => return,
            _ => self.offer_room(cx, index),
        }
        // What is done with has left memory for what is owed.
        if self.course.in_flight == 0 || self.course.all_started() || self.pace.owes() {
            self.pace.wake(cx, &mut self.course);
        }
    }

    fn wind_up(&mut self, cx: &mut Cx<'_>) {
        self.course.count_not_sent(&mut self.pace.pacer, cx.now().nanoseconds());
        let is_over = match self.is_flood() {
            true => self.flood_is_over(cx.now().nanoseconds()),
            false => self.course.is_cut() || self.course.in_flight == 0,
        };
        if is_over {
            self.pace.end(&mut self.course, cx.now().nanoseconds(), self.open as u32);
        }
    }

    /// All has left, and has come back or was waited for.
    fn flood_is_over(&self, now: u64) -> bool {
        let FloodCounts { sent, returned, left_at } = self.flood;
        let patience = nanoseconds(self.course.plan.timeout);
        let has_left = !self.clients.iter().any(|client| client.is_leaving);
        has_left && (returned >= sent || now.saturating_sub(left_at) >= patience)
    }

    /// The answers among a batch to requests in flight, and what else is in it.
    fn take_answers(&mut self, index: usize, batch: &Datagrams, now: u64) -> (usize, u64) {
        let client = &mut self.clients[index];
        // reason: a socket receives after it is open, when its state is made.
        let state = client.state.as_mut().expect("an open socket has a state");
        let mut answers = Answers::new(&mut client.flights, &mut self.course, now);
        let mut wrong = 0;
        for datagram in datagrams(batch) {
            let taken = match self.workload.answer(state, datagram) {
                Some(number) => answers.numbered(number),
                None => match self.workload.refusal(state, datagram) {
                    Some((number, kind)) => answers.refused(number, kind),
                    None => Err(Kind::Mismatch),
                },
            };
            wrong += u64::from(taken.is_err());
        }
        (answers.end().count, wrong)
    }

    /// What came back of a flood, and what else is in the batch.
    fn take_returned(&mut self, index: usize, batch: &Datagrams, now: u64) -> (usize, u64) {
        // reason: a socket receives after it is open, when its state is made.
        let state = self.clients[index].state.as_mut().expect("an open socket has a state");
        let (mut returned, mut wrong) = (0, 0);
        for datagram in datagrams(batch) {
            let is_right = self.workload.answer(state, datagram).is_some();
            *if is_right { &mut returned } else { &mut wrong } += 1;
        }
        self.flood.returned += returned;
        self.course.returned(returned, now);
        (returned as usize, wrong)
    }
}

/// Hands requests of `size` bytes each over; returns how many of them, from the first, the socket has room for.
fn hand_over(plan: &Plan, output: &mut Replies, requests: &Shared, size: usize) -> usize {
    let count = requests.len() / size;
    if plan.trains {
        return if output.send_train(&plan.target, None, requests.clone(), size) { count } else { 0 };
    }
    let mut singles = (0..count).map(|at| requests.slice(at * size..(at + 1) * size));
    singles.position(|request| !output.send_single(&plan.target, None, request)).unwrap_or(count)
}

/// The datagrams of a batch, those of trains one by one.
fn datagrams(batch: &Datagrams) -> impl Iterator<Item = &[u8]> {
    let single = move |arrival: &Arrival| batch.payload(arrival).chunks(arrival.datagram_bytes.max(1) as usize);
    batch.arrivals().iter().flat_map(single)
}

impl<W: DatagramWorkload> DatagramService for DatagramEngine<W> {
    type Talk = Says<Word>;
    fn started(&mut self, cx: &mut Cx<'_>) {
        self.open_sockets(cx);
        self.work(cx);
    }

    fn opened(&mut self, cx: &mut Cx<'_>, socket: SocketId, outcome: Result<Address, Fault>) {
        // Normal here and below: a socket that was given up for one at another port.
        let Some(&index) = self.names.get(&socket) else { return };
        if let Err(fault) = outcome {
            let has_others = self.course.plan.aimed.is_some() && self.clients[index].attempts <= u64::from(TAKEN_MAX);
            if has_others && is_taken(fault) {
                self.names.remove(&socket);
                return self.open_socket(cx, index);
            }
            return self.unreachable(None, Kind::of(fault), fault.to_string());
        }
        self.open += 1;
        self.course.opened();
        assert!(self.open <= self.clients.len(), "each client has one socket");
        let number = self.pace.first + index as u64;
        self.clients[index].state = Some(self.workload.socket(number, cx.now().nanoseconds()));
        // A run may have been ended before all are open.
        if self.open == self.clients.len() && self.course.phase == Phase::Opening {
            self.course.tell(Event::Opened { lane: self.course.lane, connections: self.open as u32 });
            self.course.ready(cx);
            self.pace.wake(cx, &mut self.course);
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        let now = cx.now().nanoseconds();
        self.course.tick(now);
        let Some(&index) = self.names.get(&cx.socket()) else { return };
        let (taken, wrong) =
            if self.is_flood() { self.take_returned(index, batch, now) } else { self.take_answers(index, batch, now) };
        // One without a byte has no piece.
        let empty = batch.arrivals().iter().filter(|arrival| arrival.bytes() == 0).count() as u64;
        let bytes = batch.arrivals().iter().map(|arrival| arrival.bytes() as u64).sum();
        self.course.received(bytes, now);
        self.course.note(Kind::Mismatch, wrong + empty, now, now);
        self.was_answered |= taken > 0;
        self.go_on(cx, index, taken, Some(replies));
    }

    fn sent(&mut self, cx: &mut Cx<'_>, socket: SocketId, replies: &mut Replies) {
        let Some(&index) = self.names.get(&socket).filter(|_| self.is_flood()) else { return };
        let now = cx.now().nanoseconds();
        self.course.tick(now);
        self.clients[index].is_leaving = false;
        self.flood.left_at = now;
        let granted = self.course.take(now, self.at_once());
        self.send(cx, index, Flight { intended: now, sent: now }, granted, Some(replies));
        if self.course.phase != Phase::Running || self.course.all_started() {
            self.pace.wake(cx, &mut self.course);
        }
    }

    fn fault(&mut self, cx: &mut Cx<'_>, socket: SocketId, fault: Fault) {
        let now = cx.now().nanoseconds();
        self.course.tick(now);
        let Some(&index) = self.names.get(&socket) else { return };
        let is_new = !self.is_flood() || now.saturating_sub(self.course.start) < REFUSAL_WITHIN;
        if !self.was_answered && fault.reason == Reason::Refused && is_new {
            self.unreachable(Some(self.course.lane), Kind::Refused, fault.to_string());
            self.was_answered = true; // said once
        }
        if self.is_flood() {
            return self.course.note(Kind::of(fault), 1, now, now);
        }
        // Which one it was is not said; the oldest has waited longest.
        if let Some(flight) = self.clients[index].flights.pop() {
            self.course.failed(Kind::of(fault), flight, now);
            self.go_on(cx, index, 1, None);
        }
    }

    fn lane_message(&mut self, cx: &mut Cx<'_>, _from: Origin, word: Word) {
        self.course.hear(cx, word);
        self.pace.wake(cx, &mut self.course);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        self.work(cx);
    }
}
