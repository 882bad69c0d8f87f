//! Connections that leave for another driver of the world, and come from one.

use crate::check::Violation;
use crate::lane::sockets::{Body, StreamSocket, Target};
use crate::log::{Detail, Site};
use crate::net::Owner;
use crate::net::detached::{OnItsWay, StreamEnd};
use crate::state::State;
use corelane_seam::{Detached, Fault, Handle, Reason, Socket};

impl State {
    /// Puts a connection at rest on its way.
    pub(super) fn detach(&mut self, lane: usize, socket: Socket) -> Result<Detached, Fault> {
        let at = match self.lanes[lane].sockets.peek(socket).ok_or(Fault::CANCELLED)? {
            Body::Stream(at) => at,
            Body::Listener { .. } | Body::Datagram { .. } => panic!("only a connection goes to another driver"),
        };
        if at.bridged.is_some() {
            return Err(Fault::of(Reason::Unsupported));
        }
        let receiving = at
            .receive
            .as_ref()
            .filter(|receiving| matches!(receiving.into, Target::Block))
            .map(|receiving| receiving.asked.number);
        let is_alone = at.send.is_none() && self.ledger.has_left(lane, socket, 1);
        let Some(number) = receiving.filter(|_| is_alone) else { return Err(Fault::of(Reason::UnderWay)) };
        if !self.detached.has_room() {
            return Err(Fault::of(Reason::Busy));
        }
        let &StreamSocket { stream, side, claimed, given, .. } = at;
        self.ledger.forget(lane, number);
        self.close_descriptor_of(lane, socket);
        self.lanes[lane].sockets.remove(socket);
        self.net.held(stream).ends[side].owner = Owner::Detached;
        self.log.note(self.clock.now(), Site::Lane(lane), "detaches", Detail::Amount(stream));
        Ok(Detached::new(self.detached.begin(StreamEnd { stream, side, claimed, given })))
    }

    /// Takes a connection that was on its way.
    pub(super) fn adopt(&mut self, lane: usize, detached: Detached) -> Result<Socket, (Fault, Detached)> {
        let on_its_way: OnItsWay = detached.known_by().map_err(|detached| (Fault::of(Reason::Unsupported), detached))?;
        let descriptor = match self.open_descriptor(lane) {
            Ok(descriptor) => descriptor,
            Err(fault) => return Err((fault, Detached::new(on_its_way))),
        };
        let StreamEnd { stream, side, claimed, given } = on_its_way.arrive();
        let socket = self.take_stream(lane, Handle::NOBODY.work(), (stream, side), descriptor);
        if let Some(at) = self.lanes[lane].sockets.stream(socket) {
            (at.claimed, at.given) = (claimed, given);
        }
        self.log.note(self.clock.now(), Site::Lane(lane), "adopts", Detail::Amount(stream));
        Ok(socket)
    }

    /// Closes what was dropped on its way.
    pub(crate) fn close_dropped(&mut self) {
        for StreamEnd { stream, side, claimed, given } in self.detached.take() {
            let pipes = &self.net.held(stream).pipes;
            let (taken, read) = (pipes[side].taken.bytes, pipes[1 - side].read);
            if taken != claimed || read != given {
                self.ledger.blame(Violation::BytesDiffer { lane: None, expected: read.bytes, got: given.bytes });
            }
            self.close_end(stream, side, false);
        }
    }
}
