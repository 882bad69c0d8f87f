//! A few lanes whose completions are kept until a test asks for them, and a world that goes on until they are there.

use corelane_seam::{
    Arena, Completion, DatagramOutcome, Driver, Fault, Handle, Listen, Op, Outcome, Reason, Socket, StreamOp, StreamOptions,
    StreamOutcome, Tuning, Wait,
};
use corelane_sim::{Faults, Peer, SimDriver, Turn, World};
use std::net::SocketAddr;

/// Far more than any case takes.
const STEPS_MAX: usize = 100_000;

pub struct Bench {
    pub world: World,
    pub lanes: Vec<SimDriver>,
    pub arena: Arena,
    /// What the lanes have collected and no test has asked for yet.
    pub completions: Vec<(usize, Completion)>,
    pub incoming: Vec<Peer>,
    next: u32,
}

impl Bench {
    /// A world with one lane.
    pub fn new(faults: Faults) -> Self {
        Self::with(faults, Tuning::default().receive_bytes(4096).datagram_bytes(256 << 10).offload_max(2))
    }

    pub fn with(faults: Faults, tuning: Tuning) -> Self {
        Self::in_world(World::new(7, faults), tuning)
    }

    pub fn in_world(world: World, tuning: Tuning) -> Self {
        let arena = Arena::new(4 << 20).unwrap();
        let lanes = vec![world.driver(arena.clone(), tuning)];
        Self { world, lanes, arena, completions: Vec::new(), incoming: Vec::new(), next: 0 }
    }

    pub fn push(&mut self, lane: usize, op: impl Into<Op>) -> Handle {
        self.next += 1;
        let handle = Handle::new(1, self.next, 5);
        self.lanes[lane].push(handle, op.into());
        handle
    }

    /// One step of the world; returns whether there was one.
    pub fn step(&mut self) -> bool {
        match self.world.step() {
            Some(Turn::Lane(lane)) => self.collect(lane, Wait::Forever),
            Some(Turn::Incoming(peer)) => self.incoming.push(peer),
            Some(_) => {}
            None => return false,
        }
        true
    }

    pub fn collect(&mut self, lane: usize, wait: Wait) {
        let mut found = Vec::new();
        self.lanes[lane].collect(wait, 64, &mut found);
        self.completions.extend(found.into_iter().map(|completion| (lane, completion)));
    }

    /// Steps until nobody has anything to do.
    pub fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.step() {
                return;
            }
        }
        panic!("it goes round in circles");
    }

    pub fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        for _ in 0..STEPS_MAX {
            if done(self) {
                return;
            }
            assert!(self.step(), "nobody has anything to do any more");
        }
        panic!("it goes round in circles");
    }

    /// The next completion of an operation, if it was collected.
    pub fn take(&mut self, handle: Handle) -> Option<Completion> {
        let index = self.completions.iter().position(|(_, completion)| completion.handle == handle)?;
        Some(self.completions.remove(index).1)
    }

    /// Steps until an operation has a completion.
    pub fn end(&mut self, handle: Handle) -> Outcome {
        self.until(|bench| bench.completions.iter().any(|(_, completion)| completion.handle == handle));
        self.take(handle).unwrap().outcome
    }

    pub fn run(&mut self, lane: usize, op: impl Into<Op>) -> Outcome {
        let handle = self.push(lane, op);
        self.end(handle)
    }

    pub fn listen(&mut self, lane: usize, address: &str, backlog: u32) -> Socket {
        let stream = StreamOptions::default();
        let listen = Listen { address: at(address).into(), backlog, share_port: true, v6_only: false, stream };
        self.lanes[lane].listen(&listen).unwrap()
    }

    pub fn connect(&mut self, to: &str) -> Peer {
        self.world.connect(at("192.0.2.1:0"), at(to)).unwrap()
    }

    /// A connection between lane 0 and a peer.
    pub fn pipe(&mut self) -> (Socket, Peer) {
        let listener = self.listen(0, "10.0.0.1:7", 4);
        let accept = self.push(0, StreamOp::Accept { listener });
        let peer = self.connect("10.0.0.1:7");
        let Outcome::Stream(StreamOutcome::Accepted { socket, .. }) = self.end(accept) else { panic!("not accepted") };
        self.settle();
        (socket, peer)
    }

    pub fn receive(&mut self, socket: Socket) -> Outcome {
        self.run(0, StreamOp::Receive { socket })
    }

    pub fn close(&mut self, lane: usize, socket: Socket) {
        assert!(matches!(self.run(lane, Op::Close { socket, reset: false }), Outcome::Closed));
    }
}

pub fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

pub fn reason(outcome: &Outcome) -> Option<Reason> {
    let fault: Option<Fault> = match outcome {
        Outcome::Failed(fault) => Some(*fault),
        Outcome::Stream(StreamOutcome::Sent { fault, .. } | StreamOutcome::Filled { fault, .. })
        | Outcome::Datagram(DatagramOutcome::Arrived { fault, .. }) => *fault,
        _ => None,
    };
    fault.map(|fault| fault.reason)
}
