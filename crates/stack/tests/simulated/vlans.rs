//! VLANs of one port: each is an interface with addresses and neighbours of its own.

use crate::frames::{TEST_MAC, ethernet, packets, udp, udp_in, written};
use crate::gateway::{Gateway, arp_of, ip, question, settings};
use corelane_seam::{Bind, DatagramOp, DatagramOutcome, Datagrams, Driver, Handle, Outcome, Socket, Trains};
use corelane_sim::CardSetup;
use corelane_stack::{Drop, Error, INTERFACES_MAX, ReversePath, Settings, Stack, Tags};
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::{EtherType, IpProtocol, Network, Packet, UpperLayer, icmp};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const PORT: u16 = 60_007;
const VLANS: [Tags; 4] = [Tags::None, Tags::One(7), Tags::One(4094), Tags::Two(300, 7)];

fn ours(place: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, place as u8, 1)
}

fn theirs(place: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, place as u8, 9)
}

fn four() -> Settings {
    VLANS.iter().enumerate().fold(settings().with_interface("eth1"), |settings, (place, tags)| {
        let settings = if place == 0 { settings } else { settings.and_vlan(&format!("eth1.{place}"), *tags) };
        settings.with_network(ours(place).into(), 24)
    })
}

fn at(card: CardSetup) -> Gateway {
    Gateway::new(&four(), &[card], 1024)
}

fn bind(gateway: &mut Gateway, ours: IpAddr) -> Socket {
    let address = SocketAddr::new(ours, PORT).into();
    let (peer, share_port, v6_only, receive_buffer_bytes, send_buffer_bytes) = (None, false, false, 1 << 20, 0);
    gateway.stack.bind(&Bind { address, peer, share_port, v6_only, receive_buffer_bytes, send_buffer_bytes }).unwrap()
}

fn send(gateway: &mut Gateway, socket: Socket, to: SocketAddr, payload: &[u8]) {
    let mut trains = Trains::new();
    assert!(trains.add_single(&to.into(), None, 0, gateway.arena.copy_of(payload).unwrap().share().into()));
    gateway.stack.push(Handle::new(1, 7, 0).of(1), DatagramOp::Send { socket, trains }.into());
}

