//! Hosts: which addresses are theirs, where an address leads, and from which they speak.

use super::errno::{INVALID, UNREACHABLE};
use super::network::Network;
use super::unix::is_unix;
use corelane_seam::Fault;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The host of everything that is no host of the world: the test's peers.
pub(crate) const OUTSIDE: usize = usize::MAX;

impl Network {
    pub(crate) fn add_host(&mut self, addresses: &[IpAddr]) -> usize {
        assert!(!addresses.iter().any(|&address| is_unix(address)), "Unix names have this block of addresses inside");
        self.hosts.push(addresses.iter().map(IpAddr::to_canonical).collect());
        self.hosts.len() - 1
    }

    pub(crate) fn renumber(&mut self, host: usize, addresses: &[IpAddr]) {
        self.hosts[host] = addresses.iter().map(IpAddr::to_canonical).collect();
    }

    /// The host that has `address`, seen from `from`: loopback is the own host, or the first one for peers.
    pub(crate) fn host_of(&self, from: usize, address: IpAddr) -> usize {
        if let Some(host) = self.host_of_name(address) {
            return host;
        }
        if address.is_loopback() {
            return if from == OUTSIDE { 0 } else { from };
        }
        self.hosts.iter().position(|addresses| addresses.contains(&address)).unwrap_or(OUTSIDE)
    }

    /// Whether a peer of the test listens at `address`.
    pub(crate) fn knows_outside(&self, address: IpAddr) -> bool {
        self.listeners.values().any(|listener| listener.place.host == OUTSIDE && listener.place.address.ip() == address)
    }

    /// Whether `host` may use `address` as its own.
    pub(super) fn has(&self, host: usize, address: IpAddr) -> bool {
        host == OUTSIDE || address.is_loopback() || is_unix(address) || self.hosts[host].contains(&address)
    }

    /// The address from which `host` speaks to `to` if it has no better one.
    pub(super) fn source_for(&self, host: usize, to: IpAddr) -> Result<IpAddr, Fault> {
        if to.is_loopback() {
            return Ok(to);
        }
        let own = self.hosts.get(host).into_iter().flatten();
        own.copied().find(|address| address.is_ipv4() == to.is_ipv4()).ok_or(UNREACHABLE)
    }

    /// The address that a socket of `host` bound to `bound` has towards `to`; `source` is the one that it would like.
    pub(crate) fn own_end(&self, host: usize, bound: IpAddr, source: Option<IpAddr>, to: IpAddr) -> Result<IpAddr, Fault> {
        let own = match source {
            _ if !bound.is_unspecified() => bound,
            Some(source) => source.to_canonical(),
            None => self.source_for(host, to)?,
        };
        let is_one_family = own.is_ipv4() == to.is_ipv4() && is_unix(own) == is_unix(to);
        let fits = is_one_family && !(bound.is_ipv4() && to.is_ipv6());
        if fits { Ok(own) } else { Err(INVALID) }
    }
}

/// One spelling for each address: a mapped IPv4 address is IPv4.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Where a packet for `to` goes: connecting to the wildcard address means this host (ip(7)).
pub(crate) fn destination(to: SocketAddr) -> SocketAddr {
    let ip = match to.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, to.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_the_own_host() {
        let mut network = Network::new();
        for address in ["10.0.0.1", "10.0.0.2"] {
            network.add_host(&[address.parse().unwrap()]);
        }
        let host = |from, address: &str| network.host_of(from, address.parse().unwrap());
        assert_eq!((host(1, "127.0.0.1"), host(OUTSIDE, "::1")), (1, 0));
        assert_eq!((host(0, "10.0.0.2"), host(0, "192.0.2.1")), (1, OUTSIDE));
    }
}
