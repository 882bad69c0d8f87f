//! Accepting, receiving and sending on connections.

use crate::check::{Booked, Violation};
use crate::faults::{FaultKind, Planted};
use crate::lane::descriptors::NO_DESCRIPTOR;
use crate::lane::pipes::{self, SimPipe};
use crate::lane::sockets::{Body, Receiving, StreamSocket, Target};
use crate::lane::{Held, Undelivered};
use crate::net::NO_BUFFERS;
use crate::net::connect::Opener;
use crate::net::streams::Incoming;
use crate::state::{Event, State, entry};
use corelane_seam::{
    Address, Chain, Completion, Fault, FileSends, Lease, Op, Outcome, RECEIVE_BYTES_LEAST, Reason, Segment, Socket, StreamOp,
    StreamOptions, StreamOutcome,
};

const ABORTED: Fault = Fault { reason: Reason::Reset, number: 103 };
/// No more descriptors can be watched (ENOSPC of epoll_ctl(2)).
const NOT_WATCHED: Fault = Fault { reason: Reason::Other, number: 28 };
/// How accepting may end: the fault, and whether the connection that was to be accepted is lost.
const ACCEPT_FAULTS: [(FaultKind, Fault, bool); 4] = [
    (FaultKind::RefusedAccept, NO_DESCRIPTOR, false),
    (FaultKind::AcceptWithoutMemory, NO_BUFFERS, false),
    (FaultKind::AbortedAccept, ABORTED, true),
    (FaultKind::LostAccept, NOT_WATCHED, true),
];
/// A file is shorter than the part of it that was to be sent (EIO).
const SHORT_FILE: Fault = Fault { reason: Reason::Other, number: 5 };

impl State {
    /// Starts what was asked of a listener or a connection.
    pub(super) fn start_on_stream(&mut self, lane: usize, asked: Booked, op: StreamOp) {
        let socket = match op {
            StreamOp::StopAccept { .. } | StreamOp::SendFile { .. } => unreachable!("`start` has taken it"),
            StreamOp::Connect { to, from, options } => return self.connect(lane, asked, to, from, options),
            StreamOp::Accept { listener: socket }
            | StreamOp::Receive { socket }
            | StreamOp::ReceivePiped { socket, .. }
            | StreamOp::ReceiveInto { socket, .. }
            | StreamOp::Send { socket, .. } => socket,
        };
        let is_sending_file = self.lanes[lane].file_sends.is_of(socket) && !FileSends::<Booked>::is_step(asked.handle);
        let body = self.asked_socket(lane, asked, socket);
        assert!(body.as_ref().is_none_or(|body| fits(body, &op)), "{op:?} is asked of a socket of another kind");
        match (body, op) {
            (Some(Body::Listener { accept: accept @ None, .. }), StreamOp::Accept { .. }) => *accept = Some(asked),
            (Some(Body::Stream(StreamSocket { receive: receive @ None, .. })), StreamOp::Receive { .. }) => {
                *receive = Some(Receiving { asked, into: Target::Block });
            }
            (Some(Body::Stream(StreamSocket { receive: receive @ None, .. })), StreamOp::ReceivePiped { most, .. }) => {
                *receive = Some(Receiving { asked, into: Target::Pipe(most) });
            }
            (Some(Body::Stream(StreamSocket { receive: receive @ None, .. })), StreamOp::ReceiveInto { lease, until, .. }) => {
                *receive = Some(Receiving { asked, into: Target::Lease(lease, until) });
            }
            (Some(Body::Stream(StreamSocket { send: send @ None, .. })), StreamOp::Send { chain, .. }) if !is_sending_file => {
                *send = Some((asked, chain));
                return self.attempt_send(lane, socket);
            }
            // The socket is closed, or has one under way, which the books have noted.
            (_, op) => return self.complete(lane, asked, Some(socket), refused(op)),
        }
        self.wake_socket(lane, socket);
    }

    /// Begins to send a file by its path; returns the first step, unless it is refused.
    pub(super) fn begin_file_send(&mut self, lane: usize, asked: Booked, op: StreamOp) -> Option<(Booked, Op)> {
        let StreamOp::SendFile { socket, .. } = op else { unreachable!("it sends a file") };
        let is_sending_file = self.lanes[lane].file_sends.is_of(socket);
        let body = self.asked_socket(lane, asked, socket);
        assert!(body.as_ref().is_none_or(|body| fits(body, &op)), "{op:?} is asked of a socket of another kind");
        match (body, op) {
            (Some(Body::Stream(StreamSocket { send: None, .. })), StreamOp::SendFile { beneath, path, sync, .. })
                if !is_sending_file =>
            {
                let (handle, open) = self.lanes[lane].file_sends.begin(asked, socket, (beneath, path), sync);
                let op = open.into();
                let number = self.ledger.enter(lane, handle, &op);
                Some((Booked { number, handle }, op))
            }
            // The socket is closed, or has one under way, which the books have noted.
            (_, op) => {
                self.complete(lane, asked, Some(socket), refused(op));
                None
            }
        }
    }

