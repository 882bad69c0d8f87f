//! How many events each queue of the process knows to be pending, by the number of its descriptor, for the queues that watch it. It looks into no queue: that
//! may be locked by who asks.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::per_process::PerProcess;

/// A queue's count, which the queue keeps.
pub type Pending = Arc<AtomicUsize>;

type PendingByQueue = Mutex<BTreeMap<RawFd, Pending>>;

static COUNTS: PerProcess<PendingByQueue> = PerProcess::new(PendingByQueue::new(BTreeMap::new()), PendingByQueue::default);

fn counts() -> MutexGuard<'static, BTreeMap<RawFd, Pending>> {
    // It is whole between any two statements.
    COUNTS.mine().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queue with the descriptor `number` keeps this count.
pub fn begin(number: RawFd, pending: Pending) {
    counts().insert(number, pending);
}

/// The queue that kept this count has ended. Another may have its number already. It waits for nobody, as [`closed`](crate::closed) says: where somebody
/// looks at that moment the count stays until the number's next queue.
pub fn end(number: RawFd, pending: &Pending) {
    let Ok(mut counts) = COUNTS.mine().try_lock() else { return };
    if counts.get(&number).is_some_and(|known| Arc::ptr_eq(known, pending)) {
        counts.remove(&number);
    }
}

/// How many events the queue with the descriptor `number` knows to be pending; none if there is no such queue.
pub fn of(number: RawFd) -> Option<usize> {
    counts().get(&number).map(|pending| pending.load(Ordering::Relaxed))
}
