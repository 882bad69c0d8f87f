//! Connections that work: opening, receiving, sending, ending one side.

use crate::bench::{Bench, MEMORY, chain_of, copy_to_chain, lasting, pattern};
use crate::rig::{Rig, Side};
use corelane_seam::{
    Address, Chain, Fault, FileOp, FileOutcome, FilePart, Listen, Op, OpenOptions, Outcome, RECEIVES_PER_CYCLE, Reason, Segment,
    Shared, StreamOp, StreamOptions, StreamOutcome, Tuning, Wait,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

pub fn both_ends_know_both_addresses<R: Rig>() {
    let mut bench = Bench::<R>::new();
    for v6 in [false, true] {
        let address = if v6 { bench.rig.address_v6(Side::Server) } else { bench.rig.address(Side::Server) };
        let (listener, address) = bench.listen(Side::Server, address);
        assert_ne!(address.port(), 0);
        let accept = bench.push(Side::Server, StreamOp::Accept { listener });
        let connect = Op::Stream(StreamOp::Connect { to: address.clone(), from: None, options: StreamOptions::default() });
        let connected = bench.run(Side::Client, connect);
        let accepted = bench.next(Side::Server, accept);
        match (connected, accepted) {
            (
                Outcome::Stream(StreamOutcome::Connected { peer, local, .. }),
                Outcome::Stream(StreamOutcome::Accepted { peer: client, local: server, .. }),
            ) => {
                assert_eq!((peer, local), (address.clone(), client));
                assert_eq!(server, address);
            }
            other => panic!("{other:?}"),
        }
    }
    bench.finish();
}

pub fn a_connection_comes_from_the_address_that_was_chosen<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (listener, to) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let from = Some(bench.rig.address(Side::Client));
    let connected =
        bench.run(Side::Client, StreamOp::Connect { to, from: from.map(Address::Ip), options: StreamOptions::default() });
    let Outcome::Stream(StreamOutcome::Connected { local, .. }) = connected else { panic!("{connected:?}") };
    assert_eq!(Some(SocketAddr::new(local.ip().unwrap(), 0)), from);
    assert!(matches!(bench.next(Side::Server, accept), Outcome::Stream(StreamOutcome::Accepted { peer, .. }) if peer == local));
    bench.finish();
}

pub fn nobody_listens_and_the_connect_says_so<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (listener, to) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    bench.close(Side::Server, listener);
    let outcome = bench.run(Side::Client, StreamOp::Connect { to, from: None, options: StreamOptions::default() });
    assert!(matches!(outcome, Outcome::Failed(Fault { reason: Reason::Refused, .. })), "{outcome:?}");
    bench.finish();
}

pub fn an_address_in_use_is_refused<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (_, address) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let stream = StreamOptions::default();
    let again = Listen { address, backlog: 8, share_port: false, v6_only: false, stream };
    let refused = bench.driver(Side::Server).listen(&again).unwrap_err();
    assert_eq!(refused.reason, Reason::AddressInUse);
    bench.finish();
}

pub fn a_peer_over_ipv4_has_an_ipv4_address_on_any_listener<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let wildcard: Address = "[::]:0".parse().unwrap();
    let (listener, local) = bench.listen(Side::Server, wildcard);
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    for host in [bench.rig.address(Side::Server), bench.rig.address_v6(Side::Server)] {
        let to = SocketAddr::new(host.ip(), local.port());
        let connect =
            bench.push(Side::Client, StreamOp::Connect { to: to.into(), from: None, options: StreamOptions::default() });
        bench.end(Side::Client, connect);
        match bench.next(Side::Server, accept) {
            Outcome::Stream(StreamOutcome::Accepted { peer, local, .. }) => {
                assert_eq!((peer.is_ipv4(), local), (host.is_ipv4(), to.into()));
            }
            other => panic!("{other:?}"),
        }
    }
    bench.finish();
}

pub fn bytes_arrive_whether_the_receive_was_first_or_they_were<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let early = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    bench.settle();
    assert!(!bench.has_ended(Side::Server, early));
    bench.send_bytes(Side::Client, pipe.client, b"early");
    assert!(matches!(bench.end(Side::Server, early), Outcome::Stream(StreamOutcome::Received(bytes)) if *bytes == *b"early"));
    bench.send_bytes(Side::Client, pipe.client, b"late");
    bench.settle();
    assert_eq!(&*bench.receive(Side::Server, pipe.server), b"late");
    bench.finish();
}

