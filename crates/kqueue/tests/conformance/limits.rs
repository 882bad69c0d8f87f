//! What stays whole at limits, under garbage, and after very many changes.

use std::io::Seek;
use std::os::fd::IntoRawFd;
use std::ptr::{null, null_mut};

use libc::{EMFILE, ENOMEM};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use corelane_kqueue::Kevent;
use corelane_seam::Random;

use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("without a descriptor left a registration says so, and leaves nothing behind", "Q-06", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"abc");
        let own = usize::try_from(std::process::id()).unwrap();
        let usr = usize::try_from(libc::SIGUSR1).unwrap();
        let changes = [
            ev(1, TIMER, ADD | ONESHOT).data(1),
            ev(usr, SIGNAL, ADD),
            ev(id(&file), VNODE, ADD).notes(NOTE_WRITE),
            ev(own, PROC, ADD).notes(NOTE_EXIT),
        ];
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let before = open_descriptors();
        let first_free = dup(&file);
        close(first_free);
        setrlimit(Resource::RLIMIT_NOFILE, u64::try_from(first_free).unwrap(), hard).unwrap();
        for change in changes {
            assert_eq!(q.change(change), Err(EMFILE), "{change:?}");
            assert_eq!(q.change(Kevent { flags: DELETE, ..change }), Err(libc::ENOENT), "{change:?}");
        }
        q.set(&[ev(1, USER, ADD | ONESHOT), ev(1, USER, 0).notes(NOTE_TRIGGER)]);
        assert_eq!(q.now().len(), 1);
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        assert_eq!(open_descriptors(), before);
        q.set(&changes);
        assert_eq!(q.until(|event| event.filter == TIMER).ident, 1);
        raise_process(libc::SIGUSR1);
        assert_eq!(q.until(|event| event.filter == SIGNAL).ident, usr);
        std::fs::write(folder.path("a"), b"more").unwrap();
        assert_eq!(q.until(|event| event.filter == VNODE).ident, id(&file));
    }),
    case("without a descriptor left there is no queue", "Q-06", |q| {
        let before = open_descriptors();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let first_free = dup(q);
        close(first_free);
        for left in 0..3 {
            setrlimit(Resource::RLIMIT_NOFILE, u64::try_from(first_free + left).unwrap(), hard).unwrap();
            assert_eq!(kqueue1(0).err(), Some(EMFILE));
        }
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        assert_eq!(open_descriptors(), before);
    }),
    case("who waits hears of what comes after a set could not be built again for want of a descriptor", "Q-22", |q| {
        let (one, other) = (local(), local());
        let number = dup(&one.0);
        q.set(&[ev(1, USER, ADD | DISPATCH)]);
        std::thread::scope(|threads| {
            let (tell, told) = std::sync::mpsc::channel();
            let waiter = threads.spawn(move || {
                tell.send(nix::unistd::gettid()).unwrap();
                q.until(|event| event.filter == READ).data
            });
            until_it_waits(told.recv().unwrap());
            let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
            let first_free = dup(&one.0);
            close(first_free);
            // One descriptor is left: enough for a new set, and not for what wakes those at the old one.
            setrlimit(Resource::RLIMIT_NOFILE, u64::try_from(first_free + 1).unwrap(), hard).unwrap();
            lose(q, number, [&one.0, &other.0]);
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
            q.set(&[ev(2, USER, ADD)]);
            let (read, write) = pipe();
            q.add(id(&read), READ);
            put(&write, b"abc");
            assert_eq!(waiter.join().unwrap(), 3);
        });
        close(number);
    }),
    case("a call tells as many as there is room for, also more than a thousand", "Q-02", |q| {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard.min(4096), hard).unwrap();
        // One pipe cannot be waited for as often as that.
        let pipes: Vec<_> = (0..4).map(|_| pipe()).collect();
        pipes.iter().for_each(|(_, write)| put(write, b"a"));
        let copies: Vec<_> = pipes.iter().flat_map(|(read, _)| (0..400).map(|_| dup(read))).collect();
        copies.iter().for_each(|copy| q.add(id(copy), READ));
        assert_eq!(q.call(&[], 2000, AT_ONCE).unwrap().len(), 1600);
        assert_eq!(q.call(&[], 1200, AT_ONCE).unwrap().len(), 1200);
        copies.into_iter().for_each(close);
    }),
    case("timer 4,097 is refused, and one that is deleted makes room", "Q-19", |q| {
        for ident in 0..4096 {
            q.set(&[ev(ident, TIMER, ADD).data(3_600_000)]);
        }
        assert_eq!(q.change(ev(4096, TIMER, ADD).data(1)), Err(ENOMEM));
        q.set(&[ev(7, TIMER, ADD).data(7_200_000), ev(7, TIMER, DELETE), ev(4096, TIMER, ADD | ONESHOT).data(1)]);
        assert_eq!(q.wait().ident, 4096);
    }),
    case("a number that is used 100,000 times is told of as what it is", "Q-01", |q| {
        let (read, write) = pipe();
        put(&write, b"old");
        for round in 0..100_000_usize {
            let (other, end) = pipe();
            let number = id(&other);
            q.set(&[ev(number, READ, ADD).tag(round)]);
            if round % 2 == 0 {
                put(&end, b"a");
                assert_eq!(tag(&q.wait()), round);
            }
            let number = other.into_raw_fd();
            if round % 3 == 0 {
                close_unseen(number);
            } else {
                close(number);
            }
        }
        q.silent();
        q.add(id(&read), READ);
        assert_eq!(q.wait().data, 3);
    }),
    case("a program that has closed all numbers makes queues as before", "Q-06", |_| {
        assert!(in_child(|| begins_anew(close_all)))
    }),
    case("a program that has closed all numbers, and nobody saw it, makes queues as before", "Q-06", |_| {
        assert!(in_child(|| begins_anew(close_all_unseen)));
    }),
    case("what has a number that was a queue's own is neither read nor closed", "Q-06", |_| {
        assert!(in_child(|| {
            let number = takes_a_signal().into_raw();
            close_all_unseen();
            let files: Vec<_> = (0..20).map(|_| (std::fs::File::open("/proc/self/exe").unwrap(), pipe())).collect();
            files.iter().for_each(|(_, (_, write))| put(write, b"four"));
            let _ = raw(number, (null(), 0), (null_mut(), 0), AT_ONCE);
            drop(takes_a_signal());
            let is_whole = |file: &std::fs::File| (&*file).stream_position().is_ok_and(|position| position == 0);
            files.iter().all(|(file, (read, _))| is_whole(file) && get(read, 5) == 4)
        }));
    }),
    case("interests that come and go leave no memory behind", "Q-01", |q| {
        let (read, _write) = pipe();
        let round = |count: usize| {
            for ident in 0..count {
                q.set(&[ev(id(&read), READ, ADD), ev(ident, TIMER, ADD).data(1000), ev(ident, USER, ADD)]);
                q.set(&[ev(id(&read), READ, DELETE), ev(ident, TIMER, DELETE), ev(ident, USER, DELETE)]);
            }
        };
        round(5_000);
        let before = pages();
        round(350_000);
        let grown = pages().saturating_sub(before);
        assert!(grown < 64, "{grown} pages more");
    }),
    case("a storm of signals is counted, and drowns nothing", "Q-18", |q| {
        let signal = libc::SIGRTMIN() + 1;
        let ident = usize::try_from(signal).unwrap();
        q.set(&[ev(ident, SIGNAL, ADD), ev(1, USER, ADD)]);
        let mut told = 0;
        for round in 0..100 {
            (0..200).for_each(|_| raise_process(signal));
            q.set(&[ev(1, USER, 0).notes(NOTE_TRIGGER)]);
            let events = q.now();
            assert!(events.iter().any(|event| event.filter == USER), "round {round}");
            told += events.iter().filter(|event| event.filter == SIGNAL).map(|event| event.data).sum::<i64>();
        }
        assert_eq!(told, 20_000);
    }),
    case("garbage neither ends the program nor keeps it", "Q-06", |_| {
        let before = open_descriptors();
        let signals = nix::sys::signal::SigSet::thread_get_mask().unwrap();
        for seed in 0..10 {
            let queue = Queue::new();
            let files: Vec<_> = (0..10).map(|_| pipe()).collect();
            let sockets: Vec<_> = (0..5).map(|_| local()).collect();
            let mut random = Garbage(Random::new(seed));
            for _ in 0..CHANGES / 10 / 8 {
                let changes: Vec<_> = (0..8).map(|_| random.change()).collect();
                let room = random.below(10);
                // Any answer is right that comes.
                let _ = queue.call(&changes, room, AT_ONCE);
            }
            drop((files, sockets));
        }
        signals.thread_set_mask().unwrap();
        let queue = Queue::new();
        queue.set(&[ev(1, USER, ADD), ev(1, USER, 0).notes(NOTE_TRIGGER)]);
        assert_eq!(queue.wait().ident, 1);
        drop(queue);
        // The descriptor that signals are read from stays; without the shared library, so does a queue until the next is made.
        let left = open_descriptors().saturating_sub(before);
        assert!(left <= if closes_are_seen() { 1 } else { 8 }, "{left} descriptors are left");
    }),
];