/// What has come to a socket.
fn receive(gateway: &mut Gateway, socket: Socket) -> Vec<Vec<u8>> {
    let handle = Handle::new(1, 8, 0).of(1);
    gateway.stack.push(handle, DatagramOp::Receive { socket, into: Datagrams::new() }.into());
    gateway.turn();
    let place = gateway.completions.iter().position(|completion| completion.handle == handle).unwrap();
    match gateway.completions.remove(place).outcome {
        Outcome::Datagram(DatagramOutcome::Arrived { batch, .. }) => {
            batch.arrivals().iter().flat_map(|arrival| batch.each(arrival).map(<[u8]>::to_vec)).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// A card that takes tags out of frames says which; one that does not leaves them there.
#[test]
fn each_vlan_answers_for_its_own_addresses_alone() {
    for offloads in [false, true] {
        let mut gateway = at(CardSetup { offloads, ..CardSetup::default() });
        for (place, tags) in VLANS.into_iter().enumerate() {
            for other in 0..VLANS.len() {
                gateway.send(0, tags, &question(theirs(place), ours(other)));
                gateway.turn();
                let came = gateway.tests[0].take();
                assert_eq!(came.len(), usize::from(place == other), "{tags} {other}");
                for frame in came {
                    let (had, frame) = crate::gateway::untagged(&frame);
                    assert_eq!(had, tags);
                    let Network::Arp(message) = Packet::of_frame(&frame).unwrap().network else { panic!() };
                    assert_eq!((message.sender, message.sender_mac), (ours(place), gateway.mac(0)));
                }
            }
        }
    }
}

#[test]
fn datagrams_come_and_leave_with_the_tags_of_their_vlan() {
    for offloads in [false, true] {
        let mut gateway = at(CardSetup { offloads, ..CardSetup::default() });
        for (place, tags) in VLANS.into_iter().enumerate() {
            let mac = gateway.host(0, tags, &[&theirs(place).to_string()]);
            let socket = bind(&mut gateway, ours(place).into());
            let (peer, local) = (SocketAddr::new(theirs(place).into(), 4000), SocketAddr::new(ours(place).into(), PORT));
            gateway.send(0, tags, &udp(gateway.mac(0), peer, local, b"hello"));
            assert_eq!(receive(&mut gateway, socket), [b"hello"], "{tags}");
            // Of the longest packets, too: tags are beside the MTU, and of two the second is within.
            let most = if matches!(tags, Tags::Two(..)) { 1496 } else { 1500 };
            send(&mut gateway, socket, peer, &[7; 1468]);
            send(&mut gateway, socket, peer, &[7; 1472]);
            send(&mut gateway, socket, peer, &[7; 4000]);
            let came = gateway.hear();
            assert!(came.iter().all(|came| came.tags == tags && came.to() == mac && came.frame[6..12] == gateway.mac(0).0));
            let lengths: Vec<_> = came.iter().map(|came| came.packet().len()).collect();
            let cut = if most == 1500 { vec![1496, 1500, 1500, 1500, 1068] } else { vec![1496, 1492, 28, 1492, 1492, 1084] };
            assert_eq!(lengths, cut, "{tags}");
        }
        assert_eq!(gateway.stack.counts().dropped(), 0);
        assert!(gateway.memories[0].counts().held == 0, "{:?}", gateway.memories[0].counts());
    }
}

#[test]
fn frames_of_vlans_that_nobody_has_are_dropped_and_counted() {
    let mut gateway = at(CardSetup::default());
    let plain = question(theirs(1), ours(1));
    let with = |tags: &[u8]| [&plain[..12], tags, &plain[12..]].concat();
    let nobody = [
        with(&[0x81, 0, 0, 8]),
        with(&[0x81, 0, 0x0f, 0xff]),
        with(&[0x88, 0xa8, 0, 7]),
        with(&[0x81, 0, 0, 7, 0x81, 0, 0, 7]),
        with(&[0x88, 0xa8, 1, 44, 0x88, 0xa8, 0, 7]),
        with(&[0x88, 0xa8, 1, 45, 0x81, 0, 0, 7]),
        with(&[0x88, 0xa8, 1, 44, 0x81, 0, 0, 8]),
        with(&[0x88, 0xa8, 1, 44, 0x81, 0, 0, 7, 0x81, 0, 0, 7]),
    ];
    for (count, frame) in (1..).zip(&nobody) {
        gateway.tests[0].send(frame);
        gateway.turn();
        assert!(gateway.tests[0].take().is_empty(), "{frame:?}");
        assert_eq!(gateway.stack.counts().of(Drop::Vlan), count);
    }
    let priority = [&plain[..12], &[0x81, 0, 0xa0, 7], &plain[12..]].concat();
    gateway.tests[0].send(&priority);
    gateway.turn();
    assert_eq!(gateway.tests[0].take().len(), 1, "a priority is beside the number");
}

/// Fragments of one VLAN are put together with those of the same datagram, and nothing else; an answer goes where the question came from.
#[test]
fn echoes_come_back_to_their_vlan_in_fragments_too() {
    let mut gateway = at(CardSetup::default());
    for (place, tags) in VLANS.into_iter().enumerate() {
        gateway.host(0, tags, &[&theirs(place).to_string()]);
        let request = icmp::Echo { identification: 7, sequence: 9, data: &[5; 3000] };
        let message = written(3008, |writer| icmp::Message::EchoRequest(request).emit(writer));
        let parts = packets(theirs(place).into(), ours(place).into(), IpProtocol::ICMP, &message, 1400, 77);
        let to = gateway.mac(0);
        parts.iter().for_each(|part| gateway.send(0, tags, &ethernet(to, EtherType::IPV4, part)));
        let came = gateway.hear();
        assert_eq!(came.len(), 3);
        assert!(came.iter().all(|came| came.tags == tags));
    }
}

/// Hosts by the thousand at forty VLANs: who is known is sent to at once, and nobody is forgotten.
#[test]
fn forty_vlans_know_five_thousand_hosts() {
    let own = |vlan: u8| Ipv4Addr::new(10, vlan, 0, 1);
    let host = |vlan: u8, number: u16| Ipv4Addr::from_bits(own(vlan).to_bits() + 1 + u32::from(number));
    let settings = (1..=40).fold(settings().with_interface("eth1"), |settings, vlan| {
        settings.and_vlan(&format!("eth1.{vlan}"), Tags::One(vlan.into())).with_network(own(vlan).into(), 16)
    });
    let mut gateway = Gateway::new(&settings, &[CardSetup::default()], 4096);
    let sockets: Vec<_> = (1..=40).map(|vlan| bind(&mut gateway, own(vlan).into())).collect();
    let to = gateway.mac(0);
    for vlan in 1..=40 {
        for number in 0..125 {
            let mut asks = question(host(vlan, number), own(vlan));
            let mac = [2, 5, 0, vlan, 0, number as u8];
            asks[6..12].copy_from_slice(&mac);
            asks[22..28].copy_from_slice(&mac);
            gateway.send(0, Tags::One(vlan.into()), &asks);
        }
        gateway.turn();
        let answers = gateway.tests[0].take();
        assert_eq!(answers.len(), 125);
        for number in 0..125 {
            send(&mut gateway, sockets[usize::from(vlan) - 1], SocketAddr::new(host(vlan, number).into(), 9), b"hello");
        }
        gateway.turn();
        let came = gateway.tests[0].take();
        let right = came.iter().enumerate().all(|(number, frame)| {
            frame[..6] == [2, 5, 0, vlan, 0, number as u8] && frame[6..12] == to.0 && frame[12..16] == [0x81, 0, 0, vlan]
        });
        assert!(right && came.len() == 125, "{vlan}: {}", came.len());
    }
    assert_eq!(gateway.stack.neighbours(), (5000, 0));
}

/// Four hundred VLANs of one port, with one tag or two: packets go from each to the next, and answers to questions stay where they were asked.
#[test]
fn hundreds_of_vlans_forward_to_each_other() {
    const MANY: u16 = 400;
    let tags = |number: u16| if number.is_multiple_of(2) { Tags::One(1 + number) } else { Tags::Two(100, 1 + number) };
    let address = |number: u16, host: u8| Ipv4Addr::new(10, 100 + (number >> 8) as u8, number as u8, host);
    let settings = (0..MANY).fold(settings().with_interface("eth1"), |settings, number| {
        let settings = settings.and_vlan(&format!("eth1.{number}"), tags(number));
        settings.with_network(address(number, 1).into(), 24).with_forwarding(ReversePath::Strict)
    });
    let mut gateway = Gateway::new(&settings, &[CardSetup::default()], 4096);
    let macs: Vec<_> = (0..MANY).map(|number| gateway.host(0, tags(number), &[&address(number, 9).to_string()])).collect();
    let to = gateway.mac(0);
    for first in (0..MANY).step_by(40) {
        for number in first..first + 40 {
            let next = (number + 1) % MANY;
            let (from, there) = (SocketAddr::new(address(number, 9).into(), 5), SocketAddr::new(address(next, 9).into(), 6));
            gateway.send(0, tags(number), &udp(to, from, there, &number.to_be_bytes()));
        }
        let mut came = gateway.hear();
        came.sort_by_key(|came| came.packet()[28..30].to_vec());
        assert_eq!(came.len(), 40, "from {first} on");
        for (number, came) in (first..).zip(&came) {
            let next = (number + 1) % MANY;
            assert_eq!((came.tags, came.to()), (tags(next), macs[usize::from(next)]), "{number}");
            assert_eq!(came.packet()[28..30], number.to_be_bytes());
        }
    }
    assert_eq!((gateway.stack.counts().forwarded, gateway.stack.counts().dropped()), (MANY.into(), 0));
    for asked in [399, 398] {
        let asks = arp_of(macs[399], Operation::Request, Mac::BROADCAST, address(399, 9), address(asked, 1));
        gateway.send(0, tags(399), &asks);
    }
    gateway.turn();
    assert_eq!(gateway.tests[0].take().len(), 1, "of its own network alone");
}

/// One VLAN that asks for nobody takes the room of those who wait at others no further than to their own part.
#[test]
fn who_waits_at_one_vlan_leaves_others_their_part() {
    let settings = (1..=8).fold(settings().with_interface("eth1"), |settings, vlan| {
        settings.and_vlan(&format!("eth1.{vlan}"), Tags::One(vlan)).with_network(Ipv4Addr::new(10, vlan as u8, 0, 1).into(), 16)
    });
    let mut gateway = Gateway::new(&settings, &[CardSetup::default()], 1024);
    let flooded = bind(&mut gateway, ip("10.1.0.1"));
    let honest = bind(&mut gateway, ip("10.2.0.1"));
    for number in 0..120 {
        (0..4).for_each(|_| send(&mut gateway, flooded, SocketAddr::new(Ipv4Addr::new(10, 1, 7, number).into(), 9), b"nobody"));
    }
    gateway.turn();
    assert_eq!(gateway.memories[0].counts().held, 128, "an eighth of all frames");
    (0..16).for_each(|_| send(&mut gateway, honest, SocketAddr::new(ip("10.2.0.9"), 9), b"waits"));
    gateway.turn();
    assert_eq!(gateway.memories[0].counts().held, 128 + 14, "and for each VLAN its part of another eighth");
    gateway.host(0, Tags::One(2), &["10.2.0.9"]);
    let came = gateway.hear();
    let honest = came.iter().filter(|came| came.tags == Tags::One(2)).count();
    // His question was heard before he was there, so it is asked again.
    gateway.world.pass(std::time::Duration::from_secs(1));
    let later = gateway.hear().iter().filter(|came| came.tags == Tags::One(2)).count();
    assert_eq!(honest + later, 14);
}

#[test]
fn vlans_that_cannot_be_are_refused() {
    let open = |settings: &Settings| {
        let world = corelane_sim::World::new(1, corelane_sim::Faults::none());
        let card = world.interface(CardSetup::default());
        let arena = corelane_seam::Arena::new(1 << 20).unwrap();
        let below = world.driver(arena.clone(), Default::default());
        let memory = corelane_seam::FrameMemory::new(64, 2048).unwrap();
        let port = corelane_sim::SimPort::open(&card, 0, below.lane(), memory, 16).unwrap();
        Stack::new(below, arena, Default::default(), Box::new(port), settings).map(drop).unwrap_err()
    };
    for tags in [Tags::One(0), Tags::One(4095), Tags::Two(0, 7), Tags::Two(7, 4095)] {
        let refused = open(&settings().and_vlan("eth1.x", tags));
        assert_eq!(refused, Error::Vlan { interface: "eth1.x".into(), tags });
        assert!(refused.to_string().contains("1 to 4094"), "{refused}");
    }
    let twice = settings().and_vlan("one", Tags::One(7)).and_vlan("other", Tags::One(7));
    assert_eq!(open(&twice), Error::Vlan { interface: "other".into(), tags: Tags::One(7) });
    let two = settings().and_vlan("one", Tags::One(7)).and_interface("eth2").and_vlan("other", Tags::One(7));
    assert_eq!(open(&two), Error::Ports { got: 1, interfaces: 2 });
    let mut lost = settings().and_vlan("one", Tags::One(7));
    lost.interfaces[1].port = 1;
    assert_eq!(open(&lost), Error::Vlan { interface: "one".into(), tags: Tags::One(7) });
    let short = settings().and_vlan("short", Tags::One(7)).with_mtu(1279).with_network(ip("fd00::1"), 64);
    assert!(matches!(open(&short), Error::Frames { got: 1293, least: 1294, .. }));
    let many = (0..INTERFACES_MAX).fold(settings(), |settings, number| settings.and_vlan("many", Tags::Two(1, number as u16)));
    assert_eq!(open(&many), Error::Interfaces { got: INTERFACES_MAX + 1 });
}

/// An interface whose packets are to be shorter than its port's cuts what is longer.
#[test]
fn a_vlan_may_have_an_mtu_of_its_own() {
    let settings =
        settings().with_interface("eth1").and_vlan("eth1.7", Tags::One(7)).with_mtu(600).with_network(ours(1).into(), 24);
    let mut gateway = Gateway::new(&settings, &[CardSetup::default()], 1024);
    gateway.host(0, Tags::One(7), &["10.0.1.9"]);
    let socket = bind(&mut gateway, ours(1).into());
    send(&mut gateway, socket, SocketAddr::new(theirs(1).into(), 9), &[7; 1000]);
    let came = gateway.hear();
    assert_eq!(came.iter().map(|came| came.packet().len()).collect::<Vec<_>>(), [596, 452]);
}

/// Who is known at one VLAN is nobody at another; and a station's own frames are not for one whose link address is another.
#[test]
fn neighbours_of_one_vlan_are_strangers_at_another() {
    let mut gateway = at(CardSetup::default());
    gateway.send(0, Tags::One(7), &question(theirs(1), ours(1)));
    gateway.turn();
    gateway.tests[0].take();
    let (one, other) = (bind(&mut gateway, ours(1).into()), bind(&mut gateway, ours(2).into()));
    send(&mut gateway, other, SocketAddr::new(theirs(2).into(), 9), b"who?");
    send(&mut gateway, one, SocketAddr::new(theirs(1).into(), 9), b"known");
    gateway.turn();
    let came = gateway.tests[0].take();
    assert_eq!(came.len(), 2);
    assert_eq!((&came[0][..6], &came[0][12..16]), (&[0xff; 6][..], &[0x81, 0, 0x0f, 0xfe][..]), "asked for at its VLAN");
    assert_eq!((&came[1][..6], &came[1][12..16]), (&TEST_MAC.0[..], &[0x81, 0, 0, 7][..]));
    let elsewhere = udp_in(
        Mac([2, 0, 0, 0, 0, 1]),
        SocketAddr::new(theirs(1).into(), 5),
        SocketAddr::new(ours(1).into(), PORT),
        b"x",
        1400,
        1,
    );
    gateway.send(0, Tags::One(7), &elsewhere[0]);
    gateway.turn();
    assert_eq!(gateway.stack.counts().of(Drop::NotOurs), 1);
    assert!(!matches!(Packet::of_frame(&elsewhere[0]).unwrap().transport, UpperLayer::Broken(..)));
}
