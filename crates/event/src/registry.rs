//! The queues of the process, by the numbers of their descriptors.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{Bound, Deref, DerefMut};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::closing::{self, Watch};
use crate::pending;
use crate::per_process::PerProcess;
use crate::queue::Queue;
use crate::refused::Refused;
use crate::spare;

struct Known {
    queue: Arc<Queue>,
    watch: Watch,
}

type Queues = Mutex<BTreeMap<RawFd, Known>>;

/// Queues are not inherited by fork(2).
static QUEUES: PerProcess<Queues> = PerProcess::new(Queues::new(BTreeMap::new()), Queues::default);

/// How often a queue has come to the list or left it; counted under its lock.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// What a thread found last, and in which list: it asks for the same queue again and again, and nothing is locked for that.
struct LastFound {
    changes: u64,
    number: RawFd,
    watch: Watch,
    /// Not the queue itself, whose descriptors would stay open for as long as the thread does nothing.
    queue: Weak<Queue>,
}

thread_local! {
    /// Whether the thread has a place for what it found: the C library ends the program where it has no memory to remember that the place is to be emptied.
    static HAS_PLACE: Cell<bool> = const { Cell::new(false) };
    static FOUND: RefCell<Option<LastFound>> = const { RefCell::new(None) };
}

/// A descriptor was closed while somebody had the list, who looks for it when he lets go.
static MISSED: AtomicBool = AtomicBool::new(false);

