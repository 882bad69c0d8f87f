//! Unix sockets: names of both kinds, clients without one, who holds a name, who has left it, and the users of peers.

use crate::bench::{Bench, bind_at};
use crate::rig::{Rig, Side};
use corelane_seam::{
    Address, DatagramOp, DatagramOutcome, Datagrams, Fault, Listen, Op, Outcome, Reason, Segment, Socket, StreamOp,
    StreamOptions, StreamOutcome, Trains, Unix,
};

/// A path and an abstract name that only this test has.
fn names<R: Rig>(bench: &Bench<R>, name: &str) -> [Unix; 2] {
    let path = bench.rig.path(name);
    let bytes = path.as_os_str().as_encoded_bytes();
    [Unix::path(bytes).unwrap(), Unix::hidden(bytes).unwrap()]
}

fn listening_at(name: &Unix) -> Listen {
    let (address, stream) = (name.clone().into(), StreamOptions::default());
    Listen { address, backlog: 8, share_port: false, v6_only: false, stream }
}

fn connecting_to(name: &Unix) -> StreamOp {
    StreamOp::Connect { to: name.clone().into(), from: None, options: StreamOptions::default() }
}

/// Connects the client to who accepts at `name`; both ends must know who the other one is.
fn meet<R: Rig>(bench: &mut Bench<R>, accept: corelane_seam::Handle, name: &Unix) -> (Socket, Socket) {
    let user = bench.rig.user();
    let connected = bench.run(Side::Client, connecting_to(name));
    let Outcome::Stream(StreamOutcome::Connected { socket: client, peer, local }) = connected else { panic!("{connected:?}") };
    assert_eq!((peer, local), (name.clone().of_user(user).into(), Unix::UNNAMED.into()));
    let accepted = bench.next(Side::Server, accept);
    let Outcome::Stream(StreamOutcome::Accepted { socket: server, peer, local }) = accepted else { panic!("{accepted:?}") };
    assert_eq!((peer, local), (Unix::UNNAMED.of_user(user).into(), name.clone().into()));
    (server, client)
}

fn echoes<R: Rig>(bench: &mut Bench<R>, (server, client): (Socket, Socket)) {
    bench.send_bytes(Side::Client, client, b"question");
    let asked = bench.receive(Side::Server, server);
    let mut answer = corelane_seam::Chain::new();
    answer.push(Segment::from(asked));
    bench.send(Side::Server, server, answer);
    assert_eq!(bench.receive_all(Side::Client, client, 8), b"question");
    bench.driver(Side::Client).finish(client);
    let end = bench.run(Side::Server, StreamOp::Receive { socket: server });
    assert!(matches!(end, Outcome::Stream(StreamOutcome::EndOfStream)), "{end:?}");
}

/// Listens at `name`, and serves a connection there.
fn serves_at<R: Rig>(bench: &mut Bench<R>, name: &Unix) {
    let (listener, local) = bench.listen_with(Side::Server, &listening_at(name));
    assert_eq!(local, Address::from(name.clone()));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let ends = meet(bench, accept, name);
    echoes(bench, ends);
}

pub fn a_unix_connection_echoes_and_both_ends_know_the_other<R: Rig>() {
    let mut bench = Bench::<R>::new();
    for name in names(&bench, "stream") {
        serves_at(&mut bench, &name);
    }
    bench.finish();
}

pub fn a_unix_client_may_have_a_name<R: Rig>() {
    let mut bench = Bench::<R>::new();
    for (name, own) in names(&bench, "server").into_iter().zip(names(&bench, "client")) {
        let (listener, _) = bench.listen_with(Side::Server, &listening_at(&name));
        let accept = bench.push(Side::Server, StreamOp::Accept { listener });
        let from = Some(own.clone().into());
        let connect = StreamOp::Connect { to: name.into(), from, options: StreamOptions::default() };
        let connected = bench.run(Side::Client, connect);
        assert!(
            matches!(&connected, Outcome::Stream(StreamOutcome::Connected { local, .. }) if *local == Address::from(own.clone())),
            "{connected:?}"
        );
        let expected = Address::from(own.of_user(bench.rig.user()));
        let accepted = bench.next(Side::Server, accept);
        assert!(matches!(&accepted, Outcome::Stream(StreamOutcome::Accepted { peer, .. }) if *peer == expected), "{accepted:?}");
    }
    bench.finish();
}

