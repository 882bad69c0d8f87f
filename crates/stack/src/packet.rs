//! A packet on its way through the stack.

use corelane_isr::reassembly::Datagram;
use corelane_rss::{FlowId, Protocol, Tuple};
use corelane_seam::Frame;
use corelane_wire::packet::checksum::{Addresses, Sum};
use corelane_wire::packet::extension::Chain;
use corelane_wire::packet::{IpProtocol, Network, Packet as Walk, UpperLayer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::{Deref, DerefMut};

/// All stations of the link (RFC 4291, section 2.7.1).
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of the link (the same).
pub(crate) const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Packets that are kept to be used again, at most: some 200 bytes each.
const SPARE_MAX: usize = 1024;

/// What is known of an IP packet once its header was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ip {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: IpProtocol,
    /// Bytes of headers, in front of the transport's, in the first frame.
    pub head: usize,
    /// Bytes of the transport's, its header among them, in all frames.
    pub length: usize,
    /// It is a fragment.
    pub is_part: bool,
    /// It came in fragments, or as the only one (RFC 6946).
    pub was_cut: bool,
    /// The source vouches for the transport's checksum.
    pub is_good: bool,
    /// In how many tunnels it came.
    pub tunnels: u8,
    /// It is for somebody else, and is forwarded.
    pub passes: bool,
    /// Another lane has brought it, because the external port that it is for is this one's. Rules have seen it there.
    pub is_brought: bool,
    /// The stack itself has sent it, to an address of its own.
    pub is_own_word: bool,
}

impl Ip {
    /// Of what was walked; none for what is no IP.
    pub fn of(walk: &Walk<'_>, is_good: bool) -> Option<Self> {
        let (protocol, bytes) = walk.carried()?;
        let ((source, destination), missing) = match &walk.network {
            Network::V4(view) => (ends(&view.addresses()), view.length() - view.bytes().len()),
            Network::V6(view, _) => (ends(&view.addresses()), view.length() - view.bytes().len()),
            Network::Arp(_) | Network::Other(..) => return None,
        };
        let (head, is_part) = (walk.transport_at - walk.network_at, matches!(walk.transport, UpperLayer::Part(..)));
        let is_only_one = matches!(&walk.network, Network::V6(_, chain) if chain.fragment.is_some());
        let (length, was_cut) = (bytes.len() + missing, is_part || is_only_one);
        let no = false;
        Some(Self {
            source,
            destination,
            protocol,
            head,
            length,
            is_part,
            was_cut,
            is_good,
            tunnels: 0,
            passes: no,
            is_brought: no,
            is_own_word: no,
        })
    }

    /// Of a datagram that was put together, whose first frame begins with its header.
    pub fn of_whole(datagram: &Datagram, first: &[u8], before: &Self) -> Option<Self> {
        let (protocol, head) = match first.first()? >> 4 {
            4 => (IpProtocol(*first.get(9)?), datagram.header_bytes),
            // A fragment of a fragment is nothing that a sender makes.
            _ => {
                let chain = chain_of(first).filter(|chain| !chain.is_part())?;
                (chain.protocol, HEADER_BYTES_V6 + chain.walked())
            }
        };
        // Of IPv6, options for the destination may have been among what was cut up.
        let length = (datagram.header_bytes + datagram.data_bytes).checked_sub(head)?;
        Some(Self { protocol, head, length, is_part: false, is_good: false, ..*before })
    }

    /// Whether it is a fragment behind the first, which has no header of a transport; `first` begins with its header.
    pub fn is_later(&self, first: &[u8]) -> bool {
        const V4_PLACE: usize = 6;
        const V6_PLACE_BEFORE_DATA: usize = 6;
        let (at, mask) = match self.source {
            IpAddr::V4(_) => (Some(V4_PLACE), 0x1fff),
            IpAddr::V6(_) => (self.head.checked_sub(V6_PLACE_BEFORE_DATA), 0xfff8),
        };
        let field = at.and_then(|at| first.get(at..)?.first_chunk::<2>());
        self.is_part && field.is_none_or(|field| u16::from_be_bytes(*field) & mask != 0)
    }

    /// Whether it is for all of the link, and goes no further (RFC 919).
    pub fn is_to_all(&self) -> bool {
        !self.passes && self.destination == IpAddr::V4(Ipv4Addr::BROADCAST)
    }

    pub fn addresses(&self) -> Addresses {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
            (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
            _ => unreachable!("both addresses of a packet are of one family"),
        }
    }
}

/// Bytes of the header of IPv6.
pub(crate) const HEADER_BYTES_V6: usize = 40;

/// The extension headers of a packet of IPv6; none if they are not well formed.
pub(crate) fn chain_of(packet: &[u8]) -> Option<Chain<'_>> {
    Chain::walk(IpProtocol(*packet.get(6)?), packet.get(HEADER_BYTES_V6..)?).ok()
}

fn ends(addresses: &Addresses) -> (IpAddr, IpAddr) {
    match addresses {
        Addresses::V4 { source, destination } => ((*source).into(), (*destination).into()),
        Addresses::V6 { source, destination } => ((*source).into(), (*destination).into()),
    }
}

