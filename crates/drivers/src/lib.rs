//! The drivers of a lane on Linux, and what they are made of, one file a kernel feature.
#![doc = include_str!("../DESIGN.md")]
#![allow(unsafe_code)]

mod addresses;
mod answer;
mod apart;
mod bell;
mod bridging;
mod components;
mod control;
mod crossing;
mod datagrams;
mod epoll;
mod errors;
mod listing;
mod means;
mod needed_calls;
mod notices;
mod offload;
mod open_file;
mod opening;
mod pipes;
mod probes;
mod probing;
mod readiness;
mod refuse;
mod stream;
mod tuning;
#[cfg(feature = "uring")]
mod uring;
mod warm;
#[cfg(not(feature = "uring"))]
mod without;

pub use apart::apart;
pub use bell::EventBell;
pub use bridging::probe_bridge;
pub use crossing::Crossing;
pub use epoll::EpollDriver;
pub use errors::Error;
pub use needed_calls::probe_file_calls;
pub use probes::Probes;
pub use probing::tried;
pub use tuning::check;
#[cfg(feature = "uring")]
pub use uring::{UringDriver, probe_uring, refused_operations};
#[cfg(not(feature = "uring"))]
use without::uring;
