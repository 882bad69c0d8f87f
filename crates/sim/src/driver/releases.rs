//! Memory of sends that have ended and that the system still reads: when it is released, in what order, and what becomes of what never is.

use crate::check::Violation;
use crate::faults::{FaultKind, Planted};
use crate::lane::{Held, SharedPages};
use crate::state::{Event, State};
use corelane_seam::{Outcome, RELEASE_LIMIT, Socket, nanoseconds};
use std::collections::VecDeque;

/// How long a receiver may have a sender's pages, in nanoseconds: then its system copies what it keeps.
const SHARED_AT_MOST: u64 = 1_000_000_000;

/// Until when the memory of a send is held.
pub(crate) enum Hold {
    /// For as long as the world says.
    Kept,
    /// For some time.
    Late,
    /// Until the receiver has read it, or its system has copied what it keeps for it.
    Shared(SharedPages),
}

impl State {
    /// Whether, and how, the memory of a send of so many bytes that ends now is released later.
    pub(super) fn is_to_hold(&mut self, lane: usize, socket: Socket, bytes: usize) -> Option<Hold> {
        if self.keeps_sends {
            return Some(Hold::Kept);
        }
        if self.strikes(FaultKind::LateRelease) {
            return Some(Hold::Late);
        }
        let at = self.lanes[lane].sockets.stream(socket).map(|at| (at.stream, at.side));
        let (stream, side) = at.filter(|_| bytes > 0 && self.faults.chance(FaultKind::SharedPages) > 0)?;
        let pipe = &self.net.streams.get(stream)?.pipes[side];
        let end = pipe.taken.bytes;
        let is_there = pipe.passed() < end;
        (is_there && self.strikes(FaultKind::SharedPages)).then_some(Hold::Shared(SharedPages {
            stream,
            side,
            places: end - bytes as u64..end,
        }))
    }

    /// Keeps a send's memory after its end.
    pub(super) fn hold(&mut self, lane: usize, mut held: Held, hold: Hold) {
        if let Some(slot) = self.lanes[lane].sockets.get(held.socket) {
            slot.holds += 1;
        }
        let number = held.asked.number;
        match hold {
            Hold::Kept => {}
            Hold::Late => {
                let delay = self.random.delay();
                self.clock.after(delay, Event::Release { lane, number });
            }
            Hold::Shared(shared) => {
                self.shared.entry((shared.stream, shared.side)).or_default().push_back((lane, number));
                let delay = SHARED_AT_MOST + self.random.delay();
                self.clock.after(delay, Event::Release { lane, number });
                held.shared = Some(shared);
            }
        }
        self.lanes[lane].held.insert(number, held);
    }

    /// Bytes of a stream were read, or are gone: what the receiver had the pages of is released.
    pub(crate) fn release_passed(&mut self, stream: u64, side: usize) {
        if self.shared.is_empty() {
            return;
        }
        let passed = self.net.streams.get(stream).map(|stream| stream.pipes[side].passed());
        while let Some(&(lane, number)) = self.shared.get(&(stream, side)).and_then(VecDeque::front) {
            let end = self.lanes[lane].held.get(&number).and_then(|held| held.shared.as_ref()).map(|shared| shared.places.end);
            if passed.zip(end).is_some_and(|(passed, end)| passed < end) {
                return;
            }
            self.shared.get_mut(&(stream, side)).map(VecDeque::pop_front);
            self.release(lane, number);
        }
        self.shared.remove(&(stream, side));
    }

    /// The receiver has acknowledged bytes of a stream: only a planted bug takes that for the end of its reading.
    pub(crate) fn note_acknowledged(&mut self, stream: u64, side: usize) {
        let Some(&(lane, number)) = self.shared.get(&(stream, side)).and_then(VecDeque::front) else { return };
        let Some(places) = self.lanes[lane].held.get(&number).and_then(|held| Some(held.shared.as_ref()?.places.clone())) else {
            return;
        };
        let pipe = &mut self.net.held(stream).pipes[side];
        if pipe.acknowledged() >= places.end && pipe.passed() < places.end && self.plants(Planted::ReleaseAtAcknowledgement) {
            self.net.held(stream).pipes[side].overwrite(places);
            self.shared.get_mut(&(stream, side)).map(VecDeque::pop_front);
            self.release(lane, number);
        }
    }

    /// The system reads the memory of a send no longer, which it may find of a later one first: that is released behind those before it on its socket.
    pub(crate) fn release(&mut self, lane: usize, number: u64) {
        let Some(held) = self.lanes[lane].held.get_mut(&number).filter(|held| !held.is_never) else { return };
        held.is_read = true;
        let socket = held.socket;
        if self.next_to_release(lane, socket) != Some(number) && self.plants(Planted::UnorderedRelease) {
            self.end_hold(lane, number);
        }
        while let Some(number) = self.next_to_release(lane, socket) {
            self.end_hold(lane, number);
        }
    }

    /// The system has read all that it kept.
    pub(crate) fn release_all(&mut self) {
        for lane in 0..self.lanes.len() {
            for number in self.lanes[lane].held.keys().copied().collect::<Vec<_>>() {
                self.release(lane, number);
            }
        }
    }

    fn next_to_release(&self, lane: usize, socket: Socket) -> Option<u64> {
        let (&number, held) = self.lanes[lane].held.iter().find(|(_, held)| held.socket == socket)?;
        held.is_read.then_some(number)
    }

    /// Releases it, unless somebody wrote to it meanwhile.
    fn end_hold(&mut self, lane: usize, number: u64) {
        let Some(held) = self.lanes[lane].held.remove(&number) else { return };
        if !held.is_unchanged() {
            self.ledger.blame(Violation::MemoryChanged { lane, handle: held.asked.handle });
        }
        let Held { asked, socket, .. } = held;
        let times = if self.plants(Planted::LostRelease) { 0 } else { 1 + usize::from(self.plants(Planted::DoubleRelease)) };
        (0..times).for_each(|_| self.complete(lane, asked, Some(socket), Outcome::Released));
        let Some(slot) = self.lanes[lane].sockets.get(socket) else { return };
        slot.holds -= 1;
        if slot.holds == 0 && slot.closing.is_some() {
            let waits = |event: &Event| matches!(event, Event::Withhold { lane: of, socket: on } if (*of, *on) == (lane, socket));
            self.clock.strike_out(waits);
        }
        self.complete_close(lane, socket);
    }

    /// A socket that is being closed waits for what the system still reads, but not for ever.
    pub(super) fn await_releases(&mut self, lane: usize, socket: Socket) {
        if self.lanes[lane].sockets.get(socket).is_some_and(|slot| slot.holds > 0) {
            if self.faults.chance(FaultKind::NeverRelease) > 0 && self.strikes(FaultKind::NeverRelease) {
                let own = self.lanes[lane].held.values_mut();
                own.filter(|held| held.socket == socket).for_each(|held| held.is_never = true);
            }
            self.clock.after(nanoseconds(RELEASE_LIMIT), Event::Withhold { lane, socket });
        }
    }

    /// That was too long: what the system still reads is nobody's any more, and the socket is closed.
    pub(crate) fn withhold(&mut self, lane: usize, socket: Socket) {
        let own = &mut self.lanes[lane];
        let Some(slot) = own.sockets.get(socket) else { return };
        slot.holds = 0;
        for (number, held) in own.held.extract_if(.., |_, held| held.socket == socket) {
            self.ledger.withhold(number);
            own.counters.sends.withheld_bytes += held.chain.charged() as u64;
            // Files that were sent are not withheld, but memory is.
            own.withheld.push(held.without_files());
        }
        self.complete_close(lane, socket);
    }
}
