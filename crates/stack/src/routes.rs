//! Which addresses are the stack's own, and by which interface and neighbour others are reached.

mod narrow;
mod through;

pub use narrow::NARROW_MAX;
pub(crate) use narrow::WayNews;
pub(crate) use through::Hop;

use crate::settings::{Error, NETWORKS_MAX, Network, Route, Settings};
use narrow::Narrow;
use std::net::IpAddr;
use through::Through;

/// How a packet gets to where it is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The address of ours that it leaves from.
    pub source: IpAddr,
    /// The neighbour that gets it: the destination itself, or a router.
    pub hop: IpAddr,
    /// The number of the interface that it leaves by.
    pub interface: usize,
}

/// A network that is reached without a router, and by which interface.
#[derive(Clone, Copy, Debug)]
struct Near {
    network: Network,
    interface: usize,
}

/// The own addresses, and the ways to others. Own networks are few, so they are looked through in order; the longest prefix is the first.
#[derive(Debug)]
pub(crate) struct Routes {
    near: Vec<Near>,
    through: Through,
    narrow: Narrow,
}

impl Routes {
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let of = |(interface, networks): (usize, &Vec<Network>)| {
            networks.iter().map(move |network| Near { network: *network, interface }).collect::<Vec<_>>()
        };
        let mut near: Vec<_> = settings.interfaces.iter().map(|one| &one.networks).enumerate().flat_map(of).collect();
        if near.len() > NETWORKS_MAX {
            return Err(Error::Networks { got: near.len() });
        }
        near.iter().try_for_each(|near| check_own(&near.network))?;
        let is_of_both =
            |one: &Near, other: &Near| one.network.address == other.network.address && one.interface != other.interface;
        let is_twice = |(place, one): &(usize, &Near)| near[..*place].iter().any(|other| is_of_both(one, other));
        if let Some((_, one)) = near.iter().enumerate().find(is_twice) {
            return Err(Error::Twice { address: one.network.address });
        }
        near.sort_by_key(|near| std::cmp::Reverse(near.network.bits));
        let mut made = Self { near, through: Through::new(), narrow: Narrow::default() };
        for route in &settings.routes {
            let hop = made.hop_of(route)?;
            // Of two for one network the first counts.
            if made.through.get(route.destination, route.bits).is_none() {
                made.through.insert(route.destination, route.bits, hop)?;
            }
        }
        Ok(made)
    }

    /// The way to a network is that from now on. Says which router it had before. A change costs as much with many routes as with few.
    ///
    /// # Errors
    /// As for the routes of [`Settings`]; then nothing has changed.
    pub fn add(&mut self, route: &Route) -> Result<Option<Hop>, Error> {
        let hop = self.hop_of(route)?;
        self.through.insert(route.destination, route.bits, hop)
    }

    /// There is no way to exactly that network from now on but what shorter prefixes say. Says which router it had.
    pub fn delete(&mut self, destination: IpAddr, bits: u8) -> Option<Hop> {
        self.through.remove(destination, bits)
    }

    /// A route's router and its interface.
    fn hop_of(&self, route: &Route) -> Result<Hop, Error> {
        let Route { destination, bits, router, interface } = *route;
        Network { address: destination, bits }.check()?;
        let beside = self.way_beside(router, interface).filter(|_| router.is_ipv4() == destination.is_ipv4());
        let way = beside.filter(|_| !self.is_own(router)).ok_or(Error::Router { router })?;
        // What all stations of a network hear is no router's.
        if router.is_multicast() || router.is_unspecified() || self.is_broadcast(router) {
            return Err(Error::Address { address: router });
        }
        Ok((router, way.interface))
    }

    /// Whether the address is the stack's own.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.near.iter().any(|near| near.network.address == address)
    }

    /// Whether packets to the address go to all stations of a network of ours (RFC 919).
    pub fn is_broadcast(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return false };
        let is_last = |near: &Near| match near.network.address {
            IpAddr::V4(own) if near.network.bits < 31 => {
                let hosts = u32::MAX >> near.network.bits;
                address.to_bits() & hosts == hosts && (address.to_bits() | hosts) == (own.to_bits() | hosts)
            }
            _ => false,
        };
        address.is_broadcast() || self.near.iter().any(is_last)
    }

    /// The way to an address; none if there is no network and no route for it, or it is of a group.
    pub fn way(&self, to: IpAddr) -> Option<Way> {
        if to.is_multicast() || to.is_unspecified() || self.is_broadcast(to) {
            return None;
        }
        if let Some(way) = self.way_beside(to, None) {
            return Some(way);
        }
        let (router, interface) = self.through.find(to)?;
        let beside = self.way_beside(router, Some(interface));
        assert!(beside.is_some(), "a router is beside us: that was looked at when the route was taken");
        // A router of IPv6 may be known by the link's address alone, of which no network says where we send from.
        beside.map(|beside| {
            let source = self.nearest(to, Some(interface)).filter(|_| is_of_link(router)).map_or(beside.source, |(own, _)| own);
            Way { source, ..beside }
        })
    }

    /// The way to a neighbour at an interface.
    pub fn beside(&self, interface: usize, to: IpAddr) -> Option<Way> {
        self.way_beside(to, Some(interface))
    }

    /// The way to a neighbour: one in a network of ours, or of IPv6 with an address of the link's; at that interface, or at any.
    fn way_beside(&self, to: IpAddr, interface: Option<usize>) -> Option<Way> {
        let mut near = self.near.iter().filter(|near| interface.is_none_or(|interface| near.interface == interface));
        let network = near.find(|near| near.network.holds(to)).map(|near| (near.network.address, near.interface));
        let (source, interface) = network.or_else(|| self.nearest(to, interface).filter(|_| is_of_link(to)))?;
        Some(Way { source, hop: to, interface })
    }

    /// The own address of that interface, or of any, that has most in common with another of its family (RFC 6724, section 5, rule 8).
    fn nearest(&self, to: IpAddr, interface: Option<usize>) -> Option<(IpAddr, usize)> {
        let near = self.near.iter().filter(|near| interface.is_none_or(|interface| near.interface == interface));
        let own = near.map(|near| (near.network.address, near.interface)).filter(|(own, _)| own.is_ipv4() == to.is_ipv4());
        own.max_by_key(|(own, _)| in_common(*own, to))
    }

    /// Ways that are narrower than their interface.
    pub fn narrow(&self) -> &Narrow {
        &self.narrow
    }

    /// The same, to be changed.
    pub fn narrow_mut(&mut self) -> &mut Narrow {
        &mut self.narrow
    }
}

