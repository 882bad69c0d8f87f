//! What can go wrong at the start.

use corelane::lanes::Transport;
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// What can go wrong at the start. Nothing does afterwards: who misbehaves is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened at.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system has no thread, or nothing to wait by, for the server.
    Start {
        /// What the system says.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, .. } => {
                let holder = corelane::lanes::holder(Transport::Tcp, *address);
                let holder = holder.map_or(String::new(), |holder| format!(": {holder} serves this port"));
                write!(f, "metrics cannot be served at {address}{holder}: choose an address of this machine and a port that is free")
            }
            Self::Start { .. } => {
                f.write_str("metrics cannot be served, for the system refuses a thread or a descriptor: raise the limits of threads (ulimit -u) and descriptors (ulimit -n)")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { source, .. } | Self::Start { source } => Some(source),
        }
    }
}
