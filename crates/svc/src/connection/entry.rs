//! A connection's entry in the lane's table, and the box that it has only while it has something to do.

use crate::connection::delivery::Delivery;
use crate::connection::files::Fetch;
use crate::connection::input::Input;
use crate::connection::machine::{Facts, Machine, Pause};
use crate::connection::output::Output;
use crate::connection::ticket::LostTickets;
use crate::connection::transform::{PASS_BYTES, Transform};
use crate::limits::{Limits, SECOND};
use crate::pending::timers::TimerList;
use crate::state::accounts::PeerAccountId;
use crate::words::names::{ConnectionId, Peer};
use corelane_lane::TimerId;
use corelane_seam::{Arena, Chain, Lease, Payer, Shared, Socket};
use std::num::NonZeroU32;

/// How long a holder may stand still while others wait for some of its memory.
const STANDSTILL: u64 = SECOND;
/// A connection moves if it moves this part of what it holds.
const MOVES_DIVISOR: usize = 8;

/// A lease that the service wants filled.
pub(crate) struct Fill {
    /// None while the driver has it.
    pub(crate) lease: Option<Lease>,
    pub(crate) until: usize,
}

impl Fill {
    /// Whether the lease is here and holds all that was wanted.
    pub(crate) fn is_full(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.len() >= self.until)
    }
}

/// What only a connection with something under way needs.
pub(crate) struct Busy {
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// Bytes from the socket that a transform has not taken yet.
    pub(crate) raw: Chain,
    /// What a transform has made of the output, or says itself.
    pub(crate) wire: Chain,
    pub(crate) fill: Option<Fill>,
    /// The next piece of a file that a transform is to change.
    pub(crate) fetch: Fetch,
    /// Bytes that the input must have before the service is called again.
    pub(crate) needed: usize,
    /// The service left input behind because the output was full or no ticket was left: it is called again without
    /// new bytes once that has changed.
    pub(crate) blocked: bool,
    /// It did so because the helper threads had as many calls as they may.
    pub(crate) awaits_offload: bool,
    /// It was refused memory when it was called last: then the time of its record goes on, for records that have begun may hold all of it.
    pub(crate) was_starved: bool,
    /// A message has begun of which the input holds nothing now, and more is to come.
    pub(crate) amid: bool,
    /// The rest of a request is owed, whatever the input holds.
    pub(crate) owes_rest: bool,
    /// When the record at the front of the input began to arrive (nanoseconds), and how many bytes have since.
    pub(crate) record_since: u64,
    pub(crate) record_bytes: u64,
    /// When the rate was looked at last, and how many bytes of the record had come by then.
    pub(crate) rate_since: u64,
    pub(crate) rate_bytes: u64,
    /// What the peer takes of the output.
    pub(crate) delivery: Delivery,
    /// The service was told that all output has left, and has written nothing since.
    pub(crate) told_drained: bool,
    /// Bytes of memory in the chain that is being sent.
    pub(crate) sending_charged: usize,
    /// When it last moved a good part of what it holds (0 for not yet), and bytes that moved since.
    pub(crate) moved_at: u64,
    pub(crate) moved: usize,
}

/// A place in a table, or none, in four bytes.
#[derive(Clone, Copy)]
pub(crate) struct SessionAt(Option<NonZeroU32>);

impl SessionAt {
    pub(crate) const NONE: Self = Self(None);

    pub(crate) fn of(place: Option<u32>) -> Self {
        // reason: a table has one entry less than there are numbers.
        Self(place.map(|place| place.checked_add(1).and_then(NonZeroU32::new).expect("a place in a table")))
    }

    pub(crate) fn get(self) -> Option<u32> {
        self.0.map(|place| place.get() - 1)
    }

    pub(crate) fn is_none(self) -> bool {
        self.0.is_none()
    }

    /// The place, which is left.
    pub(crate) fn take(&mut self) -> Option<u32> {
        std::mem::replace(self, Self::NONE).get()
    }
}

/// The other of a pair, or nobody. An [`Option`] of its name would take four bytes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PairAt(ConnectionId);

impl PairAt {
    pub(crate) const NONE: Self = Self(ConnectionId { index: u32::MAX, generation: 0 });

    pub(crate) fn of(other: ConnectionId) -> Self {
        assert!(other != Self::NONE.0, "no connection has that name");
        Self(other)
    }

    pub(crate) fn get(self) -> Option<ConnectionId> {
        Some(self.0).filter(|_| self.is_some())
    }

    pub(crate) fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The other one, which is left.
    pub(crate) fn take(&mut self) -> Option<ConnectionId> {
        std::mem::replace(self, Self::NONE).get()
    }
}