    fn connect(&mut self, lane: usize, asked: Booked, to: Address, from: Option<Address>, options: StreamOptions) {
        let host = self.lanes[lane].host;
        let descriptor = self.open_descriptor(lane);
        let started = self.with_descriptor(lane, descriptor, |state, descriptor| {
            let from = from.map(|from| state.net.inward_to_bind(host, &from)).transpose()?;
            let to = state.net.inward(host, &to)?;
            state.start_attempt(Opener::Lane(lane, asked, descriptor), host, from, to, options)
        });
        if let Err(fault) = started {
            self.complete(lane, asked, None, Outcome::Failed(fault));
        }
    }

    pub(super) fn attempt_accept(&mut self, lane: usize, listener: Socket) {
        let Some(&mut Body::Listener { port, accept: Some(asked) }) = self.lanes[lane].sockets.open(listener) else { return };
        for _ in 0..self.lanes[lane].tuning.accept_batch.max(1) {
            let Some(queue) = self.net.listeners.get_mut(&port).map(|listener| &mut listener.queue) else { return };
            let Some(&stream) = queue.front() else { return };
            let descriptor = match self.open_descriptor(lane) {
                Ok(descriptor) => descriptor,
                Err(fault) => return self.end_on_socket(lane, listener, fault),
            };
            let failed = ACCEPT_FAULTS.into_iter().find(|&(kind, ..)| self.strikes(kind));
            let stays = failed.is_some_and(|(_, _, is_lost)| !is_lost);
            if let Some(listener) = self.net.listeners.get_mut(&port).filter(|_| !stays) {
                listener.queue.pop_front();
            }
            if let Some((_, fault, is_lost)) = failed {
                if is_lost {
                    self.leave(stream, 1, true);
                }
                self.lanes[lane].descriptors.close(descriptor);
                return self.end_on_socket(lane, listener, fault);
            }
            let socket = self.take_stream(lane, asked.handle.work(), (stream, 1), descriptor);
            let [peer, local] = self.net.streams[stream].addresses;
            let (peer, local) = (self.net.peer(peer), self.net.own(local));
            let mut accepted = entry(asked, Some(listener), Outcome::Stream(StreamOutcome::Accepted { socket, peer, local }));
            accepted.completion.more = true;
            self.enqueue(lane, accepted);
        }
        self.wake_socket(lane, listener);
    }

    /// Returns how many bytes of the lane's memory it took.
    pub(super) fn attempt_receive(&mut self, lane: usize, socket: Socket) -> usize {
        let Some(&mut StreamSocket { stream: name, side, .. }) = self.lanes[lane].sockets.stream(socket) else { return 0 };
        if self.net.held(name).is_readable(side) && self.tell_unseen(lane, socket) {
            return 0;
        }
        let receive = self.lanes[lane].sockets.stream(socket).and_then(|at| at.receive.take());
        let Some(receiving) = receive else { return 0 };
        let stream = self.net.held(name);
        match stream.incoming(side) {
            Incoming::Nothing => self.put_back(lane, socket, receiving),
            Incoming::Bytes(readable) => return self.receive_bytes(lane, socket, receiving, readable),
            Incoming::Fault(fault) => {
                let (asked, outcome) = receiving.failed(fault);
                self.complete(lane, asked, Some(socket), outcome);
            }
            Incoming::End => {
                let outcome = match receiving.into {
                    Target::Lease(lease, _) => Outcome::Stream(StreamOutcome::Filled { lease, fault: None }),
                    Target::Block | Target::Pipe(_) => Outcome::Stream(StreamOutcome::EndOfStream),
                };
                self.complete(lane, receiving.asked, Some(socket), outcome);
            }
        }
        0
    }

    fn put_back(&mut self, lane: usize, socket: Socket, receiving: Receiving) {
        if let Some(at) = self.lanes[lane].sockets.stream(socket) {
            at.receive = Some(receiving);
        }
    }

