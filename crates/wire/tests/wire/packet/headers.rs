//! Headers that are cut short, or that lie.

use super::build::in_front;
use crate::packet::samples;
use corelane_wire::Error;
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::extension::{EXTENSIONS_MAX, Extension, Kind};
use corelane_wire::packet::{
    Ecn, EtherType, IpProtocol, Network, OptionView, Options, Packet, TAGS_MAX, Traffic, UpperLayer, arp, ethernet, fragment,
    gre, icmp, icmpv6, ipv4, ipv6, neighbour, tcp, udp, vlan, vxlan,
};
use std::net::{Ipv4Addr, Ipv6Addr};

const V4: ipv4::Header = ipv4::Header {
    traffic: Traffic(0),
    identification: 1,
    fragment: ipv4::Fragment { offset: ipv4::Offset::START, more: false, keep_whole: true },
    hops: 64,
    protocol: IpProtocol::UDP,
    source: Ipv4Addr::new(192, 0, 2, 1),
    destination: Ipv4Addr::new(192, 0, 2, 2),
    options: Options::NONE,
};

fn v6(next: IpProtocol) -> ipv6::Header {
    let (source, destination) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    ipv6::Header { traffic: Traffic(0), label: ipv6::Label::default(), next, hops: 64, source, destination }
}

fn udp_in_v4(data: &[u8]) -> Vec<u8> {
    let datagram = in_front(data, |to| udp::Header { source: 7, destination: 9 }.emit(&V4.addresses(), data, to));
    in_front(&datagram, |to| V4.emit(datagram.len(), to))
}

/// A segment's header with an option.
fn segment() -> tcp::Header {
    tcp::Header {
        source: 1,
        destination: 2,
        sequence: 3,
        acknowledgement: 4,
        flags: tcp::Flags::SYN,
        window: 5,
        urgent: 0,
        options: tcp::Choice::Times { time: 1, echo: 2 }.put(Options::NONE).unwrap(),
    }
}

/// Reads a header; whether it was there.
type Reader = fn(&[u8]) -> Result<(), Error>;

#[test]
fn a_header_that_is_cut_short_is_said_to_be_so() {
    let addresses = V4.addresses();
    let mut with_options = V4;
    with_options.options = Options::NONE.with(0x1e, &[1; 6]).unwrap();
    let gre = gre::Header { has_checksum: true, key: Some(1), sequence: Some(2), protocol: EtherType::IPV4 };
    let extension = Extension::new(Kind::Destination, IpProtocol::UDP, &[1, 4, 0, 0, 0, 0]).unwrap();
    let part = fragment::Header { next: IpProtocol::UDP, offset: ipv4::Offset::START, more: true, identification: 1 };
    let arp = arp::Message {
        operation: arp::Operation::Request,
        sender_mac: ethernet::Mac::BROADCAST,
        sender: V4.source,
        target_mac: ethernet::Mac::BROADCAST,
        target: V4.destination,
    };
    let frame = ethernet::Header { destination: arp.sender_mac, source: arp.sender_mac, protocol: EtherType::ARP };
    let solicitation = icmpv6::Message::Neighbour(neighbour::Message::Solicitation {
        target: Ipv6Addr::LOCALHOST,
        options: neighbour::Options::default(),
    });
    let echo = icmp::Message::EchoRequest(icmp::Echo { identification: 1, sequence: 2, data: &[] });
    let headers: [(&str, Vec<u8>, Reader); 13] = [
        ("ethernet", in_front(&[], |to| frame.emit(to)), |b| ethernet::View::new(b).map(drop)),
        ("vlan", in_front(&[], |to| vlan::Tag { control: 1, protocol: EtherType::IPV4 }.emit(to)), |b| {
            vlan::View::new(b).map(drop)
        }),
        ("arp", in_front(&[], |to| arp.emit(to)), |b| arp::Message::parse(b).map(drop)),
        ("ipv4", in_front(&[], |to| with_options.emit(0, to)), |b| ipv4::View::new(b).map(drop)),
        ("ipv6", in_front(&[], |to| v6(IpProtocol::NONE).emit(0, to)), |b| ipv6::View::new(b).map(drop)),
        ("extension", in_front(&[], |to| extension.emit(to)), |b| Extension::parse(Kind::Destination, b).map(drop)),
        ("fragment", in_front(&[], |to| part.emit(to)), |b| fragment::View::new(b).map(drop)),
        ("udp", in_front(&[], |to| udp::Header { source: 1, destination: 2 }.emit(&addresses, &[], to)), |b| {
            udp::View::new(b).map(drop)
        }),
        ("tcp", in_front(&[], |to| segment().emit(&addresses, &[], to)), |b| tcp::View::new(b).map(drop)),
        ("icmp", in_front(&[], |to| echo.emit(to)), |b| icmp::View::new(b).map(drop)),
        ("icmpv6", in_front(&[], |to| solicitation.emit(&addresses, to)), |b| {
            icmpv6::View::new(b).and_then(|view| view.message()).map(drop)
        }),
        ("gre", in_front(&[], |to| gre.emit(&[], to)), |b| gre::View::new(b).map(drop)),
        ("vxlan", in_front(&[], |to| vxlan::Header { network: Default::default() }.emit(to)), |b| vxlan::View::new(b).map(drop)),
    ];
    for (name, bytes, read) in headers {
        assert_eq!(read(&bytes), Ok(()), "{name}");
        for length in 0..bytes.len() {
            let read = read(&bytes[..length]);
            let is_told = matches!(read, Err(Error::Truncated { expected, got }) if expected > got);
            assert!(is_told, "{name} of {length} bytes: {read:?}");
        }
    }
}

