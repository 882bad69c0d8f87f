//! What a child process has of its parent's queues: nothing.

use std::os::fd::AsRawFd;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::EBADF;

use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("a child cannot wait at its parent's queue", "Q-23", |q| {
        assert!(in_child(|| q.call(&[], 1, FOREVER) == Err(EBADF)));
    }),
    case("a child cannot change its parent's queue", "Q-23", |q| {
        assert!(in_child(|| q.change(ev(1, USER, ADD)) == Err(EBADF)));
        assert_eq!(q.change(ev(1, USER, DELETE)), Err(libc::ENOENT));
    }),
    case("a child has queues of its own", "Q-23", |_| {
        assert!(in_child(|| {
            let queue = Queue::new();
            queue.set(&[ev(1, USER, ADD), ev(1, USER, 0).notes(NOTE_TRIGGER)]);
            queue.wait().ident == 1
        }));
    }),
    case("a child's queue watches descriptors", "Q-23", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        assert!(in_child(|| {
            let queue = Queue::new();
            queue.add(id(&read), READ);
            put(&write, b"abc");
            queue.wait().data == 3
        }));
        assert_eq!(q.wait().data, 3);
    }),
    case("a parent's queue lives on after a fork", "Q-23", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        assert!(in_child(|| true));
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
    }),
    case("what a child closes its parent goes on watching", "Q-23", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        assert!(in_child(|| {
            close(read.as_raw_fd());
            close(write.as_raw_fd());
            true
        }));
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
    }),
    case("what a child replaces its parent goes on watching", "Q-23", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        assert!(in_child(|| {
            let (other, _end) = pipe();
            dup2(&other, read.as_raw_fd());
            true
        }));
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
    }),
    case("a child that closes its parent's queue leaves it to the parent", "Q-23", |q| {
        q.set(&[ev(1, USER, ADD)]);
        let number = q.as_raw_fd();
        assert!(in_child(|| {
            close(number);
            raw(number, (null(), 0), (null_mut(), 0), FOREVER) == Err(EBADF)
        }));
        q.set(&[ev(1, USER, 0).notes(NOTE_TRIGGER)]);
        assert_eq!(q.wait().ident, 1);
    }),
    case("what a child of vfork closes its parent goes on watching", "Q-23", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        let number = read.as_raw_fd();
        in_vfork(move || close(number));
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
        q.set(&[ev(id(&read), READ, DELETE)]);
    }),
    case("a file that only a child holds open is not told", "Q-23", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        let (hold, release) = pipe();
        let released = release.as_raw_fd();
        nix::fcntl::fcntl(crate::sockets::borrowed(&hold), nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty())).unwrap();
        let child = child(|| {
            close_unseen(released);
            i32::try_from(get(&hold, 1)).unwrap_or(1)
        });
        drop(read);
        put(&write, b"a");
        q.silent();
        drop(release);
        assert_eq!(child.reap(), 0);
    }),
    case("a child has queues of its own, whatever its parent's threads were doing", "Q-23", |q| {
        q.set(&[ev(1, USER, ADD), ev(usize::try_from(libc::SIGUSR1).unwrap(), SIGNAL, ADD)]);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        q.set(&[ev(1, USER, 0).notes(NOTE_TRIGGER), ev(1, USER, ADD | CLEAR)]);
                        q.now();
                    }
                });
            }
            let passed = (0..200).all(|_| in_child(uses_a_queue));
            is_over.store(true, Ordering::Relaxed);
            assert!(passed);
        });
    }),
    case("a child's signals are no matter of its parent's queues", "Q-18", |q| {
        let on = |signal: i32| usize::try_from(signal).unwrap();
        q.set(&[ev(on(libc::SIGUSR1), SIGNAL, ADD)]);
        let (go, come) = pipe();
        nix::fcntl::fcntl(crate::sockets::borrowed(&go), nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty())).unwrap();
        let child = child(|| {
            get(&go, 1);
            let queue = Queue::new();
            queue.set(&[ev(on(libc::SIGHUP), SIGNAL, ADD), ev(on(libc::SIGHUP), SIGNAL, DELETE)]);
            0
        });
        q.set(&[ev(on(libc::SIGUSR2), SIGNAL, ADD)]);
        put(&come, b"a");
        assert_eq!(child.reap(), 0);
        raise_process(libc::SIGUSR2);
        assert_eq!(q.now().iter().map(|event| event.ident).collect::<Vec<_>>(), [on(libc::SIGUSR2)]);
    }),
    case("a child counts its own signals from none on", "Q-18", |q| {
        let signal = usize::try_from(libc::SIGUSR1).unwrap();
        q.set(&[ev(signal, SIGNAL, ADD)]);
        assert!(in_child(|| {
            let queue = Queue::new();
            queue.set(&[ev(signal, SIGNAL, ADD)]);
            raise_process(libc::SIGUSR1);
            queue.wait().data == 1
        }));
        q.silent();
    }),
    case("a timer is not passed on", "Q-23", |q| {
        q.set(&[ev(1, TIMER, ADD | ONESHOT).data(1)]);
        assert!(in_child(|| {
            let queue = Queue::new();
            queue.call(&[], 1, time(0, 5_000_000)) == Ok(vec![])
        }));
        assert_eq!(q.wait().ident, 1);
    }),
    case("a program that is started inherits no queue", "Q-23", |q| {
        let listing = std::process::Command::new("ls").arg("/proc/self/fd").output().unwrap();
        let text = String::from_utf8(listing.stdout).unwrap();
        assert!(!text.lines().any(|line| line == q.as_raw_fd().to_string()), "{text}");
    }),
];

/// Makes a queue and takes a trigger, a signal and a byte from it. A child that waits for a lock of its parent's is ended by an alarm.
fn uses_a_queue() -> bool {
    nix::unistd::alarm::set(60);
    let queue = Queue::new();
    let (read, write) = pipe();
    queue.set(&[ev(1, USER, ADD | ONESHOT), ev(1, USER, 0).notes(NOTE_TRIGGER)]);
    queue.set(&[ev(usize::try_from(libc::SIGUSR2).unwrap(), SIGNAL, ADD), ev(id(&read), READ, ADD)]);
    put(&write, b"a");
    let told = queue.now().len();
    told == 2
}
