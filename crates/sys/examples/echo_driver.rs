//! An echo server, and its load, on the epoll driver alone: to look at the driver's system calls.
//!
//!     echo_driver serve BYTES
//!     echo_driver load ADDRESS CONNECTIONS DEPTH BYTES SECONDS
//!
//! `serve` prints its address, and after the first connection has ended: requests, calls, and CPU time.
#![allow(clippy::unwrap_used)] // a tool for looking at the driver, which may stop at any fault

use corelane_seam::{
    Arena, Chain, Completion, Driver, DriverCounters, Handle, Listen, Op, Outcome, Segment, Socket, StreamOptions, Tuning, Wait,
};
use corelane_sys::{EpollDriver, Probes};
use std::net::SocketAddr;

const RECEIVE: u8 = 1;
const SEND: u8 = 2;

fn name(class: u8, socket: Socket) -> Handle {
    Handle::new(class, socket.index, socket.generation)
}

fn socket_of(handle: Handle) -> Socket {
    Socket { index: handle.index(), generation: handle.generation() }
}

fn driver() -> EpollDriver {
    EpollDriver::new(Arena::new(64 << 20).unwrap(), Tuning::default(), Probes::default()).unwrap()
}

/// Time that this process's first thread has run so far, in microseconds.
fn cpu_microseconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<u64>().unwrap() / 1000
}

fn serve(message: usize) {
    let mut driver = driver();
    let address = "127.0.0.1:0".parse().unwrap();
    let stream = StreamOptions::default();
    let listen = Listen { address, backlog: 1024, share_port: false, v6_only: false, stream };
    let listener = driver.listen(&listen).unwrap();
    println!("{}", driver.local_address(listener).unwrap());
    driver.push(name(0, listener), Op::Accept { listener });
    let mut completions: Vec<Completion> = Vec::new();
    let (mut bytes, mut waits, mut turns) = (0, Wait::Forever, 0u64);
    loop {
        driver.collect(waits, 256, &mut completions);
        turns += 1;
        waits = if completions.is_empty() { Wait::Forever } else { Wait::No };
        for Completion { handle, outcome, .. } in completions.drain(..) {
            match outcome {
                Outcome::Accepted { socket, .. } => driver.push(name(RECEIVE, socket), Op::Receive { socket }),
                Outcome::Received(shared) => {
                    bytes += shared.len();
                    let mut chain = Chain::new();
                    chain.push(shared);
                    let socket = socket_of(handle);
                    driver.push(name(SEND, socket), Op::Send { socket, chain });
                }
                Outcome::Sent { fault: None, rest, .. } if rest.is_empty() => {
                    let socket = socket_of(handle);
                    driver.push(name(RECEIVE, socket), Op::Receive { socket });
                }
                Outcome::Sent { fault: None, rest, .. } => {
                    driver.push(handle, Op::Send { socket: socket_of(handle), chain: rest });
                }
                _ => return report(driver.counters(), bytes / message, turns),
            }
        }
    }
}

fn report(counters: DriverCounters, requests: usize, turns: u64) {
    let per_request = |count: u64| count as f64 / requests as f64;
    println!("{requests} requests, {turns} turns, {counters:?}");
    println!(
        "per request: {:.4} work calls, {:.4} wait calls, {:.3} us",
        per_request(counters.calls_work),
        per_request(counters.calls_wait),
        per_request(cpu_microseconds())
    );
}

fn load(to: SocketAddr, connections: usize, depth: usize, message: usize, seconds: u64) {
    let mut driver = driver();
    let requests: &'static [u8] = Box::leak(vec![7; depth * message].into_boxed_slice());
    let mut completions = Vec::new();
    for _ in 0..connections {
        driver
            .push(Handle::new(0, 0, completions.len() as u32), Op::Connect { to, from: None, options: StreamOptions::default() });
        while !matches!(completions.last(), Some(Completion { outcome: Outcome::Connected { .. }, .. })) {
            driver.collect(Wait::Forever, 1, &mut completions);
        }
        let Some(Completion { outcome: Outcome::Connected { socket, .. }, .. }) = completions.pop() else { return };
        let mut chain = Chain::new();
        chain.push(Segment::Static(requests));
        driver.push(name(SEND, socket), Op::Send { socket, chain });
        driver.push(name(RECEIVE, socket), Op::Receive { socket });
    }
    let end = driver.now() + seconds * 1_000_000_000;
    let mut partial = vec![0; connections + 16];
    let mut answered = 0;
    while driver.now() < end {
        driver.collect(Wait::Until(end), 256, &mut completions);
        for Completion { handle, outcome, .. } in completions.drain(..) {
            let Outcome::Received(shared) = outcome else { continue };
            let socket = socket_of(handle);
            let held = &mut partial[socket.index as usize];
            *held += shared.len();
            let whole = *held / message * message;
            *held -= whole;
            answered += whole / message;
            driver.push(name(RECEIVE, socket), Op::Receive { socket });
            if whole > 0 {
                let mut chain = Chain::new();
                chain.push(Segment::Static(&requests[..whole]));
                driver.push(name(SEND, socket), Op::Send { socket, chain });
            }
        }
    }
    println!("{answered} answers");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |index: usize| arguments[index].parse().unwrap();
    match arguments[1].as_str() {
        "serve" => serve(number(2)),
        _ => load(arguments[2].parse().unwrap(), number(3), number(4), number(5), number(6) as u64),
    }
}
