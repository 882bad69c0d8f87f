//! The account of a run over datagrams, drawn up from the journal alone. When a datagram is given up is known only to within the time in
//! which a lane looks; answers that come in between would be neither right nor wrong, so the peers of these tests avoid that time.

use crate::simulated::account::{LATEST, Room, arrivals, share_of};
use crate::simulated::figures::{Figures, Window};
use crate::simulated::rig::{MS, Outcome};
use crate::simulated::witness::{Desk, Note, Sighting, request_bytes};
use corelane::service::Reason;
use corelane_load::arrivals::Schedule;
use corelane_load::kinds::Kind;
use corelane_load::plan::{Mode, Plan};
use std::collections::{BTreeMap, VecDeque};

/// What a lane waits in vain for beside two timeouts, before it gives up a number of requests.
const PAUSES: u64 = 1_000 * MS;

#[derive(Default)]
struct Socket {
    /// Requests in flight by number: intended start, and when sent.
    flights: BTreeMap<u64, (u64, u64)>,
    next: u64,
    /// In a closed loop, when the next requests are to start: when those before them were done with. Without memory they go later.
    due: VecDeque<u64>,
    /// One more than the highest number that was answered or given up.
    done_to: u64,
}

struct Books<'a> {
    plan: &'a Plan,
    window: Window,
    lane: usize,
    first: u64,
    sockets: Vec<Socket>,
    arrivals: Option<Schedule>,
    made: u64,
    room: Room,
    /// Something is given up, or may be: since then it is not known when there was room.
    has_lost: bool,
    /// The first request was sent.
    begun: bool,
    silence: Silence,
    /// When the last request was sent.
    sent_at: u64,
    /// When the lane said that it is done.
    over: Option<u64>,
    figures: &'a mut Figures,
}

/// Since when a lane waits in vain, which is known to lie between two times: nothing was answered since, and something was in flight or
/// was to start all the time.
#[derive(Clone, Copy)]
struct Silence {
    least: u64,
    most: u64,
}

/// Compares a run with its account. Of a number of requests that a lane gave up, the report itself says how many were due by then and not
/// sent, within what the account knows of that time.
pub fn verify(outcome: &Outcome) -> Figures {
    let desk = outcome.desk.borrow();
    let mut figures = Figures { lanes: vec![0; outcome.plan.lanes], ..Figures::default() };
    let (mut least, mut most) = (0, 0);
    for lane in 0..outcome.plan.lanes {
        let given_up = Books::new(&desk, lane, &mut figures).close(&desk.journal);
        (least, most) = (least + given_up.0, most + given_up.1);
    }
    let given_up = outcome.report.not_sent.unwrap_or(0).saturating_sub(figures.not_sent).clamp(least, most);
    (figures.not_sent, figures.offered) = (figures.not_sent + given_up, figures.offered + given_up);
    figures.compare(&outcome.plan, desk.window.unwrap(), &outcome.report);
    figures
}

impl<'a> Books<'a> {
    fn new(desk: &'a Desk, lane: usize, figures: &'a mut Figures) -> Self {
        let (plan, window): (&Plan, _) = (&desk.plan, desk.window.unwrap());
        let start = window.0 - plan.warm_up.as_nanos() as u64;
        Self {
            plan,
            window: Window::of(plan, window),
            lane,
            first: desk.first_place(lane),
            sockets: (0..plan.connections_of(lane)).map(|_| Socket::default()).collect(),
            arrivals: arrivals(plan, window, lane),
            made: 0,
            room: Room::default(),
            has_lost: false,
            begun: false,
            silence: Silence { least: start, most: start },
            sent_at: 0,
            over: None,
            figures,
        }
    }

    fn timeout(&self) -> u64 {
        self.plan.timeout.as_nanos() as u64
    }

    /// A lane looks at least so often for what it is to give up.
    fn looks_within(&self) -> u64 {
        (self.timeout() / 16).clamp(MS, 100 * MS) + 2 * MS
    }

