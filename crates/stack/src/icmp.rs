//! ICMP (RFC 792, RFC 1122 section 3.2.2) and ICMP for IPv6 (RFC 4443): echoes are answered, errors are sent and heard, all within limits.

use crate::counts::Drop;
use crate::draft::Ends;
use crate::options::{self, Unfit};
use crate::packet::{HEADER_BYTES_V6, Ip, Packet, chain_of, tuple};
use crate::path::{Path, lanes_step};
use corelane_isr::reassembly::Reason;
use corelane_seam::{Frame, FrameHash};
use corelane_wire::packet::checksum::Sum;
use corelane_wire::packet::icmp::{self, Code};
use corelane_wire::packet::icmpv6;
use corelane_wire::packet::{EtherType, IpProtocol, Packet as Walk};
use corelane_wire::packet::{fragment, ipv4, tcp};
use corelane_wire::xdr::Writer;
use std::iter::once;
use std::net::{IpAddr, SocketAddr};

/// Bytes of the packet that an error is about, at most: the answer is then within what each link carries (RFC 1812, section 4.3.2.3; RFC
/// 4443, section 2.4 (c)).
const QUOTED_V4: usize = 576 - 20 - 8;
const QUOTED_V6: usize = 1280 - 40 - 8;
/// Bytes of the longest error.
const ERROR_BYTES: usize = 8 + QUOTED_V6;

/// Bytes of a header of IPv4 without options.
const HEADER_BYTES_V4: usize = ipv4::Header::BYTES;
/// Bytes of a fragment header, and where in it the offset stands; and the code of a first fragment without all headers.
const FRAGMENT_BYTES: usize = fragment::Header::BYTES;
const FRAGMENT_OFFSET_AT: usize = 2;
const HEADERS_CUT: u8 = 3;
/// Where TCP's checksum stands in its header (RFC 9293, section 3.1).
const TCP_CHECKSUM: usize = 16;

/// What is wrong with a packet, in the words of both families.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wrong {
    Port,
    Protocol {
        at: usize,
    },
    /// A header of IPv6 that may not be passed over, or says what cannot be.
    Extension {
        at: usize,
        code: u8,
    },
    /// An option of IPv4 that makes no sense.
    Option {
        at: usize,
    },
    /// A route of the sender's, of IPv4, which goes on from here.
    Route,
    TooLong,
}

impl Path {
    /// A message of ICMP.
    pub fn icmp(&mut self, packet: Packet, ip: &Ip) {
        let Some(first) = self.checked(&packet, ip, Sum::ZERO) else { return };
        match icmp::View::new(first).and_then(|view| view.message()) {
            Ok(icmp::Message::EchoRequest(_)) => self.echo(&packet, ip, 0),
            Ok(icmp::Message::Unreachable { code, packet }) => self.refused(EtherType::IPV4, packet, code.number() == 3),
            Ok(icmp::Message::TooBig { most, packet }) => self.too_big(ip.source, EtherType::IPV4, packet, most.into()),
            Ok(_) => {}
            Err(_) => self.counts.drop(Drop::Malformed),
        }
        self.done(packet);
    }

    /// A message of ICMP for IPv6.
    pub fn icmpv6(&mut self, packet: Packet, ip: &Ip) {
        let pseudo = ip.addresses().pseudo(IpProtocol::ICMPV6, ip.length).unwrap_or_default();
        let Some(first) = self.checked(&packet, ip, pseudo) else { return };
        if self.hear_query(&packet, ip, first) {
            return self.done(packet);
        }
        // Neighbours have passed no router (RFC 4861, section 7.1) and no tunnel, and say what they say in one piece (RFC 6980, section 5).
        let is_of_link = packet.first.get(7) == Some(&255) && ip.tunnels == 0 && !ip.was_cut;
        match icmpv6::View::new(first).and_then(|view| view.message()) {
            Ok(icmpv6::Message::EchoRequest(_)) => self.echo_from_own(&packet, ip),
            Ok(icmpv6::Message::Neighbour(message)) if is_of_link => self.neighbour(&message, ip),
            Ok(icmpv6::Message::Neighbour(_)) => self.counts.drop(Drop::NotOurs),
            Ok(icmpv6::Message::Unreachable { code, packet }) => self.refused(EtherType::IPV6, packet, code.number() == 4),
            Ok(icmpv6::Message::TooBig { most, packet }) => self.too_big(ip.source, EtherType::IPV6, packet, most as usize),
            Ok(_) => {}
            Err(_) => self.counts.drop(Drop::Malformed),
        }
        self.done(packet);
    }

