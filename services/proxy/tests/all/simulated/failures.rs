//! Upstreams that do not take what they are given, and clients that leave.

use super::cast::{Cast, Manner, echoed, stream};
use super::{behind, list, listen, named, proxied, upstream};
use corelane::admin::watch::ServiceCounter as C;
use corelane::service::Reason;
use corelane::testing::{Faults, MS, Nobody, Peer, Rig, RigPlan, S, Status, Talker, World, for_seeds, patient};
use corelane_proxy::Proxy;
use corelane_upstreams::{Check, Settings};
use std::num::NonZeroU32;
use std::time::Duration;

fn talkers(rig: &Rig, seed: u64, count: usize, bytes: usize) -> Vec<Talker> {
    (0..count).map(|number| Talker::new(rig.connect(number), seed, stream(seed, number, bytes))).collect()
}

fn is_reset(talker: &Talker) -> bool {
    matches!(talker.end, Some(Status::Failed(fault)) if fault.reason == Reason::Reset)
}

#[test]
fn an_upstream_that_refuses_costs_no_client() {
    for_seeds(100, |seed| {
        let world = World::new(seed, Faults::none());
        world.listen(upstream(2)).unwrap();
        let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), &list(3), Settings::new());
        let mut cast = Cast::new(talkers(&rig, seed, 12, 3_000), |_| Manner::Echoes);
        assert!(rig.play(&mut cast), "somebody waits for ever");
        assert!(cast.talkers.iter().all(|talker| talker.got == echoed(&talker.to_send)));
        assert_eq!(rig.named("retries"), rig.count(C::ConnectsFailed));
        rig.close(&mut cast);
        assert_eq!(rig.named("clients_turned_away"), 0);
    });
}

#[test]
fn one_that_refuses_is_left_out_and_comes_back() {
    let world = World::new(1, Faults::none());
    world.listen(upstream(2)).unwrap();
    let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), &list(2), Settings::new());
    let serve = |rig: &mut Rig, count: usize| {
        let mut cast = Cast::new(Vec::new(), |_| Manner::Echoes);
        // One behind the other, so that each sees what came of those before.
        for _ in 0..count {
            let number = cast.talkers.len();
            cast.talkers.push(Talker::new(rig.connect(number), 1, stream(1, number, 10)));
            assert!(rig.play(&mut cast));
        }
        cast.servers.iter().filter(|server| server.peer.local() == upstream(1)).count()
    };
    serve(&mut rig, 20);
    assert_eq!((rig.named("ejections"), rig.named("retries"), rig.named("upstreams_in_rotation")), (1, 5, 1));
    world.listen(upstream(1)).unwrap();
    assert_eq!(serve(&mut rig, 10), 0, "it is left out");
    rig.wait(10 * S);
    assert_eq!(serve(&mut rig, 10), 5, "it is tried again");
    rig.close(&mut Nobody);
}

#[test]
fn clients_are_turned_away_where_nobody_serves() {
    let world = World::new(1, Faults::none());
    let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), &list(2), Settings::new());
    let mut talkers = talkers(&rig, 1, 3, 1_000);
    assert!(rig.play(&mut talkers), "they are told at once");
    assert!(talkers.iter().all(is_reset), "an end in order would look like an answer");
    assert_eq!((rig.named("clients_turned_away"), rig.count(C::ConnectsFailed)), (3, 6));
    rig.close(&mut talkers);
}

#[test]
fn a_name_that_is_not_known_turns_clients_away() {
    let world = World::new(1, Faults::none());
    let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), "nobody.example:80", Settings::new());
    rig.wait(MS);
    let mut talkers = talkers(&rig, 1, 1, 10);
    assert!(rig.play(&mut talkers));
    assert!(is_reset(&talkers[0]) && rig.named("clients_turned_away") == 1);
    rig.close(&mut talkers);
}

