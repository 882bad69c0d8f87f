//! The end of a turn for a connection that was touched: one send, then what its state asks for, then the next of its limits in time, and what is judged when that is over.

use crate::connection::delivery::Delivery;
use crate::connection::entry::Connection;
use crate::connection::entry::{Blocked, Busy};
use crate::connection::events::Calling;
use crate::connection::found::Found;
use crate::connection::machine::{Draining, Facts, Pause, Phase, Settled, Step};
use crate::connection::passage::Broken;
use crate::limits::{Limits, RATE_GRACE, SECOND};
use crate::pending::requests::Requests;
use crate::words::class;
use crate::words::names::{ConnectionId, Ending};
use crate::words::ticket::Ticket;
use corelane_lane::Kit;
use corelane_seam::slab::Others;
use corelane_seam::{Handle, Op, RECEIVE_BYTES_LEAST, StreamOp, nanoseconds};
use corelane_watch::ServiceCounter;
use std::time::Duration;

/// What a connection comes to in its flush that concerns more than itself.
pub(crate) enum Reach {
    Breaks(Broken),
    /// The service is told that all output has left.
    Calls(Calling),
    Ends(Ending),
    /// It ends, and so does the other of its pair.
    EndsWith(ConnectionId),
    /// The transform of the other of its pair says its last word.
    TakesLeaveOf(ConnectionId),
}

/// What follows a step.
enum Next {
    /// Another one: the state is asked again.
    Step,
    /// Nothing more in this turn.
    Rest,
    Reach(Reach),
}

