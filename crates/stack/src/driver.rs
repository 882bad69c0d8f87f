//! The driver's contract over a port: what is not of the stack's addresses goes to the driver below.

use crate::counts::Counts;
use crate::fault;
use crate::gate::{self, Gate};
use crate::path::Path;
use crate::settings::{Error, Settings};
use crate::sockets::{self, Sending, key_of};
use crate::work::Packets;
use corelane_lane::{Mesh, fenced};
use corelane_seam::{
    Address, Arena, Bell, Bind, Completion, DatagramOp, DatagramOutcome, Driver, DriverCounters, Fault, Handle, Listen, Op,
    Outcome, Port, RECEIVES_PER_CYCLE, Socket, Tuning, Wait,
};
use std::cell::{Ref, RefCell};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// A driver with a stack of its own over one port.
pub struct Stack<D> {
    below: D,
    path: Rc<RefCell<Path>>,
    gate: Rc<RefCell<Gate>>,
    arena: Arena,
    tuning: Tuning,
    done: Vec<Completion>,
    /// The port's operations that have ended, taken out of what the driver brings.
    own: Vec<Completion>,
    starved: u64,
    /// More could have been handed over than one collect may.
    is_cut_short: bool,
}

impl<D: Driver> Stack<D> {
    /// A stack over `port`, which the driver below drives. Datagrams are handed over in memory of `arena`, the lane's, and in batches as `tuning`
    /// says.
    ///
    /// # Errors
    /// What the settings ask for cannot be.
    pub fn new(mut below: D, arena: Arena, tuning: Tuning, port: Box<dyn Port>, settings: &Settings) -> Result<Self, Error> {
        let path = Path::new(settings, &port.facts(), port.memory().clone())?;
        let gate = Rc::new(RefCell::new(Gate::open(&mut below, port)));
        let path = Rc::new(RefCell::new(path));
        Ok(Self { below, path, gate, arena, tuning, done: Vec::new(), own: Vec::new(), starved: 0, is_cut_short: false })
    }

    /// The work that stands beside it on its lane: it brings packets to the lanes of their buckets, and closes the port when the lane ends.
    #[must_use]
    pub fn packets(&self, mesh: Mesh<crate::work::Crossing>) -> Packets {
        Packets::new(self.path.clone(), self.gate.clone(), mesh)
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Ref<'_, Counts> {
        Ref::map(self.path.borrow(), |path| &path.counts)
    }

    /// Datagrams that ran behind a later one of their flow, because they waited for fragments.
    #[must_use]
    pub fn reorders(&self) -> u64 {
        self.path.borrow().reorders.counted()
    }

    /// Neighbours that are known, and those that are asked for.
    #[must_use]
    pub fn neighbours(&self) -> (usize, usize) {
        self.path.borrow().neighbours.lengths()
    }

    /// Why the port is closed, if nobody wanted that.
    #[must_use]
    pub fn port_fault(&self) -> Option<Fault> {
        self.gate.borrow().fault
    }

    /// Closes the port: nothing arrives any more.
    pub fn close(&mut self) {
        self.gate.borrow_mut().close();
    }

