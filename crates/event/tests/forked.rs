//! A child of fork(2) has none of its parent's queues, and waits for none of their locks.
#![allow(clippy::unwrap_used)] // all of this is tests

use corelane_event::{Change, Event, Events, Filter, Queue, Wake};
use corelane_os::testing::in_child;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const EBADF: i32 = 9;

/// A thread that is not there in the child holds the lock when it is made.
#[test]
fn a_child_is_refused_a_queue_that_was_locked_when_it_was_made() {
    let queue = Queue::new().unwrap();
    queue.change(&Change::user(1)).unwrap();
    queue.change(&Change::trigger(1)).unwrap();
    let (locked, is_locked) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let holder = &queue;
        scope.spawn(move || {
            holder.take_each(1, 1, None, |_| {
                locked.send(()).unwrap();
                released.recv().unwrap();
            })
        });
        is_locked.recv().unwrap();
        let number = |refused: Result<(), corelane_event::Refused>| refused.map_err(|refused| refused.number);
        let is_refused = in_child(|| {
            number(queue.wake(Wake::All)) == Err(EBADF)
                && number(queue.post(1, Filter::Aio, 0, 0)) == Err(EBADF)
                && number(queue.change(&Change::user(2))) == Err(EBADF)
                && queue.registered() == 0
                && number(queue.take(&mut [Event::BLANK], 1, Some(Duration::ZERO)).map(|_| ())) == Err(EBADF)
        });
        release.send(()).unwrap();
        assert!(is_refused);
    });
    queue.end();
}

#[test]
fn a_child_drops_a_queue_of_its_parents_and_makes_its_own() {
    let queue = Events::new().unwrap();
    let mut queue = Some(queue);
    assert!(in_child(|| {
        drop(queue.take());
        let own = Events::new().unwrap();
        own.change(&Change::user(1)).is_ok() && own.change(&Change::trigger(1)).is_ok()
    }));
    queue.unwrap().change(&Change::user(1)).unwrap();
}
