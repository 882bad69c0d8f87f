//! Why a packet has no hash.

use std::fmt;

/// Why a packet has no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// A header ends beyond the bytes that are there.
    Truncated,
    /// A length in the IPv4 header contradicts itself.
    Malformed,
    /// More than eight IPv6 extension headers.
    TooManyHeaders,
    /// No enabled hash type fits the packet.
    Disabled,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotIp => "neither IPv4 nor IPv6",
            Self::Truncated => "a header is cut short",
            Self::Malformed => "the IPv4 header contradicts itself",
            Self::TooManyHeaders => "too many IPv6 extension headers",
            Self::Disabled => "no enabled hash type fits",
        })
    }
}
