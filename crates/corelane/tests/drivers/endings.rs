//! Ends: stopping, cancelling, closing, breaking off, and names that name nothing any more.

use crate::bench::{Bench, assert_cancelled, bind_at, chain_of, lasting};
use crate::rig::{Rig, Side};
use corelane_seam::{
    Chain, DatagramOp, DatagramOutcome, Datagrams, Fault, File, FileOp, FileOutcome, OffloadWork, Op, OpenOptions, Outcome,
    Reason, Segment, StreamOp, StreamOptions, StreamOutcome, Trains, Wait,
};

pub fn a_stopped_receive_is_cancelled_when_nothing_has_come<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    bench.settle();
    bench.push(Side::Server, Op::StopReceive { socket: pipe.server });
    assert_cancelled(&bench.end(Side::Server, receive));
    let lease = bench.rig.arena(Side::Server).copy_of(b"kept").unwrap();
    let into = bench.push(Side::Server, StreamOp::ReceiveInto { socket: pipe.server, lease, until: 10 });
    bench.push(Side::Server, Op::StopReceive { socket: pipe.server });
    let outcome = bench.end(Side::Server, into);
    assert_cancelled(&outcome);
    assert!(matches!(&outcome, Outcome::Stream(StreamOutcome::Filled { lease, .. }) if **lease == *b"kept"));
    drop(outcome);
    bench.send_bytes(Side::Client, pipe.client, b"after");
    assert_eq!(bench.receive_all(Side::Server, pipe.server, 5), b"after");
    bench.finish();
}

pub fn a_stopped_receive_delivers_what_has_come<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    bench.send_bytes(Side::Client, pipe.client, b"arrived");
    bench.settle();
    bench.until_readable(Side::Server, pipe.server, 7);
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    bench.push(Side::Server, Op::StopReceive { socket: pipe.server });
    let outcome = bench.end(Side::Server, receive);
    assert!(matches!(&outcome, Outcome::Stream(StreamOutcome::Received(bytes)) if **bytes == *b"arrived"), "{outcome:?}");
    drop(outcome);
    bench.finish();
}

pub fn stopping_what_has_ended_does_nothing<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    bench.push(Side::Server, Op::StopReceive { socket: pipe.server });
    bench.send_bytes(Side::Client, pipe.client, b"x");
    assert_eq!(&*bench.receive(Side::Server, pipe.server), b"x");
    bench.push(Side::Server, Op::StopReceive { socket: pipe.server });
    bench.settle();
    bench.finish();
}

pub fn accepting_stops_and_starts_again<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let to = bench.driver(Side::Server).local_address(pipe.listener).unwrap();
    bench.push(Side::Server, StreamOp::StopAccept { listener: pipe.listener });
    assert_cancelled(&bench.end(Side::Server, pipe.accept));
    let connect = Op::Stream(StreamOp::Connect { to, from: None, options: StreamOptions::default() });
    assert!(
        matches!(bench.run(Side::Client, connect), Outcome::Stream(StreamOutcome::Connected { .. })),
        "it is queued meanwhile"
    );
    bench.settle();
    let again = bench.push(Side::Server, StreamOp::Accept { listener: pipe.listener });
    assert!(matches!(bench.next(Side::Server, again), Outcome::Stream(StreamOutcome::Accepted { .. })));
    bench.finish();
}

/// Closing ends a receive and a send that wait, each once, before the close itself is done.
pub fn a_close_ends_what_is_under_way<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    let block = lasting(16 << 20);
    let mut chain = chain_of(block);
    chain.push(bench.rig.arena(Side::Server).copy_of(b"memory").unwrap().share());
    let send = loop {
        let send = bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain });
        bench.settle();
        if !bench.has_ended(Side::Server, send) {
            break send;
        }
        let Outcome::Stream(StreamOutcome::Sent { rest, fault: None, .. }) = bench.end(Side::Server, send) else {
            panic!("not sent")
        };
        assert!(!rest.is_empty(), "nobody reads, so this cannot fit");
        chain = rest;
    };
    let close = bench.push(Side::Server, Op::Close { socket: pipe.server, reset: false });
    bench.forget(Side::Server, pipe.server);
    while !bench.has_ended(Side::Server, close) {
        bench.round();
    }
    assert!(bench.has_ended(Side::Server, receive) && bench.has_ended(Side::Server, send));
    assert_cancelled(&bench.end(Side::Server, receive));
    let outcome = bench.end(Side::Server, send);
    assert_cancelled(&outcome);
    assert!(matches!(&outcome, Outcome::Stream(StreamOutcome::Sent { rest, .. }) if !rest.is_empty()));
    assert!(matches!(bench.end(Side::Server, close), Outcome::Closed));
    drop(outcome);
    bench.finish();
}

