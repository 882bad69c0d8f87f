//! Thousands of small worlds: an echo service on the bare contract, under every mix of faults, from numbered seeds.
//!
//! `CORELANE_SEEDS` raises the number of seeds, `CORELANE_SEED` plays a single one.
#![allow(clippy::unwrap_used)] // in a test, a broken assumption is to end it

mod echo;

use corelane_sim::{FaultCounts, FaultKind, Faults, Planted};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    match number("CORELANE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CORELANE_SEEDS").unwrap_or(default),
    }
}

#[test]
fn every_seed_echoes_under_faults() {
    let (mut faults, mut operations, mut least, seeds) = (FaultCounts::default(), 0, u64::MAX, seeds(2_000));
    for seed in seeds.clone() {
        let (report, found) = echo::play(seed, Faults::all(seed), None);
        assert_eq!(found, Ok(()), "seed {seed}");
        faults.add(&report.faults);
        operations += report.operations;
        least = least.min(report.operations);
    }
    println!("{} seeds, {operations} operations, at least {least} a seed", seeds.end - seeds.start);
    for kind in FaultKind::ALL {
        println!("{:>24} {}", kind.name(), faults.of(kind));
        assert!(faults.of(kind) > 0 || seeds.end - seeds.start < 100, "{}", kind.name());
    }
    assert!(least >= 1_000, "a seed with {least} operations is too small");
}

#[test]
fn every_seed_echoes_without_faults() {
    for seed in seeds(100) {
        let (report, found) = echo::play(seed, Faults::none(), None);
        assert_eq!(found, Ok(()), "seed {seed}");
        assert!(FaultKind::ALL.iter().all(|&kind| report.faults.of(kind) == 0));
    }
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let mut digests = std::collections::BTreeSet::new();
    for seed in seeds(100) {
        // Other memory in use must make no difference: addresses are not part of a run.
        let ballast = vec![0u8; 1 << (10 + seed % 12)];
        let (first, _) = echo::play(seed, Faults::all(seed), None);
        drop(ballast);
        let (second, _) = echo::play(seed, Faults::all(seed), None);
        assert_eq!(first, second, "seed {seed}");
        digests.insert(first.digest);
    }
    assert_eq!(digests.len() as u64, seeds(100).end - seeds(100).start);
}

#[test]
fn every_planted_bug_is_found() {
    for bug in Planted::ALL {
        let (mut struck, mut found) = (0, 0);
        for seed in 0..20 {
            let (report, result) = echo::play(seed, Faults::all(seed), Some(bug));
            assert!(result.is_ok() || report.planted > 0, "seed {seed} fails without {bug:?}: {result:?}");
            struck += (report.planted > 0) as u32;
            found += result.is_err() as u32;
        }
        println!("{bug:?}: struck in {struck} of 20 runs, found in {found}");
        assert!(found > 0, "{bug:?}");
        // A lost bell does no harm to a lane that wakes for another reason; every other bug leaves a trace.
        assert!(found == struck || bug == Planted::LostDoorbell, "{bug:?}: {found} of {struck}");
    }
}
