//! Whether a peer takes what it is sent. That a socket's buffer took bytes says little of it: the buffer may be large, and have room again only when a third of it
//! is free. So the system is asked how much the peer has not taken (SIOCOUTQ, tcp(7)), seldom, and only where something waits.

use crate::found::Found;
use crate::limits::{Limits, SECOND};
use crate::machine::Phase;
use crate::names::{ConnectionId, Ending};
use crate::served::Served;
use crate::table::LaneTable;
use corelane_lane::Kit;
use corelane_seam::{Driver, nanoseconds};
use corelane_watch::ServiceCounter;

/// What the system holds of a closed connection when the peer has all: the end of the stream, which the peer has not noted yet.
const END_ALONE: usize = 1;

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
        let limit = nanoseconds(limits.send_limit);
        let after = if self.counted.is_some() { limit } else { limit / 4 };
        (limit > 0).then(|| self.since.saturating_add(after))
    }

    /// The system holds so many bytes that the peer has not taken. False if it has taken too few for `send_limit`.
    pub(crate) fn judge(&mut self, now: u64, held: usize, limits: &Limits) -> bool {
        let Some((from, before)) = self.counted else {
            (self.counted, self.given) = (Some((now, held)), 0);
            return true;
        };
        if self.deadline(limits).is_none_or(|deadline| now < deadline) {
            return true;
        }
        let taken = (before as u64).saturating_add(self.given).saturating_sub(held as u64);
        let least = limits.send_rate_min.saturating_mul((now - from) / SECOND).max(1);
        *self = Self { since: now, counted: Some((now, held)), given: 0 };
        taken >= least
    }
}

/// Connections of which the system is asked, and what it said of them.
#[derive(Default)]
pub(crate) struct Deliveries {
    to_ask: Vec<ConnectionId>,
    answers: Vec<(ConnectionId, usize)>,
}

impl Deliveries {
    /// Whether something is to be asked, or to be judged.
    pub(crate) fn has_work(&self) -> bool {
        !(self.to_ask.is_empty() && self.answers.is_empty())
    }
}

impl LaneTable {
    /// Asks the system how much the peers of those have not taken whose time it is. Where it does not tell, what it took counts as taken.
    pub(crate) fn ask_of_deliveries(&mut self, driver: &dyn Driver) {
        while let Some(id) = self.desk.deliveries.to_ask.pop() {
            let socket = self.connections.find(id).and_then(|connection| connection.socket);
            let held = socket.and_then(|socket| driver.unsent_bytes(socket)).unwrap_or(0);
            self.desk.deliveries.answers.push((id, held));
        }
    }
}

impl Found<'_> {
    /// Has the system asked, before this turn's operations are carried out, what the peer has not taken.
    pub(crate) fn ask_of_delivery(&mut self) {
        let id = self.id;
        self.desk.deliveries.to_ask.push(id);
    }
}

impl Served {
    /// Judges those of which the system was asked.
    pub(crate) fn judge_deliveries(&mut self, kit: &mut Kit) {
        while let Some((id, held)) = self.table.desk.deliveries.answers.pop() {
            // It may have ended since.
            let Some(found) = self.table.found(id) else { continue };
            match found.connection.machine.phase() {
                Phase::Lingering => self.judge_lingering(kit, id.index, held),
                Phase::Ended => {}
                _ => self.judge_delivery(kit, id.index, held),
            }
        }
    }

    fn judge_delivery(&mut self, kit: &mut Kit, index: u32, held: usize) {
        let mut found = self.table.there(index);
        let limits = *found.limits();
        // All may have left since.
        let busy = found.connection.busy.as_mut().filter(|busy| busy.delivery.is_awaited());
        if busy.is_none_or(|busy| busy.delivery.judge(kit.now(), held, &limits)) {
            return found.set_deadline(kit);
        }
        found.count(ServiceCounter::SendLimitHits, 1);
        self.end(kit, index, Ending::Aborted);
    }

    /// Our side has finished, and the peer has not. It is waited for as long as it takes what it was sent, because a close with bytes of its own on their way would be a
    /// reset, which takes that from it (RFC 9112 section 9.6).
    fn judge_lingering(&mut self, kit: &mut Kit, index: u32, held: usize) {
        let mut found = self.table.there(index);
        let (now, limits) = (kit.now(), *found.limits());
        if found.connection.linger_deadline(&limits) > now {
            return found.set_deadline(kit);
        }
        let busy = found.busy(&kit.arena);
        busy.delivery.begin(now);
        if held <= END_ALONE || !busy.delivery.judge(now, held, &limits) {
            found.count(ServiceCounter::LingerLimitHits, 1);
            // reason: what lingers has its ending.
            let ending = found.connection.machine.ending().expect("what lingers has its ending");
            return self.close_now(kit, index, ending);
        }
        (found.connection.active_at, found.connection.finished_at) = (now, now);
        found.set_deadline(kit);
    }
}
