//! The end of a turn for each connection that was touched: one send, then what its state asks for.

use crate::connection::{Busy, Connection, Draining, Phase};
use crate::limits::Limits;
use crate::port::Call;
use crate::service::{ConnectionId, Ending};
use crate::services::Services;
use crate::streams::receive_op;
use crate::table::{Table, class};
use corelane_lane::Kit;
use corelane_seam::{Chain, Op};
use corelane_watch::ServiceCounter;

/// What a connection's state asks for, after its output was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing until something completes.
    Wait,
    /// The next receive.
    Receive,
    /// Nothing until there is room, or a ticket: the limit that was reached.
    Pause(ServiceCounter),
    /// To be broken off over a limit.
    Overflow(ServiceCounter),
    /// The service wants to produce more.
    CallDrained,
    /// The peer finished within a record.
    DropRecord,
    /// Its stream has ended, and it is one of a pair.
    SettlePair(ConnectionId),
    /// Its time has come.
    End(Ending),
    /// All is said: our side finishes.
    Finish,
}

impl Services {
    /// Flushes every connection that was touched this turn. What that touches itself is flushed in the next one.
    pub(crate) fn flush_dirty(&mut self, kit: &mut Kit) {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.table.take_dirty(&mut dirty);
        for index in dirty.drain(..) {
            if let Some(connection) = self.table.connections.at(index) {
                connection.is_dirty = false;
                self.flush_one(kit, index);
            }
        }
        self.dirty = dirty;
    }

    fn flush_one(&mut self, kit: &mut Kit, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        if matches!(connection.phase, Phase::Opening | Phase::Ended) {
            return;
        }
        if let Some(busy) = connection.busy.as_mut() {
            busy.output.seal();
            busy.count(&self.table.services[connection.service as usize].row);
            if connection.transform.is_some() && !self.transform_output(kit, index) {
                return;
            }
            self.send(kit, index);
        }
        while self.take_step(kit, index) {}
        self.put_away(index);
        self.set_deadline(kit, index);
    }

    /// Submits everything that may leave, unless the last send is still under way.
    fn send(&mut self, kit: &mut Kit, index: u32) {
        let handle = self.table.handle(class::CONNECTION, index);
        let Table { connections, services, chains, memory, .. } = &mut self.table;
        let Some(connection) = connections.at(index) else { return };
        let Some((busy, socket)) = connection.busy.as_mut().zip(connection.socket) else { return };
        let chain = if connection.transform.is_some() { &mut busy.wire } else { &mut busy.output.chain };
        if connection.sending || chain.is_empty() {
            return;
        }
        busy.sending_charged = chain.charged().max(1);
        busy.progress_at = kit.now();
        busy.told_drained = false;
        let chain = std::mem::replace(chain, chains.pop().unwrap_or_default());
        let quiet = !memory.waits() && connection.waits_for_no_send(&services[connection.service as usize].limits, kit.now());
        connection.sending = true;
        if quiet && connection.owes_answer {
            connection.active_at = kit.now();
        }
        kit.submit(handle, Op::Send { socket, chain, quiet });
    }

    /// Does what the connection's state asks for; true if it must be asked again.
    fn take_step(&mut self, kit: &mut Kit, index: u32) -> bool {
        let Some(connection) = self.table.connections.at(index) else { return false };
        let (service, pair) = (connection.service, connection.pair.filter(|_| connection.phase == Phase::Open));
        let mut step = connection.step(&self.table.services[service as usize].limits);
        if step == Step::Receive && pair.is_some_and(|pair| self.has_no_room(pair)) {
            step = Step::Pause(ServiceCounter::OutputHighHits);
        }
        if step == Step::Receive && !self.table.may_receive(index, &kit.arena) {
            step = Step::Pause(ServiceCounter::MemoryHits);
        }
        let Some(connection) = self.table.connections.at(index) else { return false };
        let was_paused = std::mem::replace(&mut connection.is_paused, matches!(step, Step::Pause(_)));
        match step {
            Step::Wait => {}
            Step::Receive => self.arm_receive(kit, index),
            Step::Pause(counter) if !was_paused => self.table.count(service, counter, 1),
            Step::Pause(_) => {}
            Step::Overflow(counter) => {
                self.table.count(service, counter, 1);
                self.end(kit, index, Ending::Aborted);
            }
            Step::CallDrained => {
                self.call_drained(kit, index);
                return true;
            }
            Step::DropRecord => {
                self.drop_record(index);
                return true;
            }
            Step::SettlePair(pair) => self.settle_pair(kit, index, pair),
            Step::End(ending) if connection.phase == Phase::Lingering => self.close_now(kit, index, ending),
            Step::End(ending) => {
                self.end(kit, index, ending);
                return matches!(ending, Ending::Closing | Ending::Completed);
            }
            Step::Finish => {
                self.finish(kit, index);
                return true;
            }
        }
        false
    }

