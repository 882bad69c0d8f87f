//! The queues of the process, by the numbers of their descriptors.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::closing;
use crate::queue::Queue;

struct Known {
    queue: Arc<Queue>,
    /// How often the number had been closed.
    closes: u32,
}

static QUEUES: Mutex<BTreeMap<RawFd, Known>> = Mutex::new(BTreeMap::new());

fn queues() -> MutexGuard<'static, BTreeMap<RawFd, Known>> {
    // It is whole between any two statements.
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `queue` has the descriptor `number`. One that had it before has lost it to a close that nobody told of.
pub fn insert(number: RawFd, queue: &Arc<Queue>) {
    let known = Known { queue: queue.clone(), closes: closing::watch(number) };
    let before = queues().insert(number, known);
    before.into_iter().filter(|known| known.queue.is_ours()).for_each(|known| lost(number, &known.queue));
}

/// The queue with the descriptor `number`.
pub fn find(number: RawFd) -> Option<Arc<Queue>> {
    let mut queues = queues();
    let known = queues.get(&number).filter(|known| known.queue.is_ours())?;
    if known.closes == closing::closes(number) {
        return Some(known.queue.clone());
    }
    let known = queues.remove(&number)?;
    drop(queues);
    lost(number, &known.queue);
    None
}

/// The queue ends with the descriptor `number`, which is ours to close.
pub fn remove(number: RawFd) {
    let known = queues().remove(&number);
    if known.is_some() {
        closing::unwatch(number);
    }
}

fn lost(number: RawFd, queue: &Queue) {
    closing::unwatch(number);
    queue.give_up();
}

/// Tells every queue that a number is about to be closed, as far as nobody holds a lock; and the queue whose descriptor it is.
pub fn closed(number: RawFd) {
    let Ok(mut queues) = QUEUES.try_lock() else { return };
    let own = queues.remove(&number);
    let ours = queues.values().filter(|known| known.queue.is_ours());
    let others: Vec<Arc<Queue>> = ours.map(|known| known.queue.clone()).collect();
    drop(queues);
    own.into_iter().for_each(|known| lost(number, &known.queue));
    others.iter().for_each(|queue| queue.try_closed(number));
}
