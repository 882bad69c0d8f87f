//! How works end, one by one, and lanes with them.

use crate::administration::{Administration, Question};
use crate::guard::{Guard, Mine};
use crate::rig::{MS, Rig, at, client, settings};
use crate::streams::Streams;
use corelane_lane::{Budget, Control, Kit, Order, Silence, Work, Works};
use corelane_seam::{Code, Completion, Driver, Lease, Level};
use corelane_sim::{Faults, World};
use corelane_watch::LaneCounter;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::mpsc::{TryRecvError, channel};

/// A work that turns so many times, then ends, or panics, and holds memory meanwhile.
struct Short {
    turns: u32,
    breaks: bool,
    is_control: bool,
    held: Option<Lease>,
    ended: Rc<Cell<u32>>,
}

impl Short {
    fn new(turns: u32, breaks: bool, ended: &Rc<Cell<u32>>) -> Self {
        Self { turns, breaks, is_control: false, held: None, ended: ended.clone() }
    }
}

impl Work for Short {
    fn name(&self) -> &'static str {
        "short"
    }

    fn keeps_lane(&self) -> bool {
        !self.is_control
    }

    fn complete(&mut self, _: &mut Kit, _: Completion) {}

    fn serve(&mut self, kit: &mut Kit) {
        self.held.get_or_insert_with(|| kit.arena.lease(1 << 20).unwrap());
        assert!(kit.arena.held(kit.payer()) >= 1 << 20);
        self.turns -= 1;
        assert!(!(self.breaks && self.turns == 0), "short of turns");
    }

    fn flush(&mut self, _: &mut Kit) {}

    fn has_work(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        self.turns == 0
    }

    fn drain(&mut self, _: &mut Kit, _: &mut dyn Driver) {}

    fn end(&mut self, _: &mut Kit) {
        self.ended.set(self.ended.get() + 1);
    }
}

fn guard(is_shared: bool) -> Guard {
    let budget = Budget { completions: settings().turn_completions, other: settings().turn_other };
    Guard::new(1, budget, is_shared, Mine::default(), Rc::default())
}

fn ended() -> Rc<Cell<u32>> {
    Rc::default()
}

#[test]
fn a_lane_ends_with_its_last_work() {
    let ended = ended();
    let mut rig = Rig::one(|_, _| Works::of(Short::new(3, false, &ended)).and(Short::new(5, false, &ended)));
    rig.pass(MS);
    assert!(rig.has_ended());
    assert_eq!((ended.get(), rig.arena(0).used()), (2, 0));
    assert_eq!(rig.count(LaneCounter::WorksBroken), 0);
}

#[test]
fn the_memory_of_a_work_that_ends_goes_home_while_others_go_on() {
    let ended = ended();
    let mut rig = Rig::one(|_, driver| Works::of(Short::new(3, false, &ended)).and(Streams::new(guard(false), driver, at(7))));
    let peer = rig.world.connect(client(1), at(7)).unwrap();
    rig.pass(5 * MS);
    assert_eq!((ended.get(), rig.arena(0).used()), (1, 0));
    assert!(rig.lane(0).unwrap().work::<Short>().is_none() && rig.lane(0).unwrap().work::<Streams>().is_some());
    assert_eq!(peer.send(b"still here"), 10);
    rig.pass(5 * MS);
    assert_eq!(peer.read(99), b"still here");
    rig.until_ended(Order::Drain);
    rig.world.check().unwrap();
}

#[test]
fn no_lane_lives_for_control() {
    let ended = ended();
    let control = Control::new(1);
    let (tell, mut ears) = control.words();
    let mut rig = Rig::new(World::new(1, Faults::none()), control, settings(), |_, _| {
        let control = Short { is_control: true, ..Short::new(u32::MAX, false, &ended) };
        Works::of(control).and(Administration::new(ears.remove(0))).and(Short::new(4, false, &ended))
    });
    rig.pass(MS);
    assert!(rig.has_ended());
    assert_eq!(ended.get(), 2, "control is told of the end");
    let (asker, _answer) = channel();
    assert_eq!(tell.tell(0, Question(asker)).unwrap_err().why, Silence::Gone);
}

