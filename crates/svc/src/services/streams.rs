//! Connections at work: what the driver brings, the calls into the service, and what is submitted afterwards.

use crate::connection::delivery::Delivery;
use crate::connection::entry::{Busy, Connection, Fill};
use crate::connection::found::{About, Found};
use crate::connection::machine::Phase;
use crate::connection::ticket::Name;
use crate::limits::Limits;
use crate::service::cx::Met;
use crate::service::port::Callback;
use crate::services::Services;
use crate::services::served::Served;
use crate::table::LaneTable;
use crate::table::notices::{Note, Notice};
use crate::words::names::{ConnectionId, Ending, Next, Order, Owes};
use corelane_lane::Kit;
use corelane_seam::{Chain, Completion, Fault, Lease, Outcome, Reason, Shared, StreamOp, StreamOutcome, nanoseconds};
use corelane_watch::{LaneCounter, ServiceCounter, ServiceRow};

/// Notices worked off in one turn: what they cause themselves waits for the next one.
const NOTICES_PER_TURN: usize = 4096;

impl Services {
    pub(crate) fn connection_completed(&mut self, kit: &mut Kit, completion: Completion) {
        let id = ConnectionId { index: completion.handle.index(), generation: completion.handle.generation() };
        let Some(mut found) = self.served.table.found(id) else {
            return kit.row.add(LaneCounter::CompletionsStale, 1);
        };
        match completion.outcome {
            Outcome::Stream(StreamOutcome::Received(shared)) => found.received(kit, shared),
            Outcome::Stream(StreamOutcome::EndOfStream) => found.peer_finished(),
            Outcome::Stream(StreamOutcome::Filled { lease, fault }) => {
                found.fill_received(kit, lease, fault);
                if let Some(fault) = fault.filter(|_| found.connection.machine.serves_input()) {
                    self.served.receive_failed(kit, id.index, fault);
                }
            }
            Outcome::Stream(StreamOutcome::Sent { bytes, rest, fault }) => {
                found.sent(kit, bytes, rest);
                match fault {
                    Some(fault) if fault.reason != Reason::Cancelled => self.served.end_by_fault(kit, id.index, fault),
                    _ => {
                        let waits = found.output_left();
                        if let Some(mut other) = waits.and_then(|pair| self.served.table.found(pair)) {
                            other.mark_dirty();
                        }
                    }
                }
            }
            Outcome::Failed(fault) if found.connection.socket.is_none() => self.opening_failed(kit, id.index, fault),
            Outcome::Failed(fault) => {
                found.connection.machine.receive_stopped(fault.reason == Reason::Cancelled);
                self.served.receive_failed(kit, id.index, fault);
            }
            Outcome::Stream(StreamOutcome::Connected { socket, peer, local }) => {
                self.served.opened(kit, id.index, socket, peer, local)
            }
            Outcome::Closed => self.socket_closed(kit, id.index),
            // Memory of a send that has ended before: the chain's owner has it back.
            Outcome::Released => {}
            other => unreachable!("no operation of a connection ends so: {other:?}"),
        }
    }
}

impl Served {
    /// A receive has ended with a fault, which the machine knows of.
    fn receive_failed(&mut self, kit: &mut Kit, index: u32, fault: Fault) {
        match fault.reason {
            // Stopped, or for want of memory: then what is there is still to be received.
            Reason::Cancelled | Reason::NoMemory => self.table.there(index).mark_dirty(),
            _ => self.end_by_fault(kit, index, fault),
        }
    }

    /// Calls the service for every connection that has something for it.
    pub(crate) fn serve_ready(&mut self, kit: &mut Kit) {
        // Those that are marked meanwhile are for the next turn.
        for _ in 0..self.table.desk.ready.len() {
            let index = self.table.desk.next_ready();
            self.serve_one(kit, index);
        }
    }

    fn serve_one(&mut self, kit: &mut Kit, index: u32) {
        // It may have gone since it was marked, and another that was not have its place.
        let Some(mut found) = self.table.at(index).filter(|found| found.connection.is_ready) else { return };
        found.connection.is_ready = false;
        found.mark_dirty();
        if found.connection.transform.is_some() && found.connection.machine.is_to_pass() {
            if found.put_off() {
                return;
            }
            if let Some(follows) = found.pass_input(kit) {
                self.follow(kit, index, follows);
                found = self.table.there(index);
            }
        }
        if let Some(calling) = found.begin_receive(kit) {
            self.call_service(kit, calling, Callback::Receive);
        }
    }

