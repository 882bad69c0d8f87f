//! Taps: the kernel is at the other end.

use crate::node::{Node, ROOM, memory};
use crate::wire::{on_network, run, sum};
use corelane_os::testing::network::sysctl;
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Protocol, Table, Tuple};
use corelane_seam::{Checksum, Frame, Port, Reason};
use corelane_select::QueueSelector;
use corelane_xdp::{Error, Interface, Ours, tap, taps_for};
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};

fn node(name: &str) -> Node {
    let memory = memory();
    Node::new(tap::open(name, 1).unwrap().remove(0).port(memory.clone()).unwrap(), memory)
}

#[test]
fn a_tap_is_the_other_end_of_a_wire_to_the_kernel() {
    on_network("tap::a_tap_is_the_other_end_of_a_wire_to_the_kernel", || {
        let mut near = node("wire");
        run(&["addr add 10.8.0.1/24 dev wire", "link set wire address 02:00:00:00:00:01 up"]);
        run(&["neigh add 10.8.0.2 lladdr 02:00:00:00:00:02 dev wire nud permanent"]);
        let socket = UdpSocket::bind("10.8.0.1:7000").unwrap();
        assert_eq!(socket.send_to(b"from the kernel", "10.8.0.2:7001").unwrap(), 15);
        let frame = near.frames(1).remove(0);
        assert!(frame.ends_with(b"from the kernel"));
        assert_eq!(frame.facts.checksum, Checksum::Good, "the kernel has left it to us");
        let pseudo = [&frame[26..34], &[0, 17], &frame[38..40], &frame[34..]].concat();
        assert_eq!(sum(&pseudo), [0, 0], "what is read has its checksum");
        // Addresses and ports change places, and the datagram goes back.
        let mut back = frame.to_vec();
        drop(frame);
        back[..12].rotate_left(6);
        back[26..34].rotate_left(4);
        back[34..38].rotate_left(2);
        assert_eq!(near.send(&[back]), Ok(1));
        let mut bytes = [0; 100];
        let (length, from) = socket.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..length], from), (&b"from the kernel"[..], "10.8.0.2:7001".parse().unwrap()));
        near.close();
    });
}

/// Packets longer than a frame come in several, and leave so; one longer than the interface had when the port was opened is lost, and counted.
#[test]
fn a_tap_has_packets_longer_than_a_frame() {
    on_network("tap::a_tap_has_packets_longer_than_a_frame", || {
        let queue = tap::open("wire", 1).unwrap().remove(0);
        run(&["link set wire mtu 9000 address 02:00:00:00:00:01 up", "addr add 10.8.0.1/24 dev wire"]);
        run(&["neigh add 10.8.0.2 lladdr 02:00:00:00:00:02 dev wire nud permanent"]);
        let memory = memory();
        let mut port = queue.port(memory.clone()).unwrap();
        let socket = UdpSocket::bind("10.8.0.1:7000").unwrap();
        let send = |length: usize| {
            let bytes: Vec<_> = (0..length).map(|index| (index % 251) as u8).collect();
            assert_eq!(socket.send_to(&bytes, "10.8.0.2:7001").unwrap(), length);
            bytes
        };
        let mut frames = Vec::new();
        let mut next = |port: &mut tap::TapPort, at_most| {
            while frames.is_empty() {
                port.receive(1, at_most, &mut frames).unwrap();
            }
            assert!(frames.pop_if(|last| last.facts.continues).is_none(), "a batch ends with a packet");
            std::mem::take(&mut frames)
        };
        for length in [100, ROOM - 42, ROOM - 41, 8000, 8972] {
            let sent = send(length);
            let mut came = next(&mut port, 64);
            assert_eq!(came.len(), (42 + length).div_ceil(ROOM));
            assert!(came.iter().flat_map(|frame| frame.to_vec()).skip(42).eq(sent.iter().copied()));
            // Addresses and ports change places, and the datagram goes back.
            let first = &mut came[0];
            first[..12].rotate_left(6);
            first[26..34].rotate_left(4);
            first[34..38].rotate_left(2);
            assert_eq!(port.send(1, &mut came).unwrap().taken as usize, (42 + length).div_ceil(ROOM));
            let mut bytes = vec![0; 9000];
            let received = socket.recv(&mut bytes).unwrap();
            assert!(bytes[..received] == sent);
        }
        // Two of five frames each do not fit into eight; one does not fit into four.
        [8000, 8001, 100].into_iter().for_each(|length| drop(send(length)));
        assert_eq!([(); 3].map(|()| next(&mut port, 8).len()), [5, 5, 1]);
        [8000, 100].into_iter().for_each(|length| drop(send(length)));
        assert_eq!((next(&mut port, 4).len(), port.too_long()), (1, 1));
        run(&["link set wire mtu 20000"]);
        [15_000, 100].into_iter().for_each(|length| drop(send(length)));
        assert_eq!((next(&mut port, 64).len(), port.too_long()), (1, 2));
        drop(port);
        assert_eq!(memory.counts().free, memory.frames());
    });
}

