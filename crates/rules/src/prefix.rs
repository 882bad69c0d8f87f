//! Prefixes of addresses, and ranges of numbers.

use crate::facts::{Address, Family};
use std::fmt;
use std::net::IpAddr;

/// All addresses that begin with the same bits (RFC 4632, section 3.1; RFC 4291, section 2.3). The bits behind are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Bits that count, of 128: IPv4's length and 96 more.
    bits: u8,
    first: Address,
}

impl Prefix {
    /// The prefix of `length` bits that the address is in; none if an address of its family has fewer bits.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let (most, before) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        if length > most {
            return None;
        }
        let bits = length + before;
        let first = Address::of_number(Address::from(address).number() & mask(bits));
        Some(Self { bits, first })
    }

    /// The one address.
    #[must_use]
    pub fn of(address: Address) -> Self {
        Self { bits: 128, first: address }
    }

    /// The family whose addresses it holds.
    #[must_use]
    pub fn family(&self) -> Family {
        if self.bits >= 96 && self.first.is_v4() { Family::V4 } else { Family::V6 }
    }

    /// Bits that count, of the 32 or 128 of its family.
    #[must_use]
    pub fn length(&self) -> u8 {
        self.bits - self.before()
    }

    /// Its first address.
    #[must_use]
    pub const fn first(&self) -> Address {
        self.first
    }

    /// Bits that count, of 128.
    pub(crate) const fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether the address begins so. No IPv6 prefix holds an IPv4 address.
    #[must_use]
    pub fn contains(&self, address: Address) -> bool {
        address.number() & mask(self.bits) == self.first.number() && (address.is_v4() == (self.family() == Family::V4))
    }

    /// The addresses as numbers.
    #[must_use]
    pub fn ranges(&self) -> Ranges {
        let first = self.first.number();
        let whole = Ranges::of([(first, first | !mask(self.bits))]);
        if self.family() == Family::V4 { whole } else { whole.and(&Ranges::v4().complement()) }
    }

    fn before(&self) -> u8 {
        if self.family() == Family::V4 { 96 } else { 0 }
    }
}

/// A number whose first bits are ones.
pub(crate) const fn mask(bits: u8) -> u128 {
    assert!(bits <= 128, "an address has 128 bits");
    if bits == 0 { 0 } else { u128::MAX << (128 - bits) }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.family(), self.length()) {
            (_, _) if self.bits == 128 => self.first.fmt(f),
            (Family::V6, length) => write!(f, "{}/{length}", std::net::Ipv6Addr::from(self.first.number())),
            (Family::V4, length) => write!(f, "{}/{length}", self.first),
        }
    }
}

/// Numbers, as ranges that are sorted and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// The numbers of these ranges, each from its first to its last; those that are upside down hold nothing.
    #[must_use]
    pub fn of(ranges: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut ranges: Vec<(u128, u128)> = ranges.into_iter().filter(|(first, last)| first <= last).collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// All IPv4 addresses.
    fn v4() -> Self {
        Self::of([(0xffff << 32, 0xffff_ffff_ffff)])
    }

    /// The ranges, lowest first.
    #[must_use]
    pub fn pairs(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// Whether the number is in one of them.
    #[must_use]
    pub fn contains(&self, number: u128) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < number);
        self.0.get(at).is_some_and(|(first, _)| *first <= number)
    }

    /// All other numbers.
    #[must_use]
    pub fn complement(&self) -> Self {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(0);
        for &(first, last) in &self.0 {
            if let Some(next) = next.filter(|next| *next < first) {
                gaps.push((next, first - 1));
            }
            next = last.checked_add(1);
        }
        gaps.extend(next.map(|next| (next, u128::MAX)));
        Self(gaps)
    }

    /// The numbers that are in either.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied())
    }

    /// The numbers that are in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.complement().or(&other.complement()).complement()
    }

    /// What the ranges say of all numbers from `first` to `last`: true, false, or neither.
    #[must_use]
    pub fn all_or_none(&self, first: u128, last: u128) -> Option<bool> {
        let at = self.0.partition_point(|(_, end)| *end < first);
        match self.0.get(at) {
            Some(&(begin, end)) if begin <= first && last <= end => Some(true),
            Some(&(begin, _)) if begin <= last => None,
            _ => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        let (address, length) = text.split_once('/').unwrap();
        Prefix::new(address.parse().unwrap(), length.parse().unwrap()).unwrap()
    }

    fn address(text: &str) -> Address {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_prefix_holds_what_begins_so_and_its_ranges_say_the_same() {
        let texts = ["10.1.0.0/16", "0.0.0.0/0", "::/0", "2001:db8::/32", "::/64", "10.1.2.3/32", "::ffff:0:0/95"];
        let probes = ["10.1.0.0", "10.1.255.255", "10.2.0.0", "10.0.255.255", "::", "2001:db8::1", "2001:db9::", "ffff::1"];
        for text in texts {
            for probe in probes {
                let (prefix, probe) = (prefix(text), address(probe));
                assert_eq!(prefix.contains(probe), prefix.ranges().contains(probe.number()), "{prefix} {probe}");
            }
        }
        assert!(prefix("0.0.0.0/0").contains(address("1.2.3.4")) && !prefix("::/0").contains(address("1.2.3.4")));
        assert!(prefix("::/0").contains(address("::1")) && !prefix("0.0.0.0/0").contains(address("::1")));
        assert!(Prefix::new("1.2.3.4".parse().unwrap(), 33).is_none());
    }

    #[test]
    fn a_prefix_is_printed_with_its_length_unless_it_is_one_address() {
        for (text, printed) in
            [("10.1.2.3/16", "10.1.0.0/16"), ("10.1.2.3/32", "10.1.2.3"), ("0.0.0.0/0", "0.0.0.0/0"), ("::/0", "::/0")]
        {
            assert_eq!(prefix(text).to_string(), printed);
        }
        assert_eq!(prefix("2001:db8::1/128").to_string(), "2001:db8::1");
    }

    #[test]
    fn ranges_are_sets() {
        let one = Ranges::of([(5, 9), (1, 2), (3, 3), (20, 10)]);
        assert_eq!(one.pairs(), [(1, 3), (5, 9)]);
        assert_eq!(one.complement().complement(), one);
        assert_eq!(Ranges::of([(0, u128::MAX)]).complement(), Ranges::default());
        assert_eq!(one.and(&Ranges::of([(3, 6)])).pairs(), [(3, 3), (5, 6)]);
        for (first, last, expected) in
            [(1, 3, Some(true)), (4, 4, Some(false)), (3, 4, None), (0, 9, None), (10, 99, Some(false)), (0, 0, Some(false))]
        {
            assert_eq!(one.all_or_none(first, last), expected, "{first} {last}");
        }
    }
}
