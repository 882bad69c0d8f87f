//! A panic on a packet's way ends the packets, and not their lane.

use super::*;
use corelane_lane::{Budget, Control, Kit, Lane, LaneSettings, Order, Report, Turn as LaneTurn, Work, Works};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_seam::{FrameMemory, Record, Trains};
use corelane_sim::{CardSetup, Faults, Interface, SimDriver, SimPort, Turn, World};
use corelane_watch::{Description, LaneName, Page};
use std::time::Duration;

const OWN: [u8; 4] = [10, 0, 0, 1];
const PORT: u16 = 60_007;
const MS: Duration = Duration::from_millis(1);

/// Who asks for the stack's address (ARP).
const QUESTION: [u8; 42] = {
    let mut frame = [0; 42];
    let head = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 9];
    let mut at = 0;
    while at < 6 {
        frame[at] = 0xff;
        frame[6 + at] = if at == 0 {
            2
        } else if at == 5 {
            9
        } else {
            0
        };
        at += 1;
    }
    at = 0;
    while at < head.len() {
        frame[12 + at] = head[at];
        at += 1;
    }
    (frame[38], frame[39], frame[40], frame[41]) = (OWN[0], OWN[1], OWN[2], OWN[3]);
    frame
};

/// What the operator was told.
type Told = Rc<RefCell<Vec<String>>>;

struct Operator(Told);

impl Report for Operator {
    fn line(&mut self, record: Record) {
        self.0.borrow_mut().push(record.to_string());
    }
}

/// What somebody has a work do once.
type Deed = Rc<RefCell<Option<Box<dyn FnOnce()>>>>;

/// The work that the lane lives for, until it is drained.
#[derive(Default)]
struct Other {
    is_draining: bool,
    /// Turns in which it was served.
    served: usize,
    /// It has just done something, and wants to go on.
    is_busy: bool,
    /// What it does in its next turn.
    does: Deed,
}

impl Work for Other {
    fn name(&self) -> &'static str {
        "other"
    }

    fn keeps_lane(&self) -> bool {
        true
    }

    fn complete(&mut self, _: &mut Kit, _: Completion) {}

    fn serve(&mut self, _: &mut Kit) {
        self.served += 1;
        let does = self.does.take();
        self.is_busy = does.is_some();
        does.into_iter().for_each(|does| does());
    }

    fn flush(&mut self, _: &mut Kit) {}

    fn has_work(&self) -> bool {
        self.is_busy
    }

    fn has_ended(&self) -> bool {
        self.is_draining
    }

    fn drain(&mut self, _: &mut Kit, _: &mut dyn Driver) {
        self.is_draining = true;
    }
}

/// A lane with a stack, and what lies behind it.
struct Rig {
    world: World,
    test: Interface,
    beside: Rc<RefCell<Beside>>,
    memory: FrameMemory,
    control: Arc<Control>,
    lane: Option<Lane<Stack<SimDriver>>>,
    told: Told,
}

impl Rig {
    fn new() -> Self {
        Self::within(None)
    }

    /// With so many packets a turn at the most.
    fn within(budget: Option<usize>) -> Self {
        Self::of(budget, None)
    }

    fn of(budget: Option<usize>, polling: Option<corelane_isr::polling::Settings>) -> Self {
        let world = World::new(1, Faults::none());
        let test = world.interface(CardSetup { queues: 0, ..CardSetup::default() });
        let card = world.interface(CardSetup::default());
        world.join(&[&test, &card]);
        let (arena, memory) = (Arena::new(8 << 20).unwrap(), FrameMemory::new(256, 2048).unwrap());
        let below = world.driver(arena.clone(), Tuning::default());
        let port = SimPort::open(&card, 0, below.lane(), memory.clone(), 64).unwrap();
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        let table = Table::even(Buckets::DEFAULT, 1).unwrap();
        let settings = Settings::new(hasher, table, (0, 1), 5).with_network(OWN.into(), 24).with_polling(polling);
        let stack = Stack::new(below, arena.clone(), Tuning::default(), Box::new(port), &settings).unwrap();
        let (beside, control) = (stack.beside.clone(), Control::new(1));
        let packets = stack.packets(Mesh::between(&control, 16).remove(0));
        let settings = LaneSettings::new().memory_bytes(8 << 20);
        let page =
            Page::heap(&Description { program: "test".into(), lanes: vec![LaneName::default()], ..Description::default() });
        let told = Told::default();
        let kit = Kit::new(0, &control, arena, page.unwrap().lane(0).unwrap(), &settings, Box::new(Operator(told.clone())));
        let works = Works::of(Other::default());
        let works = match budget {
            Some(completions) => works.and_within(Budget { completions, other: 64 }, packets),
            None => works.and(packets),
        };
        let lane = Some(Lane::new(stack, works, kit, control.clone(), settings));
        let mut rig = Self { world, test, beside, memory, control, lane, told };
        rig.pass();
        rig
    }

