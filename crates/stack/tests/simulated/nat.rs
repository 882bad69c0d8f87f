//! Addresses are translated on a packet's way: out and home, forwards, fragments, and what senders hear in the addresses that they know.

use crate::forwarded::{changed, told, with_options};
use crate::forwarding::{NARROW, PLACES, ask, datagram as frame_of, four, host, open, routed};
use crate::frames::{Datagram, datagram, ethernet, packets, udp_in, written};
use crate::gateway::{Came, Gateway, ip};
use crate::rules::{compiled, counted, segment};
use corelane_nat::{Forward, Settings as Nat};
use corelane_rss::Transport;
use corelane_seam::{Address, Bind, Driver};
use corelane_sim::CardSetup;
use corelane_stack::{Drop, Error, NatSettings, Settings};
use corelane_wire::packet::icmp::{Code, Echo, Message};
use corelane_wire::packet::tcp::{self, Flags};
use corelane_wire::packet::{EtherType, IpProtocol, Network, Packet, UpperLayer};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The outside interface is behind the last place; hosts at the others are inside.
const OUTSIDE: usize = 4;
pub const EXTERNAL: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 1);
/// Port 8080 outside, and 80 of a host at the second place.
pub const FORWARDED: (u16, u16) = (8080, 80);

fn nat() -> Nat {
    let mut nat = Nat::new(EXTERNAL);
    nat.forwards = [Transport::Udp, Transport::Tcp]
        .map(|transport| Forward {
            transport,
            external: EXTERNAL,
            ports: FORWARDED.0..=FORWARDED.0,
            inside: Ipv4Addr::new(10, 1, 0, 9),
            inside_port: FORWARDED.1,
        })
        .into();
    nat
}

pub fn translating() -> Settings {
    routed(four()).with_nat(NatSettings { interfaces: vec![OUTSIDE], settings: nat() })
}

fn end(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

/// A host inside, and one outside.
fn inside() -> SocketAddr {
    end(host(0, false, 9), 4000)
}

fn outside() -> SocketAddr {
    end(ip("192.0.2.77"), 53)
}

fn external(port: u16) -> SocketAddr {
    end(EXTERNAL.into(), port)
}

/// A datagram that somebody at a place sends.
fn udp(gateway: &Gateway, place: usize, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    udp_in(gateway.mac(PLACES[place].0), from, to, b"payload", 65_528, 7).remove(0)
}

/// The one datagram that came, at that place, its hops less by one.
fn came_at(came: &[Came], place: usize) -> Datagram {
    assert_eq!(came.len(), 1, "{came:?}");
    assert_eq!((came[0].port, came[0].tags, came[0].packet()[8]), (PLACES[place].0, PLACES[place].1, 63));
    datagram(&came[0].frame).unwrap()
}

/// Sends a datagram from one end to another; how it came at a place.
fn sends(gateway: &mut Gateway, (place, from, to): (usize, SocketAddr, SocketAddr), at: usize) -> Datagram {
    let frame = udp(gateway, place, from, to);
    let came = ask(gateway, place, &frame);
    let came = came_at(&came, at);
    assert_eq!(came.payload, b"payload");
    came
}

#[test]
fn what_leaves_has_our_address_and_its_answer_comes_home() {
    let set = "count udp from 10.0.0.9 4000 to 192.0.2.77 in via eth0.7
        count udp from 10.0.0.9 4000 to 192.0.2.77 out via eth1
        count udp from any to 10.3.0.1 in via eth1
        count udp from 192.0.2.77 53 to 10.0.0.9 4000 out via eth0.7 recv eth1
        count udp from any to me
        count udp from me to any";
    let mut gateway = open(&translating().with_rules(compiled(set)));
    let left = sends(&mut gateway, (0, inside(), outside()), 3);
    assert_eq!((left.from.ip(), left.to), (IpAddr::V4(EXTERNAL), outside()));
    let home = sends(&mut gateway, (3, outside(), left.from), 0);
    assert_eq!((home.from, home.to), (outside(), inside()));
    // Rules see addresses of inside hosts at the inside, and where these are known.
    assert_eq!(counted(&gateway).iter().map(|count| count.0).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 0]);
    let view = gateway.stack.view();
    assert_eq!((view.nat().unwrap().translated, view.nat_in_use()), (2, Some((1, 1))));
    // From inside to inside, and of IPv6, nothing is translated.
    let beside = sends(&mut gateway, (0, inside(), end(host(1, false, 9), 7)), 1);
    assert_eq!(beside.from, inside());
    let v6 = sends_v6(&mut gateway);
    assert_eq!(v6.from, end(host(0, true, 9), 4000));
    let traffic = [1, OUTSIDE].map(|interface| gateway.stack.traffic(interface).unwrap());
    assert_eq!(traffic.map(|one| (one.packets_in, one.packets_out)), [(3, 1), (1, 2)]);
    assert_eq!(gateway.stack.counts().dropped(), 0);
}

