//! A datagram server that is played by hand: what it does with a datagram follows from chance, and is counted.

use crate::simulated::rig::{MS, Rig, way};
use corelane::testing::{DatagramPeer, Play, Random, Turn, World};
use std::net::SocketAddr;
use std::time::Duration;

/// What it has received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub received: u64,
    pub answered: u64,
    pub dropped: u64,
    pub twice: u64,
    pub wrong: u64,
    pub late: u64,
    pub held: u64,
}

pub struct DatagramServer {
    peer: DatagramPeer,
    random: Random,
    /// How often it misbehaves, in 1,000, and how late an answer is that comes too late.
    mischief: u64,
    too_late: u64,
    /// Answers that leave at their time, by the token of the alarm.
    held: Vec<(SocketAddr, Vec<u8>)>,
    pub counts: Counts,
}

impl DatagramServer {
    pub fn new(rig: &Rig, seed: u64, mischief: u64, too_late: u64) -> Self {
        let peer = rig.world.bind(way(&rig.world, &rig.plan.target)).unwrap();
        Self { peer, random: Random::new(seed), mischief, too_late, held: Vec::new(), counts: Counts::default() }
    }

    fn hold(&mut self, world: &World, nanoseconds: u64, to: SocketAddr, bytes: Vec<u8>) {
        world.alarm(world.now() + Duration::from_nanos(nanoseconds), self.held.len() as u64);
        self.held.push((to, bytes));
    }

    fn answer(&mut self, world: &World, to: SocketAddr, mut bytes: Vec<u8>) {
        let counts = &mut self.counts;
        counts.received += 1;
        if self.random.below(1_000) >= self.mischief {
            counts.answered += 1;
            return self.peer.send(to, &bytes).unwrap();
        }
        match self.random.below(6) {
            0 => counts.dropped += 1,
            1 => {
                counts.twice += 1;
                self.peer.send(to, &bytes).unwrap();
                self.peer.send(to, &bytes).unwrap();
            }
            2 => {
                counts.wrong += 1;
                let at = self.random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 0x40;
                self.peer.send(to, &bytes).unwrap();
            }
            3 => {
                counts.wrong += 1;
                let length = self.random.below(bytes.len() as u64) as usize;
                self.peer.send(to, &bytes[..length]).unwrap();
            }
            4 => {
                counts.late += 1;
                self.hold(world, self.too_late, to, bytes);
            }
            _ => {
                counts.held += 1;
                let time = self.random.below(5 * MS);
                self.hold(world, time, to, bytes);
            }
        }
    }
}

impl Play for DatagramServer {
    fn news(&mut self, world: &World, turn: Turn) {
        match turn {
            Turn::Datagrams(_) => {
                while let Some((from, bytes)) = self.peer.receive() {
                    self.answer(world, from, bytes);
                }
            }
            Turn::Alarm(token) => {
                let (to, bytes) = &self.held[token as usize];
                self.peer.send(*to, bytes).unwrap();
            }
            other => unreachable!("no news of a datagram peer: {other:?}"),
        }
    }
}
