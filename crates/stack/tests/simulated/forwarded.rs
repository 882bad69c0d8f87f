//! What a stack that forwards tells senders, what it drops and counts, and for whom else it answers.

use crate::forwarding::{NARROW, PLACES, ask, datagram, four, host, one_hop_less, open, routed};
use crate::frames::{TEST, TEST_MAC, arp, discovery, ethernet, packets, udp_in, written};
use crate::gateway::{Came, Gateway, arp_of, ip};
use crate::lanes::{ADDRESSES, mac, meet, plan};
use crate::program::{Card, Plan, Program};
use corelane_sim::CardSetup;
use corelane_stack::{Drop, ReversePath, Settings, Tags};
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::checksum::Sum;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::neighbour::{Choice, Message, Options};
use corelane_wire::packet::{EtherType, IpProtocol, Network, Packet, UpperLayer, icmpv6};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Type, code, the number in its head, and who sent it; with what it quotes.
pub type Told = ((u8, u8, u32), IpAddr, Vec<u8>);

/// The error that came to a host at a place.
pub fn told(came: &[Came], place: usize) -> Told {
    assert_eq!(came.len(), 1, "{came:?}");
    assert_eq!((came[0].port, came[0].tags), PLACES[place]);
    let packet = Packet::of_frame(&came[0].frame).unwrap();
    let (source, destination): (IpAddr, IpAddr) = match &packet.network {
        Network::V4(view) => {
            let header = view.header().unwrap();
            (header.source.into(), header.destination.into())
        }
        Network::V6(view, _) => (view.header().source.into(), view.header().destination.into()),
        other => panic!("{other:?}"),
    };
    assert_eq!(destination, host(place, source.is_ipv6(), 9));
    let bytes = &came[0].packet()[if source.is_ipv6() { 40 } else { 20 }..];
    match packet.transport {
        UpperLayer::Icmp(view) => assert!(view.is_checksum_right()),
        UpperLayer::Icmpv6(view) => assert!(view.is_checksum_right(&crate::frames::addresses(source, destination))),
        other => panic!("{other:?}"),
    }
    let number = u32::from_be_bytes(*bytes[4..].first_chunk().unwrap());
    ((bytes[0], bytes[1], number), source, bytes[8..].to_vec())
}

