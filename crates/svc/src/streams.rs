//! Connections at work: what the driver brings, the calls into the service, and what is submitted afterwards.

use crate::connection::{Busy, Connection, Draining, Fill, Phase};
use crate::fence::fenced;
use crate::limits::Limits;
use crate::port::{Call, Port};
use crate::service::{Ending, Next, Order};
use crate::services::Services;
use crate::table::{Note, Notice, Table};
use crate::transform::{Transform, TransformError};
use corelane_lane::Kit;
use corelane_seam::{Arena, Chain, Completion, Fault, Lease, Op, Outcome, Reason, Shared};
use corelane_watch::{LaneCounter, ServiceCounter, ServiceRow};

/// Notices worked off in one turn: what they cause themselves waits for the next one.
const NOTICES_PER_TURN: usize = 4096;

impl Services {
    pub(crate) fn connection_completed(&mut self, kit: &mut Kit, completion: Completion) {
        let (index, generation) = (completion.handle.index(), completion.handle.generation());
        if self.table.connections.get_mut(index, generation).is_none() {
            kit.row.add(LaneCounter::CompletionsStale, 1);
            return;
        }
        match completion.outcome {
            Outcome::Received(shared) => self.received(kit, index, shared),
            Outcome::Sent { bytes, rest, fault } => self.sent(kit, index, bytes, rest, fault),
            Outcome::EndOfStream => self.peer_finished(index),
            Outcome::Filled { lease, fault } => self.fill_received(kit, index, lease, fault),
            Outcome::Connected { socket, peer, local } => self.opened(kit, index, socket, peer, local),
            Outcome::Failed(fault) => self.operation_failed(kit, index, fault),
            Outcome::Closed => self.socket_closed(kit, index),
            _ => {}
        }
    }

    fn received(&mut self, kit: &mut Kit, index: u32, shared: Shared) {
        let (now, bytes) = (kit.now(), shared.len());
        let Table { connections, services, .. } = &mut self.table;
        let Some(connection) = connections.at(index) else { return };
        let row = &services[connection.service as usize].row;
        row.add(ServiceCounter::Receives, 1);
        row.add(ServiceCounter::BytesIn, bytes as u64);
        shared.charge(connection.payer);
        let held = kit.arena.held(connection.payer);
        connection.receiving = false;
        if connection.phase != Phase::Open {
            connection.active_at = now;
            self.table.mark_dirty(index); // what comes after the end is discarded, and the next receive is armed
            return;
        }
        connection.note_arrival(bytes);
        let is_raw = connection.transform.is_some();
        let Some(busy) = self.table.busy(index, &kit.arena) else { return };
        busy.note_record(now, bytes);
        busy.note_moved(now, bytes, held);
        match is_raw {
            true => busy.raw.push(shared),
            false => busy.take_in(shared),
        }
        self.table.mark_ready(index);
    }

    fn fill_received(&mut self, kit: &mut Kit, index: u32, lease: Lease, fault: Option<Fault>) {
        let now = kit.now();
        let Some(connection) = self.table.connections.at(index) else { return };
        connection.receiving = false;
        let service = connection.service;
        let Some(busy) = connection.busy.as_mut().filter(|_| connection.phase == Phase::Open) else {
            return self.table.mark_dirty(index);
        };
        let Some(fill) = busy.fill.as_mut() else { return };
        let bytes = lease.len() - std::mem::take(&mut busy.input.filling_from);
        fill.lease = Some(lease);
        busy.note_record(now, bytes);
        busy.note_moved(now, bytes, kit.arena.held(connection.payer));
        connection.note_arrival(bytes);
        connection.peer_finished |= bytes == 0 && fault.is_none();
        self.table.count(service, ServiceCounter::Receives, 1);
        self.table.count(service, ServiceCounter::BytesIn, bytes);
        self.table.mark_ready(index);
        if let Some(fault) = fault {
            self.operation_failed(kit, index, fault);
        }
    }

    fn peer_finished(&mut self, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        (connection.receiving, connection.peer_finished) = (false, true);
        match connection.phase {
            Phase::Open => self.table.mark_ready(index),
            _ => self.table.mark_dirty(index),
        }
    }

