//! Connections: opening, receiving and sending.

use super::endpoint::{BROKEN, Bridging, EndpointKind, Receiving, Sending, U24};
use super::source::{Copies, ReadinessSource};
use super::state::{Budget, Held, ReadinessDriver};
use crate::means::Means;
use crate::stream::{self, Received};
use corelane_os::errno::fault_of;
use corelane_os::sockets;
use corelane_seam::slab::Key;
use corelane_seam::{
    Address, Chain, Completion, Fault, File, Handle, Lease, Outcome, Piped, RECEIVE_BYTES_LEAST, RECEIVES_PER_CYCLE, Socket,
    StreamOp, StreamOptions, StreamOutcome,
};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;

/// Bytes that came in a pipe count for a quarter in what a turn receives: they pass no cache.
const PIPED_PER_CYCLE: usize = 4;

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// Starts what was asked of a listener or a connection; returns how it went if that is known already.
    #[inline]
    pub(super) fn perform_on_stream(
        &mut self,
        handle: Handle,
        op: StreamOp,
        completions: &mut Vec<Completion>,
    ) -> Option<Outcome> {
        match op {
            StreamOp::Send { socket, chain } => self.send(handle, socket.into(), chain, completions),
            StreamOp::Receive { socket } => self.begin_receive(handle, socket.into(), Receiving::Bytes),
            StreamOp::ReceivePiped { socket, most } => {
                let most = U24::of(most.min(Piped::BYTES_MAX) as u32);
                self.begin_receive(handle, socket.into(), Receiving::Piped(most))
            }
            StreamOp::ReceiveInto { socket, lease, until } => self.begin_receive_into(handle, socket.into(), lease, until),
            StreamOp::Accept { listener } => self.begin_accept(handle, listener.into()),
            StreamOp::StopAccept { listener } => {
                self.stop_accept(listener.into(), completions);
                None
            }
            StreamOp::Connect { to, from, options } => self.connect(handle, &to, from.as_ref(), &options),
            StreamOp::SendFile { .. } => unreachable!("`perform` has taken it"),
        }
    }

    /// Begins to send a file by its path; returns how the send went or, of its first step, how that went, if it is known already.
    pub(super) fn send_file(
        &mut self,
        handle: Handle,
        socket: Socket,
        path: (Option<File>, PathBuf),
        sync: bool,
    ) -> Option<Completion> {
        let Some(endpoint) = self.socket(socket) else {
            let refused = StreamOutcome::FileSent { bytes: 0, length: 0, fault: Some(Fault::CANCELLED) };
            return Some(Completion::last(handle, refused.into()));
        };
        assert!(endpoint.kind == EndpointKind::Stream, "a file is sent to a connection");
        assert!(endpoint.sending == Sending::Nothing, "a socket has at most one send under way");
        let (step, open) = self.file_sends.begin(handle, socket, path, sync);
        self.perform_on_file(step, open).map(|outcome| Completion::last(step, outcome))
    }

    pub(super) fn connect(
        &mut self,
        handle: Handle,
        to: &Address,
        from: Option<&Address>,
        options: &StreamOptions,
    ) -> Option<Outcome> {
        self.counters.calls_work += 1;
        match self.begin_connect(handle, to, from, options) {
            Ok(_) => None,
            Err(fault) => Some(Outcome::Failed(fault)),
        }
    }

    /// Whether the connect is done already or not, the first event shows its end.
    fn begin_connect(
        &mut self,
        handle: Handle,
        to: &Address,
        from: Option<&Address>,
        options: &StreamOptions,
    ) -> Result<(), Fault> {
        let socket = sockets::connecting(to, from, options)?;
        sockets::connect(socket.as_fd(), to)?;
        let key = self.enter(socket, EndpointKind::Connecting)?;
        self.endpoints.at_mut(key.index).receive_handle = handle;
        self.make_cancellable(handle, key);
        Ok(())
    }

    /// Ends a connect whose socket has become writable, or broken, as these events tell.
    pub(super) fn end_connect(&mut self, key: Key, events: i32, completions: &mut Vec<Completion>) {
        let endpoint = self.endpoints.at_mut(key.index);
        assert!(endpoint.kind == EndpointKind::Connecting);
        let handle = endpoint.receive_handle;
        endpoint.kind = EndpointKind::Stream;
        let known = self.cancellable.remove(handle);
        assert!(known == Some(key), "a connect can be cancelled as long as it is under way");
        let outcome = self.connected(key, events).unwrap_or_else(|fault| {
            let endpoint = self.endpoints.remove_at(key.index);
            self.source.close(key.bits(), endpoint.descriptor, Copies::None);
            Outcome::Failed(fault)
        });
        completions.push(Completion::last(handle, outcome));
    }

    fn connected(&mut self, key: Key, events: i32) -> Result<Outcome, Fault> {
        let socket = self.endpoints.at_mut(key.index).descriptor.as_fd();
        // What has failed is always told as broken (poll(2)), and only then is there a reason to ask for.
        if events & BROKEN != 0 {
            sockets::pending_error(socket)?;
        }
        let (peer, local) = (sockets::peer_address(socket)?, sockets::local_address(socket)?);
        Ok(Outcome::Stream(StreamOutcome::Connected { socket: key.into(), peer, local }))
    }

    /// Receives into a new block. The endpoint is on no list.
    pub(super) fn receive(&mut self, key: Key, budget: &mut Budget, completions: &mut Vec<Completion>) {
        if self.endpoints.at(key.index).bridging != Bridging::No {
            let bytes = self.take_unseen(key);
            if bytes > 0 {
                return self.end_receive(key, StreamOutcome::Unseen { bytes }.into(), completions);
            }
        }
        let bytes = self.tuning.receive_bytes;
        let least = bytes.min(RECEIVE_BYTES_LEAST);
        let Some(mut lease) = self.arena.lease_to_receive(bytes, least) else { return self.starve(key, least) };
        assert!(lease.is_empty() && lease.capacity() >= least);
        let until = bytes.min(lease.capacity());
        let received = self.receive_once(key, &mut lease, until);
        let outcome = match received {
            Received::Nothing => return self.await_bytes(key, completions),
            Received::Bytes(arrived) => {
                let least = self.tuning.receive_cycle_bytes / RECEIVES_PER_CYCLE;
                budget.cycle_bytes = budget.cycle_bytes.saturating_sub(arrived.max(least));
                Outcome::Stream(StreamOutcome::Received(lease.share()))
            }
            Received::End => Outcome::Stream(StreamOutcome::EndOfStream),
            Received::Failed(fault) => Outcome::Failed(fault),
        };
        self.end_receive(key, outcome, completions);
    }

    /// Receives into a pipe, or as [`Self::receive`] does: where there is no pipe, at the end of the stream, and where splice(2) does not bring what there is. The endpoint is on no list.
    pub(super) fn receive_piped(&mut self, key: Key, most: usize, budget: &mut Budget, completions: &mut Vec<Completion>) {
        // What passed to the lane lies where splice(2) does not look.
        if self.endpoints.at(key.index).bridging != Bridging::No {
            return self.receive(key, budget, completions);
        }
        let Some(pipe) = self.pipes.take(self.tuning.pipes_max) else {
            self.counters.pipes.refused += 1;
            return self.receive(key, budget, completions);
        };
        let endpoint = self.endpoints.at_mut(key.index);
        self.counters.calls_work += 1;
        let outcome = match pipe.fill(endpoint.descriptor.as_fd(), most) {
            Ok(bytes) if bytes > 0 => {
                // A pipe may be full with fewer bytes than were asked for.
                endpoint.mark_rest();
                self.counters.pipes.bytes += bytes as u64;
                let least = self.tuning.receive_cycle_bytes / RECEIVES_PER_CYCLE;
                budget.cycle_bytes = budget.cycle_bytes.saturating_sub((bytes / PIPED_PER_CYCLE).max(least));
                StreamOutcome::ReceivedPiped(Piped::new(Rc::new(pipe), bytes)).into()
            }
            Err(Errno::AGAIN) if !endpoint.exhaust => {
                endpoint.mark_empty();
                self.counters.receives_empty += 1;
                return self.await_bytes(key, completions);
            }
            // The end; and urgent data, behind which splice(2) brings nothing until recv(2) has passed it.
            Ok(_) | Err(Errno::AGAIN | Errno::INVAL | Errno::NOMEM) => {
                return self.receive(key, budget, completions);
            }
            // A filter of calls (seccomp(2)).
            Err(Errno::NOSYS | Errno::PERM) => {
                drop(pipe);
                self.pipes.give_up();
                return self.receive(key, budget, completions);
            }
            Err(error) => Outcome::Failed(fault_of(error)),
        };
        self.end_receive(key, outcome, completions);
    }

    fn begin_receive_into(&mut self, handle: Handle, key: Key, lease: Lease, until: usize) -> Option<Outcome> {
        if self.endpoints.get(key).is_none() {
            return Some(Outcome::Stream(StreamOutcome::Filled { lease, fault: Some(Fault::CANCELLED) }));
        }
        let held = self.hold(Held::Lease { lease, until });
        self.begin_receive(handle, key, Receiving::BytesInto(U24::of(held)))
    }

    /// Receives into the lease that the operation brought. The endpoint is on no list.
    pub(super) fn receive_into(&mut self, key: Key, held: u32, completions: &mut Vec<Completion>) {
        let (mut lease, until) = self.held_lease(held);
        let fault = match self.receive_once(key, &mut lease, until) {
            Received::Nothing => {
                let held = self.hold(Held::Lease { lease, until });
                self.endpoints.at_mut(key.index).receiving = Receiving::BytesInto(U24::of(held));
                return self.await_bytes(key, completions);
            }
            Received::Bytes(_) | Received::End => None,
            Received::Failed(fault) => Some(fault),
        };
        self.end_receive(key, Outcome::Stream(StreamOutcome::Filled { lease, fault }), completions);
    }

    /// A receive found nothing: from now on the source tells of what comes.
    fn await_bytes(&mut self, key: Key, completions: &mut Vec<Completion>) {
        if let Err(fault) = self.watch(key) {
            self.end_receive_with(key, fault, completions);
        }
    }

    fn receive_once(&mut self, key: Key, lease: &mut Lease, until: usize) -> Received {
        let endpoint = self.endpoints.at_mut(key.index);
        let (held, room) = (lease.len(), until - lease.len());
        self.counters.calls_work += 1;
        let mut received = stream::receive(endpoint.descriptor.as_fd(), lease, until);
        assert!(lease.len() <= until, "a receive stays within its bound");
        if endpoint.bridging != Bridging::No {
            received = self.received_bridged(key, received);
            if matches!(received, Received::Failed(_)) {
                // Of wrong bytes nobody gets any.
                lease.truncate(held);
            }
        }
        let endpoint = self.endpoints.at_mut(key.index);
        match received {
            Received::Bytes(bytes) if bytes < room => endpoint.mark_short(),
            Received::Nothing => {
                endpoint.mark_empty();
                self.counters.receives_empty += 1;
            }
            Received::Bytes(_) => endpoint.mark_rest(),
            _ => {}
        }
        received
    }

    fn send(&mut self, handle: Handle, key: Key, mut chain: Chain, completions: &mut Vec<Completion>) -> Option<Outcome> {
        let Some(endpoint) = self.endpoints.get(key) else {
            return Some(Outcome::Stream(StreamOutcome::Sent { bytes: 0, rest: chain, fault: Some(Fault::CANCELLED) }));
        };
        assert!(endpoint.kind == EndpointKind::Stream, "a chain is sent to a connection");
        assert!(endpoint.sending == Sending::Nothing, "a socket has at most one send under way");
        let waits = endpoint.bridging != Bridging::No && !self.may_give(key);
        let ended = if waits { None } else { self.send_once(key, handle, &mut chain, completions) };
        if let Some((bytes, fault, released)) = ended {
            let outcome = Outcome::Stream(StreamOutcome::Sent { bytes, rest: chain, fault });
            completions.push(Completion { released, ..Completion::last(handle, outcome) });
            return None;
        }
        if let Err(fault) = self.watch(key) {
            return Some(Outcome::Stream(StreamOutcome::Sent { bytes: 0, rest: chain, fault: Some(fault) }));
        }
        let held = self.hold(Held::Chain(chain));
        let endpoint = self.endpoints.at_mut(key.index);
        (endpoint.sending, endpoint.send_handle) = (Sending::Bytes(U24::of(held)), handle);
        None
    }

    /// Goes on with a send that found the socket full.
    pub(super) fn resume_send(&mut self, key: Key, held: u32, completions: &mut Vec<Completion>) {
        assert!(self.endpoints.at_mut(key.index).sending == Sending::Bytes(U24::of(held)));
        if self.endpoints.at(key.index).bridging != Bridging::No && !self.may_give(key) {
            return;
        }
        let mut chain = self.held_chain(held);
        let handle = self.endpoints.at_mut(key.index).send_handle;
        let ended = self.send_once(key, handle, &mut chain, completions);
        let Some((bytes, fault, released)) = ended else {
            let held = self.hold(Held::Chain(chain));
            self.endpoints.at_mut(key.index).sending = Sending::Bytes(U24::of(held));
            return;
        };
        self.endpoints.at_mut(key.index).sending = Sending::Nothing;
        let outcome = Outcome::Stream(StreamOutcome::Sent { bytes, rest: chain, fault });
        completions.push(Completion { released, ..Completion::last(handle, outcome) });
    }

    /// Sends what goes; none if nothing does. Says, too, whether the memory of that is released.
    fn send_once(
        &mut self,
        key: Key,
        handle: Handle,
        chain: &mut Chain,
        completions: &mut Vec<Completion>,
    ) -> Option<(usize, Option<Fault>, bool)> {
        let asked = chain.len();
        let is_bridged = self.endpoints.at(key.index).bridging != Bridging::No;
        // Of what has a way of its own no notice will tell.
        let may_ask = asked >= self.tuning.zero_copy_bytes && chain.segments().any(|segment| !stream::leaves_apart(segment));
        let means = (may_ask && !is_bridged).then(|| self.means_of(key, completions));
        let (sent, is_released) = if means == Some(Means::Uncopied) {
            self.send_uncopied(key, handle, chain)
        } else {
            let files = &self.files;
            let socket = self.endpoints.at_mut(key.index).descriptor.as_fd();
            (stream::send(socket, chain, |file| files.get(file.into()).map(|open| open.file.as_fd())), true)
        };
        if sent.bytes > 0 {
            means.into_iter().for_each(|means| self.count(means));
        }
        assert!(sent.bytes + chain.len() == asked, "no byte is lost or sent twice");
        if is_bridged && sent.bytes > 0 {
            self.gave_bridged(key, sent.bytes);
        }
        self.counters.calls_work += sent.calls;
        self.counters.sends.sealed += sent.from_sealed;
        self.counters.sends.from_file += sent.from_file;
        self.counters.sends.copied_full += u64::from(sent.lacked_room);
        (sent.bytes > 0 || sent.fault.is_some()).then_some((sent.bytes, sent.fault, is_released))
    }
}
