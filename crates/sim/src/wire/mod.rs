//! The simulated wire: interfaces with queues and RSS, links, switches, and what may go wrong on the way.
//!
//! ```text
//! port.send -> queue.outgoing --leaves--> segment (link or switch) --faults, latency--> card: hash, bucket, queue --room?--> port.receive
//! ```
//!
//! The books of a queue say what its port may do: how many frames the interface has read, and how many it has handed over.

mod card;
mod faults;
mod offloads;

pub use card::CardSetup;
pub use faults::{WireCounts, WireFaults};

use crate::check::Violation;
pub(crate) use card::{Card, Outgoing, Queue};
pub(crate) use offloads::tag_bytes;
use std::collections::BTreeMap;

/// All interfaces of a world, and how they are joined.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) cards: Vec<Card>,
    switches: Vec<Switch>,
    pub(crate) faults: WireFaults,
    pub(crate) counts: WireCounts,
}

/// Interfaces that are joined: two by a cable, or several by a switch, which learns where addresses are (IEEE 802.1D).
struct Switch {
    members: Vec<usize>,
    learnt: BTreeMap<[u8; 6], usize>,
}

impl Wire {
    pub(crate) fn add(&mut self, setup: CardSetup) -> usize {
        self.cards.push(Card::new(self.cards.len(), setup));
        self.cards.len() - 1
    }

    pub(crate) fn join(&mut self, members: Vec<usize>) {
        for &member in &members {
            let before = self.cards[member].segment.replace(self.switches.len());
            assert!(before.is_none(), "an interface has one cable");
        }
        self.switches.push(Switch { members, learnt: BTreeMap::new() });
    }

    /// To which interfaces a frame goes that leaves `from`.
    pub(crate) fn receivers(&mut self, from: usize, bytes: &[u8]) -> Vec<usize> {
        let Some(switch) = self.cards[from].segment.map(|segment| &mut self.switches[segment]) else { return Vec::new() };
        if let [one, other] = switch.members[..] {
            return vec![if from == one { other } else { one }];
        }
        // Group addresses have their lowest bit set: they are nobody's place.
        let single = |address: &[u8; 6]| address[0] & 1 == 0;
        let address = |at: usize| bytes.get(at..at + 6).and_then(|part| <[u8; 6]>::try_from(part).ok()).filter(single);
        switch.learnt.extend(address(6).map(|source| (source, from)));
        match address(0).and_then(|to| switch.learnt.get(&to)) {
            Some(&to) if to != from => vec![to],
            Some(_) => Vec::new(),
            None => switch.members.iter().copied().filter(|&member| member != from).collect(),
        }
    }

    /// What is wrong with the wire's books at the end of a run.
    pub(crate) fn verdict(&self) -> Result<(), Violation> {
        self.cards.iter().try_for_each(Card::verdict)
    }
}