    /// Whether the port is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.gate.borrow().is_closed()
    }

    /// The address of ours at which a socket is to be bound; none if it is the driver's below.
    fn own_address(&self, bind: &Bind) -> Option<SocketAddr> {
        let local = bind.address.clone().canonical().inet()?;
        let path = self.path.borrow();
        if path.routes.is_own(local.ip()) {
            return Some(SocketAddr::new(local.ip(), local.port()));
        }
        let peer = bind.peer.clone()?.canonical().ip().filter(|_| local.ip().is_unspecified())?;
        path.routes.way(peer).map(|way| SocketAddr::new(way.source, local.port()))
    }

    /// Takes an operation of the stack's; others come back.
    fn take(&mut self, handle: Handle, op: Op) -> Result<(), Op> {
        match op {
            Op::Datagram(DatagramOp::Bind(bind)) => match self.own_address(&bind) {
                None => return Err(DatagramOp::Bind(bind).into()),
                Some(local) => self.bind_later(handle, &bind, local),
            },
            Op::Datagram(DatagramOp::Receive { socket, into }) if sockets::is_own(socket) => {
                let refused = self.path.borrow_mut().sockets.receive(socket, handle, into).err();
                self.done.extend(refused);
            }
            Op::Datagram(DatagramOp::Send { socket, trains }) if sockets::is_own(socket) => {
                let fault = None;
                let sending = Sending { handle, trains, train: 0, done: 0, datagrams: 0, refused: 0, fault };
                self.send(socket, sending);
            }
            Op::StopReceive { socket } if sockets::is_own(socket) => {
                let most = self.tuning.datagram_bytes;
                self.path.borrow_mut().sockets.stop(socket, &self.arena, most, &mut self.done);
            }
            Op::Close { socket, .. } if sockets::is_own(socket) => {
                let is_closed = self.path.borrow_mut().sockets.close(socket, &mut self.done);
                let outcome = if is_closed { Outcome::Closed } else { Outcome::Failed(Fault::CANCELLED) };
                self.done.push(Completion::last(handle, outcome));
            }
            other => return Err(other),
        }
        Ok(())
    }

    fn bind_later(&mut self, handle: Handle, bind: &Bind, local: SocketAddr) {
        let bound = self.path.borrow_mut().bind(bind, local);
        let outcome = match bound.and_then(|socket| self.local_address(socket).map(|local| (socket, local))) {
            Ok((socket, local)) => Outcome::Datagram(DatagramOutcome::Bound { socket, local }),
            Err(fault) => Outcome::Failed(fault),
        };
        self.done.push(Completion::last(handle, outcome));
    }

    fn send(&mut self, socket: Socket, sending: Sending) {
        let (key, mut path) = (key_of(socket), self.path.borrow_mut());
        if path.is_broken() {
            return self.done.push(sending.end(Some(fault::BROKEN)));
        }
        let Some(place) = path.sockets.get_mut(key) else {
            return self.done.push(sending.end(Some(Fault::CANCELLED)));
        };
        assert!(place.send.is_none(), "a socket has one send under way");
        place.send = Some(sending);
        self.done.extend(path.send_on(key));
    }

    /// Goes on with sends that waited for free frames.
    fn send_on(&mut self) {
        let mut path = self.path.borrow_mut();
        if path.is_broken() {
            return;
        }
        for _ in 0..path.sockets.blocked.len() {
            // reason: nobody else takes them off.
            let key = path.sockets.blocked.pop_front().expect("as many wait as were counted");
            self.done.extend(path.send_on(key));
        }
    }

    /// Hands over what has arrived, to at most so many sockets.
    fn hand_over(&mut self, at_most: usize) {
        if self.path.borrow().is_broken() {
            return;
        }
        let (sockets, at_most) = (&mut self.path.borrow_mut().sockets, at_most.min(RECEIVES_PER_CYCLE));
        let before = self.done.len();
        self.starved += sockets.hand_over(&self.arena, self.tuning.datagram_bytes, at_most, &mut self.done);
        self.is_cut_short = self.done.len() - before >= at_most;
    }

    fn ask_of_port(&mut self) {
        self.gate.borrow_mut().ask(&mut self.path.borrow_mut(), &mut self.below);
    }

    /// Does something with packets. A panic in it is an error of ours, which ends the packet path and not the lane: the port is closed, packets and
    /// datagrams of the stack's are neither taken nor handed over any more, and the work beside the driver says so ([`Packets`]).
    fn fenced(&self, work: impl FnOnce(&mut Path, &mut Gate)) {
        let done = fenced(|| work(&mut self.path.borrow_mut(), &mut self.gate.borrow_mut()));
        if let Err(words) = done {
            self.path.borrow_mut().breaks(words);
            self.gate.borrow_mut().close();
        }
    }

    /// What is to be done whatever the driver brings.
    fn before(&mut self, at_most: usize) {
        let now = self.below.now();
        self.fenced(|path, gate| {
            path.now = now;
            path.expire();
            path.run();
            gate.look(path);
        });
        self.send_on();
        self.hand_over(at_most);
        self.ask_of_port();
    }

    /// How long the driver below may wait, if we may wait for so long.
    fn wait(&self, wait: Wait) -> Wait {
        let path = self.path.borrow();
        let has_news = path.has_leaving() || path.has_records() || path.has_broken_untold();
        if !self.done.is_empty() || self.is_cut_short || path.has_queued() || has_news {
            return Wait::No;
        }
        match (path.due().into_iter().chain(self.gate.borrow().due()).min(), wait) {
            (Some(due), Wait::Forever) => Wait::Until(due),
            (Some(due), Wait::Until(until)) => Wait::Until(until.min(due)),
            (_, wait) => wait,
        }
    }

    /// Takes what is the stack's own out of the completions from `start` on, and does what comes of it.
    fn after(&mut self, start: usize, at_most: usize, completions: &mut Vec<Completion>) {
        self.own.extend(completions.extract_if(start.., |completion| gate::is_own(completion)));
        if !self.own.is_empty() {
            let (now, mut own) = (self.below.now(), std::mem::take(&mut self.own));
            // One that breaks the path has ended for the gate: the others are told to it all the same.
            while !own.is_empty() {
                self.fenced(|path, gate| {
                    path.now = now;
                    own.drain(..).for_each(|own| gate.complete(path, own));
                    path.run();
                });
            }
            self.own = own;
        }
        self.gate.borrow_mut().look(&mut self.path.borrow_mut());
        self.send_on();
        let left = at_most.saturating_sub(completions.len() - start + self.done.len());
        if left > 0 {
            self.hand_over(left);
        }
        self.ask_of_port();
        completions.append(&mut self.done);
    }

    /// A driver that cannot hold up its thread is told that there is something to collect.
    fn wake(&mut self) {
        if self.below.is_asleep() {
            self.below.bell().ring();
        }
    }
}

