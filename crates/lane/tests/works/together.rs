//! Three works and control on each of some lanes, under faults, of which one may break.

use crate::administration::{Administration, Question};
use crate::events::{Events, TIMERS};
use crate::guard::{Guard, Mine};
use crate::packets::{Account, Packets};
use crate::rig::{MS, Rig, at, client, settings};
use crate::streams::Streams;
use corelane_lane::{Budget, Control, Mesh, Order, Silence, Works};
use corelane_sim::{DatagramPeer, Faults, Peer, Random, SimDriver, Status, World, for_seeds};
use corelane_watch::LaneCounter;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc::channel;

/// What a run has shown, to see that all of it happens somewhere.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    full: u64,
    events: u64,
    messages: u64,
    came_back: u64,
    foreign: u64,
    broken: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.full += other.full;
        self.events += other.events;
        self.messages += other.messages;
        self.came_back += other.came_back;
        self.foreign += other.foreign;
        self.broken += other.broken;
    }
}

/// Which of the three breaks, on which lane, after how many calls: at least those of its first turn, in which its socket becomes its own.
#[derive(Clone, Copy)]
struct Plot {
    kind: usize,
    lane: usize,
    calls: u32,
}

struct Stage {
    rig: Rig,
    account: Rc<RefCell<Account>>,
    full: Rc<Cell<u64>>,
    events: Rc<Cell<u64>>,
    descriptors: Vec<i32>,
    tell: corelane_lane::Tell<Question>,
    asked: Vec<u64>,
}

/// The names of the three, in the order of their kinds.
const NAMES: [&str; 3] = ["packets", "streams", "events"];

impl Stage {
    fn new(world: World, seed: u64, lanes: usize, plot: Option<Plot>) -> Self {
        let control = Control::new(lanes);
        let (tell, ears) = control.words();
        let meshes = Mesh::between(&control, settings().channel_messages);
        let mut ends = meshes.into_iter().zip(ears);
        let (account, full, events) = (Rc::<RefCell<Account>>::default(), Rc::default(), Rc::<Cell<u64>>::default());
        let mut descriptors = Vec::new();
        let outside = world.clone();
        let rig = Rig::new(world, control, settings(), |lane, driver: &mut SimDriver| {
            let (mesh, ear) = ends.next().unwrap();
            let mut mesh = Some(mesh);
            let mut random = Random::new(seed * 31 + lane as u64);
            descriptors.push(outside.open_foreign(lane).unwrap());
            let mut works = Works::default();
            for place in 0..NAMES.len() {
                let kind = (place + seed as usize) % NAMES.len();
                let budget = Budget { completions: 1 + random.below(4) as usize, other: 1 + random.below(3) as usize };
                let mine = plot.filter(|plot| (plot.kind, plot.lane) == (kind, lane)).map(|plot| Mine::after(plot.calls));
                let guard = Guard::new(random.below(1 << 30), budget, true, mine.unwrap_or_default(), Rc::clone(&full));
                works = match kind {
                    0 => {
                        let mesh = mesh.take().unwrap();
                        works.and_within(budget, Packets::new(guard, mesh, &account, driver, at(9000 + lane as u16), lanes))
                    }
                    1 => works.and_within(budget, Streams::new(guard, driver, at(7))),
                    _ => works.and_within(budget, Events::new(guard, seed, descriptors[lane], 300, &events)),
                };
            }
            works.and(Administration::new(ear))
        });
        Self { rig, account, full, events, descriptors, tell, asked: vec![0; lanes] }
    }

    /// A word to control on each lane, which counts them.
    fn ask(&mut self) {
        for (lane, asked) in self.asked.iter_mut().enumerate() {
            let (asker, answer) = channel();
            self.tell.tell(lane, Question(asker)).unwrap();
            let mut heard = None;
            self.rig.until(|| {
                heard = answer.try_recv().ok();
                heard.is_some()
            });
            assert_eq!(heard, Some(*asked), "words are heard in order and once");
            *asked += 1;
        }
    }

    fn toggle(&self, random: &mut Random) {
        let lane = random.below(self.descriptors.len() as u64) as usize;
        self.rig.world.set_ready(
            lane,
            self.descriptors[lane],
            corelane_seam::Interest { read: random.below(2) == 0, write: false },
        );
    }
}

/// Somebody who says something, and hears it again.
struct Talker {
    peer: Peer,
    said: Vec<u8>,
    heard: Vec<u8>,
}

impl Talker {
    fn new(world: &World, number: u8) -> Self {
        Self { peer: world.connect(client(number), at(7)).unwrap(), said: Vec::new(), heard: Vec::new() }
    }

    fn talk(&mut self, random: &mut Random) {
        let words: Vec<u8> = (0..1 + random.below(200)).map(|_| random.below(256) as u8).collect();
        let sent = self.peer.send(&words);
        self.said.extend(&words[..sent]);
        self.listen();
    }

    fn listen(&mut self) {
        self.heard.extend(self.peer.read(usize::MAX));
        assert!(self.said.starts_with(&self.heard), "a connection hears what it has said");
    }
}

fn throw(thrower: &DatagramPeer, lanes: usize, random: &mut Random) {
    for _ in 0..random.below(12) {
        let lane = random.below(lanes as u64) as u16;
        thrower.send(at(9000 + lane), &[random.below(256) as u8]).unwrap();
    }
}

