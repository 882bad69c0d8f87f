//! The driver's contract over ports: what is not of the stack's addresses goes to the driver below.

use crate::beside::Beside;
use crate::counts::{Drop, PacketCounts};
use crate::fault;
use crate::forwarding::Traffic;
use crate::gate::{self, Gate};
use crate::net::Net;
use crate::polling::Polling;
use crate::settings::{Error, Route, Settings};
use crate::sockets::{self, Batches, Sending};
use crate::view::View;
use crate::work::Packets;
use corelane_lane::{Mesh, fenced};
use corelane_seam::{
    Address, Arena, Bell, Bind, Clock, Completion, DatagramOp, DatagramOutcome, Detached, Driver, DriverCounters, Fault, Handle,
    Listen, Op, Outcome, Port, RECEIVES_PER_CYCLE, Socket, Tuning, Wait,
};
use std::cell::{Ref, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// Rounds of one collect, at the most: the lane hears of orders between collects.
const ROUNDS: usize = 64;

/// A driver with a stack of its own over ports.
pub struct Stack<D> {
    below: D,
    net: Net,
    /// One for each port, in their order.
    gates: Vec<Gate>,
    beside: Rc<RefCell<Beside>>,
    arena: Arena,
    tuning: Tuning,
    done: Vec<Completion>,
    /// The ports' operations that have ended, taken out of what the driver brings.
    own: Vec<Completion>,
    starved: u64,
    /// More could have been handed over than one collect may.
    is_cut_short: bool,
    /// Packets that may still be handled in this turn, and that were.
    left: usize,
    handled: usize,
    /// What of the lane's time packets may take.
    polling: Polling,
    /// Nanoseconds that the last collect slept, if packets came with it.
    slept: Option<u64>,
    /// The number of the send that a port was given last.
    sends: u64,
}

impl<D: Driver> Stack<D> {
    /// A stack over `port`, which the driver below drives. Datagrams are handed over in memory of `arena`, the lane's, and in batches as `tuning`
    /// says.
    ///
    /// # Errors
    /// What the settings ask for cannot be.
    pub fn new(below: D, arena: Arena, tuning: Tuning, port: Box<dyn Port>, settings: &Settings) -> Result<Self, Error> {
        Self::with_ports(below, arena, tuning, vec![port], settings)
    }

    /// A stack over several ports, one for each interface of the settings without tags, in their order.
    ///
    /// # Errors
    /// What the settings ask for cannot be.
    pub fn with_ports(
        mut below: D,
        arena: Arena,
        tuning: Tuning,
        ports: Vec<Box<dyn Port>>,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let polling = Polling::new(settings.polling, ports.len());
        let known: Vec<_> = ports.iter().map(|port| (port.facts(), port.memory().clone())).collect();
        let mut net = Net::new(settings, &known)?;
        ports.iter().enumerate().for_each(|(number, port)| net.trunk(number).0.set_offload(port.offload()));
        let gates = (0..).zip(ports).map(|(number, port)| Gate::open(&mut below, number, port)).collect();
        let beside = Rc::new(RefCell::new(Beside::new(settings, net.gauges())));
        Ok(Self {
            below,
            net,
            gates,
            beside,
            arena,
            tuning,
            done: Vec::new(),
            own: Vec::new(),
            starved: 0,
            is_cut_short: false,
            left: 0,
            handled: 0,
            polling,
            slept: None,
            sends: 0,
        })
    }

    /// The work that stands beside it on its lane: it brings packets to the lanes of their buckets, and closes the ports when the lane ends.
    #[must_use]
    pub fn packets(&self, mesh: Mesh<crate::work::Crossing>) -> Packets {
        let memories = self.net.interfaces().iter().map(|interface| interface.memory().clone()).collect();
        Packets::new(self.beside.clone(), memories, mesh)
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Ref<'_, PacketCounts> {
        Ref::map(self.beside.borrow(), |beside| &*beside.tally)
    }

    /// What was forwarded at an interface, by its number; none if there is no such.
    #[must_use]
    pub fn traffic(&self, interface: usize) -> Option<Traffic> {
        self.net.traffic(interface)
    }

    /// What there is, as of now.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        self.net.view(&self.beside.borrow())
    }

    /// Datagrams that ran behind a later one of their flow, because they waited for fragments.
    #[must_use]
    pub fn reorders(&self) -> u64 {
        self.beside.borrow().placing.reordered()
    }

    /// Neighbours that are known, and those that are asked for.
    #[must_use]
    pub fn neighbours(&self) -> (usize, usize) {
        let each = self.net.interfaces().iter().map(|interface| interface.neighbours().lengths());
        each.fold((0, 0), |(known, asked), (more, others)| (known + more, asked + others))
    }

    /// One more way leads to a network from now on; of several, each flow keeps to one. Says whether it is new: a network of ours is reached without a router. Each lane of a
    /// program is told; how many routes there are makes no difference to what that costs.
    ///
    /// # Errors
    /// As for the routes of [`Settings`]; then nothing has changed.
    pub fn add_route(&mut self, route: &Route) -> Result<bool, Error> {
        self.net.routes_mut().add(route)
    }

    /// No way by that router leads to exactly that network any more. Says whether one did.
    pub fn delete_route(&mut self, destination: IpAddr, bits: u8, router: IpAddr) -> bool {
        self.net.routes_mut().delete(destination, bits, router)
    }

    /// Why a port is closed, if nobody wanted that.
    #[must_use]
    pub fn port_fault(&self) -> Option<Fault> {
        self.gates.iter().find_map(Gate::fault)
    }

    /// Closes the ports: nothing arrives any more.
    pub fn close(&mut self) {
        self.beside.borrow_mut().close();
    }

    /// Whether the ports are closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.gates.iter().all(Gate::is_closed)
    }

    /// The address of ours at which a socket is to be bound; none if it is the driver's below.
    fn own_address(&self, bind: &Bind) -> Option<SocketAddr> {
        let local = bind.address.clone().canonical().inet()?;
        if self.net.is_own(local.ip()) {
            return Some(SocketAddr::new(local.ip(), local.port()));
        }
        let peer = bind.peer.clone()?.canonical().ip().filter(|_| local.ip().is_unspecified())?;
        self.net.way(peer).map(|way| SocketAddr::new(way.source, local.port()))
    }

    /// Takes an operation of the stack's; others come back.
    fn take(&mut self, handle: Handle, op: Op) -> Result<(), Op> {
        match op {
            Op::Datagram(DatagramOp::Bind(bind)) => match self.own_address(&bind) {
                None => return Err(DatagramOp::Bind(bind).into()),
                Some(local) => self.bind_later(handle, &bind, local),
            },
            Op::Datagram(DatagramOp::Receive { socket, into }) if sockets::is_own(socket) => {
                let refused = self.net.sockets_mut().receive(socket, handle, into).err();
                self.done.extend(refused);
            }
            Op::Datagram(DatagramOp::Send { socket, trains }) if sockets::is_own(socket) => {
                let fault = None;
                let sending = Sending { handle, trains, train: 0, done: 0, datagrams: 0, refused: 0, fault };
                self.done.extend(self.net.send(socket, sending, &mut self.beside.borrow_mut()));
            }
            Op::StopReceive { socket } if sockets::is_own(socket) => {
                let to = Batches { arena: &self.arena, most: self.tuning.datagram_bytes };
                self.net.sockets_mut().stop(socket, to, &mut self.beside.borrow_mut().spare, &mut self.done);
            }
            Op::Close { socket, .. } if sockets::is_own(socket) => {
                let is_closed = self.net.sockets_mut().close(socket, &mut self.done);
                let outcome = if is_closed { Outcome::Closed } else { Outcome::Failed(Fault::CANCELLED) };
                self.done.push(Completion::last(handle, outcome));
            }
            other => return Err(other),
        }
        Ok(())
    }

    fn bind_at(&mut self, bind: &Bind, local: SocketAddr) -> Result<Socket, Fault> {
        self.net.bind(bind, local, &self.beside.borrow().placing)
    }

    fn bind_later(&mut self, handle: Handle, bind: &Bind, local: SocketAddr) {
        let bound = self.bind_at(bind, local);
        let outcome = match bound.and_then(|socket| self.local_address(socket).map(|local| (socket, local))) {
            Ok((socket, local)) => Outcome::Datagram(DatagramOutcome::Bound { socket, local }),
            Err(fault) => Outcome::Failed(fault),
        };
        self.done.push(Completion::last(handle, outcome));
    }

    /// Goes on with sends that waited for free frames, and hands over what has arrived, to at most so many sockets.
    fn hand_over(&mut self, at_most: usize) {
        let beside = &mut *self.beside.borrow_mut();
        self.net.send_on(beside, &mut self.done);
        if at_most == 0 {
            return;
        }
        let (before, at_most) = (self.done.len(), at_most.min(RECEIVES_PER_CYCLE));
        let to = Batches { arena: &self.arena, most: self.tuning.datagram_bytes };
        self.starved += self.net.hand_over(to, at_most, beside, &mut self.done);
        self.is_cut_short = self.done.len() - before >= at_most;
    }

    fn ask_of_ports(&mut self) {
        let wants_close = self.beside.borrow().wants_close();
        for (number, gate) in self.gates.iter_mut().enumerate() {
            if wants_close {
                gate.close();
            }
            let (trunk, now) = self.net.trunk(number);
            let frames = self.polling.frames_beside(gate.brought());
            gate.ask(now, frames, &mut self.sends, trunk, &mut self.below);
        }
    }

    /// Does something with packets. A panic in it is an error of ours, which ends the packet path and not the lane: the ports are closed, packets and
    /// datagrams of the stack's are neither taken nor handed over any more, and the work beside the driver says so ([`Packets`]).
    fn fenced(&mut self, work: impl FnOnce(&mut Net, &mut [Gate], &mut Beside)) {
        let Self { net, gates, beside, .. } = self;
        let done = fenced(|| work(net, gates, &mut beside.borrow_mut()));
        if let Err(words) = done {
            self.beside.borrow_mut().breaks(words);
        }
    }

    /// What is to be done whatever the driver brings.
    fn before(&mut self, wait: Wait, at_most: usize) {
        let now = self.below.now();
        // Ports that close have no ticks.
        let set = self.beside.borrow().polling_settings().filter(|_| !self.beside.borrow().wants_close());
        let is_changed = self.polling.follow(set);
        if self.polling.begin(now, wait) {
            self.gates.iter_mut().for_each(Gate::begin_chunk);
        }
        if is_changed || self.polling.is_to_show() {
            self.beside.borrow_mut().tally.note();
        }
        (self.left, self.handled) = (self.beside.borrow().budget(), 0);
        self.net.set_now(now);
        self.fenced(|net, _, beside| {
            net.carry_out(beside);
            net.expire(beside);
        });
        self.run();
        self.look();
        self.hand_over(at_most);
        self.ask_of_ports();
        let handled = std::mem::take(&mut self.handled);
        let now = self.polling.asks_for_time(handled).then(|| self.below.now());
        self.polling.handled(now, handled);
    }

    /// Handles packets, as many as the lane's budget has left in this turn.
    fn run(&mut self) {
        if self.polling.is_held() {
            return;
        }
        let (mut handled, left) = (0, self.left);
        self.fenced(|net, gates, beside| handled = run(net, gates, beside, left));
        self.left = left.saturating_sub(handled);
        self.handled += handled;
    }

    /// Takes in what can be known of the ports, and notes what the work beside is to know of all.
    fn look(&mut self) {
        let is_due = self.polling.checks_status();
        self.fenced(|net, gates, beside| {
            for (number, gate) in gates.iter_mut().enumerate() {
                let (trunk, now) = net.trunk(number);
                gate.look(now, is_due, trunk);
            }
            net.note_changes(beside);
        });
    }

    /// Whether there is something to do or to hand over at once.
    fn has_more(&self) -> bool {
        let beside = &*self.beside.borrow();
        let has_orders = beside.orders.are_waiting() || beside.orders.has_noted();
        let has_news = has_orders || beside.has_leaving() || beside.has_records() || beside.has_broken_untold();
        let has_packets = self.net.has_queued(beside) || self.gates.iter().any(Gate::has_frames);
        let has_packets = has_packets && !self.polling.is_held();
        !self.done.is_empty() || self.is_cut_short || has_packets || has_news
    }

    /// How long the driver below may wait, if we may wait for so long.
    fn wait(&mut self, wait: Wait) -> Wait {
        if self.has_more() {
            return Wait::No;
        }
        let beside = &*self.beside.borrow();
        let due = self.net.due(beside).into_iter().chain(self.gates.iter().filter_map(Gate::due)).min();
        let wait = self.polling.wait(wait);
        match (due, wait) {
            (Some(due), Wait::Forever) => Wait::Until(due),
            (Some(due), Wait::Until(until)) => Wait::Until(until.min(due)),
            (_, wait) => wait,
        }
    }

    /// Leaves the CPU to other programs until then, whatever comes; what was submitted is carried out before. Its ends, and what else there is to hand over, are handed over behind.
    fn leave_to_others(&mut self, until: u64, completions: &mut Vec<Completion>) {
        let slept = self.below.rest(until, completions);
        self.slept = Some(slept);
        self.polling.rested(self.below.now(), slept);
    }

    /// Takes what is the stack's own out of the completions from `start` on, and does what comes of it. Returns whether packets have another go at once.
    fn after(&mut self, start: usize, at_most: usize, completions: &mut Vec<Completion>) -> bool {
        let looked = self.note_sent();
        self.own.extend(completions.extract_if(start.., |completion| gate::is_own(completion)));
        if !self.own.is_empty() {
            let now = self.below.now();
            self.net.set_now(now);
            for completion in self.own.drain(..) {
                let number = gate::port_of(&completion);
                let (trunk, now) = self.net.trunk(number);
                let interface = trunk.interfaces()[0];
                let ended = self.gates[number].complete(now, trunk, completion);
                if let Some(time) = ended.came_at {
                    let slept = self.polling.woke(time);
                    self.slept.get_or_insert(slept);
                }
                let tally = &mut self.beside.borrow_mut().tally;
                tally.unsent_at(interface, Drop::Frames, ended.unsent);
                tally.downs += u64::from(ended.is_down);
            }
            self.run();
        }
        self.look();
        // A lane that sleeps on is asked when it wakes.
        let asks = self.polling.asks_for_time(self.handled) && !self.below.is_asleep();
        let ended = asks.then(|| self.below.now());
        // What it took to find packets is in the time that they took.
        if self.handled == 0 && looked > 0 {
            self.polling.worked(looked);
        }
        self.hand_over(at_most.saturating_sub(completions.len() - start + self.done.len()));
        let others_have = completions.len() > start || !self.done.is_empty();
        let has_rest = || self.gates.iter().any(Gate::has_frames) || self.net.has_queued(&self.beside.borrow());
        let goes_on = self.polling.end(ended, std::mem::take(&mut self.handled), others_have, has_rest);
        self.ask_of_ports();
        self.note_to_work();
        completions.append(&mut self.done);
        goes_on
    }

    /// Has the network pay for what its ports sent: they do that before they look for more. Returns for how many nanoseconds they have looked.
    fn note_sent(&mut self) -> u64 {
        let (mut looked, mut sent) = (0, 0);
        for worked in self.gates.iter_mut().map(Gate::take_worked) {
            (looked, sent) = (looked + worked.looked, sent + worked.sent);
        }
        if sent > 0 {
            self.polling.worked(sent);
        }
        looked
    }

    /// Notes what the work beside is to know at the end of the driver's part of a turn.
    fn note_to_work(&mut self) {
        let beside = &mut self.beside.borrow_mut();
        if beside.tally.is_untold() {
            beside.note_polling(self.polling.now());
        }
        beside.note_held(self.polling.is_held());
        self.net.note_to(beside, &self.gates, self.sends);
    }

    /// A driver that cannot hold up its thread is told that there is something to collect.
    fn wake(&mut self) {
        if self.below.is_asleep() {
            self.below.bell().ring();
        }
    }
}

