//! Closing a descriptor removes its interests. Each way to close is tried seen (by name) and unseen (by the system call alone).

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::null;

use libc::{EBADF, ENOENT};

use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("close removes interests", "Q-01", |q| closed_is_gone(q, close)),
    case("an unseen close removes interests", "Q-01", |q| closed_is_gone(q, close_unseen)),
    case("close_range removes interests", "Q-01", |q| closed_is_gone(q, |number| close_range(number, 0))),
    case("fclose removes interests", "Q-01", |q| closed_is_gone(q, fclose)),
    case("dup2 removes interests of what it replaces", "Q-01", |q| replaced_is_gone(q, dup2)),
    case("dup3 removes interests of what it replaces", "Q-01", |q| replaced_is_gone(q, dup3)),
    case("an unseen dup2 removes interests of what it replaces", "Q-01", |q| {
        replaced_is_gone(q, dup2_unseen);
    }),
    case("a number that is used again begins anew", "Q-01", |q| used_again(q, close)),
    case("a number that is used again after an unseen close begins anew", "Q-01", |q| used_again(q, close_unseen)),
    case("a new file is not told to the old one's interest", "Q-01", |q| new_file_is_not_told(q, close)),
    case("a new file is not told to the old one's interest after an unseen close", "Q-01", |q| {
        new_file_is_not_told(q, close_unseen);
    }),
    case("with a dup alive close removes interests", "Q-01", |q| dup_is_not_told(q, close)),
    case("with a dup alive an unseen close removes interests", "Q-01", |q| dup_is_not_told(q, close_unseen)),
    case("with a dup alive a queue does not spin", "Q-01", |q| dup_does_not_spin(q, close)),
    case("with a dup alive a queue does not spin after an unseen close", "Q-01", |q| dup_does_not_spin(q, close_unseen)),
    case("with a dup alive a number that is used again begins anew", "Q-01", |q| dup_and_used_again(q, close)),
    case("with a dup alive a number that is used again after an unseen close begins anew", "Q-01", |q| {
        dup_and_used_again(q, close_unseen);
    }),
    case("a new file is not told by close while the old one lives on", "Q-01", |q| both_live(q, reopened(close))),
    case("a new file is not told by close_range while the old one lives on", "Q-01", |q| {
        both_live(q, reopened(|number| close_range(number, 0)));
    }),
    case("a new file is not told by fclose while the old one lives on", "Q-01", |q| both_live(q, reopened(fclose))),
    case("a new file is not told by dup2 while the old one lives on", "Q-01", |q| both_live(q, dup2)),
    case("a new file is not told by dup3 while the old one lives on", "Q-01", |q| both_live(q, dup3)),
    case("closing a dup leaves the interest", "Q-01", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        close(dup(&read));
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
    }),
    case("a dup is watched for itself", "Q-01", |q| {
        let (read, write) = pipe();
        let copy = dup(&read);
        q.set(&[ev(id(&read), READ, ADD).tag(1), ev(id(&copy), READ, ADD).tag(2)]);
        put(&write, b"a");
        let mut told: Vec<_> = q.now().iter().map(tag).collect();
        told.sort_unstable();
        assert_eq!(told, [1, 2]);
        close(copy);
        assert_eq!(q.now().iter().map(tag).collect::<Vec<_>>(), [1]);
    }),
    case("closing removes every filter's interest", "Q-01", |q| {
        let (one, other) = local();
        for filter in [READ, WRITE, EMPTY] {
            q.add(id(&one), filter);
        }
        put(&other, b"a");
        let number = one.into_raw_fd();
        close(number);
        q.silent();
        for filter in [READ, WRITE, EMPTY] {
            assert_eq!(q.change(ev(id(&number), filter, DELETE)), Err(EBADF));
        }
    }),
    case("closing removes what was ready", "Q-01", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD)]);
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
        drop(read);
        q.silent();
    }),
    case("closing removes what was disabled", "Q-01", |q| {
        let (read, _write) = pipe();
        q.set(&[ev(id(&read), READ, ADD | DISABLE)]);
        let number = read.into_raw_fd();
        close(number);
        let (other, _end) = at(number);
        assert_eq!(q.change(ev(id(&other), READ, ENABLE)), Err(ENOENT));
    }),
    case("closing a watched file removes its interest", "Q-01", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"abc");
        q.add(id(&file), READ);
        q.set(&[ev(id(&file), VNODE, ADD | CLEAR).notes(NOTE_WRITE)]);
        drop(file);
        std::fs::write(folder.path("a"), b"more").unwrap();
        q.silent();
    }),
    case("nothing holds a watched pipe open", "Q-01", |q| {
        let (read, write) = pipe();
        q.add(id(&write), WRITE);
        let number = write.into_raw_fd();
        close_unseen(number);
        assert_eq!(get(&read, 1), 0);
        let other = Queue::new();
        other.add(id(&read), READ);
        assert!(other.wait().has(EOF), "the pipe has no writer left");
    }),
    case("nothing holds a watched connection open", "Q-01", |q| {
        let (one, other) = tcp();
        q.add(id(&one), READ);
        q.add(id(&one), WRITE);
        close_unseen(one.into_raw_fd());
        let peer = Queue::new();
        peer.add(id(&other), READ);
        assert!(peer.until(|event| event.has(EOF)).has(EOF));
    }),
    case("other interests go on after a close", "Q-01", |q| {
        let (gone, kept) = (pipe(), pipe());
        q.add(id(&gone.0), READ);
        q.add(id(&kept.0), READ);
        drop(gone);
        put(&kept.1, b"a");
        let told = q.now();
        assert_eq!((told.len(), told[0].ident), (1, id(&kept.0)));
    }),
    case("other interests go on when a set is built again", "Q-01", |q| {
        let (gone, kept) = (pipe(), pipe());
        q.add(id(&gone.0), READ);
        q.add(id(&kept.0), READ);
        q.set(&[ev(5, USER, ADD | CLEAR)]);
        let copy = dup(&gone.0);
        let number = gone.0.into_raw_fd();
        close_unseen(number);
        put(&gone.1, b"a");
        q.silent();
        put(&kept.1, b"a");
        assert_eq!(q.wait().ident, id(&kept.0));
        get(&kept.0, 1);
        q.set(&[ev(5, USER, 0).notes(NOTE_TRIGGER)]);
        assert_eq!(q.wait().ident, 5);
        close(copy);
    }),
    case("a replaced number is watched anew", "Q-01", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD).tag(1)]);
        let (other, end) = pipe();
        dup2(&other, read.as_raw_fd());
        q.set(&[ev(id(&read), READ, ADD).tag(2)]);
        put(&end, b"ab");
        assert_eq!(q.wait().data, 2);
        drop(write);
        assert_eq!(tag(&q.wait()), 2);
    }),
    case("a dup2 that fails removes nothing", "Q-01", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        dup2_fails(9999, read.as_raw_fd());
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
    }),
    case("a dup2 onto itself removes nothing", "Q-01", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        dup2(&read, read.as_raw_fd());
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
    }),
    case("a close_range that only marks removes nothing", "Q-01", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        close_range(read.as_raw_fd(), libc::CLOSE_RANGE_CLOEXEC.cast_signed());
        put(&write, b"a");
        assert_eq!(q.wait().data, 1);
    }),
    case("a closed queue is no queue", "Q-01", |_| {
        let number = Queue::new().into_raw();
        close(number);
        assert_eq!(told_by(number), Err(EBADF));
    }),
    case("a queue whose number is another file's is no queue", "Q-01", |_| {
        let number = Queue::new().into_raw();
        close_unseen(number);
        let (other, _end) = at(number);
        assert_eq!(told_by(other), Err(EBADF));
    }),
    case("a queue whose number is another queue's is that one", "Q-01", |_| {
        let old = Queue::new();
        old.set(&[ev(1, USER, ADD)]);
        let number = old.into_raw();
        close(number);
        let queues: Vec<_> = (0..8).map(|_| Queue::new()).collect();
        // Where the close was not seen, a descriptor of the first new queue's own has the number.
        let new = queues.iter().find(|queue| queue.as_raw_fd() == number);
        assert!(new.is_some() || !closes_are_seen(), "low numbers are used again");
        assert_eq!(new.map_or(Err(ENOENT), |new| new.change(ev(1, USER, DELETE))), Err(ENOENT));
    }),
    case("queues that are opened and closed leave nothing behind", "Q-01", |_| {
        let before = open_descriptors();
        for _ in 0..200 {
            let queue = Queue::new();
            let (read, write) = pipe();
            queue.add(id(&read), READ);
            queue.set(&[ev(1, TIMER, ADD).data(1), ev(2, USER, ADD)]);
            put(&write, b"a");
            queue.wait();
        }
        // A close that was not seen is found when the next queue is made.
        let left = open_descriptors().saturating_sub(before);
        assert!(left <= if closes_are_seen() { 0 } else { 8 }, "{left} descriptors are left");
    }),
    case("a thousand connections come and go", "Q-01", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        for round in 0..1000 {
            let (one, other) = local();
            q.set(&[ev(id(&one), READ, ADD).tag(round + 1)]);
            put(&other, b"a");
            let told = q.now();
            assert_eq!(told.iter().map(tag).collect::<Vec<_>>(), [round + 1]);
        }
        put(&write, b"a");
        assert_eq!(q.wait().ident, id(&read));
    }),
];

