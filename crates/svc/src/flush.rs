//! The end of a turn for each connection that was touched: one send, the next receive, and whether it is time to end.

use crate::connection::{Busy, Connection, Draining, Phase};
use crate::port::Call;
use crate::service::{ConnectionId, Ending};
use crate::services::Services;
use crate::streams::receive_op;
use crate::table::class;
use corelane_lane::Core;
use corelane_seam::{Op, Socket};
use corelane_watch::ServiceCounter;

impl Services {
    /// Flushes every connection that was touched this turn. What that touches itself is flushed in the next one.
    pub(crate) fn flush_dirty(&mut self, core: &mut Core) {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.table.take_dirty(&mut dirty);
        for index in dirty.drain(..) {
            if let Some(connection) = self.table.connections.at(index) {
                connection.is_dirty = false;
                self.flush_one(core, index);
            }
        }
        self.dirty = dirty;
    }

    fn flush_one(&mut self, core: &mut Core, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        if matches!(connection.phase, Phase::Opening | Phase::Ended) {
            return;
        }
        if connection.busy.is_some() && !self.prepare_output(core, index) {
            return;
        }
        self.send(core, index);
        self.tell_drained(core, index);
        self.settle_phase(core, index);
        self.arm_receive(core, index);
        self.put_away(core, index);
        self.set_deadline(core, index);
    }

    /// Makes the output ready to leave, and keeps it within its bound; false if the connection ended over it.
    fn prepare_output(&mut self, core: &mut Core, index: u32) -> bool {
        let Some(connection) = self.table.connections.at(index) else { return false };
        let (service, transformed) = (connection.service, connection.transform.is_some());
        let Some(busy) = connection.busy.as_mut() else { return true };
        busy.output.seal();
        let held = busy.output.charged() + busy.wire.charged() + busy.sending_charged;
        if held > self.table.limits(service).output_max {
            self.table.count(service, ServiceCounter::OutputMaxHits, 1);
            self.end(core, index, Ending::Aborted);
            return false;
        }
        !transformed || self.transform_output(core, index)
    }

    /// Submits everything that may leave, unless the last send is still under way.
    fn send(&mut self, core: &mut Core, index: u32) {
        let spare = self.table.spare_chain();
        let handle = self.table.handle(class::CONNECTION, index);
        let Some(connection) = self.table.connections.at(index) else { return self.table.keep_chain(spare) };
        let (idle, transformed, waited) = (!connection.sending, connection.transform.is_some(), connection.has_output());
        let Some((busy, socket)) = connection.busy.as_mut().zip(connection.socket) else { return self.table.keep_chain(spare) };
        let chain = if transformed { &mut busy.wire } else { &mut busy.output.chain };
        if !idle || chain.is_empty() {
            return self.table.keep_chain(spare);
        }
        let chain = std::mem::replace(chain, spare);
        busy.sending_charged = chain.charged();
        if !waited || busy.progress_at == 0 {
            busy.progress_at = core.now();
        }
        connection.sending = true;
        core.submit(handle, Op::Send { socket, chain });
    }

    fn tell_drained(&mut self, core: &mut Core, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        let is_quiet = !connection.has_output() && connection.phase == Phase::Open;
        let Some(busy) = connection.busy.as_mut().filter(|busy| is_quiet && busy.output.wants_drained) else { return };
        busy.output.wants_drained = false;
        self.call(core, index, Call::Drained);
    }

    /// Moves the connection on in its life, as far as it has come.
    fn settle_phase(&mut self, core: &mut Core, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        if connection.phase == Phase::Open {
            self.settle_open(core, index);
        }
        let Some(connection) = self.table.connections.at(index) else { return };
        if connection.phase == Phase::Closing && connection.is_answered() {
            self.finish(core, index);
        }
        let Some(connection) = self.table.connections.at(index) else { return };
        if connection.phase == Phase::Lingering && connection.peer_finished {
            let ending = connection.ending.unwrap_or(Ending::Completed);
            self.end(core, index, ending);
        }
    }

    /// Whether an open connection's time has come: its peer finished and all is answered, or the drain has what it wanted.
    fn settle_open(&mut self, core: &mut Core, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        let waits_for_service = connection.is_ready || connection.busy.as_ref().is_some_and(|busy| busy.blocked);
        if waits_for_service {
            return;
        }
        let drained = connection.draining == Draining::Bytes(0);
        let (answered, finished, pair) = (connection.is_answered(), connection.told_finished, connection.pair);
        if finished && connection.in_record() {
            self.drop_truncated(index);
        }
        if finished && let Some(pair) = pair {
            return self.settle_pair(core, index, pair);
        }
        if finished && answered {
            self.end(core, index, Ending::EndOfStream);
        } else if drained {
            self.end(core, index, Ending::Closing);
        }
    }

    /// The peer finished in the middle of a record: what there is of it will never be answered.
    fn drop_truncated(&mut self, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        let service = connection.service;
        if let Some(busy) = connection.busy.as_mut() {
            busy.input.chain.clear();
            (busy.fill, busy.needed) = (None, 0);
        }
        self.table.count(service, ServiceCounter::RecordsTruncated, 1);
    }

