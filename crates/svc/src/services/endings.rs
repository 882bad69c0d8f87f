//! How connections end: exactly once, with the one ending that was decided first or overruled it.

use crate::connection::entry::{Busy, Connection, PairAt};
use crate::connection::found::Found;
use crate::connection::machine::{Draining, Phase};
use crate::limits::{Limits, RATE_GRACE, SECOND};
use crate::service::port::Callback;
use crate::services::Services;
use crate::services::served::Served;
use crate::table::LaneTable;
use crate::words::class;
use crate::words::names::{ConnectionId, Ending, Peer};
use corelane_lane::Kit;
use corelane_rss::Protocol;
use corelane_seam::{Address, Fault, Handle, Level, Op, Record, Socket, nanoseconds};
use corelane_watch::ServiceCounter;
use std::sync::Arc;
use std::time::Duration;

impl Services {
    /// The socket is closed: the entry is free, and others may take its place.
    pub(crate) fn socket_closed(&mut self, kit: &mut Kit, index: u32) {
        let connection = self.served.table.there(index).connection;
        assert!(connection.machine.has_ended(), "a socket was closed that nobody had asked to close");
        let service = connection.service();
        let LaneTable { connections, services, desk, .. } = &mut self.served.table;
        let transform = connections.dismiss(services, desk, index, &kit.arena);
        self.served.table.discard(kit, service, transform);
        self.served.table.accept_again(kit);
        self.admit_waiting(kit, service);
        self.admit_others(kit, service);
    }

    /// Room under the lane's bound serves the other services too.
    fn admit_others(&mut self, kit: &mut Kit, service: u16) {
        for other in 0..self.served.table.services.len() as u16 {
            if other != service && !self.served.table.services[other as usize].waiting.is_empty() {
                self.admit_waiting(kit, other);
            }
        }
    }

    /// An outgoing connection could not be opened, or was given up before it was.
    pub(crate) fn opening_failed(&mut self, kit: &mut Kit, index: u32, fault: Fault) {
        assert!(self.served.table.connections.there(index).socket.is_none(), "what has a socket was opened");
        if self.served.table.try_another_port(kit, index, fault) {
            return;
        }
        self.served.table.there(index).count(ServiceCounter::ConnectsFailed, 1);
        self.served.end_by_fault(kit, index, fault);
        self.socket_closed(kit, index);
    }
}

impl Served {
    /// Ends a connection. `Completed` and `Closing` let the output leave first; the others end it now.
    pub(crate) fn end(&mut self, kit: &mut Kit, index: u32, ending: Ending) {
        let mut found = self.table.there(index);
        match found.connection.machine.phase() {
            Phase::Ended => {}
            Phase::Opening => self.close_now(kit, index, ending),
            _ if found.connection.machine.is_gentle(ending) => {
                found.close_behind(kit, ending);
            }
            _ => self.close_now(kit, index, ending),
        }
    }

    /// Tells the service, and submits the close; the entry is free when that has completed. Nothing if it has ended.
    pub(crate) fn close_now(&mut self, kit: &mut Kit, index: u32, ending: Ending) {
        // The service gets the session of a connection that it was opening only now, to be told of the end.
        self.adopt_session(kit, index);
        let mut found = self.table.there(index);
        if found.connection.machine.has_ended() {
            return;
        }
        let reset = found.change(kit.now(), |machine| machine.end(ending));
        assert!(found.connection.machine.ending() == Some(ending), "a connection ends as it is told, and no other way");
        let (handle, socket) = (found.handle(), found.connection.socket);
        let connection = &mut *found.connection;
        let (session, timer, pair) = (connection.session.take(), connection.timer.take(), connection.pair.take());
        found.count(counter_of(ending), 1);
        if let Some(timer) = timer {
            kit.stop_timer(timer);
        }
        match socket {
            Some(socket) => kit.submit(handle, Op::Close { socket, reset }),
            // After the end of the connect, cancelling it does nothing.
            None => kit.submit(handle, Op::Cancel { target: handle }),
        }
        if let Some(session) = session {
            self.connection_call(kit, index, |port, cx| port.closed(cx, session, ending));
        }
        let LaneTable { connections, timers, .. } = &mut self.table;
        timers.end_all(kit, &mut connections.there(index).timers);
        let found = self.table.there(index);
        if let Some(busy) = found.connection.busy.take() {
            found.desk.recycle(busy);
        }
        if let Some(pair) = pair {
            self.leave_pair(kit, index, pair, ending);
        }
    }

    /// One of a pair has ended: the other ends with it, or goes on alone after an end of stream.
    pub(crate) fn leave_pair(&mut self, kit: &mut Kit, index: u32, pair: ConnectionId, ending: Ending) {
        let own = self.table.connections.id_of(index);
        // While the service was told, it may have ended, or been coupled with another.
        let Some(other) = self.table.find(pair).filter(|other| other.pair.get() == own) else { return };
        other.pair = PairAt::NONE;
        if ending == Ending::EndOfStream {
            return;
        }
        if matches!(ending, Ending::Error | Ending::Aborted) {
            other.machine.pass_on_cut();
        }
        self.end(kit, pair.index, Ending::Closing);
    }