/// One run, in which perhaps one work breaks.
fn run(seed: u64, faults: Faults, lanes: usize, plot: Option<Plot>) -> Seen {
    let world = World::new(seed, faults);
    let mut stage = Stage::new(world.clone(), seed, lanes, plot);
    let mut random = Random::new(seed + 1);
    let thrower = world.bind(client(200)).unwrap();
    let mut talkers: Vec<Talker> = (0..8).map(|number| Talker::new(&world, number)).collect();
    for _ in 0..8 {
        talkers.iter_mut().for_each(|talker| talker.talk(&mut random));
        throw(&thrower, lanes, &mut random);
        stage.toggle(&mut random);
        stage.rig.pass(random.below(3 * MS));
        stage.ask();
    }
    stage.rig.pass(200 * MS);
    talkers.iter_mut().for_each(Talker::listen);
    let broken = stage.rig.count(LaneCounter::WorksBroken);
    assert_eq!(broken, u64::from(plot.is_some()), "a mine is stepped on long before the end");
    check_report(&stage, plot);
    if plot.is_none() {
        let account = stage.account.clone();
        // Messages arrive, and not only in a drain.
        stage.rig.until(|| account.borrow().sent == account.borrow().received);
    }
    if faults == Faults::none() {
        check_talkers(&talkers, plot);
    }
    stage.descriptors.iter().enumerate().for_each(|(lane, &descriptor)| world.close_foreign(lane, descriptor));
    stage.rig.until_ended(Order::Drain);
    let (asker, _answer) = channel();
    assert_eq!(stage.tell.tell(0, Question(asker)).unwrap_err().why, Silence::Gone, "an ended lane hears nothing");
    world.check().unwrap();
    let account = stage.account.borrow();
    if plot.is_none_or(|plot| plot.kind != 0) {
        assert_eq!(account.sent, account.received, "every message arrives");
        assert_eq!(account.arrived, account.handled + lost(&account) + account.left, "every frame is handled once");
    }
    let foreign = stage.rig.count(LaneCounter::CompletionsForeign);
    // Only timers that had come, and were stopped, as the events ended by themselves.
    assert!(broken > 0 || foreign <= (TIMERS * lanes) as u64, "{foreign} are foreign, and no work broke");
    let (full, events) = (stage.full.get(), stage.events.get());
    Seen { full, events, messages: account.received, came_back: account.came_back, foreign, broken }
}

/// Frames that a toy gave up, as it does with each fourth that comes back.
fn lost(account: &Account) -> u64 {
    account.came_back / 4
}

/// The operator is told of the one that broke, by its name, and of nothing else.
fn check_report(stage: &Stage, plot: Option<Plot>) {
    let reports = stage.rig.reports.borrow();
    assert_eq!(reports.len(), usize::from(plot.is_some()), "{reports:?}");
    if let Some(plot) = plot {
        let line = reports[0].to_string();
        let beginning = format!("lane {}: [CL-0025] its work {:?} broke", plot.lane, NAMES[plot.kind]);
        assert!(line.starts_with(&beginning) && line.ends_with("a mine"), "{reports:?}");
    }
}

/// Without faults, all that was said is heard; where the streams of a lane broke, its connections have ended.
fn check_talkers(talkers: &[Talker], plot: Option<Plot>) {
    let streams_broke = plot.is_some_and(|plot| plot.kind == 1);
    for talker in talkers {
        let is_whole = talker.heard == talker.said;
        let has_ended = matches!(talker.peer.status(), Status::Failed(_));
        assert!(
            is_whole || streams_broke && has_ended,
            "a connection of a work that goes on is served: {:?}, {} of {}",
            talker.peer.status(),
            talker.heard.len(),
            talker.said.len()
        );
    }
}

#[test]
fn works_share_a_lane_within_their_budgets() {
    let mut all = Seen::default();
    for_seeds(1500, |seed| {
        let faults = if seed % 3 == 0 { Faults::none() } else { Faults::all(seed) };
        all.add(&run(seed, faults, 1 + seed as usize % 3, None));
    });
    println!("{all:?}");
    assert!(all.full > 0 && all.events > 0 && all.messages > 0 && all.came_back > 0, "{all:?}");
    assert_eq!(all.broken, 0);
}

#[test]
fn a_work_that_breaks_disturbs_no_other() {
    let mut all = Seen::default();
    for_seeds(1500, |seed| {
        let faults = if seed % 3 == 0 { Faults::none() } else { Faults::all(seed) };
        let (mut random, lanes) = (Random::new(seed + 2), 1 + seed as usize % 3);
        let (kind, lane) = (random.below(3) as usize, random.below(lanes as u64) as usize);
        all.add(&run(seed, faults, lanes, Some(Plot { kind, lane, calls: 3 + random.below(40) as u32 })));
    });
    println!("{all:?}");
    assert!(all.broken > 0 && all.foreign > 0 && all.messages > 0, "{all:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for_seeds(10, |seed| {
        let play = || run(seed, Faults::all(seed), 2, Some(Plot { kind: seed as usize % 3, lane: 1, calls: 20 }));
        assert_eq!(play(), play());
    });
}
