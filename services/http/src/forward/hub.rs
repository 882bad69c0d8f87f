//! What a lane keeps of all requests that are on their way: the ways, the links to upstreams, and those of them that are idle.

use super::fault::Fault;
use super::up::{Stage, Up};
use super::way::{Facts, Way};
use crate::counters::HttpCounter;
use crate::within::Within;
use corelane::admin::reports::Level;
use corelane::service::{Address, Ending, Instant};
use corelane::{Cx, Silent};
use corelane_upstreams::entry::Behind;
use corelane_upstreams::{Caller, Failure, Tended, Tending, Upstream, client_key, failure_to_agree};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The token of the alarm for upstreams that are silent.
const SILENT: u64 = 0;
/// That of the alarm for names and checks, and of calls on helper threads.
pub(super) const TENDING: u64 = 1;

/// Requests that wait until names are resolved for the first time; one more is refused.
const EARLY_MAX: usize = 1_024;

/// How long an upstream may take for the head of an answer, and be silent behind it. Parts of a head are no sign of life:
/// one that comes byte by byte might never end.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
/// Idle links that are kept to each upstream. Answers come in bursts, so most links of a busy lane are idle for a moment; with fewer than that, each burst closes some and opens
/// them anew, which costs more than a request.
pub(super) const KEPT: usize = 256;

pub(super) type HubRef = Rc<RefCell<Hub>>;

/// The part of a lane.
pub(super) struct Hub {
    pub tended: Tended,
    pub timeout: Duration,
    /// A request is let go whose client has finished its side.
    pub aborts_on_close: bool,
    pub kept_max: usize,
    pub within: Within<Silent>,
    /// Where its tokens begin.
    pub tokens: u64,
    is_alarmed: bool,
    pub ways: Numbered<Way>,
    pub ups: Numbered<Up>,
    /// Requests that have come before a name was resolved.
    pub early: Vec<usize>,
    /// Links without a request, the one that was used last at the end.
    pub idle: BTreeMap<Upstream, Vec<usize>>,
    /// Memory in which heads are put together.
    pub text: Vec<u8>,
}

/// Things by numbers that are given out again.
pub(super) struct Numbered<T> {
    list: Vec<(bool, T)>,
    free: Vec<usize>,
}

impl<T> Numbered<T> {
    fn new() -> Self {
        Self { list: Vec::new(), free: Vec::new() }
    }

    /// The number of a new one, which `make` makes; of an old one that has ended, where there is one.
    pub fn add(&mut self, make: impl FnOnce(Option<&mut T>) -> Option<T>) -> usize {
        let Some(number) = self.free.pop() else {
            // reason: without an old one a new one is made.
            self.list.push((true, make(None).expect("something new is made of nothing")));
            return self.list.len() - 1;
        };
        let (is_used, old) = &mut self.list[number];
        assert!(!std::mem::replace(is_used, true), "what is free is not used");
        if let Some(new) = make(Some(old)) {
            *old = new;
        }
        number
    }

    pub fn get(&mut self, number: usize) -> &mut T {
        let (is_used, found) = &mut self.list[number];
        assert!(*is_used, "number {number} is given to nobody");
        found
    }

    pub fn remove(&mut self, number: usize) {
        self.get(number);
        self.list[number].0 = false;
        self.free.push(number);
    }

    fn used(&mut self) -> impl Iterator<Item = &mut T> {
        self.list.iter_mut().filter(|(is_used, _)| *is_used).map(|(_, found)| found)
    }
}

impl Hub {
    pub fn new(behind: &Behind, lane: usize, within: Within<Silent>) -> HubRef {
        let hub = Self {
            tended: Tended::new(behind, lane, Tending::new(TENDING, TENDING)),
            timeout: TIMEOUT,
            aborts_on_close: false,
            kept_max: KEPT,
            within,
            tokens: 0,
            is_alarmed: false,
            ways: Numbered::new(),
            ups: Numbered::new(),
            early: Vec::new(),
            idle: BTreeMap::new(),
            text: Vec::new(),
        };
        Rc::new(RefCell::new(hub))
    }

    /// Its tokens begin there.
    pub fn begin_tokens(&mut self, begin: u64) {
        let token = begin + TENDING;
        self.tokens = begin;
        (self.tended.tending.alarm, self.tended.tending.completed) = (token, token);
    }

    pub fn way(&mut self, way: usize) -> &mut Way {
        self.ways.get(way)
    }

    /// The upstream of a request, as the operator wrote it, if one is chosen.
    pub fn name_of(&mut self, way: usize) -> Option<&str> {
        let upstream = self.ways.get(way).upstream?;
        self.tended.upstreams.name(upstream)
    }

    pub fn up(&mut self, up: usize) -> &mut Up {
        self.ups.get(up)
    }

    /// A link and the request that it carries.
    pub fn both(&mut self, up: usize) -> Option<(&mut Up, &mut Way)> {
        let up = self.ups.get(up);
        up.way.map(|way| (up, self.ways.get(way)))
    }

