//! Idle connections that move between lanes while their clients say what they like when they like: no byte is lost, doubled or out of order, each session has one ending, and what the
//! lanes count adds up.

use crate::for_seeds;
use crate::rig::{Family, MS, Nobody, Play, Rig, RigPlan, endings, patient};
use corelane_lane::Order;
use corelane_seam::{Arena, Chain};
use corelane_sim::{Faults, Peer as End, Planted, Random, Report, Status, Turn, World};
use corelane_svc::{
    Command, Cx, Ending, Error, Input, Limits, Move, Next, Output, Passage, Peer, Progress, Silent, Stays, Steer, StreamService,
    Transform, TransformError,
};
use corelane_watch::ServiceCounter as C;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// What a byte becomes, by all that went before it on its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position(u64);

impl Position {
    fn apply(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte ^= (self.0 * 7 + (self.0 >> 8)) as u8;
            self.0 += 1;
        }
    }
}

/// What became of the sessions of all lanes.
#[derive(Default)]
struct Book {
    opened: u64,
    closed: BTreeMap<u64, Vec<Ending>>,
}

/// A session, which its service alone understands.
struct Session {
    number: u64,
    position: Position,
}

/// A session as plain data. One that is packed twice, or unpacked where it was not packed, is found by its number.
struct Packed(u64, Position);

/// Answers each byte with what it becomes. Of the sessions whose number a divisor divides it packs none.
struct Winding {
    book: Rc<RefCell<Book>>,
    keeps: u64,
    /// Sessions that are on this lane, each once.
    here: BTreeMap<u64, ()>,
    /// How it fails, once: then it packs, or unpacks, wrong.
    slip: Rc<Cell<Option<Slip>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slip {
    PackPanics,
    UnpackPanics,
    UnpackRefuses,
    PackCloses,
    NeverUnpacks,
}

impl Winding {
    fn new(book: &Rc<RefCell<Book>>, keeps: u64) -> Self {
        Self { book: book.clone(), keeps, here: BTreeMap::new(), slip: Rc::default() }
    }

    fn slips(&self, slip: Slip) -> bool {
        let slips = self.slip.get() == Some(slip);
        if slips && slip != Slip::NeverUnpacks {
            self.slip.set(None);
        }
        slips
    }
}

impl StreamService for Winding {
    type Talk = Silent;
    type Session = Session;

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> Session {
        let mut book = self.book.borrow_mut();
        book.opened += 1;
        self.here.insert(book.opened, ());
        Session { number: book.opened, position: Position::default() }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, session: &mut Session, input: &mut Input, output: &mut Output) -> Next {
        assert!(self.here.contains_key(&session.number), "a session is on one lane");
        // Bytes are answered in pairs, so the last may be left.
        let bytes = if input.is_finished() { input.len() } else { input.len() & !1 };
        if bytes == 0 {
            return Next::Continue;
        }
        let Ok(mut lease) = cx.lease(bytes) else { return Next::Continue };
        let all = input.pieces().collect::<Vec<_>>().concat();
        lease.append(&all[..bytes]);
        input.skip(bytes);
        session.position.apply(&mut lease);
        cx.count_requests(1);
        output.push(lease.share());
        Next::Continue
    }

    fn pack(&mut self, cx: &mut Cx<'_>, session: Session) -> Result<Box<dyn Any + Send>, Session> {
        assert!(cx.peer(cx.id()).is_some(), "it is there while it is packed");
        if session.number.is_multiple_of(self.keeps) {
            return Err(session);
        }
        if self.slips(Slip::PackCloses) {
            let id = cx.id();
            cx.close(id);
        }
        assert!(!self.slips(Slip::PackPanics), "told to");
        assert!(self.here.remove(&session.number).is_some(), "what is packed is here");
        Ok(Box::new(Packed(session.number, session.position)))
    }

