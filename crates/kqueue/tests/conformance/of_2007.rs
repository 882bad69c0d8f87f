//! kqueue(2) as far as kevent of 2007 can say the same, so that the cases run on that face, too: each interest is a kevent of its own, and what is told comes from
//! `kevent_get_events`, or lies in a ring.
//!
//! | filter | kevent |
//! | --- | --- |
//! | READ, WRITE | KEVENT_SOCKET, KEVENT_PIPE by what the descriptor is; KEVENT_POLL for all else, and for the second of the two |
//! | TIMER | KEVENT_TIMER, whose time is its id |
//! | USER | a timer that never goes off, marked by KEVENT_CTL_READY |
//! | SIGNAL, VNODE of a folder | KEVENT_SIGNAL, KEVENT_INODE |
//! | PROC, for EXIT | KEVENT_POLL of a pidfd |
//! | AIO, LIO | KEVENT_AIO |
//!
//! ADD is KEVENT_CTL_ADD or _MODIFY, ONESHOT and CLEAR are flags of the request; what is disabled is removed there, and DISPATCH is a ONESHOT that is remembered here.
//!
//! Holds a marked cell: calls C functions as a C program does.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use corelane_kevent::{HEADER_WORDS, Kind, Record, Request, Returned, WORDS, events};
use corelane_kqueue::Kevent;
use libc::{EFAULT, EINVAL, ENOENT, timespec};

use crate::numbers::*;
use crate::rig::loaded;

/// Says, in the environment, that what is told comes from a ring.
pub const RING: &str = "ring";
/// And that it comes from calls.
pub const CALLS: &str = "calls";

/// Events of a ring: few, so that it goes round.
const RING_SIZE: u32 = 13;

const CTL_ADD: c_uint = 0;
const CTL_REMOVE: c_uint = 1;
const CTL_MODIFY: c_uint = 2;
const CTL_READY: c_uint = 3;

const NEVER: timespec = timespec { tv_sec: -1, tv_nsec: 0 };

/// Seconds from which on times are those of USER: 34 years and more.
const FAR: u32 = 1 << 30;

type RingMap = extern "C" fn(c_uint) -> *const u64;
type Init = extern "C" fn(*const u64, c_uint, c_uint) -> c_int;
type Ctl = extern "C" fn(c_int, c_uint, c_uint, *mut Record) -> c_int;
type GetEvents = extern "C" fn(c_int, c_uint, c_uint, timespec, *mut Record, c_uint) -> c_int;
type Wait = extern "C" fn(c_int, c_uint, c_uint, timespec, c_uint) -> c_int;
type Commit = extern "C" fn(c_int, c_uint, c_uint) -> c_int;

/// The functions under test.
struct Api {
    ring_map: RingMap,
    init: Init,
    ctl: Ctl,
    get_events: GetEvents,
    wait: Wait,
    commit: Commit,
}

/// The shared library's where that is preloaded, else those linked into this program.
fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    macro_rules! of {
        ($name:ident: $kind:ty) => {
            loaded(CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).unwrap())
                // SAFETY: the function of this name has this signature.
                .map_or(corelane_kqueue::$name as $kind, |found| unsafe { std::mem::transmute::<*mut c_void, $kind>(found) })
        };
    }
    API.get_or_init(|| Api {
        ring_map: of!(kevent_ring_map: RingMap),
        init: of!(kevent_init: Init),
        ctl: of!(kevent_ctl: Ctl),
        get_events: of!(kevent_get_events: GetEvents),
        wait: of!(kevent_wait: Wait),
        commit: of!(kevent_commit: Commit),
    })
}

/// What is known of a queue.
#[derive(Default)]
struct Bridge {
    ring: Option<&'static [AtomicU64]>,
    interests: HashMap<(i16, usize), Interest>,
    /// What events bring back, and of which interest that says.
    tokens: HashMap<u64, (i16, usize)>,
    last: u64,
}

struct Interest {
    /// As the case said it.
    change: Kevent,
    record: Record,
    is_registered: bool,
    /// Of a process.
    _process: Option<OwnedFd>,
}

// SAFETY: a case's udata is a number, which nobody follows.
unsafe impl Send for Interest {}

fn bridges() -> MutexGuard<'static, HashMap<RawFd, Bridge>> {
    static BRIDGES: OnceLock<Mutex<HashMap<RawFd, Bridge>>> = OnceLock::new();
    BRIDGES.get_or_init(Mutex::default).lock().unwrap()
}

