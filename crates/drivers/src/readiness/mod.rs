//! What the drivers on epoll(7) and io_uring(7) have in common: readiness, and plain calls that move as much as they can.
//!
//! They differ in their [`ReadinessSource`]: where they learn what is ready, and who works on their files. Each socket is watched
//! from its beginning to its end, for edges (`EPOLLET`), and nothing is changed on the request path. An edge makes a
//! socket `readable`; together with a receive under way that puts it on the ready list. A collect first carries out what
//! was pushed: a completed send drops its chain, so that the blocks just read by the kernel lie on top of the arena's free
//! list when the receives that follow take theirs. Then it serves the ready list, up to a bound of memory handed out. Those of whom a receive has left something stand in a
//! list of their own, behind those to whom something has just come: a thousand who send without end delay nobody's short question by a round of all of them. The
//! kernel is asked for events when the list is used up, and now and then before, so that nothing starves.

mod bridged;
mod datagrams;
mod endpoint;
mod events;
mod files;
mod kept;
mod leaving;
mod listeners;
mod opened;
mod pairs;
mod ports;
mod settling;
pub(crate) mod source;
mod state;
mod streams;
mod uncopied;
mod watched;
mod watches;

pub use state::ReadinessDriver;

use crate::refuse;
use corelane_os::{clock, errno, sockets};
use corelane_seam::slab::{Key, Slab};
use corelane_seam::{
    Address, Bell, Bind, Clock, Completion, Detached, Driver, DriverCounters, Fault, FileOp, FrameOp, Handle, Listen, Op,
    Outcome, PipeCounters, Reason, Socket, StreamOp, StreamOutcome, Wait,
};
use endpoint::{Bridging, EndpointKind, Listed, Receiving, Sending};
use source::ReadinessSource;
use state::Loan;
use state::{Budget, LOOK_EVERY};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long the end of a driver waits for those who still use lane memory.
const PATIENCE: Duration = Duration::from_secs(10);

impl<S: ReadinessSource> ReadinessDriver<S> {
    fn carry_out(&mut self, completions: &mut Vec<Completion>) {
        let mut pushed = std::mem::take(&mut self.pushed);
        for (handle, op) in pushed.drain(..) {
            self.perform(handle, op, completions);
        }
        assert!(self.pushed.is_empty(), "nothing is pushed while the pushed is carried out");
        self.pushed = pushed;
    }

    fn perform(&mut self, handle: Handle, op: Op, completions: &mut Vec<Completion>) {
        op.check();
        let outcome = match op {
            Op::Stream(StreamOp::SendFile { socket, beneath, path, sync }) => {
                return completions.extend(self.send_file(handle, socket, (beneath, path), sync));
            }
            Op::Stream(op) => self.perform_on_stream(handle, op, completions),
            Op::Datagram(op) => self.perform_on_datagrams(handle, op),
            Op::File(FileOp::Watch { directory }) => {
                let begun = self.watch_directory(handle, &directory);
                return completions.push(begun);
            }
            Op::File(op) => self.perform_on_file(handle, op),
            Op::Frame(op) => self.perform_on_port(handle, op),
            Op::Poll { descriptor, interest } => self.poll(handle, descriptor, interest),
            Op::Offload(work) => self.offload(handle, work),
            Op::Bridge { one, other, held } => return self.bridge([one.into(), other.into()], held),
            Op::TellUnseen { socket } => return self.tell_unseen(socket.into(), completions),
            Op::StopReceive { socket } => return self.stop_receive(socket.into(), completions),
            Op::Close { socket, reset } => return self.close(handle, socket.into(), reset, completions),
            Op::Cancel { target } => return self.cancel(target, completions),
            _ => Some(Outcome::Failed(errno::fault(libc::ENOSYS))),
        };
        completions.extend(outcome.map(|outcome| Completion::last(handle, outcome)));
    }

    /// Takes out what steps of files' sends have brought, which no lane has pushed.
    fn take_steps(&mut self, first: usize, completions: &mut Vec<Completion>) {
        if !self.file_sends.is_empty() {
            self.file_sends.take_all(first, completions, &mut self.pushed);
        }
    }

