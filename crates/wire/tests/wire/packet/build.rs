//! Random packets. Each header on the way is read again as soon as it is written, and must be what it was.

use crate::hostile::Random;
use corelane_wire::Error;
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::icmp::{self, Code, Echo};
use corelane_wire::packet::{
    EtherType, IpProtocol, Options, Traffic, arp, ethernet, extension, fragment, gre, icmpv6, ipv4, ipv6, neighbour, tcp, udp,
    vlan, vxlan,
};
use corelane_wire::xdr::Writer;

/// `behind` with what `emit` writes in front of it.
pub fn in_front(behind: &[u8], emit: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>) -> Vec<u8> {
    let mut memory = [0; 4096];
    let mut writer = Writer::new(&mut memory);
    emit(&mut writer).unwrap();
    [writer.written(), behind].concat()
}

impl Random {
    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next() as u8).collect()
    }

    fn number<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next() as u8)
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    fn u16(&mut self) -> u16 {
        self.next() as u16
    }

    fn u32(&mut self) -> u32 {
        self.next() as u32
    }
}

/// A frame of any kind.
pub fn frame(random: &mut Random) -> Vec<u8> {
    let (mut protocol, mut behind) = network(random, 0);
    for _ in 0..random.below(4) {
        let tag = vlan::Tag { control: random.u16(), protocol };
        behind = in_front(&behind, |to| tag.emit(to));
        let view = vlan::View::new(&behind).unwrap();
        assert_eq!(view.tag(), tag);
        protocol = if random.coin() { EtherType::VLAN } else { EtherType::SERVICE_VLAN };
    }
    let header = ethernet::Header { destination: Mac(random.number()), source: Mac(random.number()), protocol };
    let frame = in_front(&behind, |to| header.emit(to));
    let view = ethernet::View::new(&frame).unwrap();
    assert_eq!((view.header(), view.payload()), (header, &behind[..]));
    frame
}

/// A frame without tags, as tunnels carry it.
fn inner_frame(random: &mut Random, depth: usize) -> Vec<u8> {
    let (protocol, behind) = network(random, depth);
    let header = ethernet::Header { destination: Mac(random.number()), source: Mac(random.number()), protocol };
    in_front(&behind, |to| header.emit(to))
}

fn network(random: &mut Random, depth: usize) -> (EtherType, Vec<u8>) {
    match random.below(12) {
        0 => (EtherType::ARP, arp(random)),
        1..=6 => (EtherType::IPV4, v4(random, depth)),
        _ => (EtherType::IPV6, v6(random, depth)),
    }
}

fn arp(random: &mut Random) -> Vec<u8> {
    let operation = if random.coin() { arp::Operation::Request } else { arp::Operation::Reply };
    let (sender_mac, target_mac) = (Mac(random.number()), Mac(random.number()));
    let message =
        arp::Message { operation, sender_mac, sender: random.number().into(), target_mac, target: random.number().into() };
    let bytes = in_front(&[], |to| message.emit(to));
    assert_eq!(arp::Message::parse(&bytes), Ok(message));
    bytes
}

/// Kinds of options of IPv4 that no standard gives a form.
const FREE_OPTIONS: [u8; 3] = [0x1e, 0x5e, 0x9e];

fn options(random: &mut Random) -> Options {
    (0..random.below(4)).fold(Options::NONE, |options, _| {
        let data = random.bytes(8);
        options.with(FREE_OPTIONS[random.below(3)], &data).unwrap_or(options)
    })
}

