//! Memory of sends that have ended and that the system still reads: when it is released, in what order, and what becomes of what never is.

use crate::check::Violation;
use crate::faults::{FaultKind, Planted};
use crate::lane::Held;
use crate::state::{Event, State};
use corelane_seam::{Outcome, RELEASE_LIMIT, Socket, nanoseconds};

impl State {
    /// Whether the memory of a send that ends now is released later.
    pub(super) fn is_to_hold(&mut self) -> bool {
        self.keeps_sends || self.strikes(FaultKind::LateRelease)
    }

    /// Keeps a send's memory for some time after its end, or for as long as the world says.
    pub(super) fn hold(&mut self, lane: usize, held: Held) {
        if let Some(slot) = self.lanes[lane].sockets.get(held.socket) {
            slot.holds += 1;
        }
        let number = held.asked.number;
        self.lanes[lane].held.insert(number, held);
        if !self.keeps_sends {
            let delay = self.random.delay();
            self.clock.after(delay, Event::Release { lane, number });
        }
    }

    /// The system reads the memory of a send no longer, which it may find of a later one first: that is released behind those before it on its socket.
    pub(crate) fn release(&mut self, lane: usize, number: u64) {
        let Some(held) = self.lanes[lane].held.get_mut(&number) else { return };
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
            own.withheld.push(held.chain);
        }
        self.complete_close(lane, socket);
    }
}
