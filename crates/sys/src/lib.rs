//! The only system calls: drivers for a lane on Linux, and what they are made of, one file a kernel feature.
#![allow(unsafe_code)]

mod addresses;
mod bell;
mod clock;
mod control;
mod datagrams;
mod epoll;
mod errno;
mod errors;
mod offload;
pub mod page;
mod probes;
mod refuse;
mod sockets;
mod stream;
mod table;
#[cfg(test)]
mod testing;
mod tuning;

pub use epoll::EpollDriver;
pub use errors::Error;
pub use probes::Probes;
