//! What can be seen of a run from around the engine: its workload, the calls that its lane makes, and what it tells.

use crate::simulated::http_server;
use corelane::lanes::Transport;
use corelane::service::{
    Cx, DatagramService, Datagrams, Ending, Fault, Input, Next, Origin, Output, Peer, Replies, SocketId, StreamService, Talk,
};
use corelane::testing::{Random, World};
use corelane_load::collector::Collector;
use corelane_load::course::Event;
use corelane_load::kinds::Kind;
use corelane_load::plan::Plan;
use corelane_load::workload::{Answers, DatagramWorkload, Workload};
use corelane_load::workloads::rpc::{RpcSettings, Split};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Bytes of a request, as they are sent.
pub fn request_bytes(plan: &Plan) -> u64 {
    let payload = if plan.size == 0 { 0 } else { 4 + plan.size.next_multiple_of(4) as u64 };
    match (&*plan.workload, plan.transport) {
        ("http", _) => http_server::bytes_of(plan).0,
        ("rpc", Transport::Udp) => 40 + payload,
        ("rpc", Transport::Tcp) => match RpcSettings::in_plan(plan).split {
            Split::Fragments(count) => 4 * u64::from(count) + 40 + payload,
            _ => 44 + payload,
        },
        _ => plan.size as u64,
    }
}

/// Bytes of an answer over a connection.
fn answer_bytes(plan: &Plan) -> u64 {
    match &*plan.workload {
        "http" => http_server::bytes_of(plan).1,
        "rpc" if plan.size == 0 => 28,
        "rpc" => 32 + plan.size.next_multiple_of(4) as u64,
        _ => plan.size as u64,
    }
}

/// Something that was seen. `place` is a connection's or socket's place among all of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Note {
    /// The lane knows when the run starts.
    Heard,
    Opened {
        place: u64,
    },
    Sent {
        place: u64,
        count: u64,
        bytes: u64,
    },
    /// The workload had no memory for so many requests.
    Refused {
        place: u64,
        count: u64,
    },
    Got {
        place: u64,
        bytes: u64,
        answers: u64,
        wrong: bool,
    },
    /// A connection has ended, or could not be opened.
    Closed {
        place: u64,
        ending: Ending,
        fault: Option<Fault>,
    },
    /// A datagram was written, to be sent.
    Wrote {
        place: u64,
        number: u64,
    },
    /// A datagram came; with a number if every byte of it is right.
    Came {
        place: u64,
        number: Option<u64>,
        bytes: u64,
    },
    /// The network said of a socket's datagram that it did not arrive.
    Undelivered {
        place: u64,
        fault: Fault,
    },
    /// The lane has done its part.
    Over,
}

#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    pub at: u64,
    pub lane: usize,
    pub note: Note,
}

/// Where the lanes of a run report to, and the journal of what was seen.
pub struct Desk {
    pub world: World,
    pub plan: Arc<Plan>,
    pub collector: Collector,
    /// When the window begins and ends.
    pub window: Option<(u64, u64)>,
    pub journal: Vec<Sighting>,
    /// When each lane turned.
    pub turns: Vec<(usize, u64)>,
    /// Why lanes ended early.
    pub early: Vec<String>,
    told: Receiver<Event>,
}

pub type DeskRef = Rc<RefCell<Desk>>;

impl Desk {
    pub fn new(world: &World, plan: &Arc<Plan>, told: Receiver<Event>) -> DeskRef {
        let collector = Collector::new(plan.clone());
        let (world, plan) = (world.clone(), plan.clone());
        let (journal, turns, early) = (Vec::new(), Vec::new(), Vec::new());
        Rc::new(RefCell::new(Self { world, plan, collector, window: None, journal, turns, early, told }))
    }

    fn note(&mut self, lane: usize, note: Note) {
        self.journal.push(Sighting { at: self.world.now().nanoseconds(), lane, note });
    }

    /// Takes in what `lane` has told in the call that has just ended.
    fn listen(&mut self, lane: usize) {
        while let Ok(event) = self.told.try_recv() {
            match &event {
                Event::Started { from, until } => {
                    self.window = Some((*from, *until));
                    self.note(lane, Note::Heard);
                }
                Event::Over { early, .. } => {
                    self.early.extend(early.clone());
                    self.note(lane, Note::Over);
                }
                _ => {}
            }
            self.collector.take(event);
        }
        // As the program does it: a histogram stays in memory for each second that nobody takes, and where the clock jumps these are thousands.
        drop(self.collector.take_complete());
    }

