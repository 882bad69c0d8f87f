//! Whether the suite meets every fault that there is.

use crate::{cache, datagrams, drain, echo, http, limits, proxy, rpc, transform};
use corelane_sim::{FaultCounts, FaultKind, Faults};

/// Some seeds of each model under every fault.
fn all_models(seed: u64, all: &mut FaultCounts) {
    let faults = Faults::all(seed);
    all.add(&echo::run(seed, faults, 10, 3_000, None).1.faults);
    all.add(&http::run(seed, faults));
    all.add(&rpc::run(seed, faults, 2));
    all.add(&cache::run(seed, faults, 20_000));
    all.add(&proxy::run(seed, faults));
    all.add(&transform::tests::run(seed, faults, transform::xor, "", ""));
    all.add(&datagrams::run(seed, faults));
    all.add(&limits::crowd(seed, faults));
    all.add(&drain::run(seed, drain::Case::new(drain::mild(seed))));
}

#[test]
fn every_fault_happens_somewhere() {
    let mut all = FaultCounts::default();
    (0..10).for_each(|seed| all_models(seed, &mut all));
    for kind in FaultKind::ALL {
        println!("{kind:?}: {}", all.of(kind));
    }
    let never: Vec<_> = FaultKind::ALL.into_iter().filter(|&kind| all.of(kind) == 0).collect();
    assert!(never.is_empty(), "{never:?} never happened");
}

#[test]
fn the_same_seed_gives_the_same_run_of_every_model() {
    for seed in 0..5 {
        let [first, second] = [0, 1].map(|_| {
            let mut counts = FaultCounts::default();
            all_models(seed, &mut counts);
            counts
        });
        assert_eq!(first, second, "seed {seed}");
    }
}
