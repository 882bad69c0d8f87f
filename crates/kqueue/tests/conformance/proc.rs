//! EVFILT_PROC and EVFILT_PROCDESC.

use std::process::{Command, Stdio};

use libc::{ENOENT, ESRCH};

use crate::numbers::*;
use crate::rig::*;
use crate::sockets::process_descriptor;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("a process that lives is silent", "Q-17", |q| {
        let held = Held::new();
        watch(q, &held.child, NOTE_EXIT);
        q.silent();
        held.end();
    }),
    case("the end of a child is told", "Q-17", |q| {
        let held = Held::new();
        watch(q, &held.child, NOTE_EXIT);
        held.let_go();
        let event = q.wait();
        assert_eq!((event.ident, event.filter), (held.child.id(), PROC));
        assert_eq!(event.fflags & NOTE_EXIT, NOTE_EXIT);
        held.child.reap();
    }),
    case("the wait status is told", "Q-17", |q| {
        let child = child(|| 7);
        watch(q, &child, NOTE_EXIT);
        assert_eq!(q.wait().data, 7 << 8);
        assert_eq!(child.reap(), 7 << 8);
    }),
    case("the status of a process that was killed is told", "Q-17", |q| {
        let held = Held::new();
        watch(q, &held.child, NOTE_EXIT);
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(held.child.0), nix::sys::signal::Signal::SIGKILL).unwrap();
        assert_eq!(q.wait().data, i64::from(libc::SIGKILL));
        assert_eq!(held.child.reap(), libc::SIGKILL);
    }),
    case("telling of an end does not reap", "Q-17", |q| {
        let child = child(|| 3);
        watch(q, &child, NOTE_EXIT);
        q.wait();
        assert_eq!(child.reap(), 3 << 8);
    }),
    case("an end is the end", "Q-17", |q| {
        let child = child(|| 0);
        watch(q, &child, NOTE_EXIT);
        assert!(q.wait().has(EOF));
        child.reap();
    }),
    case("an end is told once, and deletes", "Q-17", |q| {
        let child = child(|| 0);
        watch(q, &child, NOTE_EXIT);
        assert!(q.wait().has(ONESHOT));
        q.silent();
        assert_eq!(q.change(ev(child.id(), PROC, DELETE)), Err(ENOENT));
        child.reap();
    }),
    case("a zombie is told at once", "Q-17", |q| {
        let child = child(|| 5);
        let other = Queue::new();
        watch(&other, &child, NOTE_EXIT);
        other.wait();
        watch(q, &child, NOTE_EXIT);
        assert_eq!(q.wait().data, 5 << 8);
        child.reap();
    }),
    case("a process that is gone is refused", "Q-17", |q| {
        let child = child(|| 0);
        let ident = child.id();
        child.reap();
        assert_eq!(q.change(ev(ident, PROC, ADD).notes(NOTE_EXIT)), Err(ESRCH));
    }),
    case("numbers that are no process are refused", "Q-17", |q| {
        for ident in [usize::MAX, 1 << 31, 1 << 32, (1 << 32) + 1] {
            assert_eq!(q.change(ev(ident, PROC, ADD).notes(NOTE_EXIT)), Err(ESRCH), "{ident}");
        }
    }),
    case("every queue is told of an end", "Q-17", |q| {
        let (other, held) = (Queue::new(), Held::new());
        watch(q, &held.child, NOTE_EXIT);
        watch(&other, &held.child, NOTE_EXIT);
        held.let_go();
        assert_eq!((q.wait().ident, other.wait().ident), (held.child.id(), held.child.id()));
        held.child.reap();
    }),
    case("the ends of several children are told", "Q-17", |q| {
        let children: Vec<_> = (1..5).map(|code| child(move || code)).collect();
        for child in &children {
            watch(q, child, NOTE_EXIT);
        }
        let mut codes: Vec<_> = children.iter().map(|_| q.wait().data >> 8).collect();
        codes.sort_unstable();
        assert_eq!(codes, [1, 2, 3, 4]);
        assert_eq!(children.into_iter().map(|child| child.reap() >> 8).sum::<i32>(), 10);
    }),
    case("a disabled process is told once enabled", "Q-07", |q| {
        let held = Held::new();
        q.set(&[ev(held.child.id(), PROC, ADD | DISABLE).notes(NOTE_EXIT)]);
        held.let_go();
        q.silent();
        q.set(&[ev(held.child.id(), PROC, ENABLE)]);
        assert_eq!(q.wait().fflags & NOTE_EXIT, NOTE_EXIT);
        held.child.reap();
    }),
    case("a deleted process is silent", "Q-17", |q| {
        let held = Held::new();
        watch(q, &held.child, NOTE_EXIT);
        q.set(&[ev(held.child.id(), PROC, DELETE)]);
        held.end();
        q.silent();
    }),
    case("udata comes with the end", "Q-05", |q| {
        let child = child(|| 0);
        q.set(&[ev(child.id(), PROC, ADD).notes(NOTE_EXIT).tag(11)]);
        assert_eq!(tag(&q.wait()), 11);
        child.reap();
    }),
    case("a program that was started is told of", "Q-17", |q| {
        let mut program = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let ident = usize::try_from(program.id()).unwrap();
        q.set(&[ev(ident, PROC, ADD).notes(NOTE_EXIT)]);
        q.silent();
        drop(program.stdin.take());
        assert_eq!(q.wait().data, 0);
        assert!(program.wait().unwrap().success());
    }),
    case("a process that is no child is told of", "Q-17", |q| {
        // The shell says its own child's number, and ends; its child lives until its input ends.
        let (read, write) = pipe();
        nix::fcntl::fcntl(crate::sockets::borrowed(&read), nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty())).unwrap();
        let said = Command::new("sh").args(["-c", "exec 3<&0; cat <&3 >/dev/null 2>&1 & echo $!"]).stdin(read).output().unwrap();
        let ident: usize = String::from_utf8(said.stdout).unwrap().trim().parse().unwrap();
        q.set(&[ev(ident, PROC, ADD).notes(NOTE_EXIT)]);
        q.silent();
        drop(write);
        let event = q.wait();
        assert!(event.ident == ident && event.has(EOF), "{event:?}");
    }),
    case("a fork is told of, or asking for it is refused", "Q-17", |q| {
        let held = Held::new();
        told_or_refused(q.change(ev(held.child.id(), PROC, ADD).notes(NOTE_FORK | NOTE_EXIT)));
        held.end();
    }),
    case("a new program is told of, or asking for it is refused", "Q-17", |q| {
        let held = Held::new();
        told_or_refused(q.change(ev(held.child.id(), PROC, ADD).notes(NOTE_EXEC | NOTE_EXIT)));
        held.end();
    }),
    case("children are followed, or asking for it is refused", "Q-17", |q| {
        let held = Held::new();
        told_or_refused(q.change(ev(held.child.id(), PROC, ADD).notes(NOTE_TRACK | NOTE_FORK)));
        held.end();
    }),
    case("a process descriptor that lives is silent", "Q-17", |q| {
        let held = Held::new();
        let descriptor = process_descriptor(held.child.0);
        q.set(&[ev(id(&descriptor), PROCDESC, ADD).notes(NOTE_EXIT)]);
        q.silent();
        held.end();
    }),
    case("a process descriptor tells the wait status", "Q-17", |q| {
        let child = child(|| 9);
        let descriptor = process_descriptor(child.0);
        q.set(&[ev(id(&descriptor), PROCDESC, ADD).notes(NOTE_EXIT)]);
        let event = q.wait();
        assert_eq!((event.ident, event.filter, event.data), (id(&descriptor), PROCDESC, 9 << 8));
        child.reap();
    }),
    case("what is no process descriptor is refused", "Q-17", |q| {
        let (read, _write) = pipe();
        assert!(q.change(ev(id(&read), PROCDESC, ADD).notes(NOTE_EXIT)).is_err());
    }),
];

fn watch(queue: &Queue, child: &Child, notes: u32) {
    queue.set(&[ev(child.id(), PROC, ADD).notes(notes)]);
}

/// Without privilege the kernel tells nobody of forks and programs: then the change is refused, and the manual page says so.
fn told_or_refused(outcome: Result<(), i32>) {
    assert!(matches!(outcome, Ok(()) | Err(libc::EPERM | libc::ENOTSUP | libc::EINVAL)), "{outcome:?}");
}

/// A child that ends when it is let go.
struct Held {
    child: Child,
    write: std::cell::Cell<Option<std::os::fd::OwnedFd>>,
}

impl Held {
    fn new() -> Self {
        let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&write);
        let child = child(|| {
            close_unseen(number);
            get(&read, 1);
            0
        });
        Self { child, write: std::cell::Cell::new(Some(write)) }
    }

    fn let_go(&self) {
        drop(self.write.take());
    }

    fn end(self) {
        self.let_go();
        self.child.reap();
    }
}
