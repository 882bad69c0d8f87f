//! Pairs of connections between which the system passes bytes on by itself: unseen, where the lane has nothing of what came before.

use crate::faults::FaultKind;
use crate::lane::Undelivered;
use crate::lane::pipes;
use crate::lane::sockets::{Body, Bridged, Receiving, StreamSocket, Target};
use crate::log::{Detail, Site};
use crate::net::unix::is_unix;
use crate::state::State;
use corelane_seam::{Outcome, Socket, StreamOutcome};

impl State {
    /// Bridges two connections, if they may be. Those that are not at rest stay as they are.
    pub(super) fn bridge(&mut self, lane: usize, sockets: [Socket; 2], held: [u64; 2]) {
        assert!(sockets[0] != sockets[1], "a pair is of two");
        if !sockets.into_iter().all(|socket| self.may_be_bridged(lane, socket)) {
            return;
        }
        let is_local = sockets.into_iter().any(|socket| self.is_local(lane, socket));
        let own = &self.lanes[lane];
        let has_room = own.counters.bridges.pairs < own.tuning.bridged_pairs_max as u64;
        if is_local || !has_room || self.strikes(FaultKind::RefusedBridge) {
            self.lanes[lane].counters.bridges.refused += 1;
            return;
        }
        for (place, held) in held.into_iter().enumerate() {
            let held = held + self.undelivered_bytes(lane, sockets[place]);
            if let Some(at) = self.lanes[lane].sockets.stream(sockets[place]) {
                at.bridged = Some(Bridged { other: sockets[1 - place], held, unseen: 0 });
            }
        }
        self.lanes[lane].counters.bridges.pairs += 1;
        self.log.note(self.clock.now(), Site::Lane(lane), "bridges", Detail::Amount(sockets[0].index.into()));
    }

    fn may_be_bridged(&self, lane: usize, socket: Socket) -> bool {
        match self.lanes[lane].sockets.peek(socket) {
            Some(Body::Stream(at)) => {
                let fills = at.receive.as_ref().is_some_and(|receiving| matches!(receiving.into, Target::Lease(..)));
                let is_amid = self.net.streams[at.stream].pipes[1 - at.side].readable() > 0;
                at.bridged.is_none() && at.send.is_none() && !fills && !is_amid
            }
            Some(_) => panic!("bytes pass between connections"),
            None => false,
        }
    }

    fn is_local(&self, lane: usize, socket: Socket) -> bool {
        match self.lanes[lane].sockets.peek(socket) {
            Some(Body::Stream(at)) => is_unix(self.net.streams[at.stream].addresses[1].ip()),
            _ => false,
        }
    }

    /// Bytes that were received of a connection, and that its lane was not told of yet.
    fn undelivered_bytes(&self, lane: usize, socket: Socket) -> u64 {
        let received = |entry: &Undelivered| match &entry.completion.outcome {
            Outcome::Stream(StreamOutcome::Received(bytes)) => bytes.len(),
            Outcome::Stream(StreamOutcome::ReceivedPiped(piped)) => pipes::shown(piped).len(),
            _ => 0,
        };
        let of_it = self.lanes[lane].completed.iter().filter(|entry| entry.socket == Some(socket));
        of_it.map(received).sum::<usize>() as u64
    }

    /// The lane has received so many bytes of a connection.
    pub(super) fn received_bridged(&mut self, lane: usize, socket: Socket, bytes: usize) {
        if let Some(Bridged { held, .. }) = self.bridged(lane, socket) {
            *held += bytes as u64;
        }
    }

    /// The lane has sent so many bytes to a connection.
    pub(super) fn gave_bridged(&mut self, lane: usize, socket: Socket, bytes: usize) {
        let other = self.bridged(lane, socket).map(|bridged| bridged.other);
        if let Some(Bridged { held, .. }) = other.and_then(|other| self.bridged(lane, other)) {
            assert!(*held >= bytes as u64, "what is sent to one of a bridged pair came from the other");
            *held -= bytes as u64;
        }
    }

    fn bridged(&mut self, lane: usize, socket: Socket) -> Option<&mut Bridged> {
        self.lanes[lane].sockets.stream(socket)?.bridged.as_mut()
    }

    /// Ends the receive under way with what was passed on since the lane was told last; whether something was.
    pub(super) fn tell_unseen(&mut self, lane: usize, socket: Socket) -> bool {
        let Some(StreamSocket { receive, bridged: Some(Bridged { unseen, .. }), .. }) = self.lanes[lane].sockets.stream(socket)
        else {
            return false;
        };
        let may_end = *unseen > 0 && receive.as_ref().is_some_and(|receiving| !matches!(receiving.into, Target::Lease(..)));
        let Some(Receiving { asked, .. }) = receive.take_if(|_| may_end) else { return false };
        let bytes = std::mem::take(unseen);
        self.lanes[lane].counters.bridges.bytes += bytes;
        self.complete(lane, asked, Some(socket), StreamOutcome::Unseen { bytes }.into());
        true
    }

    /// One of a pair is closed: the pair is no more.
    pub(super) fn part_bridged(&mut self, lane: usize, socket: Socket) {
        if let Some(Bridged { other, .. }) = self.bridged(lane, socket) {
            let other = *other;
            // With the first of them.
            let is_first = self.bridged(lane, other).is_some();
            self.lanes[lane].counters.bridges.pairs -= u64::from(is_first);
        }
    }
}
