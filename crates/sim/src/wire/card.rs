//! Interfaces: queues, RSS, and their books.

use super::offloads::{self, ETHERNET_BYTES};
use crate::check::Violation;
use corelane_rss::{FlowHasher, Table, Verdict};
use corelane_seam::{Checksum, FrameFacts, FrameHash};
use std::collections::VecDeque;

/// Types of Ethernet whose packets are hashed: IPv4 and IPv6.
const HASHED: [[u8; 2]; 2] = [[0x08, 0x00], [0x86, 0xdd]];

/// What an interface is made of.
#[derive(Clone, Debug)]
pub struct CardSetup {
    /// Queues; 0 makes an interface of the test's own ([`Interface::send`](crate::Interface::send), [`Interface::take`](crate::Interface::take)).
    pub queues: usize,
    /// Its key and hash types, and the table whose lanes are its queues; without it all goes to queue 0.
    pub rss: Option<(FlowHasher, Table)>,
    /// Bytes of the longest frame.
    pub frame_bytes_max: usize,
    /// It takes VLAN tags out of frames, and vouches for the checksums of some that it looks at: which, is drawn.
    pub offloads: bool,
    /// A packet that comes may have its checksum left to the card that sends, which this one is ([`corelane_seam::PortFacts::leaves_sums`]).
    pub leaves_sums: bool,
}

impl Default for CardSetup {
    fn default() -> Self {
        Self { queues: 1, rss: None, frame_bytes_max: 1514, offloads: false, leaves_sums: false }
    }
}

/// A packet that has arrived.
pub(crate) struct Arrived {
    pub(crate) bytes: Vec<u8>,
    pub(crate) facts: FrameFacts,
    /// Frames that it takes of its queue's port.
    pub(crate) pieces: usize,
}

/// A packet that the interface is to send.
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    /// Frames that it lies in.
    pub(crate) frames: u64,
}

/// One queue of an interface, with its books.
#[derive(Default)]
pub(crate) struct Queue {
    /// The lane whose driver has its port.
    pub(crate) lane: Option<usize>,
    pub(crate) arrived: VecDeque<Arrived>,
    /// Frames that the port has lent to be received into.
    pub(crate) given: usize,
    /// Bytes that each has room for, and how many a packet may lie in.
    pub(crate) room: usize,
    pub(crate) pieces_max: usize,
    /// Frames that what has arrived takes of them.
    filled: usize,
    /// Packets taken in, and those that the port has handed over.
    taken_in: u64,
    pub(crate) handed_over: u64,
    /// What the port has given to be sent, and has not left.
    pub(crate) outgoing: VecDeque<Outgoing>,
    /// Of all frames that its port was given to send, how many are no longer read.
    pub(crate) read: u64,
    pub(crate) leaves_at: u64,
    pub(crate) violation: Option<Violation>,
    is_open: bool,
    /// Which port it has, counted: what is on its way for an earlier one is void.
    pub(crate) epoch: u32,
    /// The test's own interface takes whatever comes.
    is_test: bool,
}

impl Queue {
    /// Takes a packet in, if there is memory for it; returns which lane is to look.
    pub(crate) fn take_in(&mut self, bytes: Vec<u8>, facts: FrameFacts) -> Option<Option<usize>> {
        // One that is too long for any is cut where it hands it over.
        let pieces = if self.is_test { 0 } else { bytes.len().div_ceil(self.room.max(1)).clamp(1, self.pieces_max.max(1)) };
        let has_room = self.is_test || (self.is_open && self.filled + pieces <= self.given);
        has_room.then(|| {
            self.taken_in += 1;
            self.filled += pieces;
            self.arrived.push_back(Arrived { bytes, facts, pieces });
            self.lane
        })
    }

