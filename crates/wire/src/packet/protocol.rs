//! Numbers that say what comes next.

use crate::Error;
use std::fmt;

/// What stands behind an IP header (the registry "Protocol Numbers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// Options that every router reads (RFC 8200, section 4.3).
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP (RFC 792).
    pub const ICMP: Self = Self(1);
    /// IGMP (RFC 3376).
    pub const IGMP: Self = Self(2);
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: Self = Self(4);
    /// TCP (RFC 9293).
    pub const TCP: Self = Self(6);
    /// UDP (RFC 768).
    pub const UDP: Self = Self(17);
    /// IPv6 in IP (RFC 4213, RFC 2473).
    pub const IPV6: Self = Self(41);
    /// Routing header (RFC 8200, section 4.4).
    pub const ROUTING: Self = Self(43);
    /// Fragment header (RFC 8200, section 4.5).
    pub const FRAGMENT: Self = Self(44);
    /// GRE (RFC 2784).
    pub const GRE: Self = Self(47);
    /// Authentication header (RFC 4302).
    pub const AUTHENTICATION: Self = Self(51);
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: Self = Self(58);
    /// Nothing follows (RFC 8200, section 4.7).
    pub const NONE: Self = Self(59);
    /// Options for the destination (RFC 8200, section 4.6).
    pub const DESTINATION: Self = Self(60);

    /// Whether it is an extension header of IPv6 that can be walked past. Encapsulated security payload cannot.
    #[must_use]
    pub const fn is_extension(self) -> bool {
        matches!(self, Self::HOP_BY_HOP | Self::ROUTING | Self::FRAGMENT | Self::AUTHENTICATION | Self::DESTINATION)
    }

    /// Bytes of the least header of TCP and UDP, in front of which stand ports; none of others.
    #[must_use]
    pub const fn header_with_ports(self) -> Option<usize> {
        match self {
            Self::TCP => Some(20),
            Self::UDP => Some(8),
            _ => None,
        }
    }
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What stands behind a link's header (the registry "EtherType"): 0x600 or more, for less is a length (IEEE 802.3, clause 3.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: Self = Self(0x0800);
    /// ARP (RFC 826).
    pub const ARP: Self = Self(0x0806);
    /// A whole Ethernet frame, in GRE (RFC 7637).
    pub const ETHERNET: Self = Self(0x6558);
    /// A VLAN tag (IEEE 802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self(0x86dd);
    /// The outer one of two VLAN tags (IEEE 802.1ad).
    pub const SERVICE_VLAN: Self = Self(0x88a8);

    /// The type of that number.
    ///
    /// # Errors
    /// [`Error::Unknown`] for a length.
    pub const fn new(number: u16) -> Result<Self, Error> {
        if number < 0x600 { Err(Error::Unknown { what: "EtherType", got: number as u32 }) } else { Ok(Self(number)) }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Whether a VLAN tag follows.
    #[must_use]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}
