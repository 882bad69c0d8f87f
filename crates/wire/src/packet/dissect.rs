//! The walk over the headers of a packet: link, network, transport, and what a tunnel carries. Whatever the bytes are, it ends: each of its
//! loops is bounded, and the inner packet of a tunnel is walked only when it is asked for.

use super::checksum::Addresses;
use super::extension::Chain;
use super::protocol::{EtherType, IpProtocol};
use super::vlan::{self, Tag};
use super::{arp, ethernet, gre, icmp, icmpv6, ipv4, ipv6, tcp, udp, vxlan};
use crate::Error;

/// VLAN tags that are walked past at most.
pub const TAGS_MAX: usize = 32;

/// Tunnels within tunnels that are opened at most.
pub const TUNNELS_MAX: usize = 4;

/// A packet and its parts.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The link's part; none for a packet that begins with its IP header.
    pub link: Option<Link>,
    /// The network's part.
    pub network: Network<'a>,
    /// The transport's part.
    pub transport: UpperLayer<'a>,
    /// Where the network's part begins, in bytes from the beginning of what was walked.
    pub network_at: usize,
    /// Where the transport's part begins, counted likewise.
    pub transport_at: usize,
    /// In how many tunnels it was.
    depth: usize,
}

/// The link's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The header of the frame; its type may announce a tag.
    pub header: ethernet::Header,
    /// VLAN tags: how many.
    pub tags: usize,
    /// The first of them.
    pub outer: Option<Tag>,
    /// The last of them: the outer one, if it is the only one.
    pub inner: Option<Tag>,
}

impl Link {
    /// The link's part of the frame in `bytes`, whatever it carries.
    ///
    /// # Errors
    /// What is wrong with a header of the link.
    pub fn of_frame(bytes: &[u8]) -> Result<Self, Error> {
        Self::split(bytes).map(|(link, ..)| link)
    }

    /// The same, with the protocol of what follows, and that.
    fn split(bytes: &[u8]) -> Result<(Self, EtherType, &[u8]), Error> {
        let frame = ethernet::View::new(bytes)?;
        let mut link = Self { header: frame.header(), tags: 0, outer: None, inner: None };
        let (mut protocol, mut rest) = (link.header.protocol, frame.payload());
        while protocol.is_vlan() {
            if link.tags == TAGS_MAX {
                return Err(Error::TooLong { what: "stack of VLAN tags", limit: TAGS_MAX as u32, got: TAGS_MAX as u32 + 1 });
            }
            let view = vlan::View::new(rest)?;
            link.tags += 1;
            link.outer = link.outer.or(Some(view.tag()));
            link.inner = Some(view.tag());
            (protocol, rest) = (view.tag().protocol, view.payload());
        }
        Ok((link, protocol, rest))
    }
}