    /// An outgoing connection is open.
    pub(crate) fn opened(&mut self, kit: &mut Kit, index: u32, socket: Socket, peer: Address, local: Address) {
        let found = self.table.there(index);
        assert!(found.connection.socket.is_none() && found.connection.session.is_none(), "a connection opens once");
        found.connection.socket = Some(socket);
        if found.connection.machine.has_ended() {
            // It was given up before it was open; now there is a socket to close.
            found.count(ServiceCounter::ConnectsFailed, 1);
            return kit.submit(found.handle(), Op::Close { socket, reset: true });
        }
        let flow = self.table.flow(&peer, &local, Protocol::TCP);
        let found = self.table.there(index);
        found.connection.peer = Peer { address: peer, local: Arc::new(local), flow, learned: None };
        found.connection.active_at = kit.now();
        found.connection.machine.opened();
        found.desk.tell_open(index, flow, kit.now());
        found.count(ServiceCounter::Connects, 1);
        let service = found.connection.service();
        self.table.count_home(service, flow, kit.lane());
        self.begin(kit, index);
        self.table.there(index).mark_dirty();
    }

    /// Ends a connection whose socket failed; its service may ask why.
    pub(crate) fn end_by_fault(&mut self, kit: &mut Kit, index: u32, fault: Fault) {
        assert!(self.table.fault.is_none(), "one connection at a time ends by a fault");
        self.table.fault = Some(fault);
        self.end(kit, index, Ending::Error);
        self.table.fault = None;
    }

    pub(crate) fn adopt_session(&mut self, kit: &mut Kit, index: u32) {
        // A panic of its service may have ended it, and dropped that, before.
        let Some(session) = self.table.connections.take_session(index) else { return };
        let session = self.connection_call(kit, index, |port, _| port.adopt(session)).flatten();
        self.begin_session(kit, index, session);
    }

    /// A connection's timer has come. It may be too early: deadlines that move back do not move it.
    pub(crate) fn deadline_came(&mut self, kit: &mut Kit, handle: Handle) {
        let id = ConnectionId { index: handle.index(), generation: handle.generation() };
        // It may have gone in the turn in which the timer came.
        let Some(mut found) = self.table.found(id) else { return };
        (found.connection.timer, found.connection.timer_at) = (None, u64::MAX);
        match found.deadline() {
            Some((deadline, limit)) if deadline <= kit.now() => self.limit_passed(kit, id.index, limit),
            _ => found.set_deadline(kit),
        }
    }

    fn limit_passed(&mut self, kit: &mut Kit, index: u32, limit: Limit) {
        let mut found = self.table.there(index);
        let limits = *found.limits();
        if limit == Limit::Rate && found.connection.judge_rate(kit.now(), &limits) {
            return found.set_deadline(kit);
        }
        let (counter, ending) = match limit {
            Limit::Connect => return self.table.opening_timed_out(kit, index),
            Limit::Ticket => return self.ticket_expired(kit, index),
            // The system knows what the peer has taken.
            Limit::Send | Limit::Linger => return found.ask_of_delivery(),
            Limit::Handshake => (ServiceCounter::HandshakeLimitHits, Ending::Aborted),
            Limit::Idle => (ServiceCounter::IdleLimitHits, Ending::Closing),
            Limit::Read => (ServiceCounter::ReadLimitHits, Ending::Aborted),
            Limit::Rate => (ServiceCounter::ReceiveRateMinHits, Ending::Aborted),
            Limit::Answer => (ServiceCounter::AnswerLimitHits, Ending::Aborted),
            Limit::Drain => (ServiceCounter::DrainDeadlineHits, Ending::Closing),
        };
        found.count(counter, 1);
        let service = found.connection.service();
        match limit {
            Limit::Read | Limit::Rate => self.end_overdue(kit, index),
            _ => self.end(kit, index, ending),
        }
        if limit == Limit::Answer {
            self.table.tell_of_unanswered(kit, service);
        }
        self.table.there(index).set_deadline(kit);
    }

    /// What the peer has begun to send did not come in time: the service may say so to it.
    fn end_overdue(&mut self, kit: &mut Kit, index: u32) {
        if self.table.there(index).connection.machine.phase() == Phase::Open {
            self.call(kit, index, Callback::Overdue);
        }
        // It goes on no more, whatever the service wants.
        let phase = self.table.there(index).connection.machine.phase();
        if matches!(phase, Phase::Handshake | Phase::Open) {
            self.end(kit, index, Ending::Aborted);
        }
    }

    /// A ticket of the connection has expired: its service decides what follows.
    fn ticket_expired(&mut self, kit: &mut Kit, index: u32) {
        let found = self.table.there(index);
        // reason: the deadline is of a ticket that is held in the box.
        let busy = found.connection.busy.as_mut().expect("a ticket that expires is held in the box");
        // reason: as above; it came first of all deadlines.
        let (ticket, token) = busy.output.expire(kit.now()).expect("a ticket is held whose time has come");
        self.call(kit, index, Callback::Expired(ticket, token));
        // The call may have ended it.
        if let Some(mut found) = self.table.at(index) {
            found.set_deadline(kit);
        }
    }
}

