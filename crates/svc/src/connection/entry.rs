//! A connection: all of its state, which nothing changes but its events in this folder.

use crate::connection::bulk::Bulk;
use crate::connection::delivery::Delivery;
use crate::connection::input::{Input, InputEnd};
use crate::connection::machine::{Facts, Machine, Pause, Phase};
use crate::connection::output::{Drained, Output};
use crate::connection::ties::{PairAt, SessionAt};
use crate::connection::window::Window;
use crate::limits::{Limits, SECOND};
use crate::pending::timers::TimerList;
use crate::state::accounts::PeerAccountId;
use crate::words::names::{ConnectionId, Owes, Peer};
use crate::words::ticket::LostTickets;
use crate::words::transform::{PASS_BYTES, Transform};
use corelane_lane::{Kit, TimerId};
use corelane_seam::{Arena, Chain, Fault, Lease, Payer, Shared, Socket, StreamOp};
use corelane_watch::{ServiceCounter, ServiceRow};

/// How long a holder may stand still while others wait for some of its memory.
const STANDSTILL: u64 = SECOND;
/// For how long a handshake that brings nothing keeps its place from others, and any handshake.
const SILENT: u64 = SECOND / 2;
const SLOW: u64 = SECOND;

/// One connection. It is small, so that many idle ones cost little.
pub(crate) struct Connection {
    pub(super) socket: Option<Socket>,
    pub(super) peer: Peer,
    pub(super) busy: Option<Box<Busy>>,
    /// In a box of its own, so that it takes one word where there is none.
    pub(super) transform: Option<Box<Box<dyn Transform>>>,
    pub(super) timer: Option<TimerId>,
    /// Those that its service started.
    pub(super) timers: TimerList,
    /// When the timer comes: it may be too early, never too late.
    pub(super) timer_at: u64,
    /// When the last request was taken, or its answer had left; when the last bytes came, once no more requests are taken.
    pub(super) active_at: u64,
    /// When our side finished.
    pub(super) finished_at: u64,
    pub(super) pair: PairAt,
    /// Whether its service looks at its bytes, and if not, how much comes.
    pub(super) bulk: Bulk,
    /// The session's place in its service's table; none before opening and after closing.
    pub(super) session: SessionAt,
    /// In a byte: a page has rows for no more services.
    pub(super) service: u8,
    pub(super) machine: Machine,
    pub(super) is_ready: bool,
    pub(super) is_dirty: bool,
    /// Reading waits at a bound (counted once for each episode).
    pub(super) is_at_bound: bool,
    /// Its service wants to be called again once the lane has memory.
    pub(super) is_starved: bool,
    /// Who pays for its memory.
    pub(super) payer: Payer,
    /// The account of the peer among whose connections it is counted; none before it is admitted.
    pub(super) peer_account: Option<PeerAccountId>,
    /// Its service waits in the list of those that want to offload a call.
    pub(super) awaits_offload: bool,
    /// A request was taken whose answer may not have left.
    pub(super) owes_answer: bool,
    /// It waits for a place among its service's handshakes, and came as this one of those that did; 0 if it does not.
    pub(super) parked: u32,
    /// How often the system was asked whether it is still there, since it hears nothing.
    pub(super) deaf_looks: u8,
    /// More ports to be tried while it is being opened from one that was chosen here; 0 if the system, or its service, chose it.
    pub(super) tries_left: u8,
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

    /// One that was accepted, perhaps during a drain.
    pub(crate) fn accepted(socket: Socket, peer: Peer, service: u16, in_drain: bool, now: u64) -> Self {
        Self { socket: Some(socket), ..Self::new(peer, service, Machine::accepted(in_drain), now) }
    }

    /// One that is to be opened.
    pub(crate) fn opening(peer: Peer, service: u16, now: u64) -> Self {
        Self::new(peer, service, Machine::opening(), now)
    }

