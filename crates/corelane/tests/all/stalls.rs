//! A lane that is in one turn for too long: who is told, and what, while it lasts.
#![forbid(unsafe_code)]

use crate::orders::Orders;
use crate::process;
use corelane::Lanes;
use corelane::admin::reports::{self, Level, Record};
use corelane::admin::watch::{LaneCounter, Reader};
use corelane::lanes::DriverChoice;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What keeps a lane until it is let go.
#[derive(Default)]
struct Keeper {
    computes: AtomicBool,
    waits: Mutex<bool>,
    changed: Condvar,
}

impl Keeper {
    #[inline(never)]
    fn an_endless_loop(&self) {
        self.computes.store(true, Ordering::Relaxed);
        while self.computes.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }

    #[inline(never)]
    fn a_call_that_waits(&self) {
        let mut waits = self.waits.lock().unwrap();
        *waits = true;
        while *waits {
            waits = self.changed.wait(waits).unwrap();
        }
    }

    /// Carries out an order, which is its own answer.
    fn carry_out(&self, order: u8) -> u8 {
        match order {
            b'l' => self.an_endless_loop(),
            b'w' => self.a_call_that_waits(),
            _ => {}
        }
        order
    }

    fn keeps(&self) -> bool {
        self.computes.load(Ordering::Relaxed) || *self.waits.lock().unwrap()
    }

    fn let_go(&self) {
        self.computes.store(false, Ordering::Relaxed);
        *self.waits.lock().unwrap() = false;
        self.changed.notify_all();
    }
}

/// Lines until one has one of these words; all of them.
fn told(lines: &Receiver<Record>, words: &[&str]) -> Vec<Record> {
    let (mut all, give_up) = (Vec::new(), Instant::now() + PATIENCE);
    loop {
        let line = lines.recv_timeout(give_up.saturating_duration_since(Instant::now()));
        all.push(line.unwrap_or_else(|_| panic!("{words:?} is not among {all:?}")));
        if words.iter().any(|words| all.last().unwrap().text.contains(words)) {
            return all;
        }
    }
}

/// Lets the lane go, however the test ends: it would not end itself.
struct LetGo(Arc<Keeper>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

fn answers(stream: &mut TcpStream, order: u8) {
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [order]);
}

/// Has the lane kept by an order; the lines about that, the last one of which has the function. Where the machine is busy, the thread
/// may be too late to say where it is: then the order is sent again.
fn kept(stream: &mut TcpStream, order: u8, keeper: &Keeper, lines: &Receiver<Record>, function: &str) -> Vec<Record> {
    const UNKNOWN: &str = "in which functions is not known";
    for _ in 0..5 {
        stream.write_all(&[order]).unwrap();
        let give_up = Instant::now() + PATIENCE;
        while !keeper.keeps() {
            assert!(Instant::now() < give_up, "the order is not carried out");
            std::thread::yield_now();
        }
        let all = told(lines, &[function, UNKNOWN]);
        if all.last().unwrap().text.contains(function) {
            return all;
        }
        keeper.let_go();
        answers(stream, order);
    }
    panic!("where the lane is is never known");
}

#[test]
fn a_lane_that_stays_in_a_turn_is_told_once_with_service_connection_and_functions() {
    if process::is_parent("stalls::a_lane_that_stays_in_a_turn_is_told_once_with_service_connection_and_functions") {
        return;
    }
    let (tell, lines) = channel();
    assert!(reports::start_into(move |record| tell.send(record.clone()).unwrap()).unwrap());
    let keeper = Arc::new(Keeper::default());
    let lanes = Lanes::per_core().lanes(1).driver(DriverChoice::Epoll).stall(Duration::from_millis(200));
    let keeps = keeper.clone();
    let service = move |_| {
        let keeps = keeps.clone();
        Orders(move |order| keeps.carry_out(order))
    };
    let running = lanes.serve("tcp://127.0.0.1:0", service).unwrap().named("kept").start().unwrap();
    let _let_go = LetGo(keeper.clone());
    let mut first = TcpStream::connect(running.places()[0].address().inet().unwrap()).unwrap();
    let mut second = TcpStream::connect(running.places()[0].address().inet().unwrap()).unwrap();
    for stream in [&mut first, &mut second] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"x").unwrap();
        answers(stream, b'x');
    }
    let reader = Reader::of(running.counters()).unwrap();
    let stalls = || reader.snapshot(0).total.get(LaneCounter::Stalls);
    let before = stalls();
    for (stream, order, function) in [(&mut first, b'l', "an_endless_loop"), (&mut second, b'w', "a_call_that_waits")] {
        let all = kept(stream, order, &keeper, &lines, function);
        let head = all.iter().rfind(|record| record.text.contains("in one turn for")).unwrap();
        assert!(all.iter().all(|record| record.level == Level::Warn && record.lane == Some(0)), "{all:?}");
        let head = head.to_string();
        assert!(head.starts_with("lane 0: [CL-1201] ") && head.contains("serving kept, connection "), "{head}");
        // Its callers as well with their lines, down to the lane. It has none itself where it was met at an instruction that belongs to no line.
        told(&lines, &["crates/corelane/tests/all/stalls.rs:"]);
        told(&lines, &["/crates/lane/src/turn.rs:"]);
        keeper.let_go();
        answers(stream, order);
    }
    // Each was told once; another may be, if the machine kept the thread from running for so long.
    assert!(stalls() >= before + 2, "{} {before}", stalls());
    running.drain();
    running.wait().unwrap();
}
