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
use corelane_http::{ENTRY, Files, Fixed, Http};
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

/// What is found each of three times, or none: what other threads do now and then is no request's.
fn found(running: &Running, depth: usize) -> usize {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: b\r\n\r\n";
    let mut fewest = usize::MAX;
    for _ in 0..3 {
        if fewest > 0 {
            fewest = fewest.min(of_requests(running, depth, REQUEST, 1));
        }
    }
    fewest
}

/// The fewest of several times.
fn of_requests(running: &Running, depth: usize, request: &[u8], times: usize) -> usize {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(request).unwrap();
    let mut first = [0; 64 << 10];
    let bytes = stream.read(&mut first).unwrap();
    assert!(first.starts_with(b"HTTP/1.1 "));
    let (requests, mut answers) = (request.repeat(depth), vec![0; bytes * depth]);
    let mut converse = || {
        for _ in 0..REQUESTS / depth / times {
            stream.write_all(&requests).unwrap();
            stream.read_exact(&mut answers).unwrap();
        }
    };
    converse();
    let found = (0..times).map(|_| allocations(&mut converse)).min().unwrap_or(usize::MAX);
    assert!(answers.starts_with(b"HTTP/1.1 "));
    found
}

/// Files in memory: whole, of several lengths, compressed, a part, and not changed. Once in a second it is seen whether the root, and what is not watched,
/// has changed, which allocates. The 50 requests of one try take far less than a second, so most of 200 tries meet no such look, and one that meets none must
/// allocate nothing: the best one counts. What each request allocated would be in all of them.
fn of_files(driver: DriverChoice) {
    const TRIES: usize = 200;
    let root = std::env::temp_dir().join(format!("corelane-http-allocations-{}", std::process::id()));
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(root.join("sub/small.css"), [b'a'; 100]).unwrap();
    std::fs::write(root.join("sub/small.css.gz"), [b'z'; 50]).unwrap();
    std::fs::write(root.join("page.html"), [b'b'; 4096]).unwrap();
    let files = root.clone();
    let running = Lanes::per_core().lanes(1).driver(driver).serve("tcp://127.0.0.1:0", move |_| Http::new(Files::new(&files)));
    let running = running.unwrap().start().unwrap();
    for request in [
        "GET /sub/small.css HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /sub/small.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br\r\n\r\n",
        "GET /%70age.html HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /page.html HTTP/1.1\r\nHost: a\r\nRange: bytes=1-3000\r\n\r\n",
        "GET /page.html HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
        "GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        for depth in [1, 8] {
            let found = of_requests(&running, depth, request.as_bytes(), TRIES);
            assert_eq!(found, 0, "allocations for {} requests, {depth} at once: {request}", REQUESTS / TRIES);
        }
    }
    drop(running);
    std::fs::remove_dir_all(root).unwrap();
}

/// A site of many is found, and its rules are, without an allocation. One that sends requests on allocates what it does alone.
fn of_sites(driver: DriverChoice, fixed: &Running) {
    let served = |options: &str| {
        let place = format!("http://127.0.0.1:0?{options}");
        Lanes::per_core().lanes(1).driver(driver).serve_entry(&ENTRY, &place).unwrap().start().unwrap()
    };
    let root = std::env::temp_dir().join(format!("corelane-http-sites-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("a.txt"), [b'a'; 100]).unwrap();
    let others: String = (0..200).map(|number| format!("&host=h{number}.example,*.h{number}.example&redirect=/a=/b")).collect();
    let upstream = fixed.address().to_string();
    let own = format!("host=*.a.example&root={}&field=/*=X-A: 1&host=b.example&to={upstream}", root.display());
    let sites = served(&(own + &others));
    let request = |host: &str| format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
    assert_eq!(of_requests(&sites, 8, request("x.y.A.example.:80").as_bytes(), 20), 0, "{driver:?}");
    let alone = of_requests(&served(&format!("to={upstream}")), 8, request("b.example").as_bytes(), 20);
    assert_eq!(of_requests(&sites, 8, request("b.example").as_bytes(), 20), alone, "{driver:?}: as many as alone");
    drop(sites);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_request_allocates_nothing() {
    if process::is_parent("a_request_allocates_nothing") {
        return;
    }
    assert!(allocations(|| drop(std::hint::black_box(Box::new(7)))) > 0, "the allocator does not count");
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        of_files(driver);
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
        of_sites(driver, &fixed);
    }
}
