//! Programs over connections: records found, joined where they come in fragments, and served.

use crate::call::CallSource;
use crate::counters::RpcCounter;
use crate::desk::To;
use crate::dispatch::{Dispatcher, Served};
use crate::program::Programs;
use corelane::service::{
    Asking, Call as LaneCall, Declaration, Lease, Lost, Origin, Outcome, Owes, OwnCounter, Refused, ServiceCounter, Shared,
    Silent, Talk,
};
use corelane::{Address, Cx, Input, Next, Output, Peer, StreamService};
use corelane_wire::Error;
use corelane_wire::rpc::{RecordLimits, Records, Step};
use std::any::Any;

/// Fragments of a record at most. More close the connection (`protocol_errors`): old clients send some 9,000 bytes a fragment.
pub const FRAGMENTS_MAX: u32 = 512;

/// A fragment of more bytes is received into a lease of its own, where it can be kept.
const FILL_BYTES: usize = 16 << 10;
/// How many times the bytes of a fragment that have come its lease may hold, at most and where memory is short: what a peer has lent to
/// it by naming a length.
const FILL_FACTOR: usize = 16;
const FILL_FACTOR_MIN: usize = 2;
/// The least that such a lease holds.
const FILL_BYTES_MIN: usize = 4096;
/// Bytes of a record mark.
const MARK_BYTES: usize = 4;

/// Programs served over connections. All calls that arrive together are answered in one send.
///
/// A record is bounded by the limit `record_max` (its mark included) and by [`FRAGMENTS_MAX`]; calls in flight by
/// `requests_in_flight_max` for a connection and [`HELD_MAX`](crate::HELD_MAX) for the lane; replies that wait by `output_high`.
pub struct Rpc<P, T = Silent> {
    dispatcher: Dispatcher<P, T>,
}

/// What is kept for a connection.
pub struct Session {
    peer: Address,
    records: Records,
    /// A record of which some fragments have come.
    joined: Option<Lease>,
    /// A fragment, or the begin of one, with its mark, that is received into memory of its own.
    front: Option<Lease>,
    /// A whole record out of the input that could not be served yet.
    whole: Option<Shared>,
}

/// What is to be done after a look at what has come.
enum Look {
    /// Look again.
    Again,
    /// Nothing more, for now.
    Over(Next),
}

impl<P: Programs> Rpc<P> {
    /// Serves `programs`, a tuple of one to four, that say nothing to other lanes.
    pub fn new(programs: P) -> Self {
        Self::talking(programs)
    }
}

impl<T: Talk, P: Programs<T>> Rpc<P, T> {
    /// Serves `programs`, a tuple of one to four, of which those that talk to other lanes do so in `T`.
    pub fn talking(programs: P) -> Self {
        Self { dispatcher: Dispatcher::new(programs) }
    }

    /// Has the service hold so many calls at most, instead of [`HELD_MAX`](crate::HELD_MAX).
    pub fn held_max(mut self, calls: u32) -> Self {
        self.dispatcher.hold_at_most(calls);
        self
    }

    /// Has the service remember so many once-only calls at most, instead of [`DUPLICATES_MAX`](crate::DUPLICATES_MAX). At least 1.
    pub fn duplicates_max(mut self, calls: usize) -> Self {
        self.dispatcher.remember_at_most(calls);
        self
    }

    fn serve(&mut self, cx: &mut Cx<'_, T>, session: &mut Session, input: &mut Input, output: &mut Output) -> Next {
        let filled = input.filled();
        assert!(filled.is_none() || session.front.is_none(), "a fragment is received into one lease at a time");
        session.front = filled.or(session.front.take());
        loop {
            if let Some(whole) = session.whole.take() {
                match self.dispatcher.serve(cx, &whole, CallSource::Own(&whole), &session.peer, To::Stream(output)) {
                    Served::Done => cx.count_requests(1),
                    Served::Wait => {
                        session.whole = Some(whole);
                        return Next::Continue;
                    }
                    Served::Close => return Next::Close,
                }
            }
            let look = match session.front.take() {
                Some(front) => session.look_at_front(cx, input, front),
                None => self.look_at_input(cx, session, input, output),
            };
            if let Look::Over(next) = look {
                return next;
            }
        }
    }

