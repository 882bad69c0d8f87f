//! That a program of lanes has ended, for those who wait for it outside of the lanes.

use corelane_seam::ordered::Ordered;
use corelane_svc::WakeOutside;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Counts the lanes that live, and wakes who waits for their end.
pub(crate) struct Ends {
    state: Mutex<State>,
    over: Condvar,
    wake: WakeOutside,
}

struct State {
    /// Lanes that live.
    left: usize,
    /// The number of the wait that was polled for the first time last.
    last: u64,
    /// Wakers, by the number of the wait.
    waiting: Ordered<u64, Waker>,
}

impl Ends {
    /// For so many lanes, all of which are to live.
    pub(crate) fn new(lanes: usize, wake: WakeOutside) -> Arc<Self> {
        assert!(lanes > 0, "a program has a lane");
        let state = Mutex::new(State { left: lanes, last: 0, waiting: Ordered::default() });
        Arc::new(Self { state, over: Condvar::new(), wake })
    }

    /// The bell of those outside.
    pub(crate) fn wake(&self) -> &WakeOutside {
        &self.wake
    }

    /// A lane has ended.
    pub(crate) fn lane_ended(&self) {
        // A lane that was given up may end all the same.
        self.leave(|left| left.saturating_sub(1));
    }

    /// The lanes that live are not waited for any more.
    pub(crate) fn give_up(&self) {
        self.leave(|_| 0);
    }

    fn leave(&self, left: impl FnOnce(usize) -> usize) {
        let mut state = self.lock();
        state.left = left(state.left);
        if state.left > 0 {
            return;
        }
        let waiting = state.waiting.take_all();
        // A waker is the code of others, and may come back here.
        drop(state);
        self.over.notify_all();
        waiting.for_each(|(_, waker)| (self.wake)(waker));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A state that a panic left behind is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a program's lanes: a future, which may be awaited on any runtime or waited for. It is there when the last lane has ended, in
/// whatever way, or when [`Running::wait`](crate::lanes::Running::wait), which says how they ended, gives up those that do not.
#[must_use = "the end comes to who awaits it"]
pub struct Ended {
    ends: Arc<Ends>,
    /// None before it is polled.
    number: Option<u64>,
}

impl Ended {
    pub(crate) fn of(ends: &Arc<Ends>) -> Self {
        Self { ends: ends.clone(), number: None }
    }

    /// Whether the lanes have ended.
    pub fn is_over(&self) -> bool {
        self.ends.lock().left == 0
    }

    /// Blocks the thread until the lanes have ended. Not for a lane's own thread: its end would wait for itself.
    pub fn wait(self) {
        let state = self.ends.lock();
        drop(self.ends.over.wait_while(state, |state| state.left > 0).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Future for Ended {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { ends, number } = self.get_mut();
        let mut state = ends.lock();
        if state.left == 0 {
            return Poll::Ready(());
        }
        let number = *number.get_or_insert_with(|| {
            state.last += 1;
            state.last
        });
        let before = state.waiting.insert(number, cx.waker().clone());
        // As above: it may have to end whoever waits here too.
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let waker = self.ends.lock().waiting.remove(number);
            drop(waker);
        }
    }
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").field("is_over", &self.is_over()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn times(woken: &Woken) -> usize {
        woken.0.load(Ordering::Relaxed)
    }

    #[test]
    fn the_last_lane_wakes_who_polled_last() {
        let (ends, first, last) = (Ends::new(2, Arc::new(Waker::wake)), Arc::new(Woken::default()), Arc::new(Woken::default()));
        let mut ended = pin!(Ended::of(&ends));
        for woken in [&first, &last] {
            assert!(ended.as_mut().poll(&mut Context::from_waker(&woken.clone().into())).is_pending());
        }
        ends.lane_ended();
        assert_eq!((times(&last), ended.is_over()), (0, false), "a lane lives");
        ends.lane_ended();
        assert_eq!((times(&first), times(&last), ended.is_over()), (0, 1, true));
        assert!(ended.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn waits_that_were_dropped_leave_nothing_behind() {
        let (ends, woken) = (Ends::new(1, Arc::new(Waker::wake)), Arc::new(Woken::default()));
        for _ in 0..10 {
            let mut ended = pin!(Ended::of(&ends));
            assert!(ended.as_mut().poll(&mut Context::from_waker(&woken.clone().into())).is_pending());
            assert_eq!(ends.lock().waiting.len(), 1);
        }
        assert_eq!(ends.lock().waiting.len(), 0);
        ends.lane_ended();
        assert_eq!(times(&woken), 0);
    }

    #[test]
    fn who_was_given_up_may_end_later() {
        let ends = Ends::new(2, Arc::new(Waker::wake));
        ends.give_up();
        Ended::of(&ends).wait();
        ends.lane_ended();
        assert!(Ended::of(&ends).is_over());
    }
}
