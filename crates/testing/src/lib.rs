//! Services on simulated lanes: real lane, real service layer, simulated network, clock and faults.
//!
//! The one rig of the project: its own suites run on it, and authors reach it as `corelane::testing`.
#![forbid(unsafe_code)]

mod rig;
mod talker;

pub use corelane_sim::{for_seeds, seeds};
pub use rig::{MS, Nobody, Plan, Play, Rig, S, address, at, client, endings, patient};
pub use talker::Talker;