    fn sent(&mut self, kit: &mut Kit, index: u32, bytes: usize, rest: Chain, fault: Option<Fault>) {
        let Table { connections, services, .. } = &mut self.table;
        let Some(connection) = connections.at(index) else { return };
        let row = &services[connection.service as usize].row;
        row.add(ServiceCounter::Sends, 1);
        row.add(ServiceCounter::BytesOut, bytes as u64);
        if !rest.is_empty() {
            row.add(ServiceCounter::SendsShort, 1);
        }
        let held = kit.arena.held(connection.payer);
        let unsent = connection.take_back(kit.now(), bytes, rest, held);
        self.table.keep_chain(unsent);
        match fault {
            Some(fault) if fault.reason != Reason::Cancelled => self.end_by_fault(kit, index, fault),
            _ => self.output_left(index),
        }
    }

    /// Some output has left: whoever waited for that goes on.
    fn output_left(&mut self, index: u32) {
        let Table { connections, services, .. } = &mut self.table;
        let Some(connection) = connections.at(index) else { return };
        let idle_limit = services[connection.service as usize].limits.idle_limit;
        let needs_no_timer = connection.active_at.saturating_add(idle_limit) >= connection.timer_at;
        if needs_no_timer && connection.is_settled() {
            if let Some(busy) = connection.busy.take() {
                self.table.keep(busy);
            }
            return;
        }
        let blocked = connection.phase == Phase::Open && connection.busy.as_ref().is_some_and(|busy| busy.blocked);
        let pair = connection.pair;
        self.table.mark_dirty(index);
        if blocked {
            self.table.mark_ready(index);
        }
        if let Some(pair) = pair.filter(|&pair| self.table.find(pair).is_some()) {
            self.table.mark_dirty(pair.index);
        }
    }

    fn operation_failed(&mut self, kit: &mut Kit, index: u32, fault: Fault) {
        let Some(connection) = self.table.connections.at(index) else { return };
        if connection.socket.is_none() {
            return self.opening_failed(kit, index, fault);
        }
        (connection.receiving, connection.received_before) = (false, false);
        match fault.reason {
            Reason::Cancelled => {
                if connection.takes_what_is_there() {
                    connection.draining = Draining::Bytes(0);
                }
                self.table.mark_dirty(index);
            }
            // Stopped for want of memory: what is there is still to be received.
            Reason::NoMemory => self.table.mark_dirty(index),
            _ => self.end_by_fault(kit, index, fault),
        }
    }

    /// Calls the service for every connection that has something for it.
    pub(crate) fn serve_ready(&mut self, kit: &mut Kit) {
        let mut ready = std::mem::take(&mut self.ready);
        self.table.take_ready(&mut ready);
        for index in ready.drain(..) {
            if let Some(connection) = self.table.connections.at(index) {
                connection.is_ready = false;
                self.table.mark_dirty(index);
                self.serve_one(kit, index);
            }
        }
        self.ready = ready;
    }

    fn serve_one(&mut self, kit: &mut Kit, index: u32) {
        let Some(connection) = self.table.connections.at(index) else { return };
        if connection.phase != Phase::Open || (connection.told_finished && !connection.in_record()) {
            return;
        }
        if connection.transform.is_some() && !self.transform_input(kit, index) {
            return;
        }
        let Some(connection) = self.table.connections.at(index) else { return };
        let finished = connection.peer_finished;
        let Some(busy) = self.table.busy(index, &kit.arena) else { return };
        busy.input.finished = finished;
        if busy.is_due(finished) {
            if let Some(connection) = self.table.connections.at(index) {
                connection.told_finished |= finished;
            }
            self.call(kit, index, Call::Receive);
        }
    }

