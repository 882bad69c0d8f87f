//! Answering allocates nothing once the lanes are warm: counted by an allocator around the system's, for the whole
//! process. So this is one test in a program of its own, and its clients work with what they have set up before.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod process;

use corelane::aio::{self, Connection, Lane};
use corelane::lanes::{DriverChoice, Running};
use corelane::service::{Asking, Asks, Call, Fault, Lost, Origin, Silence, SocketId};
use corelane::{Cx, DatagramService, Datagrams, Input, Lanes, Next, Output, Peer, Replies, Silent, StreamService};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 10_000;
const BYTES: usize = 64;

struct Echo;

impl StreamService for Echo {
    type Talk = Silent;
    type Session = ();
    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}
    fn receive(&mut self, cx: &mut Cx<'_>, _: &mut (), input: &mut Input, output: &mut Output) -> Next {
        cx.count_requests(1);
        output.forward(input.take_all());
        Next::Continue
    }
}

/// The same by an async fn: half of what comes is sent on as it is, half as a copy, under a time that never passes.
async fn echo(lane: Lane, connection: Connection) -> aio::Result<()> {
    let mut is_copied = false;
    let mut bytes = [0; BYTES * 16];
    while lane.within(Duration::from_secs(600), connection.fill(1)).await == Some(Ok(true)) {
        connection.count_requests(1);
        is_copied = !is_copied;
        if is_copied {
            let length = connection.input(|input| {
                let length = input.first().len().min(bytes.len());
                bytes[..length].copy_from_slice(&input.first()[..length]);
                input.skip(length);
                length
            });
            connection.write(&bytes[..length]).await?;
        } else if let Some(chain) = connection.read().await? {
            connection.send_all(chain).await?;
        }
    }
    Ok(())
}

impl DatagramService for Echo {
    type Talk = Silent;
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            cx.count_requests(arrival.datagrams());
            replies.echo(batch, arrival);
        }
    }
}

/// Asks without end, on some sockets with some questions out on each, singly and in trains in turn.
struct Asker {
    to: SocketAddr,
    answered: Arc<AtomicUsize>,
}

impl Asker {
    fn ask(&self, replies: &mut Replies, count: usize) {
        for number in 0..count {
            let taken = match number % 4 {
                0 => replies.send_single(self.to, None, &[7; BYTES][..]),
                _ => replies.send(self.to, None, &[7; BYTES][..]),
            };
            assert!(taken);
        }
    }
}

impl DatagramService for Asker {
    type Talk = Silent;
    fn started(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..8 {
            cx.open_datagrams("127.0.0.1:0".parse::<corelane::Address>().unwrap(), Some(self.to.into())).unwrap();
        }
    }

    fn opened(&mut self, cx: &mut Cx<'_>, socket: SocketId, _: Result<corelane::Address, Fault>) {
        self.ask(cx.datagrams(socket).unwrap(), 32);
    }

    fn receive(&mut self, _: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        let count = batch.arrivals().iter().map(|arrival| arrival.datagrams()).sum();
        self.answered.fetch_add(count, Ordering::Relaxed);
        self.ask(replies, count);
    }
}

/// Questions that each lane has out.
const ASKED: usize = 64;

/// Asks itself without end, on all lanes in turn.
struct Curious {
    replied: Arc<AtomicUsize>,
    asked: usize,
    waiting: usize,
}

impl Curious {
    fn ask(&mut self, cx: &mut Cx<'_, Asks<u64, u64>>, lane: usize) {
        (self.asked, self.waiting) = (self.asked + 1, self.waiting + 1);
        let unheard = cx.ask(lane, self.asked as u64).err();
        assert!(unheard.is_none_or(|unheard| unheard.why != Silence::Full), "there is room for so many");
    }
}

impl StreamService for Curious {
    type Talk = Asks<u64, u64>;
    type Session = ();

