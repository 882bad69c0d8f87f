//! What a connection is tied to, in little room: the place of its session, and the other of its pair.

use crate::words::names::ConnectionId;
use std::num::NonZeroU32;

/// A place in a table, or none, in four bytes.
#[derive(Clone, Copy)]
pub(super) struct SessionAt(Option<NonZeroU32>);

impl SessionAt {
    pub(super) const NONE: Self = Self(None);

    pub(super) fn of(place: Option<u32>) -> Self {
        // reason: a table has one entry less than there are numbers.
        Self(place.map(|place| place.checked_add(1).and_then(NonZeroU32::new).expect("a place in a table")))
    }

    pub(super) fn get(self) -> Option<u32> {
        self.0.map(|place| place.get() - 1)
    }

    pub(super) fn is_none(self) -> bool {
        self.0.is_none()
    }

    /// The place, which is left.
    pub(super) fn take(&mut self) -> Option<u32> {
        std::mem::replace(self, Self::NONE).get()
    }
}

// Each idle connection has both.
const _: () = assert!(size_of::<SessionAt>() == 4 && size_of::<PairAt>() == 8, "what a connection is tied to takes little room");

/// The other of a pair, or nobody. An [`Option`] of its name would take four bytes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PairAt(ConnectionId);

impl PairAt {
    pub(super) const NONE: Self = Self(ConnectionId { index: u32::MAX, generation: 0 });

    pub(super) fn of(other: ConnectionId) -> Self {
        assert!(other != Self::NONE.0, "no connection has that name");
        Self(other)
    }

    pub(super) fn get(self) -> Option<ConnectionId> {
        Some(self.0).filter(|_| self.is_some())
    }

    pub(super) fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The other one, which is left.
    pub(super) fn take(&mut self) -> Option<ConnectionId> {
        std::mem::replace(self, Self::NONE).get()
    }
}
