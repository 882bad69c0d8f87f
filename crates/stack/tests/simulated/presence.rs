//! A stack introduces its addresses to the link, hears who else has one, tells who listens, and follows what changes of its interface.

use crate::alone::Alone;
use crate::frames::{self, STACK, TEST, TEST_MAC, arp, datagram, ethernet};
use crate::lanes::{ADDRESSES, plan};
use crate::program::Program;
use corelane_seam::PortState;
use corelane_stack::port_states_of;
use corelane_watch::PacketCounter;
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::mld::ROUTER_ALERT;
use corelane_wire::packet::neighbour::{AdvertisementFlags, Choice, Message, Options};
use corelane_wire::packet::{EtherType, IpProtocol, Network, Packet, UpperLayer, icmpv6, ipv6};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const OTHER: Mac = Mac([2, 0, 0, 0, 0, 77]);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The group in which the stack's address of IPv6 is asked for.
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);

/// What a frame of the stack's says of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Probe(IpAddr),
    Announcement(IpAddr),
    Report,
    ReportV1,
}

fn said(frame: &[u8], mac: Mac) -> Option<Said> {
    if frame[6..12] != mac.0 {
        return None;
    }
    let packet = Packet::of_frame(frame).unwrap();
    match (packet.network, packet.transport) {
        (Network::Arp(message), _) if message.operation == Operation::Request => {
            assert_eq!((frame[..6].to_vec(), message.sender_mac), (Mac::BROADCAST.0.to_vec(), mac));
            match message.sender {
                sender if sender.is_unspecified() => Some(Said::Probe(message.target.into())),
                sender if sender == message.target => Some(Said::Announcement(message.target.into())),
                _ => None,
            }
        }
        (Network::V6(view, _), UpperLayer::Icmpv6(message)) => {
            let header = view.header();
            assert!(message.is_checksum_right(&view.addresses()), "{frame:?}");
            match (message.kind().0, message.message()) {
                (143, _) => {
                    assert_eq!((header.destination, header.hops), ("ff02::16".parse().unwrap(), 1));
                    assert_eq!((header.source, &frame[..6]), (Ipv6Addr::UNSPECIFIED, &[0x33, 0x33, 0, 0, 0, 0x16][..]));
                    assert_eq!((&frame[54..62], &frame[74..90]), (&ROUTER_ALERT[..], &GROUP.octets()[..]));
                    Some(Said::Report)
                }
                (131, _) => {
                    assert_eq!((header.destination, header.hops), (GROUP, 1));
                    Some(Said::ReportV1)
                }
                (_, Ok(icmpv6::Message::Neighbour(Message::Solicitation { target, options })))
                    if header.source.is_unspecified() =>
                {
                    assert_eq!((header.destination, header.hops, options.iter().count()), (GROUP, 255, 0));
                    Some(Said::Probe(target.into()))
                }
                (_, Ok(icmpv6::Message::Neighbour(Message::Advertisement { target, flags, .. }))) if !flags.is_solicited => {
                    assert_eq!((header.source, header.destination, header.hops, flags.replaces), (target, ALL_NODES, 255, true));
                    Some(Said::Announcement(target.into()))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// What is said within so long, each at its hundredth of a second from now.
fn heard(alone: &mut Alone, time: Duration) -> Vec<(u64, Said)> {
    let (mac, mut all) = (alone.mac(), Vec::new());
    for hundredth in 0..time.as_millis() as u64 / 10 {
        all.extend(alone.test.take().iter().filter_map(|frame| said(frame, mac)).map(|said| (hundredth, said)));
        alone.world.pass(Duration::from_millis(9));
        alone.settle();
    }
    all
}

/// The same until that is said.
fn heard_until(alone: &mut Alone, what: Said) -> Vec<(u64, Said)> {
    let mut all = Vec::new();
    for _ in 0..1500 {
        all.extend(heard(alone, Duration::from_millis(10)));
        if !times(&all, what).is_empty() {
            return all;
        }
    }
    panic!("{what:?} is not said: {all:?}");
}

fn times(heard: &[(u64, Said)], what: Said) -> Vec<u64> {
    heard.iter().filter(|(_, said)| *said == what).map(|(time, _)| *time).collect()
}

fn introduced() -> Alone {
    Alone::with(|settings| settings.with_introduction())
}

/// RFC 5227, sections 2.1 and 2.3; RFC 4862, section 5.4; RFC 4861, section 7.2.6; RFC 3810, section 6.1.
#[test]
fn each_address_is_probed_and_announced_when_the_interface_comes_up() {
    let mut alone = introduced();
    for round in 0..2 {
        let all = heard(&mut alone, Duration::from_secs(5));
        for own in ADDRESSES {
            let near = |times: &[u64], expected: &[u64]| {
                times.len() == expected.len() && times.iter().zip(expected).all(|(time, expected)| time.abs_diff(*expected) <= 3)
            };
            assert!(near(&times(&all, Said::Probe(own)), &[0, 10, 20]), "{round}: {all:?}");
            assert!(near(&times(&all, Said::Announcement(own)), &[30, 230]), "{round}: {all:?}");
        }
        assert_eq!((all[0].1, times(&all, Said::Report).len()), (Said::Report, 1), "before anybody is asked: {all:?}");
        // Whoever plugs it in again may have done so at another switch.
        alone.card.set_carrier(false);
        assert!(heard(&mut alone, Duration::from_secs(1)).is_empty());
        alone.card.set_carrier(true);
    }
}

/// Who asks is answered from the start: a fail-over does not wait for probes.
#[test]
fn an_address_is_served_while_it_is_probed() {
    let mut alone = introduced();
    alone.test.take();
    let answers = alone.ask(&[arp(Operation::Request, Mac::BROADCAST, TEST, STACK)]);
    assert!(answers.iter().any(|frame| frame[..6] == TEST_MAC.0), "{answers:?}");
    assert_eq!(alone.stack.counts().announcements_sent, 0);
}

/// Another station says that it has an address of the stack's, as it does when it is asked.
fn claims(own: IpAddr) -> Vec<u8> {
    match own {
        IpAddr::V4(own) => {
            let mut frame = arp(Operation::Reply, Mac::BROADCAST, own, own);
            frame[22..28].copy_from_slice(&OTHER.0);
            frame
        }
        IpAddr::V6(own) => {
            let option = frames::written(8, |writer| Choice::Target(OTHER).emit(writer));
            let flags = AdvertisementFlags { is_router: false, is_solicited: false, replaces: true };
            let message = Message::Advertisement { target: own, flags, options: Options::new(&option).unwrap() };
            frames::discovery(Mac([0x33, 0x33, 0, 0, 0, 1]), (own, ALL_NODES), &message, 65_528).remove(0)
        }
    }
}

#[test]
fn an_address_that_another_has_first_is_not_announced_until_he_is_gone() {
    for own in ADDRESSES {
        let mut alone = introduced();
        alone.test.send(&claims(own));
        let all = heard(&mut alone, Duration::from_secs(9));
        let other = ADDRESSES.into_iter().find(|other| *other != own).unwrap();
        assert_eq!(times(&all, Said::Announcement(own)), [], "{all:?}");
        assert_eq!(times(&all, Said::Announcement(other)).len(), 2, "the other is nobody's");
        assert!(alone.stack.counts().conflicts > 0);
        // He answers each question, and loses nothing.
        for _ in 0..3 {
            let all = heard_until(&mut alone, Said::Probe(own));
            assert_eq!(times(&all, Said::Announcement(own)), [], "{all:?}");
            alone.test.send(&claims(own));
        }
        let all = heard(&mut alone, Duration::from_secs(30));
        assert_eq!(times(&all, Said::Announcement(own)).len(), 2, "he is gone: {all:?}");
    }
}

/// A stranger who answers each question for an address for ever keeps the program from being ready for half a minute; that he does is told for as long as he does.
#[test]
fn a_stranger_who_answers_for_ever_keeps_nobody_from_being_ready() {
    let change = |settings: corelane_stack::Settings| if settings.lane.0 == 0 { settings.with_introduction() } else { settings };
    let mut program = Program::new(&crate::program::Plan { change, ..plan(2, 3) }, &ADDRESSES);
    let (mac, mut seen) = (crate::lanes::mac(&program), Vec::new());
    for _ in 0..120 {
        for _ in 0..10 {
            let asked: Vec<_> = program.test.take().iter().filter_map(|frame| said(frame, mac)).collect();
            for own in asked {
                assert!(!matches!(own, Said::Announcement(_)), "{own:?} is another's");
                if let Said::Probe(own) = own {
                    program.test.send(&claims(own));
                }
            }
            program.pass(100_000_000);
        }
        let snapshot = program.reader.snapshot(0);
        seen.push([PacketCounter::AddressesTaken, PacketCounter::AddressesUnready].map(|counter| snapshot.packets_sum(counter)));
    }
    assert!(seen[1..29].iter().all(|seen| *seen == [2, 2]), "{seen:?}");
    assert!(seen[31..].iter().all(|seen| *seen == [2, 0]), "{seen:?}");
    program.close();
}

/// RFC 5227, section 2.4 (b).
#[test]
fn an_address_that_is_claimed_later_is_defended_once_in_ten_seconds() {
    for own in ADDRESSES {
        let mut alone = introduced();
        heard(&mut alone, Duration::from_secs(4));
        let mut defended = 0;
        for _ in 0..250 {
            alone.test.send(&claims(own));
            defended += times(&heard(&mut alone, Duration::from_millis(100)), Said::Announcement(own)).len();
        }
        assert_eq!((defended, alone.stack.counts().conflicts), (3, 250));
    }
}

/// Its own words, which a switch brings back, are nobody's claim.
#[test]
fn what_a_loop_brings_back_is_no_conflict() {
    let mut alone = introduced();
    for _ in 0..40 {
        let back = alone.test.take();
        back.iter().for_each(|frame| alone.test.send(frame));
        alone.world.pass(Duration::from_millis(99));
        alone.settle();
    }
    assert_eq!((alone.stack.counts().conflicts, alone.stack.counts().announcements_sent), (0, 4));
}

/// A query for listeners with so many bytes behind its type, as a router of the link sends it.
pub fn query(source: Ipv6Addr, hops: u8, is_alert: bool, group: Ipv6Addr, length: usize) -> Vec<u8> {
    let mut message = vec![0; length];
    message[0] = 130;
    message[4..6].copy_from_slice(&1000_u16.to_be_bytes());
    message[8..24].copy_from_slice(&group.octets());
    let pseudo = frames::addresses(source.into(), ALL_NODES.into()).pseudo(IpProtocol::ICMPV6, length).unwrap();
    let checksum = pseudo.and(&message).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let next = if is_alert { IpProtocol::HOP_BY_HOP } else { IpProtocol::ICMPV6 };
    let head =
        ipv6::Header { traffic: Default::default(), label: Default::default(), next, hops, source, destination: ALL_NODES };
    let packet = frames::written(200, |writer| {
        let front = if is_alert { &ROUTER_ALERT[..] } else { &[] };
        head.emit(front.len() + message.len(), writer)?;
        writer.put(front)?;
        writer.put(&message)
    });
    ethernet(Mac([0x33, 0x33, 0, 0, 0, 1]), EtherType::IPV6, &packet)
}

/// RFC 3810, sections 5.1.3, 6.2 and 8.2.1.
#[test]
fn a_query_for_listeners_is_answered_within_its_time_in_its_version() {
    let (router, elsewhere): (Ipv6Addr, Ipv6Addr) = ("fe80::1".parse().unwrap(), "2001:db8::1".parse().unwrap());
    let (all, other) = (Ipv6Addr::UNSPECIFIED, "ff02::1:ff00:9".parse().unwrap());
    for (question, answer) in [
        (query(router, 1, true, all, 28), Some(Said::Report)),
        (query(router, 1, true, GROUP, 28), Some(Said::Report)),
        (query(router, 1, true, all, 24), Some(Said::ReportV1)),
        (query(router, 1, true, other, 28), None),
        (query(elsewhere, 1, true, all, 28), None),
        (query(router, 64, true, all, 28), None),
        (query(router, 1, false, all, 28), None),
    ] {
        let mut alone = Alone::new();
        // More of the same have one answer.
        (0..5).for_each(|_| alone.test.send(&question));
        let within = heard(&mut alone, Duration::from_secs(1));
        assert_eq!(within.iter().map(|(_, said)| *said).collect::<Vec<_>>(), Vec::from_iter(answer), "{question:?}");
        assert!(heard(&mut alone, Duration::from_secs(3)).is_empty(), "{question:?}");
    }
}

/// The first lane alone speaks for the interface.
#[test]
fn of_several_lanes_one_introduces_the_addresses() {
    let change = |settings: corelane_stack::Settings| if settings.lane.0 == 0 { settings.with_introduction() } else { settings };
    let mut program = Program::new(&crate::program::Plan { change, ..plan(4, 3) }, &ADDRESSES);
    program.pass(5_000_000_000);
    let mac = crate::lanes::mac(&program);
    let all: Vec<_> = program.test.take().iter().filter_map(|frame| said(frame, mac)).collect();
    for own in ADDRESSES {
        let count = |what| all.iter().filter(|said| **said == what).count();
        assert_eq!((count(Said::Probe(own)), count(Said::Announcement(own)), count(Said::Report)), (3, 2, 1), "{all:?}");
    }
    program.close();
}

/// Each lane takes a new link address and a new longest packet at once, and neighbours are told.
#[test]
fn a_link_address_and_a_longest_packet_that_change_are_followed() {
    let mut alone = introduced();
    heard(&mut alone, Duration::from_secs(4));
    alone.meet();
    let (socket, _) = alone.bind(STACK, 60_007, None);
    let to = SocketAddr::new(TEST.into(), 9);
    alone.card.set_link_address(OTHER.0);
    alone.settle();
    alone.send(socket, to, &[7; 1000]);
    let sent = alone.test.take();
    assert!(sent.iter().all(|frame| frame[6..12] == OTHER.0), "all of it says the new one");
    assert_eq!(sent.iter().filter(|frame| datagram(frame).is_some()).count(), 1);
    let now: Vec<_> = sent.iter().filter_map(|frame| said(frame, OTHER)).collect();
    assert!(ADDRESSES.iter().all(|own| now.contains(&Said::Announcement(*own))), "{now:?}");
    assert_eq!(times(&heard(&mut alone, Duration::from_secs(4)), Said::Announcement(STACK.into())).len(), 1, "and once more");
    for (bytes, packets) in [(614, 2), (1514, 1), (82, 21)] {
        alone.card.set_frame_bytes_max(bytes);
        alone.settle();
        assert_eq!(alone.send(socket, to, &[7; 1000]), (1, 0));
        let sent = alone.test.take();
        assert!(sent.iter().all(|frame| frame.len() <= bytes), "{bytes}");
        let is_packet = |frame: &&Vec<u8>| frame[12..14] == [8, 0];
        assert_eq!(sent.iter().filter(is_packet).count(), packets, "frames of {bytes} bytes");
    }
}

/// An MTU that is too short for IPv6 stands in the page as long as it is, once for all lanes.
#[test]
fn an_mtu_that_is_too_short_is_told_as_long_as_it_is() {
    let change = |settings: corelane_stack::Settings| if settings.lane.0 == 0 { settings.with_introduction() } else { settings };
    let mut program = Program::new(&crate::program::Plan { change, ..plan(2, 3) }, &ADDRESSES);
    for (bytes, short) in [(1514, 0), (82, 68), (1293, 1279), (1294, 0)] {
        program.card.set_frame_bytes_max(bytes);
        program.pass(6_000_000_000);
        assert_eq!(program.reader.snapshot(0).packets_sum(PacketCounter::MtuShort), short);
    }
    program.close();
}

/// What leaves while nobody is at the other end is lost, and counted as that; who asks from outside hears why.
#[test]
fn without_a_carrier_all_that_is_sent_counts_as_lost() {
    let mut program = Program::new(&plan(2, 3), &ADDRESSES);
    crate::lanes::meet(&mut program);
    let sum = |program: &Program, counter| {
        let lanes = program.reader.snapshot(0).lanes;
        lanes.iter().map(|lane| lane.packets.as_ref().unwrap().values.get(counter)).sum::<u64>()
    };
    let states = |program: &Program| port_states_of(&program.reader.snapshot(0)).map(|(_, state)| state).collect::<Vec<_>>();
    assert_eq!(states(&program), [PortState::Up; 2]);
    // The answers to these find the plug pulled.
    let mac = crate::lanes::mac(&program);
    for source in 0..16 {
        let (from, to) = crate::lanes::flow(source, false);
        program.test.send(&frames::udp(mac, from, to, b"heard"));
    }
    program.card.set_carrier(false);
    program.pass(1_000_000_000);
    assert_eq!(states(&program), [PortState::NoCarrier; 2]);
    assert_eq!((sum(&program, PacketCounter::PortSendLost), program.test.take().len()), (16, 0));
    program.card.set_carrier(true);
    program.pass(1_000_000);
    assert_eq!(states(&program), [PortState::Up; 2]);
    program.close();
}