#[test]
fn one_that_answers_nothing_is_given_up_in_time() {
    let world = World::new(1, Faults::none());
    listen(&world, 2);
    world.silence(upstream(1), true);
    let limits = patient().connect_limit(S);
    let mut rig = proxied(&world, &RigPlan::lanes(1), limits, &list(2), Settings::new());
    let began = world.now();
    let mut cast = Cast::new(talkers(&rig, 1, 2, 5_000), |_| Manner::Echoes);
    assert!(rig.play(&mut cast));
    assert!(cast.talkers.iter().all(|talker| talker.got == echoed(&talker.to_send)), "the other one has served both");
    assert!(world.now() - began < 2 * S && rig.named("retries") == 1);
    rig.close(&mut cast);
}

#[test]
fn ten_thousand_attempts_at_one_that_answers_nothing_end() {
    let world = World::new(1, Faults::none());
    listen(&world, 1);
    world.silence(upstream(1), true);
    let plan = RigPlan::lanes(1).connections_max(30_000);
    let settings = Settings { uses_max: NonZeroU32::new(20_000), ..Settings::new() };
    let mut rig = proxied(&world, &plan, patient().connect_limit(S), &list(1), settings);
    let mut clients = Vec::new();
    // No more at once than may wait to be accepted.
    for some in 0..10 {
        clients.extend((0..1_000).map(|number| rig.connect(some * 1_000 + number)));
        rig.wait(20 * MS);
    }
    assert_eq!((rig.connections(), rig.named("clients_turned_away"), rig.count(C::Accepts)), (20_000, 0, 10_000));
    assert!(rig.arenas[0].used() < 1 << 20, "who waits for an upstream, and has said nothing, holds no memory");
    rig.wait(3 * S);
    assert_eq!((rig.connections(), rig.named("clients_turned_away")), (0, 10_000));
    assert!(clients.iter().all(|client| matches!(client.status(), Status::Failed(_))));
    rig.close(&mut Nobody);
}

/// Its clients wait for it as long as they like, and more come than the lane has connections.
#[test]
fn one_that_is_silent_takes_its_part_of_the_connections_and_no_more() {
    let world = World::new(1, Faults::none());
    listen(&world, 2);
    world.silence(upstream(1), true);
    let limits = patient().connect_limit(20 * S).connections_max(80);
    let mut rig = proxied(&world, &RigPlan::lanes(1), limits, &list(2), Settings::new());
    let mut cast = Cast::new(Vec::new(), |_| Manner::Echoes);
    for number in 0..100 {
        cast.talkers.push(Talker::new(rig.connect(number), 1, stream(1, number, 10)));
        rig.pass(20 * MS, &mut cast);
    }
    let (served, waiting): (Vec<_>, Vec<_>) = cast.talkers.iter().partition(|talker| talker.is_over());
    assert!(served.iter().all(|talker| talker.got == echoed(&talker.to_send)));
    assert_eq!((waiting.len(), rig.named("clients_turned_away")), (20, 0), "the other one has taken the rest");
    cast.talkers.iter().filter(|talker| !talker.is_over()).for_each(|talker| talker.peer.reset());
    // A client that has sent its end is not asked for, so the limit ends it.
    rig.pass(30 * S, &mut cast);
    assert_eq!(rig.connections(), 0);
    rig.close(&mut Nobody);
}

#[test]
fn one_that_is_silent_and_alone_has_no_bound_unless_it_is_given_one() {
    let bounded = Settings { uses_max: NonZeroU32::new(20), ..Settings::new() };
    for (settings, expected) in [(Settings::new(), (60, 0)), (bounded, (40, 10))] {
        let world = World::new(1, Faults::none());
        listen(&world, 1);
        world.silence(upstream(1), true);
        let limits = patient().connect_limit(3_600 * S).connections_max(80);
        let mut rig = proxied(&world, &RigPlan::lanes(1), limits, &list(1), settings);
        let clients: Vec<_> = (0..30).map(|number| rig.connect(number)).collect();
        rig.wait(20 * MS);
        assert_eq!((rig.connections(), rig.named("clients_turned_away")), expected);
        clients.iter().for_each(Peer::reset);
        rig.close(&mut Nobody);
    }
}