fn sends_v6(gateway: &mut Gateway) -> Datagram {
    let frame = udp(gateway, 0, end(host(0, true, 9), 4000), end(host(3, true, 9), 7));
    let came = ask(gateway, 0, &frame);
    datagram(&came[0].frame).unwrap()
}

#[test]
fn nobody_from_outside_comes_in_without_a_session_and_services_of_ours_answer() {
    let mut gateway = open(&translating());
    let left = sends(&mut gateway, (0, inside(), outside()), 3);
    // Another peer, at that port, and another port: both are for us, where nobody has the port.
    for (from, to) in [(end(ip("192.0.2.78"), 53), left.from), (outside(), external(left.from.port() ^ 1))] {
        let frame = udp(&gateway, 3, from, to);
        let came = ask(&mut gateway, 3, &frame);
        assert_eq!((came.len(), came[0].port, came[0].packet()[9]), (1, 1, 1), "{from} {to}");
        assert_eq!(came[0].packet()[20..22], [3, 3]);
    }
    let echo = |gateway: &Gateway, place: usize, from: IpAddr| {
        let message =
            written(12, |writer| Message::EchoRequest(Echo { identification: 7, sequence: 9, data: b"ping" }).emit(writer));
        let packet = packets(from, EXTERNAL.into(), IpProtocol::ICMP, &message, 65_528, 7).remove(0);
        ethernet(gateway.mac(PLACES[place].0), EtherType::IPV4, &packet)
    };
    for (place, from) in [(3, outside().ip()), (0, inside().ip())] {
        let frame = echo(&gateway, place, from);
        let came = ask(&mut gateway, place, &frame);
        assert_eq!((came.len(), came[0].port, came[0].packet()[20]), (1, PLACES[place].0, 0), "{from}");
    }
    assert_eq!(gateway.stack.counts().echoes, 2);
    // A socket at the outside address, at a port that could be given to an inside host, hears those from both sides.
    let bind = Bind {
        address: Address::from(external(60_007)),
        peer: None,
        share_port: false,
        v6_only: false,
        send_buffer_bytes: 0,
        receive_buffer_bytes: 1 << 16,
    };
    gateway.stack.bind(&bind).unwrap();
    for (place, from) in [(3, outside()), (0, inside())] {
        let frame = udp(&gateway, place, from, external(60_007));
        assert!(ask(&mut gateway, place, &frame).is_empty());
    }
    assert_eq!((gateway.stack.counts().datagrams_in, gateway.stack.counts().of(Drop::Translation)), (2, 0));
}

#[test]
fn forwards_lead_inside_from_outside_and_from_inside() {
    let mut gateway = open(&translating());
    let server = end(host(1, false, 9), FORWARDED.1);
    let came = sends(&mut gateway, (3, outside(), external(FORWARDED.0)), 1);
    assert_eq!((came.from, came.to), (outside(), server));
    let answer = sends(&mut gateway, (1, server, outside()), 3);
    assert_eq!((answer.from, answer.to), (external(FORWARDED.0), outside()));
    // RFC 4787, REQ-9: an inside host reaches it by the outside address, and is seen with that.
    let came = sends(&mut gateway, (0, inside(), external(FORWARDED.0)), 1);
    assert_eq!((came.from.ip(), came.to), (EXTERNAL.into(), server));
    let answer = sends(&mut gateway, (1, server, came.from), 0);
    assert_eq!((answer.from, answer.to), (external(FORWARDED.0), inside()));
    // At the inside host's own link as well.
    let beside = end(host(1, false, 254), 4000);
    let came = sends(&mut gateway, (1, beside, external(FORWARDED.0)), 1);
    let answer = sends(&mut gateway, (1, server, came.from), 1);
    assert_eq!((answer.from, answer.to), (external(FORWARDED.0), beside));
    assert_eq!(gateway.stack.counts().dropped(), 0);
}

/// Segments are translated with their checksum, and the longest that they ask for is held down as ever.
#[test]
fn connections_are_translated() {
    let mut gateway = open(&translating());
    let far = host(3, false, 9);
    let opens = segment(&gateway, 0, (inside().ip(), far), Flags::SYN);
    let came = ask(&mut gateway, 0, &opens);
    assert_eq!(came.len(), 1);
    let view = tcp::View::new(&came[0].packet()[20..]).unwrap();
    assert!(view.is_checksum_right(&crate::frames::addresses(EXTERNAL.into(), far)));
    assert_eq!(came[0].packet()[12..16], EXTERNAL.octets());
}

/// The data of fragments that came, in their order, each within the link's longest.
fn pieces(came: &[Came], most: usize) -> Vec<u8> {
    assert!(came.iter().all(|one| one.packet().len() <= most));
    crate::forwarding::together(came)
}

