//! Whatever arrives, the stack goes on: nothing panics, nothing is kept, and honest questions are answered.

use crate::alone::Alone;
use crate::frames::{self, STACK, STACK_V6, TEST, TEST_V6, arp, echo, ethernet, packets, udp, udp_in};
use corelane_sim::Random;
use corelane_stack::Drop;
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::{EtherType, IpProtocol};
use std::net::{IpAddr, SocketAddr};
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
