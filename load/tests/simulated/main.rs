//! The engines on simulated lanes: real engines, real lanes, a simulated network with its clock and faults, against the echo service
//! and against peers that misbehave. An account that is kept beside the engines says what their report must say.
//!
//! Each run is made from one seed, so a failure names the seed that shows it again (`CORELANE_SEED=n`).
#![allow(clippy::unwrap_used)]

mod account;
mod datagram_account;
mod datagram_peers;
mod datagrams;
mod ends;
mod figures;
mod memory;
mod misbehaving;
mod pacing;
mod peers;
mod plans;
mod repeats;
mod rig;
mod rpc;
mod rpc_server;
mod streams;
mod verdicts;
mod witness;

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