/// Only the whole has ports. It is cut again by what the next link carries, even if its sender wanted nobody to cut what he had cut himself.
#[test]
fn fragments_are_put_together_translated_and_cut_again() {
    for keeps_whole in [false, true] {
        let mut gateway = open(&translating());
        let mac = gateway.mac(0);
        let send_parts = |gateway: &mut Gateway, place: usize, from, to, bytes: usize| -> Vec<Came> {
            let parts = udp_in(mac, from, to, &vec![5; bytes], 1200, 7);
            let parts = parts.into_iter().map(|part| match keeps_whole {
                true => changed(&part, |packet| packet[6] |= 0x40),
                false => part,
            });
            let mac = gateway.mac(PLACES[place].0).0;
            parts
                .flat_map(|mut part| {
                    part[..6].copy_from_slice(&mac);
                    ask(gateway, place, &part)
                })
                .collect()
        };
        for bytes in [1300, 4000] {
            let came = send_parts(&mut gateway, 0, inside(), outside(), bytes);
            assert_eq!(came.len(), (bytes + 8).div_ceil(1480));
            let data = pieces(&came, 1500);
            let port = u16::from_be_bytes([data[0], data[1]]);
            assert_eq!((came[0].packet()[12..16].to_vec(), data.len()), (EXTERNAL.octets().to_vec(), bytes + 8));
            assert!(data[8..].iter().all(|byte| *byte == 5));
            let home = send_parts(&mut gateway, 3, outside(), external(port), bytes);
            let data = pieces(&home, 1500);
            assert_eq!(home[0].packet()[16..20], [10, 0, 0, 9]);
            assert_eq!((data[..4].to_vec(), data.len()), (vec![0, 53, 15, 160], bytes + 8));
            // And to a narrow link.
            let server = send_parts(&mut gateway, 3, outside(), external(FORWARDED.0), bytes);
            assert!(pieces(&server, NARROW).len() == bytes + 8 && server.len() > 1);
        }
        // Of fragments that go nowhere outside, none waits for another.
        let parts = udp_in(mac, inside(), end(host(1, false, 9), 7), &[5; 2000], 1000, 7);
        assert_eq!(ask(&mut gateway, 0, &parts[1]).len(), 1);
        assert_eq!(gateway.stack.counts().dropped(), 0);
    }
}

/// Of IPv6 nothing is translated, and no fragment waits for another.
#[test]
fn fragments_of_ipv6_go_on_one_by_one() {
    let mut gateway = open(&translating());
    let ends = [(0, 9, 4000), (3, 9, 7)].map(|(place, number, port)| end(host(place, true, number), port));
    for part in udp_in(gateway.mac(PLACES[0].0), ends[0], ends[1], &[5; 2000], 1000, 7) {
        assert_eq!(ask(&mut gateway, 0, &part).len(), 1);
    }
}

/// Who sends in another's name at another VLAN spoils nothing of his, be it for us or to be translated.
#[test]
fn fragments_of_another_vlan_spoil_nothing() {
    let echo = |v6: bool| {
        let (from, to, data) = (host(0, v6, 9), host(0, v6, 1), [5; 3000]);
        let echo = Echo { identification: 7, sequence: 9, data: &data };
        let (protocol, message) = match v6 {
            false => (IpProtocol::ICMP, written(3008, |writer| Message::EchoRequest(echo).emit(writer))),
            true => {
                let message = corelane_wire::packet::icmpv6::Message::EchoRequest(echo);
                (IpProtocol::ICMPV6, written(3008, |writer| message.emit(&crate::frames::addresses(from, to), writer)))
            }
        };
        packets(from, to, protocol, &message, 1200, 7)
    };
    let translated = || {
        let frames = udp_in(crate::frames::TEST_MAC, inside(), outside(), &[5; 3000], 1200, 7);
        frames.iter().map(|frame| frame[14..].to_vec()).collect()
    };
    for (parts, at) in [(echo(false), 0), (echo(true), 0), (translated(), 3)] {
        let kind = if parts[0][0] >> 4 == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let mut gateway = open(&translating());
        assert_eq!(parts.len(), 3);
        let mut came = Vec::new();
        for part in &parts {
            // The same part with other data, and first; never all of them.
            let length = part.len();
            let forged = [&part[..length - 64], &[0xee; 64]].concat();
            let is_last = std::ptr::eq(part, &parts[2]);
            for (place, packet) in [(1, &forged), (0, part)].into_iter().skip(usize::from(is_last)) {
                let frame = ethernet(gateway.mac(PLACES[place].0), kind, packet);
                came.extend(ask(&mut gateway, place, &frame).into_iter().filter(|one| (one.port, one.tags) == PLACES[at]));
            }
        }
        let data: Vec<u8> = came.iter().flat_map(|one| one.packet()[56..].to_vec()).collect();
        assert!(data.len() > 2800 && data.iter().all(|byte| *byte == 5), "{kind:?} {at}");
    }
}

