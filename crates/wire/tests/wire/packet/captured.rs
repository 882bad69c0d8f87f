//! Bytes as the RFCs draw them, and as others have sent them, by hand.

use super::build::in_front;
use corelane_wire::Error;
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::{
    EtherType, IpProtocol, Network, Options, Packet, Ports, Tunnel, UpperLayer, arp, fragment, gre, icmp, icmpv6, ipv4,
    neighbour, tcp, udp, vxlan,
};
use std::net::{Ipv4Addr, Ipv6Addr};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

#[test]
fn an_ipv4_header_whose_checksum_is_known() {
    let packet = [bytes("4500 0073 0000 4000 4011 b861 c0a80001 c0a800c7"), vec![0; 95]].concat();
    let view = ipv4::View::new(&packet).unwrap();
    let header = view.header().unwrap();
    assert_eq!((header.protocol, header.hops, view.is_checksum_right()), (IpProtocol::UDP, 64, true));
    assert_eq!((header.source, header.destination), ([192, 168, 0, 1].into(), [192, 168, 0, 199].into()));
    assert!(header.fragment.keep_whole && !header.fragment.is_part());
    assert_eq!(in_front(view.payload(), |to| header.emit(95, to)), packet);
    let mut changed = packet;
    changed[8] -= 1;
    assert!(!ipv4::View::new(&changed).unwrap().is_checksum_right());
}

#[test]
fn example_2_of_rfc_791_a_fragment() {
    // Version 4, 5 words, 472 bytes, identification 111, more fragments, offset 0; then the second one, offset 64.
    for (field, offset, more) in [("2000", 0, true), ("0040", 512, false)] {
        let head = bytes(&format!("4500 01d8 006f {field} 7b06 0000 0a000001 0a000002"));
        let packet = [head, vec![0; 452]].concat();
        let walked = Packet::of_network(EtherType::IPV4, &packet).unwrap();
        let facts = walked.fragment().unwrap();
        assert_eq!((facts.identification, facts.offset, facts.length, facts.more), (111, offset, 452, more));
        assert_eq!(walked.flow().unwrap().ports, Ports::None);
    }
}

#[test]
fn example_3_of_rfc_791_options() {
    // 8 words: an option of code 0x1e with 4 bytes, one with 3, fill, one with 4, end.
    let packet = bytes("4800 0024 006f 0000 7b06 0000 0a000001 0a000002 1e04aaaa 1e03bb01 1e04cccc 00000000");
    let packet = [packet, vec![0; 4]].concat();
    let view = ipv4::View::new(&packet).unwrap();
    let data: Vec<_> = view.options().map(|option| option.unwrap().data).collect();
    assert_eq!(data, [&[0xaa, 0xaa][..], &[0xbb], &[0xcc, 0xcc]]);
}

#[test]
fn a_question_for_an_address() {
    let frame = bytes("ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 c0000201 000000000000 c0000202");
    let packet = Packet::of_frame(&frame).unwrap();
    let Network::Arp(message) = packet.network else { panic!("{:?}", packet.network) };
    let (ours, nobody) = (Mac([2, 0, 0, 0, 0, 1]), Mac([0; 6]));
    let (sender, target) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    let wanted = arp::Message { operation: arp::Operation::Request, sender_mac: ours, sender, target_mac: nobody, target };
    assert_eq!((message, packet.flow(), in_front(&[], |to| wanted.emit(to))), (wanted, None, frame[14..].to_vec()));
    for (at, value) in [(0, 6), (3, 1), (4, 8), (5, 16), (7, 3), (7, 0)] {
        let mut other = frame[14..].to_vec();
        other[at] = value;
        assert!(matches!(arp::Message::parse(&other), Err(Error::Unknown { .. })), "byte {at} is {value}");
    }
}

#[test]
fn an_echo_that_ping_sends() {
    let message = bytes("0800 f7ff 0000 0000");
    let view = icmp::View::new(&message).unwrap();
    let echo = icmp::Echo { identification: 0, sequence: 0, data: &[] };
    assert_eq!((view.message(), view.is_checksum_right()), (Ok(icmp::Message::EchoRequest(echo)), true));
    assert_eq!(in_front(&[], |to| icmp::Message::EchoRequest(echo).emit(to)), message);
}

#[test]
fn a_path_that_is_too_narrow_rfc_1191() {
    let message = bytes("0304 0000 0000 0578 4500");
    let read = icmp::View::new(&message).unwrap().message();
    assert_eq!(read, Ok(icmp::Message::TooBig { most: 1400, packet: &[0x45, 0] }));
}

