//! The control plane: every flow lands on the lane that its bucket names, by the best means that there are here.
//!
//! [`Steered::new`] attaches, before lanes take descriptor tables of their own; [`Steered::equip`] gives a lane its part. From then on any
//! thread may rewrite the table, and have lanes leave and come back. Crate `sys` has the programs, crate `svc` the sockets; this decides.
#![forbid(unsafe_code)]

mod attach;
mod choice;
mod error;
mod lane;
mod steered;

pub use choice::{InForce, Settings, Steering};
pub use error::Error;
pub use steered::{Server, Steered};
