//! Values of users whose drop panics, wherever a lane has them: the lane lives, says so, and everybody else is served.

use crate::for_seeds;
use crate::rig::{Family, MS, Nobody, Rig, RigPlan, S, address, at, patient};
use corelane_lane::Order as Command;
use corelane_seam::{Outcome, Tuning};
use corelane_sim::{Faults, Peer, Random, Status, Turn, World};
use corelane_svc::{
    ConnectionId, Ending, Input, Limits, Next, Order, Output, Passage, Progress, StreamService, Ticket, Transform, TransformError,
};
use corelane_watch::{LaneCounter, ServiceCounter as C};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many have burst.
type Field = Arc<AtomicU64>;

/// A value whose drop panics.
struct Mine(Field);

impl Drop for Mine {
    fn drop(&mut self) {
        // A panic in a panic ends the process, whoever's it is.
        if !std::thread::panicking() {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("a mine");
        }
    }
}

/// What miners say.
enum Talk {}

impl corelane_svc::Talk for Talk {
    type Message = Mine;
    type Question = Infallible;
    type Answer = Infallible;
    type Notice = Mine;
}

type Cx<'a> = corelane_svc::Cx<'a, Talk>;

/// Passes bytes on as they are.
struct Mined(#[expect(dead_code, reason = "dropped")] Mine);

impl Transform for Mined {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        passage.open();
        passage.input.append(passage.received);
        passage.wire.append(passage.output);
        if passage.peer_finished {
            passage.end_input();
        }
        Ok(Progress::Idle)
    }
}

/// Does what the letters that it receives say; answers each with itself.
struct Miner {
    field: Field,
    held: Vec<Ticket>,
    /// Connections that have ended.
    past: Vec<ConnectionId>,
    #[expect(dead_code, reason = "dropped")]
    own: Mine,
}

impl Miner {
    fn mine(&self) -> Mine {
        Mine(self.field.clone())
    }

    fn lay(&mut self, cx: &mut Cx<'_>, session: &mut Vec<Mine>, output: &mut Output, letter: u8) -> Next {
        let mine = self.mine();
        match letter {
            b'm' => cx.notify(cx.id(), mine),
            b'g' => cx.notify(self.past.last().copied().unwrap_or(cx.id()), mine),
            b'h' => self.held.extend(output.hold(Order::Any)),
            b's' => session.push(mine),
            b'o' => cx.offload(move || drop(mine), 0),
            b'r' => cx.offload(move || mine, 0),
            b'l' => drop(cx.send(1 - cx.lane(), mine)),
            b't' => drop(cx.spawn(async move {
                let _mine = mine;
                std::future::pending::<()>().await;
            })),
            b'w' => drop(cx.spawn(async move { drop(mine) })),
            b'c' => drop(cx.connect(at(99), vec![mine])),
            b'n' => drop(cx.connect("203.0.113.1:1".parse::<corelane_seam::Address>().unwrap(), vec![mine])),
            b'x' => {
                std::mem::forget(mine);
                return Next::Close;
            }
            _ => std::mem::forget(mine),
        }
        Next::Continue
    }
}

impl StreamService for Miner {
    type Talk = Talk;
    type Session = Vec<Mine>;

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &corelane_svc::Peer) -> Vec<Mine> {
        Vec::new()
    }

    fn receive(&mut self, cx: &mut Cx<'_>, session: &mut Vec<Mine>, input: &mut Input, output: &mut Output) -> Next {
        while let Some(&letter) = input.first().first() {
            input.skip(1);
            if output.write(&[letter]).is_err() {
                return Next::Abort;
            }
            match self.lay(cx, session, output, letter) {
                Next::Continue => {}
                next => return next,
            }
        }
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_>, session: Vec<Mine>, _ending: Ending) {
        self.past.push(cx.id());
        drop(session);
    }

    fn completed(&mut self, _cx: &mut Cx<'_>, _token: u64, _outcome: Outcome) {}
}

struct Stage {
    rig: Rig,
    field: Field,
}

impl Stage {
    fn new(world: &World, family: Family, limits: Limits) -> Self {
        let field = Field::default();
        let plan = RigPlan::lanes(2).family(family).tuning(Tuning::default().offload_max(1));
        let miner = |_| Miner { field: field.clone(), held: Vec::new(), past: Vec::new(), own: Mine(field.clone()) };
        let of_transforms = field.clone();
        let rig = Rig::behind(world, &plan, limits, miner, move |_, _: &_| {
            Some(Box::new(Mined(Mine(of_transforms.clone()))) as Box<dyn Transform>)
        });
        Self { rig, field }
    }

    /// Panics of users' values that the lanes have counted.
    fn counted(&self) -> u64 {
        self.rig.count(C::Panics) + self.rig.lane_count(LaneCounter::TasksPanicked)
    }

    /// Panics that the operator was told of, those included that were only counted to them.
    fn told(&self) -> u64 {
        let left_out =
            |words: &str| words.strip_suffix(" were left out")?.split_whitespace().find_map(|word| word.parse::<u64>().ok());
        // That nobody hears a message is told as well, and is no panic.
        let reports = self.rig.reports.borrow();
        reports
            .iter()
            .map(|record| &record.text)
            .filter(|words| !words.contains("hears none") && !words.contains("nobody hears"))
            .map(|words| left_out(words).unwrap_or(1))
            .sum()
    }

