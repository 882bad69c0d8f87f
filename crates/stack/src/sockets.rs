//! UDP sockets: who is bound, what waits for whom, and what is handed over.

mod ports;

pub(crate) use ports::Ports;

use crate::packet::{Ip, Packet, Spare};
use corelane_seam::slab::{Key, Slab};
use corelane_seam::{
    Arena, BATCH_MAX, Completion, DatagramOutcome, Datagrams, Fault, Handle, Reason, Socket, TRAIN_DATAGRAMS_MAX, Trains,
    datagram_bytes_max,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Bytes of frames that wait for a socket at most, if it does not say otherwise: what Linux has (net.core.rmem_default).
const RECEIVE_BYTES: usize = 212_992;
/// Bytes of UDP's header.
pub(crate) const HEAD: usize = 8;
/// Names a socket of the stack's: drivers have no such index.
const MARK: u32 = 1 << 31;

/// A datagram that waits for its socket to receive.
#[derive(Debug)]
struct Waiting {
    packet: Packet,
    from: SocketAddr,
}

impl Waiting {
    fn ip(&self) -> &Ip {
        // reason: it has come by its header.
        self.packet.ip.as_ref().expect("a datagram is an IP packet")
    }

    fn bytes(&self) -> usize {
        self.ip().length - HEAD
    }

    fn payload(&self) -> impl Iterator<Item = &[u8]> {
        let mut skip = HEAD;
        self.packet.transport(self.ip()).map(move |bytes| {
            let some = skip.min(bytes.len());
            skip -= some;
            &bytes[some..]
        })
    }
}

/// What is being sent, and how far it is.
#[derive(Debug)]
pub(crate) struct Sending {
    pub handle: Handle,
    pub trains: Trains,
    /// The train that is sent now, and how many of its bytes have left.
    pub train: usize,
    pub done: usize,
    pub datagrams: u32,
    pub refused: u32,
    pub fault: Option<Fault>,
}

impl Sending {
    /// How it ended: what had not left yet was refused, for `fault`.
    pub fn end(mut self, fault: Option<Fault>) -> Completion {
        for train in self.trains.trains().get(self.train..).unwrap_or_default() {
            let left = train.datagrams() - std::mem::take(&mut self.done).div_ceil(train.datagram_bytes.max(1) as usize);
            self.refused += left as u32;
        }
        let Self { handle, mut trains, datagrams, refused, .. } = self;
        trains.clear();
        let fault = fault.or(self.fault);
        Completion::last(handle, DatagramOutcome::Departed { trains, datagrams, refused, calls: 1, fault }.into())
    }
}

/// A socket.
#[derive(Debug)]
pub(crate) struct Udp {
    local: SocketAddr,
    peer: Option<SocketAddr>,
    /// The work that has it.
    work: u8,
    queue: VecDeque<Waiting>,
    /// Bytes of all payloads in the queue.
    payload: usize,
    /// Bytes of frames in the queue, and how many there may be.
    held: usize,
    limit: usize,
    receive: Option<(Handle, Datagrams)>,
    send: Option<Sending>,
    /// What the network has said of what was sent.
    fault: Option<Fault>,
    dropped: u32,
    /// It is in the list of those to be looked at.
    is_listed: bool,
}

/// Where datagrams are handed over: memory of that arena, at most so many bytes at once.
#[derive(Clone, Copy)]
pub(crate) struct Batches<'a> {
    pub arena: &'a Arena,
    pub most: usize,
}

/// All sockets of a lane.
#[derive(Default)]
pub(crate) struct Sockets {
    all: Slab<Udp>,
    bound: BTreeMap<SocketAddr, u32>,
    joined: BTreeMap<(SocketAddr, SocketAddr), u32>,
    /// Those for which something may be handed over.
    ready: VecDeque<Key>,
    /// Those whose send waits for free frames.
    blocked: VecDeque<Key>,
    /// Bytes of frames in all queues, and how many there may be.
    held: usize,
    limit: usize,
}

/// Whether a name is of the stack's sockets.
pub(crate) const fn is_own(socket: Socket) -> bool {
    socket.index & MARK != 0
}

