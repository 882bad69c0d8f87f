//! How upstreams are chosen, and when one is left out.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// How the next upstream is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Balance {
    /// In turn, by weight, the heavier ones spread among the others.
    RoundRobin,
    /// The one with the fewest uses for its weight, on this lane.
    Least,
    /// By the key that [`Upstreams::begin`](crate::Upstreams::begin) is given: the same key finds the same upstream, on each lane and after a restart, as long as that one is there. When one
    /// goes, only its own keys move (rendezvous hashing: Thaler and Ravishankar, 1998).
    Hash,
}

/// How an upstream is checked without a client: whether it takes a connection, with its TLS, and answers what it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// From one check of an upstream to its next.
    pub every: Duration,
    /// How long one may take.
    pub within: Duration,
    /// The path that it is asked for by HTTP/1.1: well is an answer of 2xx or 3xx. None where a connection says enough.
    pub path: Option<Arc<str>>,
    /// Checks in a row that must succeed until one that is down is up.
    pub rise: u32,
    /// Checks in a row that must fail until one that is up is down.
    pub fall: u32,
}

impl Check {
    /// By connections alone, of four seconds at the most. Twice right is up, three times wrong is down.
    pub const fn every(every: Duration) -> Self {
        Self { every, within: Duration::from_secs(4), path: None, rise: 2, fall: 3 }
    }
}

/// The settings of a table of upstreams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How the next one is chosen.
    pub balance: Balance,
    /// Failures in a row for which one is ejected; 0 never ejects.
    pub failures_max: u32,
    /// How long the first ejection lasts; each further one twice as long as the one before.
    pub ejection: Duration,
    /// How long an ejection lasts at the most.
    pub ejection_max: Duration,
    /// Over how long one that has come back, or is new, gets its whole part; zero at once. It has no meaning for [`Balance::Hash`], where keys would move to and fro.
    pub slow_start: Duration,
    /// Active checks, if there are any.
    pub check: Option<Check>,
    /// From one resolution of a name to its next.
    pub resolve_every: Duration,
    /// Uses of one upstream that are under way at once, on one lane; none for its part of the lane's connections ([`Upstreams::bound_uses`](crate::Upstreams::bound_uses)).
    pub uses_max: Option<NonZeroU32>,
}

impl Settings {
    /// In turn; five failures eject for ten seconds first and five minutes at the most; names are resolved each 30 seconds; no checks, no slow start, no bound of uses but the lane's.
    pub const fn new() -> Self {
        Self {
            balance: Balance::RoundRobin,
            failures_max: 5,
            ejection: Duration::from_secs(10),
            ejection_max: Duration::from_secs(300),
            slow_start: Duration::ZERO,
            check: None,
            resolve_every: Duration::from_secs(30),
            uses_max: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}