fn v4(random: &mut Random, depth: usize) -> Vec<u8> {
    let (source, destination) = (random.number::<4>().into(), random.number::<4>().into());
    let addresses = Addresses::V4 { source, destination };
    let mut part = ipv4::Fragment { keep_whole: random.coin(), ..ipv4::Fragment::default() };
    let (protocol, behind) = if random.below(8) == 0 {
        part = ipv4::Fragment { offset: ipv4::Offset::new(8 * random.below(8000)).unwrap(), more: true, keep_whole: false };
        (IpProtocol::UDP, random.number::<64>()[..8 * (1 + random.below(8))].to_vec())
    } else {
        carried(random, &addresses, depth)
    };
    let header = ipv4::Header {
        traffic: Traffic(random.next() as u8),
        identification: random.u16(),
        fragment: part,
        hops: random.next() as u8,
        protocol,
        source,
        destination,
        options: options(random),
    };
    let bytes = in_front(&behind, |to| header.emit(behind.len(), to));
    let view = ipv4::View::new(&bytes).unwrap();
    assert_eq!((view.header(), view.payload(), view.is_checksum_right()), (Ok(header), &behind[..], true));
    bytes
}

fn v6(random: &mut Random, depth: usize) -> Vec<u8> {
    let (source, destination) = (random.number::<16>().into(), random.number::<16>().into());
    let addresses = Addresses::V6 { source, destination };
    let (mut next, mut behind) = if random.below(8) == 0 { part(random) } else { carried(random, &addresses, depth) };
    for left in (0..random.below(3)).rev() {
        (next, behind) = extended(random, next, &behind, left == 0);
    }
    let header = ipv6::Header {
        traffic: Traffic(random.next() as u8),
        label: ipv6::Label::new(random.u32() & 0xf_ffff).unwrap(),
        next,
        hops: random.next() as u8,
        source,
        destination,
    };
    let bytes = in_front(&behind, |to| header.emit(behind.len(), to));
    let view = ipv6::View::new(&bytes).unwrap();
    assert_eq!((view.header(), view.payload()), (header, &behind[..]));
    bytes
}

/// A fragment, atomic ones among them.
fn part(random: &mut Random) -> (IpProtocol, Vec<u8>) {
    let offset = ipv4::Offset::new(8 * random.below(8000)).unwrap();
    let header = fragment::Header { next: IpProtocol::UDP, offset, more: true, identification: random.u32() };
    let behind = random.bytes(64);
    let bytes = in_front(&behind, |to| header.emit(to));
    let view = fragment::View::new(&bytes).unwrap();
    assert_eq!((view.header(), view.payload()), (header, &behind[..]));
    (IpProtocol::FRAGMENT, bytes)
}

/// `behind` with one extension header in front. What every router reads stands outermost alone.
fn extended(random: &mut Random, next: IpProtocol, behind: &[u8], is_outermost: bool) -> (IpProtocol, Vec<u8>) {
    let kind = if random.coin() && is_outermost { extension::Kind::HopByHop } else { extension::Kind::Destination };
    let value = random.bytes(20);
    let mut data = [&[0x1e, value.len() as u8], &value[..]].concat();
    // What is left to a multiple of eight is filled by an option of its own.
    match (data.len() + 2).next_multiple_of(8) - (data.len() + 2) {
        0 => {}
        1 => data.push(0),
        gap => data.extend([&[1, gap as u8 - 2][..], &vec![0; gap - 2]].concat()),
    }
    let header = extension::Extension::new(kind, next, &data).unwrap();
    let bytes = in_front(behind, |to| header.emit(to));
    assert_eq!(extension::Extension::parse(kind, &bytes), Ok((header, behind)));
    (kind.protocol(), bytes)
}

/// What an IP header carries.
fn carried(random: &mut Random, addresses: &Addresses, depth: usize) -> (IpProtocol, Vec<u8>) {
    let is_v6 = matches!(addresses, Addresses::V6 { .. });
    match random.below(if depth < 2 { 9 } else { 5 }) {
        0 | 1 => (IpProtocol::UDP, datagram(random, addresses)),
        2 => (IpProtocol::TCP, segment(random, addresses)),
        3 if is_v6 => (IpProtocol::ICMPV6, message_v6(random, addresses)),
        3 => (IpProtocol::ICMP, message_v4(random)),
        4 => (IpProtocol(253), random.bytes(64)),
        5 => (IpProtocol::IPV4, v4(random, depth + 1)),
        6 => (IpProtocol::IPV6, v6(random, depth + 1)),
        7 => (IpProtocol::GRE, routed(random, depth)),
        _ => (IpProtocol::UDP, bridged(random, addresses, depth)),
    }
}

