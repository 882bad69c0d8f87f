//! Which fields of a flow are hashed, and sets of such types.

use std::fmt;

use crate::Protocol;

/// Which fields a flow id was computed from (Microsoft, "RSS Hashing Types"). The number of each is its bit in a mask,
/// as FreeBSD's `RSS_HASHTYPE_*` has it; bit 8 belongs to none.
///
/// Written as `tcp4`, and so on: the name of the variant in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum HashType {
    /// Both IPv4 addresses.
    Ipv4 = 1,
    /// Both IPv4 addresses and the TCP ports.
    Tcp4 = 2,
    /// Both IPv6 addresses.
    Ipv6 = 3,
    /// Both IPv6 addresses and the TCP ports.
    Tcp6 = 4,
    /// The IPv6 addresses from extension headers (home address, routing) where there are any. Devices only.
    Ipv6Ex = 5,
    /// As [`HashType::Ipv6Ex`], with the TCP ports. Devices only.
    Tcp6Ex = 6,
    /// Both IPv4 addresses and the UDP ports.
    Udp4 = 7,
    /// Both IPv6 addresses and the UDP ports.
    Udp6 = 9,
    /// As [`HashType::Ipv6Ex`], with the UDP ports. Devices only.
    Udp6Ex = 10,
}

impl HashType {
    /// Every type, by its bit.
    pub const ALL: [Self; 9] =
        [Self::Ipv4, Self::Tcp4, Self::Ipv6, Self::Tcp6, Self::Ipv6Ex, Self::Tcp6Ex, Self::Udp4, Self::Udp6, Self::Udp6Ex];

    /// Its bit in a mask, 1 to 10.
    #[must_use]
    pub const fn bit(self) -> u32 {
        self as u32
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Tcp4 => "tcp4",
            Self::Ipv6 => "ipv6",
            Self::Tcp6 => "tcp6",
            Self::Ipv6Ex => "ipv6ex",
            Self::Tcp6Ex => "tcp6ex",
            Self::Udp4 => "udp4",
            Self::Udp6 => "udp6",
            Self::Udp6Ex => "udp6ex",
        }
    }

    /// Whether the ports are hashed after the addresses: a 4-tuple, else a 2-tuple.
    #[must_use]
    pub const fn takes_ports(self) -> bool {
        !matches!(self, Self::Ipv4 | Self::Ipv6 | Self::Ipv6Ex)
    }

    /// Whether a flow id of this type says where the flow belongs. The three types that take addresses from extension
    /// headers do not: the addresses that sockets know are others.
    #[must_use]
    pub const fn places(self) -> bool {
        !matches!(self, Self::Ipv6Ex | Self::Tcp6Ex | Self::Udp6Ex)
    }

    /// The type for a flow of that family and protocol: the one with ports if it is among `types` and the packet is
    /// `whole`, for fragments have none; else the one with addresses only, if that is; else none.
    pub(crate) fn wanted(types: HashTypes, is_v6: bool, protocol: Protocol, whole: bool) -> Option<Self> {
        let with_ports = match (protocol, is_v6) {
            (Protocol::TCP, false) => Some(Self::Tcp4),
            (Protocol::TCP, true) => Some(Self::Tcp6),
            (Protocol::UDP, false) => Some(Self::Udp4),
            (Protocol::UDP, true) => Some(Self::Udp6),
            _ => None,
        };
        let addresses = if is_v6 { Self::Ipv6 } else { Self::Ipv4 };
        let enabled = |hash_type: &Self| types.contains(*hash_type);
        with_ports.filter(|_| whole).filter(enabled).or(Some(addresses).filter(enabled))
    }
}

impl fmt::Display for HashType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of hash types: what is to be hashed.
///
/// Written as names with commas, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashTypes {
    pub(crate) mask: u32,
}

impl HashTypes {
    /// None.
    pub const NONE: Self = Self { mask: 0 };
    /// The original's: all but the three of UDP, whose datagrams come in fragments more often (mask 0x7e). UDP is
    /// then hashed by addresses, so that a fragment goes where the whole datagrams go.
    pub const DEFAULT: Self = Self { mask: 0x7e };
    /// All (mask 0x6fe).
    pub const ALL: Self = Self { mask: 0x6fe };

    /// The set as a mask.
    #[must_use]
    pub const fn mask(self) -> u32 {
        self.mask
    }

    /// Whether `hash_type` is in the set.
    #[must_use]
    pub const fn contains(self, hash_type: HashType) -> bool {
        self.mask >> hash_type.bit() & 1 == 1
    }

    /// The set and `hash_type`.
    #[must_use]
    pub const fn with(self, hash_type: HashType) -> Self {
        Self { mask: self.mask | 1 << hash_type.bit() }
    }

    /// The types in the set, by their bits.
    pub fn iter(self) -> impl Iterator<Item = HashType> {
        HashType::ALL.into_iter().filter(move |hash_type| self.contains(*hash_type))
    }
}

impl Default for HashTypes {
    /// [`HashTypes::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for HashTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for hash_type in self.iter() {
            write!(f, "{comma}{hash_type}")?;
            comma = ",";
        }
        if comma.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}
