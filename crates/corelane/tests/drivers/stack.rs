//! The rig of a stack of its own over simulated wires.

use crate::rig::{Rig, SIDES, Side};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_seam::{Arena, DatagramOp, Driver, FrameMemory, Handle, Op, Port, Segment, Trains, Tuning, Unix, Wait};
use corelane_sim::{CardSetup, Faults, SimDriver, SimPort, World};
use corelane_stack::{Settings, Stack};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const FRAMES: usize = 4096;
const RING: usize = 1024;

/// Two stacks at the ends of a cable.
pub struct StackRig {
    drivers: [Stack<SimDriver>; 2],
    arenas: [Arena; 2],
    world: World,
    lanes: [usize; 2],
}

fn ip(side: Side, v6: bool) -> IpAddr {
    let text = match (side, v6) {
        (Side::Server, false) => "10.0.0.1",
        (Side::Client, false) => "10.0.0.2",
        (Side::Server, true) => "fd00::1",
        (Side::Client, true) => "fd00::2",
    };
    text.parse().unwrap()
}

impl StackRig {
    /// Lets each stack hear of the other: what goes to a neighbour that nobody knows waits, and only some of it may.
    fn meet(&mut self) {
        for v6 in [false, true] {
            let bind = |side| crate::bench::bind_at(SocketAddr::new(ip(side, v6), 9), None);
            let sockets = SIDES.map(|side| self.driver(side).bind(&bind(side)).unwrap());
            let mut trains = Trains::new();
            let to = SocketAddr::new(ip(Side::Server, v6), 9).into();
            assert!(trains.add(&to, None, 0, Segment::Static(b"hello"), 5));
            let send = DatagramOp::Send { socket: sockets[1], trains };
            self.driver(Side::Client).push(Handle::new(0, 1, 0).of(1), send.into());
            self.settle(100);
            for (side, socket) in SIDES.into_iter().zip(sockets) {
                self.driver(side).push(Handle::new(0, 1, 0).of(1), Op::Close { socket, reset: false });
            }
            self.settle(10);
        }
    }

    fn settle(&mut self, rounds: usize) {
        for _ in 0..rounds {
            SIDES.iter().for_each(|side| self.driver(*side).collect(Wait::No, 64, &mut Vec::new()));
            self.world.pass(Duration::from_micros(100));
        }
    }
}

impl Rig for StackRig {
    const CANNOT: &'static [(&'static str, &'static str)] = &[];

    fn new(tuning: Tuning, memory: usize) -> Self {
        let world = World::new(1, Faults::none());
        let cards = [(); 2].map(|()| world.interface(CardSetup::default()));
        world.join(&[&cards[0], &cards[1]]);
        let arenas = [(); 2].map(|()| Arena::new(memory).unwrap());
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        let table = Table::even(Buckets::DEFAULT, 1).unwrap();
        let mut lanes = [0; 2];
        let drivers = SIDES.map(|side| {
            let (arena, number) = (arenas[side as usize].clone(), side as usize);
            let below = world.driver(arena.clone(), tuning);
            lanes[number] = below.lane();
            let frames = FrameMemory::new(FRAMES, 2048).unwrap();
            let port = SimPort::open(&cards[number], 0, below.lane(), frames, RING).unwrap();
            let mut settings = Settings::new(hasher.clone(), table.clone(), (0, 1), number as u128 + 1);
            for v6 in [false, true] {
                settings = settings.with_network(ip(side, v6), if v6 { 64 } else { 24 });
            }
            Stack::new(below, arena, tuning, Box::new(port), &settings).unwrap()
        });
        let mut rig = Self { drivers, arenas, world, lanes };
        rig.meet();
        rig
    }

    /// Two more, which the stacks pass on.
    fn ports(&mut self, memory: [FrameMemory; 2], mtu: usize) -> Result<[Box<dyn Port>; 2], String> {
        let cards = [(); 2].map(|()| self.world.interface(CardSetup { frame_bytes_max: mtu + 14, ..CardSetup::default() }));
        self.world.join(&[&cards[0], &cards[1]]);
        let [server, client] = memory;
        // No fewer than the longest packet takes.
        let ring = if mtu > 1500 { 32 } else { 16 };
        let open = |side: Side, memory| -> Box<dyn Port> {
            Box::new(SimPort::open(&cards[side as usize], 0, self.lanes[side as usize], memory, ring).unwrap())
        };
        Ok([open(Side::Server, server), open(Side::Client, client)])
    }

    fn driver(&mut self, side: Side) -> &mut dyn Driver {
        &mut self.drivers[side as usize]
    }

    fn arena(&self, side: Side) -> &Arena {
        &self.arenas[side as usize]
    }

    fn address(&self, side: Side) -> SocketAddr {
        SocketAddr::new(ip(side, false), 0)
    }

    fn address_v6(&self, side: Side) -> SocketAddr {
        SocketAddr::new(ip(side, true), 0)
    }

    fn other_address(&self) -> SocketAddr {
        unreachable!("no case on a stack binds to all addresses")
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new("/").join(name)
    }

    fn make_directory(&self, name: &str) {
        self.world.make_directory(self.path(name));
    }

    fn make_link(&self, name: &str, to: &Path) {
        self.world.make_link(self.path(name), to, false);
    }

    fn rename(&self, from: &str, to: &str) {
        self.world.rename(self.path(from), self.path(to));
    }

    fn make_forbidden(&mut self, _name: &str) {
        unreachable!("no case on a stack opens what is forbidden")
    }

    fn break_disk(&mut self, _is_broken: bool) {
        unreachable!("no case on a stack has a disk fail")
    }

    fn magic_link(&self) -> (PathBuf, &'static str) {
        unreachable!("no case on a stack follows links")
    }

    fn user(&self) -> u32 {
        1000
    }

    fn take(&mut self, _side: Side, _name: &Unix) {}

    fn remove(&mut self, _name: &Unix) {}

    fn pass(&mut self) {
        self.world.pass(Duration::from_micros(400));
    }
}