    /// Serves endpoints that have something to receive: of those alike the one that has waited longest first.
    fn serve_ready(&mut self, budget: &mut Budget, completions: &mut Vec<Completion>) {
        while !budget.is_spent() {
            let Some(key) = self.next_ready() else { break };
            assert!(self.endpoints.at_mut(key.index).is_readable(), "an endpoint on the ready list has something to receive");
            let before = completions.len();
            self.serve(key, budget, completions);
            budget.completions = budget.completions.saturating_sub(completions.len() - before);
        }
    }

    /// Asks the kernel for events and serves what they make ready, until something has completed or the wait is over.
    fn look_and_serve(&mut self, wait: Wait, at_most: usize, budget: &mut Budget, completions: &mut Vec<Completion>) {
        let (first, starved) = (completions.len(), self.counters.receives_starved);
        self.since_look = 0;
        loop {
            assert!(wait == Wait::No || !self.has_ready(), "no wait while there is something to serve");
            let until = self.wait_with_bridged(self.wait_with_parted(self.wait_with_ports(wait)));
            let over = self.look(until, at_most, completions);
            if !self.calls.is_empty() {
                self.take_ended(completions);
            }
            self.age_parted(completions);
            self.settle_bridged(completions);
            self.end_closes(completions);
            self.serve_ports(completions);
            if self.has_ready() {
                self.serve_ready(budget, completions);
            }
            assert!(!self.has_ready() || budget.is_spent(), "who is ready is served as long as the budget lasts");
            // Who finds no memory ends the wait once, so that the lane can say so before it sleeps; so does other news of a port.
            let over = over | std::mem::take(&mut self.ports.has_news);
            if over || completions.len() > first || self.counters.receives_starved > starved {
                break;
            }
        }
    }

    fn serve(&mut self, key: Key, budget: &mut Budget, completions: &mut Vec<Completion>) {
        match self.endpoints.at_mut(key.index).receiving {
            Receiving::Connections => self.accept(key, budget.completions, completions),
            Receiving::Bytes => self.receive(key, budget, completions),
            Receiving::Piped(most) => self.receive_piped(key, most.get() as usize, budget, completions),
            Receiving::BytesInto(held) => self.receive_into(key, held.get(), completions),
            Receiving::Datagrams(held) => self.receive_datagrams(key, held.get(), budget, completions),
            Receiving::Nothing => unreachable!("an endpoint on the ready list has a receive under way"),
        }
    }

    /// Lets those that found no memory try again, if there is some now.
    fn revive_starved(&mut self) {
        if self.starved.is_empty() {
            return;
        }
        if !self.arena.has(self.starved_bytes) {
            self.counters.receives_starved += 1;
            return;
        }
        while let Some(key) = self.starved.pop(&mut self.endpoints) {
            assert!(self.endpoints.at_mut(key.index).receiving != Receiving::Nothing, "who starves has a receive under way");
            self.queue(key);
        }
        self.starved_bytes = 0;
    }

    /// Ends receiving; what has arrived is still delivered, whether its edge was seen or not.
    fn stop_receive(&mut self, key: Key, completions: &mut Vec<Completion>) {
        match self.endpoints.get(key).map(|endpoint| endpoint.receiving) {
            None | Some(Receiving::Nothing) => return,
            Some(receiving) => assert!(receiving != Receiving::Connections, "accepting is stopped by its own operation"),
        }
        self.leave_list(key);
        let mut budget = Budget { completions: 1, cycle_bytes: usize::MAX };
        let before = completions.len();
        self.serve(key, &mut budget, completions);
        assert!(completions.len() <= before + 1, "a receive ends once");
        let starved = self.endpoints.at_mut(key.index).listed == Listed::Starved;
        self.end_receive_with(key, if starved { Fault::of(Reason::NoMemory) } else { Fault::CANCELLED }, completions);
    }