/// One connection. It is small, so that many idle ones cost little.
pub(crate) struct Connection {
    pub(crate) socket: Option<Socket>,
    pub(crate) peer: Peer,
    pub(crate) busy: Option<Box<Busy>>,
    /// In a box of its own, so that it takes one word where there is none.
    pub(crate) transform: Option<Box<Box<dyn Transform>>>,
    pub(crate) timer: Option<TimerId>,
    /// Those that its service started.
    pub(crate) timers: TimerList,
    /// When the timer comes: it may be too early, never too late.
    pub(crate) timer_at: u64,
    /// When the last request was taken, or its answer had left; when the last bytes came, once no more requests are taken.
    pub(crate) active_at: u64,
    /// When our side finished.
    pub(crate) finished_at: u64,
    pub(crate) pair: PairAt,
    /// The session's place in its service's table; none before opening and after closing.
    pub(crate) session: SessionAt,
    /// In a byte: a page has rows for no more services.
    service: u8,
    pub(crate) machine: Machine,
    pub(crate) is_ready: bool,
    pub(crate) is_dirty: bool,
    /// Reading waits at a bound (counted once for each episode).
    pub(crate) is_at_bound: bool,
    /// Its service wants to be called again once the lane has memory.
    pub(crate) is_starved: bool,
    /// Who pays for its memory.
    pub(crate) payer: Payer,
    /// The account of the peer among whose connections it is counted; none before it is admitted.
    pub(crate) peer_account: Option<PeerAccountId>,
    /// Its service waits in the list of those that want to offload a call.
    pub(crate) awaits_offload: bool,
    /// A request was taken whose answer may not have left.
    pub(crate) owes_answer: bool,
    /// It waits for a place among its service's handshakes, and came as this one of those that did; 0 if it does not.
    pub(crate) parked: u32,
    /// More ports to be tried while it is being opened from one that was chosen here; 0 if the system, or its service, chose it.
    pub(crate) tries_left: u8,
}

impl Connection {
    /// The number of its service.
    pub(crate) fn service(&self) -> u16 {
        self.service.into()
    }

    /// The account of its peer.
    pub(crate) fn peer(&self) -> PeerAccountId {
        // reason: a connection is admitted before it is anything else.
        self.peer_account.expect("a connection has an account from its admission")
    }

    pub(crate) fn new(socket: Option<Socket>, peer: Peer, service: u16, machine: Machine, now: u64) -> Self {
        Self {
            socket,
            peer,
            busy: None,
            transform: None,
            timer: None,
            timers: TimerList::EMPTY,
            timer_at: u64::MAX,
            active_at: now,
            finished_at: now,
            pair: PairAt::NONE,
            session: SessionAt::NONE,
            // reason: a page has rows for 64 services.
            service: u8::try_from(service).expect("services are numbered in a byte"),
            machine,
            is_ready: false,
            is_dirty: false,
            is_at_bound: false,
            is_starved: false,
            payer: Payer::LANE,
            peer_account: None,
            awaits_offload: false,
            owes_answer: false,
            parked: 0,
            tries_left: 0,
        }
    }

    /// Whether anything waits to be sent, or is being sent.
    pub(crate) fn has_output(&self) -> bool {
        self.machine.is_sending() || self.busy.as_ref().is_some_and(|busy| busy.has_output())
    }

    /// Whether a record has begun to arrive and is not complete.
    pub(crate) fn in_record(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.in_record())
    }

    /// What its memory says of its life.
    pub(crate) fn holdings<'a>(&'a self, limits: &'a Limits) -> Holdings<'a> {
        Holdings { connection: self, busy: self.busy.as_deref(), limits }
    }

    /// Whether everything that was asked is answered, and all answers have left.
    pub(crate) fn is_answered(&self, limits: &Limits) -> bool {
        self.machine.is_answered(&self.holdings(limits))
    }

    /// Whether nothing remains to be done after a send that went out whole: the usual case, in which the connection
    /// need not be flushed again.
    pub(crate) fn is_settled(&self) -> bool {
        let at_rest = self.machine.is_at_rest() && !self.pair.is_some() && !self.is_ready;
        at_rest && self.busy.as_ref().is_none_or(|busy| busy.is_idle())
    }
}

/// What a connection holds, as its [machine](Machine) asks for it.
pub(crate) struct Holdings<'a> {
    connection: &'a Connection,
    busy: Option<&'a Busy>,
    limits: &'a Limits,
}

