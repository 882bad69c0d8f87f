//! Ports around ports: counting, and faults on purpose.

use crate::passing::of_inner;
use corelane_seam::{Fault, Frame, FrameMemory, Lost, Offload, Port, PortFacts, PortState, Taken, Worked};
use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// The counts of a [`CountedPort`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames received.
    pub received: u64,
    /// Bytes of them.
    pub received_bytes: u64,
    /// Frames that the interface has taken.
    pub sent: u64,
    /// Bytes of them, and of those refused.
    pub sent_bytes: u64,
    /// Frames that it refused.
    pub refused: u64,
}

/// Counts what passes.
#[derive(Debug)]
pub struct CountedPort<P: Port> {
    inner: P,
    counts: Rc<Cell<PortCounts>>,
}

impl<P: Port> CountedPort<P> {
    /// Around `inner`; the counts are read from the second value, on the same lane.
    pub fn new(inner: P) -> (Self, Rc<Cell<PortCounts>>) {
        let counts = Rc::new(Cell::default());
        (Self { inner, counts: Rc::clone(&counts) }, counts)
    }

    fn count(&self, change: impl FnOnce(&mut PortCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}

fn bytes(frames: &[Frame]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}

impl<P: Port> Port for CountedPort<P> {
    of_inner!(and when);

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        let before = into.len();
        let result = self.inner.receive(now, at_most, into);
        self.count(|counts| {
            counts.received += (into.len() - before) as u64;
            counts.received_bytes += bytes(&into[before..]);
        });
        result
    }

    fn send(&mut self, now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        let before = bytes(frames);
        let result = self.inner.send(now, frames);
        let Taken { taken, refused } = result.unwrap_or_default();
        self.count(|counts| {
            counts.sent += taken;
            counts.refused += refused;
            counts.sent_bytes += before - bytes(frames);
        });
        result
    }
}

/// How likely each fault is for a frame that arrives, in chances per 1,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFaults {
    /// It is lost.
    pub drop: u16,
    /// It arrives twice, if there is a frame for the copy.
    pub duplicate: u16,
    /// It arrives behind the next one.
    pub reorder: u16,
    /// One of its bytes is changed.
    pub corrupt: u16,
    /// It arrives later, by up to [`PortFaults::delay_nanoseconds`].
    pub delay: u16,
    /// The longest delay, in nanoseconds.
    pub delay_nanoseconds: u64,
}

/// How often each fault happened at a [`FaultyPort`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFaultCounts {
    /// Frames lost.
    pub dropped: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Frames that changed places.
    pub reordered: u64,
    /// Frames with a changed byte.
    pub corrupted: u64,
    /// Frames that came late.
    pub delayed: u64,
}

/// Frames that one port may delay at once; what is more is not delayed.
pub const DELAYED_MAX: usize = 256;

/// Does to what arrives what a bad network does, but for packets that lie in several frames: these pass as they are. Chance comes from whoever makes it,
/// so that a run can be repeated.
pub struct FaultyPort<P: Port, R: FnMut() -> u64> {
    inner: P,
    faults: PortFaults,
    random: R,
    counts: Rc<Cell<PortFaultCounts>>,
    arrived: Vec<Frame>,
    delayed: VecDeque<(u64, Frame)>,
}

impl<P: Port, R: FnMut() -> u64> FaultyPort<P, R> {
    /// Around `inner`; `random` returns 64 random bits. The counts are read from the second value, on the same lane.
    pub fn new(inner: P, faults: PortFaults, random: R) -> (Self, Rc<Cell<PortFaultCounts>>) {
        let counts = Rc::new(Cell::default());
        let (arrived, delayed) = (Vec::new(), VecDeque::with_capacity(DELAYED_MAX));
        (Self { inner, faults, random, counts: Rc::clone(&counts), arrived, delayed }, counts)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from((self.random)()) * u128::from(bound)) >> 64) as u64
    }

    fn strikes(&mut self, chance: u16, count: impl FnOnce(&mut PortFaultCounts) -> &mut u64) -> bool {
        let strikes = self.below(1000) < u64::from(chance);
        if strikes {
            let mut counts = self.counts.get();
            *count(&mut counts) += 1;
            self.counts.set(counts);
        }
        strikes
    }

    /// One frame arrives, with what happens to it.
    fn arrive(&mut self, now: u64, mut frame: Frame, into: &mut Vec<Frame>) {
        if frame.facts.continues || into.last().is_some_and(|before| before.facts.continues) {
            return into.push(frame);
        }
        if self.strikes(self.faults.drop, |counts| &mut counts.dropped) {
            return;
        }
        if !frame.is_empty() && self.strikes(self.faults.corrupt, |counts| &mut counts.corrupted) {
            let at = self.below(frame.len() as u64) as usize;
            frame[at] ^= 1 << self.below(8);
        }
        if let Some(copy) = self.copy_of(&frame) {
            into.push(copy);
        }
        let may_wait = self.delayed.len() < DELAYED_MAX;
        if may_wait && self.strikes(self.faults.delay, |counts| &mut counts.delayed) {
            let due = now + 1 + self.below(self.faults.delay_nanoseconds);
            return self.delayed.push_back((due, frame));
        }
        into.push(frame);
        let count = into.len();
        let is_alone = |index: usize| index == 0 || !into[index - 1].facts.continues;
        if count > 1 && is_alone(count - 2) && self.strikes(self.faults.reorder, |counts| &mut counts.reordered) {
            into.swap(count - 2, count - 1);
        }
    }

    /// Takes the frames that were delayed until now.
    fn take_due(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) {
        let (first, mut index) = (into.len(), 0);
        while index < self.delayed.len() && into.len() - first < at_most {
            match self.delayed[index].0 <= now {
                true => into.extend(self.delayed.remove(index).map(|(_, frame)| frame)),
                false => index += 1,
            }
        }
    }

    fn copy_of(&mut self, frame: &Frame) -> Option<Frame> {
        let mut copy = self.inner.memory().frame().filter(|copy| copy.room() >= frame.len())?;
        if !self.strikes(self.faults.duplicate, |counts| &mut counts.duplicated) {
            return None;
        }
        copy.append(frame);
        copy.facts = frame.facts;
        Some(copy)
    }
}

impl<P: Port, R: FnMut() -> u64> Port for FaultyPort<P, R> {
    of_inner!();

    fn wakes_at(&self) -> Option<u64> {
        let delayed = self.delayed.iter().map(|(due, _)| *due).min();
        self.inner.wakes_at().into_iter().chain(delayed).min()
    }

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        assert!(at_most > 1, "a receive through a port with faults has room for a frame and its copy");
        let first = into.len();
        self.take_due(now, at_most, into);
        // Each frame may come with a copy: what comes beyond the budget would be one too many, so an odd one is not asked for.
        let room = (at_most - (into.len() - first)) / 2;
        let mut arrived = std::mem::take(&mut self.arrived);
        let result = self.inner.receive(now, room, &mut arrived);
        for frame in arrived.drain(..) {
            self.arrive(now, frame, into);
        }
        self.arrived = arrived;
        result
    }

    fn send(&mut self, now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        self.inner.send(now, frames)
    }

    fn released(&mut self, now: u64) -> u64 {
        self.inner.released(now)
    }
}

impl<P: Port, R: FnMut() -> u64> std::fmt::Debug for FaultyPort<P, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FaultyPort({:?}, {:?})", self.inner, self.faults)
    }
}
