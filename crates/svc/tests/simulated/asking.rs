//! Questions between lanes, with full channels, services that drop them or panic, lanes that break, stop and drain: each question that was
//! taken has one outcome, and whoever was refused is told of room.

use crate::for_seeds;
use crate::rig::{Family, MS, Nobody, Rig, RigPlan, S, address, burst, client, patient};
use corelane_lane::{Order as Command, Silence};
use corelane_seam::nanoseconds;
use corelane_seam::{Instant, Outcome};
use corelane_sim::{Faults, Random, Report, World};
use corelane_svc::{
    Asking, Asks, Call, ConnectionId, Cx, Ending, Exchange, Input, Limits, Lost, Next, Order, Origin, Output, Peer, Remote,
    StreamService, Ticket,
};
use corelane_watch::{LaneCounter, ServiceCounter as C};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A question, and how often it may be passed on. The answer is three times its number.
struct Question {
    number: u64,
    hops: u64,
}

type Talk = Asks<Question, u64>;

/// What happens in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Nothing,
    Drain,
    Stop,
    /// A lane breaks, and the others go on.
    Breaks(usize),
    /// The same, and then they drain.
    BreaksAndDrains(usize),
}

/// What all lanes have asked and heard.
#[derive(Default)]
struct Ledger {
    next: u64,
    /// By question: who asked.
    asked: BTreeMap<u64, usize>,
    outcomes: BTreeMap<u64, Vec<Result<u64, Lost>>>,
    /// Lanes of which room is awaited, by lane.
    awaited: BTreeSet<(usize, usize)>,
    refused: u64,
    /// Calls that a service dropped, or panicked with.
    dropped: u64,
    ended: BTreeSet<usize>,
}

/// What a question was asked for.
enum Purpose {
    /// Its own number.
    Own(u64),
    /// To reply to another, of this number.
    Other(u64, u64, Call<Talk>),
}

/// Asks, and answers in many ways.
struct Gossip {
    lane: usize,
    random: Random,
    ledger: Rc<RefCell<Ledger>>,
    asking: BTreeMap<Asking, Purpose>,
    kept: BTreeMap<u64, (u64, u64, Call<Talk>)>,
    keys: u64,
    left: u64,
    asks_at: u64,
    is_unkind: bool,
}

impl Gossip {
    fn ask(&mut self, cx: &mut Cx<'_, Talk>, to: usize, hops: u64, purpose: impl FnOnce(u64) -> Purpose) -> Result<(), Purpose> {
        let mut ledger = self.ledger.borrow_mut();
        ledger.next += 1;
        let number = ledger.next;
        match cx.ask(to, Question { number, hops }) {
            Ok(asking) => {
                ledger.asked.insert(number, self.lane);
                drop(ledger);
                let before = self.asking.insert(asking, purpose(number));
                assert!(before.is_none(), "two questions have one name");
                assert!(asking.index() < cx.limits().asks_max as usize);
                Ok(())
            }
            Err(unheard) => {
                assert_eq!(unheard.word.number, number, "what is refused comes back");
                if unheard.why == Silence::Full {
                    ledger.refused += 1;
                    ledger.awaited.insert((self.lane, to));
                }
                Err(purpose(number))
            }
        }
    }

    fn begin(&mut self, cx: &mut Cx<'_, Talk>) {
        for _ in 0..self.random.below(20).min(self.left) {
            self.left -= 1;
            let (to, hops) = (self.random.below(cx.lanes() as u64) as usize, self.random.below(3));
            let _ = self.ask(cx, to, hops, Purpose::Own);
        }
        self.asks_at = if self.left > 0 { cx.now().nanoseconds() + self.random.below(nanoseconds(3 * MS)) } else { u64::MAX };
        self.set_alarm(cx);
    }

    fn set_alarm(&self, cx: &mut Cx<'_, Talk>) {
        let kept = self.kept.values().map(|(at, ..)| *at).min().unwrap_or(u64::MAX);
        cx.start_alarm(Instant::from_nanoseconds(kept.min(self.asks_at)), 0).unwrap();
    }