/// A tap that somebody has made, with as many queues as he likes, is ours as long as we have it, and stays.
#[test]
fn a_tap_that_is_there_is_taken_and_left() {
    on_network("tap::a_tap_that_is_there_is_taken_and_left", || {
        run(&["tuntap add dev single mode tap", "tuntap add dev several mode tap multi_queue", "link set several up"]);
        for (name, queues) in [("single", 1), ("several", 1), ("several", 3)] {
            let opened = tap::open(name, queues).unwrap();
            assert_eq!(opened.len(), queues);
            drop(opened);
        }
        assert!(Interface::find("single").unwrap().is_tun && Interface::find("several").unwrap().is_up);
        let held = tap::open("single", 1).unwrap();
        assert!(matches!(tap::open("single", 1), Err(Error::Busy { .. })), "it has one queue, and somebody has that");
        drop(held);
    });
}

#[test]
fn a_tap_goes_down_and_up_and_away() {
    on_network("tap::a_tap_goes_down_and_up_and_away", || {
        let mut near = node("wire");
        let mut receive = near.receive();
        assert_eq!(near.arrived(receive).unwrap_err().reason, Reason::Down, "nobody has set it up yet");
        run(&["link set wire up"]);
        while near.send(&[vec![2; 60]]).is_err() {
            near.collect(1_000_000);
        }
        receive = near.receive();
        near.collect(0);
        run(&["link set wire down"]);
        assert_eq!(near.arrived(receive).unwrap_err().reason, Reason::Down);
        receive = near.receive();
        near.collect(0);
        run(&["link del wire"]);
        while near.arrived(receive).unwrap_err().reason != Reason::NoInterface {
            receive = near.receive();
        }
        assert_eq!(near.send(&[vec![2; 60]]).unwrap_err().reason, Reason::NoInterface);
        near.close();
    });
}

const KEY: Key = Key::MICROSOFT;

const QUESTION: &[u8] = b"which queue?";

fn questions(frames: &[Frame]) -> usize {
    // The kernel has things of its own to say over IPv6.
    frames.iter().filter(|frame| frame.ends_with(QUESTION)).count()
}

/// Sends a datagram of each of so many flows over IPv4 and IPv6; returns how many came to the queue that the table says, and to no other.
fn spread(nodes: &mut [Node], table: &Table, flows: u16) -> usize {
    let hasher = FlowHasher::new(&KEY, HashTypes::ALL);
    let mut right = 0;
    for flow in 0..flows {
        let (here, there): (SocketAddr, SocketAddr) = match flow % 2 {
            0 => (([10, 8, 0, 1], 20_000 + flow).into(), ([10, 8, 0, 2], 7000 + flow % 5).into()),
            _ => ((V6_HERE, 20_000 + flow).into(), (V6_THERE, 7000 + flow % 5).into()),
        };
        assert_eq!(UdpSocket::bind(here).unwrap().send_to(QUESTION, there).unwrap(), QUESTION.len());
        let hashed = hasher.tuple(&Tuple::new(here, there, Protocol::UDP).unwrap()).unwrap();
        let queue = &mut nodes[table.lane_of(hashed.flow)];
        while questions(&queue.frames(1)) == 0 {}
        let elsewhere: usize = nodes.iter_mut().map(|node| questions(&node.waiting())).sum();
        right += usize::from(elsewhere == 0);
    }
    right
}

