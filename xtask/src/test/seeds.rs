//! New seeds for simulated tests: where they begin is drawn once a run, printed, and told to every test program, which takes
//! some from there beside those that are the same in each run (`corelane_sim::seeds`). In CI the tree that is tested says where: each change
//! has others, and of two runs of one change both pass or both fail.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::Command;

/// The environment variable that names the first new seed.
pub const VARIABLE: &str = "CORELANE_NEW_SEEDS";

/// Above the seeds that are the same in each run, and few enough digits to type.
const DRAWN: std::ops::Range<u64> = 1_000_000..1_000_000_000;

/// The first new seed: the one that the environment names, so that a run can be repeated, else that of the tree in CI, else one that is drawn.
pub fn first() -> String {
    let tree = || std::env::var_os("CI").and_then(|_| of_tree(&tree()?));
    std::env::var(VARIABLE).unwrap_or_else(|_| tree().unwrap_or_else(drawn).to_string())
}

/// The name of the tree that is tested, if git tells it.
fn tree() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "HEAD^{tree}"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn of_tree(name: &str) -> Option<u64> {
    u64::from_str_radix(name.get(..15)?, 16).ok().map(within)
}

fn drawn() -> u64 {
    // The keys of a new state come from the system's randomness.
    within(RandomState::new().build_hasher().finish())
}

const fn within(bits: u64) -> u64 {
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

    #[test]
    fn a_tree_says_where_its_seeds_begin() {
        let [one, other] = ["4b825dc642cb6eb9a060e54bf8d69288fbee4904", "5b825dc642cb6eb9a060e54bf8d69288fbee4904"].map(of_tree);
        assert!(one.is_some_and(|seed| DRAWN.contains(&seed)) && one != other, "{one:?}, {other:?}");
        assert_eq!([of_tree(""), of_tree("fatal: not a git repository")], [None; 2]);
    }
}