impl LaneTable {
    /// A service that never answers what it holds is at fault: reported once.
    fn tell_of_unanswered(&mut self, kit: &mut Kit, service: u16) {
        let state = &mut self.services[service as usize];
        if std::mem::replace(&mut state.told_of_unanswered, true) {
            return;
        }
        let (lane, limit, service) = (kit.lane(), state.limits.answer_limit.as_millis(), state.shown(service));
        let words = format!(
            "lane {lane}, {service}: a held request had no answer within {limit} ms (answer_limit), and its connection is ended; others are counted in answer_limit_hits"
        );
        kit.report(Record::new(Level::Warn, words).naming_lane(lane));
    }

    /// The connect is cancelled; its completion, whichever it is, frees the entry.
    fn opening_timed_out(&mut self, kit: &mut Kit, index: u32) {
        assert!(self.connections.there(index).machine.phase() == Phase::Opening, "only what is being opened is given up so");
        let target = self.connections.handle(class::CONNECTION, index);
        kit.submit(target, Op::Cancel { target });
    }
}

impl Found<'_> {
    /// Closes it behind its output.
    pub(crate) fn close_behind(&mut self, kit: &Kit, ending: Ending) {
        if self.change(kit.now(), |machine| machine.close(ending)) {
            self.drop_unpassed();
        }
        self.mark_dirty();
    }

    /// Starts or moves the connection's timer so that it does not come after the next deadline.
    pub(crate) fn set_deadline(&mut self, kit: &mut Kit) {
        let Some((deadline, _)) = self.deadline() else { return };
        if deadline >= self.connection.timer_at {
            return;
        }
        assert!(!self.connection.machine.has_ended(), "what has ended waits for nothing but its close");
        if let Some(timer) = self.connection.timer.take() {
            kit.stop_timer(timer);
        }
        self.connection.timer_at = deadline;
        let handle = Handle::new(class::DEADLINE, self.id.index, self.id.generation);
        self.connection.timer = Some(kit.start_timer(deadline, handle));
    }

    /// The next deadline of the connection, and which limit it belongs to.
    fn deadline(&self) -> Option<(u64, Limit)> {
        self.connection.deadline(self.limits())
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
    /// The first deadline that is running.
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
        let at_work = matches!(phase, Phase::Open | Phase::Closing | Phase::Refusing);
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
        if busy.awaits_file() {
            return None; // the disk's time is not the peer's
        }
        if self.has_output() || self.machine.owes_last_word() {
            return busy.delivery.deadline(limits).map(|deadline| (deadline, Limit::Send));
        }
        // Nobody waits for the rest of a record on a connection that is being closed: its answers go first, however long they take.
        if self.machine.phase() == Phase::Open && self.waits_for_record() {
            return self.record_deadline(busy, limits);
        }
        if busy.output.held() > 0 || busy.awaits_offload { None } else { self.quiet_deadline(limits) }
    }

    /// Judges the record's rate: whether it has grown fast enough since the last look. If so, the next look counts from now, so that nobody
    /// earns a rest by early bytes.
    fn judge_rate(&mut self, now: u64, limits: &Limits) -> bool {
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
    pub(crate) fn linger_deadline(&self, limits: &Limits) -> u64 {
        let quiet = self.active_at.saturating_add(nanoseconds(limits.linger_limit));
        quiet.min(self.finished_at.saturating_add(nanoseconds(limits.drain_limit.max(limits.linger_limit))))
    }

    /// Whether a record has begun to arrive, and the rest is awaited. Begun records may hold all memory of the lane: then none of them
    /// ever gets the rest, unless some are given up.
    fn waits_for_record(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.in_record() && (self.is_starved || !busy.blocked))
    }

    /// The deadline of a record that has begun to arrive: for all of it, and for its rate unless we made it wait for memory.
    fn record_deadline(&self, busy: &Busy, limits: &Limits) -> Option<(u64, Limit)> {
        let read = after(busy.record_since, limits.read_limit, Limit::Read);
        let rate = (limits.receive_rate_min > 0).then(|| (busy.rate_since.saturating_add(busy.rate_grace(limits)), Limit::Rate));
        if self.is_starved { read } else { earlier(read, rate) }
    }

    /// A drain does not wait for a handshake that does not go on.
    fn handshake_deadline(&self, limits: &Limits) -> Option<(u64, Limit)> {
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

fn counter_of(ending: Ending) -> ServiceCounter {
    match ending {
        Ending::Completed => ServiceCounter::EndingsCompleted,
        Ending::EndOfStream => ServiceCounter::EndingsEndOfStream,
        Ending::Closing => ServiceCounter::EndingsClosing,
        Ending::Error => ServiceCounter::EndingsError,
        Ending::Aborted => ServiceCounter::EndingsAborted,
    }
}