    /// The first piece of a message whose checksum is right.
    fn checked<'a>(&mut self, packet: &'a Packet, ip: &Ip, pseudo: Sum) -> Option<&'a [u8]> {
        if !ip.is_good && !packet.transport(ip).fold(pseudo, Sum::and).is_right() {
            self.counts.drop(Drop::Checksum);
            return None;
        }
        packet.transport(ip).next()
    }

    /// Answers an echo request of IPv6 from the address that was asked, or of all stations, from that which the way back leaves by (RFC 4443, section 4.2).
    fn echo_from_own(&mut self, packet: &Packet, ip: &Ip) {
        let destination = match self.routes.is_own(ip.destination) {
            true => Some(ip.destination),
            false => self.routes.way(ip.source).map(|way| way.source),
        };
        destination.into_iter().for_each(|destination| self.echo(packet, &Ip { destination, ..*ip }, 129));
    }

    /// Answers an echo request with a message of that type.
    fn echo(&mut self, packet: &Packet, ip: &Ip, kind: u8) {
        if !self.bounds.echoes.take(self.now, ip.source) {
            self.counts.errors_limited += 1;
            return;
        }
        if !self.draft.begin(&self.memory, ip.source.is_ipv6(), ip.length, self.most_to(ip.source)) {
            return self.counts.drop(Drop::Frames);
        }
        self.draft.put(&[kind, 0, 0, 0]);
        let mut skip = 4;
        for piece in packet.transport(ip) {
            let some = piece.len().min(skip);
            skip -= some;
            self.draft.put(&piece[some..]);
        }
        self.counts.echoes += 1;
        self.note_echo(ip.source, ip.length + if ip.source.is_ipv4() { HEADER_BYTES_V4 } else { HEADER_BYTES_V6 });
        self.answer(ip, ip.protocol, true);
    }

    /// Sends the draft back to where a packet came from.
    fn answer(&mut self, ip: &Ip, protocol: IpProtocol, sums: bool) {
        let (source, destination) = (ip.destination, ip.source);
        self.mark_fragments(SocketAddr::new(source, 0), SocketAddr::new(destination, 0), protocol);
        let back = Ip { source, destination, protocol, ..*ip };
        if sums {
            let pseudo = match protocol {
                IpProtocol::ICMPV6 => back.addresses().pseudo(protocol, self.draft.length()).unwrap_or_default(),
                _ => Sum::ZERO,
            };
            let checksum = pseudo.plus(self.draft.sum).checksum();
            self.draft.patch(2, checksum);
        }
        self.send_draft(source, destination, protocol);
    }

    /// Counts a draft that is cut, and says of which flow its fragments are: a card that sends by hash does not see their ports.
    pub fn mark_fragments(&mut self, from: SocketAddr, to: SocketAddr, protocol: IpProtocol) {
        if self.draft.is_cut() {
            self.counts.fragments_out += self.draft.pieces() as u64;
            let hashed = tuple(from, to, protocol).and_then(|tuple| self.hasher.transmit(&tuple));
            self.draft.set_hash(hashed.map(|hashed| FrameHash { flow: hashed.flow, hash_type: hashed.hash_type }));
        }
    }

    /// Sends the draft; where there is no way, it is dropped.
    pub fn send_draft(&mut self, source: IpAddr, destination: IpAddr, protocol: IpProtocol) {
        match self.routes.way(destination) {
            Some(way) => self.send_draft_by(way.hop, source, destination, protocol),
            None => {
                self.counts.drop_many(Drop::Neighbour, self.draft.pieces() as u64);
                self.draft.abandon();
            }
        }
    }

    /// Sends the draft by that neighbour.
    pub fn send_draft_by(&mut self, hop: IpAddr, source: IpAddr, destination: IpAddr, protocol: IpProtocol) {
        self.identification = self.identification.wrapping_add(lanes_step(self.lane.1));
        let identification = self.identification;
        let ends = Ends { source, destination, protocol, identification, from: self.mac, is_of_link: false };
        let mut frames = self.draft.end(&ends);
        if self.draft.is_cut() {
            frames.drain(..).for_each(|fragment| self.send_by(hop, once(fragment)));
        } else {
            self.send_by(hop, frames.drain(..));
        }
        self.draft.give_back(frames);
    }

    /// No socket has the port that a datagram is for.
    pub fn no_such_port(&mut self, packet: &Packet, ip: &Ip) {
        self.error(&packet.first, ip, Wrong::Port);
    }

    /// A segment of TCP came, which nobody listens for: its sender is told at once (RFC 9293, section 3.10.7.1), within the bound of errors.
    pub fn no_such_connection(&mut self, packet: &Packet, ip: &Ip) {
        let Some(segment) = packet.transport(ip).next() else { return };
        let Some(reset) = tcp::View::new(segment).ok().and_then(|view| reset_of(&view, ip.length)) else { return };
        let stands = segment.get(TCP_CHECKSUM..).and_then(|rest| rest.first_chunk()).copied().map(u16::from_be_bytes);
        if ip.destination.is_multicast() || !stands.is_some_and(|stands| self.is_right(packet, ip, stands)) {
            return;
        }
        if !self.bounds.errors.take(self.now, ip.source) {
            self.counts.errors_limited += 1;
            return;
        }
        let back = Ip { source: ip.destination, destination: ip.source, ..*ip };
        let mut bytes = [0; tcp::Header::BYTES];
        let written = reset.emit(&back.addresses(), &[], &mut Writer::new(&mut bytes));
        assert!(written.is_ok(), "a header without options has so many bytes: {written:?}");
        if !self.draft.begin(&self.memory, ip.source.is_ipv6(), bytes.len(), self.most_to(ip.source)) {
            return self.counts.drop(Drop::Frames);
        }
        self.draft.put(&bytes);
        self.counts.errors_out += 1;
        self.answer(ip, IpProtocol::TCP, false);
    }

    /// Nobody knows the protocol of a packet.
    pub fn no_such_protocol(&mut self, packet: &Packet, ip: &Ip) {
        self.error(&packet.first, ip, Wrong::Protocol { at: named_at(&packet.first) });
    }

    /// Whether a packet may be handed on: none of its extension headers asks for what is not known here. Its sender may be told of one that does.
    pub fn is_known(&mut self, packet: &Packet, ip: &Ip) -> bool {
        if ip.source.is_ipv4() {
            return ip.head == HEADER_BYTES_V4 || self.has_known_options(packet, ip);
        }
        if ip.head == HEADER_BYTES_V6 {
            return true;
        }
        let Some(unrecognized) = chain_of(&packet.first).and_then(|chain| chain.unrecognized()) else { return true };
        if unrecognized.is_told {
            let at = HEADER_BYTES_V6 + unrecognized.at;
            self.error(&packet.first, ip, Wrong::Extension { at, code: unrecognized.code });
        }
        false
    }

    /// A fragment that can be part of no datagram: of IPv6 its sender is told what is wrong with it (RFC 8200, section 4.5; RFC 7112, section 5).
    pub fn no_such_fragment(&mut self, reason: Reason, fragment: &[u8], ip: &Ip) {
        const LENGTH_AT: usize = 4;
        if ip.source.is_ipv4() {
            return;
        }
        let (at, code) = match reason {
            Reason::TooSmall if !ip.length.is_multiple_of(8) => (LENGTH_AT, 0),
            Reason::TooLong => (ip.head.saturating_sub(FRAGMENT_BYTES) + FRAGMENT_OFFSET_AT, 0),
            Reason::Headless if is_first(fragment, ip) => (0, HEADERS_CUT),
            _ => return,
        };
        self.error(fragment, ip, Wrong::Extension { at, code });
    }

    fn has_known_options(&mut self, packet: &Packet, ip: &Ip) -> bool {
        let unfit = options::look(packet.first.get(..ip.head).unwrap_or_default());
        match unfit {
            Some(Unfit::Wrong { at }) => self.error(&packet.first, ip, Wrong::Option { at }),
            Some(Unfit::Route) => self.error(&packet.first, ip, Wrong::Route),
            Some(Unfit::RouteEnded) | None => {}
        }
        unfit.is_none()
    }

    /// A datagram did not come together in time; this is its first fragment.
    pub fn took_too_long(&mut self, first: Frame) {
        let protocol = if first.first().is_some_and(|first| first >> 4 == 6) { EtherType::IPV6 } else { EtherType::IPV4 };
        let ip = Walk::of_network(protocol, &first).ok().and_then(|walk| Ip::of(&walk, false));
        ip.into_iter().for_each(|ip| self.error(&first, &ip, Wrong::TooLong));
    }

    /// Tells the sender of a packet what is wrong with it. Nothing is said of errors, nor to groups (RFC 1122, section 3.2.2; RFC 4443, section
    /// 2.4 (e)).
    fn error(&mut self, packet: &[u8], ip: &Ip, wrong: Wrong) {
        let is_error = match (ip.protocol, packet.get(ip.head)) {
            // Questions and answers are none (RFC 792, RFC 950, RFC 1256); what nobody knows may be one.
            (IpProtocol::ICMP, Some(kind)) => !matches!(kind, 0 | 8 | 9 | 10 | 13..=18),
            (IpProtocol::ICMPV6, Some(kind)) => *kind < 128,
            _ => false,
        };
        if is_error || !self.routes.is_own(ip.destination) {
            return;
        }
        if !self.bounds.errors.take(self.now, ip.source) {
            self.counts.errors_limited += 1;
            return;
        }
        let mut bytes = [0; ERROR_BYTES];
        let mut writer = Writer::new(&mut bytes);
        let (source, destination) = (ip.destination, ip.source);
        let written = words(packet, &Ip { source, destination, ..*ip }, wrong, &mut writer);
        let length = writer.len();
        assert!(written.is_ok(), "an error is cut to its length: {written:?}");
        if !self.draft.begin(&self.memory, ip.source.is_ipv6(), length, self.most_to(ip.source)) {
            return self.counts.drop(Drop::Frames);
        }
        self.draft.put(&bytes[..length]);
        self.counts.errors_out += 1;
        self.answer(ip, if ip.source.is_ipv4() { IpProtocol::ICMP } else { IpProtocol::ICMPV6 }, false);
    }
}