fn last_error() -> i32 {
    nix::errno::Errno::last_raw()
}

fn fail(number: i32) -> c_int {
    nix::errno::Errno::from_raw(number).set();
    -1
}

/// kqueue(2).
pub extern "C" fn kqueue() -> c_int {
    let by_ring = std::env::var(crate::FACE).is_ok_and(|face| face == RING);
    let ring = if by_ring { (api().ring_map)(RING_SIZE) } else { std::ptr::null() };
    if by_ring && ring.is_null() {
        return -1;
    }
    let queue = (api().init)(ring, if by_ring { RING_SIZE } else { 0 }, 0);
    if queue >= 0 {
        let words = HEADER_WORDS + RING_SIZE as usize * WORDS;
        // SAFETY: a ring of this size, whose memory is never unmapped, and which others change by atomic operations alone.
        let ring = by_ring.then(|| unsafe { std::slice::from_raw_parts(ring.cast::<AtomicU64>(), words) });
        bridges().insert(queue, Bridge { ring, ..Bridge::default() });
    }
    queue
}

/// kqueue1(2).
pub extern "C" fn kqueue1(flags: c_int) -> c_int {
    if flags & !libc::O_CLOEXEC == 0 { kqueue() } else { fail(EINVAL) }
}

/// kevent(2).
///
/// # Safety
///
/// As for kevent(2).
pub unsafe extern "C" fn kevent(
    queue: c_int,
    changes: *const Kevent,
    count: c_int,
    told: *mut Kevent,
    room: c_int,
    timeout: *const timespec,
) -> c_int {
    let (Ok(count), Ok(room)) = (usize::try_from(count), usize::try_from(room)) else { return fail(EINVAL) };
    if count > 0 && changes.is_null() || room > 0 && told.is_null() {
        return fail(EFAULT);
    }
    // SAFETY: as many as there are, says the caller.
    let changes: Vec<Kevent> = (0..count).map(|index| unsafe { changes.add(index).read() }).collect();
    // SAFETY: null or a time, says the caller.
    let timeout = unsafe { timeout.as_ref() }.copied();
    match call(queue, &changes, room, timeout) {
        Ok(events) => {
            // SAFETY: there is room for as many, says the caller.
            events.iter().enumerate().for_each(|(index, event)| unsafe { told.add(index).write(*event) });
            c_int::try_from(events.len()).unwrap()
        }
        Err(number) => fail(number),
    }
}

fn call(queue: RawFd, changes: &[Kevent], room: usize, timeout: Option<timespec>) -> Result<Vec<Kevent>, i32> {
    // Whether it is a queue the face says.
    answered((api().get_events)(queue, 0, 0, NEVER, std::ptr::null_mut(), 0))?;
    let mut answers = Vec::new();
    for change in changes.iter().filter(|change| change.filter != 0) {
        let done = apply(queue, change);
        let number = done.err().unwrap_or(0);
        if (number > 0 || change.flags & RECEIPT != 0) && answers.len() < room {
            answers.push(Kevent { flags: ERROR, data: number.into(), ..*change });
        } else {
            done?;
        }
    }
    if room == 0 || !answers.is_empty() {
        return Ok(answers);
    }
    take(queue, room, timeout)
}

fn answered(returned: c_int) -> Result<usize, i32> {
    usize::try_from(returned).map_err(|_| last_error())
}

/// One record by kevent_ctl: what is refused is said in it.
fn control(queue: RawFd, command: c_uint, record: &Record) -> Result<(), i32> {
    let mut records = [*record];
    match answered((api().ctl)(queue, command, 1, records.as_mut_ptr())) {
        // Nothing at all is registered.
        Err(EINVAL) if command != CTL_ADD => Err(ENOENT),
        Ok(0) if command == CTL_READY => Err(ENOENT),
        _ if records[0].returned.contains(Returned::BROKEN) => Err(records[0].data[1].cast_signed()),
        other => other.map(|_| ()),
    }
}

