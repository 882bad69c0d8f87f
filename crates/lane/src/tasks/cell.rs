//! The part of a task that all threads share, and the list of those that were woken.
//!
//! Holds a marked cell: a waker is a counted pointer to a [`TaskCell`], and the cells that were woken form a linked
//! list through themselves, so that neither a wake nor a poll allocates.
//!
//! A cell's state has two bits. QUEUED is set from the wake until the lane pops the cell to poll its task: a task is
//! queued once however often it is woken, and again when it is woken while it is polled. DONE is set when the task has
//! finished, or was cancelled or dropped: a wake is then stale, and does nothing but count.
//!
//! Who sets QUEUED pushes the cell onto the inbox, a stack from which the lane takes everything at once. The inbox also
//! says that the lane sleeps: it then holds a mark in place of "empty", and whoever replaces the mark rings the bell. So
//! a sleep is rung for once, nobody rings for a lane that is awake, and no doorbell can be lost between two variables.
#![allow(unsafe_code)]

use crate::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64};
use crate::sync::{Arc, Ordering, UnsafeCell};
use corelane_seam::Bell;
use std::mem::ManuallyDrop;
use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// In a list of woken cells, or on the way there.
const QUEUED: u8 = 1;
/// The task has ended.
const DONE: u8 = 2;

/// What wakers point to.
pub(super) struct TaskCell {
    state: AtomicU8,
    /// The next cell of the list in which this one is. It belongs to the thread that has set QUEUED until the cell is
    /// pushed, and to the lane from then until it clears QUEUED.
    next: UnsafeCell<*const TaskCell>,
    index: u32,
    inbox: Arc<Inbox>,
}

// SAFETY: the pointer in `next` is all that keeps these from being derived. It is reached by one thread at a time, as
// its comment says, and the orderings on `state` and on the inbox's head carry it from one to the other; what it points
// to is counted by an `Arc`, whose contents any thread may use and drop.
unsafe impl Send for TaskCell {}
// SAFETY: as above.
unsafe impl Sync for TaskCell {}

impl TaskCell {
    /// Where the lane keeps the task.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Makes all wakes from now on stale.
    pub(super) fn end(&self) {
        self.state.fetch_or(DONE, Ordering::AcqRel);
    }

    pub(super) fn count_stale(&self) {
        self.inbox.stale.fetch_add(1, Ordering::Relaxed);
    }

    fn wake(cell: &Arc<Self>) {
        // Release, by an operation that writes even when QUEUED is set already: the poll that follows sees what the
        // waker did before. Acquire: the lane is done with `next` when it has cleared QUEUED.
        let before = cell.state.fetch_or(QUEUED, Ordering::AcqRel);
        if before & DONE != 0 {
            cell.count_stale();
        } else if before & QUEUED == 0 {
            // The caller keeps its own count, as the lane may drop the pushed one, and the inbox with it, at any moment.
            cell.inbox.push(Arc::clone(cell));
        }
    }

    /// # Safety
    /// `cell` is alive, and its link is the caller's as the comment on `next` says.
    unsafe fn next(cell: *const Self) -> *const Self {
        // SAFETY: the caller promises both.
        unsafe { (*cell).next.with(|next| *next) }
    }

    /// # Safety
    /// As [`TaskCell::next`].
    unsafe fn set_next(cell: *const Self, next: *const Self) {
        // SAFETY: the caller promises both.
        unsafe { (*cell).next.with_mut(|link| *link = next) }
    }
}

/// In the inbox's head: nothing was woken, and the lane sleeps. Not the address of a cell, as those are aligned.
const ASLEEP: *mut TaskCell = ptr::without_provenance_mut(1);
/// In the inbox's head: the lane's tasks are gone.
const CLOSED: *mut TaskCell = ptr::without_provenance_mut(2);

/// Where wakers leave the cells that the lane is to poll: a stack linked through the cells, newest first. Each cell in
/// it is one count of its `Arc`.
struct Inbox {
    head: AtomicPtr<TaskCell>,
    stale: AtomicU64,
    bell: std::sync::Arc<dyn Bell>,
}

impl Inbox {
    /// Adds a cell whose QUEUED bit the caller has just set.
    fn push(&self, cell: Arc<TaskCell>) {
        let cell = Arc::into_raw(cell);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head == CLOSED {
                // SAFETY: the count that `into_raw` left above, which nobody else has got.
                drop(unsafe { Arc::from_raw(cell) });
                return;
            }
            let next = if head == ASLEEP { ptr::null_mut() } else { head };
            // SAFETY: the count keeps it alive; it is not pushed yet, so the link is this thread's.
            unsafe { TaskCell::set_next(cell, next) };
            // Release: the lane sees the link, and the links that earlier pushes have released along this chain.
            match self.head.compare_exchange_weak(head, cell.cast_mut(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        if head == ASLEEP {
            self.bell.ring();
        }
    }

    fn has_cells(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        !head.is_null() && head != ASLEEP
    }
}

/// The lane's side: the inbox, and the cells that were taken out of it, oldest wake first and linked in the same way.
pub(super) struct Woken {
    inbox: Arc<Inbox>,
    first: *const TaskCell,
    last: *const TaskCell,
}

impl Woken {
    pub(super) fn new(bell: std::sync::Arc<dyn Bell>) -> Self {
        let inbox = Arc::new(Inbox { head: AtomicPtr::new(ptr::null_mut()), stale: AtomicU64::new(0), bell });
        Self { inbox, first: ptr::null(), last: ptr::null() }
    }

    /// Makes the cell of a new task, which counts as woken.
    pub(super) fn new_cell(&mut self, index: u32) -> Arc<TaskCell> {
        let state = AtomicU8::new(QUEUED);
        let inbox = Arc::clone(&self.inbox);
        let cell = Arc::new(TaskCell { state, next: UnsafeCell::new(ptr::null()), index, inbox });
        self.append(Arc::into_raw(Arc::clone(&cell)));
        cell
    }

    pub(super) fn stale(&self) -> u64 {
        self.inbox.stale.load(Ordering::Relaxed)
    }

    pub(super) fn has_cells(&self) -> bool {
        !self.first.is_null() || self.inbox.has_cells()
    }

    /// The cell behind a waker, if it is that of a task of these.
    pub(super) fn cell_behind<'w>(&self, waker: &'w Waker) -> Option<&'w TaskCell> {
        if !ptr::eq(waker.vtable(), &raw const WAKER) {
            return None;
        }
        // SAFETY: its table says that it was made here, so its data is a counted cell, and its count is there as long as the waker is borrowed.
        let cell = unsafe { &*waker.data().cast::<TaskCell>() };
        Arc::ptr_eq(&cell.inbox, &self.inbox).then_some(cell)
    }

