//! Connections: two ends, and a pipe each way between them.

use super::names::is_unix;
use super::pipe::{Finish, Piece, Pipe};
use super::{BROKEN_PIPE, Owner, RESET};
use crate::check::Violation;
use crate::faults::FaultKind;
use crate::log::{Detail, Site};
use crate::world::{Event, State};
use corelane_seam::Fault;
use std::net::SocketAddr;

/// One end of a connection.
pub(crate) struct End {
    pub(crate) owner: Owner,
    /// A fault that its owner has not been told yet.
    fault: Option<Fault>,
    /// Whether a reset has ended it.
    dead: bool,
    /// Whether it has sent a reset.
    has_reset: bool,
}

impl End {
    pub(crate) fn new(owner: Owner) -> Self {
        Self { owner, fault: None, dead: false, has_reset: false }
    }
}

/// A connection. End 0 opened it; `pipes[side]` carries what end `side` sends.
pub(crate) struct Stream {
    pub(crate) ends: [End; 2],
    pub(crate) addresses: [SocketAddr; 2],
    pub(crate) pipes: [Pipe; 2],
}

/// What an end finds when it receives.
pub(crate) enum Incoming {
    Bytes(usize),
    Fault(Fault),
    End,
    Nothing,
}

impl Stream {
    /// What there is to receive for `side`. A fault is told once, then it reads as the end, as in Linux.
    pub(crate) fn incoming(&mut self, side: usize) -> Incoming {
        let (end, pipe) = (&mut self.ends[side], &self.pipes[1 - side]);
        match (pipe.readable(), end.fault.take()) {
            (0, Some(fault)) => Incoming::Fault(fault),
            (0, None) if end.dead || pipe.finish == Finish::Arrived => Incoming::End,
            (0, None) => Incoming::Nothing,
            (bytes, fault) => {
                end.fault = fault;
                Incoming::Bytes(bytes)
            }
        }
    }

    /// Bytes that `side` may send now.
    pub(crate) fn outgoing(&mut self, side: usize) -> Result<usize, Fault> {
        let end = &mut self.ends[side];
        if let Some(fault) = end.fault.take() {
            return Err(fault);
        }
        if end.dead || self.pipes[side].finish != Finish::No { Err(BROKEN_PIPE) } else { Ok(self.room(side)) }
    }

    /// Bytes that `side` may send now, without telling it of a fault.
    pub(crate) fn room(&self, side: usize) -> usize {
        let is_open = !self.ends[side].dead && self.pipes[side].finish == Finish::No;
        if is_open { self.pipes[side].room() } else { 0 }
    }

    /// Whether receiving would not wait.
    pub(crate) fn is_readable(&self, side: usize) -> bool {
        let (end, pipe) = (&self.ends[side], &self.pipes[1 - side]);
        pipe.readable() > 0 || end.dead || pipe.finish == Finish::Arrived
    }

    /// Whether a sender that had to wait may go on.
    pub(crate) fn is_writable(&self, side: usize) -> bool {
        self.ends[side].dead || self.pipes[side].finish != Finish::No || self.pipes[side].is_writable()
    }

    fn break_end(&mut self, side: usize) {
        self.ends[side].dead = true;
        self.ends[side].fault = Some(RESET);
        self.pipes[side].discard_unarrived();
    }
}

impl State {
    /// Puts on the way what the window lets go.
    pub(crate) fn pump(&mut self, name: u64, side: usize) {
        while self.net.streams.get_mut(&name).is_some_and(|stream| stream.pipes[side].depart().is_some()) {
            self.schedule_arrival(name, side);
        }
    }

    fn schedule_arrival(&mut self, name: u64, side: usize) {
        let time = self.clock.now() + self.latency();
        let Some(stream) = self.net.streams.get_mut(&name) else { return };
        let pipe = &mut stream.pipes[side];
        pipe.last_arrival = pipe.last_arrival.max(time);
        self.clock.at(pipe.last_arrival, Event::Arrival { stream: name, side });
    }

    /// A piece that end `side` sent arrives.
    pub(crate) fn arrive(&mut self, name: u64, side: usize) {
        let Some(stream) = self.net.streams.get_mut(&name) else { return };
        let Some(piece) = stream.pipes[side].arrive() else { return };
        let (receiver, pipe) = (&stream.ends[1 - side], &mut stream.pipes[side]);
        let now = self.clock.now();
        let mut note = |event, detail| self.log.note(now, Site::Stream(name, 1 - side), event, detail);
        match piece {
            Piece::Bytes(bytes) if receiver.owner == Owner::Gone || receiver.dead => {
                note("refuses", Detail::Amount(bytes as u64));
                pipe.refuse(bytes);
                self.send_reset(name, 1 - side);
            }
            Piece::Bytes(bytes) => {
                note("gets", Detail::Amount(bytes as u64));
                pipe.keep(bytes);
                self.wake_end(name, 1 - side);
                self.wake_sender(name, side);
            }
            Piece::Finish => {
                note("gets the end", Detail::Nothing);
                pipe.finish = Finish::Arrived;
                self.wake_end(name, 1 - side);
            }
            Piece::Reset => {
                note("gets a reset", Detail::Nothing);
                stream.break_end(1 - side);
                self.wake_end(name, 1 - side);
            }
        }
    }

