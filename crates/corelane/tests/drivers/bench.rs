//! The bench on which a case runs: pushes operations, steps both drivers, and checks that each operation ends once.

use crate::rig::{Rig, SIDES, Side};
use corelane_os::testing::network;
use corelane_seam::{
    Address, Arena, Bind, Chain, Completion, DatagramOp, DatagramOutcome, Datagrams, Driver, Fault, FileOutcome, FrameOp, Handle,
    Listen, Op, Outcome, Segment, Shared, Socket, StreamOp, StreamOptions, StreamOutcome, Trains, Tuning, Wait,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;

/// How long a driver may wait in a round after one in which nothing happened, in nanoseconds.
const PAUSE: u64 = 200_000;
/// Rounds without any completion after which a case has failed: with the pause of both drivers, 10 seconds.
const IDLE_ROUNDS_MAX: u32 = 25_000;
/// Memory of each driver.
pub const MEMORY: usize = 64 << 20;

#[derive(Default)]
struct Operation {
    /// Completions that no case has asked for yet.
    outcomes: VecDeque<Outcome>,
    ended: bool,
    unreleased: bool,
}

pub struct Bench<R: Rig> {
    pub rig: R,
    operations: BTreeMap<(Side, Handle), Operation>,
    sockets: Vec<(Side, Socket)>,
    /// Operations whose memory was released behind their end, in that order.
    released: Vec<(Side, Handle)>,
    next: u32,
    idle_rounds: u32,
    /// The work in whose name operations are pushed; 0 for nobody's.
    pub work: u8,
}

/// A connection from the client to the server.
pub struct Pipe {
    pub listener: Socket,
    pub accept: Handle,
    pub server: Socket,
    pub client: Socket,
}

impl Pipe {
    pub fn of(&self, side: Side) -> Socket {
        match side {
            Side::Server => self.server,
            Side::Client => self.client,
        }
    }
}

impl<R: Rig> Bench<R> {
    pub fn new() -> Self {
        Self::with(Tuning::default(), MEMORY)
    }

    pub fn with(tuning: Tuning, memory: usize) -> Self {
        let rig = R::new(tuning, memory);
        Self { rig, operations: BTreeMap::new(), sockets: Vec::new(), released: Vec::new(), next: 0, idle_rounds: 0, work: 0 }
    }

    pub fn driver(&mut self, side: Side) -> &mut dyn Driver {
        self.rig.driver(side)
    }

    /// Pushes an operation under a handle that no other has.
    pub fn push(&mut self, side: Side, op: impl Into<Op>) -> Handle {
        self.next += 1;
        let handle = Handle::new(3, self.next, 7 * self.next).of(self.work);
        let op = op.into();
        let silent = matches!(
            op,
            Op::Stream(StreamOp::StopAccept { .. })
                | Op::Frame(FrameOp::StopReceive { .. })
                | Op::StopReceive { .. }
                | Op::Cancel { .. }
        );
        if !silent {
            self.operations.insert((side, handle), Operation::default());
        }
        self.driver(side).push(handle, op);
        handle
    }

    /// Pushes an operation and waits for its end.
    pub fn run(&mut self, side: Side, op: impl Into<Op>) -> Outcome {
        let handle = self.push(side, op);
        self.end(side, handle)
    }

    /// Waits for the next completion of an operation.
    pub fn next(&mut self, side: Side, handle: Handle) -> Outcome {
        loop {
            let operation = self.operations.get_mut(&(side, handle)).expect("an operation under way, or not asked yet");
            if let Some(outcome) = operation.outcomes.pop_front() {
                return outcome;
            }
            assert!(!operation.ended, "{handle:?} of {side:?} has ended");
            self.round();
        }
    }

    /// Waits for the end of an operation; completions before the last are dropped.
    pub fn end(&mut self, side: Side, handle: Handle) -> Outcome {
        self.until(|bench| bench.has_ended(side, handle));
        self.operations.get_mut(&(side, handle)).and_then(|operation| operation.outcomes.pop_back()).expect("not asked yet")
    }

    pub fn has_ended(&self, side: Side, handle: Handle) -> bool {
        self.operations[&(side, handle)].ended
    }

    /// Whether an operation has ended, and its memory is not released.
    pub fn is_unreleased(&self, side: Side, handle: Handle) -> bool {
        self.operations[&(side, handle)].unreleased
    }

    /// The operations of a side whose memory was released behind their end, the first one first.
    pub fn released(&self, side: Side) -> Vec<Handle> {
        self.released.iter().filter(|(of, _)| *of == side).map(|(_, handle)| *handle).collect()
    }

    /// Whether a completion is there that no case has asked for yet.
    pub fn has_outcome(&self, side: Side, handle: Handle) -> bool {
        !self.operations[&(side, handle)].outcomes.is_empty()
    }

    /// Steps both drivers until `done`.
    pub fn until(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            self.round();
        }
    }

    /// Steps both drivers once.
    pub fn round(&mut self) {
        let mut found = 0;
        for side in SIDES {
            let wait = match self.idle_rounds {
                0 => Wait::No,
                _ => Wait::Until(self.driver(side).now() + PAUSE),
            };
            found += self.collect(side, wait, 64);
        }
        match found {
            0 => {
                self.idle_rounds += 1;
                assert!(self.idle_rounds < IDLE_ROUNDS_MAX, "nothing happens any more");
                self.rig.pass();
            }
            _ => self.idle_rounds = 0,
        }
    }

    /// Steps both drivers, until nothing has happened for a while.
    pub fn settle(&mut self) {
        self.idle_rounds = 0;
        while self.idle_rounds < 20 {
            self.round();
        }
    }

    /// Waits until so many bytes can be received: also over loopback they may come later than their send ends.
    pub fn until_readable(&mut self, side: Side, socket: Socket, bytes: usize) {
        while self.driver(side).readable_bytes(socket) < bytes {
            self.round();
        }
    }

    /// Waits until so many bytes can be received, or `receive` has brought them, while nobody collects: also over loopback they may come later than their send
    /// ends.
    pub fn until_there(&mut self, side: Side, (socket, receive): (Socket, Handle), bytes: usize) {
        for _ in 0..IDLE_ROUNDS_MAX {
            if self.has_ended(side, receive) || self.driver(side).readable_bytes(socket) >= bytes {
                return;
            }
            self.rig.pass();
            // reason: only a collect would tell of them.
            std::thread::sleep(Duration::from_nanos(PAUSE));
        }
        panic!("the bytes do not come");
    }

    /// Collects once; returns how many completions there were.
    pub fn collect(&mut self, side: Side, wait: Wait, at_most: usize) -> usize {
        let mut completions = Vec::new();
        self.driver(side).collect(wait, at_most, &mut completions);
        let found = completions.len();
        completions.into_iter().for_each(|completion| self.note(side, completion));
        found
    }

    /// Rests until then; returns for how long nobody did anything, and how many completions there were.
    pub fn rest(&mut self, side: Side, until: u64) -> (u64, usize) {
        let mut completions = Vec::new();
        let slept = self.driver(side).rest(until, &mut completions);
        let found = completions.len();
        completions.into_iter().for_each(|completion| self.note(side, completion));
        (slept, found)
    }

    fn note(&mut self, side: Side, completion: Completion) {
        let Completion { handle, outcome, more, released } = completion;
        if let Outcome::Stream(StreamOutcome::Accepted { socket, .. } | StreamOutcome::Connected { socket, .. }) = outcome {
            self.sockets.push((side, socket));
        }
        if handle == Handle::NOBODY {
            assert!(matches!(outcome, Outcome::Closed), "what a driver closes by itself is closed: {outcome:?}");
            return;
        }
        let operation = self.operations.get_mut(&(side, handle)).unwrap_or_else(|| panic!("{side:?} made {handle:?} up"));
        if matches!(outcome, Outcome::Released) {
            assert!(operation.ended && operation.unreleased, "{handle:?} of {side:?} was released twice");
            operation.unreleased = false;
            return self.released.push((side, handle));
        }
        assert!(!operation.ended, "{handle:?} of {side:?} ended twice, now with {outcome:?}");
        operation.ended = !more;
        operation.unreleased = !released;
        operation.outcomes.push_back(outcome);
    }

    pub fn listen(&mut self, side: Side, address: impl Into<Address>) -> (Socket, Address) {
        let listen =
            Listen { address: address.into(), backlog: 128, share_port: false, v6_only: false, stream: StreamOptions::default() };
        self.listen_with(side, &listen)
    }

    pub fn listen_with(&mut self, side: Side, listen: &Listen) -> (Socket, Address) {
        let socket = self.driver(side).listen(listen).unwrap();
        self.sockets.push((side, socket));
        (socket, self.driver(side).local_address(socket).unwrap())
    }

    pub fn bind(&mut self, side: Side, address: impl Into<Address>) -> (Socket, Address) {
        self.bind_with_buffers(side, address, 4 << 20)
    }

    pub fn bind_with_buffers(&mut self, side: Side, address: impl Into<Address>, bytes: u32) -> (Socket, Address) {
        self.bind_as(side, &Bind { receive_buffer_bytes: bytes, send_buffer_bytes: bytes, ..bind_at(address, None) })
    }

    /// A socket that has `peer` alone.
    pub fn bind_to(&mut self, side: Side, peer: Address) -> (Socket, Address) {
        let wildcard = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        self.bind_as(side, &bind_at(wildcard.parse::<Address>().unwrap(), Some(peer)))
    }

    fn bind_as(&mut self, side: Side, bind: &Bind) -> (Socket, Address) {
        let socket = self.driver(side).bind(bind).unwrap();
        self.adopt(side, socket);
        (socket, self.driver(side).local_address(socket).unwrap())
    }

    /// Takes note of a socket to be closed in the end.
    pub fn adopt(&mut self, side: Side, socket: Socket) {
        self.sockets.push((side, socket));
    }

    /// Connects the client to a listener of the server that accepts; returns both ends.
    pub fn join(&mut self, accept: Handle, to: impl Into<Address>) -> (Socket, Socket) {
        let connect = self.push(Side::Client, StreamOp::Connect { to: to.into(), from: None, options: StreamOptions::default() });
        let Outcome::Stream(StreamOutcome::Connected { socket: client, .. }) = self.end(Side::Client, connect) else {
            panic!("no connection")
        };
        let Outcome::Stream(StreamOutcome::Accepted { socket: server, .. }) = self.next(Side::Server, accept) else {
            panic!("not accepted")
        };
        (server, client)
    }

    pub fn pipe(&mut self) -> Pipe {
        let (listener, address) = self.listen(Side::Server, self.rig.address(Side::Server));
        let accept = self.push(Side::Server, StreamOp::Accept { listener });
        let (server, client) = self.join(accept, address);
        Pipe { listener, accept, server, client }
    }

    /// Sends all of `chain`; returns in how many operations.
    pub fn send(&mut self, side: Side, socket: Socket, chain: Chain) -> usize {
        let mut left = chain;
        let mut operations = 0;
        while !left.is_empty() {
            operations += 1;
            let asked = left.len();
            match self.run(side, StreamOp::Send { socket, chain: left }) {
                Outcome::Stream(StreamOutcome::Sent { bytes, rest, fault: None, .. }) => {
                    assert_eq!(bytes + rest.len(), asked);
                    left = rest;
                }
                other => panic!("{other:?}"),
            }
        }
        operations
    }

    pub fn send_bytes(&mut self, side: Side, socket: Socket, bytes: &'static [u8]) {
        self.send(side, socket, chain_of(bytes));
    }

    /// Receives once.
    pub fn receive(&mut self, side: Side, socket: Socket) -> Shared {
        match self.run(side, StreamOp::Receive { socket }) {
            Outcome::Stream(StreamOutcome::Received(bytes)) => {
                assert!(!bytes.is_empty());
                bytes
            }
            other => panic!("{other:?}"),
        }
    }

    /// Receives until `count` bytes have come.
    pub fn receive_all(&mut self, side: Side, socket: Socket, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend_from_slice(&self.receive(side, socket));
        }
        all
    }

    /// Closes a socket; what it was bound to is free.
    pub fn close(&mut self, side: Side, socket: Socket) {
        assert!(matches!(self.run(side, Op::Close { socket, reset: false }), Outcome::Closed));
        self.forget(side, socket);
        drop(network::alone());
    }

    /// Takes note that a case has closed a socket itself.
    pub fn forget(&mut self, side: Side, socket: Socket) {
        self.sockets.retain(|&known| known != (side, socket));
    }

    /// Takes note that a connection has left with the receive that was under way on it.
    pub fn leave(&mut self, side: Side, socket: Socket, receive: Handle) {
        let ended = self.operations.remove(&(side, receive)).expect("it received");
        assert!(!ended.ended && ended.outcomes.is_empty(), "the receive of one that leaves has brought nothing");
        self.forget(side, socket);
    }

    pub fn send_trains(&mut self, side: Side, socket: Socket, trains: Trains) -> (u32, u32) {
        match self.run(side, DatagramOp::Send { socket, trains }) {
            Outcome::Datagram(DatagramOutcome::Departed { trains, datagrams, refused, .. }) => {
                assert!(trains.is_empty());
                (datagrams, refused)
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn receive_batch(&mut self, side: Side, socket: Socket) -> Datagrams {
        match self.run(side, DatagramOp::Receive { socket, into: Datagrams::new() }) {
            Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) => {
                assert!(!batch.is_empty());
                batch
            }
            other => panic!("{other:?}"),
        }
    }

    /// Receives `count` datagrams, one by one out of their trains, each with its peer.
    pub fn receive_datagrams(&mut self, side: Side, socket: Socket, count: usize) -> Vec<(Address, Vec<u8>)> {
        let mut all = Vec::new();
        while all.len() < count {
            let batch = self.receive_batch(side, socket);
            for arrival in batch.arrivals() {
                let payload = batch.payload(arrival);
                for number in 0..arrival.datagrams() {
                    let size = arrival.datagram_bytes as usize;
                    let end = payload.len().min((number + 1) * size);
                    all.push((arrival.peer.clone(), payload[number * size..end].to_vec()));
                }
            }
        }
        all
    }

    /// Drops both drivers as they are; returns their memory.
    pub fn abandon(self) -> [Arena; 2] {
        SIDES.map(|side| self.rig.arena(side).clone())
    }

    /// Closes what is open, waits for all ends, and looks for memory that was not given back.
    pub fn finish(mut self) {
        for (side, socket) in std::mem::take(&mut self.sockets) {
            self.close(side, socket);
        }
        self.until(|bench| bench.operations.values().all(|operation| operation.ended && !operation.unreleased));
        self.operations.clear();
        for side in SIDES {
            assert_eq!(self.collect(side, Wait::No, 64), 0);
            assert_eq!(self.rig.arena(side).used(), 0, "memory of {side:?} was not given back");
        }
    }
}

pub fn bind_at(address: impl Into<Address>, peer: Option<Address>) -> Bind {
    Bind { address: address.into(), peer, share_port: false, v6_only: false, receive_buffer_bytes: 0, send_buffer_bytes: 0 }
}

pub fn chain_of(bytes: &'static [u8]) -> Chain {
    let mut chain = Chain::new();
    chain.push(Segment::Static(bytes));
    chain
}

/// A chain as bytes, of lane memory.
pub fn copy_to_chain<R: Rig>(bench: &Bench<R>, side: Side, bytes: &[u8]) -> Chain {
    let mut chain = Chain::new();
    chain.push(bench.rig.arena(side).copy_of(bytes).unwrap().share());
    chain
}

/// Bytes that never repeat within 64 KiB in the same place.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 31 + index / 251 + index / 65_536) as u8).collect()
}

/// The first `bytes` of the pattern, for ever. All cases share one: each of its own would stay in memory behind its end.
pub fn lasting(bytes: usize) -> &'static [u8] {
    static LONGEST: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(16 << 20));
    &LONGEST[..bytes]
}

/// That an operation ended as cancelled.
pub fn assert_cancelled(outcome: &Outcome) {
    let fault = match outcome {
        Outcome::Failed(fault) => Some(*fault),
        Outcome::Stream(StreamOutcome::Filled { fault, .. } | StreamOutcome::Sent { fault, .. })
        | Outcome::Datagram(DatagramOutcome::Arrived { fault, .. })
        | Outcome::File(FileOutcome::Filled { fault, .. }) => *fault,
        other => panic!("{other:?} is not cancelled"),
    };
    assert_eq!(fault, Some(Fault::CANCELLED));
}
