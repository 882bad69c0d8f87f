//! One stack, and what it says to the test's machine.

use crate::frames::{self, STACK, STACK_V6, TEST, TEST_MAC, TEST_V6, arp, datagram, echo, udp, udp_in};
use corelane_isr::reassembly::{Admission as Put, Limits, Reassembly};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_seam::{
    Address, Arena, Bind, Completion, DatagramOp, DatagramOutcome, Datagrams, Driver, FrameMemory, Handle, Instant, Op, Outcome,
    Socket, Trains, Tuning, Wait,
};
use corelane_sim::{CardSetup, Faults, Interface, SimDriver, SimPort, World};
use corelane_stack::{Drop, Settings, Stack};
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::neighbour::Message;
use corelane_wire::packet::{Network, Packet, UpperLayer, icmp, icmpv6};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub const FRAMES: usize = 1024;

/// A stack with addresses of both families on a cable to the test's machine.
pub struct Alone {
    pub world: World,
    pub test: Interface,
    pub card: Interface,
    pub stack: Stack<SimDriver>,
    pub memory: FrameMemory,
    pub arena: Arena,
    pub completions: Vec<Completion>,
    next: u32,
}

impl Alone {
    pub fn new() -> Self {
        Self::with(|settings| settings)
    }

    /// With settings changed.
    pub fn with(change: impl FnOnce(Settings) -> Settings) -> Self {
        Self::of(FRAMES, change)
    }

    /// With so many frames.
    pub fn of(frames: usize, change: impl FnOnce(Settings) -> Settings) -> Self {
        Self::on_wire(CardSetup::default().frame_bytes_max, frames, change)
    }

    /// On a wire whose packets have so many bytes at the most.
    pub fn on_wire(frame_bytes_max: usize, frames: usize, change: impl FnOnce(Settings) -> Settings) -> Self {
        Self::at(CardSetup { frame_bytes_max, ..CardSetup::default() }, frames, change)
    }

    /// At such a card.
    pub fn at(card: CardSetup, frames: usize, change: impl FnOnce(Settings) -> Settings) -> Self {
        let world = World::new(1, Faults::none());
        let test = world.interface(CardSetup { queues: 0, ..CardSetup::default() });
        let card = world.interface(card);
        world.join(&[&test, &card]);
        let arena = Arena::new(8 << 20).unwrap();
        let below = world.driver(arena.clone(), Tuning::default());
        let memory = FrameMemory::new(frames, 2048).unwrap();
        let port = SimPort::open(&card, 0, below.lane(), memory.clone(), 128.min(frames / 2)).unwrap();
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        let settings = Settings::new(hasher, Table::even(Buckets::DEFAULT, 1).unwrap(), (0, 1), 5)
            .with_network(STACK.into(), 24)
            .with_network(STACK_V6.into(), 64)
            .with_route("0.0.0.0".parse().unwrap(), 0, "10.0.0.200".parse().unwrap());
        let stack = Stack::new(below, arena.clone(), Tuning::default(), Box::new(port), &change(settings)).unwrap();
        let mut alone = Self { world, test, card, stack, memory, arena, completions: Vec::new(), next: 0 };
        alone.settle();
        alone
    }

    pub fn mac(&self) -> Mac {
        Mac(self.card.link_address())
    }

