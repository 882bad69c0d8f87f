//! Lanes that take frames from ports, give each other parcels and send what they were given, under faults, of which one may break.

use crate::exchange::{Exchange, LANE_AT, Parts, Trade};
use crate::guard::Mine;
use crate::rig::{MS, Rig, settings};
use corelane_lane::{Control, Mesh, Order};
use corelane_seam::parcel::ParcelHome;
use corelane_seam::{FrameMemory, Instant};
use corelane_sim::{CardSetup, Faults, Interface, Random, SimPort, WireFaults, World, for_seeds};
use corelane_watch::LaneCounter;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const FRAMES: usize = 64;

struct Stage {
    rig: Rig,
    trade: Rc<RefCell<Trade>>,
    tests: Vec<Interface>,
    memories: Vec<FrameMemory>,
    posts: Vec<ParcelHome>,
}

impl Stage {
    fn new(world: World, seed: u64, lanes: usize, broken: Option<(usize, u32)>) -> Self {
        let control = Control::new(lanes);
        let mut meshes = Mesh::between(&control, 8).into_iter().zip(Mesh::between(&control, 4));
        let posts: Vec<_> = (0..lanes).map(|_| ParcelHome::default()).collect();
        let memories: Vec<_> = (0..lanes).map(|_| FrameMemory::new(FRAMES, 2048).unwrap()).collect();
        let trade = Rc::<RefCell<Trade>>::default();
        let mut tests = Vec::new();
        let outside = world.clone();
        let rig = Rig::new(world, control, settings(), |lane, driver| {
            let test = outside.interface(CardSetup { queues: 0, ..CardSetup::default() });
            let card = outside.interface(CardSetup::default());
            outside.join(&[&test, &card]);
            tests.push(test);
            let (mesh, homing) = meshes.next().unwrap();
            let (memory, post) = (memories[lane].clone(), posts[lane].clone());
            let port = SimPort::open(&card, 0, driver.lane(), memory.clone(), 16).unwrap();
            let mine = broken.filter(|broken| broken.0 == lane).map(|broken| Mine::after(broken.1)).unwrap_or_default();
            let seed = seed * 31 + lane as u64;
            Exchange::works(Parts { mesh, homing, port, memory, post, seed, mine }, &trade)
        });
        Self { rig, trade, tests, memories, posts }
    }

    /// Frames from outside, each with the lane that is to send it.
    fn throw(&self, random: &mut Random) {
        for test in &self.tests {
            for _ in 0..random.below(8) {
                let mut frame = vec![0; 60 + random.below(1000) as usize];
                frame[LANE_AT] = random.below(self.tests.len() as u64) as u8;
                test.send(&frame);
            }
        }
    }

    /// All memory of all lanes is where it belongs.
    fn check_memory(&self) {
        for (lane, (memory, post)) in self.memories.iter().zip(&self.posts).enumerate() {
            post.find_lost();
            let counts = memory.counts();
            assert_eq!((counts.free, post.counts(Instant::from_nanoseconds(0)).parcels), (FRAMES, 0), "lane {lane}: {counts:?}");
            assert_eq!(self.rig.arena(lane).used(), 0, "lane {lane}");
        }
    }
}

/// One run, in which perhaps the exchange of one lane breaks.
fn run(seed: u64, wire: WireFaults, lanes: usize, broken: Option<(usize, u32)>) -> (Trade, u64) {
    let faults = Faults { late_completion: 20, reordered_completion: 20, spurious_wake: 10, delayed_bell: 20, ..Faults::none() };
    let world = World::new(seed, if seed.is_multiple_of(2) { faults } else { Faults::none() });
    world.wire_faults(wire);
    let mut stage = Stage::new(world.clone(), seed, lanes, broken);
    let mut random = Random::new(seed + 1);
    let mut heard = 0;
    for _ in 0..12 {
        stage.throw(&mut random);
        stage.rig.pass(random.below(3 * MS));
        heard += stage.tests.iter().map(|test| test.take().len() as u64).sum::<u64>();
    }
    stage.rig.pass(100 * MS);
    stage.rig.end(Order::Drain);
    world.pass(Duration::from_nanos(10 * MS));
    heard += stage.tests.iter().map(|test| test.take().len() as u64).sum::<u64>();
    stage.check_memory();
    world.check().unwrap();
    let (trade, found) =
        (*stage.trade.borrow(), stage.posts.iter().map(|post| post.counts(Instant::from_nanoseconds(0)).found).sum());
    if broken.is_none() {
        assert_eq!(stage.rig.count(LaneCounter::WorksBroken), 0);
        assert_eq!(trade.given, trade.taken, "every parcel arrives");
        assert_eq!(trade.received, trade.sent + trade.dropped, "every frame leaves once, or is said to be dropped");
        assert!(wire != WireFaults::default() || heard == trade.sent, "what was sent is heard: {heard} of {trade:?}");
    }
    (trade, found)
}

#[test]
fn frames_change_lanes_as_parcels_and_leave_there() {
    let mut all = Trade::default();
    for_seeds(300, |seed| {
        let wire = if seed % 3 == 0 { WireFaults::default() } else { WireFaults::all(20) };
        let (trade, _) = run(seed, wire, 2 + seed as usize % 3, None);
        all.given += trade.given;
        all.dropped += trade.dropped;
        all.lent += trade.lent;
        all.refused += trade.refused;
    });
    println!("{all:?}");
    assert!(all.given > 0 && all.dropped > 0 && all.lent > 0 && all.refused > 0, "{all:?}");
}

#[test]
fn memory_comes_home_though_a_lane_breaks() {
    let (mut taken, mut found) = (0, 0);
    for_seeds(300, |seed| {
        let lanes = 2 + seed as usize % 3;
        let mut random = Random::new(seed + 2);
        let broken = (random.below(lanes as u64) as usize, 2 + random.below(60) as u32);
        let (trade, by_stack) = run(seed, WireFaults::all(10), lanes, Some(broken));
        taken += trade.taken;
        found += by_stack;
    });
    assert!(taken > 0 && found > 0, "{taken} arrived, {found} were found");
}

#[test]
fn the_same_seed_gives_the_same_trade() {
    for seed in 0..10 {
        let play = || run(seed, WireFaults::all(20), 3, Some((1, 30)));
        assert_eq!(play(), play());
    }
}