    /// Lets ten milliseconds pass.
    fn pass(&mut self) {
        self.world.alarm(self.world.now() + MS * 10, 1);
        while let Turn::Lane(_) = self.world.step().expect("the alarm is to come") {
            let lane = self.lane.as_mut().expect("only a lane that lives has a turn");
            if lane.turn() == LaneTurn::Ended {
                self.lane = None;
            }
        }
    }

    /// Asks who has the stack's address; returns how many answer.
    fn ask(&mut self) -> usize {
        self.test.send(&QUESTION);
        self.pass();
        self.test.take().len()
    }
}

#[test]
fn a_panic_with_a_packet_ends_the_packets_and_not_the_lane() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(), 1);
    rig.beside.borrow_mut().planted = true;
    assert_eq!((rig.ask(), rig.ask()), (0, 0), "nobody answers for the address any more");
    let told = rig.told.take();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("[CL-0025] its work \"packets\" broke") && told[0].ends_with("the packet path broke: planted"));
    assert!(rig.beside.borrow().ports().are_closed, "the kernel has its packets again");
    assert_eq!(rig.memory.counts().lent, 0);
    assert!(rig.lane.is_some(), "the lane goes on");
    rig.control.give(Order::Drain);
    rig.pass();
    assert!(rig.lane.is_none(), "and ends in order");
}

/// However many packets come, a turn handles as many as the work beside has completions of it, and every other work has its turn between.
#[test]
fn a_flood_takes_its_budget_of_a_turn_and_no_more() {
    const BUDGET: usize = 5;
    let mut rig = Rig::within(Some(BUDGET));
    let handled = |rig: &Rig| rig.beside.borrow().tally.frames_in as usize;
    let served = |rig: &Rig| rig.lane.as_ref().unwrap().work::<Other>().unwrap().served;
    let (mut all, mut most) = (handled(&rig), 0);
    for _ in 0..60 {
        rig.test.send(&QUESTION);
    }
    rig.world.alarm(rig.world.now() + MS * 10, 1);
    while let Turn::Lane(_) = rig.world.step().expect("the alarm is to come") {
        let (before, turns) = (handled(&rig), served(&rig));
        rig.lane.as_mut().expect("it goes on").turn();
        let more = handled(&rig) - before;
        assert!(more <= BUDGET, "{more} packets in one turn");
        assert!(more == 0 || served(&rig) == turns + 1, "the other work has its turn");
        (all, most) = (all + more, most.max(more));
    }
    assert_eq!((all, most, rig.test.take().len()), (handled(&rig), BUDGET, 60), "all were handled in the end");
    rig.control.give(Order::Drain);
    rig.pass();
    assert!(rig.lane.is_none());
}

/// A turn of a service is not interrupted: one that takes longer than the shares are held over, while packets wait, is counted.
#[test]
fn a_service_that_takes_longer_than_its_share_in_a_turn_is_counted() {
    let overruns = |takes: Duration| {
        let mut rig = Rig::of(None, Some(corelane_isr::polling::Settings::DEFAULT));
        for round in 0..3 {
            let (world, does) = (rig.world.clone(), rig.lane.as_ref().unwrap().work::<Other>().unwrap().does.clone());
            *does.borrow_mut() = Some(Box::new(move || world.pass(takes)));
            assert_eq!(rig.ask(), 1, "round {round}");
        }
        let beside = rig.beside.borrow();
        beside.polled().timed.overruns
    };
    assert_eq!([MS / 4, MS * 2].map(overruns), [0, 3]);
}