/// What comes of a frame is an error to who is at a place, about that packet as he has sent it, which says what is wrong.
fn is_told(gateway: &mut Gateway, place: usize, frame: &[u8], what: (u8, u8, u32), from: IpAddr) {
    let came = ask(gateway, place, frame);
    let quoted = frame[14..].to_vec();
    let length = quoted.len().min(548);
    assert_eq!(told_at(&came, place, frame), (what, from, quoted[..length].to_vec()));
}

/// An error to whoever has sent a frame.
fn told_at(came: &[Came], place: usize, frame: &[u8]) -> ((u8, u8, u32), IpAddr, Vec<u8>) {
    assert_eq!(came.len(), 1, "{came:?}");
    assert_eq!((came[0].port, came[0].tags), PLACES[place]);
    let packet = Packet::of_frame(&came[0].frame).unwrap();
    let (Network::V4(view), UpperLayer::Icmp(message)) = (&packet.network, packet.transport) else { panic!("{came:?}") };
    assert!(view.is_checksum_right() && message.is_checksum_right());
    let header = view.header().unwrap();
    assert_eq!(header.destination.octets(), frame[26..30], "to who has sent it");
    let bytes = view.payload();
    ((bytes[0], bytes[1], u32::from_be_bytes(*bytes[4..].first_chunk().unwrap())), header.source.into(), bytes[8..].to_vec())
}

#[test]
fn errors_quote_what_their_receiver_has_sent() {
    let mut gateway = open(&translating());
    let last_hop = |frame: &[u8]| changed(frame, |packet| packet[8] = 1);
    // What leaves is told of before it is translated, what comes as it was before.
    let out = last_hop(&udp(&gateway, 0, inside(), outside()));
    is_told(&mut gateway, 0, &out, (11, 0, 0), host(0, false, 1));
    let left = sends(&mut gateway, (0, inside(), outside()), 3);
    let home = last_hop(&udp(&gateway, 3, outside(), left.from));
    is_told(&mut gateway, 3, &home, (11, 0, 0), EXTERNAL.into());
    let forwarded = last_hop(&udp(&gateway, 3, outside(), external(FORWARDED.0)));
    is_told(&mut gateway, 3, &forwarded, (11, 0, 0), EXTERNAL.into());
    // By way of the outside address an inside host hears of his own packet, too.
    let hairpin = last_hop(&udp(&gateway, 0, inside(), external(FORWARDED.0)));
    is_told(&mut gateway, 0, &hairpin, (11, 0, 0), EXTERNAL.into());
    let long = udp_in(gateway.mac(1), outside(), external(FORWARDED.0), &[3; 1400], 65_528, 7).remove(0);
    let long = changed(&long, |packet| packet[6] |= 0x40);
    is_told(&mut gateway, 3, &long, (3, 4, NARROW as u32), EXTERNAL.into());
}

#[test]
fn errors_of_rules_about_what_was_translated_say_the_same() {
    let set = "reject udp from any to 10.1.0.9 out
        reset tcp from any to 10.1.0.9 out
        unreach port udp from any to any out via eth1";
    let mut gateway = open(&translating().with_rules(compiled(set)));
    let forwarded = udp(&gateway, 3, outside(), external(FORWARDED.0));
    is_told(&mut gateway, 3, &forwarded, (3, 1, 0), EXTERNAL.into());
    let hairpin = udp(&gateway, 0, inside(), external(FORWARDED.0));
    is_told(&mut gateway, 0, &hairpin, (3, 1, 0), EXTERNAL.into());
    let out = udp(&gateway, 0, inside(), outside());
    is_told(&mut gateway, 0, &out, (3, 3, 0), host(0, false, 1));
    assert_eq!(gateway.stack.view().nat_in_use().unwrap().0, 1, "what rules keep back begins no session but the hairpin's");
    // A reset comes from the port that was meant.
    let far = host(3, false, 9);
    let opens = opens(&gateway, (3, far), FORWARDED.0);
    let came = ask(&mut gateway, 3, &opens);
    assert_eq!(came.len(), 1);
    let view = tcp::View::new(&came[0].packet()[20..]).unwrap();
    assert!(view.is_checksum_right(&crate::frames::addresses(EXTERNAL.into(), far)));
    let header = view.header().unwrap();
    assert_eq!((header.source, header.destination, header.flags), (FORWARDED.0, 4000, Flags::RST.with(Flags::ACK)));
    assert_eq!(came[0].packet()[12..16], EXTERNAL.octets());
}

