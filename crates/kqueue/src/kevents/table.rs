//! Which queue a descriptor is, and which ring an address.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Arc, PoisonError, RwLock};

use corelane_event::{PerProcess, Queue};
use corelane_kevent::{Kevents, Ring};

#[derive(Default)]
struct QueuesAndRings {
    queues: BTreeMap<RawFd, Arc<Kevents>>,
    rings: BTreeMap<usize, Arc<Ring>>,
}

type Locked = RwLock<QueuesAndRings>;

/// A child of fork(2) begins anew, and finds what its parents have, whose rings it shares.
static TABLES: PerProcess<Locked> =
    PerProcess::new(Locked::new(QueuesAndRings { queues: BTreeMap::new(), rings: BTreeMap::new() }), Locked::default);

/// Looks for something in the tables of this process and of those that it is a child of, the nearest first.
fn find<T>(look: impl Fn(&QueuesAndRings) -> Option<T>) -> Option<T> {
    let own = TABLES.mine();
    let found = look(&own.read().unwrap_or_else(PoisonError::into_inner));
    // One of a parent's that a thread had locked at the fork stays so.
    let others = || TABLES.all().filter(|table| !std::ptr::eq(*table, own)).filter_map(|table| table.try_read().ok());
    found.or_else(|| others().filter_map(|table| look(&table)).last())
}

/// A descriptor's queue; EBADF where it is none, or was closed.
pub(super) fn queue(number: RawFd) -> Result<Arc<Kevents>, i32> {
    let kevents = find(|table| table.queues.get(&number).cloned()).ok_or(libc::EBADF)?;
    if kevents.is_of_this_process() && !is_open(number, &kevents) {
        forget(number, &kevents);
        return Err(libc::EBADF);
    }
    Ok(kevents)
}

/// Keeps a queue until its descriptor is closed.
pub(super) fn keep(kevents: Kevents) -> RawFd {
    let number = kevents.queue().descriptor();
    kevents.queue().hand_over_outcomes();
    let mut table = TABLES.mine().write().unwrap_or_else(PoisonError::into_inner);
    // What was closed since is dropped here, beyond the lock.
    let closed: Vec<RawFd> =
        table.queues.iter().filter(|(number, other)| !is_open(**number, other)).map(|(number, _)| *number).collect();
    let mut gone: Vec<_> = closed.iter().filter_map(|number| table.queues.remove(number)).collect();
    gone.extend(table.queues.insert(number, Arc::new(kevents)));
    drop(table);
    number
}

fn is_open(number: RawFd, kevents: &Kevents) -> bool {
    Queue::of(number).is_some_and(|queue| Arc::ptr_eq(&queue, kevents.queue()))
}

fn forget(number: RawFd, kevents: &Arc<Kevents>) {
    let mut table = TABLES.mine().write().unwrap_or_else(PoisonError::into_inner);
    let known = table.queues.get(&number).is_some_and(|known| Arc::ptr_eq(known, kevents));
    let gone = if known { table.queues.remove(&number) } else { None };
    drop(table);
    drop(gone);
}

/// The queue that had this descriptor has ended: what belongs to it goes too. Waits for nobody, as [`corelane_event::closed`] says: where somebody looks at that
/// moment it goes with the next look for a queue of this number, or with the next queue.
pub(crate) fn closed(number: RawFd) {
    let gone = TABLES.mine().try_write().ok().and_then(|mut table| table.queues.remove(&number));
    drop(gone);
}

/// The ring at an address; EFAULT where there is none.
pub(super) fn ring(address: usize) -> Result<Arc<Ring>, i32> {
    find(|table| table.rings.get(&address).cloned()).ok_or(libc::EFAULT)
}

/// Keeps a ring, under its address, until it is unmapped.
pub(super) fn keep_ring(ring: Ring) -> *const u64 {
    let start: *const u64 = ring.words().as_ptr().cast();
    let mut table = TABLES.mine().write().unwrap_or_else(PoisonError::into_inner);
    let before = table.rings.insert(start.addr(), Arc::new(ring));
    assert!(before.is_none(), "an address is one ring's");
    start
}

/// The program uses a ring no more; it stays while a queue has it.
pub(super) fn unmap(address: usize) -> Result<(), i32> {
    let mut table = TABLES.mine().write().unwrap_or_else(PoisonError::into_inner);
    let gone = table.rings.remove(&address);
    drop(table);
    gone.map(drop).ok_or(libc::EFAULT)
}