/// The place of a socket of the stack's.
pub(crate) fn key_of(socket: Socket) -> Key {
    assert!(is_own(socket), "a socket of the stack's");
    Key::new(socket.index & !MARK, socket.generation)
}

/// The name of a place.
fn name_of(key: Key) -> Socket {
    Socket { index: key.index | MARK, generation: key.generation }
}

impl Sockets {
    /// Without any. All of their queues together hold at most so many bytes of frames.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Whether nobody has an address.
    pub fn is_free(&self, local: SocketAddr, peer: Option<SocketAddr>) -> bool {
        match peer {
            None => !self.bound.contains_key(&local),
            Some(peer) => !self.joined.contains_key(&(local, peer)),
        }
    }

    /// Whether no socket has that address, whatever its peer.
    pub fn is_unused(&self, local: SocketAddr) -> bool {
        let least: SocketAddr = ([0, 0, 0, 0], 0).into();
        let first = self.joined.range((local, least)..).next();
        !self.bound.contains_key(&local) && first.is_none_or(|((address, _), _)| *address != local)
    }

    /// A new socket, at an address that is free.
    pub fn add(&mut self, local: SocketAddr, peer: Option<SocketAddr>, buffer: u32) -> Socket {
        let limit = if buffer == 0 { RECEIVE_BYTES } else { buffer as usize };
        let socket = Udp {
            local,
            peer,
            work: Handle::NOBODY.work(),
            queue: VecDeque::new(),
            payload: 0,
            held: 0,
            limit,
            receive: None,
            send: None,
            fault: None,
            dropped: 0,
            is_listed: false,
        };
        let key = self.all.insert(socket);
        assert!(key.index & MARK == 0, "there are fewer sockets than names");
        let before = match peer {
            None => self.bound.insert(local, key.index),
            Some(peer) => self.joined.insert((local, peer), key.index),
        };
        assert!(before.is_none(), "an address has one socket");
        name_of(key)
    }

    /// The address that a socket is bound to; none for a name of nothing.
    pub fn local(&self, socket: Socket) -> Option<SocketAddr> {
        self.all.get(key_of(socket)).map(|socket| socket.local)
    }

    /// Begins to send.
    ///
    /// # Errors
    /// What ends at once, on a name of nothing.
    pub fn begin_send(&mut self, socket: Socket, sending: Sending) -> Result<Key, Completion> {
        let key = key_of(socket);
        let Some(socket) = self.all.get_mut(key) else { return Err(sending.end(Some(Fault::CANCELLED))) };
        assert!(socket.send.is_none(), "a socket has one send under way");
        socket.send = Some(sending);
        Ok(key)
    }

    /// What a socket sends, and both of its ends.
    pub fn take_send(&mut self, key: Key) -> Option<(SocketAddr, Option<SocketAddr>, Sending)> {
        let socket = self.all.get_mut(key)?;
        Some((socket.local, socket.peer, socket.send.take()?))
    }

    /// A send waits for free frames.
    pub fn block(&mut self, key: Key, sending: Sending) {
        if let Some(socket) = self.all.get_mut(key) {
            socket.send = Some(sending);
            self.blocked.push_back(key);
        }
    }

    /// How many sends wait for free frames.
    pub fn blocked(&self) -> usize {
        self.blocked.len()
    }

    /// The one that has waited longest.
    pub fn unblock(&mut self) -> Option<Key> {
        self.blocked.pop_front()
    }

    /// Whether a datagram waits for its socket to receive.
    pub fn has_waiting(&self) -> bool {
        self.held > 0
    }

    /// Packets that were dropped at a socket.
    pub fn dropped(&self, socket: Socket) -> Option<u32> {
        self.all.get(key_of(socket)).map(|socket| socket.dropped)
    }

    /// Whose a datagram is: that of the socket which has its sender alone, else of the one that is bound; none if nobody wants what comes from there.
    pub fn find(&self, local: SocketAddr, from: SocketAddr) -> Option<u32> {
        let joined = if self.joined.is_empty() { None } else { self.joined.get(&(local, from)) };
        joined.or_else(|| self.bound.get(&local)).copied()
    }

