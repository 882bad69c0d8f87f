//! The control plane: which lanes there are, and every flow lands on the lane that its bucket names, by the best means that there are here.
//!
//! [`plan`] makes lanes of what a machine has. [`Steered::new`] attaches, before lanes take descriptor tables of their own;
//! [`Steered::equip`] gives a lane its part. From then on any thread may rewrite the table, and have lanes leave and come back. Crate
//! `select` has the programs, crate `svc` the sockets; this decides.
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod attach;
mod choice;
mod error;
mod following;
mod handed;
mod in_force;
mod lane;
mod plan;
mod server;
mod steered;
mod telling;
mod topology;
#[cfg(feature = "verify")]
pub mod verify;
mod warning;

pub use choice::{Settings, Steering};
pub use corelane_select::Error as SelectionError;
pub use corelane_select::{HandedMaps, HandedProgram};
pub use error::Error;
pub use handed::{GroupShown, Handed, HandedGroup};
pub use in_force::InForce;
pub use plan::{LanePlan, PlannedLane, Wish, plan};
pub use server::Server;
pub use steered::Steered;
pub use topology::Topology;
pub use warning::Warning;
