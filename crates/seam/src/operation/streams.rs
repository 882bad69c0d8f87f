//! What connections are made with.

use crate::address::Address;
use crate::builders;
use std::time::Duration;

/// Settings of a connection's socket, applied when it is accepted or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamOptions {
    /// Send at once instead of collecting small segments (TCP_NODELAY, tcp(7)). Default true: outputs are gathered here.
    pub no_delay: bool,
    /// Silence after which the peer is probed (SO_KEEPALIVE with TCP_KEEPIDLE), in whole seconds, what is less rounded up, up to 9 hours; zero
    /// never probes. Default 60 seconds.
    pub keep_alive: Duration,
    /// How long sent data may stay unacknowledged, or unsent because the peer takes none (TCP_USER_TIMEOUT), in whole milliseconds, what is less
    /// rounded up; zero leaves it to the kernel. Default 90 seconds: longer than a service's own limit for slow readers.
    pub user_timeout: Duration,
    /// Bytes of the kernel's send buffer (SO_SNDBUF); 0 leaves it to the kernel's own tuning, the default.
    pub send_buffer_bytes: u32,
    /// Bytes of the kernel's receive buffer (SO_RCVBUF); 0 leaves it to the kernel's own tuning, the default.
    pub receive_buffer_bytes: u32,
}

impl StreamOptions {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            no_delay: true,
            keep_alive: Duration::from_secs(60),
            user_timeout: Duration::from_secs(90),
            send_buffer_bytes: 0,
            receive_buffer_bytes: 0,
        }
    }
}

builders!(StreamOptions {
    no_delay: bool,
    keep_alive: Duration,
    user_timeout: Duration,
    send_buffer_bytes: u32,
    receive_buffer_bytes: u32,
});

impl Default for StreamOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A listening stream socket to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address and port; port 0 lets the system choose.
    pub address: Address,
    /// Connections that may wait to be accepted (listen(2)); the system may lower it (net.core.somaxconn).
    pub backlog: u32,
    /// Whether other sockets may listen on the same port (SO_REUSEPORT, socket(7)): needed for one per lane.
    pub share_port: bool,
    /// Whether `[::]` takes IPv6 only (IPV6_V6ONLY, ipv6(7)).
    pub v6_only: bool,
    /// Settings for accepted connections.
    pub stream: StreamOptions,
}
