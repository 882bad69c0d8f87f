//! How the bytes of connections travel, and their ends.

use crate::faults::{FaultKind, Planted};
use crate::lane::sockets::{Bridged, StreamSocket};
use crate::log::{Detail, Site};
use crate::net::Owner;
use crate::net::pipe::{Finish, Piece};
use crate::net::streams::imbalance;
use crate::net::unix::is_unix;
use crate::state::{Event, State};

impl State {
    /// Puts on the way what the window lets go.
    pub(crate) fn pump(&mut self, name: u64, side: usize) {
        while self.net.streams.get_mut(name).is_some_and(|stream| stream.pipes[side].depart().is_some()) {
            self.schedule_arrival(name, side);
        }
    }

    fn schedule_arrival(&mut self, name: u64, side: usize) {
        let time = self.clock.now() + self.latency();
        let pipe = &mut self.net.held(name).pipes[side];
        pipe.last_arrival = pipe.last_arrival.max(time);
        self.clock.at(pipe.last_arrival, Event::Arrival { stream: name, side });
    }

    /// A piece that end `side` sent arrives.
    pub(crate) fn arrive(&mut self, name: u64, side: usize) {
        // Both ends may have been closed while it was on its way; or it was taken before its time.
        let Some(stream) = self.net.streams.get_mut(name) else { return };
        let Some(piece) = stream.pipes[side].arrive() else { return };
        let (receiver, pipe) = (&stream.ends[1 - side], &mut stream.pipes[side]);
        let now = self.clock.now();
        let mut note = |event, detail| self.log.note(now, Site::Stream(name, 1 - side), event, detail);
        match piece {
            Piece::Bytes(bytes) if receiver.owner == Owner::Gone || receiver.dead => {
                note("refuses", Detail::Amount(bytes as u64));
                pipe.refuse(bytes);
                self.release_passed(name, side);
                self.send_reset(name, 1 - side);
            }
            Piece::Bytes(bytes) => {
                note("gets", Detail::Amount(bytes as u64));
                pipe.keep(bytes);
                self.note_acknowledged(name, side);
                if !self.pass_on(name, 1 - side, bytes) {
                    self.wake_end(name, 1 - side);
                }
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
                self.release_passed(name, 1 - side);
                self.wake_end(name, 1 - side);
            }
        }
    }

    /// So many bytes have just come to an end of one of a bridged pair: the system passes them on if the lane has nothing of what came before, as long as it keeps up. Returns whether nothing
    /// of them is left.
    fn pass_on(&mut self, name: u64, side: usize, bytes: usize) -> bool {
        let owner = self.net.streams.get(name).map(|stream| stream.ends[side].owner);
        let Some(Owner::Lane(lane, socket)) = owner else { return false };
        let sockets = &mut self.lanes[lane].sockets;
        let Some(&mut StreamSocket { bridged: Some(Bridged { other, held, .. }), .. }) = sockets.stream(socket) else {
            return false;
        };
        let Some(&mut StreamSocket { stream: to, side: to_side, send: None, .. }) = sockets.stream(other) else { return false };
        let is_first = self.net.streams[name].pipes[1 - side].readable() == bytes;
        let keeps_up = self.random.below(4) > 0;
        if !is_first || !keeps_up || held > 0 && !self.plants(Planted::OvertakingBridge) {
            return false;
        }
        let mut most = bytes.min(self.net.streams[to].room(to_side));
        if most > 1 && self.strikes(FaultKind::ShortWrite) {
            most = self.random.one_to(most - 1);
        }
        if most > 0 {
            let moved = self.move_on((name, side), (to, to_side), most);
            let sockets = &mut self.lanes[lane].sockets;
            sockets.stream(socket).into_iter().for_each(|at| at.passed_on(&moved));
            sockets.stream(other).into_iter().for_each(|at| at.claimed += most as u64);
        }
        most == bytes
    }

