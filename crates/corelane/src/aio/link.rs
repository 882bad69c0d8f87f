//! One connection between its task and its service: what has come and was not read, what was written and has not been taken, and who waits.
//!
//! The service brings bytes ([`Link::take_in`]) and wakes who waits for them; the task takes and writes; whatever it did is settled with the connection
//! before the turn is flushed ([`Link::settle`]). Neither is ever called while the other is at it.

use super::Result;
use super::error::Error;
use corelane_seam::slab::Key;
use corelane_seam::{Arena, Chain, Fault, Lease, Payer, Segment};
use corelane_svc::{ConnectionId, Cx, Ending, Input, Limits, Next, Nudge, Order, Output, Owes, Peer, Refused, Talk, Ticket};
use corelane_watch::ServiceCounter;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Bytes that are copied at once, and the size of a lease in which small writes are gathered.
const PIECE_BYTES: usize = 64 << 10;
/// The fewest bytes of a longer write that are copied at once, where the lane has no more in one piece.
const PIECE_BYTES_LEAST: usize = 4 << 10;
const GATHER_BYTES: usize = 16 << 10;

/// How often the time of a request that goes on begins anew at the most, in nanoseconds.
const RENEWED_AFTER: u64 = 1_000_000_000;

/// Keeps who is to be woken; who is kept already is not cloned again.
pub(super) fn store(kept: &mut Option<Waker>, context: &Context<'_>) {
    match kept {
        Some(waker) => waker.clone_from(context.waker()),
        None => *kept = Some(context.waker().clone()),
    }
}

/// The connections of a service on one lane with which something is to be settled.
pub(super) struct Touched {
    list: RefCell<Vec<Rc<Link>>>,
    /// Storage of chains, for the next ones.
    chains: RefCell<Vec<Chain>>,
    nudge: Nudge,
}

/// Chains whose storage is kept.
const CHAINS_MAX: usize = 256;

impl Touched {
    pub(super) fn new(nudge: Nudge) -> Self {
        Self { list: RefCell::default(), chains: RefCell::default(), nudge }
    }

    pub(super) fn nudge(&self) {
        self.nudge.nudge();
    }

    /// Takes them; `list` has the storage for the next.
    pub(super) fn swap(&self, list: &mut Vec<Rc<Link>>) {
        assert!(list.is_empty(), "storage is given back empty");
        std::mem::swap(&mut *self.list.borrow_mut(), list);
    }
}

/// The fate of the connection when all that was written has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// It goes on.
    Lives,
    /// Nobody has it any more: it is closed.
    Closes,
    /// Its task breaks it off.
    Aborts,
    /// Its task did not finish: it is broken off.
    Breaks,
    /// Its service was told.
    Told,
}

/// How far our side is with what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speech {
    /// It says what it wants.
    Goes,
    /// It has said all, and its service is to be told.
    Ends,
    /// Its service was told.
    HasEnded,
}

/// How it has ended.
#[derive(Clone, Copy)]
struct HowEnded {
    ending: Ending,
    fault: Option<Fault>,
}

impl HowEnded {
    fn error(self) -> Error {
        Error::Ended { ending: self.ending, fault: self.fault }
    }
}

/// A connection between task and service; nobody outside can name it.
pub struct Link {
    touched: Rc<Touched>,
    own: RefCell<Own>,
}

