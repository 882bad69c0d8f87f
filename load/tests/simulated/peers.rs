//! Servers that are played by hand, and mostly misbehave.

use crate::simulated::rig::{Rig, way};
use corelane::Instant;
use corelane::testing::{Peer, Play, Random, Status, Turn, World};

/// What a connection's server does with the bytes that come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Manner {
    /// Sends them back.
    Echo,
    /// Closes before anything has come.
    CloseAtOnce,
    /// Sends so many back, and closes.
    CloseAfter(u64),
    /// Sends so many back, and breaks the connection off.
    ResetAfter(u64),
    /// Sends so many back, and nothing more.
    SilentAfter(u64),
    /// Sends so many back, and then wrong ones.
    WrongAfter(u64),
    /// Sends them back, each piece twice.
    Twice,
    /// Sends them back, but not between these times.
    Stall { from: u64, until: u64 },
}

/// Any manner, for a connection whose requests have `size` bytes.
pub fn any(random: &mut Random, size: u64) -> Manner {
    let bytes = random.below(size * 4);
    match random.below(12) {
        0 => Manner::CloseAtOnce,
        1 => Manner::CloseAfter(bytes),
        2 => Manner::ResetAfter(bytes),
        3 => Manner::SilentAfter(bytes),
        4 => Manner::WrongAfter(bytes),
        5 => Manner::Twice,
        _ => Manner::Echo,
    }
}

struct Played {
    peer: Peer,
    manner: Manner,
    /// Bytes that have come, and those that are to go and do not fit now.
    got: u64,
    due: Vec<u8>,
    is_over: bool,
}

/// All connections to the target, each with its manner.
pub struct Peers {
    manner: Box<dyn FnMut(usize) -> Manner>,
    played: Vec<Played>,
}

impl Peers {
    /// Listens at the target; `manner` is asked for each connection, by its number.
    pub fn new(rig: &Rig, manner: impl FnMut(usize) -> Manner + 'static) -> Self {
        rig.world.listen(way(&rig.world, &rig.plan.target)).unwrap();
        Self { manner: Box::new(manner), played: Vec::new() }
    }

    /// Bytes that have come on all connections.
    pub fn got(&self) -> u64 {
        self.played.iter().map(|played| played.got).sum()
    }

    pub fn connections(&self) -> usize {
        self.played.len()
    }
}

impl Play for Peers {
    fn news(&mut self, world: &World, turn: Turn) {
        match turn {
            Turn::Incoming(peer) => {
                let manner = (self.manner)(self.played.len());
                if let Manner::Stall { until, .. } = manner {
                    world.alarm(Instant::from_nanoseconds(until), 0);
                }
                self.played.push(Played { peer, manner, got: 0, due: Vec::new(), is_over: false });
                self.played.last_mut().unwrap().work(world.now().nanoseconds());
            }
            Turn::Peer(peer) => {
                // News of one that is not known yet is found when it comes in.
                let played = self.played.iter_mut().filter(|played| played.peer == peer);
                played.for_each(|played| played.work(world.now().nanoseconds()));
            }
            Turn::Alarm(_) => self.played.iter_mut().for_each(|played| played.work(world.now().nanoseconds())),
            Turn::Lane(_) | Turn::Datagrams(_) => unreachable!("no news of a peer"),
        }
    }
}

impl Played {
    fn work(&mut self, now: u64) {
        if self.is_over {
            return;
        }
        if self.manner == Manner::CloseAtOnce {
            return self.end(false);
        }
        let bytes = self.peer.read(usize::MAX);
        let before = self.got;
        self.got += bytes.len() as u64;
        self.answer(before, bytes);
        if matches!(self.manner, Manner::Stall { from, until } if (from..until).contains(&now)) {
            return;
        }
        let sent = self.peer.send(&self.due);
        self.due.drain(..sent);
        match (self.manner, self.peer.status()) {
            (_, Status::Ended | Status::Failed(_)) => self.end(false),
            (Manner::CloseAfter(bytes), _) if self.got >= bytes => self.end(false),
            (Manner::ResetAfter(bytes), _) if self.got >= bytes => self.end(true),
            _ => {}
        }
    }

    fn answer(&mut self, before: u64, mut bytes: Vec<u8>) {
        let until = |most: u64| most.saturating_sub(before) as usize;
        match self.manner {
            Manner::CloseAfter(most) | Manner::ResetAfter(most) | Manner::SilentAfter(most) => bytes.truncate(until(most)),
            Manner::WrongAfter(most) => bytes.iter_mut().skip(until(most)).for_each(|byte| *byte ^= 0x40),
            Manner::Twice => bytes.extend_from_within(..),
            _ => {}
        }
        self.due.extend(bytes);
    }

    fn end(&mut self, reset: bool) {
        self.is_over = true;
        if reset { self.peer.reset() } else { self.peer.close() }
    }
}