#[test]
fn a_writer_without_room_is_left_as_it_was() {
    for sample in samples::all().into_iter().filter(|sample| sample.parser == "packet_frame") {
        let mut memory = [0; 13];
        let mut writer = corelane_wire::xdr::Writer::new(&mut memory);
        let header = ethernet::View::new(&sample.bytes).unwrap().header();
        assert_eq!(header.emit(&mut writer), Err(Error::NoRoom { expected: 14, got: 13 }));
        assert!(writer.is_empty());
    }
}

#[test]
fn lengths_that_lie_are_refused() {
    let whole = udp_in_v4(b"12345678");
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        Packet::of_network(EtherType::IPV4, &bytes).map(|packet| format!("{:?}", packet.transport))
    };
    let (malformed, truncated) =
        (Err(Error::Malformed { what: "length of an IPv4 packet" }), |expected| Err(Error::Truncated { expected, got: 36 }));
    assert_eq!(changed(0, &[0x44]), malformed, "a header of 16 bytes");
    assert_eq!(changed(0, &[0x4f]), malformed, "a header beyond the packet");
    assert_eq!(changed(2, &[0, 0]), malformed, "a packet of 0 bytes");
    assert_eq!(changed(2, &[0, 19]), malformed, "a packet shorter than its header");
    assert_eq!(changed(2, &[0, 37]), truncated(37), "a packet longer than the frame");
    assert_eq!(changed(2, &[0xff, 0xff]), truncated(65_535));
    let broken = |length: u8, why: &str| {
        let told = changed(24, &[0, length]).unwrap();
        assert!(told.starts_with("Broken") && told.contains(why), "{told}");
    };
    broken(0, "Malformed");
    broken(7, "Malformed");
    broken(17, "Truncated");
    assert!(changed(24, &[0, 15]).unwrap().starts_with("Udp"), "less than the packet has is legal");
}

#[test]
fn segments_that_lie_are_refused() {
    let mut bytes = [0; 24];
    for (words, is_read) in [(0, false), (4, false), (5, true), (6, true), (7, false), (15, false)] {
        bytes[12] = words << 4;
        assert_eq!(tcp::View::new(&bytes).is_ok(), is_read, "{words} words of {}", bytes.len() / 4);
    }
    bytes[12] = 6 << 4;
    for options in [[2, 0, 0, 0], [2, 1, 0, 0], [2, 5, 0, 0], [1, 1, 1, 2]] {
        bytes[20..].copy_from_slice(&options);
        let view = tcp::View::new(&bytes).unwrap();
        assert_eq!(view.header().map(drop), Err(Error::Malformed { what: "list of options" }), "{options:?}");
        assert_eq!(view.options().filter(Result::is_err).count(), 1, "the list ends at its fault");
    }
    bytes[20..].copy_from_slice(&[0, 2, 0, 0]);
    assert_eq!(tcp::View::new(&bytes).unwrap().header().unwrap().options, Options::NONE, "what is behind the end does not count");
}

