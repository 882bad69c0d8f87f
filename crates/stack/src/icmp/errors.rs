//! Errors that are sent: what is wrong with a packet, told to its sender within limits.

use super::HEADER_BYTES_V4;
use super::options::{self, Unfit};
use crate::headers::has_right_sum;
use crate::outward::{Outward, Speaker};
use crate::packet::{HEADER_BYTES_V6, Ip, Packet, chain_of};
use corelane_isr::reassembly::Reason;
use corelane_wire::packet::icmp::{self, Code};
use corelane_wire::packet::icmpv6;
use corelane_wire::packet::{EtherType, IpProtocol, Packet as Walk};
use corelane_wire::packet::{fragment, tcp};
use corelane_wire::xdr::Writer;

/// Bytes of the packet that an error is about, at most: the answer is then within what each link carries (RFC 1812, section 4.3.2.3; RFC
/// 4443, section 2.4 (c)).
const QUOTED_V4: usize = 576 - 20 - 8;
const QUOTED_V6: usize = 1280 - 40 - 8;
/// Bytes of the longest error.
const ERROR_BYTES: usize = 8 + QUOTED_V6;

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
    /// Of what is forwarded: it has passed as many routers as it may.
    Hops,
    /// It is longer than the link that it would leave by carries.
    TooBig {
        most: usize,
    },
    /// There is no way to the network, or nobody there has the address.
    Network,
    Host,
    /// Rules refuse it, with that code of what cannot be reached.
    Refused {
        code: u8,
    },
}

/// No socket has the port that a datagram is for.
pub(crate) fn no_such_port(out: &mut Outward<'_>, packet: &Packet, ip: &Ip) {
    error(out, &packet.first, ip, Wrong::Port);
}

/// A segment of TCP came, which nobody listens for: its sender is told at once (RFC 9293, section 3.10.7.1), within the bound of errors.
pub(crate) fn no_such_connection(out: &mut Outward<'_>, packet: &Packet, ip: &Ip) {
    reset(out, (packet, ip), (&packet.first, ip), Speaker::Stack);
}

/// Resets the connection of a segment, which may have been translated here: behind it stands as its sender knows it, the header of the transport among that.
pub(crate) fn reset(out: &mut Outward<'_>, (packet, ip): (&Packet, &Ip), (known, of_known): (&[u8], &Ip), speaker: Speaker) {
    let Some(segment) = packet.transport(ip).next() else { return };
    let view = known.get(of_known.head..).and_then(|known| tcp::View::new(known).ok());
    let Some(reset) = view.and_then(|view| reset_of(&view, ip.length)) else { return };
    let stands = segment.get(TCP_CHECKSUM..).and_then(|rest| rest.first_chunk()).copied().map(u16::from_be_bytes);
    if ip.destination.is_multicast()
        || !stands.is_some_and(|stands| has_right_sum(packet, ip, stands, out.leaves_sums(packet.interface), out.tally))
    {
        return;
    }
    if !out.bounds.errors.take(out.now, of_known.source) {
        out.tally.errors_limited += 1;
        return;
    }
    let back = Ip { source: of_known.destination, destination: of_known.source, ..*of_known };
    let mut bytes = [0; tcp::Header::BYTES];
    let written = reset.emit(&back.addresses(), &[], &mut Writer::new(&mut bytes));
    assert!(written.is_ok(), "a header without options has so many bytes: {written:?}");
    send(out, of_known, &bytes, IpProtocol::TCP, speaker);
}

/// Nobody knows the protocol of a packet.
pub(crate) fn no_such_protocol(out: &mut Outward<'_>, packet: &Packet, ip: &Ip) {
    error(out, &packet.first, ip, Wrong::Protocol { at: named_at(&packet.first) });
}

/// Whether a packet may be handed on: none of its extension headers asks for what is not known here. Its sender may be told of one that does.
pub(crate) fn is_known(out: &mut Outward<'_>, packet: &Packet, ip: &Ip) -> bool {
    if ip.source.is_ipv4() {
        return ip.head == HEADER_BYTES_V4 || has_known_options(out, packet, ip);
    }
    if ip.head == HEADER_BYTES_V6 {
        return true;
    }
    let Some(unrecognized) = chain_of(&packet.first).and_then(|chain| chain.unrecognized()) else { return true };
    if unrecognized.is_told {
        let at = HEADER_BYTES_V6 + unrecognized.at;
        error(out, &packet.first, ip, Wrong::Extension { at, code: unrecognized.code });
    }
    false
}

/// A fragment that can be part of no datagram: of IPv6 its sender is told what is wrong with it (RFC 8200, section 4.5; RFC 7112, section 5).
pub(crate) fn no_such_fragment(out: &mut Outward<'_>, reason: Reason, fragment: &[u8], ip: &Ip) {
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
    error(out, fragment, ip, Wrong::Extension { at, code });
}

