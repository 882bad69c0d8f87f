//! A port on the simulated wire.

use super::Interface;
use crate::check::{Tally, Violation};
use crate::faults::Planted;
use crate::state::{Event, World};
use crate::wire::{Outgoing, Queue, tag_bytes};
use corelane_seam::{
    Fault, Frame, FrameFacts, FrameMemory, Link, Lost, Offload, Port, PortFacts, PortKind, PortState, Reason, Taken,
};
use std::collections::VecDeque;
use std::rc::Rc;

/// The interface is down (ENETDOWN).
const DOWN: Fault = Fault { reason: Reason::Down, number: 100 };
/// The interface is gone (ENODEV).
const GONE: Fault = Fault { reason: Reason::NoInterface, number: 19 };
/// Another port has the queue (EBUSY).
const TAKEN: Fault = Fault { reason: Reason::Busy, number: 16 };

/// Frames that a packet may lie in, as at the ports of Linux.
const PIECES_MAX: usize = 17;

fn room(memory: &FrameMemory) -> usize {
    memory.frame_bytes() - Frame::HEADROOM
}

/// Memory that the interface reads.
enum Reading {
    Lent {
        index: u32,
        start: usize,
        length: usize,
    },
    /// A frame of another region.
    Kept(Frame),
}

/// One queue of a simulated interface.
pub struct SimPort {
    world: World,
    card: usize,
    queue: usize,
    memory: FrameMemory,
    /// Frames lent to be received into, at the most, and sent ones that are not released.
    ring: usize,
    /// Frames that a packet may lie in.
    pieces_max: usize,
    given: VecDeque<u32>,
    sending: VecDeque<(Reading, Tally)>,
    taken: u64,
    released: u64,
    /// Frames that nobody was at the other end for.
    unheard: u64,
    /// The last frame that was handed over, for the planted bug that does it again.
    last: Option<u32>,
    /// What a planted bug never takes back.
    is_stuck: bool,
    /// Who is told of ways, as a fast path would be.
    offload: Option<Rc<dyn Offload>>,
}

impl SimPort {
    /// Opens a queue of `interface`, which receives into `memory`, with rings of `ring` frames. `lane` is the number of the driver that will
    /// have it.
    ///
    /// # Errors
    /// `NoInterface` for a queue that is not there or an interface that is gone, `Busy` if the queue has a port.
    pub fn open(interface: &Interface, queue: usize, lane: usize, memory: FrameMemory, ring: usize) -> Result<Self, Fault> {
        let (world, card) = (interface.world.clone(), interface.card);
        let pieces_max = {
            let card = &mut world.0.borrow_mut().wire.cards[card];
            let is_there = !card.is_gone && queue < card.setup.queues;
            let pieces_max = card.setup.frame_bytes_max.div_ceil(room(&memory)).clamp(1, PIECES_MAX.min(ring));
            let place = card.queues.get_mut(queue).filter(|_| is_there).ok_or(GONE)?;
            if place.is_open() {
                return Err(TAKEN);
            }
            place.set_open(true);
            (place.lane, place.room, place.pieces_max) = (Some(lane), room(&memory), pieces_max);
            pieces_max
        };
        let (given, sending) = (VecDeque::with_capacity(ring), VecDeque::with_capacity(ring));
        let mut port = Self {
            world,
            card,
            queue,
            memory,
            ring,
            pieces_max,
            given,
            sending,
            taken: 0,
            released: 0,
            unheard: 0,
            last: None,
            is_stuck: false,
            offload: None,
        };
        port.give();
        Ok(port)
    }

    /// With somebody who is told of ways, as a fast path would be ([`Port::offload`]). Packets come to the lane all the same.
    #[must_use]
    pub fn telling(mut self, offload: Rc<dyn Offload>) -> Self {
        self.offload = Some(offload);
        self
    }

    /// Lends free frames to be received into.
    fn give(&mut self) {
        while self.given.len() < self.ring {
            let Some(frame) = self.memory.frame() else { break };
            // reason: it was just taken from this memory.
            let (index, _) = self.memory.lend(frame).expect("a frame of the port's memory");
            self.given.push_back(index);
        }
        let given = self.given.len();
        self.with_queue(|queue| queue.given = given);
    }

    fn fault(&self) -> Option<Fault> {
        let state = self.world.0.borrow();
        let card = &state.wire.cards[self.card];
        if card.is_gone { Some(GONE) } else { (!card.is_up).then_some(DOWN) }
    }

