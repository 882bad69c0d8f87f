//! Who pays for a lane's memory, who waits for it, and who ends so that others get what is theirs.
//!
//! The rule by which the arena lends stands in `seam` (`ledger`). Here it gets its payers: each peer with its connections, and each
//! service with what it keeps itself. A peer is one to all services, or it would have its part of the reserve several times. Whoever is refused waits in a queue with the bytes that were refused, and is
//! called again when they would be lent. Two things keep this wait from lasting for ever:
//!
//! * **One of many who wait may hold more than it leaves** (a grant), so that a request that has begun to arrive can be served.
//! * **Connections end**, the largest holders' first: any of them when the reserve itself is nearly gone or in pieces; and those that have stood
//!   still for a second when somebody waits for a small part of what their peer holds.

use crate::limits::SECOND;
use crate::state::accounts::Accounts;
use crate::words::class;
use crate::words::names::ConnectionId;
use corelane_lane::{Kit, TimerId};
use corelane_seam::ordered::{Ordered, Rank};
use corelane_seam::{Address, Handle, Holder, Level, Record};

/// A connection that waits for memory.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) id: ConnectionId,
    pub(crate) bytes: usize,
}

/// A place among those who wait: before others is who held less as it began to, by powers of two, and of those who held alike who came first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    level: u32,
    came: u64,
}

impl Rank for Place {
    fn rank(self) -> u128 {
        u128::from(self.level) << 64 | u128::from(self.came)
    }

    fn of_rank(rank: u128) -> Self {
        Self { level: (rank >> 64) as u32, came: rank as u64 }
    }
}

/// What the operator was not told yet of connections that were ended for their memory.
#[derive(Default)]
struct Unsaid {
    connections: u32,
    bytes: usize,
    /// Whose peer held the most, and how much.
    largest: Option<(Address, usize)>,
}

/// How far the connection with a grant has come.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Grant {
    /// It was not served since it was chosen.
    #[default]
    New,
    /// It was served, and has held nothing yet.
    Used,
    /// It has held memory: when it holds none any more, it has come to its end.
    Held,
}

/// The queue for memory, and what was done for it.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) accounts: Accounts,
    waiting: Ordered<Place, Waiting>,
    /// The same in the order in which they came, each with its place.
    by_age: Ordered<u64, (Place, Waiting)>,
    /// How many ever waited.
    came: u64,
    /// The next look goes on from here: behind it are those that the last ones did not come to.
    next: Place,
    /// The connection that may hold more than it leaves, so that it can come to its end. The next one may when this one has, or stands still.
    grantee: Option<ConnectionId>,
    grant: Grant,
    /// How many of those who wait must still be looked at, because something has changed since the last look.
    to_look_at: usize,
    /// Blocks given back when that was noticed last.
    given_back: u64,
    /// When some of them were looked at last.
    passed_at: u64,
    /// When the holders were looked at last.
    looked_at: u64,
    /// When the operator was told last.
    said_at: u64,
    unsaid: Unsaid,
    /// The timer that makes sure of a turn, and when it comes.
    timer: Option<(u64, TimerId)>,
}

/// How many of those who wait one pass looks at.
pub(crate) const LOOKS: usize = 256;
/// How often the holders are looked at while somebody waits, because others may stand still by then; and how often all who wait, though nothing was given back.
pub(crate) const LOOK_AGAIN: u64 = SECOND / 4;
/// How often those who wait are looked at while blocks are given back, and the holders when the reserve is nearly gone.
pub(crate) const LOOK_SOON: u64 = SECOND / 1000;
/// How often the operator is told.
const SAY_AGAIN: u64 = SECOND;

impl Memory {
    /// Whether somebody waits for memory.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Begins a look at those who wait, if one is due: something was given back, or the last is long ago. False if none is.
    pub(crate) fn begin_look(&mut self, given_back: u64, now: u64) -> bool {
        let since_pass = now.saturating_sub(self.passed_at);
        if given_back != self.given_back || since_pass >= LOOK_AGAIN {
            (self.given_back, self.to_look_at) = (given_back, self.waiting.len());
        }
        if self.to_look_at == 0 || since_pass < LOOK_SOON {
            return false;
        }
        self.passed_at = now;
        self.to_look_at = self.to_look_at.min(self.waiting.len()).saturating_sub(LOOKS);
        self.waits()
    }

    /// Has a connection, which holds `held` bytes, wait for so many.
    pub(crate) fn wait(&mut self, id: ConnectionId, bytes: usize, held: usize) {
        assert!(bytes > 0, "nobody waits for nothing");
        let place = Place { level: held.checked_ilog2().map_or(0, |level| level + 1), came: self.came };
        self.came += 1;
        let waiting = Waiting { id, bytes };
        self.waiting.insert(place, waiting);
        self.by_age.insert(place.came, (place, waiting));
        self.to_look_at += 1;
    }

    /// The connection that waits at a place, of which the caller knows that one does.
    pub(crate) fn at(&self, place: Place) -> Waiting {
        // reason: whoever has a place has it from here, in the same turn.
        *self.waiting.get(place).expect("somebody waits at each place")
    }

    /// It waits no more.
    pub(crate) fn leave(&mut self, place: Place) -> Option<Waiting> {
        self.by_age.remove(place.came);
        let left = self.waiting.remove(place);
        assert!(self.waiting.len() == self.by_age.len(), "who waits stands in both orders");
        left
    }

