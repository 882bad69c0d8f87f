//! The lane: everything that one core needs to serve its share of the traffic, as a value with a turn.
//!
//! A [`Lane`] owns a driver and a [`Kit`], and runs some [`Works`] (the services of crate `svc` are one). Lanes share nothing;
//! each work meets itself on other lanes in the channels of a [`Mesh`], and lanes obey the [`Control`] of their program. A runner gives each a thread; the
//! simulator steps many in one.
#![doc = include_str!("../DESIGN.md")]
#![deny(unsafe_code)]

mod calls;
pub mod channel;
mod control;
mod fence;
mod homing;
mod kit;
mod mesh;
pub mod program;
mod report;
mod seats;
mod settings;
mod sync;
pub mod tasks;
mod turn;
pub mod wheel;
mod words;
mod work;

pub use crate::calls::{OVERRAN, Overrun};
pub use crate::control::{Control, Counts, LaneBell, Order};
pub use crate::fence::{Bursts, Fenced, fenced};
pub use crate::homing::Homing;
pub use crate::kit::{Kit, TIMER_RESOLUTION};
pub use crate::mesh::{Channels, Mesh};
pub use crate::report::Report;
pub use crate::settings::{Budget, LaneSettings};
pub use crate::turn::{Lane, Turn};
pub use crate::wheel::TimerId;
pub use crate::words::{Ear, Silence, Tell, Unheard, WORDS_MAX};
pub use crate::work::{Work, Works};
