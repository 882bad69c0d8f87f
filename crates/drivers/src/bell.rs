//! The doorbell of a driver: an eventfd(2) that is written to only while the driver sleeps.

use crate::errors::Error;
use corelane_os::errno::fault_of;
use corelane_seam::{Bell, Fault};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU8, Ordering};

/// Nobody has rung, and the driver looks for itself before it sleeps.
const AWAKE: u8 = 0;
/// The driver sleeps, or is about to: whoever rings must wake it.
const ASLEEP: u8 = 1;
/// Somebody has rung: the driver must not sleep.
const RUNG: u8 = 2;

/// Who has to wake whom. Every change replaces the whole state, so all changes have one order: either the one who rings
/// sees `ASLEEP` and wakes the driver, or the driver sees `RUNG` and stays awake.
struct Latch(AtomicU8);

impl Latch {
    fn new() -> Self {
        Self(AtomicU8::new(AWAKE))
    }

    /// Rings; returns whether the driver has to be woken.
    fn ring(&self) -> bool {
        self.0.swap(RUNG, Ordering::AcqRel) == ASLEEP
    }

    /// Announces sleep; returns false if somebody has rung meanwhile.
    fn before_sleep(&self) -> bool {
        if self.0.swap(ASLEEP, Ordering::AcqRel) != RUNG {
            return true;
        }
        self.0.store(AWAKE, Ordering::Release);
        false
    }

    /// Ends sleep, or takes note of a ring while awake: what was done before it is seen after this.
    fn awake(&self) -> bool {
        self.0.load(Ordering::Relaxed) != AWAKE && self.0.swap(AWAKE, Ordering::AcqRel) == RUNG
    }
}

/// The bell of one driver.
///
/// Whoever rings uses the number of the eventfd: a lane that takes a descriptor table of its own
/// (`unshare(CLONE_FILES)`, unshare(2)) may do so only after the bells of all lanes have been made; whoever made them keeps
/// them until the lanes have ended, so that they are closed where they were opened.
pub struct EventBell {
    latch: Latch,
    descriptor: OwnedFd,
}

impl EventBell {
    /// A bell for a driver that is made later (`with_bell`).
    ///
    /// # Errors
    /// [`Error::Refused`] if the system gives no descriptor (eventfd(2)).
    pub fn shared() -> Result<Arc<Self>, Error> {
        Self::new().map(Arc::new).map_err(|fault| Error::Refused { call: "eventfd2", fault })
    }

    pub(crate) fn new() -> Result<Self, Fault> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(fault_of)?;
        Ok(Self { latch: Latch::new(), descriptor })
    }

    /// To be called before the driver sleeps; false if it must not.
    pub(crate) fn before_sleep(&self) -> bool {
        self.latch.before_sleep()
    }

    /// To be called with each collect, after any sleep; returns whether the bell was rung.
    pub(crate) fn awake(&self) -> bool {
        self.latch.awake()
    }
}

impl AsFd for EventBell {
    /// Becomes readable with each ring that wakes. It never has to be read if its edges are waited for (`EPOLLET`): its
    /// count would overflow after 2^64 - 2 wake-ups.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Bell for EventBell {
    fn ring(&self) {
        if self.latch.ring() {
            // The only failure, a full count, leaves the descriptor readable.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn count(bell: &EventBell) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(bell, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    #[test]
    fn a_ring_costs_a_call_only_while_the_driver_sleeps() {
        let bell = EventBell::new().unwrap();
        bell.ring();
        assert_eq!(count(&bell), 0);
        assert!(!bell.before_sleep(), "rung before: no sleep");
        assert!(bell.before_sleep());
        bell.ring();
        bell.ring();
        assert_eq!(count(&bell), 1);
        assert!(bell.awake() && !bell.awake());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;

    /// Work is posted and the bell rung while the driver looks and goes to sleep: it finds the work, or is kept from
    /// sleeping, or is woken.
    #[test]
    fn no_ring_is_lost() {
        loom::model(|| {
            let shared = Arc::new((Latch::new(), AtomicBool::new(false)));
            let other = shared.clone();
            let ringer = loom::thread::spawn(move || {
                other.1.store(true, Ordering::Relaxed);
                other.0.ring()
            });
            shared.0.awake();
            let found = shared.1.load(Ordering::Relaxed);
            let asleep = !found && shared.0.before_sleep();
            let woken = ringer.join().unwrap();
            if asleep {
                assert!(woken, "sleeps for ever");
                assert!(shared.0.awake());
            } else {
                shared.0.awake();
            }
            assert!(shared.1.load(Ordering::Relaxed), "what was posted before the ring is seen after it");
        });
    }

    /// Two ring at once: at least one wakes the driver.
    #[test]
    fn one_of_two_wakes() {
        loom::model(|| {
            let latch = Arc::new(Latch::new());
            assert!(latch.before_sleep());
            let ringers: Vec<_> = (0..2)
                .map(|_| {
                    let latch = latch.clone();
                    loom::thread::spawn(move || latch.ring())
                })
                .collect();
            let woken = ringers.into_iter().map(|ringer| ringer.join().unwrap()).filter(|&woken| woken).count();
            assert_eq!(woken, 1);
            assert!(latch.awake());
        });
    }
}