    fn unpack(&mut self, cx: &mut Cx<'_>, packed: Box<dyn Any + Send>) -> Result<Session, Box<dyn Any + Send>> {
        assert!(cx.peer(cx.id()).is_some(), "it is there when it is unpacked");
        if self.slips(Slip::UnpackRefuses) || self.slips(Slip::NeverUnpacks) {
            return Err(packed);
        }
        let Packed(number, position) = *packed.downcast::<Packed>()?;
        assert!(!self.slips(Slip::UnpackPanics), "told to");
        assert!(self.here.insert(number, ()).is_none(), "what is unpacked was elsewhere");
        Ok(Session { number, position })
    }

    fn closed(&mut self, _cx: &mut Cx<'_>, session: Session, ending: Ending) {
        assert!(self.here.remove(&session.number).is_some(), "a session ends where it is");
        self.book.borrow_mut().closed.entry(session.number).or_default().push(ending);
    }
}

/// The places in both streams of a cipher.
#[derive(Clone, Copy, Default)]
struct Places {
    read: Position,
    written: Position,
}

/// A cipher whose places go along, unless it has a value of its lane.
#[derive(Default)]
struct Veil {
    places: Places,
    ties: Option<Rc<()>>,
}

/// The same without ties.
struct Untied(Places);

fn change(position: &mut Position, arena: &Arena, from: &mut Chain, to: &mut Chain) {
    while !from.is_empty() {
        let Some(mut lease) = arena.lease(from.len().min(4 << 10)) else { return };
        let bytes = from.copy_to(lease.spare());
        lease.advance(bytes);
        position.apply(&mut lease);
        from.skip(bytes);
        to.push(lease.share());
    }
}

impl Places {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Progress {
        passage.open();
        change(&mut self.read, passage.arena, passage.received, passage.input);
        change(&mut self.written, passage.arena, passage.output, passage.wire);
        if passage.peer_finished && passage.received.is_empty() {
            passage.end_input();
        }
        Progress::Idle
    }
}

impl Transform for Veil {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        Ok(self.places.pass(passage))
    }

    fn pack(self: Box<Self>) -> Result<Box<dyn Transform + Send>, Box<dyn Transform>> {
        if self.ties.is_some() { Err(self) } else { Ok(Box::new(Untied(self.places))) }
    }
}

impl Transform for Untied {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        Ok(self.0.pass(passage))
    }

    fn pack(self: Box<Self>) -> Result<Box<dyn Transform + Send>, Box<dyn Transform>> {
        Ok(self)
    }
}

/// A client that asks, mostly waits for all of the answer, rests, and asks again.
struct Client {
    end: End,
    random: Random,
    is_veiled: bool,
    /// Of what it says, of what is answered to it, and of the cipher both ways.
    position: Position,
    said: Position,
    heard: Position,
    expected: Vec<u8>,
    got: usize,
    asks_left: u32,
    over: Option<Status>,
}

impl Client {
    fn new(end: End, seed: u64, is_veiled: bool) -> Self {
        let random = Random::new(seed ^ (end.id() as u64) << 20);
        let asks_left = 12;
        let (position, said, heard) = Default::default();
        Self { end, random, is_veiled, position, said, heard, expected: Vec::new(), got: 0, asks_left, over: None }
    }

    fn work(&mut self) {
        if self.over.is_some() {
            return;
        }
        let mut bytes = self.end.read(usize::MAX);
        if self.is_veiled {
            self.heard.apply(&mut bytes);
        }
        let there = self.expected.get(self.got..self.got + bytes.len());
        assert_eq!(there, Some(&bytes[..]), "what is answered is what was asked, in order, and once");
        self.got += bytes.len();
        match self.end.status() {
            Status::Opening | Status::Open => {}
            status => {
                self.over = Some(status);
                self.end.close();
            }
        }
    }

