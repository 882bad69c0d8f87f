//! The checksum of the Internet: whole, in pieces, in part, and after a change (RFC 1071, RFC 1624).
//!
//! The sum is of words in the machine's own order, four bytes at a time and sixteen side by side, which compilers turn into vector code;
//! it is put into network order once, at the end (RFC 1071, section 2 (B)).

use super::bytes::length_u16;
use super::protocol::IpProtocol;
use crate::Error;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes that are summed side by side.
const BLOCK: usize = 64;

/// The ones' complement sum of what has been added, as 16-bit words in network order. A piece may end in the middle of a word; the next one
/// goes on there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    folded: u16,
    is_odd: bool,
}

impl Sum {
    /// Of nothing.
    pub const ZERO: Self = Self { folded: 0, is_odd: false };

    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::ZERO.and(bytes)
    }

    /// Of these bytes as well, which follow those before.
    #[must_use]
    pub fn and(self, bytes: &[u8]) -> Self {
        let piece = sum(bytes);
        let piece = if self.is_odd { piece.swap_bytes() } else { piece };
        Self { folded: carried(self.folded, piece), is_odd: self.is_odd ^ !bytes.len().is_multiple_of(2) }
    }

    /// Of this word as well.
    ///
    /// # Panics
    /// If the bytes before ended in the middle of a word.
    #[must_use]
    pub fn and_word(self, word: u16) -> Self {
        assert!(!self.is_odd, "a word begins where words begin");
        Self { folded: carried(self.folded, word), is_odd: false }
    }

    /// Of what was summed apart and follows these bytes, as well.
    ///
    /// # Panics
    /// If the bytes before ended in the middle of a word.
    #[must_use]
    pub fn plus(self, behind: Self) -> Self {
        assert!(!self.is_odd, "what follows was summed as from a word's beginning");
        Self { folded: carried(self.folded, behind.folded), is_odd: behind.is_odd }
    }

    /// The sum itself, not inverted: what stands in the place of a checksum that is left to the card (`Checksum::Partial` of a frame).
    #[must_use]
    pub const fn partial(self) -> u16 {
        self.folded
    }

    /// The checksum: the sum, inverted.
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded
    }

    /// As [`Sum::checksum`], with 0xffff for 0, which is the same number and does not say that there is no checksum (RFC 768).
    #[must_use]
    pub const fn checksum_of_udp(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Whether the bytes, their checksum among them, are as they were sent.
    #[must_use]
    pub const fn is_right(self) -> bool {
        self.folded == 0xffff
    }
}

/// `a + b` with the carry added again.
const fn carried(a: u16, b: u16) -> u16 {
    let (sum, over) = a.overflowing_add(b);
    sum + over as u16
}

/// Of a frame: so few bytes that no sum of 32-bit words leaves 64 bits. Said by `wrapping_add`, for a look at each addition would keep compilers
/// from vector code.
fn sum(bytes: &[u8]) -> u16 {
    debug_assert!(bytes.len() < 1 << 32, "a sum of 32-bit words has room for as many again");
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let (words, tail) = rest.as_chunks::<4>();
    let mut total = u64::from(last_word(tail));
    for word in words {
        total = total.wrapping_add(u32::from_ne_bytes(*word).into());
    }
    fold(if blocks.is_empty() { total } else { total.wrapping_add(sum_of_blocks(blocks)) })
}

fn sum_of_blocks(blocks: &[[u8; BLOCK]]) -> u64 {
    let mut sums = [0_u64; BLOCK / 4];
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<4>().0) {
            *sum = sum.wrapping_add(u32::from_ne_bytes(*word).into());
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

/// The word that begins with these bytes and is filled up with zeros; told apart one by one, which is cheaper than a copy of unknown length.
fn last_word(tail: &[u8]) -> u32 {
    u32::from_ne_bytes(match *tail {
        [] => [0; 4],
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c] => [a, b, c, 0],
        _ => unreachable!("what is left of words is less than one"),
    })
}

/// The sum of the four words in `wide`, in network order.
fn fold(wide: u64) -> u16 {
    let [a, b, c, d] = [wide as u16, (wide >> 16) as u16, (wide >> 32) as u16, (wide >> 48) as u16];
    u16::from_be(carried(carried(a, b), carried(c, d)))
}

/// The checksum after `before` has become `after` (RFC 1624, equation 3). Both begin at words and are as long. Of UDP, a checksum of 0 says that
/// there is none and stays 0, and a new one that is 0 is written as 0xffff: who calls sees to that.
///
/// # Panics
/// If one has an odd number of bytes and the other an even one.
#[must_use]
pub fn replaced(checksum: u16, before: Sum, after: Sum) -> u16 {
    assert_eq!(before.is_odd, after.is_odd, "what is replaced keeps its length");
    !carried(carried(!checksum, !before.folded), after.folded)
}

/// Computes what was left to the card: the sum from `start` on, which holds the partial sum at `start + offset`, and puts it there. `bytes` end
/// where the packet ends: what fills a short frame is not summed.
///
/// # Errors
/// [`Error::Truncated`] where the field lies outside of `bytes`; nothing is changed then.
pub fn complete(bytes: &mut [u8], start: usize, offset: usize) -> Result<(), Error> {
    let end = start.saturating_add(offset).saturating_add(2);
    let got = bytes.len();
    let truncated = Error::Truncated { expected: end, got };
    let checksum = Sum::of(bytes.get(start..).ok_or(truncated)?).checksum_of_udp();
    bytes.get_mut(end - 2..end).ok_or(truncated)?.copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// Source and destination of a packet: of one family, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Who sends.
        source: Ipv4Addr,
        /// Who is meant.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Who sends.
        source: Ipv6Addr,
        /// Who is meant.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// The sum of the pseudo header (RFC 9293, section 3.1; RFC 8200, section 8.1) for `length` bytes of `protocol`, its header among them.
    ///
    /// # Errors
    /// [`Error::Oversized`] for more than 65,535 bytes.
    pub fn pseudo(&self, protocol: IpProtocol, length: usize) -> Result<Sum, Error> {
        let sum = match self {
            Self::V4 { source, destination } => {
                let [source, destination] = [source, destination].map(|address| u64::from(address.to_bits().to_be()));
                Sum { folded: fold(source + destination), is_odd: false }
            }
            Self::V6 { source, destination } => Sum::of(&source.octets()).and(&destination.octets()),
        };
        Ok(sum.and_word(protocol.0.into()).and_word(length_u16(length)?))
    }
}