    /// The number of the first place of a lane.
    pub fn first_place(&self, lane: usize) -> u64 {
        (0..lane).map(|lane| u64::from(self.plan.connections_of(lane))).sum()
    }
}

/// An engine with somebody who looks on. The calls go through; nothing is changed.
pub struct Watched<S> {
    inner: S,
    desk: DeskRef,
    lane: usize,
    first: u64,
    sockets: Vec<SocketId>,
}

impl<S> Watched<S> {
    pub fn new(inner: S, desk: &DeskRef, lane: usize) -> Self {
        let first = desk.borrow().first_place(lane);
        Self { inner, desk: desk.clone(), lane, first, sockets: Vec::new() }
    }

    fn note(&self, note: Note) {
        self.desk.borrow_mut().note(self.lane, note);
    }

    fn call<R>(&mut self, call: impl FnOnce(&mut S) -> R) -> R {
        let result = call(&mut self.inner);
        self.desk.borrow_mut().listen(self.lane);
        result
    }

    /// Lane 0 names the start, and the others hear of it: they get no other words.
    fn heard(&self) {
        if self.lane != 0 {
            self.note(Note::Heard);
        }
    }

    /// Sockets are opened in the order of their places.
    fn place(&self, socket: SocketId) -> u64 {
        self.first + self.sockets.iter().filter(|&&other| other < socket).count() as u64
    }
}

impl<S: StreamService<Session = u32>> StreamService for Watched<S> {
    type Talk = S::Talk;
    type Session = u32;

    fn started(&mut self, cx: &mut Cx<'_, S::Talk>) {
        self.call(|inner| inner.started(cx));
    }

    fn open(&mut self, cx: &mut Cx<'_, S::Talk>, peer: &Peer) -> u32 {
        self.inner.open(cx, peer)
    }

    fn connected(&mut self, cx: &mut Cx<'_, S::Talk>, session: &mut u32, output: &mut Output) -> Next {
        self.call(|inner| inner.connected(cx, session, output))
    }

    fn receive(&mut self, cx: &mut Cx<'_, S::Talk>, session: &mut u32, input: &mut Input, output: &mut Output) -> Next {
        self.call(|inner| inner.receive(cx, session, input, output))
    }

    fn drained(&mut self, cx: &mut Cx<'_, S::Talk>, session: &mut u32, output: &mut Output) -> Next {
        self.call(|inner| inner.drained(cx, session, output))
    }

    fn closed(&mut self, cx: &mut Cx<'_, S::Talk>, session: u32, ending: Ending) {
        self.note(Note::Closed { place: self.first + u64::from(session), ending, fault: cx.fault() });
        self.call(|inner| inner.closed(cx, session, ending));
    }

    fn lane_message(&mut self, cx: &mut Cx<'_, S::Talk>, from: Origin, message: <S::Talk as Talk>::Message) {
        self.heard();
        self.call(|inner| inner.lane_message(cx, from, message));
    }

    fn alarm(&mut self, cx: &mut Cx<'_, S::Talk>, _: u64) {
        self.call(|inner| inner.alarm(cx, 0));
    }
}

impl<S: DatagramService> DatagramService for Watched<S> {
    type Talk = S::Talk;
    fn started(&mut self, cx: &mut Cx<'_, S::Talk>) {
        self.call(|inner| inner.started(cx));
    }

    fn alarm(&mut self, cx: &mut Cx<'_, S::Talk>, _: u64) {
        self.call(|inner| inner.alarm(cx, 0));
    }

    fn receive(&mut self, cx: &mut Cx<'_, S::Talk>, batch: &Datagrams, replies: &mut Replies) {
        let place = self.place(cx.socket());
        for _ in batch.arrivals().iter().filter(|arrival| arrival.bytes() == 0) {
            self.note(Note::Came { place, number: None, bytes: 0 });
        }
        self.call(|inner| inner.receive(cx, batch, replies));
    }

    fn opened(&mut self, cx: &mut Cx<'_, S::Talk>, socket: SocketId, outcome: Result<corelane::Address, Fault>) {
        self.sockets.push(socket);
        self.call(|inner| inner.opened(cx, socket, outcome));
    }

    fn sent(&mut self, cx: &mut Cx<'_, S::Talk>, socket: SocketId, replies: &mut Replies) {
        self.call(|inner| inner.sent(cx, socket, replies));
    }

    fn fault(&mut self, cx: &mut Cx<'_, S::Talk>, socket: SocketId, fault: Fault) {
        self.note(Note::Undelivered { place: self.place(socket), fault });
        self.call(|inner| inner.fault(cx, socket, fault));
    }

