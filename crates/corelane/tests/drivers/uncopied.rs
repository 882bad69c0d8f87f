//! Sends that the system reads from where they lie: their end and their release are two events, and nobody gets the memory between them.

use crate::bench::{Bench, chain_of, pattern};
use crate::rig::{Rig, Side};
use corelane_seam::{Chain, Fault, Handle, Op, Outcome, Reason, Socket, StreamOp, StreamOutcome, Tuning, Unix};

/// Sends of so many bytes and more leave uncopied.
const LEAST: usize = 16 << 10;
/// Memory of each driver: little, so that what is given back is used again at once.
const MEMORY: usize = 4 << 20;
/// More than the other end has room for as long as nobody reads.
const MUCH: usize = 1 << 20;

fn bench<R: Rig>() -> Bench<R> {
    Bench::with(Tuning::default().zero_copy_bytes(LEAST).zero_copy_always(true), MEMORY)
}

/// Bytes as a chain of blocks of 64 KiB of the server's memory.
fn blocks<R: Rig>(bench: &Bench<R>, bytes: &[u8]) -> Chain {
    let mut chain = Chain::new();
    for part in bytes.chunks(64 << 10) {
        chain.push(bench.rig.arena(Side::Server).copy_of(part).unwrap().share());
    }
    chain
}

/// Has the server send all of it, as much at a time as goes, while `meanwhile` is done in each round; returns the sends.
fn send_all<R: Rig>(bench: &mut Bench<R>, socket: Socket, chain: Chain, mut meanwhile: impl FnMut(&mut Bench<R>)) -> Vec<Handle> {
    let (mut left, mut sends) = (chain, Vec::new());
    while !left.is_empty() {
        let send = bench.push(Side::Server, StreamOp::Send { socket, chain: left });
        sends.push(send);
        while !bench.has_ended(Side::Server, send) {
            bench.round();
            meanwhile(bench);
        }
        left = match bench.end(Side::Server, send) {
            Outcome::Stream(StreamOutcome::Sent { rest, fault: None, .. }) => rest,
            other => panic!("{other:?}"),
        };
    }
    sends
}

fn used<R: Rig>(bench: &Bench<R>) -> usize {
    bench.rig.arena(Side::Server).used()
}

pub fn a_large_send_is_released_behind_its_end<R: Rig>() {
    let mut bench = bench::<R>();
    let pipe = bench.pipe();
    let expected = pattern(4 * LEAST);
    let chain = blocks(&bench, &expected);
    let sends = send_all(&mut bench, pipe.server, chain, |_| {});
    assert!(bench.is_unreleased(Side::Server, sends[0]) && used(&bench) >= expected.len(), "what it sent stays as it is");
    assert_eq!(bench.receive_all(Side::Client, pipe.client, expected.len()), expected);
    bench.until(|bench| !bench.is_unreleased(Side::Server, sends[0]));
    bench.until(|bench| used(bench) == 0);
    assert!(bench.driver(Side::Server).counters().sends.copied_anyway > 0, "on one machine the system copies in the end");
    bench.finish();
}

pub fn a_short_send_is_copied_and_released_at_once<R: Rig>() {
    let mut bench = bench::<R>();
    let pipe = bench.pipe();
    let chain = blocks(&bench, &pattern(LEAST - 1));
    let sends = send_all(&mut bench, pipe.server, chain, |_| {});
    assert!(!bench.is_unreleased(Side::Server, sends[0]) && used(&bench) == 0);
    assert_eq!(bench.receive_all(Side::Client, pipe.client, LEAST - 1), pattern(LEAST - 1));
    bench.finish();
}

/// All memory that is free is written to, time and again, while a reader does not read: what it reads later is what was sent.
pub fn memory_is_used_again_only_when_it_is_released<R: Rig>() {
    let mut bench = bench::<R>();
    let pipe = bench.pipe();
    let expected = pattern(MUCH);
    let overwrite = |bench: &mut Bench<R>| {
        let arena = bench.rig.arena(Side::Server);
        let mut free: Vec<_> = std::iter::from_fn(|| arena.lease_or_none(64 << 10)).collect();
        free.iter_mut().for_each(|lease| lease.spare().fill(0xee));
    };
    let chain = blocks(&bench, &expected);
    let sends = send_all(&mut bench, pipe.server, chain, overwrite);
    for _ in 0..50 {
        bench.round();
        overwrite(&mut bench);
    }
    assert!(sends.iter().any(|&send| bench.is_unreleased(Side::Server, send)), "the reader has no room for so much");
    let mut found = Vec::new();
    while found.len() < expected.len() {
        found.extend_from_slice(&bench.receive(Side::Client, pipe.client));
        overwrite(&mut bench);
    }
    assert!(found == expected, "no byte was changed before it was read");
    bench.until(|bench| used(bench) == 0);
    bench.finish();
}

