//! The limits of a connection in time: which of them comes first, and what is judged when it is over.

use crate::connection::busy::{Blocked, Busy};
use crate::connection::delivery::Delivery;
use crate::connection::entry::Connection;
use crate::connection::found::Found;
use crate::connection::machine::{Draining, Phase};
use crate::limits::{Limits, RATE_GRACE, SECOND};
use crate::words::class;
use crate::words::ticket::Ticket;
use corelane_lane::Kit;
use corelane_seam::{Handle, nanoseconds};
use std::time::Duration;

/// The end of the stream counts for so much of what the system holds, until the peer has noted it: there is nothing else where the peer has all.
const END_ALONE: usize = 1;

/// How long a connection whose input waits may hear nothing of its peer, until the system is asked whether it is still there.
const DEAF: u64 = SECOND;
/// So many times it is asked one second after the other, for as long as `send_limit` usually is. Then it is asked at times that double, and so often at the most: a lane on which nothing
/// happens is to rest.
const DEAF_STEADY: u8 = 60;
const DEAF_LOOKS_MAX: u8 = DEAF_STEADY + 12;

impl Found<'_> {
    /// Has the timer run for as long as it may take to open.
    pub(crate) fn time_opening(&mut self, kit: &mut Kit) {
        assert!(self.connection.machine.phase() == Phase::Opening && self.connection.timer.is_none(), "it is timed once");
        let deadline = self.connection.active_at.saturating_add(nanoseconds(self.limits().connect_limit));
        self.start_timer(kit, deadline);
    }

    /// Starts or moves the connection's timer so that it does not come after the next deadline.
    pub(crate) fn set_deadline(&mut self, kit: &mut Kit) {
        let Connection { timer, timer_at, machine, .. } = &*self.connection;
        debug_assert!(timer.is_some() || *timer_at == u64::MAX || machine.has_ended(), "who awaits a time has a timer");
        let Some((deadline, _)) = self.connection.deadline(self.limits()) else { return };
        if deadline >= self.connection.timer_at {
            return;
        }
        self.move_timer(kit, deadline);
    }

    /// Its input waits at a bound, or has ended, so nothing tells that it was broken off: the timer comes within a second, whatever its limits, and the system is asked. Whoever waits for less
    /// costs nothing but a look at the clock.
    pub(crate) fn time_deafness(&mut self, kit: &mut Kit) {
        debug_assert!(self.is_connected(), "whose input waits has its socket");
        let at = kit.now() + DEAF;
        if self.connection.is_deaf() && at < self.connection.timer_at {
            self.connection.deaf_looks = 0;
            self.move_timer(kit, at);
        }
    }

    /// The timer has come of one that hears nothing: the system is asked, and asked again later.
    fn look_whether_there(&mut self, kit: &mut Kit) {
        debug_assert!(self.connection.is_deaf(), "whoever hears is told");
        let looks = self.connection.deaf_looks;
        if looks >= DEAF_LOOKS_MAX {
            return;
        }
        self.agenda.deliveries.ask_whether_there(self.id);
        self.connection.deaf_looks = looks + 1;
        let at = kit.now() + (DEAF << looks.saturating_sub(DEAF_STEADY));
        if at < self.connection.timer_at {
            self.move_timer(kit, at);
        }
    }

    pub(super) fn move_timer(&mut self, kit: &mut Kit, to: u64) {
        assert!(!self.connection.machine.has_ended(), "what has ended waits for nothing but its close");
        if let Some(timer) = self.connection.timer.take() {
            kit.stop_timer(timer);
        }
        self.start_timer(kit, to);
    }

    fn start_timer(&mut self, kit: &mut Kit, deadline: u64) {
        debug_assert!(self.connection.timer.is_none(), "one timer at a time");
        self.connection.timer_at = deadline;
        let handle = Handle::new(class::DEADLINE, self.id.index, self.id.generation);
        self.connection.timer = Some(kit.start_timer(deadline, handle));
    }

    /// The timer has come; returns the limit that is over. It may be too early: deadlines that move back do not move it.
    pub(crate) fn timer_came(&mut self, kit: &mut Kit) -> Option<Limit> {
        debug_assert!(self.connection.timer.is_some() || self.connection.machine.has_ended(), "a timer comes that was started");
        (self.connection.timer, self.connection.timer_at) = (None, u64::MAX);
        let limits = *self.limits();
        let passed = self.connection.deadline(&limits).filter(|(deadline, _)| *deadline <= kit.now()).map(|(_, limit)| limit);
        match passed {
            Some(Limit::Rate) if self.connection.judge_rate(kit.now(), &limits) => {}
            Some(limit) => return Some(limit),
            None => {}
        }
        self.connection.bridging.go_on();
        self.set_deadline(kit);
        if self.connection.is_deaf() {
            self.look_whether_there(kit);
        }
        None
    }

    /// Takes back the ticket whose time has come, and gives another one for the same request, with the token of its hold.
    pub(crate) fn expire_ticket(&mut self, now: u64) -> (Ticket, u64) {
        debug_assert!(!self.connection.machine.has_ended(), "a ticket expires before the end");
        // reason: the deadline is of a ticket that is held in the box.
        let busy = self.connection.busy.as_mut().expect("a ticket that expires is held in the box");
        // reason: as above; it came first of all deadlines.
        busy.output.expire(now).expect("a ticket is held whose time has come")
    }

    /// Has the system asked, before this turn's operations are carried out, what the peer has not taken.
    pub(crate) fn ask_of_delivery(&mut self) {
        debug_assert!(self.connection.machine.phase() > Phase::Opening, "what was opened is sent something");
        let id = self.id;
        self.agenda.deliveries.ask(id);
    }

    /// The system holds so much that the peer has not taken: false if it has taken too little for `send_limit`. All may have left since.
    pub(crate) fn judge_delivery(&mut self, now: u64, held: usize) -> bool {
        debug_assert!(self.connection.machine.phase() < Phase::Lingering, "what lingers is judged otherwise");
        let limits = *self.limits();
        let owes_last_word = self.connection.machine.owes_last_word();
        let busy = self.connection.busy.as_mut().filter(|busy| busy.delivery.is_awaited());
        let Some(busy) = busy else { return true };
        if !owes_last_word && busy.waits_for_system(held, &limits) {
            busy.delivery = Delivery::NONE;
            busy.delivery.begin(now);
            return true;
        }
        busy.delivery.judge(now, held, &limits)
    }

    /// The same once our side has finished, and the peer has not. It is waited for as long as it takes what it was sent, because a close with bytes of its own on their way
    /// would be a reset, which takes that from it (RFC 9112 section 9.6).
    pub(crate) fn judge_lingering(&mut self, kit: &Kit, held: usize) -> bool {
        assert!(self.connection.machine.phase() == Phase::Lingering, "only what lingers is judged so");
        let (now, limits) = (kit.now(), *self.limits());
        if self.connection.linger_deadline(&limits) > now {
            return true;
        }
        let busy = self.busy(&kit.arena);
        busy.delivery.begin(now);
        if held <= END_ALONE || !busy.delivery.judge(now, held, &limits) {
            return false;
        }
        (self.connection.active_at, self.connection.finished_at) = (now, now);
        true
    }
}

