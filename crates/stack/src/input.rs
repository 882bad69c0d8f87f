//! What arrives: from the frame to the transport.

use crate::channels::Sink;
use crate::counts::Drop;
use crate::packet::{ALL_NODES, Ip, Packet, tuple};
use crate::path::{Leaving, Path};
use crate::split::split;
use corelane_isr::dispatch::Number;
use corelane_isr::reassembly::{Admission, Datagram};
use corelane_seam::{Checksum, Frame, Instant};
use corelane_wire::packet::{IpProtocol, Link, Network, Packet as Walk, UpperLayer};
use std::net::{IpAddr, SocketAddr};

/// The bits of a tag that name its VLAN.
const NUMBER_OF_VLAN: u16 = 0xfff;

/// What a frame turned out to be.
pub(crate) enum Found {
    Arp { at: usize },
    Ip { ip: Ip, at: usize, length: usize },
    Not(Drop),
}

impl Path {
    /// A frame of the port's: a packet, or the next part of one.
    pub fn frame(&mut self, frame: Frame) {
        if self.is_broken() {
            return;
        }
        #[cfg(test)]
        assert!(!self.planted, "planted");
        self.counts.frames_in += 1;
        let continues = frame.facts.continues;
        let packet = match self.begun.take() {
            Some(mut packet) => {
                // What is too long is dropped with its end, so that no part of it is taken for a packet.
                self.is_spilt |= packet.rest.len() + 1 >= self.pieces_max;
                packet.rest.extend(Some(frame).filter(|_| !self.is_spilt));
                packet
            }
            None => {
                let told = if frame.facts.time > 0 { frame.facts.time.min(self.now) } else { self.now };
                let arrived = told.max(self.came + 1);
                self.came = arrived;
                self.packet(frame, arrived)
            }
        };
        if continues {
            self.begun = Some(packet);
        } else if std::mem::take(&mut self.is_spilt) {
            self.counts.drop(Drop::Pieces);
            self.done(packet);
        } else {
            self.arrive(Number::ETHER, packet);
        }
    }

    /// A batch has ended. A packet does not go on in the next.
    pub fn end_batch(&mut self) {
        if let Some(packet) = self.begun.take() {
            self.is_spilt = false;
            self.counts.drop(Drop::Pieces);
            self.done(packet);
        }
    }

    /// Looks at the headers of link and network, once for all who come later. They are in the first frame.
    pub fn ether(&mut self, mut packet: Packet) {
        match self.look(&packet.first, packet.rest.iter().map(|frame| frame.len()).sum()) {
            Found::Arp { at } => {
                packet.first.skip(at);
                self.arrive(Number::ARP, packet);
            }
            Found::Ip { ip, at, length } => {
                packet.first.skip(at);
                packet.first.set_length(length);
                packet.ip = Some(ip);
                // What a tunnel carries has a flow of its own.
                packet.flow = match self.tunnel_of(&packet, &ip) {
                    Some(_) => None,
                    None if packet.rest.is_empty() => self.flow(&packet.first, ip.is_part),
                    None if ip.is_part => None,
                    None => self.flow_of(&packet, &ip),
                };
                self.arrive(if ip.source.is_ipv4() { Number::IP } else { Number::IP6 }, packet);
            }
            Found::Not(why) => {
                self.counts.drop(why);
                self.done(packet);
            }
        }
    }

    /// Looks at a frame, of which so many bytes lie in others. A tag without a VLAN's number carries a priority alone (IEEE 802.1Q, 9.6).
    pub fn look(&self, frame: &Frame, missing: usize) -> Found {
        let Ok(walk) = Walk::of_front(frame, missing) else { return Found::Not(Drop::Malformed) };
        let is_in_frame = |link: &Link| link.tags == 0 || link.tags == 1 && link.outer.is_some_and(|tag| tag.number() == 0);
        let Some(link) = walk.link.filter(is_in_frame) else { return Found::Not(Drop::NotOurs) };
        let to = link.header.destination;
        let is_of_vlan = frame.facts.vlan.is_some_and(|tag| tag.control & NUMBER_OF_VLAN != 0);
        if !(to == self.mac || to.is_group()) || is_of_vlan {
            return Found::Not(Drop::NotOurs);
        }
        match self.look_at_network(&walk, !matches!(frame.facts.checksum, Checksum::Unknown)) {
            // What all stations hear and one is meant by is answered by nobody (RFC 1122, sections 3.2.2 and 3.3.6; RFC 4443, section 2.4).
            Found::Ip { ip, .. } if to.is_group() && !ip.destination.is_multicast() => Found::Not(Drop::NotOurs),
            found => found,
        }
    }