    /// Its time has come: it says something, or its last.
    fn speak(&mut self, world: &World) {
        if self.over.is_some() {
            return;
        }
        if self.end.status() == Status::Open {
            if self.asks_left == 0 {
                return self.end.finish();
            }
            let count = self.random.one_to(3_000);
            let mut bytes = self.random.bytes(count);
            let mut answer = bytes.clone();
            let mut said = self.said;
            if self.is_veiled {
                said.apply(&mut bytes);
            }
            let sent = self.end.send(&bytes);
            // What the way did not take was not said.
            answer.truncate(sent);
            if self.is_veiled {
                self.said = Position(self.said.0 + sent as u64);
            }
            self.position.apply(&mut answer);
            self.expected.extend(answer);
            self.asks_left -= 1;
        }
        self.rest(world);
    }

    fn rest(&mut self, world: &World) {
        let time = Duration::from_micros(self.random.below(30_000));
        world.alarm(world.now() + time, self.end.id() as u64);
    }
}

/// The token of the alarms at which connections are told to move.
const MOVES: u64 = 1 << 40;

struct Cast {
    clients: Vec<Client>,
    tell: corelane_lane::Tell<Steer>,
    lanes: usize,
    random: Random,
    stays: std::sync::mpsc::Sender<Stays>,
    seen: Receiver<Stays>,
    /// No more moves are told.
    rests: bool,
}

impl Cast {
    fn told_to_move(&mut self, world: &World) {
        if self.rests {
            return;
        }
        let (from, to) = (self.random.below(self.lanes as u64) as usize, self.random.below(self.lanes as u64 + 1) as usize);
        let mut random = Random::new(self.random.below(u64::MAX));
        let told = self.stays.clone();
        let which =
            Move { to, choose: Box::new(move |_| random.below(3) > 0), stays: Box::new(move |_, why| told.send(why).unwrap()) };
        let reply = Box::new(move |done: Result<(), Error>| match done {
            Err(Error::NoSuchLane { lane }) => assert!(lane == to && to >= from),
            Err(Error::Draining) | Ok(()) => {}
            Err(other) => panic!("{other}"),
        });
        // A lane that has ended hears nothing.
        let _ = self.tell.tell(from, Steer { command: Command::Move(which), reply });
        world.alarm(world.now() + Duration::from_micros(self.random.below(4_000)), MOVES);
    }
}

