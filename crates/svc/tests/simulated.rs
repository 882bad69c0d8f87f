//! Services on simulated lanes: real lane, real service layer, simulated network, clock and faults.
//!
//! Each run is made from one seed, so a failure names the seed that shows it again (`CORELANE_SEED=n`).

mod world;

use corelane_sim::Faults;
use world::{Clients, Outcome, Run};

/// Seeds of one test, or the one that is asked for.
fn seeds(count: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    match number("CORELANE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("CORELANE_SEEDS").unwrap_or(count)).collect(),
    }
}

#[test]
fn echo_is_byte_exact_without_faults() {
    for seed in seeds(200) {
        let outcome = Run::echo(seed, Faults::none(), Clients { count: 20, bytes: 20_000 });
        outcome.expect_all_answered();
        outcome.expect_clean();
    }
}

#[test]
fn echo_is_byte_exact_under_every_fault() {
    let mut all = Outcome::default();
    for seed in seeds(1_000) {
        let outcome = Run::echo(seed, Faults::all(seed), Clients { count: 50, bytes: 3_000 });
        outcome.expect_clean();
        all.add(&outcome);
    }
    all.print_faults();
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in seeds(50) {
        let clients = Clients { count: 10, bytes: 5_000 };
        let [first, second] = [0, 1].map(|_| Run::echo(seed, Faults::all(seed), clients).digest);
        assert_eq!(first, second, "seed {seed}");
    }
}