fn datagram(to: &Address, payload: &'static [u8]) -> Trains {
    let mut trains = Trains::new();
    assert!(trains.add(to, None, 0, Segment::Static(payload), payload.len()));
    trains
}

pub fn unix_datagrams_come_with_name_and_user_and_are_answered<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let homes = [Some(0), Some(1), None];
    for (name, home) in names(&bench, "datagrams").into_iter().flat_map(|name| homes.map(|home| (name.clone(), home))) {
        let (server, to) = bench.bind(Side::Server, name);
        let own = home.map_or(Unix::UNNAMED, |kind| names(&bench, "asker")[kind as usize].clone());
        let (client, from) = bench.bind(Side::Client, own.clone());
        let chosen = from.unix().unwrap();
        assert!(!chosen.name().is_empty() && (home.is_none() || *chosen == own), "one that can be answered: {from}");
        assert_eq!(bench.send_trains(Side::Client, client, datagram(&to, b"question")), (1, 0));
        let asker: Address = chosen.clone().of_user(bench.rig.user()).into();
        assert_eq!(bench.receive_datagrams(Side::Server, server, 1), [(asker.clone(), b"question".to_vec())]);
        assert_eq!(bench.send_trains(Side::Server, server, datagram(&asker, b"answer")), (1, 0));
        let server_name: Address = to.unix().unwrap().clone().of_user(bench.rig.user()).into();
        assert_eq!(bench.receive_datagrams(Side::Client, client, 1), [(server_name, b"answer".to_vec())]);
        leave(&mut bench, Side::Client, client, &from);
        leave(&mut bench, Side::Server, server, &to);
    }
    bench.finish();
}

/// Closes a datagram socket; its name is free again.
fn leave<R: Rig>(bench: &mut Bench<R>, side: Side, socket: Socket, name: &Address) {
    bench.close(side, socket);
    bench.rig.remove(name.unix().unwrap());
}

pub fn a_unix_datagram_socket_with_a_peer_has_that_peer_alone<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let [name, _] = names(&bench, "server");
    let missing = bench.driver(Side::Client).bind(&bind_at(Unix::UNNAMED, Some(name.clone().into()))).unwrap_err();
    assert_eq!(missing.reason, Reason::NotFound);
    let (server, to) = bench.bind(Side::Server, name);
    let (stranger, _) = bench.bind(Side::Server, Unix::UNNAMED);
    let client = bench.driver(Side::Client).bind(&bind_at(Unix::UNNAMED, Some(to.clone()))).unwrap();
    bench.adopt(Side::Client, client);
    let from = bench.driver(Side::Client).local_address(client).unwrap();
    assert_eq!(bench.send_trains(Side::Client, client, datagram(&to, b"question")), (1, 0));
    let asker: Address = from.unix().unwrap().clone().of_user(bench.rig.user()).into();
    assert_eq!(bench.receive_datagrams(Side::Server, server, 1), [(asker, b"question".to_vec())]);
    assert_eq!(bench.send_trains(Side::Server, stranger, datagram(&from, b"noise")), (0, 1));
    assert_eq!(bench.send_trains(Side::Server, server, datagram(&from, b"answer")), (1, 0));
    assert_eq!(bench.receive_datagrams(Side::Client, client, 1)[0].1, b"answer");
    bench.finish();
}

pub fn a_unix_name_that_is_held_is_refused<R: Rig>() {
    let mut bench = Bench::<R>::new();
    for name in names(&bench, "held") {
        bench.listen_with(Side::Server, &listening_at(&name));
        let refused = bench.driver(Side::Client).listen(&listening_at(&name)).unwrap_err();
        assert_eq!(refused.reason, Reason::AddressInUse);
    }
    // A path is a file, whatever the socket is; abstract names of streams and datagrams are apart.
    let [path, hidden] = names(&bench, "held");
    let refused = bench.driver(Side::Client).bind(&bind_at(path, None)).unwrap_err();
    assert_eq!(refused.reason, Reason::AddressInUse);
    let (_, local) = bench.bind(Side::Client, hidden.clone());
    assert_eq!(local, Address::from(hidden.clone()));
    let refused = bench.driver(Side::Server).bind(&bind_at(hidden, None)).unwrap_err();
    assert_eq!(refused.reason, Reason::AddressInUse);
    bench.finish();
}