    /// A link is open, for the request that it carries.
    pub fn connected(&mut self, up: usize) {
        let up = self.ups.get(up);
        up.is_connected = true;
        self.tended.upstreams.connected(up.upstream);
    }

    /// A link has ended.
    pub fn remove_up(&mut self, number: usize) {
        self.leave_idle(number);
        let up = self.ups.get(number);
        // Its connection has ended, and with it what it owed.
        up.ticket = None;
        if up.is_connected {
            self.tended.upstreams.disconnected(up.upstream);
        }
        self.ups.remove(number);
    }

    /// It is not to be used again.
    pub fn leave_idle(&mut self, up: usize) {
        let upstream = self.ups.get(up).upstream;
        self.idle.get_mut(&upstream).into_iter().for_each(|idle| idle.retain(|idle| *idle != up));
    }

    /// Keeps a link for another request; false if it is to be closed.
    pub fn keep(&mut self, up: usize) -> bool {
        let upstream = self.ups.get(up).upstream;
        if self.tended.is_draining() || !self.tended.upstreams.serves(upstream) {
            return false;
        }
        let idle = self.idle.entry(upstream).or_default();
        let has_room = idle.len() < self.kept_max;
        if has_room {
            idle.push(up);
        }
        has_room
    }

    /// Takes the idle link that was used last, for another request. One of which something has come since is left to that, which is mostly its end: it was said before the request, so it is no answer.
    pub fn take_idle(&mut self, cx: &mut Cx<'_>, upstream: Upstream) -> Option<usize> {
        let Self { idle, ups, .. } = self;
        let links = idle.get_mut(&upstream)?;
        let is_quiet = |link: &usize| !ups.get(*link).id.is_some_and(|id| cx.has_news(id));
        let quiet = links.iter().rposition(is_quiet)?;
        Some(links.remove(quiet))
    }

    /// A request and its link have to do with each other no more.
    pub fn part(&mut self, up: usize) {
        if let Some(way) = self.ups.get(up).way.take() {
            self.ways.get(way).up = None;
        }
    }

    /// Something is wrong with the link of a request, which its exchange is told.
    pub fn fail(&mut self, cx: &mut Cx<'_>, up: usize, fault: Fault) {
        let Some((up, way)) = self.both(up) else { return };
        up.stage = Stage::Over;
        (way.fault, way.up, up.way) = (Some(fault), None, None);
        // Its connection ends, and with it what it owed.
        up.ticket = None;
        cx.resume(way.client);
        let (upstream, failure) = (up.upstream, fault.failure());
        let asker = (!matches!(fault, Fault::Unreachable | Fault::Unheard | Fault::Untrusted)).then_some(way.caller.client);
        let Some(failure) = failure else { return };
        let Some(ejected) = self.tended.upstreams.failed(upstream, cx.now(), failure, asker) else { return };
        cx.count(HttpCounter::Ejections, 1);
        let name = self.tended.upstreams.shown_name(upstream).unwrap_or_default();
        let words = format_args!(
            "upstream {name} is left out for {:?}: {} failures in a row, the last one {failure:?}",
            ejected.lasts, ejected.failures
        );
        cx.report_kind("ejected", Level::Warn, words);
    }

    /// The exchange of a request has ended, or its client is gone: what is under way for it is broken off.
    pub fn release(&mut self, cx: &mut Cx<'_>, number: usize) {
        let way = self.ways.get(number);
        way.forget();
        let (up, upstream, asker) = (way.up.take(), way.upstream, way.caller.client);
        if let Some(up) = up {
            self.abort(cx, up);
        }
        match upstream {
            Some(upstream) => self.tended.upstreams.end(upstream, asker),
            None => self.early.retain(|early| *early != number),
        }
        self.ways.remove(number);
    }

    /// Breaks a link off, which carries nothing from now on.
    fn abort(&mut self, cx: &mut Cx<'_>, up: usize) {
        let up = self.ups.get(up);
        (up.way, up.stage) = (None, Stage::Over);
        up.settle(cx);
        up.id.into_iter().for_each(|id| cx.abort(id));
    }

    /// Looks for upstreams that are silent for too long, or have not ended a head, and has itself called again when the next might be.
    pub fn look_for_silent(&mut self, cx: &mut Cx<'_>) {
        self.is_alarmed = false;
        let (now, timeout) = (cx.now(), self.timeout);
        let soon = now + timeout / 8;
        let (mut next, mut overdue): (Option<Instant>, _) = (None, Vec::new());
        let Self { ways, ups, .. } = self;
        for way in ways.used() {
            match (way.up, way.active_at + timeout) {
                // One that is being opened has the time that connecting and shaking hands may take, and another is tried then.
                (Some(up), due) if way.awaits_upstream() && due <= now && !ups.get(up).is_opening() => overdue.push(up),
                // Somebody else is waited for, and then perhaps the upstream again.
                (_, due) => next = Some(next.map_or(due.max(soon), |next| next.min(due.max(soon)))),
            }
        }
        for up in overdue {
            self.fail(cx, up, Fault::Silent);
            self.abort(cx, up);
        }
        let next = next.into_iter().chain(self.give_up_early(cx)).min();
        if let Some(next) = next {
            self.alarm_at(cx, next);
        }
    }

