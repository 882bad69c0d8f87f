//! Descriptor tables: a lane's numbers and limit are its own, and what is open is counted.

use crate::bench::{Bench, at, reason};
use corelane_seam::{
    Arena, Bind, DatagramOp, Driver, Fault, FileOp, FileOutcome, Interest, Listen, Op, OpenOptions, Outcome, Reason, Socket,
    StreamOp, StreamOptions, StreamOutcome, Tuning,
};
use corelane_sim::{FaultKind, Faults, Status, Violation};
use std::time::Duration;

const READ: Interest = Interest { read: true, write: false };
const FULL: Fault = Fault { reason: Reason::NoDescriptor, number: 24 };
const CREATE: OpenOptions = OpenOptions::new().read(true).write(true).create(true);

fn bind_at(address: &str) -> Bind {
    Bind {
        address: at(address).into(),
        peer: None,
        share_port: false,
        v6_only: false,
        receive_buffer_bytes: 0,
        send_buffer_bytes: 0,
    }
}

fn connect_to(address: &str) -> Op {
    Op::Stream(StreamOp::Connect { to: at(address).into(), from: None, options: StreamOptions::default() })
}

fn two_lanes() -> Bench {
    let mut bench = Bench::new(Faults::none());
    let other = bench.world.driver(Arena::new(1 << 20).unwrap(), Tuning::default());
    bench.lanes.push(other);
    bench
}

fn is_full(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(FULL))
}

fn accepted(outcome: Outcome) -> Socket {
    let Outcome::Stream(StreamOutcome::Accepted { socket, .. }) = outcome else { panic!("{outcome:?}") };
    socket
}

#[test]
fn at_the_limit_nothing_opens_and_who_waits_goes_on_waiting() {
    let mut bench = Bench::new(Faults::none());
    let listener = bench.listen(0, "10.0.0.1:7", 8);
    bench.world.limit_descriptors(0, 2);
    let peers = [bench.connect("10.0.0.1:7"), bench.connect("10.0.0.1:7")];
    bench.settle();
    let accept = bench.push(0, StreamOp::Accept { listener });
    let first = accepted(bench.end(accept));
    assert!(is_full(&bench.end(accept)), "the second one finds no number");
    assert!(is_full(&bench.run(0, connect_to("10.0.0.1:9"))));
    assert!(is_full(&bench.run(0, DatagramOp::Bind(bind_at("10.0.0.1:9")))));
    assert!(is_full(&bench.run(0, FileOp::Open { beneath: None, path: "file".into(), options: CREATE })));
    let listen = Listen {
        address: at("10.0.0.1:9").into(),
        backlog: 1,
        share_port: false,
        v6_only: false,
        stream: StreamOptions::default(),
    };
    assert_eq!(bench.lanes[0].listen(&listen), Err(FULL));
    assert_eq!(bench.lanes[0].bind(&bind_at("10.0.0.1:9")), Err(FULL));
    assert_eq!(bench.world.open_foreign(0), Err(FULL));
    assert!(peers.iter().all(|peer| peer.status() == Status::Open));
    bench.close(0, first);
    let accept = bench.push(0, StreamOp::Accept { listener });
    let second = accepted(bench.end(accept));
    bench.close(0, second);
    bench.close(0, listener);
    bench.settle();
    bench.world.check().unwrap();
}

#[test]
fn what_could_not_be_made_of_a_descriptor_closes_it() {
    let mut bench = Bench::new(Faults::none());
    bench.listen(0, "10.0.0.1:7", 8);
    let exclusive = Listen {
        address: at("10.0.0.1:7").into(),
        backlog: 1,
        share_port: false,
        v6_only: false,
        stream: StreamOptions::default(),
    };
    assert_eq!(bench.lanes[0].listen(&exclusive).map_err(|fault| fault.reason), Err(Reason::AddressInUse));
    assert_eq!(bench.lanes[0].bind(&bind_at("192.0.2.9:7")).map_err(|fault| fault.reason), Err(Reason::AddressUnknown));
    let none = CREATE.create(false);
    assert_eq!(
        reason(&bench.run(0, FileOp::Open { beneath: None, path: "nothing".into(), options: none })),
        Some(Reason::NotFound)
    );
    assert_eq!(reason(&bench.run(0, connect_to("10.0.0.1:9"))), Some(Reason::Refused));
    assert_eq!(bench.world.open_descriptors(0), 1, "the listener alone");
}

