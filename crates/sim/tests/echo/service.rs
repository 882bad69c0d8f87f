//! An echo lane, written directly on the contract: streams, datagrams, a connection of its own, messages, chores.

use super::chores::Chores;
use super::watching::Watching;
use corelane_seam::{
    Address, Arena, Bell, Bind, Chain, Completion, DatagramOp, DatagramOutcome, Datagrams, Driver, Handle, Listen, Op, Outcome,
    Reason, Shared, Socket, StreamOp, StreamOptions, StreamOutcome, Trains, Tuning, Wait,
};
use corelane_sim::{Random, SimDriver, World};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

pub const ACCEPT: u8 = 0;
const RECEIVE: u8 = 1;
const SEND: u8 = 2;
const CLOSE: u8 = 3;
const CONNECT: u8 = 4;
const ARRIVE: u8 = 5;
const DEPART: u8 = 6;
const CLOSE_OTHER: u8 = 7;
pub const CHORE: u8 = 8;
pub const WATCHING: u8 = 9;

/// Output that a connection may hold before it stops receiving.
const OUTPUT_BYTES_MAX: usize = 16 << 10;
/// What a connection that a lane opened sends, and gets back.
static QUESTION: [u8; 3_000] = [0x51; 3_000];

pub type Found<T> = Result<T, String>;

/// Where other lanes leave messages.
pub type Inbox = Rc<RefCell<VecDeque<u64>>>;

#[derive(Default)]
struct Connection {
    socket: Option<Socket>,
    output: Chain,
    receiving: bool,
    sending: bool,
    input_ended: bool,
    is_broken: bool,
    is_finished: bool,
    is_closing: bool,
    is_closed: bool,
    /// Bytes to come of the echo of `QUESTION`, if this lane opened the connection.
    expects: Option<usize>,
}

pub struct EchoLane {
    pub driver: SimDriver,
    pub arena: Arena,
    pub inbox: Inbox,
    pub messages: u64,
    random: Random,
    others: Vec<(Inbox, Arc<dyn Bell>)>,
    listener: Option<Socket>,
    port: Option<Socket>,
    connections: Vec<Connection>,
    chores: Chores,
    watching: Watching,
    stop: Rc<Cell<bool>>,
    is_stopping: bool,
    completions: Vec<Completion>,
}

impl EchoLane {
    pub fn new(world: &World, seed: u64, address: &Address, stop: Rc<Cell<bool>>) -> Self {
        let arena = Arena::new(4 << 20).unwrap();
        let tuning = Tuning::default().receive_bytes(4 << 10).receive_cycle_bytes(32 << 10);
        let mut driver = world.driver(arena.clone(), tuning);
        let stream = StreamOptions::default();
        let listen = Listen { address: address.clone(), backlog: 16, share_port: true, v6_only: false, stream };
        let listener = driver.listen(&listen).unwrap();
        let bind = Bind {
            address: address.clone(),
            peer: None,
            share_port: true,
            v6_only: false,
            receive_buffer_bytes: 0,
            send_buffer_bytes: 0,
        };
        let port = driver.bind(&bind).unwrap();
        driver.push(Handle::new(ACCEPT, 0, 0), Op::Stream(StreamOp::Accept { listener }));
        driver.push(Handle::new(ARRIVE, 0, 0), Op::Datagram(DatagramOp::Receive { socket: port, into: Datagrams::new() }));
        let chores = Chores::new(world, &mut driver, &arena);
        let watching = Watching::new(world, &mut driver);
        Self {
            arena,
            driver,
            inbox: Inbox::default(),
            messages: 0,
            random: Random::new(seed),
            others: Vec::new(),
            listener: Some(listener),
            port: Some(port),
            connections: Vec::new(),
            chores,
            watching,
            stop,
            is_stopping: false,
            completions: Vec::new(),
        }
    }

    pub fn meet(&mut self, inbox: Inbox, bell: Arc<dyn Bell>) {
        self.others.push((inbox, bell));
    }

    /// Opens a connection to `to`, which echoes.
    pub fn ask(&mut self, to: Address) {
        let handle = Handle::new(CONNECT, self.connections.len() as u32, 0);
        self.connections.push(Connection { expects: Some(QUESTION.len()), ..Connection::default() });
        self.driver.push(handle, Op::Stream(StreamOp::Connect { to, from: None, options: StreamOptions::default() }));
    }

    /// Whether everything is closed and done.
    pub fn is_over(&self) -> bool {
        self.listener.is_none() && self.port.is_none() && self.connections.iter().all(|connection| connection.is_closed)
    }

    /// What it still waits for.
    pub fn is_idle(&self) -> bool {
        self.chores.are_done() && self.watching.is_done() && self.connections.iter().all(|connection| connection.is_closed)
    }