/// The limits of a connection in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Connect,
    Handshake,
    Idle,
    Read,
    Rate,
    Send,
    Answer,
    /// Of one ticket, as its service has set it.
    Ticket,
    Linger,
    Drain,
}

impl Connection {
    /// Whether nothing is under way that would tell that it was broken off. So it is while its input waits at a bound, and behind its peer's end.
    pub(crate) fn is_deaf(&self) -> bool {
        let Self { machine, .. } = self;
        let hears = machine.is_receiving() || machine.is_sending();
        machine.phase() == Phase::Open && !hears
    }

    /// The first deadline that is running, and which limit it belongs to.
    fn deadline(&self, limits: &Limits) -> Option<(u64, Limit)> {
        let phase = self.machine.phase();
        if phase == Phase::Handshake {
            let record =
                self.busy.as_deref().filter(|_| self.waits_for_record()).and_then(|busy| self.record_deadline(busy, limits));
            return earlier(self.handshake_deadline(limits), record);
        }
        if phase == Phase::Lingering {
            return Some((self.linger_deadline(limits), Limit::Linger));
        }
        let at_work = matches!(phase, Phase::Open | Phase::Closing | Phase::GivenUp | Phase::Refusing);
        let Some(busy) = self.busy.as_deref().filter(|_| at_work) else {
            return match phase {
                Phase::Opening => after(self.active_at, limits.connect_limit, Limit::Connect),
                Phase::Ended => None,
                _ => self.quiet_deadline(limits),
            };
        };
        // The service is not late while the peer has answers to take.
        let answer = busy.answer_deadline(limits).filter(|_| !self.has_output());
        earlier(earlier(self.work_deadline(busy, limits), answer), busy.expiry())
    }

    /// The deadline for the peer's next move while something is under way.
    fn work_deadline(&self, busy: &Busy, limits: &Limits) -> Option<(u64, Limit)> {
        debug_assert!(self.machine.phase() > Phase::Handshake, "what is at work was opened");
        if busy.awaits_file() {
            return None; // the disk's time is not the peer's
        }
        let send = || busy.delivery.deadline(limits).map(|deadline| (deadline, Limit::Send));
        if self.has_output() || self.machine.owes_last_word() {
            return send();
        }
        // Memory that is not released is held for the peer, or for what carries it there.
        let release = if busy.window.is_empty() { None } else { send() };
        earlier(release, self.input_deadline(busy, limits))
    }

