//! The account of a run over connections, drawn up from the journal alone: when requests were to start follows from the plan, what
//! became of them from what was seen at the workload and from how connections ended.

use crate::simulated::figures::{Figures, Window, requests_each};
use crate::simulated::rig::{MS, Outcome};
use crate::simulated::witness::{Desk, Note, Sighting, request_bytes};
use corelane::service::{Ending, Fault, Reason};
use corelane_load::arrivals::Schedule;
use corelane_load::kinds::Kind;
use corelane_load::plan::{Extent, Mode, Plan};
use std::collections::VecDeque;

/// How long a place waits for its next connection.
const PAUSE: u64 = 100 * MS;

/// The longest that a lane goes without looking for requests that wait for too long, beside an eighth of the timeout, while the clock is steady.
const LOOKS_WITHIN: u64 = 20 * MS;

/// The longest that a request goes after its time while the clock is steady: some turns of all lanes, which take 0.2 to 2.2 us each and
/// one after the other.
pub const LATEST: u64 = MS / 5;

/// Part `lane` of `total`, as even as can be.
pub fn share(total: u64, lane: usize, lanes: usize) -> u64 {
    (0..total).filter(|number| (number % lanes as u64) as usize == lane).count() as u64
}

/// The requests, or connections, that a lane is to make in the window; `u64::MAX` without a number.
pub fn share_of(plan: &Plan, lane: usize) -> u64 {
    match plan.extent {
        Extent::For(_) => u64::MAX,
        Extent::Requests(requests) => share(requests, lane, plan.lanes),
    }
}

/// The arrivals of a lane; none in a closed loop.
pub fn arrivals(plan: &Plan, window: (u64, u64), lane: usize) -> Option<Schedule> {
    let start = window.0 - plan.warm_up.as_nanos() as u64;
    match &plan.mode {
        Mode::Open { rate, arrivals } | Mode::Connections { rate, arrivals, .. } => {
            Some(Schedule::new(arrivals.clone(), *rate, start, lane, plan.lanes, plan.seed))
        }
        _ => None,
    }
}

/// Since when a lane has had room for one more request. What is taken and comes back at one instant was there all the time.
#[derive(Default)]
pub struct Room {
    has: bool,
    since: u64,
    emptied: Option<u64>,
}

impl Room {
    pub fn is(&mut self, has: bool, now: u64) {
        if has && !self.has && self.emptied != Some(now) {
            self.since = now;
        }
        if !has && self.has {
            self.emptied = Some(now);
        }
        self.has = has;
    }

    pub fn since(&self) -> u64 {
        self.since
    }
}

#[derive(Default)]
struct Client {
    is_open: bool,
    wrong: bool,
    /// When its connection was to be asked for.
    intended: u64,
    /// Requests in flight: intended start, and when sent.
    flights: VecDeque<(u64, u64)>,
    /// Requests made on the present connection, and whether one was answered.
    made: u32,
    was_answered: bool,
    /// When the answer that is on its way began.
    first_byte: Option<u64>,
    /// Intended starts of requests that wait for memory, and since when they do.
    owed: VecDeque<u64>,
    waits_since: Option<u64>,
}

struct Books<'a> {
    plan: &'a Plan,
    window: Window,
    lane: usize,
    first: u64,
    heard: bool,
    over: bool,
    places: Vec<Client>,
    arrivals: Option<Schedule>,
    /// Where connections are made at a rate: places in the order in which arrivals take them.
    line: VecDeque<u64>,
    /// Requests made that were to start in the window, and how many there are to be.
    made: u64,
    share: u64,
    room: Room,
    /// The clock does not jump: then a timeout comes when it should.
    is_steady: bool,
    figures: &'a mut Figures,
}

/// What the report of a run must say.
pub fn account(outcome: &Outcome, is_steady: bool) -> Figures {
    let desk = outcome.desk.borrow();
    let mut figures = Figures { lanes: vec![0; outcome.plan.lanes], ..Figures::default() };
    for lane in 0..outcome.plan.lanes {
        Books::new(&desk, lane, is_steady, &mut figures).close(&desk.journal);
    }
    figures
}

/// Whether it can be told which requests waited for memory, if any did: of one at a time.
pub fn is_clear(outcome: &Outcome) -> bool {
    let desk = outcome.desk.borrow();
    let is_alone = outcome.plan.depth == 1 || matches!(outcome.plan.mode, Mode::Connections { .. });
    is_alone || !desk.journal.iter().any(|entry| matches!(entry.note, Note::Refused { .. }))
}

