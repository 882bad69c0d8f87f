//! How completions are handed to the lane: past the books.

use crate::check::{Booked, Violation};
use crate::kind::outcome_name;
use crate::lane::Undelivered;
use crate::lane::pipes;
use crate::lane::sockets::{Body, StreamSocket};
use crate::log::{Detail, Site};
use crate::state::State;
use corelane_seam::{Completion, FileSends, FileStep, Outcome, Socket, StreamOutcome};

impl State {
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
                if FileSends::<Booked>::is_step(entry.completion.handle) {
                    self.go_on_with_file(lane, entry.completion);
                    continue;
                }
                completions.push(entry.completion);
                left -= 1;
            }
        }
    }

    /// A step of an operation that sends a file has ended: the next one is submitted, or the operation ends.
    fn go_on_with_file(&mut self, lane: usize, Completion { handle, outcome, .. }: Completion) {
        // Memory that a step has lent is not used again.
        if matches!(outcome, Outcome::Released) {
            return;
        }
        let FileStep { told, next } = self.lanes[lane].file_sends.take(handle, outcome);
        if let Some((asked, socket, outcome)) = told {
            self.complete(lane, asked, Some(socket), outcome.into());
        }
        if let Some((handle, op)) = next {
            let number = self.ledger.enter(lane, handle, &op);
            self.lanes[lane].submitted.push((Booked { number, handle }, op));
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
        Outcome::Stream(StreamOutcome::ReceivedPiped(piped)) => stream.given.add(pipes::shown(piped)),
        Outcome::Stream(StreamOutcome::Filled { lease, .. }) => stream.given.add(&lease[lease.len() - entry.added..]),
        Outcome::Stream(StreamOutcome::Sent { bytes, .. }) => stream.claimed += *bytes as u64,
        _ => {}
    }
}
