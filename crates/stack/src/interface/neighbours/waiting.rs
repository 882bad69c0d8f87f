//! Frames that wait for the link address of who gets them: beside the cache, which knows nothing of frames.

use corelane_seam::Frame;
use corelane_wire::packet::ethernet::Mac;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

/// Frames that wait for one answer at most: more than the longest datagram is cut into.
pub const WAITING_MAX: usize = 64;
/// The part of a port's frames that may wait for answers, and as large a part that its interfaces have apart.
pub(super) const WAITING_PART: usize = 8;

/// What is to be sent: the headers of the link lack the address.
#[derive(Debug)]
pub(super) struct Waiting {
    by: BTreeMap<IpAddr, VecDeque<Frame>>,
    /// Frames of this interface, and of all interfaces of the port; how many there may be of all, and of these how many nobody else may have.
    frames: usize,
    of_all: Rc<Cell<usize>>,
    most: usize,
    own: usize,
    spare: Vec<VecDeque<Frame>>,
    /// Storage that is kept.
    spare_max: usize,
}

impl Waiting {
    /// For so many answers at most, at one of so many interfaces of a port with so many frames: together they have an eighth of these, and each its own part of another.
    pub fn new(answers: usize, port_frames: usize, among: usize, of_all: Rc<Cell<usize>>) -> Self {
        let most = (port_frames / WAITING_PART).max(1);
        let own = (most / among.max(1)).max(1);
        Self { by: BTreeMap::new(), frames: 0, of_all, most, own, spare: Vec::new(), spare_max: answers / among.max(1) }
    }

    /// Whether a packet of so many frames can wait at all.
    pub fn can_hold(&self, frames: usize) -> bool {
        frames <= WAITING_MAX.min(self.most)
    }

    /// Whether so many frames more have room.
    pub fn has_room(&self, to: IpAddr, frames: usize) -> bool {
        let is_free = self.frames + frames <= self.own || self.of_all.get() + frames <= self.most;
        is_free && self.of(to) + frames <= WAITING_MAX
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    fn add_to(&mut self, frames: usize) {
        self.frames += frames;
        self.of_all.set(self.of_all.get() + frames);
        assert!(self.frames <= self.most.max(self.own), "what waits for answers is bounded");
    }

    fn take_from(&mut self, frames: usize) {
        assert!(self.frames >= frames && self.of_all.get() >= frames, "a frame that waits was counted");
        self.frames -= frames;
        self.of_all.set(self.of_all.get() - frames);
    }

    /// Frames that wait for one.
    pub fn of(&self, to: IpAddr) -> usize {
        self.by.get(&to).map_or(0, VecDeque::len)
    }

    /// A packet waits.
    pub fn add(&mut self, to: IpAddr, packet: impl ExactSizeIterator<Item = Frame>) {
        self.add_to(packet.len());
        let Self { by, spare, .. } = self;
        let storage = || spare.pop().unwrap_or_else(|| VecDeque::with_capacity(WAITING_MAX));
        by.entry(to).or_insert_with(storage).extend(packet);
    }

    /// Drops the packet that has waited longest for `to`; returns its frames.
    pub fn push_out(&mut self, to: IpAddr) -> u64 {
        let Some(waiting) = self.by.get_mut(&to) else { return 0 };
        let mut frames = 0;
        while let Some(frame) = waiting.pop_front() {
            frames += 1;
            if !frame.facts.continues {
                break;
            }
        }
        self.take_from(frames);
        frames as u64
    }

    /// Drops what waits for `to`; returns how many frames that were.
    pub fn give_up(&mut self, to: IpAddr) -> u64 {
        let waiting = self.by.remove(&to).unwrap_or_default();
        let frames = waiting.len();
        self.keep(waiting, frames);
        frames as u64
    }

    /// Hands out what waits for `to`, who is given up.
    pub fn take(&mut self, to: IpAddr, lost: &mut Vec<Frame>) {
        let mut waiting = self.by.remove(&to).unwrap_or_default();
        let frames = waiting.len();
        lost.extend(waiting.drain(..));
        self.keep(waiting, frames);
    }

    /// What waits for `to` is appended to `freed`, each packet with his address.
    pub fn free(&mut self, to: IpAddr, mac: Mac, freed: &mut Vec<Frame>) {
        let Some(mut waiting) = self.by.remove(&to) else { return };
        let frames = waiting.len();
        for mut frame in waiting.drain(..) {
            if freed.last().is_none_or(|before| !before.facts.continues) {
                frame[..6].copy_from_slice(&mac.0);
            }
            freed.push(frame);
        }
        self.keep(waiting, frames);
    }

    /// Keeps the storage of what waited.
    fn keep(&mut self, mut waiting: VecDeque<Frame>, frames: usize) {
        self.take_from(frames);
        waiting.clear();
        if self.spare.len() < self.spare_max && waiting.capacity() > 0 {
            self.spare.push(waiting);
        }
    }
}
