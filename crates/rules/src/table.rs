//! Tables: keys with values, which rules ask by name.

use crate::error::Error;
use crate::facts::Address;
use crate::language::Key;
use crate::prefix::{Prefix, Ranges};
use corelane_prefixes::{PREFIXES_MAX, Prefixes as Tree};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A table of prefixes, of which the longest that holds an address counts, or of names of interfaces.
#[derive(Clone, Debug)]
pub enum Table {
    /// Of prefixes.
    Prefixes(Prefixes),
    /// Of names.
    Links(BTreeMap<String, u32>),
}

impl Table {
    /// An empty one.
    #[must_use]
    pub fn new(of_links: bool) -> Self {
        if of_links { Self::Links(BTreeMap::new()) } else { Self::Prefixes(Prefixes::default()) }
    }

    /// Whether its keys are names of interfaces.
    #[must_use]
    pub const fn is_of_links(&self) -> bool {
        matches!(self, Self::Links(_))
    }

    /// How many keys it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Prefixes(prefixes) => prefixes.len(),
            Self::Links(names) => names.len(),
        }
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its keys with their values, in order.
    pub fn entries(&self) -> impl Iterator<Item = (Key, u32)> {
        let (prefixes, names) = match self {
            Self::Prefixes(prefixes) => (Some(prefixes), None),
            Self::Links(names) => (None, Some(names)),
        };
        let prefixes = prefixes.into_iter().flat_map(Prefixes::all).map(|(prefix, value)| (Key::Prefix(prefix), value));
        prefixes.chain(names.into_iter().flatten().map(|(name, value)| (Key::Link(name.clone()), *value)))
    }

    /// The value for an address; none in a table of names.
    #[must_use]
    pub fn of_address(&self, address: Address) -> Option<u32> {
        match self {
            Self::Prefixes(prefixes) => prefixes.find(address),
            Self::Links(_) => None,
        }
    }

    /// The value for a name; none in a table of prefixes.
    #[must_use]
    pub fn of_link(&self, name: &str) -> Option<u32> {
        match self {
            Self::Prefixes(_) => None,
            Self::Links(names) => names.get(name).copied(),
        }
    }

    /// The addresses that have this value, or any; none in a table of names. It takes time by the square of the keys.
    pub(crate) fn ranges(&self, value: Option<u32>) -> Ranges {
        match self {
            Self::Prefixes(prefixes) => prefixes.ranges(value),
            Self::Links(_) => Ranges::default(),
        }
    }

    /// Whether a key is in it.
    pub(crate) fn has(&self, key: &Key) -> bool {
        match (self, key) {
            (Self::Prefixes(prefixes), Key::Prefix(prefix)) => prefixes.has(prefix),
            (Self::Links(names), Key::Link(name)) => names.contains_key(name),
            _ => false,
        }
    }

    /// Puts a key in, or gives it another value.
    pub(crate) fn put(&mut self, table: &str, key: Key, value: u32) -> Result<(), Error> {
        match (self, key) {
            (Self::Prefixes(prefixes), Key::Prefix(prefix)) => prefixes.put(prefix, value)?,
            (Self::Links(names), Key::Link(name)) => drop(names.insert(name, value)),
            (Self::Prefixes(_), Key::Link(_)) => return Err(Error::OtherTable { name: table.to_owned(), holds: "prefixes" }),
            (Self::Links(_), Key::Prefix(_)) => {
                return Err(Error::OtherTable { name: table.to_owned(), holds: "names of interfaces" });
            }
        }
        Ok(())
    }

    /// Takes a key out.
    pub(crate) fn take(&mut self, table: &str, key: &Key) -> Result<(), Error> {
        let was_there = match (self, key) {
            (Self::Prefixes(prefixes), Key::Prefix(prefix)) => prefixes.take(prefix),
            (Self::Links(names), Key::Link(name)) => names.remove(name).is_some(),
            _ => false,
        };
        if was_there { Ok(()) } else { Err(Error::NoKey { name: table.to_owned(), key: key.to_string() }) }
    }
}

/// Prefixes with values, of each family by itself: no IPv6 prefix holds an IPv4 address. A copy shares its memory with the table, as far as neither of both changes.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    v4: Tree<Ipv4Addr>,
    v6: Tree<Ipv6Addr>,
}

impl Prefixes {
    fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    fn put(&mut self, prefix: Prefix, value: u32) -> Result<(), Error> {
        let put = match of(&prefix) {
            Known::V4(prefix) => self.v4.insert(prefix, value),
            Known::V6(prefix) => self.v6.insert(prefix, value),
        };
        put.map(drop).map_err(|_| Error::Full { what: "keys in a table", most: PREFIXES_MAX })
    }

    fn take(&mut self, prefix: &Prefix) -> bool {
        let taken = match of(prefix) {
            Known::V4(prefix) => self.v4.remove(&prefix),
            Known::V6(prefix) => self.v6.remove(&prefix),
        };
        taken.is_some()
    }