type Closer = fn(RawFd);

fn closed_is_gone(queue: &Queue, closer: Closer) {
    let (read, write) = pipe();
    queue.add(id(&read), READ);
    put(&write, b"a");
    let number = read.into_raw_fd();
    closer(number);
    queue.silent();
    assert_eq!(queue.change(ev(id(&number), READ, DELETE)), Err(EBADF));
}

fn replaced_is_gone(queue: &Queue, replace: fn(&OwnedFd, RawFd)) {
    let (read, write) = pipe();
    queue.add(id(&read), READ);
    put(&write, b"a");
    let (other, end) = pipe();
    replace(&other, read.as_raw_fd());
    queue.silent();
    put(&end, b"a");
    queue.silent();
    assert_eq!(queue.change(ev(id(&read), READ, DELETE)), Err(ENOENT));
}

/// The old file, by another number, and the new one are both ready.
fn both_live(queue: &Queue, replace: impl Fn(&OwnedFd, RawFd)) {
    let (read, write) = pipe();
    queue.add(id(&read), READ);
    let copy = dup(&read);
    put(&write, b"a");
    let (other, end) = pipe();
    put(&end, b"abc");
    replace(&other, read.as_raw_fd());
    queue.silent();
    assert_eq!(queue.change(ev(id(&read), READ, DELETE)), Err(ENOENT));
    close(copy);
}

