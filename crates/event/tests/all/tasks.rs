//! Tasks wait at a queue by whatever waits for descriptors.

use corelane_event::{Change, Event, Events, Filter};
use corelane_os::testing::wait_until_readable;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[test]
fn a_task_waits_for_events_by_the_descriptor() {
    let queue = Events::new().unwrap();
    let mut events = [Event::BLANK; 4];
    queue.change(&Change::user(1)).unwrap();
    let mut waits = 0;
    let told = {
        let mut next = pin!(queue.next(&mut events, async |descriptor| {
            waits += 1;
            queue.change(&Change::trigger(1)).unwrap();
            wait_until_readable(descriptor.as_raw_fd());
            Ok(())
        }));
        let Poll::Ready(told) = next.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("what it waits for comes at once");
        };
        told.unwrap()
    };
    assert_eq!((told, waits, events[0].ident), (1, 1, 1));
}

#[test]
fn an_owned_queue_is_watched_by_another_and_ends_with_its_owner() {
    let (inner, outer) = (Events::new().unwrap(), Events::new().unwrap());
    outer.change(&Change::readable(inner.as_fd())).unwrap();
    inner.change(&Change::user(1)).unwrap();
    inner.change(&Change::trigger(1)).unwrap();
    let mut events = [Event::BLANK; 4];
    assert_eq!(outer.take(&mut events, 1, None), Ok(1));
    assert_eq!((events[0].filter, events[0].ident), (Filter::Read, inner.as_raw_fd() as u64));
    let ident = events[0].ident;
    drop(inner);
    // Nobody has it open any more, so the other cannot hear of it, whatever has its number now.
    let _ = outer.change(&Change::delete(ident, Filter::Read));
    assert_eq!(outer.registered(), 0);
}

#[test]
fn it_goes_to_other_threads() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    is_shared(&Events::new().unwrap());
}