    /// Calls into the service with the connection's input and output, and does what it wants next.
    pub(crate) fn call(&mut self, kit: &mut Kit, index: u32, call: Call) {
        let Some(connection) = self.table.connections.at(index) else { return };
        let service = connection.service;
        let Some(session) = connection.session else { return self.discard(kit, service, call) };
        let Some(mut busy) = self.table.take_busy(index, &kit.arena) else { return };
        busy.offer(self.table.limits(service), kit.now());
        (self.table.offload_refused, self.table.requests_counted) = (false, false);
        kit.arena.take_refusal();
        let (before, receives) = (busy.input.len(), matches!(call, Call::Receive));
        let (input, output) = (&mut busy.input, &mut busy.output);
        let next = self.connection_call(kit, index, |port, cx| port.call(cx, session, call, input, output));
        let refused = kit.arena.take_refusal();
        let starved = refused > 0;
        let is_too_long = std::mem::take(&mut busy.input.is_too_long);
        // What an earlier receive left behind for want of room stays due, whatever this call was.
        let left_behind = busy.blocked && !receives;
        let offloading = self.table.offload_refused || left_behind && busy.awaits_offload;
        let blocked = busy.output.was_refused || starved || offloading || left_behind;
        let was_blocked = std::mem::replace(&mut busy.blocked, blocked);
        busy.awaits_offload = offloading;
        if was_blocked && !blocked {
            busy.restart_rate(kit.now());
        }
        busy.note_taken(before, kit.now());
        let is_served = receives && busy.input.len() < before && !busy.in_record();
        busy.count(&self.table.services[service as usize].row);
        self.table.put_busy(index, busy);
        self.table.mark_dirty(index);
        if is_served || self.table.requests_counted {
            self.request_taken(index, kit.now());
        }
        if starved {
            self.table.mark_starved(index, refused);
        }
        if offloading {
            self.table.mark_offloading(index);
        }
        if left_behind {
            self.table.mark_ready(index);
        }
        if is_served {
            self.first_is_served(index);
        }
        match next {
            Some(_) if is_too_long => self.break_off_record(kit, index),
            Some(Next::Continue) if !receives => {} // what a receive asked for stands
            Some(next) => self.obey(kit, index, next),
            None => self.end(kit, index, Ending::Aborted),
        }
    }

    /// A record is longer than any memory that the lane could join it in.
    fn break_off_record(&mut self, kit: &mut Kit, index: u32) {
        if let Some(connection) = self.table.connections.at(index) {
            let service = connection.service;
            self.table.count(service, ServiceCounter::RecordMaxHits, 1);
            self.end(kit, index, Ending::Aborted);
        }
    }

    /// Requests were taken: from when they are answered, or from now on, the connection is idle.
    fn request_taken(&mut self, index: u32, now: u64) {
        if let Some(connection) = self.table.connections.at(index) {
            (connection.active_at, connection.owes_answer) = (now, true);
        }
    }

    /// A connection that was accepted during a drain has had its first request served.
    fn first_is_served(&mut self, index: u32) {
        if let Some(connection) = self.table.connections.at(index).filter(|connection| connection.draining == Draining::First) {
            connection.draining = Draining::Rest;
        }
    }

    /// Does what a service wants after a call.
    pub(crate) fn obey(&mut self, kit: &mut Kit, index: u32, next: Next) {
        let Some(connection) = self.table.connections.at(index) else { return };
        let Some(busy) = connection.busy.as_mut() else { return };
        match next {
            Next::Continue => busy.needed = busy.input.len() + 1,
            Next::Need(bytes) => busy.needed = busy.input.len().saturating_add(bytes.max(1)),
            Next::Fill { lease, until } => {
                let until = until.min(lease.capacity());
                busy.fill = Some(Fill { lease: Some(lease), until });
                busy.feed_fill();
                if busy.fill.as_ref().is_some_and(Fill::is_full) {
                    self.table.mark_ready(index);
                }
            }
            Next::Close => self.end(kit, index, Ending::Completed),
            Next::Abort => self.end(kit, index, Ending::Aborted),
        }
    }

    /// Works off what connections were told by others, by timers, and by tickets.
    pub(crate) fn serve_notices(&mut self, kit: &mut Kit) {
        for _ in 0..NOTICES_PER_TURN.min(self.table.notices.len()) {
            let Some(Note { to: id, from, notice }) = self.table.notices.pop_front() else { return };
            let found = self.table.find(id).map(|connection| (connection.phase, connection.service));
            let open = found.is_some_and(|(phase, _)| phase < Phase::Lingering);
            // Who has a ticket may answer it; nothing else reaches the connections of other services.
            let is_foreign = found.is_some_and(|(_, service)| service != from) && !matches!(notice, Notice::Answer { .. });
            self.table.count(from, ServiceCounter::NoticesRefused, is_foreign.into());
            match notice {
                Notice::Answer { number, order, answer } if open => self.answered(kit.now(), id.index, number, order, answer),
                Notice::Answer { .. } => self.table.count(from, ServiceCounter::AnswersLate, 1),
                Notice::Message(message) if is_foreign || !open => {
                    self.table.count(from, ServiceCounter::NoticesLate, (!is_foreign).into());
                    self.discard(kit, from, message);
                }
                _ if is_foreign => {}
                Notice::Message(message) => self.call(kit, id.index, Call::Message(message)),
                Notice::Timer(token) if open => self.call(kit, id.index, Call::Timer(token)),
                Notice::Close if open => self.end(kit, id.index, Ending::Completed),
                Notice::Abort if found.is_some() => self.end(kit, id.index, Ending::Aborted),
                _ => {}
            }
        }
    }

