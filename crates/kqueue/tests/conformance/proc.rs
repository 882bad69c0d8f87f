//! EVFILT_PROC and EVFILT_PROCDESC.

use std::process::{Command, Stdio};

use libc::{ENOENT, ESRCH};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

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
        let held = Held::begetting();
        if !is_told(q, &held.child, NOTE_FORK | NOTE_EXIT) {
            return held.end();
        }
        q.silent();
        held.beget();
        held.let_go();
        let notes = told_until(q, held.child.id(), NOTE_EXIT);
        assert_eq!(notes, NOTE_FORK | NOTE_EXIT);
        held.child.reap();
    }),
    case("a new program is told of, or asking for it is refused", "Q-17", |q| {
        let mut program = Command::new("sh").args(["-c", "read x; exec cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let child = Child(i32::try_from(program.id()).unwrap());
        let is_told = is_told(q, &child, NOTE_EXEC | NOTE_EXIT);
        let mut input = program.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"\n").unwrap();
        drop(input);
        if is_told {
            assert_eq!(told_until(q, child.id(), NOTE_EXIT), NOTE_EXEC | NOTE_EXIT);
        }
        assert!(program.wait().unwrap().success());
    }),
    case("children are followed, or asking for it is refused", "Q-17", |q| {
        let held = Held::begetting();
        if !is_told(q, &held.child, NOTE_TRACK | NOTE_FORK | NOTE_EXIT) {
            return held.end();
        }
        let parent = held.child.id();
        held.beget();
        let born = q.until(|event| event.ident != parent);
        held.let_go();
        assert_eq!((born.fflags, born.data, tag(&born)), (NOTE_CHILD, i64::try_from(parent).unwrap(), 3));
        let ended = q.until(|event| event.ident == born.ident);
        assert_eq!((ended.fflags, ended.data, ended.has(EOF)), (NOTE_EXIT, 9 << 8, true));
        held.child.reap();
    }),
    case("children whose ends nobody asks for are followed until then", "Q-17", |q| {
        let held = Held::begetting();
        if !is_told(q, &held.child, NOTE_TRACK) {
            return held.end();
        }
        held.beget();
        let born = q.until(|event| event.fflags & NOTE_CHILD != 0);
        held.let_go();
        held.child.reap();
        while q.change(ev(born.ident, PROC, DISABLE)) == Ok(()) {
            q.silent();
        }
        assert_eq!(q.change(ev(born.ident, PROC, DISABLE)), Err(ENOENT));
    }),
    case("a process follows its own children, and theirs", "Q-17", |q| {
        const EACH: usize = 3;
        let this = Child(nix::unistd::getpid().as_raw());
        if !is_told(q, &this, NOTE_TRACK | NOTE_EXIT) {
            return;
        }
        let with_children = || {
            let theirs: Vec<_> = (0..EACH).map(|_| child(|| 76)).collect();
            let codes = theirs.into_iter().map(|child| child.reap() >> 8).max();
            codes.map_or(0, |code| code - 10)
        };
        let children: Vec<_> = (0..EACH).map(|_| child(with_children)).collect();
        let (mut born, mut ended) = (Vec::new(), Vec::new());
        while ended.len() < EACH + EACH * EACH {
            let event = q.wait();
            if event.fflags & NOTE_TRACKERR != 0 {
                return skip("this machine has so many other processes that the kernel drops what it tells of them");
            }
            match event.fflags {
                NOTE_CHILD => born.push(event.ident),
                NOTE_EXIT => {
                    assert!(event.has(EOF) && born.contains(&event.ident), "{event:?}");
                    ended.push(event.data >> 8);
                }
                _ => panic!("{event:?}"),
            }
        }
        ended.sort_unstable();
        assert_eq!(ended, [[66; EACH].as_slice(), &[76; EACH * EACH]].concat());
        born.sort_unstable();
        born.dedup();
        assert_eq!(born.len(), EACH + EACH * EACH);
        q.silent();
        children.into_iter().for_each(|child| assert_eq!(child.reap(), 66 << 8));
    }),
    case("a child that cannot be followed is told as such", "Q-17", |q| {
        let held = Held::begetting();
        if !is_told(q, &held.child, NOTE_TRACK) {
            return held.end();
        }
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let first_free = dup(q);
        close(first_free);
        setrlimit(Resource::RLIMIT_NOFILE, u64::try_from(first_free).unwrap(), hard).unwrap();
        held.beget();
        let event = q.wait();
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        assert_eq!((event.ident, event.fflags), (held.child.id(), NOTE_TRACKERR));
        held.end();
    }),
    case("where the kernel does not tell of forks, asking is refused and leaves nothing", "Q-17", |q| {
        let held = Held::new();
        // What another is told meanwhile, which every listener hears, is no answer to them.
        is_told(q, &held.child, NOTE_FORK);
        assert!(in_child(|| {
            let here = nix::unistd::getpid();
            child(|| {
                while nix::unistd::getppid() == here {
                    child(|| 0).reap();
                }
                0
            });
            is_refused_in_a_namespace()
        }));
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

/// Whether the kernel tells of this: elsewhere it is refused, as the manual page says.
fn is_told(queue: &Queue, child: &Child, notes: u32) -> bool {
    match queue.change(ev(child.id(), PROC, ADD).notes(notes).tag(3)) {
        Ok(()) => true,
        Err(refused) => {
            assert_eq!(refused, libc::ENOTSUP);
            assert!(!corelane_os::testing::tells_of_processes(), "this machine's kernel tells of forks and programs");
            skip("the kernel does not tell this process of forks and programs");
            false
        }
    }
}

/// Whether a process in a user namespace of its own, which nobody tells anything, is refused forks and programs every time.
fn is_refused_in_a_namespace() -> bool {
    const TIMES: u32 = 300;
    if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER).is_err() {
        skip("no user namespace can be made here");
        return true;
    }
    let queue = Queue::new();
    let ident = usize::try_from(std::process::id()).unwrap();
    let change = |notes| queue.change(ev(ident, PROC, ADD).notes(notes));
    (0..TIMES).all(|_| {
        let refused = [NOTE_FORK, NOTE_EXEC, NOTE_TRACK | NOTE_EXIT].map(change);
        let missing = queue.change(ev(ident, PROC, DELETE));
        let exit = change(NOTE_EXIT);
        let gone = queue.change(ev(ident, PROC, DELETE));
        refused == [Err(libc::ENOTSUP); 3] && missing == Err(ENOENT) && exit == Ok(()) && gone == Ok(())
    })
}

/// All notes that are told of `process` until `last` is among them.
fn told_until(queue: &Queue, process: usize, last: u32) -> u32 {
    let mut notes = 0;
    while notes & last == 0 {
        let event = queue.wait();
        assert_eq!(event.ident, process);
        notes |= event.fflags;
    }
    notes
}

/// A child that ends when it is let go.
struct Held {
    child: Child,
    write: std::cell::Cell<Option<std::os::fd::OwnedFd>>,
}

impl Held {
    fn new() -> Self {
        Self::that(|_| 0)
    }

    /// One that has a child when it is told to, which ends with 9 when it is let go, and before its parent.
    fn begetting() -> Self {
        Self::that(|read| {
            child(|| {
                get(read, 1);
                9
            })
            .reap();
            0
        })
    }

    fn beget(&self) {
        let write = self.write.take().unwrap();
        put(&write, b"a");
        self.write.set(Some(write));
    }

    fn that(last: impl FnOnce(&std::os::fd::OwnedFd) -> i32) -> Self {
        let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&write);
        let child = child(|| {
            close_unseen(number);
            get(&read, 1);
            last(&read)
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
