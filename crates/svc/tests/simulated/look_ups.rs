//! How often a request's entry is looked up: what was looked up once is handed on. A call into the service must let go of it, so an echo
//! takes four: for the receive, before the call, after it, and in the flush; and one more when the answer has left. So it does behind a transform,
//! which is called with what was looked up. Of a pair, the one that is asked takes those four. The other takes three: where the service writes to it,
//! where the first one's flush asks whether it has room, and in its own flush.

use crate::cipher::{Calls, DATA, Manner, REPLY, ciphers, hello};
use crate::echo::{Echo, pattern};
use crate::handshakes::{Hand, NONCE};
use crate::http::Files;
use crate::rig::{Nobody, Play, Rig, RigPlan, address, patient};
use crate::rpc::{IN_THE_CALL, Program, WITHOUT_TICKET};
use crate::veiled::{PLAIN, PROXY, Proxy};
use crate::{datagrams, rig};
use corelane_sim::{Faults, Peer, Turn, World};
use corelane_svc::{Limits, Side, StreamService};

/// The most look-ups in a turn in which a request arrives or is answered.
const A_TURN_MAX: u64 = 4;

fn serving<S: StreamService>(world: &World, limits: Limits, make: impl Fn() -> S) -> (Rig, Peer) {
    let mut rig = Rig::serving(world, &RigPlan::lanes(1), limits, |_| make());
    let peer = rig.connect(0);
    rig.wait(rig::MS);
    (rig, peer)
}

/// The same, at a port, where what is accepted is behind the test cipher if `is_ciphered`; the handshake is done.
fn serving_at<S: StreamService>(world: &World, port: u16, is_ciphered: bool, service: S, cast: &mut impl Play) -> (Rig, Hand) {
    let calls = Calls::default();
    let mut cipher = ciphers(|_, _| Manner::default(), &calls);
    let accepted = move |side, peer: &corelane_svc::Peer| {
        if is_ciphered && side == Side::Server { cipher(side, peer) } else { None }
    };
    let mut parts = Some((service, accepted));
    let mut rig = Rig::new(world, &RigPlan::lanes(1), |roster| {
        let (service, accepted) = parts.take().unwrap();
        roster.serve_behind(rig::at(port), patient(), service, accepted);
    });
    let mut hand = Hand::of(world.connect(rig::client(0), rig::at(port)).unwrap());
    rig.pass(rig::MS, cast);
    if is_ciphered {
        hand.peer.send(&hello(NONCE, "host-a", "echo/1"));
        rig.pass(5 * rig::MS, cast);
        let heard = hand.take();
        let [(REPLY, reply)] = &heard[..] else { panic!("a reply, not {heard:?}") };
        let proof = hand.agree(reply);
        hand.peer.send(&proof);
    }
    rig.pass(5 * rig::MS, cast);
    (rig, hand)
}

fn serving_behind<S: StreamService>(service: S) -> (Rig, Hand) {
    let world = World::new(1, Faults::none());
    world.write_file("/2", b"the file");
    serving_at(&world, PLAIN, true, service, &mut Nobody)
}

/// The look-ups of each turn from now until `is_answered`, and of the turns behind it until the world rests; turns without any are left out.
fn turns(rig: &mut Rig, mut is_answered: impl FnMut() -> bool) -> Vec<u64> {
    let mut turns = Vec::new();
    let mut answered = false;
    while let Some(step) = rig.world.step() {
        let Turn::Lane(lane) = step else { continue };
        let before = rig.look_ups();
        rig.turn(lane);
        turns.push(rig.look_ups() - before);
        answered = answered || is_answered();
        if answered && turns.last() == Some(&0) {
            break;
        }
    }
    assert!(answered || is_answered(), "the request is answered");
    turns.retain(|&look_ups| look_ups > 0);
    turns
}

/// The look-ups that the request takes, turn by turn, once the connection has had another one like it.
fn of_request(rig: &mut Rig, peer: &Peer, request: &[u8], answer: &[u8]) -> Vec<u64> {
    let mut of_one = || {
        assert_eq!(peer.send(request), request.len());
        let mut got = Vec::new();
        let look_ups = turns(rig, || {
            got.extend(peer.read(usize::MAX));
            got.len() >= answer.len()
        });
        assert_eq!(got, answer);
        look_ups
    };
    of_one();
    of_one()
}

/// The same of one behind the cipher.
fn of_ciphered(rig: &mut Rig, hand: &mut Hand, request: &[u8], answer: &[u8]) -> Vec<u64> {
    let mut of_one = || {
        let question = hand.data(request);
        assert_eq!(hand.peer.send(&question), question.len());
        let mut got = Vec::new();
        let look_ups = turns(rig, || {
            got.extend(hand.take().into_iter().flat_map(|(kind, bytes)| if kind == DATA { bytes } else { Vec::new() }));
            got.len() >= answer.len()
        });
        assert_eq!(got, answer);
        look_ups
    };
    of_one();
    of_one()
}

fn record(way: u8) -> Vec<u8> {
    let mut record = 37u32.to_be_bytes().to_vec();
    record.extend(1u32.to_be_bytes());
    record.push(way);
    record.extend(pattern(7, 32));
    record
}

