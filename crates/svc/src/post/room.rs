//! Room for what is said from outside the lanes: how many questions wait there, and who waits for less.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Wakes a task of the world outside, on behalf of a lane's thread. A lane's thread may have a descriptor table of its own, while a runtime's waker uses the runtime's
/// descriptors: then whoever makes the lanes has a thread with the runtime's table do this.
pub type WakeOutside = Arc<dyn Fn(Waker) + Send + Sync>;

/// The waits for room at one lane, by number.
#[derive(Default)]
struct Crowd {
    last: u64,
    wakers: Vec<(u64, Waker)>,
}

/// The letters from outside that wait for one service on one lane.
#[derive(Default)]
pub(crate) struct Place {
    /// Questions that have no outcome yet.
    asks: AtomicU32,
    crowd: Mutex<Crowd>,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Crowd> {
        // Nothing is changed in two steps.
        self.crowd.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way to one service on one lane, for those outside.
#[derive(Clone)]
pub(crate) struct Door {
    places: Arc<[Place]>,
    lane: usize,
    wake: WakeOutside,
}

impl Door {
    /// Those of a service, by lane.
    pub(crate) fn of_lanes(lanes: usize, wake: &WakeOutside) -> Vec<Self> {
        let places: Arc<[Place]> = (0..lanes).map(|_| Place::default()).collect();
        (0..lanes).map(|lane| Self { places: places.clone(), lane, wake: wake.clone() }).collect()
    }

    fn place(&self) -> &Place {
        &self.places[self.lane]
    }

    /// Questions that wait.
    pub(crate) fn asks(&self) -> u32 {
        self.place().asks.load(Ordering::Relaxed)
    }

    /// One more question waits, unless `most` do.
    pub(crate) fn enter(&self, most: u32) -> bool {
        let has_room = self.place().asks.fetch_add(1, Ordering::Relaxed) < most;
        if !has_room {
            self.place().asks.fetch_sub(1, Ordering::Relaxed);
        }
        has_room
    }

    /// A question waits no more.
    pub(crate) fn leave(&self) {
        let asks = self.place().asks.fetch_sub(1, Ordering::Relaxed);
        assert!(asks > 0, "a question was counted until now");
        self.tell_of_room();
    }

    /// There may be room again, or nobody hears any more: all who wait look.
    pub(crate) fn tell_of_room(&self) {
        let waiting = std::mem::take(&mut self.place().lock().wakers);
        waiting.into_iter().for_each(|(_, waker)| (self.wake)(waker));
    }
}

/// Waits for room at a lane ([`Remote::room`](crate::Remote::room)): a future, to be awaited on any runtime, or to block on.
#[must_use = "nobody waits until it is awaited"]
pub struct Room {
    door: Option<Door>,
    has_room: Box<dyn Fn() -> bool + Send + Sync>,
    /// Its number in the crowd; 0 until it waits.
    number: u64,
}

impl Room {
    /// At that door, which is open when `has_room` says so; there is room where there is no door.
    pub(crate) fn new(door: Option<Door>, has_room: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { door, has_room: Box::new(has_room), number: 0 }
    }

    /// Blocks the thread until there is room. Not for a lane's own thread.
    pub fn wait(self) {
        let parked = Arc::<Parked>::default();
        let waker = Waker::from(parked.clone());
        let mut room = pin!(self);
        while room.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            parked.wait();
        }
    }

    /// Stands with those who wait, once.
    fn stand(&mut self, door: &Door, context: &Context<'_>) {
        let mut crowd = door.place().lock();
        match crowd.wakers.iter_mut().find(|(number, _)| *number == self.number) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => {
                crowd.last += 1;
                self.number = crowd.last;
                let own = (self.number, context.waker().clone());
                crowd.wakers.push(own);
            }
        }
    }
}

impl Future for Room {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(door) = self.door.clone().filter(|_| !(self.has_room)()) else { return Poll::Ready(()) };
        self.stand(&door, context);
        // Room that came before this one stood there was told to others.
        if (self.has_room)() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(door) = self.door.as_ref().filter(|_| self.number > 0) {
            door.place().lock().wakers.retain(|(number, _)| *number != self.number);
        }
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Room")
    }
}

/// A thread that waits until it is woken.
#[derive(Default)]
struct Parked {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Parked {
    fn wait(&self) {
        let is_woken = self.is_woken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_woken = self.changed.wait_while(is_woken, |is_woken| !*is_woken).unwrap_or_else(PoisonError::into_inner);
        *is_woken = false;
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}
