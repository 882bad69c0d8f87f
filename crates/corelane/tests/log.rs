//! What lanes report goes where the program that embeds them says. A program of its own: a process has one place for it.
#![allow(missing_docs, clippy::unwrap_used)]

use corelane::admin::reports as report;
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::time::Duration;

struct Panics;

impl StreamService for Panics {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}

    fn receive(&mut self, _cx: &mut Cx, _session: &mut (), _input: &mut Input, _output: &mut Output) -> Next {
        panic!("told to");
    }
}

#[test]
fn an_embedding_program_takes_what_lanes_report() {
    let (sender, lines) = channel();
    let mut calls = 0;
    let tell = move |line: &str| {
        calls += 1;
        assert!(calls > 1, "its own panic is not the program's end");
        sender.send(line.to_owned()).unwrap();
    };
    assert!(report::start_into(tell).unwrap());
    assert!(!report::start_into(|_| unreachable!("there is somebody who takes them")).unwrap());
    report::line("lost by whoever takes it");
    let running = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", |_lane| Panics).unwrap().start().unwrap();
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.write_all(b"x").unwrap();
    // The connection ends in any case, with a reset.
    let _ = stream.read(&mut [0; 1]);
    let told: Vec<String> = (0..2).map(|_| lines.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
    assert_eq!(told[0], "corelane: 1 lines were lost here: nobody took them");
    assert!(told[1].contains("panic") && told[1].contains("told to") && !told[1].ends_with('\n'), "{}", told[1]);
}
