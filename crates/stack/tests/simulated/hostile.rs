//! Whatever arrives, the stack goes on: nothing panics, nothing is kept, and honest questions are answered.

use crate::alone::Alone;
use crate::forwarding::{PLACES, datagram, four, host, one_hop_less, open, routed};
use crate::frames::{self, STACK, STACK_V6, TEST, TEST_V6, arp, echo, ethernet, packets, udp, udp_in, written};
use crate::gateway::{Came, Gateway, arp_of, ip, question};
use corelane_sim::Random;
use corelane_stack::{ASKED_MAX, Drop, KNOWN_MAX};
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::icmp;
use corelane_wire::packet::{EtherType, IpProtocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// One frame of each kind that the stack knows.
fn seeds(mac: Mac) -> Vec<Vec<u8>> {
    let (v4, v6) = (SocketAddr::new(TEST.into(), 7), SocketAddr::new(TEST_V6.into(), 7));
    let (to_v4, to_v6) = (SocketAddr::new(STACK.into(), 60_007), SocketAddr::new(STACK_V6.into(), 60_007));
    let mut all = vec![
        arp(Operation::Request, Mac::BROADCAST, TEST, STACK),
        arp(Operation::Reply, mac, TEST, STACK),
        frames::solicitation(STACK_V6, 255),
        udp(mac, v4, to_v4, &[1; 64]),
        udp(mac, v6, to_v6, &[1; 64]),
    ];
    all.extend(echo(mac, false, &[3; 40], 65_528));
    all.extend(echo(mac, true, &[3; 40], 65_528));
    all.extend(udp_in(mac, v4, to_v4, &[4; 100], 48, 9));
    all.extend(udp_in(mac, v6, to_v6, &[4; 100], 48, 9));
    for protocol in [IpProtocol::TCP, IpProtocol::GRE, IpProtocol::IPV4, IpProtocol::IPV6, IpProtocol(200)] {
        for (source, destination) in [(IpAddr::from(TEST), IpAddr::from(STACK)), (TEST_V6.into(), STACK_V6.into())] {
            let packet = packets(source, destination, protocol, &[0x45; 64], 65_528, 1).remove(0);
            all.push(ethernet(mac, if source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 }, &packet));
        }
    }
    // Options of IPv4, each kind of extension header, and a tag.
    let with_options = packets(TEST.into(), STACK.into(), IpProtocol(200), &[5; 64], 65_528, 2).remove(0);
    let options = [0x94, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0];
    let mut packet = [&with_options[..20], &options, &with_options[20..]].concat();
    packet[0] = 0x48;
    packet[2..4].copy_from_slice(&(with_options.len() as u16 + 12).to_be_bytes());
    all.push(ethernet(mac, EtherType::IPV4, &packet));
    for kind in [IpProtocol::HOP_BY_HOP, IpProtocol::ROUTING, IpProtocol::DESTINATION, IpProtocol::AUTHENTICATION] {
        let headers =
            [[IpProtocol::DESTINATION.0, 1, 0xc2, 4], [9; 4], [0xff, 2, 1, 2], [1, 2, 0, 0], [200, 0, 0xbe, 0], [1, 0, 0, 0]];
        let body = [headers.as_flattened(), &[6; 40]].concat();
        for part in [65_528, 32] {
            let all_of_it = packets(TEST_V6.into(), STACK_V6.into(), kind, &body, part, 3);
            all.extend(all_of_it.iter().map(|packet| ethernet(mac, EtherType::IPV6, packet)));
        }
    }
    let untagged = udp(mac, v4, to_v4, &[7; 64]);
    all.push([&untagged[..12], &[0x81, 0, 0, 5], &untagged[12..]].concat());
    all
}

/// The stack answers as ever, and holds nothing that will not go by itself.
fn is_well(alone: &mut Alone) {
    for _ in 0..70 {
        alone.world.pass(Duration::from_secs(1));
        alone.settle();
    }
    alone.test.take();
    alone.meet();
    let counts = alone.memory.counts();
    assert_eq!((counts.held, counts.abroad), (0, 0), "{counts:?}");
}