#[test]
fn a_reset_is_passed_on_both_ways() {
    for_seeds(40, |seed| {
        let world = World::new(seed, Faults::none());
        listen(&world, 1);
        let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), &list(1), Settings::new());
        let by_server = seed % 2 == 0;
        let mut cast =
            Cast::new(talkers(&rig, seed, 2, 500_000), move |_| if by_server { Manner::Resets(10_000) } else { Manner::IsSlow });
        if !by_server {
            cast.break_off(&world, 0, 3 * MS);
            cast.break_off(&world, 1, 5 * MS);
        }
        assert!(rig.play(&mut cast), "somebody waits for ever");
        cast.judge();
        if by_server {
            assert!(cast.talkers.iter().all(is_reset), "a client takes a reset for an end");
        } else {
            let failed = |peer: &corelane::testing::Peer| matches!(peer.status(), Status::Failed(_));
            assert!(cast.servers.iter().all(|server| failed(&server.peer) || server.is_over), "a server does not hear of it");
        }
        rig.close(&mut cast);
        assert_eq!(rig.count(C::EndingsEndOfStream), 0);
    });
}

#[test]
fn a_client_that_leaves_while_its_upstream_is_awaited_leaves_nothing() {
    for_seeds(300, |seed| {
        let world = World::new(seed, Faults::none());
        listen(&world, 1);
        world.silence(upstream(1), seed % 3 == 0);
        let limits = patient().connect_limit(S).linger_limit(S / 2);
        let mut rig = proxied(&world, &RigPlan::lanes(1), limits, &list(1), Settings::new());
        let client = rig.connect(0);
        let mut cast = Cast::new(Vec::new(), |_| Manner::Echoes);
        while client.status() == Status::Opening {
            rig.pass(Duration::from_micros(1), &mut cast);
        }
        rig.pass(Duration::from_micros(10 * (seed % 30)), &mut cast);
        match seed % 2 {
            0 => client.reset(),
            _ => client.close(),
        }
        rig.pass(5 * S, &mut cast);
        assert_eq!(rig.connections(), 0);
        rig.close(&mut cast);
    });
}

#[test]
fn a_client_that_leaves_before_names_are_resolved_keeps_no_place() {
    let mut tried = 0;
    for seed in 0..400 {
        let world = World::new(seed, Faults::none());
        listen(&world, 1);
        let behind = behind("1.test:80", Settings::new());
        let make = |lane| Proxy::new(&behind, lane).resolving(named).early_max(1);
        let mut rig = Rig::serving(&world, &RigPlan::lanes(1), patient(), make);
        let mut cast = Cast::new(Vec::new(), |_| Manner::Echoes);
        let first = rig.connect(0);
        let is_resolved = |rig: &Rig| rig.named("upstreams_in_rotation") > 0;
        let pass_until = |rig: &mut Rig, cast: &mut Cast, connections: usize| {
            for _ in 0..2_000 {
                if is_resolved(rig) || rig.connections() == connections {
                    return;
                }
                rig.pass(Duration::from_micros(1), cast);
            }
        };
        pass_until(&mut rig, &mut cast, 1);
        if is_resolved(&rig) || first.status() == Status::Opening {
            continue;
        }
        first.reset();
        pass_until(&mut rig, &mut cast, 0);
        if is_resolved(&rig) || rig.connections() > 0 {
            continue;
        }
        cast.talkers.push(Talker::new(rig.connect(1), seed, stream(seed, 0, 10)));
        pass_until(&mut rig, &mut cast, 1);
        tried += u32::from(!is_resolved(&rig));
        assert!(rig.play(&mut cast));
        assert_eq!((rig.named("clients_turned_away"), cast.talkers[0].got == echoed(&cast.talkers[0].to_send)), (0, true));
        rig.close(&mut cast);
    }
    assert!(tried > 0, "a name was never resolved later than a client had come and gone");
}

