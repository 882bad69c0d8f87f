//! The lane for what must be `Send`: hyper's timer and executor, and handlers.

use corelane::aio::{self, Lane};
use hyper::rt::{Executor, Timer};
use send_wrapper::SendWrapper;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The lane, for code that must be `Send` though it never leaves: the state of an axum application, a handler, hyper itself. It is hyper's [`Timer`] and
/// [`Executor`].
///
/// # Panics
/// Whatever is called on another thread panics, and so does a drop there.
#[derive(Clone)]
pub struct Here {
    lane: SendWrapper<Lane>,
    /// An instant of the standard library, and what the lane's clock showed then.
    since: (Instant, corelane::Instant),
}

impl Here {
    /// This lane.
    pub fn new(lane: Lane) -> Self {
        // reason: hyper tells time in instants of the standard library, which have no other beginning.
        let since = (Instant::now(), lane.now());
        Self { lane: SendWrapper::new(lane), since }
    }

    /// The lane itself.
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Runs a future on this lane ([`Lane::spawn`]).
    ///
    /// # Errors
    /// As there.
    pub fn spawn<R>(&self, future: impl Future<Output = R> + 'static) -> aio::Result<()> {
        self.lane.spawn(future)
    }

    /// Waits so long, and up to a millisecond more.
    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep(SendWrapper::new(self.lane.sleep(time)))
    }

    fn at(&self, instant: Instant) -> Sleep {
        self.sleep(instant.saturating_duration_since(Timer::now(self)))
    }
}

impl Timer for Here {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Self::sleep(self, time))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(self.at(deadline))
    }

    fn now(&self) -> Instant {
        let (began, showed) = self.since;
        began + Duration::from_nanos(self.lane.now().nanoseconds().saturating_sub(showed.nanoseconds()))
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(mut sleep) => sleep.set(self.at(deadline)),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

impl<F: Future + 'static> Executor<F> for Here {
    /// At the lane's bound of tasks the future is dropped: what it was to answer is broken off.
    fn execute(&self, future: F) {
        let _ = self.spawn(future);
    }
}

/// Waits on its lane ([`Here::sleep`]).
#[must_use = "nobody sleeps until it is awaited"]
pub struct Sleep(SendWrapper<aio::Sleep>);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut *self.0).poll(context)
    }
}

impl hyper::rt::Sleep for Sleep {}