    fn keep(&mut self, at: u64, number: u64, call: Call<Talk>) -> u64 {
        self.keys += 1;
        self.kept.insert(self.keys, (at, number, call));
        self.keys
    }
}

impl StreamService for Gossip {
    type Talk = Talk;
    type Session = ();

    fn started(&mut self, cx: &mut Cx<'_, Talk>) {
        self.begin(cx);
    }

    fn open(&mut self, _: &mut Cx<'_, Talk>, _: &Peer) {}

    fn receive(&mut self, _: &mut Cx<'_, Talk>, (): &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Close
    }

    fn asked(&mut self, cx: &mut Cx<'_, Talk>, from: Origin, question: Question, call: Call<Talk>) {
        let Question { number, hops } = question;
        let asker = self.ledger.borrow().asked.get(&number).copied();
        assert_eq!(from, asker.map_or(Origin::Outside, Origin::Lane));
        match self.random.below(7) {
            0 => {
                let at = cx.now().nanoseconds() + self.random.below(nanoseconds(5 * MS));
                self.keep(at, number, call);
                self.set_alarm(cx);
            }
            1 => {
                let key = self.keep(u64::MAX, number, call);
                cx.offload(|| (), key);
            }
            2 if hops > 0 => {
                let to = self.random.below(cx.lanes() as u64) as usize;
                if let Err(Purpose::Other(_, number, call)) = self.ask(cx, to, hops - 1, |own| Purpose::Other(own, number, call))
                {
                    cx.reply(call, 3 * number);
                }
            }
            3 if self.is_unkind => {
                self.ledger.borrow_mut().dropped += 1;
                drop(call);
            }
            4 if self.is_unkind => {
                self.ledger.borrow_mut().dropped += 1;
                burst("told to, when asked");
            }
            _ => cx.reply(call, 3 * number),
        }
    }

    fn replied(&mut self, cx: &mut Cx<'_, Talk>, asking: Asking, outcome: Result<u64, Lost>) {
        let purpose = self.asking.remove(&asking).expect("an outcome for what waits");
        let own = match purpose {
            Purpose::Own(own) => own,
            Purpose::Other(own, number, call) => {
                cx.reply(call, 3 * number);
                own
            }
        };
        self.ledger.borrow_mut().outcomes.entry(own).or_default().push(outcome);
    }

    fn room(&mut self, cx: &mut Cx<'_, Talk>, lane: usize) {
        self.ledger.borrow_mut().awaited.remove(&(self.lane, lane));
        if self.left > 0 && self.random.below(2) == 0 {
            self.left -= 1;
            let _ = self.ask(cx, lane, 1, Purpose::Own);
        }
    }

    fn completed(&mut self, cx: &mut Cx<'_, Talk>, token: u64, _: Outcome) {
        let (_, number, call) = self.kept.remove(&token).unwrap();
        cx.reply(call, 3 * number);
    }

    fn alarm(&mut self, cx: &mut Cx<'_, Talk>, _: u64) {
        let now = cx.now().nanoseconds();
        let due: Vec<u64> = self.kept.iter().filter(|(_, kept)| kept.0 <= now).map(|(key, _)| *key).collect();
        for key in due {
            let (_, number, call) = self.kept.remove(&key).unwrap();
            cx.reply(call, 3 * number);
        }
        match now >= self.asks_at {
            true => self.begin(cx),
            false => self.set_alarm(cx),
        }
    }

    fn drain_began(&mut self, cx: &mut Cx<'_, Talk>) {
        // What is begun for no reason but time may come when all lanes have agreed to end.
        (self.left, self.asks_at) = (0, u64::MAX);
        self.set_alarm(cx);
    }

    fn ending(&mut self, cx: &mut Cx<'_, Talk>) {
        assert!(self.asking.is_empty(), "what was asked has its outcome before the end");
        let gone = cx.ask(self.lane, Question { number: 0, hops: 0 }).unwrap_err();
        assert_eq!(gone.why, Silence::Gone, "nothing can be begun any more");
        assert!(self.ledger.borrow_mut().ended.insert(self.lane), "a lane ends once");
    }
}

struct Case {
    rig: Rig,
    ledger: Rc<RefCell<Ledger>>,
    trouble: Trouble,
    is_unkind: bool,
}

fn limits(random: &mut Random) -> Limits {
    patient().asks_max([4, 32, 4096][random.below(3) as usize])
}

impl Case {
    fn new(seed: u64, world: &World, lanes: usize, trouble: Trouble) -> Self {
        let mut random = Random::new(seed);
        let (ledger, is_unkind) = (Rc::<RefCell<Ledger>>::default(), random.below(3) == 0);
        let mut plan = RigPlan::lanes(lanes);
        plan.settings.channel_messages = [1, 4, 64, 1024][random.below(4) as usize];
        plan.settings.turn_other = [1, 3, 256][random.below(3) as usize];
        let limits = limits(&mut random);
        let rig = Rig::new(world, &plan, |roster| {
            let lane = roster.lane();
            let random = Random::new(seed.wrapping_mul(17) + lane as u64);
            let (asking, kept, ledger) = (BTreeMap::new(), BTreeMap::new(), ledger.clone());
            let gossip = Gossip { lane, random, ledger, asking, kept, keys: 0, left: 100, asks_at: u64::MAX, is_unkind };
            roster.client(limits, gossip);
        });
        Self { rig, ledger, trouble, is_unkind }
    }

