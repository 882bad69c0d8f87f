//! Datagrams, one by one and in trains.

use crate::bench::{Bench, assert_cancelled, bind_at, lasting};
use crate::child;
use crate::rig::{Rig, Side};
use corelane_seam::{
    Address, DatagramOp, DatagramOutcome, Datagrams, Handle, Op, Outcome, Reason, Segment, Socket, Trains, Tuning, Wait,
};
use std::net::{SocketAddr, UdpSocket};

/// One train, or one datagram if `size` is that of the payload.
fn train(to: &Address, payload: &'static [u8], size: usize) -> Trains {
    let mut trains = Trains::new();
    assert!(trains.add(to, None, 0, Segment::Static(payload), size));
    trains
}

pub fn a_datagram_comes_and_its_answer_goes_back<R: Rig>() {
    let mut bench = Bench::<R>::new();
    for v6 in [false, true] {
        let home = |bench: &Bench<R>, side| if v6 { bench.rig.address_v6(side) } else { bench.rig.address(side) };
        let (server, to) = bench.bind(Side::Server, home(&bench, Side::Server));
        let (client, from) = bench.bind(Side::Client, home(&bench, Side::Client));
        let early = bench.push(Side::Server, DatagramOp::Receive { socket: server, into: Datagrams::new() });
        assert_eq!(bench.send_trains(Side::Client, client, train(&to, b"question", 8)), (1, 0));
        let Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) = bench.end(Side::Server, early) else {
            panic!("not arrived")
        };
        let arrival = &batch.arrivals()[0];
        assert_eq!((arrival.peer.clone(), arrival.datagrams(), batch.payload(arrival)), (from, 1, &b"question"[..]));
        assert_eq!(arrival.asked, None, "the socket has one address only");
        let mut answer = Trains::new();
        assert!(answer.add(&arrival.peer, None, 0, batch.share(arrival), 8));
        drop(batch);
        assert_eq!(bench.send_trains(Side::Server, server, answer), (1, 0));
        assert_eq!(bench.receive_datagrams(Side::Client, client, 1), [(to, b"question".to_vec())]);
    }
    bench.finish();
}

pub fn a_train_of_parts_comes_as_its_datagrams<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, from) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    let bytes = lasting(20 * 500 + 123);
    let mut trains = Trains::new();
    for part in bytes.chunks(1500) {
        let copy = bench.rig.arena(Side::Client).copy_of(part).unwrap().share();
        assert!(trains.add(&to, None, 0, copy.into(), 500));
    }
    assert_eq!(trains.trains().len(), 1);
    assert_eq!(bench.send_trains(Side::Client, client, trains), (21, 0));
    let found = bench.receive_datagrams(Side::Server, server, 21);
    let expected: Vec<_> = bytes.chunks(500).map(|datagram| (from.clone(), datagram.to_vec())).collect();
    assert!(found == expected);
    bench.finish();
}

/// What arrives can be sent back as it came, however many datagrams arrived together.
pub fn the_longest_trains_go_there_and_back<R: Rig>() {
    let mut bench = Bench::<R>::new();
    for v6 in [false, true] {
        let home = |bench: &Bench<R>, side| if v6 { bench.rig.address_v6(side) } else { bench.rig.address(side) };
        let (server, to) = bench.bind(Side::Server, home(&bench, Side::Server));
        let (client, from) = bench.bind(Side::Client, home(&bench, Side::Client));
        for count in [64, 65, 100, 127, 128] {
            let bytes = lasting(count * 511 - 200);
            assert_eq!(bench.send_trains(Side::Client, client, train(&to, bytes, 511)), (count as u32, 0));
            echo(&mut bench, server, &from, count);
            let found = bench.receive_datagrams(Side::Client, client, count);
            assert!(found.len() == count && found.iter().all(|(peer, _)| *peer == to));
            assert!(found.into_iter().flat_map(|(_, bytes)| bytes).eq(bytes.iter().copied()), "{count} datagrams");
        }
    }
    bench.finish();
}

