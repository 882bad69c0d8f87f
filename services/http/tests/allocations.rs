//! A request allocates nothing once the lane is warm: counted by an allocator around the system's, for the whole process. So this is one test in a
//! program of its own.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

#[path = "../../../crates/corelane/tests/process/mod.rs"]
mod process;

#[allow(dead_code)] // its main
#[path = "../examples/hello.rs"]
mod hello;

use corelane::Lanes;
use corelane::lanes::{DriverChoice, Running};
use corelane_http::{Fixed, Http};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 10_000;

/// How often anything was allocated or grown while `body` ran.
fn allocations(body: impl FnOnce()) -> usize {
    let region = Region::new(GLOBAL);
    body();
    let change = region.change();
    change.allocations + change.reallocations
}

fn found(running: &Running, depth: usize) -> usize {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: b\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut first = [0; 1024];
    let bytes = stream.read(&mut first).unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200 OK\r\n"));
    let (requests, mut answers) = (request.repeat(depth), vec![0; bytes * depth]);
    let mut converse = || {
        for _ in 0..REQUESTS / depth {
            stream.write_all(&requests).unwrap();
            stream.read_exact(&mut answers).unwrap();
        }
    };
    converse();
    let found = allocations(converse);
    assert!(answers.starts_with(b"HTTP/1.1 200 OK\r\n"));
    found
}

#[test]
fn a_request_allocates_nothing() {
    if process::is_parent("a_request_allocates_nothing") {
        return;
    }
    assert!(allocations(|| drop(std::hint::black_box(Box::new(7)))) > 0, "the allocator does not count");
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let lanes = || Lanes::per_core().lanes(1).driver(driver);
        let fixed = lanes().serve("tcp://127.0.0.1:0", |_| Http::new(Fixed::new(8))).unwrap().start().unwrap();
        let routes = lanes().serve("tcp://127.0.0.1:0", |_| Http::new(hello::routes())).unwrap().start().unwrap();
        for (name, running) in [("a fixed reply", &fixed), ("routes", &routes)] {
            let found = [1, 8, 64].map(|depth| found(running, depth));
            assert_eq!(
                found,
                [0; 3],
                "allocations for {REQUESTS} requests of {name} over {}, at depth 1, 8 and 64",
                running.driver()
            );
        }
    }
}