#[test]
fn frames_of_no_length_and_of_any_are_walked() {
    assert_eq!(Packet::of_frame(&[]).map(drop), Err(Error::Truncated { expected: 14, got: 0 }));
    for length in [0, 1, 1472, 8972, 65_535 - 28] {
        let data = vec![0x5a; length];
        let mut datagram = vec![0; 70_000];
        let mut writer = corelane_wire::xdr::Writer::new(&mut datagram);
        ethernet::Header { destination: ethernet::Mac::BROADCAST, source: ethernet::Mac([2; 6]), protocol: EtherType::IPV4 }
            .emit(&mut writer)
            .unwrap();
        V4.emit(8 + length, &mut writer).unwrap();
        udp::Header { source: 1, destination: 2 }.emit(&V4.addresses(), &data, &mut writer).unwrap();
        writer.put(&data).unwrap();
        writer.put(&[0; 20]).unwrap(); // what fills a short frame
        let packet = Packet::of_frame(writer.written()).unwrap();
        let UpperLayer::Udp(view) = packet.transport else { panic!("{length}: {:?}", packet.transport) };
        assert_eq!((view.payload().len(), view.is_checksum_right(&V4.addresses())), (length, true));
    }
    let mut room = [0; 100];
    let too_long = V4.emit(65_516, &mut corelane_wire::xdr::Writer::new(&mut room));
    assert_eq!(too_long, Err(Error::Oversized { limit: 65_535, got: 65_536 }));
}

#[test]
fn tags_are_walked_past_up_to_their_bound() {
    let stacked = |tags: usize| {
        let mut protocol = EtherType::IPV4;
        let mut bytes = udp_in_v4(b"x");
        for control in 0..tags {
            bytes = in_front(&bytes, |to| vlan::Tag { control: control as u16, protocol }.emit(to));
            protocol = EtherType::VLAN;
        }
        let header = ethernet::Header { destination: ethernet::Mac::BROADCAST, source: ethernet::Mac([2; 6]), protocol };
        in_front(&bytes, |to| header.emit(to))
    };
    let frame = stacked(TAGS_MAX);
    let packet = Packet::of_frame(&frame).unwrap();
    let link = packet.link.unwrap();
    let numbers = (link.outer.unwrap().number(), link.inner.unwrap().number());
    assert_eq!((link.tags, numbers, packet.network_at), (TAGS_MAX, (31, 0), 14 + 4 * TAGS_MAX));
    let refused = Packet::of_frame(&stacked(TAGS_MAX + 1)).map(drop);
    assert_eq!(refused, Err(Error::TooLong { what: "stack of VLAN tags", limit: 32, got: 33 }));
    for length in 0..frame.len() {
        assert!(Packet::of_frame(&frame[..length]).is_err(), "{length}");
    }
}

#[test]
fn extension_headers_are_walked_past_up_to_their_bound() {
    let chained = |headers: usize| {
        let (mut next, mut bytes) = (IpProtocol::NONE, Vec::new());
        for _ in 0..headers {
            let extension = Extension::new(Kind::Destination, next, &[1, 4, 0, 0, 0, 0]).unwrap();
            bytes = in_front(&bytes, |to| extension.emit(to));
            next = IpProtocol::DESTINATION;
        }
        in_front(&bytes, |to| v6(next).emit(bytes.len(), to))
    };
    let bytes = chained(EXTENSIONS_MAX);
    let packet = Packet::of_network(EtherType::IPV6, &bytes).unwrap();
    let Network::V6(_, chain) = packet.network else { panic!() };
    assert_eq!((chain.headers, chain.protocol, packet.transport_at), (EXTENSIONS_MAX, IpProtocol::NONE, 40 + 8 * EXTENSIONS_MAX));
    let refused = Packet::of_network(EtherType::IPV6, &chained(EXTENSIONS_MAX + 1)).map(drop);
    assert_eq!(refused, Err(Error::TooLong { what: "chain of extension headers", limit: 8, got: 9 }));
}