/// The list under its lock. Who lets go of it looks for what others could not tell meanwhile.
struct Listed(Option<MutexGuard<'static, BTreeMap<RawFd, Known>>>);

fn queues() -> Listed {
    // It is whole between any two statements.
    Listed(Some(QUEUES.mine().lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Deref for Listed {
    type Target = BTreeMap<RawFd, Known>;

    fn deref(&self) -> &Self::Target {
        // reason: it is taken by the drop alone.
        self.0.as_ref().expect("held until dropped")
    }
}

impl DerefMut for Listed {
    fn deref_mut(&mut self) -> &mut Self::Target {
        // reason: as above.
        self.0.as_mut().expect("held until dropped")
    }
}

/// The list, in which a queue is about to come or go.
fn changed(queues: &mut BTreeMap<RawFd, Known>) -> &mut BTreeMap<RawFd, Known> {
    CHANGES.fetch_add(1, Ordering::AcqRel);
    queues
}

impl Drop for Listed {
    fn drop(&mut self) {
        drop(self.0.take());
        hear_missed();
    }
}

/// Has every queue look for closes that came while the list was locked. Whoever has it now does this after us.
fn hear_missed() {
    fence(Ordering::SeqCst);
    while MISSED.load(Ordering::SeqCst) {
        let Ok(queues) = QUEUES.mine().try_lock() else { return };
        MISSED.store(false, Ordering::SeqCst);
        let all: Vec<Arc<Queue>> = queues.values().map(|known| known.queue.clone()).collect();
        drop(queues);
        all.iter().for_each(|queue| queue.closed_meanwhile());
        fence(Ordering::SeqCst);
    }
}

impl Queue {
    /// An empty queue, whose descriptor is closed by execve(2).
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM: too many descriptors, too little memory.
    pub fn new() -> Result<Arc<Self>, Refused> {
        // Before it takes numbers: one that was closed, with all that belongs to it, would be taken for it.
        sweep();
        let queue = Self::unknown()?;
        queue.become_known();
        insert(queue.descriptor(), &queue);
        Ok(queue)
    }

    /// The queue whose descriptor has this number; none if there is none, or if it is another process's: queues are not inherited by fork(2).
    #[must_use]
    pub fn of(number: RawFd) -> Option<Arc<Self>> {
        find(number)
    }

    /// Closes the queue's descriptor. Who waits goes on waiting until his timeout, or is woken before; changes and waits that come later are
    /// refused to those who look for the queue by number.
    pub fn end(&self) {
        remove(self);
        self.close();
    }
}

/// `queue` has the descriptor `number`. One that had it before has lost it to a close that nobody told of.
fn insert(number: RawFd, queue: &Arc<Queue>) {
    let known = Known { queue: queue.clone(), watch: closing::watch(number) };
    let before = changed(&mut queues()).insert(number, known);
    pending::begin(number, queue.pending().clone());
    before.into_iter().for_each(|known| lost(number, &known.queue));
}

/// Ends the queues whose descriptors were closed and nobody told: what is theirs would otherwise be left behind for good.
fn sweep() {
    let mut queues = queues();
    let gone: Vec<RawFd> = queues.iter().filter(|(_, known)| !known.queue.check_open()).map(|(number, _)| *number).collect();
    let gone: Vec<_> = gone.into_iter().filter_map(|number| Some((number, changed(&mut queues).remove(&number)?))).collect();
    drop(queues);
    gone.iter().for_each(|(number, known)| lost(*number, &known.queue));
}

/// The queue with the descriptor `number`.
fn find(number: RawFd) -> Option<Arc<Queue>> {
    found(number).or_else(|| look_up(number))
}

/// What this thread found last, if that is the queue with the descriptor `number`.
fn found(number: RawFd) -> Option<Arc<Queue>> {
    let look = |found: &RefCell<Option<LastFound>>| {
        // In a signal's handler it may be in the middle of a change.
        let found = found.try_borrow().ok()?;
        let last = found.as_ref()?;
        let is_it = last.number == number && last.changes == CHANGES.load(Ordering::Acquire) && !last.watch.is_closed();
        let queue = if is_it { last.queue.upgrade() } else { None };
        queue.filter(|queue| queue.is_of_this_process())
    };
    // A thread that ends has nothing of its own any more.
    if has_place() { FOUND.try_with(look).ok()? } else { None }
}

fn has_place() -> bool {
    HAS_PLACE.with(|has| {
        has.set(has.get() || spare::check(spare::INTEREST).is_ok());
        has.get()
    })
}

fn look_up(number: RawFd) -> Option<Arc<Queue>> {
    let mut queues = queues();
    let known = queues.get(&number)?;
    if !known.watch.is_closed() {
        let changes = CHANGES.load(Ordering::Acquire);
        let found = LastFound { changes, number, watch: known.watch, queue: Arc::downgrade(&known.queue) };
        let keep = |place: &RefCell<Option<LastFound>>| place.try_borrow_mut().ok().and_then(|mut place| place.replace(found));
        if has_place() {
            let _ = FOUND.try_with(keep);
        }
        return Some(known.queue.clone());
    }
    let known = changed(&mut queues).remove(&number)?;
    drop(queues);
    lost(number, &known.queue);
    None
}

/// The queue ends with its descriptor, which is ours to close. One that has ended before has no number any more: another may have it since.
fn remove(queue: &Queue) {
    let number = queue.descriptor();
    let mut queues = queues();
    let is_here = queues.get(&number).is_some_and(|known| ptr::eq(Arc::as_ptr(&known.queue), queue));
    let known = if is_here { changed(&mut queues).remove(&number) } else { None };
    drop(queues);
    if let Some(known) = known {
        closing::unwatch(number);
        pending::end(number, known.queue.pending());
    }
}

fn lost(number: RawFd, queue: &Queue) {
    closing::unwatch(number);
    pending::end(number, queue.pending());
    queue.give_up();
}

/// Tells every queue that a number is about to be closed, and the queue whose descriptor it is: whether there is one. Where somebody holds a lock, he tells
/// when he lets go.
pub fn closed(number: RawFd) -> bool {
    let begin = |queues: &mut BTreeMap<RawFd, Known>| {
        let own = if queues.contains_key(&number) { changed(queues).remove(&number) } else { None };
        (own, first(queues, Bound::Unbounded))
    };
    let Some((own, mut next)) = look(begin) else { return false };
    let is_queue = own.is_some();
    own.into_iter().for_each(|known| lost(number, &known.queue));
    // One after the other, so that nothing is allocated, and the list is not locked while a queue looks.
    while let Some(one) = next {
        one.queue.try_closed(number);
        if one.is_last {
            break;
        }
        next = look(|queues| first(queues, Bound::Excluded(one.number))).flatten();
    }
    is_queue
}

/// A queue of the list.
struct Next {
    number: RawFd,
    queue: Arc<Queue>,
    /// No other stood behind it.
    is_last: bool,
}

/// The first queue of those that come `from` a number on.
fn first(queues: &BTreeMap<RawFd, Known>, from: Bound<RawFd>) -> Option<Next> {
    let mut behind = queues.range((from, Bound::Unbounded));
    let (number, known) = behind.next()?;
    Some(Next { number: *number, queue: known.queue.clone(), is_last: behind.next().is_none() })
}

/// Looks into the list if nobody has it. If somebody has, he has every queue look for closes when he lets go.
fn look<T>(into: impl FnOnce(&mut BTreeMap<RawFd, Known>) -> T) -> Option<T> {
    let Ok(queues) = QUEUES.mine().try_lock() else {
        MISSED.store(true, Ordering::SeqCst);
        hear_missed();
        return None;
    };
    Some(into(&mut Listed(Some(queues))))
}
