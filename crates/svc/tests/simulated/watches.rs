//! Directories that a service watches: what changes is told, and a watch that nobody keeps ends.

use crate::for_seeds;
use crate::rig::{MS, Nobody, Play, Random, Rig, RigPlan, S, patient};
use corelane_seam::{File, FileOutcome, OpenOptions, Outcome, Reason, Record};
use corelane_sim::{Faults, Report, Turn, World};
use corelane_svc::{Cx, Input, Next, Output, Peer, Silent, StreamService, Watch};
use corelane_watch::LaneCounter;
use std::cell::RefCell;
use std::rc::Rc;

/// Changes of a run.
const CHANGES: u32 = 40;
const CHANGE: u64 = 1 << 40;

/// What a lane was told.
#[derive(Default)]
struct Told {
    /// It watches since then; none while it does not.
    since: Option<u64>,
    changed: u32,
    refused: u32,
    cancelled: u32,
}

type Shared = Rc<RefCell<Told>>;

const OPEN: u64 = 0;
const WATCH: u64 = 1;
const DROPPED: u64 = 2;
const AGAIN: u64 = 3;
const LOOK: u64 = 4;

/// Watches a directory on and on; a second watch of it is given up at once.
struct Watcher {
    told: Shared,
    directory: Option<File>,
    watch: Option<Watch>,
}

impl Watcher {
    fn open(cx: &mut Cx<'_>) {
        cx.open_file("/watched".into(), OpenOptions::new().read(true).directory(true), OPEN);
    }

    fn watch(&mut self, cx: &mut Cx<'_>) {
        let Some(directory) = &self.directory else { return Self::open(cx) };
        self.watch = Some(cx.watch_directory(directory, WATCH));
        drop(cx.watch_directory(directory, DROPPED));
        cx.open_beneath(directory, "file".into(), OpenOptions::new().read(true), LOOK);
    }
}

impl StreamService for Watcher {
    type Talk = Silent;
    type Session = ();

    fn started(&mut self, cx: &mut Cx<'_>) {
        Self::open(cx);
    }

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    fn receive(&mut self, _cx: &mut Cx<'_>, (): &mut (), _input: &mut Input, _output: &mut Output) -> Next {
        Next::Continue
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64) {
        assert_eq!(token, AGAIN);
        self.watch(cx);
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        let now = cx.now().nanoseconds();
        let told = &mut *self.told.borrow_mut();
        match (token, outcome) {
            (OPEN, Outcome::File(FileOutcome::Opened { file, .. })) => self.directory = Some(file),
            (WATCH, Outcome::File(FileOutcome::Watched)) => {
                assert!(told.since.replace(now).is_none(), "it watches once");
                return;
            }
            (WATCH, Outcome::File(FileOutcome::Changed)) => {
                assert!(told.since.take().is_some(), "it was told that it watches");
                told.changed += 1;
            }
            (WATCH, Outcome::Failed(fault)) if fault.reason == Reason::Busy => told.refused += 1,
            (DROPPED, Outcome::Failed(fault)) if fault.reason == Reason::Cancelled => {
                told.cancelled += 1;
                return;
            }
            (LOOK, Outcome::File(FileOutcome::Opened { .. }) | Outcome::Failed(_)) => return,
            // The lane ends.
            (WATCH, Outcome::Failed(fault)) if fault.reason == Reason::Cancelled => return,
            (DROPPED, Outcome::Failed(_) | Outcome::File(FileOutcome::Watched | FileOutcome::Changed)) => return,
            (OPEN, Outcome::Failed(_)) => {}
            (token, outcome) => unreachable!("{token}: {outcome:?}"),
        }
        cx.start_alarm(std::time::Duration::from_millis(1), AGAIN).unwrap();
    }
}

/// Changes the directory now and then.
struct Changes {
    random: Random,
    left: u32,
}

impl Play for Changes {
    fn news(&mut self, world: &World, turn: Turn) {
        assert_eq!(turn, Turn::Alarm(CHANGE));
        world.write_file("/watched/file", &[self.left as u8]);
        self.left -= 1;
        if self.left > 0 {
            world.alarm(world.now() + self.random.time_below(100 * MS), CHANGE);
        }
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }
}

pub fn run(seed: u64, faults: Faults) -> Report {
    let world = World::new(seed, faults);
    world.make_directory("/watched");
    let told: Vec<Shared> = [(); 2].map(|()| Shared::default()).to_vec();
    let watchers = told.clone();
    let watcher = move |lane: usize| Watcher { told: watchers[lane].clone(), directory: None, watch: None };
    let mut rig = Rig::serving(&world, &RigPlan::lanes(2), patient(), watcher);
    let mut changes = Changes { random: Random::new(seed), left: CHANGES };
    world.alarm(world.now() + 10 * MS, CHANGE);
    assert!(rig.play(&mut changes));
    rig.pass(5 * S, &mut Nobody); // the last notices may be late
    world.write_file("/watched/file", b"last");
    let before: Vec<(bool, u32)> = told.iter().map(|told| (told.borrow().since.is_some(), told.borrow().changed)).collect();
    rig.pass(5 * S, &mut Nobody);
    for (told, (watched, changed)) in told.iter().zip(before) {
        assert!(!watched || told.borrow().changed > changed, "it watched, and was not told");
        assert!(faults != Faults::none() || (watched && told.borrow().cancelled > 1));
    }
    let refused: u32 = told.iter().map(|told| told.borrow().refused).sum();
    assert!(rig.lane_count(LaneCounter::WatchesRefused) >= u64::from(refused));
    // Watches end with their lanes, and hold no drain up.
    rig.close(&mut Nobody);
    world.report()
}

#[test]
fn who_watches_is_told() {
    for_seeds(30, |seed| {
        run(seed, Faults::none());
    });
}

#[test]
fn who_watches_is_told_under_every_fault() {
    for_seeds(150, |seed| {
        run(seed, Faults::all(seed));
    });
}

#[test]
fn a_refused_watch_is_said_once() {
    let world = World::new(1, Faults::none().with(corelane_sim::FaultKind::RefusedFileWatch, 1_000));
    world.make_directory("/watched");
    let told = Shared::default();
    let watched = told.clone();
    let watcher = move |_| Watcher { told: watched.clone(), directory: None, watch: None };
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1), patient(), watcher);
    rig.pass(S, &mut Nobody);
    assert!(told.borrow().refused > 10 && rig.lane_count(LaneCounter::WatchesRefused) > 10);
    let told: Vec<Record> = rig.reports.borrow().iter().filter(|record| record.text.contains("not watched")).cloned().collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].text.contains("fs.inotify.max_user_watches"), "{told:?}");
    rig.close(&mut Nobody);
}
