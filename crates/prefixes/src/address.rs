//! Addresses as strings of bits, the first one first.

use crate::groups::SHARED;
use std::fmt::{Debug, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address of one family, IPv4 or IPv6.
pub trait Address: Copy + Ord + Debug + Display + FromStr + Into<IpAddr> + Word {
    /// Bits of an address: 32 or 128.
    const BITS: u8;
}

/// What the tables ask of an address. It is of this crate alone, so that no other type is an [`Address`].
pub trait Word {
    /// The six bits from `depth` on; bits before the first and behind the last are 0.
    fn six_at(self, depth: i16) -> usize;

    /// The last 32 bits before `depth`; bits before the first are 0.
    fn before(self, depth: i16) -> u32;

    /// Whether prefixes are found by groups.
    const IS_GROUPED: bool;

    /// The bits that a group shares, and the 32 bits behind them.
    fn group(self) -> (u32, u32);

    /// The first thirteen bits.
    fn first_13(self) -> usize;

    /// The address, and these six bits at `depth` of it, which were 0. Those behind its end are lost.
    #[must_use]
    fn with_six(self, depth: i16, six: usize) -> Self;

    /// The first `length` bits, followed by zeros.
    #[must_use]
    fn cut(self, length: u8) -> Self;

    /// The address of zeros.
    fn zero() -> Self;
}

impl Address for Ipv4Addr {
    const BITS: u8 = 32;
}

impl Word for Ipv4Addr {
    fn six_at(self, depth: i16) -> usize {
        // The word in the middle of 64 bits: 5 bits at least lie before it, and 27 behind it.
        (u64::from(self.to_bits()) << (32 - 5) << (depth + 5) >> (64 - 6)) as usize
    }

    fn before(self, depth: i16) -> u32 {
        (u64::from(self.to_bits()) >> (32 - depth)) as u32
    }

    const IS_GROUPED: bool = false;

    fn group(self) -> (u32, u32) {
        (self.to_bits() >> (32 - SHARED), self.to_bits() << SHARED)
    }

    fn first_13(self) -> usize {
        (self.to_bits() >> (32 - 13)) as usize
    }

    fn with_six(self, depth: i16, six: usize) -> Self {
        let placed = (six as u64) << (64 - 6) >> (depth + 5) >> (32 - 5);
        Self::from_bits(self.to_bits() | placed as u32)
    }

    fn cut(self, length: u8) -> Self {
        Self::from_bits(self.to_bits() & !u32::MAX.checked_shr(length.into()).unwrap_or(0))
    }

    fn zero() -> Self {
        Self::UNSPECIFIED
    }
}

impl Address for Ipv6Addr {
    const BITS: u8 = 128;
}

impl Word for Ipv6Addr {
    fn six_at(self, depth: i16) -> usize {
        let bits = self.to_bits();
        // Which of both is asked for is known where the depth is.
        if depth < 0 { (bits >> (128 - 6 - depth)) as usize } else { (bits << depth >> (128 - 6)) as usize }
    }

    fn before(self, depth: i16) -> u32 {
        (self.to_bits() >> (128 - depth)) as u32
    }

    const IS_GROUPED: bool = true;

    fn group(self) -> (u32, u32) {
        ((self.to_bits() >> (128 - SHARED)) as u32, (self.to_bits() >> (128 - SHARED - 32)) as u32)
    }

    fn first_13(self) -> usize {
        (self.to_bits() >> (128 - 13)) as usize
    }

    fn with_six(self, depth: i16, six: usize) -> Self {
        let left = 128 - 6 - depth;
        let placed = if left >= 0 { (six as u128) << left } else { (six as u128) >> -left };
        Self::from_bits(self.to_bits() | placed)
    }

    fn cut(self, length: u8) -> Self {
        Self::from_bits(self.to_bits() & !u128::MAX.checked_shr(length.into()).unwrap_or(0))
    }

    fn zero() -> Self {
        Self::UNSPECIFIED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the definition says.
    fn six(bits: u128, count: i16, depth: i16) -> usize {
        let bit = |at: i16| if (0..count).contains(&at) { bits >> (count - 1 - at) & 1 } else { 0 };
        (0..6).fold(0, |six, at| six << 1 | bit(depth + at)) as usize
    }

    #[test]
    fn six_bits_stand_where_their_depth_says_and_go_back_there() {
        let (v4, v6) = (0x8b5a_c3f1_u32, 0x8b5a_c3f1_9d27_4e68_b1d3_5c7a_e942_0f37_u128);
        for depth in (-5..32).step_by(6) {
            let address = Ipv4Addr::from_bits(v4);
            assert_eq!(address.six_at(depth), six(v4.into(), 32, depth), "{depth}");
            let without = Ipv4Addr::from_bits(v4 & !Ipv4Addr::zero().with_six(depth, 63).to_bits());
            assert_eq!(without.with_six(depth, address.six_at(depth)), address, "{depth}");
        }
        for depth in (-5..128).step_by(6) {
            let address = Ipv6Addr::from_bits(v6);
            assert_eq!(address.six_at(depth), six(v6, 128, depth), "{depth}");
            let without = Ipv6Addr::from_bits(v6 & !Ipv6Addr::zero().with_six(depth, 63).to_bits());
            assert_eq!(without.with_six(depth, address.six_at(depth)), address, "{depth}");
        }
        for depth in (1..32).step_by(6) {
            assert_eq!(Ipv4Addr::from_bits(v4).before(depth), (u64::from(v4) >> (32 - depth)) as u32, "{depth}");
        }
        assert_eq!(Ipv6Addr::from_bits(v6).before(127), (v6 >> 1) as u32);
        assert_eq!(Ipv4Addr::from_bits(v4).group(), (0x8b5_ac3f, 0x1000_0000));
        assert_eq!(Ipv6Addr::from_bits(v6).group(), (0x8b5_ac3f, 0x19d2_74e6));
        assert_eq!(Ipv4Addr::from_bits(v4).first_13(), 0x8b5a >> 3);
        assert_eq!(Ipv6Addr::from_bits(v6).first_13(), 0x8b5a >> 3);
    }
}