impl<D: Driver> Driver for Stack<D> {
    fn name(&self) -> &'static str {
        self.below.name()
    }

    fn now(&self) -> u64 {
        self.below.now()
    }

    fn time_of_day(&self) -> u64 {
        self.below.time_of_day()
    }

    fn listen(&mut self, listen: &Listen) -> Result<Socket, Fault> {
        let address = listen.address.clone().canonical();
        match address.ip().filter(|ip| self.path.borrow().routes.is_own(*ip)) {
            Some(_) => Err(fault::UNSUPPORTED),
            None => self.below.listen(listen),
        }
    }

    fn bind(&mut self, bind: &Bind) -> Result<Socket, Fault> {
        match self.own_address(bind) {
            Some(local) => self.path.borrow_mut().bind(bind, local),
            None => self.below.bind(bind),
        }
    }

    fn leave_behind(&mut self, socket: Socket) {
        self.below.leave_behind(socket);
    }

    fn give(&mut self, address: &Address, socket: OwnedFd) {
        self.below.give(address, socket);
    }

    fn lend(&mut self, address: &Address, number: i32, outlives: bool) {
        self.below.lend(address, number, outlives);
    }

    fn local_address(&self, socket: Socket) -> Result<Address, Fault> {
        if !sockets::is_own(socket) {
            return self.below.local_address(socket);
        }
        let path = self.path.borrow();
        path.sockets.get(socket).map(|socket| socket.local.into()).ok_or(fault::NO_SOCKET)
    }

    fn descriptor(&self, socket: Socket) -> Option<BorrowedFd<'_>> {
        if sockets::is_own(socket) { None } else { self.below.descriptor(socket) }
    }

    fn refuse_new(&mut self, listener: Socket) {
        self.below.refuse_new(listener);
    }

    fn finish(&mut self, socket: Socket) {
        self.below.finish(socket);
    }

    fn readable_bytes(&self, socket: Socket) -> usize {
        if sockets::is_own(socket) { 0 } else { self.below.readable_bytes(socket) }
    }

    fn unsent_bytes(&self, socket: Socket) -> Option<usize> {
        if sockets::is_own(socket) { None } else { self.below.unsent_bytes(socket) }
    }

    fn dropped(&self, socket: Socket) -> Option<u32> {
        if sockets::is_own(socket) { self.path.borrow().sockets.dropped(socket) } else { self.below.dropped(socket) }
    }

    fn push(&mut self, handle: Handle, op: Op) {
        match self.take(handle, op) {
            Err(op) => self.below.push(handle, op),
            Ok(()) => {
                self.ask_of_port();
                self.wake();
            }
        }
    }

    fn push_all(&mut self, ops: &mut Vec<(Handle, Op)>) {
        for (handle, op) in ops.drain(..) {
            if let Err(op) = self.take(handle, op) {
                self.below.push(handle, op);
            }
        }
        self.ask_of_port();
        self.wake();
    }

    fn abandon(&mut self, work: u8) {
        let sockets = self.path.borrow().sockets.of_work(work);
        for socket in sockets {
            self.push(Handle::NOBODY, Op::Close { socket, reset: true });
        }
        self.below.abandon(work);
    }

    fn collect(&mut self, wait: Wait, at_most: usize, completions: &mut Vec<Completion>) {
        self.before(at_most);
        let (wait, start) = (self.wait(wait), completions.len());
        self.below.collect(wait, at_most, completions);
        self.after(start, at_most, completions);
    }

    fn is_asleep(&self) -> bool {
        self.below.is_asleep()
    }

    fn offload_max(&self) -> usize {
        self.below.offload_max()
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.below.bell()
    }

    fn counters(&self) -> DriverCounters {
        let counters = self.below.counters();
        DriverCounters { receives_starved: counters.receives_starved + self.starved, ..counters }
    }
}

impl<D> std::fmt::Debug for Stack<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stack({:?})", self.path.borrow())
    }
}

#[cfg(test)]
mod tests;