/// A tenth of a millisecond in each turn, and so many turns.
fn without_end(world: World, does: Deed, turns: Rc<std::cell::Cell<u64>>) -> Box<dyn FnOnce()> {
    Box::new(move || {
        world.pass(MS / 10);
        turns.set(turns.get() + 1);
        let again = without_end(world, does.clone(), turns);
        *does.borrow_mut() = Some(again);
    })
}

/// A service that is asked by other ways than packets, and never lets the lane sleep by itself.
#[test]
fn services_at_other_sockets_leave_other_programs_their_share() {
    for user_frac in [10, 30, 50, 90] {
        let mut settings = corelane_isr::polling::Settings::DEFAULT;
        for change in [format!("user_frac={user_frac}"), "other_programs=1".to_owned()] {
            settings.change(change.parse().unwrap()).unwrap();
        }
        let mut rig = Rig::of(None, Some(settings));
        let does = rig.lane.as_ref().unwrap().work::<Other>().unwrap().does.clone();
        let turns = Rc::default();
        *does.borrow_mut() = Some(without_end(rig.world.clone(), does.clone(), Rc::clone(&turns)));
        assert_eq!(rig.ask(), 1, "that wakes it");
        let slept = |rig: &mut Rig| rig.lane.as_mut().unwrap().kit().row.get(corelane_watch::LaneCounter::SleepNanoseconds);
        let (begun, before, slept_before) = (rig.world.now(), turns.get(), slept(&mut rig));
        (0..40).for_each(|_| rig.pass());
        let passed = (rig.world.now() - begun).as_micros() as u64;
        let share = 100 - (turns.get() - before) * 100 * 100 / passed;
        assert!(share.abs_diff(user_frac) <= 3, "{share} for {user_frac}");
        let told = (slept(&mut rig) - slept_before) / 10 / passed;
        assert!(told.abs_diff(user_frac) <= 3, "{told} are told as sleep for {user_frac}");
    }
}

#[test]
fn sockets_of_a_path_that_broke_are_refused_and_closed() {
    let world = World::new(1, Faults::none());
    let card = world.interface(CardSetup::default());
    let (arena, memory) = (Arena::new(8 << 20).unwrap(), FrameMemory::new(64, 2048).unwrap());
    let below = world.driver(arena.clone(), Tuning::default());
    let port = SimPort::open(&card, 0, below.lane(), memory, 16).unwrap();
    let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
    let settings = Settings::new(hasher, Table::even(Buckets::DEFAULT, 1).unwrap(), (0, 1), 5).with_network(OWN.into(), 24);
    let mut stack = Stack::new(below, arena.clone(), Tuning::default(), Box::new(port), &settings).unwrap();
    let bind = Bind {
        address: SocketAddr::from((OWN, PORT)).into(),
        peer: None,
        share_port: false,
        v6_only: false,
        receive_buffer_bytes: 0,
        send_buffer_bytes: 0,
    };
    let socket = stack.bind(&bind).unwrap();
    stack.fenced(|_, _, _| panic!("planted"));
    let mut trains = Trains::new();
    let to = SocketAddr::from(([10, 0, 0, 9], 9)).into();
    assert!(trains.add_single(&to, None, 0, arena.copy_of(b"hello").unwrap().share().into()));
    let mut completions = Vec::new();
    stack.push(Handle::new(1, 1, 0).of(1), DatagramOp::Send { socket, trains }.into());
    stack.push(Handle::new(1, 2, 0).of(1), Op::Close { socket, reset: false });
    stack.collect(Wait::No, 64, &mut completions);
    let outcome = |index: u32| completions.iter().find(|completion| completion.handle.index() == index).map(|end| &end.outcome);
    assert!(
        matches!(outcome(1), Some(Outcome::Datagram(DatagramOutcome::Departed { datagrams: 0, refused: 1, fault: Some(_), .. }))),
        "{completions:?}"
    );
    assert!(matches!(outcome(2), Some(Outcome::Closed)), "{completions:?}");
}
