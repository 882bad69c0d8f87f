//! How many of a bounded thing each peer holds: a service's connections, its handshakes under way, or what a service of one's own bounds.

use crate::state::accounts::PeerKey;
use corelane_seam::share::Share;
use std::collections::BTreeMap;

/// Who holds how many of so many things, or bytes. Peers have a name each, such as the account of whoever pays for their memory.
#[derive(Debug)]
pub struct Shares<K = PeerKey> {
    share: Share,
    /// Of peers that hold some. What this side has opened is nobody's.
    held: BTreeMap<K, u32>,
}

impl<K: Ord + Copy> Shares<K> {
    /// Of so many, of which nobody holds any.
    pub fn new(limit: u32) -> Self {
        Self { share: Share { limit, used: 0 }, held: BTreeMap::new() }
    }

    /// How many there are, and may be.
    pub fn share(&self) -> Share {
        self.share
    }

    /// How many a peer holds.
    pub fn held(&self, peer: K) -> u32 {
        self.held.get(&peer).copied().unwrap_or(0)
    }

    /// The most that a peer holds.
    pub fn most(&self) -> u32 {
        self.held.values().copied().max().unwrap_or(0)
    }

    /// Whether a peer may have one more.
    pub fn admits(&self, peer: K) -> bool {
        self.admits_more(peer, 1)
    }

    /// Whether a peer may have so many more.
    pub fn admits_more(&self, peer: K, more: u32) -> bool {
        self.share.admits_more(self.held(peer), more)
    }

    /// Counts one more, of a peer or of this side.
    pub fn take(&mut self, peer: Option<K>) {
        self.take_more(peer, 1);
    }

    /// Counts so many more.
    pub fn take_more(&mut self, peer: Option<K>, more: u32) {
        self.share.used += more;
        if let Some(peer) = peer {
            *self.held.entry(peer).or_default() += more;
        }
    }

    /// Counts one less; a peer that has none is forgotten.
    pub fn give_back(&mut self, peer: Option<K>) {
        self.give_more_back(peer, 1);
    }

    /// Counts so many less.
    ///
    /// # Panics
    /// If they were not taken.
    pub fn give_more_back(&mut self, peer: Option<K>, more: u32) {
        assert!(self.share.used >= more, "what is given back was taken");
        self.share.used -= more;
        let Some(peer) = peer else { return };
        let held = self.held.entry(peer).or_default();
        assert!(*held >= more, "what a peer gives back it has taken");
        *held -= more;
        if *held == 0 {
            self.held.remove(&peer);
        }
    }
}
