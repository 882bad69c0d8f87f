//! The simulated network: hosts with addresses, who listens where, and the way to them.

pub(crate) mod connect;
pub(crate) mod datagrams;
pub(crate) mod names;
pub(crate) mod peers;
pub(crate) mod pipe;
pub(crate) mod streams;

use connect::{Attempt, ListenerPort};
use corelane_seam::mix;
use corelane_seam::{Fault, Reason, Socket};
use datagrams::DatagramPort;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use streams::Stream;

/// The host of everything that is no host of the world: the test's peers.
pub(crate) const OUTSIDE: usize = usize::MAX;
/// The ports that are given out, as Linux does by default (net.ipv4.ip_local_port_range).
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// An address does not fit the socket (EINVAL).
pub(crate) const INVALID: Fault = Fault { reason: Reason::Other, number: 22 };
/// No such family here (EAFNOSUPPORT).
pub(crate) const NO_FAMILY: Fault = Fault { reason: Reason::Unsupported, number: 97 };
const IN_USE: Fault = Fault { reason: Reason::AddressInUse, number: 98 };
const UNKNOWN: Fault = Fault { reason: Reason::AddressUnknown, number: 99 };
pub(crate) const TOO_LARGE: Fault = Fault { reason: Reason::TooLarge, number: 90 };
/// The system has no memory for it now (ENOBUFS).
pub(crate) const NO_BUFFERS: Fault = Fault { reason: Reason::NoMemory, number: 105 };
pub(crate) const UNREACHABLE: Fault = Fault { reason: Reason::Unreachable, number: 101 };
pub(crate) const RESET: Fault = Fault { reason: Reason::Reset, number: 104 };
pub(crate) const BROKEN_PIPE: Fault = Fault { reason: Reason::Reset, number: 32 };
pub(crate) const TIMED_OUT: Fault = Fault { reason: Reason::TimedOut, number: 110 };
pub(crate) const REFUSED: Fault = Fault { reason: Reason::Refused, number: 111 };

/// Who has a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A lane's driver.
    Lane(usize, Socket),
    /// The test's own peer.
    Peer(usize),
    /// A connection that its end does not know yet: opening, or waiting to be accepted.
    Waiting,
    /// Closed at this end.
    Gone,
}

/// What a listening or datagram socket is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) host: usize,
    pub(crate) address: SocketAddr,
    pub(crate) share: bool,
    pub(crate) v6_only: bool,
}

impl Binding {
    /// How well it fits what is sent to `to` on `host`; none if not at all.
    fn fit(&self, host: usize, to: SocketAddr) -> Option<u8> {
        let is_other = names::is_unix(self.address.ip()) != names::is_unix(to.ip());
        if self.host != host || self.address.port() != to.port() || is_other {
            return None;
        }
        match (self.address.ip(), to.ip()) {
            (bound, asked) if bound == asked => Some(2),
            (IpAddr::V6(bound), IpAddr::V4(_)) if bound.is_unspecified() && !self.v6_only => Some(0),
            (bound, asked) if bound.is_unspecified() && bound.is_ipv4() == asked.is_ipv4() => Some(1),
            _ => None,
        }
    }

    fn conflicts(&self, other: &Binding) -> bool {
        self.host == other.host
            && self.address.port() == other.address.port()
            && !(self.share && other.share)
            && (self.fit(other.host, other.address).is_some() || other.fit(self.host, self.address).is_some())
    }
}