    /// Whether some are left of those that were gathered.
    pub(super) fn has_gathered(&self) -> bool {
        !self.first.is_null()
    }

    /// Takes over what was woken since the last time.
    pub(super) fn gather(&mut self) {
        if self.inbox.has_cells() {
            // Acquire: the links of all that was pushed.
            let newest = self.inbox.head.swap(ptr::null_mut(), Ordering::Acquire);
            self.append(newest);
        }
    }

    /// The cell of the oldest wake that was gathered. The next wake queues it again.
    pub(super) fn pop(&mut self) -> Option<Arc<TaskCell>> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: it is in this list, so its count keeps it alive and its link is the lane's.
        let next = unsafe { TaskCell::next(self.first) };
        // SAFETY: the count that came in with the cell leaves with it; nothing in the list points to it any more.
        let cell = unsafe { Arc::from_raw(self.first) };
        self.first = next;
        // Acquire: what was done before the wakes. Release: the link has been read.
        let before = cell.state.fetch_and(!QUEUED, Ordering::AcqRel);
        assert!(before & QUEUED != 0, "who stands in the list is queued, else its link was not the lane's");
        Some(cell)
    }

    /// True: nothing is woken, and the bell will ring when something is.
    pub(super) fn announce_sleep(&mut self) -> bool {
        let head = &self.inbox.head;
        self.first.is_null()
            && match head.compare_exchange(ptr::null_mut(), ASLEEP, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => true,
                Err(found) => found == ASLEEP,
            }
    }

    pub(super) fn end_sleep(&mut self) {
        // Not the mark: a waker has replaced it already, or none was there.
        let _ = self.inbox.head.compare_exchange(ASLEEP, ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Adds the chain that starts with `newest` at the end, oldest first. It comes from the inbox, or is one new cell.
    fn append(&mut self, newest: *const TaskCell) {
        if newest.is_null() {
            return;
        }
        let mut oldest = ptr::null();
        let mut cell = newest;
        while !cell.is_null() {
            // SAFETY: its count keeps it alive, and the lane owns the links of what it has taken over.
            let next = unsafe { TaskCell::next(cell) };
            // SAFETY: the same cell.
            unsafe { TaskCell::set_next(cell, oldest) };
            oldest = cell;
            cell = next;
        }
        assert!(!ptr::eq(newest, ASLEEP) && !ptr::eq(newest, CLOSED), "a mark is no cell");
        if self.first.is_null() {
            self.first = oldest;
        } else {
            // SAFETY: `last` is in this list, hence alive and its link the lane's.
            unsafe { TaskCell::set_next(self.last, oldest) };
        }
        self.last = newest;
    }
}

impl Drop for Woken {
    /// Refuses all wakes from now on, and lets go of the cells that were woken: they count the inbox that counts them.
    fn drop(&mut self) {
        let newest = self.inbox.head.swap(CLOSED, Ordering::Acquire);
        if newest != ASLEEP {
            self.append(newest);
        }
        while self.pop().is_some() {}
    }
}

static WAKER: RawWakerVTable = RawWakerVTable::new(clone_waker, wake, wake_by_ref, drop_waker);

/// Turns a count of the cell into a waker.
pub(super) fn waker(cell: Arc<TaskCell>) -> Waker {
    // SAFETY: the functions of the table keep the contract of `RawWaker`: the data is one count of a cell that any
    // thread may use, given back exactly when the waker is consumed.
    unsafe { Waker::new(Arc::into_raw(cell).cast(), &WAKER) }
}

/// The cell of a waker, whose count stays with the waker.
///
/// # Safety
/// `data` is that of a waker made here which is not consumed while the result is used.
unsafe fn cell_of(data: *const ()) -> ManuallyDrop<Arc<TaskCell>> {
    // SAFETY: `data` was made from an `Arc`, and the count in it is not given back here.
    ManuallyDrop::new(unsafe { Arc::from_raw(data.cast()) })
}

/// # Safety
/// As [`cell_of`]; so for the other functions of the table.
unsafe fn clone_waker(data: *const ()) -> RawWaker {
    // SAFETY: the caller promises it.
    let cell = unsafe { cell_of(data) };
    RawWaker::new(Arc::into_raw(Arc::clone(&cell)).cast(), &WAKER)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the caller promises it; the waker's count is still there.
    unsafe { wake_by_ref(data) };
    // SAFETY: the caller does not use the waker again.
    unsafe { drop_waker(data) };
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the caller promises it.
    let cell = unsafe { cell_of(data) };
    TaskCell::wake(&cell);
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the caller does not use the waker again, so its count is given back here.
    drop(ManuallyDrop::into_inner(unsafe { cell_of(data) }));
}
