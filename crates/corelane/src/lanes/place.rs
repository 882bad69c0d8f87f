//! Where a service listens.

use crate::lanes::url::Url;
use corelane_os::named::NamedSocket;
use corelane_rss::Transport;
use corelane_seam::Address;
use std::sync::{Arc, Mutex};

/// The names of Unix sockets, which go with them unless another process goes on with them.
pub(crate) type Names = Arc<Mutex<Vec<NamedSocket>>>;

/// One place where a service listens, on every lane.
#[derive(Clone)]
pub struct Place {
    /// The service's name.
    pub service: String,
    /// Where, with the port that the system chose if it was asked to.
    pub url: Url,
    pub(crate) address: Address,
    pub(crate) transport: Transport,
    /// Which of the program's services it is.
    pub(crate) served: usize,
    /// The number of the socket that all lanes share, where there can be only one.
    pub(crate) named: Option<i32>,
    /// That socket was handed over: who did has it as well, and goes on with it.
    pub(crate) outlives: bool,
}

impl Place {
    /// Whether a lane serves there: no flow names the lane of datagrams that come to the one socket of all, and those of a peer are to keep their order.
    pub(crate) fn is_for(&self, lane: usize) -> bool {
        lane == 0 || self.transport == Transport::Tcp || self.named.is_none()
    }

    /// The address, with the port that the system chose if it was asked to.
    pub fn address(&self) -> &Address {
        &self.address
    }
}