/// Sends back `count` datagrams of `peer`, each arrival as it came.
fn echo<R: Rig>(bench: &mut Bench<R>, server: Socket, peer: &Address, count: usize) {
    let mut left = count;
    while left > 0 {
        let batch = bench.receive_batch(Side::Server, server);
        let mut answer = Trains::new();
        for arrival in batch.arrivals() {
            assert_eq!(arrival.peer, *peer);
            left -= arrival.datagrams();
            assert!(answer.add(peer, None, 0, batch.share(arrival), arrival.datagram_bytes as usize), "{arrival:?}");
        }
        drop(batch);
        assert_eq!(bench.send_trains(Side::Server, server, answer).1, 0);
    }
}

pub fn over_ipv6_the_largest_goes_there_and_back<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address_v6(Side::Server));
    let (client, from) = bench.bind(Side::Client, bench.rig.address_v6(Side::Client));
    for bytes in [65_507, 65_508, 65_527] {
        let payload = lasting(bytes);
        assert_eq!(bench.send_trains(Side::Client, client, train(&to, payload, bytes)), (1, 0));
        echo(&mut bench, server, &from, 1);
        assert!(bench.receive_datagrams(Side::Client, client, 1)[0].1 == payload, "{bytes} bytes");
    }
    bench.finish();
}

pub fn empty_and_largest_datagrams_come_as_they_are<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, _) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    let largest = lasting(65_507);
    for payload in [&[], largest, &[7]] {
        assert_eq!(bench.send_trains(Side::Client, client, train(&to, payload, payload.len())), (1, 0));
        let found = bench.receive_datagrams(Side::Server, server, 1);
        assert!(found[0].1 == payload, "{} bytes", payload.len());
    }
    bench.finish();
}

/// The wildcard address hears all; the answer comes from the address that was asked.
pub fn an_answer_comes_from_the_address_that_was_asked<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let wildcards = ["0.0.0.0:0", "[::]:0"].map(|address| address.parse::<SocketAddr>().unwrap());
    for wildcard in wildcards {
        let (server, local) = bench.bind(Side::Server, wildcard);
        let mut asked = vec![(bench.rig.other_address(), bench.rig.address(Side::Client))];
        if wildcard.is_ipv6() {
            asked.push((bench.rig.address_v6(Side::Server), bench.rig.address_v6(Side::Client)));
        }
        for (asked, home) in asked {
            let to = Address::Ip(SocketAddr::new(asked.ip(), local.port()));
            let (client, from) = bench.bind(Side::Client, home);
            assert_eq!(bench.send_trains(Side::Client, client, train(&to, b"who?", 4)), (1, 0));
            let batch = bench.receive_batch(Side::Server, server);
            let arrival = &batch.arrivals()[0];
            assert_eq!((arrival.peer.clone(), arrival.asked), (from.clone(), Some(asked.ip())));
            let mut answer = Trains::new();
            assert!(answer.add(&from, arrival.asked, 0, Segment::Static(b"me"), 2));
            assert_eq!(bench.send_trains(Side::Server, server, answer), (1, 0));
            assert_eq!(bench.receive_datagrams(Side::Client, client, 1), [(to, b"me".to_vec())]);
        }
    }
    bench.finish();
}

/// More datagrams, of several peers, than one batch holds; each peer's come in order.
pub fn many_datagrams_come_in_batches<R: Rig>() {
    const EACH: usize = 50;
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let clients: Vec<_> = (0..4).map(|_| bench.bind(Side::Client, bench.rig.address(Side::Client))).collect();
    for &(client, _) in &clients {
        let mut trains = Trains::new();
        for number in 0..EACH {
            // Sizes grow, so each is a train of its own.
            assert!(trains.add(&to, None, 0, Segment::Static(&[0; 100][..number + 1]), number + 1));
        }
        assert_eq!(bench.send_trains(Side::Client, client, trains), (EACH as u32, 0));
    }
    let found = bench.receive_datagrams(Side::Server, server, clients.len() * EACH);
    for (_, peer) in clients {
        let sizes: Vec<_> = found.iter().filter(|(from, _)| *from == peer).map(|(_, bytes)| bytes.len()).collect();
        assert!(sizes == (1..=EACH).collect::<Vec<_>>(), "{sizes:?}");
    }
    bench.finish();
}