/// A queue with a timer and a signal, which it has told.
fn takes_a_signal() -> Queue {
    let queue = Queue::new();
    let signal = usize::try_from(libc::SIGUSR1).unwrap();
    queue.set(&[ev(signal, SIGNAL, ADD), ev(1, TIMER, ADD | ONESHOT).data(3_600_000), ev(2, TIMER, ADD | ONESHOT).data(1)]);
    raise_process(libc::SIGUSR1);
    assert_eq!(queue.until(|event| event.filter == SIGNAL).ident, signal);
    queue
}

/// Makes a queue, closes everything with `close`, and makes another.
fn begins_anew(close: fn()) -> bool {
    let before = takes_a_signal();
    // Its number is closed with all others.
    before.into_raw();
    close();
    let queue = takes_a_signal();
    queue.until(|event| event.filter == TIMER).ident == 2
}

/// Returns when a thread of this process waits at a set (epoll_wait(2) and its like).
pub fn until_it_waits(thread: nix::unistd::Pid) {
    const CALLS: [i64; 2] = [libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
    let path = format!("/proc/self/task/{thread}/syscall");
    let is_waiting = || {
        let text = std::fs::read_to_string(&path).unwrap();
        text.split(' ').next().and_then(|call| call.parse().ok()).is_some_and(|call| CALLS.contains(&call))
    };
    while !is_waiting() {
        std::thread::yield_now();
    }
}

/// Registers `number` as one file and then as the other, unseen, until the set has more of what was lost than it keeps.
fn lose(queue: &Queue, number: std::os::fd::RawFd, files: [&std::os::unix::net::UnixStream; 2]) {
    for round in 0..1_100 {
        dup2_unseen(files[round % 2], number);
        // Where the set is to be built again and cannot be, the change itself is done.
        assert_eq!(queue.change(ev(usize::try_from(number).unwrap(), READ, ADD)), Ok(()), "round {round}");
    }
}

/// Changes of garbage.
const CHANGES: usize = 1_000_000;

/// Draws them.
struct Garbage(Random);

impl Garbage {
    fn word(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, most: usize) -> usize {
        self.0.index(most)
    }

    /// A number that means something more often than chance has it.
    fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => self.word(),
            1 => u64::MAX - self.word() % 3,
            2 => 1 << self.below(64),
            _ => self.word() % 70,
        }
    }

    fn change(&mut self) -> Kevent {
        let filter = if self.below(20) == 0 { self.word() as i16 } else { -(self.below(14) as i16) };
        let flags = if self.below(4) == 0 { self.word() as u16 } else { ADD | (self.word() as u16 & 0x1ff) };
        let flags = if self.below(3) == 0 { flags & !DELETE & !DISABLE } else { flags };
        let ident = usize::try_from(self.number()).unwrap();
        // The alarm that ends a case that hangs stays out of it.
        let ident = if filter == SIGNAL && ident == usize::try_from(libc::SIGALRM).unwrap() { 1 } else { ident };
        ev(ident, filter, flags).notes(self.number() as u32).data(self.number() as i64)
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Pages of memory that this process has.
fn pages() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}
