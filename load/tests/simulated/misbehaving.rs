//! Over connections against peers that misbehave: each kind of failure is counted as what it is, and nothing is lost or counted twice.

use crate::simulated::account::verify;
use crate::simulated::for_seeds;
use crate::simulated::peers::{Manner, Peers, any};
use crate::simulated::plans::{drawn, followed, is_steady, steady, streams};
use crate::simulated::rig::{Outcome, Rig, place, target};
use corelane::testing::{Faults, Nobody, Random};
use corelane_load::kinds::Kind;
use corelane_load::plan::{Extent, Mode, Plan};
use std::time::Duration;

fn run(seed: u64, faults: Faults, plan: Plan, manner: impl FnMut(usize) -> Manner + 'static) -> (Outcome, Peers) {
    let rig = Rig::new(seed, faults, plan).generate(0);
    let mut peers = Peers::new(&rig, manner);
    (rig.run(&mut peers), peers)
}

fn closed_loop(requests: u64) -> Plan {
    Plan { extent: Extent::Requests(requests), connections: 3, lanes: 2, depth: 2, size: 100, ..streams(target(true)) }
}

#[test]
fn whatever_the_peers_do_the_counts_are_exact() {
    for_seeds(280, |seed| {
        let plan = drawn(seed, streams(place(seed, true)));
        let (size, mut random) = (plan.size as u64, Random::new(seed));
        // Where the place of the last connection of a number cannot be told, the network itself is kind.
        let by_number = matches!((&plan.mode, plan.extent), (Mode::Connections { .. }, Extent::Requests(_)));
        let faults = match seed % 3 {
            0 => Faults::none(),
            _ if by_number => Faults { reset: 0, ..steady(seed) },
            1 => steady(seed),
            _ => followed(seed),
        };
        let kind_at_first = plan.connections as usize;
        let manner = move |number| if number < kind_at_first { Manner::Echo } else { any(&mut random, size) };
        let any_at_all = seed % 5 == 0 && !by_number;
        let mut wild = Random::new(seed);
        let (outcome, _) = match any_at_all {
            true => run(seed, faults, plan, move |_| any(&mut wild, size)),
            false => run(seed, faults, plan, manner),
        };
        if outcome.desk.borrow().collector.unreachable().is_none() {
            verify(&outcome, is_steady(faults));
        }
    });
}

/// What the report says of a closed loop of 40 requests to peers of one manner, and what must hold whatever it is.
fn of_one_manner(seed: u64, manner: Manner) -> Outcome {
    let (outcome, peers) = run(seed, Faults::none(), closed_loop(40), move |_| manner);
    let figures = verify(&outcome, true);
    assert_eq!(outcome.report.requests + figures.failed, 40, "{manner:?}: answered and failed");
    assert!(peers.got() <= outcome.report.bytes_sent && peers.connections() > 3, "{manner:?}: bytes, and places opened again");
    outcome
}

#[test]
fn each_manner_shows_as_its_own_kind() {
    for_seeds(40, |seed| {
        for (manner, kinds, answered) in [
            // What is on its way to a closed end comes back as a reset.
            (Manner::CloseAtOnce, &[Kind::Closed, Kind::Reset][..], false),
            (Manner::CloseAfter(150), &[Kind::Closed, Kind::Reset], true),
            (Manner::ResetAfter(150), &[Kind::Reset], false),
            (Manner::SilentAfter(150), &[Kind::ClientTimeout], true),
            (Manner::WrongAfter(0), &[Kind::Mismatch], false),
            (Manner::WrongAfter(250), &[Kind::Mismatch], true),
            (Manner::Twice, &[Kind::Mismatch], false),
        ] {
            let outcome = of_one_manner(seed, manner);
            let report = &outcome.report;
            let others: u64 = Kind::ALL.iter().filter(|kind| !kinds.contains(kind)).map(|kind| report.errors[kind.name()]).sum();
            let mine: u64 = kinds.iter().map(|kind| report.errors[kind.name()]).sum();
            assert!(mine > 0 && others == 0, "{manner:?}: {:?}", report.errors);
            assert!(!answered || report.requests > 0, "{manner:?}: something is answered");
        }
    });
}

#[test]
fn a_target_that_refuses_is_named() {
    let outcome = Rig::new(1, Faults::none(), closed_loop(10)).generate(0).run(&mut Nobody);
    let desk = outcome.desk.borrow();
    let (kind, fault) = desk.collector.unreachable().unwrap();
    assert_eq!(*kind, Kind::Unreachable, "{fault}");
    let plan = Plan { target: target(false).into(), ..closed_loop(10) };
    let outcome = Rig::new(1, Faults::none(), plan).serve(1, |_| {}).generate(0).run(&mut Nobody);
    let desk = outcome.desk.borrow();
    let (kind, fault) = desk.collector.unreachable().unwrap();
    assert_eq!(*kind, Kind::Refused, "{fault}");
}

/// A connection that hangs ends as timed out, no earlier than after the timeout and within the bound on every run; those beside it
/// are served all the time.
#[test]
fn one_connection_that_hangs_holds_nobody_up() {
    let plan = Plan { extent: Extent::For(Duration::from_secs(2)), lanes: 1, depth: 1, ..closed_loop(1) };
    let manner = |number| if number == 1 { Manner::SilentAfter(100) } else { Manner::Echo };
    let (outcome, _) = run(1, Faults::none(), plan, manner);
    let figures = verify(&outcome, true);
    assert_eq!((figures.of(Kind::ClientTimeout), figures.failed), (1, 1));
    assert!(outcome.report.series.iter().all(|second| second.requests_per_second > 1_000.0), "{:?}", outcome.report.series);
}
