//! Frames and parcels cost no allocation once the lanes are warm: counted by an allocator around the system's, for the whole process.
//! So this is one test in a program of its own, in real memory, on a driver that does nothing.
#![cfg(not(loom))]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod idle;

use corelane_lane::{Channels, Control, Homing, Kit, Lane, LaneSettings, Mesh, Turn, Work, Works};
use corelane_seam::parcel::{AbroadLimits, Guest, Parcel, ParcelHome};
use corelane_seam::{
    Arena, Chain, Completion, Driver, Fault, Frame, FrameMemory, FrameParcel, Instant, Link, Port, PortFacts, PortKind, Segment,
    Shared, Taken,
};
use corelane_sim::CountedPort;
use idle::Idle;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::collections::VecDeque;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const FRAMES: usize = 128;
const FRAME_BYTES: usize = 2048;
/// Frames that the interface has at most, each way.
const RING: usize = 32;
/// Frames that each turn brings.
const BURST: usize = 4;
/// Bytes of a packet.
const PACKET: usize = 200;
/// Turns of a lane in which allocations are counted at once.
const TURNS: usize = 1_000;

/// An interface whose packets all look alike: a turn brings some, in memory that was lent for them, and what is sent is read one turn later.
#[derive(Debug)]
struct Cable {
    memory: FrameMemory,
    lent: VecDeque<u32>,
    sending: VecDeque<Frame>,
    taken: u64,
}

impl Cable {
    fn new(memory: FrameMemory) -> Self {
        let (lent, sending) = (VecDeque::with_capacity(RING), VecDeque::with_capacity(RING));
        Self { memory, lent, sending, taken: 0 }
    }
}

