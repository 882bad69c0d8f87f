//! Everybody around a proxy: clients that talk, and servers of several manners.

use corelane::service::Random;
use corelane::testing::{Peer, Play, Status, Talker, Turn, World};
use std::net::SocketAddr;
use std::time::Duration;

/// What a server says when its client has finished.
pub const TRAILER: &[u8] = b"that was all";

/// Bytes that a server says unasked.
pub const SPOKEN: usize = 40_000;

/// The tokens of servers' alarms, and of the ends of clients, are beyond those of talkers.
const SERVERS: u64 = 1 << 40;
const BREAKERS: u64 = 1 << 41;

/// Bytes that a seed gives.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    Random::new(seed).bytes(bytes)
}

/// What a client says: its number first, so that the other side can be told apart.
pub fn stream(seed: u64, number: usize, bytes: usize) -> Vec<u8> {
    let mut stream = vec![number as u8];
    stream.extend(pattern(seed + number as u64, bytes));
    stream
}

/// A server answers what it hears, with the lowest bit of each byte turned. Many at a time, for tests are not optimised.
pub fn changed(said: &[u8]) -> Vec<u8> {
    let mut bytes = said.to_vec();
    let (words, last) = bytes.as_chunks_mut::<16>();
    for word in words {
        *word = (u128::from_ne_bytes(*word) ^ u128::from_ne_bytes([1; 16])).to_ne_bytes();
    }
    last.iter_mut().for_each(|byte| *byte ^= 1);
    bytes
}

/// What a client hears from one that echoes.
pub fn echoed(said: &[u8]) -> Vec<u8> {
    [&changed(said)[..], TRAILER].concat()
}

/// What one that speaks first says.
pub fn spoken() -> Vec<u8> {
    pattern(7, SPOKEN)
}

/// How a server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Sends back each byte, changed, and a trailer behind the client's end.
    Echoes,
    /// Says its own and finishes, then listens to the client's end.
    SpeaksFirst,
    /// The same as an echo, but takes a little at a time.
    IsSlow,
    /// Breaks off when it has heard so much.
    Resets(usize),
    /// Closes when it has heard so much, whatever else comes.
    Closes(usize),
}

/// A connection of a server.
pub struct Server {
    pub peer: Peer,
    pub manner: Manner,
    pub heard: Vec<u8>,
    to_say: Vec<u8>,
    said: usize,
    has_finished: bool,
    pub is_over: bool,
}

impl Server {
    fn new(peer: Peer, manner: Manner) -> Self {
        let to_say = if manner == Manner::SpeaksFirst { spoken() } else { Vec::new() };
        Self { peer, manner, heard: Vec::new(), to_say, said: 0, has_finished: false, is_over: false }
    }

    fn work(&mut self, world: &World) {
        if self.is_over {
            return;
        }
        let most = if self.manner == Manner::IsSlow { 700 } else { usize::MAX };
        let bytes = self.peer.read(most);
        self.heard.extend(&bytes);
        match self.manner {
            Manner::Resets(after) if self.heard.len() >= after => {
                self.is_over = true;
                return self.peer.reset();
            }
            Manner::Closes(after) if self.heard.len() >= after => {
                self.is_over = true;
                return self.peer.close();
            }
            _ => self.talk(&bytes),
        }
        if self.peer.readable_bytes() > 0 {
            world.alarm(world.now() + Duration::from_micros(300), SERVERS + self.peer.id() as u64);
        }
    }

    fn talk(&mut self, bytes: &[u8]) {
        let speaks_first = self.manner == Manner::SpeaksFirst;
        if !speaks_first {
            self.to_say.extend(changed(bytes));
        }
        let status = self.peer.status();
        let is_heard = status == Status::Ended && self.peer.readable_bytes() == 0;
        if is_heard && !speaks_first && !self.has_finished && !self.to_say.ends_with(TRAILER) {
            self.to_say.extend(TRAILER);
        }
        self.said += self.peer.send(&self.to_say[self.said..]);
        if self.said == self.to_say.len() && (is_heard || speaks_first) && !self.has_finished {
            self.has_finished = true;
            self.peer.finish();
        }
        if matches!(status, Status::Failed(_)) || (is_heard && self.has_finished) {
            self.is_over = true;
            self.peer.close();
        }
    }
}