/// An error that somebody at a place sends about a packet that came to him.
fn error_about(gateway: &Gateway, place: usize, from: IpAddr, packet: &[u8]) -> Vec<u8> {
    let to = Ipv4Addr::from(*packet[12..].first_chunk::<4>().unwrap());
    let message = Message::Unreachable { code: Code::new(3).unwrap(), packet };
    let message = written(8 + packet.len(), |writer| message.emit(writer));
    let packet = packets(from, to.into(), IpProtocol::ICMP, &message, 65_528, 7).remove(0);
    ethernet(gateway.mac(PLACES[place].0), EtherType::IPV4, &packet)
}

#[test]
fn errors_of_others_find_who_they_are_for() {
    let mut gateway = open(&translating());
    // From outside about what left, and from inside about what came.
    let sent = udp(&gateway, 0, inside(), outside());
    let left = ask(&mut gateway, 0, &sent).remove(0);
    let error = error_about(&gateway, 3, ip("198.51.100.1"), left.packet());
    let came = ask(&mut gateway, 3, &error);
    let (what, from, quoted) = told(&came, 0);
    assert_eq!((what, from), ((3, 3, 0), ip("198.51.100.1")));
    assert_eq!(quoted[12..24], sent[26..38], "both ends as he had them");
    let sent = udp(&gateway, 3, outside(), external(FORWARDED.0));
    let came = ask(&mut gateway, 3, &sent).remove(0);
    let error = error_about(&gateway, 1, host(1, false, 9), came.packet());
    let came = ask(&mut gateway, 1, &error);
    let ((kind, code, _), from, quoted) = told_at(&came, 3, &sent);
    assert_eq!((kind, code, from), (3, 3, EXTERNAL.into()), "no inside address leaves");
    assert_eq!(quoted[12..24], sent[26..38]);
    // By way of the outside address.
    let sent = udp(&gateway, 0, inside(), external(FORWARDED.0));
    let came = ask(&mut gateway, 0, &sent).remove(0);
    let error = error_about(&gateway, 1, host(1, false, 9), came.packet());
    let came = ask(&mut gateway, 1, &error);
    let ((kind, code, _), from, quoted) = told_at(&came, 0, &sent);
    assert_eq!((kind, code, from, came[0].packet()[8]), (3, 3, EXTERNAL.into(), 63));
    assert_eq!(quoted[12..24], sent[26..38]);
}

/// A neighbour who does not answer is told of to whom the packet was from, in the addresses that he knows.
#[test]
fn who_is_not_there_is_told_of_as_senders_know_him() {
    let mut gateway = open(&translating());
    let later = |gateway: &mut Gateway| {
        let mut came = Vec::new();
        for _ in 0..4 {
            gateway.world.pass(std::time::Duration::from_secs(1));
            came.extend(gateway.hear());
        }
        came
    };
    let sent = udp(&gateway, 0, inside(), end(host(3, false, 77), 7));
    assert!(ask(&mut gateway, 0, &sent).is_empty());
    let came = later(&mut gateway);
    let (what, _, quoted) = told_at(&came, 0, &sent);
    assert_eq!((what, &quoted[12..24]), ((3, 1, 0), &sent[26..38]));
    gateway.hosts.iter_mut().for_each(|host| host.addresses.retain(|address| *address != ip("10.1.0.9")));
    let sent = udp(&gateway, 3, outside(), external(FORWARDED.0));
    assert!(ask(&mut gateway, 3, &sent).is_empty());
    let came = later(&mut gateway);
    let (what, from, quoted) = told_at(&came, 3, &sent);
    assert_eq!((what, from, &quoted[12..24]), ((3, 1, 0), EXTERNAL.into(), &sent[26..38]));
}

/// The sum of the pseudo-header alone would be that of the addresses before.
#[test]
fn a_checksum_that_was_left_out_is_finished_before() {
    let cards =
        [CardSetup { leaves_sums: true, ..CardSetup::default() }, CardSetup { leaves_sums: true, ..CardSetup::default() }];
    let mut gateway = Gateway::new(&translating(), &cards, 256);
    gateway.host(PLACES[0].0, PLACES[0].1, &["10.0.0.9"]);
    gateway.host(PLACES[3].0, PLACES[3].1, &["10.3.0.254"]);
    let left_out = |gateway: &Gateway, place: usize, from: SocketAddr, to: SocketAddr| {
        let mut frame = udp(gateway, place, from, to);
        let pseudo = crate::frames::addresses(from.ip(), to.ip()).pseudo(IpProtocol::UDP, 15).unwrap();
        frame[40..42].copy_from_slice(&pseudo.partial().to_be_bytes());
        frame
    };
    let frame = left_out(&gateway, 0, inside(), outside());
    let left = ask(&mut gateway, 0, &frame);
    let left = came_at(&left, 3);
    let frame = left_out(&gateway, 3, outside(), left.from);
    let home = ask(&mut gateway, 3, &frame);
    assert_eq!(came_at(&home, 0).to, inside());
}

