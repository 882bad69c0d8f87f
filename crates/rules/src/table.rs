//! Tables: keys with values, which rules ask by name.

use crate::error::Error;
use crate::facts::Address;
use crate::language::Key;
use crate::prefix::{Prefix, mask};
use std::collections::BTreeMap;

/// A table of prefixes, of which the longest that holds an address counts, or of names of interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
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
            Self::Prefixes(prefixes) => prefixes.entries.len(),
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

    /// Puts a key in, or gives it another value.
    pub(crate) fn put(&mut self, table: &str, key: Key, value: u32) -> Result<(), Error> {
        match (self, key) {
            (Self::Prefixes(prefixes), Key::Prefix(prefix)) => prefixes.put(prefix, value),
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

/// Prefixes with values: one ordered map, asked once for each length that occurs, longest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// By first address and length of 128 bits.
    entries: BTreeMap<(Address, u8), u32>,
    /// The lengths that occur, longest first, and how often.
    lengths: Vec<(u8, usize)>,
}

impl Prefixes {
    fn put(&mut self, prefix: Prefix, value: u32) {
        if self.entries.insert((prefix.first(), prefix.bits()), value).is_some() {
            return;
        }
        match self.lengths.binary_search_by(|(bits, _)| prefix.bits().cmp(bits)) {
            Ok(at) => self.lengths[at].1 += 1,
            Err(at) => self.lengths.insert(at, (prefix.bits(), 1)),
        }
    }

    fn take(&mut self, prefix: &Prefix) -> bool {
        if self.entries.remove(&(prefix.first(), prefix.bits())).is_none() {
            return false;
        }
        let at = self.lengths.iter().position(|(bits, _)| *bits == prefix.bits());
        assert!(at.is_some(), "the length of a prefix that is here is counted");
        if let Some(at) = at {
            self.lengths[at].1 -= 1;
            self.lengths.retain(|(_, count)| *count > 0);
        }
        true
    }

    fn find(&self, address: Address) -> Option<u32> {
        // No IPv6 prefix, and so none of a length below 96, holds an IPv4 address.
        let fit = self.lengths.iter().filter(|(bits, _)| *bits >= 96 || !address.is_v4());
        let mut at = fit.map(|(bits, _)| (Address::of_number(address.number() & mask(*bits)), *bits));
        at.find_map(|key| self.entries.get(&key).copied())
    }

    fn all(&self) -> impl Iterator<Item = (Prefix, u32)> {
        self.entries.iter().map(|((first, bits), value)| (Prefix::of_bits(*bits, *first), *value))
    }
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