/// As dup2, by a close that is seen and another file that gets the number.
fn reopened(closer: Closer) -> impl Fn(&OwnedFd, RawFd) {
    move |other, number| {
        closer(number);
        dup2_unseen(other, number);
    }
}

/// A new pipe's end to read under `number`, which is free, and its end to write.
fn at(number: RawFd) -> (RawFd, OwnedFd) {
    let (read, write) = pipe();
    if read.as_raw_fd() == number {
        return (read.into_raw_fd(), write);
    }
    if write.as_raw_fd() == number {
        // The end to write lies where the other shall: it is moved away first.
        let moved = nix::fcntl::fcntl(&write, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(100)).unwrap();
        drop(write);
        dup2_unseen(&read, number);
        return (number, owned(moved));
    }
    dup2_unseen(&read, number);
    (number, write)
}

fn used_again(queue: &Queue, closer: Closer) {
    let (read, _write) = pipe();
    queue.set(&[ev(id(&read), READ, ADD).tag(1)]);
    let number = read.into_raw_fd();
    closer(number);
    let (other, end) = at(number);
    queue.set(&[ev(id(&other), READ, ADD).tag(2)]);
    put(&end, b"abc");
    let told = queue.now();
    assert_eq!(told.iter().map(|event| (tag(event), event.data)).collect::<Vec<_>>(), [(2, 3)]);
    queue.set(&[ev(id(&other), READ, DELETE)]);
}

fn new_file_is_not_told(queue: &Queue, closer: Closer) {
    let (read, write) = pipe();
    queue.add(id(&read), READ);
    put(&write, b"a");
    let number = read.into_raw_fd();
    closer(number);
    let (other, end) = at(number);
    put(&end, b"abc");
    queue.silent();
    assert_eq!(queue.change(ev(id(&other), READ, DELETE)), Err(ENOENT));
}

fn dup_is_not_told(queue: &Queue, closer: Closer) {
    let (read, write) = pipe();
    queue.add(id(&read), READ);
    let copy = dup(&read);
    closer(read.into_raw_fd());
    put(&write, b"a");
    queue.silent();
    close(copy);
}

fn dup_does_not_spin(queue: &Queue, closer: Closer) {
    use nix::poll::{PollFd, PollFlags, PollTimeout};
    let (read, write) = pipe();
    queue.add(id(&read), READ);
    let copy = dup(&read);
    closer(read.into_raw_fd());
    put(&write, b"a");
    queue.silent();
    queue.silent();
    let mut polled = [PollFd::new(crate::sockets::borrowed(queue), PollFlags::POLLIN)];
    assert_eq!(nix::poll::poll(&mut polled, PollTimeout::ZERO), Ok(0), "nothing is reported any more");
    close(copy);
}

fn dup_and_used_again(queue: &Queue, closer: Closer) {
    let (read, write) = pipe();
    queue.set(&[ev(id(&read), READ, ADD).tag(1)]);
    let copy = dup(&read);
    let number = read.into_raw_fd();
    closer(number);
    let (other, end) = at(number);
    queue.set(&[ev(id(&other), READ, ADD).tag(2)]);
    put(&write, b"old");
    queue.silent();
    put(&end, b"ab");
    assert_eq!(queue.now().iter().map(|event| (tag(event), event.data)).collect::<Vec<_>>(), [(2, 2)]);
    close(copy);
}

/// What a queue tells that may be none.
fn told_by(number: RawFd) -> Result<usize, i32> {
    raw(number, (null(), 0), ([ev(0, USER, 0)].as_mut_ptr(), 1), AT_ONCE)
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
