//! Lanes end together: what one asks another in a drain is answered, over connections and over datagrams.

use crate::datagrams::{PORT, Shouter, Shouters, in_order};
use crate::drain::{ARRIVED, Case, mild, run_with};
use crate::for_seeds;
use crate::rig::{Family, MS, Nobody, Rig, RigPlan, S, at, patient};
use corelane_lane::Order as Command;
use corelane_seam::nanoseconds;
use corelane_seam::{Address, Datagrams, Instant, Lease, Outcome};
use corelane_sim::{Faults, Random, World};
use corelane_svc::Command as Steering;
use corelane_svc::{
    DatagramService, Error, Hold, Input, Limits, Next, Order, Origin, Output, Peer, Replies, Says, SocketId, Steer,
    StreamService, Ticket,
};
use corelane_watch::ServiceCounter as C;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// Something to be answered, on its way through the lanes.
struct Errand {
    /// The lane that answers, and under which number it knows what for.
    home: usize,
    number: u64,
    hops: u64,
}

type Cx<'a> = corelane_svc::Cx<'a, Says<Errand>>;

/// Sends errands through the lanes, each of which takes its time for them.
struct Walk {
    random: Random,
    due: BTreeMap<(u64, u64), Errand>,
    offloaded: BTreeMap<u64, Errand>,
    next: u64,
    /// Whether errands may wait for an alarm, of which only the service knows.
    alarms: bool,
}

impl Walk {
    fn new(seed: u64, lane: usize, alarms: bool) -> Self {
        let random = Random::new(seed.wrapping_mul(31) + lane as u64);
        Self { random, due: BTreeMap::new(), offloaded: BTreeMap::new(), next: 0, alarms }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Begins one; returns its number.
    fn begin(&mut self, cx: &mut Cx<'_>) -> u64 {
        let (number, hops) = (self.number(), self.random.below(4));
        self.go_on(cx, Errand { home: cx.lane(), number, hops });
        number
    }

    /// Passes it on to any other lane, or home.
    fn go_on(&mut self, cx: &mut Cx<'_>, mut errand: Errand) {
        let others = cx.lanes() as u64 - 1;
        let to = if errand.hops == 0 { errand.home } else { (cx.lane() + 1 + self.random.below(others) as usize) % cx.lanes() };
        errand.hops = errand.hops.saturating_sub(1);
        if to == cx.lane() {
            return self.wait(cx, errand);
        }
        assert!(cx.send(to, errand).is_ok(), "lane {to} is there, and there is room");
    }

    /// Lets some time pass before it goes on.
    fn wait(&mut self, cx: &mut Cx<'_>, errand: Errand) {
        let number = self.number();
        if !self.alarms || self.random.below(2) == 0 {
            self.offloaded.insert(number, errand);
            return cx.offload(|| (), number);
        }
        self.due.insert((cx.now().nanoseconds() + self.random.below(nanoseconds(200 * MS)), number), errand);
        cx.start_alarm(Instant::from_nanoseconds(self.due.first_key_value().map_or(u64::MAX, |(&(at, _), _)| at)), 0).unwrap();
    }

    /// Those whose time has come.
    fn ring(&mut self, cx: &mut Cx<'_>) -> Vec<Errand> {
        let mut come = Vec::new();
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= cx.now().nanoseconds()) {
            come.push(entry.remove());
        }
        cx.start_alarm(Instant::from_nanoseconds(self.due.first_key_value().map_or(u64::MAX, |(&(at, _), _)| at)), 0).unwrap();
        come
    }
}

/// What an errand is for comes back here.
trait Home {
    fn walk(&mut self) -> &mut Walk;
    fn answer(&mut self, cx: &mut Cx<'_>, number: u64);

    fn go_on(&mut self, cx: &mut Cx<'_>, errand: Errand) {
        match errand.home == cx.lane() && errand.hops == 0 {
            true => self.answer(cx, errand.number),
            false => self.walk().go_on(cx, errand),
        }
    }

    fn take_errand(&mut self, cx: &mut Cx<'_>, errand: Errand) {
        self.walk().wait(cx, errand);
    }

    fn rings(&mut self, cx: &mut Cx<'_>) {
        for errand in self.walk().ring(cx) {
            self.go_on(cx, errand);
        }
    }

    fn take_returned(&mut self, cx: &mut Cx<'_>, token: u64, outcome: &Outcome) {
        let errand = self.walk().offloaded.remove(&token).unwrap();
        if let Outcome::Failed(_) = outcome {
            return self.walk().wait(cx, errand); // no helper was free
        }
        self.go_on(cx, errand);
    }
}

/// Answers each line with itself when its errand has returned.
struct Lines {
    walk: Walk,
    held: BTreeMap<u64, (Ticket, Vec<u8>)>,
}

impl Home for Lines {
    fn walk(&mut self) -> &mut Walk {
        &mut self.walk
    }