    /// Ends what works that have left the lane still have here.
    fn end_abandoned(&mut self, completions: &mut Vec<Completion>) {
        let abandoned = std::mem::take(&mut self.abandoned);
        let is_gone = |work: u8| abandoned >> work & 1 == 1;
        let ended = self.endpoints.iter().filter(|(_, endpoint)| is_gone(endpoint.receive_handle.work()));
        let ended: Vec<Key> = ended.map(|(key, _)| key).collect();
        for handle in self.watches.of_works(is_gone) {
            self.end_watch(handle, completions);
        }
        for port in self.ports.of_works(is_gone) {
            self.perform_on_port(Handle::NOBODY, FrameOp::Close { port });
        }
        for key in ended {
            let endpoint = self.endpoints.at_mut(key.index);
            match endpoint.kind {
                EndpointKind::Connecting | EndpointKind::Polled(_) => {
                    let target = endpoint.receive_handle;
                    self.cancel(target, completions);
                }
                EndpointKind::Listener | EndpointKind::Stream | EndpointKind::Datagrams(_) => {
                    self.close(Handle::NOBODY, key, true, completions)
                }
                EndpointKind::Notices | EndpointKind::Port | EndpointKind::PortNews | EndpointKind::Bells => {
                    unreachable!("no work receives from what is the driver's own")
                }
            }
        }
    }

    fn close(&mut self, handle: Handle, key: Key, reset: bool, completions: &mut Vec<Completion>) {
        if self.endpoints.get(key).is_none() {
            return completions.push(Completion::failed(handle, Fault::CANCELLED));
        }
        self.end_receive_with(key, Fault::CANCELLED, completions);
        if let Some((handle, outcome)) = self.file_sends.cancel(key.into(), &*completions) {
            completions.push(Completion::last(handle, outcome.into()));
        }
        self.cancel_send(key, completions);
        let is_bridged = self.endpoints.at(key.index).bridging != Bridging::No;
        if is_bridged && !reset {
            self.stop_towards(key);
        }
        let waits = is_bridged && !reset && !self.is_spoiled(key) && !self.may_give(key);
        let kept = self.take_kept(key, completions);
        let endpoint = self.endpoints.remove_at(key.index);
        assert!(endpoint.listed == Listed::Nowhere, "a closed endpoint stands in no list");
        assert!(endpoint.receiving == Receiving::Nothing && endpoint.sending == Sending::Nothing);
        assert!(
            matches!(endpoint.kind, EndpointKind::Listener | EndpointKind::Stream | EndpointKind::Datagrams(_)),
            "sockets only have names"
        );
        self.counters.calls_work += 1;
        self.local.remove(key.index);
        if let Some(kept) = kept {
            return self.part((key, endpoint, kept), (handle, reset), completions);
        }
        if reset {
            // A connection that is broken already cannot be broken off.
            let _ = sockets::reset_on_close(endpoint.descriptor.as_fd());
        }
        if is_bridged {
            return self.close_bridged((key, endpoint), (handle, waits));
        }
        self.release(key, endpoint);
        self.closing.push((key.bits(), handle));
    }

    /// Hands over what the kernel was not told yet, and tells of the sockets that are closed now: whoever hears it may count
    /// on it that the system knows nothing of the socket any more.
    #[inline]
    fn end_closes(&mut self, completions: &mut Vec<Completion>) {
        self.counters.calls_work += self.source.flush();
        if !self.closing.is_empty() {
            self.tell_closed(completions);
        }
    }

    // Apart, so that a turn without closes pays only for the check.
    #[inline(never)]
    fn tell_closed(&mut self, completions: &mut Vec<Completion>) {
        let source = &self.source;
        self.closing.retain(|&(data, handle)| {
            let is_open = source.is_closing(data);
            if !is_open {
                completions.push(Completion::last(handle, Outcome::Closed));
            }
            is_open
        });
    }