    /// Serves the records that lie together at the front of the input, and takes them from it.
    fn look_at_input(&mut self, cx: &mut Cx<'_, T>, session: &mut Session, input: &mut Input, output: &mut Output) -> Look {
        let (mut taken, mut requests) = (0, 0);
        let (before, step, served) = loop {
            let (bytes, before) = (&input.first()[taken..], session.records);
            let step = session.records.next(bytes);
            let Ok(Step::Record(range)) = &step else { break (before, step, Served::Done) };
            let served =
                self.dispatcher.serve(cx, &bytes[range.clone()], CallSource::Input(input), &session.peer, To::Stream(output));
            if served != Served::Done {
                break (before, step, served);
            }
            (taken, requests) = (taken + range.end, requests + 1);
        };
        input.skip(taken);
        cx.count_requests(requests);
        match served {
            Served::Wait => Look::Over(Next::Continue),
            Served::Close => Look::Over(Next::Close),
            Served::Done if input.is_empty() && session.joined.is_none() => Look::Over(Next::Continue),
            // What follows may lie apart from what was served.
            Served::Done if taken > 0 => {
                session.records = before;
                Look::Again
            }
            Served::Done => session.go_on(cx, input, before, step),
        }
    }
}

impl Session {
    /// Goes on after `step`, which is no record in one piece.
    fn go_on(&mut self, cx: &mut Cx<'_, impl Talk>, input: &mut Input, before: Records, step: Result<Step, Error>) -> Look {
        match step {
            Ok(Step::Join { fragment, is_last }) => {
                if !self.join(cx, &input.first()[fragment.clone()], is_last) {
                    self.records = before;
                    return Look::Over(Next::Continue);
                }
                input.skip(fragment.end);
                Look::Again
            }
            Ok(Step::More { missing, .. }) => self.want(cx, input, missing),
            Ok(Step::Record(_)) => Look::Again,
            Err(error) => Look::Over(refuse(cx, error)),
        }
    }

    /// Asks for what is missing of a fragment, of which there is all that the input shows.
    fn want(&mut self, cx: &mut Cx<'_, impl Talk>, input: &mut Input, missing: usize) -> Look {
        let (there, total) = (input.len(), input.first().len() + missing);
        if total <= there {
            return if input.contiguous(total).is_some() { Look::Again } else { Look::Over(Next::Continue) };
        }
        if input.is_finished() {
            return Look::Over(Next::Continue);
        }
        // Between fragments the input is empty: filling a lease tells the lane that a record is under way all the same.
        if self.joined.is_none() && total <= FILL_BYTES {
            return Look::Over(Next::Need(total - there));
        }
        Look::Over(match lease_to_fill(cx, there, total) {
            Ok(lease) => Next::Fill { until: total.min(lease.capacity()), lease },
            Err(refused) => wait_or_close(cx, refused),
        })
    }

    /// Looks at a fragment that was received into memory of its own.
    fn look_at_front(&mut self, cx: &mut Cx<'_, impl Talk>, input: &Input, front: Lease) -> Look {
        let before = self.records;
        match self.records.next(&front) {
            Ok(Step::Record(range)) => {
                assert!(self.joined.is_none(), "a record comes in one piece or in several");
                let mut whole = front.share();
                whole.skip(range.start);
                self.keep_whole(whole);
                Look::Again
            }
            Ok(Step::Join { fragment, is_last }) => {
                if self.join(cx, &front[fragment], is_last) {
                    return Look::Again;
                }
                (self.records, self.front) = (before, Some(front));
                Look::Over(Next::Continue)
            }
            Ok(Step::More { .. }) if input.is_finished() => Look::Over(Next::Continue),
            Ok(Step::More { missing, .. }) => self.fill(cx, front, missing),
            Err(error) => Look::Over(refuse(cx, error)),
        }
    }

    /// Goes on receiving into `front`, or into more memory than that.
    fn fill(&mut self, cx: &mut Cx<'_, impl Talk>, front: Lease, missing: usize) -> Look {
        assert!(missing > 0, "a fragment that is not there whole misses something");
        let (there, total) = (front.len(), front.len() + missing);
        if there < front.capacity() {
            return Look::Over(Next::Fill { until: total.min(front.capacity()), lease: front });
        }
        Look::Over(match lease_to_fill(cx, there, total) {
            Ok(mut lease) => {
                lease.append(&front);
                Next::Fill { until: total.min(lease.capacity()), lease }
            }
            Err(refused) => {
                self.front = Some(front);
                wait_or_close(cx, refused)
            }
        })
    }

    /// Adds a fragment to those before it; false, and nothing is done, if the lane's memory is used up.
    fn join(&mut self, cx: &mut Cx<'_, impl Talk>, fragment: &[u8], is_last: bool) -> bool {
        let Some(joined) = self.joined.take().or_else(|| cx.lease(fragment.len()).ok()) else { return false };
        let needed = joined.len() + fragment.len();
        let mut joined = match grown(cx, joined, needed) {
            Ok(joined) => joined,
            Err(joined) => {
                self.joined = Some(joined);
                return false;
            }
        };
        joined.append(fragment);
        match is_last {
            true => self.keep_whole(joined.share()),
            false => self.joined = Some(joined),
        }
        true
    }

