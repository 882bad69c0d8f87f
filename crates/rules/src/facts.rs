//! What rules see of a packet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which way a packet goes when rules look at it. A packet that is forwarded is looked at twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// It has come in.
    #[default]
    In,
    /// It is about to go out.
    Out,
}

/// The version of a packet's IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// Which part of a packet it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// The first fragment: the transport's header is in it.
    First,
    /// A later fragment: it has no ports, flags or types.
    Later,
}

/// An interface by its number in the table of names that the rules were given. A VLAN is an interface of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interface(pub u16);

impl Interface {
    /// No interface: what leaves us has not been received, what has come in has no way out yet.
    pub const NONE: Self = Self(0);
}

/// An address of either family as one number. IPv4 is where RFC 4291, section 2.5.5.2, maps it to. An IPv6 packet with such an address, which no link
/// should carry, counts as one with the IPv4 address.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(u128);

impl Address {
    /// Where IPv4 begins among the numbers.
    const MAPPED: u128 = 0xffff << 32;

    /// The address of that number.
    #[must_use]
    pub const fn of_number(number: u128) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u128 {
        self.0
    }

    /// Whether it is an IPv4 address.
    #[must_use]
    pub const fn is_v4(self) -> bool {
        self.0 >> 32 == 0xffff
    }
}

impl From<Ipv4Addr> for Address {
    fn from(address: Ipv4Addr) -> Self {
        Self(Self::MAPPED | u128::from(u32::from(address)))
    }
}

impl From<Ipv6Addr> for Address {
    fn from(address: Ipv6Addr) -> Self {
        Self(address.into())
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => address.into(),
        }
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        if address.is_v4() { Ipv4Addr::from(address.0 as u32).into() } else { Ipv6Addr::from(address.0).into() }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

/// What the header of the transport says, as far as rules ask. A header that is cut short, or is of a later fragment, is [`Transport::None`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Nothing.
    #[default]
    None,
    /// Source and destination port of UDP, or of another transport that has ports where UDP has them.
    Ports(u16, u16),
    /// Source and destination port of TCP, and the lower eight control bits (RFC 9293, section 3.1).
    Tcp(u16, u16, u8),
    /// The type of an ICMP message, or of an ICMPv6 message.
    Icmp(u8),
}

/// What rules see of a packet: plain values, taken once for each packet and look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Which way it goes.
    pub direction: Direction,
    /// The interface that received it.
    pub receive: Interface,
    /// The interface that it is about to leave by; looked at for packets that go out.
    pub transmit: Interface,
    /// The version of its IP header.
    pub family: Family,
    /// From where.
    pub source: Address,
    /// To where.
    pub destination: Address,
    /// Whether the source is an address of this machine.
    pub source_is_ours: bool,
    /// Whether the destination is an address of this machine.
    pub destination_is_ours: bool,
    /// The protocol of the transport (the registry "Protocol Numbers"), behind IPv6's extension headers.
    pub protocol: u8,
    /// What the transport's header says.
    pub transport: Transport,
    /// Whether it is a fragment, and which.
    pub part: Part,
    /// Bytes from the IP header on, as that header has them. Counters add these.
    pub length: u16,
}

impl Facts {
    /// A whole packet from one address to another, of the family that they are of; all else is as the default has it.
    #[must_use]
    pub fn between(source: IpAddr, destination: IpAddr) -> Self {
        let family = if source.is_ipv4() { Family::V4 } else { Family::V6 };
        Self { family, source: source.into(), destination: destination.into(), ..Self::default() }
    }

    /// The interface that `via` means: the one that it leaves by, else the one that received it.
    #[must_use]
    pub const fn via(&self) -> Interface {
        match self.direction {
            Direction::In => self.receive,
            Direction::Out => self.transmit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_have_one_number_each() {
        for text in ["10.1.2.3", "0.0.0.0", "255.255.255.255", "::", "2001:db8::1", "ffff::"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(IpAddr::from(Address::from(address)), address);
            assert_eq!(Address::from(address).is_v4(), address.is_ipv4());
            assert_eq!(Address::from(address).to_string(), text);
        }
    }

    #[test]
    fn via_is_the_way_out_of_what_goes_out() {
        let (receive, transmit) = (Interface(1), Interface(2));
        let facts = Facts { receive, transmit, ..Facts::default() };
        assert_eq!(facts.via(), receive);
        assert_eq!(Facts { direction: Direction::Out, ..facts }.via(), transmit);
    }
}
