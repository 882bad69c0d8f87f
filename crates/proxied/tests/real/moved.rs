//! A connection that a proxy has brought goes to another lane, on real sockets: it still has the peer that its header names.

use crate::V1;
use corelane::admin::watch::{Reader, ServiceCounter as C};
use corelane::lanes::{DriverChoice, Running};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use std::any::Any;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// Answers each line with its lane and its peer.
struct Told;

impl StreamService for Told {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        let peer = cx.peer(cx.id()).unwrap();
        let lines = input.pieces().flatten().filter(|&&byte| byte == b'\n').count();
        input.skip(input.len());
        for _ in 0..lines {
            writeln!(output, "{} {} {}", cx.lane(), peer.address, peer.local).unwrap();
        }
        Next::Continue
    }

    fn pack(&mut self, _cx: &mut Cx, (): ()) -> Result<Box<dyn Any + Send>, ()> {
        Ok(Box::new(()))
    }

    fn unpack(&mut self, _cx: &mut Cx, packed: Box<dyn Any + Send>) -> Result<(), Box<dyn Any + Send>> {
        packed.downcast().map(|_: Box<()>| ())
    }
}

fn moves(running: &Running) -> u64 {
    Reader::of(running.counters()).unwrap().snapshot(0).services[0].values.get(C::MovesHere)
}

fn a_peer_keeps_its_name_over_moves(driver: DriverChoice) {
    let lanes = Lanes::per_core().lanes(2).driver(driver).serve("tcp://127.0.0.1:0", |_| Told).unwrap();
    let running = corelane_proxied::before(lanes, vec!["127.0.0.0/8".parse().unwrap()]).unwrap().start().unwrap();
    let mut stream = TcpStream::connect(running.address().inet().unwrap()).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    stream.write_all(V1).unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        stream.write_all(b"?\n").unwrap();
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        let (lane, peer) = line.split_once(' ').unwrap();
        assert_eq!(peer, "192.0.2.1:56324 192.0.2.2:443\n");
        let lane: usize = lane.parse().unwrap();
        seen.push(lane);
        let before = moves(&running);
        // What has just been answered may be busy still.
        while moves(&running) == before {
            running.moves().idle((lane, 1 - lane), |_| true, |_, _| ()).unwrap();
        }
    }
    assert!(seen[0] != seen[1] && seen[1] != seen[2], "{seen:?}");
    drop((stream, answers));
    running.drain();
    running.wait().unwrap();
}

#[test]
fn a_peer_keeps_its_name_over_moves_on_epoll() {
    a_peer_keeps_its_name_over_moves(DriverChoice::Epoll);
}

#[test]
fn a_peer_keeps_its_name_over_moves_on_uring() {
    a_peer_keeps_its_name_over_moves(DriverChoice::Uring);
}
