//! Row F-08: what comes in tunnels is opened where it arrived, and served by the lane of the inner flow.

use crate::alone::Alone;
use crate::forwarding::{ask, datagram, four, host, open, routed};
use crate::frames::{self, STACK, STACK_V6, TEST, TEST_V6, addresses, ethernet, packets, udp, udp_in, written};
use crate::lanes::{ADDRESSES, flow, hear, mac, meet, payload, plan};
use crate::presence::query;
use crate::program::{Card, Plan, Program};
use corelane_sim::{WireFaults, for_seeds};
use corelane_stack::{Drop, Settings, Tunnel};
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::{EtherType, IpProtocol, gre, udp as udp_format, vxlan};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const ENDS: (IpAddr, IpAddr) = (IpAddr::V4(TEST), IpAddr::V4(STACK));
const ENDS_V6: (IpAddr, IpAddr) = (IpAddr::V6(TEST_V6), IpAddr::V6(STACK_V6));

fn with_all(settings: Settings) -> Settings {
    Tunnel::ALL.into_iter().fold(settings, opened_for_all)
}

fn opened_for_all(settings: Settings, tunnel: Tunnel) -> Settings {
    settings.with_tunnel(tunnel, [0; 4].into(), 0).with_tunnel(tunnel, [0_u16; 8].into(), 0)
}

/// Puts a frame (its packet, for those that carry no frames) into a tunnel; as frames, in fragments of at most `part` bytes. None where the tunnel
/// carries no such packet.
fn into_tunnel(tunnel: Tunnel, frame: &[u8], ends: (IpAddr, IpAddr), part: usize, name: u16) -> Option<Vec<Vec<u8>>> {
    let (mac, kind, packet) =
        (Mac(*frame.first_chunk().unwrap()), EtherType::new(u16::from_be_bytes([frame[12], frame[13]])).unwrap(), &frame[14..]);
    let (protocol, body) = match tunnel {
        Tunnel::IpInIp if kind == EtherType::IPV4 => (IpProtocol::IPV4, packet.to_vec()),
        Tunnel::Ipv6InIp if kind == EtherType::IPV6 => (IpProtocol::IPV6, packet.to_vec()),
        Tunnel::IpInIp | Tunnel::Ipv6InIp => return None,
        Tunnel::Gre => {
            // With a frame, or with a packet, by its name.
            let (protocol, carried) = if name.is_multiple_of(2) { (EtherType::ETHERNET, frame) } else { (kind, packet) };
            let header = gre::Header {
                has_checksum: name.is_multiple_of(3),
                key: name.is_multiple_of(5).then_some(7),
                sequence: None,
                protocol,
            };
            let body = written(16 + carried.len(), |writer| {
                header.emit(carried, writer)?;
                writer.put(carried)
            });
            (IpProtocol::GRE, body)
        }
        Tunnel::Vxlan => {
            let payload = written(8 + frame.len(), |writer| {
                vxlan::Header { network: vxlan::Network::new(42)? }.emit(writer)?;
                writer.put(frame)
            });
            let body = written(8 + payload.len(), |writer| {
                let header = udp_format::Header { source: 50_000 + name % 100, destination: vxlan::PORT };
                header.emit(&addresses(ends.0, ends.1), &payload, writer)?;
                writer.put(&payload)
            });
            (IpProtocol::UDP, body)
        }
    };
    let outer = if ends.0.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let packets = packets(ends.0, ends.1, protocol, &body, part, name);
    Some(packets.iter().map(|packet| ethernet(mac, outer, packet)).collect())
}

fn opened(program: &Program, lane: usize) -> u64 {
    Tunnel::ALL.iter().map(|tunnel| program.counts(lane).of_tunnel(*tunnel).opened).sum()
}