/// Whether a fragment of IPv6 is the first of its datagram.
fn is_first(fragment: &[u8], ip: &Ip) -> bool {
    let field = ip.head.checked_sub(FRAGMENT_BYTES - FRAGMENT_OFFSET_AT).and_then(|at| fragment.get(at..)?.first_chunk::<2>());
    field.is_some_and(|field| u16::from_be_bytes(*field) >> 3 == 0)
}

/// What answers a segment of no connection, with its header so many bytes long; none for a reset.
fn reset_of(view: &tcp::View<'_>, length: usize) -> Option<tcp::Header> {
    let header = view.header().ok().filter(|header| !header.flags.contains(tcp::Flags::RST))?;
    let has = |flag| u32::from(header.flags.contains(flag));
    let taken = length.saturating_sub(header.header_bytes()) as u32 + has(tcp::Flags::SYN) + has(tcp::Flags::FIN);
    let (sequence, acknowledgement, flags) = match header.flags.contains(tcp::Flags::ACK) {
        true => (header.acknowledgement, 0, tcp::Flags::RST),
        false => (0, header.sequence.wrapping_add(taken), tcp::Flags::RST.with(tcp::Flags::ACK)),
    };
    let (source, destination) = (header.destination, header.source);
    Some(tcp::Header { source, destination, sequence, acknowledgement, flags, window: 0, urgent: 0, options: Default::default() })
}