    /// The place of the first, in the order in which they came, that `is_wanted`. All who wait may have to be asked, so they are walked through once.
    pub(crate) fn first_by_age(&self, mut is_wanted: impl FnMut(Waiting) -> bool) -> Option<Place> {
        self.by_age.values().find(|(_, waiting)| is_wanted(*waiting)).map(|(place, _)| *place)
    }

    /// The first of those who wait, who held least first.
    pub(crate) fn first_waiting(&self) -> Vec<Waiting> {
        self.waiting.values().take(LOOKS).copied().collect()
    }

    /// The one at that place may hold more than it leaves, until it has come to its end; if there is one. It waits no more.
    pub(crate) fn grant_at(&mut self, place: Option<Place>) -> Option<ConnectionId> {
        self.grantee = place.and_then(|place| self.leave(place)).map(|waiting| waiting.id);
        self.grant = Grant::New;
        self.grantee
    }

    /// The connection that may hold more than it leaves, if one may. It may have gone since.
    pub(crate) fn grantee(&self) -> Option<ConnectionId> {
        self.grantee
    }

    /// Notes whether that one holds memory, and moves; returns whether it still makes use of its grant.
    pub(crate) fn watch_grant(&mut self, holds: bool, moves: bool) -> bool {
        assert!(self.grantee.is_some(), "somebody has the grant that is watched");
        let grant = self.grant;
        if holds && grant == Grant::Used {
            self.grant = Grant::Held;
        }
        grant == Grant::New || (moves && (holds || grant == Grant::Used))
    }

    /// The places of those who are looked at next, who holds least first; all of them in turn.
    pub(crate) fn next_places(&mut self) -> Vec<Place> {
        let all = || self.waiting.range(self.next..).chain(self.waiting.range(..self.next)).map(|(place, _)| place);
        let places: Vec<Place> = all().take(LOOKS).collect();
        self.next = all().nth(LOOKS).unwrap_or_default();
        places
    }

    /// How long ago the holders were looked at (nanoseconds).
    pub(crate) fn since_look(&self, now: u64) -> u64 {
        now.saturating_sub(self.looked_at)
    }

    /// They are looked at now.
    pub(crate) fn look_at_holders(&mut self, now: u64) {
        self.looked_at = now;
    }

    /// When there must be a turn even if nothing happens.
    fn next_look(&self, now: u64) -> u64 {
        now + if self.to_look_at > 0 { LOOK_SOON } else { LOOK_AGAIN }
    }

    /// Whether nobody waits, and the operator has been told all.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.waits() && self.unsaid.connections == 0
    }

    /// Whether this connection, which is being served, may hold more than it leaves; its grant is in use from now on.
    pub(crate) fn use_grant(&mut self, id: ConnectionId) -> bool {
        let is_granted = self.grantee == Some(id);
        if is_granted && self.grant == Grant::New {
            self.grant = Grant::Used;
        }
        is_granted
    }

    /// A connection of `peer` ends for its memory, of which the operator is to be told.
    pub(crate) fn note_ended(&mut self, peer: Address, holder: &Holder) {
        let unsaid = &mut self.unsaid;
        unsaid.connections += 1;
        unsaid.bytes += holder.bytes;
        if unsaid.largest.as_ref().is_none_or(|(_, bytes)| *bytes < holder.peer_bytes) {
            unsaid.largest = Some((peer, holder.peer_bytes));
        }
    }

    /// Starts a timer, so that there is a turn when those who wait must be looked at again.
    pub(crate) fn set_timer(&mut self, kit: &mut Kit) {
        let next = self.next_look(kit.now());
        let is_early = self.timer.is_some_and(|(at, _)| at <= next);
        if is_early || (!self.waits() && self.unsaid.connections == 0) {
            return;
        }
        if let Some((_, late)) = self.timer.take() {
            kit.stop_timer(late);
        }
        assert!(next > kit.now(), "a look that is due is not waited for");
        self.timer = Some((next, kit.start_timer(next, Handle::new(class::MEMORY, 0, 0))));
    }

    /// Every turn does the work; the timer only makes sure that there is a turn.
    pub(crate) fn timer_came(&mut self) {
        let timer = self.timer.take();
        assert!(timer.is_some(), "a timer comes that was started, and not stopped");
    }

    /// Tells the operator, once a second.
    pub(crate) fn say_who_ended(&mut self, kit: &mut Kit) {
        let is_first = self.said_at == 0;
        if self.unsaid.connections == 0 || (!is_first && kit.now() < self.said_at + SAY_AGAIN) {
            return;
        }
        self.said_at = kit.now();
        let Unsaid { connections, bytes, largest } = std::mem::take(&mut self.unsaid);
        let largest =
            largest.map_or(String::new(), |(peer, bytes)| format!("; {} held the most, {}", host(&peer), kibibytes(bytes)));
        let words = format!(
            "memory is short: {connections} connections were ended that held {} of it{largest}; \
             remedy: more memory for a lane (--memory), or lower limits output_high and record_max",
            kibibytes(bytes)
        );
        kit.report(Record::new(Level::Warn, words));
    }
}

/// A peer without its port.
fn host(peer: &Address) -> String {
    peer.ip().map_or_else(|| peer.to_string(), |ip| ip.to_string())
}

fn kibibytes(bytes: usize) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}