    /// Calls into the service with the connection's input and output, and does what it wants next.
    pub(crate) fn call(&mut self, kit: &mut Kit, index: u32, call: Callback) {
        let calling = self.table.there(index).begin_call(kit);
        self.call_service(kit, calling, call);
    }

    pub(crate) fn call_service(&mut self, kit: &mut Kit, calling: Calling, call: Callback) {
        let Calling { id, service, session, about, mut busy } = calling;
        // It was given up before it was open, or has ended: only a notice to it may be left to drop.
        let Some(session) = session else {
            self.table.there(id.index).connection.busy = Some(busy);
            if let Callback::Message = call {
                self.service_call(kit, service, |port, _| port.drop_notice());
            }
            return;
        };
        let (before, receives, is_drained) =
            (busy.input.len(), matches!(call, Callback::Receive), matches!(call, Callback::Drained));
        let (input, output) = (&mut busy.input, &mut busy.output);
        let (next, met) = self.fenced_call(kit, &about, |port, cx| port.call(cx, session, call, input, output));
        let is_too_long = std::mem::take(&mut busy.input.is_too_long);
        let mut found = self.table.there(id.index);
        let is_amid = matches!(next, Some(Next::More));
        found.end_call(kit, busy, &Called { receives, before, is_amid, met });
        if is_drained {
            found.note_drained();
        }
        match next {
            Some(_) if is_too_long => self.break_off_record(kit, id.index),
            Some(Next::Close) => self.end(kit, id.index, Ending::Completed),
            Some(Next::Abort) | None => self.end(kit, id.index, Ending::Aborted),
            Some(Next::Continue) if !receives => {} // what a receive asked for stands
            Some(next) => found.obey(next),
        }
    }

    /// A record is longer than any memory that the lane could join it in.
    fn break_off_record(&mut self, kit: &mut Kit, index: u32) {
        self.table.there(index).count(ServiceCounter::RecordMaxHits, 1);
        self.end(kit, index, Ending::Aborted);
    }

    /// Works off what connections were told by others, by timers, and by tickets.
    #[inline]
    pub(crate) fn serve_notices(&mut self, kit: &mut Kit) {
        for _ in 0..NOTICES_PER_TURN.min(self.table.notices.len()) {
            // reason: who takes them counts them before, and nobody else does.
            let note = self.table.notices.pop_front().expect("as many notices wait as were counted");
            self.serve_notice(kit, note);
        }
    }

    // Apart, so that a turn without notices pays only for the check.
    #[inline(never)]
    fn serve_notice(&mut self, kit: &mut Kit, Note { to: id, from, notice }: Note) {
        if let Notice::Answer { ticket, answer } = notice {
            return self.table.serve_answer(kit.now(), id, from, ticket, answer);
        }
        let LaneTable { connections, services, desk, .. } = &mut self.table;
        let found = Found::named(connections, services, desk, id);
        let is_foreign = found.as_ref().is_some_and(|found| found.connection.service() != from);
        services[from as usize].row.add(ServiceCounter::NoticesRefused, is_foreign.into());
        let own = found.filter(|_| !is_foreign);
        // Whoever breaks off may do so until the end.
        let is_heard = |found: &Found<'_>| found.connection.machine.takes_notices() || matches!(notice, Notice::Abort);
        let Some(mut found) = own.filter(is_heard) else { return self.lose_notice(kit, from, is_foreign, notice) };
        match notice {
            Notice::Message => {
                let calling = found.begin_call(kit);
                self.call_service(kit, calling, Callback::Message);
            }
            Notice::Timer(token) => {
                let calling = found.begin_call(kit);
                self.call_service(kit, calling, Callback::Timer(token));
            }
            Notice::Resume => found.resume(kit),
            Notice::Finish => found.say_no_more(),
            Notice::Close => self.end(kit, id.index, Ending::Completed),
            Notice::Abort => self.end(kit, id.index, Ending::Aborted),
            Notice::Answer { .. } => unreachable!("an answer reaches connections of other services, too"),
        }
    }