impl Found<'_> {
    /// Takes it from those that are to be flushed; false if it is none of them.
    pub(crate) fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.connection.is_dirty)
    }

    /// Submits what may leave, and takes the steps that the connection's state asks for, until it rests, or as far as they concern it alone.
    pub(crate) fn flush(&mut self, kit: &mut Kit, others: &mut Others<'_, Connection>, requests: &mut Requests) -> Option<Reach> {
        debug_assert!(!self.connection.is_dirty, "what is flushed is marked no more");
        match self.connection.machine.phase() {
            Phase::Opening | Phase::Ended => return None,
            Phase::Parting | Phase::Lingering => {}
            Phase::Handshake | Phase::Refusing => self.send(kit),
            Phase::Open | Phase::Closing | Phase::GivenUp => {
                self.seal(kit);
                self.drop_late_words();
                if let Err(broken) = self.make_ready(kit, requests) {
                    return Some(Reach::Breaks(broken));
                }
                self.send(kit);
            }
        }
        self.take_steps(kit, others)
    }

    /// Makes ready what may leave: by the connection's transform, or by reading what lies in a far file.
    ///
    /// # Errors
    /// Nothing leaves any more.
    fn make_ready(&mut self, kit: &mut Kit, requests: &mut Requests) -> Result<(), Broken> {
        debug_assert!(self.connection.socket.is_some(), "what is open has a socket");
        if self.connection.transform.is_some() {
            return self.pass_output(kit, requests);
        }
        match &self.connection.busy {
            Some(busy) if busy.output.has_far_files() => self.fetch(kit, requests).map_err(Broken::File),
            _ => Ok(()),
        }
    }

    pub(crate) fn take_steps(&mut self, kit: &mut Kit, others: &mut Others<'_, Connection>) -> Option<Reach> {
        loop {
            let step = self.step(others);
            let next = if self.take(kit, step) { Next::Rest } else { self.take_seldom(kit, others, step) };
            match next {
                Next::Step => {}
                Next::Reach(reach) => return Some(reach),
                Next::Rest => {
                    self.come_to_rest(kit);
                    return None;
                }
            }
        }
    }

    /// Takes a step that a request seldom has.
    // Apart, so that the others pay only for the check.
    #[inline(never)]
    fn take_seldom(&mut self, kit: &mut Kit, others: &mut Others<'_, Connection>, step: Step) -> Next {
        match step {
            Step::OutputOverflow => return self.break_off_at(ServiceCounter::OutputMaxHits),
            Step::RecordOverflow => return self.break_off_at(ServiceCounter::RecordMaxHits),
            Step::CallDrained => return Next::Reach(Reach::Calls(self.begin_drained(kit))),
            Step::SettlePair => return self.settle_pair(kit, others),
            Step::TakeLeave => return self.take_leave_and_send(kit),
            Step::End(ending) => return Next::Reach(Reach::Ends(ending)),
            Step::Close(ending) => self.close_behind(kit, ending),
            Step::DropRecord => self.drop_record(),
            Step::Part => self.part(),
            Step::Finish => self.finish(kit),
            Step::FinishHalf => self.finish_half(kit),
            Step::Wait | Step::Receive | Step::Pause(_) => unreachable!("the connection takes this step itself"),
        }
        Next::Step
    }

    fn break_off_at(&self, bound: ServiceCounter) -> Next {
        self.count(bound, 1);
        Next::Reach(Reach::Ends(Ending::Aborted))
    }

    /// The stream of one of a pair has ended: our side of the other finishes as soon as its output has left. When both streams have ended, both end.
    fn settle_pair(&mut self, kit: &mut Kit, others: &mut Others<'_, Connection>) -> Next {
        debug_assert!(
            self.connection.pair.is_some() && self.connection.machine.was_told_of_end(),
            "one of a pair has come to its end"
        );
        let (says_all, (pair, other)) = (self.says_all(), self.other(others));
        let other_says_all = other.holdings(self.limits()).says_all();
        let settled = self.connection.machine.settle_pair(says_all, (&mut other.machine, other_says_all));
        if settled.finishes_other {
            // reason: our side finishes towards a peer only while it is open.
            kit.finish(other.socket.expect("what is open has a socket"));
        }
        match settled {
            Settled { other_takes_leave: true, .. } => Next::Reach(Reach::TakesLeaveOf(pair)),
            Settled { ends: true, .. } => Next::Reach(Reach::EndsWith(pair)),
            Settled { .. } => Next::Rest,
        }
    }

    /// The other of its pair.
    fn other<'o>(&self, others: &'o mut Others<'_, Connection>) -> (ConnectionId, &'o mut Connection) {
        // reason: asked by the callers.
        let pair = self.connection.pair.get().expect("one of a pair has another");
        // reason: whoever ends, or is coupled with another, takes itself from its pair.
        let other = others.get_mut(pair.into()).expect("both of a pair are there until one leaves it");
        assert!(other.pair.get() == Some(self.id), "each of a pair is the other's");
        (pair, other)
    }

    fn take_leave_and_send(&mut self, kit: &mut Kit) -> Next {
        debug_assert!(self.connection.transform.is_some(), "a transform takes leave");
        match self.take_leave(kit) {
            Ok(is_done) => {
                self.send(kit);
                if is_done { Next::Step } else { Next::Rest }
            }
            Err(broken) => Next::Reach(Reach::Breaks(broken)),
        }
    }

    /// Ends the gathering of small writes, and counts what calls have moved.
    fn seal(&mut self, kit: &Kit) {
        debug_assert!(self.connection.machine.phase() > Phase::Handshake, "no output leaves before");
        let Some(mut busy) = self.connection.busy.take() else { return };
        self.note_owed(&mut busy, kit.now());
        busy.output.seal();
        busy.count(kit, &self.state.row);
        self.connection.busy = Some(busy);
    }

    /// Drops what was written by who had said that it says no more.
    fn drop_late_words(&mut self) {
        let has_said_all = self.connection.machine.has_said_all();
        let Some(busy) = self.connection.busy.as_mut().filter(|_| has_said_all) else { return };
        if !busy.output.chain.is_empty() {
            busy.output.chain.clear();
            self.count(ServiceCounter::AnswersLate, 1);
        }
    }

    /// Submits everything that may leave, unless the last send is still under way, or too many are unreleased.
    pub(crate) fn send(&mut self, kit: &mut Kit) {
        debug_assert!(!self.connection.machine.has_ended(), "nothing is sent behind the end");
        let handle = self.handle();
        let Self { connection, agenda, .. } = self;
        // Without a box there is nothing to be sent.
        let Some(busy) = connection.busy.as_mut() else { return };
        // reason: it opens with one.
        let socket = connection.socket.expect("what is open has a socket");
        let is_plain = connection.transform.is_none();
        let has_none =
            if is_plain { busy.output.chain.is_empty() || busy.output.far_at_front().is_some() } else { busy.wire.is_empty() };
        if !connection.machine.may_send() || has_none {
            return;
        }
        let mut chain = agenda.chain();
        match is_plain {
            true if busy.output.has_far_files() => busy.output.move_near(&mut chain),
            true => std::mem::swap(&mut busy.output.chain, &mut chain),
            false => std::mem::swap(&mut busy.wire, &mut chain),
        }
        let compacted = if connection.machine.unreleased() > 0 { chain.compact() } else { 0 };
        busy.window.begin(chain.held());
        busy.delivery.begin(kit.now());
        busy.output.begin_to_leave();
        connection.machine.begin_send();
        kit.submit(handle, StreamOp::Send { socket, chain });
        // Where what is sent is kept, it is to keep no large block for few bytes.
        if compacted > 0 {
            self.count(ServiceCounter::BytesCompacted, compacted);
        }
    }

    fn says_all(&self) -> bool {
        self.connection.holdings(self.limits()).says_all()
    }

    /// What the connection's state asks for next. One of a pair reads nothing for which the other has no room.
    fn step(&self, others: &mut Others<'_, Connection>) -> Step {
        let step = self.connection.machine.step(&self.connection.holdings(self.limits()));
        let is_asked = step == Step::Receive && self.connection.pair.is_some() && !self.connection.machine.is_in_handshake();
        if !is_asked {
            return step;
        }
        let held = self.other(others).1.busy.as_ref().map_or(0, |busy| busy.output_held());
        if held >= self.limits().output_high { Step::Pause(Pause::Output) } else { step }
    }

    /// Takes a step that concerns this connection alone; false if it is none.
    fn take(&mut self, kit: &mut Kit, step: Step) -> bool {
        let pause = match step {
            Step::Wait => None,
            Step::Receive if self.ask_to_receive(kit) => None,
            Step::Receive => Some(Pause::Memory),
            Step::Pause(pause) => Some(pause),
            _ => return false,
        };
        let hit = pause.and_then(Pause::counter);
        if let Some(counter) = hit.filter(|_| !self.connection.is_at_bound) {
            self.count(counter, 1);
        }
        self.connection.is_at_bound = hit.is_some();
        if step == Step::Receive && pause.is_none() {
            self.arm_receive(kit);
        }
        true
    }

    /// Submits the next receive.
    fn arm_receive(&mut self, kit: &mut Kit) {
        debug_assert!(!self.connection.machine.peer_has_finished(), "nothing comes behind the end");
        let handle = self.handle();
        let op = self.connection.receive_op();
        let stop = self.connection.socket.filter(|_| self.connection.machine.takes_what_is_there());
        self.connection.machine.begin_receive();
        kit.submit(handle, op);
        if let Some(socket) = stop {
            kit.submit(handle, Op::StopReceive { socket });
        }
    }

    /// The peer finished in the middle of a record: the part that came will never be answered.
    fn drop_record(&mut self) {
        self.connection.machine.drop_record();
        // reason: the record is in it.
        self.connection.busy.as_mut().expect("a connection in a record has its box").drop_record();
        self.count(ServiceCounter::RecordsTruncated, 1);
    }

    /// Both have said all. A close would be a reset where the peer has not taken everything, or has sent more than was received.
    fn part(&mut self) {
        debug_assert!(self.connection.transform.is_none(), "a transform has its own end");
        self.connection.machine.part();
        self.ask_of_delivery();
    }

    /// The peer has not taken all that it was sent, or has sent more: it is waited for.
    pub(crate) fn linger(&mut self, kit: &mut Kit) {
        debug_assert!(self.connection.machine.phase() == Phase::Parting, "what was asked for lingers");
        self.finish(kit);
        self.mark_dirty();
    }

    /// Our side has said all: finish it, and wait for the peer's end, if it is awaited.
    fn finish(&mut self, kit: &mut Kit) {
        debug_assert!(self.connection.socket.is_some(), "what finishes was open");
        (self.connection.active_at, self.connection.finished_at) = (kit.now(), kit.now());
        let tells = self.connection.machine.finish();
        // Where the peer has finished too, it is told by the close, which comes at once.
        if tells && !self.connection.machine.peer_has_finished() {
            // reason: it opens with one.
            kit.finish(self.connection.socket.expect("what is open has a socket"));
        }
    }

    /// Our side has said all, and still listens.
    fn finish_half(&mut self, kit: &mut Kit) {
        let tells = self.connection.machine.finish_half();
        assert!(tells, "our side finishes once");
        // reason: it opens with one.
        kit.finish(self.connection.socket.expect("what is open has a socket"));
    }

    /// After all steps of a turn: gives back what is not needed, and sets the next deadline.
    pub(crate) fn come_to_rest(&mut self, kit: &mut Kit) {
        self.put_away();
        self.set_deadline(kit);
    }

    /// Gives the box back if nothing is in it; else moves bytes that use little of their block to fitting memory.
    fn put_away(&mut self) {
        let is_ready = self.connection.is_ready;
        let lingers = self.connection.machine.phase() == Phase::Lingering;
        let owes_last_word = self.connection.machine.owes_last_word();
        // A connection at rest has none.
        let Some(busy) = self.connection.busy.as_mut() else { return };
        if lingers && busy.delivery.is_awaited() {
            return; // it keeps what the peer takes
        }
        if !busy.in_record() {
            busy.record_bytes = 0;
        }
        // The last word that is still to come has its time in the box.
        if !is_ready && !owes_last_word && busy.is_idle() {
            // reason: it was there just now.
            self.agenda.keep(self.connection.busy.take().expect("a box that is put away is there"));
            return;
        }
        if busy.holds_bytes() {
            let moved = busy.compact();
            self.count(ServiceCounter::BytesCompacted, moved);
        }
    }

    /// Asks whether what arrives next may be charged to the connection; else it waits for memory.
    fn ask_to_receive(&mut self, kit: &Kit) -> bool {
        debug_assert!(!self.connection.machine.is_receiving(), "who receives has asked");
        // A receive into a lease needs no memory: that was lent already.
        let fills = self.connection.busy.as_ref().is_some_and(|busy| busy.fill.is_some());
        let needs_none = fills || !self.connection.machine.serves_input();
        if needs_none || kit.arena.would_lend(self.connection.payer, RECEIVE_BYTES_LEAST) {
            return true;
        }
        if self.agenda.memory.use_grant(self.id) {
            return true;
        }
        self.mark_starved(&kit.arena, RECEIVE_BYTES_LEAST);
        false
    }
}