/// Clients, and the servers that they reach.
pub struct Cast {
    pub talkers: Vec<Talker>,
    pub servers: Vec<Server>,
    /// The manner of the next server at this address.
    pub manner: Box<dyn FnMut(SocketAddr) -> Manner>,
}

impl Cast {
    pub fn new(talkers: Vec<Talker>, manner: impl FnMut(SocketAddr) -> Manner + 'static) -> Self {
        Self { talkers, servers: Vec::new(), manner: Box::new(manner) }
    }

    /// A client breaks off in so long a time.
    pub fn break_off(&self, world: &World, talker: usize, after: Duration) {
        world.alarm(world.now() + after, BREAKERS + talker as u64);
    }

    /// Who waits, for a test that fails.
    pub fn waiting(&self) -> String {
        let talkers = self.talkers.iter().enumerate().filter(|(_, talker)| !talker.is_over());
        let talkers = talkers.map(|(number, one)| {
            format!("client {number} has sent {} and heard {}: {:?}\n", one.sent, one.got.len(), one.peer.status())
        });
        let servers = self.servers.iter().filter(|server| !server.is_over);
        let servers = servers.map(|one| {
            format!(
                "server of {:?} {:?} has heard {} and said {}: {:?}\n",
                one.heard.first(),
                one.manner,
                one.heard.len(),
                one.said,
                one.peer.status()
            )
        });
        talkers.chain(servers).collect()
    }

    /// What came out is the beginning of what went in, both ways.
    pub fn judge(&self) {
        for server in self.servers.iter().filter(|server| !server.heard.is_empty()) {
            let talker = &self.talkers[usize::from(server.heard[0])];
            assert!(talker.to_send.starts_with(&server.heard), "a server heard other bytes");
        }
        for talker in &self.talkers {
            let is_begun = |whole: &[u8]| whole.starts_with(&talker.got);
            assert!(is_begun(&echoed(&talker.to_send)) || is_begun(&spoken()), "a client heard other bytes");
        }
    }
}

impl Play for Cast {
    fn news(&mut self, world: &World, turn: Turn) {
        match turn {
            Turn::Incoming(peer) => {
                let manner = (self.manner)(peer.local());
                self.servers.push(Server::new(peer, manner));
                self.servers.last_mut().unwrap().work(world);
            }
            Turn::Peer(ref peer) => match self.servers.iter_mut().find(|server| server.peer.id() == peer.id()) {
                Some(server) => server.work(world),
                None => self.talkers.news(world, turn),
            },
            Turn::Alarm(token) if (BREAKERS..2 * BREAKERS).contains(&token) => {
                let talker = &mut self.talkers[(token - BREAKERS) as usize];
                if talker.peer.status() == Status::Opening {
                    world.alarm(world.now() + Duration::from_micros(50), token);
                } else if !talker.is_over() {
                    talker.peer.reset();
                    talker.end = Some(talker.peer.status());
                }
            }
            Turn::Alarm(token) if (SERVERS..BREAKERS).contains(&token) => {
                let id = (token - SERVERS) as usize;
                self.servers.iter_mut().filter(|server| server.peer.id() == id).for_each(|server| server.work(world));
            }
            turn => self.talkers.news(world, turn),
        }
    }

    fn is_over(&self) -> bool {
        self.talkers.is_over() && self.servers.iter().all(|server| server.is_over)
    }
}

/// Keeps the server's end of the one connection.
pub struct Accepting(pub Option<Peer>);

impl Play for Accepting {
    fn news(&mut self, _: &World, turn: Turn) {
        if let Turn::Incoming(peer) = turn {
            self.0 = Some(peer);
        }
    }

    fn is_over(&self) -> bool {
        self.0.is_some()
    }
}
