//! How many of a bounded thing each peer holds: a service's connections, and its handshakes under way.

use crate::accounts::PeerKey;
use corelane_seam::share::Share;
use std::collections::BTreeMap;

/// Who holds how many of so many.
pub(crate) struct Shares {
    share: Share,
    /// Of peers that hold some. What this side has opened is nobody's.
    held: BTreeMap<PeerKey, u32>,
}

impl Shares {
    pub(crate) fn new(limit: u32) -> Self {
        Self { share: Share { limit, used: 0 }, held: BTreeMap::new() }
    }

    /// How many there are, and may be.
    pub(crate) fn share(&self) -> Share {
        self.share
    }

    /// How many a peer holds.
    pub(crate) fn held(&self, peer: PeerKey) -> u32 {
        self.held.get(&peer).copied().unwrap_or(0)
    }

    /// The most that a peer holds.
    pub(crate) fn most(&self) -> u32 {
        self.held.values().copied().max().unwrap_or(0)
    }

    /// Whether a peer may have one more.
    pub(crate) fn admits(&self, peer: PeerKey) -> bool {
        self.share.admits(self.held(peer))
    }

    /// Counts one more, of a peer or of this side.
    pub(crate) fn take(&mut self, peer: Option<PeerKey>) {
        self.share.used += 1;
        if let Some(peer) = peer {
            *self.held.entry(peer).or_default() += 1;
        }
    }

    /// Counts one less; a peer that has none is forgotten.
    pub(crate) fn give_back(&mut self, peer: Option<PeerKey>) {
        assert!(self.share.used > 0, "what is given back was taken");
        self.share.used -= 1;
        let Some(peer) = peer else { return };
        // reason: counted when it was taken.
        let held = self.held.get_mut(&peer).expect("what a peer gives back it has taken");
        *held -= 1;
        if *held == 0 {
            self.held.remove(&peer);
        }
    }
}