const V6_HERE: Ipv6Addr = Ipv6Addr::new(0xfd08, 0, 0, 0, 0, 0, 0, 1);
const V6_THERE: Ipv6Addr = Ipv6Addr::new(0xfd08, 0, 0, 0, 0, 0, 0, 2);

/// Each flow comes to the queue that the table says, and to the one of another table from when that is written.
#[test]
fn every_flow_gets_the_queue_of_its_bucket() {
    on_network("tap::every_flow_gets_the_queue_of_its_bucket", || {
        let queues = tap::open("wire", 4).unwrap();
        let buckets = Buckets::new(128).unwrap();
        let mut table = Table::even(buckets, 4).unwrap();
        let selector = QueueSelector::new(&FlowHasher::new(&KEY, HashTypes::ALL), &table).unwrap();
        tap::steer(&queues[2], &selector).unwrap();
        let open = |queue: tap::TapQueue| {
            let memory = memory();
            Node::new(queue.port(memory.clone()).unwrap(), memory)
        };
        let mut nodes: Vec<_> = queues.into_iter().map(open).collect();
        sysctl("net/ipv6/conf/wire/disable_ipv6", "0");
        sysctl("net/ipv6/conf/wire/accept_dad", "0");
        sysctl("net/ipv6/conf/wire/router_solicitations", "0");
        run(&[
            "link set wire addrgenmode none up",
            "addr add 10.8.0.1/24 dev wire",
            "addr add fd08::1/64 dev wire nodad",
            "neigh add 10.8.0.2 lladdr 02:00:00:00:00:02 dev wire nud permanent",
            "neigh add fd08::2 lladdr 02:00:00:00:00:02 dev wire nud permanent",
        ]);
        assert_eq!(spread(&mut nodes, &table, 400), 400);
        buckets.all().for_each(|bucket| table.set(bucket, 3 - table.lane(bucket)).unwrap());
        selector.rewrite(&table).unwrap();
        assert_eq!(spread(&mut nodes, &table, 400), 400);
        nodes.into_iter().for_each(Node::close);
    });
}

/// The kernel at the near end must not have what lanes at the other end have.
#[test]
fn an_address_of_the_kernels_is_refused() {
    on_network("tap::an_address_of_the_kernels_is_refused", || {
        run(&["link add near type veth peer name far", "addr add 10.8.0.1/24 dev near"]);
        let table = Table::even(Buckets::new(128).unwrap(), 1).unwrap();
        let hasher = FlowHasher::new(&KEY, HashTypes::ALL);
        let opened = |ours: [u8; 4]| taps_for("wire", &Ours::Addresses(vec![ours.into()]), (&hasher, &table), 1);
        assert!(matches!(opened([10, 8, 0, 1]), Err(Error::AddressTaken { .. })));
        assert!(opened([10, 8, 0, 2]).is_ok());
    });
}

#[test]
fn what_cannot_be_a_tap_is_said() {
    on_network("tap::what_cannot_be_a_tap_is_said", || {
        run(&["link add taken type veth peer name other", "link set lo up"]);
        assert!(matches!(tap::open("taken", 1), Err(Error::Busy { .. })));
        assert!(matches!(tap::open("", 1), Err(Error::NameInvalid { .. })));
        assert!(matches!(tap::open("wire", 0), Err(Error::Range { .. })));
        assert!(matches!(tap::open("wire", tap::QUEUES_MAX + 1), Err(Error::Range { .. })));
        run(&["tuntap add dev single mode tap"]);
        let why = tap::open("single", 2).unwrap_err();
        assert!(matches!(why, Error::Absent { .. }) && why.to_string().contains("multi_queue"), "{why}");
        let queue = tap::open("wire", 1).unwrap().remove(0);
        run(&["link set wire mtu 40000"]);
        let short = queue.port(memory()).unwrap_err();
        assert!(matches!(short, Error::FrameShort { needed: 40018, got: 30464, .. }), "{short}");
    });
}
