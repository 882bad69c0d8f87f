//! The sessions of a lane: found by both of their keys, ended when their time is over, bounded in all and for each inside address.

use crate::index::Index;
use crate::secret::Secret;
use crate::session::{Flags, Heading, Key, NONE, Session};
use crate::settings::{Settings, Timeouts};
use crate::wheel::Wheel;
use corelane_seam::fetch;
use std::collections::BTreeMap;

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// There are as many as may be.
    All,
    /// The inside address has as many as one may have.
    Each,
}

#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    /// Made with room for all, so that it never moves. Those that have ended are linked by `next`.
    sessions: Vec<Session>,
    free: u32,
    live: usize,
    index: Index,
    secret: Secret,
    wheel: Wheel,
    timeouts: Timeouts,
    most: usize,
    most_each: usize,
    /// How many each inside address has.
    by_source: BTreeMap<u32, usize>,
}

impl Sessions {
    pub fn new(settings: &Settings, secret: Secret) -> Self {
        Self {
            sessions: Vec::with_capacity(settings.sessions),
            free: NONE,
            live: 0,
            index: Index::new(settings.sessions),
            secret,
            wheel: Wheel::new(),
            timeouts: settings.timeouts,
            most: settings.sessions,
            most_each: settings.sessions_each,
            by_source: BTreeMap::new(),
        }
    }

    pub const fn len(&self) -> usize {
        self.live
    }

    pub const fn bytes(&self) -> usize {
        self.sessions.capacity() * size_of::<Session>() + self.index.bytes()
    }

    pub fn get(&self, number: u32) -> &Session {
        &self.sessions[number as usize]
    }

    /// By chance, from a key.
    pub fn chance(&self, key: &Key) -> u64 {
        self.secret.hash(&key.words()).wrapping_add(u64::from(self.wheel_mark()) << 47)
    }

    /// How many there have been, roughly: so that a flow that comes again gets another port.
    const fn wheel_mark(&self) -> u32 {
        self.free ^ self.live as u32
    }

    #[inline]
    pub fn hash(&self, key: &Key) -> u64 {
        self.secret.hash(&key.words())
    }

    /// Asks for the memory in which a look-up begins.
    #[inline]
    pub fn fetch_entry(&self, hash: u64) {
        self.index.fetch(hash);
    }

    /// Asks for the session that a look-up is likely to find, once its entry is there.
    #[inline]
    pub fn fetch_session(&self, hash: u64) {
        self.sessions.get(self.index.likely(hash) as usize).into_iter().for_each(fetch);
    }

    /// The session of a key; its time may be over.
    #[inline]
    pub fn find(&self, key: &Key) -> Option<u32> {
        self.find_hashed(key, self.secret.hash(&key.words()))
    }

    /// The same with the key's hash.
    #[inline]
    pub fn find_hashed(&self, key: &Key, hash: u64) -> Option<u32> {
        let is_meant = |number: u32| self.sessions[number as usize].key(key.way) == *key;
        self.index.find(hash, key.way as u32, is_meant)
    }

    /// Whether that is, now as well, the session that packets of a key belong to.
    #[inline]
    pub fn is_of(&self, number: u32, key: &Key, now: u32) -> bool {
        let session = &self.sessions[number as usize];
        session.is_live() && session.key(key.way) == *key && session.end(&self.timeouts) > now
    }

    /// A session has a packet.
    #[inline]
    pub fn note(&mut self, number: u32, way: Heading, flags: Flags, now: u32) {
        let session = &mut self.sessions[number as usize];
        if session.note(way, flags, now) {
            // It ends hours earlier than its place in the wheel says.
            let end = session.end(&self.timeouts);
            self.wheel.remove(&mut self.sessions, number);
            self.wheel.insert(&mut self.sessions, number, end);
        }
    }

