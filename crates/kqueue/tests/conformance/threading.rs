//! Several threads on one queue.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use crate::limits::until_it_waits;
use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("a trigger of another thread ends the wait", "Q-22", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR)]);
        thread::scope(|threads| {
            threads.spawn(|| q.set(&[trigger(1)]));
            assert_eq!(q.wait().ident, 1);
        });
    }),
    case("a descriptor that another thread registers ends the wait", "Q-22", |q| {
        let (read, write) = pipe();
        put(&write, b"a");
        thread::scope(|threads| {
            threads.spawn(|| q.add(id(&read), READ));
            assert_eq!(q.wait().data, 1);
        });
    }),
    case("a timer that another thread registers ends the wait", "Q-22", |q| {
        thread::scope(|threads| {
            threads.spawn(|| q.set(&[ev(1, TIMER, ADD | ONESHOT).data(1)]));
            assert_eq!(q.wait().ident, 1);
        });
    }),
    case("a timer that another thread brings forward ends the wait", "Q-22", |q| {
        q.set(&[ev(1, TIMER, ADD | ONESHOT).notes(NOTE_SECONDS).data(36_000)]);
        thread::scope(|threads| {
            threads.spawn(|| q.set(&[ev(1, TIMER, ADD | ONESHOT).data(1)]));
            assert_eq!(q.wait().ident, 1);
        });
    }),
    case("an interest that another thread enables ends the wait", "Q-22", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR | DISABLE), trigger(1)]);
        thread::scope(|threads| {
            threads.spawn(|| q.set(&[ev(1, USER, ENABLE)]));
            assert_eq!(q.wait().ident, 1);
        });
    }),
    case("bytes that another thread writes end the wait", "Q-22", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        thread::scope(|threads| {
            threads.spawn(|| put(&write, b"abc"));
            assert_eq!(q.wait().data, 3);
        });
    }),
    case("each ONESHOT is told to one of four threads", "Q-22", |q| shared_out(q, ONESHOT)),
    case("each CLEAR is told to one of four threads", "Q-22", |q| shared_out(q, CLEAR)),
    case("each DISPATCH is told to one of four threads", "Q-22", |q| shared_out(q, DISPATCH)),
    case("bytes of many pipes are told once each to eight threads", "Q-22", |q| {
        const COUNT: usize = 400;
        let pipes: Vec<_> = (0..COUNT).map(|_| pipe()).collect();
        for (index, (read, _)) in pipes.iter().enumerate() {
            q.set(&[ev(id(read), READ, ADD | ONESHOT).tag(index)]);
        }
        let told = taken_by(q, 8, COUNT, || pipes.iter().for_each(|(_, write)| put(write, b"a")));
        assert_eq!(told.len(), COUNT);
    }),
    case("what stays ready is told to each of two threads, every time", "Q-22", |q| {
        const TIMES: usize = 2000;
        let (read, write) = pipe();
        q.add(id(&read), READ);
        put(&write, b"a");
        thread::scope(|threads| {
            let lookers =
                [(); 2].map(|()| threads.spawn(|| (0..TIMES).filter(|_| q.call(&[], 1, AT_ONCE).unwrap().len() == 1).count()));
            assert_eq!(lookers.map(|looker| looker.join().unwrap()), [TIMES; 2]);
        });
    }),
    case("threads add and delete while others wait", "Q-22", |q| {
        q.set(&[ev(usize::MAX, USER, ADD)]);
        thread::scope(|threads| {
            let waiter = threads.spawn(|| q.until(|event| event.ident == usize::MAX).ident);
            let changers: Vec<_> = (0..4).map(|thread| threads.spawn(move || churn(q, thread))).collect();
            changers.into_iter().for_each(|changer| changer.join().unwrap());
            q.set(&[trigger(usize::MAX)]);
            waiter.join().unwrap();
        });
    }),
    case("threads hand one DISPATCH round", "Q-22", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD | DISPATCH)]);
        let (inside, left) = (AtomicUsize::new(0), AtomicUsize::new(2000));
        put(&write, b"a");
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    while left.load(Ordering::SeqCst) > 0 {
                        // Others may have taken the last: then there is nothing to wait for.
                        if q.call(&[], 1, time(0, 1_000_000)).unwrap().is_empty() {
                            continue;
                        }
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one has it");
                        left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).ok();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        q.set(&[ev(id(&read), READ, ENABLE)]);
                    }
                });
            }
        });
    }),
    case("a descriptor is closed by another thread while one waits", "Q-01", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        q.set(&[ev(1, USER, ADD | CLEAR)]);
        thread::scope(|threads| {
            threads.spawn(move || {
                drop(read);
                drop(write);
                q.set(&[trigger(1)]);
            });
            assert_eq!(q.until(|event| event.filter == USER).ident, 1);
        });
        q.silent();
    }),
    case("who waits for ever is told that another thread has closed the queue", "Q-22", |_| {
        let number = Queue::new().into_raw();
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = thread::spawn(move || {
            tell.send(nix::unistd::gettid()).unwrap();
            raw(number, (std::ptr::null(), 0), ([ev(0, USER, 0)].as_mut_ptr(), 1), FOREVER)
        });
        until_it_waits(told.recv().unwrap());
        close(number);
        assert_eq!(waiter.join().unwrap(), Err(libc::EBADF));
    }),
    case("queues of several threads share nothing", "Q-22", |_| {
        let start = Barrier::new(4);
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let queue = Queue::new();
                    start.wait();
                    for ident in 0..200 {
                        queue.set(&[ev(ident, USER, ADD | ONESHOT), trigger(ident)]);
                        assert_eq!(queue.wait().ident, ident);
                    }
                });
            }
        });
    }),
];

fn trigger(ident: usize) -> corelane_kqueue::Kevent {
    ev(ident, USER, 0).notes(NOTE_TRIGGER)
}

fn churn(queue: &Queue, thread: usize) {
    for round in 0..500 {
        let ident = thread * 1000 + round;
        queue.set(&[ev(ident, USER, ADD), ev(ident, USER, DELETE)]);
        let (read, write) = pipe();
        queue.set(&[ev(id(&read), READ, ADD)]);
        queue.set(&[ev(id(&read), READ, DELETE)]);
        drop((read, write));
    }
}

/// Events with `flag` are told to four threads, each once in all.
fn shared_out(queue: &Queue, flag: u16) {
    const COUNT: usize = 2000;
    for ident in 0..COUNT {
        queue.set(&[ev(ident, USER, ADD | flag)]);
    }
    let told = taken_by(queue, 4, COUNT, || (0..COUNT).for_each(|ident| queue.set(&[trigger(ident)])));
    assert_eq!(told.len(), COUNT);
}

/// The idents that `count` events tell to so many `threads` while `act` runs. Panics where one is told twice.
fn taken_by(queue: &Queue, threads: usize, count: usize, act: impl FnOnce()) -> HashSet<usize> {
    let (told, taken) = (Mutex::new(HashSet::new()), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while taken.load(Ordering::Acquire) < count {
                    for event in queue.call(&[], 3, time(0, 5_000_000)).unwrap() {
                        assert!(told.lock().unwrap().insert(event.ident), "{} is told twice", event.ident);
                        taken.fetch_add(1, Ordering::AcqRel);
                    }
                }
            });
        }
        act();
    });
    told.into_inner().unwrap()
}