    /// A record is there whole: it is served before anything else is looked at.
    fn keep_whole(&mut self, record: Shared) {
        let before = self.whole.replace(record);
        assert!(before.is_none(), "one record is served after the other");
    }
}

/// A lease for a fragment of `total` bytes, `there` of which have come: it holds a multiple of these, the smaller the shorter memory is.
fn lease_to_fill(cx: &mut Cx<'_, impl Talk>, there: usize, total: usize) -> Result<Lease, Refused> {
    assert!(there < total, "a fragment that has come whole needs no other lease");
    let bytes = |factor| total.min(FILL_BYTES_MIN.max(there.saturating_mul(factor)));
    cx.lease_upto(bytes(FILL_FACTOR), bytes(FILL_FACTOR_MIN))
}

/// What can be had later is waited for; what can never be ends the connection.
fn wait_or_close(cx: &mut Cx<'_, impl Talk>, refused: Refused) -> Next {
    match refused {
        Refused::TooLarge { .. } => {
            cx.count(ServiceCounter::RecordMaxHits, 1);
            Next::Close
        }
        _ => Next::Continue,
    }
}

/// `lease`, or a copy with room for `needed` bytes, and for as much again if the lane lends it.
fn grown(cx: &mut Cx<'_, impl Talk>, lease: Lease, needed: usize) -> Result<Lease, Lease> {
    if needed <= lease.capacity() {
        return Ok(lease);
    }
    match cx.lease_upto(needed.max(2 * lease.len()), needed) {
        Ok(mut larger) => {
            larger.append(&lease);
            Ok(larger)
        }
        Err(_) => Err(lease),
    }
}

fn refuse(cx: &mut Cx<'_, impl Talk>, error: Error) -> Next {
    match error {
        Error::RecordTooLong { .. } => cx.count(ServiceCounter::RecordMaxHits, 1),
        _ => cx.count(RpcCounter::ProtocolErrors, 1),
    }
    Next::Close
}

impl<T: Talk, P: Programs<T>> StreamService for Rpc<P, T> {
    type Talk = T;
    type Session = Session;

    const COUNTERS: &'static [Declaration] = RpcCounter::DECLARED;

    fn started(&mut self, cx: &mut Cx<'_, T>) {
        self.dispatcher.programs.started(cx);
    }

    fn open(&mut self, cx: &mut Cx<'_, T>, peer: &Peer) -> Session {
        let bytes = u32::try_from(cx.limits().record_max.saturating_sub(MARK_BYTES)).unwrap_or(u32::MAX);
        let records = Records::new(RecordLimits { bytes, fragments: FRAGMENTS_MAX });
        Session { peer: peer.address.clone(), records, joined: None, front: None, whole: None }
    }

    fn receive(&mut self, cx: &mut Cx<'_, T>, session: &mut Session, input: &mut Input, output: &mut Output) -> Next {
        self.dispatcher.desk.begin(input.len());
        // Each call is counted: fragments that end none keep no connection open.
        output.peer_owes(Owes::Request);
        let next = self.serve(cx, session, input, output);
        self.dispatcher.desk.seal(&mut To::Stream(output));
        next
    }

    /// Between two records nothing is kept but how they are found. What the lane remembers of once-only calls stays: who was answered asks for none again.
    fn pack(&mut self, _cx: &mut Cx<'_, T>, session: Session) -> Result<Box<dyn Any + Send>, Session> {
        match session {
            Session { peer, records, joined: None, front: None, whole: None } => Ok(Box::new((peer, records))),
            session => Err(session),
        }
    }

    fn unpack(&mut self, _cx: &mut Cx<'_, T>, packed: Box<dyn Any + Send>) -> Result<Session, Box<dyn Any + Send>> {
        let (peer, records) = *packed.downcast::<(Address, Records)>()?;
        Ok(Session { peer, records, joined: None, front: None, whole: None })
    }

    fn completed(&mut self, cx: &mut Cx<'_, T>, token: u64, outcome: Outcome) {
        self.dispatcher.programs.completed(cx, token, outcome);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_, T>, from: Origin, message: T::Message) {
        self.dispatcher.programs.lane_message(cx, from, message);
    }

    fn asked(&mut self, cx: &mut Cx<'_, T>, from: Origin, question: T::Question, call: LaneCall<T>) {
        self.dispatcher.programs.asked(cx, from, question, call);
    }

    fn replied(&mut self, cx: &mut Cx<'_, T>, asking: Asking, outcome: Result<T::Answer, Lost>) {
        self.dispatcher.programs.replied(cx, asking, outcome);
    }

    fn room(&mut self, cx: &mut Cx<'_, T>, lane: usize) {
        self.dispatcher.programs.room(cx, lane);
    }
}
