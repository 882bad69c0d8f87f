//! Idle connections of ONC RPC that go to another lane, on real sockets.

use crate::calls::{echo, opaque, record, split, success};
use corelane::Lanes;
use corelane::admin::watch::{Reader, ServiceCounter as C};
use corelane::lanes::{DriverChoice, Running};
use corelane_rpc::{Echo, Null, Rpc};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Connections that have come to a lane from another one.
fn moves(running: &Running) -> u64 {
    Reader::of(running.counters()).unwrap().snapshot(0).services[0].values.get(C::MovesHere)
}

fn calls_are_answered_over_moves(driver: DriverChoice) {
    let lanes = Lanes::per_core().lanes(2).driver(driver);
    let running = lanes.serve("tcp://127.0.0.1:0", |_| Rpc::new((Null, Echo))).unwrap().start().unwrap();
    let mut stream = TcpStream::connect(running.address().inet().unwrap()).unwrap();
    for xid in 1..=5 {
        let message = echo(xid, b"moved");
        // Of one fragment, and of three.
        for sent in [record(&message), split(&message, &[7, 20])] {
            stream.write_all(&sent).unwrap();
            let expected = record(&success(xid, &opaque(b"moved")));
            let mut reply = vec![0; expected.len()];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(reply, expected);
        }
        // What has just been answered may be busy still.
        for from in [0, 1].into_iter().cycle() {
            running.moves().idle((from, 1 - from), |_| true, |_, _| ()).unwrap();
            if moves(&running) >= u64::from(xid) {
                break;
            }
        }
    }
    drop(stream);
    running.drain();
    running.wait().unwrap();
}

#[test]
fn calls_are_answered_over_moves_on_epoll() {
    calls_are_answered_over_moves(DriverChoice::Epoll);
}

#[test]
fn calls_are_answered_over_moves_on_uring() {
    calls_are_answered_over_moves(DriverChoice::Uring);
}
