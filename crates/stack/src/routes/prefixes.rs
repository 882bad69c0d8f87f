//! The longest prefix of an address among those that lead somewhere, of both families.

use crate::settings::{Error, ROUTES_MAX};
use corelane_prefixes::{Prefix, Prefixes as Table};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where networks lead, by numbers: [`ROUTES_MAX`] networks of each family at most.
#[derive(Debug)]
pub(super) struct Prefixes {
    v4: Table<Ipv4Addr>,
    v6: Table<Ipv6Addr>,
}

impl Prefixes {
    pub const fn new() -> Self {
        Self { v4: Table::with_bound(ROUTES_MAX), v6: Table::with_bound(ROUTES_MAX) }
    }

    /// Where the longest prefix of an address leads.
    pub fn find(&self, address: IpAddr) -> Option<u32> {
        let found = match address {
            IpAddr::V4(address) => self.v4.find(address),
            IpAddr::V6(address) => self.v6.find(address),
        };
        found.map(|(_, number)| number)
    }

    /// Where exactly that network leads.
    pub fn get(&self, address: IpAddr, bits: u8) -> Option<u32> {
        match address {
            IpAddr::V4(address) => self.v4.get(&Prefix::around(address, bits).ok()?),
            IpAddr::V6(address) => self.v6.get(&Prefix::around(address, bits).ok()?),
        }
    }

    /// The network that an address begins with leads there from now on. Says where it led before.
    ///
    /// # Errors
    /// [`Error::Routes`], [`Error::Prefix`].
    pub fn insert(&mut self, address: IpAddr, bits: u8, number: u32) -> Result<Option<u32>, Error> {
        let before = match address {
            IpAddr::V4(address) => Prefix::around(address, bits).and_then(|prefix| self.v4.insert(prefix, number)),
            IpAddr::V6(address) => Prefix::around(address, bits).and_then(|prefix| self.v6.insert(prefix, number)),
        };
        before.map_err(|error| match error {
            corelane_prefixes::Error::Full { most } => Error::Routes { got: most + 1 },
            _ => Error::Prefix { address, bits },
        })
    }

    /// That network leads nowhere from now on. Says where it led.
    pub fn remove(&mut self, address: IpAddr, bits: u8) -> Option<u32> {
        match address {
            IpAddr::V4(address) => self.v4.remove(&Prefix::around(address, bits).ok()?),
            IpAddr::V6(address) => self.v6.remove(&Prefix::around(address, bits).ok()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_tables_of_their_own() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut prefixes = Prefixes::new();
        for (number, (address, bits)) in [("10.0.0.7", 8), ("0.0.0.0", 0), ("::", 0), ("2001:db8::7", 32)].into_iter().enumerate()
        {
            assert_eq!(prefixes.insert(ip(address), bits, number as u32), Ok(None));
        }
        let found = ["10.9.9.9", "192.0.2.1", "fd00::1", "2001:db8:1::"].map(|address| prefixes.find(ip(address)));
        assert_eq!(found, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(prefixes.insert(ip("10.77.0.0"), 8, 9), Ok(Some(0)));
        assert_eq!((prefixes.get(ip("10.0.0.0"), 8), prefixes.get(ip("10.0.0.0"), 9)), (Some(9), None));
        assert_eq!((prefixes.remove(ip("10.0.0.0"), 8), prefixes.find(ip("10.9.9.9"))), (Some(9), Some(1)));
        assert_eq!(prefixes.insert(ip("10.0.0.0"), 33, 1), Err(Error::Prefix { address: ip("10.0.0.0"), bits: 33 }));
        assert_eq!((prefixes.get(ip("::"), 129), prefixes.remove(ip("10.0.0.0"), 33)), (None, None));
    }
}
