//! Whose tunnels are opened.

use crate::settings::{Error, NETWORKS_MAX, Network, Settings};
use crate::tunnels::Tunnel;
use std::net::IpAddr;

/// Which kinds are opened, and from whom.
#[derive(Debug)]
pub(crate) struct Opened {
    kinds: [bool; Tunnel::ALL.len()],
    peers: Vec<(Tunnel, Network)>,
}

impl Opened {
    pub fn of(settings: &Settings) -> Result<Self, Error> {
        let mut kinds = [false; Tunnel::ALL.len()];
        if settings.tunnels.len() > NETWORKS_MAX {
            return Err(Error::Peers { got: settings.tunnels.len() });
        }
        for (tunnel, peers) in &settings.tunnels {
            peers.check()?;
            kinds[*tunnel as usize] = true;
        }
        Ok(Self { kinds, peers: settings.tunnels.clone() })
    }

    /// Whether that kind is opened at all.
    pub fn has(&self, tunnel: Tunnel) -> bool {
        self.kinds[tunnel as usize]
    }

    /// Whether it is opened for what comes from there (RFC 4213, section 3.6).
    pub fn lets(&self, tunnel: Tunnel, from: IpAddr) -> bool {
        self.peers.iter().any(|(kind, peers)| *kind == tunnel && peers.holds(from))
    }
}