    /// Puts a datagram into the queue of the socket that was found for it.
    ///
    /// # Errors
    /// It comes back if that is full, and is to be dropped.
    pub fn put(&mut self, index: u32, from: SocketAddr, packet: Packet) -> Result<(), Packet> {
        let (key, held) = (self.all.key_at(index), packet.held());
        let socket = self.all.at_mut(index);
        if socket.held + held > socket.limit || self.held + held > self.limit {
            socket.dropped = socket.dropped.wrapping_add(1);
            return Err(packet);
        }
        (socket.held, self.held) = (socket.held + held, self.held + held);
        assert!(self.held >= socket.held, "what a socket holds, all of them hold");
        let waiting = Waiting { packet, from };
        socket.payload += waiting.bytes();
        socket.queue.push_back(waiting);
        self.list(key);
        Ok(())
    }

    /// The network has said of something that was sent from `local` to `peer`.
    pub fn tell(&mut self, local: SocketAddr, peer: SocketAddr, fault: Fault) {
        if let Some(&index) = self.joined.get(&(local, peer)) {
            self.all.at_mut(index).fault = Some(fault);
            self.list(self.all.key_at(index));
        }
    }

    /// Takes what was said of something sent earlier.
    pub fn take_fault(&mut self, key: Key) -> Option<Fault> {
        self.all.get_mut(key)?.fault.take()
    }

    fn list(&mut self, key: Key) {
        let socket = self.all.at_mut(key.index);
        if !std::mem::replace(&mut socket.is_listed, true) {
            self.ready.push_back(key);
        }
    }

    /// Begins to receive.
    ///
    /// # Errors
    /// What ends at once, on a name of nothing.
    pub fn receive(&mut self, socket: Socket, handle: Handle, mut into: Datagrams) -> Result<(), Completion> {
        into.clear();
        let key = key_of(socket);
        let Some(socket) = self.all.get_mut(key) else { return Err(arrived(handle, into, Some(Fault::CANCELLED))) };
        socket.work = handle.work();
        assert!(socket.receive.is_none(), "a socket has one receive under way");
        socket.receive = Some((handle, into));
        self.list(key);
        Ok(())
    }

    /// Ends a receive: what has arrived comes with it.
    pub fn stop(&mut self, socket: Socket, to: Batches<'_>, spare: &mut Spare, done: &mut Vec<Completion>) {
        let key = key_of(socket);
        self.hand_over_to(key, to, spare, done);
        // A close ends the receive as well.
        let Some(socket) = self.all.get_mut(key) else { return };
        if let Some((handle, batch)) = socket.receive.take() {
            let fault = if socket.queue.is_empty() { Fault::CANCELLED } else { Fault::of(Reason::NoMemory) };
            done.push(arrived(handle, batch, Some(fault)));
        }
    }

    /// Closes a socket, and ends what is under way on it; false for a name of nothing.
    pub fn close(&mut self, socket: Socket, done: &mut Vec<Completion>) -> bool {
        let Some(mut socket) = self.all.remove(key_of(socket)) else { return false };
        let index = match socket.peer {
            None => self.bound.remove(&socket.local),
            Some(peer) => self.joined.remove(&(socket.local, peer)),
        };
        assert!(index.is_some(), "a socket is found by its address until it is closed");
        assert!(self.held >= socket.held, "what a socket holds, all of them hold");
        self.held -= socket.held;
        let receive = socket.receive.take().map(|(handle, batch)| arrived(handle, batch, Some(Fault::CANCELLED)));
        done.extend(receive);
        done.extend(socket.send.take().map(|send| send.end(Some(Fault::CANCELLED))));
        true
    }

    /// The sockets of a work.
    pub fn of_work(&self, work: u8) -> Vec<Socket> {
        self.all.iter().filter(|(_, socket)| socket.work == work).map(|(key, _)| name_of(key)).collect()
    }

