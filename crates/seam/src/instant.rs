//! A lane's time: an instant of its clock, and the durations between two.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A time of a lane's clock, which all lanes of a machine and the program beside them share: monotonic, in nanoseconds since some beginning
/// (CLOCK_MONOTONIC, clock_gettime(2); in a simulation, since its start). Arithmetic stays within what can be said, up to [`Instant::NEVER`].
///
/// ```
/// # mod corelane { pub use corelane_seam::Instant; }
/// use corelane::Instant;
/// use std::time::Duration;
///
/// let then = Instant::from_nanoseconds(5) + Duration::from_secs(1);
/// assert_eq!(then - Instant::from_nanoseconds(5), Duration::from_secs(1));
/// assert_eq!(Instant::from_nanoseconds(5) - then, Duration::ZERO);
/// assert_eq!(then + Duration::MAX, Instant::NEVER);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Later than any clock ever is.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many nanoseconds after the clock's beginning.
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the clock's beginning.
    pub const fn nanoseconds(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanoseconds(duration)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// The time from `earlier` to this; none if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in nanoseconds: the most that there are, if it is longer (584 years).
#[inline]
pub const fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_stays_within_what_can_be_said() {
        let (early, late) = (Instant::from_nanoseconds(3), Instant::from_nanoseconds(10));
        assert_eq!((late - early, early - late), (Duration::from_nanos(7), Duration::ZERO));
        assert_eq!(early - Duration::from_nanos(4), Instant::from_nanoseconds(0));
        assert_eq!((late + Duration::MAX, Instant::NEVER + Duration::from_nanos(1)), (Instant::NEVER, Instant::NEVER));
        let mut at = early;
        at += Duration::from_nanos(7);
        assert_eq!((at, at < Instant::NEVER), (late, true));
    }

    #[test]
    fn durations_are_whole_nanoseconds() {
        let exact = [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(1), Duration::from_nanos(u64::MAX)];
        assert!(exact.iter().all(|duration| u128::from(nanoseconds(*duration)) == duration.as_nanos()));
        assert_eq!([Duration::MAX, Duration::from_secs(1 << 35)].map(nanoseconds), [u64::MAX; 2]);
    }
}
