//! Datagrams: trains, addresses, and what gets lost.

use crate::bench::{Bench, at};
use corelane_seam::{
    Bind, DATAGRAM_BYTES_MAX, DATAGRAM_V6_BYTES_MAX, DatagramOp, DatagramOutcome, Datagrams, Driver, Op, Outcome, Reason,
    Segment, Socket, TRAIN_DATAGRAMS_MAX, Trains, Tuning,
};
use corelane_sim::{DatagramPeer, FaultKind, Faults, World};
use std::net::IpAddr;

const PLACE: &str = "10.0.0.1:9";

fn bound(bench: &mut Bench, address: &str, receive_buffer_bytes: u32) -> Socket {
    let bind = Bind {
        address: at(address).into(),
        peer: None,
        share_port: true,
        v6_only: false,
        receive_buffer_bytes,
        send_buffer_bytes: 0,
    };
    bench.lanes[0].bind(&bind).unwrap()
}

fn send_all(bench: &Bench, count: u8) -> DatagramPeer {
    let peer = bench.world.bind(at("192.0.2.1:5000")).unwrap();
    (0..count).for_each(|number| peer.send(at(PLACE), &[number; 100]).unwrap());
    peer
}

/// The first byte of each datagram that is there, with the number of arrivals.
fn received(bench: &mut Bench, socket: Socket) -> (Vec<u8>, usize) {
    let (mut all, mut arrivals) = (Vec::new(), 0);
    loop {
        let receive = bench.push(0, DatagramOp::Receive { socket, into: Datagrams::new() });
        bench.settle();
        let Some(completion) = bench.take(receive) else {
            bench.push(0, Op::StopReceive { socket });
            bench.end(receive);
            return (all, arrivals);
        };
        let Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) = completion.outcome else {
            panic!("{completion:?}")
        };
        arrivals += batch.arrivals().len();
        for arrival in batch.arrivals() {
            all.extend(batch.payload(arrival).chunks(arrival.datagram_bytes.max(1) as usize).map(|payload| payload[0]));
        }
    }
}

#[test]
fn equal_datagrams_arrive_in_order_and_some_as_trains() {
    let mut bench = Bench::new(Faults::none());
    let socket = bound(&mut bench, PLACE, 0);
    send_all(&bench, 60);
    let (all, arrivals) = received(&mut bench, socket);
    assert_eq!(all, (0..60).collect::<Vec<_>>());
    assert!((2..60).contains(&arrivals), "{arrivals}");
}

