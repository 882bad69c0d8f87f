//! What clients of the shop ask, with everything between them and it sent on: each request is answered as the shop itself answers it.

use super::{FOR_EVER, forwarding};
use crate::simulated::everyday::{CLIENTS, judge, questions, tight};
use crate::simulated::for_seeds;
use crate::simulated::rig::{MS, Nobody, Rig, RigPlan, S, Talker, patient};
use crate::simulated::shop::Shop;
use corelane::admin::watch::{LaneCounter, ServiceCounter as C};
use corelane::testing::{Faults, Random, World};
use corelane_http::Http;
use std::collections::BTreeSet;

fn shop(world: &World, lanes: usize, random: &mut Random) -> Rig {
    let plan = RigPlan::lanes(lanes).memory(16 << 20);
    forwarding(
        world,
        &plan,
        (tight(random), patient()),
        |forward| forward.timeout(FOR_EVER).kept(2),
        |_| Http::new(Shop::default()),
    )
}

fn run(seed: u64, faults: Faults) {
    let world = World::new(seed, faults);
    let mut random = Random::new(seed);
    let lanes = random.one_to(2);
    let mut rig = shop(&world, lanes, &mut random);
    let (all, streams): (Vec<_>, Vec<_>) = (0..CLIENTS).map(|number| questions(seed * 100 + number)).unzip();
    let talker = |(number, stream)| {
        let mut talker = Talker::new(rig.connect(number), seed, stream);
        if seed.is_multiple_of(3) {
            talker.read_most = 1 + seed as usize % 5_000;
        }
        talker
    };
    let mut talkers: Vec<Talker> = streams.into_iter().enumerate().map(talker).collect();
    let drains_early = seed.is_multiple_of(5);
    match drains_early {
        true => rig.pass(random.time_below(20 * MS), &mut talkers),
        false => assert!(rig.play(&mut talkers), "clients wait for ever"),
    }
    rig.close(&mut talkers);
    let is_calm = faults == Faults::none() && !drains_early;
    for (talker, questions) in talkers.iter().zip(&all) {
        judge(questions, talker, talker.is_complete() && !drains_early, !is_calm);
        assert!(talker.is_complete() || !is_calm, "{:?}", talker.end);
    }
    assert_eq!(["panics", "heads_refused", "contents_refused"].map(|counter| rig.named(counter)), [0; 3]);
    if is_calm {
        let requests = all.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!((rig.count(C::Requests), rig.count(C::AnswersLate)), (requests, 0));
        assert_eq!(rig.named("answers_2xx") + rig.named("answers_4xx"), requests, "no answer is 503 where nothing is short");
        assert_eq!(rig.named("answers_cut_short"), 0);
    }
}

#[test]
fn every_request_that_is_sent_on_is_answered_once_and_in_order() {
    for_seeds(100, |seed| run(seed, Faults::none()));
}

#[test]
fn every_request_that_is_sent_on_is_answered_or_the_ending_explains_it_under_every_fault() {
    for_seeds(200, |seed| run(seed, Faults::all(seed)));
}

/// A connection that was another client's before is paid for by the one whose request it carries now.
#[test]
fn who_uses_a_connection_again_pays_for_what_comes_on_it() {
    let world = World::new(1, Faults::none());
    let plan = RigPlan::lanes(1).memory(64 << 20);
    let mut rig =
        forwarding(&world, &plan, (patient(), patient()), |forward| forward.timeout(FOR_EVER), |_| Http::new(Shop::default()));
    let ask = |rig: &mut Rig, client: usize, bytes: usize| {
        let peer = rig.connect(client);
        rig.wait(MS);
        peer.send(format!("GET /flood/{bytes} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        rig.wait(S);
        peer
    };
    let first = ask(&mut rig, 1, 10);
    assert!(first.read(usize::MAX).starts_with(b"HTTP/1.1 200 OK\r\n"));
    let floods = [ask(&mut rig, 2, 1_000_000_000), ask(&mut rig, 2, 1_000_000_000)];
    assert_eq!(rig.named("forwards_reused"), 1);
    // The second one, for that which was the first's and for its own; and the server behind, which is of the same lane.
    let peers: BTreeSet<_> = rig.arenas[0].holders().iter().map(|holder| holder.peer).collect();
    assert_eq!(peers.len(), 2);
    floods.iter().chain([&first]).for_each(|peer| peer.reset());
    rig.wait(5 * MS);
    rig.close(&mut Nobody);
}

/// A slow client stops its upstream: of each answer little waits on its way.
#[test]
fn who_reads_nothing_holds_little() {
    const READERS: usize = 4;
    let world = World::new(1, Faults::none());
    let plan = RigPlan::lanes(1).memory(64 << 20);
    let mut rig =
        forwarding(&world, &plan, (patient(), patient()), |forward| forward.timeout(FOR_EVER), |_| Http::new(Shop::default()));
    let readers: Vec<_> = (1..=READERS).map(|number| rig.connect(number)).collect();
    rig.wait(MS);
    for reader in &readers {
        reader.send(b"GET /flood/1000000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    rig.wait(10 * S);
    // Each pays for its own. The server behind is a service of the same lane, and pays for what it is to send.
    let peers: BTreeSet<_> = rig.arenas[0].holders().iter().map(|holder| holder.peer).collect();
    assert_eq!(peers.len(), READERS + 1, "what has come from one upstream is paid for by those who are to take it");
    let held = rig.lane_count(LaneCounter::MemoryUsed);
    assert!(held < READERS as u64 * (5 << 19), "{held} bytes for {READERS} readers");
    assert!(readers[0].read(usize::MAX).starts_with(b"HTTP/1.1 200 OK\r\n"));
    readers.iter().for_each(|reader| reader.reset());
    rig.wait(5 * MS);
    assert_eq!((rig.connections(), rig.lane_count(LaneCounter::MemoryUsed)), (0, 0), "who is gone takes the rest along");
    rig.close(&mut Nobody);
}
