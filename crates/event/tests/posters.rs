//! Posters: triggers from threads that must not wait.
#![allow(clippy::unwrap_used)] // all of this is tests

use corelane_event::{Change, Event, Events, Happening, Poster, Queue};
use corelane_os::testing::{in_child, wait_until_readable};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const EAGAIN: i32 = 11;
const EBADF: i32 = 9;

fn next(queue: &Queue) -> Vec<Happening> {
    wait_until_readable(queue.descriptor());
    let mut events = [Event::BLANK; 16];
    let told = queue.take(&mut events, 1, Some(Duration::ZERO)).unwrap();
    events[..told].iter().map(Event::happening).collect()
}

#[test]
fn what_is_posted_is_told_while_the_queue_is_locked_by_another() {
    let queue = Events::new().unwrap();
    queue.change(&Change::user(1)).unwrap();
    queue.change(&Change::user(2)).unwrap();
    queue.change(&Change::trigger(2)).unwrap();
    let mut poster = queue.poster().unwrap();
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
        poster.trigger(1, -5).unwrap();
        release.send(()).unwrap();
    });
    assert_eq!(next(&queue), [Happening::User { user: 1, bits: 0, data: -5 }]);
}

#[test]
fn posted_from_many_threads_nothing_is_lost() {
    const THREADS: u64 = 4;
    const EACH: i64 = 20_000;
    let queue = Events::new().unwrap();
    (0..THREADS).for_each(|user| queue.change(&Change::user(user)).unwrap());
    let poster = queue.poster().unwrap();
    let mut last = [0; THREADS as usize];
    thread::scope(|scope| {
        for user in 0..THREADS {
            let mut poster = poster.clone();
            scope.spawn(move || {
                for value in 1..=EACH {
                    while let Err(refused) = poster.trigger(user, value) {
                        assert_eq!(refused.number, EAGAIN);
                        thread::yield_now();
                    }
                }
            });
        }
        // The last of each is told, whatever was told of those before.
        while last != [EACH; THREADS as usize] {
            for happening in next(&queue) {
                let Happening::User { user, data, .. } = happening else { panic!("{happening:?}") };
                assert!(data > last[user as usize], "in order");
                last[user as usize] = data;
            }
        }
    });
}

#[test]
fn there_is_room_for_so_many_and_what_nobody_wants_is_nothing() {
    let queue = Events::new().unwrap();
    let mut poster = queue.poster().unwrap();
    (0..4096).for_each(|user| poster.trigger(user, 0).unwrap());
    assert_eq!(poster.trigger(1, 0).unwrap_err().number, EAGAIN);
    assert!(next(&queue).is_empty());
    queue.change(&Change::user(1)).unwrap();
    poster.trigger(1, 4).unwrap();
    // The bell rings once more where as many came as there was room for.
    let told = loop {
        let told = next(&queue);
        if !told.is_empty() {
            break told;
        }
    };
    assert_eq!(told, [Happening::User { user: 1, bits: 0, data: 4 }]);
}

#[test]
fn a_table_that_does_not_have_the_bell_is_refused_and_one_that_has_is_not() {
    let queue = Events::new().unwrap();
    queue.change(&Change::user(1)).unwrap();
    let before = queue.poster().unwrap();
    let after = thread::scope(|scope| {
        let (give, given) = mpsc::channel::<Poster>();
        let refused = scope.spawn(move || {
            corelane_os::runner::own_descriptors().unwrap();
            let mut before = before;
            before.trigger(1, 7).unwrap();
            let mut late = given.recv().unwrap();
            late.trigger(1, 8).unwrap_err().number
        });
        assert_eq!(next(&queue), [Happening::User { user: 1, bits: 0, data: 7 }]);
        let other = Events::new().unwrap();
        give.send(other.poster().unwrap()).unwrap();
        refused.join().unwrap()
    });
    assert_eq!(after, EBADF);
}

#[test]
fn a_child_and_a_queue_that_is_gone_are_refused() {
    let queue = Events::new().unwrap();
    let mut poster = queue.poster().unwrap();
    poster.trigger(1, 0).unwrap();
    assert!(in_child(|| poster.trigger(1, 0).is_err_and(|refused| refused.number == EBADF)));
    assert!(queue.as_raw_fd() >= 0);
    drop(queue);
    assert_eq!(poster.trigger(1, 0).unwrap_err().number, EBADF);
}

#[test]
fn what_goes_to_other_threads_may() {
    fn is_sent<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Queue>();
    is_shared::<Events>();
    is_sent::<Poster>();
    is_sent::<corelane_event::Submission>();
    is_sent::<corelane_event::OperationResult>();
    is_shared::<Event>();
    is_shared::<Change>();
}
