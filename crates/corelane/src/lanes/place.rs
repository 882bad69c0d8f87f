//! Where a service listens.

use crate::lanes::url::Url;
use corelane_rss::Transport;
use corelane_seam::Address;

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
}

impl Place {
    /// The address, with the port that the system chose if it was asked to.
    pub fn address(&self) -> &Address {
        &self.address
    }
}
