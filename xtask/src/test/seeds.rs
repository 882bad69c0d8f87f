//! New seeds for simulated tests: where they begin is drawn once a run, printed, and told to every test program, which takes
//! some from there beside those that are the same in each run (`corelane_sim::seeds`).

use std::hash::{BuildHasher, Hasher, RandomState};

/// The environment variable that names the first new seed.
pub const VARIABLE: &str = "CORELANE_NEW_SEEDS";

/// Above the seeds that are the same in each run, and few enough digits to type.
const DRAWN: std::ops::Range<u64> = 1_000_000..1_000_000_000;

/// The first new seed: the one that the environment names, so that a run can be repeated, else one that is drawn.
pub fn first() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| drawn().to_string())
}

fn drawn() -> u64 {
    // The keys of a new state come from the system's randomness.
    let bits = RandomState::new().build_hasher().finish();
    DRAWN.start + bits % (DRAWN.end - DRAWN.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_draws_others_within_the_range() {
        let drawn: Vec<u64> = (0..50).map(|_| drawn()).collect();
        assert!(drawn.iter().all(|seed| DRAWN.contains(seed)), "{drawn:?}");
        let distinct: std::collections::BTreeSet<_> = drawn.iter().collect();
        assert!(distinct.len() > 45, "{drawn:?}");
    }
}