pub fn arrived_bytes_are_counted_before_they_are_received<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    assert_eq!(bench.driver(Side::Server).readable_bytes(pipe.server), 0);
    bench.send_bytes(Side::Client, pipe.client, b"twelve bytes");
    bench.settle();
    bench.until_readable(Side::Server, pipe.server, 12);
    assert_eq!(bench.driver(Side::Server).readable_bytes(pipe.server), 12);
    bench.finish();
}

/// A send that goes through says nothing of the peer: what that has taken, the system knows.
pub fn what_the_peer_has_not_taken_is_known<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let untaken = |bench: &mut Bench<R>| bench.driver(Side::Server).unsent_bytes(pipe.server).unwrap();
    assert_eq!(untaken(&mut bench), 0);
    let (bytes, mut given) = (lasting(8 << 20), 0);
    // The peer's window takes some; more than that waits here.
    while untaken(&mut bench) == 0 {
        let outcome = bench.run(Side::Server, StreamOp::Send { socket: pipe.server, chain: chain_of(bytes) });
        let Outcome::Stream(StreamOutcome::Sent { bytes, fault: None, .. }) = outcome else { panic!("{outcome:?}") };
        given += bytes;
        bench.settle();
    }
    let before = untaken(&mut bench);
    assert!(before <= given, "{before} of {given} bytes");
    assert_eq!(bench.receive_all(Side::Client, pipe.client, given).len(), given);
    // The peer's system tells of it when it likes.
    while untaken(&mut bench) > 0 {
        bench.round();
    }
    bench.driver(Side::Server).finish(pipe.server);
    while untaken(&mut bench) > 0 {
        bench.round();
    }
    bench.finish();
}

pub fn a_receive_into_a_lease_keeps_its_data_and_its_bound<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    bench.send_bytes(Side::Client, pipe.client, b"0123456789");
    let mut lease = bench.rig.arena(Side::Server).copy_of(b"head:").unwrap();
    while lease.len() < 13 {
        let op = Op::Stream(StreamOp::ReceiveInto { socket: pipe.server, lease, until: 13 });
        lease = match bench.run(Side::Server, op) {
            Outcome::Stream(StreamOutcome::Filled { lease, fault: None }) => lease,
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(&*lease, b"head:01234567");
    assert_eq!(&*bench.receive_all(Side::Server, pipe.server, 2), b"89");
    bench.driver(Side::Client).finish(pipe.client);
    match bench.run(Side::Server, StreamOp::ReceiveInto { socket: pipe.server, lease, until: 200 }) {
        Outcome::Stream(StreamOutcome::Filled { lease, fault: None }) => assert_eq!(lease.len(), 13, "the end adds nothing"),
        other => panic!("{other:?}"),
    }
    bench.finish();
}

pub fn the_end_comes_behind_the_bytes_and_the_other_way_stays_open<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    bench.send_bytes(Side::Client, pipe.client, b"last words");
    bench.driver(Side::Client).finish(pipe.client);
    assert_eq!(bench.receive_all(Side::Server, pipe.server, 10), b"last words");
    for _ in 0..2 {
        let end = bench.run(Side::Server, StreamOp::Receive { socket: pipe.server });
        assert!(matches!(end, Outcome::Stream(StreamOutcome::EndOfStream)), "{end:?}");
    }
    bench.send_bytes(Side::Server, pipe.server, b"answer");
    assert_eq!(bench.receive_all(Side::Client, pipe.client, 6), b"answer");
    bench.finish();
}

pub fn an_end_that_comes_later_is_seen<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    bench.send_bytes(Side::Client, pipe.client, b"x");
    assert_eq!(&*bench.receive(Side::Server, pipe.server), b"x");
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    bench.settle();
    bench.driver(Side::Client).finish(pipe.client);
    assert!(matches!(bench.end(Side::Server, receive), Outcome::Stream(StreamOutcome::EndOfStream)));
    bench.finish();
}