/// What the system holds of a closed connection when the peer has all: the end of the stream, which the peer has not noted yet.
const END_ALONE: usize = 1;

impl Found<'_> {
    /// Has the timer run for as long as it may take to open.
    pub(crate) fn time_opening(&mut self, kit: &mut Kit) {
        assert!(self.connection.machine.phase() == Phase::Opening && self.connection.timer.is_none(), "it is timed once");
        let deadline = self.connection.active_at.saturating_add(nanoseconds(self.limits().connect_limit));
        self.start_timer(kit, deadline);
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
        self.start_timer(kit, deadline);
    }

    fn start_timer(&mut self, kit: &mut Kit, deadline: u64) {
        debug_assert!(self.connection.timer.is_none(), "one timer at a time");
        self.connection.timer_at = deadline;
        let handle = Handle::new(class::DEADLINE, self.id.index, self.id.generation);
        self.connection.timer = Some(kit.start_timer(deadline, handle));
    }

    /// The next deadline of the connection, and which limit it belongs to.
    fn deadline(&self) -> Option<(u64, Limit)> {
        self.connection.deadline(self.limits())
    }

    /// The timer has come; returns the limit that is over. It may be too early: deadlines that move back do not move it.
    pub(crate) fn timer_came(&mut self, kit: &mut Kit) -> Option<Limit> {
        (self.connection.timer, self.connection.timer_at) = (None, u64::MAX);
        let passed = self.deadline().filter(|(deadline, _)| *deadline <= kit.now()).map(|(_, limit)| limit);
        let limits = *self.limits();
        match passed {
            Some(Limit::Rate) if self.connection.judge_rate(kit.now(), &limits) => {}
            Some(limit) => return Some(limit),
            None => {}
        }
        self.set_deadline(kit);
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
