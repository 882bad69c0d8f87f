//! What machine this is: its CPUs and memory nodes, its network cards with their queues and interrupts, and what its network
//! counts. Everything is read; nothing is set.
#![allow(unsafe_code)]

pub mod connections;
pub mod ethtool;
mod host;
pub mod interfaces;
pub mod interrupts;
pub mod network;
pub mod topology;

pub use host::{Machine, StolenTime, clock_source, is_virtual, stolen_time};
