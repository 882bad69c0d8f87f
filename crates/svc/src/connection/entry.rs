//! A connection: all of its state, which nothing changes but its events in this folder.

use crate::connection::bridging::Bridging;
use crate::connection::bulk::Bulk;
use crate::connection::busy::Busy;
use crate::connection::machine::{Facts, Machine, Pause, Phase};
use crate::connection::output::Drained;
use crate::connection::ties::{PairAt, SessionAt};
use crate::limits::{Limits, SECOND};
use crate::pending::timers::TimerList;
use crate::state::accounts::PeerAccountId;
use crate::words::names::{ConnectionId, Owes, Peer};
use crate::words::transform::{PASS_BYTES, Transform};
use corelane_lane::{Kit, TimerId};
use corelane_seam::{Chain, Payer, Socket, StreamOp};

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
    pub(super) bridging: Bridging,
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
            bridging: Bridging::No,
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
        (self.bulk, self.bridging) = (Bulk::of(is_unseen), Bridging::No);
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
        debug_assert!(session.is_none() || !self.machine.has_ended(), "what has ended gets no session");
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
        debug_assert!(self.parked == 0 || self.machine.is_in_handshake(), "who waits for a place has begun its handshake");
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
        debug_assert!(piped.is_none(), "bytes that fill a lease come through no pipe");
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
