//! The clients and their model: each byte comes back once, in order, unless the connection was broken.

use super::service::Found;
use corelane_sim::{DatagramPeer, Peer, Random, Status, World};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// How a client behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Sends a part, and the next when its echo is there.
    Asking,
    /// Sends all it can, and reads what there is.
    Eager,
    /// Does not read for a while.
    Slow,
    /// Sends byte by byte, and reads so.
    Crumbs,
    /// Breaks the connection off midway.
    Rude,
}

/// A client of a stream.
pub struct Client {
    pub peer: Peer,
    habit: Habit,
    message: Vec<u8>,
    sent: usize,
    got: usize,
    may_read: bool,
    pub is_done: bool,
}

impl Client {
    pub fn new(world: &World, random: &mut Random, from: SocketAddr, to: SocketAddr) -> Self {
        let peer = world.connect(from, to).unwrap();
        let habit = match random.below(8) {
            0 => Habit::Slow,
            1 => Habit::Crumbs,
            2 => Habit::Rude,
            3 => Habit::Eager,
            _ => Habit::Asking,
        };
        let bytes = if habit == Habit::Crumbs { random.one_to(64) } else { random.one_to(6_000) };
        let message = (0..bytes).map(|_| random.bits() as u8).collect();
        if habit == Habit::Slow {
            world.alarm(world.now() + Duration::from_nanos(20 * random.delay()), peer.id() as u64);
        }
        Self { may_read: habit != Habit::Slow, peer, habit, message, sent: 0, got: 0, is_done: false }
    }

    pub fn let_read(&mut self, random: &mut Random) -> Found<()> {
        self.may_read = true;
        self.turn(random)
    }

    pub fn turn(&mut self, random: &mut Random) -> Found<()> {
        if self.is_done {
            return Ok(());
        }
        if self.may_read {
            self.read()?;
        }
        self.send(random);
        if self.habit == Habit::Rude && self.sent > self.message.len() / 2 {
            self.is_done = true;
            self.peer.reset();
            return Ok(());
        }
        if !self.may_read {
            return Ok(());
        }
        match self.peer.status() {
            Status::Ended if self.got < self.message.len() => Err(format!("{:?} got {} bytes", self.peer, self.got)),
            Status::Ended | Status::Failed(_) => {
                self.is_done = true;
                self.peer.close();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Sends the next parts, as far as the buffer takes them.
    fn send(&mut self, random: &mut Random) {
        let most = if self.habit == Habit::Crumbs { 1 } else { self.message.len() / 24 + 1 };
        let parts = match self.habit {
            Habit::Asking => (self.got == self.sent) as usize,
            _ => self.message.len(),
        };
        for _ in 0..parts {
            let end = self.message.len().min(self.sent + random.one_to(most));
            if self.sent == end || self.peer.status() == Status::Opening {
                return;
            }
            let taken = self.peer.send(&self.message[self.sent..end]);
            if taken == 0 {
                return;
            }
            self.sent += taken;
            if self.sent == self.message.len() {
                self.peer.finish();
            }
        }
    }

    fn read(&mut self) -> Found<()> {
        let most = if self.habit == Habit::Crumbs { 1 } else { usize::MAX };
        while self.peer.readable_bytes() > 0 {
            let bytes = self.peer.read(most);
            if !self.message[self.got..self.sent].starts_with(&bytes) {
                return Err(format!("{:?} got other bytes than it sent, behind {}", self.peer, self.got));
            }
            self.got += bytes.len();
        }
        Ok(())
    }

    /// Whether the whole echo came.
    pub fn is_complete(&self) -> bool {
        self.habit == Habit::Rude || self.got == self.message.len()
    }
}

/// A client of datagrams.
pub struct Sender {
    pub peer: DatagramPeer,
    sent: BTreeMap<u64, Vec<u8>>,
    pub got: BTreeMap<u64, usize>,
}

impl Sender {
    pub fn new(world: &World, random: &mut Random, from: SocketAddr, to: SocketAddr) -> Self {
        let peer = world.bind(from).unwrap();
        let mut sent = BTreeMap::new();
        for number in 0..10u64 {
            let mut bytes = number.to_be_bytes().to_vec();
            let tail = if random.below(2) == 0 { 100 } else { random.below(2_000) };
            bytes.resize(8 + tail as usize, random.bits() as u8);
            peer.send(to, &bytes).unwrap();
            sent.insert(number, bytes);
        }
        Self { peer, sent, got: BTreeMap::new() }
    }

    pub fn turn(&mut self) -> Found<()> {
        while let Some((_, bytes)) = self.peer.receive() {
            let number = bytes.first_chunk().map(|number| u64::from_be_bytes(*number)).ok_or("a datagram too short")?;
            if self.sent.get(&number) != Some(&bytes) {
                return Err(format!("{:?} got another datagram than it sent: {number}", self.peer));
            }
            *self.got.entry(number).or_default() += 1;
        }
        Ok(())
    }

    /// How many were sent.
    pub fn sent(&self) -> usize {
        self.sent.len()
    }
}