impl Facts for Holdings<'_> {
    fn has_output(&self) -> bool {
        self.busy.is_some_and(Busy::has_output)
    }

    fn holds_answer(&self) -> bool {
        self.busy.is_some_and(Busy::holds_answer)
    }

    fn in_record(&self) -> bool {
        self.busy.is_some_and(Busy::in_record)
    }

    fn is_due(&self) -> bool {
        // The transform could not take these bytes for want of memory: memory is awaited, not the peer.
        let is_starved = self.connection.is_starved;
        self.connection.is_ready || self.busy.is_some_and(|busy| busy.blocked || is_starved && !busy.raw.is_empty())
    }

    fn wants_drained(&self) -> bool {
        let is_starved = self.connection.is_starved;
        self.busy.is_some_and(|busy| busy.output.wants_drained && !busy.told_drained && !is_starved)
    }

    fn is_paired(&self) -> bool {
        self.connection.pair.is_some()
    }

    fn overflows(&self) -> bool {
        self.busy.is_some_and(|busy| busy.overflows(self.limits))
    }

    fn is_too_long(&self) -> bool {
        // One at rest holds nothing.
        let Some(busy) = self.busy else { return false };
        let is_raw_too_long = !busy.raw.is_empty() && busy.raw.len() > self.limits.record_max.max(PASS_BYTES);
        busy.is_too_long(self.limits) || is_raw_too_long && !self.is_due()
    }

    fn pause(&self) -> Option<Pause> {
        if self.connection.parked > 0 {
            return Some(Pause::Handshakes);
        }
        // Output written meanwhile leaves only after the handshake, which must go on for that.
        let held = if self.connection.machine.is_in_handshake() { Busy::wire_held } else { Busy::output_held };
        self.busy.and_then(|busy| busy.pause(|| held(busy), self.limits))
    }
}

impl Busy {
    pub(crate) fn new(arena: &Arena, lost: &LostTickets) -> Self {
        Self {
            input: Input::new(arena.clone()),
            output: Output::new(arena.clone(), lost.clone()),
            raw: Chain::new(),
            wire: Chain::new(),
            fill: None,
            fetch: Fetch::Idle,
            needed: 0,
            blocked: false,
            awaits_offload: false,
            was_starved: false,
            amid: false,
            owes_rest: false,
            record_since: 0,
            record_bytes: 0,
            rate_since: 0,
            rate_bytes: 0,
            delivery: Delivery::NONE,
            told_drained: false,
            sending_charged: 0,
            moved_at: 0,
            moved: 0,
        }
    }

    /// Whether a record has begun to arrive and is not complete; or is, and the service keeps it until there is room.
    pub(crate) fn in_record(&self) -> bool {
        !self.input.chain.is_empty() || !self.raw.is_empty() || self.fill.is_some() || self.blocked || self.is_amid()
    }

    /// Whether a message has begun, whatever the input holds of it.
    pub(crate) fn is_amid(&self) -> bool {
        self.amid || self.owes_rest
    }

    /// The rest of a request is owed from now on, or not.
    pub(crate) fn owe_rest(&mut self, owes_rest: bool, now: u64) {
        if std::mem::replace(&mut self.owes_rest, owes_rest) != owes_rest {
            (self.record_since, self.record_bytes) = (now, 0);
            self.restart_rate(now);
        }
    }

    /// Whether bytes wait to be sent.
    pub(crate) fn has_output(&self) -> bool {
        !(self.wire.is_empty() && self.output.chain.is_empty())
    }

    /// Whether a request is held, or a part of its answer waits for another one.
    fn holds_answer(&self) -> bool {
        self.output.held() > 0 || !self.output.is_empty()
    }

    /// Bytes of memory in the output, wherever they wait.
    pub(crate) fn output_held(&self) -> usize {
        self.output.charged() + self.wire_held()
    }

    /// Those of them that are on their way to the peer.
    fn wire_held(&self) -> usize {
        let waiting = if self.wire.is_empty() { 0 } else { self.wire.held() };
        waiting + self.sending_charged
    }

    /// Whether the service has filled the output without asking. Answers to held requests, and what was written while there
    /// was room, were let in, and end nobody however much they are.
    fn overflows(&self, limits: &Limits) -> bool {
        let unasked = self.output.unasked;
        unasked > 0 && self.output_held().min(unasked.saturating_add(limits.output_high)) > limits.output_max
    }

    /// Whether the record at the front of the input is longer than one may be.
    fn is_too_long(&self, limits: &Limits) -> bool {
        let record = self.input.len().max(self.needed.saturating_sub(1));
        record > limits.record_max && !self.blocked && self.fill.is_none()
    }