    /// Lets the lanes come to rest, which they do: whoever was refused is told of room, and every question has its outcome.
    fn settle(&mut self, broken: Option<usize>) {
        let is_settled = |ledger: &Ledger| {
            let is_told = ledger.awaited.iter().all(|(who, _)| Some(*who) == broken);
            let has_outcome = |(number, lane): (&u64, &usize)| Some(*lane) == broken || ledger.outcomes.contains_key(number);
            is_told && ledger.asked.iter().all(has_outcome)
        };
        // The clock may jump.
        let rests = (0..200).any(|_| {
            self.rig.wait(S);
            is_settled(&self.ledger.borrow())
        });
        assert!(rests, "a question, or who waits for room, waits for ever; {:?}", self.trouble);
    }

    fn play(&mut self, random: &mut Random) {
        if self.trouble == Trouble::Nothing {
            self.settle(None);
            self.rig.control.give(Command::Drain);
        } else {
            self.rig.wait(random.time_below(20 * MS));
        }
        match self.trouble {
            Trouble::Drain => self.rig.control.give(Command::Drain),
            Trouble::Stop => self.rig.control.give(Command::Stop),
            Trouble::Breaks(lane) | Trouble::BreaksAndDrains(lane) => self.rig.break_lane(lane),
            Trouble::Nothing => {}
        }
        if let Trouble::Breaks(lane) = self.trouble {
            self.settle(Some(lane));
        }
        if let Trouble::Breaks(_) | Trouble::BreaksAndDrains(_) = self.trouble {
            self.rig.control.give(Command::Drain);
        }
        self.rig.until_ended(&mut Nobody);
        assert!(self.rig.has_ended(), "{:?}: the lanes do not end", self.trouble);
    }

