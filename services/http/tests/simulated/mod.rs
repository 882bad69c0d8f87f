//! HTTP on simulated lanes: real lane, real service layer, simulated network, clock and faults.
//!
//! Each run is made from one seed, so a failure names the seed that shows it again (`CORELANE_SEED=n`).
#![forbid(unsafe_code)]

mod answers;
mod bounds;
mod converse;
mod everyday;
mod files;
mod forward;
mod hostile;
mod hosts;
mod log;
mod once;
mod rules;
mod shop;
mod standard;
mod whole;

use corelane::testing as rig;
use corelane::testing::for_seeds;
