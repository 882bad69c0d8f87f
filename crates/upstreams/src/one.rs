//! One upstream in the table: where it is, what it does now, and what was counted of it.

use crate::choice::Candidate;
use crate::health::Health;
use crate::settings::Settings;
use crate::times::Times;
use corelane::service::parts::Share;
use corelane::{Address, Instant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long a use of another client counts.
const SHARED_FOR: Duration = Duration::from_secs(600);

/// How a use of an upstream has failed, by the upstream's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It took no connection.
    Connect,
    /// It took no connection, or gave no answer, in time.
    Timeout,
    /// It broke off before it had answered.
    Reset,
    /// It answered what no answer is, or that it cannot serve.
    Answer,
}

/// The counters of one upstream on one lane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Uses that have begun.
    pub uses: u64,
    /// Connections that were opened.
    pub connects: u64,
    /// [`Failure::Connect`].
    pub failed_connect: u64,
    /// [`Failure::Timeout`].
    pub failed_timeout: u64,
    /// [`Failure::Reset`].
    pub failed_reset: u64,
    /// [`Failure::Answer`].
    pub failed_answer: u64,
    /// Uses that were begun anew elsewhere after they had failed here.
    pub retries: u64,
    /// How often it was ejected.
    pub ejections: u64,
    /// Checks that have failed.
    pub checks_failed: u64,
    /// Uses that it was not given, because it, or their client there, had as many as may be.
    #[serde(default)]
    pub full: u64,
    /// Bytes that it was sent.
    pub bytes_to: u64,
    /// Bytes that have come from it.
    pub bytes_from: u64,
}

impl Counts {
    /// All failures.
    pub fn failures(&self) -> u64 {
        self.failed_connect + self.failed_timeout + self.failed_reset + self.failed_answer
    }

    /// Adds those of another lane.
    pub fn add(&mut self, other: &Self) {
        self.with(other, u64::saturating_add);
    }

    /// What was counted since an earlier look.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        since.with(before, u64::saturating_sub);
        since
    }

    /// Each counter with the other's. What comes from another process may be anything.
    fn with(&mut self, other: &Self, of: fn(u64, u64) -> u64) {
        self.uses = of(self.uses, other.uses);
        self.connects = of(self.connects, other.connects);
        self.failed_connect = of(self.failed_connect, other.failed_connect);
        self.failed_timeout = of(self.failed_timeout, other.failed_timeout);
        self.failed_reset = of(self.failed_reset, other.failed_reset);
        self.failed_answer = of(self.failed_answer, other.failed_answer);
        self.retries = of(self.retries, other.retries);
        self.ejections = of(self.ejections, other.ejections);
        self.checks_failed = of(self.checks_failed, other.checks_failed);
        self.full = of(self.full, other.full);
        self.bytes_to = of(self.bytes_to, other.bytes_to);
        self.bytes_from = of(self.bytes_from, other.bytes_from);
    }

    pub(crate) fn note(&mut self, failure: Failure) {
        *match failure {
            Failure::Connect => &mut self.failed_connect,
            Failure::Timeout => &mut self.failed_timeout,
            Failure::Reset => &mut self.failed_reset,
            Failure::Answer => &mut self.failed_answer,
        } += 1;
    }
}

/// An upstream.
#[derive(Debug)]
pub(crate) struct One {
    /// Which of the targets it belongs to.
    pub target: u16,
    pub group: u32,
    pub priority: u16,
    pub address: Address,
    pub weight: u16,
    /// By which the choice by key knows it.
    pub mark: u64,
    pub health: Health,
    /// The operator has taken it out.
    pub is_drained: bool,
    /// Its name has this address no more.
    pub is_leaving: bool,
    pub uses: u32,
    /// Those of each client that has some, and one more at the most.
    pub uses_of: BTreeMap<u64, u32>,
    /// Connections to it that are open.
    pub connections: u32,
    pub standing: i64,
    pub taken_at: u64,
    /// When it is checked next; never while a check is under way.
    pub check_at: Instant,
    /// Its first check has its time.
    pub is_known_to_checks: bool,
    /// A check is under way.
    pub is_checked: bool,
    pub counts: Counts,
    pub times: Times,
    /// Whose use began last, and when one began of another client than the one before.
    pub client: Option<u64>,
    pub shared_at: Option<Instant>,
}

impl One {
    /// Whether anybody names it still.
    pub fn is_held(&self) -> bool {
        self.uses > 0 || self.connections > 0 || self.is_checked
    }

    /// Whether it may be taken, ejected or not.
    pub fn serves(&self) -> bool {
        !self.is_drained && !self.is_leaving && !self.health.is_down()
    }

    /// Whether it is taken in its turn.
    pub fn is_in_rotation(&self, now: Instant) -> bool {
        self.serves() && self.health.ejected_until(now).is_none()
    }

    /// Whether it may have one more use of this client, of so many at the most. A client never has more than it leaves to others.
    pub fn has_room(&self, most: u32, client: u64) -> bool {
        let share = Share { limit: most, used: self.uses };
        share.admits(self.uses_of.get(&client).copied().unwrap_or(0))
    }

    /// A use of this client ends.
    ///
    /// # Panics
    /// If none is under way.
    pub fn end_use(&mut self, client: u64) {
        // reason: documented.
        let held = self.uses_of.get_mut(&client).filter(|_| self.uses > 0).expect("a use ends once, and is its client's");
        *held -= 1;
        // The last one stays, so that one client's next use needs no memory.
        if *held == 0 && self.uses_of.len() > 1 {
            self.uses_of.remove(&client);
        }
        self.uses -= 1;
    }

    /// A use of this client begins.
    pub fn begin_use(&mut self, client: u64, now: Instant) {
        (self.uses, self.counts.uses) = (self.uses + 1, self.counts.uses + 1);
        *self.uses_of.entry(client).or_default() += 1;
        if self.client.replace(client).is_some_and(|before| before != client) {
            self.shared_at = Some(now);
        }
    }

    /// Whether several clients have used it lately: then a client that makes it fail harms others.
    pub fn is_shared(&self, now: Instant) -> bool {
        self.shared_at.is_some_and(|at| now - at < SHARED_FOR)
    }

    /// Its weight for the choice, in thousandths of its share.
    pub fn weight_now(&self, now: Instant, settings: &Settings) -> u32 {
        u32::from(self.weight) * self.health.share(now, settings)
    }

    /// What the choice has to know of it, with its place in the table.
    pub fn candidate(&self, index: u16, now: Instant, settings: &Settings) -> Candidate {
        Candidate {
            index,
            weight: self.weight_now(now, settings),
            whole_weight: self.weight,
            uses: self.uses,
            mark: self.mark,
            standing: self.standing,
            taken_at: self.taken_at,
        }
    }
}

/// The mark of an address: the same on each lane, and after a restart.
pub(crate) fn mark(address: &Address) -> u64 {
    // FNV-1a (Fowler, Noll and Vo), which is enough for a few names that the operator has chosen.
    let bytes = address.to_string();
    bytes.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
