//! Connections: how they begin, what they hold, how they end.

use crate::bench::{Bench, at, reason};
use corelane_seam::Instant;
use corelane_seam::{
    Arena, Chain, Driver, FileOp, FileOutcome, Op, OpenOptions, Outcome, Reason, StreamOp, StreamOptions, StreamOutcome, Tuning,
    Wait,
};
use corelane_sim::{Faults, Status, Violation};

const SECOND: u64 = 1_000_000_000;

fn failed(status: Status) -> Option<Reason> {
    if let Status::Failed(fault) = status { Some(fault.reason) } else { None }
}

#[test]
fn a_full_backlog_drops_attempts_until_there_is_room_or_time_is_up() {
    let mut bench = Bench::new(Faults::none());
    let listener = bench.listen(0, "10.0.0.1:7", 1);
    let peers = [(); 2].map(|()| bench.connect("10.0.0.1:7"));
    bench.until(|bench| {
        bench.world.now() > Instant::from_nanoseconds(10 * SECOND) || peers.iter().any(|peer| peer.status() == Status::Open)
    });
    assert_eq!(peers.iter().filter(|peer| peer.status() == Status::Open).count(), 1);
    bench.push(0, StreamOp::Accept { listener });
    bench.settle();
    assert!(peers.iter().all(|peer| peer.status() == Status::Open));
    assert!((SECOND..10 * SECOND).contains(&bench.world.now().nanoseconds()), "the second one was repeated after a second");

    let mut bench = Bench::new(Faults::none());
    bench.listen(0, "10.0.0.1:7", 1);
    let peers = [(); 2].map(|()| bench.connect("10.0.0.1:7"));
    bench.settle();
    assert!(peers.iter().any(|peer| failed(peer.status()) == Some(Reason::TimedOut)));
    assert!(bench.world.now() > Instant::from_nanoseconds(60 * SECOND));
}

#[test]
fn a_listener_that_refuses_new_ones_still_serves_those_that_wait() {
    let mut bench = Bench::new(Faults::none());
    let listener = bench.listen(0, "10.0.0.1:7", 8);
    let early = bench.connect("10.0.0.1:7");
    bench.settle();
    bench.lanes[0].refuse_new(listener);
    let late = bench.connect("10.0.0.1:7");
    let accept = bench.push(0, StreamOp::Accept { listener });
    assert!(matches!(bench.end(accept), Outcome::Stream(StreamOutcome::Accepted { peer, .. }) if peer == early.local()));
    bench.close(0, listener);
    bench.settle();
    assert_eq!((early.status(), failed(late.status())), (Status::Open, Some(Reason::Refused)));
}

#[test]
fn connections_that_nobody_accepted_end_with_the_listener() {
    let mut bench = Bench::new(Faults::none());
    let listener = bench.listen(0, "10.0.0.1:7", 8);
    let peer = bench.connect("10.0.0.1:7");
    bench.settle();
    bench.close(0, listener);
    bench.settle();
    assert_eq!(failed(peer.status()), Some(Reason::Reset));
}

#[test]
fn a_close_with_unread_bytes_is_a_reset() {
    let mut bench = Bench::new(Faults::none());
    let (socket, peer) = bench.pipe();
    peer.send(b"nobody reads this");
    bench.settle();
    assert_eq!(bench.lanes[0].readable_bytes(socket), 17);
    bench.close(0, socket);
    bench.settle();
    assert_eq!(failed(peer.status()), Some(Reason::Reset));
}

#[test]
fn bytes_that_arrive_behind_a_close_are_answered_with_a_reset() {
    let mut bench = Bench::new(Faults::none());
    let (socket, peer) = bench.pipe();
    bench.close(0, socket);
    bench.settle();
    assert_eq!(peer.status(), Status::Ended);
    peer.send(b"too late");
    bench.settle();
    assert_eq!(peer.send(b"x"), 0);
    assert_eq!(failed(peer.status()), Some(Reason::Reset));
}

#[test]
fn a_peer_that_breaks_off_shows_once_behind_what_it_sent() {
    let mut bench = Bench::new(Faults::none());
    let (socket, peer) = bench.pipe();
    peer.send(b"last");
    bench.settle();
    peer.reset();
    bench.settle();
    assert!(matches!(bench.receive(socket), Outcome::Stream(StreamOutcome::Received(bytes)) if *bytes == *b"last"));
    assert_eq!(reason(&bench.receive(socket)), Some(Reason::Reset));
    assert!(matches!(bench.receive(socket), Outcome::Stream(StreamOutcome::EndOfStream)));
    let mut chain = Chain::new();
    chain.push(&b"x"[..]);
    let sent = bench.run(0, StreamOp::Send { socket, chain });
    assert_eq!(reason(&sent), Some(Reason::Reset));
}

