//! What can be wrong with a prefix, and with a change.

use std::fmt;
use std::net::IpAddr;

/// Characters of a wrong text that an error repeats.
const SHOWN: usize = 64;

/// What was wrong. All of it is the caller's, or of the configuration's author, unless the variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A prefix has more bits than an address of its family.
    Length {
        /// Bits given.
        got: u8,
        /// Bits of an address.
        most: u8,
    },
    /// Bits behind the prefix are set: the address is that of a host in the network.
    HostBits {
        /// The address.
        address: IpAddr,
        /// Bits of the prefix.
        length: u8,
        /// The network's address.
        network: IpAddr,
    },
    /// A text is no prefix.
    Text {
        /// The text, or its beginning.
        got: Box<str>,
    },
    /// The table has as many prefixes as it may have. Nothing was changed.
    Full {
        /// That many.
        most: usize,
    },
}

impl Error {
    pub(crate) fn text(got: &str) -> Self {
        Self::Text { got: got.chars().take(SHOWN).collect() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { got, most } => write!(f, "a prefix of {got} bits: an address of this family has {most}"),
            Self::HostBits { address, length, network } => {
                write!(f, "{address}/{length} is a host in a network: the network is {network}/{length}")
            }
            Self::Text { got } => write!(f, "{got:?} is no prefix of this family: write it as ADDRESS/BITS"),
            Self::Full { most } => write!(f, "there are {most} prefixes already: raise the bound, or remove some"),
        }
    }
}

impl std::error::Error for Error {}
