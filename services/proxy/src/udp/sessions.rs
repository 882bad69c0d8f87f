//! The sessions of one lane: who has one, and whose goes when there is no place.
//!
//! Two lists by age say who has been idle for longest. In the first are sessions whose client has not spoken again behind an answer. They make room before all others, so senders that
//! are forged once push out each other. One who forges the same sender twice comes into the second list. That has three quarters of the places for itself, and then its own oldest
//! makes room, so newcomers always find some. Each peer has a third list, of its own.

use corelane::service::parts::Share;
use corelane::service::{Arrival, SocketId};
use corelane::{Address, Instant};
use corelane_upstreams::Upstream;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// How long a session has been idle at least that makes room, if its client has shown that it is there, or for another one of its own peer.
const STILL: Duration = Duration::from_millis(500);

/// Who speaks, and with whom: the socket and the address that were asked.
pub(super) type Key = (SocketId, Address, Option<IpAddr>);

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    /// An arrival of its client's, which answers are answers to.
    pub client: Arrival,
    /// The socket that it came at.
    pub served: SocketId,
    /// Its peer, for what a peer may have.
    pub asker: u64,
    pub upstream: Upstream,
    /// Its own socket, to the upstream.
    pub socket: SocketId,
    /// That is open.
    pub is_open: bool,
    /// Since when the upstream has been silent that was told something.
    pub asked_at: Option<Instant>,
    /// Datagrams that the upstream was sent and has not answered, if it answers each with one. Where it does not, that is a guess.
    pub owed: u32,
    /// The upstream has answered.
    pub is_answered: bool,
    /// Its client has spoken again since.
    is_proved: bool,
    active_at: Instant,
    /// When datagrams were last counted, and how many there were, to the upstream and from it.
    counted: (Instant, [u32; 2]),
    by_age: Link,
    of_peer: Link,
}

/// Which way datagrams go.
#[derive(Clone, Copy)]
pub(super) enum Towards {
    Upstream = 0,
    Client = 1,
}

impl Session {
    pub fn new(client: (Arrival, SocketId, u64), (upstream, socket): (Upstream, SocketId), now: Instant) -> Self {
        let (client, served, asker) = client;
        Self {
            client,
            served,
            asker,
            upstream,
            socket,
            is_open: false,
            asked_at: None,
            owed: 0,
            is_answered: false,
            is_proved: false,
            active_at: now,
            counted: (now, [0; 2]),
            by_age: Link::default(),
            of_peer: Link::default(),
        }
    }

    fn key(&self) -> Key {
        (self.served, self.client.peer.clone(), self.client.asked)
    }

    /// Whether it may pass so many more in this turn, of at most so many; they count if so.
    pub fn may_pass(&mut self, now: Instant, towards: Towards, more: usize, most: u32) -> bool {
        if self.counted.0 != now {
            self.counted = (now, [0; 2]);
        }
        let counted = &mut self.counted.1[towards as usize];
        let after = counted.saturating_add(more as u32);
        let may = after <= most;
        if may {
            *counted = after;
        }
        may
    }
}

/// The neighbours in a list.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    older: Option<u32>,
    newer: Option<u32>,
}

/// The ends of a list, and how many are in it.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    oldest: Option<u32>,
    newest: Option<u32>,
    count: u32,
}

/// Which of its lists a session is looked at in.
type Which = fn(&mut Session) -> &mut Link;

fn by_age(session: &mut Session) -> &mut Link {
    &mut session.by_age
}

fn of_peer(session: &mut Session) -> &mut Link {
    &mut session.of_peer
}

/// Whether a new session has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    There,
    /// When this one has ended.
    Behind(u32),
    None,
}

/// All sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    most: u32,
    /// Of one peer; 0 for as many as it leaves to all others.
    of_peer_most: u32,
    places: Places,
    by_key: BTreeMap<Key, u32>,
    by_socket: BTreeMap<SocketId, u32>,
    /// By age: of those that are not proved, and of those that are.
    ages: [Ends; 2],
    peers: BTreeMap<u64, Ends>,
}

#[derive(Debug, Default)]
struct Places {
    list: Vec<Option<Session>>,
    free: Vec<u32>,
}

impl Places {
    fn at(&mut self, index: u32) -> &mut Session {
        // reason: numbers are kept as long as their sessions.
        self.list[index as usize].as_mut().expect("a session is named as long as it is there")
    }

    fn append(&mut self, ends: &mut Ends, which: Which, index: u32) {
        *which(self.at(index)) = Link { older: ends.newest, newer: None };
        match ends.newest.replace(index) {
            Some(before) => which(self.at(before)).newer = Some(index),
            None => ends.oldest = Some(index),
        }
        ends.count += 1;
    }