/// Writes an error.
fn words(packet: &[u8], ip: &Ip, wrong: Wrong, to: &mut Writer<'_>) -> Result<(), corelane_wire::Error> {
    if ip.source.is_ipv4() {
        let packet = &packet[..packet.len().min(QUOTED_V4)];
        let message = match wrong {
            Wrong::Port => icmp::Message::Unreachable { code: Code::new(3)?, packet },
            Wrong::Protocol { .. } => icmp::Message::Unreachable { code: Code::new(2)?, packet },
            Wrong::Extension { .. } => unreachable!("IPv4 has no extension headers"),
            Wrong::Option { at } => icmp::Message::ParameterProblem { code: Code::new(0)?, at: at as u8, packet },
            Wrong::Route => icmp::Message::Unreachable { code: Code::new(5)?, packet },
            Wrong::TooLong => icmp::Message::TimeExceeded { code: Code::new(1)?, packet },
        };
        return message.emit(to);
    }
    let packet = &packet[..packet.len().min(QUOTED_V6)];
    let message = match wrong {
        Wrong::Port => icmpv6::Message::Unreachable { code: Code::new(4)?, packet },
        Wrong::Protocol { at } => icmpv6::Message::ParameterProblem { code: Code::new(1)?, at: at as u32, packet },
        Wrong::Extension { at, code } => icmpv6::Message::ParameterProblem { code: Code::new(code)?, at: at as u32, packet },
        Wrong::Option { .. } | Wrong::Route => unreachable!("IPv6 has options in extension headers"),
        Wrong::TooLong => icmpv6::Message::TimeExceeded { code: Code::new(1)?, packet },
    };
    message.emit(&ip.addresses(), to)
}

/// Where an IP packet names the protocol that follows all headers of its network: of IPv6, in the last of them.
fn named_at(packet: &[u8]) -> usize {
    const NEXT: usize = 6;
    chain_of(packet).and_then(|chain| chain.announced_at()).map_or(NEXT, |at| HEADER_BYTES_V6 + at)
}