#[test]
fn every_truncation_of_every_frame_is_survived() {
    let mut alone = Alone::new();
    alone.meet();
    let (socket, _) = alone.bind(STACK, 60_007, None);
    for frame in seeds(alone.mac()) {
        for length in 0..frame.len() {
            alone.test.send(&frame[..length]);
            if length % 64 == 0 {
                alone.settle();
            }
        }
        alone.settle();
    }
    while !alone.receive(socket).is_empty() {}
    is_well(&mut alone);
    assert!(alone.stack.counts().of(Drop::Malformed) > 500);
}

#[test]
fn every_length_field_may_lie() {
    let mut alone = Alone::new();
    alone.meet();
    let mac = alone.mac();
    for frame in seeds(mac) {
        // Each byte of the headers, at its extremes; the header's own checksum is mended where that is what would hide the rest.
        for at in 14..frame.len().min(80) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bent = frame.clone();
                bent[at] = value;
                if bent[12..14] == [8, 0] {
                    let head = (14 + usize::from(bent[14] & 15) * 4).min(bent.len());
                    bent[24..26].fill(0);
                    let sum = corelane_wire::packet::checksum::Sum::of(&bent[14..head]).checksum();
                    bent[24..26].copy_from_slice(&sum.to_be_bytes());
                }
                alone.test.send(&bent);
            }
            alone.settle();
        }
    }
    is_well(&mut alone);
}

#[test]
fn noise_is_survived() {
    let mut alone = Alone::new();
    alone.meet();
    let (mac, mut random) = (alone.mac(), Random::new(7));
    let seeds = seeds(mac);
    for _ in 0..300 {
        for _ in 0..40 {
            let mut frame = seeds[random.below(seeds.len() as u64) as usize].clone();
            for _ in 0..random.below(6) {
                let at = random.below(frame.len() as u64) as usize;
                frame[at] = random.below(256) as u8;
            }
            frame.truncate(1 + random.below(frame.len() as u64) as usize);
            alone.test.send(&frame);
        }
        alone.settle();
    }
    is_well(&mut alone);
}

#[test]
fn vlans_and_chains_of_headers_end() {
    let mut alone = Alone::new();
    alone.meet();
    let mac = alone.mac();
    let honest = udp(mac, SocketAddr::new(TEST.into(), 7), SocketAddr::new(STACK.into(), 6), b"question");
    for tags in [1, 2, 32, 33, 300] {
        let mut frame = honest[..12].to_vec();
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 5]));
        frame.extend(&honest[12..]);
        frame.truncate(1514);
        assert!(alone.ask(&[frame]).is_empty(), "what is for a VLAN is not ours");
    }
    for headers in [1, 8, 9, 100, 180] {
        let chain: Vec<u8> = (0..headers).flat_map(|_| [60, 0, 1, 4, 0, 0, 0, 0]).collect();
        let packet = packets(TEST_V6.into(), STACK_V6.into(), IpProtocol::DESTINATION, &chain, 65_528, 1).remove(0);
        alone.ask(&[ethernet(mac, EtherType::IPV6, &packet)]);
    }
    let jumbo = vec![0x45; 1514];
    alone.ask(&[ethernet(mac, EtherType::IPV4, &jumbo[..1500]), Vec::new(), vec![0; 13]]);
    is_well(&mut alone);
}

#[test]
fn a_flood_of_spoofed_sources_keeps_tables_and_frames_bounded() {
    let mut alone = Alone::new();
    alone.meet();
    let mac = alone.mac();
    let to = SocketAddr::new(STACK.into(), 6);
    for round in 0..40_u32 {
        for number in 0..60_u32 {
            let [_, _, a, b] = (round * 60 + number + 256).to_be_bytes();
            // Of the own network and of others; to a port that nobody has, so that each is answered, as far as the limit goes.
            let from = SocketAddr::new([10, 0, if number % 2 == 0 { 0 } else { a.max(1) }, b.clamp(2, 250)].into(), 5);
            alone.test.send(&udp(mac, from, to, b"spoofed"));
        }
        alone.settle();
        let (known, asked) = alone.stack.neighbours();
        assert!(known <= corelane_stack::KNOWN_MAX && asked <= corelane_stack::ASKED_MAX);
        assert!(alone.memory.counts().held <= crate::alone::FRAMES / 8, "{:?}", alone.memory.counts());
    }
    alone.test.take();
    // An honest neighbour is answered meanwhile.
    assert_eq!(alone.ask(&echo(mac, false, b"alive?", 65_528)).len(), 1);
    is_well(&mut alone);
}

