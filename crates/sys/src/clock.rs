//! The monotonic clock.

/// Nanoseconds of CLOCK_MONOTONIC (clock_gettime(2)).
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    assert_eq!(answer, 0, "CLOCK_MONOTONIC is always there");
    assert!(time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec));
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since 1970 by the wall clock (CLOCK_REALTIME), for people to read.
pub fn wall_clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// A length of time as the kernel wants it.
pub(crate) fn timespec(nanoseconds: u64) -> libc::timespec {
    libc::timespec { tv_sec: (nanoseconds / 1_000_000_000) as i64, tv_nsec: (nanoseconds % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back() {
        let first = now();
        assert!(first > 0 && now() >= first);
    }

    #[test]
    fn lengths_are_split_at_the_second() {
        let time = timespec(3_000_000_007);
        assert_eq!((time.tv_sec, time.tv_nsec), (3, 7));
    }
}
