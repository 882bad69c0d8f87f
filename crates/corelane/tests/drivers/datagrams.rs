//! Datagrams, one by one and in trains.

use crate::bench::{Bench, assert_cancelled, leaked, pattern};
use crate::child;
use crate::rig::{Rig, Side};
use corelane_seam::{Datagrams, Handle, Op, Outcome, Segment, Socket, Trains, Wait};
use std::net::SocketAddr;

/// One train, or one datagram if `size` is that of the payload.
fn train(to: SocketAddr, payload: &'static [u8], size: usize) -> Trains {
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
        let early = bench.push(Side::Server, Op::ReceiveDatagrams { socket: server, into: Datagrams::new() });
        assert_eq!(bench.send_trains(Side::Client, client, train(to, b"question", 8)), (1, 0));
        let Outcome::Arrived { batch, fault: None } = bench.end(Side::Server, early) else { panic!("not arrived") };
        let arrival = &batch.arrivals()[0];
        assert_eq!((arrival.peer, arrival.datagrams(), batch.payload(arrival)), (from, 1, &b"question"[..]));
        assert_eq!(arrival.asked, None, "the socket has one address only");
        let mut answer = Trains::new();
        assert!(answer.add(arrival.peer, None, 0, batch.share(arrival), 8));
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
    let bytes = leaked(pattern(20 * 500 + 123));
    let mut trains = Trains::new();
    for part in bytes.chunks(1500) {
        let copy = bench.rig.arena(Side::Client).copy_of(part).unwrap().share();
        assert!(trains.add(to, None, 0, copy.into(), 500));
    }
    assert_eq!(trains.trains().len(), 1);
    assert_eq!(bench.send_trains(Side::Client, client, trains), (21, 0));
    let found = bench.receive_datagrams(Side::Server, server, 21);
    let expected: Vec<_> = bytes.chunks(500).map(|datagram| (from, datagram.to_vec())).collect();
    assert!(found == expected);
    bench.finish();
}

pub fn empty_and_largest_datagrams_come_as_they_are<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, _) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    let largest = leaked(pattern(65_507));
    for payload in [&[], largest, &[7]] {
        assert_eq!(bench.send_trains(Side::Client, client, train(to, payload, payload.len())), (1, 0));
        let found = bench.receive_datagrams(Side::Server, server, 1);
        assert!(found[0].1 == payload, "{} bytes", payload.len());
    }
    bench.finish();
}

/// The wildcard address hears all; the answer comes from the address that was asked.
pub fn an_answer_comes_from_the_address_that_was_asked<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let wildcards = ["0.0.0.0:0", "[::]:0"].map(|address| address.parse().unwrap());
    for wildcard in wildcards {
        let (server, local) = bench.bind(Side::Server, wildcard);
        let mut asked = vec![(bench.rig.other_address(), bench.rig.address(Side::Client))];
        if wildcard.is_ipv6() {
            asked.push((bench.rig.address_v6(Side::Server), bench.rig.address_v6(Side::Client)));
        }
        for (asked, home) in asked {
            let to = SocketAddr::new(asked.ip(), local.port());
            let (client, from) = bench.bind(Side::Client, home);
            assert_eq!(bench.send_trains(Side::Client, client, train(to, b"who?", 4)), (1, 0));
            let batch = bench.receive_batch(Side::Server, server);
            let arrival = &batch.arrivals()[0];
            assert_eq!((arrival.peer, arrival.asked), (from, Some(asked.ip())));
            let mut answer = Trains::new();
            assert!(answer.add(from, arrival.asked, 0, Segment::Static(b"me"), 2));
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
            assert!(trains.add(to, None, 0, Segment::Static(&[0; 100][..number + 1]), number + 1));
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

/// What goes to a closed port is gone, and what may come back about it stops nothing.
pub fn a_datagram_to_nobody_stops_nothing<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (closed, nobody) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    bench.close(Side::Server, closed);
    let (server, to) = bench.bind(Side::Server, bench.rig.address(Side::Server));
    let (client, from) = bench.bind(Side::Client, bench.rig.address(Side::Client));
    for _ in 0..3 {
        assert_eq!(bench.send_trains(Side::Client, client, train(nobody, b"lost", 4)), (1, 0));
        bench.settle();
        assert_eq!(bench.send_trains(Side::Client, client, train(to, b"found", 5)), (1, 0));
        assert_eq!(bench.receive_datagrams(Side::Server, server, 1), [(from, b"found".to_vec())]);
        assert_eq!(bench.send_trains(Side::Server, server, train(from, b"back", 4)), (1, 0));
        assert_eq!(bench.receive_datagrams(Side::Client, client, 1), [(to, b"back".to_vec())]);
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
    for peer in [to, wrong_family, to] {
        let peer = SocketAddr::new(peer.ip(), to.port());
        assert!(trains.add(peer, None, 0, Segment::Static(&[1; 30]), 10));
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
        assert!(trains.add(to, None, 0, Segment::Static(&[5; 60_000]), 1200));
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
    let departure = blocked_departure(&mut bench, client, to);
    assert!(matches!(bench.end(Side::Client, departure), Outcome::Departed { datagrams: 1000, refused: 0, .. }));
    let departure = blocked_departure(&mut bench, client, to);
    bench.close(Side::Client, client);
    match bench.end(Side::Client, departure) {
        Outcome::Departed { datagrams, refused, .. } => assert!(refused > 0 && datagrams + refused == 1000),
        other => panic!("{other:?}"),
    }
    bench.finish();
}

/// A departure of 1000 datagrams that found the socket full.
fn blocked_departure<R: Rig>(bench: &mut Bench<R>, socket: Socket, to: SocketAddr) -> Handle {
    for _ in 0..100 {
        let mut trains = Trains::new();
        (0..20).for_each(|_| assert!(trains.add(to, None, 0, Segment::Static(&[5; 60_000]), 1200)));
        let departure = bench.push(Side::Client, Op::SendDatagrams { socket, trains });
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
    let receive = bench.push(Side::Server, Op::ReceiveDatagrams { socket: server, into: Datagrams::new() });
    bench.settle();
    bench.push(Side::Server, Op::StopReceive { socket: server });
    let outcome = bench.end(Side::Server, receive);
    assert_cancelled(&outcome);
    assert!(matches!(outcome, Outcome::Arrived { batch, .. } if batch.is_empty()));
    bench.send_trains(Side::Client, client, train(to, b"arrived", 7));
    bench.settle();
    let receive = bench.push(Side::Server, Op::ReceiveDatagrams { socket: server, into: Datagrams::new() });
    bench.push(Side::Server, Op::StopReceive { socket: server });
    let outcome = bench.end(Side::Server, receive);
    assert!(matches!(&outcome, Outcome::Arrived { batch, fault: None } if batch.arrivals()[0].bytes() == 7));
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
        let receive = bench.push(Side::Server, Op::ReceiveDatagrams { socket: server, into: batch });
        bench.settle();
        assert_eq!(bench.rig.arena(Side::Server).used(), 0, "waiting holds no memory");
        bench.send_trains(Side::Client, client, train(to, text, text.len()));
        batch = match bench.end(Side::Server, receive) {
            Outcome::Arrived { batch, fault: None } => batch,
            other => panic!("{other:?}"),
        };
        assert_eq!(batch.arrivals().len(), 1);
        assert_eq!(batch.payload(&batch.arrivals()[0]), text);
    }
    drop(batch);
    bench.finish();
}
