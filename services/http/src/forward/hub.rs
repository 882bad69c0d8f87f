//! What a lane keeps of all requests that are on their way: the ways, the connections to servers, and those of them that are idle.

use super::fault::Fault;
use super::head::{Asker, write_request};
use super::places::Places;
use super::upstream::{Stage, Up, Upstream};
use super::way::{Facts, Way};
use super::Forward;
use crate::counters::HttpCounter;
use crate::outgoing::Dial;
use corelane::service::{Address, ConnectionId, Instant};
use corelane::{Cx, Silent};
use corelane_wire::http1::Request as Head;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// How many other servers are tried where one cannot be connected to.
const TRIES_MAX: usize = 2;

pub(super) type HubRef = Rc<RefCell<Hub>>;

/// The part of a lane.
pub(super) struct Hub {
    pub places: Places,
    pub timeout: Duration,
    pub kept_max: usize,
    pub dial: Dial<Silent>,
    /// The token of its alarm.
    pub alarm: u64,
    is_alarmed: bool,
    is_draining: bool,
    ways: Numbered<Way>,
    ups: Numbered<Up>,
    /// Connections without a request, by server, the one that was used last at the end.
    idle: Vec<Vec<usize>>,
}

/// Things by numbers that are given out again.
struct Numbered<T> {
    list: Vec<(bool, T)>,
    free: Vec<usize>,
}

impl<T> Numbered<T> {
    fn new() -> Self {
        Self { list: Vec::new(), free: Vec::new() }
    }

    /// The number for a new one, whose place `make` makes, or `renew` makes of an old one.
    fn add<V>(&mut self, value: V, make: impl FnOnce(V) -> T, renew: impl FnOnce(&mut T, V)) -> usize {
        let Some(number) = self.free.pop() else {
            self.list.push((true, make(value)));
            return self.list.len() - 1;
        };
        let (is_used, old) = &mut self.list[number];
        assert!(!*is_used, "what is free is not used");
        *is_used = true;
        renew(old, value);
        number
    }

    fn get(&mut self, number: usize) -> &mut T {
        let (is_used, found) = &mut self.list[number];
        assert!(*is_used, "number {number} is given to nobody");
        found
    }

    fn remove(&mut self, number: usize) {
        self.get(number);
        self.list[number].0 = false;
        self.free.push(number);
    }

    fn used(&mut self) -> impl Iterator<Item = &mut T> {
        self.list.iter_mut().filter(|(is_used, _)| *is_used).map(|(_, found)| found)
    }
}

impl Hub {
    pub fn new(to: &[Address], dial: Dial<Silent>) -> HubRef {
        let (places, idle) = (Places::new(to), to.iter().map(|_| Vec::new()).collect());
        let (ways, ups) = (Numbered::new(), Numbered::new());
        let (timeout, kept_max) = (Forward::TIMEOUT, Forward::KEPT);
        let hub = Self { places, timeout, kept_max, dial, alarm: 0, is_alarmed: false, is_draining: false, ways, ups, idle };
        Rc::new(RefCell::new(hub))
    }

    pub fn way(&mut self, way: usize) -> &mut Way {
        self.ways.get(way)
    }

    pub fn up(&mut self, up: usize) -> &mut Up {
        self.ups.get(up)
    }

    /// A connection and the request that it carries.
    pub fn both(&mut self, up: usize) -> Option<(&mut Up, &mut Way)> {
        let up = self.ups.get(up);
        up.way.map(|way| (up, self.ways.get(way)))
    }

    /// A connection has ended.
    pub fn remove_up(&mut self, up: usize) {
        self.leave_idle(up);
        self.ups.remove(up);
    }

    /// It is not to be used any more.
    pub fn leave_idle(&mut self, up: usize) {
        let place = self.ups.get(up).place;
        self.idle[place].retain(|idle| *idle != up);
    }

    /// Keeps a connection for another request; false if it is to be closed.
    pub fn keep(&mut self, up: usize) -> bool {
        let place = self.ups.get(up).place;
        let has_room = !self.is_draining && self.idle[place].len() < self.kept_max;
        if has_room {
            self.idle[place].push(up);
        }
        has_room
    }

    /// A request and its connection have to do with each other no more.
    pub fn part(&mut self, up: usize) {
        if let Some(way) = self.ups.get(up).way.take() {
            self.ways.get(way).up = None;
        }
    }

    /// Something is wrong with the connection of a request, which its exchange is told.
    pub fn fail(&mut self, cx: &mut Cx<'_>, up: usize, fault: Fault) {
        let Some((up, way)) = self.both(up) else { return };
        up.stage = Stage::Over;
        (way.fault, way.up, up.way) = (Some(fault), None, None);
        cx.resume(way.client);
    }

    /// The exchange of a request has ended, or its client is gone: what is under way for it is broken off.
    pub fn release(&mut self, cx: &mut Cx<'_>, way: usize) {
        if let Some(up) = self.ways.get(way).up.take() {
            let up = self.ups.get(up);
            (up.way, up.stage) = (None, Stage::Over);
            up.id.into_iter().for_each(|id| cx.abort(id));
        }
        let ended = self.ways.get(way);
        // Memory of the lane waits for nobody.
        ended.pieces.clear();
        self.ways.remove(way);
    }

