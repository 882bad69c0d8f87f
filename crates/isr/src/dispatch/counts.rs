//! What is counted of a protocol on a lane.

use super::policy::Dispatch;

/// Packets of one protocol on one lane, or of one of its buckets there, since it was registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamCounts {
    /// Queued now.
    pub length: usize,
    /// Queued at most; of several queues, in one of them.
    pub watermark: usize,
    /// Run at once by the direct policy.
    pub dispatched: u64,
    /// Run at once by the hybrid policy.
    pub hybrid: u64,
    /// Dropped because the queue was full.
    pub drops: u64,
    /// Queued ever.
    pub queued: u64,
    /// Run, at once or later.
    pub handled: u64,
}

impl StreamCounts {
    /// Whether each packet that was taken was run or is queued: Handled = Dispatched + Hybrid + Queued - Length. Drops do not count.
    #[must_use]
    pub const fn add_up(&self) -> bool {
        self.handled + self.length as u64 == self.dispatched + self.hybrid + self.queued
    }

    /// These of one queue and those of another; the watermark is the higher one.
    pub(super) fn and(self, other: &Self) -> Self {
        Self {
            length: self.length + other.length,
            watermark: self.watermark.max(other.watermark),
            dispatched: self.dispatched + other.dispatched,
            hybrid: self.hybrid + other.hybrid,
            drops: self.drops + other.drops,
            queued: self.queued + other.queued,
            handled: self.handled + other.handled,
        }
    }

    pub(super) fn run_at_once(&mut self, dispatch: Dispatch) {
        match dispatch {
            Dispatch::Direct => self.dispatched += 1,
            Dispatch::Hybrid => self.hybrid += 1,
            Dispatch::Deferred => unreachable!("what is deferred does not run at once"),
        }
        self.handled += 1;
        assert!(self.add_up(), "{self:?}");
    }

    pub(super) fn queue(&mut self) {
        self.length += 1;
        self.watermark = self.watermark.max(self.length);
        self.queued += 1;
        assert!(self.add_up(), "{self:?}");
    }

    pub(super) fn run_queued(&mut self) {
        self.length -= 1;
        self.handled += 1;
        assert!(self.add_up(), "{self:?}");
    }
}
