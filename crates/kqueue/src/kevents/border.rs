//! The functions of `corelane/kevent.h`.
//!
//! Holds a marked cell: C's names and C's pointers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};
use std::os::fd::RawFd;
use std::time::Duration;

use corelane_event::Refused;
use corelane_kevent::{Kevents, Position, RECORDS_MAX, Record, Ring, Statistics, Timeout};

use super::memory::Memory;
use super::table;
use crate::cancelling::uncancelled;
use crate::failing::fail;
use crate::owner;

const CTL_ADD: c_uint = 0;
const CTL_REMOVE: c_uint = 1;
const CTL_MODIFY: c_uint = 2;
const CTL_READY: c_uint = 3;

/// The timeout is an instant of the wall clock.
const ABSTIME: c_uint = 1;

/// The most events that are handed out at once where no more are asked for as a minimum.
const BATCH: usize = 1024;

/// How long a call waits with a descriptor that does not block (O_NONBLOCK).
const AT_ONCE: Timeout = Timeout::Within(Duration::ZERO);

/// `struct kevent_stats`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Stats {
    taken: u64,
    ringed: u64,
    at_once: u64,
    total: u64,
}

fn answer(call: impl FnOnce() -> Result<usize, i32>) -> c_int {
    match uncancelled(call) {
        // reason: at most as many as fit into a call, or a ring.
        Ok(count) => c_int::try_from(count).expect("a count that C can have"),
        Err(number) => fail(number),
    }
}

fn number(refused: Refused) -> i32 {
    refused.number
}

/// Memory for a ring of `size` events, shared with children of fork(2); null with errno EINVAL (fewer than 2, more than 1,048,576), ENOMEM or EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn kevent_ring_map(size: c_uint) -> *const u64 {
    match uncancelled(|| Ring::new(size)) {
        Ok(ring) => table::keep_ring(ring),
        Err(refused) => {
            fail(refused.number);
            std::ptr::null()
        }
    }
}

/// The caller uses a ring no more; its memory goes when its queue is closed, too. -1 with EFAULT: not a ring of [`kevent_ring_map`].
#[unsafe(no_mangle)]
pub extern "C" fn kevent_ring_unmap(ring: *const u64) -> c_int {
    answer(|| table::unmap(ring.addr()).map(|()| 0))
}

/// A new queue, with a ring or without one. -1 with errno EINVAL (a ring without its size, a size without a ring, 1, any flag), EFAULT (not a ring of
/// [`kevent_ring_map`]), EMFILE, ENFILE, ENOMEM. Closed by close(2).
#[unsafe(no_mangle)]
pub extern "C" fn kevent_init(ring: *const u64, ring_size: c_uint, flags: c_uint) -> c_int {
    owner::this_process_has_queues();
    let make = || ring_of(ring, ring_size, flags).and_then(|ring| Kevents::new(ring).map_err(number)).map(table::keep);
    match uncancelled(make) {
        Ok(descriptor) => descriptor,
        Err(number) => fail(number),
    }
}

fn ring_of(ring: *const u64, size: c_uint, flags: c_uint) -> Result<Option<std::sync::Arc<Ring>>, i32> {
    if flags != 0 || ring.is_null() != (size == 0) || size == 1 {
        return Err(libc::EINVAL);
    }
    if ring.is_null() {
        return Ok(None);
    }
    let ring = table::ring(ring.addr())?;
    if ring.size() == size { Ok(Some(ring)) } else { Err(libc::EINVAL) }
}

/// Adds, modifies, removes or marks `count` kevents at `records`. -1 with errno EBADF, EINVAL (an unknown command; more than are registered, or than 65,536),
/// EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn kevent_ctl(queue: c_int, command: c_uint, count: c_uint, records: *mut Record) -> c_int {
    answer(|| control(queue, command, count as usize, records))
}

fn control(queue: RawFd, command: c_uint, count: usize, records: *mut Record) -> Result<usize, i32> {
    let kevents = table::queue(queue)?;
    if count > RECORDS_MAX {
        return Err(libc::EINVAL);
    }
    let act = match command {
        CTL_ADD => Kevents::add,
        CTL_REMOVE => Kevents::remove,
        CTL_MODIFY => Kevents::modify,
        CTL_READY => return kevents.ready(&Memory::to_read(records, count)?.read()?).map_err(number),
        _ => return Err(libc::EINVAL),
    };
    // Nothing is done that could not be answered.
    let memory = Memory::to_write(records, count)?;
    let mut copies = memory.read()?;
    let answered = act(&kevents, &mut copies).map_err(number)?;
    // Of what was added only answers are brought to the front.
    memory.write(if command == CTL_ADD { &copies[..answered] } else { &copies });
    Ok(answered)
}