    /// Looks for servers that are silent for too long, and has itself called again when the next might be.
    pub fn alarm(&mut self, cx: &mut Cx<'_>, token: u64) {
        if token != self.alarm {
            return;
        }
        self.is_alarmed = false;
        let (now, timeout) = (cx.now(), self.timeout);
        let mut next: Option<Instant> = None;
        let mut overdue = Vec::new();
        for way in self.ways.used() {
            let due = way.active_at + timeout;
            match way.up {
                Some(up) if way.awaits_server() && due <= now => overdue.push(up),
                // Another one is to be waited for, and then this one again.
                _ => next = Some(next.map_or(due.max(now + timeout / 8), |next| next.min(due.max(now + timeout / 8)))),
            }
        }
        for up in overdue {
            let id = self.ups.get(up).id;
            self.fail(cx, up, Fault::Silent);
            id.into_iter().for_each(|id| cx.abort(id));
        }
        if let Some(next) = next {
            self.alarm_at(cx, next);
        }
    }

    fn alarm_at(&mut self, cx: &mut Cx<'_>, at: Instant) {
        self.is_alarmed = cx.start_alarm(at, self.alarm).is_ok();
    }

    /// Nobody new comes: idle connections are closed.
    pub fn drain(&mut self, cx: &mut Cx<'_>) {
        self.is_draining = true;
        let idle: Vec<usize> = self.idle.iter_mut().flat_map(|idle| idle.drain(..)).collect();
        for up in idle {
            let up = self.ups.get(up);
            up.stage = Stage::Over;
            up.id.into_iter().for_each(|id| cx.close(id));
        }
    }

    fn add_way(&mut self, cx: &mut Cx<'_>, client: ConnectionId, facts: Facts) -> usize {
        let now = cx.now();
        if !self.is_alarmed {
            let at = now + self.timeout;
            self.alarm_at(cx, at);
        }
        let value = (client, facts, now);
        self.ways.add(value, |(client, facts, now)| Way::new(client, facts, now), |way, (client, facts, now)| way.renew(client, facts, now))
    }
}

/// Begins a request: its head is sent, or will be once a connection is open.
///
/// # Errors
/// Why it cannot be; nothing is kept of it then.
pub(super) fn begin(hub: &HubRef, cx: &mut Cx<'_>, head: &Head<'_>, asker: Asker) -> Result<usize, Fault> {
    let mut this = hub.borrow_mut();
    let place = this.places.choose(cx.now()).ok_or(Fault::Nobody)?;
    let client = cx.id();
    let number = this.add_way(cx, client, Facts::of(head));
    let Hub { ways, places, .. } = &mut *this;
    let way = ways.get(number);
    (way.place, way.tries_left) = (place, TRIES_MAX.min(places.len() - 1));
    write_request(&mut way.head, head, asker, places.name(place));
    start(hub, &mut this, cx, number, true).map(|()| number).inspect_err(|_| this.ways.remove(number))
}

/// Sends a request, on a connection that is there if `may_reuse`.
fn start(shared: &HubRef, hub: &mut Hub, cx: &mut Cx<'_>, number: usize, may_reuse: bool) -> Result<(), Fault> {
    let way = hub.ways.get(number);
    let place = way.place;
    while let Some(up_number) = hub.idle[place].pop_if(|_| may_reuse) {
        let up = hub.ups.get(up_number);
        // One that closes is told so itself.
        let Some(output) = up.id.and_then(|id| cx.connection(id)) else { continue };
        if output.write(&way.head).is_err() {
            hub.idle[place].push(up_number);
            return Err(Fault::Memory);
        }
        output.note_active();
        up.begin(number, true);
        way.up = Some(up_number);
        cx.count(HttpCounter::ForwardsReused, 1);
        return Ok(());
    }
    let up = hub.ups.add((place, number), |(place, way)| Up::opening(place, way), |up, (place, way)| *up = Up::opening(place, way));
    let upstream = Box::new(Upstream::new(shared.clone(), up));
    match (hub.dial)(cx, hub.places.address(place), upstream) {
        Ok(id) => {
            hub.ups.get(up).id = Some(id);
            hub.ways.get(number).up = Some(up);
            Ok(())
        }
        Err(_) => {
            hub.ups.remove(up);
            Err(Fault::Full)
        }
    }
}

/// Sends a request once more where that does no harm: nothing of it was acted upon.
///
/// # Errors
/// The fault, where it is final.
pub(super) fn again(shared: &HubRef, hub: &mut Hub, cx: &mut Cx<'_>, number: usize, fault: Fault) -> Result<(), Fault> {
    let now = cx.now();
    let Hub { ways, places, .. } = &mut *hub;
    let way = ways.get(number);
    assert!(way.up.is_none(), "what has failed carries nothing");
    let reuses = match fault {
        Fault::Unreachable | Fault::Unheard => {
            places.note_unreachable(way.place, now);
            way.tries_left = way.tries_left.checked_sub(1).ok_or(fault)?;
            way.place = places.choose(now).ok_or(fault)?;
            true
        }
        // A server may close what is idle just as it is used (RFC 9112 section 9.3.1).
        Fault::Stale if way.facts.is_idempotent && !way.content_began && std::mem::take(&mut way.may_repeat) => false,
        _ => return Err(fault),
    };
    way.active_at = now;
    cx.count(HttpCounter::ForwardsRetried, 1);
    start(shared, hub, cx, number, reuses)
}
