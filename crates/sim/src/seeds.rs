//! Which seeds a test plays: always the same numbers, so that what passed yesterday passes today, and where the environment says
//! where new ones begin, a tenth as many from there on, so that each run sees something that none has seen before.
//!
//! | environment variable | what is played |
//! | --- | --- |
//! | `CORELANE_SEED=n` | the seed n alone: what a failure is shown again with |
//! | `CORELANE_SEEDS=n` | the numbers below n, whatever the test's own count is |
//! | `CORELANE_NEW_SEEDS=n` | new seeds too, from n on; `cargo xtask test` draws and prints n |
//!
//! Numbers reach to 2^32, so that a test may multiply its seed by some thousands.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The highest number that a variable may have.
const HIGHEST: u64 = 1 << 32;

/// One new seed to so many that are always the same; at least one.
const OLD_TO_NEW: u64 = 10;

/// The seeds of a test that plays `count` numbers by its own choice; the same for the whole life of the process.
///
/// # Panics
/// If a variable above is no number up to 2^32; with the words to mend it.
#[must_use]
pub fn seeds(count: u64) -> Vec<u64> {
    chosen(count, |name| env::var(name).ok())
}

/// Lets `run` play each of [`seeds`]; where it panics, standard error names the seed and how to play it again.
///
/// # Panics
/// As `run` and [`seeds`] do.
pub fn for_seeds(count: u64, run: impl FnMut(u64)) {
    play(seeds(count), run, |words| eprintln!("{words}"));
}

fn play(seeds: Vec<u64>, mut run: impl FnMut(u64), mut tell: impl FnMut(&str)) {
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            tell(&format!("CORELANE_SEED={seed} shows this again"));
            resume_unwind(panic);
        }
    }
}

fn chosen(count: u64, variable: impl Fn(&str) -> Option<String>) -> Vec<u64> {
    let number = |name| variable(name).map(|text| number(name, &text));
    if let Some(seed) = number("CORELANE_SEED") {
        return vec![seed];
    }
    let mut seeds: Vec<u64> = (0..number("CORELANE_SEEDS").unwrap_or(count)).collect();
    if let Some(first) = number("CORELANE_NEW_SEEDS") {
        seeds.extend(first..first + count.div_ceil(OLD_TO_NEW));
    }
    seeds
}

fn number(name: &str, text: &str) -> u64 {
    match text.parse() {
        Ok(number) if number <= HIGHEST => number,
        _ => panic!("{name}={text}: expected a number up to {HIGHEST}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(count: u64, variables: &[(&str, &str)]) -> Vec<u64> {
        let find = |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        chosen(count, find)
    }

    #[test]
    fn the_same_seeds_come_each_time_and_new_ones_behind_them() {
        assert_eq!(with(3, &[]), [0, 1, 2]);
        assert_eq!(with(3, &[("CORELANE_NEW_SEEDS", "700")]), [0, 1, 2, 700]);
        assert_eq!(with(20, &[("CORELANE_NEW_SEEDS", "700")])[20..], [700, 701]);
        assert_eq!(with(3, &[("CORELANE_SEEDS", "1"), ("CORELANE_NEW_SEEDS", "700")]), [0, 700]);
    }

    #[test]
    fn one_that_is_asked_for_is_played_alone() {
        let variables = [("CORELANE_SEED", "41"), ("CORELANE_SEEDS", "5"), ("CORELANE_NEW_SEEDS", "700")];
        assert_eq!(with(3, &variables), [41]);
    }

    #[test]
    fn a_seed_that_fails_is_named_with_how_to_play_it_again_and_ends_the_test() {
        let (mut played, mut told) = (Vec::new(), Vec::new());
        let run = |seed| {
            played.push(seed);
            assert_ne!(seed, 700);
        };
        let all = AssertUnwindSafe(|| play(vec![0, 1, 700, 701], run, |words| told.push(words.to_owned())));
        catch_unwind(all).expect_err("700 fails");
        assert_eq!(told, ["CORELANE_SEED=700 shows this again"]);
        assert_eq!(played, [0, 1, 700]);
    }

    #[test]
    #[should_panic(expected = "CORELANE_SEED=4k: expected a number up to 4294967296")]
    fn what_is_no_number_is_not_passed_over() {
        with(3, &[("CORELANE_SEED", "4k")]);
    }

    #[test]
    #[should_panic(expected = "CORELANE_NEW_SEEDS=4294967297")]
    fn a_number_that_a_test_could_not_multiply_is_refused() {
        with(3, &[("CORELANE_NEW_SEEDS", "4294967297")]);
    }
}
