//! Programs on simulated lanes: real lane, real service layer, simulated network, clock and faults.
//!
//! Each run is made from one seed, so a failure names the seed that shows it again (`CORELANE_SEED=n`).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod attack;
mod callers;
mod calls;
mod clients;
mod datagrams;
mod duplicates;
mod hostile;
mod moved;
mod nfs3;
mod programs;

use corelane::testing as rig;
use corelane::testing::for_seeds;
