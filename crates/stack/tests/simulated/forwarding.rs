//! A stack that forwards between two ports and their VLANs: what goes on, how it is changed, and what of it stays together.

use crate::frames::{ethernet, packets, udp_in};
use crate::gateway::{Came, Gateway, ip, settings};
use corelane_sim::CardSetup;
use corelane_stack::{Drop, MssClamp, ReversePath, Settings, Tags};
use corelane_wire::packet::checksum::Sum;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::tcp::Flags;
use corelane_wire::packet::{EtherType, IpProtocol, Network, Packet, UpperLayer};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The VLANs that have hosts, each with its port; behind the last is a router to everywhere.
pub const PLACES: [(usize, Tags); 4] = [(0, Tags::One(7)), (0, Tags::One(8)), (0, Tags::Two(300, 7)), (1, Tags::None)];
/// Bytes of the longest packet at the second.
pub const NARROW: usize = 1280;

/// The address of a host at a place: number 1 is the stack's own.
pub fn host(place: usize, v6: bool, number: u8) -> IpAddr {
    let text = if v6 { format!("fd0{place}::{number:x}") } else { format!("10.{place}.0.{number}") };
    ip(&text)
}

fn with_addresses(settings: Settings, place: usize) -> Settings {
    let settings = settings.with_network(host(place, false, 1), 24).with_network(host(place, true, 1), 64);
    settings.with_forwarding(ReversePath::Off)
}

pub fn four() -> Settings {
    let settings = with_addresses(settings().with_interface("eth0").and_vlan("eth0.7", PLACES[0].1), 0);
    let settings = with_addresses(settings.and_vlan("eth0.8", PLACES[1].1).with_mtu(NARROW), 1);
    let settings = with_addresses(settings.and_vlan("eth0.300.7", PLACES[2].1), 2);
    with_addresses(settings.and_interface("eth1"), 3)
}

/// With a way to everywhere.
pub fn routed(settings: Settings) -> Settings {
    settings.with_route(ip("0.0.0.0"), 0, host(3, false, 254)).with_route(ip("::"), 0, host(3, true, 254))
}

pub fn open(settings: &Settings) -> Gateway {
    let mut gateway = Gateway::new(settings, &[CardSetup::default(), CardSetup::default()], 1024);
    for (place, (port, tags)) in PLACES.into_iter().enumerate() {
        let of = |number| [host(place, false, number).to_string(), host(place, true, number).to_string()];
        for number in [9, 254] {
            let [v4, v6] = of(number);
            gateway.host(port, tags, &[&v4, &v6]);
        }
    }
    gateway
}

/// A datagram that a host at a place sends to the stack's station.
pub fn datagram(gateway: &Gateway, place: usize, ends: (IpAddr, IpAddr), bytes: usize) -> Vec<u8> {
    let (from, to) = (SocketAddr::new(ends.0, 4000), SocketAddr::new(ends.1, 5000));
    udp_in(gateway.mac(PLACES[place].0), from, to, &vec![3; bytes], 65_528, 7).remove(0)
}

pub fn ask(gateway: &mut Gateway, place: usize, frame: &[u8]) -> Vec<Came> {
    let (port, tags) = PLACES[place];
    gateway.ask(port, tags, frame)
}