/// What cannot be translated does not leave: no inside address does.
#[test]
fn what_cannot_be_translated_stays() {
    let mut gateway = open(&translating());
    let packet = |protocol: IpProtocol, payload: &[u8]| {
        ethernet(gateway.mac(0), EtherType::IPV4, &packets(inside().ip(), outside().ip(), protocol, payload, 65_528, 7)[0])
    };
    let reply = written(12, |writer| Message::EchoReply(Echo { identification: 7, sequence: 9, data: b"ping" }).emit(writer));
    let frames = [packet(IpProtocol::GRE, &[0; 20]), packet(IpProtocol::ICMP, &reply), packet(IpProtocol::TCP, &[0; 8])];
    for frame in &frames {
        assert!(ask(&mut gateway, 0, frame).is_empty());
    }
    assert_eq!((gateway.stack.counts().of(Drop::Translation), gateway.stack.counts().forwarded), (3, 0));
    // An inside host that takes all it may keeps nobody else from his.
    for port in 1..=3000 {
        let frame = udp(&gateway, 0, end(inside().ip(), port), outside());
        gateway.send(PLACES[0].0, PLACES[0].1, &frame);
        if port % 50 == 0 {
            gateway.hear();
        }
    }
    let (sessions, ports) = gateway.stack.view().nat_in_use().unwrap();
    assert_eq!((sessions, ports, gateway.stack.counts().of(Drop::Translation)), (2048, 2048, 3 + 952));
    let left = sends(&mut gateway, (1, end(host(1, false, 9), 4000), outside()), 3);
    assert_eq!(left.from.ip(), EXTERNAL);
}

/// A packet of that protocol that somebody at a place sends to an address.
fn of_protocol(gateway: &Gateway, (place, from): (usize, IpAddr), to: IpAddr, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let packet = packets(from, to, protocol, payload, 65_528, 7).remove(0);
    ethernet(gateway.mac(PLACES[place].0), EtherType::IPV4, &packet)
}

