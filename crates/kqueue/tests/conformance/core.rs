//! Calls, changes, flags: what holds for every filter.

use std::os::fd::AsRawFd;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libc::{EBADF, EFAULT, EINTR, EINVAL, ENOENT, O_CLOEXEC, O_NONBLOCK};
use nix::poll::{PollFd, PollFlags, PollTimeout};

use crate::numbers::*;
use crate::rig::*;
use crate::sockets::*;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("a queue is closed by exec", "Q-23", |q| {
        let flags = nix::fcntl::fcntl(borrowed(q), nix::fcntl::FcntlArg::F_GETFD).unwrap();
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }),
    case("kqueue1 takes no flags", "Q-23", |_| kqueue1(0).unwrap().silent()),
    case("kqueue1 takes O_CLOEXEC", "Q-23", |_| kqueue1(O_CLOEXEC).unwrap().silent()),
    case("kqueue1 refuses other flags", "Q-06", |_| assert_eq!(kqueue1(O_NONBLOCK).err(), Some(EINVAL))),
    case("queues know nothing of each other", "Q-01", |q| {
        let other = Queue::new();
        q.set(&[user(1)]);
        assert_eq!(other.change(ev(1, USER, DELETE)), Err(ENOENT));
        q.set(&[trigger(1)]);
        other.silent();
        assert_eq!(q.wait().ident, 1);
    }),
    case("a descriptor that is no queue is refused", "Q-06", |_| {
        let (read, _write) = pipe();
        assert_eq!(raw(read.as_raw_fd(), (null(), 0), (null_mut(), 0), FOREVER), Err(EBADF));
    }),
    case("an epoll descriptor of another maker is refused", "Q-06", |_| {
        let epoll = nix::sys::epoll::Epoll::new(nix::sys::epoll::EpollCreateFlags::empty()).unwrap();
        assert_eq!(raw(epoll.0.as_raw_fd(), (null(), 0), (null_mut(), 0), FOREVER), Err(EBADF));
    }),
    case("a closed number is refused", "Q-06", |_| {
        let number = Queue::new().as_raw_fd();
        assert_eq!(told_by(number), Err(EBADF));
    }),
    case("a negative number is refused", "Q-06", |_| {
        assert_eq!(raw(-1, (null(), 0), (null_mut(), 0), FOREVER), Err(EBADF));
        assert_eq!(raw(i32::MIN, (null(), 0), (null_mut(), 0), FOREVER), Err(EBADF));
    }),
    case("no lists at all are fine", "Q-03", |q| assert_eq!(raw(id_of(q), (null(), 0), (null_mut(), 0), FOREVER), Ok(0))),
    case("without room a call never waits", "Q-03", |q| assert_eq!(q.call(&[], 0, FOREVER), Ok(vec![]))),
    case("without room a timeout is not looked at", "Q-03", |q| assert_eq!(q.call(&[], 0, time(-1, -1)), Ok(vec![]))),
    case("without room nothing is taken", "Q-03", |q| {
        q.set(&[user(1), trigger(1)]);
        assert_eq!(q.call(&[], 0, AT_ONCE), Ok(vec![]));
        assert_eq!(q.wait().ident, 1);
    }),
    case("a timeout of zero polls", "Q-03", |q| q.silent()),
    case("a timeout passes and nothing is told, not before", "Q-03", |q| {
        let start = Instant::now();
        assert_eq!(q.call(&[], 1, time(0, 30_000_000)), Ok(vec![]));
        assert!(start.elapsed() >= Duration::from_millis(30));
    }),
    case("a timeout shorter than a millisecond passes, not before", "Q-03", |q| {
        let start = Instant::now();
        assert_eq!(q.call(&[], 1, time(0, 300_000)), Ok(vec![]));
        assert!(start.elapsed() >= Duration::from_micros(300));
    }),
    case("negative seconds are refused", "Q-03", |q| assert_eq!(q.call(&[], 1, time(-1, 0)), Err(EINVAL))),
    case("negative nanoseconds are refused", "Q-03", |q| assert_eq!(q.call(&[], 1, time(0, -1)), Err(EINVAL))),
    case("a second of nanoseconds is refused", "Q-03", |q| assert_eq!(q.call(&[], 1, time(0, 1_000_000_000)), Err(EINVAL))),
    case("nanoseconds just below a second are fine", "Q-03", |q| {
        q.set(&[user(1), trigger(1)]);
        assert_eq!(q.call(&[], 1, time(0, 999_999_999)).unwrap().len(), 1);
    }),
    case("a timeout longer than any life is fine", "Q-03", |q| {
        q.set(&[user(1), trigger(1)]);
        assert_eq!(q.call(&[], 1, time(i64::MAX, 999_999_999)).unwrap().len(), 1);
    }),
    case("changes that are not there are refused", "Q-04", |q| {
        assert_eq!(raw(id_of(q), (null(), 1), (null_mut(), 0), FOREVER), Err(EFAULT));
    }),
    case("room that is not there is refused", "Q-04", |q| {
        assert_eq!(raw(id_of(q), (null(), 0), (null_mut(), 1), FOREVER), Err(EFAULT));
    }),
    case("a refused list applies nothing", "Q-04", |q| {
        let change = [user(1)];
        assert_eq!(raw(id_of(q), (change.as_ptr(), 1), (null_mut(), 1), FOREVER), Err(EFAULT));
        assert_eq!(q.change(ev(1, USER, DELETE)), Err(ENOENT));
    }),
    case("a negative count of changes is refused", "Q-04", |q| {
        assert_eq!(raw(id_of(q), (null(), -1), (null_mut(), 0), FOREVER), Err(EINVAL));
    }),
    case("a negative count of room is refused", "Q-04", |q| {
        assert_eq!(raw(id_of(q), (null(), 0), (null_mut(), i32::MIN), FOREVER), Err(EINVAL));
    }),
    case("filters that nobody knows are refused", "Q-06", |q| {
        for filter in [1, 7, -14, -99, i16::MIN, i16::MAX] {
            assert_eq!(q.change(ev(0, filter, ADD)), Err(EINVAL), "{filter}");
        }
    }),
    case("filters that are only reserved are refused", "Q-06", |q| {
        assert_eq!(q.change(ev(0, FS, ADD)), Err(EINVAL));
        assert_eq!(q.change(ev(0, SENDFILE, ADD)), Err(EINVAL));
    }),
    case("a change without a filter asks for nothing", "Q-06", |q| {
        assert_eq!(q.call(&[ev(1, 0, ADD), user(2), trigger(2)], 1, AT_ONCE).unwrap()[0].ident, 2);
    }),
    case("completions of files cannot be registered by hand", "Q-21", |q| {
        for filter in [AIO, LIO] {
            assert_eq!(q.change(ev(1, filter, ADD)), Err(libc::EPERM), "{filter}");
        }
    }),
    case("what is not registered cannot be deleted", "Q-06", |q| assert_eq!(q.change(ev(1, USER, DELETE)), Err(ENOENT))),
    case("what is not registered cannot be enabled", "Q-06", |q| assert_eq!(q.change(ev(1, USER, ENABLE)), Err(ENOENT))),
    case("what is not registered cannot be disabled", "Q-06", |q| assert_eq!(q.change(ev(1, USER, DISABLE)), Err(ENOENT))),
    case("what is not registered cannot be triggered", "Q-06", |q| assert_eq!(q.change(trigger(1)), Err(ENOENT))),
    case("enabled and disabled at once is refused", "Q-06", |q| {
        assert_eq!(q.change(ev(1, USER, ADD | ENABLE | DISABLE)), Err(EINVAL));
        assert_eq!(q.change(ev(1, USER, DELETE)), Err(ENOENT));
    }),
    case("an open descriptor that is not registered is told from a closed one", "Q-06", |q| {
        let (read, _write) = pipe();
        assert_eq!(q.change(ev(id(&read), READ, DELETE)), Err(ENOENT));
        assert_eq!(q.change(ev(id(&read), READ, ENABLE)), Err(ENOENT));
    }),
    case("a descriptor that is not open is refused", "Q-06", |q| {
        for filter in [READ, WRITE, VNODE, EMPTY, PROCDESC] {
            assert_eq!(q.change(ev(9999, filter, ADD)), Err(EBADF), "{filter}");
            assert_eq!(q.change(ev(9999, filter, DELETE)), Err(EBADF), "{filter}");
        }
    }),
    case("numbers that no descriptor can have are refused", "Q-06", |q| {
        for ident in [usize::MAX, usize::MAX / 2, 1 << 31, 1 << 32, (1 << 32) + 1] {
            assert_eq!(q.change(ev(ident, READ, ADD)), Err(EBADF), "{ident}");
        }
    }),
    case("a queue does not watch itself", "Q-06", |q| assert_eq!(q.change(ev(id(q), READ, ADD)), Err(EINVAL))),
    case("a failed change is answered where there is room", "Q-04", |q| {
        let change = ev(9999, READ, ADD).notes(NOTE_LOWAT).tag(7);
        let events = q.call(&[change], 1, FOREVER).unwrap();
        let expected = corelane_kqueue::Kevent { flags: ERROR, data: i64::from(EBADF), ..change };
        assert_eq!(events, [expected]);
    }),
    case("the answer to a failed change ends the call, whatever its timeout", "Q-04", |q| {
        let events = q.call(&[ev(usize::MAX, READ, ADD)], 64, FOREVER).unwrap();
        assert_eq!((events.len(), events[0].ident, events[0].flags), (1, usize::MAX, ERROR));
    }),
    case("each failed change has its answer, in order", "Q-04", |q| {
        let events = q.call(&[ev(1, USER, DELETE), user(2), ev(3, 99, ADD), ev(9999, READ, ADD)], 8, FOREVER).unwrap();
        let told: Vec<_> = events.iter().map(|event| (event.ident, event.data)).collect();
        assert_eq!(told, [(1, i64::from(ENOENT)), (3, i64::from(EINVAL)), (9999, i64::from(EBADF))]);
    }),
    case("a failed change without room fails the call", "Q-04", |q| {
        assert_eq!(q.call(&[ev(1, 99, ADD)], 0, FOREVER), Err(EINVAL))
    }),
    case("failed changes beyond the room fail the call", "Q-04", |q| {
        assert_eq!(q.call(&[ev(1, 99, ADD), ev(1, USER, DELETE)], 1, FOREVER), Err(ENOENT));
    }),
    case("changes before a failed one are applied", "Q-02", |q| {
        assert_eq!(q.call(&[user(1), ev(1, 99, ADD)], 0, FOREVER), Err(EINVAL));
        assert_eq!(q.change(ev(1, USER, DELETE)), Ok(()));
    }),
    case("changes behind an answered one are applied", "Q-02", |q| {
        assert_eq!(q.call(&[ev(1, 99, ADD), user(1)], 1, FOREVER).unwrap().len(), 1);
        assert_eq!(q.change(ev(1, USER, DELETE)), Ok(()));
    }),
    case("changes behind an unanswered one are not applied", "Q-02", |q| {
        assert_eq!(q.call(&[ev(1, 99, ADD), user(1)], 0, FOREVER), Err(EINVAL));
        assert_eq!(q.change(ev(1, USER, DELETE)), Err(ENOENT));
    }),
    case("an answer leaves pending events for the next call", "Q-04", |q| {
        q.set(&[user(1), trigger(1)]);
        let events = q.call(&[ev(2, USER, DELETE)], 8, FOREVER).unwrap();
        assert_eq!((events.len(), events[0].ident), (1, 2));
        assert_eq!(q.wait().ident, 1);
    }),
    case("a receipt says that all went well", "Q-11", |q| {
        let change = ev(1, USER, ADD | RECEIPT).tag(9);
        let events = q.call(&[change], 1, FOREVER).unwrap();
        assert_eq!(events, [corelane_kqueue::Kevent { flags: ERROR, data: 0, ..change }]);
    }),
    case("a receipt says what went wrong", "Q-11", |q| {
        let events = q.call(&[ev(1, USER, DELETE | RECEIPT)], 1, FOREVER).unwrap();
        assert_eq!((events[0].flags, events[0].data), (ERROR, i64::from(ENOENT)));
    }),
    case("receipts come in the order of their changes", "Q-11", |q| {
        let changes = [ev(1, USER, ADD | RECEIPT), ev(2, USER, DELETE | RECEIPT), ev(3, USER, ADD | RECEIPT)];
        let told: Vec<_> = q.call(&changes, 3, FOREVER).unwrap().iter().map(|e| (e.ident, e.data)).collect();
        assert_eq!(told, [(1, 0), (2, i64::from(ENOENT)), (3, 0)]);
    }),
    case("receipts drain no events", "Q-11", |q| {
        q.set(&[user(1), trigger(1)]);
        let events = q.call(&[ev(2, USER, ADD | RECEIPT)], 8, FOREVER).unwrap();
        assert_eq!((events.len(), events[0].ident), (1, 2));
        assert_eq!(q.wait().ident, 1);
    }),
    case("a receipt without room hinders no change", "Q-11", |q| {
        q.set(&[ev(1, USER, ADD | RECEIPT), ev(2, USER, ADD | RECEIPT)]);
        q.set(&[ev(1, USER, DELETE), ev(2, USER, DELETE)]);
    }),
    case("one array may be both lists", "Q-02", |q| {
        let mut both = [user(1), user(2), ev(3, USER, DELETE), trigger(2)];
        let events = both.as_mut_ptr();
        assert_eq!(raw(id_of(q), (events, 4), (events, 4), FOREVER), Ok(1));
        assert_eq!((both[0].ident, both[0].flags), (3, ERROR));
        assert_eq!(raw(id_of(q), (null(), 0), (both.as_mut_ptr(), 4), FOREVER), Ok(1));
        assert_eq!(both[0].ident, 2);
    }),
    case("one array may be both lists of receipts", "Q-02", |q| {
        let mut both: Vec<_> = (0..40).map(|ident| ev(ident, USER, ADD | RECEIPT)).collect();
        let events = both.as_mut_ptr();
        assert_eq!(raw(id_of(q), (events, 40), (events, 40), FOREVER), Ok(40));
        assert!(both.iter().enumerate().all(|(index, event)| event.ident == index && event.data == 0));
    }),
    case("changes come before events in a call", "Q-02", |q| {
        assert_eq!(q.call(&[user(1), trigger(1)], 1, FOREVER).unwrap()[0].ident, 1);
    }),
    case("what a call deletes it does not tell", "Q-02", |q| {
        q.set(&[user(1), trigger(1)]);
        assert_eq!(q.call(&[ev(1, USER, DELETE)], 1, AT_ONCE), Ok(vec![]));
    }),
    case("changes are applied in order", "Q-02", |q| {
        q.set(&[user(1), ev(1, USER, DELETE), user(1), ev(1, USER, DELETE)]);
        assert_eq!(q.change(ev(1, USER, DELETE)), Err(ENOENT));
    }),
    case("a second ADD makes no second event", "Q-05", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        q.add(id(&read), READ);
        put(&write, b"a");
        assert_eq!(q.now().len(), 1);
        q.set(&[ev(id(&read), READ, DELETE)]);
        assert_eq!(q.change(ev(id(&read), READ, DELETE)), Err(ENOENT));
    }),
    case("a second ADD replaces udata", "Q-05", |q| {
        q.set(&[user(1).tag(5), user(1).tag(6), trigger(1).tag(6)]);
        assert_eq!(tag(&q.wait()), 6);
    }),
    case("KEEPUDATA keeps udata, and registers nothing", "Q-05", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR).tag(7), ev(1, USER, KEEPUDATA).notes(NOTE_TRIGGER).tag(8)]);
        assert_eq!(tag(&q.wait()), 7);
        q.set(&[ev(1, USER, ENABLE | KEEPUDATA), ev(1, USER, 0).notes(NOTE_TRIGGER).tag(9)]);
        assert_eq!(tag(&q.wait()), 9);
        for ident in [1, 2] {
            assert_eq!(q.change(ev(ident, USER, ADD | KEEPUDATA)), Err(EINVAL));
        }
        assert_eq!(q.change(ev(2, USER, KEEPUDATA | ENABLE)), Err(ENOENT));
    }),
    case("any change replaces udata", "Q-05", |q| {
        q.set(&[user(1).tag(5), trigger(1).tag(8)]);
        assert_eq!(tag(&q.wait()), 8);
    }),
    case("a second ADD replaces the filter's flags and value", "Q-05", |q| {
        let (read, write) = pipe();
        put(&write, b"abc");
        q.set(&[ev(id(&read), READ, ADD).notes(NOTE_LOWAT).data(4)]);
        q.silent();
        q.set(&[ev(id(&read), READ, ADD).notes(NOTE_LOWAT).data(3)]);
        assert_eq!(q.wait().data, 3);
    }),
    case("a second ADD leaves CLEAR", "Q-05", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR), ev(1, USER, ADD), trigger(1)]);
        assert!(q.wait().has(CLEAR));
        q.silent();
    }),
    case("a second ADD leaves what is triggered", "Q-05", |q| {
        q.set(&[user(1), trigger(1), ev(1, USER, ADD)]);
        assert_eq!(q.wait().ident, 1);
    }),
    case("a second ADD enables", "Q-05", |q| {
        q.set(&[ev(1, USER, ADD | DISABLE), trigger(1)]);
        q.silent();
        q.set(&[ev(1, USER, ADD)]);
        assert_eq!(q.now().len(), 1);
    }),
    case("a second ADD with DISABLE disables", "Q-05", |q| {
        q.set(&[user(1), trigger(1), ev(1, USER, ADD | DISABLE)]);
        q.silent();
    }),
    case("a second ADD enables a descriptor that was dispatched", "Q-05", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD | DISPATCH)]);
        put(&write, b"a");
        q.wait();
        q.silent();
        q.set(&[ev(id(&read), READ, ADD | DISPATCH)]);
        assert_eq!(q.now().len(), 1);
    }),
    case("udata is passed through", "Q-05", |q| {
        q.set(&[user(1).tag(usize::MAX), trigger(1).tag(usize::MAX)]);
        assert_eq!(tag(&q.wait()), usize::MAX);
    }),
    case("ident is passed through", "Q-05", |q| {
        q.set(&[user(usize::MAX), trigger(usize::MAX)]);
        assert_eq!(q.wait().ident, usize::MAX);
    }),
    case("the caller's words are passed through", "Q-05", |q| {
        let with = |change| corelane_kqueue::Kevent { ext: [0, 0, 33, 44], ..change };
        q.set(&[with(user(1)), with(trigger(1))]);
        assert_eq!(q.wait().ext[2..], [33, 44]);
    }),
    case("no more is told than there is room for", "Q-02", |q| {
        q.set(&[user(1), user(2), user(3), trigger(1), trigger(2), trigger(3)]);
        assert_eq!(q.call(&[], 2, AT_ONCE).unwrap().len(), 2);
        assert_eq!(q.call(&[], 2, AT_ONCE).unwrap().len(), 1);
        q.silent();
    }),
    case("what is told goes to the end of the list", "Q-09", |q| {
        let (one, other) = (pipe(), pipe());
        q.add(id(&one.0), READ);
        q.add(id(&other.0), READ);
        put(&one.1, b"a");
        put(&other.1, b"a");
        let (first, second) = (q.wait().ident, q.wait().ident);
        assert_ne!(first, second);
        assert_eq!((q.wait().ident, q.wait().ident), (first, second));
    }),
    case("hundreds of events are told, each once", "Q-02", |q| {
        for ident in 0..700 {
            q.set(&[ev(ident, USER, ADD | ONESHOT), trigger(ident)]);
        }
        let mut told = Vec::new();
        while told.len() < 700 {
            let events = q.call(&[], 1000, AT_ONCE).unwrap();
            assert!(!events.is_empty(), "{} of 700", told.len());
            told.extend(events.iter().map(|event| event.ident));
        }
        told.sort_unstable();
        assert!(told.into_iter().eq(0..700));
        q.silent();
    }),
    case("a call tells as much as there is room for", "Q-02", |q| {
        let pipes: Vec<_> = (0..400).map(|_| pipe()).collect();
        for (index, (read, write)) in pipes.iter().enumerate() {
            let mode = [ADD, ADD | CLEAR, ADD | ONESHOT, ADD | DISPATCH][index % 4];
            q.set(&[ev(id(read), READ, mode)]);
            put(write, b"a");
        }
        for ident in 0..400 {
            q.set(&[ev(ident, USER, ADD), trigger(ident)]);
        }
        let mut told: Vec<_> = q.call(&[], 1000, AT_ONCE).unwrap().iter().map(|event| (event.filter, event.ident)).collect();
        assert_eq!(told.len(), 800);
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len(), 800, "each once");
        // A quarter is told again: what is level-triggered; and so are the triggers.
        assert_eq!(q.call(&[], 1000, AT_ONCE).unwrap().len(), 500);
        assert_eq!(q.call(&[], 301, AT_ONCE).unwrap().len(), 301);
    }),
    case("a watched queue says how many triggers it has to tell", "Q-13", |q| {
        let inner = Queue::new();
        q.add(id(&inner), READ);
        inner.set(&[user(1), user(2), user(3), user(4)]);
        q.silent();
        inner.set(&[trigger(1), trigger(2), trigger(3)]);
        assert_eq!(q.wait().data, 3);
        inner.set(&[ev(2, USER, DELETE)]);
        assert_eq!(q.wait().data, 2);
        assert_eq!(inner.now().len(), 2);
        q.silent();
    }),
    case("a watched queue says at least one", "Q-13", |q| {
        let inner = Queue::new();
        let (read, write) = pipe();
        inner.add(id(&read), READ);
        q.add(id(&inner), READ);
        put(&write, b"abc");
        assert_eq!(q.wait().data, 1);
    }),
    case("hundreds of changes are applied in one call", "Q-02", |q| {
        let changes: Vec<_> = (0..600).map(user).collect();
        q.set(&changes);
        let changes: Vec<_> = (0..600).map(|ident| ev(ident, USER, DELETE)).collect();
        q.set(&changes);
    }),
    case("a disabled interest is not told", "Q-07", |q| {
        q.set(&[user(1), ev(1, USER, DISABLE), trigger(1)]);
        q.silent();
    }),
    case("what was ready is not told once disabled", "Q-07", |q| {
        q.set(&[user(1), trigger(1), ev(1, USER, DISABLE)]);
        q.silent();
    }),
    case("what became active while disabled is told once enabled", "Q-07", |q| {
        q.set(&[user(1), ev(1, USER, DISABLE), trigger(1)]);
        q.silent();
        q.set(&[ev(1, USER, ENABLE)]);
        assert_eq!(q.wait().ident, 1);
    }),
    case("a descriptor that became ready while disabled is told once enabled", "Q-07", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD | DISABLE)]);
        put(&write, b"a");
        q.silent();
        q.set(&[ev(id(&read), READ, ENABLE)]);
        assert_eq!(q.wait().ident, id(&read));
    }),
    case("enabling what is enabled changes nothing", "Q-07", |q| {
        q.set(&[user(1), ev(1, USER, ENABLE), trigger(1)]);
        assert_eq!(q.now().len(), 1);
    }),
    case("a disabled interest can be deleted", "Q-07", |q| {
        q.set(&[ev(1, USER, ADD | DISABLE), ev(1, USER, DELETE)]);
        assert_eq!(q.change(ev(1, USER, ENABLE)), Err(ENOENT));
    }),
    case("ONESHOT is deleted once told", "Q-08", |q| {
        q.set(&[ev(1, USER, ADD | ONESHOT), trigger(1)]);
        assert!(q.wait().has(ONESHOT));
        q.silent();
        assert_eq!(q.change(ev(1, USER, DELETE)), Err(ENOENT));
    }),
    case("ONESHOT stays until it is told", "Q-08", |q| {
        q.set(&[ev(1, USER, ADD | ONESHOT)]);
        q.silent();
        q.set(&[trigger(1)]);
        assert_eq!(q.wait().ident, 1);
    }),
    case("ONESHOT of a descriptor is deleted once told", "Q-08", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD | ONESHOT)]);
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
        put(&write, b"a");
        q.silent();
        assert_eq!(q.change(ev(id(&read), READ, DELETE)), Err(ENOENT));
    }),
    case("DISPATCH is disabled once told", "Q-08", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD | DISPATCH)]);
        put(&write, b"a");
        assert!(q.wait().has(DISPATCH));
        put(&write, b"a");
        q.silent();
    }),
    case("DISPATCH stays registered", "Q-08", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD | DISPATCH)]);
        put(&write, b"a");
        q.wait();
        assert_eq!(q.change(ev(id(&read), READ, DELETE)), Ok(()));
    }),
    case("DISPATCH is told again once enabled", "Q-08", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD | DISPATCH)]);
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
        q.set(&[ev(id(&read), READ, ENABLE | DISPATCH)]);
        assert_eq!(q.wait().data, 1);
        q.silent();
    }),
    case("FORCEONESHOT tells what is not active, and deletes it", "Q-08", |q| {
        let (read, _write) = pipe();
        q.add(id(&read), READ);
        q.set(&[ev(id(&read), READ, FORCEONESHOT)]);
        assert_eq!(q.wait().ident, id(&read));
        assert_eq!(q.change(ev(id(&read), READ, DELETE)), Err(ENOENT));
    }),
    case("CLEAR tells what is new, once", "Q-09", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD | CLEAR)]);
        put(&write, b"a");
        assert!(q.wait().has(CLEAR));
        q.silent();
        put(&write, b"a");
        assert_eq!(q.wait().data, 2);
        q.silent();
    }),
    case("without CLEAR what stays true is told again", "Q-09", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        put(&write, b"ab");
        assert_eq!(q.wait().data, 2);
        assert_eq!(q.wait().data, 2);
        get(&read, 1);
        assert_eq!(q.wait().data, 1);
        get(&read, 1);
        q.silent();
    }),
    case("what is no longer true when it is looked at is not told", "Q-10", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        put(&write, b"a");
        assert_eq!(nix::poll::poll(&mut [PollFd::new(borrowed(q), PollFlags::POLLIN)], PollTimeout::NONE), Ok(1));
        get(&read, 1);
        q.silent();
    }),
    case("one descriptor tells every queue that watches it", "Q-01", |q| {
        let (other, (read, write)) = (Queue::new(), pipe());
        q.add(id(&read), READ);
        other.add(id(&read), READ);
        put(&write, b"a");
        assert_eq!((q.wait().data, other.wait().data), (1, 1));
    }),
    case("two filters of one descriptor are two interests", "Q-01", |q| {
        let (one, other) = local();
        q.add(id(&one), READ);
        q.add(id(&one), WRITE);
        put(&other, b"a");
        let mut filters: Vec<_> = q.now().iter().map(|event| event.filter).collect();
        filters.sort_unstable();
        assert_eq!(filters, [WRITE, READ]);
        q.set(&[ev(id(&one), WRITE, DELETE)]);
        assert_eq!(q.wait().filter, READ);
    }),
    case("a signal ends the wait", "Q-03", |q| ended_by_signal(q, 0)),
    case("a signal that restarts calls ends the wait as well", "Q-03", |q| ended_by_signal(q, libc::SA_RESTART)),
    case("a queue polls readable while something is to be told", "Q-23", |q| {
        let polled = || nix::poll::poll(&mut [PollFd::new(borrowed(q), PollFlags::POLLIN)], PollTimeout::ZERO);
        assert_eq!(polled(), Ok(0));
        q.set(&[user(1), trigger(1)]);
        assert_eq!(polled(), Ok(1));
        q.wait();
        q.silent();
        assert_eq!(polled(), Ok(0));
    }),
    case("a queue that tells what stays true polls readable again", "Q-23", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        put(&write, b"a");
        for _ in 0..3 {
            assert_eq!(nix::poll::poll(&mut [PollFd::new(borrowed(q), PollFlags::POLLIN)], PollTimeout::NONE), Ok(1));
            assert_eq!(q.wait().data, 1);
        }
    }),
    case("a queue is watched by another", "Q-13", |q| {
        let (inner, (read, write)) = (Queue::new(), pipe());
        inner.add(id(&read), READ);
        q.add(id(&inner), READ);
        q.silent();
        put(&write, b"a");
        assert_eq!(q.wait().ident, id(&inner));
        assert_eq!(inner.wait().ident, id(&read));
        get(&read, 1);
        inner.silent();
        q.silent();
    }),
    case("a watched queue says that events are pending", "Q-13", |q| {
        let inner = Queue::new();
        inner.set(&[user(1), user(2)]);
        q.add(id(&inner), READ);
        inner.set(&[trigger(1), trigger(2)]);
        assert!(q.wait().data >= 1);
    }),
    case("a deleted interest is silent", "Q-06", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        put(&write, b"a");
        q.set(&[ev(id(&read), READ, DELETE)]);
        q.silent();
    }),
    case("what was deleted can be registered again", "Q-05", |q| {
        let (read, write) = pipe();
        put(&write, b"a");
        for _ in 0..3 {
            q.add(id(&read), READ);
            assert_eq!(q.wait().data, 1);
            q.set(&[ev(id(&read), READ, DELETE)]);
            q.silent();
        }
    }),
    case("flags of the library's own are ignored in changes", "Q-08", |q| {
        q.set(&[ev(1, USER, ADD | ERROR | EOF), trigger(1)]);
        let event = q.wait();
        assert!(!event.has(ERROR) && !event.has(EOF), "{event:?}");
    }),
];