fn apply(queue: RawFd, change: &Kevent) -> Result<(), i32> {
    if change.flags & (ENABLE | DISABLE) == ENABLE | DISABLE || change.flags & FORCEONESHOT != 0 {
        return Err(EINVAL);
    }
    let mut bridges = bridges();
    let bridge = bridges.entry(queue).or_default();
    let name = (change.filter, change.ident);
    if change.flags & (ADD | DELETE) == 0 && change.filter == USER && change.fflags == NOTE_TRIGGER {
        let interest = bridge.interests.get_mut(&name).ok_or(ENOENT)?;
        return control(queue, CTL_READY, &interest.record);
    }
    if change.flags & DELETE != 0 {
        return match bridge.interests.remove(&name) {
            Some(known) if known.is_registered => {
                control(queue, CTL_REMOVE, &known.record).map_err(|number| missing(change, number))
            }
            Some(_) => Ok(()),
            None => Err(missing(change, ENOENT)),
        };
    }
    if change.flags & ADD == 0 {
        let known = bridge.interests.get(&name).ok_or(ENOENT)?;
        let is_registered = change.flags & DISABLE == 0 && (known.is_registered || change.flags & ENABLE != 0);
        let before = known.change;
        return bridge.register(queue, &Kevent { udata: change.udata, ..before }, is_registered);
    }
    bridge.register(queue, change, change.flags & DISABLE == 0)
}

/// Why what is not registered cannot be deleted: kqueue(2) says where that is because its descriptor is closed.
fn missing(change: &Kevent, number: i32) -> i32 {
    let is_of_descriptor = matches!(change.filter, READ | WRITE | VNODE);
    // SAFETY: asks for flags alone.
    let is_open = || unsafe { libc::fcntl(RawFd::try_from(change.ident).unwrap_or(-1), libc::F_GETFD) } >= 0;
    if number == ENOENT && is_of_descriptor && !is_open() { libc::EBADF } else { number }
}

impl Bridge {
    /// Has the face know of an interest what `change` says, or forget it.
    fn register(&mut self, queue: RawFd, change: &Kevent, is_on: bool) -> Result<(), i32> {
        let name = (change.filter, change.ident);
        let was_on = self.interests.get(&name).is_some_and(|known| known.is_registered);
        let (record, process) = self.record(change)?;
        let record = match self.interests.get(&name) {
            // What it is does not change, unless it is its time.
            Some(known) if change.filter != TIMER => Record { id: known.record.id, kind: known.record.kind, ..record },
            _ => record,
        };
        match (was_on, is_on) {
            (false, false) => {}
            (true, _) if self.interests[&name].record.id != record.id => {
                control(queue, CTL_REMOVE, &self.interests[&name].record)?;
                control(queue, CTL_ADD, &record)?;
            }
            (false, true) => control(queue, CTL_ADD, &record)?,
            (true, false) => control(queue, CTL_REMOVE, &record)?,
            (true, true) => match control(queue, CTL_MODIFY, &record) {
                // Its descriptor was closed, and means another file.
                Err(ENOENT) => control(queue, CTL_ADD, &record)?,
                done => done?,
            },
        }
        self.tokens.insert(record.user, name);
        let process = process.or_else(|| self.interests.remove(&name).and_then(|known| known._process));
        self.interests.insert(name, Interest { change: *change, record, is_registered: is_on, _process: process });
        Ok(())
    }

    /// A kevent that is as close to an interest as can be.
    fn record(&mut self, change: &Kevent) -> Result<(Record, Option<OwnedFd>), i32> {
        self.last += 1;
        let id = change.ident as u64;
        let mut process = None;
        let record = match change.filter {
            READ | WRITE if change.fflags == 0 => self.descriptor(change),
            TIMER => timer(change)?,
            USER if change.fflags == 0 => Record::timer(FAR + u32::try_from(self.last).unwrap(), 0),
            SIGNAL => Record::new(Kind::Signal, id, events::DELIVERED),
            VNODE if change.fflags == NOTE_WRITE => Record::new(Kind::Inode, id, events::CREATE | events::REMOVE),
            PROC if change.fflags == NOTE_EXIT => {
                let opened = pidfd(change.ident)?;
                let number = opened.as_raw_fd();
                process = Some(opened);
                Record::new(Kind::Poll, number.unsigned_abs().into(), POLLIN).with(Request::ONESHOT)
            }
            _ => return Err(EINVAL),
        };
        let once = if change.flags & (ONESHOT | DISPATCH) == 0 { Request::empty() } else { Request::ONESHOT };
        let edge = if change.flags & CLEAR == 0 { Request::empty() } else { Request::ET };
        let all = Request::LAST_CHECK | Request::WAKEUP_ALL | Request::ALWAYS_QUEUE;
        Ok((record.with(once | edge | all).user(self.last), process))
    }