    /// Hands over what waits to at most so many of those that receive; returns how many could not be handed anything because memory was used up.
    pub fn hand_over(&mut self, to: Batches<'_>, at_most: usize, spare: &mut Spare, done: &mut Vec<Completion>) -> u64 {
        let (mut starved, enough) = (0, done.len() + at_most);
        for _ in 0..self.ready.len() {
            if done.len() >= enough {
                break;
            }
            // reason: nobody else takes them off.
            let key = self.ready.pop_front().expect("as many are ready as were counted");
            // It may have been closed since.
            let Some(socket) = self.all.get_mut(key) else { continue };
            socket.is_listed = false;
            if !self.hand_over_to(key, to, spare, done) {
                starved += 1;
                self.list(key);
            }
        }
        starved
    }

    /// False if there was no memory for it.
    fn hand_over_to(&mut self, key: Key, to: Batches<'_>, spare: &mut Spare, done: &mut Vec<Completion>) -> bool {
        let Some(socket) = self.all.get_mut(key) else { return true };
        let Some((handle, mut batch)) = socket.receive.take() else { return true };
        if let Some(fault) = socket.fault.take() {
            done.push(arrived(handle, batch, Some(fault)));
            if !socket.queue.is_empty() {
                self.list(key);
            }
            return true;
        }
        let before = socket.held;
        let is_handed_over = socket.queue.is_empty() || socket.fill(to, &mut batch, spare);
        assert!(socket.held <= before && before <= self.held, "what is handed over was held");
        self.held -= before - socket.held;
        if batch.is_empty() {
            socket.receive = Some((handle, batch));
        } else {
            done.push(arrived(handle, batch, None));
        }
        is_handed_over
    }
}

impl Udp {
    /// Moves what waits into a batch, as far as it fits; false if there is no memory for the first.
    fn fill(&mut self, Batches { arena, most }: Batches<'_>, batch: &mut Datagrams, spare: &mut Spare) -> bool {
        let Some(first) = self.queue.front().map(Waiting::bytes) else { return true };
        assert!(first <= self.payload, "what waits is counted");
        let Some(mut lease) = arena.lease_to_receive(self.payload.min(most).max(first).max(1), first.max(1)) else {
            return false;
        };
        let mut runs: [Option<Run>; BATCH_MAX] = [None; BATCH_MAX];
        let mut count = 0;
        while let Some(next) = self.queue.front() {
            let (bytes, start) = (next.bytes(), lease.len());
            let joins = count > 0 && runs[count - 1].as_ref().is_some_and(|run| run.takes(next.from, bytes));
            if bytes > lease.room() || (!joins && count == BATCH_MAX) {
                break;
            }
            next.payload().for_each(|piece| lease.append(piece));
            match runs[count.saturating_sub(1)].as_mut().filter(|_| joins) {
                Some(run) => (run.end, run.datagrams) = (lease.len(), run.datagrams + 1),
                None => {
                    runs[count] = Some(Run { from: next.from, size: bytes, start, end: lease.len(), datagrams: 1 });
                    count += 1;
                }
            }
            // reason: it is the one that was looked at.
            let Waiting { packet, .. } = self.queue.pop_front().expect("the first one waits");
            assert!(self.held >= packet.held() && self.payload >= bytes, "what waits is held");
            (self.held, self.payload) = (self.held - packet.held(), self.payload - bytes);
            spare.put(packet);
        }
        batch.fill(lease.share());
        runs.iter().flatten().for_each(|run| batch.add(run.start..run.end, run.from.into(), None, run.size));
        true
    }
}

/// Datagrams of one peer and size that are handed over together.
#[derive(Clone, Copy)]
struct Run {
    from: SocketAddr,
    size: usize,
    start: usize,
    end: usize,
    datagrams: usize,
}

impl Run {
    /// Whether a datagram may follow in it: all before are full, and all of it stays one train.
    fn takes(&self, from: SocketAddr, bytes: usize) -> bool {
        let length = self.end - self.start;
        self.from == from
            && bytes > 0
            && bytes <= self.size
            && length == self.datagrams * self.size
            && self.datagrams < TRAIN_DATAGRAMS_MAX
            && length + bytes <= datagram_bytes_max(&self.from.into())
    }
}

/// The end of a receive.
fn arrived(handle: Handle, batch: Datagrams, fault: Option<Fault>) -> Completion {
    Completion::last(handle, DatagramOutcome::Arrived { batch, fault }.into())
}
