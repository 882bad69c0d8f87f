//! Batches of datagrams.

use super::endpoint::{EndpointKind, Receiving, Sending, U24};
use super::source::ReadinessSource;
use super::state::{Budget, Held, ReadinessDriver};
use crate::datagrams::{DatagramCalls, Departure, PIECE_BYTES, SocketKind};
use corelane_os::sockets;
use corelane_seam::slab::Key;
use corelane_seam::{
    BATCH_MAX, Bind, Completion, DATAGRAM_BLOCK_BYTES_LEAST, DatagramOp, DatagramOutcome, Datagrams, Fault, Handle, Lease,
    Outcome, Socket, Trains,
};
use std::os::fd::AsFd;

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// Starts what was asked of a datagram socket; returns how it went if that is known already.
    #[inline]
    pub(super) fn perform_on_datagrams(&mut self, handle: Handle, op: DatagramOp) -> Option<Outcome> {
        match op {
            DatagramOp::Receive { socket, into } => self.begin_datagrams(handle, socket.into(), into),
            DatagramOp::Send { socket, trains } => self.send_datagrams(handle, socket.into(), trains),
            DatagramOp::Bind(bind) => Some(self.bind_later(handle, &bind)),
        }
    }

    /// Makes a socket, and the place for the calls of all such sockets with the first.
    pub(super) fn open_bound(&mut self, bind: &Bind) -> Result<Socket, Fault> {
        let lent = self.borrowed(&bind.address)?;
        let is_lent = lent.is_some();
        let descriptor = match lent {
            Some((descriptor, _)) => sockets::equip_datagrams(&descriptor, bind, self.probes.udp_gro).map(|()| descriptor)?,
            None => match self.given(&bind.address, false).filter(|_| bind.peer.is_none()) {
                Some(given) => sockets::equip_datagrams(&given, bind, self.probes.udp_gro).map(|()| given)?,
                None => sockets::bind(bind, self.probes.udp_gro)?,
            },
        };
        self.datagram_calls.get_or_insert_with(|| Box::new(DatagramCalls::new()));
        let kind = SocketKind { connected: bind.peer.is_some(), is_unix: bind.address.unix().is_some() };
        let key = self.enter(descriptor, EndpointKind::Datagrams(kind))?;
        self.endpoints.at_mut(key.index).is_lent = is_lent;
        Ok(key.into())
    }

    /// Makes a socket that a running lane asked for.
    fn bind_later(&mut self, handle: Handle, bind: &Bind) -> Outcome {
        self.counters.calls_work += 1;
        let bound = self.open_bound(bind).and_then(|socket| Ok((socket, self.address_of(socket)?)));
        match bound {
            Ok((socket, local)) => {
                self.endpoints.at_mut(socket.index).receive_handle = handle;
                Outcome::Datagram(DatagramOutcome::Bound { socket, local })
            }
            Err(fault) => Outcome::Failed(fault),
        }
    }

    fn begin_datagrams(&mut self, handle: Handle, key: Key, mut batch: Datagrams) -> Option<Outcome> {
        // What it brought before must not be held while it waits.
        batch.clear();
        if self.endpoints.get(key).is_none() {
            return Some(Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: Some(Fault::CANCELLED) }));
        }
        let held = self.hold(Held::Batch(batch));
        self.begin_receive(handle, key, Receiving::Datagrams(U24::of(held)))
    }

    /// Receives a batch. The endpoint is on no list.
    pub(super) fn receive_datagrams(&mut self, key: Key, held: u32, budget: &mut Budget, completions: &mut Vec<Completion>) {
        let expected = self.endpoints.at_mut(key.index).arrivals_expected() * PIECE_BYTES;
        let most = expected.min(self.tuning.datagram_bytes);
        let Some(lease) = self.arena.lease_to_receive(most, DATAGRAM_BLOCK_BYTES_LEAST) else {
            return self.starve(key, DATAGRAM_BLOCK_BYTES_LEAST);
        };
        let bytes = lease.capacity();
        let mut batch = self.held_batch(held);
        assert!(batch.is_empty());
        let fault = match self.receive_batch(key, lease, &mut batch) {
            Ok(0) => {
                let held = self.hold(Held::Batch(batch));
                self.endpoints.at_mut(key.index).receiving = Receiving::Datagrams(U24::of(held));
                return;
            }
            Ok(_) => {
                budget.cycle_bytes = budget.cycle_bytes.saturating_sub(bytes);
                None
            }
            Err(fault) => Some(fault),
        };
        self.end_receive(key, Outcome::Datagram(DatagramOutcome::Arrived { batch, fault }), completions);
    }

    fn receive_batch(&mut self, key: Key, lease: Lease, batch: &mut Datagrams) -> Result<usize, Fault> {
        let endpoint = self.endpoints.at_mut(key.index);
        self.counters.calls_work += 1;
        let calls = datagram_calls(&mut self.datagram_calls);
        let EndpointKind::Datagrams(kind) = endpoint.kind else { unreachable!("a batch is received from a datagram socket") };
        let (found, all_used) = calls.receive(endpoint.descriptor.as_fd(), kind, lease, batch)?;
        assert!(batch.arrivals().len() <= found && (found > 0 || !all_used));
        match found {
            0 => {
                endpoint.mark_empty();
                self.counters.receives_empty += 1;
            }
            _ if !all_used => endpoint.mark_short(),
            // A batch is as long as few arrivals need: who fills a short one has not had much.
            _ if found >= BATCH_MAX => endpoint.mark_rest(),
            _ => {}
        }
        endpoint.brought(found);
        Ok(found)
    }

    fn send_datagrams(&mut self, handle: Handle, key: Key, trains: Trains) -> Option<Outcome> {
        let Some(endpoint) = self.endpoints.get(key) else { return Some(Departure::new(trains, false).end()) };
        let EndpointKind::Datagrams(kind) = endpoint.kind else { unreachable!("trains are sent from a datagram socket") };
        assert!(endpoint.sending == Sending::Nothing, "a socket has at most one send under way");
        let mut departure = Departure::new(trains, kind.connected);
        if self.depart(key, &mut departure) {
            return Some(departure.end());
        }
        if self.await_room(key).is_err() {
            return Some(departure.end());
        }
        let held = self.hold(Held::Departure(departure));
        let endpoint = self.endpoints.at_mut(key.index);
        (endpoint.sending, endpoint.send_handle) = (Sending::Datagrams(U24::of(held)), handle);
        None
    }

    /// Goes on with a departure that found the socket full.
    pub(super) fn resume_datagrams(&mut self, key: Key, held: u32, completions: &mut Vec<Completion>) {
        assert!(self.endpoints.at_mut(key.index).sending == Sending::Datagrams(U24::of(held)));
        let mut departure = self.held_departure(held);
        if !self.depart(key, &mut departure) {
            let held = self.hold(Held::Departure(departure));
            self.endpoints.at_mut(key.index).sending = Sending::Datagrams(U24::of(held));
            return;
        }
        let endpoint = self.endpoints.at_mut(key.index);
        endpoint.sending = Sending::Nothing;
        completions.push(Completion::last(endpoint.send_handle, departure.end()));
    }

    fn depart(&mut self, key: Key, departure: &mut Departure) -> bool {
        let before = departure.calls();
        let socket = self.endpoints.at_mut(key.index).descriptor.as_fd();
        let calls = datagram_calls(&mut self.datagram_calls);
        let done = calls.send(socket, departure, self.probes.together());
        assert!(departure.calls() >= before);
        self.counters.calls_work += u64::from(departure.calls() - before);
        done
    }
}

/// The place for calls came with the first datagram socket.
fn datagram_calls(calls: &mut Option<Box<DatagramCalls>>) -> &mut DatagramCalls {
    calls.get_or_insert_with(|| Box::new(DatagramCalls::new()))
}