#[test]
fn values_that_are_not_legal_cannot_be_made() {
    assert!(EtherType::new(0x5ff).is_err() && EtherType::new(0x600).is_ok());
    assert!(ipv6::Label::new(1 << 20).is_err() && vxlan::Network::new(1 << 24).is_err());
    assert!(ipv4::Offset::new(4).is_err() && ipv4::Offset::new(65_536).is_err());
    assert_eq!(ipv4::Offset::new(65_528).unwrap().bytes(), 65_528);
    assert!(Options::NONE.with(1, &[]).is_err() && Options::NONE.with(2, &[0; 39]).is_err());
    assert!(Extension::new(Kind::Destination, IpProtocol::UDP, &[1, 5, 0, 0, 0, 0]).is_err(), "an option behind the end");
    assert!(Extension::new(Kind::Routing, IpProtocol::UDP, &[0; 7]).is_err(), "no length field says so");
    assert!(tcp::Choice::WindowShift(15).put(Options::NONE).is_err());
    let mut part = V4;
    part.fragment = ipv4::Fragment { offset: ipv4::Offset::new(65_512).unwrap(), more: false, keep_whole: false };
    let mut room = [0; 100];
    let mut emit = |header: &ipv4::Header, payload| header.emit(payload, &mut corelane_wire::xdr::Writer::new(&mut room));
    assert_eq!(emit(&part, 4), Err(Error::Oversized { limit: 65_535, got: 65_536 }));
    part.fragment = ipv4::Fragment { offset: ipv4::Offset::START, more: true, keep_whole: false };
    assert_eq!(emit(&part, 12), Err(Error::Malformed { what: "length of a fragment" }));
    assert_eq!(emit(&part, 0), Err(Error::Malformed { what: "length of a fragment" }));
}

#[test]
fn a_datagram_without_checksum_is_legal_over_v4_alone() {
    let bytes = [0, 7, 0, 9, 0, 8, 0, 0];
    let v6 = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
    let view = udp::View::new(&bytes).unwrap();
    assert_eq!((view.is_checksum_right(&V4.addresses()), view.is_checksum_right(&v6)), (true, false));
}

/// An IPv6 packet with these bytes behind its header.
fn in_v6(next: IpProtocol, behind: &[u8]) -> Vec<u8> {
    in_front(behind, |to| v6(next).emit(behind.len(), to))
}

/// What stands behind the extension headers, or why they are refused.
fn walked(packet: &[u8]) -> Result<IpProtocol, Error> {
    Packet::of_network(EtherType::IPV6, packet).map(|packet| packet.flow().unwrap().protocol)
}

#[test]
fn hop_by_hop_options_stand_right_behind_the_packets_own_header() {
    let in_front_of = |kind, next, behind: &[u8]| {
        let extension = Extension::new(kind, next, &[1, 4, 0, 0, 0, 0]).unwrap();
        in_front(behind, |to| extension.emit(to))
    };
    let hop = in_front_of(Kind::HopByHop, IpProtocol::NONE, &[]);
    assert_eq!(walked(&in_v6(IpProtocol::HOP_BY_HOP, &hop)), Ok(IpProtocol::NONE));
    let refused = Err(Error::Malformed { what: "place of hop-by-hop options" });
    for kind in [Kind::HopByHop, Kind::Routing, Kind::Destination] {
        let second = in_front_of(kind, IpProtocol::HOP_BY_HOP, &hop);
        assert_eq!(walked(&in_v6(kind.protocol(), &second)), refused, "behind {kind:?}");
    }
    let part = |offset, more| {
        let offset = ipv4::Offset::new(offset).unwrap();
        let part = fragment::Header { next: IpProtocol::HOP_BY_HOP, offset, more, identification: 1 };
        walked(&in_v6(IpProtocol::FRAGMENT, &in_front(&hop, |to| part.emit(to))))
    };
    assert_eq!((part(0, false), part(0, true)), (refused, refused), "atomic, and the first of several");
    assert_eq!(part(8, true), Ok(IpProtocol::HOP_BY_HOP), "what a later one announces does not count");
}