/// A packet. It stays where it is in memory while it is handed on from one to the next; that is used again by others ([`Spare`]).
#[derive(Debug, Default)]
pub(crate) struct Packet(Box<Parts>);

/// What a packet has. Its first frame begins with the header of the network.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub first: Frame,
    /// The others of a datagram that was put together, or of a packet longer than a frame: data, without headers.
    pub rest: Vec<Frame>,
    /// None for what is no IP.
    pub ip: Option<Ip>,
    /// Its flow id, where more than one lane may have it.
    pub flow: Option<FlowId>,
    /// The number of the interface that it arrived at.
    pub interface: usize,
    /// When it arrived, in nanoseconds; of a datagram that was put together, the first of its fragments.
    pub arrived: u64,
}

impl Deref for Packet {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl DerefMut for Packet {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}

/// Packets that are done with, to be used again, so that none is allocated for each frame.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Packet>);

impl Spare {
    /// A packet that begins with this frame, of which nothing is known yet but where and when it came.
    pub fn take(&mut self, first: Frame, interface: usize, arrived: u64) -> Packet {
        let mut packet = self.0.pop().unwrap_or_default();
        assert!(packet.rest.is_empty() && packet.ip.is_none(), "what is used again is empty");
        (packet.first, packet.interface, packet.arrived) = (first, interface, arrived);
        packet
    }

    /// A packet is done with: its frames are free.
    pub fn put(&mut self, mut packet: Packet) {
        if self.0.len() < SPARE_MAX {
            let Parts { first, rest, ip, flow, .. } = &mut *packet.0;
            drop(std::mem::take(first));
            rest.clear();
            (*ip, *flow) = (None, None);
            self.0.push(packet);
        }
    }
}

impl Parts {
    /// The header of the transport and what follows, frame by frame.
    pub fn transport<'a>(&'a self, ip: &Ip) -> impl Iterator<Item = &'a [u8]> + Clone {
        let first = self.first.get(ip.head..).unwrap_or_default();
        let mut left = ip.length;
        std::iter::once(first).chain(self.rest.iter().map(|frame| &frame[..])).map(move |bytes| {
            let some = bytes.len().min(left);
            left -= some;
            &bytes[..some]
        })
    }

    /// The extension headers that are cut with the data of a first fragment of IPv6; none of another packet, or if they are not well formed.
    pub fn chain_behind(&self, ip: &Ip) -> Option<Chain<'_>> {
        let is_first = ip.is_part && ip.source.is_ipv6() && !ip.is_later(&self.first);
        let data = self.first.get(ip.head..).filter(|_| is_first)?;
        Chain::walk(ip.protocol, data).ok()
    }

    /// Whether it is a message of neighbour discovery (RFC 4861, section 4: types 133 to 137).
    pub fn is_discovery(&self, ip: &Ip) -> bool {
        self.kind_v6(ip).is_some_and(|kind| (133..=137).contains(&kind))
    }

    /// Whether it keeps a link of IPv6 going, and has come from the link itself: neighbour discovery, or a word about listeners (MLD: RFC 2710, section 3; RFC 3810, section 5).
    pub fn is_of_link(&self, ip: &Ip) -> bool {
        const HOPS_AT: usize = 7;
        let hops = self.first.get(HOPS_AT).copied();
        let is_of_listeners = |kind| matches!(kind, 130..=132 | 143) && hops == Some(1);
        let is_whole = ip.tunnels == 0 && !ip.was_cut;
        is_whole && (hops == Some(u8::MAX) && self.is_discovery(ip) || self.kind_v6(ip).is_some_and(is_of_listeners))
    }

    /// The type of a message of ICMP for IPv6.
    fn kind_v6(&self, ip: &Ip) -> Option<u8> {
        let is_v6 = ip.protocol == IpProtocol::ICMPV6 && ip.source.is_ipv6();
        self.transport(ip).next().filter(|_| is_v6)?.first().copied()
    }

    /// Bytes of memory that it keeps in use.
    pub fn held(&self) -> usize {
        self.first.capacity() + self.rest.iter().map(Frame::capacity).sum::<usize>()
    }

    /// How the transport's checksum, `stands`, which the pseudo header is part of, is: or, where that may be, was left to the sender's card, which fills in
    /// what lacks beside the pseudo-header. What came in fragments was summed by its sender.
    pub fn sums(&self, ip: &Ip, stands: u16, may_be_left: bool) -> Sums {
        if ip.is_good {
            return Sums::Right;
        }
        let Ok(pseudo) = ip.addresses().pseudo(ip.protocol, ip.length) else { return Sums::Wrong };
        if may_be_left && !ip.was_cut && pseudo.partial() == stands {
            return Sums::Left;
        }
        let is_right = self.transport(ip).fold(pseudo, Sum::and).is_right();
        if is_right { Sums::Right } else { Sums::Wrong }
    }
}

/// How a transport's checksum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sums {
    Right,
    /// The sender has left it to its card.
    Left,
    Wrong,
}

/// The flow from `source` to `destination`, as whoever receives it sees it.
pub(crate) fn tuple(source: SocketAddr, destination: SocketAddr, protocol: IpProtocol) -> Option<Tuple> {
    Tuple::new(source, destination, Protocol(protocol.0)).ok()
}