    fn take_out(&mut self, ends: &mut Ends, which: Which, index: u32) {
        let Link { older, newer } = std::mem::take(which(self.at(index)));
        match older {
            Some(older) => which(self.at(older)).newer = newer,
            None => ends.oldest = newer,
        }
        match newer {
            Some(newer) => which(self.at(newer)).older = older,
            None => ends.newest = older,
        }
        ends.count -= 1;
    }
}

impl Sessions {
    /// At most so many, and so many of one peer.
    pub fn new(most: u32, of_peer_most: u32) -> Self {
        Self {
            most,
            of_peer_most,
            places: Places::default(),
            by_key: BTreeMap::new(),
            by_socket: BTreeMap::new(),
            ages: [Ends::default(); 2],
            peers: BTreeMap::new(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.by_socket.len() as u32
    }

    /// The session of a client.
    pub fn of_client(&self, key: &Key) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// The one whose own socket this is.
    pub fn of_socket(&self, socket: SocketId) -> Option<u32> {
        self.by_socket.get(&socket).copied()
    }

    pub fn get(&mut self, index: u32) -> &mut Session {
        self.places.at(index)
    }

    /// Whether a new one of this peer has a place.
    pub fn room(&mut self, asker: u64, now: Instant) -> Room {
        let own = self.peers.get(&asker).copied().unwrap_or_default();
        let is_full = self.count() >= self.most;
        // Where all places are taken, it is asked as if one were free, which another one then leaves.
        let share = Share { limit: self.most, used: self.count() - u32::from(is_full && self.most > 0) };
        if !share.admits(own.count) || (self.of_peer_most > 0 && own.count >= self.of_peer_most) {
            return self.behind(own.oldest, now, STILL);
        }
        match (is_full, self.ages[0].oldest) {
            (false, _) => Room::There,
            (true, _) if self.ages[1].count > self.most - self.most / 4 => self.behind(self.ages[1].oldest, now, Duration::ZERO),
            (true, Some(oldest)) => Room::Behind(oldest),
            (true, None) => self.behind(self.ages[1].oldest, now, STILL),
        }
    }

    fn behind(&mut self, oldest: Option<u32>, now: Instant, still: Duration) -> Room {
        let oldest = oldest.filter(|&oldest| self.places.at(oldest).active_at + still <= now);
        oldest.map_or(Room::None, Room::Behind)
    }

    /// Adds one; its number.
    pub fn add(&mut self, session: Session) -> u32 {
        let (key, asker, socket) = (session.key(), session.asker, session.socket);
        let index = self.places.free.pop().unwrap_or(self.places.list.len() as u32);
        match self.places.list.get_mut(index as usize) {
            Some(place) => *place = Some(session),
            None => self.places.list.push(Some(session)),
        }
        let known = (self.by_key.insert(key, index), self.by_socket.insert(socket, index));
        assert_eq!(known, (None, None), "a client has one session, and a socket is of one");
        self.places.append(&mut self.ages[0], by_age, index);
        self.places.append(self.peers.entry(asker).or_default(), of_peer, index);
        index
    }

    /// Takes one out.
    pub fn remove(&mut self, index: u32) -> Session {
        let (key, asker, socket, is_proved) = {
            let session = self.places.at(index);
            (session.key(), session.asker, session.socket, session.is_proved)
        };
        self.places.take_out(&mut self.ages[usize::from(is_proved)], by_age, index);
        // reason: a peer has a list as long as it has a session.
        let of_its = self.peers.get_mut(&asker).expect("the peer of a session has a list");
        self.places.take_out(of_its, of_peer, index);
        if of_its.count == 0 {
            self.peers.remove(&asker);
        }
        self.by_key.remove(&key);
        self.by_socket.remove(&socket);
        self.places.free.push(index);
        // reason: as looked up above.
        self.places.list[index as usize].take().expect("a session is removed once")
    }

    /// Something has come for it, from its client or its upstream: it is the youngest now.
    pub fn touch(&mut self, index: u32, now: Instant, from: Towards) {
        let session = self.places.at(index);
        let was = usize::from(session.is_proved);
        session.is_proved |= session.is_answered && matches!(from, Towards::Upstream);
        session.active_at = now;
        let (is, asker) = (usize::from(session.is_proved), session.asker);
        self.places.take_out(&mut self.ages[was], by_age, index);
        self.places.append(&mut self.ages[is], by_age, index);
        // reason: a peer has a list as long as it has a session.
        let of_its = self.peers.get_mut(&asker).expect("the peer of a session has a list");
        self.places.take_out(of_its, of_peer, index);
        self.places.append(of_its, of_peer, index);
    }

    /// Of those that are not proved, the one that has been idle for longest.
    pub fn oldest_unproved(&self) -> Option<u32> {
        self.ages[0].oldest
    }

    /// The one that has been idle for longest, and since when.
    pub fn oldest(&mut self) -> Option<(Instant, u32)> {
        let oldest = self.ages.map(|ends| ends.oldest).into_iter().flatten();
        oldest.map(|index| (self.places.at(index).active_at, index)).min()
    }
}