struct Own {
    /// None until it is being opened.
    id: Option<ConnectionId>,
    /// The wait until it is open, if this side opens it.
    opener: Option<Key>,
    peer: Option<Peer>,
    /// The payer of what is written.
    payer: Payer,
    arena: Arena,
    record_max: usize,
    is_touched: bool,
    /// The bytes that have come and were not read; ends with the stream.
    input: Input,
    is_finished: bool,
    is_truncated: bool,
    /// The service has left bytes with the connection until there is room for them here.
    is_paused: bool,
    reader: Option<Waker>,
    /// A task waits until there are so many bytes. 0: none does, and the connection is at work.
    wanted: usize,
    /// How many say that it is at work all the same.
    works: usize,
    /// The bytes that were written and are to be taken; small writes gather in the lease, which is its end.
    chain: Chain,
    gather: Option<Lease>,
    /// Bytes that may be written before it waits.
    room: usize,
    writer: Option<Waker>,
    awaits_room: bool,
    /// All that was written has left, as far as is known; and somebody waits until it has.
    has_left: bool,
    awaits_leave: bool,
    /// Bytes of memory that a write was refused, and the lease that has come for it.
    wants_memory: usize,
    spare: Option<Lease>,
    /// A call into the service has been asked for, in which that is asked for again.
    asks_memory: bool,
    requests: usize,
    /// The service has said that the task waits for the rest of a record.
    is_amid: bool,
    /// The debt of the peer that the task has told, and nobody has taken note of; and whether it ever has.
    owes: Option<Owes>,
    tells_owed: bool,
    /// Requests go on: the time of who is at work, and of idleness, begins anew.
    goes_on: bool,
    /// Bytes of requests and answers that the peer has sent and taken since then (nanoseconds), for the least rate that they must have to count.
    moved: u64,
    moved_since: u64,
    rate_min: u64,
    /// Held with the connection while it is at work, so that neither drain nor stream's end closes it.
    ticket: Option<Ticket>,
    outlives_drain: bool,
    /// The input waits while the output has no room.
    holds_input: bool,
    /// A drain has left its end to its task, for which somebody may wait.
    is_left_to_task: bool,
    /// Another process serves in place of this one.
    is_handed_over: bool,
    drainer: Option<Waker>,
    speech: Speech,
    fate: Fate,
    end: Option<HowEnded>,
}

impl Link {
    pub(super) fn new(touched: &Rc<Touched>, arena: &Arena, limits: &Limits) -> Rc<Self> {
        let own = Own {
            id: None,
            opener: None,
            peer: None,
            payer: Payer::LANE,
            arena: arena.clone(),
            record_max: limits.record_max,
            is_touched: false,
            input: Input::new(arena.clone()),
            is_finished: false,
            is_truncated: false,
            is_paused: false,
            reader: None,
            wanted: 0,
            works: 0,
            chain: Chain::new(),
            gather: None,
            room: limits.output_high,
            writer: None,
            awaits_room: false,
            has_left: true,
            awaits_leave: false,
            wants_memory: 0,
            spare: None,
            asks_memory: false,
            requests: 0,
            is_amid: false,
            owes: None,
            tells_owed: false,
            goes_on: false,
            moved: 0,
            moved_since: 0,
            rate_min: limits.receive_rate_min,
            ticket: None,
            outlives_drain: false,
            holds_input: false,
            is_left_to_task: false,
            is_handed_over: false,
            drainer: None,
            speech: Speech::Goes,
            fate: Fate::Lives,
            end: None,
        };
        Rc::new(Self { touched: touched.clone(), own: RefCell::new(own) })
    }

    /// This side opens it, for somebody who waits for that.
    pub(super) fn begins_to_open(&self, id: ConnectionId, opener: Key) {
        self.named(id);
        let before = self.own.borrow_mut().opener.replace(opener);
        assert!(before.is_none(), "a connection is opened once");
    }

    /// The wait until it is open, to be told.
    pub(super) fn take_opener(&self) -> Option<Key> {
        self.own.borrow_mut().opener.take()
    }

    /// Its name is known.
    fn named(&self, id: ConnectionId) {
        let before = self.own.borrow_mut().id.replace(id);
        assert!(before.is_none_or(|before| before == id), "a connection has one name");
    }

    /// It is open, and its task is about to have it: it is at work until that waits for bytes.
    pub(super) fn opened(self: &Rc<Self>, id: ConnectionId, peer: &Peer, payer: Payer) {
        self.named(id);
        let own = &mut *self.own.borrow_mut();
        assert!(own.peer.is_none() && own.end.is_none(), "a connection is opened once, and before its end");
        assert!(own.input.is_empty() && own.wanted == 0 && own.ticket.is_none(), "nobody has a connection before it is open");
        (own.peer, own.payer) = (Some(peer.clone()), payer);
        self.touch(own);
    }

    /// Its payer: after its end the lane.
    pub(super) fn payer(&self) -> Payer {
        self.own.borrow().payer()
    }

