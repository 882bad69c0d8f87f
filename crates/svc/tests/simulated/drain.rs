//! Draining, counted at the client: what was readable when the order came is answered, what waits to be accepted is
//! served, what comes later is refused, and the lanes end.

use crate::for_seeds;
use crate::puppet::Stage;
use crate::rig::{Family, MS, Nobody, Play, Rig, RigPlan, S, patient};
use corelane_lane::Order as Command;
use corelane_seam::{Fault, Reason};
use corelane_sim::{FaultKind, Faults, Peer, Random, Report, Status, Turn, World};
use corelane_svc::{Cx, Hold, Input, Limits, Next, Order, Output, Silent, StreamService, Ticket};
use corelane_watch::{LaneCounter, LaneSnapshot, LaneState, ServiceCounter as C};
use std::collections::BTreeMap;
use std::time::Duration;

const RESET: Status = Status::Failed(Fault { reason: Reason::Reset, number: 104 });
/// Time after which all that a client sent, and a handshake's first half, has arrived.
pub const ARRIVED: u64 = 110_000;

/// Answers each line with itself, some milliseconds later.
#[derive(Default)]
struct Slow {
    asked: BTreeMap<u64, (Ticket, Vec<u8>)>,
    next: u64,
    slowness: u64,
}

impl StreamService for Slow {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &corelane_svc::Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            let Some(line) = input.contiguous(end + 1).map(<[u8]>::to_vec) else { break };
            let Ok(ticket) = output.hold(Hold::new(Order::Kept).reserve(line.len())) else { break };
            input.skip(end + 1);
            cx.start_timer(Duration::from_millis(1 + self.next * 97 % self.slowness), self.next).unwrap();
            self.asked.insert(self.next, (ticket, line));
            self.next += 1;
        }
        Next::Continue
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _session: &mut (), _output: &mut Output, token: u64) -> Next {
        if let Some((ticket, line)) = self.asked.remove(&token) {
            cx.answer_bytes(ticket, &line).expect("memory is kept for it");
        }
        Next::Continue
    }
}

/// A client that asks line after line and keeps the connection open until the lane ends it.
struct Asker {
    peer: Peer,
    asked: Vec<u8>,
    /// Bytes of what it asked that must be answered.
    due: usize,
    got: Vec<u8>,
    end: Option<Status>,
    random: Random,
    /// Bytes of its lines.
    line: usize,
}

impl Asker {
    fn new(peer: Peer, seed: u64, line: usize) -> Self {
        let random = Random::new(seed.wrapping_mul(977) + peer.id() as u64);
        Self { peer, asked: Vec::new(), due: 0, got: Vec::new(), end: None, random, line }
    }

    fn ask(&mut self) {
        let letter = b'a' + self.random.below(26) as u8;
        let mut line = vec![letter; self.random.one_to(self.line)];
        line.push(b'\n');
        let taken = self.peer.send(&line);
        self.asked.extend(&line[..taken]);
    }

    fn hear(&mut self) {
        self.got.extend(self.peer.read(usize::MAX));
        let status = self.peer.status();
        if self.end.is_none() && !matches!(status, Status::Opening | Status::Open) {
            self.end = Some(status);
            self.peer.close();
        }
    }
}

/// Clients that ask as long as they may; those that come late ask once.
struct Askers {
    list: Vec<Asker>,
    may_ask: bool,
}

