//! How tasks spawn others: into a nursery, from which the executor takes them.

use crate::channel::Full;
use corelane_seam::Instant;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;

pub(super) type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// What the tasks of a lane may ask of it: to spawn others, and the time. Clones are the same; it stays on its lane.
#[derive(Clone)]
pub struct Spawner(Rc<Nursery>);

/// What tasks have spawned since the executor looked last.
pub(super) struct Nursery {
    spawned: RefCell<VecDeque<Boxed>>,
    /// How many there is room for beside those that live; none as soon as the executor ends.
    room: Cell<Option<usize>>,
    /// Futures that there was no room for.
    refused: Cell<u64>,
    now: Cell<u64>,
}

impl Nursery {
    pub(super) fn new(room: usize) -> Self {
        Self { spawned: RefCell::default(), room: Cell::new(Some(room)), refused: Cell::new(0), now: Cell::new(0) }
    }

    pub(super) fn take(&self) -> Option<Boxed> {
        self.spawned.borrow_mut().pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spawned.borrow().is_empty()
    }

    /// Asks for room for one more; if there is none, one was refused.
    pub(super) fn ask_room(&self) -> bool {
        let Some(room) = self.room.get() else { return false };
        let offers = self.spawned.borrow().len() < room;
        self.refused.set(self.refused.get() + u64::from(!offers));
        offers
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.get()
    }

    pub(super) fn set_room(&self, room: usize) {
        self.room.set(Some(room));
    }

    /// Nothing is taken any more.
    pub(super) fn close(&self) {
        self.room.set(None);
    }

    pub(super) fn tell_time(&self, now: u64) {
        assert!(now >= self.now.get(), "the lane's clock went back");
        self.now.set(now);
    }
}

impl Spawner {
    pub(super) fn new(nursery: &Rc<Nursery>) -> Self {
        Self(nursery.clone())
    }

    /// Takes a future on as a task: it is polled in the same run of the executor, if a task calls this, as far as its bound allows.
    ///
    /// # Errors
    /// [`Full`] gives the future back when as many tasks as may be have not ended.
    pub fn spawn<F: Future<Output = ()> + 'static>(&self, future: F) -> Result<(), Full<F>> {
        if !self.0.ask_room() {
            return Err(Full { value: future, limit: self.0.room.get().unwrap_or(0) });
        }
        self.0.spawned.borrow_mut().push_back(Box::pin(future));
        Ok(())
    }

    /// The time of this turn.
    pub fn now(&self) -> Instant {
        Instant::from_nanoseconds(self.0.now.get())
    }
}