impl Play for Cast {
    fn news(&mut self, world: &World, turn: Turn) {
        match turn {
            Turn::Alarm(MOVES) => self.told_to_move(world),
            Turn::Alarm(token) => {
                self.clients.iter_mut().filter(|client| client.end.id() as u64 == token).for_each(|client| client.speak(world));
            }
            Turn::Peer(end) => {
                self.clients.iter_mut().filter(|client| client.end.id() == end.id()).for_each(|client| client.work());
            }
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        self.clients.iter().all(|client| client.over.is_some())
    }
}

/// What a run was.
#[derive(Debug, Default)]
struct Seen {
    moved: u64,
    refused: u64,
    lost: u64,
    returned: u64,
    stays: BTreeMap<String, u64>,
}

/// What the lanes count of connections adds up, on each of them and over all.
fn assert_sums(rig: &Rig) {
    let snapshot = rig.snapshot();
    for (lane, values) in snapshot.lanes.iter().map(|lane| &lane.services[0]).enumerate() {
        let of = |counter| values.get(counter);
        let ended: u64 = [C::EndingsCompleted, C::EndingsEndOfStream, C::EndingsClosing, C::EndingsError, C::EndingsAborted]
            .into_iter()
            .map(of)
            .sum();
        let (came, gone) = (of(C::Accepts) + of(C::MovesHere), ended + of(C::MovesAway) + of(C::ConnectionsOpen));
        assert_eq!(came, gone, "lane {lane}: who came has left, or has ended, or is there");
    }
    assert_eq!(rig.count(C::MovesAway), rig.count(C::MovesHere), "who has left one lane has come to another");
}

/// Clients, and lanes that are told to move connections all the time; then, or before that, a drain.
fn run(seed: u64, faults: Faults, limits: Limits, drains_early: bool) -> (Seen, Report) {
    let world = World::new(seed, faults);
    let lanes = 2 + seed as usize % 3;
    let book: Rc<RefCell<Book>> = Rc::default();
    let (is_veiled, is_tied) = (!seed.is_multiple_of(3), seed % 9 == 4);
    let plan = RigPlan::lanes(lanes).memory(4 << 20).family(Family::of(seed));
    let make = |_| Winding::new(&book, 5);
    let mut rig = match is_veiled {
        true => Rig::behind(&world, &plan, limits, make, move |_, _| {
            Some(Box::new(Veil { ties: is_tied.then(Rc::default), ..Veil::default() }))
        }),
        false => Rig::serving(&world, &plan, limits, make),
    };
    let clients: Vec<Client> = (0..8).map(|number| Client::new(rig.connect(number), seed, is_veiled)).collect();
    for client in &clients {
        world.alarm(world.now() + MS, client.end.id() as u64);
    }
    world.alarm(world.now() + 2 * MS, MOVES);
    let (stays, seen) = channel();
    let mut cast = Cast { clients, tell: rig.tell.clone(), lanes, random: Random::new(seed), stays, seen, rests: false };
    match drains_early {
        true => rig.pass(Duration::from_millis(seed % 90), &mut cast),
        false => assert!(rig.play(&mut cast), "clients wait for ever"),
    }
    cast.rests |= !drains_early;
    rig.pass(MS, &mut cast);
    rig.drain(&mut cast);
    assert_sums(&rig);
    world.check().unwrap();
    let book = book.borrow();
    assert!(book.closed.values().all(|endings| endings.len() == 1), "each session has one ending: {:?}", book.closed);
    assert_eq!(book.closed.len() as u64, book.opened, "and each has one");
    assert_eq!(endings(&rig, 0), rig.count(C::Accepts), "endings against accepted connections");
    let mut seen = Seen {
        moved: rig.count(C::MovesAway),
        refused: rig.count(C::MovesRefused),
        lost: rig.count(C::MovesLost),
        ..Seen::default()
    };
    cast.seen.try_iter().for_each(|why| *seen.stays.entry(format!("{why:?}")).or_default() += 1);
    // Where there was no room on the way, none was refused.
    let refused_here = seen.stays.iter().filter(|(why, _)| !why.starts_with("System"));
    seen.returned = seen.refused - refused_here.map(|(_, times)| times).sum::<u64>();
    if faults == Faults::none() && !drains_early {
        let all_answered = |client: &Client| client.over == Some(Status::Ended) && client.got == client.expected.len();
        assert!(cast.clients.iter().all(all_answered), "who asks is answered in full");
        assert_eq!(seen.lost, 0);
    }
    (seen, world.report())
}

fn add(all: &mut Seen, one: Seen) {
    (all.moved, all.refused, all.lost) = (all.moved + one.moved, all.refused + one.refused, all.lost + one.lost);
    all.returned += one.returned;
    one.stays.into_iter().for_each(|(why, times)| *all.stays.entry(why).or_default() += times);
}

#[test]
fn connections_move_and_no_byte_is_lost_doubled_or_out_of_order() {
    let mut all = Seen::default();
    for_seeds(400, |seed| add(&mut all, run(seed, Faults::none(), patient(), false).0));
    println!("{all:?}");
    assert!(all.moved > 1_000 && all.stays.contains_key("Service") && all.stays.contains_key("Transform"), "{all:?}");
}

#[test]
fn connections_move_under_every_fault() {
    let mut all = Seen::default();
    for_seeds(1_000, |seed| add(&mut all, run(seed, Faults::all(seed), patient(), false).0));
    println!("{all:?}");
    assert!(all.moved > 1_000 && all.returned > 0 && all.lost > 0, "{all:?}");
}

/// Lanes with room for few: who is refused comes back.
#[test]
fn who_finds_no_place_comes_back_and_is_served_on() {
    let mut all = Seen::default();
    for_seeds(200, |seed| add(&mut all, run(seed, Faults::none(), patient().connections_max(5), false).0));
    println!("{all:?}");
    assert!(all.moved > 100 && all.returned > 100, "{all:?}");
}

/// The order to drain finds some of them on their way.
#[test]
fn who_is_on_the_way_when_the_lanes_drain_is_served_and_ends_once() {
    let mut all = Seen::default();
    for_seeds(600, |seed| {
        let faults = if seed.is_multiple_of(2) { Faults::all(seed) } else { Faults::none() };
        // Some find no place, and go back to a lane that drains as well.
        let limits = if seed.is_multiple_of(3) { patient().connections_max(4) } else { patient() };
        add(&mut all, run(seed, faults, limits, true).0);
    });
    println!("{all:?}");
    assert!(all.moved > 1_000, "{all:?}");
}

#[test]
fn the_same_seed_moves_the_same() {
    for_seeds(20, |seed| {
        let [first, second] = [0, 1].map(|_| run(seed, Faults::all(seed), patient(), seed.is_multiple_of(2)).1);
        assert_eq!(first, second);
    });
}

/// Two lanes, and the lane of the one connection that there is.
struct Stage {
    world: World,
    rig: Rig,
    end: End,
    at: usize,
    slip: Rc<Cell<Option<Slip>>>,
    book: Rc<RefCell<Book>>,
    position: Position,
}

impl Stage {
    fn new() -> Self {
        Self::of_seed(1)
    }