    pub(super) fn new(peer: Peer, service: u16, machine: Machine, now: u64) -> Self {
        Self {
            socket: None,
            peer,
            busy: None,
            transform: None,
            timer: None,
            timers: TimerList::EMPTY,
            timer_at: u64::MAX,
            active_at: now,
            finished_at: now,
            pair: PairAt::NONE,
            bulk: Bulk::Seen,
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
            deaf_looks: 0,
            tries_left: 0,
        }
    }

    /// Where it is in its life, to be asked: only its events change that.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Its two ends.
    pub(crate) fn ends(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn socket(&self) -> Option<Socket> {
        self.socket
    }

    /// The place of its session.
    pub(crate) fn session(&self) -> Option<u32> {
        self.session.get()
    }

    /// Who pays for its memory.
    pub(crate) fn payer(&self) -> Payer {
        self.payer
    }

    /// Since when nothing was asked of it.
    pub(crate) fn active_at(&self) -> u64 {
        self.active_at
    }

    /// The timers that its service started.
    pub(crate) fn timers(&mut self) -> &mut TimerList {
        &mut self.timers
    }

    /// Whether its service, or its transform, waits for memory.
    pub(crate) fn waits_for_memory(&self) -> bool {
        self.is_starved
    }

    /// Whether its transform is to be called with what has come.
    pub(crate) fn is_to_pass(&self) -> bool {
        self.transform.is_some() && self.machine.is_to_pass()
    }

    /// Whether nobody has given up opening it: neither its service nor its limit.
    pub(crate) fn is_being_opened(&self) -> bool {
        debug_assert!(self.machine.phase() != Phase::Opening || self.socket.is_none(), "what has its socket is open");
        self.machine.phase() == Phase::Opening && self.timer.is_some()
    }

    /// How many more ports may be tried for it.
    pub(crate) fn tries_left(&self) -> u8 {
        self.tries_left
    }

    /// So many ports may be tried for it from now on.
    pub(crate) fn set_tries(&mut self, tries: u8) {
        assert!(self.machine.phase() == Phase::Opening && self.socket.is_none(), "what is open is not opened again");
        self.tries_left = tries;
    }

    /// The other of its pair.
    pub(crate) fn pair(&self) -> Option<ConnectionId> {
        self.pair.get()
    }

    /// It is one of a pair from now on, whose bytes its service passes on unseen or not.
    pub(crate) fn couple(&mut self, other: ConnectionId, is_unseen: bool) {
        assert!(!self.machine.has_ended() && !self.pair.is_some(), "one that is there is of one pair");
        self.pair = PairAt::of(other);
        self.bulk = Bulk::of(is_unseen);
    }

    /// Whether its socket is one of those between which bytes pass through pipes, and nothing stands before it.
    pub(super) fn has_plain_way(&self) -> bool {
        self.machine.phase() == Phase::Open && self.transform.is_none() && self.peer.address.inet().is_some()
    }

    /// It is of no pair any more; returns the other.
    pub(crate) fn uncouple(&mut self) -> Option<ConnectionId> {
        self.pair.take()
    }

    /// Gives its session a place: it has one once.
    pub(crate) fn place_session(&mut self, session: Option<u32>) {
        assert!(self.session.is_none(), "a connection has one session");
        self.session = SessionAt::of(session);
    }

    /// What its user gave for it, as its lane ends.
    pub(crate) fn take_transform(&mut self) -> Option<Box<Box<dyn Transform>>> {
        self.transform.take()
    }

    /// Whether anything waits to be sent, or is being sent.
    pub(crate) fn has_output(&self) -> bool {
        self.machine.is_sending() || self.busy.as_ref().is_some_and(|busy| busy.has_output())
    }

    /// Whether it holds memory that its peer is to take, or that the system still reads for it.
    pub(crate) fn holds_output(&self) -> bool {
        self.has_output() || self.machine.unreleased() > 0
    }

    /// Whether a record has begun to arrive and is not complete.
    pub(super) fn in_record(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.in_record())
    }

    /// What its memory says of its life.
    pub(super) fn holdings<'a>(&'a self, limits: &'a Limits) -> Holdings<'a> {
        Holdings { connection: self, busy: self.busy.as_deref(), limits }
    }