pub fn a_close_ends_accepting_and_datagrams<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    bench.close(Side::Server, pipe.listener);
    assert_cancelled(&bench.end(Side::Server, pipe.accept));
    let (socket, _) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let receive = bench.push(Side::Server, DatagramOp::Receive { socket, into: Datagrams::new() });
    bench.settle();
    bench.close(Side::Server, socket);
    assert_cancelled(&bench.end(Side::Server, receive));
    bench.finish();
}

/// A close that is pushed right behind other operations.
pub fn a_close_in_the_same_breath_ends_each_once<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    let send = bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain: chain_of(b"bye") });
    bench.push(Side::Server, Op::StopReceive { socket: pipe.server });
    let close = bench.push(Side::Server, Op::Close { socket: pipe.server, reset: false });
    bench.forget(Side::Server, pipe.server);
    assert!(matches!(bench.end(Side::Server, close), Outcome::Closed));
    assert_cancelled(&bench.end(Side::Server, receive));
    assert!(matches!(bench.end(Side::Server, send), Outcome::Stream(StreamOutcome::Sent { .. })));
    bench.finish();
}

pub fn the_peer_sees_a_close_as_the_end<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    bench.send_bytes(Side::Server, pipe.server, b"all of it");
    bench.close(Side::Server, pipe.server);
    assert_eq!(bench.receive_all(Side::Client, pipe.client, 9), b"all of it");
    assert!(matches!(
        bench.run(Side::Client, StreamOp::Receive { socket: pipe.client }),
        Outcome::Stream(StreamOutcome::EndOfStream)
    ));
    bench.finish();
}

pub fn the_peer_sees_a_reset_as_one<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let receive = bench.push(Side::Client, StreamOp::Receive { socket: pipe.client });
    bench.settle();
    assert!(matches!(bench.run(Side::Server, Op::Close { socket: pipe.server, reset: true }), Outcome::Closed));
    bench.forget(Side::Server, pipe.server);
    let outcome = bench.end(Side::Client, receive);
    assert!(matches!(outcome, Outcome::Failed(Fault { reason: Reason::Reset, .. })), "{outcome:?}");
    match bench.run(Side::Client, StreamOp::Send { socket: pipe.client, chain: chain_of(b"to nobody") }) {
        Outcome::Stream(StreamOutcome::Sent { bytes: 0, rest, fault: Some(fault), .. }) => {
            assert_eq!((rest.len(), fault.reason), (9, Reason::Reset));
        }
        other => panic!("{other:?}"),
    }
    bench.finish();
}

/// A reset ends a send that waits for room, too.
pub fn a_reset_ends_a_blocked_send<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let mut chain = Chain::new();
    (0..16).for_each(|_| chain.push(Segment::Static(lasting(1 << 20))));
    let send = loop {
        let send = bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain });
        bench.settle();
        if !bench.has_ended(Side::Server, send) {
            break send;
        }
        let Outcome::Stream(StreamOutcome::Sent { rest, fault: None, .. }) = bench.end(Side::Server, send) else {
            panic!("not sent")
        };
        chain = rest;
    };
    bench.run(Side::Client, Op::Close { socket: pipe.client, reset: true });
    bench.forget(Side::Client, pipe.client);
    match bench.end(Side::Server, send) {
        Outcome::Stream(StreamOutcome::Sent { rest, fault: Some(fault), .. }) => {
            assert!(!rest.is_empty() && fault.reason == Reason::Reset, "{fault}");
        }
        other => panic!("{other:?}"),
    }
    bench.finish();
}

/// Operations on a socket that was closed end at once, as cancelled, and give their memory back.
pub fn a_closed_socket_is_a_name_of_nothing<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let socket = pipe.server;
    bench.close(Side::Server, socket);
    let (datagrams, _) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    bench.close(Side::Server, datagrams);
    // New sockets take the places of the old ones.
    let (_, address) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    bench.bind(Side::Server, bench.rig.address(Side::Server));
    let lease = bench.rig.arena(Side::Server).copy_of(b"lease").unwrap();
    let mut chain = Chain::new();
    chain.push(bench.rig.arena(Side::Server).copy_of(b"chain").unwrap().share());
    let mut trains = Trains::new();
    assert!(trains.add(&address, None, 0, Segment::Static(b"train"), 5));
    for op in [
        Op::Stream(StreamOp::Receive { socket }),
        Op::Stream(StreamOp::ReceiveInto { socket, lease, until: 9 }),
        Op::Stream(StreamOp::Send { socket, chain }),
        Op::Datagram(DatagramOp::Receive { socket: datagrams, into: Datagrams::new() }),
        Op::Stream(StreamOp::Accept { listener: socket }),
        Op::Close { socket, reset: true },
    ] {
        let outcome = bench.run(Side::Server, op);
        assert_cancelled(&outcome);
        match outcome {
            Outcome::Stream(StreamOutcome::Filled { lease, .. }) => assert_eq!(&*lease, b"lease"),
            Outcome::Stream(StreamOutcome::Sent { rest, .. }) => assert_eq!(rest.len(), 5),
            _ => {}
        }
    }
    let departed = bench.send_trains(Side::Server, datagrams, trains);
    assert_eq!(departed, (0, 1));
    bench.push(Side::Server, Op::StopReceive { socket });
    bench.push(Side::Server, StreamOp::StopAccept { listener: socket });
    let driver = bench.driver(Side::Server);
    assert!(driver.local_address(socket).is_err());
    assert_eq!(driver.readable_bytes(socket), 0);
    driver.finish(socket);
    driver.refuse_new(socket);
    bench.settle();
    bench.finish();
}