/// The network's part.
#[derive(Clone, Copy, Debug)]
pub enum Network<'a> {
    /// IPv4.
    V4(ipv4::View<'a>),
    /// IPv6, and the end of the walk through its extension headers.
    V6(ipv6::View<'a>, Chain<'a>),
    /// ARP.
    Arp(arp::Message),
    /// Another.
    Other(EtherType, &'a [u8]),
}

/// The transport's part.
#[derive(Clone, Copy, Debug)]
pub enum UpperLayer<'a> {
    /// UDP.
    Udp(udp::View<'a>),
    /// TCP.
    Tcp(tcp::View<'a>),
    /// ICMP, in IPv4.
    Icmp(icmp::View<'a>),
    /// ICMP for IPv6, in IPv6.
    Icmpv6(icmpv6::View<'a>),
    /// Another, tunnels among them.
    Other(IpProtocol, &'a [u8]),
    /// A fragment's data, the first one's as well.
    Part(IpProtocol, &'a [u8]),
    /// What should be there is not, or contradicts itself.
    Broken(IpProtocol, &'a [u8], Error),
    /// The network has none.
    None,
}

/// A flow as a card sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Who sends and who is meant.
    pub addresses: Addresses,
    /// The transport.
    pub protocol: IpProtocol,
    /// Its ports.
    pub ports: Ports,
}

/// The ports of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ports {
    /// Of the source and of the destination.
    Both(u16, u16),
    /// The transport has none, or the packet is a fragment: a card hashes the addresses alone.
    None,
    /// The transport has some, but its header is cut short.
    Cut,
}

/// Which part of a packet a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentFacts {
    /// Which packet it is of, together with the addresses (and the transport, with IPv4).
    pub identification: u32,
    /// Where its data begin in the packet's.
    pub offset: usize,
    /// Bytes of data.
    pub length: usize,
    /// Whether others follow.
    pub more: bool,
}

/// How a packet was carried in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tunnel {
    /// IPv4 in IP (RFC 2003, RFC 2473).
    IpInIp,
    /// IPv6 in IP: 6in4 (RFC 4213), or in IPv6 (RFC 2473).
    Ipv6InIp,
    /// GRE.
    Gre(gre::Header),
    /// VXLAN.
    Vxlan(vxlan::Header),
}

impl<'a> Packet<'a> {
    /// Walks the frame in `bytes`.
    ///
    /// # Errors
    /// What is wrong with a header of link or network; a fault of the transport's is told by [`UpperLayer::Broken`].
    pub fn of_frame(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::of_front(bytes, 0)
    }

    /// Walks the front of a frame of which the last `missing` bytes lie elsewhere. The headers of link and network must be here; what they carry is as
    /// much of it as is here, and a transport whose own length says more is [`UpperLayer::Broken`].
    ///
    /// # Errors
    /// As [`Packet::of_frame`].
    pub fn of_front(bytes: &'a [u8], missing: usize) -> Result<Self, Error> {
        Self::frame(bytes, missing, 0)
    }

    /// Walks the packet in `bytes` that begins with the header of `protocol`, without a link's.
    ///
    /// # Errors
    /// As [`Packet::of_frame`].
    pub fn of_network(protocol: EtherType, bytes: &'a [u8]) -> Result<Self, Error> {
        Self::of_network_front(protocol, bytes, 0)
    }

    /// The same, of which up to `missing` bytes more lie elsewhere ([`Packet::of_front`]).
    ///
    /// # Errors
    /// As [`Packet::of_frame`].
    pub fn of_network_front(protocol: EtherType, bytes: &'a [u8], missing: usize) -> Result<Self, Error> {
        Self::network(None, protocol, (bytes, missing), 0, 0)
    }

    /// The flow that it is of; none if it is not IP.
    #[must_use]
    pub fn flow(&self) -> Option<Flow> {
        let addresses = match self.network {
            Network::V4(view) => view.addresses(),
            Network::V6(view, _) => view.addresses(),
            Network::Arp(_) | Network::Other(..) => return None,
        };
        let (protocol, bytes) = self.carried()?;
        let is_part = matches!(self.transport, UpperLayer::Part(..));
        let ports = match protocol.header_with_ports() {
            Some(least) if !is_part => match bytes.get(..least) {
                Some([a, b, c, d, ..]) => Ports::Both(u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])),
                _ => Ports::Cut,
            },
            _ => Ports::None,
        };
        Some(Flow { addresses, protocol, ports })
    }

    /// Which fragment it is; none if it is whole.
    #[must_use]
    pub fn fragment(&self) -> Option<FragmentFacts> {
        let UpperLayer::Part(_, data) = self.transport else { return None };
        let (identification, offset, more) = match self.network {
            Network::V4(view) => (view.identification().into(), view.fragment().offset, view.fragment().more),
            Network::V6(_, chain) => {
                let header = chain.fragment?.header;
                (header.identification, header.offset, header.more)
            }
            Network::Arp(_) | Network::Other(..) => return None,
        };
        Some(FragmentFacts { identification, offset: offset.bytes(), length: data.len(), more })
    }

    /// Protocol and bytes of what the network carries; none if it is not IP.
    #[must_use]
    pub fn carried(&self) -> Option<(IpProtocol, &'a [u8])> {
        match self.network {
            Network::V4(view) => Some((view.protocol(), view.payload())),
            Network::V6(_, chain) => Some((chain.protocol, chain.payload)),
            Network::Arp(_) | Network::Other(..) => None,
        }
    }

    /// The packet that it carries, if it is of a tunnel. A checksum of the tunnel's own is not looked at: [`gre::View`] over the bytes of
    /// [`Packet::carried`] tells whether GRE's is right, [`udp::View`] whether VXLAN's is.
    ///
    /// # Errors
    /// What is wrong with the tunnel's header or with one of the inner packet's; [`Error::TooLong`] beyond [`TUNNELS_MAX`].
    pub fn inner(&self) -> Result<Option<(Tunnel, Self)>, Error> {
        let depth = self.depth + 1;
        let network = |tunnel, protocol, bytes| Ok(Some((tunnel, Self::network(None, protocol, (bytes, 0), 0, depth)?)));
        match self.transport {
            UpperLayer::Udp(view) if view.header().destination == vxlan::PORT => {
                allowed(depth)?;
                let view = vxlan::View::new(view.payload())?;
                Ok(Some((Tunnel::Vxlan(view.header()), Self::frame(view.payload(), 0, depth)?)))
            }
            UpperLayer::Other(IpProtocol::IPV4, bytes) => {
                allowed(depth).and_then(|()| network(Tunnel::IpInIp, EtherType::IPV4, bytes))
            }
            UpperLayer::Other(IpProtocol::IPV6, bytes) => {
                allowed(depth).and_then(|()| network(Tunnel::Ipv6InIp, EtherType::IPV6, bytes))
            }
            UpperLayer::Other(IpProtocol::GRE, bytes) => {
                allowed(depth)?;
                let view = gre::View::new(bytes)?;
                let tunnel = Tunnel::Gre(view.header());
                match view.header().protocol {
                    EtherType::ETHERNET => Ok(Some((tunnel, Self::frame(view.payload(), 0, depth)?))),
                    protocol => network(tunnel, protocol, view.payload()),
                }
            }
            _ => Ok(None),
        }
    }

    fn frame(bytes: &'a [u8], missing: usize, depth: usize) -> Result<Self, Error> {
        let (link, protocol, rest) = Link::split(bytes)?;
        Self::network(Some(link), protocol, (rest, missing), bytes.len() - rest.len(), depth)
    }

    /// `bytes` come with how many more lie elsewhere.
    fn network(
        link: Option<Link>,
        protocol: EtherType,
        (bytes, missing): (&'a [u8], usize),
        network_at: usize,
        depth: usize,
    ) -> Result<Self, Error> {
        let (network, transport, header) = match protocol {
            EtherType::IPV4 => {
                let view = ipv4::View::of_front(bytes, missing)?;
                let transport = UpperLayer::of(view.protocol(), view.payload(), view.fragment().is_part(), false);
                (Network::V4(view), transport, view.header_bytes())
            }
            EtherType::IPV6 => {
                let view = ipv6::View::of_front(bytes, missing)?;
                let chain = Chain::walk(view.next(), view.payload())?;
                let transport = UpperLayer::of(chain.protocol, chain.payload, chain.is_part(), true);
                (Network::V6(view, chain), transport, ipv6::Header::BYTES + chain.walked())
            }
            EtherType::ARP => (Network::Arp(arp::Message::parse(bytes)?), UpperLayer::None, arp::Message::BYTES),
            _ => (Network::Other(protocol, bytes), UpperLayer::None, 0),
        };
        Ok(Self { link, network, transport, network_at, transport_at: network_at + header, depth })
    }
}

/// Whether a tunnel at `depth` may be opened.
fn allowed(depth: usize) -> Result<(), Error> {
    if depth > TUNNELS_MAX {
        return Err(Error::TooLong { what: "nest of tunnels", limit: TUNNELS_MAX as u32, got: depth as u32 });
    }
    Ok(())
}

impl<'a> UpperLayer<'a> {
    /// What an IP packet of that family carries; each ICMP is of one family alone.
    fn of(protocol: IpProtocol, bytes: &'a [u8], is_part: bool, is_v6: bool) -> Self {
        if is_part {
            return Self::Part(protocol, bytes);
        }
        let transport = match protocol {
            IpProtocol::UDP => udp::View::new(bytes).map(Self::Udp),
            IpProtocol::TCP => tcp::View::new(bytes).map(Self::Tcp),
            IpProtocol::ICMP if !is_v6 => icmp::View::new(bytes).map(Self::Icmp),
            IpProtocol::ICMPV6 if is_v6 => icmpv6::View::new(bytes).map(Self::Icmpv6),
            _ => Ok(Self::Other(protocol, bytes)),
        };
        transport.unwrap_or_else(|error| Self::Broken(protocol, bytes, error))
    }
}
