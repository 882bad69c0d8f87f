//! Whether the suite meets every fault that there is.

use crate::{cache, clients, datagrams, drain, echo, fetch, for_seeds, http, limits, proxy, rpc, transform, veiled, watches};
use corelane_sim::{FaultCounts, FaultKind, Faults, Report};

/// One seed of each model, under every fault.
fn all_models(seed: u64) -> Vec<Report> {
    let faults = Faults::all(seed);
    vec![
        echo::run(seed, faults, 10, 3_000, None).1,
        http::run(seed, faults),
        rpc::run(seed, faults, 2),
        cache::run(seed, faults, 20_000),
        proxy::run(seed, faults),
        transform::tests::run(seed, faults, transform::xor, "", ""),
        veiled::run(seed, faults, seed.is_multiple_of(2)),
        fetch::run(seed, faults),
        watches::run(seed, faults),
        datagrams::run(seed, faults),
        clients::run(seed, faults),
        limits::crowd(seed, faults),
        drain::run(seed, drain::Case::new(drain::mild(seed))),
    ]
}

#[test]
fn every_fault_happens_somewhere() {
    let mut all = FaultCounts::default();
    (0..30).flat_map(all_models).for_each(|report| all.add(&report.faults));
    for kind in FaultKind::ALL {
        println!("{kind:?}: {}", all.of(kind));
    }
    // Bulk alone asks for pipes: it has runs of its own, in `services/proxy` too.
    let is_needed = |kind: &FaultKind| *kind != FaultKind::RefusedPipe;
    let never: Vec<_> = FaultKind::ALL.into_iter().filter(is_needed).filter(|&kind| all.of(kind) == 0).collect();
    assert!(never.is_empty(), "{never:?} never happened");
}

#[test]
fn the_same_seed_gives_the_same_run_of_every_model() {
    for_seeds(5, |seed| {
        assert_eq!(all_models(seed), all_models(seed), "seed {seed}");
    });
}