/// Compares a run with its account. Of a number of requests that a lane gave up it says itself how many were due and not sent.
pub fn verify(outcome: &Outcome, is_steady: bool) -> Figures {
    let mut figures = account(outcome, is_steady);
    if !outcome.desk.borrow().early.is_empty() {
        let not_sent = outcome.report.not_sent.unwrap_or(0) / requests_each(&outcome.plan);
        let asked: u64 = (0..outcome.plan.lanes).map(|lane| share_of(&outcome.plan, lane)).sum();
        assert!(figures.offered + not_sent <= asked, "more was due than was asked for");
        (figures.not_sent, figures.offered) = (figures.not_sent + not_sent, figures.offered + not_sent);
    }
    figures.compare(&outcome.plan, outcome.desk.borrow().window.unwrap(), &outcome.report);
    figures
}

impl<'a> Books<'a> {
    fn new(desk: &'a Desk, lane: usize, is_steady: bool, figures: &'a mut Figures) -> Self {
        let (plan, window): (&Plan, _) = (&desk.plan, desk.window.unwrap());
        let (count, first) = (u64::from(plan.connections_of(lane)), desk.first_place(lane));
        let by_connection = matches!(plan.mode, Mode::Connections { .. });
        Self {
            plan,
            window: Window::of(plan, window),
            lane,
            first,
            heard: false,
            over: false,
            places: (0..count).map(|_| Client::default()).collect(),
            arrivals: arrivals(plan, window, lane),
            line: if by_connection { (first..first + count).collect() } else { VecDeque::new() },
            made: 0,
            share: share_of(plan, lane),
            room: Room::default(),
            is_steady,
            figures,
        }
    }

    fn requests_each(&self) -> Option<u32> {
        if let Mode::Connections { requests, .. } = self.plan.mode { Some(requests) } else { None }
    }

    fn place(&mut self, place: u64) -> &mut Client {
        &mut self.places[(place - self.first) as usize]
    }

    /// A connection is seen: all places that stand before its own in the line have been taken by arrivals, too. Answers when it was to
    /// be asked for.
    fn asked(&mut self, place: u64) -> u64 {
        while self.line.contains(&place) {
            let (Some(next), intended) = (self.line.pop_front(), self.next_arrival()) else { unreachable!() };
            self.place(next).intended = intended;
            self.made += u64::from(intended >= self.window.from);
            self.figures.offered += u64::from(self.window.has(intended));
        }
        self.place(place).intended
    }

    fn next_arrival(&mut self) -> u64 {
        self.arrivals.as_mut().unwrap().next().unwrap()
    }

    fn close(mut self, journal: &[Sighting]) {
        for entry in journal {
            if entry.lane == self.lane && !self.over {
                self.take(entry);
            }
        }
        assert!(self.over, "lane {} has not said that it is done", self.lane);
        let in_flight: usize = self.places.iter().map(|place| place.flights.len()).sum();
        assert_eq!(in_flight, 0, "requests of lane {} in flight at the end", self.lane);
        (0..self.places.len()).for_each(|index| self.forgo(index));
        if self.share == u64::MAX {
            let left = self.arrivals.take().into_iter().flatten().take_while(|&at| at < self.window.until);
            let left = left.filter(|&at| self.window.has(at)).count() as u64;
            self.figures.not_sent += left;
            self.figures.offered += left;
        }
    }

    /// What still waits for memory on a place will not be sent.
    fn forgo(&mut self, index: usize) {
        let owed = std::mem::take(&mut self.places[index].owed);
        if matches!(self.plan.mode, Mode::Open { .. }) {
            self.figures.not_sent += owed.iter().filter(|&&intended| self.window.has(intended)).count() as u64;
        }
    }

    fn take(&mut self, entry: &Sighting) {
        let now = entry.at;
        match entry.note {
            Note::Heard => self.heard = true,
            Note::Over => self.over = true,
            Note::Opened { place } => self.opened(place, now),
            Note::Sent { place, count, bytes } => self.sent(place, count, bytes, now),
            Note::Refused { place, count } => self.refused(place, count, now),
            Note::Got { place, bytes, answers, wrong } => self.got(place, bytes, answers, wrong, now),
            Note::Closed { place, ending, fault } => self.closed(place, ending, fault, now),
            _ => panic!("{entry:?} over connections"),
        }
        let depth = self.plan.depth as usize;
        let has_room = |place: &Client| place.is_open && place.flights.len() + place.owed.len() < depth;
        self.room.is(self.places.iter().any(has_room), now);
    }

