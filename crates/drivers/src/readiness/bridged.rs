//! Connections between which the kernel passes bytes (`corelane_bridge`).
//!
//! ```text
//! quiet: the source tells of ends and room alone --a bell: bytes passed to the lane--> told of all, received and sent as ever
//!    ^                                                                                     |
//!    \---------- nothing of the direction is here any more: the program has it again <-----/
//! ```
//!
//! What the lane sends, finishes or closes waits until all that was redirected before has been given to that connection: the kernel's own thread does that at once, so it is looked for again after
//! [`LOOK_AGAIN`].

use super::endpoint::{Bridging, Endpoint, EndpointKind, Readable, Receiving, Sending, edges};
use super::pairs::{CLOSE_LIMIT, Departing, LOOK_AGAIN, Pair, Side, tick};
use super::source::ReadinessSource;
use super::state::ReadinessDriver;
use crate::stream::Received;
use corelane_os::{clock, progress, sockets};
use corelane_seam::slab::Key;
use corelane_seam::{BridgeCounters, Completion, Fault, Handle, Reason, StreamOutcome, Wait};
use std::os::fd::AsFd;

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// Has the kernel pass on what each of two connections receives to the other, if it can. Nothing where it does already.
    pub(super) fn bridge(&mut self, keys: [Key; 2], held: [u64; 2]) {
        assert!(keys[0] != keys[1], "a pair is of two");
        // Before it is seen that nothing is left of that.
        let arrived = keys.map(|key| self.endpoints.get(key).and_then(|one| progress::arrived(one.descriptor.as_fd())));
        match self.may_be_bridged(keys) {
            Ok(false) => {}
            Ok(true) => {
                let done = self.begin_bridge(keys, held, arrived);
                self.counters.bridges.refused += u64::from(done.is_err());
            }
            Err(_) => self.counters.bridges.refused += 1,
        }
    }

    /// Whether both are ready for it: nothing was sent or received in part.
    fn may_be_bridged(&self, keys: [Key; 2]) -> Result<bool, Fault> {
        let bridged = self.bridged.as_ref().ok_or(Fault::of(Reason::Unsupported))?;
        for key in keys {
            let Some(endpoint) = self.endpoints.get(key) else { return Ok(false) };
            assert!(endpoint.kind == EndpointKind::Stream, "bytes pass between connections");
            // A piece of which a receive has left something would be seen whole by the program. A receive leaves something where it has no more room, and at urgent data (tcp(7)).
            let is_amid = endpoint.readable == Readable::Rest
                || endpoint.exhaust
                || sockets::readable_bytes(endpoint.descriptor.as_fd()) > 0;
            let is_used = endpoint.sending != Sending::Nothing || matches!(endpoint.receiving, Receiving::BytesInto(_));
            if is_amid || is_used || endpoint.bridging != Bridging::No || self.kept.get(key).is_some() {
                return Ok(false);
            }
            if sockets::tcp_state(endpoint.descriptor.as_fd()).is_none() {
                return Err(Fault::of(Reason::Unsupported));
            }
        }
        if bridged.pairs.len() < bridged.pairs_max { Ok(true) } else { Err(Fault::of(Reason::Busy)) }
    }

    fn begin_bridge(&mut self, keys: [Key; 2], held: [u64; 2], arrived: [Option<u64>; 2]) -> Result<(), Fault> {
        let [Some(first), Some(second)] = arrived else { return Err(Fault::of(Reason::Unsupported)) };
        let arrived = [first, second];
        for key in keys {
            self.watch(key)?;
        }
        let bridged = self.bridged.as_mut().ok_or(Fault::of(Reason::Unsupported))?;
        let pair = bridged.pairs.insert(Pair { sides: keys.map(Side::new), departing: 0, is_spoiled: false }).index;
        let numbers = [2 * pair, 2 * pair + 1];
        // From the first step on each is one of a pair until it is closed, whatever comes of the others: bytes that have passed to the lane are lost where it is taken out.
        for (key, number) in keys.into_iter().zip(numbers) {
            bridged.numbers.insert(key, number);
            self.endpoints.at_mut(key.index).bridging = Bridging::Told;
        }
        for place in [0, 1] {
            let connection = self.endpoints.at(keys[place].index).descriptor.as_fd();
            bridged.bridge.enter(numbers[place], connection, held[place])?;
            bridged.side(numbers[place]).direction.enter(held[place], arrived[place]);
        }
        for number in numbers {
            bridged.with(&self.endpoints, number, |side, at| side.direction.begin(at));
        }
        // What has come already is the program's once it is asked for.
        for key in keys {
            self.endpoints.at_mut(key.index).mark_news();
            self.queue(key);
        }
        Ok(())
    }

    /// Bytes have passed to the lane: it is told of all that comes there from now on.
    pub(super) fn note_bells(&mut self) {
        while let Some(number) = self.bridged.as_mut().and_then(|bridged| bridged.bridge.heard()) {
            self.tell_of_all(number);
        }
    }

    /// Has the source tell of all that comes to it, or of its end and room alone.
    fn tell(&mut self, key: Key, bridging: Bridging) {
        let endpoint = self.endpoints.at_mut(key.index);
        if endpoint.bridging != bridging {
            endpoint.bridging = bridging;
            self.counters.calls_work += 1;
            // Where this fails it is told of what means nothing, or by bells alone.
            let _ = self.source.change(endpoint.descriptor.as_fd(), edges(endpoint), key.bits());
        }
    }

    /// What a receive of one of a pair has come to.
    pub(super) fn received_bridged(&mut self, key: Key, received: Received) -> Received {
        let Some(bridged) = &mut self.bridged else { return received };
        let number = bridged.number(key);
        if bridged.pairs.at(number >> 1).is_spoiled {
            return Received::Failed(Fault::of(Reason::Reset));
        }
        match received {
            Received::Bytes(bytes) => {
                bridged.side(number).direction.received(bytes);
                if !bridged.with(&self.endpoints, number, |side, at| side.direction.is_right(at)) {
                    self.spoil(key);
                    return Received::Failed(Fault::of(Reason::Reset));
                }
            }
            Received::End => {
                let has_all = bridged.with(&self.endpoints, number, |side, at| side.direction.has_all(at));
                if !has_all {
                    bridged.side(number).awaits_rest = true;
                    bridged.wait_for(key);
                    return Received::Nothing;
                }
            }
            Received::Nothing => self.rest_bridged(number),
            Received::Failed(_) => bridged.side(number).is_broken = true,
        }
        received
    }

    /// Breaks both of a pair off: whatever they have got so far is right, and nothing more is to come there.
    fn spoil(&mut self, key: Key) {
        let Some(bridged) = &mut self.bridged else { return };
        let number = bridged.number(key);
        let Some(keys) = bridged.spoil(&self.endpoints, number) else { return };
        self.counters.bridges.spoiled += 1;
        for one in keys.into_iter().flatten() {
            // Each receive ends with that, as the one does that has found it.
            self.endpoints.at_mut(one.index).mark_news();
            if one != key {
                self.queue(one);
            }
        }
    }

    /// Gives a direction back to the program, if the lane has nothing of it.
    fn rest_bridged(&mut self, number: u32) {
        let Some(bridged) = &mut self.bridged else { return };
        let Some(key) = bridged.side(number).key else { return };
        let rests = bridged.with(&self.endpoints, number, |side, at| side.direction.rest(at));
        if !rests {
            return;
        }
        self.tell(key, Bridging::Quiet);
        let Some(bridged) = &mut self.bridged else { return };
        let is_quiet = bridged.with(&self.endpoints, number, |side, at| side.direction.is_quiet(at));
        if !is_quiet {
            self.tell(key, Bridging::Told);
        }
    }

    /// Bytes that the kernel has passed on from it, and that its lane was not told of.
    pub(super) fn take_unseen(&mut self, key: Key) -> u64 {
        let Some(bridged) = self.bridged.as_mut().filter(|bridged| bridged.numbers.get(key).is_some()) else { return 0 };
        let number = bridged.number(key);
        let bytes = bridged.with(&self.endpoints, number, |side, at| {
            side.direction.look(at);
            side.direction.redirected - std::mem::replace(&mut side.told, side.direction.redirected)
        });
        self.counters.bridges.bytes += bytes;
        bytes
    }

    /// Takes a direction to the lane of which something has passed there, though the lane believes that the program has it: should a bell ever fail, bytes come late and not never.
    fn look_for_bell(&mut self, key: Key) {
        let Some(bridged) = self.bridged.as_mut().filter(|_| self.endpoints.at(key.index).bridging == Bridging::Quiet) else {
            return;
        };
        let number = bridged.number(key);
        if !bridged.with(&self.endpoints, number, |side, at| side.direction.is_quiet(at)) {
            self.tell(key, Bridging::Told);
            self.endpoints.at_mut(key.index).mark_news();
        }
    }

    /// Ends the receive under way with how many bytes were passed on unseen, if there are some.
    pub(super) fn tell_unseen(&mut self, key: Key, completions: &mut Vec<Completion>) {
        let Some(endpoint) = self.endpoints.get(key) else { return };
        if matches!(endpoint.receiving, Receiving::Bytes | Receiving::Piped(_)) {
            // Whoever starves looks again.
            self.leave_list(key);
            self.look_for_bell(key);
            let bytes = self.take_unseen(key);
            if bytes > 0 {
                self.end_receive(key, StreamOutcome::Unseen { bytes }.into(), completions);
            } else {
                self.queue(key);
            }
        }
    }

    /// Whether a send to it, or its end, may go now; else it is looked at again.
    pub(super) fn may_give(&mut self, key: Key) -> bool {
        let Some(bridged) = &mut self.bridged else { return true };
        let may = bridged.may_give(&self.endpoints, key);
        if !may {
            bridged.wait_for(key);
        }
        may
    }

    /// The lane has sent so many bytes to it.
    pub(super) fn gave_bridged(&mut self, key: Key, bytes: usize) {
        let Some(bridged) = &mut self.bridged else { return };
        let towards = bridged.number(key) ^ 1;
        if bridged.with(&self.endpoints, towards, |side, at| side.direction.gave(bytes, at)) {
            return self.tell_of_all(towards);
        }
        self.rest_bridged(towards);
    }

    /// Has the program redirect nothing more to it, since its end comes: what comes for it is the lane's.
    pub(super) fn stop_towards(&mut self, key: Key) {
        let Some(bridged) = &mut self.bridged else { return };
        let towards = bridged.number(key) ^ 1;
        if bridged.with(&self.endpoints, towards, |side, at| side.direction.stop(at)) {
            self.tell_of_all(towards);
        }
    }

    /// The lane has a direction, if its connection is there still, and is told of all that comes.
    fn tell_of_all(&mut self, number: u32) {
        let pair = self.bridged.as_mut().and_then(|bridged| bridged.pairs.find(number >> 1));
        if let Some(key) = pair.and_then(|pair| pair.sides[number as usize & 1].key) {
            self.tell(key, Bridging::Told);
            self.endpoints.at_mut(key.index).mark_news();
            self.queue(key);
        }
    }

    /// Ends our side of it, now or once all before has gone.
    pub(super) fn finish_bridged(&mut self, key: Key) {
        if self.is_spoiled(key) {
            // An end would say that all has come.
            return self.finishes(key, false);
        }
        self.stop_towards(key);
        let may = self.may_give(key);
        self.finishes(key, !may);
        if may {
            sockets::finish(self.endpoints.at(key.index).descriptor.as_fd());
        }
    }

    /// Notes whether its end waits.
    fn finishes(&mut self, key: Key, finishes: bool) {
        if let Some(bridged) = &mut self.bridged {
            let number = bridged.number(key);
            bridged.side(number).finishes = finishes;
        }
    }

    /// Whether its pair is to be broken off: no byte of it is worth a wait.
    pub(super) fn is_spoiled(&self, key: Key) -> bool {
        self.bridged.as_ref().is_some_and(|bridged| bridged.pairs.at(bridged.number(key) >> 1).is_spoiled)
    }

    /// It was broken off.
    pub(super) fn broke_bridged(&mut self, key: Key) {
        if let Some(bridged) = &mut self.bridged {
            let number = bridged.number(key);
            bridged.side(number).is_broken = true;
        }
    }

    /// One of a pair is closed, and is no endpoint any more: now, or once all has gone that was redirected to it.
    pub(super) fn close_bridged(&mut self, (key, endpoint): (Key, Endpoint), (handle, waits): (Handle, bool)) {
        // reason: an endpoint that says so has one.
        let bridged = self.bridged.as_mut().expect("one of a pair has its bridge");
        bridged.bridge.leave(endpoint.descriptor.as_fd());
        // reason: as above.
        let number = bridged.numbers.remove(key).expect("one of a pair has its direction");
        bridged.side(number).key = None;
        if waits {
            bridged.pairs.at_mut(number >> 1).departing += 1;
            let now = clock::now();
            let (until, at) = (now + CLOSE_LIMIT, tick(now, LOOK_AGAIN));
            bridged.departing.push(Departing { bits: key.bits(), endpoint, handle, until, number, at, pause: LOOK_AGAIN });
            bridged.look_at = bridged.look_at.min(at);
        } else {
            bridged.forget(number);
            self.release(key, endpoint);
            self.closing.push((key.bits(), handle));
        }
    }

    /// The wait, but for no longer than until those are looked at that wait for the kernel.
    pub(super) fn wait_with_bridged(&self, wait: Wait) -> Wait {
        let first = self.bridged.as_ref().map_or(u64::MAX, |bridged| bridged.look_at);
        match wait {
            _ if first == u64::MAX => wait,
            Wait::No => Wait::No,
            Wait::Until(until) => Wait::Until(until.min(first)),
            Wait::Forever => Wait::Until(first),
        }
    }

    /// How many pairs there are, and what is counted of them.
    pub(super) fn bridge_counters(&self) -> BridgeCounters {
        let pairs = self.bridged.as_ref().map_or(0, |bridged| bridged.pairs.len() as u64);
        BridgeCounters { pairs, ..self.counters.bridges }
    }
}
