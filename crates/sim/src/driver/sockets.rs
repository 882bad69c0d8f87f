//! What a lane's sockets have in common: who asks something of them, how what is under way ends before its time, and when they are closed.

use crate::check::Booked;
use crate::faults::Planted;
use crate::lane::sockets::{Body, Receiving, Target};
use crate::state::State;
use corelane_seam::{DatagramOutcome, Fault, Outcome, Socket, StreamOutcome};

impl State {
    /// The open socket that an operation is asked of, from now on the asking work's.
    pub(super) fn asked_socket(&mut self, lane: usize, asked: Booked, socket: Socket) -> Option<&mut Body> {
        let sockets = &mut self.lanes[lane].sockets;
        if let Some(slot) = sockets.get(socket) {
            slot.work = asked.handle.work();
        }
        sockets.open(socket)
    }

    /// Ends the receive or accept that is under way on a socket.
    pub(super) fn end_on_socket(&mut self, lane: usize, socket: Socket, fault: Fault) {
        let Some(slot) = self.lanes[lane].sockets.get(socket) else { return };
        let ended = match &mut slot.body {
            Body::Listener { accept, .. } => accept.take().map(|asked| (asked, Outcome::Failed(fault))),
            Body::Stream(at) => at.receive.take().map(|receiving| receiving.failed(fault)),
            Body::Datagram { receive, .. } => receive
                .take()
                .map(|(asked, batch)| (asked, Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: Some(fault) }))),
        };
        if let Some((asked, outcome)) = ended {
            self.complete_cancelled(lane, asked, Some(socket), outcome);
        }
    }

    /// Completes what ended before its time: it was cancelled, or it failed. Where that is planted as lost, nobody hears of it.
    pub(super) fn complete_cancelled(&mut self, lane: usize, asked: Booked, socket: Option<Socket>, outcome: Outcome) {
        if !self.plants(Planted::LeakedCancel) {
            self.complete(lane, asked, socket, outcome);
        }
    }

    /// Ends the send that is under way on a connection.
    pub(super) fn cancel_send(&mut self, lane: usize, socket: Socket) {
        let Some(at) = self.lanes[lane].sockets.stream(socket) else { return };
        if let Some((asked, rest)) = at.send.take() {
            let outcome = Outcome::Stream(StreamOutcome::Sent { bytes: 0, rest, fault: Some(Fault::CANCELLED) });
            self.complete_cancelled(lane, asked, Some(socket), outcome);
        }
    }

    /// Reports a socket closed once nothing of it is left.
    pub(super) fn complete_close(&mut self, lane: usize, socket: Socket) {
        let Some(slot) = self.lanes[lane].sockets.get(socket) else { return };
        if let (Some(asked), 0) = (slot.closing, slot.holds) {
            self.close_descriptor_of(lane, socket);
            self.complete(lane, asked, Some(socket), Outcome::Closed);
        }
    }
}

impl Receiving {
    /// How it ends with `fault`.
    pub(super) fn failed(self, fault: Fault) -> (Booked, Outcome) {
        let outcome = match self.into {
            Target::Lease(lease, _) => Outcome::Stream(StreamOutcome::Filled { lease, fault: Some(fault) }),
            Target::Block | Target::Pipe(_) => Outcome::Failed(fault),
        };
        (self.asked, outcome)
    }
}
