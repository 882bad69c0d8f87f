//! The suite against broken drivers: each kind of planted bug must be noticed, or the tests show nothing.

use crate::echo;
use corelane_sim::{Faults, Planted};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds that a kind may need before somebody notices it.
const SEEDS: u64 = 50;

/// Faults that give every planted bug its opportunity: memory that is released late, or shared with the receiver, and operations that are stopped.
fn faults() -> Faults {
    Faults { late_release: 400, shared_pages: 200, short_write: 100, reordered_completion: 50, ..Faults::none() }
}

/// Whether something fails in a run with the bug.
fn is_noticed(seed: u64, bug: Planted) -> bool {
    catch_unwind(AssertUnwindSafe(|| echo::run(seed, faults(), 8, 4_000, Some(bug)))).is_err()
}

#[test]
fn every_planted_bug_is_noticed() {
    (0..SEEDS).for_each(|seed| {
        echo::run(seed, faults(), 8, 4_000, None);
    });
    let mut missed = Vec::new();
    for bug in Planted::ALL {
        match (0..SEEDS).find(|&seed| is_noticed(seed, bug)) {
            Some(seed) => println!("{bug:?}: {} seeds", seed + 1),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "nothing noticed {missed:?} in {SEEDS} seeds");
}
