//! Limits: memory, descriptors, new connections.

use crate::bench::{Bench, assert_cancelled, bind_at, chain_of};
use crate::child;
use crate::rig::{Rig, Side};
use corelane_seam::{
    DatagramOp, DatagramOutcome, Datagrams, Fault, LEASE_BYTES_MAX, Lease, Op, Outcome, Reason, Segment, Socket, StreamOp,
    StreamOptions, StreamOutcome, Trains, Tuning, Wait,
};

/// All memory of a side, as leases.
fn take_all<R: Rig>(bench: &Bench<R>, side: Side) -> Vec<Lease> {
    let arena = bench.rig.arena(side);
    let mut leases = Vec::new();
    let mut bytes = LEASE_BYTES_MAX;
    while bytes >= 256 {
        match arena.lease(bytes) {
            Some(lease) => leases.push(lease),
            None => bytes /= 2,
        }
    }
    assert_eq!(arena.used(), arena.limit());
    leases
}

/// Without memory nothing is received, and the driver sleeps as long as it may; with memory all goes on.
pub fn without_memory_receives_wait_and_the_driver_sleeps<R: Rig>() {
    let mut bench = Bench::<R>::with(Tuning::default(), 1);
    let (listener, address) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let pipes: Vec<_> = (0..10).map(|_| bench.join(accept, &address)).collect();
    let (datagrams, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, _) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    pipes.iter().for_each(|&(_, client)| bench.send_bytes(Side::Client, client, b"waits"));
    let mut trains = Trains::new();
    assert!(trains.add(&to, None, 0, Segment::Static(b"waits"), 5));
    bench.send_trains(Side::Client, client, trains);
    let all = take_all(&bench, Side::Server);
    let receives: Vec<_> = pipes.iter().map(|&(socket, _)| bench.push(Side::Server, StreamOp::Receive { socket })).collect();
    let batch = bench.push(Side::Server, DatagramOp::Receive { socket: datagrams, into: Datagrams::new() });
    bench.settle();
    let before = bench.driver(Side::Server).counters();
    let until = bench.driver(Side::Server).now() + 2_000_000;
    while bench.driver(Side::Server).now() < until {
        assert_eq!(bench.collect(Side::Server, Wait::Until(until), 64), 0);
        bench.rig.pass();
    }
    let after = bench.driver(Side::Server).counters();
    assert!(after.receives_starved > before.receives_starved, "it is counted");
    assert!(after.calls_wait - before.calls_wait < 10, "it does not spin");
    // What needs no memory goes on meanwhile.
    bench.send_bytes(Side::Server, pipes[0].0, b"sent");
    bench.join(accept, address);
    drop(all);
    for handle in receives {
        assert!(
            matches!(bench.end(Side::Server, handle), Outcome::Stream(StreamOutcome::Received(bytes)) if *bytes == *b"waits")
        );
    }
    assert!(
        matches!(bench.end(Side::Server, batch), Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) if !batch.is_empty())
    );
    assert_eq!(bench.receive_all(Side::Client, pipes[0].1, 4), b"sent");
    bench.finish();
}

/// A starved connection can be closed, stopped, and reset by its peer; a receive into a lease needs no block.
pub fn a_starved_receive_can_end<R: Rig>() {
    let mut bench = Bench::<R>::with(Tuning::default(), 1);
    let (listener, address) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let pipes: Vec<(Socket, Socket)> = (0..4).map(|_| bench.join(accept, address.clone())).collect();
    pipes.iter().for_each(|&(_, client)| bench.send_bytes(Side::Client, client, b"bytes"));
    let lease = bench.rig.arena(Side::Server).lease(256).unwrap();
    let all = take_all(&bench, Side::Server);
    let receives: Vec<_> = pipes[..3].iter().map(|&(socket, _)| bench.push(Side::Server, StreamOp::Receive { socket })).collect();
    bench.settle();
    let into = Op::Stream(StreamOp::ReceiveInto { socket: pipes[3].0, lease, until: 256 });
    assert!(
        matches!(bench.run(Side::Server, into), Outcome::Stream(StreamOutcome::Filled { lease, fault: None }) if *lease == *b"bytes")
    );
    bench.push(Side::Server, Op::StopReceive { socket: pipes[0].0 });
    let stopped = bench.end(Side::Server, receives[0]);
    assert!(matches!(stopped, Outcome::Failed(Fault { reason: Reason::NoMemory, .. })), "{stopped:?}: something was there");
    bench.close(Side::Server, pipes[1].0);
    assert_cancelled(&bench.end(Side::Server, receives[1]));
    drop(all);
    assert!(matches!(bench.end(Side::Server, receives[2]), Outcome::Stream(StreamOutcome::Received(_))));
    assert_eq!(bench.receive_all(Side::Server, pipes[0].0, 5), b"bytes");
    bench.finish();
}

/// Where memory lies in pieces of which each holds one datagram, all arrive.
pub fn datagrams_come_though_memory_lies_in_pieces<R: Rig>() {
    let mut bench = Bench::<R>::with(Tuning::default(), 1);
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, _) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    let blocks: Vec<_> = std::iter::from_fn(|| bench.rig.arena(Side::Server).lease(64 << 10)).collect();
    let _pieces: Vec<_> = blocks.into_iter().step_by(2).collect();
    assert!(!bench.rig.arena(Side::Server).has(128 << 10));
    // A few at a time: some systems' receive buffers take no more at once.
    for _ in 0..10 {
        let mut trains = Trains::new();
        (0..2).for_each(|_| assert!(trains.add(&to, None, 0, Segment::Static(&[7; 30_000]), 10_000)));
        assert_eq!(bench.send_trains(Side::Client, client, trains), (6, 0));
        let found = bench.receive_datagrams(Side::Server, server, 6);
        assert!(found.iter().all(|(_, bytes)| *bytes == [7; 10_000]));
    }
    drop(_pieces);
    bench.finish();
}

