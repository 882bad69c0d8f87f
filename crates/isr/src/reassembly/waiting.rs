//! A datagram that waits for fragments.

use super::counts::Reason;
use super::fragment::{Fragment, Key};
use corelane_seam::Instant;
use corelane_wire::packet::Ecn;

/// A datagram of which fragments are missing.
#[derive(Debug)]
pub(super) struct Waiting {
    pub key: Key,
    /// Whose it is, by its number in the table.
    pub source: usize,
    /// When its first fragment arrived.
    pub arrived: Instant,
    /// When it is given up.
    pub expires: Instant,
    /// The first of its pieces.
    pub first: Option<u32>,
    /// How many there are.
    pub pieces: usize,
    /// Bytes of data in them.
    pub covered: usize,
    /// Where the last of them ends.
    pub reaches: usize,
    /// Bytes of data of the whole, once the last fragment is there.
    pub total: Option<usize>,
    /// Congestion that its fragments met.
    pub ecn: Ecn,
    /// An overlap has ended it.
    pub is_spoilt: bool,
}

impl Waiting {
    /// The datagram of `fragment`, which is not in it yet.
    pub fn new<M>(fragment: &Fragment<M>, source: usize, arrived: Instant, expires: Instant) -> Self {
        Self {
            key: fragment.key,
            source,
            arrived,
            expires,
            first: None,
            pieces: 0,
            covered: 0,
            reaches: 0,
            total: None,
            ecn: fragment.ecn,
            is_spoilt: false,
        }
    }

    /// Why a fragment does not fit to what is there.
    pub fn unfit<M>(&self, fragment: &Fragment<M>) -> Option<Reason> {
        if self.is_spoilt {
            return Some(Reason::Overlap);
        }
        let is_capable = |ecn| ecn != Ecn::NotCapable;
        if is_capable(self.ecn) != is_capable(fragment.ecn) {
            return Some(Reason::Congestion);
        }
        let is_wrong = match (self.total, fragment.more) {
            (Some(total), true) => fragment.end > total,
            (Some(total), false) => fragment.end != total,
            (None, true) => false,
            (None, false) => fragment.end < self.reaches,
        };
        is_wrong.then_some(Reason::End)
    }

    /// Asserts what holds of it between any two fragments.
    pub fn check(&self) {
        assert!(self.covered <= self.reaches, "no byte of a datagram is held twice");
        assert!(self.total.is_none_or(|total| self.reaches <= total), "no piece ends behind the last");
        assert!((self.pieces == 0) == self.first.is_none(), "a datagram has a first piece exactly when it has pieces");
        assert!(!self.is_spoilt || self.pieces == 0 && self.total.is_none(), "what an overlap has ended holds nothing");
    }

    /// Ends it by an overlap; returns what it was.
    pub fn spoil(&mut self) -> Self {
        assert!(!self.is_spoilt, "an overlap ends a datagram once");
        let empty = Self { first: None, pieces: 0, covered: 0, reaches: 0, total: None, is_spoilt: true, ..*self };
        std::mem::replace(self, empty)
    }
}
