//! How often a request's entry is looked up: what was looked up once is handed on. A call into the service must let go of it, so an echo
//! takes four: for the receive, before the call, after it, and in the flush; and one more when the answer has left.

use crate::echo::{Echo, pattern};
use crate::http::Files;
use crate::rig::{Rig, RigPlan, address, patient};
use crate::rpc::{IN_THE_CALL, Program, WITHOUT_TICKET};
use crate::{datagrams, rig};
use corelane_sim::{Faults, Peer, Turn, World};
use corelane_svc::{Limits, StreamService};

/// The most look-ups in a turn in which a request arrives or is answered.
const A_TURN_MAX: u64 = 4;

fn serving<S: StreamService>(world: &World, limits: Limits, make: impl Fn() -> S) -> (Rig, Peer) {
    let mut rig = Rig::serving(world, &RigPlan::lanes(1), limits, |_| make());
    let peer = rig.connect(0);
    rig.wait(rig::MS);
    (rig, peer)
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
    let world = World::new(1, Faults::none());
    world.write_file("/2", b"the file");
    let (mut rig, peer) = serving(&world, patient(), Files::default);
    let look_ups = of_request(&mut rig, &peer, b"READ /2\n", b"OK 8\nthe file");
    assert!(look_ups.iter().all(|&look_ups| look_ups <= A_TURN_MAX), "{look_ups:?}");
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
