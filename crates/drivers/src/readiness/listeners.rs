//! Accepting: from a listener of the lane's own, and from one that lanes share.
//!
//! A listener of the lane's own is watched for edges from its beginning to its end, as all sockets are. One that lanes share would wake all of
//! them for each connection. So a lane waits for it only while it accepts, and in a row with the others (`EPOLLEXCLUSIVE`, epoll_ctl(2)):
//!
//! ```text
//! unarmed --next collect--> armed --told of a connection--> unarmed: accepts one, and goes to the end of the row
//! ```
//!
//! So one lane is woken for a connection, lanes that sleep take turns, and one that has just accepted can say that it has no room for more
//! before it is told again. What a lane was told and does not use, because it stopped accepting, found no descriptor or closes, it hands on:
//! all others are woken.
//!
//! On epoll the lane that is told is one that sleeps, if any does. A ring may tell one in the middle of its turn: it takes the connection with
//! its next collect, unless another lane, told of the next connection, takes it first.

use super::endpoint::{Endpoint, EndpointKind, Receiving, edges};
use super::source::ReadinessSource;
use super::state::ReadinessDriver;
use corelane_os::sockets;
use corelane_seam::slab::Key;
use corelane_seam::{Address, Completion, Fault, Handle, Outcome, Reason, StreamOutcome};
use std::os::fd::{AsFd, OwnedFd};

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// Takes a duplicate of a listener that lanes share.
    pub(super) fn share(&mut self, listener: OwnedFd, outlives: bool) -> Key {
        let key = self.endpoints.insert(Endpoint::new(listener, EndpointKind::Listener));
        let endpoint = self.endpoints.at_mut(key.index);
        (endpoint.is_lent, endpoint.outlives) = (true, outlives);
        key
    }

    /// Keeps the address of a listener that has only one; of another, such as one behind a transparent proxy's rule, the system is asked with each connection.
    pub(super) fn note_local(&mut self, key: Key) -> Result<(), Fault> {
        let listener = self.endpoints.at_mut(key.index).descriptor.as_fd();
        let local = sockets::local_address(listener)?;
        if local.ip().is_none_or(|ip| !ip.is_unspecified()) && !sockets::is_transparent(listener) {
            self.local.insert(key.index, local);
        }
        Ok(())
    }

    pub(super) fn begin_accept(&mut self, handle: Handle, key: Key) -> Option<Outcome> {
        let refused = self.begin_receive(handle, key, Receiving::Connections);
        if refused.is_none() && self.endpoints.at_mut(key.index).is_shared_listener() {
            self.to_arm.push(key);
        }
        refused
    }

    /// One that is armed stays so: it may be asked to accept again before there is a connection.
    pub(super) fn stop_accept(&mut self, key: Key, completions: &mut Vec<Completion>) {
        let accepts = self.endpoints.get(key).is_none_or(|endpoint| endpoint.kind == EndpointKind::Listener);
        assert!(accepts, "only a listener accepts");
        self.end_receive_with(key, Fault::CANCELLED, completions);
        let told = self.endpoints.get(key).is_some_and(|endpoint| endpoint.is_shared_listener() && endpoint.is_readable());
        if told {
            self.hand_on(key);
        }
    }

    /// Arms what accepts and is not armed.
    pub(super) fn arm_all(&mut self, completions: &mut Vec<Completion>) {
        while let Some(key) = self.to_arm.pop() {
            let accepts = |endpoint: &Endpoint| endpoint.receiving == Receiving::Connections && !endpoint.is_armed;
            if self.endpoints.get(key).is_some_and(accepts) {
                self.arm(key, completions);
            }
        }
    }

    /// Has this lane told of a connection, behind those that wait for one already; if some wait, at once.
    fn arm(&mut self, key: Key, completions: &mut Vec<Completion>) {
        let endpoint = self.endpoints.at_mut(key.index);
        assert!(endpoint.is_shared_listener() && !endpoint.is_armed, "a lane stands in the row once");
        assert!(endpoint.receiving == Receiving::Connections && !endpoint.is_readable(), "who stands there takes a connection");
        self.counters.calls_work += 1;
        match self.source.watch(endpoint.descriptor.as_fd(), edges(endpoint), key.bits()) {
            Ok(()) => endpoint.is_armed = true,
            Err(fault) => self.end_receive(key, Outcome::Failed(fault), completions),
        }
    }

    /// Notes that somebody has connected. Who refuses says so with the end of the socket: then nobody connects any more.
    pub(super) fn told_of_connection(&mut self, key: Key, events: i32) {
        let endpoint = self.endpoints.at_mut(key.index);
        assert!(endpoint.is_armed && !endpoint.is_readable(), "told once each time that it was armed");
        endpoint.is_armed = false;
        endpoint.mark_news();
        endpoint.exhaust = events & libc::EPOLLHUP != 0;
        self.counters.calls_work += self.source.rest(endpoint.descriptor.as_fd());
        match endpoint.receiving {
            Receiving::Nothing => self.hand_on(key),
            _ => self.queue(key),
        }
    }

    /// Wakes the lanes that wait in the row, for what this one was told and does not use.
    fn hand_on(&mut self, key: Key) {
        let endpoint = self.endpoints.at_mut(key.index);
        assert!(endpoint.is_readable() && !endpoint.is_armed, "it was told, and is not woken itself");
        endpoint.mark_empty();
        self.counters.calls_work += 1;
        sockets::wake_all(endpoint.descriptor.as_fd());
    }

    /// Accepts what waits, up to a batch.
    pub(super) fn accept(&mut self, key: Key, at_most: usize, completions: &mut Vec<Completion>) {
        let listener = self.endpoints.at_mut(key.index);
        assert!(listener.receiving == Receiving::Connections && at_most > 0);
        let is_shared = listener.is_shared_listener();
        let batch = if is_shared { 1 } else { self.tuning.accept_batch };
        for _ in 0..batch.min(at_most) {
            match self.accept_once(key) {
                Ok(Some(outcome)) => {
                    let handle = self.endpoints.at_mut(key.index).receive_handle;
                    completions.push(Completion { handle, outcome, more: true, released: true });
                }
                Ok(None) => return self.found_nobody(key, completions),
                // A listener of the lane's own stays readable: accepting goes on where it stopped when it is asked for again.
                Err(fault) if is_shared => {
                    self.hand_on(key);
                    return self.end_receive(key, Outcome::Failed(fault), completions);
                }
                Err(fault) => return self.end_receive(key, Outcome::Failed(fault), completions),
            }
        }
        let listener = self.endpoints.at_mut(key.index);
        if is_shared && !listener.exhaust {
            listener.mark_empty();
            self.to_arm.push(key);
        }
        self.queue(key);
    }

    fn accept_once(&mut self, key: Key) -> Result<Option<Outcome>, Fault> {
        let listener = self.endpoints.at_mut(key.index);
        let handle = listener.receive_handle;
        self.counters.calls_work += 1;
        let accepted = sockets::accept(listener.descriptor.as_fd());
        if accepted.as_ref().is_err_and(|fault| fault.reason == Reason::NoDescriptor) {
            self.pipes.close_idle();
        }
        match accepted? {
            Some((socket, peer)) => self.accepted(key, handle, socket, peer).map(Some),
            None => Ok(None),
        }
    }

    fn accepted(&mut self, listener: Key, handle: Handle, socket: OwnedFd, peer: Address) -> Result<Outcome, Fault> {
        let local = self.local.get(listener.index).cloned().map_or_else(|| sockets::local_address(socket.as_fd()), Ok)?;
        let key = self.endpoints.insert(Endpoint::new(socket, EndpointKind::Stream));
        let endpoint = self.endpoints.at_mut(key.index);
        // Whether something is there is found out by asking for it.
        endpoint.receive_handle = handle;
        endpoint.mark_news();
        Ok(Outcome::Stream(StreamOutcome::Accepted { socket: key.into(), peer, local }))
    }

    fn found_nobody(&mut self, key: Key, completions: &mut Vec<Completion>) {
        self.counters.receives_empty += 1;
        let listener = self.endpoints.at_mut(key.index);
        let goes_on = listener.is_shared_listener() && !listener.exhaust;
        listener.mark_empty();
        if goes_on {
            self.arm(key, completions);
        }
    }
}
