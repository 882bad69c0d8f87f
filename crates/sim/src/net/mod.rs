//! The simulated network: hosts with addresses, who listens where, and the way to them.

mod binding;
pub(crate) mod connect;
pub(crate) mod datagrams;
pub(crate) mod detached;
mod errno;
mod hosts;
mod local;
mod names;
mod network;
pub(crate) mod peers;
pub(crate) mod pipe;
pub(crate) mod streams;
mod table;
pub(crate) mod unix;

pub(crate) use binding::{Binding, Owner, find};
pub(crate) use errno::{FULL, INVALID, NO_BUFFERS, REFUSED, TIMED_OUT, TOO_LARGE, UNREACHABLE};
pub(crate) use hosts::{OUTSIDE, canonical, destination};
pub(crate) use network::Network;