#[test]
fn each_direction_ends_by_itself() {
    let mut bench = Bench::new(Faults::none());
    let (socket, peer) = bench.pipe();
    peer.send(b"question");
    peer.finish();
    assert_eq!(peer.send(b"more"), 0);
    bench.settle();
    assert!(matches!(bench.receive(socket), Outcome::Stream(StreamOutcome::Received(bytes)) if *bytes == *b"question"));
    assert!(matches!(bench.receive(socket), Outcome::Stream(StreamOutcome::EndOfStream)));
    let mut chain = Chain::new();
    chain.push(&b"answer"[..]);
    assert!(matches!(
        bench.run(0, StreamOp::Send { socket, chain }),
        Outcome::Stream(StreamOutcome::Sent { bytes: 6, fault: None, .. })
    ));
    bench.lanes[0].finish(socket);
    bench.settle();
    assert_eq!((peer.status(), peer.read(3), peer.read(9)), (Status::Open, b"ans".to_vec(), b"wer".to_vec()));
    assert_eq!(peer.status(), Status::Ended);
}

#[test]
fn a_reader_that_does_not_read_stops_the_sender() {
    let mut bench = Bench::new(Faults::none());
    let (socket, peer) = bench.pipe();
    let message: Vec<u8> = (0..1 << 20).map(|index: usize| (index / 251) as u8).collect();
    let (mut sent, mut got) = (0, Vec::new());
    sent += peer.send(&message);
    bench.settle();
    sent += peer.send(&message[sent..]);
    bench.settle();
    assert_eq!((peer.send(&message[sent..]), sent), (0, 256 << 10), "the buffers of both ends are full");
    while got.len() < message.len() {
        let Outcome::Stream(StreamOutcome::Received(bytes)) = bench.receive(socket) else { panic!("not received") };
        got.extend_from_slice(&bytes);
        sent += peer.send(&message[sent..]);
    }
    assert!(got == message);
}

#[test]
fn lanes_that_share_a_port_share_its_connections() {
    let mut bench = Bench::new(Faults::none());
    let other = bench.world.driver(Arena::new(1).unwrap(), Tuning::default());
    bench.lanes.push(other);
    let accepts: Vec<_> = (0..2)
        .map(|lane| {
            let listener = bench.listen(lane, "0.0.0.0:7", 64);
            bench.push(lane, StreamOp::Accept { listener })
        })
        .collect();
    let peers: Vec<_> = (0..40).map(|_| bench.connect("10.0.0.1:7")).collect();
    bench.settle();
    assert!(peers.iter().all(|peer| peer.status() == Status::Open));
    let of = |accept| bench.completions.iter().filter(|(_, completion)| completion.handle == accept).count();
    let counts = (of(accepts[0]), of(accepts[1]));
    assert!(counts.0 + counts.1 == 40 && counts.0 > 5 && counts.1 > 5, "{counts:?}");
}

