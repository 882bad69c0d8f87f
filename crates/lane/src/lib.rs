//! The lane: everything that one core needs to serve its share of the traffic, as a value with a turn.
//!
//! A [`Lane`] owns a driver and a [`Kit`], and runs some [`Work`] (the services of crate `svc`). Lanes share nothing; they
//! meet in the channels of a [`Mesh`], and obey the [`Control`] of their program. A runner gives each a thread; the
//! simulator steps many in one.
#![deny(unsafe_code)]

pub mod channel;
mod control;
mod fence;
mod kit;
mod mesh;
pub mod program;
mod report;
mod sync;
pub mod tasks;
mod turn;
pub mod wheel;

pub use crate::control::{Control, LaneBell, Order, Word};
pub use crate::fence::{Bursts, Fenced, fenced};
pub use crate::kit::{Kit, LaneSettings, TIMER_RESOLUTION};
pub use crate::mesh::{Mesh, Message};
pub use crate::report::Report;
pub use crate::turn::{Lane, Turn, Work};
pub use crate::wheel::TimerId;
