//! Upstreams by their names in a table, and those that a use has tried.

use std::num::NonZeroU16;

/// The most upstreams that one use may try.
pub const TRIES_MAX: usize = 4;

/// Names an upstream in its table. It is good as long as a use, a connection or a check of it has not ended; behind that it may be void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Upstream {
    pub(crate) index: u16,
    pub(crate) generation: NonZeroU16,
}

/// Whom a use is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// By which [`Balance::Hash`](crate::Balance::Hash) chooses: [`address_key`](crate::address_key) or [`flow_key`](crate::flow_key).
    pub key: u64,
    /// The client, who has a share of what an upstream takes, and whose bytes may make it fail: [`client_key`](crate::client_key).
    pub client: u64,
}

/// The upstreams that one use has tried: it tries none twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried([Option<Upstream>; TRIES_MAX]);

impl Tried {
    /// Notes one.
    ///
    /// # Panics
    /// Behind [`TRIES_MAX`] of them: ask [`Tried::is_full`] before.
    pub fn add(&mut self, upstream: Upstream) {
        // reason: documented.
        *self.0.iter_mut().find(|place| place.is_none()).expect("a use tries so many at the most") = Some(upstream);
    }

    /// Whether it was tried.
    pub fn has(&self, upstream: Upstream) -> bool {
        self.0.contains(&Some(upstream))
    }

    /// Whether there is no place for another.
    pub fn is_full(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.iter().flatten().count()
    }
}