    fn cancel_send(&mut self, key: Key, completions: &mut Vec<Completion>) {
        let endpoint = self.endpoints.at_mut(key.index);
        let handle = endpoint.send_handle;
        let outcome = match std::mem::replace(&mut endpoint.sending, Sending::Nothing) {
            Sending::Nothing => return,
            Sending::Bytes(held) => Outcome::Stream(StreamOutcome::Sent {
                bytes: 0,
                rest: self.held_chain(held.get()),
                fault: Some(Fault::CANCELLED),
            }),
            Sending::Datagrams(held) => self.held_departure(held.get()).end(),
        };
        completions.push(Completion::last(handle, outcome));
    }
}

impl<S: ReadinessSource> Driver for ReadinessDriver<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn now(&self) -> u64 {
        clock::now()
    }

    fn clock(&self) -> Option<Clock> {
        Some(Rc::new(clock::now))
    }

    fn time_of_day(&self) -> u64 {
        clock::wall_clock()
    }

    fn listen(&mut self, listen: &Listen) -> Result<Socket, Fault> {
        let key = match self.borrowed(&listen.address)? {
            Some((descriptor, outlives)) => {
                sockets::equip_listener(&descriptor, listen)?;
                self.share(descriptor, outlives)
            }
            None => {
                let descriptor = match self.given(&listen.address, true) {
                    Some(given) => {
                        sockets::equip_listener(&given, listen)?;
                        sockets::begin_to_listen(given.as_fd(), listen.backlog)?;
                        given
                    }
                    None => sockets::listen(listen)?,
                };
                self.enter(descriptor, EndpointKind::Listener)?
            }
        };
        self.note_local(key)?;
        Ok(key.into())
    }

    fn bind(&mut self, bind: &Bind) -> Result<Socket, Fault> {
        self.open_bound(bind)
    }

    fn lend(&mut self, address: &Address, number: i32, outlives: bool) {
        self.lent.retain(|(known, _)| known != address);
        self.lent.push((address.clone(), Loan { number, outlives }));
    }

    fn give(&mut self, address: &Address, socket: OwnedFd) {
        self.given.push((address.clone(), socket));
    }

    fn leave_behind(&mut self, socket: Socket) {
        if let Some(endpoint) = self.endpoints.get_mut(socket.into()) {
            assert!(
                matches!(endpoint.kind, EndpointKind::Listener | EndpointKind::Datagrams(_)),
                "what others go on with is no connection"
            );
            endpoint.outlives = true;
        }
    }

    fn detach(&mut self, socket: Socket) -> Result<Detached, Fault> {
        self.let_go(socket.into())
    }

    fn adopt(&mut self, detached: Detached) -> Result<Socket, (Fault, Detached)> {
        self.take_over(detached)
    }

    fn local_address(&self, socket: Socket) -> Result<Address, Fault> {
        self.address_of(socket)
    }

    fn descriptor(&self, socket: Socket) -> Option<BorrowedFd<'_>> {
        self.socket(socket).map(|endpoint| endpoint.descriptor.as_fd())
    }

    fn refuse_new(&mut self, listener: Socket) {
        if let Some(endpoint) = self.socket(listener) {
            assert!(endpoint.kind == EndpointKind::Listener, "only a listener can refuse");
            if endpoint.outlives {
                return;
            }
            // Without the filter new connections go on being queued, as the contract allows.
            let _ = refuse::refuse_new(endpoint.descriptor.as_fd());
        }
    }

    fn finish(&mut self, socket: Socket) {
        if let Some(endpoint) = self.socket(socket) {
            assert!(endpoint.kind == EndpointKind::Stream, "only a connection has a stream to end");
            if endpoint.bridging != Bridging::No {
                return self.finish_bridged(socket.into());
            }
            sockets::finish(endpoint.descriptor.as_fd());
        }
    }

    fn readable_bytes(&self, socket: Socket) -> usize {
        self.socket(socket).map_or(0, |endpoint| sockets::readable_bytes(endpoint.descriptor.as_fd()))
    }

    fn unsent_bytes(&self, socket: Socket) -> Option<usize> {
        sockets::unsent_bytes(self.socket(socket)?.descriptor.as_fd())
    }

    fn broken(&self, socket: Socket, has_heard_end: bool) -> Option<Fault> {
        sockets::broken(self.socket(socket)?.descriptor.as_fd(), has_heard_end)
    }

    fn dropped(&self, socket: Socket) -> Option<u32> {
        sockets::dropped(self.socket(socket)?.descriptor.as_fd())
    }

    fn push(&mut self, handle: Handle, op: Op) {
        self.pushed.push((handle, op));
    }

    fn push_all(&mut self, ops: &mut Vec<(Handle, Op)>) {
        match self.pushed.is_empty() {
            true => std::mem::swap(&mut self.pushed, ops),
            false => self.pushed.append(ops),
        }
    }

    fn abandon(&mut self, work: u8) {
        assert!(work > 0, "nobody has nothing to leave");
        self.abandoned |= 1 << work;
    }

    fn collect(&mut self, wait: Wait, at_most: usize, completions: &mut Vec<Completion>) {
        let first = completions.len();
        if !self.pushed.is_empty() {
            self.carry_out(completions);
        }
        self.arm_all(completions);
        if self.abandoned != 0 {
            self.end_abandoned(completions);
        }
        if !self.calls.is_empty() {
            self.take_ended(completions);
        }
        self.age_parted(completions);
        self.settle_bridged(completions);
        self.serve_ports(completions);
        self.revive_starved();
        // Sends that were carried out count, but never leave receives without a place.
        assert!(completions.len() >= first, "completions are only added");
        let left = at_most.saturating_sub(completions.len() - first).max(1);
        let mut budget = Budget { completions: left, cycle_bytes: self.tuning.receive_cycle_bytes };
        if self.has_ready() {
            self.serve_ready(&mut budget, completions);
        }
        if completions.len() == first && !self.closing.is_empty() {
            self.end_closes(completions);
        }
        let produced = completions.len() - first;
        self.since_look += produced;
        if produced == 0 {
            self.look_and_serve(wait, at_most, &mut budget, completions);
        } else if self.since_look >= LOOK_EVERY {
            self.look_and_serve(Wait::No, at_most, &mut budget, completions);
        }
        self.end_closes(completions);
        self.take_steps(first, completions);
    }

    fn rest(&mut self, until: u64, completions: &mut Vec<Completion>) -> u64 {
        let first = completions.len();
        self.carry_out(completions);
        self.arm_all(completions);
        self.serve_ports(completions);
        self.end_closes(completions);
        self.take_steps(first, completions);
        let begun = clock::now();
        if until <= begun {
            return 0;
        }
        self.counters.calls_wait += 1;
        // What comes to sockets meanwhile is looked at behind it, though ports bring as much as may be each time.
        self.since_look = LOOK_EVERY;
        let used = clock::cpu_of_this_thread();
        clock::sleep_until(until);
        // To fall asleep and to wake up takes some 20 us of this thread's own time: nobody else has them.
        let used = clock::cpu_of_this_thread().saturating_sub(used);
        (clock::now() - begun).saturating_sub(used)
    }

    fn offload_max(&self) -> usize {
        self.tuning.offload_max
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    fn counters(&self) -> DriverCounters {
        let pipes = PipeCounters { held: self.pipes.held() as u64, ..self.counters.pipes };
        DriverCounters { pipes, bridges: self.bridge_counters(), ..self.counters }
    }
}

impl<S: ReadinessSource> Drop for ReadinessDriver<S> {
    fn drop(&mut self) {
        self.end_kept(PATIENCE);
        for (key, endpoint) in std::mem::take(&mut self.endpoints).drain() {
            self.release(key, endpoint);
        }
        let helpers_ended = self.helpers.close(PATIENCE);
        if !self.source.end(PATIENCE) || !helpers_ended {
            // Somebody may still write to this memory: it must never be used again.
            std::mem::forget(std::mem::replace(&mut self.calls, Slab::new()));
        }
        // The source holds no descriptor open any more, so each port's end is the interface's.
        drop(std::mem::take(&mut self.ports));
    }
}