/// What a full socket drops it counts, and all else can be received.
pub fn what_a_socket_had_no_room_for_is_told<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, _) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    assert_eq!(bench.rig.driver(Side::Server).dropped(server), Some(0));
    let (mut sent, mut size) = (0, 1_000);
    // Nobody receives meanwhile. The default buffer of a system may be large, but never is as large as this.
    while bench.rig.driver(Side::Server).dropped(server) == Some(0) {
        let mut trains = Trains::new();
        for _ in 0..50 {
            size = if size < 1_300 { size + 1 } else { 1_000 };
            assert!(trains.add(&to, None, 0, Segment::Static(&[0; 1_300][..size]), size));
        }
        sent += bench.send_trains(Side::Client, client, trains).0 as usize;
        bench.settle();
        assert!(sent < 1_000_000, "so many fit");
    }
    let mut dropped = 0;
    // Also over loopback some may come late.
    while bench.rig.driver(Side::Server).dropped(server) != Some(dropped) {
        dropped = bench.rig.driver(Side::Server).dropped(server).unwrap();
        bench.settle();
    }
    let dropped = dropped as usize;
    assert!((1..sent).contains(&dropped), "{dropped} of {sent}");
    bench.receive_datagrams(Side::Server, server, sent - dropped);
    assert_eq!(bench.rig.driver(Side::Server).dropped(server), Some(dropped as u32));
    assert_eq!(bench.rig.driver(Side::Client).dropped(client), Some(0));
    bench.close(Side::Server, server);
    assert_eq!(bench.rig.driver(Side::Server).dropped(server), None);
    bench.finish();
}

/// What goes to a closed port is gone, and what may come back about it stops nothing.
pub fn a_datagram_to_nobody_stops_nothing<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let nobody = nobody(&mut bench);
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, from) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    for _ in 0..3 {
        assert_eq!(bench.send_trains(Side::Client, client, train(&nobody, b"lost", 4)), (1, 0));
        bench.settle();
        assert_eq!(bench.send_trains(Side::Client, client, train(&to, b"found", 5)), (1, 0));
        assert_eq!(bench.receive_datagrams(Side::Server, server, 1), [(from.clone(), b"found".to_vec())]);
        assert_eq!(bench.send_trains(Side::Server, server, train(&from, b"back", 4)), (1, 0));
        assert_eq!(bench.receive_datagrams(Side::Client, client, 1), [(to.clone(), b"back".to_vec())]);
    }
    bench.finish();
}

/// A train that the system refuses is counted, and the others leave.
pub fn a_refused_train_is_counted<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, from) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    let wrong_family = bench.rig.address_v6(Side::Server);
    let mut trains = Trains::new();
    for peer in [to.clone(), wrong_family.into(), to.clone()] {
        let peer = peer.with_port(to.port());
        assert!(trains.add(&peer, None, 0, Segment::Static(&[1; 30]), 10));
    }
    assert_eq!(trains.trains().len(), 2, "the first and the last travel together");
    assert_eq!(bench.send_trains(Side::Client, client, trains), (6, 3));
    let found = bench.receive_datagrams(Side::Server, server, 6);
    assert!(found.iter().all(|(peer, bytes)| *peer == from && *bytes == [1; 10]));
    bench.finish();
}

/// More than the socket's buffer takes at once: the departure waits, and takes the rest along.
pub fn a_large_batch_leaves_whole<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, _) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    let mut trains = Trains::new();
    for _ in 0..100 {
        assert!(trains.add(&to, None, 0, Segment::Static(&[5; 60_000]), 1200));
    }
    let (taken, refused) = bench.send_trains(Side::Client, client, trains);
    assert_eq!((taken, refused), (5000, 0));
    // The receiver's buffer may have dropped some, as UDP allows; what has come is whole.
    let found = bench.receive_datagrams(Side::Server, server, 50);
    assert!(found.iter().all(|(_, bytes)| bytes.len() == 1200));
    bench.settle();
    bench.finish();
}

