//! Services on simulated lanes: real lane, real service layer, simulated network, clock and faults.
//!
//! The one rig of the project: its own suites run on it, and authors reach it as `corelane::testing`.
//!
//! ```text
//! simulate(seeds, faults, |scene| ..) --> Scene: services, Script and Questions (clients), checks --> Rig --> Summary, or Failure with its seed and log
//! Rig::new(world, RigPlan, |roster| ..) --> Rig: lanes to be stepped by hand, with a cast (Play, Talker) of one's own
//! ```
//!
//! A run is over when the world rests; then the model of `sim` must find the contract kept, and no lane's memory may be held.
#![forbid(unsafe_code)]

mod asker;
mod burst;
mod family;
mod rig;
mod roster;
mod scene;
mod script;
mod siege;
mod simulate;
mod talker;

/// The crates that a [`Rig`] and a [`World`] are made of, whole: for tests that play by hand, and have to name what stands in their signatures.
pub mod parts {
    pub use corelane_lane as lane;
    pub use corelane_seam as seam;
    pub use corelane_sim as sim;
    pub use corelane_svc as svc;
}

pub use asker::Questions;
pub use burst::burst;
pub use corelane_seam::Tuning;
pub use corelane_sim::{
    DatagramPeer, FaultCounts, FaultKind, Faults, Host, Peer, Planted, Random, Report, Status, Turn, Violation, World, for_seeds,
    seeds,
};
pub use family::{Family, address, at, client};
pub use rig::{MS, Nobody, Play, Rig, S, endings, patient};
pub use roster::{RigPlan, Roster};
pub use scene::Scene;
pub use script::Script;
pub use siege::Siege;
pub use simulate::{Failure, Summary, simulate};
pub use talker::Talker;