    /// One end of a pair has come to its end: the other is finished as soon as all has left it; both end when both have.
    fn settle_pair(&mut self, core: &mut Core, index: u32, pair: ConnectionId) {
        let Some(other) = self.table.find(pair) else {
            return self.end(core, index, Ending::EndOfStream);
        };
        let (answered, both) = (other.is_answered(), other.told_finished);
        let socket = other.socket.filter(|_| answered && !other.finished && other.phase == Phase::Open);
        if let Some(socket) = socket {
            other.finished = true;
            core.finish(socket);
        }
        let here = self.table.connections.at(index).is_some_and(|connection| connection.is_answered());
        if both && answered && here {
            self.end(core, index, Ending::EndOfStream);
            self.end(core, pair.index, Ending::EndOfStream);
        }
    }

    /// Submits the next receive, unless there is a reason to wait.
    fn arm_receive(&mut self, core: &mut Core, index: u32) {
        if !self.may_receive(core, index) {
            return;
        }
        let handle = self.table.handle(class::CONNECTION, index);
        let Some(connection) = self.table.connections.at(index) else { return };
        if let Some(op) = receive_op(connection) {
            connection.receiving = true;
            core.submit(handle, op);
        }
    }

    fn may_receive(&mut self, core: &mut Core, index: u32) -> bool {
        let Some(connection) = self.table.connections.at(index) else { return false };
        if connection.receiving || connection.peer_finished || connection.is_ready {
            return false;
        }
        match connection.phase {
            Phase::Lingering => return true,
            Phase::Open => {}
            _ => return false,
        }
        if connection.draining == Draining::Bytes(0) {
            return false;
        }
        let (pair, service) = (connection.pair, connection.service);
        if self.record_is_too_long(core, index) {
            return false;
        }
        let wait = self.output_is_high(index) || pair.is_some_and(|pair| self.output_is_high(pair.index));
        self.note_pause(index, service, wait);
        !wait
    }

    fn record_is_too_long(&mut self, core: &mut Core, index: u32) -> bool {
        let Some(connection) = self.table.connections.at(index) else { return true };
        let service = connection.service;
        let Some(busy) = connection.busy.as_ref().filter(|busy| !busy.blocked && busy.fill.is_none()) else { return false };
        let bytes = busy.input.len().max(busy.needed.saturating_sub(1)) + busy.raw.len();
        if bytes <= self.table.limits(service).record_max {
            return false;
        }
        self.table.count(service, ServiceCounter::RecordMaxHits, 1);
        self.end(core, index, Ending::Aborted);
        true
    }

    /// Whether reading must wait: for room in the output, for tickets, or because the service left input behind.
    fn output_is_high(&mut self, index: u32) -> bool {
        let Some(connection) = self.table.connections.at(index) else { return false };
        let service = connection.service;
        let Some(busy) = connection.busy.as_ref() else { return false };
        let held = busy.output.charged() + busy.wire.charged() + busy.sending_charged;
        let (tickets, blocked) = (busy.output.held, busy.blocked);
        let limits = self.table.limits(service);
        if tickets >= limits.requests_in_flight_max {
            self.table.count(service, ServiceCounter::RequestsInFlightMaxHits, 1);
            return true;
        }
        blocked || held >= limits.output_high
    }

    fn note_pause(&mut self, index: u32, service: u16, wait: bool) {
        let Some(connection) = self.table.connections.at(index) else { return };
        let begins = wait && !connection.is_paused;
        connection.is_paused = wait;
        if begins {
            self.table.count(service, ServiceCounter::OutputHighHits, 1);
        }
    }

    /// Gives the box back if nothing is in it; else moves what uses little of its memory to fitting memory.
    fn put_away(&mut self, core: &mut Core, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        let service = connection.service;
        let Some(busy) = connection.busy.as_mut() else { return };
        if busy.input.chain.is_empty() && busy.fill.is_none() {
            busy.record_bytes = 0;
        }
        if busy.is_idle() && !connection.sending && !connection.is_ready {
            if let Some(busy) = connection.busy.take() {
                self.table.recycle(busy);
            }
            return;
        }
        let moved = busy.compact(core);
        if moved > 0 {
            self.table.count(service, ServiceCounter::BytesCompacted, moved);
        }
    }

    /// Our side has said all: finish it, and wait for the peer's end.
    fn finish(&mut self, core: &mut Core, index: u32) {
        let now = core.now();
        let Some(connection) = self.table.connections.at(index) else { return };
        connection.phase = Phase::Lingering;
        connection.active_at = now;
        let socket: Option<Socket> = connection.socket.filter(|_| !connection.finished);
        connection.finished = true;
        if let Some(socket) = socket {
            core.finish(socket);
        }
    }
}

impl Connection {
    /// Whether everything that was asked is answered, and all answers have left.
    pub(crate) fn is_answered(&self) -> bool {
        !self.has_output() && self.held() == 0 && self.busy.as_ref().is_none_or(|busy| busy.output.is_empty())
    }
}

impl Busy {
    /// Moves views that use under a quarter of their block to fitting memory; answers how many bytes were copied.
    fn compact(&mut self, core: &Core) -> usize {
        let Busy { input, output, raw, wire, .. } = self;
        let chains = [&mut input.chain, raw, wire].into_iter().chain(output.chains_mut());
        chains.map(|chain| chain.compact(&core.arena)).sum()
    }
}