pub fn many_segments_of_all_kinds_leave_in_order<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let path = bench.rig.path("segments");
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(true);
    let Outcome::File(FileOutcome::Opened { file, .. }) = bench.run(Side::Server, FileOp::Open { beneath: None, path, options })
    else {
        panic!("not opened")
    };
    let content = pattern(30_000);
    let bytes = bench.rig.arena(Side::Server).copy_of(&content).unwrap().share();
    assert!(matches!(
        bench.run(Side::Server, FileOp::Write { file: file.clone(), offset: 0, bytes }),
        Outcome::File(FileOutcome::Written { bytes: 30_000 })
    ));
    let (mut chain, mut expected) = (Chain::new(), Vec::new());
    for number in 0..300usize {
        let part = pattern(1 + number % 97);
        expected.extend_from_slice(&part);
        match number % 2 {
            0 => chain.push(bench.rig.arena(Side::Server).copy_of(&part).unwrap().share()),
            _ => chain.push(Segment::Static(lasting(part.len()))),
        }
        if number % 100 == 50 {
            chain.push(FilePart { file: file.clone(), offset: number as u64, length: 25_000 });
            expected.extend_from_slice(&content[number..number + 25_000]);
        }
    }
    let send = bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain });
    let mut found = bench.receive_all(Side::Client, pipe.client, 1);
    let rest = match bench.end(Side::Server, send) {
        Outcome::Stream(StreamOutcome::Sent { rest, fault: None, .. }) => rest,
        other => panic!("{other:?}"),
    };
    bench.send(Side::Server, pipe.server, rest);
    let left = expected.len() - found.len();
    found.extend(bench.receive_all(Side::Client, pipe.client, left));
    assert!(found == expected);
    assert!(matches!(bench.run(Side::Server, FileOp::Close { file: file.clone() }), Outcome::File(FileOutcome::Done)));
    bench.finish();
}

/// 10 MiB against a reader that first does not read.
pub fn a_slow_reader_gets_every_byte<R: Rig>() {
    const BYTES: usize = 10 << 20;
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let expected = lasting(BYTES);
    let mut chain = Chain::new();
    expected.chunks(100_000).for_each(|part| chain.push(Segment::Static(part)));
    let (mut found, mut operations) = (Vec::new(), 0);
    let mut send = bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain });
    let mut left = BYTES;
    // Until the system takes no more.
    loop {
        bench.settle();
        if !bench.has_ended(Side::Server, send) {
            break;
        }
        let rest = sent(bench.end(Side::Server, send), &mut left);
        operations += 1;
        assert!(left > 0, "nobody reads, so this cannot fit");
        send = bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain: rest });
    }
    while found.len() < BYTES {
        found.extend_from_slice(&bench.receive(Side::Client, pipe.client));
        if left > 0 && bench.has_ended(Side::Server, send) {
            let rest = sent(bench.end(Side::Server, send), &mut left);
            operations += 1;
            if left > 0 {
                send = bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain: rest });
            }
        }
    }
    assert!(operations > 1 && left == 0);
    assert!(found == *expected);
    bench.finish();
}

/// The rest of a send, of which `left` bytes had been left before.
fn sent(outcome: Outcome, left: &mut usize) -> Chain {
    match outcome {
        Outcome::Stream(StreamOutcome::Sent { bytes, rest, fault: None, .. }) => {
            assert!(bytes > 0 && bytes + rest.len() == *left, "a send that takes nothing goes on waiting");
            *left = rest.len();
            rest
        }
        other => panic!("{other:?}"),
    }
}

/// Both sides send 4 MiB and read at the same time.
pub fn both_ways_flow_at_once<R: Rig>() {
    const BYTES: usize = 4 << 20;
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let expected = lasting(BYTES);
    let sides = [Side::Server, Side::Client];
    let mut sends = sides.map(|side| Some(bench.push(side, StreamOp::Send { socket: pipe.of(side), chain: chain_of(expected) })));
    let mut receives = sides.map(|side| bench.push(side, StreamOp::Receive { socket: pipe.of(side) }));
    let (mut left, mut found) = ([BYTES; 2], [Vec::new(), Vec::new()]);
    while left != [0; 2] || found.iter().any(|found| found.len() < BYTES) {
        bench.round();
        for (index, side) in sides.into_iter().enumerate() {
            if let Some(send) = sends[index].filter(|&send| bench.has_ended(side, send)) {
                let chain = sent(bench.end(side, send), &mut left[index]);
                sends[index] = (left[index] > 0).then(|| bench.push(side, StreamOp::Send { socket: pipe.of(side), chain }));
            }
            if found[index].len() < BYTES && bench.has_ended(side, receives[index]) {
                let Outcome::Stream(StreamOutcome::Received(bytes)) = bench.end(side, receives[index]) else {
                    panic!("not received")
                };
                found[index].extend_from_slice(&bytes);
                if found[index].len() < BYTES {
                    receives[index] = bench.push(side, StreamOp::Receive { socket: pipe.of(side) });
                }
            }
        }
    }
    assert!(found.iter().all(|found| found == expected));
    bench.finish();
}