    /// Lets a millisecond pass, with turns as they are needed.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            self.stack.collect(Wait::No, 64, &mut self.completions);
            self.world.pass(Duration::from_micros(50));
        }
        self.stack.collect(Wait::No, 64, &mut self.completions);
        // Who looks has it checked that each loss is of one interface.
        assert!(!self.stack.view().losses().is_empty());
    }

    pub fn push(&mut self, op: impl Into<Op>) -> Handle {
        self.next += 1;
        let handle = Handle::new(1, self.next, 0).of(1);
        self.stack.push(handle, op.into());
        handle
    }

    pub fn bind(&mut self, ip: impl Into<IpAddr>, port: u16, peer: Option<SocketAddr>) -> (Socket, SocketAddr) {
        let bind = Bind {
            address: SocketAddr::new(ip.into(), port).into(),
            peer: peer.map(Address::from),
            share_port: false,
            v6_only: false,
            receive_buffer_bytes: 1 << 20,
            send_buffer_bytes: 0,
        };
        let socket = self.stack.bind(&bind).unwrap();
        (socket, self.stack.local_address(socket).unwrap().inet().unwrap())
    }

    pub fn take(&mut self, handle: Handle) -> Option<Completion> {
        let place = self.completions.iter().position(|completion| completion.handle == handle)?;
        Some(self.completions.remove(place))
    }

    /// What arrives at a socket within a millisecond: who sent it, and each datagram's bytes.
    pub fn receive(&mut self, socket: Socket) -> Vec<(Address, Vec<u8>)> {
        let handle = self.push(DatagramOp::Receive { socket, into: Datagrams::new() });
        self.settle();
        let Some(completion) = self.take(handle) else {
            self.stack.push(Handle::NOBODY.of(1), Op::StopReceive { socket });
            self.settle();
            assert!(self.take(handle).is_some(), "a receive ends when it is stopped");
            return Vec::new();
        };
        let Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) = completion.outcome else {
            panic!("{completion:?}")
        };
        let each =
            batch.arrivals().iter().flat_map(|arrival| batch.each(arrival).map(|bytes| (arrival.peer.clone(), bytes.to_vec())));
        each.collect()
    }

    pub fn send(&mut self, socket: Socket, to: SocketAddr, payload: &[u8]) -> (u32, u32) {
        let mut trains = Trains::new();
        assert!(trains.add_single(&to.into(), None, 0, self.arena.copy_of(payload).unwrap().share().into()));
        let handle = self.push(DatagramOp::Send { socket, trains });
        self.settle();
        match self.take(handle).unwrap().outcome {
            Outcome::Datagram(DatagramOutcome::Departed { datagrams, refused, .. }) => (datagrams, refused),
            other => panic!("{other:?}"),
        }
    }

    /// Sends frames, and returns what comes back within a millisecond.
    pub fn ask(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        frames.iter().for_each(|frame| self.test.send(frame));
        self.settle();
        self.test.take()
    }

    /// Tells the stack who has the test's addresses.
    pub fn meet(&mut self) {
        let mac = self.mac();
        let answers = self.ask(&[arp(Operation::Request, Mac::BROADCAST, TEST, STACK), frames::solicitation(STACK_V6, 255)]);
        assert_eq!(answers.len(), 2);
        assert!(answers.iter().all(|frame| frame[6..12] == mac.0 && frame[..6] == TEST_MAC.0));
    }

    /// Nothing is held that was not given back.
    pub fn is_clean(&self) -> bool {
        let counts = self.memory.counts();
        counts.held == 0 && counts.abroad == 0 && self.arena.used() == 0
    }
}

#[test]
fn our_addresses_are_answered_for_and_no_others() {
    let mut alone = Alone::new();
    alone.meet();
    let [arp_reply, advertisement]: [Vec<u8>; 2] = alone
        .ask(&[arp(Operation::Request, Mac::BROADCAST, TEST, STACK), frames::solicitation(STACK_V6, 255)])
        .try_into()
        .unwrap();
    match Packet::of_frame(&arp_reply).unwrap().network {
        Network::Arp(message) => {
            assert_eq!((message.operation, message.sender, message.target), (Operation::Reply, STACK, TEST));
            assert_eq!((message.sender_mac, message.target_mac), (alone.mac(), TEST_MAC));
        }
        other => panic!("{other:?}"),
    }
    match Packet::of_frame(&advertisement).unwrap().transport {
        UpperLayer::Icmpv6(view) => {
            assert!(view.is_checksum_right(&frames::addresses(STACK_V6.into(), TEST_V6.into())));
            let Ok(icmpv6::Message::Neighbour(Message::Advertisement { target, flags, .. })) = view.message() else { panic!() };
            assert_eq!((target, flags.is_solicited, flags.is_router), (STACK_V6, true, false));
        }
        other => panic!("{other:?}"),
    }
    let strangers = [
        arp(Operation::Request, Mac::BROADCAST, TEST, "10.0.0.2".parse().unwrap()),
        frames::solicitation("fd00::2".parse().unwrap(), 255),
        // From beyond a router (RFC 4861, section 7.1.1).
        frames::solicitation(STACK_V6, 64),
        arp(Operation::Reply, alone.mac(), TEST, STACK),
    ];
    assert!(alone.ask(&strangers).is_empty());
    assert_eq!(alone.stack.neighbours(), (0, 0), "who only asks is not in the table");
    assert!(alone.is_clean());
}

#[test]
fn who_claims_an_address_of_ours_is_counted_and_changes_nothing() {
    let mut alone = Alone::new();
    assert!(alone.ask(&[arp(Operation::Request, Mac::BROADCAST, STACK, TEST)]).is_empty());
    assert_eq!(alone.stack.counts().conflicts, 1);
}

