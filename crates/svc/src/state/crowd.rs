//! When connections and tasks were looked through for those that may end for others, and which connections of a peer had stood still then.

use crate::limits::SECOND;
use crate::state::accounts::PeerKey;
use crate::words::names::ConnectionId;

/// How often holders are looked through, at most: there may be 100,000.
const LOOK_AGAIN: u64 = SECOND / 50;
/// How many that have stood still one look keeps for those who come next.
const STALE_MAX: usize = 64;

/// Whose connections are looked through: of one service, or of all.
pub(crate) type Among = Option<u16>;

/// The looks of a lane.
#[derive(Default)]
pub(crate) struct Crowd {
    /// When it was looked last who has most of the connections, and of the tasks.
    connections_at: u64,
    tasks_at: u64,
    /// When connections were looked through last for those that have stood still.
    stale_at: u64,
    /// Whose they were; and those that were found then, the one that has stood still longest at the end.
    stale_of: Option<(Among, PeerKey)>,
    stale: Vec<ConnectionId>,
}

impl Crowd {
    /// Whether it may be looked again who has most of the connections.
    pub(crate) fn connections_are_due(&self, now: u64) -> bool {
        is_due(self.connections_at, now)
    }

    /// That is looked at now.
    pub(crate) fn look_at_connections(&mut self, now: u64) {
        self.connections_at = now;
    }

    /// Whether it may be looked again who has most of the tasks.
    pub(crate) fn tasks_are_due(&self, now: u64) -> bool {
        is_due(self.tasks_at, now)
    }

    /// That is looked at now.
    pub(crate) fn look_at_tasks(&mut self, now: u64) {
        self.tasks_at = now;
    }

    /// Whether some are known that had stood still, of this peer.
    pub(crate) fn knows_stale(&self, among: Among, peer: PeerKey) -> bool {
        self.stale_of == Some((among, peer)) && !self.stale.is_empty()
    }

    /// Whether it may be looked again who stands still.
    pub(crate) fn stale_are_due(&self, now: u64) -> bool {
        is_due(self.stale_at, now)
    }

    /// These of a peer have stood still, each since then.
    pub(crate) fn note_stale(&mut self, among: Among, peer: PeerKey, mut stale: Vec<(u64, ConnectionId)>, now: u64) {
        stale.sort_unstable();
        stale.truncate(STALE_MAX);
        (self.stale_at, self.stale_of) = (now, Some((among, peer)));
        self.stale = stale.into_iter().rev().map(|(_, id)| id).collect();
    }

    /// The one of them that has stood still longest. It may have gone since, or moved.
    pub(crate) fn take_stalest(&mut self) -> Option<ConnectionId> {
        self.stale.pop()
    }
}

fn is_due(last: u64, now: u64) -> bool {
    now >= last.saturating_add(LOOK_AGAIN)
}
