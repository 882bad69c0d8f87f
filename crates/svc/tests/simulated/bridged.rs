//! Pairs between which the system passes bytes on by itself: as exact as what passes through the lane, and never idle while bytes pass.

use crate::for_seeds;
use crate::proxy::{Accepting, Bridging, Course, bridging_rig, exact, upstream};
use crate::rig::{Family, MS, Nobody, Rig, S, address, client, patient};
use corelane_sim::{FaultKind, Faults, Peer, Planted, Status, World};
use corelane_svc::Limits;
use corelane_watch::{LaneCounter as L, ServiceCounter as C};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Six clients, each of whose bytes come in pieces.
fn six(world: &World, seed: u64, faults: Faults) -> u64 {
    exact(world, seed, faults, Course { family: Family::Inet, limits: patient(), clients: 6, bytes: 60_000, pairs_max: 16 })
}

#[test]
fn both_ways_are_exact_and_most_bytes_are_passed_on() {
    let mut passed = 0;
    for_seeds(60, |seed| passed += six(&World::new(seed, Faults::none()), seed, Faults::none()));
    println!("{passed} bytes were passed on");
    assert!(passed > 60 * 6 * 60_000 / 4, "{passed}");
}

#[test]
fn both_ways_are_exact_under_every_fault() {
    let mut passed = 0;
    for_seeds(200, |seed| passed += six(&World::new(seed, Faults::all(seed)), seed, Faults::all(seed)));
    assert!(passed > 0);
}

#[test]
fn bytes_that_overtake_others_are_noticed() {
    let faults = Faults { late_completion: 300, ..Faults::none() };
    let is_noticed = |seed: u64| {
        let run = || {
            let world = World::new(seed, faults);
            world.plant(Planted::OvertakingBridge);
            six(&world, seed, faults)
        };
        catch_unwind(AssertUnwindSafe(run)).is_err()
    };
    assert!((0..20).any(is_noticed), "nothing noticed it in 20 seeds");
}

/// A client and the server that a proxy has connected it to.
fn pair(world: &World, limits: Limits, pairs_max: usize) -> (Bridging, Peer, Peer) {
    let way = upstream(world, Family::Inet);
    let mut bridging = bridging_rig(world, Family::Inet, limits, way, pairs_max);
    let rig = &mut bridging.rig;
    let one = world.connect(client(1), address()).unwrap();
    let mut accepting = Accepting(None);
    assert!(rig.play(&mut accepting));
    rig.wait(MS);
    (bridging, one, accepting.0.unwrap())
}

/// So many messages from one end, each with its answer.
fn exchange(rig: &mut Rig, [one, other]: [&Peer; 2], messages: usize) {
    for message in 0..messages {
        for (from, to) in [(one, other), (other, one)] {
            assert_eq!(from.send(&[message as u8; 64]), 64);
            rig.wait(MS);
            assert_eq!(to.read(usize::MAX), [message as u8; 64], "message {message}");
        }
    }
}

#[test]
fn a_pair_whose_bytes_nobody_sees_is_not_idle() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults::none());
        let (Bridging { mut rig, passed, .. }, one, other) = pair(&world, patient().idle_limit(S), 16);
        exchange(&mut rig, [&one, &other], 4);
        assert_eq!(rig.lane_count(L::PairsBridged), 1);
        for _ in 0..10 {
            rig.wait(800 * MS);
            exchange(&mut rig, [&one, &other], 1);
        }
        assert_eq!((one.status(), other.status()), (Status::Open, Status::Open));
        rig.wait(3 * S);
        assert_eq!((one.status(), other.status()), (Status::Ended, Status::Ended), "silence is idle");
        assert_eq!((rig.count(C::BytesIn), rig.count(C::BytesOut)), (28 * 64, 28 * 64), "what nobody sees is counted");
        assert_eq!(passed.get(), 28 * 64, "and its service is told");
        [one, other].iter().for_each(Peer::close);
        rig.close(&mut Nobody);
        assert_eq!(rig.lane_count(L::PairsBridged), 0);
    });
}

#[test]
fn bytes_pass_through_the_lane_where_the_system_refuses_or_there_is_no_room_for_a_pair() {
    let refused = Faults::none().with(FaultKind::RefusedBridge, 1_000);
    // One on each of two lanes.
    for (faults, pairs_max, bridged) in [(refused, 16, 0..=0), (Faults::none(), 1, 1..=2)] {
        let world = World::new(1, faults);
        let (Bridging { mut rig, .. }, one, other) = pair(&world, patient(), pairs_max);
        let mut ends = vec![[one, other]];
        for number in 2..8 {
            let one = world.connect(client(number), address()).unwrap();
            let mut accepting = Accepting(None);
            assert!(rig.play(&mut accepting));
            ends.push([one, accepting.0.unwrap()]);
            rig.wait(MS);
        }
        ends.iter().for_each(|[one, other]| exchange(&mut rig, [one, other], 4));
        assert!(bridged.contains(&rig.lane_count(L::PairsBridged)));
        assert!(rig.lane_count(L::BridgedPairsMaxHits) > 0);
        ends.iter().flatten().for_each(Peer::close);
        rig.wait(S);
        rig.close(&mut Nobody);
    }
}
