//! PROXY headers on simulated lanes: in pieces, under faults, before a transform and without one, from strangers, malformed, and never.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

#[path = "real/moved.rs"]
mod moved;

use corelane::admin::watch::ServiceCounter as C;
use corelane::service::{Limits, Passage, Peer, Progress, Segment, Side, Transform, TransformError};
use corelane::testing::{Faults, MS, Nobody, Rig, RigPlan, S, Talker, World, client, for_seeds, patient};
use corelane::{Cx, Input, Next, Output, Silent, StreamService};
use corelane_proxied::around;
use std::time::Duration;

/// Says who the peer is, where it has connected to, and what it has said.
struct Mirror;

impl StreamService for Mirror {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        let Some(end) = input.first().iter().position(|&byte| byte == b'\n') else {
            let bytes = input.len();
            return if input.contiguous(bytes).is_some_and(|text| text.contains(&b'\n')) {
                Next::Need(0)
            } else {
                Next::Continue
            };
        };
        let text = String::from_utf8(input.first()[..end].to_vec()).unwrap();
        let id = cx.id();
        let peer = cx.peer(id).unwrap();
        assert_eq!(cx.peer_address(id), Some(&peer.address));
        if writeln!(output, "{} {} {text}", peer.address, peer.local).is_err() {
            return Next::Continue;
        }
        input.skip(end + 1);
        cx.count_requests(1);
        Next::Close
    }
}

/// A transform to hand over to: each byte with another case.
struct Shout;

impl Transform for Shout {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        let Passage { received, input, output, wire, arena, .. } = passage;
        for (from, to) in [(received, input), (output, wire)] {
            while let Some(bytes) = from.front().and_then(Segment::bytes) {
                let Some(mut lease) = arena.lease(bytes.len()) else { return Ok(Progress::Idle) };
                lease
                    .append(&bytes.iter().map(|byte| byte ^ if byte.is_ascii_alphabetic() { 32 } else { 0 }).collect::<Vec<_>>());
                from.skip(lease.len());
                to.push(lease.share());
            }
        }
        passage.open();
        if passage.peer_finished {
            passage.end_input();
        }
        Ok(Progress::Idle)
    }
}

/// Lanes that believe these, with or without a transform behind the header.
fn rig(world: &World, from: &str, limits: Limits, has_inner: bool) -> Rig {
    let from = vec![from.parse().unwrap()];
    let make = move |side: Side, peer: &Peer| {
        let inner = Box::new(move |_: Side, _: &Peer| has_inner.then(|| Box::new(Shout) as Box<dyn Transform>));
        around(from.clone(), inner)(side, peer)
    };
    Rig::behind(world, &RigPlan::lanes(1), limits, |_| Mirror, make)
}

/// What a client hears that says this and finishes.
fn say(rig: &mut Rig, bytes: &[u8]) -> String {
    let mut talkers = vec![Talker::new(rig.connect(0), 1, bytes.to_vec())];
    assert!(rig.play(&mut talkers), "it waits for ever");
    String::from_utf8(talkers.remove(0).got).unwrap()
}

const V1: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n";
const V2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24 \x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x01\0\x02";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
const ALL: &str = "0.0.0.0/0";

#[test]
fn the_service_sees_whom_the_header_names_whatever_pieces_it_comes_in() {
    for_seeds(100, |seed| {
        for has_inner in [false, true] {
            let world = World::new(seed, Faults::all(seed));
            let mut rig = rig(&world, ALL, patient(), has_inner);
            let header = [V1, V2][seed as usize % 2];
            let mut due =
                ["192.0.2.1:56324 192.0.2.2:443 hello\n", "[2001:db8::1]:1 [::1]:2 hello\n"][seed as usize % 2].to_owned();
            let mut said = "hello\n".to_owned();
            if has_inner {
                [&mut due, &mut said].into_iter().for_each(|text| text.make_ascii_uppercase());
            }
            let mut talkers = vec![Talker::new(rig.connect(0), seed, [header, said.as_bytes()].concat())];
            rig.play(&mut talkers);
            let is_whole = talkers[0].is_complete();
            rig.close(&mut talkers);
            let got = String::from_utf8(talkers.remove(0).got).unwrap();
            assert!(got == due || !is_whole && due.starts_with(&got), "{got:?}");
        }
    });
}