    /// Looks at the header of the network. The source vouches for the transport's checksum, or does not.
    pub fn look_at_network(&self, walk: &Walk<'_>, is_good: bool) -> Found {
        let length = match &walk.network {
            Network::Arp(_) => return Found::Arp { at: walk.network_at },
            Network::Other(..) => return Found::Not(Drop::Protocol),
            Network::V4(view) if !view.is_checksum_right() => return Found::Not(Drop::Checksum),
            Network::V4(view) => view.bytes().len(),
            Network::V6(view, _) => view.bytes().len(),
        };
        let Some(ip) = Ip::of(walk, is_good) else { return Found::Not(Drop::Malformed) };
        if !self.is_for_us(&ip, is_advertisement(walk)) {
            return Found::Not(Drop::NotOurs);
        }
        Found::Ip { ip, at: walk.network_at, length }
    }

    /// Whether a packet is for an address of ours, and from somebody who can be answered. Our own addresses say nothing on the wire: what comes from one
    /// is forged or a loop, and an answer would go round within the stack (RFC 1122, section 3.2.1.3). Only that somebody else has one is said from it.
    fn is_for_us(&self, ip: &Ip, is_advertisement: bool) -> bool {
        if self.routes.is_own(ip.source) && !self.is_own_word && !is_advertisement {
            return false;
        }
        let IpAddr::V6(to) = ip.destination else {
            return self.routes.is_own(ip.destination) && !is_nobody(ip.source);
        };
        let is_group_of_ours = ip.protocol == IpProtocol::ICMPV6 && (to == ALL_NODES || self.is_solicited(to));
        // Who looks whether an address is free has none (RFC 4862, section 5.4.2).
        let is_somebody = !is_nobody(ip.source) || (is_group_of_ours && ip.source.is_unspecified());
        (self.routes.is_own(ip.destination) || is_group_of_ours) && is_somebody
    }

    /// A fragment: held until the others are there. One that lies in several frames is held as several.
    pub fn fragment(&mut self, mut packet: Packet, ip: Ip) {
        let arrived = Instant::from_nanoseconds(packet.arrived);
        if !split(&mut packet, &ip) {
            self.counts.drop(Drop::Pieces);
            return self.done(packet);
        }
        let (first, mut rest) = (std::mem::take(&mut packet.first), std::mem::take(&mut packet.rest));
        let parts = std::iter::once(first).chain(rest.drain(..));
        parts.filter(|part| !part.is_empty()).for_each(|part| self.part(part, arrived, &ip));
        packet.rest = rest;
        self.done(packet);
    }

    /// A fragment, or the part of one that lies in one frame.
    fn part(&mut self, part: Frame, arrived: Instant, ip: &Ip) {
        let Some(fragment) = self.shelf.keep(part, self.fragments.waiting().1) else {
            return self.counts.drop(Drop::Frames);
        };
        let mut pieces = std::mem::take(&mut self.pieces);
        match self.fragments.arrive(arrived, fragment, &mut pieces) {
            Admission::Whole(datagram) => self.whole(&datagram, &mut pieces, ip),
            Admission::Dropped(reason, fragment) => self.no_such_fragment(reason, &fragment, ip),
            Admission::Held | Admission::NoFragment(_) => {}
        }
        assert!(pieces.is_empty(), "all pieces of a datagram are its own");
        self.pieces = pieces;
    }

    /// A datagram that was put together: its flow is known now, and with it its lane.
    fn whole(&mut self, datagram: &Datagram, pieces: &mut Vec<Frame>, before: &Ip) {
        let mut others = pieces.drain(..);
        let Some(first) = others.next() else { unreachable!("a datagram has a first piece") };
        let mut packet = self.packet(first, datagram.arrived.nanoseconds());
        packet.rest.extend(others);
        packet.ip = Ip::of_whole(datagram, &packet.first, before);
        let Some(ip) = packet.ip else {
            self.counts.drop(Drop::Malformed);
            return self.done(packet);
        };
        packet.flow = self.flow_of(&packet, &ip).filter(|_| self.tunnel_of(&packet, &ip).is_none());
        self.arrive(if ip.source.is_ipv4() { Number::IP_DIRECT } else { Number::IP6_DIRECT }, packet);
    }

