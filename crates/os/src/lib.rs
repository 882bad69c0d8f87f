//! Safe system calls and what stands on them alone, one file a subject of the system: sockets, clocks, threads and processes,
//! signals, netlink, shared memory, the operator's lines. What is made of them for a lane stands in the crates `drivers`, `select`
//! and `machine`.
#![allow(unsafe_code)]

pub mod caller;
pub mod claim;
pub mod clock;
pub mod confine;
pub mod cpus;
pub mod errno;
pub mod events;
pub mod halt;
pub mod handed;
pub mod handed_memory;
pub mod journal;
pub mod kernel_files;
pub mod local;
pub mod memory;
pub mod named;
pub mod netlink;
pub mod owners;
pub mod page;
pub mod passing;
pub mod perf;
pub mod processes;
pub mod random;
pub mod report;
pub mod rights;
pub mod runner;
pub mod shared;
pub mod signals;
pub mod sockets;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod user;
pub mod watches;
