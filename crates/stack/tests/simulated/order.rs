//! Row N-06: no flow is reordered on the whole path, from the wire over four lanes that each bring packets of all four, to the service; also while
//! policies and buckets change.

use crate::frames::{datagram, udp_in};
use crate::lanes::{ADDRESSES, flow, mac, meet, plan};
use crate::program::{Card, Heard, Plan, Program};
use corelane_isr::dispatch::{Dispatch, Number};
use corelane_rss::{Buckets, Table};
use corelane_sim::Random;
use corelane_stack::Policy;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

const LANES: usize = 4;
const FLOWS: usize = 64;
/// Datagrams on the wire at once: less than the card's queues hold.
const AT_ONCE: usize = 96;
/// Bytes of a datagram's payload: its number, and that number's complement, so that the sum of all does not depend on it.
const PAYLOAD: usize = 8;

/// What came of each flow.
#[derive(Default)]
struct Seen {
    last: Vec<u32>,
    datagrams: u64,
}

impl Seen {
    fn hear(&mut self, from: SocketAddr, payload: &[u8]) {
        let flow = usize::from(from.port() - 2000);
        let number = u32::from_be_bytes(*payload.first_chunk().unwrap());
        assert_eq!(payload[4..], (!number).to_be_bytes());
        assert!(number > self.last[flow], "flow {flow}: {number} after {}", self.last[flow]);
        self.last[flow] = number;
        self.datagrams += 1;
    }

    /// Hears what has come by the wire.
    fn take(&mut self, program: &Program) {
        let answers = program.test.take();
        let answers = answers.iter().filter_map(|frame| datagram(frame));
        answers.for_each(|answer| self.hear(answer.to, &answer.payload));
    }
}

/// Who sends, and what is changed meanwhile.
struct Source {
    frames: Vec<Vec<u8>>,
    sent: [u32; FLOWS],
    table: Table,
    random: Random,
}

impl Source {
    fn send(&mut self, program: &Program) {
        for _ in 0..AT_ONCE {
            let flow = self.random.below(FLOWS as u64) as usize;
            self.sent[flow] += 1;
            let (number, frame) = (self.sent[flow], &mut self.frames[flow]);
            let end = frame.len();
            frame[end - PAYLOAD..end - 4].copy_from_slice(&number.to_be_bytes());
            frame[end - 4..].copy_from_slice(&(!number).to_be_bytes());
            program.test.send(frame);
        }
    }

    /// Changes something: on one lane, or which lane has a bucket on all of them.
    fn change(&mut self, program: &Program) {
        let lane = self.random.below(LANES as u64) as usize;
        let number = [Number::IP, Number::IP6][self.random.below(2) as usize];
        let dispatch = [Dispatch::Hybrid, Dispatch::Deferred, Dispatch::Direct][self.random.below(3) as usize];
        let policy = match self.random.below(5) {
            0 => Policy::Dispatch(dispatch),
            1 => Policy::DispatchOf(number, Some(dispatch)),
            2 => Policy::DispatchOf(number, None),
            _ => return self.move_buckets(program, lane),
        };
        program.tell.tell(lane, policy).unwrap();
    }

    fn move_buckets(&mut self, program: &Program, to: usize) {
        let buckets = self.table.buckets();
        let first = self.random.below(128) as usize;
        let moved = buckets.all().skip(first).take(1 + self.random.below(8) as usize);
        moved.for_each(|bucket| self.table.set(bucket, to).unwrap());
        (0..LANES).for_each(|lane| program.tell.tell(lane, Policy::Table(self.table.clone())).unwrap());
    }
}

/// Where the order is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// As services get datagrams.
    Service,
    /// As their answers come by the wire.
    Wire,
}

/// Sends so many datagrams, and changes something after each of so many rounds.
fn run(datagrams: u64, changes: Option<u64>, look: Look) {
    run_from(6, datagrams, changes, look);
}

/// The same, from another seed.
fn run_from(seed: u64, datagrams: u64, changes: Option<u64>, look: Look) {
    let seen = Rc::new(RefCell::new(Seen { last: vec![0; FLOWS], datagrams: 0 }));
    let heard = seen.clone();
    let heard: Heard = Rc::new(move |from, payload: &[u8]| heard.borrow_mut().hear(from, payload));
    let heard = Some(heard).filter(|_| look == Look::Service);
    let plan = Plan { card: Card::Scattered, heard, ..plan(LANES, seed) };
    let mut program = Program::new(&plan, &ADDRESSES);
    meet(&mut program);
    let mac = mac(&program);
    let empty = [[0; 4], [0xff; 4]].concat();
    let frame = |number: usize| {
        let (from, to) = flow(number as u16, number % 2 == 1);
        udp_in(mac, from, to, &empty, 1400, 0).remove(0)
    };
    let table = Table::even(Buckets::DEFAULT, LANES).unwrap();
    let mut source = Source { frames: (0..FLOWS).map(frame).collect(), sent: [0; FLOWS], table, random: Random::new(seed) };
    for round in 1..=datagrams.div_ceil(AT_ONCE as u64) {
        source.send(&program);
        if changes.is_some_and(|every| round % every == 0) {
            source.change(&program);
        }
        program.pass(20_000);
        seen.borrow_mut().take(&program);
    }
    program.pass(50_000_000);
    seen.borrow_mut().take(&program);
    let sent: u64 = source.sent.iter().map(|sent| u64::from(*sent)).sum();
    let counts: Vec<_> = (0..LANES).map(|lane| program.counts(lane)).collect();
    let crossed: u64 = counts.iter().map(|counts| counts.crossed).sum();
    println!("{sent} sent, {} heard, {crossed} changed lanes", seen.borrow().datagrams);
    assert!(seen.borrow().datagrams * 10 >= sent * 9 && crossed * 4 > sent, "most arrive, and many change lanes");
    program.close();
}

#[test]
fn n_06_four_producers_reorder_no_flow() {
    run(100_000, None, Look::Service);
    run(20_000, None, Look::Wire);
}

#[test]
fn n_06_x_12_four_producers_reorder_no_flow_while_policies_and_buckets_change() {
    [2, 30].into_iter().for_each(|every| run(100_000, Some(every), Look::Service));
}

/// Lanes send by queues of their own, whose order is nobody's to keep: so what changes lanes waits until all before it is answered.
#[test]
fn n_06_x_12_answers_keep_the_order_of_their_flow_while_policies_and_buckets_change() {
    [2, 30].into_iter().for_each(|every| run(50_000, Some(every), Look::Wire));
    run_from(1, 50_000, Some(2), Look::Wire);
}

#[test]
#[ignore = "long: ten million datagrams without changes, and as many with them"]
fn n_06_x_12_four_producers_reorder_no_flow_of_ten_million_datagrams() {
    run(10_000_000, None, Look::Service);
    run(10_000_000, Some(20), Look::Service);
}