/// A packet as it is once a router has passed it on.
pub fn one_hop_less(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 6 {
        packet[7] -= 1;
        return packet;
    }
    packet[8] -= 1;
    packet[10..12].fill(0);
    let sum = Sum::of(&packet[..usize::from(packet[0] & 15) * 4]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn packets_go_from_each_vlan_to_each_with_one_hop_less() {
    let mut gateway = open(&routed(four()));
    let mut sent = 0;
    for (from, to, v6) in (0..4).flat_map(|from| (0..4).flat_map(move |to| [(from, to, false), (from, to, true)])) {
        // Who is at the same link may send by us as well: no redirect is sent.
        let ends = (host(from, v6, 9), host(to, v6, if from == to { 254 } else { 9 }));
        let frame = datagram(&gateway, from, ends, 700);
        for _ in 0..2 {
            let came = ask(&mut gateway, from, &frame);
            assert_eq!(came.len(), 1, "{ends:?}");
            let mac = gateway.hosts.iter().find(|host| host.addresses.contains(&ends.1)).unwrap().mac;
            assert_eq!((came[0].port, came[0].tags, came[0].to()), (PLACES[to].0, PLACES[to].1, mac));
            assert_eq!(came[0].frame[6..12], gateway.mac(PLACES[to].0).0);
            assert_eq!(came[0].packet(), one_hop_less(&frame[14..]));
            sent += 1;
        }
    }
    let far = datagram(&gateway, 0, (host(0, false, 9), ip("192.0.2.77")), 700);
    let came = ask(&mut gateway, 0, &far);
    assert_eq!((came.len(), came[0].port, came[0].packet()), (1, 1, &one_hop_less(&far[14..])[..]));
    assert_eq!(gateway.stack.counts().forwarded, sent + 1);
    assert_eq!(gateway.stack.counts().dropped(), 0);
    // Interface 0 has the frames without tags of the first port, and nobody.
    let traffic: Vec<_> = (0..5).map(|number| gateway.stack.traffic(number).unwrap()).collect();
    assert_eq!(traffic.iter().map(|traffic| traffic.packets_in).collect::<Vec<_>>(), [0, 17, 16, 16, 16]);
    assert_eq!(traffic.iter().map(|traffic| traffic.packets_out).collect::<Vec<_>>(), [0, 16, 16, 16, 17]);
    assert_eq!(traffic[1].bytes_in, 8 * 728 + 8 * 748 + 728);
    assert_eq!(traffic[4].bytes_out, 8 * 728 + 8 * 748 + 728);
    assert!(gateway.memories.iter().all(|memory| memory.counts().held == 0), "nothing is kept");
}

#[test]
fn nothing_is_forwarded_where_the_settings_do_not_say_so() {
    let mut settings = routed(four());
    settings.interfaces[1].forwards = false;
    let mut gateway = open(&settings);
    let frame = datagram(&gateway, 0, (host(0, false, 9), host(1, false, 9)), 100);
    assert!(ask(&mut gateway, 0, &frame).is_empty());
    assert_eq!((gateway.stack.counts().of(Drop::NotOurs), gateway.stack.counts().forwarded), (1, 0));
    // What comes by another interface is.
    let back = datagram(&gateway, 1, (host(1, false, 9), host(0, false, 9)), 100);
    assert_eq!(ask(&mut gateway, 1, &back).len(), 1);
}

/// RFC 791, section 3.2: what is longer than the link carries is cut, and is the same once it is put together.
#[test]
fn a_packet_of_ipv4_that_is_too_long_is_cut() {
    let mut gateway = open(&routed(four()));
    for bytes in [1300, 1400, 1472] {
        let frame = datagram(&gateway, 0, (host(0, false, 9), host(1, false, 9)), bytes);
        let came = ask(&mut gateway, 0, &frame);
        assert_eq!(came.len(), 2);
        assert!(came.iter().all(|came| came.tags == PLACES[1].1 && came.packet().len() <= NARROW));
        assert_eq!(together(&came), frame[34..], "{bytes}");
    }
    assert_eq!((gateway.stack.counts().fragments_out, gateway.stack.counts().forwarded), (6, 3));
}

/// The data of fragments, each of which is as a router makes it.
pub fn together(came: &[Came]) -> Vec<u8> {
    let mut data = BTreeMap::new();
    for one in came {
        let Network::V4(view) = Packet::of_frame(&one.frame).unwrap().network else { panic!() };
        assert!(view.is_checksum_right());
        assert_eq!((view.header().unwrap().hops, view.identification()), (63, 7));
        data.insert(view.fragment().offset.bytes(), (view.fragment().more, view.payload().to_vec()));
    }
    let mut whole = Vec::new();
    let last = data.len() - 1;
    for (number, (offset, (more, piece))) in data.into_iter().enumerate() {
        assert_eq!((offset, more), (whole.len(), number < last));
        whole.extend(piece);
    }
    whole
}

/// RFC 1812, section 5.2.6: a fragment is cut again where it must be, keeps its place, and has those options alone that are for each.
#[test]
fn a_fragment_is_cut_again_and_options_go_where_they_belong() {
    let mut settings = routed(four());
    settings.interfaces[2].mtu = Some(300);
    settings.interfaces[2].networks.truncate(1);
    let mut gateway = open(&settings);
    let ends = (host(0, false, 9), host(1, false, 9));
    let parts = packets(ends.0, ends.1, IpProtocol::UDP, &[9; 1200], 600, 7);
    let mut came = Vec::new();
    for part in parts {
        // A record of the route, for the first fragment alone, and a label of the kind that each has.
        let options = [7, 7, 4, 0, 0, 0, 0, 0x88, 4, 1, 2, 0];
        let mut packet = [&part[..20], &options, &part[20..]].concat();
        packet[0] = 0x48;
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[10..12].fill(0);
        let sum = Sum::of(&packet[..32]).checksum();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let frame = ethernet(gateway.mac(0), EtherType::IPV4, &packet);
        came.extend(ask(&mut gateway, 0, &frame));
    }
    assert_eq!(together(&came), [9; 1200]);
    let heads: Vec<_> = came.iter().map(|came| came.packet()[20..32].to_vec()).collect();
    assert_eq!(heads.iter().filter(|options| options[0] == 7).count(), 2, "of each that was cut, the first has them all");
    assert!(heads.iter().all(|options| options[7..11] == [0x88, 4, 1, 2] && [1, 7].contains(&options[0])));
}

/// Fragments go on as they came, of both families: nothing is put together on the way.
#[test]
fn fragments_go_on_as_they_came() {
    let mut gateway = open(&routed(four()));
    for v6 in [false, true] {
        let (from, to) = (SocketAddr::new(host(0, v6, 9), 1), SocketAddr::new(host(2, v6, 9), 2));
        let parts = udp_in(gateway.mac(0), from, to, &[5; 3000], 1000, 9);
        for number in [2, 0, 3, 1] {
            let came = ask(&mut gateway, 0, &parts[number]);
            assert_eq!((came.len(), came[0].packet()), (1, &one_hop_less(&parts[number][14..])[..]));
        }
    }
    assert_eq!(gateway.stack.counts().fragments_out, 0);
    assert_eq!(gateway.memories[0].counts().held, 0);
}

fn segment(gateway: &Gateway, v6: bool, flags: Flags, options: &[u8]) -> Vec<u8> {
    let ends = (host(0, v6, 9), host(1, v6, 9));
    let mut header = vec![0; 20];
    header[..4].copy_from_slice(&[0x10, 0, 0, 80]);
    header[12] = (((20 + options.len()) / 4) << 4) as u8;
    header[13] = flags.bits() as u8;
    let mut bytes = [&header, options].concat();
    let sum = crate::frames::addresses(ends.0, ends.1).pseudo(IpProtocol::TCP, bytes.len()).unwrap().and(&bytes).checksum();
    bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    let packet = packets(ends.0, ends.1, IpProtocol::TCP, &bytes, 65_528, 3).remove(0);
    ethernet(gateway.mac(0), if v6 { EtherType::IPV6 } else { EtherType::IPV4 }, &packet)
}

#[test]
fn connections_ask_for_segments_that_fit() {
    for (clamp, by_leaving, expected) in [
        (MssClamp::Off, true, [1460, 1460]),
        (MssClamp::ToMtu, true, [1240, 1220]),
        (MssClamp::To(1000), true, [1000, 1000]),
        (MssClamp::To(1000), false, [1000, 1000]),
        (MssClamp::To(1461), true, [1460, 1460]),
    ] {
        let mut settings = routed(four());
        settings.interfaces[if by_leaving { 2 } else { 1 }].mss = clamp;
        let mut gateway = open(&settings);
        for v6 in [false, true] {
            let most = expected[usize::from(v6)];
            // At an even place and at an odd one.
            for options in [&[2, 4, 5, 180, 1, 1, 1, 0][..], &[1, 2, 4, 5, 180, 4, 2, 0]] {
                let at = options.iter().position(|byte| *byte == 5).unwrap();
                for (flags, is_opened) in [(Flags::SYN, true), (Flags::SYN.with(Flags::ACK), true), (Flags::ACK, false)] {
                    let frame = segment(&gateway, v6, flags, options);
                    let came = ask(&mut gateway, 0, &frame);
                    let UpperLayer::Tcp(view) = Packet::of_frame(&came[0].frame).unwrap().transport else { panic!() };
                    let (source, destination) = (host(0, v6, 9), host(1, v6, 9));
                    assert!(view.is_checksum_right(&crate::frames::addresses(source, destination)), "{clamp:?} {options:?}");
                    let head = if v6 { 40 } else { 20 };
                    let stands = &came[0].packet()[head + 20 + at..][..2];
                    let expected: u16 = if is_opened { most } else { 1460 };
                    assert_eq!(stands, expected.to_be_bytes(), "{clamp:?} {flags:?}");
                }
            }
            // What has no such option, or one that makes no sense, stays as it is.
            for options in [&[][..], &[1, 1, 1, 1], &[2, 3, 5, 0], &[1, 2, 4, 5], &[7, 0, 0, 0], &[0, 2, 4, 255, 255, 0, 0, 0]] {
                let options = [options, &[0; 3][..(4 - options.len() % 4) % 4]].concat();
                let frame = segment(&gateway, v6, Flags::SYN, &options);
                let came = ask(&mut gateway, 0, &frame);
                assert_eq!(came[0].packet(), one_hop_less(&frame[14..]), "{options:?}");
            }
        }
    }
}

/// A packet longer than a frame goes on whole, in as many frames, where the next link carries it; else it is cut, or told of.
#[test]
fn packets_longer_than_a_frame_go_on_whole() {
    let card = CardSetup { frame_bytes_max: 9014, ..CardSetup::default() };
    let mut gateway = Gateway::new(&routed(four()), &[card.clone(), card], 1024);
    for (v6, bytes, to) in [(false, 8000, 3), (true, 8000, 2), (false, 8972, 3), (true, 1751, 3), (false, 4000, 1)] {
        let ends = (host(0, v6, 9), host(to, v6, 9));
        gateway.host(PLACES[to].0, PLACES[to].1, &[&ends.1.to_string()]);
        let frame = datagram(&gateway, 0, ends, bytes);
        for _ in 0..2 {
            let came = ask(&mut gateway, 0, &frame);
            match to {
                1 => assert_eq!(together(&came), frame[34..]),
                _ => assert_eq!((came.len(), came[0].packet()), (1, &one_hop_less(&frame[14..])[..]), "{v6} {bytes}"),
            }
        }
    }
    assert_eq!(gateway.stack.counts().dropped(), 0);
    assert!(gateway.memories.iter().all(|memory| memory.counts().held == 0));
}

/// Several routes of one prefix: flows are spread over them, and each keeps its own.
#[test]
fn flows_are_spread_over_the_routes_of_a_prefix() {
    let settings = four()
        .with_route(ip("192.0.2.0"), 24, host(3, false, 254))
        .with_route(ip("192.0.2.0"), 24, host(2, false, 254))
        .with_route(ip("192.0.2.0"), 24, host(1, false, 254));
    let mut gateway = open(&settings);
    let mut by = BTreeMap::new();
    for flow in 0..300_u16 {
        let (from, to) = (SocketAddr::new(host(0, false, 9), 1000 + flow), SocketAddr::new(ip("192.0.2.9"), 53));
        let frame = udp_in(gateway.mac(0), from, to, b"question", 65_528, 7).remove(0);
        (0..2).for_each(|_| gateway.send(0, PLACES[0].1, &frame));
        let came = gateway.hear();
        assert!(came.len() == 2 && (came[0].port, came[0].tags) == (came[1].port, came[1].tags));
        *by.entry((came[0].port, came[0].tags)).or_insert(0) += 1;
    }
    assert!(by.len() == 3 && by.values().all(|flows| (60..140).contains(flows)), "{by:?}");
    // The fragments of a datagram go one way.
    for name in 0..20 {
        let (from, to) = (SocketAddr::new(host(0, false, 9), 1), SocketAddr::new(ip(&format!("192.0.2.{name}")), 2));
        let parts = udp_in(gateway.mac(0), from, to, &[5; 3000], 1000, name + 1);
        parts.iter().for_each(|part| gateway.send(0, PLACES[0].1, part));
        let came = gateway.hear();
        assert!(came.len() == 4 && came.iter().all(|one| (one.port, one.tags) == (came[0].port, came[0].tags)));
    }
}

/// Many hosts at forty VLANs, each of which talks to another at the next.
#[test]
fn forty_vlans_talk_to_each_other() {
    let settings = (1..=40).fold(settings().with_interface("eth0"), |settings, vlan| {
        let settings =
            settings.and_vlan(&format!("eth0.{vlan}"), Tags::One(vlan)).with_network(ip(&format!("10.{vlan}.0.1")), 16);
        settings.with_forwarding(ReversePath::Strict)
    });
    let mut gateway = Gateway::new(&settings, &[CardSetup::default()], 4096);
    let at = |vlan: u16, number: u16| ip(&format!("10.{vlan}.1.{number}"));
    let mut mac = BTreeMap::new();
    for (vlan, number) in (1..=40).flat_map(|vlan| (1..=25).map(move |number| (vlan, number))) {
        mac.insert((vlan, number), gateway.host(0, Tags::One(vlan), &[&at(vlan, number).to_string()]));
    }
    for round in 0..2 {
        for vlan in 1..=40 {
            let next = vlan % 40 + 1;
            for number in 1..=25 {
                let (from, to) = (SocketAddr::new(at(vlan, number), 1), SocketAddr::new(at(next, number), 2));
                let frame = udp_in(gateway.mac(0), from, to, b"hello", 65_528, 7).remove(0);
                gateway.send(0, Tags::One(vlan), &frame);
            }
            let came = gateway.hear();
            assert_eq!(came.len(), 25, "round {round}, VLAN {vlan}");
            let stations: Vec<Mac> = came.iter().map(Came::to).collect();
            assert!((1..=25).all(|number| stations.contains(&mac[&(next, number)])));
            assert!(came.iter().all(|came| came.tags == Tags::One(next)));
        }
    }
    assert_eq!((gateway.stack.neighbours(), gateway.stack.counts().forwarded), ((1000, 0), 2000));
    assert_eq!(gateway.questions, 1000, "each is asked for once");
}

/// What waits for one port is bounded: the rest is dropped, and counted.
#[test]
fn a_port_that_does_not_keep_up_has_a_bound() {
    let mut gateway = Gateway::new(&routed(four()), &[CardSetup::default(), CardSetup::default()], 64);
    gateway.host(1, Tags::None, &["10.3.0.9"]);
    let frame = datagram(&gateway, 0, (host(0, false, 9), host(3, false, 9)), 100);
    assert_eq!(ask(&mut gateway, 0, &frame).len(), 1);
    (0..30).for_each(|_| gateway.send(0, PLACES[0].1, &frame));
    let came = gateway.hear();
    let lost = gateway.stack.counts().of(Drop::Outgoing);
    assert_eq!((came.len() as u64 + lost, lost > 0), (30, true), "{lost}");
    assert!(gateway.memories[0].counts().held == 0);
}