    fn call_drained(&mut self, kit: &mut Kit, index: u32) {
        if let Some(busy) = self.table.connections.at(index).and_then(|connection| connection.busy.as_mut()) {
            busy.output.wants_drained = false;
        }
        self.call(kit, index, Call::Drained);
        let Some(connection) = self.table.connections.at(index) else { return };
        let is_starved = connection.is_starved;
        if let Some(busy) = connection.busy.as_mut() {
            // What was written in small pieces waits to be sent as well: else this would be called again before it has left.
            busy.output.seal();
            // A service that had no memory to go on is asked again when it is called for that.
            busy.output.wants_drained |= is_starved && busy.output.is_empty();
            busy.told_drained = !is_starved;
        }
    }

    /// The peer finished in the middle of a record: what there is of it will never be answered.
    fn drop_record(&mut self, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        let service = connection.service;
        if let Some(busy) = connection.busy.as_mut() {
            busy.input.chain.clear();
            busy.raw.clear();
            (busy.fill, busy.needed) = (None, 0);
        }
        self.table.count(service, ServiceCounter::RecordsTruncated, 1);
    }

    /// One end of a pair has come to its end: the other is finished as soon as all has left it; both end when both have.
    fn settle_pair(&mut self, kit: &mut Kit, index: u32, pair: ConnectionId) {
        let here = self.table.connections.at(index).is_some_and(|connection| connection.is_answered());
        let Some(other) = self.table.find(pair) else {
            return if here {
                self.end(kit, index, Ending::EndOfStream)
            };
        };
        let (answered, both) = (other.is_answered(), other.told_finished);
        let socket = other.socket.filter(|_| answered && !other.finished && other.phase == Phase::Open);
        if let Some(socket) = socket {
            other.finished = true;
            kit.finish(socket);
        }
        if both && answered && here {
            self.end(kit, index, Ending::EndOfStream);
            self.end(kit, pair.index, Ending::EndOfStream);
        }
    }

    /// Submits the next receive.
    fn arm_receive(&mut self, kit: &mut Kit, index: u32) {
        let handle = self.table.handle(class::CONNECTION, index);
        let Some(connection) = self.table.connections.at(index) else { return };
        if let Some(op) = receive_op(connection) {
            connection.receiving = true;
            let stop = connection.socket.filter(|_| connection.takes_what_is_there());
            kit.submit(handle, op);
            if let Some(socket) = stop {
                kit.submit(handle, Op::StopReceive { socket });
            }
        }
    }

    /// Whether the other of a pair has no room for what would be read here.
    fn has_no_room(&mut self, pair: ConnectionId) -> bool {
        let Some(other) = self.table.find(pair) else { return false };
        let (service, held) = (other.service, other.busy.as_ref().map_or(0, |busy| busy.output_held()));
        held >= self.table.limits(service).output_high
    }

    /// Gives the box back if nothing is in it; else moves what uses little of its memory to fitting memory.
    fn put_away(&mut self, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        let service = connection.service;
        let Some(busy) = connection.busy.as_mut() else { return };
        if !busy.in_record() {
            busy.record_bytes = 0;
        }
        if !connection.is_ready && busy.is_idle() {
            if let Some(busy) = connection.busy.take() {
                self.table.keep(busy);
            }
            return;
        }
        if busy.holds_bytes() {
            let moved = busy.compact();
            self.table.count(service, ServiceCounter::BytesCompacted, moved);
        }
    }

    /// Our side has said all: finish it, and wait for the peer's end.
    fn finish(&mut self, kit: &mut Kit, index: u32) {
        let now = kit.now();
        let Some(connection) = self.table.connections.at(index) else { return };
        (connection.phase, connection.active_at, connection.finished_at) = (Phase::Lingering, now, now);
        let socket = connection.socket.filter(|_| !connection.finished);
        connection.finished = true;
        if let Some(socket) = socket {
            kit.finish(socket);
        }
    }
}

impl Connection {
    /// Whether everything that was asked is answered, and all answers have left.
    pub(crate) fn is_answered(&self) -> bool {
        !self.has_output() && self.busy.as_ref().is_none_or(|busy| busy.output.held() == 0 && busy.output.is_empty())
    }

    /// Whether nothing remains to be done after a send that went out whole: the usual case, in which the connection
    /// need not be flushed again.
    pub(crate) fn is_settled(&self) -> bool {
        let plain = self.phase == Phase::Open && self.receiving && self.draining == Draining::No && self.pair.is_none();
        plain && !self.is_ready && self.busy.as_ref().is_none_or(|busy| busy.is_idle())
    }

    /// Whether nothing has to be done when all that was just submitted has left: then that need not wake the lane. Whatever else the
    /// connection is told, it is told of that first.
    fn waits_for_no_send(&self, limits: &Limits, now: u64) -> bool {
        let plain = self.phase == Phase::Open && self.draining == Draining::No && self.pair.is_none() && !self.peer_finished;
        let timed = now.saturating_add(limits.idle_limit) >= self.timer_at;
        plain && timed && self.busy.as_deref().is_some_and(|busy| busy.waits_for_no_send(limits))
    }

