//! Connections that are closed after a number of requests, in a closed loop: another one follows at once, and nothing is lost between them.

use crate::simulated::for_seeds;
use crate::simulated::peers::{Manner, Peers};
use crate::simulated::plans::{followed, streams};
use crate::simulated::rig::{Outcome, Rig, target};
use crate::simulated::streams::served;
use corelane::testing::{Faults, Nobody, Random};
use corelane_load::kinds::Kind;
use corelane_load::plan::{Extent, Plan};
use std::time::Duration;

/// So many requests in all, so many on each connection.
fn plan(seed: u64, target: std::net::SocketAddr, requests: u64, each: u32) -> Plan {
    let mut random = Random::new(seed);
    Plan {
        extent: Extent::Requests(requests),
        connections: random.one_to(5) as u32,
        lanes: random.one_to(3),
        depth: random.one_to(6) as u32,
        requests_each: Some(each),
        ..streams(target)
    }
}

#[test]
fn each_connection_makes_its_number_of_requests() {
    for_seeds(150, |seed| {
        let (requests, each) = (1 + seed % 200, 1 + (seed % 7) as u32);
        let (rig, seen) = served(seed, Faults::none(), plan(seed, target(false), requests, each), 1 + seed as usize % 2);
        let Outcome { report, plan, .. } = rig.generate(0).run(&mut Nobody);
        assert_eq!((report.requests, report.sent, seen.bytes.get()), (requests, requests, requests * plan.size as u64));
        assert_eq!(report.errors.values().sum::<u64>(), 0, "{:?}", report.errors);
        // Those that are open at the start, and each that follows; the last requests may be spread over them.
        let connections = u64::from(plan.connections) + report.renewed;
        assert_eq!(seen.connections.get(), connections);
        assert!(connections * u64::from(each) >= requests && report.renewed <= requests / u64::from(each), "{report:?}");
        assert!(report.doubts.iter().all(|doubt| !doubt.contains("were open at the end")), "{:?}", report.doubts);
    });
}

/// With a connection for each request the number of connections is exact.
#[test]
fn one_request_on_each_connection() {
    for_seeds(60, |seed| {
        let (rig, seen) = served(seed, Faults::none(), plan(seed, target(false), 100, 1), 2);
        let report = rig.generate(0).run(&mut Nobody).report;
        // One that answers the last request of a lane is followed by none.
        assert!((100..=105).contains(&seen.connections.get()), "{} connections", seen.connections.get());
        assert_eq!((report.requests, report.asked_again), (100, 0));
    });
}

#[test]
fn whatever_the_network_does_each_request_is_answered_or_has_failed() {
    for_seeds(150, |seed| {
        let (rig, _) = served(seed, followed(seed), plan(seed, target(false), 150, 1 + (seed % 4) as u32), 1);
        let outcome = rig.generate(if seed % 3 == 0 { 100 } else { 0 }).run(&mut Nobody);
        if outcome.desk.borrow().collector.unreachable().is_some() || !outcome.desk.borrow().early.is_empty() {
            return;
        }
        let report = &outcome.report;
        // A connection that cannot be had, and an idle one that is lost, is an error beside the requests.
        let failed: u64 = Kind::ALL.iter().map(|kind| report.errors[kind.name()]).sum();
        assert!(report.requests <= 150 && report.requests + failed >= 150, "{} and {:?}", report.requests, report.errors);
        assert_eq!(report.sent, 150);
    });
}

/// Peers that close after what they were to answer are no reason to count an error, and those that close before are.
#[test]
fn a_peer_that_closes_before_its_answer_is_an_error_all_the_same() {
    let plan = Plan { extent: Extent::For(Duration::from_millis(50)), size: 100, depth: 1, ..plan(1, target(true), 1, 2) };
    let rig = Rig::new(1, Faults::none(), plan).generate(0);
    let mut peers = Peers::new(&rig, |number| if number % 2 == 0 { Manner::Echo } else { Manner::CloseAfter(150) });
    let report = rig.run(&mut peers).report;
    assert!(report.errors["closed"] + report.errors["reset"] > 0 && report.renewed > 0, "{:?}", report.errors);
}