/// On a slow link the socket fills up: the departure waits for room, and goes on, or ends with its socket.
pub fn a_departure_waits_for_room<R: Rig>(path: &str) {
    // The link of a network namespace of its own; the rate makes no test slow, and no socket fast enough.
    const SLOW_LINK: &str = "ip link set lo up && tc qdisc add dev lo root tbf rate 40mbit burst 100kb limit 100mb";
    let prepare = format!("unshare -n sh -c '{SLOW_LINK} && exec \"$@\"' sh \"$@\"");
    if !child::is_prepared(path, &prepare, "unshare -n tc -V") {
        return;
    }
    let mut bench = Bench::<R>::new();
    let (_, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, _) = bench.bind_with_buffers(Side::Client, bench.rig.address(Side::Client), 200_000);
    let departure = blocked_departure(&mut bench, client, &to);
    assert!(matches!(
        bench.end(Side::Client, departure),
        Outcome::Datagram(DatagramOutcome::Departed { datagrams: 1000, refused: 0, .. })
    ));
    let departure = blocked_departure(&mut bench, client, &to);
    bench.close(Side::Client, client);
    match bench.end(Side::Client, departure) {
        Outcome::Datagram(DatagramOutcome::Departed { datagrams, refused, .. }) => {
            assert!(refused > 0 && datagrams + refused == 1000)
        }
        other => panic!("{other:?}"),
    }
    bench.finish();
}

/// A departure of 1000 datagrams that found the socket full.
fn blocked_departure<R: Rig>(bench: &mut Bench<R>, socket: Socket, to: &Address) -> Handle {
    for _ in 0..100 {
        let mut trains = Trains::new();
        (0..20).for_each(|_| assert!(trains.add(to, None, 0, Segment::Static(&[5; 60_000]), 1200)));
        let departure = bench.push(Side::Client, DatagramOp::Send { socket, trains });
        bench.collect(Side::Client, Wait::No, 64);
        if !bench.has_ended(Side::Client, departure) {
            return departure;
        }
    }
    panic!("the link is slow, but the socket is never full");
}

pub fn a_stopped_receive_of_datagrams_ends<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, _) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    let receive = bench.push(Side::Server, DatagramOp::Receive { socket: server, into: Datagrams::new() });
    bench.settle();
    bench.push(Side::Server, Op::StopReceive { socket: server });
    let outcome = bench.end(Side::Server, receive);
    assert_cancelled(&outcome);
    assert!(matches!(outcome, Outcome::Datagram(DatagramOutcome::Arrived { batch, .. }) if batch.is_empty()));
    bench.send_trains(Side::Client, client, train(&to, b"arrived", 7));
    bench.settle();
    if R::TELLS_OF_DATAGRAMS {
        bench.until_readable(Side::Server, server, 7);
    }
    let receive = bench.push(Side::Server, DatagramOp::Receive { socket: server, into: Datagrams::new() });
    bench.push(Side::Server, Op::StopReceive { socket: server });
    let outcome = bench.end(Side::Server, receive);
    assert!(
        matches!(&outcome, Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) if batch.arrivals()[0].bytes() == 7)
    );
    drop(outcome);
    bench.finish();
}

/// A batch that is given back for the next receive gives up what it held.
pub fn a_batch_is_used_again<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, _) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    let mut batch = Datagrams::new();
    for text in [&b"first"[..], b"second"] {
        let receive = bench.push(Side::Server, DatagramOp::Receive { socket: server, into: batch });
        bench.settle();
        assert_eq!(bench.rig.arena(Side::Server).used(), 0, "waiting holds no memory");
        bench.send_trains(Side::Client, client, train(&to, text, text.len()));
        batch = match bench.end(Side::Server, receive) {
            Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) => batch,
            other => panic!("{other:?}"),
        };
        assert_eq!(batch.arrivals().len(), 1);
        assert_eq!(batch.payload(&batch.arrivals()[0]), text);
    }
    drop(batch);
    bench.finish();
}

