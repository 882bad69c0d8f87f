//! The sleeps of a service's tasks on one lane.

use super::link::store;
use corelane_lane::wheel::Wheel;
use corelane_lane::{TIMER_RESOLUTION, TimerId};
use corelane_seam::Instant;
use corelane_seam::slab::{Key, Slab};
use std::task::{Context, Poll, Waker};

/// Those that are told in one call of the service: what is left is told in the next turn.
const TOLD_AT_ONCE: usize = 1024;

/// One task that sleeps.
struct Sleeper {
    waker: Option<Waker>,
    /// None once it has come.
    timer: Option<TimerId>,
}

/// Those that sleep.
pub(super) struct Sleeps {
    wheel: Wheel<Key>,
    sleepers: Slab<Sleeper>,
    /// When the lane calls the service for them; `u64::MAX` if it does not.
    armed: u64,
    due: Vec<Key>,
}

impl Sleeps {
    pub(super) fn new() -> Self {
        Self { wheel: Wheel::new(TIMER_RESOLUTION, 0), sleepers: Slab::new(), armed: u64::MAX, due: Vec::new() }
    }

    /// A task sleeps until `deadline`.
    pub(super) fn add(&mut self, now: Instant, deadline: Instant) -> Key {
        let key = self.sleepers.insert(Sleeper { waker: None, timer: None });
        let timer = self.wheel.insert(now.nanoseconds(), deadline.nanoseconds(), key);
        self.sleepers.at_mut(key.index).timer = Some(timer);
        key
    }

    pub(super) fn poll(&mut self, key: Key, context: &Context<'_>) -> Poll<()> {
        // reason: a sleep takes its place away only as it is dropped.
        let sleeper = self.sleepers.get_mut(key).expect("who sleeps has its place");
        if sleeper.timer.is_none() {
            return Poll::Ready(());
        }
        store(&mut sleeper.waker, context);
        Poll::Pending
    }

    pub(super) fn remove(&mut self, key: Key) {
        if let Some(timer) = self.sleepers.remove(key).and_then(|sleeper| sleeper.timer) {
            self.wheel.cancel(timer);
        }
    }

    /// When the service is to be called, if that is earlier than it is known to be.
    pub(super) fn to_arm(&self) -> Option<u64> {
        self.wheel.next().filter(|&next| next < self.armed)
    }

    /// The service is called at this time.
    pub(super) fn arm(&mut self, at: u64) {
        assert!(at < self.armed, "the service is called earlier, or as it was to be");
        self.armed = at;
    }

    /// The service is called for them: has all woken whose time has come.
    pub(super) fn come(&mut self, now: u64, mut wake: impl FnMut(&Waker)) {
        let Self { wheel, sleepers, armed, due } = self;
        *armed = u64::MAX;
        wheel.expire(now, TOLD_AT_ONCE, due);
        for key in due.drain(..) {
            // reason: who takes it away takes its timer away.
            let sleeper = sleepers.get_mut(key).expect("whose time has come sleeps");
            let timer = sleeper.timer.take();
            assert!(timer.is_some(), "a time comes once");
            sleeper.waker.take().iter().for_each(&mut wake);
        }
    }
}