#[test]
fn an_echoed_request_looks_its_connection_up_four_times() {
    for limits in [patient(), Limits::default()] {
        let world = World::new(1, Faults::none());
        let (mut rig, peer) = serving(&world, limits, || Echo);
        let bytes = pattern(1, 64);
        assert_eq!(of_request(&mut rig, &peer, &bytes, &bytes), [A_TURN_MAX, 1], "{limits:?}");
    }
}

#[test]
fn a_record_that_is_answered_in_the_call_looks_its_connection_up_four_times() {
    for way in [WITHOUT_TICKET, IN_THE_CALL] {
        let world = World::new(1, Faults::none());
        let (mut rig, peer) = serving(&world, patient(), Program::default);
        assert_eq!(of_request(&mut rig, &peer, &record(way), &record(way)), [A_TURN_MAX, 1], "way {way}");
    }
}

#[test]
fn sixteen_requests_at_once_look_their_connection_up_as_often_as_one() {
    let world = World::new(1, Faults::none());
    let (mut rig, peer) = serving(&world, patient(), Program::default);
    let records = record(WITHOUT_TICKET).repeat(16);
    assert_eq!(of_request(&mut rig, &peer, &records, &records), [A_TURN_MAX, 1]);
}

#[test]
fn a_held_request_for_a_file_looks_its_connection_up_at_most_four_times_in_each_turn() {
    for way in ["READ", "GET"] {
        let (question, answer) = (format!("{way} /2\n"), b"OK 8\nthe file");
        let world = World::new(1, Faults::none());
        world.write_file("/2", b"the file");
        let (mut rig, peer) = serving(&world, patient(), Files::default);
        let look_ups = of_request(&mut rig, &peer, question.as_bytes(), answer);
        assert!(look_ups.iter().all(|&look_ups| look_ups <= A_TURN_MAX), "{way}: {look_ups:?}");
        let (mut rig, mut hand) = serving_behind(Files::default());
        let look_ups = of_ciphered(&mut rig, &mut hand, question.as_bytes(), answer);
        assert!(look_ups.iter().all(|&look_ups| look_ups <= A_TURN_MAX), "{way} behind a cipher: {look_ups:?}");
    }
}

#[test]
fn a_request_behind_a_transform_looks_its_connection_up_as_often_as_one_in_plain() {
    let (mut rig, mut hand) = serving_behind(Echo);
    let bytes = pattern(1, 64);
    assert_eq!(of_ciphered(&mut rig, &mut hand, &bytes, &bytes), [A_TURN_MAX, 1]);
    let (mut rig, mut hand) = serving_behind(Program::default());
    assert_eq!(of_ciphered(&mut rig, &mut hand, &record(IN_THE_CALL), &record(IN_THE_CALL)), [A_TURN_MAX, 1]);
}

/// A proxy's server, which is played.
#[derive(Default)]
struct Upstream(Option<Peer>);

impl Play for Upstream {
    fn news(&mut self, _: &World, turn: Turn) {
        if let Turn::Incoming(peer) = turn {
            self.0 = Some(peer);
        }
    }

    fn is_over(&self) -> bool {
        self.0.is_some()
    }
}

/// The look-ups of each turn until `to` has all bytes.
fn of_passage(rig: &mut Rig, bytes: usize, mut read: impl FnMut() -> usize) -> Vec<u64> {
    let mut got = 0;
    turns(rig, || {
        got += read();
        got == bytes
    })
}

#[test]
fn what_is_passed_on_looks_each_of_a_pair_up_at_most_four_times_in_each_turn() {
    const ASKED_AND_OTHER: u64 = A_TURN_MAX + 3;
    for is_behind_cipher in [false, true] {
        let world = World::new(1, Faults::none());
        world.listen(rig::at(PLAIN)).unwrap();
        let mut upstream = Upstream::default();
        let proxy = Proxy { family: rig::Family::Inet };
        let (mut rig, mut hand) = serving_at(&world, PROXY, is_behind_cipher, proxy, &mut upstream);
        let server = upstream.0.expect("the proxy has called its server");
        for _ in 0..2 {
            let question = if is_behind_cipher { hand.data([7; 64]) } else { vec![7; 64] };
            hand.peer.send(&question);
            let there = of_passage(&mut rig, 64, || server.read(usize::MAX).len());
            server.send(&[8; 64]);
            let back = of_passage(&mut rig, if is_behind_cipher { 68 } else { 64 }, || hand.peer.read(usize::MAX).len());
            assert_eq!((&there[0], &back[0]), (&ASKED_AND_OTHER, &ASKED_AND_OTHER), "{there:?} {back:?}");
        }
    }
}

#[test]
fn a_datagram_looks_its_socket_up_three_times() {
    let world = World::new(1, Faults::none());
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        roster.serve_datagrams(address(), patient(), datagrams::Echo);
    });
    rig.wait(rig::MS);
    let peer = world.bind(rig::client(0)).unwrap();
    let mut of_one = || {
        peer.send(address(), b"question").unwrap();
        turns(&mut rig, || peer.receive().is_some())
    };
    of_one();
    let look_ups = of_one();
    assert!(look_ups.iter().all(|&look_ups| look_ups <= A_TURN_MAX) && look_ups[0] == 3, "{look_ups:?}");
}
