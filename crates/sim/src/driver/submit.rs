//! Carrying out what the lane submitted, and ending it early.

use crate::check::Booked;
use crate::faults::{FaultKind, Planted};
use crate::lane::sockets::{Body, StreamSocket};
use crate::lane::{Sleep, Stop, Undelivered};
use crate::net::connect::Opener;
use crate::state::{Event, State, entry};
use corelane_seam::{DatagramOutcome, Fault, Handle, Op, Outcome, Reason, Socket, StreamOp, StreamOutcome};

impl State {
    /// Carries out what was submitted, in order.
    pub(super) fn carry_out(&mut self, lane: usize) {
        let mut submitted = std::mem::take(&mut self.lanes[lane].submitted);
        self.lanes[lane].counters.calls_work += submitted.len() as u64;
        for (asked, op) in submitted.drain(..) {
            self.start(lane, asked, op);
        }
        self.lanes[lane].submitted = submitted;
    }

    pub(super) fn start(&mut self, lane: usize, asked: Booked, op: Op) {
        match op {
            Op::Stream(StreamOp::StopAccept { listener }) => self.stop_accept(lane, listener),
            Op::Stream(op @ StreamOp::SendFile { .. }) => {
                if let Some((asked, step)) = self.begin_file_send(lane, asked, op) {
                    self.start(lane, asked, step);
                }
            }
            Op::Stream(op) => self.start_on_stream(lane, asked, op),
            Op::Datagram(op) => self.start_on_datagrams(lane, asked, op),
            Op::File(op) => self.start_on_file(lane, asked, op),
            Op::Bridge { one, other, held } => self.bridge(lane, [one, other], held),
            Op::TellUnseen { socket } => _ = self.tell_unseen(lane, socket),
            Op::StopReceive { socket } => self.stop_receive(lane, socket),
            Op::Close { socket, reset } => self.close(lane, asked, socket, reset),
            Op::Poll { descriptor, interest } => self.poll(lane, asked, descriptor, interest),
            Op::Offload(work) => self.offload(lane, asked, work),
            Op::Cancel { target } => self.cancel(lane, target),
            _ => self.complete(lane, asked, None, Outcome::Failed(Fault::of(Reason::Unsupported))),
        }
    }

    /// Ends what works that have left the lane still have here.
    pub(super) fn end_abandoned(&mut self, lane: usize) {
        let works = std::mem::take(&mut self.lanes[lane].abandoned);
        if works == 0 {
            return;
        }
        let is_gone = |work: u8| works >> work & 1 == 1;
        let connects = self.net.attempts.values().filter_map(|attempt| match attempt.opener {
            Opener::Lane(of, asked, _) if of == lane => Some(asked.handle),
            _ => None,
        });
        let polls = self.lanes[lane].polls.iter().map(|poll| poll.0.handle);
        let watches = self.lanes[lane].watches.iter().map(|watch| watch.asked.handle);
        let cancels =
            connects.chain(polls).chain(watches).filter(|handle| is_gone(handle.work())).map(|target| Op::Cancel { target });
        // A socket that the lane has not been told of yet is its own to close, when it is.
        let untold: Vec<Socket> =
            self.lanes[lane].completed.iter().filter_map(|undelivered| made(&undelivered.completion.outcome)).collect();
        let sockets = self.lanes[lane].sockets.of_works(is_gone);
        let closes =
            sockets.into_iter().filter(|socket| !untold.contains(socket)).map(|socket| Op::Close { socket, reset: true });
        for op in cancels.chain(closes).collect::<Vec<_>>() {
            let number = self.ledger.enter(lane, Handle::NOBODY, &op);
            self.start(lane, Booked { number, handle: Handle::NOBODY }, op);
        }
    }

    /// Tries what is ready: first what gives memory back, then what takes it.
    pub(super) fn attempt_ready(&mut self, lane: usize, at_most: usize) {
        let ready = std::mem::take(&mut self.lanes[lane].ready);
        for &socket in &ready {
            if let Some(slot) = self.lanes[lane].sockets.get(socket) {
                slot.is_ready = false;
            }
            self.attempt_send(lane, socket);
            self.attempt_accept(lane, socket);
        }
        let mut budget = self.lanes[lane].tuning.receive_cycle_bytes.max(1);
        for socket in ready {
            if budget == 0 || self.lanes[lane].completed.len() >= at_most.max(1) {
                self.wake_socket(lane, socket);
                continue;
            }
            let used = self.attempt_receive(lane, socket) + self.attempt_receive_datagrams(lane, socket);
            budget = budget.saturating_sub(used);
        }
    }