/// A user event that is told once for each trigger.
fn user(ident: usize) -> corelane_kqueue::Kevent {
    ev(ident, USER, ADD | CLEAR)
}

fn trigger(ident: usize) -> corelane_kqueue::Kevent {
    ev(ident, USER, 0).notes(NOTE_TRIGGER)
}

fn id_of(queue: &Queue) -> i32 {
    queue.as_raw_fd()
}

/// What a queue tells that may be none.
fn told_by(number: i32) -> Result<usize, i32> {
    raw(number, (null(), 0), ([user(0)].as_mut_ptr(), 1), AT_ONCE)
}

fn ended_by_signal(queue: &Queue, flags: i32) {
    handle(libc::SIGUSR1, flags);
    let waiter = Waiter(this_thread());
    let ended = AtomicBool::new(false);
    std::thread::scope(|threads| {
        // Sent again and again, because nobody knows when the wait has begun.
        threads.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                waiter.signal();
                std::thread::yield_now();
            }
        });
        let outcome = queue.call(&[], 1, FOREVER);
        ended.store(true, Ordering::Release);
        assert_eq!(outcome, Err(EINTR));
    });
}

struct Waiter(libc::pthread_t);

impl Waiter {
    fn signal(&self) {
        raise_thread(self.0, libc::SIGUSR1);
    }
}
