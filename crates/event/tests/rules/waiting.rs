use super::{PATIENCE, queue};
use corelane_event::{Change, Event, Wake};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn without_room_or_need_nobody_waits() {
    let queue = queue();
    assert_eq!(queue.take(&mut [], 1, None), Ok(0));
    assert_eq!(queue.take(&mut [Event::BLANK; 4], 0, None), Ok(0));
    assert_eq!(queue.take(&mut [Event::BLANK; 4], 1, Some(Duration::ZERO)), Ok(0));
    assert_eq!(queue.take(&mut [Event::BLANK; 4], 4, Some(Duration::from_millis(3))), Ok(0));
}

#[test]
fn what_is_triggered_wakes_who_waits() {
    let queue = queue();
    queue.ok(Change::user(1));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| queue.one().ident);
        queue.ok(Change::trigger(1));
        assert_eq!(waiter.join().unwrap(), 1);
    });
}

#[test]
fn one_waiter_has_an_event_and_a_wake_wakes_one_or_all() {
    const WAITERS: usize = 4;
    let queue = queue();
    queue.ok(Change::user(1));
    let (told, back) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let count = queue.take(&mut [Event::BLANK; 4], 1, Some(PATIENCE)).unwrap();
                told.fetch_add(count, Ordering::SeqCst);
                back.fetch_add(1, Ordering::SeqCst);
            });
        }
        queue.ok(Change::trigger(1));
        wait_for(&back, 1);
        queue.wake(Wake::One).unwrap();
        wait_for(&back, 2);
        // Those that have not begun to wait are woken by their own.
        while back.load(Ordering::SeqCst) < WAITERS {
            queue.wake(Wake::All).unwrap();
            thread::yield_now();
        }
    });
    assert_eq!(told.load(Ordering::SeqCst), 1);
}

fn wait_for(count: &AtomicUsize, at_least: usize) {
    while count.load(Ordering::SeqCst) < at_least {
        thread::yield_now();
    }
}

#[test]
fn what_was_told_in_a_call_that_waited_for_more_is_told_again_by_the_next() {
    let queue = queue();
    queue.ok(Change::add(1, corelane_event::Filter::User));
    queue.ok(Change::trigger(1));
    for _ in 0..2 {
        assert_eq!(queue.take(&mut [Event::BLANK; 4], 2, Some(Duration::from_millis(3))), Ok(1));
    }
}