#[test]
fn no_more_clients_wait_for_names_than_may() {
    let mut tried = 0;
    for seed in 0..100 {
        let world = World::new(seed, Faults::none());
        listen(&world, 1);
        let behind = behind("1.test:80", Settings::new());
        let make = |lane| Proxy::new(&behind, lane).resolving(named).early_max(1);
        let mut rig = Rig::serving(&world, &RigPlan::lanes(1), patient(), make);
        let peers = [rig.connect(0), rig.connect(1)];
        let is_resolved = |rig: &Rig| rig.named("upstreams_in_rotation") > 0;
        for _ in 0..2_000 {
            if is_resolved(&rig) || rig.named("clients_turned_away") > 0 {
                break;
            }
            rig.pass(Duration::from_micros(1), &mut Nobody);
        }
        tried += usize::from(!is_resolved(&rig));
        assert!(is_resolved(&rig) || rig.named("clients_turned_away") == 1, "one waits, and the other is turned away");
        peers.iter().for_each(Peer::reset);
        rig.close(&mut Nobody);
    }
    assert!(tried > 0, "a name was never resolved later than two clients had come");
}

#[test]
fn a_client_that_makes_an_upstream_fail_takes_it_from_nobody() {
    let world = World::new(1, Faults::none());
    listen(&world, 2);
    let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), &list(2), Settings::new());
    // Whoever says much has its connection reset before the first byte of an answer.
    let mut cast = Cast::new(Vec::new(), |_| Manner::Echoes);
    for number in 1..=4 {
        cast.talkers.push(Talker::new(rig.connect(number), 1, stream(1, number - 1, 10)));
        assert!(rig.play(&mut cast));
    }
    let mut faulty = Cast::new(Vec::new(), |_| Manner::Resets(1));
    for number in 0..40 {
        faulty.talkers.push(Talker::new(rig.connect(9), 1, stream(1, number, 10)));
        assert!(rig.play(&mut faulty));
    }
    assert_eq!((rig.named("ejections"), rig.named("upstreams_in_rotation")), (0, 2));
    // Others meet the same: it is the upstream.
    for number in 40..50 {
        faulty.talkers.push(Talker::new(rig.connect(8), 1, stream(1, number, 10)));
        assert!(rig.play(&mut faulty));
    }
    assert_eq!(rig.named("ejections"), 1);
    rig.close(&mut Nobody);
}

#[test]
fn checks_find_who_is_down_and_up_before_clients_do() {
    let world = World::new(1, Faults::none());
    listen(&world, 2);
    world.silence(upstream(2), true);
    let settings = Settings { check: Some(Check::every(S)), ..Settings::new() };
    let limits = patient().connect_limit(S / 2);
    let mut rig = proxied(&world, &RigPlan::lanes(1), limits, &list(2), settings);
    let mut cast = Cast::new(Vec::new(), |_| Manner::Closes(0));
    rig.pass(8 * S, &mut cast);
    assert_eq!(rig.named("upstreams_in_rotation"), 1);
    world.silence(upstream(2), false);
    world.stop_listening(upstream(1));
    rig.pass(8 * S, &mut cast);
    assert_eq!(rig.named("upstreams_in_rotation"), 1);
    let mut cast = Cast::new(talkers(&rig, 1, 4, 100), |_| Manner::Echoes);
    while !cast.talkers.iter().all(Talker::is_over) {
        rig.pass(MS, &mut cast);
    }
    assert!(cast.talkers.iter().all(|talker| talker.got == echoed(&talker.to_send)));
    assert_eq!((rig.named("retries"), rig.named("clients_turned_away")), (0, 0));
    world.stop_listening(upstream(2));
    rig.pass(8 * S, &mut cast);
    assert_eq!(rig.named("upstreams_in_rotation"), 0);
    let mut late = talkers(&rig, 2, 1, 100);
    assert!(rig.play(&mut late));
    assert_eq!(rig.named("clients_turned_away"), 1, "those that are down are tried by no client");
    rig.close(&mut Nobody);
}