    fn receive_bytes(&mut self, lane: usize, socket: Socket, receiving: Receiving, readable: usize) -> usize {
        let asked = receiving.asked;
        if let Target::Pipe(most) = receiving.into
            && self.has_pipe(lane)
        {
            return self.receive_piped(lane, socket, asked, most.min(readable));
        }
        let is_own = !matches!(receiving.into, Target::Lease(..));
        let (mut lease, until) = match receiving.into {
            Target::Lease(lease, until) => (lease, until),
            into => match self.receive_block(lane, socket) {
                Some(lease) => (lease, self.lanes[lane].tuning.receive_bytes),
                None => {
                    self.put_back(lane, socket, Receiving { asked, into });
                    return 0;
                }
            },
        };
        let added = self.fill(lane, socket, &mut lease, until, readable);
        if is_own {
            let used = lease.capacity();
            let bytes = lease.share();
            if self.plants(Planted::LeakedLease) {
                self.lanes[lane].leaked.push(bytes.clone());
            }
            self.complete(lane, asked, Some(socket), Outcome::Stream(StreamOutcome::Received(bytes)));
            return used;
        }
        let filled =
            Undelivered { added, ..entry(asked, Some(socket), Outcome::Stream(StreamOutcome::Filled { lease, fault: None })) };
        self.enqueue(lane, filled);
        0
    }

    /// Whether there is a pipe for a receive.
    fn has_pipe(&mut self, lane: usize) -> bool {
        let own = &self.lanes[lane];
        let is_there = own.pipes.get() < own.tuning.pipes_max && !self.strikes(FaultKind::RefusedPipe);
        self.lanes[lane].counters.pipes.refused += u64::from(!is_there);
        is_there
    }

    /// Moves up to `most` of what has arrived into a pipe; returns how many bytes of the lane's memory that took.
    fn receive_piped(&mut self, lane: usize, socket: Socket, asked: Booked, most: usize) -> usize {
        let mut bytes = vec![0; most];
        let got = self.read(lane, socket, &mut bytes);
        bytes.truncate(got);
        let own = &mut self.lanes[lane];
        own.counters.pipes.bytes += got as u64;
        let piped = SimPipe::piped(bytes, &own.pipes);
        self.complete(lane, asked, Some(socket), Outcome::Stream(StreamOutcome::ReceivedPiped(piped)));
        0
    }

    fn receive_block(&mut self, lane: usize, socket: Socket) -> Option<Lease> {
        self.receive_lease(lane, socket, self.lanes[lane].tuning.receive_bytes, RECEIVE_BYTES_LEAST)
    }

    /// Memory for a receive, of `most` bytes or down to `least`; without any the socket waits.
    pub(super) fn receive_lease(&mut self, lane: usize, socket: Socket, most: usize, least: usize) -> Option<Lease> {
        if self.strikes(FaultKind::NoMemory) {
            let delay = self.random.delay();
            self.clock.after(delay, Event::Memory { lane, socket });
        } else if let Some(lease) = self.lanes[lane].arena.lease_to_receive(most, least) {
            return Some(lease);
        } else {
            self.lanes[lane].starving.push(socket);
        }
        self.lanes[lane].counters.receives_starved += 1;
        None
    }

    /// Moves what has arrived behind the data of `lease`; returns how much.
    fn fill(&mut self, lane: usize, socket: Socket, lease: &mut Lease, until: usize, readable: usize) -> usize {
        // Memory of the driver's own may be smaller than a receive is to bring.
        let room = lease.room().min(until - lease.len());
        assert!(room > 0, "a receive needs room, within the lease");
        let bytes = self.read(lane, socket, &mut lease.spare()[..readable.min(room)]);
        lease.advance(bytes);
        bytes
    }

    /// Moves what has arrived to a place for it, or only a part of that; returns how much.
    fn read(&mut self, lane: usize, socket: Socket, to: &mut [u8]) -> usize {
        let Some(at) = self.lanes[lane].sockets.stream(socket) else { return 0 };
        let (name, side) = (at.stream, at.side);
        let mut bytes = to.len();
        if bytes > 1 && self.strikes(FaultKind::ShortRead) {
            bytes = self.random.one_to(bytes - 1);
        }
        let stream = self.net.held(name);
        stream.pipes[1 - side].read(&mut to[..bytes]);
        self.release_passed(name, 1 - side);
        if bytes > 0 && self.plants(Planted::CorruptByte) {
            to[bytes - 1] ^= 0x20;
        }
        self.received_bridged(lane, socket, bytes);
        self.pump(name, 1 - side);
        self.let_break(name);
        bytes
    }

    pub(super) fn attempt_send(&mut self, lane: usize, socket: Socket) {
        let Some(at) = self.lanes[lane].sockets.stream(socket) else { return };
        let (name, side) = (at.stream, at.side);
        let Some((asked, chain)) = at.send.take() else { return };
        let stream = self.net.held(name);
        match stream.outgoing(side) {
            Ok(0) => {
                if let Some(at) = self.lanes[lane].sockets.stream(socket) {
                    at.send = Some((asked, chain));
                }
            }
            Ok(room) => self.send_bytes(lane, socket, asked, chain, room),
            Err(fault) => {
                let outcome = Outcome::Stream(StreamOutcome::Sent { bytes: 0, rest: chain, fault: Some(fault) });
                self.complete(lane, asked, Some(socket), outcome);
            }
        }
    }