    /// Whether a drain takes no more from the peer than is there: each receive is stopped at once, and the first that finds
    /// nothing is the last.
    pub(crate) fn takes_what_is_there(&self) -> bool {
        self.phase == Phase::Open && matches!(self.draining, Draining::Bytes(_) | Draining::Rest)
    }

    /// Whether the service has filled the output without asking. Answers to requests that were held, and what was written while there
    /// was room, were let in: however much that is, it ends nobody.
    fn is_overflowing(&self, held: usize, limits: &Limits) -> bool {
        let unasked = self.busy.as_ref().map_or(0, |busy| busy.output.unasked);
        unasked > 0 && held.min(unasked.saturating_add(limits.output_high)) > limits.output_max
    }

    fn step(&self, limits: &Limits) -> Step {
        let held = self.busy.as_deref().map_or(0, Busy::output_held);
        match self.phase {
            Phase::Opening | Phase::Ended => Step::Wait,
            Phase::Open | Phase::Closing if self.is_overflowing(held, limits) => Step::Overflow(ServiceCounter::OutputMaxHits),
            Phase::Lingering if self.peer_finished => Step::End(self.ending.unwrap_or(Ending::Completed)),
            Phase::Lingering if self.receiving => Step::Wait,
            Phase::Lingering => Step::Receive,
            Phase::Closing if self.is_answered() => Step::Finish,
            Phase::Closing => Step::Wait,
            Phase::Open => self.step_open(held, limits),
        }
    }

    fn step_open(&self, held: usize, limits: &Limits) -> Step {
        let Some(busy) = self.busy.as_deref() else { return self.end_or(Step::Receive) };
        // Asked for again with nothing written, it would be told so for ever: then it waits for what leaves next.
        if busy.output.wants_drained && !busy.told_drained && !self.is_starved && !self.has_output() {
            return Step::CallDrained;
        }
        let next = busy.step_in(held, limits);
        if self.is_ready || busy.blocked {
            return if matches!(next, Step::Receive) { Step::Wait } else { next };
        }
        self.end_or(next)
    }

    /// `next`, unless the connection's time has come, or its receive is under way.
    fn end_or(&self, next: Step) -> Step {
        if self.told_finished {
            return match self.pair {
                _ if self.in_record() => Step::DropRecord,
                Some(pair) => Step::SettlePair(pair),
                None if self.is_answered() => Step::End(Ending::EndOfStream),
                None => Step::Wait,
            };
        }
        if self.draining == Draining::Bytes(0) {
            // A receive under way may have bytes already: it was stopped, and says so.
            return if self.receiving { Step::Wait } else { Step::End(Ending::Closing) };
        }
        if matches!(next, Step::Receive) && (self.receiving || self.peer_finished) { Step::Wait } else { next }
    }
}

impl Busy {
    /// The same, as far as it shows here: nobody waits for room, and nothing is left that could follow.
    fn waits_for_no_send(&self, limits: &Limits) -> bool {
        let left = self.output.is_empty() && self.wire.is_empty();
        left && !self.blocked && !self.output.wants_drained && self.output_held() < limits.output_high
    }

    /// Whether to receive, or which limit says no.
    fn step_in(&self, held: usize, limits: &Limits) -> Step {
        let record = self.input.len().max(self.needed.saturating_sub(1)).saturating_add(self.raw.len());
        if record > limits.record_max && !self.blocked && self.fill.is_none() {
            return Step::Overflow(ServiceCounter::RecordMaxHits);
        }
        if self.output.held() >= limits.requests_in_flight_max {
            return Step::Pause(ServiceCounter::RequestsInFlightMaxHits);
        }
        if self.awaits_offload {
            return Step::Pause(ServiceCounter::OffloadMaxHits);
        }
        if self.blocked || held >= limits.output_high {
            return Step::Pause(ServiceCounter::OutputHighHits);
        }
        Step::Receive
    }

    /// Bytes of memory in the output, wherever they wait.
    pub(crate) fn output_held(&self) -> usize {
        self.output.charged() + self.wire.charged() + self.sending_charged
    }

    /// Whether a chain of this box holds bytes over the end of the turn.
    fn holds_bytes(&self) -> bool {
        !(self.input.is_empty() && self.raw.is_empty() && self.wire.is_empty() && self.output.is_empty())
    }

    /// Moves views that use under a quarter of their block to fitting memory; answers how many bytes were copied.
    fn compact(&mut self) -> usize {
        let Busy { input, output, raw, wire, .. } = self;
        let chains = [&mut input.chain, raw, wire].into_iter().chain(output.chains_mut());
        chains.map(Chain::compact).sum()
    }
}