    fn lane_message(&mut self, cx: &mut Cx<'_, S::Talk>, from: Origin, message: <S::Talk as Talk>::Message) {
        self.heard();
        self.call(|inner| inner.lane_message(cx, from, message));
    }
}

/// A workload with somebody who looks on, and who says now and then that there is no memory.
pub struct Spy<W> {
    inner: W,
    desk: DeskRef,
    lane: usize,
    size: u64,
    chance: Random,
    /// How often requests are refused, in 1,000.
    refusals: u64,
}

impl<W> Spy<W> {
    pub fn new(inner: W, desk: &DeskRef, lane: usize, refusals: u64) -> Self {
        let size = answer_bytes(&desk.borrow().plan);
        Self { inner, desk: desk.clone(), lane, size, chance: Random::new(lane as u64), refusals }
    }

    fn note(&self, note: Note) {
        self.desk.borrow_mut().note(self.lane, note);
    }
}

/// A connection or socket as the spy knows it.
pub struct Spied<C> {
    inner: C,
    place: u64,
    requests: u64,
    bytes: u64,
}

impl<W: Workload> Workload for Spy<W> {
    type Connection = Spied<W::Connection>;

    fn connection(&mut self, number: u64) -> Self::Connection {
        self.note(Note::Opened { place: number });
        Spied { inner: self.inner.connection(number), place: number, requests: 0, bytes: 0 }
    }

    fn connection_after(&mut self, number: u64, before: Self::Connection) -> Self::Connection {
        self.note(Note::Opened { place: number });
        Spied { inner: self.inner.connection_after(number, before.inner), place: number, requests: 0, bytes: 0 }
    }

    fn request(&mut self, spied: &mut Self::Connection, first: u64, count: usize, output: &mut Output) -> usize {
        assert_eq!(first, spied.requests, "the number of the next request");
        let (place, requests) = (spied.place, count as u64);
        if self.chance.below(1_000) < self.refusals {
            self.note(Note::Refused { place, count: requests });
            return 0;
        }
        let before = output.len();
        let written = self.inner.request(&mut spied.inner, first, count, output);
        let (sent, bytes) = (written as u64, (output.len() - before) as u64);
        spied.requests += sent;
        if sent > 0 {
            self.note(Note::Sent { place, count: sent, bytes });
        }
        if sent < requests {
            self.note(Note::Refused { place, count: requests - sent });
        }
        written
    }

    fn receive(&mut self, spied: &mut Self::Connection, input: &mut Input, answers: &mut Answers<'_>) -> Result<(), Kind> {
        let (left, before) = (input.len(), spied.bytes / self.size);
        let result = self.inner.receive(&mut spied.inner, input, answers);
        let bytes = (left - input.len()) as u64;
        spied.bytes += bytes;
        let wrong = result.is_err();
        let answers = if wrong { 0 } else { spied.bytes / self.size - before };
        self.note(Note::Got { place: spied.place, bytes, answers, wrong });
        result
    }

    fn may_end(&self, spied: &Self::Connection) -> bool {
        self.inner.may_end(&spied.inner)
    }

    fn go_on(&mut self, spied: &mut Self::Connection, output: &mut Output) {
        self.inner.go_on(&mut spied.inner, output);
    }
}

impl<W: DatagramWorkload> DatagramWorkload for Spy<W> {
    type Socket = Spied<W::Socket>;

    fn train_datagrams(&self) -> usize {
        self.inner.train_datagrams()
    }

    fn socket(&mut self, number: u64, salt: u64) -> Self::Socket {
        self.note(Note::Opened { place: number });
        Spied { inner: self.inner.socket(number, salt), place: number, requests: 0, bytes: 0 }
    }

    fn request_bytes(&self) -> usize {
        self.inner.request_bytes()
    }

    fn request(&mut self, spied: &mut Self::Socket, number: u64, request: &mut [u8]) {
        self.note(Note::Wrote { place: spied.place, number });
        self.inner.request(&mut spied.inner, number, request);
    }

    fn answer(&mut self, spied: &mut Self::Socket, datagram: &[u8]) -> Option<u64> {
        let number = self.inner.answer(&mut spied.inner, datagram);
        self.note(Note::Came { place: spied.place, number, bytes: datagram.len() as u64 });
        number
    }

    fn refusal(&mut self, spied: &mut Self::Socket, datagram: &[u8]) -> Option<(u64, Kind)> {
        self.inner.refusal(&mut spied.inner, datagram)
    }
}
