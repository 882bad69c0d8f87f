//! One stack at two links: each has its own addresses, neighbours and router, and what leaves goes by the link of its way.

use crate::frames::{self, TEST_MAC, ethernet, udp, written};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_seam::{
    Arena, Bind, Completion, DatagramOp, DatagramOutcome, Datagrams, Driver, FrameMemory, Handle, Outcome, Port, Socket, Trains,
    Tuning, Wait,
};
use corelane_sim::{CardSetup, Faults, Interface, SimDriver, SimPort, World};
use corelane_stack::{Drop, Error, Settings, Stack};
use corelane_wire::packet::arp::{self, Operation};
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::neighbour::Message;
use corelane_wire::packet::{EtherType, Network, Packet, UpperLayer, icmpv6};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The stack's address at each link, and that of the test's machine there.
const OURS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1)];
const THEIRS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 9), Ipv4Addr::new(10, 0, 1, 9)];
const OURS_V6: [&str; 2] = ["fd00::1", "fd01::1"];
const PORT: u16 = 60_007;

/// A stack with two interfaces, each on a cable to the test's machine. All that neither reaches is behind a router at the second.
struct Two {
    world: World,
    tests: [Interface; 2],
    cards: [Interface; 2],
    stack: Stack<SimDriver>,
    memories: [FrameMemory; 2],
    arena: Arena,
    completions: Vec<Completion>,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn settings() -> Settings {
    let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
    Settings::new(hasher, Table::even(Buckets::DEFAULT, 1).unwrap(), (0, 1), 5)
        .with_interface("left")
        .with_network(OURS[0].into(), 24)
        .with_network(ip(OURS_V6[0]), 64)
        .and_interface("right")
        .with_network(OURS[1].into(), 24)
        .with_network(ip(OURS_V6[1]), 64)
}

impl Two {
    fn new() -> Self {
        let world = World::new(1, Faults::none());
        let tests = [(); 2].map(|()| world.interface(CardSetup { queues: 0, ..CardSetup::default() }));
        // The second carries packets of another length.
        let cards = [1514, 9014].map(|frame_bytes_max| world.interface(CardSetup { frame_bytes_max, ..CardSetup::default() }));
        (0..2).for_each(|link| world.join(&[&tests[link], &cards[link]]));
        let arena = Arena::new(8 << 20).unwrap();
        let below = world.driver(arena.clone(), Tuning::default());
        let memories = [(); 2].map(|()| FrameMemory::new(256, 2048).unwrap());
        let open = |link: usize| -> Box<dyn Port> {
            Box::new(SimPort::open(&cards[link], 0, below.lane(), memories[link].clone(), 64).unwrap())
        };
        let ports = vec![open(0), open(1)];
        let settings = settings().with_route(ip("0.0.0.0"), 0, ip("10.0.1.200")).with_route_by(ip("::"), 0, ip("fe80::200"), 1);
        let stack = Stack::with_ports(below, arena.clone(), Tuning::default(), ports, &settings).unwrap();
        let mut two = Self { world, tests, cards, stack, memories, arena, completions: Vec::new() };
        two.settle();
        two
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            self.stack.collect(Wait::No, 64, &mut self.completions);
            self.world.pass(Duration::from_micros(50));
        }
        self.stack.collect(Wait::No, 64, &mut self.completions);
    }

    fn mac(&self, link: usize) -> Mac {
        Mac(self.cards[link].link_address())
    }

    /// Sends a frame at a link, and returns what comes back at each.
    fn ask(&mut self, link: usize, frame: &[u8]) -> [Vec<Vec<u8>>; 2] {
        self.tests[link].send(frame);
        self.settle();
        [self.tests[0].take(), self.tests[1].take()]
    }

    fn meet(&mut self, link: usize) {
        let answers = self.ask(link, &question(THEIRS[link], OURS[link]));
        assert_eq!(answers[link].len(), 1);
        assert!(answers[1 - link].is_empty());
    }

