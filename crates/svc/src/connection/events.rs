//! What the driver's events, notices and calls into its service do to a connection. Each takes what it needs as arguments, and hands back what concerns more than the connection.

use crate::connection::busy::{Blocked, Busy, Fill};
use crate::connection::entry::Connection;
use crate::connection::found::{About, Found};
use crate::connection::input::{Input, InputEnd};
use crate::connection::machine::Phase;
use crate::connection::output::Output;
use crate::connection::ties::PairAt;
use crate::words::names::{ConnectionId, Ending, Next, Peer};
use crate::words::ticket::Name;
use corelane_lane::Kit;
use corelane_seam::{Chain, Fault, Lease, Op, Piped, Reason, Shared, Socket, nanoseconds};
use corelane_watch::ServiceCounter;

/// A call into a service that is about to begin: what was looked up for it.
pub(crate) struct Calling {
    pub(crate) about: About,
    /// None if it was given up before it was open, or has ended.
    pub(crate) session: Option<u32>,
    busy: Box<Busy>,
    /// Bytes of input before it.
    before: usize,
}

impl Calling {
    /// For whom the call is, and what it is made with.
    pub(crate) fn parts(&mut self) -> (&About, &mut Input, &mut Output) {
        debug_assert!(self.session.is_some(), "a call is made to a session");
        debug_assert!(self.busy.output.is_of(self.about.id), "a call is made with the connection's own box");
        (&self.about, &mut self.busy.input, &mut self.busy.output)
    }
}

/// What a call was for, as far as a connection cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Its input.
    Input,
    /// That all its output has left.
    Drained,
    Other,
}

/// What a service has met in a call, beside what it wants next.
#[derive(Clone, Copy, Default)]
pub(crate) struct Met {
    /// Bytes of memory that were refused to it.
    pub(crate) refused: usize,
    /// It was told that no more calls may be with the helper threads.
    pub(crate) full_offload: bool,
    /// It was refused to say something for want of room.
    pub(crate) full_channel: bool,
    /// It has counted requests.
    pub(crate) requests: bool,
}