    pub fn turn(&mut self) -> Found<()> {
        let mut completions = std::mem::take(&mut self.completions);
        let at_most = self.random.one_to(32);
        self.driver.collect(Wait::Forever, at_most, &mut completions);
        for completion in completions.drain(..) {
            self.react(completion)?;
        }
        self.completions = completions;
        self.messages += self.inbox.borrow_mut().drain(..).count() as u64;
        if self.stop.get() && !std::mem::replace(&mut self.is_stopping, true) {
            self.stop_all();
        }
        Ok(())
    }

    fn stop_all(&mut self) {
        if let Some(listener) = self.listener {
            self.driver.refuse_new(listener);
        }
        let accepting = self.listener.map(|listener| (listener, Op::Stream(StreamOp::StopAccept { listener })));
        let receiving = self.port.map(|socket| (socket, Op::StopReceive { socket }));
        for (socket, stop) in accepting.into_iter().chain(receiving) {
            // A close ends by itself what is under way.
            if self.random.below(2) == 0 {
                self.driver.push(Handle::new(CLOSE_OTHER, 9, 0), stop);
            }
            self.driver.push(Handle::new(CLOSE_OTHER, socket.index, 0), Op::Close { socket, reset: false });
        }
    }

    fn react(&mut self, completion: Completion) -> Found<()> {
        let (handle, index) = (completion.handle, completion.handle.index() as usize);
        if completion.handle.generation() != 0 {
            return Err(format!("stale completion of {handle:?}"));
        }
        match (handle.class(), completion.outcome) {
            (_, Outcome::Released) => Ok(()),
            (ACCEPT, outcome) => self.accepted(outcome),
            (ARRIVE, Outcome::Datagram(DatagramOutcome::Arrived { fault: Some(fault), .. }))
                if fault.reason != Reason::Cancelled =>
            {
                self.datagrams_left();
                Ok(())
            }
            (ARRIVE, Outcome::Datagram(DatagramOutcome::Arrived { batch, fault })) => {
                self.answer_datagrams(batch, fault.is_some())
            }
            (DEPART, Outcome::Datagram(DatagramOutcome::Departed { .. })) => {
                self.datagrams_left();
                Ok(())
            }
            (CLOSE_OTHER, Outcome::Closed) => self.other_closed(index),
            (WATCHING, outcome) => self.watching.react(&mut self.driver, handle, outcome, completion.more),
            (CHORE, outcome) => self.chores.react(&mut self.driver, &self.arena, handle, outcome),
            (class, outcome) if index < self.connections.len() => {
                self.connection_event(index, class, outcome)?;
                self.step(index);
                Ok(())
            }
            (_, outcome) => Err(format!("nobody asked for {handle:?}: {outcome:?}")),
        }
    }

    fn accepted(&mut self, outcome: Outcome) -> Found<()> {
        match outcome {
            Outcome::Stream(StreamOutcome::Accepted { socket, .. }) => {
                self.connections.push(Connection { socket: Some(socket), ..Connection::default() });
                self.step(self.connections.len() - 1);
            }
            Outcome::Failed(fault) if fault.reason == Reason::Cancelled => {}
            Outcome::Failed(_) => {
                let listener = self.listener.ok_or("an accept ended after closing")?;
                self.driver.push(Handle::new(ACCEPT, 0, 0), Op::Stream(StreamOp::Accept { listener }));
            }
            other => return Err(format!("accept ended as {other:?}")),
        }
        Ok(())
    }

    fn other_closed(&mut self, index: usize) -> Found<()> {
        let is_it = |socket: &mut Socket| socket.index as usize == index;
        self.listener.take_if(is_it).or_else(|| self.port.take_if(is_it)).map(drop).ok_or("closed twice".to_string())
    }

    fn answer_datagrams(&mut self, batch: Datagrams, is_cancelled: bool) -> Found<()> {
        let Some(socket) = self.port else { return Err("datagrams after closing".to_string()) };
        let mut trains = Trains::new();
        for arrival in batch.arrivals() {
            trains.add(&arrival.peer, arrival.asked, 0, batch.share(arrival), arrival.datagram_bytes as usize);
        }
        if is_cancelled != trains.is_empty() {
            return Err(format!("a batch of {}, cancelled: {is_cancelled}", trains.trains().len()));
        }
        if !is_cancelled {
            self.driver.push(Handle::new(DEPART, 0, 0), Op::Datagram(DatagramOp::Send { socket, trains }));
        }
        Ok(())
    }

    fn datagrams_left(&mut self) {
        if let Some(socket) = self.port.filter(|_| !self.is_stopping) {
            self.driver.push(Handle::new(ARRIVE, 0, 0), Op::Datagram(DatagramOp::Receive { socket, into: Datagrams::new() }));
        }
    }

