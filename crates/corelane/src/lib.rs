//! Corelane: network services with one lane per core.
//!
//! A lane is everything that one core needs to serve its share of the traffic: listener, connections, memory, timers,
//! tasks, counters. Implement [`StreamService`] or [`DatagramService`], and hand it to [`Lanes`].
//!
//! | module | for whom |
//! | --- | --- |
//! | [`service`] | who writes a service |
//! | [`aio`] | who writes connections as `async fn` (feature `aio`) |
//! | [`lanes`] | who writes the program that runs it |
//! | [`admin`] | who looks after the program |
//! | [`doctor`] | who wants to know what a machine lacks, and what that costs |
//! | `testing` | who tests a service, on simulated lanes (feature `testing`) |
//!
//! This root has all that a first file needs as well.
//!
//! A program that serves needs no feature of this crate. Each of these brings more to compile:
//!
//! | feature | brings |
//! | --- | --- |
//! | `aio` | [`aio`]: connections as `async fn` |
//! | `confine` | [`admin::user`] and [`admin::confine`]: the program gives up root, files and calls |
//! | `control` | [`admin::control`], and a socket by which `corelane rss` shows and changes the table of the running program |
//! | `doctor` | [`doctor`]: what the machine lacks; brings `packets` and `uring` along |
//! | `journal` | [`service::journal`]: log files of services |
//! | `machine` | [`admin::machine`] of processes and threads, this one's too: what they use, and their connections; [`admin::verify`]: whether flows come where they belong |
//! | `packets` | [`Lanes::packet`], [`admin::packets`] and [`admin::dispatch`]: lanes have the frames of an interface; brings `control` and `watch` along |
//! | `profile` | [`Lanes::stall`] and [`admin::profile`]: the functions in which lanes are; brings `watch` along |
//! | `take-over` | [`Lanes::take_over`]: a restart that hands over the sockets, both ways; brings `control` along |
//! | `testing` | [`testing`]: services on simulated lanes |
//! | `uring` | [`lanes::DriverChoice::Uring`]: lanes on io_uring, which `Auto` takes where that is better; without it all are on epoll |
//! | `watch` | readers of counter pages in [`admin::watch`], and [`admin::wrong`]: the faults of a program, as its page tells them |
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

pub mod admin;
#[cfg(feature = "aio")]
pub mod aio;
#[cfg(feature = "doctor")]
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

/// The result of Corelane's calls.
pub type Result<T> = std::result::Result<T, Error>;
