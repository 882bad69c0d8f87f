//! The functions of `sys/event.h`.
//!
//! Holds a marked cell: C's pointers and C's names.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use corelane_event::Queue;

use crate::call::{self, Lists, Timeout};
use crate::cancelling::uncancelled;
use crate::failing::fail;
use crate::owner;
use crate::record::{Kevent, Record, number};
use crate::short::Short;

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// kqueue(2): a new queue, or -1 with errno EMFILE, ENFILE or ENOMEM. Closed by close(2); not inherited by fork(2).
#[unsafe(no_mangle)]
pub extern "C" fn kqueue() -> c_int {
    owner::this_process_has_queues();
    match uncancelled(Queue::new) {
        // The core keeps the queue until its descriptor is closed.
        Ok(queue) => {
            queue.hand_over_outcomes();
            queue.descriptor()
        }
        Err(refused) => fail(number(refused)),
    }
}

/// kqueue1(2): as [`kqueue`]. `flags` is 0 or O_CLOEXEC, which every queue is; EINVAL for others.
#[unsafe(no_mangle)]
pub extern "C" fn kqueue1(flags: c_int) -> c_int {
    if flags & !libc::O_CLOEXEC == 0 { kqueue() } else { fail(libc::EINVAL) }
}

/// kqueuex(2) of FreeBSD 14: as [`kqueue`]. `flags` is 0 or KQUEUE_CLOEXEC (1), which every queue is; EINVAL for others.
#[unsafe(no_mangle)]
pub extern "C" fn kqueuex(flags: c_uint) -> c_int {
    const CLOEXEC: c_uint = 1;
    if flags & !CLOEXEC == 0 { kqueue() } else { fail(libc::EINVAL) }
}

/// kevent(2). -1 with errno: EBADF (no queue of this process), EFAULT (a null list with a count), EINVAL (a negative count, a
/// timeout out of range), EINTR, and those of a change for which there was no room to answer.
///
/// # Safety
///
/// `changelist` points to `nchanges` records and `eventlist` to room for `nevents`; they may be the same. `timeout` is null or
/// points to a timespec. All may be null where their count is 0. A pointer that is neither null nor valid cannot be told from a
/// valid one: the program is ended by a signal, or its memory overwritten, as with any function of C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kevent(
    kq: c_int,
    changelist: *const Kevent,
    nchanges: c_int,
    eventlist: *mut Kevent,
    nevents: c_int,
    timeout: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { answer(kq, changelist, nchanges, eventlist, nevents, timeout) }
}

/// [`kevent`] as libkqueue has it: the record is shorter, and the notes of timers have other numbers. `shared.sh` gives it C's name in the
/// library that takes libkqueue's place.
///
/// # Safety
///
/// As for [`kevent`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corelane_short_kevent(
    kq: c_int,
    changelist: *const Short,
    nchanges: c_int,
    eventlist: *mut Short,
    nevents: c_int,
    timeout: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { answer(kq, changelist, nchanges, eventlist, nevents, timeout) }
}

/// A call of kevent(2) with records of either form.
///
/// # Safety
///
/// As for [`kevent`].
unsafe fn answer<R: Record>(
    kq: c_int,
    changelist: *const R,
    nchanges: c_int,
    eventlist: *mut R,
    nevents: c_int,
    timeout: *const libc::timespec,
) -> c_int {
    let call = || {
        let queue = Queue::of(kq).ok_or(libc::EBADF)?;
        let mut arrays = Arrays { changelist, changes: count(nchanges)?, eventlist, room: count(nevents)? };
        arrays.check()?;
        call::kevent(&queue, &mut arrays, || {
            // SAFETY: null or a timespec, says the caller.
            duration(unsafe { timeout.as_ref() })
        })
    };
    let answered = uncancelled(call);
    match answered {
        // reason: at most as many as the caller's counts, which are of this type.
        Ok(stored) => c_int::try_from(stored).expect("as many as there is room for"),
        Err(number) => fail(number),
    }
}

/// The two arrays of a call.
struct Arrays<R> {
    changelist: *const R,
    changes: usize,
    eventlist: *mut R,
    room: usize,
}

impl<R> Arrays<R> {
    fn check(&self) -> Result<(), i32> {
        let missing = self.changes > 0 && self.changelist.is_null() || self.room > 0 && self.eventlist.is_null();
        if missing { Err(libc::EFAULT) } else { Ok(()) }
    }
}

impl<R: Record> Lists for Arrays<R> {
    fn changes(&self) -> usize {
        self.changes
    }

    fn change(&self, index: usize) -> Kevent {
        assert!(index < self.changes, "one of the changes");
        // SAFETY: `kevent`'s caller says that there are as many, and it was checked not to be null. Read by value, because the
        // other array may be the same memory. C promises no more alignment than its own.
        unsafe { self.changelist.add(index).read_unaligned() }.into()
    }

    fn room(&self) -> usize {
        self.room
    }

    fn store(&mut self, index: usize, event: Kevent) {
        assert!(index < self.room, "within the room");
        // SAFETY: as above; the memory may be uninitialised and is only written.
        unsafe { self.eventlist.add(index).write_unaligned(event.into()) }
    }
}

fn count(given: c_int) -> Result<usize, i32> {
    usize::try_from(given).map_err(|_| libc::EINVAL)
}

/// How long to wait; no limit without a timeout.
fn duration(timeout: Option<&libc::timespec>) -> Timeout {
    let Some(time) = timeout else { return Ok(None) };
    let whole = u64::try_from(time.tv_sec).map_err(|_| libc::EINVAL)?;
    let rest = c_uint::try_from(time.tv_nsec).map_err(|_| libc::EINVAL)?;
    if i64::from(rest) < SECOND { Ok(Some(Duration::new(whole, rest))) } else { Err(libc::EINVAL) }
}
