//! What a frame turns out to be: its headers of link and network are looked at once, for all who come later.

use crate::counts::{Drop, Tally};
use crate::interface::Interface;
use crate::interfaces::Interfaces;
use crate::packet::{ALL_NODES, ALL_ROUTERS, Ip, Packet, Sums};
use crate::routes::Routes;
use crate::trunk::{Tags, Trunk};
use corelane_seam::{Checksum, Frame, FrameMemory};
use corelane_wire::packet::{IpProtocol, Link, Network, Packet as Walk, UpperLayer, dhcp, dhcpv6};
use std::net::{IpAddr, Ipv4Addr};

/// What a frame turned out to be.
pub(crate) enum Recognized {
    Arp { at: usize },
    Ip { ip: Ip, at: usize, length: usize },
    Not(Drop),
}

/// Who looks: where it came, and whether the stack itself has sent it.
#[derive(Clone, Copy)]
pub(crate) struct Looker<'a> {
    /// The number of the interface: that without tags, until the tags are looked at.
    pub at: usize,
    pub interfaces: &'a Interfaces,
    pub trunks: &'a [Trunk],
    pub routes: &'a Routes,
    pub is_own_word: bool,
    /// What is looked at came in a tunnel: no tag there names an interface, and nothing is forwarded from there.
    pub is_in_tunnel: bool,
}