/// Handles what has come, and runs what is queued, at most so many packets; returns how many these were.
fn run(net: &mut Net, gates: &mut [Gate], beside: &mut Beside, at_most: usize) -> usize {
    if beside.is_broken() {
        return 0;
    }
    #[cfg(test)]
    assert!(!(beside.planted && gates.iter().any(Gate::has_frames)), "planted");
    let mut heard = beside.take_heard();
    let mut handled = heard.len();
    let mut round = net.round(beside);
    heard.drain(..).for_each(|heard| round.hear(heard));
    // What waited before comes first.
    handled += round.run(at_most.saturating_sub(handled));
    let has_frames = gates.iter().filter(|gate| gate.has_frames());
    has_frames.for_each(|gate| round.look_ahead(gate.incoming().take(at_most.saturating_sub(handled))));
    // Of each port one frame after the other: one that is flooded leaves the others their part.
    while handled < at_most && gates.iter().any(Gate::has_frames) {
        for (port, gate) in gates.iter_mut().enumerate() {
            let Some((frame, is_last)) = gate.next_frame() else { continue };
            handled += 1;
            round.frame(port, frame);
            if is_last {
                round.end_batch(port);
            }
        }
    }
    handled += round.run(at_most.saturating_sub(handled));
    round.end();
    beside.give_back(heard);
    handled
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
        match address.ip().filter(|ip| self.net.is_own(*ip)) {
            Some(_) => Err(fault::UNSUPPORTED),
            None => self.below.listen(listen),
        }
    }

    fn bind(&mut self, bind: &Bind) -> Result<Socket, Fault> {
        match self.own_address(bind) {
            Some(local) => self.bind_at(bind, local),
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

    fn detach(&mut self, socket: Socket) -> Result<Detached, Fault> {
        if sockets::is_own(socket) { Err(fault::UNSUPPORTED) } else { self.below.detach(socket) }
    }

    fn adopt(&mut self, detached: Detached) -> Result<Socket, (Fault, Detached)> {
        self.below.adopt(detached)
    }

    fn local_address(&self, socket: Socket) -> Result<Address, Fault> {
        if !sockets::is_own(socket) {
            return self.below.local_address(socket);
        }
        self.net.sockets().local(socket).map(Address::from).ok_or(fault::NO_SOCKET)
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

    fn broken(&self, socket: Socket, has_heard_end: bool) -> Option<Fault> {
        if sockets::is_own(socket) { None } else { self.below.broken(socket, has_heard_end) }
    }

    fn dropped(&self, socket: Socket) -> Option<u32> {
        if sockets::is_own(socket) { self.net.sockets().dropped(socket) } else { self.below.dropped(socket) }
    }

    fn push(&mut self, handle: Handle, op: Op) {
        match self.take(handle, op) {
            Err(op) => self.below.push(handle, op),
            Ok(()) => {
                self.ask_of_ports();
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
        self.ask_of_ports();
        self.wake();
    }

    fn abandon(&mut self, work: u8) {
        for socket in self.net.sockets().of_work(work) {
            self.push(Handle::NOBODY, Op::Close { socket, reset: true });
        }
        self.below.abandon(work);
    }

    fn collect(&mut self, wait: Wait, at_most: usize, completions: &mut Vec<Completion>) {
        let start = completions.len();
        let (mut wait, mut left) = (wait, at_most);
        for _ in 0..ROUNDS {
            self.before(wait, left);
            let (mut waits, from) = (self.wait(wait), completions.len());
            self.slept = (waits == Wait::No).then_some(0);
            if let Some(until) = self.polling.rests_until() {
                self.leave_to_others(until, completions);
                // Packets may use up the lane's part each time: what came to sockets of the kernel is looked at behind each rest all the same.
                waits = Wait::No;
            }
            self.polling.sleeps(waits);
            let room = left.saturating_sub(completions.len() - from);
            self.below.collect(waits, room, completions);
            let goes_on = self.after(from, left, completions);
            left = at_most.saturating_sub(completions.len() - start);
            if !goes_on || left == 0 {
                break;
            }
            wait = Wait::No;
        }
    }

    fn rest(&mut self, until: u64, completions: &mut Vec<Completion>) -> u64 {
        self.below.rest(until, completions)
    }

    fn is_asleep(&self) -> bool {
        self.below.is_asleep()
    }

    fn slept(&self) -> Option<u64> {
        self.slept
    }

    fn clock(&self) -> Option<Clock> {
        self.below.clock()
    }

    fn call_clock(&self) -> Option<Clock> {
        self.polling.is_set().then(|| self.below.clock()).flatten()
    }

    fn take_overrun(&mut self) -> Option<u64> {
        self.polling.take_overrun()
    }

    fn outranks_tasks(&self) -> bool {
        self.polling.is_network_first()
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
        let beside = self.beside.borrow();
        write!(f, "Stack(lane {}, {:?})", beside.placing.lane(), *beside.tally)
    }
}

#[cfg(test)]
mod tests;