fn refusal<R: Rig>(bench: &mut Bench<R>, name: &Unix) -> Reason {
    match bench.run(Side::Client, connecting_to(name)) {
        Outcome::Failed(Fault { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

pub fn a_stale_unix_name_is_refused_and_can_be_taken<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let [path, hidden] = names(&bench, "stale");
    assert_eq!((refusal(&mut bench, &path), refusal(&mut bench, &hidden)), (Reason::NotFound, Reason::Refused));
    for name in [path, hidden] {
        let (listener, _) = bench.listen_with(Side::Server, &listening_at(&name));
        bench.close(Side::Server, listener);
        assert_eq!(refusal(&mut bench, &name), Reason::Refused);
        bench.rig.take(Side::Server, &name);
        serves_at(&mut bench, &name);
    }
    bench.finish();
}

pub fn a_unix_name_that_refuses_keeps_those_that_wait<R: Rig>() {
    let mut bench = Bench::<R>::new();
    for name in names(&bench, "refusing") {
        let (listener, _) = bench.listen_with(Side::Server, &listening_at(&name));
        let connected = bench.run(Side::Client, connecting_to(&name));
        let Outcome::Stream(StreamOutcome::Connected { socket: client, .. }) = connected else { panic!("{connected:?}") };
        bench.driver(Side::Server).refuse_new(listener);
        assert_eq!(refusal(&mut bench, &name), Reason::Refused);
        let accept = bench.push(Side::Server, StreamOp::Accept { listener });
        let accepted = bench.next(Side::Server, accept);
        let Outcome::Stream(StreamOutcome::Accepted { socket: server, .. }) = accepted else { panic!("{accepted:?}") };
        echoes(&mut bench, (server, client));
    }
    bench.finish();
}

pub fn a_unix_datagram_to_nobody_and_one_without_room_are_counted<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let [nobody, _] = names(&bench, "nobody");
    let [name, _] = names(&bench, "busy");
    let (client, _) = bench.bind(Side::Client, Unix::UNNAMED);
    assert_eq!(bench.send_trains(Side::Client, client, datagram(&nobody.into(), b"lost")), (0, 1));
    let (server, to) = bench.bind(Side::Server, name);
    // The longest queue that systems are set up with holds fewer than all of these (net.unix.max_dgram_qlen).
    let (mut left, mut refused) = (0, 0);
    for _ in 0..4_096 {
        let (more, fewer) = bench.send_trains(Side::Client, client, datagram(&to, b"one"));
        (left, refused) = (left + more, refused + fewer);
    }
    assert!(left + refused == 4_096 && left > 0 && refused > 0, "{left} have left, {refused} were refused");
    assert_eq!(bench.receive_datagrams(Side::Server, server, left as usize).len(), left as usize);
    let early = bench.push(Side::Server, DatagramOp::Receive { socket: server, into: Datagrams::new() });
    assert_eq!(bench.send_trains(Side::Client, client, datagram(&to, b"room again")), (1, 0));
    let arrived = bench.end(Side::Server, early);
    assert!(matches!(arrived, Outcome::Datagram(DatagramOutcome::Arrived { fault: None, .. })), "{arrived:?}");
    drop(arrived);
    bench.finish();
}

pub fn a_unix_peer_that_leaves_is_seen<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let [name, _] = names(&bench, "leaving");
    let (listener, _) = bench.listen_with(Side::Server, &listening_at(&name));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let (server, client) = meet(&mut bench, accept, &name);
    // To ask for a reset changes nothing, where all bytes were received.
    assert!(matches!(bench.run(Side::Client, Op::Close { socket: client, reset: true }), Outcome::Closed));
    bench.forget(Side::Client, client);
    let end = bench.run(Side::Server, StreamOp::Receive { socket: server });
    assert!(matches!(end, Outcome::Stream(StreamOutcome::EndOfStream)), "{end:?}");
    let (server, client) = meet(&mut bench, accept, &name);
    bench.send_bytes(Side::Server, server, b"never received");
    bench.settle();
    bench.close(Side::Client, client);
    let end = bench.run(Side::Server, StreamOp::Receive { socket: server });
    assert!(matches!(end, Outcome::Failed(Fault { reason: Reason::Reset, .. })), "{end:?}");
    bench.finish();
}