    /// Has it settled before the turn is flushed.
    fn touch(self: &Rc<Self>, own: &mut Own) {
        if !std::mem::replace(&mut own.is_touched, true) {
            self.touched.list.borrow_mut().push(self.clone());
            self.touched.nudge();
        }
    }

    pub(super) fn peer(&self) -> Peer {
        // reason: a connection is handed out when it is open.
        self.own.borrow().peer.clone().expect("an open connection has two ends")
    }

    pub(super) fn id(&self) -> Option<ConnectionId> {
        self.own.borrow().id
    }

    /// The bytes that have come and were not read. Where more wait with the connection, they come as soon as these are taken, whether or not they are waited for.
    pub(super) fn with_input<R>(self: &Rc<Self>, with: impl FnOnce(&mut Input) -> R) -> R {
        let own = &mut *self.own.borrow_mut();
        let output = with(&mut own.input);
        if own.is_paused && own.input.is_empty() {
            self.touch(own);
        }
        output
    }

    pub(super) fn is_truncated(&self) -> bool {
        self.own.borrow().is_truncated
    }

    pub(super) fn outlive_drain(&self, outlives: bool) {
        self.own.borrow_mut().outlives_drain = outlives;
    }

    pub(super) fn hold_input(&self, holds: bool) {
        self.own.borrow_mut().holds_input = holds;
    }

    pub(super) fn outlives_drain(&self) -> bool {
        self.own.borrow().outlives_drain
    }

    /// Our side says no more.
    pub(super) fn finish(self: &Rc<Self>) {
        let own = &mut *self.own.borrow_mut();
        if own.speech == Speech::Goes {
            own.speech = Speech::Ends;
            self.touch(own);
        }
    }

    pub(super) fn count_requests(self: &Rc<Self>, requests: usize) {
        let own = &mut *self.own.borrow_mut();
        own.requests += requests;
        self.touch(own);
    }

    /// Sets what the peer owes from now on.
    pub(super) fn peer_owes(self: &Rc<Self>, owes: Owes) {
        let own = &mut *self.own.borrow_mut();
        (own.owes, own.tells_owed) = (Some(owes), true);
        self.touch(own);
    }

    /// The work goes on.
    pub(super) fn goes_on(self: &Rc<Self>) {
        let own = &mut *self.own.borrow_mut();
        own.goes_on = true;
        self.touch(own);
    }

    /// The peer has sent, or taken, so many bytes of requests and answers.
    pub(super) fn note_moved(self: &Rc<Self>, bytes: usize) {
        let own = &mut *self.own.borrow_mut();
        own.moved = own.moved.saturating_add(bytes as u64);
        self.touch(own);
    }

    /// Sets its fate; the worse of what it was told.
    pub(super) fn meet(self: &Rc<Self>, fate: Fate) {
        let own = &mut *self.own.borrow_mut();
        if fate > own.fate {
            own.fate = fate;
            self.touch(own);
        }
    }
}

/// The task's side.
impl Link {
    /// Whether `bytes` bytes are there; false if the stream has ended with fewer.
    pub(super) fn poll_fill(self: &Rc<Self>, context: &Context<'_>, bytes: usize) -> Poll<Result<bool>> {
        let own = &mut *self.own.borrow_mut();
        let outcome = own.filled(bytes.max(1));
        if outcome.is_ready() {
            self.stop_waiting(own);
            return outcome;
        }
        if own.wanted == 0 {
            self.touch(own);
        }
        own.wanted = bytes.max(1);
        store(&mut own.reader, context);
        Poll::Pending
    }

    /// One more says that the connection is at work, or one less.
    pub(super) fn work(self: &Rc<Self>, begins: bool) {
        let own = &mut *self.own.borrow_mut();
        assert!(begins || own.works > 0, "work ends that was begun");
        own.works = if begins { own.works + 1 } else { own.works - 1 };
        self.touch(own);
    }

    /// Nobody waits for bytes any more.
    pub(super) fn cancel_fill(self: &Rc<Self>) {
        self.stop_waiting(&mut self.own.borrow_mut());
    }