#[test]
fn a_flood_of_fragments_stays_within_its_memory_and_honest_ones_pass() {
    let mut alone = Alone::new();
    alone.meet();
    let (socket, local) = alone.bind(STACK, 60_007, None);
    let (mac, peer) = (alone.mac(), SocketAddr::new(TEST.into(), 5));
    let mut found = 0;
    for round in 0..100_u16 {
        for number in 0..40_u16 {
            let from = SocketAddr::new([192, 0, 2, number as u8].into(), 5);
            alone.test.send(&udp_in(mac, from, local, &[1; 2000], 1400, round * 40 + number)[0]);
        }
        udp_in(mac, peer, local, &[2; 2000], 1400, round).iter().for_each(|frame| alone.test.send(frame));
        found += alone.receive(socket).len();
        // A 32nd part of the frames may wait.
        assert!(alone.memory.counts().held <= crate::alone::FRAMES / 32 + 4, "{:?}", alone.memory.counts());
    }
    assert!(found >= 50, "{found} of 100 honest datagrams");
}

/// A host's question whether that address is there, to a link address.
fn asks_for_life(to: Mac, from: IpAddr, target: IpAddr) -> Vec<u8> {
    let request = icmp::Echo { identification: 7, sequence: 9, data: b"alive?" };
    let message = written(64, |writer| icmp::Message::EchoRequest(request).emit(writer));
    ethernet(to, EtherType::IPV4, &packets(from, target, IpProtocol::ICMP, &message, 65_528, 7)[0])
}

/// What the storm has of a place's: to all of the link, of this network and of another, for services, for life, for neighbours, of no known kind, and of IPv6's groups.
fn storm(place: usize, number: u32) -> Vec<u8> {
    let from = host(place, false, 20 + (number % 200) as u8);
    let IpAddr::V4(sender) = from else { unreachable!("it is of IPv4") };
    let all = Mac::BROADCAST;
    let to = |text: &str, port: u16| SocketAddr::new(ip(text), port);
    match number % 9 {
        0 => udp(all, SocketAddr::new(from, 137), SocketAddr::new(host(place, false, 255), 137), b"storm"),
        1 => udp(all, SocketAddr::new(from, 5000), to("255.255.255.255", 5000), b"storm"),
        2 => udp(all, SocketAddr::new(from, 5000), SocketAddr::new(host(3, false, 255), 5000), b"storm"),
        3 => asks_for_life(all, from, host(place, false, 255)),
        4 => asks_for_life(all, from, ip("255.255.255.255")),
        5 => question(sender, Ipv4Addr::new(10, place as u8, 0, 250)),
        6 => [&ethernet(all, EtherType::ARP, &[])[..12], &[0x88, 0xb5], &[7; 60]].concat(),
        // A packet for another host, and for us, that comes to all of the link.
        7 => udp(all, SocketAddr::new(from, 5000), SocketAddr::new(host(3, false, 9), 5000), b"storm"),
        _ => udp(Mac([0x33, 0x33, 0, 0, 0, 1]), to("fe80::7", 5000), to("ff02::1", 5000), b"storm"),
    }
}

/// An honest host of each place asks us for life, and sends to the next place's: what has come of both.
fn honest(gateway: &mut Gateway, v6: bool) -> (usize, usize) {
    let (mut answered, mut forwarded) = (0, 0);
    for (place, (port, tags)) in PLACES.into_iter().enumerate() {
        let next = (place + 1) % PLACES.len();
        let life = asks_for_life(gateway.mac(port), host(place, false, 9), host(place, false, 1));
        let through = datagram(gateway, place, (host(place, v6, 9), host(next, v6, 9)), 100);
        gateway.send(port, tags, &life);
        gateway.send(port, tags, &through);
        let at = |came: &Came, place: usize| (came.port, came.tags) == PLACES[place];
        let came = gateway.hear();
        let his = |came: &&Came, place: usize| {
            let mac = gateway.hosts.iter().find(|one| one.addresses.contains(&host(place, false, 9))).map(|one| one.mac);
            at(came, place) && Some(came.to()) == mac
        };
        answered += came.iter().filter(|one| his(one, place) && one.packet()[9] == 1 && one.packet()[20] == 0).count();
        forwarded += came.iter().filter(|one| his(one, next) && one.packet() == one_hop_less(&through[14..])).count();
    }
    (answered, forwarded)
}

