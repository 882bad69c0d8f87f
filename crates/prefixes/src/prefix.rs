//! A network: the first bits of its addresses.

use crate::{Address, Error};
use std::fmt;
use std::str::FromStr;

/// The addresses that begin with the same bits (RFC 4632, section 3.1; RFC 4291, section 2.3). Ordered by address, then the shorter one first, so that a
/// prefix comes right before those within it.
///
/// Written as `10.9.0.0/16`. An address alone is read as the prefix of all its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A> {
    /// Zeros behind `length` bits.
    address: A,
    length: u8,
}

impl<A: Address> Prefix<A> {
    /// The prefix of `length` bits of a network's address.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::HostBits`] where one behind them is set.
    pub fn new(address: A, length: u8) -> Result<Self, Error> {
        let prefix = Self::around(address, length)?;
        if prefix.address == address {
            Ok(prefix)
        } else {
            Err(Error::HostBits { address: address.into(), length, network: prefix.address.into() })
        }
    }

    /// The prefix of `length` bits that an address begins with, whatever is behind them.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn around(address: A, length: u8) -> Result<Self, Error> {
        if length > A::BITS {
            return Err(Error::Length { got: length, most: A::BITS });
        }
        Ok(Self { address: address.cut(length), length })
    }

    /// The same for a length that is none too many.
    pub(crate) fn of_table(address: A, length: u8) -> Self {
        debug_assert!(length <= A::BITS && address.cut(length) == address, "a table has what was a prefix");
        Self { address, length }
    }

    /// The network's address.
    #[must_use]
    pub const fn address(&self) -> A {
        self.address
    }

    /// How many bits count.
    #[must_use]
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// Whether an address begins with it.
    #[must_use]
    pub fn holds(&self, address: A) -> bool {
        address.cut(self.length) == self.address
    }
}

impl<A: Address> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl<A: Address> FromStr for Prefix<A> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::text(text);
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => {
                // Digits alone: neither a sign nor nothing is a number of bits.
                let is_number = !length.is_empty() && length.bytes().all(|digit| digit.is_ascii_digit());
                (address, length.parse().ok().filter(|_| is_number).ok_or_else(wrong)?)
            }
            None => (text, A::BITS),
        };
        Self::new(address.parse().map_err(|_| wrong())?, length)
    }
}