/// All of a tunnel is one flow outside, which a card brings to one lane.
#[test]
fn f_08_inner_packets_go_to_the_lanes_of_their_own_flows_in_order() {
    for (tunnel, v6) in Tunnel::ALL.into_iter().flat_map(|tunnel| [(tunnel, false), (tunnel, true)]) {
        let mut program = Program::new(&Plan { change: with_all, ..plan(4, 3) }, &ADDRESSES);
        meet(&mut program);
        let (mac, mut heard) = (mac(&program), BTreeMap::new());
        let is_inner_v6 = match tunnel {
            Tunnel::IpInIp => |_| false,
            Tunnel::Ipv6InIp => |_| true,
            Tunnel::Gre | Tunnel::Vxlan => |source: u16| source % 2 == 1,
        };
        let ends = if v6 { ENDS_V6 } else { ENDS };
        for number in 0..30 {
            for source in 0..16 {
                let (from, to) = flow(source, is_inner_v6(source));
                let inner = udp_in(mac, from, to, &payload(number, 300), 1400, 0).remove(0);
                // One source outside, whatever is inside.
                let frames = into_tunnel(tunnel, &inner, ends, 1400, 200).unwrap();
                frames.iter().for_each(|frame| program.test.send(frame));
            }
            program.pass(500_000);
            hear(&mut program, &mut heard);
        }
        program.pass(20_000_000);
        hear(&mut program, &mut heard);
        assert!(
            heard.len() == 16 && heard.values().all(|numbers| *numbers == (0..30).collect::<Vec<_>>()),
            "{tunnel:?} {heard:?}"
        );
        let received: Vec<u64> = (0..4).map(|lane| opened(&program, lane)).collect();
        assert_eq!(received.iter().filter(|opened| **opened > 0).count(), 1, "one lane opens all: {received:?}");
        assert_eq!(received.iter().sum::<u64>(), 480);
        assert!((0..4).all(|lane| program.counts(lane).datagrams_in > 0), "each lane serves its flows");
        program.all_is_told();
        program.close();
    }
}

/// Fragments outside are put together first, fragments inside afterwards.
#[test]
fn f_08_fragments_of_and_in_tunnels_are_opened_and_put_together() {
    let mut program = Program::new(&Plan { change: with_all, ..plan(4, 5) }, &ADDRESSES);
    meet(&mut program);
    let (mac, mut heard) = (mac(&program), BTreeMap::new());
    for number in 0..20_u32 {
        for source in 0..8 {
            let (from, to) = flow(source, source % 2 == 1);
            let name = (number * 8) as u16 + source;
            let part = if source % 4 < 2 { 400 } else { 1400 };
            for inner in udp_in(mac, from, to, &payload(number, 1200), part, name) {
                let tunnel = if number % 2 == 0 { Tunnel::Gre } else { Tunnel::Vxlan };
                let outer = into_tunnel(tunnel, &inner, ENDS, if number % 3 == 0 { 600 } else { 1480 }, 3 + 6 * name).unwrap();
                outer.iter().for_each(|frame| program.test.send(frame));
                program.pass(10_000);
            }
        }
        program.pass(2_000_000);
        hear(&mut program, &mut heard);
    }
    program.pass(20_000_000);
    hear(&mut program, &mut heard);
    assert!(heard.len() == 8 && heard.values().all(|numbers| *numbers == (0..20).collect::<Vec<_>>()), "{heard:?}");
    program.close();
}

/// All that wires do: nothing is lost that the wire did not lose, and all memory comes home.
#[test]
fn f_08_tunnels_on_bad_wires_end_clean() {
    let (mut dropped, mut taken_out) = (0, 0);
    for_seeds(12, |seed| {
        let card = [Card::Aligned, Card::Scattered, Card::Plain][seed as usize % 3];
        let wire = WireFaults { down: 2, ..WireFaults::all(60) };
        let mut program = Program::new(&Plan { card, wire, change: with_all, ..plan(1 + seed as usize % 4, seed) }, &ADDRESSES);
        meet(&mut program);
        let (mac, mut heard) = (mac(&program), BTreeMap::new());
        for number in 0..40_u32 {
            for source in 0..6 {
                let (from, to) = flow(source, source % 2 == 1);
                let inner = udp_in(mac, from, to, &payload(number, 900), 1400, 0).remove(0);
                let tunnel = Tunnel::ALL[(number as usize + usize::from(source)) % 4];
                let name = (number * 6) as u16 + source;
                let frames = into_tunnel(tunnel, &inner, ENDS, if number % 3 == 0 { 496 } else { 1480 }, name);
                frames.iter().flatten().for_each(|frame| program.test.send(frame));
            }
            program.pass(500_000);
            hear(&mut program, &mut heard);
        }
        let lanes = program.lanes.len();
        let all = |of: fn(&corelane_stack::TunnelCounts) -> u64| -> u64 {
            let each = (0..lanes).flat_map(|lane| Tunnel::ALL.map(|tunnel| program.counts(lane).of_tunnel(tunnel)));
            each.map(|counts| of(&counts)).sum()
        };
        (dropped, taken_out) = (dropped + all(|counts| counts.dropped), taken_out + all(|counts| counts.opened));
        program.pass(60_000_000_000);
        program.close();
    });
    assert!(dropped > 0 && taken_out > 500, "{dropped} dropped, {taken_out} opened");
}