    fn burst(&self) -> u64 {
        self.field.load(Ordering::Relaxed)
    }
}

#[test]
fn each_drop_is_fenced_counted_and_reported() {
    for letter in *b"mgsorltwcn" {
        let world = World::new(1, Faults::none());
        let mut stage = Stage::new(&world, Family::Inet, patient().connect_limit(Duration::from_secs(1)));
        let (ghosts, layer, other) = ([3, 4].map(|number| stage.rig.connect(number)), stage.rig.connect(1), stage.rig.connect(2));
        stage.rig.wait(MS);
        ghosts.iter().for_each(Peer::close);
        stage.rig.wait(MS);
        let text = String::from_utf8(vec![letter; 2]).unwrap() + "x";
        layer.send(text.as_bytes());
        stage.rig.wait(5 * MS);
        layer.close();
        stage.rig.wait(3 * S);
        let (name, burst) = (char::from(letter), stage.burst());
        assert!(burst > 0, "{name}: nothing burst");
        // A call on a helper thread has nobody to report a panic to but its outcome.
        let told = if letter == b'o' { stage.counted() + 1 } else { stage.counted() };
        assert_eq!(told, burst, "{name}");
        assert!(letter == b't' || letter == b'w' || stage.told() == stage.counted(), "{name}");
        assert_eq!(stage.rig.ask(&other, "still"), "still", "{name}");
        other.close();
        stage.rig.close(&mut Nobody);
    }
}

#[test]
fn what_a_stopped_lane_has_is_dropped_behind_the_fence() {
    for letter in *b"mgsorltwcnh" {
        let world = World::new(1, Faults::none());
        let mut stage = Stage::new(&world, Family::Inet, patient().connect_limit(Duration::from_secs(1)));
        let peers: Vec<Peer> = (0..4).map(|number| stage.rig.connect(number)).collect();
        stage.rig.wait(MS);
        peers.iter().for_each(|peer| assert_eq!(peer.send(&[letter]), 1));
        world.pass(Duration::from_micros(200));
        stage.rig.control.give(Command::Stop);
        stage.rig.until_ended(&mut Nobody);
        assert!(stage.rig.has_ended() && stage.burst() >= 6, "four transforms and two services at the least");
        stage.rig.wait(MS);
        assert!(peers.iter().all(|peer| matches!(peer.status(), Status::Failed(_))));
    }
}

/// What was said to a lane that stops before it hears it is counted there, though nobody was called with it.
#[test]
fn what_waits_in_a_channel_as_its_lane_stops_is_counted() {
    let world = World::new(1, Faults::none());
    let mut stage = Stage::new(&world, Family::Inet, patient());
    let peer = stage.rig.connect(0);
    stage.rig.wait(MS);
    peer.send(b"l");
    while stage.rig.lane_count(LaneCounter::MessagesSent) == 0 {
        if let Some(Turn::Lane(lane)) = world.step() {
            stage.rig.turn(lane);
        }
    }
    stage.rig.control.give(Command::Stop);
    stage.rig.until_ended(&mut Nobody);
    // A transform, two services, and the message.
    assert_eq!((stage.burst(), stage.counted()), (4, 4));
}

/// Everything at once, under faults, until a drain or a stop.
fn run(seed: u64, faults: Faults) {
    let world = World::new(seed, faults);
    let mut stage = Stage::new(&world, Family::of(seed), patient().connect_limit(Duration::from_secs(1)));
    let mut random = Random::new(seed);
    let mut peers = Vec::new();
    for number in 0..20 {
        peers.push(stage.rig.connect(number));
        stage.rig.wait(Duration::from_nanos(random.below(300_000)));
        for peer in &peers {
            let letter = b"mgsorltwcnhx."[random.below(13) as usize];
            peer.send(&[letter]);
        }
        if random.below(3) == 0 {
            peers.remove(random.below(peers.len() as u64) as usize).reset();
        }
    }
    let last = if random.below(2) == 0 { Command::Drain } else { Command::Stop };
    stage.rig.control.give(if random.below(4) == 0 { Command::Serve } else { last });
    stage.rig.wait(random.time_below(3 * MS));
    stage.rig.control.give(Command::Stop);
    stage.rig.until_ended(&mut Nobody);
    assert!(stage.rig.has_ended());
    assert!(stage.counted() <= stage.burst() && stage.counted() > 0);
}

#[test]
fn lanes_live_through_any_mixture() {
    for_seeds(300, |seed| run(seed, if seed % 3 == 0 { Faults::none() } else { Faults::all(seed) }));
}

#[test]
fn a_message_to_a_lane_without_the_service_comes_back() {
    let world = World::new(1, Faults::none());
    let field = Field::default();
    let mut rig = Rig::new(&world, &RigPlan::lanes(2), |roster| {
        let miner = || Miner { field: field.clone(), held: Vec::new(), past: Vec::new(), own: Mine(field.clone()) };
        for port in [address(), at(8)].into_iter().take(2 - roster.lane()) {
            roster.serve(port, patient(), miner());
        }
    });
    let peer = world.connect(crate::rig::client(1), at(8)).unwrap();
    rig.wait(MS);
    // It is dropped in the call that sent it, whose panic ends its connection.
    assert_eq!(rig.ask(&peer, "l"), "");
    assert_eq!((field.load(Ordering::Relaxed), rig.lane_count(LaneCounter::MessagesRefused)), (1, 1));
    peer.close();
    rig.close(&mut Nobody);
}
