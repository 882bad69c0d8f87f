//! What a child process has of its parent's queues: nothing.

use std::os::fd::AsRawFd;
use std::ptr::{null, null_mut};

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