impl Looker<'_> {
    /// Looks at a frame, of which so many bytes lie in others. A tag without a VLAN's number carries a priority alone (IEEE 802.1Q, 9.6).
    pub fn look(&mut self, frame: &Frame, missing: usize) -> Recognized {
        let Ok(walk) = Walk::of_front(frame, missing) else {
            // It is lost at its interface, whatever is wrong with it, if its tags name one.
            let link = Link::of_frame(frame).ok();
            self.at = link.and_then(|link| self.interface_of(&link, frame)).unwrap_or(self.at);
            return Recognized::Not(Drop::Malformed);
        };
        let Some(link) = &walk.link else { return Recognized::Not(Drop::NotOurs) };
        if link.tags > 0 || frame.facts.vlan.is_some() {
            match self.interface_of(link, frame) {
                Some(interface) => self.at = interface,
                None => return Recognized::Not(Drop::Vlan),
            }
        }
        let to = link.header.destination;
        if !(to == self.interface().mac() || to.is_group()) {
            return Recognized::Not(Drop::NotOurs);
        }
        match self.look_at_network(&walk, !matches!(frame.facts.checksum, Checksum::Unknown)) {
            // What all stations hear and one is meant by is answered by nobody (RFC 1122, sections 3.2.2 and 3.3.6; RFC 4443, section 2.4).
            Recognized::Ip { ip, .. } if to.is_group() && !(ip.destination.is_multicast() || ip.is_to_all()) => {
                Recognized::Not(Drop::NotOurs)
            }
            found => found,
        }
    }

    /// The interface that the tags of a frame name, in its bytes and taken out by the card.
    fn interface_of(&self, link: &Link, frame: &Frame) -> Option<usize> {
        match Tags::of(link, frame.facts.vlan)? {
            Tags::None => Some(self.at),
            _ if self.is_in_tunnel => None,
            tags => self.trunks[self.interface().port()].interface_of(tags),
        }
    }

    /// The frames of where it came.
    pub fn memory(&self) -> &FrameMemory {
        self.interface().memory()
    }

    fn interface(&self) -> &Interface {
        &self.interfaces[self.at]
    }

    /// Looks at the header of the network. The source vouches for the transport's checksum, or does not.
    pub fn look_at_network(&self, walk: &Walk<'_>, is_good: bool) -> Recognized {
        let length = match &walk.network {
            Network::Arp(_) => return Recognized::Arp { at: walk.network_at },
            Network::Other(..) => return Recognized::Not(Drop::Protocol),
            Network::V4(view) if !view.is_checksum_right() => return Recognized::Not(Drop::Checksum),
            Network::V4(view) => view.bytes().len(),
            Network::V6(view, _) => view.bytes().len(),
        };
        let Some(ip) = Ip::of(walk, is_good) else { return Recognized::Not(Drop::Malformed) };
        let ip = Ip { is_own_word: self.is_own_word, ..ip };
        let at = walk.network_at;
        match self.is_for_us(&ip, is_advertisement(walk)) || self.is_relayed(&ip, walk) {
            true => Recognized::Ip { ip, at, length },
            false if self.passes(&ip) => Recognized::Ip { ip: Ip { passes: true, ..ip }, at, length },
            false => Recognized::Not(Drop::NotOurs),
        }
    }

    /// Whether a packet that is not for us goes on to somebody else. None does from a group of the link, which the caller sees to, or to a group.
    fn passes(&self, ip: &Ip) -> bool {
        let is_for_others = !(ip.destination.is_multicast() || self.routes.is_own(ip.destination));
        is_for_others && self.interface().forwards() && !self.is_own_word && !self.is_in_tunnel
    }

    /// Whether it is what a client of DHCP asks all servers of the link, where that is relayed. One of IPv4 may have no address yet.
    fn is_relayed(&self, ip: &Ip, walk: &Walk<'_>) -> bool {
        let (is_to_all, of_servers) = match ip.destination {
            IpAddr::V4(_) => (ip.is_to_all(), dhcp::SERVER_PORT),
            IpAddr::V6(to) => (to == dhcpv6::RELAYS_AND_SERVERS, dhcpv6::SERVER_PORT),
        };
        let is_to_server = || matches!(walk.transport, UpperLayer::Udp(view) if view.header().destination == of_servers);
        let has_none = ip.source == IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let is_client = || has_none || !(self.is_nobody(ip.source) || self.routes.is_own(ip.source));
        let is_of_link = !(self.is_own_word || self.is_in_tunnel) && self.interface().relays(ip.source.is_ipv4());
        is_of_link && is_to_all && is_to_server() && is_client()
    }

    /// Whether a packet is for an address of ours, and from somebody who can be answered. Our own addresses say nothing on the wire: what comes from one
    /// is forged or a loop, and an answer would go round within the stack (RFC 1122, section 3.2.1.3). Only that somebody else has one is said from it.
    fn is_for_us(&self, ip: &Ip, is_advertisement: bool) -> bool {
        if self.routes.is_own(ip.source) && !self.is_own_word && !is_advertisement {
            return false;
        }
        let IpAddr::V6(to) = ip.destination else {
            return self.routes.is_own(ip.destination) && !self.is_nobody(ip.source);
        };
        let interface = self.interface();
        let is_listened_for = || to == ALL_NODES || to == ALL_ROUTERS && interface.forwards() || interface.is_solicited(to);
        let is_group_of_ours = ip.protocol == IpProtocol::ICMPV6 && is_listened_for();
        // Who looks whether an address is free has none (RFC 4862, section 5.4.2).
        let is_somebody = !self.is_nobody(ip.source) || (is_group_of_ours && ip.source.is_unspecified());
        (self.routes.is_own(ip.destination) || is_group_of_ours) && is_somebody
    }

    /// Whether an address is of nobody who could be answered: of this network (RFC 1122, section 3.2.1.3 (a) and (b)) and of all of it no host sends.
    fn is_nobody(&self, address: IpAddr) -> bool {
        let is_of_no_host = matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 0) || self.routes.is_broadcast(address);
        address.is_unspecified() || address.is_multicast() || address.is_loopback() || is_of_no_host
    }
}

/// Whether a transport's checksum, `stands`, is right, or was left to the card of a sender, where senders may leave it.
pub(crate) fn has_right_sum(packet: &Packet, ip: &Ip, stands: u16, leaves_sums: bool, tally: &mut Tally) -> bool {
    let sums = packet.sums(ip, stands, leaves_sums);
    tally.sums_left += u64::from(sums == Sums::Left);
    sums != Sums::Wrong
}

/// Whether a packet says who has an address of IPv6.
fn is_advertisement(walk: &Walk<'_>) -> bool {
    const ADVERTISEMENT: u8 = 136;
    matches!(walk.transport, UpperLayer::Icmpv6(view) if view.kind().0 == ADVERTISEMENT)
}