    fn bind(&mut self, ours: IpAddr) -> Socket {
        let bind = Bind {
            address: SocketAddr::new(ours, PORT).into(),
            peer: None,
            share_port: false,
            v6_only: false,
            receive_buffer_bytes: 1 << 20,
            send_buffer_bytes: 0,
        };
        self.stack.bind(&bind).unwrap()
    }

    fn send(&mut self, socket: Socket, to: SocketAddr, payload: &[u8]) -> (u32, u32) {
        let mut trains = Trains::new();
        assert!(trains.add_single(&to.into(), None, 0, self.arena.copy_of(payload).unwrap().share().into()));
        let handle = Handle::new(1, 7, 0).of(1);
        self.stack.push(handle, DatagramOp::Send { socket, trains }.into());
        self.settle();
        let place = self.completions.iter().position(|completion| completion.handle == handle).unwrap();
        match self.completions.remove(place).outcome {
            Outcome::Datagram(DatagramOutcome::Departed { datagrams, refused, .. }) => (datagrams, refused),
            other => panic!("{other:?}"),
        }
    }

    /// What has come to a socket.
    fn receive(&mut self, socket: Socket) -> Vec<Vec<u8>> {
        let handle = Handle::new(1, 8, 0).of(1);
        self.stack.push(handle, DatagramOp::Receive { socket, into: Datagrams::new() }.into());
        self.settle();
        let place = self.completions.iter().position(|completion| completion.handle == handle).unwrap();
        match self.completions.remove(place).outcome {
            Outcome::Datagram(DatagramOutcome::Arrived { batch, .. }) => {
                batch.arrivals().iter().flat_map(|arrival| batch.each(arrival).map(<[u8]>::to_vec)).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn question(sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    frames::arp(Operation::Request, Mac::BROADCAST, sender, target)
}

/// The ARP message of a frame.
fn message(frame: &[u8]) -> arp::Message {
    match Packet::of_frame(frame).unwrap().network {
        Network::Arp(message) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_link_answers_for_its_own_addresses_alone() {
    let mut two = Two::new();
    for link in 0..2 {
        two.meet(link);
        let reply = two.ask(link, &question(THEIRS[link], OURS[link]))[link].remove(0);
        assert_eq!((message(&reply).sender, message(&reply).sender_mac), (OURS[link], two.mac(link)));
        let other = two.ask(link, &question(THEIRS[link], OURS[1 - link]));
        assert!(other.iter().all(Vec::is_empty), "the address is the stack's, and not of this link");
    }
    let [_, v6] = two.ask(1, &frames::solicitation(OURS_V6[0].parse().unwrap(), 255));
    assert!(v6.is_empty());
}

#[test]
fn datagrams_come_and_leave_by_the_link_of_their_way() {
    let mut two = Two::new();
    (0..2).for_each(|link| two.meet(link));
    for link in 0..2 {
        let socket = two.bind(OURS[link].into());
        let (peer, ours) = (SocketAddr::new(THEIRS[link].into(), 4000), SocketAddr::new(OURS[link].into(), PORT));
        let mac = two.mac(link);
        two.tests[link].send(&udp(mac, peer, ours, b"hello"));
        assert_eq!(two.receive(socket), [b"hello"]);
        assert_eq!(two.send(socket, peer, &[7; 4000]), (1, 0));
        let sent = [two.tests[0].take(), two.tests[1].take()];
        assert!(sent[1 - link].is_empty());
        // Of the first link's length, or of the second's: one packet is cut, and the other is not.
        let is_cut = Packet::of_frame(&sent[link][0]).is_ok_and(|packet| matches!(packet.transport, UpperLayer::Part(..)));
        assert_eq!((is_cut, sent[link].len()), if link == 0 { (true, 3) } else { (false, 1) }, "{link}");
        assert!(sent[link].iter().all(|frame| frame[..6] == TEST_MAC.0 && frame[6..12] == mac.0));
        let elsewhere = SocketAddr::new(THEIRS[1 - link].into(), 9);
        assert_eq!(two.send(socket, elsewhere, b"across"), (1, 0));
        let sent = [two.tests[0].take(), two.tests[1].take()];
        assert!(sent[link].is_empty() && sent[1 - link].len() == 1, "it leaves by the other link, from this one's address");
    }
    assert!(two.memories.iter().all(|memory| memory.counts().held == 0), "nobody waits");
    assert_eq!(two.stack.counts().of(Drop::NotOurs), 0);
}

#[test]
fn a_router_is_asked_for_at_its_own_link() {
    let mut two = Two::new();
    let socket = two.bind(OURS[1].into());
    assert_eq!(two.send(socket, SocketAddr::new(ip("192.0.2.1"), 9), b"far"), (1, 0));
    let [left, right] = [two.tests[0].take(), two.tests[1].take()];
    assert_eq!((left.len(), right.len()), (0, 1));
    assert_eq!((message(&right[0]).sender, message(&right[0]).target), (OURS[1], Ipv4Addr::new(10, 0, 1, 200)));
    // A router of IPv6 that is known by the link's address alone, at the link that its route names.
    let socket = two.bind(ip(OURS_V6[1]));
    assert_eq!(two.send(socket, SocketAddr::new(ip("2001:db8::1"), 9), b"far"), (1, 0));
    let [left, right] = [two.tests[0].take(), two.tests[1].take()];
    assert_eq!((left.len(), right.len()), (0, 1));
    match Packet::of_frame(&right[0]).unwrap().transport {
        UpperLayer::Icmpv6(view) => {
            let Ok(icmpv6::Message::Neighbour(Message::Solicitation { target, .. })) = view.message() else { panic!() };
            assert_eq!(IpAddr::V6(target), ip("fe80::200"));
        }
        other => panic!("{other:?}"),
    }
}

/// One link that is down takes nothing from the other.
#[test]
fn a_link_that_is_down_leaves_the_other_alone() {
    let mut two = Two::new();
    two.meet(0);
    two.cards[1].set_up(false);
    two.settle();
    two.meet(0);
    let socket = two.bind(OURS[0].into());
    let (peer, ours) = (SocketAddr::new(THEIRS[0].into(), 4000), SocketAddr::new(OURS[0].into(), PORT));
    two.tests[0].send(&udp(two.mac(0), peer, ours, b"hello"));
    assert_eq!(two.receive(socket), [b"hello"]);
    two.cards[1].set_up(true);
    two.world.pass(Duration::from_millis(50));
    two.settle();
    two.meet(1);
}

/// A packet for one link's station that comes at the other is nobody's.
#[test]
fn a_frame_for_the_other_links_station_is_not_taken() {
    let mut two = Two::new();
    let bytes = written(28, |writer| {
        arp::Message {
            operation: Operation::Request,
            sender_mac: TEST_MAC,
            sender: THEIRS[0],
            target_mac: two.mac(1),
            target: OURS[0],
        }
        .emit(writer)
    });
    let frame = ethernet(two.mac(1), EtherType::ARP, &bytes);
    assert!(two.ask(0, &frame).iter().all(Vec::is_empty));
    assert_eq!(two.stack.counts().of(Drop::NotOurs), 1);
}

#[test]
fn there_is_a_port_for_each_interface() {
    let world = World::new(1, Faults::none());
    let card = world.interface(CardSetup::default());
    let arena = Arena::new(1 << 20).unwrap();
    let below = world.driver(arena.clone(), Tuning::default());
    let memory = FrameMemory::new(64, 2048).unwrap();
    let port = SimPort::open(&card, 0, below.lane(), memory, 16).unwrap();
    let refused = Stack::new(below, arena, Tuning::default(), Box::new(port), &settings()).unwrap_err();
    assert_eq!(refused, Error::Ports { got: 1, interfaces: 2 });
    assert!(refused.to_string().contains("open one for each"), "{refused}");
}
