//! Ways through routers, by the longest prefix.

use crate::settings::{Error, ROUTES_MAX};
use corelane_prefixes::{Prefix, Prefixes};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A router, and the interface that it is reached by.
pub(crate) type Hop = (IpAddr, usize);

/// Prefixes of both families, [`ROUTES_MAX`] in each at most. Many have few routers: each of these has a number.
#[derive(Debug)]
pub(super) struct Through {
    v4: Prefixes<Ipv4Addr>,
    v6: Prefixes<Ipv6Addr>,
    /// Routers by their numbers, and how many prefixes each has. One without any has a number that is free.
    hops: Vec<(Hop, usize)>,
    free: Vec<u32>,
    numbers: BTreeMap<Hop, u32>,
}

impl Through {
    pub const fn new() -> Self {
        Self {
            v4: Prefixes::with_bound(ROUTES_MAX),
            v6: Prefixes::with_bound(ROUTES_MAX),
            hops: Vec::new(),
            free: Vec::new(),
            numbers: BTreeMap::new(),
        }
    }

    /// The router for an address.
    pub fn find(&self, to: IpAddr) -> Option<Hop> {
        let (_, number) = match to {
            IpAddr::V4(to) => self.v4.find(to),
            IpAddr::V6(to) => self.v6.find(to),
        }?;
        Some(self.hops[number as usize].0)
    }

    /// The router of exactly that network.
    pub fn get(&self, destination: IpAddr, bits: u8) -> Option<Hop> {
        let number = match destination {
            IpAddr::V4(address) => self.v4.get(&Prefix::around(address, bits).ok()?),
            IpAddr::V6(address) => self.v6.get(&Prefix::around(address, bits).ok()?),
        };
        number.map(|number| self.hops[number as usize].0)
    }

    /// The router of the network that an address begins with is `hop` from now on. Says which it was.
    pub fn insert(&mut self, destination: IpAddr, bits: u8, hop: Hop) -> Result<Option<Hop>, Error> {
        let refused = |error| match error {
            corelane_prefixes::Error::Full { .. } => Error::Routes { got: ROUTES_MAX + 1 },
            _ => Error::Prefix { address: destination, bits },
        };
        let number = self.take(hop);
        let before = match destination {
            IpAddr::V4(address) => Prefix::around(address, bits).and_then(|prefix| self.v4.insert(prefix, number)),
            IpAddr::V6(address) => Prefix::around(address, bits).and_then(|prefix| self.v6.insert(prefix, number)),
        };
        match before {
            Ok(before) => Ok(before.map(|before| self.give(before))),
            Err(error) => {
                self.give(number);
                Err(refused(error))
            }
        }
    }

    /// Nothing is known of that network from now on. Says which router it had.
    pub fn remove(&mut self, destination: IpAddr, bits: u8) -> Option<Hop> {
        let number = match destination {
            IpAddr::V4(address) => self.v4.remove(&Prefix::around(address, bits).ok()?),
            IpAddr::V6(address) => self.v6.remove(&Prefix::around(address, bits).ok()?),
        };
        number.map(|number| self.give(number))
    }

    /// The number of a router that one more prefix has.
    fn take(&mut self, hop: Hop) -> u32 {
        let Self { hops, free, numbers, .. } = self;
        let number = *numbers.entry(hop).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                hops.push((hop, 0));
                hops.len() as u32 - 1
            })
        });
        let (named, prefixes) = &mut hops[number as usize];
        *named = hop;
        *prefixes += 1;
        number
    }

    /// One prefix fewer has the router of that number.
    fn give(&mut self, number: u32) -> Hop {
        let (hop, prefixes) = &mut self.hops[number as usize];
        assert!(*prefixes > 0, "a prefix is counted at its router");
        *prefixes -= 1;
        if *prefixes == 0 {
            self.numbers.remove(hop);
            self.free.push(number);
        }
        *hop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Numbers of routers without prefixes are given to others, and nobody's route changes.
    #[test]
    fn each_prefix_has_its_router_however_routers_come_and_go() {
        let mut through = Through::new();
        let hop = |number: u32| (IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)), number as usize % 3);
        let to = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(number << 16 | 7));
        for round in 0..50 {
            for number in 0..100 {
                let before = through.insert(to(number), 16, hop(round * 7 + number % 10)).unwrap();
                assert_eq!(before, (round > 0 && number >= 10).then(|| hop((round - 1) * 7 + number % 10)));
            }
            assert!((0..100).all(|number| through.find(to(number)) == Some(hop(round * 7 + number % 10))));
            assert!((0..10).all(|number| through.remove(to(number), 16) == Some(hop(round * 7 + number % 10))));
            assert!(through.numbers.len() == 10 && through.hops.len() <= 20, "{} routers", through.hops.len());
        }
    }

    #[test]
    fn what_is_refused_leaves_no_router() {
        let mut through = Through::new();
        let refused = through.insert(ip("10.0.0.0"), 33, (ip("10.0.0.1"), 0));
        assert_eq!(refused, Err(Error::Prefix { address: ip("10.0.0.0"), bits: 33 }));
        assert_eq!((through.numbers.len(), through.remove(ip("10.0.0.0"), 33), through.get(ip("::"), 129)), (0, None, None));
        assert_eq!(through.insert(ip("2001:db8::7"), 32, (ip("fe80::1"), 1)), Ok(None));
        assert_eq!(through.get(ip("2001:db8::"), 32), Some((ip("fe80::1"), 1)));
        assert_eq!((through.find(ip("2001:db9::")), through.find(ip("0.0.0.0"))), (None, None));
    }
}