/// The memory that one collect hands out, and its completions, are bounded for datagrams as for connections; nobody is forgotten.
pub fn one_collect_hands_out_few_batches<R: Rig>() {
    const SOCKETS: usize = 20;
    const PIECE: usize = 64 << 10;
    let least = Tuning::default().datagram_bytes(PIECE);
    let by_memory = (least.receive_cycle_bytes(2 * PIECE), 64, 2);
    let by_number = (least.receive_cycle_bytes(usize::MAX), 3, 3);
    for (tuning, at_most, bound) in [by_memory, by_number] {
        let mut bench = Bench::<R>::with(tuning, crate::bench::MEMORY);
        let (client, _) = bench.bind(Side::Client, bench.rig.address(Side::Client));
        let servers: Vec<_> = (0..SOCKETS).map(|_| bench.bind(Side::Server, bench.rig.address(Side::Server))).collect();
        for (_, to) in &servers {
            assert_eq!(bench.send_trains(Side::Client, client, train(to, b"here", 4)), (1, 0));
        }
        bench.settle();
        let receive = |&(socket, _): &(Socket, _)| Op::Datagram(DatagramOp::Receive { socket, into: Datagrams::new() });
        let receives: Vec<_> = servers.iter().map(|server| bench.push(Side::Server, receive(server))).collect();
        let mut most = 0;
        while receives.iter().any(|&receive| !bench.has_ended(Side::Server, receive)) {
            most = most.max(bench.collect(Side::Server, Wait::No, at_most));
            bench.rig.pass();
        }
        assert!((1..=bound).contains(&most), "{most} at once");
        for receive in receives {
            let outcome = bench.end(Side::Server, receive);
            assert!(
                matches!(&outcome, Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) if batch.arrivals().len() == 1),
                "{outcome:?}"
            );
        }
        bench.finish();
    }
}

/// What an answer costs beside its own calls counts twice where questions come singly: room in the socket, which there always
/// is, wakes nobody, and nothing is received twice to find that there is no more.
pub fn a_question_takes_one_wait_one_receive_and_one_send<R: Rig>() {
    const QUESTIONS: u64 = 300;
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(to).unwrap();
    let asker = std::thread::spawn(move || {
        for number in 0..=QUESTIONS {
            client.send(&number.to_ne_bytes()).unwrap();
            let mut answer = [0; 8];
            assert_eq!((client.recv(&mut answer).unwrap(), u64::from_ne_bytes(answer)), (8, number));
        }
    });
    let mut before = None;
    for _ in 0..=QUESTIONS {
        let receive = bench.push(Side::Server, DatagramOp::Receive { socket: server, into: Datagrams::new() });
        while !bench.has_ended(Side::Server, receive) {
            bench.collect(Side::Server, Wait::Forever, 64);
        }
        let Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) = bench.end(Side::Server, receive) else {
            panic!("not arrived")
        };
        let mut trains = Trains::new();
        let arrival = &batch.arrivals()[0];
        assert!(trains.add(&arrival.peer, None, 0, batch.share(arrival), 8));
        let send = bench.push(Side::Server, DatagramOp::Send { socket: server, trains });
        bench.collect(Side::Server, Wait::Forever, 64);
        assert!(bench.has_ended(Side::Server, send));
        bench.end(Side::Server, send);
        before.get_or_insert(bench.driver(Side::Server).counters());
    }
    asker.join().unwrap();
    let (before, after) = (before.unwrap(), bench.driver(Side::Server).counters());
    // The kernel may tell once more of what comes while somebody looks (epoll(7)): seldom, and not with each question.
    let seldom = QUESTIONS / 20;
    let (waits, work) = (after.calls_wait - before.calls_wait, after.calls_work - before.calls_work);
    assert!((QUESTIONS..=QUESTIONS + seldom).contains(&waits) && work == 2 * QUESTIONS, "{waits} waits, {work} calls");
    assert_eq!(after.receives_empty, before.receives_empty);
    bench.finish();
}