    /// The flow id of a whole datagram, however many frames it lies in.
    fn flow_of(&self, packet: &Packet, ip: &Ip) -> Option<corelane_rss::FlowId> {
        let first = packet.transport(ip).next()?;
        let ports = match ip.protocol.header_with_ports() {
            Some(_) => [first.first_chunk::<2>()?, first.get(2..)?.first_chunk::<2>()?].map(|port| u16::from_be_bytes(*port)),
            None => [0; 2],
        };
        let (source, destination) = (SocketAddr::new(ip.source, ports[0]), SocketAddr::new(ip.destination, ports[1]));
        self.hasher.tuple(&tuple(source, destination, ip.protocol)?).map(|hashed| hashed.flow)
    }

    /// Puts a packet into its channel; one that has none comes back.
    pub fn channel(&mut self, packet: Packet, ip: &Ip) -> Option<Packet> {
        match self.channels.find(&packet, ip) {
            Some(Sink::Ring(producer)) => {
                let head = packet.first.get(..ip.head).unwrap_or_default();
                let is_put = producer.put(std::iter::once(head).chain(packet.transport(ip)));
                match is_put {
                    true => self.counts.channelled += 1,
                    false => self.counts.drop(Drop::Channel),
                }
                self.done(packet);
                None
            }
            Some(Sink::Lane(lane)) if *lane != self.lane.0 => {
                let to = *lane;
                self.counts.channelled += 1;
                self.leaving.push(Leaving { to, number: None, packet });
                None
            }
            Some(Sink::Lane(_)) | None => Some(packet),
        }
    }

    /// Hands a packet to its transport. The place of TCP: sockets by hash of their four parts, timers of the lane's wheel, and for each connection
    /// a machine that is handed segments and says what is to be sent.
    pub fn transport(&mut self, packet: Packet, ip: Ip) {
        // What was put together by another lane runs here, too.
        if let Some(flow) = packet.flow.filter(|_| self.is_shared() || self.fragments.counts().fragments > 0) {
            self.reorders.run(flow.0, Instant::from_nanoseconds(packet.arrived));
        }
        if !self.is_known(&packet, &ip) {
            self.counts.drop(Drop::Protocol);
            return self.done(packet);
        }
        if let Some(tunnel) = self.tunnel_of(&packet, &ip) {
            return self.open(tunnel, packet, &ip);
        }
        // Without neighbour discovery nobody on the link would reach the lane any more: no filter takes it away.
        let packet = if is_discovery(&packet, &ip) { Some(packet) } else { self.channel(packet, &ip) };
        let Some(packet) = packet else { return };
        match ip.protocol {
            IpProtocol::UDP => self.udp(packet, ip),
            IpProtocol::ICMP if ip.source.is_ipv4() => self.icmp(packet, &ip),
            IpProtocol::ICMPV6 if ip.source.is_ipv6() => self.icmpv6(packet, &ip),
            IpProtocol::TCP => {
                self.counts.drop(Drop::Protocol);
                self.no_such_connection(&packet, &ip);
                self.done(packet);
            }
            _ if is_silent(&ip) => {
                self.counts.drop(Drop::Protocol);
                self.done(packet);
            }
            _ => {
                self.counts.drop(Drop::Protocol);
                self.no_such_protocol(&packet, &ip);
                self.done(packet);
            }
        }
    }
}

/// Whether nobody is told that a protocol is not here: of IPv6, nothing follows (RFC 8200, section 4.7); of IPv4, IGMP asks a host that has joined no group
/// for nothing (RFC 1112, appendix I).
fn is_silent(ip: &Ip) -> bool {
    match ip.protocol {
        IpProtocol::NONE => ip.source.is_ipv6(),
        IpProtocol::IGMP => ip.source.is_ipv4(),
        _ => false,
    }
}

/// Whether it is a message of neighbour discovery (RFC 4861, section 4: types 133 to 137).
fn is_discovery(packet: &Packet, ip: &Ip) -> bool {
    let kind = || packet.transport(ip).next().and_then(|first| first.first().copied());
    ip.protocol == IpProtocol::ICMPV6 && kind().is_some_and(|kind| (133..=137).contains(&kind))
}

/// Whether a packet says who has an address of IPv6.
fn is_advertisement(walk: &Walk<'_>) -> bool {
    const ADVERTISEMENT: u8 = 136;
    matches!(walk.transport, UpperLayer::Icmpv6(view) if view.kind().0 == ADVERTISEMENT)
}

/// Whether an address is of nobody who could be answered.
fn is_nobody(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    address.is_unspecified() || address.is_multicast() || address.is_loopback() || is_broadcast
}
