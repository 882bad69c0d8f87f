//! The control plane: which lanes there are, and which flows go to them.
#![forbid(unsafe_code)]

mod plan;
mod topology;
mod warning;

pub use plan::{Plan, PlannedLane, Wish, plan};
pub use topology::Topology;
pub use warning::Warning;