    fn stop_waiting(self: &Rc<Self>, own: &mut Own) {
        if own.wanted > 0 {
            own.wanted = 0;
            self.touch(own);
        }
    }

    /// Whether a drain has left the end of the connection to its task.
    pub(super) fn poll_left(&self, context: &Context<'_>) -> Poll<()> {
        let own = &mut *self.own.borrow_mut();
        if own.is_left_to_task {
            return Poll::Ready(());
        }
        store(&mut own.drainer, context);
        Poll::Pending
    }

    /// The same, or whether another process serves in place of this one.
    pub(super) fn poll_leaves(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_handed_over() { Poll::Ready(()) } else { self.poll_left(context) }
    }

    pub(super) fn is_handed_over(&self) -> bool {
        self.own.borrow().is_handed_over
    }

    /// How many bytes may be written.
    pub(super) fn poll_room(self: &Rc<Self>, context: &Context<'_>) -> Poll<Result<usize>> {
        let own = &mut *self.own.borrow_mut();
        if let Some(end) = own.end {
            return Poll::Ready(Err(end.error()));
        }
        if own.speech != Speech::Goes {
            return Poll::Ready(Err(Error::Finished));
        }
        if own.room > 0 {
            return Poll::Ready(Ok(own.room));
        }
        self.await_room(own, context);
        Poll::Pending
    }

    fn await_room(self: &Rc<Self>, own: &mut Own, context: &Context<'_>) {
        own.awaits_room = true;
        store(&mut own.writer, context);
        self.touch(own);
    }

    /// Copies as many of `bytes` as there is room for, at least one; returns how many.
    pub(super) fn poll_write(self: &Rc<Self>, context: &Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if self.poll_room(context)?.is_pending() {
            return Poll::Pending;
        }
        let own = &mut *self.own.borrow_mut();
        match own.copy(&bytes[..bytes.len().min(PIECE_BYTES)]) {
            Some(copied) => {
                self.touch(own);
                Poll::Ready(Ok(copied))
            }
            None => {
                own.wants_memory = bytes.len().min(PIECE_BYTES_LEAST);
                self.await_room(own, context);
                Poll::Pending
            }
        }
    }

    /// Whether all that was written has left.
    pub(super) fn poll_flush(self: &Rc<Self>, context: &Context<'_>) -> Poll<Result<()>> {
        let own = &mut *self.own.borrow_mut();
        if let Some(end) = own.end {
            return Poll::Ready(Err(end.error()));
        }
        if own.has_left && own.chain.is_empty() && own.gather.is_none() {
            return Poll::Ready(Ok(()));
        }
        own.awaits_leave = true;
        store(&mut own.writer, context);
        self.touch(own);
        Poll::Pending
    }

    /// Storage for a chain.
    pub(super) fn storage(&self) -> Chain {
        self.touched.chains.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps that of an empty chain.
    pub(super) fn keep(&self, chain: Chain) {
        assert!(chain.is_empty(), "a chain whose storage is kept has been taken");
        let mut chains = self.touched.chains.borrow_mut();
        if chains.len() < CHAINS_MAX {
            chains.push(chain);
        }
    }

    /// Nobody waits to write any more.
    pub(super) fn cancel_write(&self) {
        let own = &mut *self.own.borrow_mut();
        (own.wants_memory, own.asks_memory, own.spare) = (0, false, None);
    }

    /// Writes a segment for which there was room.
    pub(super) fn push(self: &Rc<Self>, segment: Segment) {
        let own = &mut *self.own.borrow_mut();
        assert!(own.speech == Speech::Goes, "there is no room for who has said all");
        own.seal();
        own.room = own.room.saturating_sub(segment.held().max(1));
        own.chain.push(segment);
        self.touch(own);
    }

    /// The same for a chain, which keeps its storage or gets another.
    pub(super) fn append(self: &Rc<Self>, chain: &mut Chain) {
        let own = &mut *self.own.borrow_mut();
        assert!(own.speech == Speech::Goes, "there is no room for who has said all");
        own.seal();
        own.room = own.room.saturating_sub(chain.held().max(1));
        match own.chain.is_empty() {
            true => std::mem::swap(&mut own.chain, chain),
            false => own.chain.append(chain),
        }
        self.touch(own);
    }

    /// A lease that the connection pays for.
    pub(super) fn lease(&self, capacity: usize) -> std::result::Result<Lease, Refused> {
        let own = &mut *self.own.borrow_mut();
        own.lease(capacity, capacity)
    }
}

impl Own {
    /// Whether something of what the task waits for is there, and not all.
    fn waits_for_rest(&self) -> bool {
        self.wanted > self.input.len() && !self.input.is_empty() && !self.is_finished
    }