    /// Gives up requests that have waited for names for as long as connecting may take; returns when the next one has.
    fn give_up_early(&mut self, cx: &mut Cx<'_>) -> Option<Instant> {
        let (now, limit) = (cx.now(), cx.limits().connect_limit);
        let Self { early, ways, .. } = self;
        // They have come in this order.
        let overdue = early.iter().take_while(|way| ways.list[**way].1.began_at + limit <= now).count();
        for way in early.drain(..overdue) {
            let way = ways.get(way);
            way.fault = Some(Fault::Nobody);
            cx.resume(way.client);
        }
        early.first().map(|way| ways.get(*way).began_at + limit)
    }

    fn alarm_at(&mut self, cx: &mut Cx<'_>, at: Instant) {
        self.is_alarmed = cx.start_alarm(at, self.tokens + SILENT).is_ok();
    }

    /// Nobody new comes: idle links are closed.
    pub fn drain(&mut self, cx: &mut Cx<'_>) {
        self.tended.drain(cx);
        self.close_idle(cx, |_, _| true);
    }

    /// Closes idle links to upstreams that get no more requests: those that are drained, down, or named no more. A link that is in use is closed as it becomes idle ([`Hub::keep`]).
    pub fn close_unserved(&mut self, cx: &mut Cx<'_>) {
        self.close_idle(cx, |tended, upstream| !tended.upstreams.serves(upstream));
    }

    fn close_idle(&mut self, cx: &mut Cx<'_>, is_closed: impl Fn(&Tended, Upstream) -> bool) {
        let Self { idle, ups, tended, .. } = self;
        for (_, links) in idle.extract_if(.., |upstream, _| is_closed(tended, *upstream)) {
            for link in links {
                let up = ups.get(link);
                up.stage = Stage::Over;
                up.id.into_iter().for_each(|id| cx.close(id));
            }
        }
    }

    /// What is wrong with an upstream with which no TLS came about, which the operator is told; none where it is this side that has ended the link.
    pub fn disagreed(&mut self, cx: &mut Cx<'_>, up: usize, ending: Ending) -> Option<Failure> {
        let own = cx.id();
        let refused = cx.peer(own).and_then(|peer| peer.learned?.refused.clone());
        let up = self.ups.get(up);
        let reach = self.tended.upstreams.reach(up.upstream);
        let failure = failure_to_agree(ending, reach.as_ref(), refused.is_some(), up.way.is_some())?;
        let name = self.tended.upstreams.shown_name(up.upstream).unwrap_or_default();
        let why = refused.unwrap_or_else(|| "it has not ended its handshake in time".to_owned());
        cx.report_kind("untrusted", Level::Warn, format_args!("no TLS with upstream {name}: {why}"));
        Some(failure)
    }

    /// A way for a request, which an upstream is chosen for.
    pub fn add_way(&mut self, cx: &mut Cx<'_>, facts: Facts, from: &Address) -> Result<usize, Fault> {
        let (now, client) = (cx.now(), cx.id());
        let caller = Caller { key: self.tended.key(from), client: client_key(from) };
        let upstream = self.tended.upstreams.begin(now, caller, &Default::default());
        let may_wait = self.tended.upstreams.awaits_names(0) && self.early.len() < EARLY_MAX;
        let within = match upstream {
            Some(_) => self.timeout,
            None if may_wait => cx.limits().connect_limit.min(self.timeout),
            None => return Err(self.why_nobody(caller.client)),
        };
        // Those that wait for names may have less time than all before.
        if !self.is_alarmed || (upstream.is_none() && self.early.is_empty()) {
            self.alarm_at(cx, now + within);
        }
        let mut new = Way::new((client, facts), (upstream, caller), now);
        if let Some(upstream) = upstream {
            new.tried.add(upstream);
        }
        Ok(self.ways.add(|old| match old {
            Some(old) => {
                old.renew(new);
                None
            }
            None => Some(new),
        }))
    }

    /// Why no upstream takes a request of this client.
    pub fn why_nobody(&self, client: u64) -> Fault {
        if self.tended.upstreams.is_full(0, client) { Fault::Crowded } else { Fault::Nobody }
    }

    /// Chooses an upstream for a request that has waited for names; whether there is one.
    pub fn place(&mut self, now: Instant, number: usize) -> bool {
        let way = self.ways.get(number);
        way.upstream = self.tended.upstreams.begin(now, way.caller, &Default::default());
        if let Some(upstream) = way.upstream {
            way.tried.add(upstream);
            (way.began_at, way.active_at) = (now, now);
        }
        way.upstream.is_some()
    }
}