    fn of_seed(seed: u64) -> Self {
        let (world, book, slip) = (World::new(seed, Faults::none()), Rc::<RefCell<Book>>::default(), Rc::default());
        let make = |_| Winding { slip: Rc::clone(&slip), ..Winding::new(&book, 1_000) };
        let mut rig = Rig::serving(&world, &RigPlan::lanes(2), patient(), make);
        let end = rig.connect(1);
        rig.wait(MS);
        let at = rig.lane_of_first_connection().unwrap();
        Self { world, rig, end, at, slip, book, position: Position::default() }
    }

    /// What is asked is answered, wherever the connection is.
    fn assert_served(&mut self) {
        let mut expected = *b"word";
        self.position.apply(&mut expected);
        assert_eq!(self.end.send(b"word"), 4);
        self.rig.wait(5 * MS);
        assert_eq!(self.end.read(usize::MAX), expected);
    }

    /// Tells it to go to the other lane; why it stays, if it does.
    fn move_away(&mut self) -> Option<Stays> {
        let (told, seen) = channel();
        let (done, is_done) = channel();
        let which = Move { to: 1 - self.at, choose: Box::new(|_| true), stays: Box::new(move |_, why| told.send(why).unwrap()) };
        let reply = Box::new(move |outcome| done.send(outcome).unwrap());
        self.rig.tell.tell(self.at, Steer { command: Command::Move(which), reply }).unwrap();
        self.rig.wait(5 * MS);
        assert_eq!(is_done.try_recv(), Ok(Ok(())));
        let why = seen.try_recv().ok();
        if let Some(at) = self.rig.lane_of_first_connection() {
            self.at = at;
        }
        why
    }

    /// Tells it to go to the other lane, and all lanes to drain while its own chooses it: too late for that one to see it before it is on its way.
    fn drain_as_it_goes(&mut self) {
        let control = self.rig.control.clone();
        let choose = move |_: &Peer| {
            control.give(Order::Drain);
            true
        };
        let which = Move { to: 1 - self.at, choose: Box::new(choose), stays: Box::new(|_, why| panic!("{why:?}")) };
        let reply = Box::new(|outcome| assert_eq!(outcome, Ok(())));
        self.rig.tell.tell(self.at, Steer { command: Command::Move(which), reply }).unwrap();
    }

