//! The box of a connection with something under way, and the boxes of a lane that are kept for reuse.

use crate::connection::delivery::Delivery;
use crate::connection::input::{Input, InputEnd};
use crate::connection::machine::Pause;
use crate::connection::output::Output;
use crate::connection::window::Window;
use crate::limits::Limits;
use crate::words::names::{ConnectionId, Owes};
use crate::words::ticket::LostTickets;
use corelane_lane::Kit;
use corelane_seam::{Arena, Chain, Fault, Lease, Shared};
use corelane_watch::{ServiceCounter, ServiceRow};

/// A connection moves if it moves this part of what it holds.
const MOVES_DIVISOR: usize = 8;

/// How far the next piece of a connection's file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fetch {
    /// Nobody has asked for one, or it is there.
    #[default]
    Idle,
    UnderWay,
    /// There is none.
    Failed(Fault),
}

/// A lease that the service wants filled.
pub(crate) struct Fill {
    /// None while the driver has it.
    pub(super) lease: Option<Lease>,
    pub(super) until: usize,
}

impl Fill {
    /// Whether the lease is here and holds all that was wanted.
    pub(super) fn is_full(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.len() >= self.until)
    }
}

/// Why the service left input behind: it is called again without new bytes once that has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Blocked {
    /// It did not.
    #[default]
    No,
    /// The output was full, or no ticket was left, or it waits for something of its own.
    Room,
    /// The helper threads had as many calls as they may.
    Helpers,
    /// It was refused memory: then the time of its record goes on, for records that have begun may hold all of it.
    Memory,
}

/// The box: all that only a connection with something under way needs.
pub(crate) struct Busy {
    pub(super) input: Input,
    pub(super) output: Output,
    /// Bytes from the socket that a transform has not taken yet.
    pub(super) raw: Chain,
    /// Bytes that a transform has made of the output, or says itself.
    pub(super) wire: Chain,
    pub(super) fill: Option<Fill>,
    /// The next piece of a file that a transform is to change.
    pub(super) fetch: Fetch,
    /// Bytes that the input must have before the service is called again.
    pub(super) needed: usize,
    pub(super) blocked: Blocked,
    /// A message has begun of which the input holds nothing now, and more is to come.
    pub(super) amid: bool,
    /// The peer owes this, whatever the input holds.
    pub(super) owes: Owes,
    /// When the record at the front of the input began to arrive (nanoseconds), and how many bytes have since.
    pub(super) record_since: u64,
    pub(super) record_bytes: u64,
    /// When the rate was looked at last, and how many bytes of the record had come by then.
    pub(super) rate_since: u64,
    pub(super) rate_bytes: u64,
    /// The peer's taking of the output.
    pub(super) delivery: Delivery,
    /// Memory that its sends in flight hold.
    pub(super) window: Window,
    /// When it last moved a good part of what it holds (0 for not yet), and bytes that moved since.
    pub(super) moved_at: u64,
    pub(super) moved: usize,
}

impl Busy {
    pub(super) fn new(arena: &Arena, lost: &LostTickets) -> Self {
        Self {
            input: Input::new(arena.clone()),
            output: Output::new(arena.clone(), lost.clone()),
            raw: Chain::new(),
            wire: Chain::new(),
            fill: None,
            fetch: Fetch::Idle,
            needed: 0,
            blocked: Blocked::No,
            amid: false,
            owes: Owes::Request,
            record_since: 0,
            record_bytes: 0,
            rate_since: 0,
            rate_bytes: 0,
            delivery: Delivery::NONE,
            window: Window::default(),
            moved_at: 0,
            moved: 0,
        }
    }

    /// Whether a record has begun to arrive and is not complete; or is, and the service keeps it until there is room.
    pub(super) fn in_record(&self) -> bool {
        !self.input.chain.is_empty() || !self.raw.is_empty() || self.fill.is_some() || self.is_blocked() || self.is_amid()
    }

