//! Where every close is told: a program of its own, because that is a promise for the whole process.
#![allow(clippy::unwrap_used)] // all of this is tests

use corelane_event::{Change, Event, Queue};
use corelane_os::testing::{replace, wait_until_readable};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

fn now(queue: &Queue) -> Vec<Event> {
    let mut events = [Event::BLANK; 8];
    let count = queue.take(&mut events, 1, Some(Duration::ZERO)).unwrap();
    events[..count].to_vec()
}

#[test]
fn told_closes_end_interests_and_untold_ones_never_spin() {
    corelane_event::closes_are_told();
    let queue = Queue::new().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    queue.change(&Change::readable(ours.as_fd()).cookie(1)).unwrap();
    theirs.write_all(b"old").unwrap();
    wait_until_readable(queue.descriptor());
    assert_eq!(now(&queue)[0].data, 3);

    // Past us, the number comes to mean a file with nothing to read, and the old one lives on, readable.
    let (new, _other) = UnixStream::pair().unwrap();
    let old = ours.try_clone().unwrap();
    let moved: UnixStream = replace(ours.into(), new.as_fd()).into();
    for _ in 0..3 {
        assert!(now(&queue).is_empty());
    }
    assert_eq!(queue.registered(), 0);
    let outer = Queue::new().unwrap();
    outer.change(&Change::add(queue.descriptor() as u64, corelane_event::Filter::Read)).unwrap();
    assert!(now(&outer).is_empty(), "the old file is out of the set");

    queue.change(&Change::writable(moved.as_fd()).cookie(2)).unwrap();
    corelane_event::closed(moved.as_raw_fd());
    assert_eq!((queue.registered(), now(&queue).len()), (0, 0));
    drop(old);
    queue.end();
    outer.end();
}

#[test]
fn a_close_told_while_the_queue_is_locked_ends_its_interest_too() {
    corelane_event::closes_are_told();
    let queue = Queue::new().unwrap();
    let (first, mut peer) = UnixStream::pair().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    peer.write_all(b"a").unwrap();
    theirs.write_all(b"old").unwrap();
    queue.change(&Change::readable(first.as_fd()).cookie(1)).unwrap();
    queue.change(&Change::user(2).cookie(2)).unwrap();
    queue.change(&Change::readable(ours.as_fd()).cookie(3)).unwrap();
    queue.change(&Change::trigger(2).cookie(2)).unwrap();

    // Where an event is told the queue is locked: another thread's close would find it so.
    let number = ours.as_raw_fd();
    let told = queue
        .take_each(1, 1, None, |_| {
            corelane_event::closed(number);
        })
        .unwrap();
    assert_eq!(told, 1);
    let (new, mut end) = UnixStream::pair().unwrap();
    end.write_all(b"newer").unwrap();
    let old = ours.try_clone().unwrap();
    let moved: UnixStream = replace(ours.into(), new.as_fd()).into();
    for _ in 0..3 {
        assert!(now(&queue).iter().all(|event| event.cookie != 3), "what was closed is told");
    }
    assert_eq!(queue.registered(), 2);
    drop((old, moved));
    queue.end();
}
