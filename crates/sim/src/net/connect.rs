//! What connections begin with: attempts, and listeners with their backlog.

use super::binding::{Binding, Owner};
use super::unix::is_unix;
use crate::check::Booked;
use corelane_seam::StreamOptions;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Who opens a connection.
#[derive(Clone, Copy)]
pub(crate) enum Opener {
    /// A lane's operation, with its descriptor.
    Lane(usize, Booked, i32),
    Peer(usize),
}

/// A connection being opened.
pub(crate) struct Attempt {
    pub(crate) opener: Opener,
    pub(crate) host: usize,
    pub(crate) local: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) options: StreamOptions,
    pub(crate) retries: u32,
    /// Its stream, once the listener has answered.
    pub(crate) stream: Option<u64>,
}

/// A listening socket.
pub(crate) struct ListenerPort {
    pub(crate) place: Binding,
    pub(crate) owner: Owner,
    pub(crate) backlog: usize,
    pub(crate) refuses_new: bool,
    pub(crate) options: StreamOptions,
    /// Connections that wait to be accepted.
    pub(crate) queue: VecDeque<u64>,
}

impl ListenerPort {
    /// Whether both are one socket, which lanes share: that of a Unix name.
    pub(crate) fn is_same_socket(&self, other: &Self) -> bool {
        is_unix(self.place.address.ip()) && self.place.address == other.place.address
    }
}