impl Port for Cable {
    fn facts(&self) -> PortFacts {
        PortFacts {
            link: Link { interface: 1, mac: [2, 0, 0, 0, 0, 1] },
            queue: 0,
            frame_bytes_max: 1514,
            pieces_max: 1,
            kind: PortKind::Simulated,
            leaves_sums: false,
        }
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn receive(&mut self, _: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        while self.lent.len() < RING
            && let Some(frame) = self.memory.frame()
        {
            self.lent.push_back(self.memory.lend(frame).unwrap().0);
        }
        for index in self.lent.drain(..at_most.min(self.lent.len())) {
            let mut frame = self.memory.take_back(index, Frame::HEADROOM, PACKET).unwrap();
            frame.fill(7);
            into.push(frame);
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        false
    }

    fn send(&mut self, _: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        let room = RING - self.sending.len();
        let before = self.sending.len();
        self.sending.extend(frames.drain(..frames.len().min(room)));
        let taken = (self.sending.len() - before) as u64;
        self.taken += taken;
        Ok(Taken { taken, refused: 0 })
    }

    fn released(&mut self, _: u64) -> u64 {
        for frame in self.sending.drain(..) {
            assert_eq!(frame[..], [7; PACKET], "it is sent as it was received");
        }
        self.taken
    }
}

/// What lanes give each other.
enum Given {
    Frame(FrameParcel),
    Lease(Parcel),
    Shared(Parcel),
}

/// Gives each frame that arrives, a lease and shared bytes to the other lane, which sends the one and looks at the others. It gives one more
/// away that nobody takes.
struct Trader {
    mesh: Mesh<Given>,
    port: CountedPort<Cable>,
    arrived: Vec<Frame>,
    outgoing: Vec<Frame>,
    value: Shared,
    kept: Vec<Guest>,
    chain: Chain,
    heard: u64,
}

impl Trader {
    fn new(mesh: Mesh<Given>, memory: FrameMemory, arena: &Arena) -> Self {
        let (port, _) = CountedPort::new(Cable::new(memory));
        let value = arena.copy_of(&[9; 300]).unwrap().share();
        let (arrived, outgoing, kept, chain) = Default::default();
        Self { mesh, port, arrived, outgoing, value, kept, chain, heard: 0 }
    }

    fn give(&mut self, kit: &Kit) {
        let (to, now) = (1 - kit.lane(), kit.now());
        self.port.receive(now, BURST, &mut self.arrived).unwrap();
        assert_eq!(self.arrived.len(), BURST, "frames come home, so there are some to receive into");
        for frame in self.arrived.drain(..) {
            let parcel = frame.parcel(to, Instant::from_nanoseconds(now)).unwrap();
            assert!(self.mesh.send(kit, to, Given::Frame(parcel)).is_ok());
        }
        let now = Instant::from_nanoseconds(now);
        let lease = || kit.arena.copy_of(&[8; 100]).unwrap().parcel(to, now).unwrap();
        assert!(self.mesh.send(kit, to, Given::Lease(lease())).is_ok());
        assert!(self.mesh.send(kit, to, Given::Shared(self.value.parcel(to, now).unwrap())).is_ok());
        drop(lease());
    }

    fn look_at(&mut self) {
        for guest in self.kept.drain(..) {
            let bytes = if guest[0] == 9 { 300 } else { 100 };
            self.chain.push(Segment::Guest(guest.slice(0..50)));
            self.chain.push(Segment::Guest(guest));
            assert_eq!(self.chain.len(), 50 + bytes);
            self.chain.clear();
        }
    }
}

impl Work for Trader {
    fn name(&self) -> &'static str {
        "trader"
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        each(&mut self.mesh);
    }

    fn complete(&mut self, _: &mut Kit, _: Completion) {}

    fn serve(&mut self, kit: &mut Kit) {
        self.port.released(kit.now());
        self.look_at();
        self.give(kit);
    }

    fn take_messages(&mut self, kit: &mut Kit, at_most: usize) -> usize {
        let Self { mesh, outgoing, kept, heard, .. } = self;
        mesh.take(at_most, |_, given| {
            *heard += u64::from(given.is_some());
            match given {
                Some(Given::Frame(parcel)) => outgoing.push(Frame::arrived(&kit.guests, parcel)),
                Some(Given::Lease(mut parcel)) => {
                    parcel.bytes_mut().unwrap()[1] += 1;
                    kept.push(kit.guests.admit(parcel));
                }
                Some(Given::Shared(parcel)) => kept.push(kit.guests.admit(parcel)),
                None => {}
            }
        })
    }

    fn flush(&mut self, kit: &mut Kit) {
        self.port.send(kit.now(), &mut self.outgoing).unwrap();
    }

    fn has_work(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn drain(&mut self, _: &mut Kit, _: &mut dyn Driver) {}
}

fn lanes(posts: &[ParcelHome]) -> Vec<Lane<Idle>> {
    let settings = LaneSettings::new().memory_bytes(4 << 20);
    let control = Control::new(posts.len());
    let mut meshes = Mesh::between(&control, 64).into_iter().zip(Mesh::between(&control, 64));
    idle::lanes(&control, settings, |number, arena| {
        let (mesh, homing) = meshes.next().unwrap();
        let (memory, post, lane) = (FrameMemory::new(FRAMES, FRAME_BYTES).unwrap(), &posts[number], number as u16);
        memory.open_abroad(lane, AbroadLimits::default(), post);
        arena.open_abroad(lane, AbroadLimits::default(), post);
        Works::of(Trader::new(mesh, memory, arena)).and(Homing::new(post.clone(), homing))
    })
}

#[test]
fn what_travels_between_lanes_allocates_nothing() {
    let posts = [ParcelHome::default(), ParcelHome::default()];
    let mut lanes = lanes(&posts);
    let mut turn = |count: usize| {
        for _ in 0..count {
            lanes.iter_mut().for_each(|lane| assert_ne!(lane.turn(), Turn::Ended));
        }
    };
    // The first turns make the storage for what travels at once.
    turn(20);
    let before = posts.each_ref().map(|post| post.counts(Instant::from_nanoseconds(0)));
    // The thread that began this test may still be about its own business: it is over before the last of these.
    let windows: [_; 3] = std::array::from_fn(|_| {
        let region = Region::new(GLOBAL);
        turn(TURNS);
        let change = region.change();
        (change.allocations, change.reallocations)
    });
    let turns = windows.len() * TURNS;
    for (post, before) in posts.iter().zip(before) {
        let counts = post.counts(Instant::from_nanoseconds(0));
        assert_eq!((counts.sent - before.sent, counts.refused), ((turns * (BURST + 3)) as u64, 0));
        assert_eq!(counts.found - before.found, turns as u64, "what nobody takes comes home by itself");
        assert!(counts.parcels < 4 * (BURST + 3), "{counts:?}");
    }
    let heard: u64 = lanes.iter().map(|lane| lane.work::<Trader>().unwrap().heard).sum();
    assert!(heard > (2 * turns * (BURST + 2)) as u64, "{heard}");
    assert_eq!(windows.iter().min(), Some(&(0, 0)), "{windows:?}");
}