/// A loop of switches, or a host that is ill: nothing of it is answered or goes on (RFC 1122, section 3.2.2.6; RFC 2644), and who is honest is served.
#[test]
fn a_storm_of_broadcasts_stops_nobody() {
    let mut gateway = open(&routed(four()));
    assert_eq!(honest(&mut gateway, false), (4, 4));
    for round in 0..60_u32 {
        for (place, (port, tags)) in PLACES.into_iter().enumerate().take(2) {
            (0..45).for_each(|number| gateway.send(port, tags, &storm(place, round * 45 + number)));
        }
        let before = gateway.stack.counts().forwarded;
        let answers = gateway.hear();
        assert!(answers.is_empty(), "round {round}: {answers:02x?}");
        assert_eq!(gateway.stack.counts().forwarded, before, "nothing of it goes on");
        assert_eq!(honest(&mut gateway, round % 2 == 0), (4, 4), "round {round}");
    }
    assert!(gateway.memories.iter().all(|memory| memory.counts().held == 0), "nothing is kept");
}

/// What a flood at the first place says of neighbours: who asks for us, who has an address that nobody asked for, both of each family, and packets for hosts that are not there.
fn flood(gateway: &Gateway, number: u32) -> (usize, Vec<u8>) {
    let (to, [_, _, a, b]) = (gateway.mac(0), number.to_be_bytes());
    let mac = Mac([2, 66, 0, 0, a, b]);
    let (v4, v6) = (Ipv4Addr::new(10, 0, 0, 20 + (number % 230) as u8), Ipv6Addr::new(0xfd00, 0, 0, 0, 7, 7, 7, number as u16));
    let from = |mut frame: Vec<u8>| {
        frame[6..12].copy_from_slice(&mac.0);
        frame
    };
    match number % 6 {
        0 => (0, arp_of(mac, Operation::Request, Mac::BROADCAST, v4, Ipv4Addr::new(10, 0, 0, 1))),
        1 => (0, arp_of(mac, Operation::Reply, to, v4, Ipv4Addr::new(10, 0, 0, 1))),
        2 => (0, from(frames::advertisement(to, v6, mac, false))),
        3 => (0, from(frames::advertisement(to, v6, mac, true))),
        4 => (1, datagram(gateway, 1, (host(1, false, 9), v4.into()), 60)),
        _ => (1, datagram(gateway, 1, (host(1, true, 9), v6.into()), 60)),
    }
}

/// Each VLAN has its part of what is kept of neighbours: a flood at one fills no other's, and pushes nobody out who was there.
#[test]
fn a_flood_of_words_of_neighbours_leaves_honest_ones_and_other_vlans_alone() {
    let mut gateway = open(&routed(four()));
    for v6 in [false, true] {
        assert_eq!(honest(&mut gateway, v6), (4, 4));
    }
    let known: Vec<_> = gateway.stack.view().neighbours().collect();
    for round in 0..60_u32 {
        for number in 0..60 {
            let (place, frame) = flood(&gateway, round * 60 + number);
            let (port, tags) = PLACES[place];
            gateway.send(port, tags, &frame);
        }
        gateway.hear();
        let now: Vec<_> = gateway.stack.view().neighbours().collect();
        for (interface, ((known, _), (now, asked))) in known.iter().zip(now).enumerate() {
            // The first place is interface 1. Who has asked there and is sent something is known.
            let (most, waits) = if interface == 1 { (KNOWN_MAX, ASKED_MAX) } else { (*known, 0) };
            assert!((*known..=most).contains(&now) && asked <= waits, "{interface}: {now} {asked}");
        }
        assert_eq!(honest(&mut gateway, round % 2 == 0), (4, 4), "round {round}");
    }
    // Who comes new to another VLAN meanwhile is found at once.
    gateway.host(PLACES[1].0, PLACES[1].1, &["10.1.0.77"]);
    let frame = datagram(&gateway, 2, (host(2, false, 9), ip("10.1.0.77")), 100);
    let came = gateway.ask(PLACES[2].0, PLACES[2].1, &frame);
    assert_eq!(came.iter().filter(|came| came.tags == PLACES[1].1 && came.packet() == one_hop_less(&frame[14..])).count(), 1);
}