#[test]
fn a_solicitation_of_rfc_4861() {
    let source: Ipv6Addr = "fe80::1".parse().unwrap();
    let target: Ipv6Addr = "fe80::2".parse().unwrap();
    let group: Ipv6Addr = "ff02::1:ff00:2".parse().unwrap();
    let options = bytes("01 01 020000000001");
    let message = icmpv6::Message::Neighbour(neighbour::Message::Solicitation {
        target,
        options: neighbour::Options::new(&options).unwrap(),
    });
    let addresses = Addresses::V6 { source, destination: group };
    let written = in_front(&[], |to| message.emit(&addresses, to));
    let drawn = bytes("8700 0000 00000000 fe80000000000000 0000000000000002 0101 020000000001");
    assert_eq!((&written[..2], &written[4..]), (&drawn[..2], &drawn[4..]));
    let view = icmpv6::View::new(&written).unwrap();
    assert!(view.is_checksum_right(&addresses));
    let Ok(icmpv6::Message::Neighbour(read)) = view.message() else { panic!() };
    assert_eq!(read.options().iter().collect::<Vec<_>>(), [neighbour::Choice::Source(Mac([2, 0, 0, 0, 0, 1]))]);
    for wrong in ["0100 020000000001", "0102 020000000001", "01"] {
        assert!(neighbour::Options::new(&bytes(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn the_options_of_a_first_segment() {
    // As Linux orders them: segment, selective acknowledgements, times, fill, shift.
    let options = bytes("020405b4 0402 080a 00000001 00000000 01 030307");
    let segment = [bytes("0016 c000 00000001 00000000 a002 faf0 0000 0000"), options].concat();
    let view = tcp::View::new(&segment).unwrap();
    let told: Vec<_> = view.options().map(|option| tcp::Choice::of(option.unwrap())).collect();
    let wanted = [
        tcp::Choice::SegmentMax(1460),
        tcp::Choice::MayAcknowledge,
        tcp::Choice::Times { time: 1, echo: 0 },
        tcp::Choice::WindowShift(7),
    ];
    assert_eq!((told.as_slice(), view.header().unwrap().flags), (&wanted[..], tcp::Flags::SYN));
    let again = wanted.iter().try_fold(Options::NONE, |options, choice| choice.put(options)).unwrap();
    assert_eq!(again, view.header().unwrap().options, "fillings are no part of the value");
}

#[test]
fn a_fragment_header_of_rfc_8200() {
    let header = fragment::Header {
        next: IpProtocol::UDP,
        offset: ipv4::Offset::new(1448).unwrap(),
        more: true,
        identification: 0x1234_5678,
    };
    let drawn = bytes("11 00 05a9 12345678");
    assert_eq!(in_front(&[], |to| header.emit(to)), drawn);
    assert_eq!(fragment::View::new(&drawn).unwrap().header(), header);
}

#[test]
fn gre_headers_of_rfc_2784_and_2890() {
    let plain = gre::Header { has_checksum: false, key: None, sequence: None, protocol: EtherType::IPV4 };
    let keyed = gre::Header { key: Some(0x0102_0304), sequence: Some(5), ..plain };
    for (header, drawn) in [(plain, "0000 0800"), (keyed, "3000 0800 01020304 00000005")] {
        assert_eq!(in_front(&[], |to| header.emit(&[], to)), bytes(drawn));
        assert_eq!(gre::View::new(&bytes(drawn)).unwrap().header(), header);
    }
    for refused in ["4000 0800", "0800 0800", "0400 0800", "0001 0800", "0000 0004"] {
        assert!(matches!(gre::View::new(&bytes(refused)), Err(Error::Unknown { .. })), "{refused}");
    }
    assert!(gre::View::new(&bytes("0200 0800")).is_ok(), "what is reserved and need not be refused is not looked at");
}

#[test]
fn a_header_of_rfc_7348() {
    let header = vxlan::Header { network: vxlan::Network::new(0x12_3456).unwrap() };
    let drawn = bytes("08000000 12345600");
    assert_eq!(in_front(&[], |to| header.emit(to)), drawn);
    assert_eq!(vxlan::View::new(&drawn).unwrap().header(), header);
    assert!(vxlan::View::new(&bytes("00000000 12345600")).is_err());
}

#[test]
fn six_in_four_of_rfc_4213() {
    let inner = bytes("60000000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002 0007000900080000");
    let outer = [bytes("4500 0044 0000 0000 4029 0000 c0000201 c0000202"), inner].concat();
    let packet = Packet::of_network(EtherType::IPV4, &outer).unwrap();
    let (tunnel, inner) = packet.inner().unwrap().unwrap();
    assert_eq!((tunnel, inner.flow().unwrap().ports), (Tunnel::Ipv6InIp, Ports::Both(7, 9)));
    let UpperLayer::Udp(view) = inner.transport else { panic!("{:?}", inner.transport) };
    assert_eq!(view.header(), udp::Header { source: 7, destination: 9 });
}