    fn descriptor(&self, change: &Kevent) -> Record {
        let number = RawFd::try_from(change.ident).unwrap_or(-1);
        let reads = change.filter == READ;
        let other = if reads { WRITE } else { READ };
        let kind = match format(number) {
            // One kevent of a descriptor is of one kind.
            _ if self.interests.contains_key(&(other, change.ident)) => Kind::Poll,
            libc::S_IFSOCK => Kind::Socket,
            libc::S_IFIFO => Kind::Pipe,
            _ => Kind::Poll,
        };
        let event = match (kind, reads) {
            (Kind::Poll, true) => POLLIN,
            (Kind::Poll, false) => POLLOUT,
            (_, true) if kind == Kind::Socket && listens(number) => events::ACCEPT,
            (_, true) => events::RECV,
            (_, false) => events::SEND,
        };
        Record::new(kind, change.ident as u64, event)
    }

    /// The event that a record tells of; none if it is the end of an interest.
    fn event(&mut self, record: &Record) -> Option<Kevent> {
        if record.kind == Kind::Aio as u32 {
            return Some(completion(record));
        }
        let name = *self.tokens.get(&record.user)?;
        let known = self.interests.get_mut(&name).filter(|known| known.record.user == record.user)?;
        let mut event = told(&known.change, record);
        if record.returned.contains(Returned::BROKEN) || known.change.flags & ONESHOT != 0 {
            self.interests.remove(&name);
        } else if known.change.flags & DISPATCH != 0 {
            known.is_registered = false;
        }
        if record.returned.contains(Returned::BROKEN) {
            return None;
        }
        if event.filter == PROC {
            (event.flags, event.fflags, event.data) = (ONESHOT | EOF, NOTE_EXIT, status(event.ident));
            self.interests.remove(&name);
        }
        Some(event)
    }
}

const POLLIN: u32 = 1;
const POLLOUT: u32 = 4;

/// What a case sees of a record that is told. Of what the face does not count there is one.
fn told(change: &Kevent, record: &Record) -> Kevent {
    let own = if matches!(change.filter, TIMER | SIGNAL) { CLEAR } else { 0 };
    let counts = change.filter == USER || change.filter == READ && record.kind != Kind::Poll as u32;
    let data = i64::from(record.data[1]);
    Kevent {
        flags: change.flags & (ONESHOT | CLEAR | DISPATCH) | own,
        fflags: if change.filter == VNODE { NOTE_WRITE } else { 0 },
        data: if counts { data } else { data.max(1) },
        ..*change
    }
}

/// The end of an operation, or of a list of them.
fn completion(record: &Record) -> Kevent {
    Kevent {
        ident: record.id as usize,
        filter: if record.event == events::LIST_COMPLETE { LIO } else { AIO },
        flags: if record.returned.contains(Returned::BROKEN) { ONESHOT | EOF } else { ONESHOT },
        fflags: record.data[1],
        data: i64::from(record.data[0]),
        udata: std::ptr::without_provenance_mut(record.user as usize),
        ext: [0; 4],
    }
}

/// A timer of the same time. Its face refuses what is no time.
fn timer(change: &Kevent) -> Result<Record, i32> {
    let unit: u64 = match change.fflags {
        0 | NOTE_MSECONDS => 1_000_000,
        NOTE_SECONDS => 1_000_000_000,
        NOTE_USECONDS => 1_000,
        NOTE_NSECONDS => 1,
        _ => return Err(EINVAL),
    };
    let time = u64::try_from(change.data).ok().and_then(|time| time.checked_mul(unit)).ok_or(EINVAL)?;
    let seconds = u32::try_from(time / 1_000_000_000).ok().filter(|seconds| *seconds < FAR).ok_or(EINVAL)?;
    Ok(Record::timer(seconds, (time % 1_000_000_000) as u32))
}

fn format(number: RawFd) -> libc::mode_t {
    // SAFETY: zero is a valid value of it, and the place is ours.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::fstat(number, &raw mut stat) } == 0 { stat.st_mode & libc::S_IFMT } else { libc::S_IFSOCK }
}

fn listens(number: RawFd) -> bool {
    let (mut listens, mut length): (c_int, libc::socklen_t) = (0, 4);
    // SAFETY: a place of this length.
    let asked =
        unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, (&raw mut listens).cast(), &raw mut length) };
    asked == 0 && listens != 0
}

fn pidfd(process: usize) -> Result<OwnedFd, i32> {
    let process = i32::try_from(process).map_err(|_| libc::ESRCH)?;
    // SAFETY: takes no pointers; the number is new.
    unsafe {
        let number = libc::syscall(libc::SYS_pidfd_open, process, 0);
        if number < 0 { Err(last_error()) } else { Ok(OwnedFd::from_raw_fd(RawFd::try_from(number).unwrap())) }
    }
}

