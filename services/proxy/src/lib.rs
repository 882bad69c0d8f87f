//! The proxy: passes the bytes of each client on to a server behind it, its *upstream*, and back, in the memory in which they came.
//!
//! The upstreams themselves are [`corelane_upstreams`]: who they are, which is next, and which is left out.
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod counters;
mod ends;
mod entry;
mod header;
mod live;
mod log;
mod proxy;
mod routes;
mod udp;

pub use counters::ProxyCounter;
pub use ends::{End, Told};
pub use entry::{DEFAULT_PORT, DEFAULT_TLS_PORT, DEFAULT_UDP_PORT, ENTRY};
pub use log::ProxyLog;
pub use proxy::Proxy;
pub use routes::Routes;
pub use udp::{UdpCounter, UdpProxy};
