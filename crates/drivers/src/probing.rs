//! Trying out all that a driver may use, whichever driver it is for.

use crate::probes::Probes;
use crate::{epoll, uring};

/// Tries what is allowed; returns what works.
pub fn tried(probes: Probes) -> Probes {
    Probes { uring_no_iowait: uring::tried(probes).uring_no_iowait, ..epoll::tried(probes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::Poller;
    use crate::readiness::source::{Pause, ReadinessSource};

    #[test]
    fn this_kernel_waits_for_nanoseconds() {
        assert!(tried(Probes::default()).epoll_pwait2);
    }

    /// The kernel ends a ring a while after it was dropped, and interrupts the thread that made it.
    #[test]
    fn who_probes_is_not_interrupted_afterwards() {
        let mut poller = Poller::new(true).unwrap();
        for _ in 0..20 {
            tried(Probes::default());
            uring::probe_uring().unwrap();
            assert_eq!(poller.look(Pause::Nanoseconds(30_000_000), 1), Ok(0));
        }
    }

    #[test]
    fn what_is_not_allowed_is_not_found() {
        let none = Probes {
            udp_gro: false,
            udp_segment: false,
            udp_segment_long: false,
            epoll_pwait2: false,
            uring_no_iowait: false,
            openat2: false,
        };
        assert_eq!(tried(none), none);
    }
}