    fn filled(&self, bytes: usize) -> Poll<Result<bool>> {
        if self.input.len() >= bytes {
            return Poll::Ready(Ok(true));
        }
        if bytes > self.record_max {
            return Poll::Ready(Err(Error::TooLong { record_max: self.record_max }));
        }
        match self.end {
            _ if self.is_finished => Poll::Ready(Ok(false)),
            Some(end) if matches!(end.ending, Ending::Error | Ending::Aborted) => Poll::Ready(Err(end.error())),
            Some(_) => Poll::Ready(Ok(false)),
            None => Poll::Pending,
        }
    }

    /// Copies a piece behind what was written: all of it, or of a long one as much as there is memory for in one lease; none if that is less than the
    /// least. Returns how many bytes.
    fn copy(&mut self, piece: &[u8]) -> Option<usize> {
        let least = piece.len().min(PIECE_BYTES_LEAST);
        if self.gather.as_ref().is_none_or(|lease| lease.room() < piece.len()) {
            let spare = self.spare.take().filter(|lease| lease.room() >= least);
            let most = piece.len().clamp(GATHER_BYTES, PIECE_BYTES).next_power_of_two();
            let lease = spare.or_else(|| self.lease(most, least).ok())?;
            self.seal();
            self.gather = Some(lease);
        }
        // reason: it was there, or has just come.
        let lease = self.gather.as_mut().expect("what is written is gathered in a lease");
        let copied = piece.len().min(lease.room());
        assert!(copied > 0 || piece.is_empty(), "a lease that is gathered in has room");
        lease.append(&piece[..copied]);
        assert!(copied >= least, "a piece is written as far as it must be");
        (self.room, self.wants_memory, self.asks_memory) = (self.room.saturating_sub(copied), 0, false);
        Some(copied)
    }

    /// After its end nobody pays for it but the lane.
    fn payer(&self) -> Payer {
        if self.end.is_none() { self.payer } else { Payer::LANE }
    }

    fn lease(&self, most: usize, least: usize) -> std::result::Result<Lease, Refused> {
        let before = self.arena.pay_as(self.payer());
        let lease = self.arena.lease_upto(most, least);
        self.arena.pay_no_longer(before);
        let lend_max = self.arena.lend_max();
        lease.ok_or(if least > lend_max { Refused::TooLarge { most: lend_max } } else { Refused::Memory })
    }

    /// Ends the gathering of small writes, so that what follows stands behind them.
    fn seal(&mut self) {
        if let Some(lease) = self.gather.take() {
            self.chain.push(lease.share());
        }
    }
}

/// The service's side.
impl Link {
    /// Bytes have come, or the service is called again with what it left.
    pub(super) fn take_in<T: Talk>(self: &Rc<Self>, cx: &mut Cx<'_, T>, input: &mut Input) -> Next {
        let own = &mut *self.own.borrow_mut();
        assert!(own.end.is_none(), "nothing comes after the end");
        assert!(own.peer.is_some(), "bytes come when a connection is open");
        assert!(!own.is_finished || input.is_empty(), "nothing comes after the end of the stream");
        own.assert_who_waits_is_known();
        if own.wants_memory > 0 {
            own.ask_memory(cx);
        }
        if input.is_finished() {
            (own.is_finished, own.is_truncated) = (true, input.is_truncated());
        }
        // The last bytes are taken whatever waits: nothing follows them.
        if own.input.is_empty() || own.wanted > own.input.len() || own.is_finished {
            own.input.append(input.take_all());
        }
        if own.wanted > 0 && (own.is_finished || own.input.len() >= own.wanted) {
            own.wanted = 0;
            own.reader.iter().for_each(|waker| cx.wake(waker));
        }
        self.touch(own);
        own.is_paused = !input.is_empty();
        assert!(!(own.is_paused && own.is_finished), "what came last was taken whatever waits");
        assert!(own.wanted == 0 || own.wanted > own.input.len(), "who waits has less than that, else it was woken");
        own.is_amid = own.waits_for_rest();
        match () {
            () if own.is_paused => Next::Wait,
            // The task waits for something that has begun to come, and must come whole.
            () if own.is_amid => Next::More,
            () => Next::Continue,
        }
    }

