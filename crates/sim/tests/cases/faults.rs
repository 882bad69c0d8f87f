//! Faults of the system that a lane must live with: when it accepts, when it moves datagrams, and in its memory.

use crate::bench::{Bench, at, reason};
use corelane_seam::{
    Arena, Bind, DatagramOp, DatagramOutcome, Datagrams, Driver, Outcome, Reason, Segment, Socket, StreamOp, Trains, Tuning,
};
use corelane_sim::{FaultKind, Faults, Status, World};
use std::time::Duration;

fn bound(bench: &mut Bench) -> Socket {
    let address = at("10.0.0.1:9");
    let bind = Bind {
        address: address.into(),
        peer: None,
        share_port: true,
        v6_only: false,
        receive_buffer_bytes: 0,
        send_buffer_bytes: 0,
    };
    bench.lanes[0].bind(&bind).unwrap()
}

fn counted(bench: &Bench, kind: FaultKind) -> u64 {
    bench.world.report().faults.of(kind)
}

/// Accepting ends as the fault says, and with the connection, or without.
#[test]
fn accepting_ends_with_or_without_the_connection() {
    let none = Faults::none();
    let cases = [
        (Faults { refused_accept: 1_000, ..none }, Reason::NoDescriptor, true),
        (Faults { accept_without_memory: 1_000, ..none }, Reason::NoMemory, true),
        (Faults { aborted_accept: 1_000, ..none }, Reason::Reset, false),
        (Faults { lost_accept: 1_000, ..none }, Reason::Other, false),
    ];
    for (faults, expected, stays) in cases {
        let mut bench = Bench::new(faults);
        let listener = bench.listen(0, "10.0.0.1:7", 8);
        let peer = bench.connect("10.0.0.1:7");
        bench.settle();
        for _ in 0..2 {
            let accept = bench.push(0, StreamOp::Accept { listener });
            bench.settle();
            match bench.take(accept) {
                Some(completion) => assert_eq!((reason(&completion.outcome), completion.more), (Some(expected), false)),
                None => {
                    assert!(!stays, "it could be accepted again");
                    bench.push(0, StreamOp::StopAccept { listener });
                    bench.end(accept);
                }
            }
        }
        assert_eq!(peer.status() == Status::Open, stays, "{expected:?}");
        bench.close(0, listener);
        bench.settle();
        bench.world.check().unwrap();
    }
}

#[test]
fn a_listener_without_a_filter_takes_newcomers() {
    let mut bench = Bench::new(Faults { unfiltered_listener: 1_000, ..Faults::none() });
    let listener = bench.listen(0, "10.0.0.1:7", 8);
    bench.lanes[0].refuse_new(listener);
    let late = bench.connect("10.0.0.1:7");
    bench.settle();
    assert_eq!((late.status(), counted(&bench, FaultKind::UnfilteredListener)), (Status::Open, 1));
}

#[test]
fn a_failed_receive_of_datagrams_leaves_them_where_they_are() {
    let mut bench = Bench::new(Faults { datagram_error: 500, ..Faults::none() });
    let socket = bound(&mut bench);
    let peer = bench.world.bind(at("192.0.2.1:5000")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..40u8 {
        peer.send(at("10.0.0.1:9"), &[number]).unwrap();
        loop {
            match bench.run(0, DatagramOp::Receive { socket, into: Datagrams::new() }) {
                Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) => {
                    break assert_eq!(batch.payload(&batch.arrivals()[0]), [number]);
                }
                Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: Some(fault) }) => {
                    assert!(batch.is_empty());
                    seen.insert(fault.number);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [101, 105]);
    assert!(counted(&bench, FaultKind::DatagramError) > 10);
}

#[test]
fn a_train_that_finds_no_memory_is_lost_and_said_to_be() {
    let mut bench = Bench::new(Faults { datagram_refused: 500, ..Faults::none() });
    let socket = bound(&mut bench);
    let peer = bench.world.bind(at("192.0.2.1:5000")).unwrap();
    let mut left = 0;
    for _ in 0..40 {
        let mut trains = Trains::new();
        assert!(trains.add(&peer.local().into(), None, 0, Segment::Static(b"aabbc"), 2));
        match bench.run(0, DatagramOp::Send { socket, trains }) {
            Outcome::Datagram(DatagramOutcome::Departed { datagrams: 3, refused: 0, fault: None, .. }) => left += 3,
            Outcome::Datagram(DatagramOutcome::Departed { datagrams: 0, refused: 3, fault: Some(fault), .. }) => {
                assert_eq!(fault.reason, Reason::NoMemory)
            }
            other => panic!("{other:?}"),
        }
    }
    bench.settle();
    let refused = 3 * counted(&bench, FaultKind::DatagramRefused);
    assert!((30..90).contains(&refused) && refused + left == 120);
    assert_eq!(std::iter::from_fn(|| peer.receive()).count() as u64, left);
}

/// Memory in pieces gives no large block, but every receive, of few datagrams at a time; it is whole again after a while.
#[test]
fn memory_in_pieces_lets_receives_go_on() {
    let world = World::new(7, Faults { fragmented_arena: 1_000, ..Faults::none() });
    let mut bench = Bench::in_world(world, Tuning::default());
    assert!(bench.arena.lease(128 << 10).is_none() && bench.arena.lease(64 << 10).is_some());
    let socket = bound(&mut bench);
    let peer = bench.world.bind(at("192.0.2.1:5000")).unwrap();
    (0..3).for_each(|_| peer.send(at("10.0.0.1:9"), &[7; 40_000]).unwrap());
    bench.world.pass(Duration::from_millis(1));
    for _ in 0..3 {
        let receive = bench.push(0, DatagramOp::Receive { socket, into: Datagrams::new() });
        bench.collect(0, corelane_seam::Wait::No);
        let Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) = bench.take(receive).unwrap().outcome else {
            panic!("not arrived")
        };
        assert_eq!(batch.arrivals().len(), 1, "one fits into a piece");
    }
    bench.close(0, socket);
    bench.world.check().unwrap();
    bench.world.pass(Duration::from_secs(1));
    assert_eq!((bench.arena.used(), counted(&bench, FaultKind::FragmentedArena)), (0, 1));
    assert_eq!(
        bench.arena.lease(corelane_seam::LEASE_BYTES_MAX).map(|lease| lease.capacity()),
        Some(Arena::new(1).unwrap().limit())
    );
}