/// A segment that opens a connection to a port of the external address.
fn opens(gateway: &Gateway, (place, from): (usize, IpAddr), to: u16) -> Vec<u8> {
    let mut frame = segment(gateway, place, (from, EXTERNAL.into()), Flags::SYN);
    frame[36..38].copy_from_slice(&to.to_be_bytes());
    frame[50..52].fill(0);
    let pseudo = crate::frames::addresses(from, EXTERNAL.into()).pseudo(IpProtocol::TCP, 20).unwrap();
    let sum = pseudo.and(&frame[34..54]).checksum();
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// From inside and from outside: what no session and no forward leads on from is for the gateway itself, which answers, and takes no session for it.
#[test]
fn what_nothing_leads_on_from_is_answered_by_the_gateway_itself() {
    for (place, from) in [(0, inside()), (3, end(host(3, false, 9), 4000))] {
        let mut gateway = open(&translating());
        for protocol in [IpProtocol::GRE, IpProtocol(41), IpProtocol(132), IpProtocol(50)] {
            let frame = of_protocol(&gateway, (place, from.ip()), EXTERNAL.into(), protocol, &[7; 40]);
            is_told(&mut gateway, place, &frame, (3, 2, 0), EXTERNAL.into());
        }
        for port in [7, 1024, 40_000, 65_535] {
            let frame = udp(&gateway, place, from, external(port));
            is_told(&mut gateway, place, &frame, (3, 3, 0), EXTERNAL.into());
            gateway.world.pass(std::time::Duration::from_secs(1));
            let frame = opens(&gateway, (place, from.ip()), port);
            let came = ask(&mut gateway, place, &frame);
            assert_eq!((came.len(), (came[0].port, came[0].tags)), (1, PLACES[place]), "{port}");
            let view = tcp::View::new(&came[0].packet()[20..]).unwrap();
            assert!(view.is_checksum_right(&crate::frames::addresses(EXTERNAL.into(), from.ip())));
            let header = view.header().unwrap();
            assert_eq!((header.source, header.destination, header.flags), (port, 4000, Flags::RST.with(Flags::ACK)));
        }
        // A datagram in pieces as well.
        let parts = udp_in(gateway.mac(PLACES[place].0), from, external(40_000), &[5; 3000], 1400, 9);
        let came: Vec<_> = parts.iter().flat_map(|part| ask(&mut gateway, place, part)).collect();
        assert_eq!((came.len(), &came[0].packet()[20..22]), (1, &[3, 3][..]));
        // Who asks for the time hears nothing, as of any host that does not tell it.
        let frame =
            of_protocol(&gateway, (place, from.ip()), EXTERNAL.into(), IpProtocol::ICMP, &[13, 0, 0xf2, 0xff, 0, 0, 0, 0]);
        assert!(ask(&mut gateway, place, &frame).is_empty());
        let counts = *gateway.stack.counts();
        assert_eq!((counts.of(Drop::Protocol), counts.of(Drop::Port), counts.of(Drop::Translation)), (8, 5, 0));
        assert_eq!(gateway.stack.view().nat_in_use(), Some((0, 0)));
        // Within the bound of errors.
        let (before, frame) = (counts.errors_out, udp(&gateway, place, from, external(40_000)));
        for _ in 0..20 {
            (0..50).for_each(|_| gateway.send(PLACES[place].0, PLACES[place].1, &frame));
            gateway.hear();
        }
        let counts = *gateway.stack.counts();
        assert_eq!(counts.of(Drop::Port), 1005, "each is counted");
        let told = counts.errors_out - before;
        assert!((55..200).contains(&told) && told + counts.errors_limited == 1000, "{counts:?}");
    }
}

/// RFC 5382, REQ-4: what opens a connection to an inside host's port, which has not sent there, may come a moment before his own.
#[test]
fn who_opens_a_connection_to_an_inside_hosts_port_is_not_answered() {
    let mut gateway = open(&translating());
    let stranger = host(3, false, 254);
    let left = segment(&gateway, 0, (inside().ip(), host(3, false, 9)), Flags::SYN);
    let came = ask(&mut gateway, 0, &left);
    let port = u16::from_be_bytes([came[0].packet()[20], came[0].packet()[21]]);
    let frame = opens(&gateway, (3, stranger), port);
    assert!(ask(&mut gateway, 3, &frame).is_empty());
    assert_eq!(gateway.stack.counts().of(Drop::Translation), 1);
    let frame = opens(&gateway, (3, stranger), port ^ 1);
    assert_eq!(ask(&mut gateway, 3, &frame).len(), 1);
}

/// Nobody is at an external address that is not our own where nothing leads inside: inside hosts hear so.
#[test]
fn inside_hosts_hear_that_nobody_is_at_an_external_address() {
    let beside = Ipv4Addr::new(10, 3, 0, 200);
    let mut gateway = open(&routed(four()).with_nat(NatSettings { interfaces: vec![OUTSIDE], settings: Nat::new(beside) }));
    let frame = udp(&gateway, 0, inside(), end(beside.into(), 40_000));
    is_told(&mut gateway, 0, &frame, (3, 1, 0), host(0, false, 1));
    let frame = of_protocol(&gateway, (0, inside().ip()), beside.into(), IpProtocol::GRE, &[7; 40]);
    is_told(&mut gateway, 0, &frame, (3, 1, 0), host(0, false, 1));
    assert_eq!((gateway.stack.counts().of(Drop::Translation), gateway.stack.view().nat_in_use()), (2, Some((0, 0))));
}

/// Only what comes by an interface that forwards goes on, translated or not.
#[test]
fn an_outside_interface_that_does_not_forward_brings_nothing_in() {
    let mut settings = translating();
    settings.interfaces[OUTSIDE].forwards = false;
    let mut gateway = open(&settings);
    let left = sends(&mut gateway, (0, inside(), outside()), 3);
    let frame = udp(&gateway, 3, outside(), left.from);
    let came = ask(&mut gateway, 3, &frame);
    assert_eq!((came.len(), gateway.stack.counts().of(Drop::Port), gateway.stack.counts().forwarded), (1, 1, 1));
}

#[test]
fn what_cannot_be_set_is_refused_with_words() {
    let refused = |settings: NatSettings| {
        let settings = routed(four()).with_nat(settings);
        let world = corelane_sim::World::new(1, corelane_sim::Faults::none());
        let arena = corelane_seam::Arena::new(8 << 20).unwrap();
        let below = world.driver(arena.clone(), corelane_seam::Tuning::default());
        let cards = [(); 2].map(|()| world.interface(CardSetup::default()));
        let ports = cards.iter().map(|card| -> Box<dyn corelane_seam::Port> {
            let memory = corelane_seam::FrameMemory::new(64, 2048).unwrap();
            Box::new(corelane_sim::SimPort::open(card, 0, below.lane(), memory, 32).unwrap())
        });
        let ports = ports.collect();
        corelane_stack::Stack::with_ports(below, arena, corelane_seam::Tuning::default(), ports, &settings).unwrap_err()
    };
    let none = refused(NatSettings { interfaces: vec![9], settings: nat() });
    assert_eq!(none, Error::NoInterface { interface: 9 });
    assert!(none.to_string().contains("no interface 9"));
    let mut twice = nat();
    twice.externals.push(EXTERNAL);
    let twice = refused(NatSettings { interfaces: vec![OUTSIDE], settings: twice });
    assert!(matches!(twice, Error::Nat { .. }) && twice.to_string().contains("10.3.0.1"), "{twice}");
}

/// A datagram that is longer than a frame of the port's is translated in all of its frames.
#[test]
fn a_packet_in_several_frames_is_translated() {
    let card = CardSetup { frame_bytes_max: 9014, ..CardSetup::default() };
    let mut gateway = Gateway::new(&translating(), &[card.clone(), card], 256);
    gateway.host(PLACES[0].0, PLACES[0].1, &["10.0.0.9"]);
    gateway.host(PLACES[3].0, PLACES[3].1, &["10.3.0.254"]);
    let frame = frame_of(&gateway, 0, (inside().ip(), outside().ip()), 6000);
    let came = ask(&mut gateway, 0, &frame);
    let left = came_at(&came, 3);
    assert_eq!((left.from.ip(), left.payload), (EXTERNAL.into(), vec![3; 6000]));
}

/// An external address may be one that is led to us and is not our own.
#[test]
fn an_external_address_need_not_be_ours() {
    let beside = Ipv4Addr::new(10, 3, 0, 200);
    let mut nat = nat();
    nat.externals = vec![beside];
    nat.forwards.iter_mut().for_each(|forward| forward.external = beside);
    let mut gateway = open(&routed(four()).with_nat(NatSettings { interfaces: vec![OUTSIDE], settings: nat }));
    let left = sends(&mut gateway, (0, inside(), outside()), 3);
    assert_eq!(left.from.ip(), beside);
    assert_eq!(sends(&mut gateway, (3, outside(), left.from), 0).to, inside());
    let door = end(beside.into(), FORWARDED.0);
    let came = sends(&mut gateway, (0, inside(), door), 1);
    assert_eq!((came.from.ip(), came.to), (beside.into(), end(host(1, false, 9), FORWARDED.1)));
    let parts = udp_in(gateway.mac(1), outside(), door, &[5; 2000], 1000, 7);
    let came: Vec<Came> = parts.iter().flat_map(|part| ask(&mut gateway, 3, part)).collect();
    assert_eq!((pieces(&came, NARROW).len(), &came[0].packet()[16..20]), (2008, &[10, 1, 0, 9][..]));
    // Its errors are told from our own.
    let last = changed(&udp(&gateway, 3, outside(), door), |packet| packet[8] = 1);
    is_told(&mut gateway, 3, &last, (11, 0, 0), host(3, false, 1));
    assert_eq!(gateway.stack.counts().of(Drop::Translation), 0);
}

/// What is wrong with the options of what comes to a forward is told in the outside address: no inside address leaves.
#[test]
fn errors_about_options_quote_what_their_receiver_has_sent() {
    let mut gateway = open(&translating());
    let plain = udp(&gateway, 3, outside(), external(FORWARDED.0));
    for (options, what) in [(&[131, 7, 4, 10, 1, 0, 1, 0][..], (3, 5, 0)), (&[7, 2, 0, 0], (12, 0, 21 << 24))] {
        let frame = with_options(&plain, options);
        is_told(&mut gateway, 3, &frame, what, EXTERNAL.into());
    }
    assert_eq!((gateway.stack.counts().of(Drop::SourceRoute), gateway.stack.counts().of(Drop::Malformed)), (1, 1));
}

/// What nobody inside has asked for is not sent on to an external address that is not ours, and takes no session of inside hosts.
#[test]
fn strangers_begin_no_sessions_at_an_external_address_that_is_not_ours() {
    let beside = Ipv4Addr::new(10, 3, 0, 200);
    let nat = Nat::new(beside);
    let mut gateway = open(&routed(four()).with_nat(NatSettings { interfaces: vec![OUTSIDE], settings: nat }));
    gateway.host(PLACES[3].0, PLACES[3].1, &["10.3.0.200"]);
    for port in [53, 2000, 40_000] {
        let frame = udp(&gateway, 3, outside(), end(beside.into(), port));
        assert!(ask(&mut gateway, 3, &frame).is_empty(), "{port}");
    }
    assert_eq!((gateway.stack.counts().of(Drop::Translation), gateway.stack.view().nat_in_use()), (3, Some((0, 0))));
}

/// What comes to a forward is looked at as all that is forwarded is.
#[test]
fn martians_find_no_forward() {
    let mut gateway = open(&translating());
    for from in ["127.0.0.1", "169.254.1.1", "240.0.0.1"] {
        let frame = udp(&gateway, 3, end(ip(from), 53), external(FORWARDED.0));
        assert!(ask(&mut gateway, 3, &frame).is_empty(), "{from}");
    }
    let counts = *gateway.stack.counts();
    // One of them is nobody who could be answered, so it is not even ours.
    assert_eq!((counts.forwarded, counts.of(Drop::Martian), counts.dropped()), (0, 2, 3));
}
