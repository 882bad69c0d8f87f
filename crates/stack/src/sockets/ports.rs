//! Ports that are given to whoever asks for none.

use super::Sockets;
use crate::placing::Placing;
use corelane_rss::{Outgoing, Protocol, Way as Direction};
use std::net::{IpAddr, SocketAddr};

/// Ports that are given to whoever asks for none (RFC 6335, section 6). Of a socket that has no peer each lane has its own, told by the
/// remainder.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// The ports of a lane.
#[derive(Debug)]
pub(crate) struct Ports {
    /// The number of the lane, and how many there are.
    lane: (usize, usize),
    /// The port that was given last.
    last: u16,
}

impl Ports {
    pub const fn new(lane: (usize, usize)) -> Self {
        Self { lane, last: 0 }
    }

    /// A port that nobody has, and whose datagrams come to this lane.
    pub fn free(&mut self, ip: IpAddr, peer: Option<SocketAddr>, sockets: &Sockets, placing: &Placing) -> Option<SocketAddr> {
        let is_free = |port: &u16| sockets.is_unused(SocketAddr::new(ip, *port));
        let (lane, lanes) = self.lane;
        // Behind the one that was given last, so that none is used again at once.
        let first = self.last.max(*EPHEMERAL.start());
        let behind = |port: &u16| *port > first;
        let ports = EPHEMERAL.filter(behind).chain(EPHEMERAL.filter(|port| *port <= first));
        let own = |port: &u16| lanes == 1 || usize::from(*port) % lanes == lane;
        let port = match peer {
            Some(peer) if lanes > 1 => {
                let flow = Outgoing { local: ip, peer, protocol: Protocol::UDP, way: Direction::Home };
                let found = || flow.ports(placing.hasher(), EPHEMERAL, |flow| placing.lane_of(flow) == lane).ok();
                let free =
                    |wanted: &dyn Fn(&u16) -> bool| found()?.map(|(port, _)| port).find(|port| wanted(port) && is_free(port));
                free(&behind).or_else(|| free(&|_| true))
            }
            _ => ports.filter(own).find(is_free),
        };
        let port = port?;
        self.last = port;
        Some(SocketAddr::new(ip, port))
    }

    /// The other lane that alone may have a socket at a port, if there is one.
    pub fn lane_of(&self, port: u16) -> Option<usize> {
        let lane = usize::from(port) % self.lane.1;
        (EPHEMERAL.contains(&port) && lane != self.lane.0).then_some(lane)
    }
}