    fn has(&self, prefix: &Prefix) -> bool {
        match of(prefix) {
            Known::V4(prefix) => self.v4.get(&prefix).is_some(),
            Known::V6(prefix) => self.v6.get(&prefix).is_some(),
        }
    }

    fn find(&self, address: Address) -> Option<u32> {
        let found = match address.into() {
            IpAddr::V4(address) => self.v4.find(address),
            IpAddr::V6(address) => self.v6.find(address),
        };
        found.map(|(_, value)| value)
    }

    fn ranges(&self, value: Option<u32>) -> Ranges {
        let mut all: Vec<_> = self.all().collect();
        // A longer prefix takes what it holds from all that are shorter.
        all.sort_by_key(|(prefix, _)| prefix.bits());
        all.iter().fold(Ranges::default(), |ranges, (prefix, found)| match value {
            Some(value) if value != *found => ranges.and(&prefix.ranges().complement()),
            _ => ranges.or(&prefix.ranges()),
        })
    }

    fn all(&self) -> impl Iterator<Item = (Prefix, u32)> {
        let v4 = self.v4.iter().map(|(one, value)| (Prefix::new(one.address().into(), one.length()), value));
        let v6 = self.v6.iter().map(|(one, value)| (Prefix::new(one.address().into(), one.length()), value));
        let mut all: Vec<(Prefix, u32)> = v4.chain(v6).filter_map(|(prefix, value)| Some((prefix?, value))).collect();
        all.sort_unstable_by_key(|(prefix, _)| (prefix.first(), prefix.bits()));
        all.into_iter()
    }
}

/// A prefix as its family's tree knows it.
enum Known {
    V4(corelane_prefixes::Prefix<Ipv4Addr>),
    V6(corelane_prefixes::Prefix<Ipv6Addr>),
}

fn of(prefix: &Prefix) -> Known {
    let around = match prefix.first().into() {
        IpAddr::V4(first) => corelane_prefixes::Prefix::around(first, prefix.length()).map(Known::V4),
        IpAddr::V6(first) => corelane_prefixes::Prefix::around(first, prefix.length()).map(Known::V6),
    };
    // reason: a prefix has no more bits than its family.
    around.expect("a prefix is one in every table")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::{Command, TableChange, command};
    use std::net::IpAddr;

    fn key(text: &str) -> Key {
        match command(&format!("table t delete {text}"), 1) {
            Ok(Command::Table(_, TableChange::Delete(mut keys))) => keys.remove(0),
            other => panic!("{other:?}"),
        }
    }

    fn of(table: &Table, address: &str) -> Option<u32> {
        table.of_address(address.parse::<IpAddr>().unwrap().into())
    }

    #[test]
    fn the_longest_prefix_counts() {
        let mut table = Table::new(false);
        for (text, value) in
            [("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("0.0.0.0/0", 3), ("::/0", 4), ("2001:db8::/32", 5), ("10.1.2.3", 6)]
        {
            table.put("t", key(text), value).unwrap();
        }
        let probes = [("10.9.9.9", 1), ("10.1.9.9", 2), ("11.0.0.0", 3), ("fe80::1", 4), ("2001:db8::1", 5), ("10.1.2.3", 6)];
        for (address, value) in probes {
            assert_eq!(of(&table, address), Some(value), "{address}");
        }
        table.take("t", &key("0.0.0.0/0")).unwrap();
        assert_eq!((of(&table, "11.0.0.0"), of(&table, "::1")), (None, Some(4)), "no IPv6 prefix holds an IPv4 address");
        table.put("t", key("10.0.0.0/8"), 7).unwrap();
        assert_eq!((of(&table, "10.9.9.9"), table.len()), (Some(7), 5));
        assert!(matches!(table.take("t", &key("10.0.0.0/9")), Err(Error::NoKey { .. })));
        for value in [None, Some(4), Some(2), Some(6), Some(7), Some(8)] {
            let ranges = table.ranges(value);
            for (address, _) in probes {
                let number = Address::from(address.parse::<IpAddr>().unwrap()).number();
                let should = of(&table, address).is_some_and(|found| value.is_none_or(|value| value == found));
                assert_eq!(ranges.contains(number), should, "{address} {value:?}");
            }
        }
        let texts: Vec<String> = table.entries().map(|(key, _)| key.to_string()).collect();
        assert_eq!(texts, ["::/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32"]);
    }

    #[test]
    fn a_table_of_names_holds_names_alone() {
        let mut table = Table::new(true);
        table.put("t", key("em0"), 9).unwrap();
        assert_eq!((table.of_link("em0"), table.of_link("em1"), of(&table, "1.2.3.4")), (Some(9), None, None));
        assert!(matches!(table.put("t", key("1.2.3.4"), 0), Err(Error::OtherTable { .. })));
        table.take("t", &key("em0")).unwrap();
        assert!(table.is_empty());
    }
}