/// A stack that opens all tunnels, a socket on it, and who asks.
fn alone() -> (Alone, corelane_seam::Socket, SocketAddr) {
    let mut alone = Alone::with(with_all);
    alone.meet();
    let (socket, local) = alone.bind(STACK, 60_007, None);
    (alone, socket, local)
}

fn question(alone: &Alone, to: SocketAddr) -> Vec<u8> {
    let from: IpAddr = if to.is_ipv4() { TEST.into() } else { TEST_V6.into() };
    udp(alone.mac(), SocketAddr::new(from, 7), to, &[9; 64])
}

/// As [`alone`], with a socket at an address that packets in such a tunnel may be for, and the ends of the tunnel.
fn alone_with(tunnel: Tunnel) -> (Alone, corelane_seam::Socket, SocketAddr, (IpAddr, IpAddr)) {
    let (mut alone, socket, local) = alone();
    if tunnel != Tunnel::Ipv6InIp {
        return (alone, socket, local, ENDS);
    }
    let (socket, local) = alone.bind(STACK_V6, 60_007, None);
    // So that tunnels nest: IPv6 in IPv6.
    (alone, socket, local, ENDS_V6)
}

#[test]
fn f_08_tunnels_in_tunnels_are_opened_four_deep_and_no_deeper() {
    for deep in [1, 2, 4, 5, 32] {
        for tunnel in Tunnel::ALL {
            let (mut alone, socket, local, ends) = alone_with(tunnel);
            let mut frame = question(&alone, local);
            for _ in 0..deep {
                frame = into_tunnel(tunnel, &frame, ends, 65_000, 1).unwrap().remove(0);
            }
            assert!(frame.len() < 2000, "{deep} {tunnel:?}: {}", frame.len());
            alone.test.send(&frame);
            let came = alone.receive(socket).len();
            let counts = *alone.stack.counts();
            assert_eq!((came, counts.of(Drop::Nest)), if deep <= 4 { (1, 0) } else { (0, 1) }, "{deep} {tunnel:?}");
            assert_eq!(counts.of_tunnel(tunnel).opened, deep.min(4));
        }
    }
}

#[test]
fn f_08_what_is_not_named_is_not_opened() {
    let mut alone = Alone::with(|settings| opened_for_all(settings, Tunnel::Gre));
    alone.meet();
    let (socket, local) = alone.bind(STACK, 60_007, None);
    let inner = question(&alone, local);
    for (tunnel, came) in [(Tunnel::IpInIp, 0), (Tunnel::Vxlan, 0), (Tunnel::Gre, 1)] {
        into_tunnel(tunnel, &inner, ENDS, 1480, 1).unwrap().iter().for_each(|frame| alone.test.send(frame));
        assert_eq!(alone.receive(socket).len(), came, "{tunnel:?}");
    }
    let counts = *alone.stack.counts();
    assert_eq!((counts.of(Drop::Port), counts.of(Drop::Protocol)), (1, 1), "VXLAN's port has no socket, IP in IP nobody");
}

/// Tunnels are opened for their peers: a packet of anybody else goes no further (RFC 4213, section 3.6).
#[test]
fn f_08_strangers_send_nothing_through_tunnels() {
    for tunnel in Tunnel::ALL {
        let peers = |settings: Settings| {
            settings.with_tunnel(tunnel, "10.0.0.8".parse().unwrap(), 31).with_tunnel(tunnel, "fd00::8".parse().unwrap(), 125)
        };
        let mut alone = Alone::with(peers);
        alone.meet();
        let to = if tunnel == Tunnel::Ipv6InIp { IpAddr::from(STACK_V6) } else { STACK.into() };
        let (socket, local) = alone.bind(to, 60_007, None);
        let inner = question(&alone, local);
        for (from, came) in [("10.0.0.8", 1), ("10.0.0.9", 1), ("10.0.0.10", 0), ("fd00::b", 1), ("fd00::10", 0)] {
            let from: IpAddr = from.parse().unwrap();
            let ends = (from, if from.is_ipv4() { STACK.into() } else { STACK_V6.into() });
            let before = (alone.stack.counts().of(Drop::NotOurs), alone.stack.counts().of_tunnel(tunnel).dropped);
            into_tunnel(tunnel, &inner, ends, 1480, 1).unwrap().iter().for_each(|frame| alone.test.send(frame));
            assert_eq!(alone.receive(socket).len(), came, "{tunnel:?} {from}");
            let after = (alone.stack.counts().of(Drop::NotOurs), alone.stack.counts().of_tunnel(tunnel).dropped);
            assert_eq!(after.0 - before.0 + after.1 - before.1, 2 - 2 * came as u64, "{tunnel:?} {from}");
        }
        assert!(alone.test.take().is_empty());
    }
}

