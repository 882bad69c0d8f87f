//! A lane's clock, as rustls asks for it: what the lane's turn says.

use corelane::Instant;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A lane's clock. It stands still between turns.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    monotonic: AtomicU64,
    unix: AtomicU64,
}

impl Clock {
    /// A turn has begun, at this time of the lane's clock, and so long after 1970.
    pub(crate) fn set(&self, monotonic: Instant, unix: Duration) {
        self.monotonic.store(monotonic.nanoseconds(), Ordering::Relaxed);
        self.unix.store(u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Nanoseconds of the monotonic clock.
    pub(crate) fn monotonic(&self) -> u64 {
        self.monotonic.load(Ordering::Relaxed)
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_nanos(self.unix.load(Ordering::Relaxed))))
    }
}
