//! How completions reach the lane: in order unless a fault says otherwise, and past the books.

use super::Asked;
use super::lane::Undelivered;
use super::sockets::{Body, StreamSocket};
use crate::check::Violation;
use crate::faults::{FaultKind, Planted};
use crate::kind::outcome_name;
use crate::log::{Detail, Site};
use crate::world::{Event, State};
use corelane_seam::{Chain, Completion, Fault, FileOutcome, Handle, Outcome, Socket, StreamOutcome};

impl State {
    /// Ends an operation.
    pub(crate) fn complete(&mut self, lane: usize, asked: Asked, socket: Option<Socket>, outcome: Outcome) {
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

    /// Hands over what is due, at most `at_most`.
    pub(super) fn hand_over(&mut self, lane: usize, at_most: usize, completions: &mut Vec<Completion>) {
        let (mut index, mut left) = (0, at_most.max(1));
        while index < self.lanes[lane].completed.len() && left > 0 {
            if !self.lanes[lane].is_due(index, self.clock.now()) {
                index += 1;
                continue;
            }
            if let Some(entry) = self.lanes[lane].completed.remove(index) {
                self.settle(lane, &entry);
                completions.push(entry.completion);
                left -= 1;
            }
        }
    }

    /// Enters in the books what the lane is told.
    fn settle(&mut self, lane: usize, entry: &Undelivered) {
        let name = outcome_name(&entry.completion.outcome);
        self.log.note(self.clock.now(), Site::Lane(lane), name, Detail::Handle(entry.completion.handle));
        self.ledger.settle(lane, entry.number, &entry.completion);
        let Some(socket) = entry.socket else { return };
        if let Outcome::Closed = entry.completion.outcome {
            return self.remove_socket(lane, socket);
        }
        let Some(slot) = self.lanes[lane].sockets.get(socket) else { return };
        if let Body::Stream(stream) = &mut slot.body {
            credit(stream, entry);
        }
    }

    /// The lane knows that the socket is closed: its name is void.
    fn remove_socket(&mut self, lane: usize, socket: Socket) {
        self.close_descriptor_of(lane, socket);
        let Some(slot) = self.lanes[lane].sockets.remove(socket) else { return };
        let Body::Stream(StreamSocket { claimed, given, moved: Some((taken, read)), .. }) = slot.body else { return };
        let pairs = [(taken, claimed, taken != claimed), (read.bytes, given.bytes, read != given)];
        for (expected, got, _) in pairs.into_iter().filter(|pair| pair.2) {
            self.ledger.blame(Violation::BytesDiffer { lane: Some(lane), expected, got });
        }
    }
}

/// Adds to a connection's account what a completion tells its lane.
fn credit(stream: &mut StreamSocket, entry: &Undelivered) {
    match &entry.completion.outcome {
        Outcome::Stream(StreamOutcome::Received(bytes)) => stream.given.add(bytes),
        Outcome::Stream(StreamOutcome::Filled { lease, .. }) => stream.given.add(&lease[lease.len() - entry.added..]),
        Outcome::Stream(StreamOutcome::Sent { bytes, .. }) => stream.claimed += *bytes as u64,
        _ => {}
    }
}

/// The last completion of an operation.
pub(super) fn entry(asked: Asked, socket: Option<Socket>, outcome: Outcome) -> Undelivered {
    let is_barrier = matches!(outcome, Outcome::Closed);
    let completion = Completion::last(asked.handle, outcome);
    Undelivered { number: asked.number, socket, is_barrier, due: 0, added: 0, completion }
}

/// The completion once more, as far as it can be copied.
fn twin(entry: &Undelivered) -> Undelivered {
    let outcome = match &entry.completion.outcome {
        Outcome::Stream(StreamOutcome::Received(bytes)) => Outcome::Stream(StreamOutcome::Received(bytes.clone())),
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