fn with_udp(header: udp::Header, addresses: &Addresses, behind: &[u8]) -> Vec<u8> {
    let bytes = in_front(behind, |to| header.emit(addresses, behind, to));
    let view = udp::View::new(&bytes).unwrap();
    assert_eq!((view.header(), view.payload(), view.is_checksum_right(addresses)), (header, behind, true));
    bytes
}

fn datagram(random: &mut Random, addresses: &Addresses) -> Vec<u8> {
    let behind = random.bytes(64);
    // Below the port of tunnels.
    let header = udp::Header { source: random.u16(), destination: random.u16() & 0xfff };
    with_udp(header, addresses, &behind)
}

fn bridged(random: &mut Random, addresses: &Addresses, depth: usize) -> Vec<u8> {
    let behind = inner_frame(random, depth + 1);
    let header = vxlan::Header { network: vxlan::Network::new(random.u32() >> 8).unwrap() };
    let bytes = in_front(&behind, |to| header.emit(to));
    let view = vxlan::View::new(&bytes).unwrap();
    assert_eq!((view.header(), view.payload()), (header, &behind[..]));
    with_udp(udp::Header { source: random.u16(), destination: vxlan::PORT }, addresses, &bytes)
}

fn routed(random: &mut Random, depth: usize) -> Vec<u8> {
    let (protocol, behind) = match random.below(3) {
        0 => (EtherType::ETHERNET, inner_frame(random, depth + 1)),
        1 => (EtherType::IPV4, v4(random, depth + 1)),
        _ => (EtherType::IPV6, v6(random, depth + 1)),
    };
    let mut word = || random.coin().then(|| random.u32());
    let header = gre::Header { key: word(), sequence: word(), has_checksum: word().is_some(), protocol };
    let bytes = in_front(&behind, |to| header.emit(&behind, to));
    let view = gre::View::new(&bytes).unwrap();
    assert_eq!((view.header(), view.payload(), view.is_checksum_right()), (header, &behind[..], true));
    assert_eq!(bytes.len(), header.header_bytes() + behind.len());
    bytes
}

fn segment(random: &mut Random, addresses: &Addresses) -> Vec<u8> {
    let blocks: Vec<[u8; 8]> = (0..1 + random.below(2)).map(|_| random.number()).collect();
    let choices = [
        tcp::Choice::SegmentMax(random.u16()),
        tcp::Choice::WindowShift(random.below(15) as u8),
        tcp::Choice::MayAcknowledge,
        tcp::Choice::Acknowledged(&blocks),
        tcp::Choice::Times { time: random.u32(), echo: random.u32() },
    ];
    let chosen = choices.iter().filter(|_| random.coin());
    let options = chosen.fold(Options::NONE, |options, choice| choice.put(options).unwrap_or(options));
    let header = tcp::Header {
        source: random.u16(),
        destination: random.u16(),
        sequence: random.u32(),
        acknowledgement: random.u32(),
        flags: tcp::Flags::of_bits(random.u16()),
        window: random.u16(),
        urgent: random.u16(),
        options,
    };
    let behind = random.bytes(64);
    let bytes = in_front(&behind, |to| header.emit(addresses, &behind, to));
    let view = tcp::View::new(&bytes).unwrap();
    assert_eq!((view.header(), view.payload(), view.is_checksum_right(addresses)), (Ok(header), &behind[..], true));
    bytes
}