pub(crate) struct Network {
    hosts: Vec<Vec<IpAddr>>,
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) listeners: BTreeMap<u64, ListenerPort>,
    pub(crate) ports: BTreeMap<u64, DatagramPort>,
    pub(crate) attempts: BTreeMap<u64, Attempt>,
    /// Local and remote address of each connection, open or opening, as its opener sees it.
    tuples: BTreeSet<(SocketAddr, SocketAddr)>,
    /// Unix names, by the numbers that they have inside.
    names: Vec<names::Name>,
    named: u64,
    next_port: Cell<u16>,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self {
            hosts: Vec::new(),
            streams: BTreeMap::new(),
            listeners: BTreeMap::new(),
            ports: BTreeMap::new(),
            attempts: BTreeMap::new(),
            tuples: BTreeSet::new(),
            names: Vec::new(),
            named: 0,
            next_port: Cell::new(*EPHEMERAL.start()),
        }
    }

    /// A connection of which somebody has an end.
    pub(crate) fn held(&mut self, name: u64) -> &mut Stream {
        // reason: it is forgotten when both ends are closed.
        self.streams.get_mut(&name).expect("a connection goes with the last of its ends")
    }

    /// A name that was never used.
    pub(crate) fn name(&mut self) -> u64 {
        self.named += 1;
        self.named
    }

    pub(crate) fn add_host(&mut self, addresses: &[IpAddr]) -> usize {
        assert!(!addresses.iter().any(|&address| names::is_unix(address)), "Unix names have this block of addresses inside");
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
    fn has(&self, host: usize, address: IpAddr) -> bool {
        host == OUTSIDE || address.is_loopback() || names::is_unix(address) || self.hosts[host].contains(&address)
    }

    /// The address from which `host` speaks to `to` if it has no better one.
    pub(crate) fn source_for(&self, host: usize, to: IpAddr) -> Result<IpAddr, Fault> {
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
        let is_one_family = own.is_ipv4() == to.is_ipv4() && names::is_unix(own) == names::is_unix(to);
        let fits = is_one_family && !(bound.is_ipv4() && to.is_ipv6());
        if fits { Ok(own) } else { Err(INVALID) }
    }

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
        if [Some(to), from].into_iter().flatten().any(|address| names::is_unix(address.ip())) {
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

/// Picks among the sockets that are bound to where `to` leads: the most specific ones, and among those that share the
/// port the one that the flow's hash names.
pub(crate) fn find<'a>(
    places: impl Iterator<Item = (u64, &'a Binding)>,
    host: usize,
    from: SocketAddr,
    to: SocketAddr,
) -> Option<u64> {
    let fits: Vec<_> = places.filter_map(|(name, place)| Some((place.fit(host, to)?, name))).collect();
    let best = fits.iter().map(|fit| fit.0).max()?;
    let group: Vec<_> = fits.into_iter().filter(|fit| fit.0 == best).map(|fit| fit.1).collect();
    group.get(spread(from, to, group.len())).copied()
}

/// Which of `members` sockets that share a port gets the flow. The one place that decides it.
fn spread(from: SocketAddr, to: SocketAddr, members: usize) -> usize {
    (mix(word(from) ^ mix(word(to))) % members.max(1) as u64) as usize
}

fn word(address: SocketAddr) -> u64 {
    let ip = match address.ip() {
        IpAddr::V4(ip) => u32::from(ip) as u64,
        IpAddr::V6(ip) => mix(ip.to_bits() as u64) ^ (ip.to_bits() >> 64) as u64,
    };
    mix(ip) ^ address.port() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: &str) -> Binding {
        Binding { host: 0, address: address.parse().unwrap(), share: false, v6_only: false }
    }

    fn found(places: &[Binding], to: &str) -> Option<u64> {
        let named = places.iter().enumerate().map(|(index, place)| (index as u64, place));
        find(named, 0, "192.0.2.1:5".parse().unwrap(), to.parse().unwrap())
    }

    #[test]
    fn the_most_specific_place_wins() {
        let places = [place("[::]:80"), place("0.0.0.0:80"), place("10.0.0.1:80")];
        assert_eq!(found(&places, "10.0.0.1:80"), Some(2));
        assert_eq!(found(&places, "10.0.0.2:80"), Some(1));
        assert_eq!(found(&places, "[fd00::1]:80"), Some(0));
        assert_eq!(found(&places[..1], "10.0.0.2:80"), Some(0));
        assert_eq!(found(&[Binding { v6_only: true, ..places[0] }], "10.0.0.2:80"), None);
        assert_eq!(found(&places, "10.0.0.1:81"), None);
    }

    #[test]
    fn flows_spread_over_sockets_that_share_a_port() {
        let to = "10.0.0.1:80".parse().unwrap();
        let mut counts = [0; 4];
        (1..=400u16).for_each(|port| counts[spread(SocketAddr::new("192.0.2.1".parse().unwrap(), port), to, 4)] += 1);
        assert!(counts.iter().all(|&count| count > 60), "{counts:?}");
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
