//! Waiting: for the clock, and for the bell.

use crate::bench::{Bench, chain_of};
use crate::rig::{Rig, Side};
use corelane_seam::{StreamOp, Wait};
use std::sync::mpsc;

pub fn without_waiting_a_collect_returns<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    (0..100).for_each(|_| assert_eq!(bench.collect(Side::Server, Wait::No, 64), 0));
    assert!(!bench.has_ended(Side::Server, receive));
    bench.finish();
}

/// Nothing happens, so the wait lasts until its time. A connection whose events concern nobody is there, too.
pub fn a_wait_lasts_until_its_time<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    bench.settle();
    for nanoseconds in [0, 1000, 300_000, 3_400_000] {
        let until = bench.driver(Side::Server).now() + nanoseconds;
        assert_eq!(bench.collect(Side::Server, Wait::Until(until), 64), 0);
        assert!(bench.driver(Side::Server).now() >= until, "{nanoseconds}");
    }
    let past = bench.driver(Side::Server).now() - 1;
    assert_eq!(bench.collect(Side::Server, Wait::Until(past), 64), 0);
    bench.finish();
}

/// While it waits, bytes that no receive is for do not end the wait.
pub fn a_wait_ends_with_a_completion_only<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    bench.send_bytes(Side::Client, pipe.client, b"nobody receives this yet");
    let until = bench.driver(Side::Server).now() + 2_000_000;
    assert_eq!(bench.collect(Side::Server, Wait::Until(until), 64), 0);
    assert!(bench.driver(Side::Server).now() >= until);
    bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    assert_eq!(bench.collect(Side::Server, Wait::Forever, 64), 1);
    bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain: chain_of(b"y") });
    assert_eq!(bench.collect(Side::Server, Wait::Forever, 64), 1);
    bench.finish();
}

/// A rest is ended neither by bytes nor by the bell. Operations that were submitted before are carried out all the same.
pub fn a_rest_brings_nothing_and_carries_out_what_was_submitted<R: Rig>() {
    const REST: u64 = 2_000_000;
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    bench.collect(Side::Server, Wait::No, 64);
    let waits = bench.push(Side::Client, StreamOp::Send { socket: pipe.client, chain: chain_of(b"these wait") });
    bench.collect(Side::Client, Wait::No, 64);
    bench.driver(Side::Server).bell().ring();
    let until = bench.driver(Side::Server).now() + REST;
    let (slept, found) = bench.rest(Side::Server, until);
    let now = bench.driver(Side::Server).now();
    assert!(now >= until && slept <= now + REST - until, "{slept}");
    assert!(found == 0 && !bench.has_ended(Side::Server, receive));
    let send = bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain: chain_of(b"y") });
    let answer = bench.push(Side::Client, StreamOp::Receive { socket: pipe.client });
    bench.rest(Side::Server, 0);
    bench.until(|bench| {
        let at_server = bench.has_ended(Side::Server, send) && bench.has_ended(Side::Server, receive);
        at_server && bench.has_ended(Side::Client, answer) && bench.has_ended(Side::Client, waits)
    });
    bench.finish();
}

/// Behind a rest sockets are looked at, though another operation ends in that collect.
pub fn what_came_in_a_rest_is_there_behind_it<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (pipe, other) = (bench.pipe(), bench.pipe());
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    bench.collect(Side::Server, Wait::No, 64);
    bench.send_bytes(Side::Client, pipe.client, b"this waits");
    bench.until_there(Side::Server, (pipe.server, receive), 10);
    let until = bench.driver(Side::Server).now() + 1_000_000;
    bench.rest(Side::Server, until);
    bench.push(Side::Server, StreamOp::Send { socket: other.server, chain: chain_of(b"y") });
    bench.collect(Side::Server, Wait::No, 64);
    assert!(bench.has_ended(Side::Server, receive), "the other end has come before it");
    bench.finish();
}

/// A ring before the wait is not lost.
pub fn a_bell_that_was_rung_ends_the_next_wait<R: Rig>() {
    let mut bench = Bench::<R>::new();
    for _ in 0..3 {
        bench.driver(Side::Server).bell().ring();
        assert_eq!(bench.collect(Side::Server, Wait::Forever, 64), 0);
    }
    bench.finish();
}

/// Another thread rings, sometimes before and sometimes while the driver sleeps; each ring is heard.
pub fn a_bell_rung_by_another_thread_wakes<R: Rig>() {
    const RINGS: usize = 2000;
    let mut bench = Bench::<R>::new();
    let bell = bench.driver(Side::Server).bell();
    let (ask, asked) = mpsc::channel::<usize>();
    let (tell, told) = mpsc::channel::<usize>();
    let ringer = std::thread::spawn(move || {
        for number in asked {
            if number % 3 == 0 {
                std::thread::yield_now();
            }
            tell.send(number).unwrap();
            bell.ring();
        }
    });
    for number in 0..RINGS {
        ask.send(number).unwrap();
        // What was said before the ring can be heard after it.
        let heard = loop {
            assert_eq!(bench.collect(Side::Server, Wait::Forever, 64), 0);
            if let Ok(heard) = told.try_recv() {
                break heard;
            }
        };
        assert_eq!(heard, number);
    }
    drop(ask);
    ringer.join().unwrap();
    bench.finish();
}

/// The bell of a driver that is gone can still be rung.
pub fn a_bell_outlives_its_driver<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let bell = bench.driver(Side::Server).bell();
    bench.finish();
    bell.ring();
}
