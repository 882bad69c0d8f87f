//! The time of day on a lane: what its turn says, and by how much the time of day differs from that.

use corelane::admin::machine::{monotonic_nanoseconds, wall_clock};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Whence the time of day is known, against which certificates and sessions are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeOfDay {
    /// The machine's clock says it, also when it is set meanwhile.
    #[default]
    Machine,
    /// It was so long after 1970 when the lanes' own clock stood at 0: for lanes in a simulation, whose day does not depend on ours.
    Since(Duration),
}

/// Nanoseconds since 1970 when the monotonic clock was 0, for all lanes; renewed as the time of day is set.
#[derive(Debug)]
pub(crate) struct Origin {
    day: TimeOfDay,
    nanoseconds: AtomicU64,
}

impl Origin {
    pub(crate) fn new(day: TimeOfDay) -> Self {
        let since = match day {
            TimeOfDay::Machine => Duration::ZERO,
            TimeOfDay::Since(since) => since,
        };
        let nanoseconds = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let origin = Self { day, nanoseconds: AtomicU64::new(nanoseconds) };
        origin.look();
        origin
    }

    /// Looks at the machine's clock, which may have been set.
    pub(crate) fn look(&self) {
        if self.day == TimeOfDay::Machine {
            self.nanoseconds.store(wall_clock().saturating_sub(monotonic_nanoseconds()), Ordering::Relaxed);
        }
    }

    /// Nanoseconds since 1970 when the monotonic clock is at `now`.
    fn unix(&self, now: u64) -> u64 {
        self.nanoseconds.load(Ordering::Relaxed).saturating_add(now)
    }

    /// The time of day outside of lanes.
    pub(crate) fn now(&self) -> UnixTime {
        let now = if self.day == TimeOfDay::Machine { monotonic_nanoseconds() } else { 0 };
        UnixTime::since_unix_epoch(Duration::from_nanos(self.unix(now)))
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
