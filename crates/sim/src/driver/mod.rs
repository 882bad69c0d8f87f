//! The driver of a simulated lane.

mod bind;
mod bridged;
mod datagrams;
mod descriptors;
mod hand_over;
mod leaving;
mod ports;
mod releases;
mod sockets;
mod streams;
mod submit;
mod watches;
mod work;

use crate::check::Booked;
use crate::faults::{FaultKind, Planted};
use crate::lane::sockets::{Body, StreamSocket};
use crate::lane::{Lane, Sleep, Trouble};
use crate::log::{Detail, Site};
use crate::net::connect::Opener;
use crate::state::{Event, State, World};
use corelane_seam::{
    Address, Bell, Bind, Clock, Completion, Detached, Driver, DriverCounters, Fault, Handle, Listen, Op, PipeCounters, Socket,
    Wait,
};
use descriptors::BAD_DESCRIPTOR;
use ports::Ports;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;

/// The least size of the blocks that a fragmented arena has.
const FRAGMENT_BYTES: usize = 64 << 10;
/// The longest time that an arena is fragmented, in nanoseconds.
const FRAGMENTED_MAX: u64 = 1_000_000_000;

/// The simulated driver of one lane; [`World::driver`] makes it. Its `collect` never blocks: where a real driver would
/// sleep, it returns without completions and [is asleep](Driver::is_asleep), and [`World::step`] names the lane again when it has a reason to wake; a push
/// is one, so that a test can drive it from outside.
///
/// Dropping it is the sudden end of its lane: its connections are reset, and operations under way are a breach that
/// [`World::check`] reports.
pub struct SimDriver {
    world: World,
    lane: usize,
    ports: Ports,
}

impl SimDriver {
    pub(crate) fn new(world: World, lane: usize) -> Self {
        Self { world, lane, ports: Ports::default() }
    }

    /// The number by which [`Turn::Lane`](crate::Turn::Lane) names this lane: drivers are counted from 0 in the order
    /// of their making.
    pub fn lane(&self) -> usize {
        self.lane
    }
}

impl std::fmt::Debug for SimDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimDriver(lane {})", self.lane)
    }
}

impl Drop for SimDriver {
    fn drop(&mut self) {
        self.world.0.borrow_mut().end_lane(self.lane);
    }
}

impl Driver for SimDriver {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn now(&self) -> u64 {
        self.world.0.borrow().clock.now()
    }

    fn clock(&self) -> Option<Clock> {
        let world = self.world.clone();
        Some(Rc::new(move || world.0.borrow().clock.now()))
    }

    fn time_of_day(&self) -> u64 {
        self.world.0.borrow().clock.time_of_day()
    }

    fn listen(&mut self, listen: &Listen) -> Result<Socket, Fault> {
        let state = &mut *self.world.0.borrow_mut();
        let descriptor = state.lanes[self.lane].descriptors.open();
        state.with_descriptor(self.lane, descriptor, |state, descriptor| state.listen(self.lane, listen, descriptor))
    }

    fn bind(&mut self, bind: &Bind) -> Result<Socket, Fault> {
        let state = &mut *self.world.0.borrow_mut();
        let descriptor = state.lanes[self.lane].descriptors.open();
        state
            .with_descriptor(self.lane, descriptor, |state, descriptor| state.bind(self.lane, 0, bind, descriptor))
            .map(|bound| bound.0)
    }

    fn leave_behind(&mut self, socket: Socket) {
        let is_connection = matches!(self.world.0.borrow().lanes[self.lane].sockets.peek(socket), Some(Body::Stream(_)));
        assert!(!is_connection, "what others go on with is no connection");
    }

    fn detach(&mut self, socket: Socket) -> Result<Detached, Fault> {
        self.world.0.borrow_mut().detach(self.lane, socket)
    }

    fn adopt(&mut self, detached: Detached) -> Result<Socket, (Fault, Detached)> {
        self.world.0.borrow_mut().adopt(self.lane, detached)
    }

    fn local_address(&self, socket: Socket) -> Result<Address, Fault> {
        let state = self.world.0.borrow();
        match state.lanes[self.lane].sockets.peek(socket) {
            Some(Body::Listener { port, .. }) => Ok(state.net.own(state.net.listeners[port].place.address)),
            Some(Body::Datagram { port, .. }) => Ok(state.net.own(state.net.ports[port].place.address)),
            Some(Body::Stream(at)) => Ok(state.net.own(state.net.streams[at.stream].addresses[at.side])),
            None => Err(BAD_DESCRIPTOR),
        }
    }

    fn unsent_bytes(&self, socket: Socket) -> Option<usize> {
        let state = self.world.0.borrow();
        match state.lanes[self.lane].sockets.peek(socket)? {
            Body::Stream(at) => Some(state.net.streams[at.stream].pipes[at.side].untaken()),
            _ => None,
        }
    }