/// Whether an address of IPv6 is of the link alone (RFC 4291, section 2.5.6).
fn is_of_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Bits at the front that two addresses of one family have in common.
fn in_common(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// Whether a stack can be made so, but for what only its port shows.
///
/// # Errors
/// What is wrong.
pub fn check_addresses(settings: &Settings) -> Result<(), Error> {
    Routes::new(settings).map(drop)
}

/// Whether a network's address can be a stack's own.
///
/// # Errors
/// [`Error::Prefix`], [`Error::Address`].
pub fn check_own(network: &Network) -> Result<(), Error> {
    network.check()?;
    let address = network.address;
    let is_a_host = !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || is_of_no_host(network));
    if is_a_host { Ok(()) } else { Err(Error::Address { address }) }
}

/// Whether a network has the address for itself: its first, which names it, and its last, which all of it hear (RFC 1122, section 3.2.1.3); of two hosts, none
/// (RFC 3021). Of IPv6 the first is any of its routers' (RFC 4291, section 2.6.1), and what stands for an address of IPv4 is on no link.
fn is_of_no_host(network: &Network) -> bool {
    match network.address {
        IpAddr::V4(address) => {
            let hosts = u32::MAX.checked_shr(network.bits.into()).unwrap_or(0);
            let host = address.to_bits() & hosts;
            let is_of_none = address.is_broadcast() || address.octets()[0] == 0;
            is_of_none || network.bits < 31 && (host == 0 || host == hosts)
        }
        IpAddr::V6(address) => {
            let hosts = u128::MAX.checked_shr(network.bits.into()).unwrap_or(0);
            address.to_ipv4_mapped().is_some() || network.bits < 127 && address.to_bits() & hosts == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
    use std::sync::Arc;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn settings() -> Settings {
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        Settings::new(hasher, Table::even(Buckets::DEFAULT, 1).unwrap(), (0, 1), 7)
    }

    #[test]
    fn the_longest_prefix_is_the_way() {
        let settings = settings()
            .with_network(ip("10.0.0.2"), 24)
            .with_network(ip("2001:db8::2"), 64)
            .with_route(ip("0.0.0.0"), 0, ip("10.0.0.1"))
            .with_route(ip("10.9.0.0"), 16, ip("10.0.0.9"))
            .with_route(ip("::"), 0, ip("2001:db8::1"));
        let routes = Routes::new(&settings).unwrap();
        let hop = |to: &str| routes.way(ip(to)).map(|way| way.hop);
        assert_eq!(hop("10.0.0.77"), Some(ip("10.0.0.77")));
        assert_eq!(hop("10.9.1.1"), Some(ip("10.0.0.9")));
        assert_eq!(hop("192.0.2.1"), Some(ip("10.0.0.1")));
        assert_eq!(hop("2001:db8:1::1"), Some(ip("2001:db8::1")));
        assert_eq!(routes.way(ip("2001:db8::5")).unwrap().source, ip("2001:db8::2"));
        for nowhere in ["10.0.0.255", "255.255.255.255", "224.0.0.1", "ff02::1", "0.0.0.0"] {
            assert_eq!(hop(nowhere), None, "{nowhere}");
        }
        assert!(routes.is_own(ip("10.0.0.2")) && !routes.is_own(ip("10.0.0.1")));
    }

    /// RFC 4861, section 6.3.6: a router is known by its address of the link; and what leaves by it comes from the own address that is nearest.
    #[test]
    fn a_router_may_have_an_address_of_the_link_alone() {
        let settings = settings().with_network(ip("2001:db8:1::2"), 64).with_network(ip("fd00::2"), 64).with_route(
            ip("::"),
            0,
            ip("fe80::1"),
        );
        let routes = Routes::new(&settings).unwrap();
        let way = |source: &str, hop: &str| Some(Way { source: ip(source), hop: ip(hop), interface: 0 });
        assert_eq!(routes.way(ip("2001:db8:9::9")), way("2001:db8:1::2", "fe80::1"));
        assert_eq!(routes.way(ip("fd99::9")), way("fd00::2", "fe80::1"));
        assert_eq!(routes.way(ip("fd00::9")), way("fd00::2", "fd00::9"));
        assert_eq!(routes.way(ip("fe80::7")).unwrap().hop, ip("fe80::7"), "whoever is on the link is reached there");
        let alone = self::settings().with_network(ip("10.0.0.2"), 24).with_route(ip("::"), 0, ip("fe80::1"));
        assert_eq!(
            Routes::new(&alone).unwrap_err(),
            Error::Router { router: ip("fe80::1") },
            "nothing of IPv6 leaves from nowhere"
        );
    }

    /// A route names its interface by its router, or, where its router is of the link alone, by its number.
    #[test]
    fn each_way_names_its_interface() {
        let two = settings()
            .with_network(ip("10.0.0.2"), 24)
            .with_network(ip("2001:db8::2"), 64)
            .and_interface("eth1")
            .with_network(ip("10.0.1.2"), 24)
            .with_network(ip("2001:db8:1::2"), 64)
            .with_route(ip("0.0.0.0"), 0, ip("10.0.1.1"))
            .with_route_by(ip("::"), 0, ip("fe80::1"), 1)
            .with_route_by(ip("2001:db8:9::"), 48, ip("fe80::1"), 0);
        let routes = Routes::new(&two).unwrap();
        let way = |to: &str| routes.way(ip(to)).map(|way| (way.source, way.interface)).unwrap();
        assert_eq!(way("10.0.0.9"), (ip("10.0.0.2"), 0));
        assert_eq!(way("10.0.1.9"), (ip("10.0.1.2"), 1));
        assert_eq!(way("192.0.2.1"), (ip("10.0.1.2"), 1));
        assert_eq!(way("2001:db8:7::1"), (ip("2001:db8:1::2"), 1));
        assert_eq!(way("2001:db8:9::1"), (ip("2001:db8::2"), 0));
        let twice = settings().with_network(ip("10.0.0.2"), 24).and_interface("eth1").with_network(ip("10.0.0.2"), 16);
        let refused = Routes::new(&twice).unwrap_err();
        assert_eq!(refused, Error::Twice { address: ip("10.0.0.2") });
        assert!(refused.to_string().contains("belongs to one interface"), "{refused}");
        let elsewhere = settings().with_network(ip("10.0.0.2"), 24).with_route_by(ip("0.0.0.0"), 0, ip("10.0.0.1"), 1);
        assert_eq!(Routes::new(&elsewhere).unwrap_err(), Error::Router { router: ip("10.0.0.1") });
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        let error = |settings: Settings| Routes::new(&settings).unwrap_err();
        assert_eq!(error(settings().with_network(ip("10.0.0.2"), 33)), Error::Prefix { address: ip("10.0.0.2"), bits: 33 });
        assert_eq!(error(settings().with_network(ip("::"), 64)), Error::Address { address: ip("::") });
        for (none, bits) in [
            ("ff02::1", 64),
            ("224.0.0.1", 24),
            ("127.0.0.2", 8),
            ("::1", 128),
            ("255.255.255.255", 32),
            ("0.0.0.7", 8),
            ("10.0.0.0", 24),
            ("10.0.0.255", 24),
            ("2001:db8::", 64),
            ("::ffff:10.0.0.2", 96),
        ] {
            let refused = error(settings().with_network(ip(none), bits));
            assert_eq!(refused, Error::Address { address: ip(none) });
            assert!(refused.to_string().contains("neither the first nor the last of its network"), "{refused}");
        }
        for (one, bits) in [("10.0.0.0", 31), ("10.0.0.255", 32), ("10.0.0.255", 16), ("10.0.0.2", 0), ("2001:db8::", 127)] {
            assert!(Routes::new(&settings().with_network(ip(one), bits)).is_ok(), "{one}/{bits}");
        }
        let lost = settings().with_network(ip("10.0.0.2"), 24).with_route(ip("0.0.0.0"), 0, ip("10.0.1.1"));
        assert_eq!(error(lost), Error::Router { router: ip("10.0.1.1") });
        let mixed = settings().with_network(ip("10.0.0.2"), 24).with_route(ip("::"), 0, ip("10.0.0.1"));
        assert_eq!(error(mixed), Error::Router { router: ip("10.0.0.1") });
        let everybody = settings().with_network(ip("10.0.0.2"), 24).with_route(ip("0.0.0.0"), 0, ip("10.0.0.255"));
        assert_eq!(error(everybody), Error::Address { address: ip("10.0.0.255") });
        let many = (0..=NETWORKS_MAX).fold(settings(), |settings, _| settings.with_network(ip("10.0.0.2"), 24));
        assert_eq!(error(many), Error::Networks { got: NETWORKS_MAX + 1 });
    }

    /// Routes come and go while others stay: as many as no list could be looked through for, each packet.
    #[test]
    fn routes_are_added_and_deleted_live() {
        let beside = settings().with_network(ip("10.0.0.2"), 24).with_network(ip("2001:db8::2"), 64);
        let first = beside.with_route(ip("0.0.0.0"), 0, ip("10.0.0.1")).with_route(ip("0.0.0.0"), 0, ip("10.0.0.9"));
        let mut routes = Routes::new(&first).unwrap();
        let route = |destination: &str, bits, router: &str| Route {
            destination: ip(destination),
            bits,
            router: ip(router),
            interface: None,
        };
        let hop = |routes: &Routes, to: &str| routes.way(ip(to)).map(|way| way.hop);
        assert_eq!(hop(&routes, "192.0.2.1"), Some(ip("10.0.0.1")), "of two for one network the first counts");
        let many = |number: u32| IpAddr::V4(std::net::Ipv4Addr::from_bits(0x1400_0000 + (number << 8)));
        for number in 0..50_000 {
            let router = std::net::Ipv4Addr::from_bits(0x0a00_0000 + 10 + number % 100).into();
            let added = routes.add(&Route { destination: many(number), bits: 24, router, interface: None });
            assert_eq!(added, Ok(None));
            assert_eq!(routes.way(many(number)).map(|way| way.hop), Some(router));
        }
        assert_eq!(routes.add(&route("192.0.2.77", 24, "10.0.0.3")), Ok(None));
        assert_eq!(routes.add(&route("192.0.2.0", 24, "10.0.0.4")), Ok(Some((ip("10.0.0.3"), 0))));
        assert_eq!((hop(&routes, "192.0.2.1"), hop(&routes, "192.0.3.1")), (Some(ip("10.0.0.4")), Some(ip("10.0.0.1"))));
        assert_eq!(routes.add(&route("192.0.2.0", 24, "10.0.1.4")), Err(Error::Router { router: ip("10.0.1.4") }));
        assert_eq!(routes.add(&route("192.0.2.0", 33, "10.0.0.4")), Err(Error::Prefix { address: ip("192.0.2.0"), bits: 33 }));
        assert_eq!(routes.add(&route("2001:db8:1::", 48, "fe80::1")), Ok(None));
        assert_eq!(hop(&routes, "2001:db8:1::1"), Some(ip("fe80::1")));
        assert_eq!(routes.delete(ip("192.0.2.0"), 24), Some((ip("10.0.0.4"), 0)));
        assert_eq!((routes.delete(ip("192.0.2.0"), 24), hop(&routes, "192.0.2.1")), (None, Some(ip("10.0.0.1"))));
        for number in 0..50_000 {
            assert!(routes.delete(many(number), 24).is_some());
        }
        assert_eq!((routes.delete(ip("0.0.0.0"), 0), hop(&routes, "20.0.0.1")), (Some((ip("10.0.0.1"), 0)), None));
        // What is beside us needs no router, and a route does not lead past it.
        assert_eq!(routes.add(&route("10.0.0.128", 25, "10.0.0.3")), Ok(None));
        assert_eq!(hop(&routes, "10.0.0.200"), Some(ip("10.0.0.200")));
    }
}
