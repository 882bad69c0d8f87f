//! A stack with several ports and VLANs, and hosts at each of them that answer who asks for them.

use crate::frames::{arp, discovery, ethernet, written};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_seam::{Arena, Completion, Driver, FrameMemory, LearntWay, Offload, Port, Tuning, Wait};
use corelane_sim::{CardSetup, Faults, Interface, SimDriver, SimPort, World};
use corelane_stack::{Drop, Losses, Settings, Stack, Tags};
use corelane_wire::packet::arp::{self as wire_arp, Operation};
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::neighbour::{AdvertisementFlags, Choice, Message, Options};
use corelane_wire::packet::{EtherType, Network, Packet, UpperLayer, icmpv6};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A host at a VLAN of a port.
#[derive(Clone, Debug)]
pub struct Host {
    pub port: usize,
    pub tags: Tags,
    pub mac: Mac,
    pub addresses: Vec<IpAddr>,
}

/// A frame that the stack has sent: by which port, with which tags, and the rest of it.
#[derive(Clone, Debug)]
pub struct Came {
    pub port: usize,
    pub tags: Tags,
    pub frame: Vec<u8>,
}

impl Came {
    /// The packet of IP.
    pub fn packet(&self) -> &[u8] {
        &self.frame[14..]
    }

    pub fn to(&self) -> Mac {
        Mac(*self.frame.first_chunk().unwrap())
    }
}

/// What a fast path would know: the ways that were told, and how often it was said that they hold no more.
#[derive(Debug, Default)]
pub struct Told {
    pub ways: RefCell<Vec<LearntWay>>,
    pub ends: Cell<usize>,
}

impl Offload for Told {
    fn learn(&self, _now: u64, way: &LearntWay) -> bool {
        self.ways.borrow_mut().push(*way);
        true
    }

    fn unlearn(&self) {
        self.ends.set(self.ends.get() + 1);
    }
}

pub struct Gateway {
    pub told: Rc<Told>,
    /// The system's numbers of the ports' interfaces.
    pub devices: Vec<u32>,
    pub world: World,
    pub tests: Vec<Interface>,
    pub cards: Vec<Interface>,
    pub stack: Stack<SimDriver>,
    pub memories: Vec<FrameMemory>,
    pub hosts: Vec<Host>,
    pub completions: Vec<Completion>,
    /// Frames with which the stack has asked for hosts.
    pub questions: usize,
    pub arena: Arena,
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Settings without an interface's address.
pub fn settings() -> Settings {
    let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
    Settings::new(hasher, Table::even(Buckets::DEFAULT, 1).unwrap(), (0, 1), 5)
}

/// The bytes of a frame with tags put in.
pub fn tagged(frame: &[u8], tags: Tags) -> Vec<u8> {
    let mut bytes = frame[..12].to_vec();
    match tags {
        Tags::None => {}
        Tags::One(number) => bytes.extend([[0x81, 0], number.to_be_bytes()].concat()),
        Tags::Two(outer, inner) => bytes.extend([[0x88, 0xa8], outer.to_be_bytes(), [0x81, 0], inner.to_be_bytes()].concat()),
    }
    [&bytes, &frame[12..]].concat()
}

/// The tags of a frame, and what it is without them.
pub fn untagged(frame: &[u8]) -> (Tags, Vec<u8>) {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let tags = match (word(12), word(16)) {
        (0x8100, _) => Tags::One(word(14)),
        (0x88a8, 0x8100) => Tags::Two(word(14), word(18)),
        _ => Tags::None,
    };
    (tags, [&frame[..12], &frame[12 + tags.bytes()..]].concat())
}

impl Gateway {
    /// With a port for each card.
    pub fn new(settings: &Settings, cards: &[CardSetup], frames: usize) -> Self {
        let world = World::new(1, Faults::none());
        let tests: Vec<_> = cards.iter().map(|_| world.interface(CardSetup { queues: 0, ..CardSetup::default() })).collect();
        let cards: Vec<_> = cards.iter().map(|card| world.interface(card.clone())).collect();
        tests.iter().zip(&cards).for_each(|(test, card)| world.join(&[test, card]));
        let arena = Arena::new(8 << 20).unwrap();
        let below = world.driver(arena.clone(), Tuning::default());
        let memories: Vec<_> = cards.iter().map(|_| FrameMemory::new(frames, 2048).unwrap()).collect();
        let told = Rc::new(Told::default());
        let opened = cards.iter().zip(&memories).map(|(card, memory)| -> Box<dyn Port> {
            let port = SimPort::open(card, 0, below.lane(), memory.clone(), 128.min(frames / 2)).unwrap();
            Box::new(port.telling(told.clone()))
        });
        let ports: Vec<_> = opened.collect();
        let devices = ports.iter().map(|port| port.facts().link.interface).collect();
        let stack = Stack::with_ports(below, arena.clone(), Tuning::default(), ports, settings).unwrap();
        let (hosts, completions) = (Vec::new(), Vec::new());
        let mut gateway = Self { told, devices, world, tests, cards, stack, memories, hosts, completions, questions: 0, arena };
        gateway.turn();
        gateway.tests.iter().for_each(|test| drop(test.take()));
        gateway
    }