    fn stop_accept(&mut self, lane: usize, listener: Socket) {
        let Some(body) = self.lanes[lane].sockets.open(listener) else { return };
        let Body::Listener { accept, .. } = body else { panic!("only a listener accepts") };
        let Some(Booked { number, .. }) = *accept else { return };
        self.stop_soon(lane, Stop { number, socket: Some(listener) });
    }

    fn stop_receive(&mut self, lane: usize, socket: Socket) {
        let number = match self.lanes[lane].sockets.open(socket) {
            Some(Body::Listener { accept, .. }) => {
                assert!(accept.is_none(), "accepting is stopped by its own operation");
                return;
            }
            Some(Body::Stream(StreamSocket { receive: Some(receiving), .. })) => receiving.asked.number,
            Some(Body::Datagram { receive: Some((asked, _)), .. }) => asked.number,
            Some(Body::Stream(_) | Body::Datagram { .. }) | None => return,
        };
        self.stop_soon(lane, Stop { number, socket: Some(socket) });
    }

    fn cancel(&mut self, lane: usize, target: Handle) {
        let connects = self.net.attempts.values().filter_map(|attempt| match attempt.opener {
            Opener::Lane(of, asked, _) if of == lane => Some(asked),
            _ => None,
        });
        let polls = self.lanes[lane].polls.iter().map(|poll| poll.0);
        let watches = self.lanes[lane].watches.iter().map(|watch| watch.asked);
        let found = connects.chain(polls).chain(watches).find(|asked| asked.handle == target);
        if let Some(Booked { number, .. }) = found {
            self.stop_soon(lane, Stop { number, socket: None });
        }
    }

    /// Stops an operation now, or late if chance wants it.
    fn stop_soon(&mut self, lane: usize, stop: Stop) {
        if self.draw(FaultKind::CancelRace) {
            let delay = self.random.delay();
            self.clock.after(delay, Event::Stop { lane, stop });
        } else {
            self.stop(lane, stop);
        }
    }

    /// A late stop takes effect: a race, if its operation has ended meanwhile.
    pub(crate) fn stop_late(&mut self, lane: usize, stop: Stop) {
        if self.lanes[lane].sleep != Sleep::Gone && !self.stop(lane, stop) {
            self.count(FaultKind::CancelRace);
        }
    }

    /// Returns whether the operation was still under way.
    fn stop(&mut self, lane: usize, stop: Stop) -> bool {
        match stop.socket {
            Some(socket) => self.stop_on_socket(lane, socket, stop.number),
            None => {
                self.stop_connect(lane, stop.number) || self.stop_poll(lane, stop.number) || self.stop_watch(lane, stop.number)
            }
        }
    }

    fn stop_on_socket(&mut self, lane: usize, socket: Socket, number: u64) -> bool {
        let under_way = |body: &Body| match body {
            Body::Listener { accept, .. } => *accept,
            Body::Stream(at) => at.receive.as_ref().map(|receiving| receiving.asked),
            Body::Datagram { receive, .. } => receive.as_ref().map(|receive| receive.0),
        };
        let is_under_way = |state: &Self| {
            let body = state.lanes[lane].sockets.peek(socket);
            body.and_then(under_way).is_some_and(|asked| asked.number == number)
        };
        if !is_under_way(self) {
            return false;
        }
        let starved = self.lanes[lane].counters.receives_starved;
        self.attempt_receive(lane, socket);
        self.attempt_receive_datagrams(lane, socket);
        if is_under_way(self) {
            let is_starved = self.lanes[lane].counters.receives_starved > starved;
            self.end_on_socket(lane, socket, if is_starved { Fault::of(Reason::NoMemory) } else { Fault::CANCELLED });
        }
        true
    }