#[test]
fn a_train_leaves_as_single_datagrams() {
    let mut bench = Bench::new(Faults::none());
    let socket = bound(&mut bench, PLACE, 0);
    let peer = bench.world.bind(at("192.0.2.1:5000")).unwrap();
    let mut trains = Trains::new();
    let parts: [&'static [u8]; 3] = [b"aaaa", b"bbbbcc", b""];
    for part in parts {
        assert!(trains.add(&peer.local().into(), None, 0, Segment::Static(part), 4));
    }
    assert!(trains.add(&at("[fd00::9]:1").into(), None, 0, Segment::Static(b"no way"), 6));
    match bench.run(0, DatagramOp::Send { socket, trains }) {
        Outcome::Datagram(DatagramOutcome::Departed { trains, datagrams: 4, refused: 1, .. }) => assert!(trains.is_empty()),
        other => panic!("{other:?}"),
    }
    bench.settle();
    let got: Vec<_> = std::iter::from_fn(|| peer.receive()).collect();
    let expected = [&b"aaaa"[..], b"bbbb", b"cc", b""].map(|bytes| (at(PLACE), bytes.to_vec()));
    assert_eq!(got, expected);
}

#[test]
fn a_wildcard_socket_learns_and_chooses_its_address() {
    let mut bench = Bench::new(Faults::none());
    let socket = bound(&mut bench, "[::]:9", 0);
    let peer = bench.world.bind(at("192.0.2.1:5000")).unwrap();
    peer.send(at(PLACE), b"who").unwrap();
    let receive = Op::Datagram(DatagramOp::Receive { socket, into: Datagrams::new() });
    let Outcome::Datagram(DatagramOutcome::Arrived { batch, .. }) = bench.run(0, receive) else { panic!("nothing arrived") };
    let arrival = &batch.arrivals()[0];
    assert_eq!((arrival.asked, &arrival.peer), (Some(IpAddr::from([10, 0, 0, 1])), &peer.local().into()));
    let mut trains = Trains::new();
    assert!(trains.add(&arrival.peer, arrival.asked, arrival.interface, batch.share(arrival), 3));
    assert!(matches!(
        bench.run(0, DatagramOp::Send { socket, trains }),
        Outcome::Datagram(DatagramOutcome::Departed { datagrams: 1, .. })
    ));
    bench.settle();
    assert_eq!(peer.receive(), Some((at(PLACE), b"who".to_vec())));
}

#[test]
fn sizes_up_to_the_largest_pass_and_more_is_refused() {
    let mut bench = Bench::new(Faults::none());
    let socket = bound(&mut bench, PLACE, 0);
    let peer = bench.world.bind(at("192.0.2.1:5000")).unwrap();
    peer.send(at(PLACE), &vec![7; DATAGRAM_BYTES_MAX]).unwrap();
    assert_eq!(peer.send(at(PLACE), &vec![7; DATAGRAM_BYTES_MAX + 1]).unwrap_err().reason, Reason::TooLarge);
    peer.send(at(PLACE), b"").unwrap();
    let mut sizes = Vec::new();
    while sizes.len() < 2 {
        let receive = Op::Datagram(DatagramOp::Receive { socket, into: Datagrams::new() });
        let Outcome::Datagram(DatagramOutcome::Arrived { batch, .. }) = bench.run(0, receive) else { panic!("nothing arrived") };
        sizes.extend(batch.arrivals().iter().map(|arrival| (arrival.bytes(), arrival.datagrams())));
    }
    assert_eq!(sizes, [(DATAGRAM_BYTES_MAX, 1), (0, 1)]);
}

#[test]
fn over_ipv6_the_largest_is_longer() {
    let mut bench = Bench::new(Faults::none());
    let socket = bound(&mut bench, "[fd00::1]:5", 0);
    let peer = bench.world.bind(at("[2001:db8::1]:5000")).unwrap();
    peer.send(at("[fd00::1]:5"), &vec![7; DATAGRAM_V6_BYTES_MAX]).unwrap();
    assert_eq!(peer.send(at("[fd00::1]:5"), &vec![7; DATAGRAM_V6_BYTES_MAX + 1]).unwrap_err().reason, Reason::TooLarge);
    let Outcome::Datagram(DatagramOutcome::Arrived { batch, .. }) =
        bench.run(0, DatagramOp::Receive { socket, into: Datagrams::new() })
    else {
        panic!()
    };
    assert_eq!(batch.arrivals()[0].bytes(), DATAGRAM_V6_BYTES_MAX);
}

/// As a kernel does, it hands over up to 128 datagrams as one arrival, and what all of them take together is bounded.
#[test]
fn arrivals_are_as_long_as_trains_may_be() {
    let mut longest = (0, 0);
    for seed in 0..20 {
        let tuning = Tuning::default().datagram_bytes(256 << 10);
        let mut bench = Bench::in_world(World::new(seed, Faults::none()), tuning);
        let socket = bound(&mut bench, PLACE, 1 << 20);
        let peer = bench.world.bind(at("192.0.2.1:5000")).unwrap();
        for bytes in [10, 1_000] {
            (0..150).for_each(|_| peer.send(at(PLACE), &vec![7; bytes]).unwrap());
        }
        bench.settle();
        let mut left = 300;
        while left > 0 {
            let receive = Op::Datagram(DatagramOp::Receive { socket, into: Datagrams::new() });
            let Outcome::Datagram(DatagramOutcome::Arrived { batch, .. }) = bench.run(0, receive) else {
                panic!("nothing arrived")
            };
            for arrival in batch.arrivals() {
                left -= arrival.datagrams();
                longest = (longest.0.max(arrival.datagrams()), longest.1.max(arrival.bytes()));
            }
        }
    }
    assert_eq!(longest, (TRAIN_DATAGRAMS_MAX, 65_000));
}

#[test]
fn a_queue_is_bounded() {
    let mut bench = Bench::new(Faults::none());
    let socket = bound(&mut bench, PLACE, 6_000);
    send_all(&bench, 60);
    bench.settle();
    let (all, _) = received(&mut bench, socket);
    assert_eq!(all, (0..9).collect::<Vec<_>>(), "9 of 612 bytes fit");
}

#[test]
fn faults_lose_double_and_reorder() {
    let lossy = |faults| {
        let mut bench = Bench::new(faults);
        let socket = bound(&mut bench, PLACE, 0);
        send_all(&bench, 60);
        let (all, _) = received(&mut bench, socket);
        (all, bench.world.report().faults)
    };
    let (all, counts) = lossy(Faults { datagram_loss: 500, ..Faults::none() });
    assert_eq!(all.len() as u64, 60 - counts.of(FaultKind::DatagramLoss));
    assert!(all.is_sorted() && (10..50).contains(&all.len()));
    let (all, counts) = lossy(Faults { datagram_duplicate: 500, ..Faults::none() });
    assert_eq!(all.len() as u64, 60 + counts.of(FaultKind::DatagramDuplicate));
    let (all, counts) = lossy(Faults { datagram_reorder: 500, ..Faults::none() });
    assert!(all.len() == 60 && !all.is_sorted() && counts.of(FaultKind::DatagramReorder) > 10);
}
