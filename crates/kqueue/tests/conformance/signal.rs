//! EVFILT_SIGNAL. Registering blocks the signal in the calling thread, which is the only one of a case.

use libc::{EINVAL, ENOENT, SIGCHLD, SIGHUP, SIGKILL, SIGSTOP, SIGTERM, SIGUSR1, SIGUSR2};
use nix::sys::signal::{SigSet, Signal};

use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("a signal that has not come is silent", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        q.silent();
    }),
    case("a signal is told", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        raise_process(SIGUSR1);
        let event = q.wait();
        assert_eq!((event.ident, event.filter, event.data), (on(SIGUSR1), SIGNAL, 1));
    }),
    case("a signal's default does not end the program", "Q-18", |q| {
        q.add(on(SIGTERM), SIGNAL);
        raise_process(SIGTERM);
        assert_eq!(q.wait().ident, on(SIGTERM));
    }),
    case("the event sets CLEAR", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        raise_process(SIGUSR1);
        assert!(q.wait().has(CLEAR));
        q.silent();
    }),
    case("a signal is told each time", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        for _ in 0..5 {
            raise_process(SIGUSR1);
            assert_eq!(q.wait().data, 1);
        }
        q.silent();
    }),
    case("signals that came together are one event", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        for _ in 0..3 {
            raise_process(SIGUSR1);
        }
        let events = q.now();
        assert_eq!(events.len(), 1);
        assert!((1..=3).contains(&events[0].data), "{events:?}");
    }),
    case("signals that queue are counted", "Q-18", |q| {
        let signal = libc::SIGRTMIN() + 3;
        q.add(on(signal), SIGNAL);
        for _ in 0..5 {
            raise_process(signal);
        }
        assert_eq!(q.wait().data, 5);
    }),
    case("an ignored signal is told", "Q-18", |q| {
        ignore(SIGUSR1);
        q.add(on(SIGUSR1), SIGNAL);
        raise_process(SIGUSR1);
        assert_eq!(q.wait().data, 1);
    }),
    case("a signal with a handler is told", "Q-18", |q| {
        handle(SIGUSR1, 0);
        q.add(on(SIGUSR1), SIGNAL);
        raise_process(SIGUSR1);
        assert_eq!(q.wait().ident, on(SIGUSR1));
    }),
    case("registering blocks the signal", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        assert!(SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR1));
        assert!(!SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR2));
    }),
    case("two signals are told apart", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        q.add(on(SIGUSR2), SIGNAL);
        raise_process(SIGUSR2);
        assert_eq!(q.wait().ident, on(SIGUSR2));
        q.silent();
        raise_process(SIGUSR1);
        assert_eq!(q.wait().ident, on(SIGUSR1));
    }),
    case("every queue is told of a signal", "Q-18", |q| {
        let other = Queue::new();
        q.add(on(SIGUSR1), SIGNAL);
        other.add(on(SIGUSR1), SIGNAL);
        raise_process(SIGUSR1);
        assert_eq!((q.wait().data, other.wait().data), (1, 1));
        q.silent();
        other.silent();
    }),
    case("a deleted signal is silent", "Q-18", |q| {
        handle(SIGUSR1, 0);
        q.add(on(SIGUSR1), SIGNAL);
        q.set(&[ev(on(SIGUSR1), SIGNAL, DELETE)]);
        raise_process(SIGUSR1);
        q.silent();
        assert_eq!(q.change(ev(on(SIGUSR1), SIGNAL, DELETE)), Err(ENOENT));
    }),
    case("a signal that came is silent once deleted", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        raise_process(SIGUSR1);
        q.set(&[ev(on(SIGUSR1), SIGNAL, DELETE)]);
        q.silent();
    }),
    case("a signal that is deleted is the program's own again", "Q-18", |q| {
        let mut set = nix::sys::signal::SigSet::empty();
        set.add(nix::sys::signal::Signal::SIGUSR1);
        set.thread_block().unwrap();
        q.set(&[ev(on(SIGUSR1), SIGNAL, ADD), ev(on(libc::SIGUSR2), SIGNAL, ADD), ev(on(SIGUSR1), SIGNAL, DELETE)]);
        raise_process(SIGUSR1);
        raise_process(libc::SIGUSR2);
        assert_eq!(q.now().len(), 1);
        assert_eq!(set.wait(), Ok(nix::sys::signal::Signal::SIGUSR1));
    }),
    case("a disabled signal is told once enabled", "Q-07", |q| {
        q.set(&[ev(on(SIGUSR1), SIGNAL, ADD | DISABLE)]);
        raise_process(SIGUSR1);
        q.silent();
        q.set(&[ev(on(SIGUSR1), SIGNAL, ENABLE)]);
        assert_eq!(q.wait().data, 1);
    }),
    case("DISPATCH of a signal waits for ENABLE", "Q-08", |q| {
        q.set(&[ev(on(SIGUSR1), SIGNAL, ADD | DISPATCH)]);
        raise_process(SIGUSR1);
        q.wait();
        raise_process(SIGUSR1);
        q.silent();
        q.set(&[ev(on(SIGUSR1), SIGNAL, ENABLE)]);
        assert_eq!(q.wait().data, 1);
    }),
    case("a deleted signal is delivered as before", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        q.set(&[ev(on(SIGUSR1), SIGNAL, DELETE)]);
        assert!(!SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR1));
    }),
    case("a signal that the program blocks stays blocked", "Q-18", |q| {
        let mut set = SigSet::empty();
        set.add(Signal::SIGUSR1);
        set.thread_block().unwrap();
        q.add(on(SIGUSR1), SIGNAL);
        q.set(&[ev(on(SIGUSR1), SIGNAL, DELETE)]);
        assert!(SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR1));
    }),
    case("a signal is counted until its last queue deletes it", "Q-18", |q| {
        let other = Queue::new();
        other.add(on(SIGUSR1), SIGNAL);
        q.add(on(SIGUSR1), SIGNAL);
        q.set(&[ev(on(SIGUSR1), SIGNAL, DELETE)]);
        raise_process(SIGUSR1);
        q.silent();
        assert_eq!(other.wait().data, 1);
    }),
    case("ONESHOT of a signal ends with it", "Q-08", |q| {
        handle(SIGUSR1, 0);
        q.set(&[ev(on(SIGUSR1), SIGNAL, ADD | ONESHOT)]);
        raise_process(SIGUSR1);
        q.wait();
        raise_process(SIGUSR1);
        q.silent();
        assert_eq!(q.change(ev(on(SIGUSR1), SIGNAL, ENABLE)), Err(ENOENT));
    }),
    case("udata comes with the signal", "Q-05", |q| {
        q.set(&[ev(on(SIGUSR1), SIGNAL, ADD).tag(3)]);
        raise_process(SIGUSR1);
        assert_eq!(tag(&q.wait()), 3);
    }),
    case("numbers that are no signals are refused", "Q-18", |q| {
        for ident in [0, 65, 1000, usize::MAX, 1 << 32, (1 << 32) + 10] {
            assert_eq!(q.change(ev(ident, SIGNAL, ADD)), Err(EINVAL), "{ident}");
        }
    }),
    case("signals that cannot be blocked are refused or silent", "Q-18", |q| {
        for signal in [SIGKILL, SIGSTOP] {
            match q.change(ev(on(signal), SIGNAL, ADD)) {
                Ok(()) => q.silent(),
                Err(number) => assert_eq!(number, EINVAL),
            }
        }
    }),
    case("the end of a child is a signal", "Q-18", |q| {
        q.add(on(SIGCHLD), SIGNAL);
        let child = child(|| 0);
        assert_eq!(q.wait().ident, on(SIGCHLD));
        assert_eq!(child.reap(), 0);
    }),
    case("a signal that was sent to this thread is told", "Q-18", |q| {
        q.add(on(SIGHUP), SIGNAL);
        raise_thread(this_thread(), SIGHUP);
        assert_eq!(q.wait().ident, on(SIGHUP));
    }),
    case("a signal from another process is told", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        let parent = std::process::id();
        let child = child(move || i32::from(!signalled(parent, Signal::SIGUSR1)));
        assert_eq!(q.wait().data, 1);
        assert_eq!(child.reap(), 0);
    }),
    case("a signal does not end the wait with an error", "Q-18", |q| {
        q.add(on(SIGUSR1), SIGNAL);
        let parent = std::process::id();
        let child = child(move || i32::from(!signalled(parent, Signal::SIGUSR1)));
        let events = q.call(&[], 4, FOREVER).unwrap();
        assert_eq!(events[0].ident, on(SIGUSR1));
        child.reap();
    }),
    case("a queue that watches a queue is told of each signal, at once", "Q-13", |q| {
        let signals = Queue::new();
        signals.add(on(SIGUSR1), SIGNAL);
        q.set(&[ev(id(&signals), READ, ADD | CLEAR)]);
        for _ in 0..100 {
            raise_process(SIGUSR1);
            assert_eq!(q.now().len(), 1);
            q.silent();
            assert_eq!(signals.now().len(), 1);
            signals.silent();
        }
    }),
    case("a signal's number may be a descriptor's", "Q-01", |q| {
        let (read, write) = pipe();
        dup2(&read, SIGUSR1);
        q.add(on(SIGUSR1), SIGNAL);
        q.add(on(SIGUSR1), READ);
        put(&write, b"a");
        assert_eq!(q.wait().filter, READ);
        get(&read, 1);
        raise_process(SIGUSR1);
        assert_eq!(q.wait().filter, SIGNAL);
    }),
];

fn on(signal: i32) -> usize {
    usize::try_from(signal).unwrap()
}

fn signalled(process: u32, signal: Signal) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.cast_signed()), signal).is_ok()
}