pub fn a_socket_is_bound_by_an_operation<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let asked = bind_at(bench.rig.address(Side::Client), None);
    let Outcome::Datagram(DatagramOutcome::Bound { socket: client, local }) = bench.run(Side::Client, DatagramOp::Bind(asked))
    else {
        panic!("not bound")
    };
    bench.adopt(Side::Client, client);
    assert_eq!(bench.driver(Side::Client).local_address(client), Ok(local.clone()));
    assert_eq!(bench.send_trains(Side::Client, client, train(&to, b"here", 4)), (1, 0));
    assert_eq!(bench.receive_datagrams(Side::Server, server, 1), [(local, b"here".to_vec())]);
    bench.finish();
}

pub fn what_cannot_be_bound_says_why<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (_, taken) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    let other_family = Some(bench.rig.address_v6(Side::Server)).map(|address| SocketAddr::new(address.ip(), 9));
    let cases = [bind_at(&taken, None), bind_at(taken.with_port(0), other_family.map(Into::into))];
    let [in_use, unfit] = cases.map(|bind| match bench.run(Side::Client, DatagramOp::Bind(bind)) {
        Outcome::Failed(fault) => fault,
        other => panic!("{other:?}"),
    });
    assert_eq!(in_use.reason, Reason::AddressInUse);
    assert!(unfit.number != 0, "{unfit:?}");
    bench.finish();
}

pub fn a_socket_with_a_peer_has_that_peer_alone<R: Rig>() {
    let mut bench = Bench::<R>::new();
    for home in [bench.rig.address(Side::Server), bench.rig.address_v6(Side::Server)] {
        let (server, to) = bench.bind(Side::Server, home);
        let (stranger, elsewhere) = bench.bind(Side::Server, home);
        let (client, local) = bench.bind_to(Side::Client, to.clone());
        assert!(!local.ip().unwrap().is_unspecified() && local.port() != 0, "a way to the peer was chosen: {local}");
        bench.send_trains(Side::Server, stranger, train(&local, b"strange", 7));
        bench.settle();
        // The socket knows better than the trains where they go.
        assert_eq!(bench.send_trains(Side::Client, client, train(&elsewhere, &[8; 5000], 500)), (10, 0));
        let found = bench.receive_datagrams(Side::Server, server, 10);
        assert!(found.iter().all(|(from, bytes)| *from == local && *bytes == [8; 500]));
        assert_eq!(bench.send_trains(Side::Server, server, train(&local, b"answer", 6)), (1, 0));
        let batch = bench.receive_batch(Side::Client, client);
        let seen: Vec<_> =
            batch.arrivals().iter().map(|arrival| (arrival.peer.clone(), arrival.asked, batch.payload(arrival))).collect();
        assert_eq!(seen, [(to, None, &b"answer"[..])]);
    }
    bench.finish();
}

/// The address of a socket that is closed again.
fn nobody<R: Rig>(bench: &mut Bench<R>) -> Address {
    let (closed, nobody) = bench.bind(Side::Server, bench.rig.lonely());
    bench.close(Side::Server, closed);
    nobody
}

/// Has the receive of a socket whose peer is nobody told of it. A word of that may be lost on its way, as datagrams may; then another is sent.
fn hears_that_nobody_is_there<R: Rig>(bench: &mut Bench<R>, client: Socket, receive: Handle, nobody: &Address) {
    bench.settle();
    for _ in 0..100 {
        if bench.has_ended(Side::Client, receive) {
            break;
        }
        assert_eq!(bench.send_trains(Side::Client, client, train(nobody, b"lost", 4)), (1, 0));
        bench.settle();
    }
    match bench.end(Side::Client, receive) {
        Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: Some(fault) }) => {
            assert!(batch.is_empty() && fault.reason == Reason::Refused)
        }
        other => panic!("{other:?}"),
    }
}

