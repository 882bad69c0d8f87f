//! Whether a peer takes what it is sent. That a socket's buffer took bytes says little of it: the buffer may be large, and have room again only when a third of it
//! is free. So the system is asked how much the peer has not taken (SIOCOUTQ, tcp(7)), seldom, and only where something waits.

use crate::limits::{Limits, SECOND};
use crate::words::names::ConnectionId;
use corelane_seam::{Driver, Fault, Socket, nanoseconds};

/// What a peer takes while something waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Since when (nanoseconds); `u64::MAX` if nothing waits.
    since: u64,
    /// Since when is counted, and what the system held then; nothing is counted before it was asked once.
    counted: Option<(u64, usize)>,
    /// Bytes that the system was given since.
    given: u64,
}

impl Delivery {
    /// Nothing waits.
    pub(crate) const NONE: Self = Self { since: u64::MAX, counted: None, given: 0 };

    pub(crate) fn is_awaited(&self) -> bool {
        self.since != u64::MAX
    }

    /// Something waits, from now on if nothing did.
    pub(crate) fn begin(&mut self, now: u64) {
        debug_assert!(self.is_awaited() || self.counted.is_none(), "nothing is counted of what nobody waits for");
        if !self.is_awaited() {
            *self = Self { since: now, ..Self::NONE };
        }
    }

    /// The system has taken so many bytes.
    pub(crate) fn give(&mut self, bytes: usize) {
        self.given = self.given.saturating_add(bytes as u64);
    }

    /// When the system is to be asked: early once, for what is counted from, and at the end of `send_limit`. None without that limit.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<u64> {
        debug_assert!(self.counted.is_none_or(|(from, _)| from >= self.since), "what is counted waited before");
        let limit = nanoseconds(limits.send_limit);
        let after = if self.counted.is_some() { limit } else { limit / 4 };
        (limit > 0).then(|| self.since.saturating_add(after))
    }

    /// The system holds so many bytes that the peer has not taken. False if it has taken too few for `send_limit`.
    pub(crate) fn judge(&mut self, now: u64, held: usize, limits: &Limits) -> bool {
        debug_assert!(self.is_awaited(), "a peer is judged while something waits for it");
        debug_assert!(self.since <= now, "what is judged has waited");
        let Some((from, before)) = self.counted else {
            (self.counted, self.given) = (Some((now, held)), 0);
            return true;
        };
        if self.deadline(limits).is_none_or(|deadline| now < deadline) {
            return true;
        }
        debug_assert!(from <= now, "what was counted from lies in the past");
        let taken = (before as u64).saturating_add(self.given).saturating_sub(held as u64);
        let least = limits.send_rate_min.saturating_mul((now - from) / SECOND).max(1);
        *self = Self { since: now, counted: Some((now, held)), given: 0 };
        taken >= least
    }
}

/// What the system keeps of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Bytes that the peer has not taken; none where nobody tells.
    pub(crate) unsent: Option<usize>,
    /// Bytes that have come, and that we have not received; 0 where it was not asked, because bytes are unsent.
    pub(crate) unread: usize,
}

impl Kept {
    /// Asks for both, or for the first alone where that says enough.
    pub(crate) fn of(socket: Socket, driver: &dyn Driver) -> Self {
        let unsent = driver.unsent_bytes(socket);
        Self { unsent, unread: if unsent == Some(0) { driver.readable_bytes(socket) } else { 0 } }
    }

    /// Whether a close loses nothing.
    pub(crate) fn is_nothing(self) -> bool {
        self == Self { unsent: Some(0), unread: 0 }
    }
}

/// Connections of which the system is asked, and what it said of them.
#[derive(Default)]
pub(crate) struct Deliveries {
    to_ask: Vec<ConnectionId>,
    answers: Vec<(ConnectionId, Kept)>,
    /// Those that hear nothing, of which is asked whether they are still there, and those that are not.
    deaf: Vec<ConnectionId>,
    broken: Vec<(ConnectionId, Fault)>,
}

impl Deliveries {
    /// The system is to be asked of this one.
    pub(crate) fn ask(&mut self, id: ConnectionId) {
        self.to_ask.push(id);
    }

    /// One of which the system is to be asked.
    pub(crate) fn next_question(&mut self) -> Option<ConnectionId> {
        self.to_ask.pop()
    }

    /// The system keeps so much of that.
    pub(crate) fn answer(&mut self, id: ConnectionId, kept: Kept) {
        debug_assert!(kept.unread == 0 || kept.unsent == Some(0), "what was not received is asked of where nothing is unsent");
        self.answers.push((id, kept));
    }

    /// One of which it has said how much it keeps, and that.
    pub(crate) fn next_answer(&mut self) -> Option<(ConnectionId, Kept)> {
        self.answers.pop()
    }

    /// The system is to be asked whether this one, which hears nothing, is still there.
    pub(crate) fn ask_whether_there(&mut self, id: ConnectionId) {
        self.deaf.push(id);
    }

    /// One of which that is to be asked.
    pub(crate) fn next_deaf(&mut self) -> Option<ConnectionId> {
        self.deaf.pop()
    }

    /// That one was broken off, and this is why.
    pub(crate) fn tell_broken(&mut self, id: ConnectionId, why: Fault) {
        self.broken.push((id, why));
    }

    /// One that was broken off, and why.
    pub(crate) fn next_broken(&mut self) -> Option<(ConnectionId, Fault)> {
        self.broken.pop()
    }

    /// Whether something is to be asked, or to be judged.
    pub(crate) fn has_work(&self) -> bool {
        !(self.to_ask.is_empty() && self.answers.is_empty() && self.deaf.is_empty() && self.broken.is_empty())
    }
}
