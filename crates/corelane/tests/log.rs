//! What lanes report goes where the program that embeds them says. A program of its own: a process has one place for it.
#![allow(missing_docs, clippy::unwrap_used)]

use corelane::admin::reports::{self as report, Level, Record};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

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
    let (sender, records) = channel();
    let mut calls = 0;
    let tell = move |record: &Record| {
        calls += 1;
        assert!(calls > 1, "its own panic is not the program's end");
        sender.send(record.clone()).unwrap();
    };
    assert!(report::start_into(tell).unwrap());
    assert!(!report::start_into(|_| unreachable!("there is somebody who takes them")).unwrap());
    report::line(Record::new(Level::Info, "lost by whoever takes it"));
    assert!(report::flush(PATIENCE), "who panics takes no more of it");
    report::set_panic_hook();
    let running = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", |_lane| Panics).unwrap().named("shop").start().unwrap();
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.write_all(b"x").unwrap();
    // The connection ends in any case, with a reset.
    let _ = stream.read(&mut [0; 1]);
    let told: Vec<Record> = (0..3).map(|_| records.recv_timeout(PATIENCE).unwrap()).collect();
    let [lost, panic, session] = &told[..] else { unreachable!("three were taken") };
    assert_eq!((lost.to_string(), lost.level), ("corelane: 1 lines were lost here: nobody took them".to_owned(), Level::Warn));
    assert_eq!(lost.text, "1 lines were lost here: nobody took them");
    assert!(panic.text.starts_with("thread ") && panic.text.contains(" panicked ") && panic.level == Level::Error, "{panic:?}");
    assert!(
        session.text.contains("service 0 (shop)")
            && session.text.contains("a session panicked")
            && session.text.contains("told to"),
        "{session:?}"
    );
    assert!(!session.text.ends_with('\n') && session.to_string() == session.text, "{session:?}");
    assert_eq!((session.level, session.code, session.lane), (Level::Warn, None, Some(0)));
}
