//! Thousands of small worlds: an echo service on the bare contract, under every mix of faults, from numbered seeds and some new ones.

use crate::echo;
use corelane_sim::{FaultCounts, FaultKind, Faults, Planted, for_seeds, seeds};

#[test]
fn every_seed_echoes_under_faults() {
    const COUNT: u64 = 2_000;
    let (mut faults, mut operations, mut least, seeds) = (FaultCounts::default(), 0, u64::MAX, seeds(COUNT).len());
    for_seeds(COUNT, |seed| {
        let (report, found) = echo::play(seed, Faults::all(seed), None);
        assert_eq!(found, Ok(()), "seed {seed}");
        faults.add(&report.faults);
        operations += report.operations;
        least = least.min(report.operations);
    });
    println!("{seeds} seeds, {operations} operations, at least {least} a seed");
    for kind in FaultKind::ALL {
        println!("{:>24} {}", kind.name(), faults.of(kind));
        // The lane itself pays here, and is lent what it asks for; and it has no pairs.
        let happens_here = !matches!(kind, FaultKind::RefusedMemory | FaultKind::RefusedBridge);
        assert!(faults.of(kind) > 0 || seeds < 100 || !happens_here, "{}", kind.name());
    }
    assert!(least >= 1_000, "a seed with {least} operations is too small");
}

#[test]
fn every_seed_echoes_without_faults() {
    for_seeds(100, |seed| {
        let (report, found) = echo::play(seed, Faults::none(), None);
        assert_eq!(found, Ok(()), "seed {seed}");
        assert!(FaultKind::ALL.iter().all(|&kind| report.faults.of(kind) == 0));
    });
}

/// Over Unix sockets the network does nothing: what it may do to others does not happen.
#[test]
fn every_seed_echoes_at_a_unix_name() {
    const NETWORK: [FaultKind; 5] = [
        FaultKind::Reset,
        FaultKind::DatagramLoss,
        FaultKind::DatagramDuplicate,
        FaultKind::DatagramReorder,
        FaultKind::DatagramError,
    ];
    for_seeds(200, |seed| {
        let (report, found) = echo::play_at_name(seed, Faults::all(seed));
        assert_eq!(found, Ok(()), "seed {seed}");
        assert!(NETWORK.iter().all(|&kind| report.faults.of(kind) == 0), "seed {seed}");
        let (report, found) = echo::play_at_name(seed, Faults::none());
        assert_eq!((found, report.faults), (Ok(()), FaultCounts::default()), "seed {seed}");
    });
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let mut digests = std::collections::BTreeSet::new();
    for_seeds(100, |seed| {
        // Other memory in use must make no difference: addresses are not part of a run.
        let ballast = vec![0u8; 1 << (10 + seed % 12)];
        let (first, _) = echo::play(seed, Faults::all(seed), None);
        drop(ballast);
        let (second, _) = echo::play(seed, Faults::all(seed), None);
        assert_eq!(first, second, "seed {seed}");
        digests.insert(first.digest);
    });
    assert_eq!(digests.len(), seeds(100).len());
}

#[test]
fn every_planted_bug_is_found() {
    for bug in Planted::ALL {
        let (mut struck, mut found) = (0, 0);
        for seed in 0..20 {
            let faults = match bug {
                // Often enough that one send is unreleased while the next is.
                Planted::UnorderedRelease => Faults::all(seed).with(FaultKind::LateRelease, 500),
                // A close that is handed over late is early no more.
                Planted::EarlyClose => Faults::all(seed).with(FaultKind::LateCompletion, 0),
                _ => Faults::all(seed),
            };
            let (report, result) = echo::play(seed, faults, Some(bug));
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
