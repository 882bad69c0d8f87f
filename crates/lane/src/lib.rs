//! The lane: everything that one core needs to serve its share of the traffic.
#![deny(unsafe_code)]

pub mod channel;
mod sync;
pub mod tasks;
pub mod wheel;