    /// With a host at a VLAN of a port; returns its link address.
    pub fn host(&mut self, port: usize, tags: Tags, addresses: &[&str]) -> Mac {
        let [a, b] = (self.hosts.len() as u16).to_be_bytes();
        let mac = Mac([2, 9, 0, port as u8, a, b]);
        self.hosts.push(Host { port, tags, mac, addresses: addresses.iter().map(|text| ip(text)).collect() });
        mac
    }

    pub fn mac(&self, port: usize) -> Mac {
        Mac(self.cards[port].link_address())
    }

    /// Lets half a millisecond pass.
    pub fn turn(&mut self) {
        for _ in 0..10 {
            self.stack.collect(Wait::No, 64, &mut self.completions);
            self.world.pass(Duration::from_micros(50));
        }
        self.stack.collect(Wait::No, 64, &mut self.completions);
    }

    /// Sends a frame at a port, with tags.
    pub fn send(&self, port: usize, tags: Tags, frame: &[u8]) {
        self.tests[port].send(&tagged(frame, tags));
    }

    /// What the stack sends, once hosts have answered what it asks of them.
    pub fn hear(&mut self) -> Vec<Came> {
        let mut came = Vec::new();
        for _ in 0..4 {
            self.turn();
            let taken: Vec<_> = self.tests.iter().map(Interface::take).collect();
            for (port, frame) in taken.into_iter().enumerate().flat_map(|(port, all)| all.into_iter().map(move |one| (port, one)))
            {
                let (tags, frame) = untagged(&frame);
                match self.answer(port, tags, &frame) {
                    Some(answer) => self.send(port, tags, &answer),
                    None => came.push(Came { port, tags, frame }),
                }
            }
        }
        // Who looks has it checked that each loss is of one interface.
        assert!(self.losses().iter().map(Losses::all).sum::<u64>() >= self.stack.counts().dropped());
        came
    }

    /// What went no further at each interface.
    pub fn losses(&self) -> Vec<Losses> {
        self.stack.view().losses().to_vec()
    }

    /// What comes of a frame that a host sends at its place.
    pub fn ask(&mut self, port: usize, tags: Tags, frame: &[u8]) -> Vec<Came> {
        self.send(port, tags, frame);
        self.hear()
    }

    /// Has a host send a frame of which nothing may come. It is dropped for this reason, once.
    pub fn loses(&mut self, at: (usize, Tags), frame: &[u8], why: Drop, what: &str) {
        let (of, all) = (self.stack.counts().of(why), self.stack.counts().dropped());
        let came = self.ask(at.0, at.1, frame);
        assert!(came.is_empty(), "{what}: {came:?}");
        let counts = self.stack.counts();
        assert_eq!((counts.of(why) - of, counts.dropped() - all), (1, 1), "{what}");
    }

    /// The answer of a host to who asks for it; none for another frame. Who asks for nobody gets an empty one, which is lost.
    pub fn answer(&mut self, port: usize, tags: Tags, frame: &[u8]) -> Option<Vec<u8>> {
        let packet = Packet::of_frame(frame).unwrap();
        let (asked, from): (IpAddr, IpAddr) = match (&packet.network, packet.transport) {
            (Network::Arp(message), _) if message.operation == Operation::Request => {
                (message.target.into(), message.sender.into())
            }
            (Network::V6(view, _), UpperLayer::Icmpv6(message)) => match message.message() {
                Ok(icmpv6::Message::Neighbour(Message::Solicitation { target, .. })) => {
                    (target.into(), view.header().source.into())
                }
                _ => return None,
            },
            _ => return None,
        };
        self.questions += 1;
        let is_his = |host: &&Host| host.port == port && host.tags == tags && host.addresses.contains(&asked);
        let answer = self.hosts.iter().find(is_his).map(|host| match (asked, from) {
            (IpAddr::V4(asked), IpAddr::V4(from)) => arp_of(host.mac, Operation::Reply, self.mac(port), asked, from),
            (IpAddr::V6(asked), IpAddr::V6(from)) => advertised(host.mac, self.mac(port), asked, from),
            _ => panic!("two families"),
        });
        Some(answer.unwrap_or_else(|| vec![0; 60]))
    }
}

/// A frame with an ARP message of a host's.
pub fn arp_of(mac: Mac, operation: Operation, to: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let message = wire_arp::Message { operation, sender_mac: mac, sender, target_mac: to, target };
    let mut frame = ethernet(to, EtherType::ARP, &written(28, |writer| message.emit(writer)));
    frame[6..12].copy_from_slice(&mac.0);
    frame
}

fn advertised(mac: Mac, to: Mac, asked: Ipv6Addr, from: Ipv6Addr) -> Vec<u8> {
    let option = written(8, |writer| Choice::Target(mac).emit(writer));
    let flags = AdvertisementFlags { is_router: false, is_solicited: true, replaces: true };
    let message = Message::Advertisement { target: asked, flags, options: Options::new(&option).unwrap() };
    discovery(to, (asked, from), &message, 65_528).remove(0)
}

/// A question of the test's machine for an address of the stack's.
pub fn question(sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    arp(Operation::Request, Mac::BROADCAST, sender, target)
}
