//! Which addresses are the stack's own, and by which interface and neighbour others are reached.
//!
//! The longest prefix is the way. Several routes of one prefix are a group: what is forwarded is spread over it by flows ([`Routes::way_of_flow`]), and what the stack itself sends
//! goes by the first. Nothing is looked through for a packet: prefixes are found by their length, own addresses and broadcasts by a table.

mod marked;
mod narrow;
mod prefixes;
mod reaches;
mod way;

pub use narrow::NARROW_MAX;
pub(crate) use narrow::WayNews;
pub(crate) use way::Way;

use crate::settings::{Error, Network, ROUTES_MAX, Route, Settings, WAYS_MAX};
use marked::{BROADCAST, Marked, OWN};
use narrow::Narrow;
use prefixes::Prefixes;
use reaches::{Reach, Reaches};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// The own addresses, and the ways to others.
#[derive(Debug)]
pub(crate) struct Routes {
    /// The networks of each interface, those with the longest prefix first.
    near: Vec<Vec<Network>>,
    marked: Marked,
    /// Where these networks lead, by the number of a reach; and the same with what routers lead to.
    own: Prefixes,
    prefixes: Prefixes,
    reaches: Reaches,
    narrow: Narrow,
}

impl Routes {
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let mut near: Vec<_> = settings.interfaces.iter().map(|one| one.networks.clone()).collect();
        let addresses: usize = near.iter().map(Vec::len).sum();
        if addresses + settings.routes.len() > ROUTES_MAX {
            return Err(Error::Routes { got: addresses + settings.routes.len() });
        }
        near.iter().flatten().try_for_each(check_own)?;
        let (mut of, mut marks) = (BTreeMap::new(), Vec::new());
        for (interface, network) in
            near.iter().enumerate().flat_map(|(interface, all)| all.iter().map(move |one| (interface, one)))
        {
            if *of.entry(network.address).or_insert(interface) != interface {
                return Err(Error::Twice { address: network.address });
            }
            marks.push((network.address, OWN));
            marks.extend(broadcast_of(network).map(|last| (last, BROADCAST)));
        }
        near.iter_mut().for_each(|networks| networks.sort_by_key(|network| std::cmp::Reverse(network.bits)));
        let (own, prefixes, reaches) = (Prefixes::new(), Prefixes::new(), Reaches::default());
        let mut made = Self { near, marked: Marked::new(&marks), own, prefixes, reaches, narrow: Narrow::default() };
        made.add_near()?;
        settings.routes.iter().try_for_each(|route| made.add(route).map(drop))?;
        Ok(made)
    }

    /// Adds the networks of the own addresses: of two with one prefix, the first.
    fn add_near(&mut self) -> Result<(), Error> {
        let Self { near, own, prefixes, reaches, .. } = self;
        for (interface, network) in
            near.iter().enumerate().flat_map(|(interface, all)| all.iter().map(move |one| (interface, one)))
        {
            if own.get(network.address, network.bits).is_none() {
                let number = reaches.take(Reach::Near { source: network.address, interface });
                own.insert(network.address, network.bits, number)?;
                prefixes.insert(network.address, network.bits, number)?;
            }
        }
        Ok(())
    }

    /// One more way leads to a network from now on, in a group with others of its prefix, if there are any. Says whether it is new: a network of ours is reached without a router.
    /// How many routes there are makes no difference to what that costs.
    ///
    /// # Errors
    /// As for the routes of [`Settings`]; then nothing has changed.
    pub fn add(&mut self, route: &Route) -> Result<bool, Error> {
        let way = self.way_by(route)?;
        let Route { destination, bits, .. } = *route;
        let ways = match self.prefixes.get(destination, bits).map(|number| self.reaches.get(number)) {
            None => vec![way],
            Some(Reach::Near { .. }) => return Ok(false),
            Some(Reach::By(ways)) if ways.contains(&way) => return Ok(false),
            Some(Reach::By(ways)) if ways.len() >= WAYS_MAX => return Err(Error::Ways { destination, bits }),
            Some(Reach::By(ways)) => ways.iter().copied().chain([way]).collect(),
        };
        self.lead(destination, bits, ways).map(|()| true)
    }

    /// Whether a route could be added; false if its network is one of ours, which is reached without a router.
    ///
    /// # Errors
    /// As for [`Routes::add`], but for bounds.
    pub fn could_lead(&self, route: &Route) -> Result<bool, Error> {
        self.way_by(route)?;
        let is_near = |number| matches!(self.reaches.get(number), Reach::Near { .. });
        Ok(!self.prefixes.get(route.destination, route.bits).is_some_and(is_near))
    }

    /// No way by that router leads to exactly that network any more. Says whether one did.
    pub fn delete(&mut self, destination: IpAddr, bits: u8, router: IpAddr) -> bool {
        let Some(number) = self.prefixes.get(destination, bits) else { return false };
        let Reach::By(ways) = self.reaches.get(number) else { return false };
        let left: Vec<_> = ways.iter().copied().filter(|way| way.hop != router).collect();
        if left.len() == ways.len() {
            return false;
        }
        if left.is_empty() {
            self.prefixes.remove(destination, bits);
            self.reaches.give(number);
        } else if self.lead(destination, bits, left).is_err() {
            unreachable!("a network that is there finds its place");
        }
        true
    }

    /// A network is reached by these from now on.
    fn lead(&mut self, destination: IpAddr, bits: u8, ways: Vec<Way>) -> Result<(), Error> {
        let number = self.reaches.take(Reach::By(ways));
        match self.prefixes.insert(destination, bits, number) {
            Ok(before) => before.into_iter().for_each(|before| self.reaches.give(before)),
            Err(error) => {
                self.reaches.give(number);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The way by a route's router, which is in a network of ours.
    fn way_by(&self, route: &Route) -> Result<Way, Error> {
        let Route { destination, bits, router, interface } = *route;
        Network { address: destination, bits }.check()?;
        let beside = match interface {
            Some(interface) => self.beside(interface, router),
            None if is_of_link(router) => self.nearest(router, None),
            None => self.own.find(router).and_then(|number| self.by(number, router, || 0)),
        };
        let beside = beside.filter(|_| router.is_ipv4() == destination.is_ipv4());
        let way = beside.filter(|_| !self.is_own(router)).ok_or(Error::Router { router })?;
        // What all stations of a network hear is no router's.
        if router.is_multicast() || router.is_unspecified() || self.is_broadcast(router) {
            return Err(Error::Address { address: router });
        }
        Ok(way)
    }

    /// Whether the address is the stack's own.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.marked.of(address) & OWN != 0
    }

    /// Whether packets to the address go to all stations of a network of ours (RFC 919).
    pub fn is_broadcast(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => v4.is_broadcast() || self.marked.of(address) & BROADCAST != 0,
            IpAddr::V6(_) => false,
        }
    }

    /// The way to an address; none if there is no network and no route for it, or it is of a group.
    pub fn way(&self, to: IpAddr) -> Option<Way> {
        self.way_of_flow(to, || 0)
    }

    /// The way of a flow to an address. Where several lead there, `draw` is asked for a number, by whose upper bits one is taken.
    pub fn way_of_flow(&self, to: IpAddr, draw: impl FnOnce() -> u32) -> Option<Way> {
        if to.is_multicast() || to.is_unspecified() || self.is_broadcast(to) {
            return None;
        }
        let reach = self.prefixes.find(to);
        if is_of_link(to) && !reach.is_some_and(|reach| matches!(self.reaches.get(reach), Reach::Near { .. })) {
            return self.nearest(to, None);
        }
        self.by(reach?, to, draw)
    }

    fn by(&self, number: u32, to: IpAddr, draw: impl FnOnce() -> u32) -> Option<Way> {
        match self.reaches.get(number) {
            Reach::Near { source, interface } => Some(Way { source: *source, hop: to, interface: *interface }),
            Reach::By(ways) => {
                let place = if ways.len() == 1 { 0 } else { ((u64::from(draw()) * ways.len() as u64) >> 32) as usize };
                let way = ways[place];
                // A router of IPv6 may be known by the link's address alone, of which no network says where we send from.
                let source = if is_of_link(way.hop) { self.nearest(to, Some(way.interface))?.source } else { way.source };
                Some(Way { source, ..way })
            }
        }
    }

    /// Whether what comes from an address may have come by an interface (RFC 3704): by one of the ways to it, or, if that is enough, by any that leads there.
    pub fn is_expected(&self, from: IpAddr, interface: usize, is_strict: bool) -> bool {
        if is_of_link(from) {
            return true;
        }
        match self.prefixes.find(from).map(|number| self.reaches.get(number)) {
            None => false,
            Some(_) if !is_strict => true,
            Some(Reach::Near { interface: by, .. }) => *by == interface,
            Some(Reach::By(ways)) => ways.iter().any(|way| way.interface == interface),
        }
    }

    /// The way to a neighbour at an interface: one in a network of ours there, or of IPv6 with an address of the link's.
    pub fn beside(&self, interface: usize, to: IpAddr) -> Option<Way> {
        let network = self.near.get(interface)?.iter().find(|network| network.holds(to));
        let way = network.map(|network| Way { source: network.address, hop: to, interface });
        way.or_else(|| self.nearest(to, Some(interface)).filter(|_| is_of_link(to)))
    }

    /// The way to an address of the link's, from the own address of that interface, or of any, that has most in common with it and is of its family (RFC 6724, section 5, rule
    /// 8).
    fn nearest(&self, to: IpAddr, interface: Option<usize>) -> Option<Way> {
        let interfaces = interface.map_or(0..self.near.len(), |interface| interface..interface + 1);
        let own = interfaces.flat_map(|interface| self.near[interface].iter().map(move |network| (network.address, interface)));
        let (source, interface) =
            own.filter(|(own, _)| own.is_ipv4() == to.is_ipv4()).max_by_key(|(own, _)| in_common(*own, to))?;
        Some(Way { source, hop: to, interface })
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
pub(crate) fn is_of_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The address that all of a network hear, where it has one.
fn broadcast_of(network: &Network) -> Option<IpAddr> {
    match network.address {
        IpAddr::V4(own) if network.bits < 31 => Some(Ipv4Addr::from_bits(own.to_bits() | u32::MAX >> network.bits).into()),
        _ => None,
    }
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

    /// Routes come and go while others stay: as many as no list could be looked through for, each packet.
    #[test]
    fn routes_are_added_and_deleted_live() {
        let beside = settings().with_network(ip("10.0.0.2"), 24).with_network(ip("2001:db8::2"), 64);
        let mut routes = Routes::new(&beside.with_route(ip("0.0.0.0"), 0, ip("10.0.0.1"))).unwrap();
        let route = |destination: &str, bits, router: &str| Route {
            destination: ip(destination),
            bits,
            router: ip(router),
            interface: None,
        };
        let hop = |routes: &Routes, to: &str| routes.way(ip(to)).map(|way| way.hop);
        let many = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(0x1400_0000 + (number << 8)));
        let router = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + 10 + number % 100));
        for number in 0..50_000 {
            let one = Route { destination: many(number), bits: 24, router: router(number), interface: None };
            assert_eq!((routes.add(&one), routes.add(&one)), (Ok(true), Ok(false)));
            assert_eq!(routes.way(many(number)).map(|way| way.hop), Some(router(number)));
        }
        // A group is one way less, or more.
        assert_eq!(routes.add(&route("192.0.2.77", 24, "10.0.0.3")), Ok(true));
        assert_eq!(routes.add(&route("192.0.2.0", 24, "10.0.0.4")), Ok(true));
        let drawn = |routes: &Routes, drawn: u32| routes.way_of_flow(ip("192.0.2.1"), || drawn).map(|way| way.hop);
        assert_eq!((drawn(&routes, 0), drawn(&routes, u32::MAX)), (Some(ip("10.0.0.3")), Some(ip("10.0.0.4"))));
        assert!(routes.delete(ip("192.0.2.0"), 24, ip("10.0.0.3")) && !routes.delete(ip("192.0.2.0"), 24, ip("10.0.0.3")));
        assert_eq!((drawn(&routes, 0), drawn(&routes, u32::MAX)), (Some(ip("10.0.0.4")), Some(ip("10.0.0.4"))));
        assert_eq!(routes.add(&route("192.0.2.0", 24, "10.0.1.4")), Err(Error::Router { router: ip("10.0.1.4") }));
        assert_eq!(routes.add(&route("192.0.2.0", 33, "10.0.0.4")), Err(Error::Prefix { address: ip("192.0.2.0"), bits: 33 }));
        assert!(routes.delete(ip("192.0.2.0"), 24, ip("10.0.0.4")));
        assert_eq!(hop(&routes, "192.0.2.1"), Some(ip("10.0.0.1")), "by the shorter prefix");
        assert_eq!(routes.add(&route("2001:db8:1::", 48, "fe80::1")), Ok(true));
        assert_eq!(hop(&routes, "2001:db8:1::1"), Some(ip("fe80::1")));
        for number in 0..50_000 {
            assert!(routes.delete(many(number), 24, router(number)));
        }
        assert!(routes.delete(ip("0.0.0.0"), 0, ip("10.0.0.1")) && hop(&routes, "20.0.0.1").is_none());
        // What is beside us needs no router: that network is led to by none, and goes with none. A longer one may be behind a router.
        assert_eq!(routes.add(&route("10.0.0.0", 24, "10.0.0.3")), Ok(false));
        assert!(!routes.delete(ip("10.0.0.0"), 24, ip("10.0.0.3")) && hop(&routes, "10.0.0.200") == Some(ip("10.0.0.200")));
        assert_eq!(routes.add(&route("10.0.0.128", 25, "10.0.0.3")), Ok(true));
        assert_eq!(hop(&routes, "10.0.0.200"), Some(ip("10.0.0.3")));
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
        let many = (0..=ROUTES_MAX).fold(settings(), |settings, _| settings.with_network(ip("10.0.0.2"), 24));
        assert_eq!(error(many), Error::Routes { got: ROUTES_MAX + 1 });
    }
}
