//! A NULL call allocates nothing once the lane is warm, and no byte of its reply is copied: counted by an allocator around the
//! system's, for the whole process. So this is one test in a program of its own.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

#[path = "../../../crates/corelane/tests/process/mod.rs"]
mod process;

use corelane::Lanes;
use corelane::admin::watch::{Reader, ServiceCounter};
use corelane::lanes::{DriverChoice, Running};
use corelane_rpc::{Echo, Null, Rpc, RpcDatagrams};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CALLS: usize = 10_000;
/// A NULL call of NFS version 3 behind its record mark, and the length of its reply.
const CALL: [u32; 11] = [0x8000_0028, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
const REPLY_BYTES: usize = 28;

fn call() -> Vec<u8> {
    CALL.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// How often anything was allocated or grown while `body` ran.
fn allocations(body: impl FnOnce()) -> usize {
    let region = Region::new(GLOBAL);
    body();
    let change = region.change();
    change.allocations + change.reallocations
}

/// What is found each of three times, or none: what other threads do now and then is no call's.
fn found(converse: &mut impl FnMut()) -> usize {
    converse();
    let mut fewest = usize::MAX;
    for _ in 0..3 {
        if fewest > 0 {
            fewest = fewest.min(allocations(&mut *converse));
        }
    }
    fewest
}

fn on_streams(running: &Running, depth: usize) -> usize {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    let (calls, mut replies) = (call().repeat(depth), vec![0; REPLY_BYTES * depth]);
    let mut converse = || {
        for _ in 0..CALLS / depth {
            stream.write_all(&calls).unwrap();
            stream.read_exact(&mut replies).unwrap();
        }
    };
    let found = found(&mut converse);
    assert_eq!(replies[..8], [0x80, 0, 0, 24, 0, 0, 0, 7]);
    found
}

fn on_datagrams(running: &Running) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(running.address()).unwrap();
    let (call, mut reply) = (call(), [0; 64]);
    let mut converse = || {
        for _ in 0..CALLS {
            socket.send(&call[4..]).unwrap();
            assert_eq!(socket.recv(&mut reply).unwrap(), REPLY_BYTES - 4);
        }
    };
    found(&mut converse)
}

fn count(running: &Running, counter: ServiceCounter) -> u64 {
    Reader::of(running.counters()).unwrap().snapshot(0).services[0].values.get(counter)
}

#[test]
fn a_call_allocates_and_copies_nothing() {
    if process::is_parent("a_call_allocates_and_copies_nothing") {
        return;
    }
    assert!(allocations(|| drop(std::hint::black_box(Box::new(7)))) > 0, "the allocator does not count");
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let lanes = || Lanes::per_core().lanes(1).driver(driver);
        let streams = lanes().serve("tcp://127.0.0.1:0", |_| Rpc::new((Null, Echo))).unwrap().start().unwrap();
        let found = [1, 16, 128].map(|depth| on_streams(&streams, depth));
        assert_eq!(found, [0; 3], "allocations for {CALLS} calls over {}, at depth 1, 16 and 128", streams.driver());
        assert_eq!(count(&streams, ServiceCounter::BytesCopied), 0);
        let datagrams =
            lanes().serve_datagrams("udp://127.0.0.1:0", |_| RpcDatagrams::new((Null, Echo))).unwrap().start().unwrap();
        assert_eq!(on_datagrams(&datagrams), 0, "allocations for {CALLS} datagrams over {}", datagrams.driver());
    }
}