pub fn a_closed_file_is_a_name_of_nothing<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let file = File::new(5, 9);
    let lease = bench.rig.arena(Side::Server).copy_of(b"lease").unwrap();
    let bytes = bench.rig.arena(Side::Server).copy_of(b"bytes").unwrap().share();
    for op in [
        Op::File(FileOp::Read { file: file.clone(), offset: 0, lease, until: 9 }),
        Op::File(FileOp::Write { file: file.clone(), offset: 0, bytes }),
        Op::File(FileOp::Sync { file: file.clone() }),
        Op::File(FileOp::Close { file: file.clone() }),
    ] {
        assert_cancelled(&bench.run(Side::Server, op));
    }
    bench.finish();
}

/// A reset is told to a connection that neither receives nor sends. An end in order breaks nothing, also where both sides have finished.
pub fn a_reset_is_known_where_nothing_is_received<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (reset, ended, finished) = (bench.pipe(), bench.pipe(), bench.pipe());
    let broken = |bench: &mut Bench<R>| {
        [&reset, &ended, &finished].map(|pipe| bench.driver(Side::Server).broken(pipe.server, false).map(|why| why.reason))
    };
    assert_eq!(broken(&mut bench), [None; 3]);
    for pipe in [&reset, &ended] {
        bench.send_bytes(Side::Client, pipe.client, b"unread");
    }
    bench.run(Side::Client, Op::Close { socket: reset.client, reset: true });
    bench.forget(Side::Client, reset.client);
    bench.close(Side::Client, ended.client);
    bench.driver(Side::Client).finish(finished.client);
    bench.driver(Side::Server).finish(finished.server);
    bench.settle();
    // Also over loopback a reset may come late.
    let first = loop {
        let told = broken(&mut bench);
        if told != [None; 3] {
            break told;
        }
        bench.round();
    };
    assert_eq!(first, [Some(Reason::Reset), None, None]);
    assert_eq!(broken(&mut bench), [None; 3], "it is told once");
    // The peer has closed, and resets what is said to it then. All before its end is there.
    bench.send_bytes(Side::Server, ended.server, b"late");
    bench.settle();
    assert_eq!(bench.driver(Side::Server).broken(ended.server, false), None);
    assert_eq!(&*bench.receive(Side::Server, ended.server), b"unread");
    bench.finish();
}

/// The same behind the peer's end, once that was received.
pub fn a_reset_behind_an_end_is_known<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (reset, finished) = (bench.pipe(), bench.pipe());
    for pipe in [&reset, &finished] {
        bench.driver(Side::Client).finish(pipe.client);
        let outcome = bench.run(Side::Server, StreamOp::Receive { socket: pipe.server });
        assert!(matches!(outcome, Outcome::Stream(StreamOutcome::EndOfStream)), "{outcome:?}");
    }
    bench.run(Side::Client, Op::Close { socket: reset.client, reset: true });
    bench.forget(Side::Client, reset.client);
    while bench.driver(Side::Server).broken(reset.server, true).map(|why| why.reason) != Some(Reason::Reset) {
        bench.round();
    }
    assert_eq!(bench.driver(Side::Server).broken(reset.server, true), None, "it is told once");
    assert_eq!(bench.driver(Side::Server).broken(finished.server, true), None, "it still listens");
    bench.finish();
}

/// A connect that was cancelled in the same breath, and one cancelled when it had ended.
pub fn a_connect_can_be_cancelled<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (listener, to) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let connect = || Op::Stream(StreamOp::Connect { to: to.clone(), from: None, options: StreamOptions::default() });
    let early = bench.push(Side::Client, connect());
    bench.push(Side::Client, Op::Cancel { target: early });
    match bench.end(Side::Client, early) {
        Outcome::Stream(StreamOutcome::Connected { .. }) => {}
        other => assert_cancelled(&other),
    }
    let late = bench.push(Side::Client, connect());
    bench.until(|bench| bench.has_ended(Side::Client, late));
    bench.push(Side::Client, Op::Cancel { target: late });
    assert!(matches!(bench.end(Side::Client, late), Outcome::Stream(StreamOutcome::Connected { .. })));
    assert!(matches!(bench.next(Side::Server, accept), Outcome::Stream(StreamOutcome::Accepted { .. })));
    bench.settle();
    bench.finish();
}