    /// After so long, what is not answered has been given up.
    fn surely_lost(&self) -> u64 {
        self.timeout() + self.looks_within()
    }

    /// Says how many requests the lane gave up that were due and not sent, at least and at the most.
    fn close(mut self, journal: &[Sighting]) -> (u64, u64) {
        for entry in journal {
            if entry.lane == self.lane && self.over.is_none() {
                self.take(entry);
            }
        }
        let given_up = self.given_up();
        (0..self.sockets.len()).for_each(|index| self.give_up(index, u64::MAX));
        if share_of(self.plan, self.lane) == u64::MAX {
            let left = self.arrivals.take().into_iter().flatten().take_while(|&at| at < self.window.until);
            let left = left.filter(|&at| self.window.has(at)).count() as u64;
            self.figures.not_sent += left;
            self.figures.offered += left;
        }
        given_up
    }

    /// A lane that has not made its number of requests, and has arrivals for them, was silent for so long that it gave up.
    fn given_up(&self) -> (u64, u64) {
        let left = share_of(self.plan, self.lane) - self.made;
        let is_open = self.arrivals.as_ref().is_some_and(|arrivals| arrivals.clone().next().is_some());
        if share_of(self.plan, self.lane) == u64::MAX || left == 0 || !is_open {
            return (0, 0);
        }
        let (patience, over) = (2 * self.timeout() + PAUSES, self.over.unwrap());
        let earliest = (self.silence.least + patience).max(self.sent_at);
        let latest = (self.silence.most + patience + self.looks_within()).min(over);
        assert!(earliest <= latest, "lane {} gave up {left} requests between {earliest} and {latest}", self.lane);
        let due = |by: u64| {
            let due = self.arrivals.clone().into_iter().flatten().take_while(|&at| at < by);
            (due.filter(|&at| self.window.has(at)).count() as u64).min(left)
        };
        (due(earliest), due(latest))
    }

    /// From the last entry until `now` a lane may have had nothing to wait for: then it is not silence yet.
    fn rest(&mut self, now: u64) {
        let all = self.sockets.iter().flat_map(|socket| socket.flights.values());
        let lost = all.map(|flight| flight.1 + self.timeout()).max().unwrap_or(0);
        let due = self.arrivals.as_ref().and_then(|arrivals| arrivals.clone().next()).unwrap_or(u64::MAX);
        if lost < due.min(now) {
            self.silence.most = self.silence.most.max(due.min(now));
        }
    }

    fn take(&mut self, entry: &Sighting) {
        let now = entry.at;
        self.rest(now);
        (0..self.sockets.len()).for_each(|index| self.give_up(index, now));
        let timeout = self.timeout();
        let mut flights = self.sockets.iter().flat_map(|socket| socket.flights.values());
        self.has_lost |= flights.any(|flight| now - flight.1 >= timeout);
        let index = |place: u64| (place - self.first) as usize;
        match entry.note {
            Note::Opened { .. } | Note::Heard => {}
            Note::Over => self.over = Some(now),
            Note::Wrote { place, number } => self.sent(index(place), number, now),
            Note::Came { place, number, bytes } => self.came(index(place), number, bytes, now),
            Note::Undelivered { place, fault } => {
                assert_eq!(fault.reason, Reason::Refused);
                self.undelivered(index(place), now);
            }
            _ => panic!("{entry:?} over datagrams"),
        }
        let depth = self.plan.depth as usize;
        self.room.is(self.sockets.iter().any(|socket| socket.flights.len() < depth), now);
    }

    fn sent(&mut self, index: usize, number: u64, now: u64) {
        let intended = match self.plan.mode {
            Mode::Open { .. } => self.offered(now),
            _ => self.due(index, now),
        };
        assert!(intended <= now, "sent before its time");
        if self.window.counts(intended, now) {
            self.figures.sent += 1;
            self.figures.bytes_sent += request_bytes(self.plan);
        }
        self.made += u64::from(intended >= self.window.from);
        assert!(self.made <= share_of(self.plan, self.lane), "more requests than were asked for");
        let (timeout, depth, socket) = (self.timeout(), self.plan.depth as usize, &mut self.sockets[index]);
        assert_eq!(number, socket.next, "the number of the next request");
        socket.next += 1;
        socket.flights.insert(number, (intended, now));
        self.sent_at = now;
        let young = socket.flights.values().filter(|flight| now - flight.1 < timeout).count();
        assert!(young <= depth, "{young} in flight of {depth}");
    }

