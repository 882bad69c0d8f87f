//! EVFILT_TIMER. Nothing is said of how late a timer may be; only that it is never early.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libc::{EINVAL, ENOENT, ENOMEM};

use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

/// A time that does not pass while a case runs, in seconds.
const HOURS: i64 = 36_000;

pub const CASES: &[Case] = &[
    case("a timer that has time left is silent", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD).notes(NOTE_SECONDS).data(HOURS)]);
        q.silent();
    }),
    case("the unit is milliseconds", "Q-19", |q| not_before(q, 0, 20, Duration::from_millis(20))),
    case("milliseconds", "Q-19", |q| not_before(q, NOTE_MSECONDS, 20, Duration::from_millis(20))),
    case("microseconds", "Q-19", |q| not_before(q, NOTE_USECONDS, 2_000, Duration::from_micros(2_000))),
    case("nanoseconds", "Q-19", |q| not_before(q, NOTE_NSECONDS, 1_500_000, Duration::from_nanos(1_500_000))),
    case("seconds", "Q-19", |q| not_before(q, NOTE_SECONDS, 1, Duration::from_secs(1))),
    case("a timer repeats", "Q-19", |q| {
        let start = Instant::now();
        q.set(&[ev(1, TIMER, ADD).data(5)]);
        let mut expirations = 0;
        while expirations < 4 {
            let event = q.wait();
            assert!(event.data >= 1, "{event:?}");
            expirations += event.data;
        }
        assert!(start.elapsed() >= Duration::from_millis(20));
    }),
    case("ONESHOT does not repeat", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD | ONESHOT).data(1)]);
        assert_eq!(q.wait().data, 1);
        assert_eq!(q.change(ev(1, TIMER, DELETE)), Err(ENOENT));
    }),
    case("expirations that nobody took are counted", "Q-19", |q| {
        let start = Instant::now();
        q.set(&[ev(1, TIMER, ADD).data(1)]);
        spin_until(start + Duration::from_millis(25));
        assert!(q.wait().data >= 20);
    }),
    case("told expirations are not told again", "Q-19", |q| {
        let start = Instant::now();
        q.set(&[ev(1, TIMER, ADD).notes(NOTE_USECONDS).data(700)]);
        let mut told = 0;
        for _ in 0..10 {
            told += u128::try_from(q.wait().data).unwrap();
        }
        assert!(told * 700 <= start.elapsed().as_micros(), "{told}");
    }),
    case("the event sets CLEAR", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD).data(1)]);
        assert!(q.wait().has(CLEAR));
    }),
    case("a timer has no end", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD | ONESHOT).data(1)]);
        assert!(!q.wait().has(EOF));
    }),
    case("a negative time is refused", "Q-19", |q| assert_eq!(q.change(ev(1, TIMER, ADD).data(-1)), Err(EINVAL))),
    case("the most negative time is refused", "Q-19", |q| {
        assert_eq!(q.change(ev(1, TIMER, ADD).notes(NOTE_SECONDS).data(i64::MIN)), Err(EINVAL));
    }),
    case("a refused timer is not registered", "Q-19", |q| {
        assert_eq!(q.change(ev(1, TIMER, ADD).data(-1)), Err(EINVAL));
        assert_eq!(q.change(ev(1, TIMER, DELETE)), Err(ENOENT));
    }),
    case("a flag that is no unit is refused", "Q-19", |q| {
        assert_eq!(q.change(ev(1, TIMER, ADD).notes(0x100).data(1)), Err(EINVAL));
    }),
    case("a period of zero is the shortest", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD).data(0)]);
        assert!(q.wait().data >= 1);
        assert!(q.wait().data >= 1);
    }),
    case("zero with ONESHOT is told at once", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD | ONESHOT).data(0)]);
        assert_eq!(q.wait().data, 1);
        q.silent();
    }),
    case("a time longer than any life is taken", "Q-19", |q| {
        for unit in [NOTE_SECONDS, NOTE_MSECONDS, NOTE_USECONDS, NOTE_NSECONDS] {
            match q.change(ev(1, TIMER, ADD).notes(unit).data(i64::MAX)) {
                Ok(()) => q.silent(),
                Err(number) => assert_eq!(number, EINVAL),
            }
        }
    }),
    case("a deleted timer is silent", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD).data(1), ev(1, TIMER, DELETE), ev(2, TIMER, ADD | ONESHOT).data(15)]);
        assert_eq!(q.wait().ident, 2);
    }),
    case("a timer that has expired is silent once deleted", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD).data(1)]);
        q.wait();
        spin_until(Instant::now() + Duration::from_millis(3));
        q.set(&[ev(1, TIMER, DELETE)]);
        q.silent();
    }),
    case("a disabled timer is told once enabled", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD | DISABLE).data(1)]);
        spin_until(Instant::now() + Duration::from_millis(4));
        q.silent();
        q.set(&[ev(1, TIMER, ENABLE)]);
        assert!(q.wait().data >= 1);
    }),
    case("DISPATCH of a timer waits for ENABLE", "Q-08", |q| {
        q.set(&[ev(1, TIMER, ADD | DISPATCH).data(1)]);
        q.wait();
        spin_until(Instant::now() + Duration::from_millis(4));
        q.silent();
        q.set(&[ev(1, TIMER, ENABLE)]);
        assert!(q.wait().data >= 1);
    }),
    case("a second ADD changes the period", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD).notes(NOTE_SECONDS).data(HOURS), ev(1, TIMER, ADD).data(1)]);
        assert!(q.wait().data >= 1);
    }),
    case("a second ADD begins anew", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD).data(1)]);
        q.wait();
        q.set(&[ev(1, TIMER, ADD).notes(NOTE_SECONDS).data(HOURS)]);
        q.silent();
    }),
    case("a second ADD drops what was not told", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD).data(1)]);
        spin_until(Instant::now() + Duration::from_millis(4));
        q.set(&[ev(1, TIMER, ADD).notes(NOTE_SECONDS).data(HOURS)]);
        q.silent();
    }),
    case("timers are told in the order of their times", "Q-19", |q| {
        // So far apart that the clock, which goes on between the changes, does not change the order.
        q.set(&[
            ev(1, TIMER, ADD | ONESHOT).data(600),
            ev(2, TIMER, ADD | ONESHOT).data(200),
            ev(3, TIMER, ADD | ONESHOT).data(400),
        ]);
        assert_eq!([q.wait().ident, q.wait().ident, q.wait().ident], [2, 3, 1]);
    }),
    case("queues have timers of their own", "Q-01", |q| {
        let other = Queue::new();
        q.set(&[ev(1, TIMER, ADD | ONESHOT).data(1)]);
        other.set(&[ev(1, TIMER, ADD).notes(NOTE_SECONDS).data(HOURS)]);
        assert_eq!(q.wait().ident, 1);
        other.silent();
    }),
    case("udata comes with the timer", "Q-05", |q| {
        q.set(&[ev(1, TIMER, ADD | ONESHOT).data(1).tag(42)]);
        assert_eq!(tag(&q.wait()), 42);
    }),
    case("a time of day that is past is told at once", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD | ONESHOT).notes(NOTE_SECONDS | NOTE_ABSTIME).data(1)]);
        assert_eq!(q.wait().ident, 1);
    }),
    case("a time of day before this machine was started is told, until it is deleted", "Q-19", |q| {
        for (unit, due) in [(0, 0), (NOTE_SECONDS, 0), (NOTE_USECONDS, 1), (NOTE_NSECONDS, 1)] {
            q.set(&[ev(1, TIMER, ADD).notes(NOTE_ABSTIME | unit).data(due)]);
            for _ in 0..2 {
                let event = q.wait();
                assert_eq!((event.data, event.fflags, event.has(CLEAR)), (1, 0, false));
            }
            q.set(&[ev(1, TIMER, DELETE)]);
            q.silent();
        }
    }),
    case("a time of day is not told before", "Q-19", |q| {
        let due = since_epoch() + 30;
        q.set(&[ev(1, TIMER, ADD | ONESHOT).notes(NOTE_MSECONDS | NOTE_ABSTIME).data(due)]);
        q.wait();
        assert!(since_epoch() >= due);
    }),
    case("a time of day far away is silent", "Q-19", |q| {
        let due = since_epoch() / 1000 + HOURS;
        q.set(&[ev(1, TIMER, ADD).notes(NOTE_SECONDS | NOTE_ABSTIME).data(due)]);
        q.silent();
    }),
    case("a time of day is told once in its life", "Q-19", |q| {
        q.set(&[ev(1, TIMER, ADD | CLEAR).notes(NOTE_MSECONDS | NOTE_ABSTIME).data(since_epoch() + 5)]);
        assert_eq!(q.wait().data, 1);
        q.silent();
    }),
    case("a queue with a timer polls readable", "Q-23", |q| {
        use nix::poll::{PollFd, PollFlags, PollTimeout};
        q.set(&[ev(1, TIMER, ADD | ONESHOT).data(5)]);
        let mut polled = [PollFd::new(crate::sockets::borrowed(q), PollFlags::POLLIN)];
        assert_eq!(nix::poll::poll(&mut polled, PollTimeout::NONE), Ok(1));
        assert_eq!(q.wait().ident, 1);
    }),
    case("a call's timeout does not wait for a later timer", "Q-03", |q| {
        q.set(&[ev(1, TIMER, ADD).notes(NOTE_SECONDS).data(HOURS)]);
        assert_eq!(q.call(&[], 1, time(0, 1_000_000)), Ok(vec![]));
    }),
    case("a thousand timers are told, each once", "Q-19", |q| {
        for ident in 0..1000 {
            q.set(&[ev(ident, TIMER, ADD | ONESHOT).data(1 + i64::try_from(ident % 7).unwrap())]);
        }
        let mut told: Vec<_> = (0..1000).map(|_| q.wait().ident).collect();
        told.sort_unstable();
        assert!(told.into_iter().eq(0..1000));
    }),
    case("there is a limit to timers", "Q-19", |q| {
        let mut count = 0;
        let refused = loop {
            match q.change(ev(count, TIMER, ADD).notes(NOTE_SECONDS).data(HOURS)) {
                Ok(()) => count += 1,
                Err(number) => break number,
            }
            assert!(count <= 1 << 20, "a limit");
        };
        assert!(refused == ENOMEM && count >= 4096, "{refused} after {count}");
        q.set(&[ev(0, TIMER, DELETE), ev(count, TIMER, ADD).data(1)]);
        assert_eq!(q.wait().ident, count);
    }),
];

fn not_before(queue: &Queue, unit: u32, data: i64, least: Duration) {
    let start = Instant::now();
    queue.set(&[ev(1, TIMER, ADD | ONESHOT).notes(unit).data(data)]);
    let event = queue.wait();
    assert!(start.elapsed() >= least, "early: {:?}", start.elapsed());
    assert_eq!((event.ident, event.filter, event.data), (1, TIMER, 1));
}

/// Lets time pass.
fn spin_until(instant: Instant) {
    while Instant::now() < instant {
        std::hint::spin_loop();
    }
}

/// Milliseconds of the clock on the wall.
fn since_epoch() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}
