//! Eight threads on one queue: each event is seen exactly once. `CORELANE_EVENTS` says how many events; 100,000 by default.

use corelane_event::{Change, Event, Filter, Flags, Queue, Wake};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(30);

fn wanted() -> usize {
    std::env::var("CORELANE_EVENTS").map_or(100_000, |count| count.parse().unwrap())
}

/// Each user event is triggered, told to one thread, and triggered again by whom it was told to: were one lost, the run would not end; were one
/// told twice, its count would be wrong.
#[test]
fn user_events_are_told_exactly_once() {
    const IDENTS: u64 = 64;
    let queue = Queue::new().unwrap();
    let each = wanted() as u64 / IDENTS;
    let told: Vec<AtomicU64> = (0..IDENTS).map(|_| AtomicU64::new(0)).collect();
    let out: Vec<AtomicU64> = (0..IDENTS).map(|_| AtomicU64::new(1)).collect();
    let left = AtomicUsize::new(IDENTS as usize);
    for ident in 0..IDENTS {
        queue.change(&Change::user(ident)).unwrap();
        queue.change(&Change::trigger(ident)).unwrap();
    }
    let take = || {
        let mut events = [Event::BLANK; 5];
        while left.load(Ordering::SeqCst) > 0 {
            let count = queue.take(&mut events, 1, Some(PATIENCE)).unwrap();
            assert!(count > 0 || left.load(Ordering::SeqCst) == 0, "an event is lost");
            for event in &events[..count] {
                let ident = event.ident as usize;
                // Nobody else has it: it is triggered again only below.
                assert_eq!(out[ident].swap(0, Ordering::SeqCst), 1, "told twice");
                if told[ident].fetch_add(1, Ordering::SeqCst) + 1 < each {
                    out[ident].store(1, Ordering::SeqCst);
                    queue.change(&Change::trigger(event.ident)).unwrap();
                } else if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    wake_up(&queue, &left);
                }
            }
        }
    };
    run(&queue, &take);
    assert!(told.iter().all(|told| told.load(Ordering::SeqCst) == each));
    queue.end();
}

/// Bytes go round between the ends of many connections; each end is dispatched to one thread at a time, by turns disabled and enabled,
/// registered once, or deleted and added. Each byte that was sent is received once.
#[test]
fn bytes_of_dispatched_connections_are_seen_exactly_once() {
    const PAIRS: usize = 32;
    let queue = Queue::new().unwrap();
    let each = wanted() / PAIRS / 2;
    let ends: Vec<UnixStream> = (0..PAIRS).flat_map(|_| <[_; 2]>::from(UnixStream::pair().unwrap())).collect();
    let seen: Vec<AtomicUsize> = ends.iter().map(|_| AtomicUsize::new(0)).collect();
    let busy: Vec<AtomicUsize> = ends.iter().map(|_| AtomicUsize::new(0)).collect();
    let left = AtomicUsize::new(ends.len());
    for (index, end) in ends.iter().enumerate() {
        queue.change(&Change::readable(end.as_fd()).dispatched().cookie(index as u64)).unwrap();
    }
    ends.iter().for_each(|mut end| end.write_all(b"x").unwrap());
    let serve = |index: usize| {
        let mut end: &UnixStream = &ends[index];
        assert_eq!(busy[index].fetch_add(1, Ordering::SeqCst), 0, "two threads have it");
        let mut bytes = [0; 1];
        end.read_exact(&mut bytes).unwrap();
        let count = seen[index].fetch_add(1, Ordering::SeqCst) + 1;
        if count < each {
            end.write_all(&bytes).unwrap();
        }
        busy[index].fetch_sub(1, Ordering::SeqCst);
        let again = Change::readable(end.as_fd()).dispatched().cookie(index as u64);
        match count % 3 {
            0 => queue.change(&Change { flags: Flags::ENABLE, ..again }).unwrap(),
            1 => {
                queue.change(&Change::delete(again.ident, Filter::Read)).unwrap();
                queue.change(&again).unwrap();
            }
            _ => queue.change(&Change { flags: Flags::ADD | Flags::ENABLE, ..again }).unwrap(),
        }
        if count == each && left.fetch_sub(1, Ordering::SeqCst) == 1 {
            wake_up(&queue, &left);
        }
    };
    let take = || {
        let mut events = [Event::BLANK; 5];
        while left.load(Ordering::SeqCst) > 0 {
            let count = queue.take(&mut events, 1, Some(PATIENCE)).unwrap();
            assert!(count > 0 || left.load(Ordering::SeqCst) == 0, "an event is lost");
            assert!(events[..count].iter().all(|event| (1..=2).contains(&event.data)), "{events:?}");
            events[..count].iter().for_each(|event| serve(event.cookie as usize));
        }
    };
    run(&queue, &take);
    assert!(seen.iter().all(|seen| seen.load(Ordering::SeqCst) == each));
    queue.end();
}

/// The threads that still wait have nothing to wait for.
fn wake_up(queue: &Queue, left: &AtomicUsize) {
    assert_eq!(left.load(Ordering::SeqCst), 0);
    (0..THREADS).for_each(|_| queue.wake(Wake::One).unwrap());
}

fn run(_: &Queue, take: &(impl Fn() + Sync)) {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(take);
        }
    });
}

/// Descriptors come, go and are replaced under the hands of those that wait: nothing is told under a cookie that its number does not have
/// any more.
#[test]
fn closed_in_the_middle_nothing_old_is_told() {
    let queue = Queue::new().unwrap();
    let rounds = wanted() / 50;
    let done = AtomicUsize::new(0);
    let newest = AtomicU64::new(0);
    let take = || {
        let mut events = [Event::BLANK; 4];
        while done.load(Ordering::SeqCst) == 0 {
            let before = newest.load(Ordering::SeqCst);
            let count = queue.take(&mut events, 1, Some(PATIENCE)).unwrap();
            for event in &events[..count] {
                assert!(event.cookie + 1 >= before, "{} was closed before {before} was opened", event.cookie);
            }
        }
    };
    thread::scope(|scope| {
        (0..THREADS - 1).for_each(|_| drop(scope.spawn(take)));
        for round in 1..=rounds as u64 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            queue.change(&Change::readable(ours.as_fd()).cookie(round)).unwrap();
            theirs.write_all(b"x").unwrap();
            let copy = ours.try_clone().unwrap();
            // One in two is closed without a word.
            if round % 2 == 0 {
                corelane_event::closed(std::os::fd::AsRawFd::as_raw_fd(&ours));
            }
            drop(ours);
            newest.store(round, Ordering::SeqCst);
            drop(copy);
        }
        done.store(1, Ordering::SeqCst);
        (0..THREADS).for_each(|_| queue.wake(Wake::One).unwrap());
    });
    queue.end();
}