    /// When the request of a closed loop that is just sent was to start; the first of all goes when the lane begins. What follows on one
    /// that was given up is taken to have gone at once: these tests do not let memory run short where anything is lost.
    fn due(&mut self, index: usize, now: u64) -> u64 {
        if !std::mem::replace(&mut self.begun, true) {
            let depth = self.plan.depth as usize;
            self.sockets.iter_mut().for_each(|socket| socket.due = VecDeque::from(vec![now; depth]));
        }
        self.sockets[index].due.pop_front().unwrap_or(now)
    }

    fn offered(&mut self, now: u64) -> u64 {
        let intended = self.arrivals.as_mut().unwrap().next().unwrap();
        if self.window.has(intended) {
            self.figures.offered += 1;
            let most = now - intended;
            let least = if self.has_lost { 0 } else { now - intended.max(self.room.since()) };
            assert!(least < LATEST, "sent {least} ns after it could be");
            self.figures.lag.add_between(least, if self.has_lost { most } else { least });
        }
        intended
    }

    fn came(&mut self, index: usize, number: Option<u64>, bytes: u64, now: u64) {
        self.figures.bytes_received += if self.window.has(now) { bytes } else { 0 };
        let (window, timeout, socket) = (self.window, self.timeout(), &mut self.sockets[index]);
        let Some(number) = number.filter(|&number| number < socket.next) else { return self.note(Kind::Mismatch, now, now) };
        let Some(flight) = socket.flights.remove(&number) else { return self.note(Kind::Duplicate, now, now) };
        assert!(now - flight.1 < timeout, "an answer that may have been given up: choose other times");
        let is_late = number < socket.done_to;
        socket.done_to = socket.done_to.max(number + 1);
        socket.due.push_back(now);
        if is_late {
            self.note(Kind::Reordered, flight.0, now);
        }
        self.silence = Silence { least: now, most: now };
        self.figures.answered(window, self.lane, flight, now);
    }

    /// Counts something of a kind that took no request with it.
    fn note(&mut self, kind: Kind, intended: u64, now: u64) {
        self.figures.error(kind, u64::from(self.window.counts(intended, now)));
    }

    /// The oldest in flight is taken for the one that did not arrive.
    fn undelivered(&mut self, index: usize, now: u64) {
        let socket = &mut self.sockets[index];
        if let Some((number, flight)) = socket.flights.pop_first() {
            socket.done_to = socket.done_to.max(number + 1);
            socket.due.push_back(now);
            if self.window.has(flight.0) {
                self.figures.error(Kind::Refused, 1);
                self.figures.failed += 1;
                self.figures.ended = self.figures.ended.max(now);
            }
        }
    }

    /// What had waited for too long before `now` was given up.
    fn give_up(&mut self, index: usize, now: u64) {
        let (timeout, surely) = (self.timeout(), self.surely_lost());
        while let Some((&number, &(intended, sent))) = self.sockets[index].flights.first_key_value() {
            if now < sent.saturating_add(surely) {
                return;
            }
            let socket = &mut self.sockets[index];
            socket.flights.remove(&number);
            socket.done_to = socket.done_to.max(number + 1);
            self.has_lost = true;
            if self.window.has(intended) {
                self.figures.error(Kind::Lost, 1);
                self.figures.failed += 1;
                let waited = sent - intended;
                self.figures.latency.add_between(waited + timeout, waited + surely);
                self.figures.service.add_between(timeout, surely);
                self.figures.ended = self.figures.ended.max(sent + timeout);
                self.figures.ended_within = surely - timeout;
            }
        }
    }
}
