//! A lane's clock, as rustls asks for it: what the lane's turn says.

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
    /// A turn has begun, at so many nanoseconds of the monotonic clock, and since 1970.
    pub(crate) fn set(&self, monotonic: u64, unix: u64) {
        self.monotonic.store(monotonic, Ordering::Relaxed);
        self.unix.store(unix, Ordering::Relaxed);
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