pub fn nobody_there_is_told_and_the_socket_goes_on<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let nobody = nobody(&mut bench);
    let (client, local) = bench.bind_to(Side::Client, nobody.clone());
    for _ in 0..3 {
        let receive = bench.push(Side::Client, DatagramOp::Receive { socket: client, into: Datagrams::new() });
        hears_that_nobody_is_there(&mut bench, client, receive, &nobody);
    }
    // Without a receive the next send hears it, and still leaves.
    let server = (0..100).find_map(|_| {
        bench.send_trains(Side::Client, client, train(&nobody, b"lost", 4));
        bench.settle();
        let (server, to) = bench.bind(Side::Server, nobody.clone());
        let departed = bench.run(Side::Client, DatagramOp::Send { socket: client, trains: train(&to, b"found", 5) });
        let Outcome::Datagram(DatagramOutcome::Departed { datagrams: 1, refused: 0, fault, .. }) = departed else {
            panic!("{departed:?}")
        };
        assert!(fault.as_ref().is_none_or(|fault| fault.reason == Reason::Refused));
        assert_eq!(bench.receive_datagrams(Side::Server, server, 1), [(local.clone(), b"found".to_vec())]);
        if fault.is_none() {
            bench.close(Side::Server, server);
        }
        fault.map(|_| server)
    });
    let server = server.expect("one of so many words comes");
    let receive = bench.push(Side::Client, DatagramOp::Receive { socket: client, into: Datagrams::new() });
    bench.settle();
    assert!(!bench.has_ended(Side::Client, receive), "each word is told once");
    bench.send_trains(Side::Server, server, train(&local, b"back", 4));
    match bench.end(Side::Client, receive) {
        Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) => {
            assert_eq!(batch.payload(&batch.arrivals()[0]), b"back")
        }
        other => panic!("{other:?}"),
    }
    bench.finish();
}

/// Each datagram may bring a word back before the next one leaves: all leave, and none of it lasts.
pub fn a_batch_to_nobody_is_worked_off<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let nobody = nobody(&mut bench);
    let (client, _) = bench.bind_to(Side::Client, nobody.clone());
    let mut trains = Trains::new();
    (0..100).for_each(|_| assert!(trains.add_single(&nobody, None, 0, Segment::Static(b"lost"))));
    match bench.run(Side::Client, DatagramOp::Send { socket: client, trains }) {
        Outcome::Datagram(DatagramOutcome::Departed { datagrams: 100, refused: 0, calls, .. }) => {
            assert!(calls <= 200, "{calls} calls")
        }
        other => panic!("{other:?}"),
    }
    bench.settle();
    let receive = || Op::Datagram(DatagramOp::Receive { socket: client, into: Datagrams::new() });
    let told = bench.push(Side::Client, receive());
    hears_that_nobody_is_there(&mut bench, client, told, &nobody);
    let quiet = bench.push(Side::Client, receive());
    bench.settle();
    assert!(!bench.has_ended(Side::Client, quiet));
    bench.finish();
}

pub fn singles_to_one_peer_leave_in_one_call<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, from) = bench.bind_to(Side::Client, to.clone());
    let mut trains = Trains::new();
    (0..20u8).for_each(|number| {
        let copy = bench.rig.arena(Side::Client).copy_of(&[number; 100]).unwrap().share();
        assert!(trains.add_single(&to, None, 0, copy.into()));
    });
    match bench.run(Side::Client, DatagramOp::Send { socket: client, trains }) {
        Outcome::Datagram(DatagramOutcome::Departed { datagrams: 20, refused: 0, calls: 1, fault: None, .. }) => {}
        other => panic!("{other:?}"),
    }
    let found = bench.receive_datagrams(Side::Server, server, 20);
    assert!(found == (0..20u8).map(|number| (from.clone(), vec![number; 100])).collect::<Vec<_>>());
    bench.finish();
}