    /// The connection that was to be told is gone, or hears no more, or is another service's.
    fn lose_notice(&mut self, kit: &mut Kit, from: u16, is_foreign: bool, notice: Notice) {
        if let Notice::Message = notice {
            self.table.count(from, ServiceCounter::NoticesLate, (!is_foreign).into());
            self.service_call(kit, from, |port, _| port.drop_notice());
        }
    }

    /// Counts tickets that were dropped, and ends connections that would wait for them for ever.
    pub(crate) fn settle_lost_tickets(&mut self, kit: &mut Kit) {
        if self.table.desk.lost.is_empty() {
            return;
        }
        for (id, ticket) in self.table.desk.lost.take() {
            let Some(mut found) = self.table.found(id).filter(|found| found.connection.machine.takes_notices()) else { continue };
            if found.forget_void(ticket) {
                continue;
            }
            found.count(ServiceCounter::TicketsDropped, 1);
            match ticket.order {
                Order::Kept => self.end(kit, id.index, Ending::Aborted),
                Order::Any => drop(found.answered(kit.now(), ticket, Chain::new())),
            }
        }
    }
}

impl LaneTable {
    /// An answer to a held request. It may come from whoever has the ticket; nothing else reaches the connections of other services.
    fn serve_answer(&mut self, now: u64, id: ConnectionId, from: u16, ticket: Name, answer: Chain) {
        let found = self.found(id).filter(|found| found.connection.machine.takes_notices());
        let is_in_time = found.is_some_and(|mut found| found.answered(now, ticket, answer));
        self.count(from, ServiceCounter::AnswersLate, (!is_in_time).into());
    }
}

/// A call into a service that is about to begin: what was looked up for it.
pub(crate) struct Calling {
    id: ConnectionId,
    service: u16,
    session: Option<u32>,
    about: About,
    busy: Box<Busy>,
}

/// What a call has done, beside what the service wants next.
struct Called {
    /// It was for input.
    receives: bool,
    /// Bytes of input before it.
    before: usize,
    /// It has left a message that has begun.
    is_amid: bool,
    met: Met,
}

