//! The socket of a flow's lane, selected in the kernel: where several sockets share a port (SO_REUSEPORT, socket(7)), a program of
//! ours says which of them a new connection or a datagram goes to, by the bucket of its flow id and the table.
//!
//! There are two means, with one promise. With CAP_BPF a program finds the lane in a map, so that a new table is in force as soon
//! as it is written, and counts. Without any capability a program of the classic kind has the table in itself.
//!
//! Nothing outlives the sockets: the kernel keeps program and maps for them alone.
#![doc = include_str!("../DESIGN.md")]
#![allow(unsafe_code)]

pub mod bpf;
mod classic;
mod counts;
mod errors;
mod hashing;
pub mod holders;
mod parity;
mod program;
mod queue;
mod selector;

pub use counts::{Counts, LaneCounts};
pub use errors::Error;
pub use queue::QueueSelector;
pub use selector::{Group, HandedMaps, HandedProgram, Joining, Means, Selector, detach, probe};