#[test]
fn hosts_reach_each_other_by_address_and_themselves_by_loopback() {
    let mut bench = Bench::new(Faults::none());
    let host = bench.world.host(&["10.0.0.2".parse().unwrap()]);
    let other = bench.world.driver_on(host, Arena::new(1).unwrap(), Tuning::default());
    bench.lanes.push(other);
    let listener = bench.listen(1, "0.0.0.0:7", 8);
    bench.push(1, StreamOp::Accept { listener });
    let mut connect = |to| bench.run(0, StreamOp::Connect { to: at(to).into(), from: None, options: StreamOptions::default() });
    match connect("10.0.0.2:7") {
        Outcome::Stream(StreamOutcome::Connected { local, peer, .. }) => {
            assert_eq!((local.ip(), peer), ("10.0.0.1".parse().ok(), at("10.0.0.2:7").into()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(reason(&connect("127.0.0.1:7")), Some(Reason::Refused));
    assert_eq!(reason(&connect("203.0.113.1:7")), Some(Reason::Unreachable));
}

#[test]
fn the_test_can_play_the_server() {
    let mut bench = Bench::new(Faults::none());
    bench.world.listen(at("203.0.113.1:80")).unwrap();
    assert_eq!(bench.world.listen(at("203.0.113.1:80")).unwrap_err().reason, Reason::AddressInUse);
    let connect =
        Op::Stream(StreamOp::Connect { to: at("203.0.113.1:80").into(), from: None, options: StreamOptions::default() });
    let Outcome::Stream(StreamOutcome::Connected { socket, local, .. }) = bench.run(0, connect) else { panic!("not connected") };
    let server = bench.incoming.remove(0);
    assert_eq!((server.remote().into(), server.local()), (local, at("203.0.113.1:80")));
    server.send(b"welcome");
    assert!(matches!(bench.receive(socket), Outcome::Stream(StreamOutcome::Received(bytes)) if *bytes == *b"welcome"));
}

#[test]
fn an_address_serves_one_connection_to_the_same_place() {
    let bench = Bench::new(Faults::none());
    let (from, to) = (at("192.0.2.9:99"), at("10.0.0.1:7"));
    bench.world.connect(from, to).unwrap();
    assert_eq!(bench.world.connect(from, to).unwrap_err().reason, Reason::AddressInUse);
    assert!(bench.world.connect(from, at("10.0.0.1:8")).is_ok());
}

#[test]
fn memory_of_a_late_release_stays_in_use_until_then_and_the_close_waits_for_it() {
    let mut bench = Bench::new(Faults { late_release: 1_000, ..Faults::none() });
    let (socket, peer) = bench.pipe();
    let mut chain = Chain::new();
    chain.push(bench.arena.copy_of(b"held").unwrap().share());
    let send = bench.push(0, StreamOp::Send { socket, chain });
    let close = bench.push(0, Op::Close { socket, reset: false });
    bench.until(|bench| bench.completions.iter().any(|(_, completion)| completion.handle == send));
    let completion = bench.take(send).unwrap();
    assert!(!completion.released && bench.arena.used() == 256, "{completion:?}");
    bench.settle();
    let order: Vec<_> = bench.completions.iter().map(|(_, completion)| (completion.handle, completion.released)).collect();
    assert_eq!(order, [(send, true), (close, true)]);
    assert!(matches!(bench.take(send).unwrap().outcome, Outcome::Released));
    assert_eq!((bench.arena.used(), peer.read(9)), (0, b"held".to_vec()));
}

#[test]
fn a_receive_waits_for_memory_and_goes_on_when_there_is_some() {
    let mut bench = Bench::new(Faults::none());
    let (socket, peer) = bench.pipe();
    let mut hoard: Vec<_> = std::iter::from_fn(|| bench.arena.lease(4096)).collect();
    let receive = bench.push(0, StreamOp::Receive { socket });
    peer.send(b"patience");
    bench.settle();
    assert!(bench.take(receive).is_none() && bench.lanes[0].counters().receives_starved > 0);
    // The last eighth of the reserve, 128 KiB, is not given to what arrives.
    hoard.truncate(hoard.len() - 33);
    bench.lanes[0].bell().ring();
    assert!(matches!(bench.end(receive), Outcome::Stream(StreamOutcome::Received(bytes)) if *bytes == *b"patience"));
}

#[test]
fn an_open_socket_and_an_operation_under_way_are_breaches() {
    let mut bench = Bench::new(Faults::none());
    let (socket, _peer) = bench.pipe();
    let receive = bench.push(0, StreamOp::Receive { socket });
    bench.settle();
    assert!(matches!(bench.world.check(), Err(Violation::NeverEnded { .. })));
    let second = bench.push(0, StreamOp::Receive { socket });
    bench.settle();
    assert_eq!(
        bench.world.check(),
        Err(Violation::SecondOperation { lane: 0, handle: second, operation: "receive" }),
        "behind {receive:?}"
    );
    let mut bench = Bench::new(Faults::none());
    let socket = bench.listen(0, "10.0.0.1:7", 4);
    assert_eq!(bench.world.check(), Err(Violation::NeverClosed { lane: 0, socket }));
    bench.close(0, socket);
    let lease = bench.arena.lease(1);
    assert_eq!(bench.world.check(), Err(Violation::MemoryLeaked { lane: 0, bytes: 256 }));
    drop(lease);
    assert_eq!(bench.world.check(), Ok(()));
}

#[test]
fn a_lane_that_ends_suddenly_resets_its_connections() {
    let mut bench = Bench::new(Faults::none());
    let (socket, peer) = bench.pipe();
    bench.push(0, StreamOp::Receive { socket });
    bench.settle();
    bench.world.write_file("file", b"");
    let options = OpenOptions::new().read(true);
    let Outcome::File(FileOutcome::Opened { file, .. }) =
        bench.run(0, FileOp::Open { beneath: None, path: "file".into(), options })
    else {
        panic!("not opened")
    };
    let lease = bench.arena.lease(1).unwrap();
    bench.push(0, FileOp::Read { file: file.clone(), offset: 0, lease, until: 1 });
    bench.collect(0, Wait::No);
    bench.lanes.clear();
    assert_eq!(bench.arena.used(), 0);
    bench.settle();
    assert_eq!(failed(peer.status()), Some(Reason::Reset));
    assert!(matches!(bench.world.check(), Err(Violation::NeverEnded { lane: 0, .. })));
    assert_eq!(failed(bench.connect("10.0.0.1:7").status()), None);
}