/// Waits for at least `least` events and stores at most `most` at `records`. -1 with errno EBADF, EFAULT, EINVAL (a time out of range, an unknown flag), EINTR.
#[unsafe(no_mangle)]
pub extern "C" fn kevent_get_events(
    queue: c_int,
    least: c_uint,
    most: c_uint,
    timeout: libc::timespec,
    records: *mut Record,
    flags: c_uint,
) -> c_int {
    answer(|| get_events(queue, least as usize, most as usize, timeout_of(&timeout, flags), records))
}

fn get_events(
    queue: RawFd,
    least: usize,
    most: usize,
    timeout: Result<Timeout, i32>,
    records: *mut Record,
) -> Result<usize, i32> {
    let kevents = table::queue(queue)?;
    let room = most.min(least.clamp(BATCH, RECORDS_MAX));
    let memory = Memory::to_write(records, room)?;
    let mut told = Vec::new();
    told.try_reserve_exact(room).map_err(|_| libc::ENOMEM)?;
    told.resize(room, Record::default());
    let timeout = timeout.map(|timeout| if is_nonblocking(queue) { AT_ONCE } else { timeout })?;
    let count = kevents.get_events(least, &mut told, timeout).map_err(number)?;
    memory.write(&told[..count]);
    Ok(count)
}

/// Moves at most `most` events into the ring, and waits where there is nothing in it and its index is `seen`. -1 with errno EBADF, EINVAL (no ring, a time out of
/// range, an unknown flag), EINTR, EIO (the ring was written over).
#[unsafe(no_mangle)]
pub extern "C" fn kevent_wait(queue: c_int, most: c_uint, seen: c_uint, timeout: libc::timespec, flags: c_uint) -> c_int {
    let timeout = timeout_of(&timeout, flags);
    answer(|| table::queue(queue)?.wait(most as usize, seen, timeout?).map_err(number))
}

/// Frees what lies before `index` in the ring's round `over`; says how many events that was. No call to the system. -1 with errno EBADF, EINVAL (no ring; no such
/// index, or beyond what is there), EOVERFLOW (an earlier round), EIO.
#[unsafe(no_mangle)]
pub extern "C" fn kevent_commit(queue: c_int, index: c_uint, over: c_uint) -> c_int {
    answer(|| table::queue(queue)?.commit(Position { index, over }).map(|freed| freed as usize).map_err(number))
}

/// Puts an event of the program's own into the ring. -1 with errno EBADF, EFAULT, EINVAL (no ring), ENOSPC (it is full), EIO.
#[unsafe(no_mangle)]
pub extern "C" fn kevent_put(queue: c_int, record: *const Record) -> c_int {
    answer(|| table::queue(queue)?.put(&Memory::to_read(record, 1)?.read()?[0]).map(|()| 0).map_err(number))
}

/// What was told so far. -1 with errno EBADF, EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn kevent_get_stats(queue: c_int, stats: *mut Stats) -> c_int {
    answer(|| {
        let Statistics { taken, ringed, at_once, total, .. } = table::queue(queue)?.statistics();
        Memory::to_write(stats, 1).map(|memory| memory.write(&[Stats { taken, ringed, at_once, total }])).map(|()| 0)
    })
}

/// How long to wait: negative seconds mean for ever.
fn timeout_of(time: &libc::timespec, flags: c_uint) -> Result<Timeout, i32> {
    let nanoseconds = u32::try_from(time.tv_nsec).ok().filter(|rest| *rest < 1_000_000_000).ok_or(libc::EINVAL)?;
    if flags & !ABSTIME != 0 {
        return Err(libc::EINVAL);
    }
    Ok(match u64::try_from(time.tv_sec) {
        Err(_) => Timeout::Never,
        Ok(seconds) if flags == ABSTIME => Timeout::Until(Duration::new(seconds, nanoseconds)),
        Ok(seconds) => Timeout::Within(Duration::new(seconds, nanoseconds)),
    })
}

fn is_nonblocking(queue: RawFd) -> bool {
    // SAFETY: asks for flags alone.
    let flags = unsafe { libc::fcntl(queue, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}