/// 60 connections, 40 requests each, several of them under way: all are answered, and the memory that cycles is bounded.
pub fn echoes_cycle_through_little_memory<R: Rig>() {
    const CONNECTIONS: usize = 60;
    const REQUESTS: usize = 40;
    let tuning = Tuning::default();
    let mut bench = Bench::<R>::new();
    let (listener, address) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let pipes: Vec<_> = (0..CONNECTIONS).map(|_| bench.join(accept, address.clone())).collect();
    let expected: Vec<_> = (0..CONNECTIONS).map(|number| lasting(REQUESTS * (50 + number))).collect();
    for (&(_, client), bytes) in pipes.iter().zip(&expected) {
        bench.push(Side::Client, StreamOp::Send { socket: client, chain: chain_of(bytes) });
    }
    let mut receives: Vec<_> = pipes.iter().map(|&(socket, _)| bench.push(Side::Server, StreamOp::Receive { socket })).collect();
    let mut echoed = [0; CONNECTIONS];
    while (0..CONNECTIONS).any(|number| echoed[number] < expected[number].len()) {
        bench.round();
        for (number, &(socket, _)) in pipes.iter().enumerate() {
            if echoed[number] < expected[number].len() && bench.has_ended(Side::Server, receives[number]) {
                let Outcome::Stream(StreamOutcome::Received(bytes)) = bench.end(Side::Server, receives[number]) else {
                    panic!("not received")
                };
                echoed[number] += bytes.len();
                let mut chain = Chain::new();
                chain.push(bytes);
                bench.push(Side::Server, StreamOp::Send { socket, chain });
                receives[number] = bench.push(Side::Server, StreamOp::Receive { socket });
            }
        }
    }
    for (number, &(_, client)) in pipes.iter().enumerate() {
        assert!(bench.receive_all(Side::Client, client, expected[number].len()) == *expected[number]);
    }
    let peak = bench.rig.arena(Side::Server).peak();
    assert!(peak <= (RECEIVES_PER_CYCLE + 2) * tuning.receive_bytes, "{peak}");
    bench.finish();
}

pub fn one_collect_hands_out_a_bounded_cycle<R: Rig>() {
    let tuning = Tuning::default();
    let mut bench = Bench::<R>::new();
    let (listener, address) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let pipes: Vec<_> = (0..30).map(|_| bench.join(accept, address.clone())).collect();
    pipes.iter().for_each(|&(_, client)| bench.send_bytes(Side::Client, client, b"one"));
    bench.settle();
    let receives: Vec<_> = pipes.iter().map(|&(socket, _)| bench.push(Side::Server, StreamOp::Receive { socket })).collect();
    let mut idle = 0;
    while receives.iter().any(|&receive| !bench.has_ended(Side::Server, receive)) {
        let before = bench.rig.arena(Side::Server).used();
        let found = bench.collect(Side::Server, Wait::No, usize::MAX);
        let taken = bench.rig.arena(Side::Server).used() - before;
        assert!(taken <= RECEIVES_PER_CYCLE * tuning.receive_bytes.next_power_of_two(), "{taken}");
        idle = if found == 0 { idle + 1 } else { 0 };
        assert!(idle < 1000, "30 receives have something to receive");
        if found == 0 {
            bench.rig.pass();
        }
    }
    bench.finish();
}