impl Found<'_> {
    /// An outgoing connection is open. False if it was given up before: then there is only a socket to close.
    pub(crate) fn opened(&mut self, kit: &mut Kit, socket: Socket, ends: Peer) -> bool {
        assert!(self.connection.socket.is_none() && self.connection.session.is_none(), "a connection opens once");
        self.connection.socket = Some(socket);
        if self.connection.machine.has_ended() {
            self.count(ServiceCounter::ConnectsFailed, 1);
            kit.submit(self.handle(), Op::Close { socket, reset: true });
            return false;
        }
        self.connection.machine.opened();
        self.agenda.tell_open(self.id.index, ends.flow, kit.now());
        let learned = self.connection.peer.learned.take();
        (self.connection.peer, self.connection.active_at) = (Peer { learned, ..ends }, kit.now());
        self.count(ServiceCounter::Connects, 1);
        true
    }

    /// Bytes have come.
    pub(crate) fn received(&mut self, kit: &Kit, shared: Shared) {
        debug_assert!(self.connection.machine.is_receiving(), "bytes come to who receives");
        let (now, bytes) = (kit.now(), shared.len());
        self.count(ServiceCounter::Receives, 1);
        self.count(ServiceCounter::BytesIn, bytes);
        self.connection.bulk.received(bytes);
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

    /// Bytes have come, and lie in a pipe.
    pub(crate) fn received_piped(&mut self, kit: &Kit, piped: Piped) {
        debug_assert!(
            self.connection.machine.is_receiving() && self.connection.transform.is_none(),
            "bytes come to who receives"
        );
        let (now, bytes) = (kit.now(), piped.len());
        self.count(ServiceCounter::Receives, 1);
        self.count(ServiceCounter::BytesIn, bytes);
        self.connection.bulk.received_piped(bytes);
        self.connection.machine.received(bytes);
        if !self.connection.machine.takes_input() {
            self.connection.active_at = now;
            return self.mark_dirty();
        }
        let payer = self.connection.payer;
        let busy = self.busy(&kit.arena);
        busy.note_record(now, bytes);
        busy.note_moved(now, bytes, || kit.arena.held(payer));
        busy.input.chain.push(piped);
        self.mark_ready();
    }

    /// The same in fitting memory, where the peer has not plenty: who has sent little is to hold little when its answer asks for memory.
    fn fitted(&self, kit: &Kit, shared: Shared) -> Shared {
        let is_short = shared.is_sparse() && !kit.arena.would_lend_in_pieces(self.connection.payer, shared.charged());
        let fitted = if is_short { shared.fitted() } else { None };
        fitted.unwrap_or(shared)
    }

    /// Bytes have come into the lease that is to be filled, or none any more.
    pub(crate) fn fill_received(&mut self, kit: &Kit, lease: Lease, fault: Option<Fault>) {
        debug_assert!(self.connection.machine.is_receiving(), "bytes come to who receives");
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

    /// The peer's socket has finished.
    pub(crate) fn peer_finished(&mut self) {
        debug_assert!(self.connection.machine.is_receiving(), "the end comes to who receives");
        self.connection.machine.end_of_stream();
        match matches!(self.connection.machine.phase(), Phase::Handshake | Phase::Open) {
            true => self.mark_ready(),
            false => self.mark_dirty(),
        }
    }

    /// A receive has ended without bytes, and with a fault.
    pub(crate) fn receive_failed(&mut self, fault: Fault) {
        debug_assert!(self.connection.machine.is_receiving(), "what fails was begun");
        self.connection.machine.receive_stopped(fault.reason == Reason::Cancelled);
    }

    /// A send has ended, and left this over; its memory is released, or will be.
    pub(crate) fn sent(&mut self, kit: &Kit, bytes: usize, rest: Chain, is_released: bool) {
        debug_assert!(self.connection.machine.is_sending(), "what has ended was begun");
        self.count(ServiceCounter::Sends, 1);
        self.count(ServiceCounter::BytesOut, bytes);
        self.count(ServiceCounter::SendsShort, (!rest.is_empty()).into());
        self.connection.machine.sent(is_released);
        let unsent = self.connection.take_back(kit, &self.state.limits, bytes, rest, is_released);
        self.agenda.boxes.keep_chain(unsent);
    }

    /// Memory of a send that had ended is released: whoever waited for that goes on. Returns the other of its pair, which may have.
    pub(crate) fn released(&mut self, kit: &Kit) -> Option<ConnectionId> {
        debug_assert!(self.connection.machine.unreleased() > 0, "what is released was held");
        self.connection.release(kit);
        if self.connection.machine.has_ended() {
            return None;
        }
        self.output_left()
    }

    /// Some output has left, or is held no more: whoever waited for that goes on. Returns the other of its pair, which may have.
    pub(crate) fn output_left(&mut self) -> Option<ConnectionId> {
        debug_assert!(self.connection.socket.is_some(), "what has left was sent by what was open");
        if self.connection.is_settled() && !self.idles_before_its_timer() {
            // It had nothing but this send under way.
            self.connection.busy.take().into_iter().for_each(|busy| self.agenda.boxes.keep(busy));
            return None;
        }
        self.mark_dirty();
        if self.connection.machine.serves_input() && self.connection.busy.as_ref().is_some_and(|busy| busy.is_blocked()) {
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
    pub(crate) fn resume(&mut self, kit: &Kit) {
        debug_assert!(self.connection.machine.takes_notices(), "who hears no more is not resumed");
        let busy = self.busy(&kit.arena);
        if !busy.in_record() {
            // It may be refused memory in that call, and then waits as long as who was refused some for a record.
            busy.record_since = kit.now();
            busy.restart_rate(kit.now());
        }
        busy.block();
        self.mark_ready();
    }

    /// Our side finishes behind its output.
    pub(crate) fn say_no_more(&mut self) {
        debug_assert!(self.connection.machine.takes_notices(), "who hears no more says no more either");
        self.connection.machine.say_no_more();
        self.mark_dirty();
    }

    /// Forgets a ticket that was dropped if it had expired before; returns whether it had.
    pub(crate) fn forget_void(&mut self, ticket: Name) -> bool {
        debug_assert!(self.connection.machine.takes_notices(), "who hears no more misses no ticket");
        // reason: a request is held in the box, which stays as long as its ticket, good or expired, is about.
        self.connection.busy.as_mut().expect("a held request has its place").output.forget_expired(ticket)
    }

    /// An answer to a request that was held. False if its ticket has expired.
    pub(crate) fn answered(&mut self, now: u64, ticket: Name, answer: Chain) -> bool {
        debug_assert!(self.connection.machine.takes_notices(), "who hears no more is not answered");
        // reason: a request is held in the box, which stays as long as it is.
        let busy = self.connection.busy.as_mut().expect("a held request has its place");
        let is_settled = busy.output.settle(ticket, answer);
        let blocked = busy.is_blocked();
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
    pub(super) fn note_owed(&mut self, busy: &mut Busy, now: u64) {
        debug_assert!(self.connection.busy.is_none(), "the box of which something is noted is out of its place");
        if let Some(at) = busy.output.served_at.take() {
            // From then on, or from when the answer has left, it is idle.
            (self.connection.active_at, self.connection.owes_answer) = (at, true);
        }
        if let Some(owes) = busy.output.owes.take() {
            self.state.counts_requests.set(true);
            busy.owe(owes, now);
        }
    }

    /// Takes out what a call with the input needs, if the service is to be called with it.
    pub(crate) fn begin_receive(&mut self, kit: &Kit) -> Option<Calling> {
        debug_assert!(self.connection.is_dirty, "what is called with its input is flushed behind that");
        let machine = &self.connection.machine;
        if !machine.serves_input() || (machine.was_told_of_end() && !self.connection.in_record()) {
            return None;
        }
        let (finished, is_cut) = (machine.input_has_ended(), machine.input_was_cut());
        let busy = self.busy(&kit.arena);
        busy.input.end = match finished {
            true if is_cut => InputEnd::Cut,
            true => InputEnd::Ended,
            false => InputEnd::Open,
        };
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
        let wanted = self.busy(&kit.arena).output.take_wanted();
        assert!(wanted, "who is told that all has left has asked for it");
        self.begin_call(kit)
    }

    /// Takes out what a call into the service needs.
    pub(crate) fn begin_call(&mut self, kit: &Kit) -> Calling {
        debug_assert!(
            self.connection.session.is_none() || !self.connection.machine.has_ended(),
            "what has ended is called no more"
        );
        let mut busy = self.take_busy(&kit.arena);
        busy.offer(self.limits(), kit.now());
        let before = busy.input.len();
        Calling { about: self.begin_about(), session: self.connection.session.get(), busy, before }
    }

    /// Takes back what was taken out for a call that was not made.
    pub(crate) fn put_back(&mut self, calling: Calling) {
        assert!(calling.session.is_none() && self.connection.busy.is_none(), "a call is not made for want of a session");
        self.connection.busy = Some(calling.busy);
    }

    /// Takes it back, with what the call has done, and does what the service wants next; returns how the connection ends by that. `next` is none after a panic.
    pub(crate) fn end_call(&mut self, kit: &Kit, calling: Calling, what: For, met: Met, next: Option<Next>) -> Option<Ending> {
        debug_assert!(self.id == calling.about.id, "a call is the connection's own");
        let Calling { mut busy, before, .. } = calling;
        let is_too_long = std::mem::take(&mut busy.input.is_too_long);
        self.note_call(kit, busy, what, (before, matches!(next, Some(Next::More))), met);
        if what == For::Drained {
            let is_starved = self.connection.is_starved;
            // reason: put back just now.
            self.connection.busy.as_mut().expect("a box is there after a call").output.note_drained(is_starved);
        }
        match next {
            Some(_) if is_too_long => {
                // A record is longer than any memory that the lane could join it in.
                self.count(ServiceCounter::RecordMaxHits, 1);
                return Some(Ending::Aborted);
            }
            Some(Next::Close) => return Some(Ending::Completed),
            Some(Next::Abort) | None => return Some(Ending::Aborted),
            // Bytes that nobody looks at fill no lease.
            Some(Next::Fill { .. }) if self.connection.bulk.is_unseen() => return Some(Ending::Aborted),
            Some(Next::Continue) if what != For::Input => {} // what a receive asked for stands
            Some(next) => self.obey(next),
        }
        None
    }

    /// Notes what a call has done, which was made with `before` bytes of input and has left a message that has begun or not.
    fn note_call(&mut self, kit: &Kit, mut busy: Box<Busy>, what: For, (before, is_amid): (usize, bool), met: Met) {
        assert!(!self.connection.machine.has_ended(), "a call ends nothing itself: that comes behind it");
        let (starved, receives) = (met.refused > 0, what == For::Input);
        // Input that an earlier receive left for want of room stays due, whatever this call was for.
        let left_behind = busy.is_blocked() && !receives;
        let offloading = met.full_offload || left_behind && busy.blocked == Blocked::Helpers;
        let blocked = if starved {
            Blocked::Memory
        } else if offloading {
            Blocked::Helpers
        } else if busy.output.was_refused || met.full_channel || left_behind {
            Blocked::Room
        } else {
            Blocked::No
        };
        let before_call = std::mem::replace(&mut busy.blocked, blocked);
        if before_call != Blocked::No && blocked == Blocked::No {
            if before_call != Blocked::Memory {
                // Until now it was the service, or the way out, that made it wait.
                busy.record_since = kit.now();
            }
            busy.restart_rate(kit.now());
        }
        self.note_owed(&mut busy, kit.now());
        busy.note_taken(before, kit.now());
        if receives {
            busy.amid = is_amid;
        }
        let is_served = receives && busy.input.len() < before && !busy.in_record();
        busy.count(kit, &self.state.row);
        let before = self.connection.busy.replace(busy);
        assert!(before.is_none(), "a box that was taken out is put back");
        self.mark_dirty();
        if is_served && !self.state.counts_requests.get() || met.requests {
            // From when they are answered, or from now on, the connection is idle.
            (self.connection.active_at, self.connection.owes_answer) = (kit.now(), true);
        }
        if is_served {
            self.connection.machine.served();
        }
        if starved {
            self.mark_starved(&kit.arena, met.refused);
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
        debug_assert!(!self.connection.machine.has_ended(), "a call ends nothing itself");
        // reason: put back after the call.
        let busy = self.connection.busy.as_mut().expect("a box is there after a call");
        busy.amid = matches!(next, Next::More);
        match next {
            Next::Need(bytes) => busy.needed = busy.input.len().saturating_add(bytes.max(1)),
            Next::Fill { lease, until } => {
                let until = until.min(lease.capacity());
                // It has what it goes on with, whatever it was refused beside: no call would come that ends its waiting.
                busy.blocked = Blocked::No;
                busy.fill = Some(Fill { lease: Some(lease), until });
                busy.feed_fill();
                if busy.fill.as_ref().is_some_and(Fill::is_full) {
                    self.mark_ready();
                }
            }
            Next::Wait => busy.block(),
            _ => busy.needed = busy.input.len() + 1,
        }
    }

    /// Closes it behind its output.
    pub(crate) fn close_behind(&mut self, kit: &Kit, ending: Ending) {
        debug_assert!(self.connection.machine.is_gentle(ending), "{ending:?} waits for no output");
        if self.change(kit.now(), |machine| machine.close(ending)) {
            self.drop_unpassed();
        }
        self.mark_dirty();
    }

    /// Ends it, and submits the close: the entry is free when that has completed. Returns its session, which is to be told, and the other of its pair.
    pub(crate) fn end(&mut self, kit: &mut Kit, ending: Ending) -> (Option<u32>, Option<ConnectionId>) {
        assert!(!self.connection.machine.has_ended(), "a connection ends once");
        let reset = self.change(kit.now(), |machine| machine.end(ending));
        assert!(self.connection.machine.ending() == Some(ending), "a connection ends as it is told, and no other way");
        self.count(counter_of(ending), 1);
        if let Some(timer) = self.connection.timer.take() {
            kit.stop_timer(timer);
        }
        let handle = self.handle();
        match self.connection.socket {
            Some(socket) => kit.submit(handle, Op::Close { socket, reset }),
            // After the end of the connect, cancelling it does nothing.
            None => kit.submit(handle, Op::Cancel { target: handle }),
        }
        (self.connection.session.take(), self.connection.pair.take())
    }

    /// Its service was told of its end: what is in its box is dropped.
    pub(crate) fn drop_box(&mut self) {
        assert!(self.connection.machine.has_ended(), "a box goes behind the end");
        if let Some(busy) = self.connection.busy.take() {
            self.agenda.boxes.recycle(busy);
        }
    }

    /// The other of its pair has ended so; returns whether this one is to end for that. Not if it is of a pair with that no more.
    pub(crate) fn lose_pair(&mut self, other: ConnectionId, ending: Ending) -> bool {
        debug_assert!(other != self.id, "each of a pair is another");
        if self.connection.pair.get() != Some(other) {
            return false;
        }
        self.connection.pair = PairAt::NONE;
        if matches!(ending, Ending::Error | Ending::Aborted) {
            self.connection.machine.pass_on_cut();
        }
        ending != Ending::EndOfStream
    }

    /// A drain begins: so many bytes are readable, and nothing that comes later is served. A connection in its handshake is treated as one that waits to be accepted: from now
    /// on its time is short.
    pub(crate) fn drain(&mut self, kit: &mut Kit, readable: usize) {
        debug_assert!(!self.connection.machine.is_outgoing(), "what this side opened ends otherwise");
        self.connection.machine.drain(readable);
        if self.connection.machine.is_in_handshake() {
            self.connection.active_at = kit.now();
        } else if self.connection.machine.is_receiving() {
            // reason: it opens with one.
            let socket = self.connection.socket.expect("what is open has a socket");
            // The driver may have taken bytes already that are not counted as readable any more.
            kit.submit(self.handle(), Op::StopReceive { socket });
        }
    }

    /// The lane would lend it what it was refused.
    pub(crate) fn revive(&mut self, now: u64) {
        assert!(self.connection.is_starved, "who is called again has waited");
        self.connection.is_starved = false;
        // Its peer could not send while it waited.
        if let Some(busy) = self.connection.busy.as_mut() {
            busy.restart_rate(now);
        }
        self.mark_ready();
    }

    /// There is a place with the helper threads.
    pub(crate) fn take_helper(&mut self) {
        assert!(self.connection.awaits_offload, "who is called again has waited");
        self.connection.awaits_offload = false;
        self.mark_ready();
    }

    /// Takes it from those whose input is to be worked off; false if it is none of them.
    pub(crate) fn take_ready(&mut self) -> bool {
        debug_assert!(self.is_connected(), "what waits to be worked off has its socket");
        let was_ready = std::mem::take(&mut self.connection.is_ready);
        if was_ready {
            self.mark_dirty();
        }
        was_ready
    }
}

impl<'a> Found<'a> {
    /// Its output, for a call that is for another connection.
    pub(crate) fn offer_output(mut self, kit: &Kit) -> &'a mut Output {
        debug_assert!(self.connection.machine.takes_notices(), "what is written leaves as long as notices are taken");
        self.mark_dirty();
        let mut busy = self.take_busy(&kit.arena);
        busy.offer(self.limits(), kit.now());
        let Found { connection, .. } = self;
        &mut connection.busy.insert(busy).output
    }
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