    fn started(&mut self, cx: &mut Cx<'_, Self::Talk>) {
        // More at once than can ever be there later: the tables have their size.
        (0..4 * ASKED).for_each(|_| self.ask(cx, cx.lane()));
    }

    fn open(&mut self, _: &mut Cx<'_, Self::Talk>, _: &Peer) {}

    fn receive(&mut self, _: &mut Cx<'_, Self::Talk>, (): &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Close
    }

    fn asked(&mut self, cx: &mut Cx<'_, Self::Talk>, _: Origin, question: u64, call: Call<Self::Talk>) {
        cx.reply(call, question);
    }

    fn replied(&mut self, cx: &mut Cx<'_, Self::Talk>, _: Asking, outcome: Result<u64, Lost>) {
        if outcome.is_ok() {
            self.replied.fetch_add(1, Ordering::Relaxed);
            self.waiting -= 1;
        }
        if outcome.is_ok() && self.waiting < ASKED {
            self.ask(cx, self.asked % cx.lanes());
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

/// The fewest of three times: other threads allocate now and then, and no request does.
fn fewest(mut body: impl FnMut()) -> usize {
    let mut fewest = usize::MAX;
    for _ in 0..3 {
        if fewest > 0 {
            fewest = fewest.min(allocations(&mut body));
        }
    }
    fewest
}

fn on_streams(running: &Running, depth: usize) -> usize {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    converse(&mut stream, depth, REQUESTS);
    fewest(|| converse(&mut stream, depth, REQUESTS))
}

fn on_datagrams(running: &Running) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(running.address()).unwrap();
    exchange(&socket, REQUESTS);
    fewest(|| exchange(&socket, REQUESTS))
}

/// A client and a server, each on a lane.
fn between_lanes(driver: DriverChoice, to: SocketAddr) -> usize {
    let answered = Arc::new(AtomicUsize::new(0));
    let counter = answered.clone();
    let client = one_lane(driver).client_datagrams(move |_| Asker { to, answered: counter.clone() }).start().unwrap();
    let found = in_steady_state(&answered);
    client.drain();
    client.wait().unwrap();
    found
}

/// While as many more are answered as were before.
fn in_steady_state(answered: &AtomicUsize) -> usize {
    let wait_for = |count| {
        while answered.load(Ordering::Relaxed) < count {
            std::thread::yield_now();
        }
    };
    let mut until = 10 * REQUESTS;
    wait_for(until);
    fewest(|| {
        until += 10 * REQUESTS;
        wait_for(until);
    })
}

/// Two lanes that ask each other and themselves.
fn of_questions(driver: DriverChoice) -> usize {
    let replied = Arc::new(AtomicUsize::new(0));
    let counter = replied.clone();
    let curious = move |_| Curious { replied: counter.clone(), asked: 0, waiting: 0 };
    let running = Lanes::per_core().lanes(2).driver(driver).client(curious).start().unwrap();
    let found = in_steady_state(&replied);
    running.stop();
    running.wait().unwrap();
    found
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
        let tasks = one_lane(driver).serve("tcp://127.0.0.1:0", |_| aio::each(echo)).unwrap().start().unwrap();
        let found = [1, 16].map(|depth| on_streams(&tasks, depth));
        assert_eq!(found, [0, 0], "allocations for {REQUESTS} requests of tasks over {}, at depth 1 and 16", tasks.driver());
        let datagrams = one_lane(driver).serve_datagrams("udp://127.0.0.1:0", |_| Echo).unwrap().start().unwrap();
        let found = on_datagrams(&datagrams);
        assert_eq!(found, 0, "allocations for {REQUESTS} datagrams over {}", datagrams.driver());
        let found = between_lanes(driver, datagrams.address().inet().unwrap());
        assert_eq!(found, 0, "allocations for {} datagrams of a client over {}", 10 * REQUESTS, datagrams.driver());
        assert_eq!(of_questions(driver), 0, "allocations for {} questions between lanes", 10 * REQUESTS);
    }
}
