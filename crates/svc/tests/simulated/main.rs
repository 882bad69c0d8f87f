//! Services on simulated lanes: real lane, real service layer, simulated network, clock and faults.
//!
//! Each run is made from one seed, so a failure names the seed that shows it again (`CORELANE_SEED=n`).
#![allow(clippy::unwrap_used)]

mod cache;
mod calls;
mod clients;
mod coverage;
mod datagrams;
mod drain;
mod echo;
mod endings;
mod flows;
mod http;
mod limits;
mod memory;
mod mines;
mod neighbours;
mod outgoing;
mod planted;
mod proxy;
mod puppet;
mod rig;
mod rpc;
mod talker;
mod tickets;
mod together;
mod transform;

/// Seeds of one test, or the one that is asked for.
fn seeds(count: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    match number("CORELANE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("CORELANE_SEEDS").unwrap_or(count)).collect(),
    }
}

/// Runs `run` for each seed, and names the seed of one that fails.
fn for_seeds(count: u64, mut run: impl FnMut(u64)) {
    for seed in seeds(count) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        if let Err(panic) = outcome {
            eprintln!("CORELANE_SEED={seed} shows this again");
            std::panic::resume_unwind(panic);
        }
    }
}
