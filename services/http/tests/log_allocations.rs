//! A line of the access log allocates nothing once the lane is warm, be its answer given at once or held (which costs one itself): counted by an allocator around the system's, for the
//! whole process, the thread that writes included. So this is one test in a program of its own.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

#[path = "../../../crates/corelane/tests/process/mod.rs"]
mod process;

use corelane::Lanes;
use corelane_http::http1::Status;
use corelane_http::{AccessLog, Http, LogFormat, Routes};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 4_000;

/// Requests at this depth for a path, whose answers have so many bytes; how often anything was allocated or grown meanwhile: the
/// fewest of three times, for what other threads do now and then is no request's.
fn allocations(stream: &mut TcpStream, path: &str, depth: usize) -> usize {
    let request = format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: \"x\"\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut one = vec![0; 4096];
    let bytes = stream.read(&mut one).unwrap();
    assert!(one.starts_with(b"HTTP/1.1 200"));
    let (requests, mut answers) = (request.repeat(depth), vec![0; bytes * depth]);
    let mut converse = || {
        for _ in 0..REQUESTS / depth {
            stream.write_all(requests.as_bytes()).unwrap();
            stream.read_exact(&mut answers).unwrap();
        }
    };
    converse();
    let mut fewest = usize::MAX;
    for _ in 0..3 {
        let region = Region::new(GLOBAL);
        converse();
        let change = region.change();
        fewest = fewest.min(change.allocations + change.reallocations);
    }
    fewest
}

#[test]
fn a_line_of_the_log_allocates_nothing() {
    if process::is_parent("a_line_of_the_log_allocates_nothing") {
        return;
    }
    let without = [("/now", found(None, "/now")), ("/held", found(None, "/held"))];
    assert_eq!(without[0].1, [0; 2], "without a log");
    for format in [LogFormat::Combined, LogFormat::Json] {
        for (path, without) in without {
            assert_eq!(found(Some(format), path), without, "{REQUESTS} requests of {path}, at depth 1 and 16, {format:?}");
        }
    }
}

/// Allocations for requests of this path at depth 1 and 16.
fn found(format: Option<LogFormat>, path: &str) -> [usize; 2] {
    let log = format.map(|format| AccessLog::open("/dev/null", format).unwrap());
    let of_lanes = log.clone();
    let app = move |_lane| {
        let mut routes = Routes::new(());
        routes.get("/now", |_, _, _, reply| reply.answer(Status::OK).bytes(b"now"));
        routes.get("/held", |_, cx, _, reply| {
            let (held, handled) = reply.hold(0, None)?;
            held.answer(cx, Status::OK).bytes::<()>(b"held")?;
            Ok(handled)
        });
        of_lanes.iter().fold(Http::new(routes), Http::log)
    };
    let lanes = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", app).unwrap();
    let running = log.into_iter().fold(lanes, |lanes, log| log.beside(lanes)).start().unwrap();
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    [1, 16].map(|depth| allocations(&mut stream, path, depth))
}