    fn answered(&mut self, now: u64, index: u32, number: u32, order: Order, answer: Chain) {
        let Some(connection) = self.table.connections.at(index) else { return };
        let Some(busy) = connection.busy.as_mut() else { return };
        (connection.active_at, connection.owes_answer) = (now, true);
        busy.output.settle(number, order, answer);
        if busy.blocked {
            self.table.mark_ready(index);
        }
        self.table.mark_dirty(index);
    }

    /// Counts tickets that were dropped, and ends connections that would wait for them for ever.
    pub(crate) fn settle_lost_tickets(&mut self, kit: &mut Kit) {
        if self.table.lost.is_empty() {
            return;
        }
        for (id, number, order) in self.table.lost.take() {
            let Some(connection) = self.table.find(id) else { continue };
            let service = connection.service;
            if connection.phase == Phase::Ended {
                continue;
            }
            self.table.count(service, ServiceCounter::TicketsDropped, 1);
            match order {
                Order::Kept => self.end(kit, id.index, Ending::Aborted),
                Order::Any => self.answered(kit.now(), id.index, number, order, Chain::new()),
            }
        }
    }

    /// Calls into a service that is not about a connection, fenced.
    pub(crate) fn service_call(&mut self, kit: &mut Kit, service: u16, call: impl FnOnce(&mut Port, &mut crate::cx::Cx<'_>)) {
        let port = &mut self.ports[service as usize];
        let before = kit.arena.pay_as(self.table.services[service as usize].payers.own);
        let mut cx = crate::cx::Cx::new(kit, &mut self.table, service, None);
        let called = fenced(|| call(port, &mut cx));
        kit.arena.pay_as(before);
        if let Err(words) = called {
            self.report_panic(kit, service, None, &words);
        }
    }

    /// Passes what has arrived through the connection's transform; false if that ended the connection. What it leaves when
    /// the peer has finished, for other reasons than want of memory, will never be whole.
    fn transform_input(&mut self, kit: &mut Kit, index: u32) -> bool {
        let passed = self.pass(kit, index, |transform, arena, busy| {
            let Busy { raw, input, wire, .. } = busy;
            transform.inbound(arena, raw, &mut input.chain, wire)?;
            busy.feed_fill();
            Ok(())
        });
        let Some(connection) = self.table.connections.at(index).filter(|_| passed) else { return false };
        let refused = kit.arena.take_refusal();
        if let Some(busy) = connection.busy.as_mut().filter(|busy| !busy.raw.is_empty() && refused > 0) {
            busy.blocked = true;
            self.table.mark_starved(index, refused);
        }
        true
    }

    /// Passes the output through the connection's transform.
    pub(crate) fn transform_output(&mut self, kit: &mut Kit, index: u32) -> bool {
        self.pass(kit, index, |transform, arena, busy| {
            let Busy { output, wire, .. } = busy;
            transform.outbound(arena, &mut output.chain, wire)
        })
    }

    /// Calls the connection's transform, fenced; false if it refused or panicked, which ends the connection.
    fn pass(
        &mut self,
        kit: &mut Kit,
        index: u32,
        call: impl FnOnce(&mut dyn Transform, &Arena, &mut Busy) -> Result<(), TransformError>,
    ) -> bool {
        let Some(mut busy) = self.table.take_busy(index, &kit.arena) else { return false };
        let Some(connection) = self.table.connections.at(index) else { return false };
        let (service, peer, payer) = (connection.service, connection.peer.address, connection.payer);
        let Some(transform) = connection.transform.as_mut() else { return false };
        kit.arena.take_refusal();
        let before = kit.arena.pay_as(payer);
        let done = fenced(|| call(transform.as_mut(), &kit.arena, &mut busy));
        kit.arena.pay_as(before);
        self.table.put_busy(index, busy);
        match done {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => {
                kit.report_kind("refused bytes", &format!("lane {}: the bytes of {peer} were refused: {error}", kit.lane()));
            }
            Err(words) => self.report_panic(kit, service, Some(peer), &words),
        }
        self.end(kit, index, Ending::Aborted);
        false
    }
}

impl Connection {
    /// Puts back what a send did not take, in front of what was written meanwhile; answers a chain without bytes.
    fn take_back(&mut self, now: u64, bytes: usize, mut rest: Chain, held: usize) -> Chain {
        self.sending = false;
        let Some(busy) = self.busy.as_mut().filter(|_| self.phase < Phase::Ended) else { return Chain::new() };
        busy.sending_charged = 0;
        if bytes > 0 {
            busy.progress_at = now;
            busy.note_moved(now, bytes, held);
        }
        let chain = if self.transform.is_some() { &mut busy.wire } else { &mut busy.output.chain };
        if !rest.is_empty() {
            rest.append(chain);
        }
        if chain.is_empty() {
            std::mem::swap(chain, &mut rest);
        }
        if self.owes_answer && self.is_answered() {
            (self.active_at, self.owes_answer) = (now, false);
        }
        rest
    }

