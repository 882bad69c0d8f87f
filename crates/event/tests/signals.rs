//! Signals: a program of its own, because they belong to the whole process.
#![allow(clippy::unwrap_used)] // all of this is tests

use corelane_event::{Change, Event, Filter, Flags, Queue};
use corelane_os::testing::{raise, wait_until_readable};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

const EINVAL: i32 = 22;
const USER: i32 = 10;
const WINDOW: i32 = 28;

/// What one case reads another would miss.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What there is to tell, waiting for it.
fn next(queue: &Queue) -> Vec<(u64, i64)> {
    loop {
        wait_until_readable(queue.descriptor());
        let told = now(queue);
        if !told.is_empty() {
            return told;
        }
    }
}

/// What there is to tell now.
fn now(queue: &Queue) -> Vec<(u64, i64)> {
    let mut events = [Event::BLANK; 8];
    let count = queue.take(&mut events, 1, Some(Duration::ZERO)).unwrap();
    assert!(events[..count].iter().all(|event| event.filter == Filter::Signal && event.flags == Flags::CLEAR));
    events[..count].iter().map(|event| (event.ident, event.data)).collect()
}

#[test]
fn signals_are_counted_for_every_queue() {
    let _alone = alone();
    let (first, second) = (Queue::new().unwrap(), Queue::new().unwrap());
    first.change(&Change::signal(USER)).unwrap();
    second.change(&Change::signal(USER)).unwrap();
    assert!(now(&first).is_empty() && now(&second).is_empty());
    raise(USER);
    assert_eq!(next(&first), [(USER as u64, 1)]);
    raise(USER);
    assert_eq!(next(&second), [(USER as u64, 2)]);
    assert_eq!(next(&first), [(USER as u64, 1)]);
    assert!(now(&first).is_empty() && now(&second).is_empty());
    first.change(&Change::delete(USER as u64, Filter::Signal)).unwrap();
    raise(USER);
    assert_eq!(next(&second), [(USER as u64, 1)]);
    assert!(now(&first).is_empty());
    (first.end(), second.end());
}

#[test]
fn an_ignored_signal_from_elsewhere_is_told() {
    let _alone = alone();
    let queue = Queue::new().unwrap();
    // It is ignored by default. Other threads of the process take it away unless it is sent to this one.
    queue.change(&Change::signal(WINDOW)).unwrap();
    raise(WINDOW);
    assert_eq!(next(&queue), [(WINDOW as u64, 1)]);
    queue.change(&Change::disable(WINDOW as u64, Filter::Signal)).unwrap();
    raise(WINDOW);
    assert!(now(&queue).is_empty());
    queue.change(&Change::enable(WINDOW as u64, Filter::Signal)).unwrap();
    assert_eq!(next(&queue), [(WINDOW as u64, 1)]);
    queue.end();
}

#[test]
fn what_is_no_signal_is_refused() {
    let _alone = alone();
    let queue = Queue::new().unwrap();
    for number in [0, 9, 19, 32, 65, 1 << 40] {
        assert_eq!(queue.change(&Change::add(number, Filter::Signal)).unwrap_err().number, EINVAL, "{number}");
    }
    queue.end();
}

#[test]
fn a_fork_has_no_queues() {
    let _alone = alone();
    // The child of this program's own fork runs another program at once; that its queue's descriptor is gone there shows in its table.
    let queue = Queue::new().unwrap();
    let output = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    assert!(!String::from_utf8(output.stdout).unwrap().contains("eventpoll"));
    queue.end();
}