#[test]
fn a_jumbogram_is_refused() {
    let jumbo = [&[59, 0, 0xc2, 4, 0, 1, 0, 0][..], &[0; 32]].concat();
    let mut packet = in_v6(IpProtocol::HOP_BY_HOP, &jumbo);
    assert!(walked(&packet).is_ok(), "with a length of its own it is none");
    packet[4..6].fill(0);
    assert_eq!(walked(&packet), Err(Error::Truncated { expected: 2, got: 0 }));
    assert_eq!(walked(&in_v6(IpProtocol::NONE, &[])), Ok(IpProtocol::NONE), "a packet of nothing is legal");
}

#[test]
fn each_icmp_is_of_one_family_alone() {
    let echo = in_front(&[], |to| icmp::Message::EchoRequest(icmp::Echo { identification: 1, sequence: 2, data: b"x" }).emit(to));
    for (protocol, is_right_in_v4) in [(IpProtocol::ICMP, true), (IpProtocol::ICMPV6, false)] {
        let over_v4 = in_front(&echo, |to| ipv4::Header { protocol, ..V4 }.emit(echo.len(), to));
        let over_v6 = in_v6(protocol, &echo);
        let is_other = |family, bytes: &[u8]| matches!(Packet::of_network(family, bytes).unwrap().transport, UpperLayer::Other(got, _) if got == protocol);
        let others = (is_other(EtherType::IPV4, &over_v4), is_other(EtherType::IPV6, &over_v6));
        assert_eq!(others, (!is_right_in_v4, is_right_in_v4), "{protocol}");
    }
}

#[test]
fn extension_headers_have_the_lengths_that_their_fields_can_say() {
    // Authentication has twelve bytes in front of its data (RFC 4302, section 2).
    for (kind, unit, least) in [(Kind::Routing, 8, 8), (Kind::Authentication, 4, 12)] {
        for length in 2..2_100_usize {
            let data = vec![0; length - 2];
            let can_be = length >= least && length.is_multiple_of(unit) && (length - 8) / unit <= 255;
            let header = Extension::new(kind, IpProtocol::NONE, &data);
            assert_eq!(header.is_ok(), can_be, "{kind:?} of {length} bytes");
            if let Ok(header) = header {
                let bytes = in_front(b"behind", |to| header.emit(to));
                assert_eq!(Extension::parse(kind, &bytes), Ok((header, &b"behind"[..])));
            }
        }
    }
}

#[test]
fn a_datagram_says_whether_it_has_a_checksum() {
    let has = |field: [u8; 2]| udp::View::new(&[0, 7, 0, 9, 0, 8, field[0], field[1]]).unwrap().has_checksum();
    assert_eq!((has([0, 0]), has([0, 1]), has([0xff, 0xff])), (false, true, true));
}

#[test]
fn a_datagram_without_checksum_is_written_as_it_is_read() {
    let header = udp::Header { source: 5000, destination: vxlan::PORT };
    let bytes = in_front(b"inner", |to| header.emit_without_checksum(5, to));
    let view = udp::View::new(&bytes).unwrap();
    assert_eq!((view.header(), view.has_checksum(), view.payload()), (header, false, &b"inner"[..]));
    assert!(view.is_checksum_right(&V4.addresses()));
}

#[test]
fn an_impossible_length_is_refused_and_nothing_overflows() {
    let mut memory = [0; 64];
    let to = &mut corelane_wire::xdr::Writer::new(&mut memory);
    let header = udp::Header { source: 1, destination: 2 };
    let oversized = |result| matches!(result, Err(Error::Oversized { .. }));
    for payload in [65_528, usize::MAX] {
        assert!(
            oversized(header.emit_partial(&V4.addresses(), payload, to)) && oversized(header.emit_without_checksum(payload, to))
        );
        assert!(oversized(V4.emit(payload, to)));
    }
    assert!(to.is_empty());
}