    /// Whether everything that was asked is answered, and all answers have left.
    pub(super) fn is_answered(&self, limits: &Limits) -> bool {
        self.machine.is_answered(&self.holdings(limits))
    }

    /// Whether nothing remains to be done after a send that went out whole: the usual case, in which the connection
    /// need not be flushed again.
    pub(super) fn is_settled(&self) -> bool {
        let at_rest = self.machine.is_at_rest() && !self.pair.is_some() && !self.is_ready;
        debug_assert!(!at_rest || self.socket.is_some(), "who awaits its peer has a socket");
        at_rest && self.busy.as_ref().is_none_or(|busy| busy.is_idle())
    }

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

    /// Whether it may end for another one: its peer began it, and it has moved little for a while.
    pub(crate) fn is_stale(&self, now: u64) -> bool {
        self.is_there_for_peer() && self.stands_still(now)
    }

    /// Whether it may end for another one of its own peer.
    pub(crate) fn may_make_way(&self, now: u64) -> bool {
        self.is_there_for_peer() && self.rests(now)
    }

    fn is_there_for_peer(&self) -> bool {
        !self.machine.is_outgoing() && !self.machine.has_ended() && !self.is_ready
    }

    /// Whether it has a place among the handshakes that others began, and has kept it for longer than it should while others wait.
    pub(crate) fn keeps_place_long(&self, now: u64) -> bool {
        let has_place = self.machine.is_in_handshake() && self.parked == 0 && !self.machine.is_outgoing();
        // What is ready waits for this lane, not for its peer.
        let is_long = now.saturating_sub(self.active_at) >= SLOW || now.saturating_sub(self.still_since()) >= SILENT;
        has_place && !self.is_ready && is_long
    }

    /// Puts back what a send did not take, in front of what was written meanwhile; returns a chain without bytes.
    pub(super) fn take_back(&mut self, kit: &Kit, limits: &Limits, bytes: usize, mut rest: Chain, is_released: bool) -> Chain {
        debug_assert!(!self.machine.is_sending(), "what comes back was the only send under way");
        debug_assert!(self.socket.is_some(), "what comes back was sent by what was open");
        let now = kit.now();
        // A connection that has ended has given its box back, and nobody needs what was not sent.
        let Some(busy) = self.busy.as_mut().filter(|_| !self.machine.has_ended()) else {
            assert!(self.machine.has_ended(), "who sends has its box");
            return Chain::new();
        };
        let back = if rest.is_empty() { 0 } else { rest.held() };
        busy.window.end(back, is_released);
        if bytes > 0 {
            busy.delivery.give(bytes);
        }
        // What the system still reads moves when that is released.
        if bytes > 0 && is_released {
            busy.note_moved(now, bytes, || kit.arena.held(self.payer));
        }
        let chain = if self.transform.is_some() { &mut busy.wire } else { &mut busy.output.chain };
        if !rest.is_empty() {
            rest.append(chain);
        }
        if chain.is_empty() {
            std::mem::swap(chain, &mut rest);
        }
        busy.end_delivery();
        if self.owes_answer && self.is_answered(limits) {
            (self.active_at, self.owes_answer) = (now, false);
        }
        rest
    }

    /// Memory of a send that had ended is released.
    pub(super) fn release(&mut self, kit: &Kit) {
        self.machine.released();
        // A connection that has ended has given its box back; what it still held goes on being charged to it by the arena alone.
        let Some(busy) = self.busy.as_mut().filter(|_| !self.machine.has_ended()) else {
            return assert!(self.machine.has_ended(), "who waits for a release has its box");
        };
        let bytes = busy.window.release();
        busy.note_moved(kit.now(), bytes, || kit.arena.held(self.payer));
        busy.end_delivery();
    }

    /// Where the transform passes parts of files as they are, nobody looks for them.
    pub(super) fn let_files_pass(&mut self) {
        debug_assert!(self.transform.is_some(), "only what has a transform passes through it");
        let Some(busy) = self.busy.as_mut().filter(|busy| busy.output.has_files()) else { return };
        // reason: asked by the caller.
        let transform = self.transform.as_ref().expect("only a transform passes parts of files");
        if !busy.output.are_read(transform.passes_files()) {
            busy.output.forget_files();
        }
    }