    /// The limit at which the input waits, if there is one.
    fn pause(&self, held: impl FnOnce() -> usize, limits: &Limits) -> Option<Pause> {
        if !self.output.reads_on && self.output.held() >= limits.requests_in_flight_max {
            return Some(Pause::Requests);
        }
        if self.awaits_offload {
            return Some(Pause::Offload);
        }
        if !self.output.reads_on && held() >= limits.output_high {
            return Some(Pause::Output);
        }
        self.blocked.then_some(Pause::Service)
    }

    /// Whether a chain of this box keeps bytes beyond this turn.
    pub(crate) fn holds_bytes(&self) -> bool {
        !(self.input.is_empty() && self.raw.is_empty() && self.wire.is_empty() && self.output.is_empty())
    }

    /// Moves views that use under a quarter of their block to fitting memory; returns how many bytes were copied.
    pub(crate) fn compact(&mut self) -> usize {
        let Busy { input, output, raw, wire, .. } = self;
        let chains = [&mut input.chain, raw, wire].into_iter().chain(output.chains_mut());
        chains.map(Chain::compact).sum()
    }

    /// Drops what there is of a record that will never be whole.
    pub(crate) fn drop_record(&mut self) {
        self.input.chain.clear();
        self.raw.clear();
        (self.fill, self.needed, self.amid, self.owes_rest) = (None, 0, false, false);
    }

    /// Whether the box can go back to the pool as it is.
    pub(crate) fn is_idle(&self) -> bool {
        assert!(self.fetch == Fetch::Idle || !self.output.chain.is_empty(), "what is read is a part of the output");
        let quiet = self.sending_charged == 0 && self.output.is_idle() && self.wire.is_empty();
        quiet && !self.in_record() && self.input.filled.is_none()
    }

    /// Empties the box for another connection.
    pub(crate) fn reset(&mut self) {
        self.input.chain.clear();
        (self.input.filled, self.input.finished, self.input.truncated) = (None, false, false);
        self.output.clear();
        self.output.wants_drained = false;
        self.raw.clear();
        self.wire.clear();
        (self.fill, self.fetch) = (None, Fetch::Idle);
        self.input.is_too_long = false;
        (self.needed, self.record_since, self.record_bytes, self.sending_charged) = (0, 0, 0, 0);
        (self.blocked, self.awaits_offload, self.was_starved, self.amid, self.owes_rest) = (false, false, false, false, false);
        (self.moved_at, self.moved, self.told_drained, self.delivery) = (0, 0, false, Delivery::NONE);
    }

    /// Moves what arrived into the input, through the fill if one is wanted: its bytes are copied then.
    pub(crate) fn take_in(&mut self, shared: Shared) {
        self.input.chain.push(shared);
        self.feed_fill();
    }

    /// Copies what has arrived into the lease that is to be filled.
    pub(crate) fn feed_fill(&mut self) {
        let Some((until, lease)) = self.fill.as_mut().and_then(|fill| Some((fill.until, fill.lease.as_mut()?))) else { return };
        let wanted = until.saturating_sub(lease.len()).min(self.input.chain.len());
        let copied = self.input.chain.copy_to(&mut lease.spare()[..wanted]);
        assert_eq!(copied, wanted, "what has arrived is in memory");
        lease.advance(copied);
        self.input.chain.skip(copied);
        self.input.copied += copied;
    }
}

impl Connection {
    /// Whether it has moved little of what it holds for a while.
    pub(crate) fn stands_still(&self, now: u64) -> bool {
        now.saturating_sub(self.still_since()) >= STANDSTILL
    }

    /// The same for a shorter while: so it may end for others of its own peer.
    pub(crate) fn rests(&self, now: u64) -> bool {
        now.saturating_sub(self.still_since()) >= STANDSTILL / 2
    }

    /// Since when it has moved little of what it holds.
    pub(crate) fn still_since(&self) -> u64 {
        let moved_at = self.busy.as_ref().map_or(0, |busy| busy.moved_at);
        if moved_at == 0 { self.active_at } else { moved_at }
    }
}

impl Busy {
    /// Notes that `bytes` came or left, of a connection that holds `held` bytes of memory.
    pub(crate) fn note_moved(&mut self, now: u64, bytes: usize, held: impl FnOnce() -> usize) {
        self.moved = self.moved.saturating_add(bytes);
        if self.moved_at == 0 || self.moved.saturating_mul(MOVES_DIVISOR) >= held() {
            (self.moved_at, self.moved) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is one for each idle connection: of the 350 bytes that it may cost, its driver's entry, its session and its page row need the rest.
    #[test]
    fn an_idle_connection_is_small() {
        println!("{} bytes", size_of::<Connection>());
        assert!(size_of::<Connection>() <= 184, "{} bytes", size_of::<Connection>());
    }
}