/// A connection has so much to receive, in small pieces, that there is always more; that keeps nobody else from being
/// accepted.
pub fn a_busy_connection_starves_nobody<R: Rig>() {
    const BYTES: usize = 60_000;
    let mut bench = Bench::<R>::with(Tuning::default().receive_bytes(256), MEMORY);
    let pipe = bench.pipe();
    let to = bench.driver(Side::Server).local_address(pipe.listener).unwrap();
    bench.send(Side::Client, pipe.client, chain_of(lasting(BYTES)));
    bench.settle();
    let connect = bench.push(Side::Client, StreamOp::Connect { to, from: None, options: StreamOptions::default() });
    for _ in 0..100_000 {
        bench.collect(Side::Client, Wait::No, 16);
        bench.rig.pass();
        if bench.has_ended(Side::Client, connect) {
            break;
        }
    }
    let (mut left, mut receive) = (BYTES, bench.push(Side::Server, StreamOp::Receive { socket: pipe.server }));
    for _ in 0..100_000 {
        if bench.has_outcome(Side::Server, pipe.accept) {
            break;
        }
        bench.collect(Side::Server, Wait::No, 1);
        bench.rig.pass();
        if bench.has_ended(Side::Server, receive) {
            let Outcome::Stream(StreamOutcome::Received(bytes)) = bench.end(Side::Server, receive) else {
                panic!("not received")
            };
            left -= bytes.len();
            assert!(left > 0, "all was received before the other was accepted");
            receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
        }
    }
    assert!(matches!(bench.next(Side::Server, pipe.accept), Outcome::Stream(StreamOutcome::Accepted { .. })));
    bench.finish();
}

/// Many connections have more to receive than a receive takes, time after time; somebody who asks for little waits for a few of them, not for a round of all.
pub fn a_short_question_waits_for_no_round_of_what_others_have_left<R: Rig>() {
    const BUSY: usize = 200;
    /// As many completions as a driver may take before it looks what has come, and some.
    const FEW: usize = 100;
    let mut bench = Bench::<R>::with(Tuning::default().receive_bytes(256), MEMORY);
    let (listener, address) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let (quiet, asks) = bench.join(accept, address.clone());
    let busy: Vec<_> = (0..BUSY).map(|_| bench.join(accept, address.clone())).collect();
    let question = bench.push(Side::Server, StreamOp::Receive { socket: quiet });
    busy.iter().for_each(|&(_, client)| bench.send_bytes(Side::Client, client, &[7; 20_000]));
    bench.settle();
    let mut receives: Vec<_> = busy.iter().map(|&(socket, _)| bench.push(Side::Server, StreamOp::Receive { socket })).collect();
    let mut served = 0;
    let mut asked_at = None;
    while !bench.has_ended(Side::Server, question) {
        bench.collect(Side::Server, Wait::No, 1);
        for (receive, &(socket, _)) in receives.iter_mut().zip(&busy) {
            if bench.has_ended(Side::Server, *receive) {
                served += 1;
                *receive = bench.push(Side::Server, StreamOp::Receive { socket });
            }
        }
        // Each of them has been served twice: what they have now was left.
        if served >= 2 * BUSY && asked_at.is_none() {
            asked_at = Some(served);
            bench.send_bytes(Side::Client, asks, b"one");
            bench.until_there(Side::Server, (quiet, question), 3);
        }
        let waited = served - asked_at.unwrap_or(served);
        assert!(waited < FEW, "{waited} others were served before it");
    }
    bench.finish();
}

/// More connections wait than one collect accepts.
pub fn all_that_wait_are_accepted_batch_by_batch<R: Rig>() {
    let mut bench = Bench::<R>::with(Tuning::default().accept_batch(2), MEMORY);
    let (listener, to) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    for _ in 0..7 {
        let connect = Op::Stream(StreamOp::Connect { to: to.clone(), from: None, options: StreamOptions::default() });
        assert!(matches!(bench.run(Side::Client, connect), Outcome::Stream(StreamOutcome::Connected { .. })));
    }
    bench.settle();
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    for _ in 0..7 {
        assert!(matches!(bench.next(Side::Server, accept), Outcome::Stream(StreamOutcome::Accepted { .. })));
    }
    bench.finish();
}

/// What is echoed as it came leaves in one segment: 65,483 bytes on the loopback interface.
pub fn what_one_receive_brings_leaves_in_one_segment<R: Rig>() {
    const BYTES: usize = 1 << 20;
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let send = bench.push(Side::Client, StreamOp::Send { socket: pipe.client, chain: chain_of(lasting(BYTES)) });
    bench.settle();
    let mut most = 0;
    for _ in 0..3 {
        most = most.max(bench.receive(Side::Server, pipe.server).len());
    }
    assert_eq!(most, 61_440, "as much as it may be");
    assert!(bench.has_ended(Side::Client, send));
    bench.finish();
}