/// A peer who is let through a tunnel speaks to us alone: a gateway sends nothing of it on, to nobody.
#[test]
fn f_08_a_gateway_forwards_nothing_that_came_in_a_tunnel() {
    for tunnel in Tunnel::ALL {
        let mut gateway = open(&with_all(routed(four())));
        let v6 = tunnel == Tunnel::Ipv6InIp;
        let inner = datagram(&gateway, 0, (host(0, v6, 9), host(1, v6, 9)), 100);
        assert_eq!(ask(&mut gateway, 0, &inner).len(), 1, "{tunnel:?}: by itself it goes on");
        let ends = (host(0, false, 9), host(0, false, 1));
        let outer = into_tunnel(tunnel, &inner, ends, 1480, 1).unwrap().remove(0);
        gateway.told.ways.borrow_mut().clear();
        assert!(ask(&mut gateway, 0, &outer).is_empty(), "{tunnel:?}");
        let counts = gateway.stack.counts();
        assert_eq!(
            (counts.forwarded, counts.of_tunnel(tunnel).opened, counts.of_tunnel(tunnel).dropped),
            (1, 0, 1),
            "{tunnel:?}"
        );
        assert_eq!(gateway.told.ways.take(), []);
    }
}

/// Neither a question nor an answer of neighbours is believed or answered within a tunnel, though it says that it has passed no router.
#[test]
fn f_08_nothing_within_a_tunnel_speaks_for_the_link() {
    for tunnel in [Tunnel::Gre, Tunnel::Ipv6InIp, Tunnel::Vxlan] {
        let (mut alone, socket, local, ends) = alone_with(tunnel);
        let (socket, local) = if local.is_ipv4() { alone.bind(STACK_V6, 60_009, None) } else { (socket, local) };
        let peer = SocketAddr::new(TEST_V6.into(), 7);
        assert_eq!(alone.send(socket, peer, b"before"), (1, 0));
        assert!(alone.test.take().iter().any(|frame| frame[..6] == frames::TEST_MAC.0));
        let forged = frames::advertisement(alone.mac(), TEST_V6, Mac([2, 0, 0, 0, 0, 66]), true);
        for mut inner in [forged, frames::solicitation(STACK_V6, 255)] {
            inner[..6].copy_from_slice(&alone.mac().0);
            let before = alone.stack.counts().of_tunnel(tunnel).opened;
            into_tunnel(tunnel, &inner, ends, 1480, 1).unwrap().iter().for_each(|frame| alone.test.send(frame));
            alone.settle();
            assert_eq!(alone.stack.counts().of_tunnel(tunnel).opened, before + 1, "{tunnel:?}: it was looked at");
            assert!(alone.test.take().is_empty(), "{tunnel:?}");
        }
        alone.world.pass(std::time::Duration::from_secs(2));
        assert_eq!(alone.send(socket, peer, b"after"), (1, 0));
        assert!(alone.test.take().iter().all(|frame| frame[..6] == frames::TEST_MAC.0), "{tunnel:?}: {local}");
    }
}

/// The same of ARP, in tunnels that carry frames, and in GRE that names it.
#[test]
fn f_08_no_arp_within_a_tunnel_is_believed_or_answered() {
    for (tunnel, name) in [(Tunnel::Gre, 2), (Tunnel::Gre, 1), (Tunnel::Vxlan, 2)] {
        let (mut alone, socket, _, ends) = alone_with(tunnel);
        let peer = SocketAddr::new(TEST.into(), 7);
        assert_eq!(alone.send(socket, peer, b"before"), (1, 0));
        assert!(alone.test.take().iter().any(|frame| frame[..6] == frames::TEST_MAC.0));
        let mut forged = frames::arp(Operation::Reply, alone.mac(), TEST, STACK);
        forged[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 66]);
        for inner in [forged, frames::arp(Operation::Request, alone.mac(), TEST, STACK)] {
            let before = alone.stack.counts().of_tunnel(tunnel).dropped;
            into_tunnel(tunnel, &inner, ends, 1480, name).unwrap().iter().for_each(|frame| alone.test.send(frame));
            alone.settle();
            assert_eq!(alone.stack.counts().of_tunnel(tunnel).dropped, before + 1, "{tunnel:?} {name}: it was looked at");
            assert!(alone.test.take().is_empty(), "{tunnel:?} {name}");
        }
        alone.world.pass(std::time::Duration::from_secs(2));
        assert_eq!(alone.send(socket, peer, b"after"), (1, 0));
        assert!(alone.test.take().iter().all(|frame| frame[..6] == frames::TEST_MAC.0), "{tunnel:?} {name}");
    }
}

