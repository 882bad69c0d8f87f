//! Local addresses: where sockets may be bound, and what ends of connections take.

use super::binding::Binding;
use super::errno::{IN_USE, UNKNOWN, UNREACHABLE};
use super::hosts::canonical;
use super::network::{EPHEMERAL, Network};
use super::unix::is_unix;
use corelane_seam::Fault;
use std::net::SocketAddr;

impl Network {
    /// As [`Network::settle_place`], for a listener.
    pub(crate) fn settle_listener(&self, place: Binding) -> Result<SocketAddr, Fault> {
        self.check_file(place.address, true)?;
        self.settle_place(place, self.listeners.values().map(|listener| &listener.place))
    }

    /// As [`Network::settle_place`], for a datagram socket.
    pub(crate) fn settle_port(&self, place: Binding) -> Result<SocketAddr, Fault> {
        self.check_file(place.address, false)?;
        self.settle_place(place, self.ports.values().map(|port| &port.place))
    }

    /// Checks what a socket is to be bound to among `taken`, and chooses the port if that is left open.
    fn settle_place<'a>(&self, place: Binding, taken: impl Iterator<Item = &'a Binding> + Clone) -> Result<SocketAddr, Fault> {
        let address = canonical(place.address);
        if !address.ip().is_unspecified() && !self.has(place.host, address.ip()) {
            return Err(UNKNOWN);
        }
        let is_free = |port: &u16| {
            let exclusive =
                Binding { address: SocketAddr::new(address.ip(), *port), share: place.share && address.port() != 0, ..place };
            !taken.clone().any(|other| exclusive.conflicts(other))
        };
        let port = match address.port() {
            0 => self.free_ports().find(is_free),
            port => Some(port).filter(is_free),
        };
        Ok(SocketAddr::new(address.ip(), port.ok_or(IN_USE)?))
    }

    /// Takes a local address for a connection from `host` to `to`, until [`Network::give_back`].
    pub(crate) fn take_local(&mut self, host: usize, from: Option<SocketAddr>, to: SocketAddr) -> Result<SocketAddr, Fault> {
        if [Some(to), from].into_iter().flatten().any(|address| is_unix(address.ip())) {
            return self.take_unix_end(from, to);
        }
        let ip = match from.map(|from| from.ip().to_canonical()).filter(|ip| !ip.is_unspecified()) {
            Some(ip) if self.has(host, ip) => ip,
            Some(_) => return Err(UNKNOWN),
            None => self.source_for(host, to.ip())?,
        };
        if ip.is_ipv4() != to.is_ipv4() {
            return Err(UNREACHABLE);
        }
        if let Some(port) = from.map(|from| from.port()).filter(|&port| port != 0) {
            let local = SocketAddr::new(ip, port);
            return if self.tuples.insert((local, to)) { Ok(local) } else { Err(IN_USE) };
        }
        let mut locals = self.free_ports().map(|port| SocketAddr::new(ip, port));
        let local = locals.find(|&local| !self.tuples.contains(&(local, to))).ok_or(UNKNOWN)?;
        drop(locals);
        self.tuples.insert((local, to));
        Ok(local)
    }

    /// All ports that are given out, those first that were not for the longest time.
    fn free_ports(&self) -> impl Iterator<Item = u16> {
        EPHEMERAL.map(|_| {
            let port = self.next_port.get();
            self.next_port.set(if port == *EPHEMERAL.end() { *EPHEMERAL.start() } else { port + 1 });
            port
        })
    }

    /// Ends the use of a local address.
    pub(crate) fn give_back(&mut self, local: SocketAddr, to: SocketAddr) {
        self.tuples.remove(&(local, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: &str) -> Binding {
        Binding { host: 0, address: address.parse().unwrap(), share: false, v6_only: false }
    }

    #[test]
    fn a_place_is_taken_once_unless_shared() {
        let network = {
            let mut network = Network::new();
            network.add_host(&["10.0.0.1".parse().unwrap()]);
            network
        };
        let settle = |new: Binding, taken: &[Binding]| network.settle_place(new, taken.iter());
        let wildcard = place("0.0.0.0:80");
        assert_eq!(settle(place("10.0.0.1:80"), &[wildcard]), Err(IN_USE));
        assert_eq!(settle(place("10.0.0.9:80"), &[]), Err(UNKNOWN));
        let shared = Binding { share: true, ..wildcard };
        assert_eq!(settle(shared, &[shared]), Ok(shared.address));
        let chosen = settle(place("10.0.0.1:0"), &[place("0.0.0.0:32768")]);
        assert_eq!(chosen, Ok("10.0.0.1:32769".parse().unwrap()));
    }
}
