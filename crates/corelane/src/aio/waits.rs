//! The waits of tasks beside connections: operations, questions, connections that are being opened, the drain.

use super::connection::Connection;
use super::link::store;
use corelane_seam::Outcome;
use corelane_seam::slab::{Key, Slab};
use corelane_svc::{Lost, Talk};
use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The outcome of a wait.
pub(super) enum Done<T: Talk> {
    /// An operation has ended.
    Outcome(Outcome),
    /// A question is over.
    Replied(Result<T::Answer, Lost>),
    /// A connection is open, or could not be.
    Connected(super::Result<Connection>),
    /// The lane has begun to drain.
    Drain,
}

/// One that waits.
struct Waiting<T: Talk> {
    waker: Option<Waker>,
    done: Option<Done<T>>,
    awaits_drain: bool,
}

/// Those of one service on one lane that wait.
pub(super) struct Waits<T: Talk>(Slab<Waiting<T>>);

impl<T: Talk> Default for Waits<T> {
    fn default() -> Self {
        Self(Slab::new())
    }
}

impl<T: Talk> Waits<T> {
    fn add(&mut self, awaits_drain: bool) -> Key {
        self.0.insert(Waiting { waker: None, done: None, awaits_drain })
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether somebody still waits under this name.
    pub(super) fn has(&self, key: Key) -> bool {
        self.0.get(key).is_some()
    }

    /// Something has come for who waits; what comes for nobody is given back. Returns who is to be woken.
    pub(super) fn settle(&mut self, key: Key, done: Done<T>) -> Result<Option<Waker>, Done<T>> {
        let Some(waiting) = self.0.get_mut(key) else { return Err(done) };
        assert!(waiting.done.is_none(), "what is waited for comes once");
        waiting.done = Some(done);
        Ok(waiting.waker.take())
    }

    /// The lane drains: those who wait for that, to be settled.
    pub(super) fn of_drain(&self) -> Vec<Key> {
        self.0.iter().filter(|(_, waiting)| waiting.awaits_drain && waiting.done.is_none()).map(|(key, _)| key).collect()
    }

    fn poll(&mut self, key: Key, context: &Context<'_>) -> Poll<Done<T>> {
        // reason: who waits takes its place away only as it is dropped.
        let waiting = self.0.get_mut(key).expect("who waits has its place");
        if let Some(done) = waiting.done.take() {
            return Poll::Ready(done);
        }
        store(&mut waiting.waker, context);
        Poll::Pending
    }

    fn remove(&mut self, key: Key) -> Option<Done<T>> {
        self.0.remove(key).and_then(|waiting| waiting.done)
    }
}

/// Waits for one outcome. Dropped, what comes is dropped.
pub(super) struct Wait<'a, T: Talk> {
    waits: &'a RefCell<Waits<T>>,
    pub(super) key: Key,
}

impl<'a, T: Talk> Wait<'a, T> {
    pub(super) fn new(waits: &'a RefCell<Waits<T>>) -> Self {
        Self { waits, key: waits.borrow_mut().add(false) }
    }

    pub(super) fn for_drain(waits: &'a RefCell<Waits<T>>) -> Self {
        Self { waits, key: waits.borrow_mut().add(true) }
    }
}

impl<T: Talk> Future for Wait<'_, T> {
    type Output = Done<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done<T>> {
        self.waits.borrow_mut().poll(self.key, context)
    }
}

impl<T: Talk> Drop for Wait<'_, T> {
    fn drop(&mut self) {
        let done = self.waits.borrow_mut().remove(self.key);
        // Apart: what came is the user's, and its drop may use this lane.
        drop(done);
    }
}
