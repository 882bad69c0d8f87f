//! The time of day on a lane: what its turn says, and by how much the time of day differs from that.

use corelane::admin::machine::{monotonic_nanoseconds, wall_clock};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nanoseconds since 1970 when the monotonic clock was 0, for all lanes; renewed as the time of day is set.
#[derive(Debug, Default)]
pub(crate) struct Origin(AtomicU64);

impl Origin {
    pub(crate) fn of_this_day() -> Self {
        let origin = Self::default();
        origin.look();
        origin
    }

    /// Looks at the time of day, which may have been set.
    pub(crate) fn look(&self) {
        self.0.store(wall_clock().saturating_sub(monotonic_nanoseconds()), Ordering::Relaxed);
    }

    /// Nanoseconds since 1970 when the monotonic clock is at `now`.
    pub(crate) fn unix(&self, now: u64) -> u64 {
        self.0.load(Ordering::Relaxed).saturating_add(now)
    }
}

/// A lane's clock. It stands still between turns.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Arc<Origin>,
    now: AtomicU64,
}

impl Clock {
    pub(crate) fn new(origin: Arc<Origin>) -> Self {
        Self { origin, now: AtomicU64::new(0) }
    }

    /// A turn has begun, at so many nanoseconds of the monotonic clock.
    pub(crate) fn set(&self, now: u64) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// Nanoseconds of the monotonic clock.
    pub(crate) fn monotonic(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_nanos(self.origin.unix(self.monotonic()))))
    }
}