    fn opened(&mut self, place: u64, now: u64) {
        if self.requests_each().is_some() {
            let intended = self.asked(place);
            if self.window.has(intended) {
                self.figures.connect.add(now - intended);
                self.figures.lag.add_between(0, now - intended);
            }
        }
        let place = self.place(place);
        assert!(!place.is_open, "a place was opened twice");
        *place = Client { is_open: true, intended: place.intended, ..Client::default() };
    }

    fn sent(&mut self, place: u64, count: u64, bytes: u64, now: u64) {
        let each = bytes / count;
        assert_eq!((each, bytes % count), (request_bytes(self.plan), 0), "bytes of a request");
        for _ in 0..count {
            let intended = self.intended(place, now);
            assert!(intended <= now, "sent before its time");
            let counts = u64::from(self.window.counts(intended, now));
            (self.figures.sent, self.figures.bytes_sent) = (self.figures.sent + counts, self.figures.bytes_sent + counts * each);
            self.made += u64::from(self.requests_each().is_none() && intended >= self.window.from);
            let place = self.place(place);
            place.flights.push_back((intended, now));
            place.made += 1;
        }
        let depth = self.requests_each().map_or(self.plan.depth as usize, |_| 1);
        let (in_flight, made) = (self.place(place).flights.len(), self.place(place).made);
        assert!(in_flight <= depth, "{in_flight} in flight of {depth}");
        assert!(self.requests_each().is_none_or(|requests| made <= requests), "{made} requests on one connection");
        assert!(self.made <= self.share, "more requests than were asked for");
    }

    /// When the request that is just sent was to start.
    fn intended(&mut self, place: u64, now: u64) -> u64 {
        match self.place(place).owed.pop_front() {
            Some(intended) => intended,
            None => self.made_now(place, now),
        }
    }

    /// When a request that is made now was to start.
    fn made_now(&mut self, place: u64, now: u64) -> u64 {
        let is_first = self.place(place).made == 0;
        match self.plan.mode {
            Mode::Open { .. } => self.offered(now),
            Mode::Connections { .. } if is_first => self.place(place).intended,
            _ => now,
        }
    }

    /// The next arrival has its turn.
    fn offered(&mut self, now: u64) -> u64 {
        let intended = self.next_arrival();
        let lag = now - intended.max(self.room.since());
        assert!(!self.is_steady || lag < LATEST, "sent {lag} ns after it could be");
        if self.window.has(intended) {
            self.figures.offered += 1;
            self.figures.lag.add(lag);
        }
        intended
    }

    fn refused(&mut self, place: u64, count: u64, now: u64) {
        let by_connection = self.requests_each().is_some();
        assert!(
            count == 1 && (self.plan.depth == 1 || by_connection),
            "with more in flight it cannot be told which request was refused"
        );
        if self.place(place).owed.is_empty() {
            let intended = self.made_now(place, now);
            self.place(place).owed.push_back(intended);
            self.place(place).waits_since = Some(now);
        }
    }

    fn got(&mut self, place: u64, bytes: u64, answers: u64, wrong: bool, now: u64) {
        self.figures.bytes_received += if self.window.has(now) { bytes } else { 0 };
        let timeout = self.plan.timeout.as_nanos() as u64;
        if bytes > 0 {
            self.place(place).first_byte.get_or_insert(now);
        }
        if answers > 0 {
            self.divided(place, now);
        }
        for _ in 0..answers {
            let flight = self.place(place).flights.pop_front().expect("an answer to a request");
            let too_late = now - flight.1 > timeout + timeout / 8 + LOOKS_WITHIN;
            assert!(!(self.is_steady && too_late), "answered after {} ns, and not given up", now - flight.1);
            self.figures.answered(self.window, self.lane, flight, now);
        }
        self.place(place).wrong |= wrong;
    }