    fn with_queue<R>(&self, look: impl FnOnce(&mut Queue) -> R) -> R {
        look(&mut self.world.0.borrow_mut().wire.cards[self.card].queues[self.queue])
    }

    fn plants(&self, bug: Planted) -> bool {
        self.world.0.borrow_mut().plants(bug)
    }

    /// The next frame that was given to be received into; none if a planted bug made that of it.
    fn take_given(&mut self, length: usize) -> Option<Frame> {
        let repeated = self.last.filter(|_| self.plants(Planted::RepeatedFrame));
        // reason: a queue takes in no more than was lent.
        let index = repeated.or_else(|| self.given.pop_front()).expect("what has arrived lies in a frame that was lent");
        let Ok(frame) = self.memory.take_back(index, Frame::HEADROOM, length) else {
            self.with_queue(|queue| queue.blame(Violation::FrameTwice { interface: self.card, index }));
            return None;
        };
        if self.plants(Planted::LostFrame) {
            return None;
        }
        self.last = Some(index);
        Some(frame)
    }

    /// Moves the next packet behind the frames in `into`, of which `left` more may come; false if none has arrived, or it comes with the next batch.
    /// One that never fits into `at_most` is lost.
    fn take_packet(&mut self, left: usize, at_most: usize, into: &mut Vec<Frame>) -> bool {
        let Some(pieces) = self.with_queue(|queue| queue.arrived.front().map(|arrived| arrived.pieces)) else { return false };
        if pieces > left && pieces <= at_most {
            return false;
        }
        let Some(arrived) = self.with_queue(Queue::hand_over) else { return false };
        let room = self.room();
        let mut parts = arrived.bytes.chunks(room);
        for number in 0..pieces {
            let part = parts.next().unwrap_or_default();
            let Some(mut frame) = self.take_given(part.len()) else { return true };
            frame.copy_from_slice(part);
            frame.facts = if number == 0 { arrived.facts } else { FrameFacts::default() };
            frame.facts.continues = number + 1 < pieces;
            into.extend(Some(frame).filter(|_| pieces <= at_most));
        }
        self.with_queue(|queue| queue.handed_over += 1);
        true
    }

    /// Bytes that a frame has room for.
    fn room(&self) -> usize {
        room(&self.memory)
    }

    /// Whether the interface sends a packet that lies in these frames.
    fn is_sent(&self, packet: &[Frame], most: usize) -> bool {
        let bytes: usize = packet.iter().map(|frame| frame.len()).sum();
        let is_whole = packet.iter().all(|frame| !frame.is_empty()) && packet.last().is_some_and(|last| !last.facts.continues);
        // A tag is beside the longest packet, as at the interfaces of Linux.
        is_whole && packet.len() <= self.pieces_max && bytes <= most + tag_bytes(&packet[0])
    }

    /// How many frames can be worked off now: those of whole packets that are refused, or that there are places for.
    fn acceptable(&self, frames: &[Frame], most: usize) -> usize {
        let (mut places, mut count) = (self.ring - self.sending.len(), 0);
        for packet in Frame::packets(frames) {
            let needed = if self.is_sent(packet, most) { packet.len() } else { 0 };
            // Behind what waits nothing leaves, and nothing is refused.
            if needed > places || places == 0 {
                break;
            }
            (places, count) = (places - needed, count + packet.len());
        }
        count
    }

    fn begin(&mut self, packet: impl Iterator<Item = Frame>) {
        let (mut bytes, mut frames) = (Vec::new(), 0);
        for frame in packet {
            let mut tally = Tally::default();
            tally.add(&frame);
            bytes.extend_from_slice(&frame);
            let length = frame.len();
            let reading = match self.memory.lend(frame) {
                Ok((index, start)) => Reading::Lent { index, start, length },
                Err(frame) => Reading::Kept(frame),
            };
            self.sending.push_back((reading, tally));
            frames += 1;
        }
        self.taken += frames;
        let state = &mut *self.world.0.borrow_mut();
        let earliest = state.clock.now() + state.random.below(20_000);
        let queue = &mut state.wire.cards[self.card].queues[self.queue];
        queue.outgoing.push_back(Outgoing { bytes, frames });
        queue.leaves_at = queue.leaves_at.max(earliest);
        let leaves = Event::FrameLeaves { card: self.card, queue: self.queue, epoch: queue.epoch };
        state.clock.at(queue.leaves_at, leaves);
    }

