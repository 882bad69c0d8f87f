//! Receiving batches of datagrams and sending trains of them.

use crate::check::Booked;
use crate::faults::{FaultKind, Planted};
use crate::lane::sockets::Body;
use crate::lane::{Held, Undelivered};
use crate::net::datagrams::Packet;
use crate::net::unix::is_unix;
use crate::net::{INVALID, NO_BUFFERS, TOO_LARGE, UNREACHABLE};
use crate::state::{State, entry};
use corelane_seam::{
    BATCH_MAX, Chain, Completion, DATAGRAM_BLOCK_BYTES_LEAST, DatagramOp, DatagramOutcome, Fault, Lease, Outcome, Socket,
    TRAIN_DATAGRAMS_MAX, Train, Trains, datagram_bytes_max,
};
use std::net::SocketAddr;
use std::ops::Range;

/// The interface that every datagram comes in by.
const INTERFACE: u32 = 1;

/// Datagrams of one peer and size that are handed over together.
struct Run {
    from: SocketAddr,
    to: SocketAddr,
    size: usize,
    range: Range<usize>,
    /// The most datagrams that it shall have.
    most: usize,
}

impl Run {
    /// Whether a datagram may follow in it: all before are full, and all of it stays one train.
    fn takes(&self, packet: &Packet) -> bool {
        let bytes = packet.bytes.len();
        (self.from, self.to) == (packet.from, packet.to)
            && !is_unix(self.from.ip())
            && bytes > 0
            && bytes <= self.size
            && self.range.len().is_multiple_of(self.size)
            && self.range.len() / self.size < self.most
            && self.range.len() + bytes <= datagram_bytes_max(&self.from.into())
    }
}

impl State {
    /// Starts what was asked of a datagram socket.
    pub(super) fn start_on_datagrams(&mut self, lane: usize, asked: Booked, op: DatagramOp) {
        let socket = match op {
            DatagramOp::Bind(bind) => return self.bind_later(lane, asked, &bind),
            DatagramOp::Receive { socket, .. } | DatagramOp::Send { socket, .. } => socket,
        };
        let body = self.asked_socket(lane, asked, socket);
        let fits = body.as_ref().is_none_or(|body| matches!(body, Body::Datagram { .. }));
        assert!(fits, "{op:?} is asked of a socket of another kind");
        match (body, op) {
            (Some(Body::Datagram { receive: receive @ None, .. }), DatagramOp::Receive { mut into, .. }) => {
                into.clear();
                *receive = Some((asked, into));
                self.wake_socket(lane, socket);
            }
            (Some(&mut Body::Datagram { port, .. }), DatagramOp::Send { trains, .. }) => {
                self.send_datagrams(lane, asked, socket, port, trains);
            }
            // The socket is closed, or has one under way, which the books have noted.
            (_, op) => self.complete(lane, asked, Some(socket), refused(op)),
        }
    }