    /// Notes that bytes came, for a drain that waits for what was readable.
    fn note_arrival(&mut self, bytes: usize) {
        if let Draining::Bytes(left) = self.draining
            && !std::mem::take(&mut self.received_before)
        {
            self.draining = Draining::Bytes(left.saturating_sub(bytes));
        }
    }
}

impl Busy {
    /// Counts what calls have moved and taken since the last time.
    pub(crate) fn count(&mut self, row: &ServiceRow) {
        let copied = std::mem::take(&mut self.input.copied) + std::mem::take(&mut self.output.copied);
        let forwarded = std::mem::take(&mut self.output.forwarded);
        let tickets = std::mem::take(&mut self.output.tickets_taken) as usize;
        if copied + forwarded + tickets > 0 {
            row.add(ServiceCounter::BytesCopied, copied as u64);
            row.add(ServiceCounter::BytesForwarded, forwarded as u64);
            row.add(ServiceCounter::TicketsHeld, tickets as u64);
        }
    }

    /// Notes bytes of a record: from when it began its time and its rate are counted.
    fn note_record(&mut self, now: u64, bytes: usize) {
        if self.record_bytes == 0 {
            self.record_since = now;
            self.restart_rate(now);
        }
        self.record_bytes += bytes as u64;
    }

    /// Counts the rate from now on.
    pub(crate) fn restart_rate(&mut self, now: u64) {
        (self.rate_since, self.rate_bytes) = (now, self.record_bytes);
    }

    /// Notes what a call took of the input that held `before` bytes: what is left begins another record.
    fn note_taken(&mut self, before: usize, now: u64) {
        if self.input.len() < before {
            (self.record_since, self.record_bytes) = (now, self.input.len() as u64);
            self.restart_rate(now);
        }
    }

    /// Whether the service is to be called with the input: enough has come, the stream has ended, or it was left
    /// behind for want of room. A filled lease is handed over here.
    fn is_due(&mut self, finished: bool) -> bool {
        if let Some(fill) = &mut self.fill {
            let here = fill.lease.is_some();
            if !(fill.is_full() || (finished && here)) {
                return false;
            }
            self.input.filled = fill.lease.take();
            self.fill = None;
            return true;
        }
        finished || self.blocked || (self.input.len() >= self.needed && !self.input.is_empty())
    }

    /// Tells the output how much it may take in this call.
    pub(crate) fn offer(&mut self, limits: &Limits, now: u64) {
        self.output.now = now;
        self.output.room = limits.output_high.saturating_sub(self.output_held());
        if self.output.room > 0 {
            self.output.unasked = 0;
        }
        self.output.tickets_left = limits.requests_in_flight_max.saturating_sub(self.output.held());
        (self.output.was_refused, self.told_drained) = (false, false);
    }
}

/// The receive that a connection in its phase should have under way.
pub(crate) fn receive_op(connection: &mut Connection) -> Option<Op> {
    let socket = connection.socket?;
    let Some(busy) = connection.busy.as_mut().filter(|_| connection.transform.is_none() && connection.phase == Phase::Open)
    else {
        return Some(Op::Receive { socket });
    };
    let Some(fill) = busy.fill.as_mut() else { return Some(Op::Receive { socket }) };
    let (until, lease) = (fill.until, fill.lease.take()?);
    busy.input.filling_from = lease.len();
    Some(Op::ReceiveInto { socket, lease, until })
}