#[test]
fn a_question_is_asked_once_and_what_waits_leaves_with_the_answer() {
    let mut alone = Alone::new();
    let (socket, local) = alone.bind(STACK, 60_007, None);
    let to = SocketAddr::new(TEST.into(), 9);
    (0..3).for_each(|number| assert_eq!(alone.send(socket, to, &[number]), (1, 0)));
    let asked = alone.test.take();
    assert_eq!(asked.len(), 1, "one question");
    assert!(matches!(Packet::of_frame(&asked[0]).unwrap().network, Network::Arp(message) if message.target == TEST));
    let mac = alone.mac();
    let left = alone.ask(&[arp(Operation::Reply, mac, TEST, STACK)]);
    let found: Vec<_> = left.iter().map(|frame| datagram(frame).unwrap()).collect();
    assert!(found.iter().all(|datagram| (datagram.from, datagram.to) == (local, to)));
    assert_eq!(found.iter().map(|datagram| datagram.payload[0]).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(left.iter().all(|frame| frame[..6] == TEST_MAC.0));
    // Behind the router there is one neighbour for all.
    (1..=2).for_each(|host| assert_eq!(alone.send(socket, SocketAddr::new([192, 0, 2, host].into(), 9), b"far"), (1, 0)));
    assert_eq!(alone.test.take().len(), 1, "the router is asked for once");
    assert_eq!(alone.send(socket, SocketAddr::new([10, 0, 0, 255].into(), 9), b"all"), (0, 1), "nothing is sent to all");
}

#[test]
fn nobody_answers_and_what_waited_is_dropped_in_time() {
    let mut alone = Alone::new();
    let (socket, _) = alone.bind(STACK, 60_007, None);
    for v6 in [false, true] {
        let (socket, to) = if v6 {
            (alone.bind(STACK_V6, 60_007, None).0, SocketAddr::new(TEST_V6.into(), 9))
        } else {
            (socket, SocketAddr::new(TEST.into(), 9))
        };
        assert_eq!(alone.send(socket, to, b"lost"), (1, 0));
        let mut questions = 0;
        for _ in 0..40 {
            alone.world.pass(Duration::from_millis(100));
            alone.settle();
            questions += alone.test.take().len();
        }
        assert_eq!(questions, 3);
    }
    assert_eq!((alone.stack.counts().of(Drop::Neighbour), alone.stack.neighbours()), (2, (0, 0)));
    assert!(alone.is_clean());
}

#[test]
fn echoes_are_answered_in_both_families_in_fragments_too() {
    let mut alone = Alone::new();
    alone.meet();
    let data: Vec<u8> = (0..4000).map(|number| number as u8).collect();
    for (v6, length, part) in [(false, 56, 65_528), (true, 56, 65_528), (false, 4000, 1400), (true, 4000, 1400)] {
        let mac = alone.mac();
        let answer = alone.ask(&echo(mac, v6, &data[..length], part));
        let whole = put_together(&answer);
        let data = &data[..length];
        match Packet::of_network(
            if v6 { corelane_wire::packet::EtherType::IPV6 } else { corelane_wire::packet::EtherType::IPV4 },
            &whole,
        )
        .unwrap()
        .transport
        {
            UpperLayer::Icmp(view) => {
                assert!(view.is_checksum_right());
                assert_eq!(view.message(), Ok(icmp::Message::EchoReply(icmp::Echo { identification: 7, sequence: 9, data })));
            }
            UpperLayer::Icmpv6(view) => {
                assert!(view.is_checksum_right(&frames::addresses(STACK_V6.into(), TEST_V6.into())));
                assert_eq!(view.message(), Ok(icmpv6::Message::EchoReply(icmp::Echo { identification: 7, sequence: 9, data })));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(alone.stack.counts().echoes, 4);
    assert!(alone.is_clean());
}

/// The IP packet that frames are of.
pub fn put_together(frames: &[Vec<u8>]) -> Vec<u8> {
    let memory = FrameMemory::new(256, 2048).unwrap();
    let mut table = Reassembly::new(Limits::for_frames(1 << 16, 2048).with_fragments_each(64), 1);
    let mut pieces = Vec::new();
    for bytes in frames {
        let mut frame = memory.frame().unwrap();
        frame.append(&bytes[14..]);
        match table.arrive(Instant::from_nanoseconds(0), 0, frame, &mut pieces) {
            Put::NoFragment(frame) => return frame.to_vec(),
            Put::Whole(_) => return pieces.iter().flat_map(|piece| piece.to_vec()).collect(),
            Put::Held => {}
            Put::Dropped(reason, _) => panic!("{reason:?}"),
        }
    }
    panic!("{} frames are no whole packet", frames.len())
}

#[test]
fn datagrams_come_and_go_whole_and_in_fragments() {
    let mut alone = Alone::new();
    alone.meet();
    let data: Vec<u8> = (0..9000).map(|number| (number * 7) as u8).collect();
    for (v6, ours, theirs) in [(false, IpAddr::from(STACK), IpAddr::from(TEST)), (true, STACK_V6.into(), TEST_V6.into())] {
        let (socket, local) = alone.bind(ours, 60_007, None);
        let peer = SocketAddr::new(theirs, 4000);
        for length in [0, 1, 1400, 9000] {
            let frames = udp_in(alone.mac(), peer, local, &data[..length], 1400, 500 + length as u16);
            assert_eq!(frames.len(), (length + 8).div_ceil(1400), "{v6}");
            frames.iter().for_each(|frame| alone.test.send(frame));
            assert_eq!(alone.receive(socket), [(Address::from(peer), data[..length].to_vec())]);
            assert_eq!(alone.send(socket, peer, &data[..length]), (1, 0));
            let sent = alone.test.take();
            let whole = put_together(&sent);
            assert_eq!(&whole[whole.len() - length..], &data[..length]);
            let found = datagram(&frames::ethernet(TEST_MAC, kind(v6), &whole)).unwrap();
            assert_eq!((found.from, found.to, found.payload.len()), (local, peer, length));
        }
        alone.push(Op::Close { socket, reset: false });
        alone.settle();
    }
    assert!(alone.is_clean(), "{:?}", alone.memory.counts());
}

/// One that came behind the last fragment does not overtake what was put together, though all came at once. One that came between the fragments does, and is
/// counted.
#[test]
fn f_07_a_datagram_that_came_behind_fragments_runs_behind_them() {
    let (mut alone, peer) = (Alone::new(), SocketAddr::new(TEST.into(), 4000));
    alone.meet();
    let (socket, local) = alone.bind(STACK, 60_007, None);
    let mac = alone.mac();
    let mut lengths = |order: [usize; 3], name: u16| {
        let parts = udp_in(mac, peer, local, &[1; 2000], 1400, name);
        let all = [&parts[0], &parts[1], &udp_in(mac, peer, local, b"next", 1400, name + 1)[0]];
        order.map(|place| all[place]).into_iter().for_each(|frame| alone.test.send(frame));
        let arrived = [alone.receive(socket), alone.receive(socket)].concat();
        (arrived.iter().map(|(_, data)| data.len()).collect::<Vec<_>>(), alone.stack.reorders())
    };
    assert_eq!(lengths([0, 1, 2], 1), (vec![2000, 4], 0));
    assert_eq!(lengths([0, 2, 1], 3), (vec![4, 2000], 1));
    assert_eq!(lengths([2, 0, 1], 5), (vec![4, 2000], 1));
}

fn kind(v6: bool) -> corelane_wire::packet::EtherType {
    if v6 { corelane_wire::packet::EtherType::IPV6 } else { corelane_wire::packet::EtherType::IPV4 }
}

#[test]
fn a_port_that_nobody_has_is_told_and_at_most_so_often() {
    let mut alone = Alone::new();
    alone.meet();
    let (from, to) = (SocketAddr::new(TEST.into(), 5), SocketAddr::new(STACK.into(), 6));
    let question = udp(alone.mac(), from, to, b"anybody?");
    let answers = alone.ask(std::slice::from_ref(&question));
    match Packet::of_frame(&answers[0]).unwrap().transport {
        UpperLayer::Icmp(view) => {
            assert!(view.is_checksum_right());
            match view.message().unwrap() {
                icmp::Message::Unreachable { code, packet } => assert_eq!((code.number(), packet), (3, &question[14..])),
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    }
    let (from, to) = (SocketAddr::new(TEST_V6.into(), 5), SocketAddr::new(STACK_V6.into(), 6));
    let answers = alone.ask(&[udp(alone.mac(), from, to, b"anybody?")]);
    match Packet::of_frame(&answers[0]).unwrap().transport {
        UpperLayer::Icmpv6(view) => {
            assert!(view.is_checksum_right(&frames::addresses(STACK_V6.into(), TEST_V6.into())));
            assert!(matches!(view.message(), Ok(icmpv6::Message::Unreachable { code, .. }) if code.number() == 4));
        }
        other => panic!("{other:?}"),
    }
    let mut answered = 0;
    for _ in 0..20 {
        answered += alone.ask(&vec![question.clone(); 50]).len();
    }
    // A bucket of 50, and a thousand a second: twenty rounds take some twenty milliseconds.
    assert!((50..200).contains(&answered), "{answered} answers to a thousand");
    assert_eq!(alone.stack.counts().errors_limited, 1000 - answered as u64);
    // Nothing is said of an error.
    let unreachable = icmp_about(alone.mac(), &question[14..]);
    assert!(alone.ask(&[unreachable]).is_empty());
}

fn icmp_about(mac: Mac, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8 + packet.len()];
    let mut writer = corelane_wire::xdr::Writer::new(&mut bytes);
    icmp::Message::Unreachable { code: icmp::Code::new(3).unwrap(), packet }.emit(&mut writer).unwrap();
    let packets = frames::packets(TEST.into(), STACK.into(), corelane_wire::packet::IpProtocol::ICMP, &bytes, 65_528, 1);
    frames::ethernet(mac, corelane_wire::packet::EtherType::IPV4, &packets[0])
}

#[test]
fn a_datagram_whose_fragments_do_not_come_is_given_up_and_its_sender_told() {
    let mut alone = Alone::new();
    alone.meet();
    let (_, local) = alone.bind(STACK, 60_007, None);
    let frames = udp_in(alone.mac(), SocketAddr::new(TEST.into(), 7), local, &[1; 3000], 1400, 3);
    assert!(alone.ask(&frames[..1]).is_empty());
    assert_eq!(alone.memory.counts().held, 1);
    for _ in 0..31 {
        alone.world.pass(Duration::from_secs(1));
        alone.settle();
    }
    let told = alone.test.take();
    // He is asked for first: what he once asked is long ago.
    let told = told.iter().find_map(|frame| match Packet::of_frame(frame).unwrap().transport {
        UpperLayer::Icmp(view) => {
            Some(matches!(view.message(), Ok(icmp::Message::TimeExceeded { code, .. }) if code.number() == 1))
        }
        _ => None,
    });
    assert_eq!(told, Some(true));
    alone.world.pass(Duration::from_secs(5));
    alone.settle();
    assert!(alone.is_clean(), "{:?}", alone.memory.counts());
}

#[test]
fn an_interface_that_goes_down_comes_back_and_one_that_is_gone_is_told() {
    let mut alone = Alone::new();
    alone.meet();
    alone.card.set_up(false);
    (0..20).for_each(|_| alone.settle());
    assert!((1..=4).contains(&alone.stack.counts().downs), "it is tried again every 10 ms, and not all the time");
    let (socket, _) = alone.bind(STACK, 60_008, None);
    alone.send(socket, SocketAddr::new(TEST.into(), 9), b"lost");
    assert_eq!(alone.stack.counts().of(Drop::Frames), 1, "what could not leave is counted");
    alone.card.set_up(true);
    alone.world.pass(Duration::from_millis(50));
    alone.settle();
    alone.meet();
    assert!(alone.stack.counts().downs > 0 && alone.stack.port_fault().is_none());
    let (socket, _) = alone.bind(STACK, 60_007, None);
    alone.card.remove();
    alone.settle();
    assert_eq!(alone.stack.port_fault().map(|fault| fault.reason), Some(corelane_seam::Reason::NoInterface));
    alone.send(socket, SocketAddr::new(TEST.into(), 9), b"lost");
    alone.push(Op::Close { socket, reset: false });
    alone.settle();
    assert!(alone.stack.is_closed());
}

#[test]
fn a_socket_of_a_work_that_left_is_closed() {
    let mut alone = Alone::new();
    let (socket, local) = alone.bind(STACK, 60_007, None);
    let receive = alone.push(DatagramOp::Receive { socket, into: Datagrams::new() });
    alone.stack.abandon(1);
    alone.settle();
    assert!(matches!(alone.take(receive).unwrap().outcome, Outcome::Datagram(DatagramOutcome::Arrived { fault: Some(_), .. })));
    assert_eq!(alone.bind(STACK, 60_007, None).1, local);
    assert!(alone.stack.local_address(socket).is_err());
}

#[test]
fn what_the_stack_sends_to_itself_comes_back() {
    let mut alone = Alone::new();
    let ((one, from), (other, to)) = (alone.bind(STACK, 1000, None), alone.bind(STACK, 2000, None));
    assert_eq!(alone.send(one, to, &[5; 4000]), (1, 0));
    assert_eq!(alone.receive(other), [(Address::from(from), vec![5; 4000])]);
    assert!(alone.test.take().is_empty());
    assert!(alone.is_clean());
}