    /// Moves what has arrived at one end to what another has to send.
    fn move_on(&mut self, (name, side): (u64, usize), (to, to_side): (u64, usize), most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        self.net.held(name).pipes[1 - side].read(&mut bytes);
        self.net.held(to).pipes[to_side].put(&bytes, &bytes);
        self.log.note(self.clock.now(), Site::Stream(to, to_side), "is passed on", Detail::Amount(most as u64));
        self.release_passed(name, 1 - side);
        self.pump(name, 1 - side);
        self.pump(to, to_side);
        bytes
    }

    fn send_reset(&mut self, name: u64, side: usize) {
        let stream = self.net.held(name);
        if !std::mem::replace(&mut stream.ends[side].has_reset, true) {
            stream.pipes[side].depart_reset();
            self.schedule_arrival(name, side);
        }
    }

    /// End `side` will send no more (shutdown(2) with SHUT_WR).
    pub(crate) fn finish_end(&mut self, name: u64, side: usize) {
        let stream = self.net.held(name);
        if !stream.ends[side].dead && stream.pipes[side].finish == Finish::No {
            stream.pipes[side].finish = Finish::Asked;
            self.pump(name, side);
        }
    }

    /// End `side` is closed. With bytes that it did not receive, or if asked for, that is a reset (RFC 9293, 3.6.1).
    pub(crate) fn leave(&mut self, name: u64, side: usize, reset: bool) {
        // What a lane was closing is closed once more when the lane has gone, and may be forgotten by then.
        let Some(stream) = self.net.streams.get_mut(name).filter(|stream| stream.ends[side].owner != Owner::Gone) else {
            return;
        };
        let unread = stream.pipes[1 - side].readable() > 0;
        stream.pipes[1 - side].discard_arrived();
        self.release_passed(name, 1 - side);
        let end = &mut self.net.held(name).ends[side];
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
        self.net.streams.get(name).is_some_and(|stream| is_unix(stream.addresses[1].ip()))
    }

    /// Lets the network break a connection, if it wants to and the connection goes over one.
    pub(crate) fn let_break(&mut self, name: u64) {
        if !self.is_unix_stream(name) && self.strikes(FaultKind::Reset) {
            self.cut(name);
        }
    }

    /// The network breaks a connection, for both ends.
    fn cut(&mut self, name: u64) {
        let stream = self.net.held(name);
        [0, 1].into_iter().for_each(|side| stream.break_end(side));
        [0, 1].into_iter().for_each(|side| self.release_passed(name, side));
        [0, 1].into_iter().for_each(|side| self.wake_end(name, side));
    }

    /// Forgets a connection that both ends have closed.
    fn reap(&mut self, name: u64) {
        let stream = &*self.net.held(name);
        if stream.ends.iter().any(|end| end.owner != Owner::Gone) {
            return;
        }
        if let Some(violation) = imbalance(stream) {
            self.ledger.blame(violation);
        }
        let [local, to] = stream.addresses;
        self.net.give_back(local, to);
        self.net.streams.remove(name);
        [0, 1].into_iter().for_each(|side| self.release_passed(name, side));
    }

    /// Tells the owner of an end that something has changed.
    fn wake_end(&mut self, name: u64, side: usize) {
        match self.net.streams.get(name).map(|stream| stream.ends[side].owner) {
            Some(Owner::Lane(lane, socket)) => self.wake_socket(lane, socket),
            Some(Owner::Peer(peer)) => self.notify(peer),
            _ => {}
        }
    }

    /// Tells the owner of an end that its send buffer has room again, if that is news.
    fn wake_sender(&mut self, name: u64, side: usize) {
        let Some(stream) = self.net.streams.get(name).filter(|stream| stream.is_writable(side)) else { return };
        match stream.ends[side].owner {
            Owner::Peer(peer) if std::mem::take(&mut self.peers[peer].wants_room) => self.notify(peer),
            Owner::Lane(lane, socket) => self.wake_socket(lane, socket),
            _ => {}
        }
    }
}