impl Found<'_> {
    fn received(&mut self, kit: &Kit, shared: Shared) {
        let (now, bytes) = (kit.now(), shared.len());
        self.count(ServiceCounter::Receives, 1);
        self.count(ServiceCounter::BytesIn, bytes);
        let shared = self.fitted(kit, shared);
        let held = shared.charge(self.connection.payer);
        self.connection.machine.received(bytes);
        if !self.connection.machine.takes_input() {
            self.connection.active_at = now;
            return self.mark_dirty(); // what comes after the end is discarded, and the next receive is armed
        }
        let is_raw = self.connection.transform.is_some();
        let busy = self.busy(&kit.arena);
        busy.note_record(now, bytes);
        busy.note_moved(now, bytes, || held);
        match is_raw {
            true => busy.raw.push(shared),
            false => busy.take_in(shared),
        }
        self.mark_ready();
    }

    /// The same in fitting memory, where the peer has not plenty: who has sent little is to hold little when its answer asks for memory.
    fn fitted(&self, kit: &Kit, shared: Shared) -> Shared {
        let is_short = shared.is_sparse() && !kit.arena.would_lend_in_pieces(self.connection.payer, shared.charged());
        let fitted = if is_short { shared.fitted() } else { None };
        fitted.unwrap_or(shared)
    }

    fn fill_received(&mut self, kit: &Kit, lease: Lease, fault: Option<Fault>) {
        let now = kit.now();
        let Connection { machine, busy, payer, .. } = &mut *self.connection;
        if !machine.serves_input() {
            machine.received(0);
            return self.mark_dirty();
        }
        // reason: a receive into a lease keeps the fill's place, and so the box, as long as input is served.
        let busy = busy.as_mut().expect("who has a lease filled has its box");
        // reason: as above.
        let fill = busy.fill.as_mut().expect("a lease that was filled was to be filled");
        assert!(fill.lease.is_none() && lease.len() >= busy.input.filling_from, "a lease comes back with what it held, and more");
        let bytes = lease.len() - std::mem::take(&mut busy.input.filling_from);
        fill.lease = Some(lease);
        busy.note_record(now, bytes);
        busy.note_moved(now, bytes, || kit.arena.held(*payer));
        match fault {
            None if bytes == 0 => machine.end_of_stream(),
            None => machine.received(bytes),
            Some(fault) => machine.received_and_stopped(bytes, fault.reason == Reason::Cancelled),
        }
        self.count(ServiceCounter::Receives, 1);
        self.count(ServiceCounter::BytesIn, bytes);
        self.mark_ready();
    }

    fn peer_finished(&mut self) {
        self.connection.machine.end_of_stream();
        match matches!(self.connection.machine.phase(), Phase::Handshake | Phase::Open) {
            true => self.mark_ready(),
            false => self.mark_dirty(),
        }
    }

    fn sent(&mut self, kit: &Kit, bytes: usize, rest: Chain) {
        self.count(ServiceCounter::Sends, 1);
        self.count(ServiceCounter::BytesOut, bytes);
        self.count(ServiceCounter::SendsShort, (!rest.is_empty()).into());
        self.connection.machine.sent();
        let unsent = self.connection.take_back(kit, &self.state.limits, bytes, rest);
        self.desk.keep_chain(unsent);
    }

    /// Some output has left: whoever waited for that goes on. Returns the other of its pair, which may have.
    fn output_left(&mut self) -> Option<ConnectionId> {
        if self.connection.is_settled() && !self.idles_before_its_timer() {
            // It had nothing but this send under way.
            self.connection.busy.take().into_iter().for_each(|busy| self.desk.keep(busy));
            return None;
        }
        self.mark_dirty();
        if self.connection.machine.serves_input() && self.connection.busy.as_ref().is_some_and(|busy| busy.blocked) {
            self.mark_ready();
        }
        self.connection.pair.get()
    }

    /// Whether the idle limit, the only one of a connection that is settled, is over before its timer comes.
    fn idles_before_its_timer(&self) -> bool {
        let limit = nanoseconds(self.limits().idle_limit);
        limit > 0 && self.connection.active_at.saturating_add(limit) < self.connection.timer_at
    }

    /// The service is called though nothing has come: as for input that it left.
    fn resume(&mut self, kit: &Kit) {
        let busy = self.busy(&kit.arena);
        if !busy.in_record() {
            // It may be refused memory in that call, and then waits as long as who was refused some for a record.
            busy.record_since = kit.now();
            busy.restart_rate(kit.now());
        }
        busy.blocked = true;
        self.mark_ready();
    }

    /// Our side finishes behind its output.
    fn say_no_more(&mut self) {
        self.connection.machine.say_no_more();
        self.mark_dirty();
    }

    /// Forgets a ticket that was dropped if it had expired before; returns whether it had.
    fn forget_void(&mut self, ticket: Name) -> bool {
        // reason: a request is held in the box, which stays as long as its ticket, good or expired, is about.
        self.connection.busy.as_mut().expect("a held request has its place").output.forget_expired(ticket)
    }

    /// An answer to a request that was held. False if its ticket has expired.
    fn answered(&mut self, now: u64, ticket: Name, answer: Chain) -> bool {
        // reason: a request is held in the box, which stays as long as it is.
        let busy = self.connection.busy.as_mut().expect("a held request has its place");
        let is_settled = busy.output.settle(ticket, answer);
        let blocked = busy.blocked;
        if !is_settled {
            return false;
        }
        (self.connection.active_at, self.connection.owes_answer) = (now, true);
        if blocked {
            self.mark_ready();
        }
        self.mark_dirty();
        true
    }

    /// Takes note of what its service has said of what the peer owes, and of requests.
    pub(crate) fn note_owed(&mut self, busy: &mut Busy, now: u64) {
        if std::mem::take(&mut busy.output.is_active) {
            // From now on, or from when the answer has left, it is idle.
            (self.connection.active_at, self.connection.owes_answer) = (now, true);
        }
        if let Some(owes) = busy.output.owes.take() {
            self.state.counts_requests.set(true);
            busy.owe_rest(owes == Owes::Rest, now);
        }
    }

    /// Takes out what a call with the input needs, if the service is to be called with it.
    fn begin_receive(&mut self, kit: &Kit) -> Option<Calling> {
        let machine = &self.connection.machine;
        if !machine.serves_input() || (machine.was_told_of_end() && !self.connection.in_record()) {
            return None;
        }
        let (finished, truncated) = (machine.input_has_ended(), machine.input_was_cut());
        let busy = self.busy(&kit.arena);
        (busy.input.finished, busy.input.truncated) = (finished, truncated);
        if !busy.offer_input(finished) {
            return None;
        }
        if finished {
            self.connection.machine.tell_of_end();
        }
        Some(self.begin_call(kit))
    }

    /// The same for the call that tells the service that all its output has left.
    pub(crate) fn begin_drained(&mut self, kit: &Kit) -> Calling {
        let wanted = std::mem::take(&mut self.busy(&kit.arena).output.wants_drained);
        assert!(wanted, "who is told that all has left has asked for it");
        self.begin_call(kit)
    }

    /// The service was told that all its output has left.
    fn note_drained(&mut self) {
        let is_starved = self.connection.is_starved;
        // reason: put back after the call.
        let busy = self.connection.busy.as_mut().expect("a box is there after a call");
        // Small writes count as waiting output too; else this would be called again before they have left.
        busy.output.seal();
        // A service without memory to go on is asked again once the lane would lend it.
        busy.output.wants_drained |= is_starved && busy.output.is_empty();
        busy.told_drained = !is_starved;
    }

    /// Takes out what a call into the service needs.
    fn begin_call(&mut self, kit: &Kit) -> Calling {
        let mut busy = self.take_busy(&kit.arena);
        busy.offer(self.limits(), kit.now());
        let about = self.begin_about();
        let (service, session) = (self.connection.service(), self.connection.session.get());
        Calling { id: self.id, service, session, about, busy }
    }

    /// Puts it back, with what the call has done.
    fn end_call(&mut self, kit: &Kit, mut busy: Box<Busy>, called: &Called) {
        let starved = called.met.refused > 0;
        // Input that an earlier receive left for want of room stays due, whatever this call was for.
        let left_behind = busy.blocked && !called.receives;
        let offloading = called.met.full_offload || left_behind && busy.awaits_offload;
        let blocked = busy.output.was_refused || starved || offloading || called.met.full_channel || left_behind;
        let was_blocked = std::mem::replace(&mut busy.blocked, blocked);
        busy.awaits_offload = offloading;
        let was_starved = std::mem::replace(&mut busy.was_starved, starved);
        if was_blocked && !blocked {
            if !was_starved {
                // Until now it was the service, or the way out, that made it wait.
                busy.record_since = kit.now();
            }
            busy.restart_rate(kit.now());
        }
        self.note_owed(&mut busy, kit.now());
        busy.note_taken(called.before, kit.now());
        if called.receives {
            busy.amid = called.is_amid;
        }
        let is_served = called.receives && busy.input.len() < called.before && !busy.in_record();
        busy.count(kit, &self.state.row);
        assert!(!self.connection.machine.has_ended(), "a call ends nothing itself: that comes behind it");
        let before = self.connection.busy.replace(busy);
        assert!(before.is_none(), "a box that was taken out is put back");
        self.mark_dirty();
        if is_served && !self.state.counts_requests.get() || called.met.requests {
            // From when they are answered, or from now on, the connection is idle.
            (self.connection.active_at, self.connection.owes_answer) = (kit.now(), true);
        }
        if is_served {
            self.connection.machine.served();
        }
        if starved {
            self.mark_starved(&kit.arena, called.met.refused);
        }
        if offloading {
            self.mark_offloading();
        }
        if left_behind {
            self.mark_ready();
        }
    }

    /// Does what a service wants after a call that goes on.
    fn obey(&mut self, next: Next) {
        // reason: put back after the call.
        let busy = self.connection.busy.as_mut().expect("a box is there after a call");
        busy.amid = matches!(next, Next::More);
        match next {
            Next::Need(bytes) => busy.needed = busy.input.len().saturating_add(bytes.max(1)),
            Next::Fill { lease, until } => {
                let until = until.min(lease.capacity());
                // It has what it goes on with, whatever it was refused beside: no call would come that ends its waiting.
                (busy.blocked, busy.awaits_offload) = (false, false);
                busy.fill = Some(Fill { lease: Some(lease), until });
                busy.feed_fill();
                if busy.fill.as_ref().is_some_and(Fill::is_full) {
                    self.mark_ready();
                }
            }
            Next::Wait => busy.blocked = true,
            _ => busy.needed = busy.input.len() + 1,
        }
    }
}