    fn judge(&self) {
        let ledger = self.ledger.borrow();
        let broken = match self.trouble {
            Trouble::Breaks(lane) | Trouble::BreaksAndDrains(lane) => Some(lane),
            _ => None,
        };
        let lanes = self.rig.control.lanes();
        assert_eq!(ledger.ended, (0..lanes).filter(|lane| Some(*lane) != broken).collect());
        let all_answer = !self.is_unkind && matches!(self.trouble, Trouble::Nothing | Trouble::Drain);
        for (number, &lane) in &ledger.asked {
            let outcomes = ledger.outcomes.get(number).map_or(&[][..], Vec::as_slice);
            let expected = if Some(lane) == broken { 0..=1 } else { 1..=1 };
            assert!(expected.contains(&outcomes.len()), "question {number} of lane {lane} has the outcomes {outcomes:?}");
            for outcome in outcomes {
                match outcome {
                    Ok(answer) => assert_eq!(*answer, 3 * number),
                    Err(why) => assert!(!all_answer, "question {number} of lane {lane} is lost: {why}"),
                }
            }
        }
        assert_eq!(self.rig.count(C::Asks), ledger.asked.len() as u64);
        let dropped = self.rig.count(C::CallsDropped);
        assert!(dropped <= ledger.dropped && (broken.is_some() || self.trouble == Trouble::Stop || dropped == ledger.dropped));
    }
}

pub fn run(seed: u64, faults: Faults) -> Report {
    let mut random = Random::new(!seed);
    let lanes = 2 + random.below(7) as usize;
    let lane = random.below(lanes as u64) as usize;
    let all = [Trouble::Nothing, Trouble::Drain, Trouble::Stop, Trouble::Breaks(lane), Trouble::BreaksAndDrains(lane)];
    let world = World::new(seed, faults);
    let mut case = Case::new(seed, &world, lanes, all[random.below(5) as usize]);
    case.play(&mut random);
    case.judge();
    world.report()
}

#[test]
fn each_question_has_one_outcome() {
    for_seeds(300, |seed| {
        run(seed, if seed % 4 == 0 { Faults::none() } else { Faults::all(seed) });
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..4 {
        assert_eq!(run(seed, Faults::all(seed)), run(seed, Faults::all(seed)), "seed {seed}");
    }
}

/// The lanes that are left agree that nothing is left, and then a question comes that the broken one had asked before.
#[test]
fn what_a_broken_lane_asked_may_come_after_the_others_agreed_to_end() {
    let seed = 3_479_835_445;
    run(seed, Faults::all(seed));
}

/// A store of which each key has a home lane; clients ask for keys by a byte each, and get their answers in order.
struct Store {
    waiting: BTreeMap<Asking, Ticket>,
    lost: Rc<Cell<u64>>,
}

impl StreamService for Store {
    type Talk = Asks<u8, u8>;
    type Session = ();

    fn open(&mut self, _: &mut Cx<'_, Self::Talk>, _: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_, Self::Talk>, (): &mut (), input: &mut Input, output: &mut Output) -> Next {
        while let Some(&key) = input.first().first() {
            let Ok(asking) = cx.ask(usize::from(key) % cx.lanes(), key) else { break };
            // reason: as many tickets as a client asks.
            self.waiting.insert(asking, output.hold(Order::Kept).unwrap());
            input.skip(1);
            cx.count_requests(1);
        }
        Next::Continue
    }

    fn asked(&mut self, cx: &mut Cx<'_, Self::Talk>, _: Origin, key: u8, call: Call<Self::Talk>) {
        assert_eq!(usize::from(key) % cx.lanes(), cx.lane(), "each key is asked for at home");
        cx.reply(call, !key);
    }

    fn replied(&mut self, cx: &mut Cx<'_, Self::Talk>, asking: Asking, outcome: Result<u8, Lost>) {
        let ticket = self.waiting.remove(&asking).unwrap();
        self.lost.set(self.lost.get() + u64::from(outcome.is_err()));
        let answer = cx.arena().copy_of(&[outcome.unwrap_or(0)]).unwrap().share();
        cx.answer(ticket, answer);
    }
}

/// Clients of a store whose channels hold as good as nothing: a request that cannot be asked for waits in its input, and is taken up again
/// by itself, without a timer and without more bytes.
#[test]
fn a_connection_that_was_refused_room_is_served_again_when_there_is_some() {
    for_seeds(60, |seed| {
        let world = World::new(seed, Faults { spurious_wake: 30, delayed_bell: 30, ..Faults::none() });
        let mut plan = RigPlan::lanes(3).family(Family::of(seed));
        plan.settings.channel_messages = 2;
        let (lost, mut random) = (Rc::new(Cell::new(0)), Random::new(seed));
        let limits = patient().asks_max([2, 8, 4096][random.below(3) as usize]);
        let mut rig = Rig::serving(&world, &plan, limits, |_| Store { waiting: BTreeMap::new(), lost: lost.clone() });
        let peers: Vec<_> = (0..6).map(|number| rig.connect(number)).collect();
        let keys: Vec<Vec<u8>> = peers.iter().map(|_| (0..40).map(|_| random.below(256) as u8).collect()).collect();
        let mut sent = [0; 6];
        for _ in 0..50 {
            for ((peer, keys), sent) in peers.iter().zip(&keys).zip(&mut sent) {
                *sent += peer.send(&keys[*sent..]);
            }
            rig.wait(S);
        }
        for (peer, keys) in peers.iter().zip(&keys) {
            let answers: Vec<u8> = keys.iter().map(|key| !key).collect();
            assert_eq!(peer.read(usize::MAX), answers, "in order");
            peer.close();
        }
        assert_eq!((rig.count(C::Requests), lost.get()), (240, 0));
        assert!(rig.lane_count(LaneCounter::MessagesRefused) + rig.count(C::AsksMaxHits) > 0, "nobody was refused");
        rig.close(&mut Nobody);
    });
}

/// All that one turn asks goes by one bell, and all answers come back by one.
#[test]
fn a_batch_of_questions_rings_one_bell_each_way() {
    let world = World::new(1, Faults::none());
    let lost = Rc::new(Cell::new(0));
    let make = |_| Store { waiting: BTreeMap::new(), lost: lost.clone() };
    let mut rig = Rig::serving(&world, &RigPlan::lanes(2), patient(), make);
    let peer = rig.connect(1);
    rig.wait(MS);
    let before = rig.lane_count(LaneCounter::DoorbellsRung);
    let lane = rig.lane_of_first_connection().unwrap();
    let keys = vec![1 - lane as u8; 100];
    assert_eq!(peer.send(&keys), 100);
    rig.wait(5 * MS);
    assert_eq!(peer.read(usize::MAX).len(), 100);
    assert_eq!(rig.lane_count(LaneCounter::DoorbellsRung) - before, 2);
    peer.close();
    rig.close(&mut Nobody);
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The first service's exchange, to speak to it from outside.
fn remote(exchange: &Exchange, asks_max: u32) -> Remote<Talk> {
    exchange.remote(0, asks_max).unwrap()
}

#[test]
fn questions_from_outside_have_one_outcome_each() {
    for_seeds(100, |seed| {
        let world = World::new(seed, Faults::all(seed));
        let mut random = Random::new(seed);
        let lanes = 1 + random.below(3) as usize;
        let mut case = Case::new(seed, &world, lanes, Trouble::Nothing);
        let remote = remote(&case.rig.exchange, 20);
        assert!(case.rig.exchange.remote::<Asks<u8, u8>>(0, 1).is_none(), "it does not talk so");
        let (mut replies, mut full) = (Vec::new(), 0);
        for number in 0..300 {
            match remote.ask(random.below(lanes as u64) as usize, Question { number: 1_000_000 + number, hops: 2 }) {
                Ok(reply) => replies.push((number, reply)),
                Err(unheard) => full += usize::from(unheard.why == Silence::Full),
            }
            if number % 100 == 99 {
                case.rig.wait(random.time_below(10 * MS));
            }
        }
        assert!(full > 0, "the bound was met");
        let is_stopped = random.below(3) == 0;
        case.rig.control.give(if is_stopped { Command::Stop } else { Command::Drain });
        case.rig.until_ended(&mut Nobody);
        assert!(case.rig.has_ended());
        for (number, reply) in replies {
            match poll(reply) {
                Poll::Ready(Ok(answer)) => assert_eq!(answer, 3 * (1_000_000 + number)),
                Poll::Ready(Err(why)) => assert!(is_stopped || case.is_unkind && why == Lost::Dropped, "{why}"),
                Poll::Pending => panic!("question {number} has no outcome"),
            }
        }
        let dropped = case.ledger.borrow().dropped;
        assert!(is_stopped || case.rig.count(C::CallsDropped) == dropped, "those from outside are counted, too");
        let gone = remote.ask(0, Question { number: 0, hops: 0 }).unwrap_err();
        assert_eq!((gone.why, gone.word.number), (Silence::Gone, 0));
    });
}

/// Drains all lanes when it is told to.
struct Last;

impl StreamService for Last {
    type Talk = corelane_svc::Says<()>;
    type Session = ();

    fn open(&mut self, _: &mut Cx<'_, Self::Talk>, _: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_, Self::Talk>, (): &mut (), _: &mut Input, output: &mut Output) -> Next {
        cx.drain_program();
        assert!(output.write(b"bye").is_ok());
        Next::Close
    }
}

#[test]
fn a_service_can_drain_the_program() {
    let world = World::new(1, Faults::none());
    let mut rig = Rig::serving(&world, &RigPlan::lanes(2), patient(), |_| Last);
    let peer = world.connect(client(1), address()).unwrap();
    rig.wait(MS);
    peer.send(b"x");
    rig.wait(5 * MS);
    assert_eq!(peer.read(usize::MAX), b"bye");
    peer.close();
    rig.until_ended(&mut Nobody);
    assert!(rig.has_ended());
}

/// What [`Forgetful`] says: it tells a connection of a question by the call itself.
enum Errand {}

impl corelane_svc::Talk for Errand {
    type Message = ();
    type Question = ();
    type Answer = ();
    type Notice = Call<Self>;
}

/// Asks itself for each byte, and tells the connection that has gone of that: the call is dropped with the notice, at the very end of a turn.
#[derive(Default)]
struct Forgetful {
    gone: Option<ConnectionId>,
    told: Rc<Cell<u64>>,
}

impl StreamService for Forgetful {
    type Talk = Errand;
    type Session = ();

    fn open(&mut self, _: &mut Cx<'_, Errand>, _: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_, Errand>, (): &mut (), input: &mut Input, _: &mut Output) -> Next {
        if !input.is_empty() {
            input.skip(input.len());
            cx.ask(cx.lane(), ()).unwrap();
        }
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_, Errand>, (): (), _: Ending) {
        self.gone = Some(cx.id());
    }

    fn asked(&mut self, cx: &mut Cx<'_, Errand>, _: Origin, (): (), call: Call<Errand>) {
        cx.notify(self.gone.unwrap(), call);
    }

    fn replied(&mut self, _: &mut Cx<'_, Errand>, _: Asking, outcome: Result<(), Lost>) {
        assert_eq!(outcome, Err(Lost::Dropped));
        self.told.set(self.told.get() + 1);
    }
}

/// Nothing else happens on the lane then; and with that nothing is owed any more, so a drain has nothing to wait for.
#[test]
fn who_asked_is_told_of_a_call_that_was_dropped_at_the_end_of_a_turn() {
    let (world, told) = (World::new(1, Faults::none()), Rc::new(Cell::new(0)));
    let make = |_| Forgetful { gone: None, told: told.clone() };
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1), patient().drain_limit(Duration::from_secs(60)), make);
    let [first, peer] = [0, 1].map(|number| rig.connect(number));
    rig.wait(MS);
    first.close();
    rig.wait(MS);
    assert_eq!(peer.send(b"x"), 1);
    rig.wait(5 * MS);
    assert_eq!((told.get(), rig.count(C::CallsDropped), rig.count(C::NoticesLate)), (1, 1, 1));
    peer.close();
    rig.wait(MS);
    let began = world.now();
    rig.drain(&mut Nobody);
    assert!(world.now() - began < 10 * S, "the drain waited for its limit");
}
