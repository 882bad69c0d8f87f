//! How the rest of the world reaches a lane: its completions in order unless a fault says otherwise, its sockets woken and given to it.

use super::{Event, State};
use crate::check::Booked;
use crate::faults::{FaultKind, Planted};
use crate::lane::Undelivered;
use crate::lane::sockets::{Body, StreamSocket};
use crate::net::Owner;
use corelane_seam::{Chain, Completion, Fault, FileOutcome, Handle, Outcome, Socket, StreamOutcome};

impl State {
    /// Ends an operation.
    pub(crate) fn complete(&mut self, lane: usize, asked: Booked, socket: Option<Socket>, outcome: Outcome) {
        self.enqueue(lane, entry(asked, socket, outcome));
    }

    /// Puts a completion into the lane's queue, with what the faults and the planted bug make of it.
    pub(crate) fn enqueue(&mut self, lane: usize, mut entry: Undelivered) {
        if self.lanes[lane].is_gone() || self.plants(Planted::LostCompletion) {
            return;
        }
        if self.plants(Planted::StaleHandle) {
            entry.completion.handle = previous(entry.completion.handle);
        }
        let is_closed = matches!(entry.completion.outcome, Outcome::Closed);
        let doubles = (!entry.completion.more && self.plants(Planted::DoubleCompletion))
            || (is_closed && self.plants(Planted::DoubleClose));
        let twin = doubles.then(|| twin(&entry));
        if self.strikes(FaultKind::LateCompletion) {
            let delay = self.random.delay();
            entry.due = self.clock.now() + delay;
            self.clock.at(entry.due, Event::Due);
        }
        self.insert(lane, entry);
        if let Some(twin) = twin {
            self.lanes[lane].completed.push_back(twin);
        }
    }

    fn insert(&mut self, lane: usize, entry: Undelivered) {
        let completed = &self.lanes[lane].completed;
        let first = completed.iter().rposition(|earlier| entry.follows(earlier)).map_or(0, |last| last + 1);
        let mut place = completed.len();
        if first < place && self.strikes(FaultKind::ReorderedCompletion) {
            place = first + self.random.below((place - first) as u64) as usize;
        }
        self.lanes[lane].completed.insert(place, entry);
    }

    /// Puts a socket into the ready list if an operation on it can go on.
    pub(crate) fn wake_socket(&mut self, lane: usize, socket: Socket) {
        if !self.can_go_on(lane, socket) {
            return;
        }
        let own = &mut self.lanes[lane];
        if let Some(slot) = own.sockets.get(socket)
            && !std::mem::replace(&mut slot.is_ready, true)
        {
            own.ready.push(socket);
        }
    }

    fn can_go_on(&self, lane: usize, socket: Socket) -> bool {
        match self.lanes[lane].sockets.peek(socket) {
            Some(Body::Listener { port, accept: Some(_) }) => !self.net.listeners[port].queue.is_empty(),
            Some(Body::Stream(at)) => {
                let stream = &self.net.streams[at.stream];
                (at.receive.is_some() && stream.is_readable(at.side)) || (at.send.is_some() && stream.is_writable(at.side))
            }
            Some(Body::Datagram { port, receive: Some(_) }) => self.net.ports[port].is_readable(),
            _ => false,
        }
    }

    /// Makes the lane's socket for its end of a connection, at an open descriptor; the work of this number has it.
    pub(crate) fn take_stream(&mut self, lane: usize, work: u8, (stream, side): (u64, usize), descriptor: i32) -> Socket {
        let at = StreamSocket {
            stream,
            side,
            receive: None,
            send: None,
            claimed: 0,
            given: Default::default(),
            moved: None,
            bridged: None,
        };
        let socket = self.lanes[lane].sockets.add(work, Body::Stream(at), descriptor);
        if let Some(entry) = self.net.streams.get_mut(stream) {
            entry.ends[side].owner = Owner::Lane(lane, socket);
        }
        socket
    }
}

/// The last completion of an operation.
pub(crate) fn entry(asked: Booked, socket: Option<Socket>, outcome: Outcome) -> Undelivered {
    let is_barrier = matches!(outcome, Outcome::Closed);
    let completion = Completion::last(asked.handle, outcome);
    Undelivered { number: asked.number, socket, is_barrier, due: 0, added: 0, completion }
}

/// The completion once more, as far as it can be copied.
fn twin(entry: &Undelivered) -> Undelivered {
    let outcome = match &entry.completion.outcome {
        Outcome::Stream(StreamOutcome::Received(bytes)) => Outcome::Stream(StreamOutcome::Received(bytes.clone())),
        Outcome::Stream(StreamOutcome::ReceivedPiped(piped)) => Outcome::Stream(StreamOutcome::ReceivedPiped(piped.clone())),
        Outcome::Stream(StreamOutcome::EndOfStream) => Outcome::Stream(StreamOutcome::EndOfStream),
        Outcome::Stream(StreamOutcome::Sent { .. }) => {
            Outcome::Stream(StreamOutcome::Sent { bytes: 0, rest: Chain::new(), fault: None })
        }
        Outcome::Closed => Outcome::Closed,
        Outcome::Released => Outcome::Released,
        Outcome::File(FileOutcome::Done) => Outcome::File(FileOutcome::Done),
        _ => Outcome::Failed(Fault::CANCELLED),
    };
    let completion = Completion::last(entry.completion.handle, outcome);
    Undelivered { number: entry.number, socket: entry.socket, is_barrier: entry.is_barrier, due: 0, added: 0, completion }
}

fn previous(handle: Handle) -> Handle {
    Handle::new(handle.class(), handle.index(), handle.generation().wrapping_sub(1)).of(handle.work())
}
