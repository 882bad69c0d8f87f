//! What machine this is: its CPUs and memory nodes, its network cards with their queues and interrupts, and what its network
//! counts. Everything is read; nothing is set.
//!
//! | what | where from |
//! | --- | --- |
//! | CPUs: their memory nodes and cores (`topology`); kind of machine, stolen time | `/sys/devices/system`, `/proc` |
//! | interfaces, drivers, queues (`interfaces`, `ethtool`) | rtnetlink, ethtool over netlink, `/sys/class/net` |
//! | which interrupt is of which queue, and where it is delivered (`interrupts`) | `/proc/interrupts`, `/proc/irq` |
//! | what the network namespace counts and is set to (`network`) | `/proc/net`, `/proc/sys/net` |
//! | the routes of a kernel's table, and what changes there (`routes`) | rtnetlink |
//! | the TCP connections of a process (`connections`) | sock_diag(7), `/proc/PID/fd` |
//!
//! `routes` and `connections` are there with the features of these names.
//!
//! A fact that cannot be read is missing from the answer, or named in its error; nothing is guessed. `steer` makes the plan of lanes from it, `doctor` its findings.
#![allow(unsafe_code)]

#[cfg(feature = "connections")]
pub mod connections;
pub mod ethtool;
mod host;
pub mod interfaces;
pub mod interrupts;
pub mod network;
#[cfg(feature = "routes")]
pub mod routes;
pub mod topology;

pub use host::{Machine, StolenTime, clock_source, is_virtual, stolen_time};