/// The wait status of a child that has ended, which stays to be waited for; 0 of what is no child.
fn status(process: usize) -> i64 {
    // SAFETY: zero is a valid value of it, and the place is ours.
    unsafe {
        let mut what: libc::siginfo_t = std::mem::zeroed();
        let id = libc::id_t::try_from(process).unwrap();
        if libc::waitid(libc::P_PID, id, &raw mut what, libc::WEXITED | libc::WNOWAIT) < 0 {
            return 0;
        }
        let code = i64::from(what.si_status());
        if what.si_code == libc::CLD_EXITED { code << 8 } else { code }
    }
}

/// Waits for at least one event, and takes at most `room`.
fn take(queue: RawFd, room: usize, timeout: Option<timespec>) -> Result<Vec<Kevent>, i32> {
    let polls = timeout.is_some_and(|time| time.tv_sec == 0 && time.tv_nsec == 0);
    let deadline = timeout.and_then(|time| {
        let time = Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
        Instant::now().checked_add(time)
    });
    let mut wait = timeout;
    loop {
        let ring = bridges().get(&queue).and_then(|bridge| bridge.ring);
        let records = match ring {
            Some(ring) => from_ring(queue, ring, room, wait.unwrap_or(NEVER))?,
            None => from_calls(queue, room, wait.unwrap_or(NEVER))?,
        };
        let mut bridges = bridges();
        let bridge = bridges.entry(queue).or_default();
        let told: Vec<_> = records.iter().filter_map(|record| bridge.event(record)).collect();
        let is_over = polls && records.is_empty() || deadline.is_some_and(|deadline| !polls && Instant::now() >= deadline);
        if !told.is_empty() || is_over {
            return Ok(told);
        }
        wait = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
        });
    }
}

fn from_calls(queue: RawFd, room: usize, timeout: timespec) -> Result<Vec<Record>, i32> {
    let mut records = vec![Record::default(); room];
    let count = answered((api().get_events)(queue, 1, c_uint::try_from(room).unwrap(), timeout, records.as_mut_ptr(), 0))?;
    records.truncate(count);
    Ok(records)
}

/// Has the ring filled until there is no room for more, or nothing more comes, and takes what lies there.
fn from_ring(queue: RawFd, ring: &[AtomicU64], room: usize, timeout: timespec) -> Result<Vec<Record>, i32> {
    let mut taken = Vec::new();
    let mut wait = timeout;
    while taken.len() < room {
        let position = ring[CONSUMED].load(Ordering::Acquire);
        let most = c_uint::try_from(room - taken.len()).unwrap();
        answered((api().wait)(queue, most, position as u32, wait, 0))?;
        let mine = from_memory(queue, ring, room - taken.len())?;
        if mine.is_empty() {
            break;
        }
        taken.extend(mine);
        // What is told for as long as it is so comes again with the next round.
        let levels = taken.iter().any(|record| !record.request.intersects(Request::ET | Request::ONESHOT));
        if levels {
            break;
        }
        wait = timespec { tv_sec: 0, tv_nsec: 0 };
    }
    Ok(taken)
}

const PRODUCED: usize = 0;
const CONSUMED: usize = 16;

/// What lies in the ring and no other thread has taken, at most `room`.
fn from_memory(queue: RawFd, ring: &[AtomicU64], room: usize) -> Result<Vec<Record>, i32> {
    loop {
        let consumed = ring[CONSUMED].load(Ordering::Acquire);
        let produced = ring[PRODUCED].load(Ordering::Acquire);
        let (mut index, mut over) = (consumed as u32, (consumed >> 32) as u32);
        let rounds = ((produced >> 32) as u32).wrapping_sub(over);
        let count = rounds.wrapping_mul(RING_SIZE).wrapping_add(produced as u32).wrapping_sub(index);
        let count = (count as usize).min(room);
        let mut records = Vec::with_capacity(count);
        for _ in 0..count {
            let words = std::array::from_fn(|word| ring[HEADER_WORDS + index as usize * WORDS + word].load(Ordering::Relaxed));
            records.push(Record::from_words(words));
            index += 1;
            if index == RING_SIZE {
                (index, over) = (0, over.wrapping_add(1));
            }
        }
        match answered((api().commit)(queue, index, over)) {
            // Of what was copied the last are this thread's.
            Ok(freed) => return Ok(records.split_off(count - freed)),
            Err(libc::EOVERFLOW) => {}
            Err(number) => return Err(number),
        }
    }
}