#[test]
fn options_of_neighbour_discovery_have_a_length() {
    let source = [1, 1, 2, 0, 0, 0, 0, 1];
    assert!(neighbour::Options::new(&source).is_ok());
    let refused = Err(Error::Malformed { what: "list of options of neighbour discovery" });
    for (at, units) in [(1, 0), (1, 2), (9, 0)] {
        let mut options = [source, source].concat();
        options.truncate(if at == 1 { 8 } else { 16 });
        options[at] = units;
        assert_eq!(neighbour::Options::new(&options), refused, "{options:?}");
    }
}

#[test]
fn of_gre_each_other_version_is_refused() {
    let read = |bits: u8| gre::View::new(&[0, bits, 8, 0]).map(drop);
    assert_eq!((read(0), read(0xf8)), (Ok(()), Ok(())), "what is reserved is not looked at");
    for version in 1..8 {
        assert_eq!(read(version), Err(Error::Unknown { what: "flags and version of GRE", got: version.into() }));
    }
}

#[test]
fn of_vxlan_one_flag_counts_and_the_others_are_ignored() {
    for flags in 0..=u8::MAX {
        let bytes = [flags, 0xff, 0xff, 0xff, 1, 2, 3, 0xff];
        let network = vxlan::View::new(&bytes).map(|view| view.header().network.number());
        assert_eq!(network.ok(), (flags & 8 == 8).then_some(0x01_0203), "{flags:#04x}");
    }
}

#[test]
fn options_of_tcp_say_what_is_legal() {
    let of = |kind, data| tcp::Choice::of(OptionView { kind, data });
    assert_eq!(of(3, &[14]), tcp::Choice::WindowShift(14));
    assert_eq!(of(3, &[15]), tcp::Choice::WindowShift(14), "more counts as the most (RFC 7323, section 2.3)");
    let blocks: &[u8] = &[1; 16];
    assert!(matches!(of(5, blocks), tcp::Choice::Acknowledged([_, _])));
    for (kind, data) in [(2, &[1_u8][..]), (3, &[]), (4, &[1]), (5, &[]), (5, &blocks[..9]), (8, &blocks[..7])] {
        assert!(matches!(of(kind, data), tcp::Choice::Other(_)), "{kind} of {} bytes", data.len());
    }
}

#[test]
fn bits_of_headers_mean_what_they_say() {
    assert_eq!(tcp::Flags::of_bits(u16::MAX).bits(), 0x1ff, "nine have a meaning");
    assert!(tcp::Flags::of_bits(0x100).contains(tcp::Flags::AE));
    let all = tcp::Flags::SYN.with(tcp::Flags::ACK);
    assert!(all.contains(tcp::Flags::SYN) && !tcp::Flags::SYN.contains(all));
    assert!(ethernet::Mac([1, 0, 0x5e, 0, 0, 1]).is_group() && ethernet::Mac::BROADCAST.is_group());
    assert!(!ethernet::Mac([2, 0, 0, 0, 0, 1]).is_group(), "an address of one's own choice is of no group");
    let tag = |control| vlan::Tag { control, protocol: EtherType::IPV4 };
    let told = |control| (tag(control).priority(), tag(control).is_drop_eligible(), tag(control).number());
    assert_eq!((told(0xe000), told(0x1000), told(0x0fff)), ((7, false, 0), (0, true, 0), (0, false, 4095)));
    for bits in 0..=u8::MAX {
        for (number, ecn) in [Ecn::NotCapable, Ecn::CapableOne, Ecn::CapableZero, Ecn::Congested].into_iter().enumerate() {
            let changed = Traffic(bits).with_ecn(ecn);
            assert_eq!((changed.services(), changed.ecn(), changed.0 & 3), (bits >> 2, ecn, number as u8));
        }
    }
}
