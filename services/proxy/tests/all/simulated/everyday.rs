//! What a proxy is for: bytes both ways, shared among upstreams.

use super::cast::{Accepting, Cast, Manner, SPOKEN, TRAILER, echoed, stream};
use super::{list, listen, proxied, upstream};
use corelane::admin::watch::ServiceCounter as C;
use corelane::testing::{Faults, MS, Nobody, RigPlan, S, Status, Talker, World, endings, for_seeds, patient};
use corelane_upstreams::{Balance, Check, Settings};
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn both_ways_are_exact_and_ends_are_passed_on() {
    for_seeds(60, |seed| {
        let world = World::new(seed, Faults::none());
        listen(&world, 3);
        let mut rig = proxied(&world, &RigPlan::lanes(2), patient(), &list(3), Settings::new());
        let talker = |number: usize| Talker::new(rig.connect(number), seed, stream(seed, number, 20_000));
        let manner = [Manner::Echoes, Manner::SpeaksFirst, Manner::IsSlow][seed as usize % 3];
        let mut cast = Cast::new((0..6).map(talker).collect(), move |_| manner);
        assert!(rig.play(&mut cast), "somebody waits for ever");
        cast.judge();
        let whole = if manner == Manner::SpeaksFirst { SPOKEN } else { 20_001 + TRAILER.len() };
        for talker in &cast.talkers {
            assert!(talker.is_complete() && talker.got.len() == whole, "{} of {whole}", talker.got.len());
        }
        assert!(cast.servers.iter().all(|server| server.heard.len() == 20_001));
        rig.close(&mut cast);
        assert_eq!((rig.count(C::EndingsEndOfStream), endings(&rig, 0)), (12, 12));
        // What was handed on was not copied.
        assert_eq!(rig.count(C::BytesForwarded), 6 * (20_001 + whole as u64));
    });
}

#[test]
fn clients_are_shared_by_weight() {
    let world = World::new(1, Faults::none());
    listen(&world, 2);
    let to = format!("{}*3,{}", upstream(1), upstream(2));
    let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), &to, Settings::new());
    let talkers = (0..40).map(|number| Talker::new(rig.connect(number), 1, stream(1, number, 10))).collect();
    let mut cast = Cast::new(talkers, |_| Manner::Echoes);
    assert!(rig.play(&mut cast));
    let mut counts = BTreeMap::new();
    cast.servers.iter().for_each(|server| *counts.entry(server.peer.local()).or_insert(0) += 1);
    assert_eq!(counts, [(upstream(1), 30), (upstream(2), 10)].into());
    rig.close(&mut cast);
}

#[test]
fn a_client_finds_the_same_upstream_again_by_its_address() {
    let world = World::new(1, Faults::none());
    listen(&world, 4);
    let settings = Settings { balance: Balance::Hash, ..Settings::new() };
    let mut rig = proxied(&world, &RigPlan::lanes(2), patient(), &list(4), settings);
    // Ten clients of ten addresses, four times.
    let talkers = (0..40).map(|number| Talker::new(rig.connect(number % 10), 1, stream(1, number, 10))).collect();
    let mut cast = Cast::new(talkers, |_| Manner::Echoes);
    assert!(rig.play(&mut cast));
    let mut found: BTreeMap<u8, Vec<_>> = BTreeMap::new();
    cast.servers.iter().for_each(|server| found.entry(server.heard[0] % 10).or_default().push(server.peer.local()));
    assert!(found.values().all(|places| places.len() == 4 && places.iter().all(|place| *place == places[0])), "{found:?}");
    let places: std::collections::BTreeSet<_> = found.values().map(|places| places[0]).collect();
    assert!(places.len() > 1, "not all find the same");
    rig.close(&mut cast);
}

#[test]
fn a_name_is_resolved_before_its_clients_are_served() {
    let world = World::new(1, Faults::none());
    listen(&world, 2);
    let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), "1-2.test:80", Settings::new());
    // They come before the first answer of the name server.
    let talkers = (0..4).map(|number| Talker::new(rig.connect(number), 1, stream(1, number, 10))).collect();
    let mut cast = Cast::new(talkers, |_| Manner::Echoes);
    assert!(rig.play(&mut cast));
    assert!(cast.talkers.iter().all(|talker| talker.got == echoed(&talker.to_send)));
    assert_eq!(cast.servers.iter().filter(|server| server.peer.local() == upstream(2)).count(), 2);
    assert_eq!((rig.named("upstreams"), rig.named("upstreams_in_rotation")), (2, 2));
    rig.close(&mut cast);
}

#[test]
fn a_client_that_finishes_before_its_upstream_has_come_is_served() {
    for_seeds(100, |seed| {
        let world = World::new(seed, Faults::none());
        // The first of the upstreams refuses.
        let refusing = seed as u8 % 3;
        (1 + refusing..=3).for_each(|number| world.listen(upstream(number)).unwrap());
        let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), &list(3), Settings::new());
        // All that it has to say, and its end, arrive together; or nothing but its end.
        let says = if seed % 2 == 0 { Vec::new() } else { stream(seed, 0, 5_000) };
        let mut talker = Talker::new(rig.connect(0), seed, says.clone());
        talker.piece_most = usize::MAX;
        let peer = talker.peer.clone();
        let mut cast = Cast::new(vec![talker], |_| Manner::Echoes);
        while says.is_empty() && peer.status() == Status::Opening {
            rig.pass(Duration::from_micros(1), &mut cast);
        }
        if says.is_empty() {
            peer.finish();
        }
        assert!(rig.play(&mut cast), "it waits for ever");
        assert_eq!(cast.talkers[0].got, echoed(&says));
        rig.close(&mut cast);
    });
}

#[test]
fn a_byte_in_one_direction_keeps_both_ends() {
    let world = World::new(1, Faults::none());
    listen(&world, 1);
    let limits = patient().idle_limit(10 * S);
    let mut rig = proxied(&world, &RigPlan::lanes(1), limits, &list(1), Settings::new());
    let client = rig.connect(0);
    let mut accepting = Accepting(None);
    assert!(rig.play(&mut accepting));
    let server = accepting.0.unwrap();
    for (from, to) in [(&server, &client), (&client, &server)] {
        for _ in 0..10 {
            rig.wait(6 * S);
            assert_eq!(from.send(b"x"), 1);
            rig.wait(MS);
            assert_eq!(to.read(10), b"x");
        }
    }
    rig.wait(9 * S);
    assert_eq!(rig.connections(), 2);
    rig.wait(2 * S);
    assert_eq!((client.status(), server.status()), (Status::Ended, Status::Ended), "none in either direction ends both");
    client.close();
    server.close();
    rig.close(&mut Nobody);
}

#[test]
fn a_drain_waits_for_no_check() {
    let world = World::new(1, Faults::none());
    listen(&world, 1);
    world.silence(upstream(1), true);
    let settings = Settings { check: Some(Check::every(S)), ..Settings::new() };
    let limits = patient().connect_limit(60 * S);
    let mut rig = proxied(&world, &RigPlan::lanes(1), limits, &list(1), settings);
    rig.wait(3 * S);
    assert_eq!(rig.connections(), 1, "a check is under way");
    let began = world.now();
    rig.drain(&mut Nobody);
    assert!(world.now() - began < S);
}
