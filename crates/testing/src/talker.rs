//! Clients that say all they have to say, in pieces, and keep what they hear.

use crate::rig::Play;
use corelane_sim::{Peer, Random, Status, Turn, World};
use std::time::Duration;

/// A client with a stream to send; when all is sent it finishes, and then it waits for the other end.
pub struct Talker {
    /// Its end of the connection.
    pub peer: Peer,
    /// All that it has to say.
    pub to_send: Vec<u8>,
    /// How much of that the way has taken.
    pub sent: usize,
    /// The bytes that it has heard.
    pub got: Vec<u8>,
    /// How the connection ended, once it has.
    pub end: Option<Status>,
    /// The most bytes that it reads at once; it reads again some time later.
    pub read_most: usize,
    /// The most bytes that it sends at once.
    pub piece_most: usize,
    token: u64,
    random: Random,
}

impl Talker {
    /// A client that says `to_send` in pieces drawn from `seed`.
    pub fn new(peer: Peer, seed: u64, to_send: Vec<u8>) -> Self {
        let token = peer.id() as u64;
        let random = Random::new(seed ^ (token << 32));
        let (read_most, piece_most) = (usize::MAX, 1 + to_send.len() / 4);
        Self { peer, to_send, sent: 0, got: Vec::new(), end: None, read_most, piece_most, token, random }
    }

    /// Whether all was sent, and the other end finished without breaking the connection off.
    pub fn is_complete(&self) -> bool {
        self.sent == self.to_send.len() && self.end == Some(Status::Ended)
    }

    /// Whether the connection has ended.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn work(&mut self, world: &World) {
        if self.is_over() {
            return;
        }
        self.got.extend(self.peer.read(self.read_most));
        match self.peer.status() {
            Status::Opening => return,
            Status::Open => {}
            Status::Ended if self.sent < self.to_send.len() => {}
            status => {
                self.end = Some(status);
                return self.peer.close();
            }
        }
        if self.say() || self.peer.readable_bytes() > 0 {
            world.alarm(world.now() + Duration::from_nanos(self.random.delay()), self.token);
        }
    }

    /// Sends a piece; returns whether it wants to go on by itself.
    fn say(&mut self) -> bool {
        let left = self.to_send.len() - self.sent;
        if left == 0 {
            return false;
        }
        let piece = self.random.one_to(self.piece_most.min(left));
        let taken = self.peer.send(&self.to_send[self.sent..self.sent + piece]);
        self.sent += taken;
        if self.sent == self.to_send.len() {
            self.peer.finish();
        }
        taken == piece
    }
}

impl Play for Vec<Talker> {
    fn news(&mut self, world: &World, turn: Turn) {
        let token = match turn {
            Turn::Peer(peer) => peer.id() as u64,
            Turn::Alarm(token) => token,
            _ => return,
        };
        if let Some(talker) = self.iter_mut().find(|talker| talker.token == token) {
            talker.work(world);
        }
    }

    fn is_over(&self) -> bool {
        self.iter().all(Talker::is_over)
    }
}
