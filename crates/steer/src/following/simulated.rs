//! Tables that change under simulated lanes while clients speak: who rests is where its bucket is, who cannot go stays, and nobody loses a byte.

use super::{Strays, WAITS_FOR_ROOM_MAX, orders, passed_over, rounds};
use crate::error::Error;
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_svc::{Cx, Flow, Flows, Input, Limits, Next, Output, Peer, Silent, Steer, StreamService};
use corelane_testing::{Faults, MS, Play, Random, Rig, RigPlan, Status, Turn, World, for_seeds, patient};
use corelane_watch::ServiceCounter as C;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::{TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where each session is, by its number: its lane and its flow.
type Places = Rc<RefCell<BTreeMap<u64, (usize, Flow)>>>;

/// Answers each byte with how many it has answered on its connection. Every fifth session is never packed.
struct Counting {
    places: Places,
    opened: Rc<RefCell<u64>>,
}

#[derive(Clone, Copy)]
struct Session {
    number: u64,
    count: u8,
}

impl Session {
    fn stays(self) -> bool {
        self.number.is_multiple_of(5)
    }
}

impl Counting {
    fn note(&self, cx: &Cx<'_>, peer: &Peer, number: u64) {
        self.places.borrow_mut().insert(number, (cx.lane(), peer.flow.unwrap()));
    }
}

impl StreamService for Counting {
    type Talk = Silent;
    type Session = Session;

    fn open(&mut self, cx: &mut Cx<'_>, peer: &Peer) -> Session {
        let number = *self.opened.borrow();
        *self.opened.borrow_mut() += 1;
        self.note(cx, peer, number);
        Session { number, count: 0 }
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, session: &mut Session, input: &mut Input, output: &mut Output) -> Next {
        for _ in 0..input.len() {
            session.count = session.count.wrapping_add(1);
            output.write(&[session.count]).unwrap();
        }
        input.skip(input.len());
        Next::Continue
    }

    fn pack(&mut self, _cx: &mut Cx<'_>, session: Session) -> Result<Box<dyn Any + Send>, Session> {
        if session.stays() { Err(session) } else { Ok(Box::new(session)) }
    }

    fn unpack(&mut self, cx: &mut Cx<'_>, packed: Box<dyn Any + Send>) -> Result<Session, Box<dyn Any + Send>> {
        let session = *packed.downcast::<Session>()?;
        let peer = cx.peer(cx.id()).unwrap().clone();
        self.note(cx, &peer, session.number);
        Ok(session)
    }

    fn closed(&mut self, _cx: &mut Cx<'_>, session: Session, _ending: corelane_svc::Ending) {
        self.places.borrow_mut().remove(&session.number);
    }
}

/// A client that asks now and then, or only when it is told to.
struct Client {
    end: corelane_testing::Peer,
    speaks: bool,
    asked: u64,
    heard: u64,
}

struct Cast {
    clients: Vec<Client>,
    random: Random,
}

impl Client {
    fn ask(&mut self) {
        if self.end.status() == Status::Open {
            self.asked += self.end.send(b"?") as u64;
        }
    }

    fn hear(&mut self) {
        for byte in self.end.read(usize::MAX) {
            self.heard += 1;
            assert_eq!(byte, self.heard as u8, "each is answered once, and in order");
        }
        if matches!(self.end.status(), Status::Ended | Status::Failed(_)) {
            self.end.close();
        }
    }
}

impl Play for Cast {
    fn news(&mut self, world: &World, turn: Turn) {
        let token = match turn {
            Turn::Peer(ref peer) => peer.id() as u64,
            Turn::Alarm(token) => token,
            _ => return,
        };
        let Some(client) = self.clients.iter_mut().find(|client| client.end.id() as u64 == token) else { return };
        client.hear();
        if client.speaks && matches!(turn, Turn::Alarm(_)) {
            client.ask();
            world.alarm(world.now() + Duration::from_micros(self.random.below(3_000)), token);
        }
    }
}

/// Lanes, their clients, and what steers them.
struct Stage {
    world: World,
    rig: Rig,
    cast: Cast,
    lanes: usize,
    places: Places,
    random: Random,
}

const BUCKETS: usize = 32;

fn table(lanes: usize) -> Table {
    Table::even(Buckets::new(BUCKETS).unwrap(), lanes).unwrap()
}

impl Stage {
    fn new(seed: u64, lanes: usize, faults: Faults, limits: Limits) -> Self {
        let (world, places, opened) = (World::new(seed, faults), Places::default(), Rc::default());
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        let serving = (places.clone(), Rc::clone(&opened));
        let rig = Rig::new(&world, &RigPlan::lanes(lanes).memory(4 << 20), move |roster| {
            let flows = Flows::new(hasher.clone(), table(lanes));
            roster.tune(|services| services.set_flows(flows));
            let (places, opened) = serving.clone();
            roster.serve(corelane_testing::address(), limits, Counting { places, opened });
        });
        let mut random = Random::new(seed);
        let client = |number| Client { end: rig.connect(number), speaks: number % 4 == 0, asked: 0, heard: 0 };
        let clients: Vec<Client> = (0..20 + random.below(40) as usize).map(client).collect();
        clients.iter().for_each(|client| world.alarm(world.now() + MS, client.end.id() as u64));
        let mut stage = Self { world, rig, cast: Cast { clients, random: Random::new(seed + 1) }, lanes, places, random };
        stage.pass(5 * MS);
        stage
    }

    fn pass(&mut self, time: Duration) {
        self.rig.pass(time, &mut self.cast);
    }

    /// A table in which some buckets, or all, are another lane's.
    fn change(&mut self) -> Table {
        let mut changed = table(self.lanes);
        let share = self.random.one_to(3) as u64;
        for bucket in changed.buckets().all() {
            if self.random.below(share) == 0 {
                changed.set(bucket, self.random.below(self.lanes as u64) as usize).unwrap();
            }
        }
        changed
    }

    /// One round of orders, as [`follow`](super::follow) gives them.
    fn round(&mut self, asked: &Arc<Mutex<Strays>>, table: &Table, to: &[usize]) -> Result<(), Error> {
        let mut answers = Vec::new();
        for (lane, command) in orders(asked, table, self.lanes, to) {
            let (done, answer) = channel();
            let _ = self.rig.tell.tell(lane, Steer { command, reply: Box::new(move |result| drop(done.send(result))) });
            answers.push((lane, answer));
        }
        for (lane, answer) in answers {
            let heard = loop {
                match answer.try_recv() {
                    Ok(done) => break done.map_err(|error| Error::Lane { lane, error }),
                    Err(TryRecvError::Disconnected) => break Err(Error::LaneEnded { lane }),
                    Err(TryRecvError::Empty) => self.pass(MS / 20),
                }
            };
            passed_over(heard)?;
        }
        Ok(())
    }

    /// All lanes' connections follow a table; `meanwhile` is called in each wait, with the time that was waited in all. Returns that time.
    fn follow(&mut self, table: &Table, mut meanwhile: impl FnMut(&mut Self, Duration)) -> Duration {
        let (asked, to, mut waited) = (Arc::default(), table.owners().collect::<Vec<_>>(), Duration::ZERO);
        let stage = RefCell::new(self);
        let round = || stage.borrow_mut().round(&asked, table, &to);
        rounds(&asked, round, |time| {
            let mut stage = stage.borrow_mut();
            waited += time;
            stage.pass(time);
            meanwhile(&mut stage, waited);
        })
        .unwrap();
        waited
    }

    /// The sessions that are not where their buckets are, except for those that never go.
    fn astray(&self, table: &Table) -> usize {
        let places = self.places.borrow();
        let goes = |number: u64| !Session { number, count: 0 }.stays();
        places.iter().filter(|&(&number, (lane, flow))| goes(number) && table.lane(flow.bucket) != *lane).count()
    }

    /// Where those are that never go.
    fn fixed(&self) -> Vec<(u64, usize)> {
        let places = self.places.borrow();
        let stays = |number: u64| Session { number, count: 0 }.stays();
        places.iter().filter(|&(&number, _)| stays(number)).map(|(&number, &(lane, _))| (number, lane)).collect()
    }

    fn hush(&mut self) {
        self.cast.clients.iter_mut().for_each(|client| client.speaks = false);
        self.pass(20 * MS);
    }

    /// Each is answered where it is.
    fn assert_all_answered(&mut self) {
        self.hush();
        self.cast.clients.iter_mut().for_each(Client::ask);
        self.pass(50 * MS);
        for client in &self.cast.clients {
            assert!(client.end.status() == Status::Open && client.heard == client.asked && client.asked > 0);
        }
    }

    fn end(mut self) -> [u64; 4] {
        self.rig.drain(&mut self.cast);
        self.world.check().unwrap();
        let counts = [C::MovesAway, C::MovesHere, C::MovesRefused, C::MovesLost].map(|counter| self.rig.count(counter));
        assert_eq!(counts[0], counts[1], "who has left one lane has come to another");
        counts
    }
}

#[test]
fn who_rests_is_where_its_bucket_is_and_who_cannot_go_stays() {
    let mut moved = 0;
    for_seeds(60, |seed| {
        let mut stage = Stage::new(seed, 2 + seed as usize % 4, Faults::none(), patient());
        let fixed = stage.fixed();
        for _ in 0..4 {
            let changed = stage.change();
            stage.follow(&changed, |_, _| ());
            let silent = stage.cast.clients.iter().filter(|client| !client.speaks).count();
            assert!(stage.astray(&changed) <= stage.cast.clients.len() - silent, "who never speaks has gone");
        }
        stage.hush();
        let last = stage.change();
        stage.follow(&last, |_, _| ());
        assert_eq!((stage.astray(&last), stage.fixed()), (0, fixed));
        stage.assert_all_answered();
        let [away, _, _, lost] = stage.end();
        moved += away;
        assert_eq!(lost, 0);
    });
    assert!(moved > 1_000, "{moved}");
}

/// A lane that takes none for a while holds all back that are its own, and those of no other.
#[test]
fn who_finds_no_room_goes_when_there_is_some() {
    for_seeds(30, |seed| {
        let lanes = 3;
        let mut stage = Stage::new(seed, lanes, Faults::none(), patient());
        stage.hush();
        let (held_up, all) = (stage.random.below(lanes as u64) as usize, Buckets::new(BUCKETS).unwrap().all());
        let mut changed = table(lanes);
        all.for_each(|bucket| changed.set(bucket, held_up).unwrap());
        stage.world.hold_up(held_up);
        let until = Duration::from_millis(stage.random.below(5_000));
        let waited = stage.follow(&changed, |stage, waited| {
            if waited > until {
                stage.world.let_go(held_up);
            }
        });
        stage.world.let_go(held_up);
        // Few are on their way at once, which nobody waits for.
        stage.pass(20 * MS);
        assert!(stage.astray(&changed) == 0 && waited < WAITS_FOR_ROOM_MAX, "{waited:?}");
        stage.assert_all_answered();
        assert_eq!(stage.end()[3], 0);
    });
}

/// One that is never let go is not waited for longer than is said, and what is on its way arrives later.
#[test]
fn a_lane_that_takes_none_is_given_up() {
    let mut stage = Stage::new(1, 2, Faults::none(), patient());
    stage.hush();
    let mut changed = table(2);
    changed.buckets().all().for_each(|bucket| changed.set(bucket, 1).unwrap());
    stage.world.hold_up(1);
    let waited = stage.follow(&changed, |_, _| ());
    assert!(waited <= WAITS_FOR_ROOM_MAX && waited * 10 > WAITS_FOR_ROOM_MAX * 9, "{waited:?}");
    assert!(stage.astray(&changed) > 0);
    stage.world.let_go(1);
    stage.assert_all_answered();
    assert_eq!(stage.end()[3], 0);
}

/// Lanes with room for few: who is refused comes back, and is not sent again.
#[test]
fn who_finds_no_place_comes_back_and_is_served_on() {
    let mut refused = 0;
    for_seeds(40, |seed| {
        let mut stage = Stage::new(seed, 2, Faults::none(), patient().connections_max(40));
        stage.hush();
        let mut changed = table(2);
        changed.buckets().all().for_each(|bucket| changed.set(bucket, seed as usize % 2).unwrap());
        stage.follow(&changed, |_, _| ());
        let open = stage.cast.clients.iter().filter(|client| client.end.status() == Status::Open).count();
        assert_eq!(stage.rig.connections(), open);
        let astray = stage.astray(&changed) as u64;
        let counts = stage.end();
        // Once there, once as it comes back.
        assert!(counts[0] <= open as u64 + astray && counts[3] == 0, "{counts:?}");
        refused += astray;
    });
    assert!(refused > 40, "{refused}");
}

/// The order to drain, or another process that takes over, comes in the middle.
#[test]
fn lanes_drain_and_are_taken_over_while_connections_follow() {
    for_seeds(150, |seed| {
        let faults = if seed.is_multiple_of(3) { Faults::all(seed) } else { Faults::none() };
        let mut stage = Stage::new(seed, 2 + seed as usize % 3, faults, patient());
        let (changed, other) = (stage.change(), stage.change());
        let (takes_over, drains) = (seed % 4 != 0, seed % 4 != 1);
        let after = Duration::from_millis(stage.random.below(60));
        let (mut is_told, mut is_draining) = (false, false);
        let mut meanwhile = |stage: &mut Stage, waited: Duration| {
            if waited >= after && takes_over && !std::mem::replace(&mut is_told, true) {
                stage.rig.hand_over();
            }
            if waited >= after * 2 && drains && !std::mem::replace(&mut is_draining, true) {
                stage.rig.begin_drain();
            }
        };
        stage.follow(&changed, &mut meanwhile);
        stage.follow(&other, &mut meanwhile);
        stage.end();
    });
}

#[test]
fn connections_follow_under_every_fault() {
    for_seeds(80, |seed| {
        let mut stage = Stage::new(seed, 2 + seed as usize % 4, Faults::all(seed), patient());
        for _ in 0..3 {
            let changed = stage.change();
            stage.follow(&changed, |_, _| ());
        }
        stage.end();
    });
}

/// One that was asked to go and stays has the time that it had: a peer that owes nothing is not late.
#[test]
fn who_stays_is_not_late() {
    for_seeds(20, |seed| {
        let mut stage = Stage::new(seed, 2, Faults::none(), Limits::new());
        for _ in 0..4 {
            let changed = stage.change();
            stage.follow(&changed, |_, _| ());
        }
        stage.hush();
        for _ in 0..4 {
            let changed = stage.change();
            stage.follow(&changed, |_, _| ());
            stage.pass(Duration::from_secs(20));
        }
        stage.assert_all_answered();
        stage.end();
    });
}