    /// Returns how many bytes of the lane's memory it took.
    pub(super) fn attempt_receive_datagrams(&mut self, lane: usize, socket: Socket) -> usize {
        let Some(Body::Datagram { port, receive }) = self.lanes[lane].sockets.open(socket) else { return 0 };
        let name = *port;
        let Some(port) = self.net.ports.get_mut(&name).filter(|port| receive.is_some() && port.is_readable()) else { return 0 };
        if let Some(fault) = port.fault.take() {
            if let Some((asked, batch)) = receive.take() {
                self.complete(
                    lane,
                    asked,
                    Some(socket),
                    Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: Some(fault) }),
                );
            }
            return 0;
        }
        if !is_unix(self.net.ports[&name].place.address.ip()) && self.strikes(FaultKind::DatagramError) {
            let fault = if self.random.below(2) == 0 { NO_BUFFERS } else { UNREACHABLE };
            self.end_on_socket(lane, socket, fault);
            return 0;
        }
        let most = self.lanes[lane].tuning.datagram_bytes;
        let Some(mut lease) = self.receive_lease(lane, socket, most, DATAGRAM_BLOCK_BYTES_LEAST) else { return 0 };
        let Some(Body::Datagram { receive, .. }) = self.lanes[lane].sockets.open(socket) else { unreachable!("it is open") };
        // reason: it was seen above, and memory alone has been asked for since.
        let (asked, mut batch) = receive.take().expect("a receive is under way");
        let used = lease.capacity();
        let runs = self.unload(name, &mut lease);
        let is_wildcard = self.net.ports[&name].place.address.ip().is_unspecified();
        batch.fill(lease.share());
        for Run { from, to, size, range, .. } in runs {
            batch.add(range, self.net.peer(from), is_wildcard.then_some((to.ip(), INTERFACE)), size);
        }
        self.complete(lane, asked, Some(socket), Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }));
        used
    }

    /// Moves waiting datagrams into `lease`, as long as they fit; some join into trains, as in the kernel: into short ones, and
    /// now and then into the longest that there are.
    fn unload(&mut self, name: u64, lease: &mut Lease) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let Some(port) = self.net.ports.get_mut(&name) else { return runs };
        while let Some(packet) = port.front() {
            let joins = runs.last().is_some_and(|run| run.takes(packet));
            if !runs.is_empty() && (packet.bytes.len() > lease.room() || (!joins && runs.len() == BATCH_MAX)) {
                break;
            }
            let Some(Packet { from, to, mut bytes }) = port.pop() else { break };
            bytes.truncate(lease.room());
            let start = lease.len();
            lease.append(&bytes);
            match runs.last_mut().filter(|_| joins) {
                Some(run) => run.range.end = lease.len(),
                None => {
                    let most = if self.random.below(4) == 0 { TRAIN_DATAGRAMS_MAX } else { self.random.one_to(8) };
                    runs.push(Run { from, to, size: bytes.len(), range: start..lease.len(), most });
                }
            }
        }
        runs
    }

    fn send_datagrams(&mut self, lane: usize, asked: Booked, socket: Socket, port: u64, mut trains: Trains) {
        let (mut datagrams, mut refused) = (0, 0);
        let mut fault = self.net.ports.get_mut(&port).and_then(|port| port.fault.take());
        for train in trains.trains() {
            match self.send_train(lane, port, &trains, train) {
                Ok(()) => datagrams += train.datagrams() as u32,
                Err((left, why)) => {
                    datagrams += left;
                    refused += train.datagrams() as u32 - left;
                    fault = Some(why);
                }
            }
        }
        let mut sent = Chain::new();
        trains.trains().iter().flat_map(|train| trains.segments(train)).for_each(|segment| sent.push(segment.clone()));
        trains.clear();
        let departed = DatagramOutcome::Departed { trains, datagrams, refused, calls: 1, fault };
        let mut completion = Completion::last(asked.handle, Outcome::Datagram(departed));
        if let Some(hold) = self.is_to_hold(lane, socket, sent.len()) {
            completion.released = false;
            self.hold(lane, Held::new(asked, socket, sent), hold);
        }
        self.enqueue(lane, Undelivered { completion, ..entry(asked, Some(socket), Outcome::Released) });
    }

    /// Sends a train; a fault comes with how many of its datagrams have left before.
    fn send_train(&mut self, lane: usize, port: u64, trains: &Trains, train: &Train) -> Result<(), (u32, Fault)> {
        let (from, to) = self.way_of(lane, port, train).map_err(|fault| (0, fault))?;
        let mut payload = self.gather(lane, trains.segments(train));
        if self.plants(Planted::EarlyRelease) {
            payload.fill(0xa5);
        }
        if payload.len() != train.bytes as usize || to.port() == 0 {
            return Err((0, INVALID));
        }
        let empty = payload.is_empty().then_some(&[][..]);
        let datagrams = empty.into_iter().chain(payload.chunks(train.datagram_bytes.max(1) as usize));
        for (left, bytes) in datagrams.enumerate() {
            let packet = Packet { from, to, bytes: bytes.to_vec() };
            match is_unix(to.ip()) {
                true => self.give(packet).map_err(|fault| (left as u32, fault))?,
                false => self.emit(port, packet),
            }
        }
        Ok(())
    }

    /// From where and to where a train goes, unless it is refused as a whole.
    fn way_of(&mut self, lane: usize, port: u64, train: &Train) -> Result<(SocketAddr, SocketAddr), Fault> {
        let at = self.net.ports.get(&port).ok_or(INVALID)?;
        let (bound, peer, host) = (at.place.address, at.peer, self.lanes[lane].host);
        let to = peer.map_or_else(|| self.net.inward(host, &train.peer), Ok)?;
        let source = self.net.own_end(host, bound.ip(), train.source, to.ip().to_canonical())?;
        if train.datagram_bytes as usize > datagram_bytes_max(&self.net.own(to)) {
            return Err(TOO_LARGE);
        }
        if self.strikes(FaultKind::DatagramRefused) {
            return Err(NO_BUFFERS);
        }
        Ok((SocketAddr::new(source, bound.port()), to))
    }
}

/// How an operation ends whose socket is not there, or no longer; its memory goes back.
fn refused(op: DatagramOp) -> Outcome {
    let fault = Some(Fault::CANCELLED);
    match op {
        DatagramOp::Receive { into: mut batch, .. } => {
            batch.clear();
            Outcome::Datagram(DatagramOutcome::Arrived { batch, fault })
        }
        DatagramOp::Send { mut trains, .. } => {
            let refused = trains.trains().iter().map(Train::datagrams).sum::<usize>() as u32;
            trains.clear();
            Outcome::Datagram(DatagramOutcome::Departed { trains, datagrams: 0, refused, calls: 0, fault })
        }
        DatagramOp::Bind(_) => Outcome::Failed(Fault::CANCELLED),
    }
}
