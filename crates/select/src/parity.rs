//! The Toeplitz hash as parities: what a program needs of the key.
//!
//! A bit of the hash is the exclusive or of one key bit for each input bit that is set: so it is the parity of the input bits
//! under a mask that depends on the key alone. A table needs only the low bits of the hash, 7 for 128 buckets; so a program
//! has 7 masks, no look-ups in tables of the key, and no loop, and touches no memory but the packet.

use corelane_rss::{FlowHasher, HashType, Key, Protocol, Tuple};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the longest input: two IPv6 addresses and two ports.
pub(super) const INPUT_BYTES: usize = 36;

/// A version of IP, with the lengths that the hash and the programs need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// Bytes of both addresses, which stand together in both headers, source first, and begin the input.
    pub(super) fn addresses_bytes(self) -> usize {
        match self {
            Self::V4 => 8,
            Self::V6 => 32,
        }
    }

    /// Where the addresses stand in the header (RFC 791, 3.1; RFC 8200, section 3).
    pub(super) fn addresses_offset(self) -> u32 {
        match self {
            Self::V4 => 12,
            Self::V6 => 8,
        }
    }

    /// The number of the protocol in a frame (`ETH_P_IP`, `ETH_P_IPV6`).
    pub(super) fn ether_type(self) -> u16 {
        match self {
            Self::V4 => 0x0800,
            Self::V6 => 0x86dd,
        }
    }

    /// What flows of this family and protocol are hashed by; none if they are not.
    pub(super) fn hash_type(self, hasher: &FlowHasher, protocol: Protocol) -> Option<HashType> {
        let address = match self {
            Self::V4 => IpAddr::from(Ipv4Addr::LOCALHOST),
            Self::V6 => IpAddr::from(Ipv6Addr::LOCALHOST),
        };
        let end = SocketAddr::from((address, 1));
        hasher.tuple(&Tuple::new(end, end, protocol).ok()?).map(|hashed| hashed.hash_type)
    }
}

/// Which bits of the input decide a bit of the hash by their parity. Input bytes are in network byte order.
pub(super) type Mask = [u8; INPUT_BYTES];

/// The masks of the lowest `bits` bits of the hash, lowest first.
pub(super) fn masks(key: &Key, bits: u32) -> Vec<Mask> {
    let mask = |hash_bit| {
        let mut mask = [0; INPUT_BYTES];
        for at in (0..8 * INPUT_BYTES).filter(|at| key.window(*at) >> hash_bit & 1 == 1) {
            mask[at / 8] |= 0x80 >> (at % 8);
        }
        mask
    };
    assert!(bits <= u32::BITS, "the hash has 32 bits");
    (0..bits).map(mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::{HashTypes, bitwise};

    #[test]
    fn parities_are_the_hash() {
        let masks = masks(&Key::MICROSOFT, 32);
        let mut input = [0_u8; INPUT_BYTES];
        for round in 0..200_u32 {
            input.iter_mut().zip(1..).for_each(|(byte, at)| *byte = (round.wrapping_mul(2_654_435_761) >> (at % 24)) as u8);
            let ones = |mask: &Mask| mask.iter().zip(&input).map(|(mask, byte)| (mask & byte).count_ones()).sum::<u32>();
            let hash = masks.iter().rev().fold(0, |hash, mask| hash << 1 | ones(mask) & 1);
            assert_eq!(hash, bitwise(&Key::MICROSOFT, &input).0, "{input:?}");
        }
    }

    #[test]
    fn the_types_say_what_is_hashed() {
        let kind = |types, family: Family, protocol| family.hash_type(&FlowHasher::new(&Key::MICROSOFT, types), protocol);
        assert_eq!(kind(HashTypes::DEFAULT, Family::V4, Protocol::TCP), Some(HashType::Tcp4));
        assert_eq!(kind(HashTypes::DEFAULT, Family::V6, Protocol::UDP), Some(HashType::Ipv6));
        assert_eq!(kind(HashTypes::ALL, Family::V6, Protocol::UDP), Some(HashType::Udp6));
        assert_eq!(kind(HashTypes::NONE, Family::V4, Protocol::TCP), None);
    }
}