    /// The time of an answer has two parts: until its first byte, and from there on.
    fn divided(&mut self, place: u64, now: u64) {
        let by_connection = self.requests_each().is_some();
        let place = self.place(place);
        place.was_answered = true;
        let (first_byte, &(intended, sent)) = (place.first_byte.take().unwrap(), place.flights.front().unwrap());
        if by_connection && self.window.counts(intended, now) {
            self.figures.response.add(first_byte - sent);
            self.figures.transfer.add(now - first_byte);
        }
    }

    fn closed(&mut self, place: u64, ending: Ending, fault: Option<Fault>, now: u64) {
        let kind = kind(ending, fault, self.place(place).wrong);
        if !self.place(place).is_open {
            return self.could_not_be_opened(place, kind.unwrap_or(Kind::Other), now);
        }
        let intended = self.place(place).intended;
        if self.requests_each().is_some() {
            self.line.push_back(place);
            if self.window.has(intended) && self.place(place).was_answered {
                self.figures.connection.add(now - intended);
            }
        }
        if self.requests_each().is_none() {
            self.forgo((place - self.first) as usize);
        }
        let lost = std::mem::replace(self.place(place), Client { intended: now + PAUSE, ..Client::default() });
        let Some(kind) = kind else {
            return assert!(lost.flights.is_empty(), "requests in flight on a connection that was closed");
        };
        if kind == Kind::ClientTimeout {
            let since = lost.flights.front().map(|flight| flight.1).or(lost.waits_since);
            let waited = since.map_or(0, |since| now - since);
            assert!(u128::from(waited) >= self.plan.timeout.as_nanos(), "given up after {waited} ns");
        }
        match lost.owed.front().filter(|_| self.requests_each().is_some()) {
            Some(&intended) => self.note(kind, intended, now),
            None if lost.flights.is_empty() && self.goes_on(now) => self.note(kind, now, now),
            None => {}
        }
        lost.flights.into_iter().for_each(|flight| self.failed(kind, flight, now));
    }

    fn could_not_be_opened(&mut self, place: u64, kind: Kind, now: u64) {
        let mut intended = self.place(place).intended;
        if self.requests_each().is_some() {
            intended = self.asked(place);
            if self.window.has(intended) {
                self.figures.lag.add_between(0, now - intended);
            }
            self.line.push_back(place);
        }
        self.note(kind, intended, now);
        self.place(place).intended = now + PAUSE;
    }

    /// Whether the lane still has requests to make: then an idle connection that is lost is an error.
    fn goes_on(&self, now: u64) -> bool {
        self.made < self.share || now < self.window.from
    }

    /// Counts something of a kind that took no request with it. Before the start everything counts; there is none in the warm-up.
    fn note(&mut self, kind: Kind, intended: u64, now: u64) {
        let before = !self.heard || (now < self.window.from && self.plan.warm_up.is_zero());
        if before || self.window.counts(intended, now) {
            self.figures.error(kind, 1);
        }
    }

    fn failed(&mut self, kind: Kind, (intended, sent): (u64, u64), now: u64) {
        if !self.window.has(intended) {
            return;
        }
        self.figures.error(kind, 1);
        self.figures.failed += 1;
        self.figures.ended = self.figures.ended.max(now);
        if kind == Kind::ClientTimeout {
            self.figures.latency.add(now - intended);
            self.figures.service.add(now - sent);
        }
    }
}

/// What an ending means to a client; nothing if it is its own.
fn kind(ending: Ending, fault: Option<Fault>, wrong: bool) -> Option<Kind> {
    Some(match (ending, fault.map(|fault| fault.reason)) {
        (Ending::Completed | Ending::Closing, _) => return None,
        (Ending::EndOfStream, _) => Kind::Closed,
        (Ending::Aborted, _) if wrong => Kind::Mismatch,
        (Ending::Aborted, _) | (Ending::Error, Some(Reason::Cancelled)) => Kind::ClientTimeout,
        (Ending::Error, Some(Reason::Reset)) => Kind::Reset,
        (Ending::Error, Some(Reason::Refused)) => Kind::Refused,
        (Ending::Error, Some(Reason::TimedOut)) => Kind::SocketTimeout,
        (Ending::Error, Some(Reason::Unreachable)) => Kind::Unreachable,
        (Ending::Error, Some(Reason::AddressUnknown | Reason::AddressInUse)) => Kind::NoAddress,
        (Ending::Error, _) => Kind::Other,
    })
}