    /// The lane drains.
    pub(super) fn drains<T: Talk>(&self, cx: &mut Cx<'_, T>) {
        let own = &mut *self.own.borrow_mut();
        assert!(!own.is_left_to_task && own.end.is_none(), "a drain begins once, for who is there");
        own.is_left_to_task = own.outlives_drain;
        if own.is_left_to_task {
            own.drainer.take().iter().for_each(|waker| cx.wake(waker));
        }
    }

    /// Another process serves in place of this one.
    pub(super) fn handed_over<T: Talk>(&self, cx: &mut Cx<'_, T>) {
        let own = &mut *self.own.borrow_mut();
        own.is_handed_over = true;
        own.drainer.take().iter().for_each(|waker| cx.wake(waker));
    }

    /// All output has left.
    pub(super) fn drained<T: Talk>(&self, cx: &mut Cx<'_, T>, output: &mut Output) {
        let own = &mut *self.own.borrow_mut();
        assert!(own.end.is_none(), "nothing leaves after the end");
        own.assert_who_waits_is_known();
        own.has_left = true;
        if let Some(ticket) = own.ticket.take() {
            // The peer was waited for until now.
            let answered = output.answer(ticket, Chain::new());
            assert!(answered.is_ok(), "the ticket is of this connection");
            own.ticket = output.hold(Order::Any).ok();
        }
        if std::mem::take(&mut own.awaits_leave) {
            own.writer.iter().for_each(|waker| cx.wake(waker));
        }
        own.hear_of_room(cx, output.room());
    }

    /// The connection has ended.
    pub(super) fn closed<T: Talk>(&self, cx: &mut Cx<'_, T>, ending: Ending) {
        let own = &mut *self.own.borrow_mut();
        assert!(own.end.is_none(), "a connection ends once");
        assert!(own.id.is_some(), "a connection ends that was begun");
        assert!(own.peer.is_some() || own.opener.is_some(), "one that never was open ends for who had it opened");
        own.end = Some(HowEnded { ending, fault: cx.fault() });
        own.chain.clear();
        (own.gather, own.spare, own.ticket, own.drainer) = (None, None, None, None);
        [own.reader.take(), own.writer.take()].iter().flatten().for_each(|waker| cx.wake(waker));
    }

    /// Takes what the task has written, and tells the connection what it waits for, and whether it is at work.
    pub(super) fn settle<T: Talk>(&self, cx: &mut Cx<'_, T>) {
        let own = &mut *self.own.borrow_mut();
        let was_touched = std::mem::take(&mut own.is_touched);
        assert!(was_touched, "who is settled was touched, and stands in the list once");
        let requests = std::mem::take(&mut own.requests);
        if requests > 0 {
            cx.count_requests(requests);
            own.goes_on = true;
        }
        own.note_rate(cx.now().nanoseconds());
        let Some(id) = own.id.filter(|_| own.end.is_none()) else { return };
        own.assert_who_waits_is_known();
        own.hand_over(cx, id);
        if own.speech == Speech::Ends {
            own.speech = Speech::HasEnded;
            cx.finish(id);
        }
        if !own.input.is_empty() {
            own.input.compact();
        }
        let is_news = own.is_amid != own.waits_for_rest();
        if own.is_paused && (own.input.is_empty() || own.wanted > 0) || own.wants_memory > 0 && !own.asks_memory || is_news {
            own.asks_memory = own.wants_memory > 0;
            cx.resume(id);
        }
        match own.fate {
            Fate::Lives | Fate::Told => return,
            Fate::Closes => cx.close(id),
            Fate::Aborts => cx.abort(id),
            Fate::Breaks => {
                cx.count(ServiceCounter::Panics, 1);
                cx.abort(id);
            }
        }
        own.fate = Fate::Told;
    }
}

impl Own {
    /// Each wait can be woken, for what it waits for: until the end, which wakes them all.
    fn assert_who_waits_is_known(&self) {
        assert!(self.end.is_none(), "nobody waits after the end");
        assert!(self.wanted == 0 || self.reader.is_some(), "who waits for bytes is known");
        assert!(!(self.awaits_room || self.awaits_leave) || self.writer.is_some(), "who waits to write is known");
        assert!(self.wants_memory == 0 || self.awaits_room, "memory is wanted for a write that waits");
        assert!(!self.asks_memory || self.wants_memory > 0, "memory is asked for because it is wanted");
        assert!(self.spare.is_none() || self.wants_memory == 0, "who has been given memory wants no more");
    }