/// Memory that is enough for a receive of bytes is none for one of datagrams: whoever waits for it is not tried time after time.
pub fn a_driver_sleeps_though_there_is_memory_for_others<R: Rig>() {
    let mut bench = Bench::<R>::with(Tuning::default().receive_bytes(4 << 10), 1);
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, _) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    let mut all = take_all(&bench, Side::Server);
    all.pop();
    drop(bench.rig.arena(Side::Server).copy_of(b"there is a little"));
    let blocks: Vec<_> = std::iter::from_fn(|| bench.rig.arena(Side::Server).lease(4 << 10)).collect();
    let _most: Vec<_> = blocks.into_iter().step_by(2).collect();
    assert!(bench.rig.arena(Side::Server).has(4 << 10) && !bench.rig.arena(Side::Server).has(64 << 10));
    let mut trains = Trains::new();
    assert!(trains.add(&to, None, 0, Segment::Static(b"waits"), 5));
    bench.send_trains(Side::Client, client, trains);
    let receive = bench.push(Side::Server, DatagramOp::Receive { socket: server, into: Datagrams::new() });
    bench.settle();
    let (before, until) = (bench.driver(Side::Server).counters(), bench.driver(Side::Server).now() + 2_000_000);
    while bench.driver(Side::Server).now() < until {
        assert_eq!(bench.collect(Side::Server, Wait::Until(until), 64), 0);
        bench.rig.pass();
    }
    let after = bench.driver(Side::Server).counters();
    assert!(after.calls_wait - before.calls_wait < 10, "it does not spin");
    drop((all, _most));
    assert!(
        matches!(bench.end(Side::Server, receive), Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) if !batch.is_empty())
    );
    bench.finish();
}

/// Connections under way and in the queue are accepted; none begins.
pub fn refusing_new_connections_keeps_those_that_wait<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (listener, to) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let connect = || Op::Stream(StreamOp::Connect { to: to.clone(), from: None, options: StreamOptions::default() });
    for _ in 0..3 {
        assert!(matches!(bench.run(Side::Client, connect()), Outcome::Stream(StreamOutcome::Connected { .. })));
    }
    bench.driver(Side::Server).refuse_new(listener);
    let late = bench.push(Side::Client, connect());
    bench.settle();
    assert!(!bench.has_ended(Side::Client, late), "neither accepted nor refused");
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    for _ in 0..3 {
        assert!(matches!(bench.next(Side::Server, accept), Outcome::Stream(StreamOutcome::Accepted { .. })));
    }
    bench.settle();
    assert!(!bench.has_outcome(Side::Server, accept));
    bench.push(Side::Client, Op::Cancel { target: late });
    assert_cancelled(&bench.end(Side::Client, late));
    bench.finish();
}

/// At the limit of descriptors accepting and connecting fail with that reason; when one is free, accepting goes on with
/// those that had been queued.
pub fn at_the_limit_of_descriptors_accepting_stops_and_goes_on<R: Rig>(path: &str) {
    if !child::is_prepared(path, "ulimit -n 40 && exec \"$@\"", "ulimit -n 40") {
        return;
    }
    let mut bench = Bench::<R>::new();
    let (listener, to) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let connect = || Op::Stream(StreamOp::Connect { to: to.clone(), from: None, options: StreamOptions::default() });
    let mut clients = Vec::new();
    loop {
        match bench.run(Side::Client, connect()) {
            Outcome::Stream(StreamOutcome::Connected { socket, .. }) => clients.push(socket),
            Outcome::Failed(Fault { reason: Reason::NoDescriptor, .. }) => break,
            other => panic!("{other:?}"),
        }
        assert!(clients.len() < 40);
    }
    assert!(clients.len() > 6);
    let no_descriptor = |outcome: Outcome| {
        assert!(matches!(outcome, Outcome::Failed(Fault { reason: Reason::NoDescriptor, .. })), "{outcome:?}");
    };
    no_descriptor(bench.run(Side::Server, StreamOp::Accept { listener }));
    for _ in 0..2 {
        let client = clients.pop().unwrap();
        bench.send_bytes(Side::Client, client, b"bye");
        bench.close(Side::Client, client);
    }
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    for _ in 0..2 {
        assert!(matches!(bench.next(Side::Server, accept), Outcome::Stream(StreamOutcome::Accepted { .. })));
    }
    no_descriptor(bench.end(Side::Server, accept));
    bench.close(Side::Client, clients.pop().unwrap());
    let again = bench.push(Side::Server, StreamOp::Accept { listener });
    assert!(matches!(bench.next(Side::Server, again), Outcome::Stream(StreamOutcome::Accepted { .. })));
    no_descriptor(bench.end(Side::Server, again));
    let refused = bench.driver(Side::Server).bind(&bind_at(to, None));
    assert_eq!(refused.unwrap_err().reason, Reason::NoDescriptor);
    bench.send(Side::Client, clients[0], chain_of(b"still works"));
    bench.finish();
}
