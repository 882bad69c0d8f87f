use super::{ident, number, queue};
use corelane_event::{Change, Filter, Queue};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

const ENOENT: i32 = 2;
const EBADF: i32 = 9;

#[test]
fn a_close_that_is_told_of_removes_the_interests() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let dup = ours.try_clone().unwrap();
    queue.ok(Change::readable(ours.as_fd()));
    queue.ok(Change::writable(ours.as_fd()).cleared());
    queue.ok(Change::readable(dup.as_fd()));
    corelane_event::closed(number(&ours));
    assert_eq!(queue.registered(), 1);
    drop(ours);
    theirs.write_all(b"x").unwrap();
    assert_eq!(queue.one().ident, ident(&dup));
}

#[test]
fn a_close_is_told_to_each_queue_that_watches() {
    let queues = [queue(), queue(), queue()];
    let (ours, _theirs) = UnixStream::pair().unwrap();
    queues.iter().for_each(|queue| queue.ok(Change::readable(ours.as_fd())));
    corelane_event::closed(number(&ours));
    assert_eq!(queues.each_ref().map(|queue| queue.registered()), [0; 3]);
}

#[test]
fn a_close_that_nobody_told_of_is_never_told_as_the_new_files() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()).cookie(1));
    // The old file lives on, and is readable; its number means another, which is readable too.
    let old = ours.try_clone().unwrap();
    let (new, mut other) = UnixStream::pair().unwrap();
    theirs.write_all(b"old").unwrap();
    other.write_all(b"new!").unwrap();
    let moved = replace(ours, new);
    for _ in 0..4 {
        assert!(queue.now().is_empty());
    }
    assert_eq!(queue.registered(), 0);
    assert!(!is_readable(&queue), "the old file is out of the set");
    queue.ok(Change::readable(moved.as_fd()).cookie(2));
    let event = queue.one();
    assert_eq!((event.data, event.cookie), (4, 2));
    drop(old);
}

#[test]
fn a_change_finds_that_the_number_means_another_file() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()).cookie(1));
    let (new, mut other) = UnixStream::pair().unwrap();
    let old = ours.try_clone().unwrap();
    let moved = replace(ours, new);
    theirs.write_all(b"old").unwrap();
    other.write_all(b"new!").unwrap();
    assert_eq!(queue.refused(Change::delete(ident(&moved), Filter::Read)), ENOENT);
    queue.ok(Change::writable(moved.as_fd()).once().cookie(3));
    assert_eq!(queue.one().cookie, 3);
    assert!(queue.now().is_empty());
    drop(old);
}

#[test]
fn files_without_a_name_are_told_apart_by_the_set() {
    let (first, second, watching) = (queue(), queue(), queue());
    let old = first.descriptor();
    watching.ok(Change::add(old as u64, Filter::Read).cookie(1));
    first.ok(Change::user(1));
    first.ok(Change::trigger(1));
    assert_eq!(watching.one().cookie, 1);
    second.ok(Change::user(1));
    second.ok(Change::trigger(1));
    // One queue's descriptor takes the place of the other's.
    first.end();
    let third = queue();
    third.ok(Change::user(2));
    watching.ok(Change::add(third.descriptor() as u64, Filter::Read).cookie(3));
    assert!(watching.now().is_empty());
    third.ok(Change::trigger(2));
    assert_eq!(watching.one().cookie, 3);
}

#[test]
fn a_file_without_a_name_is_not_taken_for_another() {
    let (old, new, watching) = (queue(), queue(), queue());
    for (queue, ident) in [(&old, 1), (&new, 2)] {
        queue.ok(Change::user(ident));
        queue.ok(Change::trigger(ident));
    }
    let [ours, copy, other] = [&old, &old, &new].map(|queue| corelane_os::testing::duplicate(queue.descriptor()));
    watching.ok(Change::readable(ours.as_fd()));
    assert_eq!(watching.one().ident, ident(&ours));
    let moved = corelane_os::testing::replace(ours, other.as_fd());
    assert!(watching.now().is_empty());
    assert_eq!(watching.registered(), 0);
    drop((copy, moved));
}

#[test]
fn a_queue_ends_with_its_descriptor() {
    let queue = queue();
    let number = queue.descriptor();
    assert!(Queue::of(number).is_some_and(|found| found.descriptor() == number));
    queue.end();
    assert!(is_gone(number, &queue));
}

#[test]
fn a_queue_that_ends_twice_ends_no_other_that_has_its_number() {
    // Other tests may get the number first.
    for _ in 0..100 {
        let first = queue();
        let number = first.descriptor();
        first.end();
        let second = queue();
        first.end();
        assert!(Queue::of(second.descriptor()).is_some());
        if second.descriptor() == number {
            return;
        }
    }
}

#[test]
fn a_descriptor_closed_while_it_is_on_the_ready_list_is_not_told() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (kept, _other) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()).from_bytes(2));
    queue.ok(Change::writable(kept.as_fd()));
    theirs.write_all(b"abc").unwrap();
    assert_eq!(queue.next().len(), 2);
    let dup = ours.try_clone().unwrap();
    corelane_event::closed(number(&ours));
    drop(ours);
    assert_eq!(queue.one().ident, ident(&kept));
    drop(dup);
}

#[test]
fn a_number_that_is_not_open_any_more_is_refused() {
    let queue = queue();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()));
    // Far from what other cases open at the same time.
    let high = high(&ours);
    queue.ok(Change::readable(high.as_fd()));
    let gone = ident(&high);
    drop(high);
    assert_eq!(queue.refused(Change::enable(gone, Filter::Read)), EBADF);
    assert_eq!(queue.registered(), 1);
}

/// Whether this queue is not found by its number. Another case may have got the number for its own.
fn is_gone(number: RawFd, queue: &Arc<Queue>) -> bool {
    Queue::of(number).is_none_or(|found| !Arc::ptr_eq(&found, queue))
}

/// A copy of a descriptor under a number that nobody else gets.
fn high(socket: &UnixStream) -> UnixStream {
    corelane_os::testing::duplicate_from(socket.as_fd(), 900).into()
}

/// Gives `new`'s file the number of `old`, as dup2(2) does, without telling.
fn replace(old: UnixStream, new: UnixStream) -> UnixStream {
    let number = old.as_raw_fd();
    let moved: UnixStream = corelane_os::testing::replace(old.into(), new.as_fd()).into();
    assert_eq!(moved.as_raw_fd(), number);
    moved
}

fn is_readable(queue: &super::Owned) -> bool {
    let outer = super::queue();
    outer.ok(Change::add(queue.descriptor() as u64, Filter::Read));
    !outer.now().is_empty()
}

/// As a signal handler does that interrupts a call. Were the lock waited for, this would never end.
#[test]
fn a_queue_closed_above_a_call_that_has_its_lock_waits_for_nobody() {
    let queue = Queue::new().unwrap();
    let number = queue.descriptor();
    queue.change(&Change::user(1)).unwrap();
    queue.change(&Change::trigger(1)).unwrap();
    let mut told = 0;
    let answer = queue.take_each(1, 1, None, |_| {
        corelane_event::closed(number);
        told += 1;
    });
    assert_eq!((answer.unwrap(), told), (1, 1));
    assert!(is_gone(number, &queue), "it is nobody's any more");
    assert!(queue.take_each(1, 1, Some(Duration::ZERO), |_| ()).is_err(), "who let go of the lock has ended it");
}
