//! A run follows from its seed.

use crate::simulated::datagrams;
use crate::simulated::for_seeds;
use crate::simulated::plans::drawn;
use crate::simulated::rig::Outcome;
use crate::simulated::streams;
use corelane::testing::{FaultCounts, FaultKind, Faults};

fn text(outcome: &Outcome) -> String {
    serde_json::to_string(&outcome.report).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_report() {
    for_seeds(80, |seed| {
        let [first, second] = [0, 1].map(|_| text(&streams::run(seed, Faults::all(seed), |plan| plan).0));
        assert_eq!(first, second);
        let [first, second] = [0, 1].map(|_| text(&datagrams::run(seed, Faults::all(seed))));
        assert_eq!(first, second);
    });
}

/// Every fault that connections and datagrams can meet happens somewhere; only files are not used.
#[test]
fn every_fault_happens_somewhere() {
    // Nothing is closed here while the system still reads what was sent.
    let is_elsewhere = |kind: &FaultKind| {
        ["file", "pipe", "bridge"].iter().any(|what| kind.name().contains(what)) || *kind == FaultKind::NeverRelease
    };
    let mut never: Vec<FaultKind> = FaultKind::ALL.into_iter().filter(|kind| !is_elsewhere(kind)).collect();
    for seed in 0..400 {
        let mut all = FaultCounts::default();
        all.add(&streams::run(seed, Faults::all(seed), |plan| plan).0.faults);
        all.add(&datagrams::run(seed, Faults::all(seed)).faults);
        never.retain(|&kind| all.of(kind) == 0);
        if never.is_empty() {
            break;
        }
    }
    assert!(never.is_empty(), "{never:?} never happened");
}

/// The seed of the plan is that of the random arrivals: another one gives other times.
#[test]
fn another_seed_gives_another_run() {
    let reports: Vec<String> = (0..40).map(|seed| text(&streams::run(seed, Faults::none(), |plan| plan).0)).collect();
    for (number, report) in reports.iter().enumerate() {
        assert!(
            !reports[..number].contains(report),
            "seed {number}: {:?}",
            drawn(number as u64, crate::simulated::plans::streams(crate::simulated::rig::target(false)))
        );
    }
}