    fn broken(&self, socket: Socket, has_heard_end: bool) -> Option<Fault> {
        let state = &mut *self.world.0.borrow_mut();
        match state.lanes[self.lane].sockets.peek(socket)? {
            Body::Stream(at) => state.net.held(at.stream).broken(at.side, has_heard_end),
            _ => None,
        }
    }

    fn dropped(&self, socket: Socket) -> Option<u32> {
        let state = self.world.0.borrow();
        match state.lanes[self.lane].sockets.peek(socket)? {
            Body::Datagram { port, .. } => Some(state.net.ports[port].dropped),
            _ => None,
        }
    }

    fn refuse_new(&mut self, listener: Socket) {
        let state = &mut *self.world.0.borrow_mut();
        if let Some(body) = state.lanes[self.lane].sockets.open(listener) {
            let &mut Body::Listener { port, .. } = body else { panic!("only a listener can refuse") };
            state.refuse_new(port);
        }
    }

    fn finish(&mut self, socket: Socket) {
        let state = &mut *self.world.0.borrow_mut();
        if let Some(body) = state.lanes[self.lane].sockets.open(socket) {
            let &mut Body::Stream(StreamSocket { stream, side, .. }) = body else {
                panic!("only a connection has a stream to end")
            };
            state.finish_end(stream, side);
        }
    }

    fn readable_bytes(&self, socket: Socket) -> usize {
        let state = self.world.0.borrow();
        match state.lanes[self.lane].sockets.peek(socket) {
            Some(Body::Stream(at)) => state.net.streams[at.stream].pipes[1 - at.side].readable(),
            _ => 0,
        }
    }

    fn push(&mut self, handle: Handle, op: Op) {
        op.check();
        let state = &mut *self.world.0.borrow_mut();
        let number = state.ledger.enter(self.lane, handle, &op);
        state.log.note(state.clock.now(), Site::Lane(self.lane), "pushes", Detail::Handle(handle));
        let own = &mut state.lanes[self.lane];
        own.sleep = Sleep::Awake;
        let asked = Booked { number, handle };
        match op {
            Op::Frame(op) => self.ports.push(asked, op),
            op => own.submitted.push((asked, op)),
        }
    }

    fn abandon(&mut self, work: u8) {
        assert!(work > 0, "nobody has nothing to leave");
        let own = &mut self.world.0.borrow_mut().lanes[self.lane];
        own.abandoned |= 1 << work;
        own.sleep = Sleep::Awake;
        self.ports.abandon(work);
    }

    fn collect(&mut self, wait: Wait, at_most: usize, completions: &mut Vec<Completion>) {
        let trouble = self.world.0.borrow().lanes[self.lane].trouble;
        if trouble == Some(Trouble::Broken) {
            // Without the panic hook's words: a thousand runs would bury what went wrong in one.
            resume_unwind(Box::new("looking for events: EBADF".to_string()));
        }
        self.ports.drive(&self.world, self.lane);
        self.world.0.borrow_mut().collect(self.lane, wait, at_most, completions);
    }

    fn rest(&mut self, until: u64, _: &mut Vec<Completion>) -> u64 {
        self.ports.drive(&self.world, self.lane);
        let state = &mut *self.world.0.borrow_mut();
        state.carry_out(self.lane);
        let rests = until.saturating_sub(state.clock.now());
        state.clock.advance(rests);
        rests
    }

    fn is_asleep(&self) -> bool {
        self.world.0.borrow().lanes[self.lane].is_asleep()
    }

    fn offload_max(&self) -> usize {
        self.world.0.borrow().lanes[self.lane].tuning.offload_max
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.world.0.borrow().lanes[self.lane].bell.clone()
    }

    fn counters(&self) -> DriverCounters {
        let own = &self.world.0.borrow().lanes[self.lane];
        let pipes = PipeCounters { held: own.pipes.get() as u64, ..own.counters.pipes };
        DriverCounters { pipes, ..own.counters }
    }
}

impl State {
    fn collect(&mut self, lane: usize, wait: Wait, at_most: usize, completions: &mut Vec<Completion>) {
        let cost = 200 + self.random.below(2_000);
        self.clock.advance(cost);
        let before = completions.len();
        let own = &mut self.lanes[lane];
        own.rings_seen = own.bell.rings();
        let bell_rang = own.bell.take() | std::mem::take(&mut own.bell_rang);
        own.sleep = Sleep::Awake;
        let is_woken = std::mem::take(&mut own.is_woken);
        own.feed_starving();
        self.carry_out(lane);
        self.end_abandoned(lane);
        self.attempt_ready(lane, at_most);
        self.hand_over(lane, at_most, completions);
        // The next steps of what sends files are there already.
        let has_more = !self.lanes[lane].submitted.is_empty();
        if completions.len() == before && !bell_rang && !is_woken && !has_more {
            self.sleep(lane, wait);
        }
    }

