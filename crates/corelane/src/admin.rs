//! For those who look after a program of lanes: what it counts, how its flows are steered, the machine below, and what is said.

pub mod control;
mod control_client;
pub(crate) mod control_socket;
pub mod machine;

pub use corelane_rss as rss;
pub use corelane_steer::verify;
pub use corelane_steer::{
    Error as SteeringError, InForce, Plan, PlannedLane, SelectionError, Settings as SteeringSettings, Steered, Steering,
    Topology, Warning,
};
pub use corelane_watch as watch;

/// The lines that an operator reads: written by a thread of their own, so that nobody waits for a reader.
pub mod reports {
    pub use corelane_os::report::{PATIENCE, flush, line, say, set_panic_hook, start, start_into};
}