#[test]
fn what_is_behind_the_header_is_handed_over() {
    let world = World::new(1, Faults::none());
    let mut plain = rig(&world, ALL, patient(), false);
    assert_eq!(say(&mut plain, &[V1, b"hello\n"].concat()), "192.0.2.1:56324 192.0.2.2:443 hello\n");
    assert_eq!(say(&mut plain, &[V2, b"hello\n"].concat()), "[2001:db8::1]:1 [::1]:2 hello\n");
    // As proxies call clients over IPv4 that listen with one socket for both.
    let mapped = b"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:192.0.2.2 7 8\r\nhello\n";
    assert_eq!(say(&mut plain, mapped), "192.0.2.1:7 192.0.2.2:8 hello\n");
    let half = b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 7 8\r\nhello\n";
    assert_eq!(say(&mut plain, half), "[::ffff:192.0.2.1]:7 [2001:db8::1]:8 hello\n");
    assert!(
        say(&mut plain, &[LOCAL, b"hello\n"].concat()).starts_with(&client(0).ip().to_string()),
        "the proxy speaks for itself"
    );
    assert_eq!((plain.count(C::Handshakes), plain.count(C::TransformRefusals)), (5, 0));
    let world = World::new(1, Faults::none());
    let mut veiled = rig(&world, ALL, patient(), true);
    assert_eq!(say(&mut veiled, &[V2, b"hello\n"].concat()), "[2001:DB8::1]:1 [::1]:2 hello\n");
}

#[test]
fn who_is_no_proxy_or_sends_no_header_is_refused() {
    for (from, text) in [("192.0.2.9", V1), (ALL, b"hello\n"), (ALL, b"PROXY TCP4 x\r\n"), ("192.0.2.9", b"hello\n")] {
        for has_inner in [false, true] {
            let world = World::new(1, Faults::none());
            let mut rig = rig(&world, from, patient(), has_inner);
            assert_eq!(say(&mut rig, &[text, b"hello\n"].concat()), "");
            assert_eq!([C::TransformRefusals, C::Handshakes, C::Requests].map(|counter| rig.count(counter)), [1, 0, 0]);
        }
    }
}

#[test]
fn a_header_that_never_comes_ends_its_connection() {
    let limits = patient().handshake_limit(Duration::from_secs(5));
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world, ALL, limits, false);
    let (silent, begun) = (rig.connect(0), rig.connect(1));
    rig.wait(MS);
    assert_eq!(begun.send(&V2[..20]), 20);
    rig.wait(4 * S);
    assert_eq!(rig.connections(), 2);
    rig.wait(10 * S);
    assert_eq!((rig.connections(), rig.count(C::HandshakesFailed)), (0, 2));
    drop((silent, begun));
    // And one that has ended before.
    assert_eq!(say(&mut rig, &V1[..20]), "");
    rig.play(&mut Nobody);
    assert_eq!(rig.connections(), 0);
}

#[test]
fn the_proxy_pays_for_the_connections_that_it_brings() {
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world, ALL, patient().connections_per_peer_max(2), false);
    let peers: Vec<_> = (0..3)
        .map(|number| {
            let peer = rig.connect(0);
            rig.wait(MS);
            let header = format!("PROXY TCP4 192.0.2.{number} 192.0.2.9 1 2\r\n");
            assert_eq!(peer.send(header.as_bytes()), if number < 2 { header.len() } else { 0 }, "the third is refused");
            peer
        })
        .collect();
    rig.wait(S);
    assert_eq!((rig.connections(), rig.count(C::Handshakes)), (2, 2));
    drop(peers);
}
