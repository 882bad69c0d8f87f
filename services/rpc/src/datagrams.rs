//! Programs over datagrams: each is one message, and what answers a batch leaves in one call.

use crate::call::CallSource;
use crate::counters::RpcCounter;
use crate::desk::To;
use crate::dispatch::{Dispatcher, Served};
use crate::program::Programs;
use corelane::service::{Asking, Call as LaneCall, Declaration, Lost, Origin, Outcome, OwnCounter, Silent, Talk};
use corelane::{Cx, DatagramService, Datagrams, Replies};

/// Programs served over datagrams. Replies to one peer leave as trains.
///
/// What cannot be answered is dropped and counted: `protocol_errors` for what is no call, `requests_dropped` for what the
/// lane has no memory for. Whoever sends in the name of another can have replies sent there, but no more bytes
/// than it sends itself, unless a program answers with more than it is asked with; and a reply is never answered.
pub struct RpcDatagrams<P, T = Silent> {
    dispatcher: Dispatcher<P, T>,
}

impl<P: Programs> RpcDatagrams<P> {
    /// Serves `programs`, a tuple of one to four, that say nothing to other lanes.
    pub fn new(programs: P) -> Self {
        Self::talking(programs)
    }
}

impl<T: Talk, P: Programs<T>> RpcDatagrams<P, T> {
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

    /// Serves all messages of one arrival.
    fn serve(&mut self, cx: &mut Cx<'_, T>, batch: &Datagrams, index: usize, replies: &mut Replies) {
        let arrival = &batch.arrivals()[index];
        let (payload, size, socket) = (batch.payload(arrival), arrival.datagram_bytes.max(1) as usize, cx.socket());
        for number in 0..arrival.datagrams() {
            let message = &payload[number * size..payload.len().min((number + 1) * size)];
            let to = To::Datagram { batch, arrival: index, socket, replies };
            if self.dispatcher.serve(cx, message, CallSource::Datagram(batch, arrival), &arrival.peer, to) == Served::Wait {
                cx.count(RpcCounter::RequestsDropped, 1);
            }
        }
        cx.count_requests(arrival.datagrams());
    }
}

impl<T: Talk, P: Programs<T>> DatagramService for RpcDatagrams<P, T> {
    type Talk = T;

    const COUNTERS: &'static [Declaration] = RpcCounter::DECLARED;

    fn started(&mut self, cx: &mut Cx<'_, T>) {
        self.dispatcher.programs.started(cx);
    }

    fn receive(&mut self, cx: &mut Cx<'_, T>, batch: &Datagrams, replies: &mut Replies) {
        self.dispatcher.desk.begin(batch.arrivals().iter().map(|arrival| arrival.bytes()).sum());
        for index in 0..batch.arrivals().len() {
            self.serve(cx, batch, index, replies);
        }
        let socket = cx.socket();
        self.dispatcher.desk.seal(&mut To::Datagram { batch, arrival: 0, socket, replies });
    }

    fn owes(&self) -> bool {
        self.dispatcher.room.is_taken()
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