    fn sleep(&mut self, lane: usize, wait: Wait) {
        let sleep = match wait {
            Wait::No => return,
            Wait::Until(time) if time <= self.clock.now() => return,
            Wait::Until(time) => Sleep::Asleep(Some(time)),
            Wait::Forever => Sleep::Asleep(None),
        };
        let own = &mut self.lanes[lane];
        own.sleep = sleep;
        own.counters.calls_wait += 1;
        self.log.note(self.clock.now(), Site::Lane(lane), "sleeps", Detail::Nothing);
    }

    /// Notices the lane's bell; late, if chance wants it.
    pub(crate) fn hear(&mut self, lane: usize) {
        if self.lanes[lane].is_gone() || !self.lanes[lane].bell.take() || self.plants(Planted::LostDoorbell) {
            return;
        }
        self.log.note(self.clock.now(), Site::Lane(lane), "is rung", Detail::Nothing);
        if self.strikes(FaultKind::DelayedBell) {
            let delay = self.random.delay();
            self.lanes[lane].bells_late += 1;
            self.clock.after(delay, Event::Bell { lane });
        } else {
            self.lanes[lane].bell_rang = true;
        }
    }

    /// A late ring reaches its lane.
    pub(crate) fn hear_late(&mut self, lane: usize) {
        let own = &mut self.lanes[lane];
        if !own.is_gone() {
            own.bells_late -= 1;
            own.bell_rang = true;
        }
    }

    /// Takes pieces out of a lane's memory for some time, so that what is free lies in blocks of a receive's size.
    pub(crate) fn fragment(&mut self, lane: usize) {
        let own = &mut self.lanes[lane];
        let block = own.tuning.receive_bytes.max(FRAGMENT_BYTES);
        let blocks: Vec<_> = std::iter::from_fn(|| own.arena.lease(block)).collect();
        own.taken_out = blocks.into_iter().step_by(2).collect();
        let delay = self.random.below(FRAGMENTED_MAX);
        self.clock.after(delay, Event::Mended { lane });
    }

    /// A lane's memory is whole again.
    pub(crate) fn mend(&mut self, lane: usize) {
        let own = &mut self.lanes[lane];
        own.taken_out.clear();
        own.bell_rang |= !own.is_gone();
    }

    /// The sudden end of a lane: the system closes what is open in its table.
    fn end_lane(&mut self, lane: usize) {
        let own = &self.lanes[lane];
        // A file that a service has kept for its life closes with the driver.
        let open = own.descriptors.count() - own.files.len();
        self.ledger.abandon(lane, open, own.trouble == Some(Trouble::Broken));
        // Work that nobody waits for any more holds memory.
        let is_mine =
            |event: &Event| matches!(event, Event::File { lane: of, .. } | Event::Offload { lane: of, .. } if *of == lane);
        self.clock.strike_out(is_mine);
        self.drop_attempts(lane);
        let (host, arena, tuning) = (self.lanes[lane].host, self.lanes[lane].arena.clone(), self.lanes[lane].tuning);
        let mut ended = std::mem::replace(&mut self.lanes[lane], Lane::new(host, arena, tuning));
        self.lanes[lane].sleep = Sleep::Gone;
        self.lanes[lane].leaked = std::mem::take(&mut ended.leaked);
        self.lanes[lane].pipes = ended.pipes.clone();
        ended
            .files
            .values()
            .map(|file| file.descriptor)
            .chain(ended.foreign.keys().copied())
            .for_each(|number| ended.descriptors.close(number));
        while let Some(slot) = ended.sockets.first().and_then(|socket| ended.sockets.remove(socket)) {
            slot.descriptor.into_iter().for_each(|number| ended.descriptors.close(number));
            match slot.body {
                Body::Listener { port, .. } => self.close_listener(port),
                Body::Stream(at) => self.close_end(at.stream, at.side, true),
                Body::Datagram { port, .. } => drop(self.net.ports.remove(&port)),
            }
        }
        assert_eq!(ended.descriptors.count(), 0, "each descriptor of lane {lane} belongs to something");
    }

    fn drop_attempts(&mut self, lane: usize) {
        let mine = |opener| matches!(opener, Opener::Lane(of, ..) if of == lane);
        let attempts: Vec<_> =
            self.net.attempts.iter().filter(|(_, attempt)| mine(attempt.opener)).map(|(&name, _)| name).collect();
        for name in attempts {
            self.drop_attempt(name);
        }
    }
}