    fn send_reset(&mut self, name: u64, side: usize) {
        let Some(stream) = self.net.streams.get_mut(&name) else { return };
        if !std::mem::replace(&mut stream.ends[side].has_reset, true) {
            stream.pipes[side].depart_reset();
            self.schedule_arrival(name, side);
        }
    }

    /// End `side` will send no more (shutdown(2) with SHUT_WR).
    pub(crate) fn finish_end(&mut self, name: u64, side: usize) {
        let Some(stream) = self.net.streams.get_mut(&name) else { return };
        if !stream.ends[side].dead && stream.pipes[side].finish == Finish::No {
            stream.pipes[side].finish = Finish::Asked;
            self.pump(name, side);
        }
    }

    /// End `side` is closed. With bytes that it did not receive, or if asked for, that is a reset (RFC 9293, 3.6.1).
    pub(crate) fn leave(&mut self, name: u64, side: usize, reset: bool) {
        let Some(stream) = self.net.streams.get_mut(&name) else { return };
        let unread = stream.pipes[1 - side].readable() > 0;
        stream.pipes[1 - side].discard_arrived();
        let end = &mut stream.ends[side];
        end.owner = Owner::Gone;
        if (reset || unread) && !end.dead {
            self.send_reset(name, side);
        } else {
            self.finish_end(name, side);
        }
        self.reap(name);
    }

    /// The owner of end `side` closes it. Over Unix sockets asking for a reset changes nothing (unix(7)).
    pub(crate) fn close_end(&mut self, name: u64, side: usize, reset: bool) {
        let reset = reset && !self.is_unix_stream(name);
        self.leave(name, side, reset);
    }

    fn is_unix_stream(&self, name: u64) -> bool {
        self.net.streams.get(&name).is_some_and(|stream| is_unix(stream.addresses[1].ip()))
    }

    /// Lets the network break a connection, if it wants to and the connection goes over one.
    pub(crate) fn let_break(&mut self, name: u64) {
        if !self.is_unix_stream(name) && self.strikes(FaultKind::Reset) {
            self.cut(name);
        }
    }

    /// The network breaks a connection, for both ends.
    fn cut(&mut self, name: u64) {
        let Some(stream) = self.net.streams.get_mut(&name) else { return };
        [0, 1].into_iter().for_each(|side| stream.break_end(side));
        [0, 1].into_iter().for_each(|side| self.wake_end(name, side));
    }

    /// Forgets a connection that both ends have closed.
    fn reap(&mut self, name: u64) {
        let Some(stream) = self.net.streams.get(&name) else { return };
        if stream.ends.iter().any(|end| end.owner != Owner::Gone) {
            return;
        }
        if let Some(violation) = imbalance(stream) {
            self.ledger.blame(violation);
        }
        let [local, to] = stream.addresses;
        self.net.give_back(local, to);
        self.net.streams.remove(&name);
    }

    /// Tells the owner of an end that something has changed.
    fn wake_end(&mut self, name: u64, side: usize) {
        match self.net.streams.get(&name).map(|stream| stream.ends[side].owner) {
            Some(Owner::Lane(lane, socket)) => self.wake_socket(lane, socket),
            Some(Owner::Peer(peer)) => self.notify(peer),
            _ => {}
        }
    }

    /// Tells the owner of an end that its send buffer has room again, if that is news.
    fn wake_sender(&mut self, name: u64, side: usize) {
        let Some(stream) = self.net.streams.get(&name).filter(|stream| stream.is_writable(side)) else { return };
        match stream.ends[side].owner {
            Owner::Peer(peer) if std::mem::take(&mut self.peers[peer].wants_room) => self.notify(peer),
            Owner::Lane(lane, socket) => self.wake_socket(lane, socket),
            _ => {}
        }
    }
}

/// Bytes of a connection that came from nowhere, went nowhere, or changed on the way.
pub(crate) fn imbalance(stream: &Stream) -> Option<Violation> {
    let found = stream.pipes.iter().find_map(Pipe::imbalance);
    found.map(|(expected, got)| Violation::BytesDiffer { lane: None, expected, got })
}