    fn connection_event(&mut self, index: usize, class: u8, outcome: Outcome) -> Found<()> {
        let connection = &mut self.connections[index];
        match (class, outcome) {
            (CONNECT, Outcome::Stream(StreamOutcome::Connected { socket, .. })) => {
                connection.socket = Some(socket);
                connection.output.push(&QUESTION[..]);
            }
            (CONNECT, Outcome::Failed(_)) => connection.is_closed = true,
            (CLOSE, Outcome::Closed) if connection.is_closed || connection.receiving || connection.sending => {
                return Err("closed twice or early".to_string());
            }
            (CLOSE, Outcome::Closed) => {
                connection.is_closed = true;
                self.tell_others(index as u64);
            }
            (SEND, Outcome::Stream(StreamOutcome::Sent { mut rest, fault, .. })) if connection.sending => {
                connection.sending = false;
                connection.is_broken |= fault.is_some();
                rest.append(&mut connection.output);
                connection.output = rest;
            }
            (RECEIVE, outcome) if connection.receiving => {
                connection.receiving = false;
                return received(connection, outcome);
            }
            (class, outcome) => return Err(format!("connection {index}, class {class}: {outcome:?}")),
        }
        Ok(())
    }

    fn tell_others(&self, message: u64) {
        for (inbox, bell) in &self.others {
            inbox.borrow_mut().push_back(message);
            bell.ring();
        }
    }

    /// Pushes what the connection needs next.
    fn step(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(socket) = connection.socket.filter(|_| !connection.is_closing) else { return };
        let handle = |class| Handle::new(class, index as u32, 0);
        let is_over = connection.input_ended && connection.output.is_empty() && !connection.sending;
        if connection.is_broken || is_over {
            connection.is_closing = true;
            return self.driver.push(handle(CLOSE), Op::Close { socket, reset: connection.is_broken });
        }
        if !connection.sending && !connection.output.is_empty() {
            connection.sending = true;
            self.driver.push(handle(SEND), Op::Stream(StreamOp::Send { socket, chain: std::mem::take(&mut connection.output) }));
        }
        if connection.expects == Some(0) && !connection.sending && !connection.is_finished {
            connection.is_finished = true;
            self.driver.finish(socket);
        }
        if connection.receiving || connection.input_ended || connection.output.len() > OUTPUT_BYTES_MAX {
            return;
        }
        connection.receiving = true;
        let lease = if self.random.below(4) == 0 { self.arena.lease(700) } else { None };
        let is_piped = self.random.below(4) == 0;
        let op = match lease {
            Some(lease) => Op::Stream(StreamOp::ReceiveInto { socket, lease, until: self.random.one_to(700) }),
            None if is_piped && connection.expects.is_none() => {
                Op::Stream(StreamOp::ReceivePiped { socket, most: self.random.one_to(4_000) })
            }
            None => Op::Stream(StreamOp::Receive { socket }),
        };
        self.driver.push(handle(RECEIVE), op);
        if self.random.below(8) == 0 {
            self.driver.push(handle(RECEIVE), Op::StopReceive { socket });
        }
    }
}

fn received(connection: &mut Connection, outcome: Outcome) -> Found<()> {
    match outcome {
        Outcome::Stream(StreamOutcome::Received(bytes)) if bytes.is_empty() => Err("an empty receive".to_string()),
        Outcome::Stream(StreamOutcome::Received(bytes)) => take_bytes(connection, bytes),
        Outcome::Stream(StreamOutcome::ReceivedPiped(bytes)) if !bytes.is_empty() => {
            connection.output.push(bytes);
            Ok(())
        }
        Outcome::Stream(StreamOutcome::Filled { lease, fault: None }) if !lease.is_empty() => {
            take_bytes(connection, lease.share())
        }
        Outcome::Stream(StreamOutcome::EndOfStream | StreamOutcome::Filled { fault: None, .. }) => {
            connection.input_ended = true;
            Ok(())
        }
        Outcome::Failed(fault) | Outcome::Stream(StreamOutcome::Filled { fault: Some(fault), .. }) => {
            connection.is_broken |= !matches!(fault.reason, Reason::Cancelled | Reason::NoMemory);
            Ok(())
        }
        other => Err(format!("a receive ended as {other:?}")),
    }
}

fn take_bytes(connection: &mut Connection, bytes: Shared) -> Found<()> {
    let Some(expected) = connection.expects else {
        connection.output.push(bytes);
        return Ok(());
    };
    if bytes.len() > expected || bytes.iter().any(|&byte| byte != QUESTION[0]) {
        return Err(format!("the echo of a lane's question: {} bytes, {expected} expected", bytes.len()));
    }
    connection.expects = Some(expected - bytes.len());
    Ok(())
}