/// A packet changed, with the checksum of its header as it must be.
pub fn changed(frame: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = frame.to_vec();
    change(&mut frame[14..]);
    if frame[14] >> 4 == 4 {
        frame[24..26].fill(0);
        let sum = Sum::of(&frame[14..14 + usize::from(frame[14] & 15) * 4]).checksum();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// A frame with a packet of IPv4 that has options beside.
pub fn with_options(plain: &[u8], options: &[u8]) -> Vec<u8> {
    let frame = [&plain[..34], options, &plain[34..]].concat();
    changed(&frame, |packet| {
        packet[0] = 0x45 + (options.len() / 4) as u8;
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
    })
}

/// RFC 1812, sections 4.3.3 and 5.3.1; RFC 4443, sections 3.1 to 3.3.
#[test]
fn senders_hear_why_their_packets_go_no_further() {
    for v6 in [false, true] {
        let mut gateway = open(&four());
        let near = datagram(&gateway, 0, (host(0, v6, 9), host(1, v6, 9)), 100);
        let far = datagram(&gateway, 0, (host(0, v6, 9), ip(if v6 { "2001:db8::1" } else { "192.0.2.1" })), 100);
        let long = datagram(&gateway, 0, (host(0, v6, 9), host(1, v6, 9)), 1400);
        let long = changed(&long, |packet| packet[6] |= if v6 { 0 } else { 0x40 });
        let mtu = NARROW as u32;
        for hops in [0, 1] {
            let last = changed(&near, |packet| packet[if v6 { 7 } else { 8 }] = hops);
            let came = ask(&mut gateway, 0, &last);
            assert_eq!(told(&came, 0), ((if v6 { 3 } else { 11 }, 0, 0), host(0, v6, 1), last[14..].to_vec()));
        }
        let came = ask(&mut gateway, 0, &far);
        assert_eq!(told(&came, 0), ((if v6 { 1 } else { 3 }, 0, 0), host(0, v6, 1), far[14..].to_vec()));
        let came = ask(&mut gateway, 0, &long);
        let (what, from, quoted) = told(&came, 0);
        assert_eq!((what, from), (if v6 { (2, 0, mtu) } else { (3, 4, mtu) }, host(0, v6, 1)));
        assert_eq!(quoted, long[14..][..if v6 { 1232 } else { 548 }]);
        let counts = gateway.stack.counts();
        assert_eq!((counts.of(Drop::Hops), counts.of(Drop::NoRoute), counts.of(Drop::TooBig)), (2, 1, 1));
        assert_eq!((counts.errors_out, counts.forwarded), (4, 0));
    }
}

/// RFC 1812, section 4.3.3.1; RFC 4861, section 7.2.2: who waits for somebody who is not there hears so.
#[test]
fn a_host_that_does_not_answer_is_told_of() {
    for v6 in [false, true] {
        let mut gateway = open(&four());
        let frame = datagram(&gateway, 0, (host(0, v6, 9), host(1, v6, 77)), 100);
        assert!(ask(&mut gateway, 0, &frame).is_empty());
        let mut came = Vec::new();
        for _ in 0..4 {
            gateway.world.pass(Duration::from_secs(1));
            came.extend(gateway.hear());
        }
        let (what, from, quoted) = told(&came, 0);
        assert_eq!((what, from), (if v6 { (1, 3, 0) } else { (3, 1, 0) }, host(0, v6, 1)));
        assert_eq!(quoted, one_hop_less(&frame[14..]));
        assert_eq!(gateway.stack.counts().of(Drop::Neighbour), 1);
    }
}

/// RFC 1812, section 4.3.2.7: about errors, later fragments, and to who cannot be told, nothing is said; about what is said, a bound holds.
#[test]
fn nothing_is_said_about_errors_and_later_fragments() {
    for v6 in [false, true] {
        let mut gateway = open(&four());
        let far = ip(if v6 { "2001:db8::1" } else { "192.0.2.1" });
        let kind = if v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let error = if v6 { [1, 0, 0, 0, 0, 0, 0, 0] } else { [3, 0, 0, 0, 0, 0, 0, 0] };
        let protocol = if v6 { IpProtocol::ICMPV6 } else { IpProtocol::ICMP };
        let error = packets(host(0, v6, 9), far, protocol, &[&error[..], &[0; 40]].concat(), 65_528, 7).remove(0);
        let parts = packets(host(0, v6, 9), far, IpProtocol::UDP, &[9; 1200], 600, 7);
        let nobody =
            packets(ip(if v6 { "2001:db8::7" } else { "198.51.100.7" }), far, IpProtocol::UDP, &[9; 80], 600, 7).remove(0);
        for packet in [&error, &parts[1], &nobody] {
            let frame = ethernet(gateway.mac(0), kind, packet);
            assert!(ask(&mut gateway, 0, &frame).is_empty());
        }
        let first = ethernet(gateway.mac(0), kind, &parts[0]);
        assert_eq!(ask(&mut gateway, 0, &first).len(), 1, "of a datagram the first fragment is told of");
        let mut told = 0;
        for _ in 0..20 {
            (0..20).for_each(|_| gateway.send(0, PLACES[0].1, &first));
            told += gateway.hear().len();
        }
        assert!((40..130).contains(&told), "{told} of 400");
        assert_eq!(gateway.stack.counts().of(Drop::NoRoute), 404);
    }
}

/// RFC 1858, RFC 3128 and RFC 7112: no fragment hides from rules which port it is for, by being the first and too short, or by lying over the first or, beyond the longest datagram,
/// around it. What cannot be part of a datagram goes nowhere either.
#[test]
fn fragments_that_hide_their_ports_go_nowhere() {
    for v6 in [false, true] {
        let mut gateway = open(&four());
        let ends = (host(0, v6, 9), host(1, v6, 9));
        let cut = |protocol: IpProtocol, bytes: usize, part: usize| packets(ends.0, ends.1, protocol, &vec![9; bytes], part, 7);
        let kind = if v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let (at, more) = if v6 { (42, 1_u8) } else { (6, 0x20) };
        let last = if v6 { 0xfff8_u16 } else { 0x1fff };
        let mut beyond = cut(IpProtocol::UDP, 2800, 1400).remove(1);
        beyond[at..at + 2].copy_from_slice(&last.to_be_bytes());
        let mut uneven = cut(IpProtocol::UDP, 1204, 600).remove(2);
        uneven[if v6 { at + 1 } else { at }] |= more;
        let tiny = cut(IpProtocol::TCP, 40, 8);
        let refused = [&tiny[0], &tiny[1], &tiny[2], &beyond, &uneven];
        for (count, packet) in (1..).zip(refused) {
            let frame = changed(&ethernet(gateway.mac(0), kind, packet), |_| {});
            assert!(ask(&mut gateway, 0, &frame).is_empty(), "{v6} {count}");
            assert_eq!(gateway.stack.counts().of(Drop::Malformed), count, "{v6} {count}");
        }
        for packet in [&tiny[3], &tiny[4]].into_iter().chain(&cut(IpProtocol::TCP, 48, 24)) {
            let frame = ethernet(gateway.mac(0), kind, packet);
            assert_eq!(ask(&mut gateway, 0, &frame).len(), 1);
        }
        assert_eq!((gateway.stack.counts().dropped(), gateway.stack.counts().errors_out), (5, 0));
    }
}

/// RFC 1812, section 5.3.7, and what else can be no packet from host to host: dropped in silence, with its reason.
#[test]
fn martians_and_routes_of_senders_go_nowhere() {
    let mut gateway = open(&routed(four()));
    let (ours, broadcast) = (host(2, false, 1), ip("10.1.0.255"));
    let v4 = |text: &str| (ip(text), host(1, false, 9));
    let mut martians: Vec<(IpAddr, IpAddr)> =
        ["0.0.0.0", "127.0.0.1", "169.254.0.9", "224.0.0.1", "240.0.0.1", "255.255.255.255"].map(v4).into();
    martians.extend(["0.0.0.7", "127.0.0.1", "169.254.0.9", "240.0.0.1"].map(|to| (host(0, false, 9), ip(to))));
    martians.extend(["::1", "fe80::9", "ff02::9", "::ffff:10.0.0.9", "::"].map(|from| (ip(from), host(1, true, 9))));
    martians.extend(["fe80::9", "::ffff:10.0.0.9", "::1"].map(|to| (host(0, true, 9), ip(to))));
    martians.extend([(ours, host(1, false, 9)), (host(2, true, 1), host(1, true, 9)), (broadcast, host(0, false, 9))]);
    martians.extend([
        (host(0, false, 9), broadcast),
        (host(1, false, 9), host(1, false, 9)),
        (host(1, true, 9), host(1, true, 9)),
    ]);
    for (count, ends) in (1..).zip(&martians) {
        let frame = datagram(&gateway, 0, *ends, 100);
        assert!(ask(&mut gateway, 0, &frame).is_empty(), "{ends:?}");
        assert_eq!((gateway.stack.counts().of(Drop::Martian), gateway.stack.counts().dropped()), (count, count), "{ends:?}");
    }
    // To groups, and what all stations of the link were sent, nobody forwards.
    let groups = [ip("224.1.2.3"), ip("ff0e::7"), ip("255.255.255.255")]
        .map(|to| datagram(&gateway, 0, (host(0, to.is_ipv6(), 9), to), 9));
    let mut to_all = datagram(&gateway, 0, (host(0, false, 9), host(1, false, 9)), 9);
    to_all[..6].fill(0xff);
    let before = gateway.stack.counts().dropped();
    for frame in groups.iter().chain([&to_all]) {
        assert!(ask(&mut gateway, 0, frame).is_empty());
    }
    assert_eq!(gateway.stack.counts().dropped(), before + 4);
    assert_eq!(gateway.stack.counts().forwarded, 0);
}

#[test]
fn routes_of_senders_are_dropped_and_options_that_make_no_sense_told_of() {
    let mut gateway = open(&routed(four()));
    let plain = datagram(&gateway, 0, (host(0, false, 9), host(1, false, 9)), 100);
    for (options, what) in [
        (&[131, 7, 4, 10, 1, 0, 1, 0][..], Some((3, 5, 0))),
        (&[137, 7, 8, 10, 1, 0, 1, 0], Some((3, 5, 0))),
        (&[7, 2, 0, 0], Some((12, 0, 21 << 24))),
        (&[148, 4, 0, 0], None),
    ] {
        let frame = with_options(&plain, options);
        let came = ask(&mut gateway, 0, &frame);
        match what {
            Some(what) => assert_eq!(told(&came, 0).0, what, "{options:?}"),
            None => assert_eq!(came[0].packet(), one_hop_less(&frame[14..])),
        }
    }
    assert_eq!((gateway.stack.counts().of(Drop::SourceRoute), gateway.stack.counts().of(Drop::Malformed)), (2, 1));
    // RFC 5095: of IPv6, too; others that go nowhere any more, and other kinds, are none of ours.
    for (kind, left, passes) in [(0, 1, false), (0, 0, true), (4, 1, true)] {
        let route = [&[17, 2, kind, left, 0, 0, 0, 0][..], &[0; 16], &[0; 40]].concat();
        let packet = packets(host(0, true, 9), host(1, true, 9), IpProtocol::ROUTING, &route, 65_528, 7).remove(0);
        let frame = ethernet(gateway.mac(0), EtherType::IPV6, &packet);
        assert_eq!(ask(&mut gateway, 0, &frame).len(), usize::from(passes), "{kind} {left}");
    }
    assert_eq!(gateway.stack.counts().of(Drop::SourceRoute), 3);
}

/// RFC 3704, sections 2.2 and 2.4.
#[test]
fn who_cannot_be_where_he_sends_from_is_dropped() {
    let set = |reverse: ReversePath, is_routed: bool| {
        let mut settings = if is_routed { routed(four()) } else { four() };
        settings.interfaces.iter_mut().for_each(|one| one.reverse_path = reverse);
        open(&settings)
    };
    for v6 in [false, true] {
        let far = ip(if v6 { "2001:db8::1" } else { "192.0.2.1" });
        let [own, other] = [0, 2].map(|place| host(place, v6, 9));
        // From where, at which place, and whether it goes on: strict, loose, off.
        for (from, place, is_routed, goes_on) in [
            (own, 0, true, [true; 3]),
            (other, 0, true, [false, true, true]),
            (far, 0, true, [false, true, true]),
            (far, 3, true, [true; 3]),
            (far, 3, false, [false, false, true]),
        ] {
            for (reverse, goes_on) in [ReversePath::Strict, ReversePath::Loose, ReversePath::Off].into_iter().zip(goes_on) {
                let mut gateway = set(reverse, is_routed);
                let frame = datagram(&gateway, place, (from, host(1, v6, 9)), 100);
                assert_eq!(ask(&mut gateway, place, &frame).len(), usize::from(goes_on), "{from} {place} {reverse:?}");
                assert_eq!(gateway.stack.counts().of(Drop::ReversePath), u64::from(!goes_on));
            }
        }
    }
}

/// RFC 1027; RFC 4861, section 7.2.8; RFC 4389: who asks at one link for somebody behind another is answered, where that is set.
#[test]
fn a_proxy_answers_for_those_to_whom_it_has_a_way() {
    let mut settings = routed(four());
    settings.interfaces[1].proxies = [(host(1, false, 0), 24), (ip("fd01::"), 64), (host(0, false, 0), 24), (ip("fd00::"), 64)]
        .map(|(address, bits)| corelane_stack::Network { address, bits })
        .into();
    let mut gateway = open(&settings);
    let question = |from: IpAddr, to: IpAddr| match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => arp(Operation::Request, Mac::BROADCAST, from, to),
        (IpAddr::V6(from), IpAddr::V6(target)) => {
            let option = written(8, |writer| Choice::Source(TEST_MAC).emit(writer));
            let options = Options::new(if from.is_unspecified() { &[] } else { &option }).unwrap();
            let [.., a, b, c] = target.octets();
            let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
            discovery(Mac([0x33, 0x33, 0xff, a, b, c]), (from, group), &Message::Solicitation { target, options }, 65_528)
                .remove(0)
        }
        _ => panic!("two families"),
    };
    for v6 in [false, true] {
        let nobody = ip(if v6 { "::" } else { "0.0.0.0" });
        for (place, from, to, is_answered) in [
            (0, host(0, v6, 9), host(1, v6, 9), true),
            (0, host(0, v6, 9), host(1, v6, 200), true),
            // At another link, for another network, for a neighbour, who looks whether it is free, for our own at another link.
            (2, host(2, v6, 9), host(1, v6, 9), false),
            (0, host(0, v6, 9), host(2, v6, 9), false),
            (0, host(0, v6, 9), host(0, v6, 77), false),
            (0, nobody, host(1, v6, 9), false),
            (0, host(0, v6, 9), host(1, v6, 1), false),
        ] {
            let frame = question(from, to);
            let (port, tags) = PLACES[place];
            gateway.send(port, tags, &frame);
            gateway.turn();
            let came: Vec<_> = gateway.tests[port].take();
            assert_eq!(came.len(), usize::from(is_answered), "{from} {to}");
            let Some(frame) = came.first() else { continue };
            let (_, frame) = crate::gateway::untagged(frame);
            assert_eq!(frame[..6], TEST_MAC.0);
            let packet = Packet::of_frame(&frame).unwrap();
            match (packet.network, packet.transport) {
                (Network::Arp(message), _) => {
                    assert_eq!((IpAddr::V4(message.sender), message.sender_mac), (to, gateway.mac(0)));
                }
                (Network::V6(view, _), UpperLayer::Icmpv6(message)) => {
                    let Ok(icmpv6::Message::Neighbour(Message::Advertisement { target, flags, .. })) = message.message() else {
                        panic!()
                    };
                    assert_eq!((IpAddr::V6(target), IpAddr::V6(view.header().source)), (to, host(0, true, 1)));
                    assert!(flags.is_router && flags.is_solicited && !flags.replaces);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A checksum that a sender on the same machine has left to its card is finished before the packet leaves it.
#[test]
fn a_checksum_that_was_left_out_is_finished() {
    let cards = [CardSetup { leaves_sums: true, ..CardSetup::default() }, CardSetup::default()];
    let mut gateway = Gateway::new(&routed(four()), &cards, 1024);
    for v6 in [false, true] {
        let to = host(3, v6, 9);
        gateway.host(1, Tags::None, &[&to.to_string()]);
        let whole = datagram(&gateway, 0, (host(0, v6, 9), to), 101);
        let head = if v6 { 54 } else { 34 };
        let pseudo = crate::frames::addresses(host(0, v6, 9), to).pseudo(IpProtocol::UDP, 109).unwrap().partial();
        let mut left = whole.clone();
        left[head + 6..head + 8].copy_from_slice(&pseudo.to_be_bytes());
        let came = ask(&mut gateway, 0, &left);
        assert_eq!(came[0].packet(), one_hop_less(&whole[14..]), "{v6}");
        // One that is wrong is the receiver's to find.
        let mut wrong = whole.clone();
        wrong[head + 6] ^= 1;
        let came = ask(&mut gateway, 0, &wrong);
        assert_eq!(came[0].packet(), one_hop_less(&wrong[14..]));
    }
}

fn forwarding(settings: Settings) -> Settings {
    settings.with_route(ip("192.0.2.0"), 24, TEST.into()).with_forwarding(ReversePath::Off)
}

/// Flows that four lanes forward, of which each gets packets of all: none is reordered, and each is on its lane.
#[test]
fn flows_that_are_forwarded_stay_in_order() {
    for card in [Card::Aligned, Card::Scattered] {
        let mut program = Program::new(&Plan { card, change: forwarding, ..plan(4, 9) }, &ADDRESSES);
        meet(&mut program);
        let (to, mut last, mut came) = (mac(&program), BTreeMap::new(), 0);
        for number in 1..=100_u32 {
            for flow in 0..32 {
                let ends = (SocketAddr::new(TEST.into(), 2000 + flow), SocketAddr::new(ip("192.0.2.9"), 53));
                udp_in(to, ends.0, ends.1, &number.to_be_bytes(), 1400, 0).iter().for_each(|frame| program.test.send(frame));
            }
            program.pass(200_000);
            for frame in program.test.take() {
                let Some(found) = crate::frames::datagram(&frame) else { continue };
                let number = u32::from_be_bytes(*found.payload.first_chunk().unwrap());
                let before = last.insert(found.from.port(), number);
                assert!(before.is_none_or(|before| before < number), "{}: {number} after {before:?}", found.from);
                came += 1;
            }
        }
        let forwarded: Vec<_> = (0..4).map(|lane| program.counts(lane).forwarded).collect();
        assert!(came >= 3000 && forwarded.iter().all(|count| *count > 100), "{came} {forwarded:?}");
        program.close();
    }
}

/// A host of the link's that is asked for while the gateway forwards to it says so at its own VLAN alone.
#[test]
fn a_neighbour_that_answers_at_another_vlan_is_not_believed() {
    let mut gateway = open(&routed(four()));
    let frame = datagram(&gateway, 0, (host(0, false, 9), host(1, false, 77)), 100);
    assert!(ask(&mut gateway, 0, &frame).is_empty());
    let (IpAddr::V4(his), IpAddr::V4(ours)) = (host(1, false, 77), host(1, false, 1)) else { panic!() };
    let answer = arp_of(Mac([2, 7, 7, 7, 7, 7]), Operation::Reply, gateway.mac(0), his, ours);
    assert!(gateway.ask(0, PLACES[2].1, &answer).is_empty());
    assert_eq!(gateway.ask(0, PLACES[1].1, &answer).len(), 1);
}

/// What a router has said of itself at the VLAN of number 9, each time: its options.
fn advertised(came: &[Came]) -> Vec<Vec<String>> {
    let of_router = came.iter().filter(|came| came.tags == Tags::One(9)).filter_map(|came| {
        let packet = Packet::of_frame(&came.frame).unwrap();
        let (Network::V6(view, _), UpperLayer::Icmpv6(message)) = (packet.network, packet.transport) else { return None };
        let Ok(icmpv6::Message::Neighbour(Message::RouterAdvertisement(router, options))) = message.message() else {
            return None;
        };
        let head = view.header();
        assert_eq!((head.hops, head.source.to_string(), head.destination.to_string()), (255, "fe80::9".into(), "ff02::1".into()));
        assert!(message.is_checksum_right(&crate::frames::addresses(head.source.into(), head.destination.into())));
        assert_eq!((router.lifetime, came.to()), (900, Mac([0x33, 0x33, 0, 0, 0, 1])));
        let words = options.iter().map(|choice| match choice {
            Choice::Source(mac) => format!("at {mac}"),
            Choice::Most(bytes) => format!("{bytes} bytes"),
            Choice::Prefix(prefix) => format!("{}/{} {}", prefix.prefix, prefix.bits, prefix.is_autonomous),
            other => panic!("{other:?}"),
        });
        Some(words.collect::<Vec<_>>())
    });
    of_router.collect::<Vec<_>>()
}

/// RFC 4861, section 6.2: a router says so when its interface comes up and to who asks, and which networks are there.
#[test]
fn a_router_says_that_it_is_there() {
    let said = corelane_stack::Advertised { lifetime: 900, ..Default::default() };
    let settings = four().and_vlan("eth1.9", Tags::One(9)).with_network(ip("fe80::9"), 64).with_network(ip("fd09::1"), 64);
    let settings = settings.with_network(ip("fd19::1"), 80).with_mtu(1400).with_forwarding(ReversePath::Off);
    let settings = settings.with_advertisements(said).with_introduction();
    let mut gateway = open(&settings);
    let mut came = Vec::new();
    for _ in 0..40 {
        gateway.world.pass(Duration::from_secs(1));
        came.extend(gateway.hear());
    }
    let words = [format!("at {}", gateway.mac(1)), "1400 bytes".into(), "fd09::/64 true".into(), "fd19::/80 false".into()];
    // The first was said before anybody listened.
    assert_eq!(advertised(&came), vec![words.to_vec(); 2]);
    let solicitation = Message::RouterSolicitation { options: Options::new(&[]).unwrap() };
    let ends = ("fe80::77".parse().unwrap(), "ff02::2".parse().unwrap());
    let asks = discovery(Mac([0x33, 0x33, 0, 0, 0, 2]), ends, &solicitation, 65_528).remove(0);
    let mut answers = 0;
    for _ in 0..60 {
        gateway.send(1, Tags::One(9), &asks);
        let came = gateway.hear();
        answers += advertised(&came).len();
        gateway.world.pass(Duration::from_millis(200));
    }
    assert!((3..=5).contains(&answers), "{answers} in twelve seconds");
    // Who forwards, and has nothing to say, says nothing; others do not even hear.
    for (port, tags) in PLACES {
        let came = gateway.ask(port, tags, &asks);
        assert!(advertised(&came).is_empty());
    }
}

#[test]
fn a_router_without_an_address_of_the_link_is_refused() {
    let said = corelane_stack::Advertised::default();
    let nowhere = four().and_vlan("eth1.9", Tags::One(9)).with_network(ip("fd09::1"), 64).with_advertisements(said);
    let world = corelane_sim::World::new(1, corelane_sim::Faults::none());
    let arena = corelane_seam::Arena::new(1 << 20).unwrap();
    let ports = (0..2).map(|_| -> Box<dyn corelane_seam::Port> {
        let memory = corelane_seam::FrameMemory::new(64, 2048).unwrap();
        Box::new(corelane_sim::SimPort::open(&world.interface(CardSetup::default()), 0, 0, memory, 16).unwrap())
    });
    let below = world.driver(arena.clone(), Default::default());
    let refused = corelane_stack::Stack::with_ports(below, arena, Default::default(), ports.collect(), &nowhere).unwrap_err();
    assert!(refused.to_string().contains("fe80::1/64"), "{refused}");
}