/// Everything that a work had ends with it: what accepts, waits, or is idle. Other works do not notice.
pub fn what_a_work_had_ends_when_it_leaves<R: Rig>() {
    let mut bench = Bench::<R>::new();
    bench.work = 3;
    let other = bench.pipe();
    let waits = bench.push(Side::Server, StreamOp::Receive { socket: other.server });
    bench.work = 2;
    let (left, at) = (bench.pipe(), bench.rig.address(Side::Server));
    let Outcome::Datagram(DatagramOutcome::Bound { socket, .. }) = bench.run(Side::Server, DatagramOp::Bind(bind_at(at, None)))
    else {
        panic!("not bound")
    };
    let (datagrams, _) = bench.bind(Side::Server, at);
    let batch = bench.push(Side::Server, DatagramOp::Receive { socket: datagrams, into: Datagrams::new() });
    bench.settle();
    bench.driver(Side::Server).abandon(2);
    assert_cancelled(&bench.end(Side::Server, left.accept));
    assert_cancelled(&bench.end(Side::Server, batch));
    let seen = bench.run(Side::Client, StreamOp::Receive { socket: left.client });
    assert!(matches!(seen, Outcome::Failed(Fault { reason: Reason::Reset, .. })), "its peer sees {seen:?}");
    for socket in [left.listener, left.server, socket, datagrams] {
        assert!(bench.driver(Side::Server).local_address(socket).is_err(), "{socket:?} is a name of nothing");
        assert_cancelled(&bench.run(Side::Server, Op::Close { socket, reset: false }));
        bench.forget(Side::Server, socket);
    }
    bench.send_bytes(Side::Client, other.client, b"undisturbed");
    let outcome = bench.end(Side::Server, waits);
    assert!(matches!(&outcome, Outcome::Stream(StreamOutcome::Received(bytes)) if **bytes == *b"undisturbed"), "{outcome:?}");
    drop(outcome);
    bench.finish();
}

/// A driver that goes takes its operations along, and gives all memory back: what was carried out, and what was only pushed.
pub fn a_driver_may_go_with_operations_under_way<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (first, second) = (bench.pipe(), bench.pipe());
    let (datagrams, _) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let options = OpenOptions::new().read(true).write(true).create(true);
    let path = bench.rig.path("file");
    let Outcome::File(FileOutcome::Opened { file, .. }) = bench.run(Side::Server, FileOp::Open { beneath: None, path, options })
    else {
        panic!("not opened")
    };
    let lease = |bench: &Bench<R>| bench.rig.arena(Side::Server).copy_of(b"lane memory").unwrap();
    let chain = |bench: &Bench<R>| {
        let mut chain = Chain::new();
        (0..8).for_each(|_| chain.push(Segment::Static(lasting(1 << 20))));
        chain.push(lease(bench).share());
        chain
    };
    bench.push(Side::Server, StreamOp::Receive { socket: first.server });
    let into = Op::Stream(StreamOp::ReceiveInto { socket: second.server, lease: lease(&bench), until: 200 });
    bench.push(Side::Server, into);
    bench.push(Side::Server, DatagramOp::Receive { socket: datagrams, into: Datagrams::new() });
    let large = chain(&bench);
    let mut send = bench.push(Side::Server, StreamOp::Send { socket: first.server, chain: large });
    bench.settle();
    while bench.has_ended(Side::Server, send) {
        let Outcome::Stream(StreamOutcome::Sent { rest, .. }) = bench.end(Side::Server, send) else { panic!("not sent") };
        send = bench.push(Side::Server, StreamOp::Send { socket: first.server, chain: rest });
        bench.settle();
    }
    for number in 0..20 {
        let (lease, bytes) = (lease(&bench), lease(&bench).share());
        bench.push(Side::Server, FileOp::Write { file: file.clone(), offset: number * 11, bytes });
        bench.push(Side::Server, FileOp::Read { file: file.clone(), offset: 0, lease, until: 200 });
    }
    bench.push(Side::Server, Op::Offload(OffloadWork(Box::new(|| Box::new(())))));
    bench.collect(Side::Server, Wait::No, 64);
    let unseen = Op::Stream(StreamOp::Send { socket: second.server, chain: chain(&bench) });
    bench.push(Side::Server, unseen);
    let arenas = bench.abandon();
    assert_eq!(arenas.map(|arena| arena.used()), [0, 0]);
}
