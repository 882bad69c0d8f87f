//! Corelane: network services with one lane per core.
//!
//! A lane is everything that one core needs to serve its share of the traffic: listener, connections, memory, timers,
//! tasks, counters. Implement [`StreamService`] or [`DatagramService`], and hand it to [`Lanes`].
//!
//! | module | for whom |
//! | --- | --- |
//! | [`service`] | who writes a service |
//! | [`aio`] | who writes connections as `async fn` |
//! | [`lanes`] | who writes the program that runs it |
//! | [`admin`] | who looks after the program |
//! | [`doctor`] | who wants to know what a machine lacks, and what that costs |
//! | `testing` | who tests a service, on simulated lanes (feature `testing`) |
//!
//! What every first file needs is here as well.
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

pub mod admin;
pub mod aio;
pub mod doctor;
mod error;
pub mod lanes;
pub mod service;
#[cfg(feature = "testing")]
pub mod testing;

pub use corelane_seam::{Address, Instant};
pub use corelane_watch::counters;
pub use error::Error;
pub use lanes::Lanes;
pub use service::{Cx, DatagramService, Datagrams, Input, Next, Output, Peer, Replies, Silent, StreamService, Talk};

/// The time now, by the clock of all lanes of this machine: for programs beside the lanes. On a lane ask [`Cx::now`].
pub fn now() -> Instant {
    Instant::from_nanoseconds(corelane_os::clock::now())
}

/// What Corelane's calls return.
pub type Result<T> = std::result::Result<T, Error>;