    /// The receive that it should have under way in its phase, and has not: into a pipe, at most so many bytes, where that is worth while.
    pub(super) fn receive_op(&mut self, piped: Option<usize>) -> StreamOp {
        assert!(!self.machine.is_receiving(), "one receive at a time");
        // reason: it opens with one.
        let socket = self.socket.expect("what is open has a socket");
        let serves = self.transform.is_none() && self.machine.serves_input();
        let fill = self.busy.as_mut().filter(|_| serves).and_then(|busy| Some((busy.fill.as_mut()?, &mut busy.input)));
        let Some((fill, input)) = fill else {
            return piped.map_or(StreamOp::Receive { socket }, |most| StreamOp::ReceivePiped { socket, most });
        };
        // reason: away only while it is received into.
        let (until, lease) = (fill.until, fill.lease.take().expect("a lease to be filled is here between receives"));
        input.filling_from = lease.len();
        StreamOp::ReceiveInto { socket, lease, until }
    }
}

/// What a connection holds, as its [machine](Machine) asks for it.
pub(super) struct Holdings<'a> {
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
        self.connection.is_ready || self.busy.is_some_and(|busy| busy.is_blocked() || is_starved && !busy.raw.is_empty())
    }

    fn peer_has_said_all(&self) -> bool {
        self.connection.transform.is_none() && self.busy.is_some_and(|busy| busy.owes == Owes::Nothing)
    }

    fn wants_drained(&self) -> bool {
        let is_starved = self.connection.is_starved;
        // Where what has left is still held, there is no room yet for more.
        self.busy.is_some_and(|busy| {
            busy.output.drained == Drained::Wanted && !is_starved && busy.window.held() < self.limits.output_high
        })
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
        let Connection { parked, machine, .. } = self.connection;
        debug_assert!(*parked == 0 || machine.is_in_handshake(), "who waits for a place has begun its handshake");
        if *parked > 0 {
            return Some(Pause::Handshakes);
        }
        // Output written meanwhile leaves only after the handshake, which must go on for that.
        let held = if machine.is_in_handshake() { Busy::wire_held } else { Busy::output_held };
        self.busy.and_then(|busy| busy.pause(|| held(busy), self.limits))
    }
}

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

/// What only a connection with something under way needs.
pub(crate) struct Busy {
    pub(super) input: Input,
    pub(super) output: Output,
    /// Bytes from the socket that a transform has not taken yet.
    pub(super) raw: Chain,
    /// What a transform has made of the output, or says itself.
    pub(super) wire: Chain,
    pub(super) fill: Option<Fill>,
    /// The next piece of a file that a transform is to change.
    pub(super) fetch: Fetch,
    /// Bytes that the input must have before the service is called again.
    pub(super) needed: usize,
    pub(super) blocked: Blocked,
    /// A message has begun of which the input holds nothing now, and more is to come.
    pub(super) amid: bool,
    /// What the peer owes, whatever the input holds.
    pub(super) owes: Owes,
    /// When the record at the front of the input began to arrive (nanoseconds), and how many bytes have since.
    pub(super) record_since: u64,
    pub(super) record_bytes: u64,
    /// When the rate was looked at last, and how many bytes of the record had come by then.
    pub(super) rate_since: u64,
    pub(super) rate_bytes: u64,
    /// What the peer takes of the output.
    pub(super) delivery: Delivery,
    /// What its sends in flight hold.
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

    /// The service, or the transform, leaves input behind, if it did not before.
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
        self.feed_fill();
    }

    /// Copies what has arrived into the lease that is to be filled.
    pub(super) fn feed_fill(&mut self) {
        let Some((until, lease)) = self.fill.as_mut().and_then(|fill| Some((fill.until, fill.lease.as_mut()?))) else { return };
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
        finished || self.is_blocked() || (self.input.len() >= self.needed && !self.input.is_empty())
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