    fn send_bytes(&mut self, lane: usize, socket: Socket, asked: Booked, mut chain: Chain, room: usize) {
        let mut most = room.min(chain.len());
        if most > 1 && self.strikes(FaultKind::ShortWrite) {
            most = self.random.one_to(most - 1);
        }
        let mut sent = Chain::new();
        chain.move_to(most, &mut sent);
        self.blame_sends_of_far_files(lane, &sent);
        let meant = self.gather(lane, sent.segments());
        let fault = (meant.len() < most).then_some(SHORT_FILE);
        let mut rest = sent.clone();
        rest.skip(meant.len());
        rest.append(&mut chain);
        if !pipes::leave(&sent, meant.len()) {
            self.ledger.blame(Violation::PipedTwice { lane });
        }
        let bytes = self.put_on_wire(lane, socket, &meant, &mut rest);
        self.gave_bridged(lane, socket, bytes);
        let mut completion = Completion::last(asked.handle, Outcome::Stream(StreamOutcome::Sent { bytes, rest, fault }));
        if let Some(hold) = self.is_to_hold(lane, socket, bytes) {
            completion.released = false;
            self.hold(lane, Held::new(asked, socket, sent), hold);
        }
        self.enqueue(lane, Undelivered { completion, ..entry(asked, Some(socket), Outcome::Released) });
    }

    /// Gives bytes to the network; returns how many the lane is told were sent.
    fn put_on_wire(&mut self, lane: usize, socket: Socket, meant: &[u8], rest: &mut Chain) -> usize {
        let Some(at) = self.lanes[lane].sockets.stream(socket) else { return 0 };
        let (name, side) = (at.stream, at.side);
        let is_cut = !meant.is_empty() && self.plants(Planted::LostByte);
        let left = &meant[..meant.len() - usize::from(is_cut)];
        let overwritten = self.plants(Planted::EarlyRelease).then(|| vec![0xa5; left.len()]);
        self.net.held(name).pipes[side].put(meant, overwritten.as_deref().unwrap_or(left));
        self.pump(name, side);
        self.let_break(name);
        if meant.is_empty() || !self.plants(Planted::RepeatedByte) {
            return meant.len();
        }
        rest.push_front(&b"R"[..]);
        meant.len() - 1
    }

    /// A send of a file that is far waits on the lane's thread for who serves that.
    fn blame_sends_of_far_files(&mut self, lane: usize, sent: &Chain) {
        let is_far = |segment: &Segment| match segment {
            Segment::File(part) => self.lanes[lane].files.get((&part.file).into()).is_some_and(|open| open.is_far),
            _ => false,
        };
        if sent.segments().any(is_far) {
            self.ledger.blame(Violation::FarFileSent { lane });
        }
    }

    /// The bytes of segments, up to the first that a file does not have.
    pub(super) fn gather<'a>(&self, lane: usize, segments: impl Iterator<Item = &'a Segment>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in segments {
            let part = match segment {
                Segment::File(part) => match self.lanes[lane].files.get((&part.file).into()) {
                    Some(open) if open.read && !self.disk_is_broken => self.files.slice(open.content, part.offset, part.length),
                    _ => &[],
                },
                Segment::Shared(shared) => shared,
                Segment::Guest(guest) => guest,
                Segment::Static(part) => part,
                Segment::Sealed(sealed) => sealed,
                Segment::Piped(piped) => pipes::shown(piped),
            };
            bytes.extend_from_slice(part);
            if part.len() < segment.len() {
                break;
            }
        }
        bytes
    }
}

/// Whether an operation can be asked of a socket of this kind.
fn fits(body: &Body, op: &StreamOp) -> bool {
    match body {
        Body::Listener { .. } => matches!(op, StreamOp::Accept { .. } | StreamOp::StopAccept { .. }),
        Body::Stream(_) => !matches!(op, StreamOp::Accept { .. } | StreamOp::StopAccept { .. } | StreamOp::Connect { .. }),
        Body::Datagram { .. } => false,
    }
}

/// How an operation ends whose socket is not there, or no longer; its memory goes back.
fn refused(op: StreamOp) -> Outcome {
    let fault = Some(Fault::CANCELLED);
    match op {
        StreamOp::ReceiveInto { lease, .. } => Outcome::Stream(StreamOutcome::Filled { lease, fault }),
        StreamOp::Send { chain, .. } => Outcome::Stream(StreamOutcome::Sent { bytes: 0, rest: chain, fault }),
        StreamOp::SendFile { .. } => Outcome::Stream(StreamOutcome::FileSent { bytes: 0, length: 0, fault }),
        _ => Outcome::Failed(Fault::CANCELLED),
    }
}