    /// The same where nothing is to be sent.
    fn input_deadline(&self, busy: &Busy, limits: &Limits) -> Option<(u64, Limit)> {
        debug_assert!(!self.has_output(), "a peer that has answers to take owes nothing else");
        // Nobody waits for the rest of a record on a connection that is being closed: its answers go first, however long they take.
        if self.machine.phase() == Phase::Open && self.waits_for_record() {
            return self.record_deadline(busy, limits);
        }
        if busy.output.held() > 0 || busy.blocked == Blocked::Helpers { None } else { self.quiet_deadline(limits) }
    }

    /// Judges the record's rate: whether it has grown fast enough since the last look. If so, the next look counts from now, so that nobody
    /// earns a rest by early bytes.
    fn judge_rate(&mut self, now: u64, limits: &Limits) -> bool {
        debug_assert!(self.waits_for_record(), "a record has a rate");
        // reason: the limit is that of a record, which is in it.
        let busy = self.busy.as_mut().expect("a connection in a record has its box");
        let least = limits.receive_rate_min.saturating_mul(busy.rate_grace(limits) / SECOND);
        let keeps = busy.record_bytes.saturating_sub(busy.rate_bytes) >= least;
        if keeps {
            busy.restart_rate(now);
        }
        keeps
    }

    /// While the peer still sends, it may still be reading what was sent to it; but it gets no unlimited time.
    fn linger_deadline(&self, limits: &Limits) -> u64 {
        debug_assert!(self.machine.phase() == Phase::Lingering, "only what lingers has that limit");
        let quiet = self.active_at.saturating_add(nanoseconds(limits.linger_limit));
        quiet.min(self.finished_at.saturating_add(nanoseconds(limits.drain_limit.max(limits.linger_limit))))
    }

    /// Whether a record has begun to arrive, and the rest is awaited. Begun records may hold all memory of the lane: then none of them
    /// ever gets the rest, unless some are given up.
    fn waits_for_record(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.in_record() && (self.is_starved || !busy.is_blocked()))
    }

    /// The deadline of a record that has begun to arrive: for all of it, and for its rate unless we made it wait for memory.
    fn record_deadline(&self, busy: &Busy, limits: &Limits) -> Option<(u64, Limit)> {
        debug_assert!(busy.in_record(), "a record has a deadline");
        let read = after(busy.record_since, limits.read_limit, Limit::Read);
        let rate = (limits.receive_rate_min > 0).then(|| (busy.rate_since.saturating_add(busy.rate_grace(limits)), Limit::Rate));
        if self.is_starved { read } else { earlier(read, rate) }
    }

    /// A drain does not wait for a handshake that does not go on.
    fn handshake_deadline(&self, limits: &Limits) -> Option<(u64, Limit)> {
        debug_assert!(self.machine.is_in_handshake(), "a handshake has a deadline");
        match self.machine.draining() {
            Draining::First => {
                after(self.active_at, limits.handshake_limit.min(Duration::from_nanos(FIRST_REQUEST)), Limit::Drain)
            }
            _ => after(self.active_at, limits.handshake_limit, Limit::Handshake),
        }
    }

    /// The deadline of a connection that nothing is asked of.
    fn quiet_deadline(&self, limits: &Limits) -> Option<(u64, Limit)> {
        match self.machine.draining() {
            _ if self.machine.phase() != Phase::Open => None,
            Draining::First => Some((self.active_at.saturating_add(FIRST_REQUEST), Limit::Drain)),
            _ => after(self.active_at, limits.idle_limit, Limit::Idle),
        }
    }
}

impl Busy {
    /// Over how long its rate is counted: senders of long messages may pause.
    fn rate_grace(&self, limits: &Limits) -> u64 {
        if self.is_amid() { RATE_GRACE.max(nanoseconds(limits.read_limit)) } else { RATE_GRACE }
    }

    /// The deadline for the service's answers.
    fn answer_deadline(&self, limits: &Limits) -> Option<(u64, Limit)> {
        self.output.oldest_held().and_then(|since| after(since, limits.answer_limit, Limit::Answer))
    }

    /// When the first of its tickets expires that do.
    fn expiry(&self) -> Option<(u64, Limit)> {
        let expires = self.output.expires();
        (expires < u64::MAX).then_some((expires, Limit::Ticket))
    }
}

/// The deadline that comes first; of two at once the first one.
fn earlier(one: Option<(u64, Limit)>, other: Option<(u64, Limit)>) -> Option<(u64, Limit)> {
    match (one, other) {
        (Some(one), Some(other)) if other.0 < one.0 => Some(other),
        (one, other) => one.or(other),
    }
}

/// How long a connection that was accepted during a drain may take to send its first request.
const FIRST_REQUEST: u64 = SECOND;

fn after(since: u64, patience: Duration, limit: Limit) -> Option<(u64, Limit)> {
    (!patience.is_zero()).then(|| (since.saturating_add(nanoseconds(patience)), limit))
}