fn message_v4(random: &mut Random) -> Vec<u8> {
    let data = random.bytes(40);
    let echo = Echo { identification: random.u16(), sequence: random.u16(), data: &data };
    let packet = &data[..];
    let message = match random.below(7) {
        0 => icmp::Message::EchoRequest(echo),
        1 => icmp::Message::EchoReply(echo),
        2 => icmp::Message::Unreachable { code: Code::new([0, 1, 2, 3, 13][random.below(5)]).unwrap(), packet },
        3 => icmp::Message::TooBig { most: random.u16(), packet },
        4 => icmp::Message::Redirect { code: Code::new(random.below(4) as u8).unwrap(), router: random.number().into(), packet },
        5 => icmp::Message::TimeExceeded { code: Code::new(random.below(2) as u8).unwrap(), packet },
        _ => icmp::Message::ParameterProblem { code: Code::new(random.below(3) as u8).unwrap(), at: random.next() as u8, packet },
    };
    let bytes = in_front(&[], |to| message.emit(to));
    let view = icmp::View::new(&bytes).unwrap();
    assert_eq!((view.message(), view.is_checksum_right()), (Ok(message), true));
    bytes
}

fn message_v6(random: &mut Random, addresses: &Addresses) -> Vec<u8> {
    let data = random.bytes(40);
    let options = neighbour_options(random);
    let echo = Echo { identification: random.u16(), sequence: random.u16(), data: &data };
    let packet = &data[..];
    let message = match random.below(8) {
        0 => icmpv6::Message::EchoRequest(echo),
        1 => icmpv6::Message::EchoReply(echo),
        2 => icmpv6::Message::Unreachable { code: Code::new(random.below(9) as u8).unwrap(), packet },
        3 => icmpv6::Message::TooBig { most: random.u32(), packet },
        4 => icmpv6::Message::TimeExceeded { code: Code::new(random.below(2) as u8).unwrap(), packet },
        5 => icmpv6::Message::ParameterProblem { code: Code::new(random.below(4) as u8).unwrap(), at: random.u32(), packet },
        _ => icmpv6::Message::Neighbour(neighbour_message(random, neighbour::Options::new(&options).unwrap())),
    };
    let bytes = in_front(&[], |to| message.emit(addresses, to));
    let view = icmpv6::View::new(&bytes).unwrap();
    assert_eq!((view.message(), view.is_checksum_right(addresses)), (Ok(message), true));
    bytes
}

fn neighbour_message<'a>(random: &mut Random, options: neighbour::Options<'a>) -> neighbour::Message<'a> {
    let (target, destination) = (random.number::<16>().into(), random.number::<16>().into());
    let router = neighbour::Router {
        hops: random.next() as u8,
        is_managed: random.coin(),
        has_others: random.coin(),
        lifetime: random.u16(),
        reachable: random.u32(),
        again: random.u32(),
    };
    let flags = neighbour::AdvertisementFlags { is_router: random.coin(), is_solicited: random.coin(), replaces: random.coin() };
    match random.below(5) {
        0 => neighbour::Message::RouterSolicitation { options },
        1 => neighbour::Message::RouterAdvertisement(router, options),
        2 => neighbour::Message::Solicitation { target, options },
        3 => neighbour::Message::Advertisement { target, flags, options },
        _ => neighbour::Message::Redirect { target, destination, options },
    }
}

fn neighbour_options(random: &mut Random) -> Vec<u8> {
    let prefix = neighbour::Prefix {
        bits: random.below(129) as u8,
        is_on_link: random.coin(),
        is_autonomous: random.coin(),
        valid: random.u32(),
        preferred: random.u32(),
        prefix: random.number::<16>().into(),
    };
    let choices = [
        neighbour::Choice::Source(Mac(random.number())),
        neighbour::Choice::Target(Mac(random.number())),
        neighbour::Choice::Prefix(prefix),
        neighbour::Choice::Most(random.u32()),
    ];
    let chosen: Vec<_> = choices.into_iter().filter(|_| random.coin()).collect();
    let bytes = in_front(&[], |to| chosen.iter().try_for_each(|choice| choice.emit(to)));
    assert_eq!(neighbour::Options::new(&bytes).unwrap().iter().collect::<Vec<_>>(), chosen);
    bytes
}

#[test]
fn what_was_written_is_read_as_the_same() {
    let mut random = Random::new(1);
    (0..20_000).for_each(|_| drop(frame(&mut random)));
}