    /// Takes the memory of the oldest frame back, and looks whether it is as it was.
    fn take_back(&mut self) {
        // reason: the interface reads no more than it was given.
        let (reading, tally) = self.sending.pop_front().expect("no more is released than was sent");
        self.released += 1;
        let frame = match reading {
            Reading::Kept(frame) => frame,
            Reading::Lent { index, start, length } => match self.memory.take_back(index, start, length) {
                Ok(frame) => frame,
                Err(_) => return self.with_queue(|queue| queue.blame(Violation::FrameTwice { interface: self.card, index })),
            },
        };
        let mut now = Tally::default();
        now.add(&frame);
        if now != tally {
            self.with_queue(|queue| queue.blame(Violation::FrameChanged { interface: self.card }));
        }
    }

    /// How many frames the interface no longer reads; one more, if the planted bug wants it.
    fn read(&mut self) -> u64 {
        let read = self.with_queue(|queue| queue.read);
        let is_early = read < self.taken && self.plants(Planted::EarlyFrameRelease);
        if is_early {
            self.with_queue(|queue| queue.blame(Violation::FrameReleasedEarly { interface: self.card }));
        }
        self.is_stuck |= read > self.released && self.plants(Planted::LostFrameRelease);
        read.max(self.released) + u64::from(is_early && read >= self.released)
    }
}

impl Port for SimPort {
    fn offload(&self) -> Option<Rc<dyn Offload>> {
        self.offload.clone()
    }

    fn facts(&self) -> PortFacts {
        let state = self.world.0.borrow();
        let card = &state.wire.cards[self.card];
        let link = Link { interface: self.card as u32 + 1, mac: card.link_address() };
        PortFacts {
            link,
            queue: self.queue as u32,
            frame_bytes_max: card.setup.frame_bytes_max,
            pieces_max: self.pieces_max,
            kind: PortKind::Simulated,
            leaves_sums: card.setup.leaves_sums,
        }
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn state(&self) -> PortState {
        let has_carrier = self.world.0.borrow().wire.cards[self.card].has_carrier;
        match self.fault() {
            Some(GONE) => PortState::Gone,
            Some(_) => PortState::Down,
            None if !has_carrier => PortState::NoCarrier,
            None => PortState::Up,
        }
    }

    fn has_more(&self) -> bool {
        self.fault().is_some() || self.with_queue(|queue| !queue.arrived.is_empty())
    }

    fn receive(&mut self, _now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        let first = into.len();
        while into.len() - first < at_most && self.take_packet(at_most - (into.len() - first), at_most, into) {}
        self.give();
        match self.fault().filter(|_| into.is_empty()) {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    fn send(&mut self, _now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        if self.state() == PortState::NoCarrier {
            let refused = frames.drain(..).count() as u64;
            self.unheard += refused;
            return Ok(Taken { taken: 0, refused });
        }
        let most = self.facts().frame_bytes_max;
        let mut taken = Taken::default();
        let acceptable = self.acceptable(frames, most);
        let mut rest = frames.drain(..acceptable);
        loop {
            let Some(pieces) = Frame::packets(rest.as_slice()).next().map(<[Frame]>::len) else { break };
            if self.is_sent(&rest.as_slice()[..pieces], most) {
                taken.taken += pieces as u64;
                self.begin(rest.by_ref().take(pieces));
            } else {
                taken.refused += pieces as u64;
                rest.by_ref().take(pieces).for_each(drop);
            }
        }
        drop(rest);
        Ok(taken)
    }

    fn lost(&mut self) -> Lost {
        Lost { send_lost: self.unheard, ..Lost::default() }
    }

    fn released(&mut self, _now: u64) -> u64 {
        let read = self.read();
        while self.released < read && !self.is_stuck {
            self.take_back();
        }
        self.released
    }
}

impl Drop for SimPort {
    fn drop(&mut self) {
        // The system takes the queue away; what the interface had is the lane's again.
        for index in self.given.drain(..) {
            drop(self.memory.take_back(index, 0, 0));
        }
        if !self.is_stuck {
            for (reading, _) in self.sending.drain(..) {
                if let Reading::Lent { index, start, length } = reading {
                    drop(self.memory.take_back(index, start, length));
                }
            }
        }
        self.with_queue(|queue| queue.set_open(false));
    }
}

impl std::fmt::Debug for SimPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimPort(interface {}, queue {})", self.card, self.queue)
    }
}
