//! Addresses that packets are looked up by for what they are: our own, and those that all of a network of ours hear.
//!
//! A table with a place for four times as many, found by a hash that needs no secret: only who sets the stack up puts addresses into it.

use std::net::IpAddr;

/// What an address is; it may be both.
pub(super) const OWN: u8 = 1;
pub(super) const BROADCAST: u8 = 2;

/// Odd numbers that mix an address (of the golden ratio, and of the root of 3).
const MIXERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b];

/// The table.
#[derive(Debug)]
pub(super) struct Marked {
    /// A power of two, of which at least three quarters are empty.
    places: Box<[Option<(IpAddr, u8)>]>,
}

impl Marked {
    pub fn new(addresses: &[(IpAddr, u8)]) -> Self {
        let size = (addresses.len() * 4).next_power_of_two().max(8);
        let mut made = Self { places: vec![None; size].into() };
        for (address, mark) in addresses {
            let place = made.place(*address);
            let before = made.places[place].map_or(0, |(_, before)| before);
            made.places[place] = Some((*address, before | mark));
        }
        made
    }

    /// What an address is; 0 for most.
    pub fn of(&self, address: IpAddr) -> u8 {
        self.places[self.place(address)].map_or(0, |(_, mark)| mark)
    }

    /// Where an address stands, or would.
    fn place(&self, address: IpAddr) -> usize {
        let [high, low] = match address {
            IpAddr::V4(address) => [0, u64::from(address.to_bits())],
            IpAddr::V6(address) => [(address.to_bits() >> 64) as u64, address.to_bits() as u64],
        };
        let hash = (high ^ low.rotate_left(32)).wrapping_mul(MIXERS[0]) ^ low.wrapping_mul(MIXERS[1]);
        let mask = self.places.len() - 1;
        let mut place = (hash >> 32) as usize & mask;
        while self.places[place].is_some_and(|(other, _)| other != address) {
            place = (place + 1) & mask;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn what_was_marked_is_found_and_nothing_else() {
        let v4 = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0001 + (number << 8)));
        let v6 = |number: u32| IpAddr::from(Ipv6Addr::from_bits((0xfd00 << 112) + (u128::from(number) << 64) + 1));
        let all: Vec<_> = (0..2000).flat_map(|number| [(v4(number), OWN), (v6(number), OWN), (v4(number), BROADCAST)]).collect();
        let marked = Marked::new(&all);
        for number in 0..2000 {
            assert_eq!((marked.of(v4(number)), marked.of(v6(number))), (OWN | BROADCAST, OWN));
        }
        for number in 2000..4000 {
            assert_eq!((marked.of(v4(number)), marked.of(v6(number))), (0, 0));
        }
        assert_eq!(Marked::new(&[]).of(v4(1)), 0);
    }
}