impl Play for Askers {
    fn news(&mut self, _: &World, turn: Turn) {
        let Turn::Peer(peer) = turn else { return };
        let may_ask = self.may_ask;
        let Some(asker) = self.list.iter_mut().find(|asker| asker.peer == peer) else { return };
        asker.hear();
        if asker.peer.status() == Status::Open && (may_ask || asker.asked.is_empty()) {
            asker.ask();
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// What a run of drains is about.
#[derive(Clone, Copy)]
pub struct Case {
    pub faults: Faults,
    /// The room of each lane: those over it wait to be accepted.
    pub connections_max: u32,
    /// The most bytes of a line.
    pub line: usize,
    /// The most milliseconds that an answer takes.
    pub slowness: u64,
}

impl Case {
    pub fn new(faults: Faults) -> Self {
        Self { faults, connections_max: 100, line: 200, slowness: 20 }
    }

    /// More clients than the lanes have room for.
    pub fn crowded(faults: Faults) -> Self {
        Self { connections_max: 3, ..Self::new(faults) }
    }
}

/// Lanes at work are told to drain. Whoever is open then has asked.
pub fn run(seed: u64, case: Case) -> Report {
    run_with(seed, case, 2, |_| Slow { slowness: case.slowness, ..Slow::default() })
}

/// [`run`] with lanes of a service of any kind that answers each line with itself.
pub fn run_with<S: StreamService>(seed: u64, case: Case, lanes: usize, make: impl Fn(usize) -> S) -> Report {
    let Case { faults, connections_max, line, .. } = case;
    let world = World::new(seed, faults);
    let limits = patient().connections_max(connections_max);
    let mut rig = Rig::serving(&world, &RigPlan::lanes(lanes).family(Family::of(seed)), limits, make);
    let mut askers = Askers { list: Vec::new(), may_ask: true };
    askers.list.extend((0..12).map(|number| Asker::new(rig.connect(number), seed, line)));
    rig.pass(30 * MS + Random::new(seed).time_below(5 * MS), &mut askers);
    askers.may_ask = false;
    askers.list.iter_mut().filter(|asker| asker.peer.status() == Status::Open).for_each(Asker::ask);
    rig.pass(Duration::from_nanos(ARRIVED), &mut askers);
    askers.list.iter_mut().for_each(|asker| asker.due = asker.asked.len());
    // These wait to be accepted when the order comes, and ask their one request after it.
    askers.list.extend((0..3).map(|number| Asker { due: 1, ..Asker::new(rig.connect(30 + number), seed, line) }));
    world.pass(Duration::from_nanos(2 * ARRIVED));
    rig.control.give(Command::Drain);
    let ordered = world.now();
    // Each lane sees the order in its next turn; who comes after that is refused.
    let has_seen = |lane: &LaneSnapshot| lane.values.get(LaneCounter::LastTurnNanoseconds) > ordered.nanoseconds();
    while rig.snapshot().lanes.iter().any(|lane| !has_seen(lane) && lane.state() != Some(LaneState::Ended)) {
        rig.pass(Duration::from_micros(10), &mut askers);
    }
    let late = rig.connect(50);
    rig.drain(&mut askers);
    rig.pass(5 * MS, &mut askers);
    askers.list.iter_mut().for_each(Asker::hear);
    world.check().unwrap();
    let refuses = world.report().faults.of(FaultKind::UnfilteredListener) == 0;
    assert!(!refuses || matches!(late.status(), Status::Opening | Status::Failed(_)), "{:?}", late.status());
    askers.list.iter().for_each(judge);
    world.report()
}

fn judge(asker: &Asker) {
    let (asked, got, end) = (asker.asked.len(), asker.got.len(), asker.end);
    assert_eq!(asker.got[..], asker.asked[..got], "wrong bytes");
    let due = asker.due;
    assert!(got >= due, "client {}: asked {asked}, due {due}, got {got}, ended {end:?}", asker.peer.id());
    assert_eq!(asker.end, Some(Status::Ended), "client {}", asker.peer.id());
}

/// Faults under which the promise must still hold: none of them breaks connections or takes the time for it.
pub fn mild(seed: u64) -> Faults {
    let accepts = Faults { refused_accept: 0, accept_without_memory: 0, aborted_accept: 0, lost_accept: 0, ..Faults::all(seed) };
    Faults { reset: 0, clock_jump: 0, filled_table: 0, ..accepts }
}

fn runs(count: u64, case: impl Fn(u64) -> Case) {
    for_seeds(count, |seed| {
        run(seed, case(seed));
    });
}

#[test]
fn what_was_readable_is_answered() {
    runs(50, |_| Case::new(Faults::none()));
}

#[test]
fn what_was_readable_is_answered_under_mild_faults() {
    runs(500, |seed| Case::new(mild(seed)));
}

#[test]
fn what_has_completed_late_is_answered() {
    runs(500, |_| Case::new(Faults { late_completion: 300, ..Faults::none() }));
}

#[test]
fn what_waits_is_served() {
    runs(50, |_| Case::crowded(Faults::none()));
}

#[test]
fn what_waits_is_served_under_mild_faults() {
    runs(500, |seed| Case::crowded(mild(seed)));
}

#[test]
fn what_waits_is_served_though_it_comes_in_parts() {
    runs(50, |_| Case { line: 5_000, ..Case::crowded(Faults { short_read: 900, ..Faults::none() }) });
}

#[test]
fn what_waits_is_served_though_descriptors_were_short() {
    runs(50, |_| Case::crowded(Faults { refused_accept: 300, ..Faults::none() }));
}

#[test]
fn what_waits_is_served_though_others_take_long() {
    runs(50, |_| Case { slowness: 400, ..Case::crowded(Faults::none()) });
}

#[test]
fn the_service_is_told_and_held_answers_leave() {
    let mut stage = Stage::new(Limits::default());
    let [holder, idle, half] = [1, 2, 3].map(|number| stage.rig.connect(number));
    stage.rig.wait(MS);
    stage.rig.ask(&holder, "hold a\nafter 100 answer a held\nsay next\n");
    stage.rig.ask(&half, "say half");
    stage.rig.control.give(Command::Drain);
    assert_eq!(stage.rig.hear(&idle), "");
    assert_eq!((idle.status(), half.status(), holder.status()), (Status::Ended, Status::Ended, Status::Open));
    assert_eq!(stage.book.borrow().notes.len(), 3, "each session is told");
    assert_eq!(stage.rig.ask(&holder, "say too late\n"), "");
    stage.rig.wait(100 * MS);
    assert_eq!((stage.rig.hear(&holder).as_str(), holder.status()), ("held\nnext\n", Status::Ended));
    [holder, idle, half].iter().for_each(Peer::close);
    stage.rig.wait(MS);
    assert_eq!(stage.rig.count(C::EndingsClosing), 3);
    stage.close();
}

#[test]
fn a_drain_waits_for_its_peers_to_have_it_all() {
    let mut stage = Stage::new(patient().drain_limit(Duration::from_secs(100)));
    let slow = stage.rig.connect(1);
    stage.rig.wait(MS);
    slow.send(b"flood 900000\n");
    stage.rig.wait(MS);
    stage.rig.control.give(Command::Drain);
    let mut got = 0;
    for _ in 0..100 {
        stage.rig.wait(20 * MS);
        got += slow.read(10_000).len();
    }
    assert_eq!((got, stage.rig.has_ended()), (900_000, false));
    stage.rig.wait(MS);
    assert_eq!(slow.status(), Status::Ended);
    slow.close();
    stage.close();
}

#[test]
fn a_drain_of_idle_lanes_ends_soon() {
    let world = World::new(1, Faults::none());
    let mut rig = Rig::serving(&world, &RigPlan::lanes(2), Limits::default(), |_| Slow::default());
    rig.wait(S);
    let begun = world.now();
    rig.close(&mut Nobody);
    assert!(world.now() - begun < S);
}

#[test]
fn a_deadline_turns_away_those_who_still_wait() {
    let mut stage = Stage::new(Limits::new().connections_max(1).drain_limit(Duration::from_millis(40)));
    let held = stage.rig.connect(1);
    stage.rig.wait(MS);
    stage.rig.ask(&held, "hold never\n");
    let waiting = [2, 3].map(|number| stage.rig.connect(number));
    stage.rig.wait(MS);
    stage.rig.drain(&mut Nobody);
    stage.rig.wait(MS);
    for peer in [&held, &waiting[0], &waiting[1]] {
        assert_eq!(peer.status(), RESET);
    }
    stage.close();
}

/// Comes again and again, asks, and takes what it is given.
struct Newcomers {
    /// Those that have not asked yet.
    silent: Vec<Peer>,
    come: usize,
    served: usize,
}

impl Newcomers {
    /// One of them comes every millisecond, for so long.
    fn come(&mut self, rig: &mut Rig, milliseconds: usize) {
        for _ in 0..milliseconds {
            self.silent.push(rig.connect(self.come));
            self.come += 1;
            rig.pass(MS, self);
        }
    }
}

impl Play for Newcomers {
    fn news(&mut self, _: &World, turn: Turn) {
        let Turn::Peer(peer) = turn else { return };
        if let Some(place) = self.silent.iter().position(|silent| *silent == peer && peer.status() == Status::Open) {
            self.silent.remove(place).send(b"new\n");
        }
        self.served += usize::from(peer.read(usize::MAX) == b"new\n");
        if peer.status() == Status::Ended {
            peer.close();
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}

#[test]
fn a_drain_ends_where_newcomers_cannot_be_refused() {
    for_seeds(20, |seed| {
        let others = if seed % 2 == 0 { Faults::none() } else { mild(seed) };
        let world = World::new(seed, Faults { unfiltered_listener: 1_000, ..others });
        let mut rig = Rig::serving(&world, &RigPlan::lanes(2), patient(), |_| Slow { slowness: 5, ..Slow::default() });
        let mut newcomers = Newcomers { silent: Vec::new(), come: 0, served: 0 };
        newcomers.come(&mut rig, 20);
        rig.control.give(Command::Drain);
        newcomers.come(&mut rig, 150);
        let served = newcomers.served;
        assert!(served > 100, "only {served} of those who came could be told from those who came before");
        newcomers.come(&mut rig, 450);
        assert!(newcomers.served < 300, "whoever comes is served for ever");
        rig.drain(&mut newcomers);
    });
}

#[test]
fn the_order_to_stop_ends_at_once_even_in_a_drain() {
    for drains_first in [false, true] {
        let mut stage = Stage::new(Limits::default());
        let held = stage.rig.connect(1);
        stage.rig.wait(MS);
        stage.rig.ask(&held, "hold never\n");
        if drains_first {
            stage.rig.control.give(Command::Drain);
            stage.rig.wait(100 * MS);
            assert!(!stage.rig.has_ended());
        }
        let begun = stage.rig.world.now();
        stage.rig.control.give(Command::Stop);
        stage.rig.until_ended(&mut Nobody);
        assert!(stage.rig.has_ended() && stage.rig.world.now() - begun < MS);
        stage.rig.wait(MS);
        assert_eq!(held.status(), RESET);
    }
}

/// Where the system lets us attach no filter, newcomers go on coming: they keep no drain from its end.
#[test]
fn a_drain_ends_though_newcomers_cannot_be_refused() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults { unfiltered_listener: 1_000, ..Faults::none() });
        let mut rig = Rig::serving(&world, &RigPlan::lanes(2), patient(), |_| Slow { slowness: 5, ..Slow::default() });
        let mut askers = Askers { list: Vec::new(), may_ask: true };
        rig.pass(MS, &mut askers);
        rig.control.give(Command::Drain);
        let (begun, mut number) = (world.now(), 0);
        while !rig.has_ended() {
            askers.list.push(Asker::new(rig.connect(number), seed, 20));
            number += 1;
            rig.pass(2 * MS, &mut askers);
            assert!(world.now() < begun + S, "newcomers keep the lanes from ending");
        }
        let served = askers.list.iter().filter(|asker| !asker.got.is_empty()).count();
        assert!(served > 10, "who came while it was not sure is served: {served}");
        rig.close(&mut askers);
    });
}