impl Connection {
    /// Puts back what a send did not take, in front of what was written meanwhile; returns a chain without bytes.
    fn take_back(&mut self, kit: &Kit, limits: &Limits, bytes: usize, mut rest: Chain) -> Chain {
        let now = kit.now();
        // A connection that has ended has given its box back, and nobody needs what was not sent.
        let Some(busy) = self.busy.as_mut().filter(|_| !self.machine.has_ended()) else {
            assert!(self.machine.has_ended(), "who sends has its box");
            return Chain::new();
        };
        assert!(busy.sending_charged > 0, "what comes back was charged");
        busy.sending_charged = 0;
        if bytes > 0 {
            busy.delivery.give(bytes);
            busy.note_moved(now, bytes, || kit.arena.held(self.payer));
        }
        let chain = if self.transform.is_some() { &mut busy.wire } else { &mut busy.output.chain };
        if !rest.is_empty() {
            rest.append(chain);
        }
        if chain.is_empty() {
            std::mem::swap(chain, &mut rest);
        }
        if !busy.has_output() {
            busy.delivery = Delivery::NONE;
        }
        if self.owes_answer && self.is_answered(limits) {
            (self.active_at, self.owes_answer) = (now, false);
        }
        rest
    }
}

impl Busy {
    /// Counts what calls have moved and taken since the last time.
    pub(crate) fn count(&mut self, kit: &Kit, row: &ServiceRow) {
        let copied = std::mem::take(&mut self.input.copied) + std::mem::take(&mut self.output.copied);
        let forwarded = std::mem::take(&mut self.output.forwarded);
        let tickets = std::mem::take(&mut self.output.tickets_taken) as usize;
        if copied + forwarded + tickets > 0 {
            row.add(ServiceCounter::BytesCopied, copied as u64);
            row.add(ServiceCounter::BytesForwarded, forwarded as u64);
            row.add(ServiceCounter::TicketsHeld, tickets as u64);
            kit.note_held(tickets);
        }
        if let Some((answered, waited)) = self.output.take_answered(kit.now()) {
            kit.note_answered(answered, waited);
        }
    }

