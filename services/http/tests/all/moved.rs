//! Idle connections of HTTP that go to another lane.

use corelane::Lanes;
use corelane::admin::watch::{Reader, ServiceCounter as C};
use corelane::lanes::{DriverChoice, Running};
use corelane_http::Http;
use std::io::{Read, Write};
use std::net::TcpStream;

fn served(driver: DriverChoice) -> Running {
    let lanes = Lanes::per_core().lanes(2).driver(driver);
    lanes.serve("tcp://127.0.0.1:0", |_| Http::new(crate::clients::hello::routes())).unwrap().start().unwrap()
}

/// Connections that have come to a lane from another one.
fn moves(running: &Running) -> u64 {
    Reader::of(running.counters()).unwrap().snapshot(0).services[0].values.get(C::MovesHere)
}

/// Sends what is idle to the lane where it is not. What has just been answered may be busy still.
fn change_lanes(running: &Running) {
    let before = moves(running);
    for from in [0, 1].into_iter().cycle() {
        running.moves().idle((from, 1 - from), |_| true, |_, _| ()).unwrap();
        if moves(running) > before {
            return;
        }
    }
}

fn read_answer(stream: &mut TcpStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nhello\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer));
}

fn a_connection_is_kept_alive_over_moves(driver: DriverChoice) {
    let running = served(driver);
    let mut stream = TcpStream::connect(running.address().inet().unwrap()).unwrap();
    for _ in 0..4 {
        // One request in pieces, and two at once.
        stream.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
        stream.write_all(b"st: a\r\n\r\n").unwrap();
        read_answer(&mut stream);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        (0..2).for_each(|_| read_answer(&mut stream));
        change_lanes(&running);
    }
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    read_answer(&mut stream);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed when that was asked for");
    drop(stream);
    running.drain();
    running.wait().unwrap();
}

#[test]
fn a_connection_is_kept_alive_over_moves_on_epoll() {
    a_connection_is_kept_alive_over_moves(DriverChoice::Epoll);
}

#[test]
fn a_connection_is_kept_alive_over_moves_on_uring() {
    a_connection_is_kept_alive_over_moves(DriverChoice::Uring);
}
