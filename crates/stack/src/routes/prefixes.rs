//! The longest prefix of an address, among those that lead somewhere: for each length that there is, the networks of that length.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where networks lead, by the number of a way.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefixes {
    /// Of IPv4 and of IPv6, the longest first.
    families: [Vec<(u8, BTreeMap<u128, usize>)>; 2],
}

/// The address as a number whose first bits are the address's.
fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn front(number: u128, bits: u8) -> u128 {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    number & mask
}

impl Prefixes {
    /// Where the longest prefix of an address leads.
    pub fn find(&self, address: IpAddr) -> Option<usize> {
        let number = number_of(address);
        let mut lengths = self.families[usize::from(address.is_ipv6())].iter();
        lengths.find_map(|(bits, networks)| networks.get(&front(number, *bits)).copied())
    }

    /// Where that network leads: there, unless it led somewhere before.
    pub fn add(&mut self, address: IpAddr, bits: u8, way: usize) -> usize {
        let lengths = &mut self.families[usize::from(address.is_ipv6())];
        let place = lengths.partition_point(|(length, _)| *length > bits);
        if lengths.get(place).is_none_or(|(length, _)| *length != bits) {
            lengths.insert(place, (bits, BTreeMap::new()));
        }
        *lengths[place].1.entry(front(number_of(address), bits)).or_insert(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_is_found_and_the_first_to_name_it_stays() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut prefixes = Prefixes::default();
        let all =
            [("10.0.0.0", 8), ("10.1.2.3", 24), ("0.0.0.0", 0), ("10.1.2.9", 32), ("2001:db8::", 32), ("2001:db8:1::7", 128)];
        for (way, (address, bits)) in all.into_iter().enumerate() {
            assert_eq!(prefixes.add(ip(address), bits, way), way);
        }
        assert_eq!(prefixes.add(ip("10.77.0.0"), 8, 99), 0, "it leads somewhere already");
        for (address, way) in [
            ("10.9.9.9", Some(0)),
            ("10.1.2.4", Some(1)),
            ("10.1.2.9", Some(3)),
            ("192.0.2.1", Some(2)),
            ("2001:db8::1", Some(4)),
            ("2001:db8:1::7", Some(5)),
            ("2001:db8:1::8", Some(4)),
            ("2001:db9::", None),
        ] {
            assert_eq!(prefixes.find(ip(address)), way, "{address}");
        }
    }
}