#[test]
fn a_connection_counts_from_its_first_step_to_its_last() {
    let mut bench = Bench::new(Faults::none());
    let listener = bench.listen(0, "10.0.0.1:7", 8);
    let accept = bench.push(0, StreamOp::Accept { listener });
    let connect = bench.push(0, connect_to("10.0.0.1:7"));
    bench.step();
    assert_eq!(bench.world.open_descriptors(0), 2, "the listener and the connection being opened");
    let Outcome::Stream(StreamOutcome::Connected { socket: near, .. }) = bench.end(connect) else { panic!("not connected") };
    let far = accepted(bench.end(accept));
    assert_eq!(bench.world.open_descriptors(0), 3);
    bench.close(0, near);
    bench.close(0, far);
    let cancelled = bench.push(0, connect_to("10.0.0.1:7"));
    bench.push(0, Op::Cancel { target: cancelled });
    assert_eq!(reason(&bench.end(cancelled)), Some(Reason::Cancelled));
    assert_eq!(bench.world.open_descriptors(0), 1);
}

#[test]
fn a_number_of_one_lane_means_nothing_in_anothers_table() {
    let mut bench = two_lanes();
    let number = bench.world.open_foreign(0).unwrap();
    bench.world.set_ready(0, number, READ);
    let poll = || Op::Poll { descriptor: number, interest: READ };
    assert!(matches!(bench.run(0, poll()), Outcome::Ready { interest: READ }));
    assert_eq!(reason(&bench.run(1, poll())), Some(Reason::Other), "EBADF");
    assert_eq!(bench.world.open_foreign(1), Ok(number), "the same number, and not the same thing");
    let waits = bench.push(1, poll());
    bench.settle();
    assert!(bench.take(waits).is_none());
    bench.world.limit_descriptors(0, 1);
    assert_eq!(bench.world.open_foreign(0), Err(FULL));
    assert!(bench.world.open_foreign(1).is_ok(), "a limit is one lane's alone");
}

#[test]
fn a_table_that_others_fill_has_room_again_after_a_while() {
    let mut bench = Bench::new(Faults { filled_table: 500, ..Faults::none() });
    let (mut refused, mut opened) = (0, Vec::new());
    for number in 0..100 {
        let options = OpenOptions::new().read(true).write(true).create(true);
        match bench.run(0, FileOp::Open { beneath: None, path: format!("{number}").into(), options }) {
            Outcome::File(FileOutcome::Opened { file, .. }) => opened.push(file),
            outcome => {
                assert!(is_full(&outcome), "{outcome:?}");
                refused += 1;
                bench.world.pass(Duration::from_millis(1));
            }
        }
    }
    assert!(refused > 20 && opened.len() > 20, "{refused} refused");
    assert!(bench.world.report().faults.of(FaultKind::FilledTable) >= refused);
    assert_eq!(bench.world.open_descriptors(0), opened.len());
    for file in opened {
        assert!(matches!(bench.run(0, FileOp::Close { file }), Outcome::File(FileOutcome::Done)));
    }
    bench.world.check().unwrap();
}

#[test]
fn a_lane_that_leaves_descriptors_open_is_blamed() {
    for ends in [false, true] {
        let mut bench = Bench::new(Faults::none());
        let Outcome::File(FileOutcome::Opened { .. }) =
            bench.run(0, FileOp::Open { beneath: None, path: "file".into(), options: CREATE })
        else {
            panic!("not opened")
        };
        if ends {
            bench.lanes.clear();
        }
        let expected = if ends { Ok(()) } else { Err(Violation::DescriptorsLeft { lane: 0, open: 1 }) };
        assert_eq!(bench.world.check(), expected, "a file closes with the driver");
    }
    let mut bench = Bench::new(Faults::none());
    let listener = bench.listen(0, "10.0.0.1:7", 8);
    bench.lanes.clear();
    assert_eq!(bench.world.check(), Err(Violation::DescriptorsLeft { lane: 0, open: 1 }), "{listener:?}");
}
