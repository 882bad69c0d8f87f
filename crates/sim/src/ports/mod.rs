//! What happens at interfaces and on wires, and the ports that lanes have there.

mod interface;
mod port;

pub use interface::Interface;
pub use port::SimPort;

use crate::log::{Detail, Site};
use crate::state::{Event, State, World};
use crate::wire::{CardSetup, Outgoing, WireCounts, WireFaults};

/// The longest time for which an interface is down, in nanoseconds.
const DOWN_MAX: u64 = 5_000_000;

impl World {
    /// A new interface, joined to nothing.
    pub fn interface(&self, setup: CardSetup) -> Interface {
        let card = self.0.borrow_mut().wire.add(setup);
        Interface { world: self.clone(), card }
    }

    /// Joins interfaces: two by a cable, more by a switch, which learns where addresses are.
    ///
    /// # Panics
    /// If one of them is joined already.
    pub fn join(&self, interfaces: &[&Interface]) {
        self.0.borrow_mut().wire.join(interfaces.iter().map(|interface| interface.card).collect());
    }

    /// What may go wrong on the wires of this world from now on; nothing before.
    pub fn wire_faults(&self, faults: WireFaults) {
        self.0.borrow_mut().wire.faults = faults;
    }

    /// What has happened on the wires.
    pub fn wire_counts(&self) -> WireCounts {
        self.0.borrow().wire.counts
    }
}

impl State {
    /// The interface has read the next packet of a queue: it is on its way, and its memory may be released.
    pub(crate) fn frame_leaves(&mut self, card: usize, queue: usize, epoch: u32) {
        let own = &mut self.wire.cards[card].queues[queue];
        if own.epoch != epoch {
            return;
        }
        let Some(Outgoing { bytes, frames }) = own.outgoing.pop_front() else { return };
        self.log.note(self.clock.now(), Site::Card(card), "sends", Detail::Amount(bytes.len() as u64));
        if self.wire.cards[card].is_up {
            self.carry(card, bytes);
        } else {
            self.wire.counts.down += 1;
        }
        if self.wire_strikes(|faults| faults.late_release) {
            self.wire.counts.late_releases += 1;
            let delay = self.random.delay();
            return self.clock.after(delay, Event::FrameRead { card, queue, epoch, frames });
        }
        self.frame_read(card, queue, epoch, frames);
    }

    /// The memory of so many more frames of a queue is no longer read.
    pub(crate) fn frame_read(&mut self, card: usize, queue: usize, epoch: u32, frames: u64) {
        let own = &mut self.wire.cards[card].queues[queue];
        if own.epoch == epoch {
            own.read += frames;
            self.wake_queue(card, queue);
        }
    }

    /// Brings a frame to all that it is for.
    pub(crate) fn carry(&mut self, from: usize, bytes: Vec<u8>) {
        for to in self.wire.receivers(from, &bytes) {
            let mut bytes = bytes.clone();
            if self.wire_strikes(|faults| faults.loss) {
                self.wire.counts.lost += 1;
                continue;
            }
            if !bytes.is_empty() && self.wire_strikes(|faults| faults.corrupt) {
                self.wire.counts.corrupted += 1;
                let at = self.random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.random.below(8);
            }
            if self.wire_strikes(|faults| faults.duplicate) {
                self.wire.counts.duplicated += 1;
                self.travel(to, bytes.clone());
            }
            self.travel(to, bytes);
        }
    }

    fn travel(&mut self, to: usize, bytes: Vec<u8>) {
        let mut arrival = self.clock.now() + self.latency();
        if self.wire_strikes(|faults| faults.delay) {
            self.wire.counts.delayed += 1;
            arrival += self.random.delay();
        }
        let card = &mut self.wire.cards[to];
        // Frames of a cable come one after the other, unless one is overtaken.
        let in_order = arrival.max(card.last_arrival);
        card.last_arrival = in_order;
        let overtakes = self.wire_strikes(|faults| faults.reorder);
        self.wire.counts.reordered += u64::from(overtakes && arrival < in_order);
        self.clock.at(if overtakes { arrival } else { in_order }, Event::Frame { card: to, bytes });
    }

    /// A frame reaches an interface.
    pub(crate) fn frame_arrives(&mut self, card: usize, mut bytes: Vec<u8>) {
        if self.wire_strikes(|faults| faults.down) && self.wire.cards[card].is_up {
            self.wire.counts.downs += 1;
            self.set_up(card, false);
            let delay = self.random.below(DOWN_MAX);
            self.clock.after(delay, Event::CardUp { card });
        }
        let now = self.clock.now();
        let own = &mut self.wire.cards[card];
        if !own.is_up {
            self.wire.counts.down += 1;
            return;
        }
        // A card that looks at none draws nothing, so that its runs stay what they were.
        let looks = own.setup.offloads && self.random.below(2) == 0;
        let facts = own.facts(&mut bytes, now, looks);
        let queue = own.queue_of(&facts);
        let Some(lane) = own.queues[queue].take_in(bytes, facts) else {
            self.wire.counts.missed += 1;
            return;
        };
        self.log.note(now, Site::Card(card), "takes in", Detail::Amount(queue as u64));
        if let Some(lane) = lane {
            self.lanes[lane].port_news = true;
        }
    }

    /// An interface goes down or comes up.
    pub(crate) fn set_up(&mut self, card: usize, is_up: bool) {
        self.wire.cards[card].is_up = is_up;
        for queue in 0..self.wire.cards[card].queues.len() {
            self.wake_queue(card, queue);
        }
    }

    /// An interface that chance took down comes up again, unless it is gone.
    pub(crate) fn come_up(&mut self, card: usize) {
        if !self.wire.cards[card].is_gone {
            self.set_up(card, true);
        }
    }

    /// Gives the lane of a queue's port a reason to look.
    pub(crate) fn wake_queue(&mut self, card: usize, queue: usize) {
        if let Some(lane) = self.wire.cards[card].queues[queue].lane {
            self.lanes[lane].port_news = true;
        }
    }

    fn wire_strikes(&mut self, chance: impl FnOnce(&WireFaults) -> u16) -> bool {
        let chance = u64::from(chance(&self.wire.faults));
        // A world without such faults draws nothing, so that its runs stay what they were.
        chance > 0 && self.random.below(1000) < chance
    }
}
