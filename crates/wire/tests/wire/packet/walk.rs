//! The walk: tunnels within tunnels, and its parts.

use super::build::{self, in_front};
use crate::hostile::Random;
use corelane_wire::Error;
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::extension::{Extension, Kind};
use corelane_wire::packet::{
    EtherType, IpProtocol, Options, Packet, Ports, TUNNELS_MAX, Traffic, Tunnel, UpperLayer, fragment, gre, ipv4, ipv6, tcp, udp,
};
use std::net::Ipv6Addr;

fn v4(protocol: IpProtocol, behind: &[u8]) -> Vec<u8> {
    let header = ipv4::Header {
        traffic: Traffic(0),
        identification: 1,
        fragment: ipv4::Fragment::default(),
        hops: 64,
        protocol,
        source: [192, 0, 2, 1].into(),
        destination: [192, 0, 2, 2].into(),
        options: Options::NONE,
    };
    in_front(behind, |to| header.emit(behind.len(), to))
}

#[test]
fn tunnels_are_opened_up_to_their_bound() {
    let mut bytes = v4(IpProtocol(253), &[]);
    for depth in 0..6 {
        bytes = match depth % 2 {
            0 => v4(IpProtocol::IPV4, &bytes),
            _ => {
                let header = gre::Header { has_checksum: false, key: Some(depth), sequence: None, protocol: EtherType::IPV4 };
                v4(IpProtocol::GRE, &in_front(&bytes, |to| header.emit(&bytes, to)))
            }
        };
    }
    let mut packet = Packet::of_network(EtherType::IPV4, &bytes).unwrap();
    for depth in 0..TUNNELS_MAX {
        let (tunnel, inner) = packet.inner().unwrap().unwrap();
        assert_eq!(matches!(tunnel, Tunnel::IpInIp), depth % 2 == 1, "{tunnel:?}");
        packet = inner;
    }
    assert_eq!(packet.inner().map(drop), Err(Error::TooLong { what: "nest of tunnels", limit: 4, got: 5 }));
}

#[test]
fn a_tunnel_whose_inside_is_cut_is_refused_at_each_length() {
    let inner = v4(IpProtocol(253), b"x");
    for length in 0..inner.len() {
        let outer = v4(IpProtocol::IPV4, &inner[..length]);
        let packet = Packet::of_network(EtherType::IPV4, &outer).unwrap();
        assert!(matches!(packet.inner(), Err(Error::Truncated { .. })), "{length}");
    }
}

#[test]
fn a_packet_that_carries_itself_ends() {
    // 65,515 bytes of headers, each announcing an IPv4 packet: no more than the bound is ever opened.
    let head = v4(IpProtocol::IPV4, &[]);
    let mut bytes = head.repeat(3_000);
    let total = bytes.len();
    for (at, place) in (0..total).step_by(20).enumerate() {
        let left = (total - 20 * at) as u16;
        bytes[place + 2..place + 4].copy_from_slice(&left.to_be_bytes());
    }
    let mut packet = Packet::of_network(EtherType::IPV4, &bytes).unwrap();
    let mut opened = 0;
    while let Ok(Some((_, inner))) = packet.inner() {
        (packet, opened) = (inner, opened + 1);
    }
    assert_eq!(opened, TUNNELS_MAX);
}

/// A segment with a whole header, of which `length` bytes are there.
fn cut_segment(length: usize) -> Ports {
    let addresses = Addresses::V4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() };
    let header = tcp::Header {
        source: 80,
        destination: 81,
        sequence: 0,
        acknowledgement: 0,
        flags: tcp::Flags::ACK,
        window: 0,
        urgent: 0,
        options: Options::NONE,
    };
    let segment = in_front(&[], |to| header.emit(&addresses, &[], to));
    let bytes = v4(IpProtocol::TCP, &segment[..length]);
    Packet::of_network(EtherType::IPV4, &bytes).unwrap().flow().unwrap().ports
}

#[test]
fn ports_are_taken_from_whole_headers_alone() {
    assert_eq!(cut_segment(20), Ports::Both(80, 81));
    assert!((0..20).all(|length| cut_segment(length) == Ports::Cut));
}

#[test]
fn an_atomic_fragment_is_whole_and_a_first_one_is_not() {
    let addresses = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
    let datagram = in_front(b"12345678", |to| udp::Header { source: 7, destination: 9 }.emit(&addresses, b"12345678", to));
    for more in [false, true] {
        let part = fragment::Header { next: IpProtocol::UDP, offset: ipv4::Offset::START, more, identification: 77 };
        let behind = in_front(&datagram, |to| part.emit(to));
        let extension = Extension::new(Kind::HopByHop, IpProtocol::FRAGMENT, &[1, 4, 0, 0, 0, 0]).unwrap();
        let behind = in_front(&behind, |to| extension.emit(to));
        let header = ipv6::Header {
            traffic: Traffic(0),
            label: ipv6::Label::default(),
            next: IpProtocol::HOP_BY_HOP,
            hops: 1,
            source: Ipv6Addr::LOCALHOST,
            destination: Ipv6Addr::LOCALHOST,
        };
        let bytes = in_front(&behind, |to| header.emit(behind.len(), to));
        let packet = Packet::of_network(EtherType::IPV6, &bytes).unwrap();
        let corelane_wire::packet::Network::V6(_, chain) = packet.network else { panic!() };
        let place = chain.fragment.unwrap();
        assert_eq!((place.header, place.at, place.announced_at, packet.transport_at), (part, 8, Some(0), 56));
        let ports = if more { Ports::None } else { Ports::Both(7, 9) };
        assert_eq!((packet.flow().unwrap().ports, packet.fragment().is_some()), (ports, more));
        assert_eq!(matches!(packet.transport, UpperLayer::Part(..)), more);
    }
}

#[test]
fn every_truncation_of_a_random_frame_ends() {
    let mut random = Random::new(8);
    for _ in 0..300 {
        let frame = build::frame(&mut random);
        (0..frame.len()).for_each(|length| crate::parsers::packet_frame(&frame[..length]));
    }
}