    /// Takes the next packet that has arrived out.
    pub(crate) fn hand_over(&mut self) -> Option<Arrived> {
        let arrived = self.arrived.pop_front()?;
        assert!(self.filled >= arrived.pieces, "what is handed over was taken in");
        self.filled -= arrived.pieces;
        Some(arrived)
    }

    /// Opens or closes it: what has arrived and was not handed over is lost with the port.
    pub(crate) fn set_open(&mut self, is_open: bool) {
        assert!(self.is_open != is_open, "a queue has one port");
        self.is_open = is_open;
        self.taken_in -= self.arrived.len() as u64;
        self.arrived.clear();
        self.outgoing.clear();
        self.filled = 0;
        (self.given, self.lane, self.read, self.epoch) = (0, None, 0, self.epoch + 1);
    }

    /// Whether it has a port.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn blame(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }
}

pub(crate) struct Card {
    index: usize,
    pub(crate) setup: CardSetup,
    pub(crate) segment: Option<usize>,
    pub(crate) is_up: bool,
    pub(crate) is_gone: bool,
    pub(crate) has_carrier: bool,
    /// Its link-layer address, if it was given another.
    pub(crate) address: Option<[u8; 6]>,
    pub(crate) last_arrival: u64,
    pub(crate) queues: Vec<Queue>,
}

impl Card {
    pub(crate) fn new(index: usize, setup: CardSetup) -> Self {
        let is_test = setup.queues == 0;
        let queues = (0..setup.queues.max(1)).map(|_| Queue { is_test, ..Queue::default() }).collect();
        let (segment, address, last_arrival) = (None, None, 0);
        Self { index, setup, segment, is_up: true, is_gone: false, has_carrier: true, address, last_arrival, queues }
    }

    /// Its link-layer address: where it was given no other, one that is administered locally (IEEE 802c), with its number.
    pub(crate) fn link_address(&self) -> [u8; 6] {
        let number = (self.index as u16 + 1).to_be_bytes();
        self.address.unwrap_or([0x02, 0, 0, 0, number[0], number[1]])
    }

    /// What the card says of a frame, out of which it takes what it says beside it. It looks at the checksum, or does not.
    pub(crate) fn facts(&self, bytes: &mut Vec<u8>, now: u64, looks: bool) -> FrameFacts {
        let vlan = if self.setup.offloads { offloads::take_tag(bytes) } else { None };
        let checksum = if looks && offloads::is_good(bytes) { Checksum::Good } else { Checksum::Unknown };
        let facts = FrameFacts { time: now, checksum, vlan, ..FrameFacts::default() };
        let Some((hasher, _)) = &self.setup.rss else { return facts };
        let is_hashed = bytes.len() > ETHERNET_BYTES && HASHED.iter().any(|kind| bytes[12..ETHERNET_BYTES] == *kind);
        match is_hashed.then(|| hasher.packet(&bytes[ETHERNET_BYTES..], None)) {
            Some(Verdict::Computed(hashed)) => {
                let hash = Some(FrameHash { flow: hashed.flow, hash_type: hashed.hash_type });
                FrameFacts { hash, ..facts }
            }
            _ => facts,
        }
    }

    /// The queue of a frame of these facts.
    pub(crate) fn queue_of(&self, facts: &FrameFacts) -> usize {
        match (&self.setup.rss, facts.hash) {
            (Some((_, table)), Some(hash)) => table.lane_of(hash.flow) % self.queues.len(),
            _ => 0,
        }
    }

    pub(crate) fn verdict(&self) -> Result<(), Violation> {
        for (number, queue) in self.queues.iter().enumerate().filter(|(_, queue)| !queue.is_test) {
            if let Some(violation) = queue.violation {
                return Err(violation);
            }
            if queue.taken_in != queue.handed_over + queue.arrived.len() as u64 {
                let (taken_in, handed_over) = (queue.taken_in, queue.handed_over);
                return Err(Violation::FramesLost { interface: self.index, queue: number, taken_in, handed_over });
            }
        }
        Ok(())
    }
}