    fn stop_connect(&mut self, lane: usize, number: u64) -> bool {
        let mine = |opener: Opener| matches!(opener, Opener::Lane(of, asked, _) if of == lane && asked.number == number);
        let found = self.net.attempts.iter().find(|(_, attempt)| mine(attempt.opener)).map(|(&name, _)| name);
        let Some(name) = found else { return false };
        if self.plants(Planted::LeakedCancel) {
            self.drop_attempt(name);
        } else {
            self.fail_attempt(name, Fault::CANCELLED);
        }
        true
    }

    fn stop_poll(&mut self, lane: usize, number: u64) -> bool {
        let polls = &mut self.lanes[lane].polls;
        let Some(index) = polls.iter().position(|poll| poll.0.number == number) else { return false };
        let (asked, ..) = polls.remove(index);
        self.complete_cancelled(lane, asked, None, Outcome::Failed(Fault::CANCELLED));
        true
    }

    fn close(&mut self, lane: usize, asked: Booked, socket: Socket, reset: bool) {
        if self.lanes[lane].sockets.open(socket).is_none() {
            return self.complete(lane, asked, None, Outcome::Failed(Fault::CANCELLED));
        }
        let is_early = self.has_under_way(lane, socket) && self.plants(Planted::EarlyClose);
        if is_early {
            self.enqueue(lane, Undelivered { is_barrier: false, ..entry(asked, Some(socket), Outcome::Closed) });
        }
        if self.draw(FaultKind::CancelRace) && self.receive_in_time(lane, socket) {
            self.count(FaultKind::CancelRace);
        }
        self.end_on_socket(lane, socket, Fault::CANCELLED);
        let own = &mut self.lanes[lane];
        if let Some((asked, outcome)) = own.file_sends.cancel(socket, own.completed.iter().map(|entry| &entry.completion)) {
            self.complete_cancelled(lane, asked, Some(socket), outcome.into());
        }
        self.cancel_send(lane, socket);
        self.part_bridged(lane, socket);
        let Some(slot) = self.lanes[lane].sockets.get(socket) else { return };
        slot.closing = Some(asked);
        match &mut slot.body {
            &mut Body::Listener { port, .. } => self.close_listener(port),
            &mut Body::Datagram { port, .. } => drop(self.net.ports.remove(&port)),
            Body::Stream(at) => {
                let (name, side) = (at.stream, at.side);
                let pipes = &self.net.streams[name].pipes;
                at.moved = Some((pipes[side].taken.bytes, pipes[1 - side].read));
                // What is released by that does not end the close before it has begun.
                slot.holds += 1;
                self.close_end(name, side, reset);
                if let Some(slot) = self.lanes[lane].sockets.get(socket) {
                    slot.holds -= 1;
                }
            }
        }
        self.await_releases(lane, socket);
        if !is_early {
            self.complete_close(lane, socket);
        }
    }

    fn has_under_way(&self, lane: usize, socket: Socket) -> bool {
        match self.lanes[lane].sockets.peek(socket) {
            Some(Body::Listener { accept, .. }) => accept.is_some(),
            Some(Body::Stream(at)) => at.receive.is_some() || at.send.is_some() || self.lanes[lane].file_sends.is_of(socket),
            Some(Body::Datagram { receive, .. }) => receive.is_some(),
            None => false,
        }
    }

    /// Has what is on its way to a receive arrive before the receive is cancelled; returns whether that ended it.
    fn receive_in_time(&mut self, lane: usize, socket: Socket) -> bool {
        let Some(&mut StreamSocket { stream, side, receive: Some(_), .. }) = self.lanes[lane].sockets.stream(socket) else {
            return false;
        };
        while self.net.streams[stream].pipes[1 - side].has_flight() {
            self.arrive(stream, 1 - side);
        }
        self.attempt_receive(lane, socket);
        self.lanes[lane].sockets.stream(socket).is_some_and(|at| at.receive.is_none())
    }
}

/// The socket that an operation made.
fn made(outcome: &Outcome) -> Option<Socket> {
    match outcome {
        Outcome::Stream(StreamOutcome::Accepted { socket, .. } | StreamOutcome::Connected { socket, .. })
        | Outcome::Datagram(DatagramOutcome::Bound { socket, .. }) => Some(*socket),
        _ => None,
    }
}