pub fn sends_in_flight_are_released_in_their_order<R: Rig>() {
    let mut bench = bench::<R>();
    let pipe = bench.pipe();
    let expected = pattern(MUCH);
    let mut sends = Vec::new();
    for part in expected.chunks(2 * LEAST) {
        let chain = blocks(&bench, part);
        sends.extend(send_all(&mut bench, pipe.server, chain, |_| {}));
    }
    let unreleased = sends.iter().filter(|&&send| bench.is_unreleased(Side::Server, send)).count();
    assert!(unreleased > 1, "{unreleased} of {} are in flight", sends.len());
    assert_eq!(bench.receive_all(Side::Client, pipe.client, expected.len()), expected);
    bench.until(|bench| used(bench) == 0);
    let released = bench.released(Side::Server);
    let places: Vec<_> = released.iter().map(|handle| sends.iter().position(|send| send == handle).unwrap()).collect();
    assert!(places.is_sorted() && places.len() >= unreleased, "{places:?}");
    bench.finish();
}

/// A peer that reads later gets all that was sent, though the connection is closed; the close ends behind the last release.
pub fn a_close_waits_for_what_the_system_reads_and_loses_nothing<R: Rig>() {
    let mut bench = bench::<R>();
    let pipe = bench.pipe();
    let expected = pattern(MUCH);
    let chain = blocks(&bench, &expected);
    let sends = send_all(&mut bench, pipe.server, chain, |_| {});
    let close = bench.push(Side::Server, Op::Close { socket: pipe.server, reset: false });
    bench.forget(Side::Server, pipe.server);
    bench.settle();
    assert!(!bench.has_ended(Side::Server, close) && used(&bench) > 0, "the reader has not read");
    assert_eq!(bench.receive_all(Side::Client, pipe.client, expected.len()), expected);
    let end = bench.run(Side::Client, StreamOp::Receive { socket: pipe.client });
    assert!(matches!(end, Outcome::Stream(StreamOutcome::EndOfStream)), "{end:?}");
    bench.until(|bench| bench.has_ended(Side::Server, close));
    assert!(sends.iter().all(|&send| !bench.is_unreleased(Side::Server, send)), "it is told of every release before");
    assert_eq!(used(&bench), 0);
    assert!(matches!(bench.end(Side::Server, close), Outcome::Closed));
    bench.finish();
}

pub fn a_reset_gives_back_what_nobody_reads<R: Rig>() {
    let mut bench = bench::<R>();
    let pipe = bench.pipe();
    let chain = blocks(&bench, &pattern(MUCH));
    let sends = send_all(&mut bench, pipe.server, chain, |_| {});
    assert!(sends.iter().any(|&send| bench.is_unreleased(Side::Server, send)));
    let close = bench.push(Side::Server, Op::Close { socket: pipe.server, reset: true });
    bench.forget(Side::Server, pipe.server);
    bench.until(|bench| bench.has_ended(Side::Server, close));
    assert!(sends.iter().all(|&send| !bench.is_unreleased(Side::Server, send)));
    assert_eq!(used(&bench), 0);
    let end = loop {
        match bench.run(Side::Client, StreamOp::Receive { socket: pipe.client }) {
            Outcome::Stream(StreamOutcome::Received(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(end, Outcome::Failed(Fault { reason: Reason::Reset, .. })), "{end:?}");
    bench.finish();
}

pub fn a_driver_may_go_while_the_system_reads_its_memory<R: Rig>() {
    let mut bench = bench::<R>();
    let (first, second) = (bench.pipe(), bench.pipe());
    for pipe in [&first, &second] {
        let chain = blocks(&bench, &pattern(MUCH));
        send_all(&mut bench, pipe.server, chain, |_| {});
    }
    bench.push(Side::Server, Op::Close { socket: second.server, reset: false });
    bench.settle();
    assert!(used(&bench) > 0);
    assert_eq!(bench.abandon().map(|arena| arena.used()), [0, 0]);
}

/// A Unix socket has no such sends: its bytes are copied as ever.
pub fn where_the_system_cannot_a_large_send_is_copied<R: Rig>() {
    let mut bench = bench::<R>();
    let name = Unix::hidden(bench.rig.path("uncopied").as_os_str().as_encoded_bytes()).unwrap();
    let (listener, address) = bench.listen(Side::Server, name);
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let (server, client) = bench.join(accept, address);
    let expected = pattern(2 * LEAST);
    let chain = blocks(&bench, &expected);
    let sends = send_all(&mut bench, server, chain, |_| {});
    assert!(!bench.is_unreleased(Side::Server, sends[0]) && used(&bench) == 0);
    assert_eq!(bench.receive_all(Side::Client, client, expected.len()), expected);
    bench.send(Side::Client, client, chain_of(b"and back"));
    assert_eq!(bench.receive_all(Side::Server, server, 8), b"and back");
    bench.finish();
}