    /// Notes bytes of a record: from when it began its time and its rate are counted.
    fn note_record(&mut self, now: u64, bytes: usize) {
        if self.record_bytes == 0 && !self.is_amid() {
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
        // Of a rest the whole is timed.
        if self.input.len() < before && !self.owes_rest {
            self.record_since = now;
            // What comes of a message that has begun counts for its rate, however it is taken.
            if !self.amid {
                self.record_bytes = self.input.len() as u64;
                self.restart_rate(now);
            }
        }
    }

    /// Offers the service the input; returns whether it is to be called with it: enough has come, the stream has ended, or it was left
    /// behind for want of room. A filled lease is handed over here.
    fn offer_input(&mut self, finished: bool) -> bool {
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

/// The receive that a connection in its phase should have under way, and has not.
pub(crate) fn receive_op(connection: &mut Connection) -> StreamOp {
    assert!(!connection.machine.is_receiving(), "one receive at a time");
    // reason: it opens with one.
    let socket = connection.socket.expect("what is open has a socket");
    let serves = connection.transform.is_none() && connection.machine.serves_input();
    let fill = connection.busy.as_mut().filter(|_| serves).and_then(|busy| Some((busy.fill.as_mut()?, &mut busy.input)));
    let Some((fill, input)) = fill else { return StreamOp::Receive { socket } };
    // reason: away only while it is received into.
    let (until, lease) = (fill.until, fill.lease.take().expect("a lease to be filled is here between receives"));
    input.filling_from = lease.len();
    StreamOp::ReceiveInto { socket, lease, until }
}