    /// Asks for the memory that a write was refused, in a call for the connection: if it is refused again, that is called again when it would be lent.
    fn ask_memory<T: Talk>(&mut self, cx: &mut Cx<'_, T>) {
        assert!(self.wants_memory <= PIECE_BYTES_LEAST, "a write waits for no more than the least piece");
        let Ok(lease) = cx.lease(self.wants_memory) else { return };
        (self.spare, self.wants_memory, self.asks_memory, self.awaits_room) = (Some(lease), 0, false, false);
        self.writer.iter().for_each(|waker| cx.wake(waker));
    }

    /// Whether what has moved since the time of the requests began anew kept the least rate: then they go on.
    fn note_rate(&mut self, now: u64) {
        let passed = now.saturating_sub(self.moved_since);
        let keeps = self.moved > 0 && self.moved >= self.rate_min.saturating_mul(passed / RENEWED_AFTER);
        self.goes_on |= keeps && passed >= RENEWED_AFTER;
        if self.goes_on {
            (self.moved, self.moved_since) = (0, now);
        }
    }

    fn hear_of_room<T: Talk>(&mut self, cx: &mut Cx<'_, T>, room: usize) {
        self.room = room;
        if room > 0 && self.wants_memory == 0 && std::mem::take(&mut self.awaits_room) {
            self.writer.iter().for_each(|waker| cx.wake(waker));
        }
    }

    /// Hands what was written over to the connection's output.
    fn hand_over<T: Talk>(&mut self, cx: &mut Cx<'_, T>, id: ConnectionId) {
        assert!(self.end.is_none(), "after the end nothing is handed over");
        self.seal();
        // It is being opened still, or closes already: what is left here is dropped when it is told of its end.
        let Some(output) = cx.connection(id) else { return };
        let wrote = !self.chain.is_empty();
        if wrote {
            output.append(&mut self.chain);
            assert!(self.chain.is_empty() && self.gather.is_none(), "what was written is handed over whole");
            self.has_left = false;
        }
        let room = output.room();
        if room == 0 && self.awaits_room || self.awaits_leave {
            output.notify_drained();
        }
        output.read_on(self.wanted > 0 && !self.holds_input);
        if let Some(owes) = self.owes.take() {
            output.peer_owes(owes);
        }
        let goes_on = std::mem::take(&mut self.goes_on);
        if goes_on {
            output.note_active();
        }
        let is_at_work = (self.wanted == 0 || self.works > 0) && self.fate == Fate::Lives;
        // Of a task that says what its peer owes, not every write is part of an answer.
        let goes_on = goes_on || wrote && !self.tells_owed;
        let mut before = if goes_on || !is_at_work { self.ticket.take() } else { None };
        if is_at_work && self.ticket.is_none() {
            // A connection that has moved is young again. Where only one ticket may be held (`requests_in_flight_max`, which counts this), the one before is kept.
            self.ticket = output.hold(Order::Any).ok().or_else(|| before.take());
        }
        if let Some(ticket) = before {
            cx.answer_chain(ticket, Chain::new());
        }
        self.hear_of_room(cx, room);
    }
}
