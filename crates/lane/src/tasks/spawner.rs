//! How tasks spawn others: into a nursery, from which the executor takes them.

use crate::channel::Full;
use corelane_seam::{Arena, Instant, Payer};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;

pub(super) type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// A future that is to become a task, and who pays for that.
pub(super) struct Unborn {
    pub(super) future: Boxed,
    pub(super) payer: Payer,
}

/// What the tasks of a lane may ask of it: to spawn others, and the time. Clones are the same; it stays on its lane.
#[derive(Clone)]
pub struct Spawner(Rc<Nursery>);

/// What tasks have spawned since the executor looked last.
pub(super) struct Nursery {
    spawned: RefCell<VecDeque<Unborn>>,
    /// Where tasks are counted by who pays for them; none where nobody shares them.
    accounts: Option<Arena>,
    /// Who pays for what is spawned now: whoever pays for the task that is being polled, or the connection that it has accepted.
    payer: Cell<Payer>,
    /// How many there is room for beside those that live; none as soon as the executor ends.
    room: Cell<Option<usize>>,
    /// Futures that there was no room for.
    refused: Cell<u64>,
    now: Cell<u64>,
}

impl Nursery {
    pub(super) fn new(room: usize, accounts: Option<Arena>) -> Self {
        let (payer, refused, now) = (Cell::new(Payer::LANE), Cell::new(0), Cell::new(0));
        Self { spawned: RefCell::default(), accounts, payer, room: Cell::new(Some(room)), refused, now }
    }

    pub(super) fn take(&self) -> Option<Unborn> {
        self.spawned.borrow_mut().pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spawned.borrow().is_empty()
    }

    /// Has whatever is spawned from now on paid for by `payer`.
    pub(super) fn pay_as(&self, payer: Payer) {
        self.payer.set(payer);
    }

    /// Takes room for one more of `payer`; if there is none, one was refused.
    pub(super) fn take_room(&self, payer: Payer) -> bool {
        let Some(room) = self.room.get() else { return false };
        let offers =
            self.spawned.borrow().len() < room && self.accounts.as_ref().is_none_or(|accounts| accounts.take_task(payer));
        self.refused.set(self.refused.get() + u64::from(!offers));
        offers
    }

    /// A task of `payer` has ended.
    pub(super) fn give_room_back(&self, payer: Payer) {
        if let Some(accounts) = &self.accounts {
            accounts.give_task_back(payer);
        }
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

    /// Takes a future on as a task: it is polled in the same run of the executor, if a task calls this, as far as its bound allows. Whoever pays
    /// for the task that calls this pays for the new one ([`Spawner::pay_as`]).
    ///
    /// # Errors
    /// [`Full`] gives the future back when as many tasks as may be have not ended, or its peer has its share of them.
    pub fn spawn<F: Future<Output = ()> + 'static>(&self, future: F) -> Result<(), Full<F>> {
        let payer = self.0.payer.get();
        if !self.0.take_room(payer) {
            return Err(Full { value: future, limit: self.0.room.get().unwrap_or(0) });
        }
        self.0.spawned.borrow_mut().push_back(Unborn { future: Box::pin(future), payer });
        Ok(())
    }

    /// Has `payer`, which is open, pay for the tasks that the task which calls this spawns until it waits again: it has accepted a connection, say.
    pub fn pay_as(&self, payer: Payer) {
        self.0.pay_as(payer);
    }

    /// The time of this turn.
    pub fn now(&self) -> Instant {
        Instant::from_nanoseconds(self.0.now.get())
    }
}