    fn counts(&self) -> [u64; 4] {
        [C::MovesAway, C::MovesHere, C::MovesRefused, C::MovesLost].map(|counter| self.rig.count(counter))
    }

    fn close(mut self) -> Option<Ending> {
        self.end.close();
        self.rig.wait(5 * MS);
        self.rig.close(&mut Nobody);
        assert_sums(&self.rig);
        let book = self.book.borrow();
        assert!(book.closed.len() <= 1 && self.world.open_descriptors(0) + self.world.open_descriptors(1) == 0);
        book.closed.get(&1).map(|endings| endings[0])
    }
}

#[test]
fn an_idle_connection_moves_and_its_old_name_names_nothing() {
    let mut stage = Stage::new();
    stage.assert_served();
    for times in 1..=4 {
        let before = stage.at;
        assert_eq!(stage.move_away(), None);
        assert_eq!((stage.at, stage.counts()), (1 - before, [times, times, 0, 0]));
        stage.assert_served();
    }
    let lanes = stage.rig.snapshot().lanes;
    assert_eq!(lanes.iter().map(|lane| lane.services[0].get(C::ConnectionsOpen)).sum::<u64>(), 1);
    let rows = corelane_watch::Reader::of(&stage.rig.page).unwrap();
    let states: Vec<_> = (0..2).map(|lane| rows.connections(lane)[0].state.name()).collect();
    assert_eq!(states[stage.at], "open");
    assert_eq!(states[1 - stage.at], "moved");
    assert_eq!(stage.close(), Some(Ending::EndOfStream));
}

/// The only connection of two lanes is on its way when they are to drain, and goes back where it finds no place.
#[test]
fn the_only_one_that_is_between_lanes_that_drain_ends_once() {
    let mut returned = 0;
    for_seeds(40, |seed| {
        let mut stage = Stage::of_seed(seed);
        stage.slip.set(Some(Slip::UnpackRefuses).filter(|_| seed.is_multiple_of(2)));
        stage.drain_as_it_goes();
        stage.rig.until_ended(&mut Nobody);
        assert_sums(&stage.rig);
        let [away, here, refused, lost] = stage.counts();
        assert_eq!((away, here, lost, stage.book.borrow().closed.len()), (1, 1, 0, 1));
        returned += refused;
    });
    assert!(returned >= 20, "{returned}");
}

/// The lane that it left has nothing more to do before the other one has heard of it.
#[test]
fn a_lane_that_drains_waits_for_what_may_come_back() {
    let mut stage = Stage::new();
    let left = stage.at;
    stage.slip.set(Some(Slip::UnpackRefuses));
    stage.drain_as_it_goes();
    let mut turns = 0;
    while stage.rig.count(C::MovesAway) == 0 || turns < 4 {
        assert!(stage.rig.turn(left).is_some(), "it is there as long as its connection is on its way");
        turns += 1;
        assert!(turns < 100, "it never leaves");
    }
    stage.rig.turn(1 - left);
    assert!(stage.rig.turn(left).is_some(), "it takes back what was refused");
    stage.rig.until_ended(&mut Nobody);
    assert_sums(&stage.rig);
    assert_eq!((stage.counts(), stage.book.borrow().closed.len()), ([1, 1, 1, 0], 1));
}

/// Each of the lanes comes to its own end while the other one has no turn: the one that it left before it is refused, and the one that refuses it before it is taken back.
#[test]
fn lanes_that_drain_do_not_end_while_one_goes_back() {
    let mut stage = Stage::new();
    let left = stage.at;
    stage.slip.set(Some(Slip::UnpackRefuses));
    stage.world.hold_up(1 - left);
    stage.drain_as_it_goes();
    stage.rig.wait(100 * MS);
    assert_eq!(stage.counts(), [1, 0, 0, 0]);
    stage.world.hold_up(left);
    stage.world.let_go(1 - left);
    stage.rig.wait(100 * MS);
    assert_eq!(stage.counts(), [1, 0, 1, 0]);
    stage.world.let_go(left);
    stage.rig.until_ended(&mut Nobody);
    assert_sums(&stage.rig);
    assert_eq!((stage.counts(), stage.book.borrow().closed.len()), ([1, 1, 1, 0], 1));
}

#[test]
fn a_descriptor_that_stays_open_where_a_connection_has_left_is_noticed() {
    let mut stage = Stage::new();
    stage.world.plant(Planted::LeakedDescriptor);
    (0..100).for_each(|_| assert_eq!(stage.move_away(), None));
    // Two listeners, and the connection.
    let open = stage.world.open_descriptors(0) + stage.world.open_descriptors(1);
    let leaked = stage.world.report().planted;
    assert!(leaked > 0 && open as u64 == 3 + leaked, "{open} are open, {leaked} of them left");
    assert!(catch_unwind(AssertUnwindSafe(|| stage.close())).is_err(), "the world says so in the end");
}

#[test]
fn a_busy_connection_stays_and_is_told_so() {
    let mut stage = Stage::new();
    // The question is under way when the lane is told.
    assert_eq!(stage.end.send(b"word"), 4);
    let (told, seen) = channel();
    let which = Move { to: 1 - stage.at, choose: Box::new(|_| true), stays: Box::new(move |_, why| told.send(why).unwrap()) };
    stage.rig.tell.tell(stage.at, Steer { command: Command::Move(which), reply: Box::new(|_| ()) }).unwrap();
    stage.rig.wait(5 * MS);
    let mut expected = *b"word";
    stage.position.apply(&mut expected);
    assert_eq!(stage.end.read(usize::MAX), expected, "it is answered wherever it is");
    assert!(seen.try_iter().all(|why| why == Stays::Busy), "one that is about to receive keeps no other back");
    stage.close();
}

#[test]
fn to_a_lane_that_is_not_there_nothing_moves() {
    let mut stage = Stage::new();
    for to in [stage.at, 2, usize::MAX] {
        let (done, is_done) = channel();
        let which = Move { to, choose: Box::new(|_| panic!("nobody is asked")), stays: Box::new(|_, _| ()) };
        let reply = Box::new(move |outcome| done.send(outcome).unwrap());
        stage.rig.tell.tell(stage.at, Steer { command: Command::Move(which), reply }).unwrap();
        stage.rig.wait(MS);
        assert_eq!(is_done.try_recv(), Ok(Err(Error::NoSuchLane { lane: to })));
    }
    stage.assert_served();
    stage.close();
}

#[test]
fn a_service_that_packs_wrong_harms_its_connection_alone() {
    let cases = [
        // It has closed it meanwhile: that is not lost on the way.
        (Slip::PackCloses, Some(Stays::Busy), [0, 0, 1, 0], false),
        // The session went with the panic.
        (Slip::PackPanics, Some(Stays::Service), [0, 0, 1, 0], false),
        // It goes back, and is unpacked there.
        (Slip::UnpackRefuses, None, [1, 1, 1, 0], true),
        (Slip::UnpackPanics, None, [1, 1, 0, 1], false),
        (Slip::NeverUnpacks, None, [1, 1, 2, 1], false),
    ];
    for (slip, stays, counts, lives) in cases {
        let mut stage = Stage::new();
        stage.assert_served();
        let at = stage.at;
        stage.slip.set(Some(slip));
        assert_eq!((stage.move_away(), stage.counts()), (stays, counts), "{slip:?}");
        stage.slip.set(None);
        match lives {
            true => {
                assert_eq!(stage.at, at, "{slip:?}");
                stage.assert_served();
            }
            false => assert_ne!(stage.end.status(), Status::Open, "{slip:?}"),
        }
        stage.close();
    }
}