    fn answer(&mut self, cx: &mut Cx<'_>, number: u64) {
        let (ticket, line) = self.held.remove(&number).unwrap();
        cx.answer_bytes(ticket, &line).expect("memory is kept for it");
    }
}

impl StreamService for Lines {
    type Talk = Says<Errand>;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            let Some(line) = input.contiguous(end + 1).map(<[u8]>::to_vec) else { break };
            let Ok(ticket) = output.hold(Hold::new(Order::Kept).reserve(line.len())) else { break };
            input.skip(end + 1);
            let number = self.walk.begin(cx);
            self.held.insert(number, (ticket, line));
        }
        Next::Continue
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        self.take_returned(cx, token, &outcome);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_>, _from: Origin, errand: Errand) {
        self.take_errand(cx, errand);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        self.rings(cx);
    }
}

/// Sends each datagram back when its errand has returned.
struct Echo {
    walk: Walk,
    held: BTreeMap<u64, (SocketId, Address, Vec<u8>)>,
    /// Says that it owes something, and never pays.
    never_pays: bool,
    /// Says so whenever it owes something, whatever it waits for.
    all_is_known: bool,
}

impl Echo {
    fn new(walk: Walk) -> Self {
        Self { walk, held: BTreeMap::new(), never_pays: false, all_is_known: false }
    }
}

impl Home for Echo {
    fn walk(&mut self) -> &mut Walk {
        &mut self.walk
    }

    fn answer(&mut self, cx: &mut Cx<'_>, number: u64) {
        let (socket, peer, bytes) = self.held.remove(&number).unwrap();
        let Some(answer) = cx.arena().copy_of(&bytes).map(Lease::share) else {
            // It waits once more, and finds memory then.
            self.held.insert(number, (socket, peer, bytes));
            return self.walk.wait(cx, Errand { home: cx.lane(), number, hops: 0 });
        };
        if let Some(replies) = cx.datagrams(socket) {
            replies.send(peer, None, answer);
        }
    }
}

impl DatagramService for Echo {
    type Talk = Says<Errand>;
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, _replies: &mut Replies) {
        for arrival in batch.arrivals() {
            let size = (arrival.datagram_bytes as usize).max(1);
            for bytes in batch.payload(arrival).chunks(size) {
                let number = self.walk.begin(cx);
                self.held.insert(number, (cx.socket(), arrival.peer.clone(), bytes.to_vec()));
            }
        }
    }

    fn owes(&self) -> bool {
        self.never_pays || (self.walk.alarms || self.all_is_known) && !self.held.is_empty()
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        self.take_returned(cx, token, &outcome);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_>, _from: Origin, errand: Errand) {
        self.take_errand(cx, errand);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        self.rings(cx);
    }
}

#[test]
fn what_was_readable_is_answered_though_others_have_the_answer() {
    for_seeds(400, |seed| {
        let faults = if seed % 4 == 0 { Faults::none() } else { mild(seed) };
        let lanes = 2 + (seed % 3) as usize;
        run_with(seed, Case::new(faults), lanes, |lane| Lines { walk: Walk::new(seed, lane, true), held: BTreeMap::new() });
    });
}

fn echo_rig(world: &World, family: Family, lanes: usize, limits: Limits, make: impl Fn(usize) -> Echo) -> Rig {
    Rig::new(world, &RigPlan::lanes(lanes).family(family), move |roster| {
        roster.serve_datagrams(family.at(PORT), limits, make(roster.lane()));
    })
}

/// Clients whose datagrams, `count` of each, have arrived.
fn arrived(rig: &mut Rig, mut count: impl FnMut() -> u64) -> Shouters {
    let (mut shouters, to) = (Shouters::of(&rig.world, rig.family, 3), rig.family.way(&rig.world, PORT));
    rig.pass(MS, &mut shouters);
    for shouter in &mut shouters.0 {
        (0..count()).for_each(|number| shouter.send(to, vec![number as u8; 1 + number as usize]));
    }
    rig.pass(Duration::from_nanos(ARRIVED), &mut shouters);
    shouters
}

fn assert_all_answered(shouters: &mut Shouters) {
    for shouter in &mut shouters.0 {
        shouter.hear();
        assert_eq!(in_order(shouter.answers()), in_order(shouter.sent.clone()), "every datagram has its answer");
    }
}

/// Clients send some datagrams each; when all have arrived the lanes drain. `alarms` is what only the service can know of.
fn run_echo(seed: u64, faults: Faults, alarms: bool) {
    // What is lost, refused or told instead of a datagram has no answer.
    let lossless = Faults { datagram_loss: 0, datagram_duplicate: 0, datagram_reorder: 0, ..faults };
    let world = World::new(seed, Faults { datagram_error: 0, datagram_refused: 0, ..lossless });
    let lanes = 1 + (seed % 3) as usize;
    let make = |lane| Echo::new(Walk::new(seed, lane, alarms));
    let mut rig = echo_rig(&world, Family::of(seed), lanes.max(2), patient(), make);
    let mut random = Random::new(seed);
    let mut shouters = arrived(&mut rig, || 1 + random.below(20));
    rig.drain(&mut shouters);
    rig.pass(Duration::from_nanos(ARRIVED), &mut shouters);
    assert_all_answered(&mut shouters);
    assert_eq!(rig.count(C::DrainDeadlineHits), 0);
    world.check().unwrap();
}