fn has_known_options(out: &mut Outward<'_>, packet: &Packet, ip: &Ip) -> bool {
    let unfit = options::look(packet.first.get(..ip.head).unwrap_or_default());
    match unfit {
        Some(Unfit::Wrong { at }) => error(out, &packet.first, ip, Wrong::Option { at }),
        Some(Unfit::Route) => error(out, &packet.first, ip, Wrong::Route),
        Some(Unfit::RouteEnded) | None => {}
    }
    unfit.is_none()
}

/// A datagram did not come together in time; this is its first fragment.
pub(crate) fn took_too_long(out: &mut Outward<'_>, first: &[u8]) {
    let protocol = if first.first().is_some_and(|first| first >> 4 == 6) { EtherType::IPV6 } else { EtherType::IPV4 };
    let ip = Walk::of_network(protocol, first).ok().and_then(|walk| Ip::of(&walk, false));
    ip.into_iter().for_each(|ip| error(out, first, &ip, Wrong::TooLong));
}

/// Tells the sender of a packet what is wrong with it. Nothing is said of errors, nor to groups (RFC 1122, section 3.2.2; RFC 4443, section
/// 2.4 (e)).
fn error(out: &mut Outward<'_>, packet: &[u8], ip: &Ip, wrong: Wrong) {
    if out.routes.is_own(ip.destination) {
        tell(out, packet, ip, wrong);
    }
}

/// Tells the sender of a packet what is wrong with it, be it for us or for somebody else: then from our address that is nearest to him (RFC 1812, section 4.3.2.4). Nothing is
/// said of later fragments, whose header of the transport is not here (section 4.3.2.7), and of what was for all of a link or for a group (the same; RFC 4443, section 2.4 (e.3)).
pub(crate) fn tell_sender(out: &mut Outward<'_>, packet: &[u8], ip: &Ip, wrong: Wrong) {
    if !ip.passes && out.routes.is_own(ip.destination) {
        return tell(out, packet, ip, wrong);
    }
    if ip.is_later(packet) || ip.is_to_all() || ip.destination.is_multicast() {
        return;
    }
    let Some(way) = out.way_back(ip.source) else { return };
    tell(out, packet, &Ip { destination: way.source, ..*ip }, wrong);
}

/// Writes what is wrong, from whom the packet was for.
fn tell(out: &mut Outward<'_>, packet: &[u8], ip: &Ip, wrong: Wrong) {
    let is_error = match (ip.protocol, packet.get(ip.head)) {
        // Questions and answers are none (RFC 792, RFC 950, RFC 1256); what nobody knows may be one.
        (IpProtocol::ICMP, Some(kind)) => !matches!(kind, 0 | 8 | 9 | 10 | 13..=18),
        (IpProtocol::ICMPV6, Some(kind)) => *kind < 128,
        _ => false,
    };
    if is_error {
        return;
    }
    if !out.bounds.errors.take(out.now, ip.source) {
        out.tally.errors_limited += 1;
        return;
    }
    let mut bytes = [0; ERROR_BYTES];
    let mut writer = Writer::new(&mut bytes);
    let (source, destination) = (ip.destination, ip.source);
    let written = words(packet, &Ip { source, destination, ..*ip }, wrong, &mut writer);
    let length = writer.len();
    assert!(written.is_ok(), "an error is cut to its length: {written:?}");
    let protocol = if ip.source.is_ipv4() { IpProtocol::ICMP } else { IpProtocol::ICMPV6 };
    send(out, ip, &bytes[..length], protocol, Speaker::Stack);
}

/// Sends an error to where a packet came from.
fn send(out: &mut Outward<'_>, ip: &Ip, bytes: &[u8], protocol: IpProtocol, speaker: Speaker) {
    if out.begin_answer(ip, bytes.len()) {
        out.draft().put(bytes);
        out.tally.errors_out += u64::from(out.answer(ip, protocol, false, speaker));
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
            Wrong::Hops => icmp::Message::TimeExceeded { code: Code::new(0)?, packet },
            Wrong::TooBig { most } => icmp::Message::TooBig { most: most.min(u16::MAX.into()) as u16, packet },
            Wrong::Network => icmp::Message::Unreachable { code: Code::new(0)?, packet },
            Wrong::Host => icmp::Message::Unreachable { code: Code::new(1)?, packet },
            Wrong::Refused { code } => icmp::Message::Unreachable { code: Code::new(code)?, packet },
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
        Wrong::Hops => icmpv6::Message::TimeExceeded { code: Code::new(0)?, packet },
        Wrong::TooBig { most } => icmpv6::Message::TooBig { most: most as u32, packet },
        Wrong::Network => icmpv6::Message::Unreachable { code: Code::new(0)?, packet },
        Wrong::Host => icmpv6::Message::Unreachable { code: Code::new(3)?, packet },
        Wrong::Refused { code } => icmpv6::Message::Unreachable { code: Code::new(code)?, packet },
    };
    message.emit(&ip.addresses(), to)
}

/// Where an IP packet names the protocol that follows all headers of its network: of IPv6, in the last of them.
fn named_at(packet: &[u8]) -> usize {
    const NEXT: usize = 6;
    chain_of(packet).and_then(|chain| chain.announced_at()).map_or(NEXT, |at| HEADER_BYTES_V6 + at)
}