pub fn a_question_on_a_connection_takes_one_wait_one_receive_and_one_send<R: Rig>() {
    const QUESTIONS: u64 = 300;
    let mut bench = Bench::<R>::new();
    let (listener, to) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let asker = std::thread::spawn(move || {
        let mut client = TcpStream::connect(to).unwrap();
        client.set_nodelay(true).unwrap();
        for number in 0..=1 + QUESTIONS {
            client.write_all(&number.to_ne_bytes()).unwrap();
            let mut answer = [0; 8];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(u64::from_ne_bytes(answer), number);
        }
        client
    });
    let Outcome::Stream(StreamOutcome::Accepted { socket, .. }) = bench.next(Side::Server, accept) else {
        panic!("not accepted")
    };
    let mut before = None;
    for number in 0..=1 + QUESTIONS {
        let receive = bench.push(Side::Server, StreamOp::Receive { socket });
        while !bench.has_ended(Side::Server, receive) {
            bench.collect(Side::Server, Wait::Forever, 64);
        }
        let Outcome::Stream(StreamOutcome::Received(bytes)) = bench.end(Side::Server, receive) else { panic!("not received") };
        let mut chain = Chain::new();
        chain.push(bytes);
        let send = bench.push(Side::Server, StreamOp::Send { socket, chain });
        bench.collect(Side::Server, Wait::Forever, 64);
        assert!(matches!(bench.end(Side::Server, send), Outcome::Stream(StreamOutcome::Sent { bytes: 8, fault: None, .. })));
        // It is watched when the driver has once found nothing, for the second question at the latest.
        if number == 1 {
            before = Some(bench.driver(Side::Server).counters());
        }
    }
    let _client = asker.join().unwrap();
    let (before, after) = (before.unwrap(), bench.driver(Side::Server).counters());
    // The kernel may tell once more of what comes while somebody looks (epoll(7)): seldom, and not with each question.
    let seldom = QUESTIONS / 20;
    let (waits, work) = (after.calls_wait - before.calls_wait, after.calls_work - before.calls_work);
    assert!((QUESTIONS..=QUESTIONS + seldom).contains(&waits) && work == 2 * QUESTIONS, "{waits} waits, {work} calls");
    bench.finish();
}

pub fn a_connection_that_asks_once_costs_no_wait<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (listener, to) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let mut client = TcpStream::connect(to).unwrap();
    client.write_all(b"question").unwrap();
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let Outcome::Stream(StreamOutcome::Accepted { socket, local, .. }) = bench.next(Side::Server, accept) else {
        panic!("not accepted")
    };
    assert_eq!(local.inet(), Some(client.peer_addr().unwrap()));
    let before = bench.driver(Side::Server).counters();
    let receive = bench.push(Side::Server, StreamOp::Receive { socket });
    bench.collect(Side::Server, Wait::No, 64);
    let Outcome::Stream(StreamOutcome::Received(bytes)) = bench.end(Side::Server, receive) else { panic!("not received") };
    let mut chain = Chain::new();
    chain.push(bytes);
    let send = bench.push(Side::Server, StreamOp::Send { socket, chain });
    let close = bench.push(Side::Server, Op::Close { socket, reset: false });
    bench.collect(Side::Server, Wait::No, 64);
    assert!(matches!(bench.end(Side::Server, send), Outcome::Stream(StreamOutcome::Sent { bytes: 8, fault: None, .. })));
    assert!(matches!(bench.end(Side::Server, close), Outcome::Closed));
    let after = bench.driver(Side::Server).counters();
    assert_eq!((after.calls_wait - before.calls_wait, after.calls_work - before.calls_work), (0, 3));
    bench.forget(Side::Server, socket);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"question");
    bench.finish();
}

/// Bytes that were received can be sent on, cut and kept, without being copied.
pub fn received_bytes_travel_on<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let greeting = copy_to_chain(&bench, Side::Client, b"keep|send");
    bench.send(Side::Client, pipe.client, greeting);
    let mut bytes = bench.receive(Side::Server, pipe.server);
    while bytes.len() < 9 {
        let mut chain = Chain::new();
        chain.push(bytes);
        chain.push(bench.receive(Side::Server, pipe.server));
        let mut whole = vec![0; chain.len()];
        chain.copy_to(&mut whole);
        bytes = bench.rig.arena(Side::Server).copy_of(&whole).unwrap().share();
    }
    let kept: Shared = bytes.split_to(5);
    let mut chain = Chain::new();
    chain.push(bytes);
    bench.send(Side::Server, pipe.server, chain);
    assert_eq!(bench.receive_all(Side::Client, pipe.client, 4), b"send");
    assert_eq!(&*kept, b"keep|");
    drop(kept);
    bench.finish();
}