    /// Whether an inside address may have another.
    pub fn check_room(&self, inside: u32) -> Result<(), Bound> {
        if self.live >= self.most {
            return Err(Bound::All);
        }
        let has = self.by_source.get(&inside).copied().unwrap_or(0);
        if has < self.most_each { Ok(()) } else { Err(Bound::Each) }
    }

    /// Begins a session for which there is room.
    pub fn insert(&mut self, session: Session) -> u32 {
        let number = match self.free {
            NONE => {
                assert!(self.sessions.len() < self.most, "there is room for one more");
                self.sessions.push(session);
                self.sessions.len() as u32 - 1
            }
            free => {
                self.free = self.sessions[free as usize].next;
                self.sessions[free as usize] = session;
                free
            }
        };
        for way in [Heading::Out, Heading::In] {
            self.index.insert(self.secret.hash(&session.key(way).words()), number, way as u32);
        }
        self.wheel.insert(&mut self.sessions, number, session.end(&self.timeouts));
        *self.by_source.entry(session.inside).or_default() += 1;
        self.live += 1;
        number
    }

    /// Takes the session of a key out whose time is over.
    pub fn take_ended(&mut self, key: &Key) -> Option<Session> {
        let number = self.find(key)?;
        self.wheel.remove(&mut self.sessions, number);
        Some(self.remove(number))
    }

    /// Whether any may have to be looked at.
    pub const fn is_due(&self, now: u32) -> bool {
        self.wheel.is_due(now)
    }

    /// Looks at what is due, in `steps` steps at most: a session or a second. Calls `ended` with each whose time is over.
    pub fn expire(&mut self, now: u32, steps: usize, mut ended: impl FnMut(&Session)) {
        if self.live == 0 {
            self.wheel.skip_to(now);
            return;
        }
        for _ in 0..steps {
            if !self.wheel.is_due(now) {
                return;
            }
            let Some(number) = self.wheel.next_due(&mut self.sessions) else { continue };
            let end = self.sessions[number as usize].end(&self.timeouts);
            if end > now {
                self.wheel.insert(&mut self.sessions, number, end);
            } else {
                ended(&self.remove(number));
            }
        }
    }

    /// Takes a session out that is in no list of the wheel.
    fn remove(&mut self, number: u32) -> Session {
        let session = self.sessions[number as usize];
        for way in [Heading::Out, Heading::In] {
            let hash_of = |number: u32, way: u32| {
                let way = if way == Heading::Out as u32 { Heading::Out } else { Heading::In };
                self.secret.hash(&self.sessions[number as usize].key(way).words())
            };
            self.index.remove(self.secret.hash(&session.key(way).words()), number, way as u32, hash_of);
        }
        self.sessions[number as usize] = Session::ended(self.free);
        self.free = number;
        self.live -= 1;
        let count = self.by_source.get_mut(&session.inside);
        assert!(count.is_some(), "a session is counted at its inside address");
        if count.is_some_and(|count| {
            *count -= 1;
            *count == 0
        }) {
            self.by_source.remove(&session.inside);
        }
        session
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Class;
    use std::net::Ipv4Addr;

    /// Anybody may send from addresses without end: those whose sessions have ended take no memory.
    #[test]
    fn nothing_is_kept_of_sources_without_sessions() {
        let settings = Settings::new(Ipv4Addr::new(192, 0, 2, 1));
        let mut random = corelane_seam::Random::new(1);
        let mut sessions = Sessions::new(&settings, Secret::new(|| random.bits()));
        for number in 0..1_000 {
            let key =
                Key { way: Heading::Out, class: Class::Udp, local: number / 2, local_port: 7, remote: number, remote_port: 9 };
            sessions.insert(Session::new(&key, (0, 2_000), 0));
        }
        assert_eq!((sessions.len(), sessions.by_source.len()), (1_000, 500));
        sessions.expire(1_000, 10_000, |_| ());
        assert_eq!((sessions.len(), sessions.by_source.len()), (0, 0));
    }
}