#[test]
#[should_panic(expected = "a lane has a work that it lives for")]
fn a_lane_without_a_work_is_none() {
    let _ = Rig::one(|_, _| Works::default());
}

#[test]
fn the_last_work_takes_the_lane_with_its_panic() {
    let ended = ended();
    let mut rig = Rig::one(|_, _| Works::of(Short::new(9, true, &ended)).and(Short::new(2, false, &ended)));
    let broken = catch_unwind(AssertUnwindSafe(|| rig.pass(MS))).unwrap_err();
    assert_eq!(broken.downcast_ref::<String>().unwrap(), "short of turns");
    assert_eq!((ended.get(), rig.arena(0).used(), rig.count(LaneCounter::WorksBroken)), (1, 0, 1));
    assert!(rig.reports.borrow().is_empty(), "it is the panic that tells");
}

#[test]
fn a_word_for_a_work_that_has_gone_comes_back_and_is_counted() {
    let control = Control::new(1);
    let (tell, mut ears) = control.words();
    let mut rig = Rig::new(World::new(1, Faults::none()), control, settings(), |_, driver| {
        Works::of(Streams::new(guard(false), driver, at(7))).and(Administration::new(ears.remove(0)))
    });
    let peer = rig.world.connect(client(1), at(7)).unwrap();
    let (asker, answer) = channel();
    // It does not bear that nobody listens.
    tell.tell(0, Question(channel().0)).unwrap();
    tell.tell(0, Question(asker.clone())).unwrap();
    rig.pass(5 * MS);
    let beginning = "lane 0: [CL-0025] its work \"administration\" broke and has left; the others go on: ";
    let reports = rig.reports.borrow();
    assert!(matches!(&reports[..], [record] if record.to_string().starts_with(beginning)), "{reports:?}");
    let code = reports[0].code.map(Code::as_str);
    assert_eq!((reports[0].level, code, reports[0].lane), (Level::Warn, Some("CL-0025"), Some(0)));
    drop(reports);
    let unheard = tell.tell(0, Question(asker)).unwrap_err();
    assert_eq!((unheard.why, answer.try_recv()), (Silence::Gone, Err(TryRecvError::Empty)));
    drop(unheard);
    assert_eq!(answer.try_recv(), Err(TryRecvError::Disconnected), "the word that waited is dropped, and its asker knows");
    assert_eq!(peer.send(b"undisturbed"), 11);
    rig.pass(5 * MS);
    assert_eq!(peer.read(99), b"undisturbed");
    rig.until_ended(Order::Drain);
    assert_eq!((rig.count(LaneCounter::WordsRefused), rig.count(LaneCounter::WorksBroken)), (1, 1));
    rig.world.check().unwrap();
}

#[test]
fn a_work_alone_is_handed_all_there_is() {
    let full = Rc::new(Cell::new(0));
    let budget = Budget { completions: 1, other: 1 };
    let mut rig = Rig::one(|_, driver| {
        let guard = Guard::new(1, budget, false, Mine::default(), full.clone());
        Works::default().and_within(budget, Streams::new(guard, driver, at(7)))
    });
    let peers: Vec<_> = (0..6).map(|number| rig.world.connect(client(number), at(7)).unwrap()).collect();
    rig.pass(5 * MS);
    peers.iter().for_each(|peer| assert_eq!(peer.send(b"all at once"), 11));
    rig.pass(5 * MS);
    peers.iter().for_each(|peer| assert_eq!(peer.read(99), b"all at once"));
    assert!(full.get() > 0);
    rig.until_ended(Order::Drain);
    rig.world.check().unwrap();
}
