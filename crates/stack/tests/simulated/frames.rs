//! Frames as the test's own machine makes and reads them.

use corelane_wire::packet::arp::{self, Operation};
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::ethernet::{self, Mac};
use corelane_wire::packet::icmpv6;
use corelane_wire::packet::ipv4::{self, Fragment, Offset};
use corelane_wire::packet::neighbour::{AdvertisementFlags, Choice, Message, Options};
use corelane_wire::packet::{EtherType, IpProtocol, Network, Packet, UpperLayer, fragment, icmp, ipv6, udp};
use corelane_wire::xdr::Writer;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The stack's addresses, and those of the test's machine.
pub const STACK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const STACK_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
pub const TEST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
pub const TEST_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9);
pub const TEST_MAC: Mac = Mac([2, 0, 0, 0, 0, 99]);

pub fn written(most: usize, write: impl FnOnce(&mut Writer<'_>) -> Result<(), corelane_wire::Error>) -> Vec<u8> {
    let mut bytes = vec![0; most];
    let mut writer = Writer::new(&mut bytes);
    write(&mut writer).unwrap();
    writer.written().to_vec()
}

pub fn ethernet(to: Mac, protocol: EtherType, payload: &[u8]) -> Vec<u8> {
    written(14 + payload.len(), |to_write| {
        ethernet::Header { destination: to, source: TEST_MAC, protocol }.emit(to_write)?;
        to_write.put(payload)
    })
}

/// A frame with an ARP message of the test's machine.
pub fn arp(operation: Operation, to: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let message = arp::Message { operation, sender_mac: TEST_MAC, sender, target_mac: to, target };
    ethernet(to, EtherType::ARP, &written(28, |writer| message.emit(writer)))
}

/// A frame with a neighbour solicitation of the test's machine.
pub fn solicitation(target: Ipv6Addr, hops: u8) -> Vec<u8> {
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    let option = written(8, |writer| Choice::Source(TEST_MAC).emit(writer));
    let message = icmpv6::Message::Neighbour(Message::Solicitation { target, options: Options::new(&option).unwrap() });
    let addresses = Addresses::V6 { source: TEST_V6, destination: group };
    let body = written(32, |writer| message.emit(&addresses, writer));
    let head = ipv6::Header {
        traffic: Default::default(),
        label: Default::default(),
        next: IpProtocol::ICMPV6,
        hops,
        source: TEST_V6,
        destination: group,
    };
    let packet = written(40 + body.len(), |writer| {
        head.emit(body.len(), writer)?;
        writer.put(&body)
    });
    ethernet(Mac([0x33, 0x33, 0xff, a, b, c]), EtherType::IPV6, &packet)
}

/// A message of neighbour discovery, from `ends.0` to `ends.1`, as the test's machine sends it to `mac`; in fragments of at most `part` bytes.
pub fn discovery(mac: Mac, ends: (Ipv6Addr, Ipv6Addr), message: &Message<'_>, part: usize) -> Vec<Vec<u8>> {
    let (from, to): (IpAddr, IpAddr) = (ends.0.into(), ends.1.into());
    let mut bytes = [0; 128];
    let mut writer = Writer::new(&mut bytes);
    icmpv6::Message::Neighbour(*message).emit(&addresses(from, to), &mut writer).unwrap();
    let packets = packets(from, to, IpProtocol::ICMPV6, writer.written(), part, 3);
    let of_link = packets.into_iter().map(|mut packet| {
        packet[7] = 255;
        packet
    });
    of_link.map(|packet| ethernet(mac, EtherType::IPV6, &packet)).collect()
}

/// A neighbour advertisement of whoever has that link address: `target` is his.
pub fn advertisement(to: Mac, target: Ipv6Addr, his: Mac, answers: bool) -> Vec<u8> {
    let option = written(8, |writer| Choice::Target(his).emit(writer));
    let flags = AdvertisementFlags { is_router: false, is_solicited: answers, replaces: true };
    let message = Message::Advertisement { target, flags, options: Options::new(&option).unwrap() };
    discovery(to, (TEST_V6, STACK_V6), &message, 65_528).remove(0)
}

/// IP packets with `payload`, in fragments of at most `part` bytes.
pub fn packets(
    source: IpAddr,
    destination: IpAddr,
    protocol: IpProtocol,
    payload: &[u8],
    part: usize,
    name: u16,
) -> Vec<Vec<u8>> {
    let is_cut = payload.len() > part;
    let pieces = payload.chunks(part).enumerate();
    let count = payload.len().div_ceil(part);
    pieces
        .map(|(number, piece)| {
            let (offset, more) = (Offset::new(number * part).unwrap(), number + 1 < count);
            written(68 + piece.len(), |writer| {
                match (source, destination) {
                    (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4::Header {
                        traffic: Default::default(),
                        identification: name,
                        fragment: Fragment { offset, more, keep_whole: false },
                        hops: 64,
                        protocol,
                        source,
                        destination,
                        options: Default::default(),
                    }
                    .emit(piece.len(), writer)?,
                    (IpAddr::V6(source), IpAddr::V6(destination)) => {
                        let next = if is_cut { IpProtocol::FRAGMENT } else { protocol };
                        let length = piece.len() + if is_cut { 8 } else { 0 };
                        let (traffic, label) = Default::default();
                        ipv6::Header { traffic, label, next, hops: 64, source, destination }.emit(length, writer)?;
                        let fragment = fragment::Header { next: protocol, offset, more, identification: name.into() };
                        if is_cut {
                            fragment.emit(writer)?;
                        }
                    }
                    _ => panic!("two families"),
                }
                writer.put(piece)
            })
        })
        .collect()
}

pub fn addresses(source: IpAddr, destination: IpAddr) -> Addresses {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
        _ => panic!("two families"),
    }
}

/// A UDP datagram in frames to `mac`, in fragments of at most `part` bytes.
pub fn udp_in(mac: Mac, from: SocketAddr, to: SocketAddr, payload: &[u8], part: usize, name: u16) -> Vec<Vec<u8>> {
    let addresses = addresses(from.ip(), to.ip());
    let datagram = written(8 + payload.len(), |writer| {
        udp::Header { source: from.port(), destination: to.port() }.emit(&addresses, payload, writer)?;
        writer.put(payload)
    });
    let protocol = if from.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let packets = packets(from.ip(), to.ip(), IpProtocol::UDP, &datagram, part, name);
    packets.into_iter().map(|packet| ethernet(mac, protocol, &packet)).collect()
}

/// A UDP datagram in one frame.
pub fn udp(mac: Mac, from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    udp_in(mac, from, to, payload, 65_528, 0).remove(0)
}

/// An echo request in frames.
pub fn echo(mac: Mac, v6: bool, data: &[u8], part: usize) -> Vec<Vec<u8>> {
    let request = icmp::Echo { identification: 7, sequence: 9, data };
    let (source, destination): (IpAddr, IpAddr) =
        if v6 { (TEST_V6.into(), STACK_V6.into()) } else { (TEST.into(), STACK.into()) };
    let message = written(8 + data.len(), |writer| match v6 {
        false => icmp::Message::EchoRequest(request).emit(writer),
        true => icmpv6::Message::EchoRequest(request).emit(&addresses(source, destination), writer),
    });
    let (protocol, kind) = if v6 { (IpProtocol::ICMPV6, EtherType::IPV6) } else { (IpProtocol::ICMP, EtherType::IPV4) };
    packets(source, destination, protocol, &message, part, 77).into_iter().map(|packet| ethernet(mac, kind, &packet)).collect()
}

/// A datagram that was read off the wire, with its checksums looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Datagram {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub payload: Vec<u8>,
}

/// Reads a whole UDP datagram; none for anything else. Whatever it is, what is wrong in it fails the test.
pub fn datagram(frame: &[u8]) -> Option<Datagram> {
    let packet = Packet::of_frame(frame).unwrap();
    let (source, destination) = match &packet.network {
        Network::V4(view) => {
            assert!(view.is_checksum_right());
            ends(&view.addresses())
        }
        Network::V6(view, _) => ends(&view.addresses()),
        _ => return None,
    };
    let UpperLayer::Udp(view) = packet.transport else { return None };
    assert!(view.has_checksum() && view.is_checksum_right(&addresses(source, destination)), "a right checksum");
    let (from, to) = (SocketAddr::new(source, view.header().source), SocketAddr::new(destination, view.header().destination));
    Some(Datagram { from, to, payload: view.payload().to_vec() })
}

fn ends(addresses: &Addresses) -> (IpAddr, IpAddr) {
    match addresses {
        Addresses::V4 { source, destination } => ((*source).into(), (*destination).into()),
        Addresses::V6 { source, destination } => ((*source).into(), (*destination).into()),
    }
}