/// Whoever listens says so to switches of his link alone (RFC 3810, section 6.2).
#[test]
fn f_08_a_query_for_listeners_within_a_tunnel_is_not_answered() {
    for tunnel in [Tunnel::Gre, Tunnel::Ipv6InIp, Tunnel::Vxlan] {
        let (mut alone, _, _, ends) = alone_with(tunnel);
        let mut query = query("fe80::1".parse().unwrap(), 1, true, Ipv6Addr::UNSPECIFIED, 28);
        query[..6].copy_from_slice(&alone.mac().0);
        into_tunnel(tunnel, &query, ends, 1480, 1).unwrap().iter().for_each(|frame| alone.test.send(frame));
        alone.settle();
        assert_eq!(alone.stack.counts().of_tunnel(tunnel).opened, 1, "{tunnel:?}: it was looked at");
        alone.world.pass(std::time::Duration::from_secs(2));
        alone.settle();
        assert!(alone.test.take().is_empty(), "{tunnel:?}");
        alone.test.send(&query);
        alone.settle();
        alone.world.pass(std::time::Duration::from_secs(2));
        alone.settle();
        assert_eq!(alone.test.take().iter().map(|frame| frame[62]).collect::<Vec<_>>(), [143], "from the link it is");
    }
}

/// Own addresses as the source, outside or within, are a loop or a lie.
#[test]
fn f_08_own_addresses_send_nothing_through_tunnels() {
    for tunnel in Tunnel::ALL {
        let (mut alone, socket, local, ends) = alone_with(tunnel);
        let honest = question(&alone, local);
        let own = udp(alone.mac(), SocketAddr::new(local.ip(), 7), local, &[9; 64]);
        let stranger = if local.is_ipv4() { "10.0.0.77:60007" } else { "[2001:db8:0:7::77]:60007" };
        let other = question(&alone, stranger.parse().unwrap());
        for (inner, ends) in [(&honest, (ends.1, ends.1)), (&own, ends), (&other, ends)] {
            let before = alone.stack.counts().of(Drop::NotOurs);
            into_tunnel(tunnel, inner, ends, 1480, 1).unwrap().iter().for_each(|frame| alone.test.send(frame));
            assert_eq!(alone.receive(socket).len(), 0, "{tunnel:?}");
            assert_eq!(alone.stack.counts().of(Drop::NotOurs), before + 1, "{tunnel:?} {ends:?}");
        }
    }
}

/// Every truncation within, outside as well, and each length that lies: nothing panics, and honest packets pass afterwards.
#[test]
fn f_08_truncations_and_lying_lengths_within_tunnels_are_survived() {
    for tunnel in Tunnel::ALL {
        let (mut alone, socket, local, ends) = alone_with(tunnel);
        let inner = question(&alone, local);
        for length in 14..inner.len() {
            into_tunnel(tunnel, &inner[..length], ends, 1480, 1).unwrap().iter().for_each(|frame| alone.test.send(frame));
            let whole = into_tunnel(tunnel, &inner, ends, 1480, length as u16).unwrap().remove(0);
            alone.test.send(&whole[..length]);
            // Each byte of the headers, outside and within, as what it cannot be.
            for lie in [0, 0xff] {
                let mut lying = whole.clone();
                lying[length] = lie;
                alone.test.send(&lying);
            }
            alone.settle();
        }
        alone.receive(socket);
        let honest = into_tunnel(tunnel, &inner, ends, 1480, 2).unwrap().remove(0);
        alone.test.send(&honest);
        assert_eq!(alone.receive(socket).len(), 1, "{tunnel:?}");
        let counts = alone.stack.counts().of_tunnel(tunnel);
        assert!(counts.opened > 0 && counts.dropped > 40, "{tunnel:?} {counts:?}");
    }
}
