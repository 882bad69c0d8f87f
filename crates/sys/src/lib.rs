//! The only system calls: drivers for a lane on Linux, and what they are made of, one file a kernel feature.
#![allow(unsafe_code)]

mod addresses;
mod bell;
pub mod bpf;
mod caller;
pub mod claim;
mod clock;
mod control;
pub mod control_socket;
pub mod cpus;
mod datagrams;
mod epoll;
mod errno;
mod errors;
pub mod ethtool;
pub mod holders;
pub mod interfaces;
pub mod interrupts;
mod kernel_files;
pub mod machine;
pub mod memory;
mod netlink;
pub mod network;
mod offload;
pub mod page;
mod probes;
pub mod processes;
mod readiness;
mod refuse;
pub mod report;
pub mod runner;
pub mod select;
pub mod signals;
mod sockets;
mod stream;
mod table;
#[cfg(test)]
mod testing;
pub mod topology;
mod tuning;
mod uring;

pub use bell::EventBell;
pub use caller::connect_from;
pub use clock::{now as monotonic_nanoseconds, sleep_until, wall_clock};
pub use epoll::EpollDriver;
pub use errors::Error;
pub use probes::Probes;
pub use uring::{UringDriver, apart, probe_uring};