#[test]
fn datagrams_are_answered_though_the_answer_is_late() {
    for_seeds(400, |seed| run_echo(seed, if seed % 4 == 0 { Faults::none() } else { mild(seed) }, true));
}

#[test]
fn what_the_lanes_do_for_a_service_over_datagrams_is_waited_for_without_its_word() {
    for_seeds(400, |seed| run_echo(seed, if seed % 4 == 0 { Faults::none() } else { mild(seed) }, false));
}

#[test]
fn who_never_pays_what_it_owes_is_not_waited_for_longer_than_the_limit() {
    let world = World::new(1, Faults::none());
    let limits = patient().drain_limit(Duration::from_secs(2));
    let make = |lane| Echo { never_pays: true, ..Echo::new(Walk::new(1, lane, true)) };
    let mut rig = echo_rig(&world, Family::Inet, 2, limits, make);
    rig.wait(MS);
    let begun = world.now();
    rig.close(&mut Nobody);
    assert!((2 * S..2 * S + 100 * MS).contains(&(world.now() - begun)));
    assert_eq!(rig.count(C::DrainDeadlineHits), 2, "a socket on each lane");
}

#[test]
fn who_asks_after_the_order_has_no_answer_though_the_socket_is_open() {
    let world = World::new(1, Faults::none());
    let make = |lane| Echo { never_pays: true, ..Echo::new(Walk::new(1, lane, true)) };
    let mut rig = echo_rig(&world, Family::Inet, 1, patient().drain_limit(Duration::from_secs(2)), make);
    let mut shouters = Shouters(vec![Shouter::new(&world, 0)]);
    shouters.0[0].send(at(PORT), b"early".to_vec());
    rig.pass(5 * MS, &mut shouters);
    rig.control.give(Command::Drain);
    rig.pass(100 * MS, &mut shouters);
    shouters.0[0].send(at(PORT), b"late".to_vec());
    rig.pass(S, &mut shouters);
    assert_eq!((shouters.0[0].answers(), rig.count(C::DatagramsIn)), (vec![b"early".to_vec()], 1));
    rig.drain(&mut shouters);
}

#[test]
fn an_idle_lane_waits_for_the_others_but_not_beyond_its_own_limit() {
    let world = World::new(1, Faults::none());
    let limits = patient().drain_limit(Duration::from_secs(2));
    let make = |lane| Lines { walk: Walk::new(1, lane, true), held: BTreeMap::new() };
    let mut rig = Rig::serving(&world, &RigPlan::lanes(2), limits, make);
    let peer = rig.connect(1);
    rig.wait(MS);
    rig.control.give(Command::Drain);
    rig.wait(S);
    assert!(!rig.has_ended(), "the peer has not finished");
    let busy = rig.snapshot().lanes.iter().filter(|lane| lane.state() == Some(corelane_watch::LaneState::Ended)).count();
    assert_eq!(busy, 0, "neither lane has ended before the other");
    rig.drain(&mut Nobody);
    drop(peer);
}

/// Has a lane leave; the answer comes when it has left.
fn leave(rig: &Rig, lane: usize) -> Receiver<Result<(), Error>> {
    let (done, answer) = channel();
    let reply = Box::new(move |result| done.send(result).unwrap());
    rig.tell.tell(lane, Steer { command: Steering::Leave, reply }).unwrap();
    answer
}

#[test]
fn a_lane_that_leaves_gives_its_late_answers_first() {
    for_seeds(200, |seed| {
        let world = World::new(seed, Faults::none());
        let alarms = seed % 2 == 0;
        // What goes through other lanes only the service can know of.
        let make = |lane| Echo { all_is_known: true, ..Echo::new(Walk::new(seed, lane, alarms)) };
        let mut rig = echo_rig(&world, Family::of(seed), 2, patient(), make);
        let mut shouters = arrived(&mut rig, || 10);
        let left = [0, 1].map(|lane| leave(&rig, lane));
        rig.pass(5 * S, &mut shouters);
        assert!(left.iter().all(|answer| answer.try_recv() == Ok(Ok(()))));
        assert_all_answered(&mut shouters);
        rig.close(&mut shouters);
    });
}

#[test]
fn a_lane_leaves_in_the_end_whatever_is_owed() {
    let world = World::new(1, Faults::none());
    let limits = patient().drain_limit(Duration::from_secs(2));
    let make = |lane| Echo { never_pays: true, ..Echo::new(Walk::new(1, lane, true)) };
    let mut rig = echo_rig(&world, Family::Inet, 1, limits, make);
    rig.wait(MS);
    let left = leave(&rig, 0);
    rig.wait(S);
    assert_eq!(left.try_recv(), Err(TryRecvError::Empty));
    rig.wait(2 * S);
    assert_eq!(left.try_recv(), Ok(Ok(())));
    rig.close(&mut Nobody);
}
