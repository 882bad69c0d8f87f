//! Answering allocates nothing once the lanes are warm: counted by an allocator around the system's, for the whole
//! process. So this is one test in a program of its own, and its clients work with what they have set up before.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod process;

use corelane::{Cx, DatagramService, Datagrams, DriverChoice, Input, Lanes, Next, Output, Peer, Replies, Running, StreamService};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 10_000;
const BYTES: usize = 64;

struct Echo;

impl StreamService for Echo {
    type Session = ();
    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}
    fn receive(&mut self, cx: &mut Cx<'_>, _: &mut (), input: &mut Input, output: &mut Output) -> Next {
        cx.count_requests(1);
        output.forward(input.take_all());
        Next::Continue
    }
}

impl DatagramService for Echo {
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            cx.count_requests(arrival.datagrams());
            replies.echo(batch, arrival);
        }
    }
}

fn one_lane(driver: DriverChoice) -> Lanes {
    Lanes::per_core().lanes(1).driver(driver)
}

/// Sends `depth` requests at once and reads their echoes, until `requests` are answered.
fn converse(stream: &mut TcpStream, depth: usize, requests: usize) {
    let (out, mut back) = ([7; BYTES * 16], [0; BYTES * 16]);
    for _ in 0..requests / depth {
        stream.write_all(&out[..depth * BYTES]).unwrap();
        stream.read_exact(&mut back[..depth * BYTES]).unwrap();
    }
    assert_eq!(out[..depth * BYTES], back[..depth * BYTES]);
}

fn exchange(socket: &UdpSocket, requests: usize) {
    let mut back = [0; BYTES];
    for _ in 0..requests {
        socket.send(&[7; BYTES]).unwrap();
        assert_eq!(socket.recv(&mut back).unwrap(), BYTES);
    }
}

/// How often anything was allocated or grown while `body` ran.
fn allocations(body: impl FnOnce()) -> usize {
    let region = Region::new(GLOBAL);
    body();
    let change = region.change();
    change.allocations + change.reallocations
}

fn on_streams(running: &Running, depth: usize) -> usize {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    converse(&mut stream, depth, REQUESTS);
    allocations(|| converse(&mut stream, depth, REQUESTS))
}

fn on_datagrams(running: &Running) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(running.address()).unwrap();
    exchange(&socket, REQUESTS);
    allocations(|| exchange(&socket, REQUESTS))
}

#[test]
fn a_request_allocates_nothing() {
    if process::is_parent("a_request_allocates_nothing") {
        return;
    }
    assert!(allocations(|| drop(std::hint::black_box(Box::new(7)))) > 0, "the allocator does not count");
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let streams = one_lane(driver).serve("tcp://127.0.0.1:0", |_| Echo).unwrap().start().unwrap();
        let found = [1, 16].map(|depth| on_streams(&streams, depth));
        assert_eq!(found, [0, 0], "allocations for {REQUESTS} requests over {}, at depth 1 and 16", streams.driver());
        let datagrams = one_lane(driver).serve_datagrams("udp://127.0.0.1:0", |_| Echo).unwrap().start().unwrap();
        let found = on_datagrams(&datagrams);
        assert_eq!(found, 0, "allocations for {REQUESTS} datagrams over {}", datagrams.driver());
    }
}