    /// Whether the service left input behind.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked != Blocked::No
    }

    /// The service leaves input behind, if it did not before.
    pub(super) fn block(&mut self) {
        if !self.is_blocked() {
            self.blocked = Blocked::Room;
        }
    }

    /// Whether a message has begun, whatever the input holds of it.
    pub(super) fn is_amid(&self) -> bool {
        self.amid || self.owes == Owes::Rest
    }

    /// This is owed from now on.
    pub(super) fn owe(&mut self, owes: Owes, now: u64) {
        debug_assert!(self.record_since <= now, "what is owed now was not begun later");
        let owed_rest = std::mem::replace(&mut self.owes, owes) == Owes::Rest;
        if owed_rest != (owes == Owes::Rest) {
            (self.record_since, self.record_bytes) = (now, 0);
            self.restart_rate(now);
        }
    }

    /// Whether bytes wait to be sent.
    pub(super) fn has_output(&self) -> bool {
        !(self.wire.is_empty() && self.output.chain.is_empty())
    }

    /// Nothing waits for the peer any more, if nothing is to be sent, nor held of what was.
    pub(super) fn end_delivery(&mut self) {
        if !self.has_output() && self.window.is_empty() {
            self.delivery = Delivery::NONE;
        }
    }

    /// Whether it is the system alone that keeps something from the connection, and that goes on all the same: the peer has taken all.
    pub(super) fn waits_for_system(&self, unsent: usize, limits: &Limits) -> bool {
        let only_unreleased = !self.window.is_empty() && !self.window.is_sending() && !self.has_output();
        unsent == 0 && only_unreleased && self.output_held() < limits.output_high
    }

    /// Whether a request is held, or a part of its answer waits for another one.
    pub(super) fn holds_answer(&self) -> bool {
        self.output.held() > 0 || !self.output.is_empty()
    }

    /// Bytes of memory in the output, wherever they wait.
    pub(super) fn output_held(&self) -> usize {
        self.output.charged() + self.wire_held()
    }

    /// Those of them that are on their way to the peer, or still with the system.
    pub(super) fn wire_held(&self) -> usize {
        let waiting = if self.wire.is_empty() { 0 } else { self.wire.held() };
        waiting + self.window.held()
    }

    /// Whether the service has filled the output without asking. Answers to held requests, and what was written while there
    /// was room, were let in, and end nobody however much they are.
    pub(super) fn overflows(&self, limits: &Limits) -> bool {
        let unasked = self.output.unasked;
        unasked > 0 && self.output_held().min(unasked.saturating_add(limits.output_high)) > limits.output_max
    }

    /// Whether the record at the front of the input is longer than one may be.
    pub(super) fn is_too_long(&self, limits: &Limits) -> bool {
        let record = self.input.len().max(self.needed.saturating_sub(1));
        record > limits.record_max && !self.is_blocked() && self.fill.is_none()
    }

    /// The limit at which the input waits, if there is one.
    pub(super) fn pause(&self, held: impl FnOnce() -> usize, limits: &Limits) -> Option<Pause> {
        if !self.output.reads_on && self.output.held() >= limits.requests_in_flight_max {
            return Some(Pause::Requests);
        }
        if self.blocked == Blocked::Helpers {
            return Some(Pause::Offload);
        }
        if !self.output.reads_on && held() >= limits.output_high {
            return Some(Pause::Output);
        }
        self.is_blocked().then_some(Pause::Service)
    }

    /// Whether a chain of this box keeps bytes beyond this turn.
    pub(super) fn holds_bytes(&self) -> bool {
        !(self.input.is_empty() && self.raw.is_empty() && self.wire.is_empty() && self.output.is_empty())
    }

    /// Moves views that use under a quarter of their block to fitting memory; returns how many bytes were copied.
    pub(super) fn compact(&mut self) -> usize {
        let Busy { input, output, raw, wire, .. } = self;
        let chains = [&mut input.chain, raw, wire].into_iter().chain(output.chains_mut());
        chains.map(Chain::compact).sum()
    }

    /// Drops what there is of a record that will never be whole.
    pub(super) fn drop_record(&mut self) {
        self.input.chain.clear();
        self.raw.clear();
        (self.fill, self.needed, self.amid, self.owes) = (None, 0, false, Owes::Request);
        debug_assert!(!self.in_record() || self.is_blocked(), "nothing of a record that was dropped is left");
    }

    /// Whether the box can go back to the pool as it is.
    // Asked of each request: a call of its own would cost as much as what it looks at.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        debug_assert!(self.fetch == Fetch::Idle || !self.output.chain.is_empty(), "what is read is a part of the output");
        let quiet = self.window.is_empty() && self.output.is_idle() && self.wire.is_empty();
        quiet && self.owes != Owes::Nothing && !self.in_record() && self.input.filled.is_none()
    }

    /// Forgets what was noted of the connection whose box it was, and of which nothing is in it.
    pub(super) fn forget(&mut self) {
        debug_assert!(!self.holds_bytes() && self.window.is_empty(), "whose box is forgotten has nothing in it");
        debug_assert!(self.fill.is_none() && self.fetch == Fetch::Idle, "nothing is under way for it");
        self.input.unseen = 0;
        (self.needed, self.blocked, self.record_bytes, self.owes) = (0, Blocked::No, 0, Owes::Request);
        (self.moved_at, self.moved, self.delivery) = (0, 0, Delivery::NONE);
        self.output.begin_to_leave();
    }

    /// Empties the box for another connection.
    pub(super) fn reset(&mut self) {
        self.input.chain.clear();
        (self.input.filled, self.input.end, self.input.is_too_long) = (None, InputEnd::Open, false);
        self.output.clear();
        self.raw.clear();
        self.wire.clear();
        self.window.clear();
        (self.fill, self.fetch, self.record_since) = (None, Fetch::Idle, 0);
        self.amid = false;
        self.forget();
    }

    /// Moves what arrived into the input, through the fill if one is wanted: its bytes are copied then.
    pub(super) fn take_in(&mut self, shared: Shared) {
        self.input.chain.push(shared);
        if self.fill.is_some() {
            self.feed_fill();
        }
    }

    /// Copies what has arrived into the lease that is to be filled.
    pub(super) fn feed_fill(&mut self) {
        let Some((until, lease)) = self.fill.as_mut().and_then(|fill| Some((fill.until, fill.lease.as_mut()?))) else { return };
        debug_assert!(until <= lease.capacity(), "a lease has room for all that it is to be filled with");
        let wanted = until.saturating_sub(lease.len()).min(self.input.chain.len());
        let copied = self.input.chain.copy_to(&mut lease.spare()[..wanted]);
        assert_eq!(copied, wanted, "what has arrived is in memory");
        lease.advance(copied);
        self.input.chain.skip(copied);
        debug_assert!(self.input.is_empty() || lease.len() >= until, "bytes wait only behind a lease that is full");
        self.input.copied += copied;
    }

    /// Notes that `bytes` came or left, of a connection that holds `held` bytes of memory.
    pub(super) fn note_moved(&mut self, now: u64, bytes: usize, held: impl FnOnce() -> usize) {
        debug_assert!(self.moved_at <= now, "what has moved did so before");
        self.moved = self.moved.saturating_add(bytes);
        if self.moved_at == 0 || self.moved.saturating_mul(MOVES_DIVISOR) >= held() {
            (self.moved_at, self.moved) = (now, 0);
        }
    }

    /// Counts what calls have moved and taken since the last time.
    pub(super) fn count(&mut self, kit: &Kit, row: &ServiceRow) {
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
    pub(super) fn note_record(&mut self, now: u64, bytes: usize) {
        debug_assert!(self.record_since <= now && self.rate_since <= now, "a record has begun before");
        if self.record_bytes == 0 && !self.is_amid() {
            self.record_since = now;
            self.restart_rate(now);
        }
        self.record_bytes += bytes as u64;
    }

    /// Counts the rate from now on.
    pub(super) fn restart_rate(&mut self, now: u64) {
        debug_assert!(self.rate_since <= now, "a rate is counted from now on, and never from before");
        (self.rate_since, self.rate_bytes) = (now, self.record_bytes);
    }

    /// Notes what a call took of the input that held `before` bytes: what is left begins another record.
    pub(super) fn note_taken(&mut self, before: usize, now: u64) {
        // Of a rest the whole is timed.
        if self.input.len() < before && self.owes != Owes::Rest {
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
    #[inline]
    pub(super) fn offer_input(&mut self, finished: bool) -> bool {
        if let Some(fill) = &mut self.fill {
            let here = fill.lease.is_some();
            if !(fill.is_full() || (finished && here)) {
                return false;
            }
            self.input.filled = fill.lease.take();
            self.fill = None;
            return true;
        }
        finished || self.is_blocked() || self.input.unseen > 0 || (self.input.len() >= self.needed && !self.input.is_empty())
    }

    /// Tells the output how much it may take in this call.
    pub(super) fn offer(&mut self, limits: &Limits, now: u64) {
        debug_assert!(self.output.now <= now, "a call comes behind the last one");
        self.output.now = now;
        self.output.room = limits.output_high.saturating_sub(self.output_held());
        if self.output.room > 0 {
            self.output.unasked = 0;
        }
        self.output.tickets_left = limits.requests_in_flight_max.saturating_sub(self.output.held());
        self.output.was_refused = false;
        self.output.begin_to_leave();
    }

    /// Whether output waits for the transform; from now on it does, if it did not before.
    pub(super) fn begin_to_wait(&mut self, now: u64) -> bool {
        self.delivery.begin(now);
        self.wire.is_empty() && !self.output.chain.is_empty() && self.output.file_at_front().is_none()
    }

    /// Drops what is not on its way to the peer yet.
    pub(super) fn keep_wire_only(&mut self) {
        let (wire, window) = (std::mem::take(&mut self.wire), std::mem::take(&mut self.window));
        self.reset();
        assert!(self.is_idle(), "nothing but what is on its way is kept");
        (self.wire, self.window) = (wire, window);
    }

    /// Whether nothing is sent but what is still to be read.
    pub(super) fn awaits_file(&self) -> bool {
        self.fetch == Fetch::UnderWay && self.wire.is_empty() && !self.window.is_sending()
    }
}

/// Boxes and chains kept for reuse; more than a turn can use at once are given back to the system.
const KEPT_MAX: usize = 256;

/// Boxes, and storage of chains, for connections of a lane that come to have something under way.
#[derive(Default)]
pub(crate) struct Boxes {
    #[expect(clippy::vec_box, reason = "a box goes to its connection and comes back without being moved")]
    boxes: Vec<Box<Busy>>,
    /// Empty ones, for the next sends.
    chains: Vec<Chain>,
}

impl Boxes {
    /// A box for a connection.
    pub(super) fn take(&mut self, id: ConnectionId, arena: &Arena, lost: &LostTickets) -> Box<Busy> {
        let mut busy = self.boxes.pop().unwrap_or_else(|| Box::new(Busy::new(arena, lost)));
        debug_assert!(busy.is_idle() && !busy.holds_bytes(), "a box is given with nothing in it");
        busy.output.belong_to(id);
        busy
    }

    /// Takes back a box with something left in it.
    pub(super) fn recycle(&mut self, mut busy: Box<Busy>) {
        busy.reset();
        debug_assert!(!busy.holds_bytes(), "a box is emptied before it is kept");
        self.keep(busy);
    }

    /// Takes back a box in which nothing is left, as the caller has seen.
    pub(super) fn keep(&mut self, mut busy: Box<Busy>) {
        debug_assert!(busy.is_idle(), "a box comes back with something in it");
        busy.forget();
        if self.boxes.len() < KEPT_MAX {
            self.boxes.push(busy);
        }
    }

    /// Storage for a chain.
    pub(super) fn chain(&mut self) -> Chain {
        debug_assert!(self.chains.last().is_none_or(Chain::is_empty), "what is kept for reuse holds nothing");
        self.chains.pop().unwrap_or_default()
    }

    /// Keeps an empty chain's storage.
    pub(super) fn keep_chain(&mut self, chain: Chain) {
        assert!(chain.is_empty(), "a chain to be kept for reuse holds bytes");
        if self.chains.len() < KEPT_MAX {
            self.chains.push(chain);
        }
    }
}
