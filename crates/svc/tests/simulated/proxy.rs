//! A proxy: what comes in on one side leaves on the other as it came, ends are passed on, and who reads slowly slows down
//! who sends.

use crate::echo::pattern;
use crate::for_seeds;
use crate::rig::Talker;
use crate::rig::{Family, MS, Nobody, Play, Rig, RigPlan, S, address, at, client, endings, patient};
use crate::transform;
use corelane_seam::{Address, Tuning};
use corelane_sim::{Faults, Peer, Report, Status, Turn, World};
use corelane_svc::{ConnectionId, Cx, Ending, Input, Limits, Next, Output, Side as Ends, Silent, StreamService};
use corelane_watch::{LaneCounter, ServiceCounter as C};
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

/// Where the server behind the proxy listens; it listens there from now on.
pub fn upstream(world: &World, family: Family) -> Address {
    let (way, address) = match family {
        Family::Inet => (UPSTREAM, UPSTREAM.into()),
        Family::Path | Family::Hidden => (family.way(world, 80), family.at(80)),
    };
    world.listen(way).unwrap();
    address
}

const UPSTREAM: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 1), 80));

struct Proxy {
    upstream: Address,
    /// Sessions that were made and not closed.
    sessions: Rc<Cell<usize>>,
    /// It has the system pass on bytes by itself.
    bridges: bool,
    /// Bytes that came to it, and those that were passed on unseen.
    passed: Rc<Cell<u64>>,
}

/// One side: the connection of the other.
struct Side(ConnectionId);

impl Proxy {
    fn side(&self, other: ConnectionId) -> Side {
        self.sessions.set(self.sessions.get() + 1);
        Side(other)
    }
}

impl StreamService for Proxy {
    type Talk = Silent;
    type Session = Side;

    fn open(&mut self, cx: &mut Cx<'_>, _peer: &corelane_svc::Peer) -> Side {
        let here = cx.id();
        let there = cx.connect(self.upstream.clone(), self.side(here)).unwrap();
        cx.pair_unseen(here, there);
        self.side(there)
    }

    fn receive(&mut self, cx: &mut Cx<'_>, side: &mut Side, input: &mut Input, _output: &mut Output) -> Next {
        self.passed.set(self.passed.get() + input.len() as u64 + input.unseen());
        if input.is_empty() {
            return Next::Continue;
        }
        match cx.connection(side.0) {
            Some(output) => output.forward(input.take_all()),
            None => return Next::Abort,
        }
        if self.bridges {
            cx.bridge(cx.id(), side.0);
        }
        Next::Continue
    }

    fn closed(&mut self, _cx: &mut Cx<'_>, _side: Side, _ending: Ending) {
        self.sessions.set(self.sessions.get() - 1);
    }
}

/// What the server behind the proxy says when its client has finished.
const TRAILER: &[u8] = b"that was all";

/// One connection of the server behind the proxy.
struct Server {
    peer: Peer,
    heard: Vec<u8>,
    to_say: Vec<u8>,
    said: usize,
    /// It finishes as soon as it has said its own, and goes on listening.
    speaks_first: bool,
    has_finished: bool,
    is_over: bool,
}

impl Server {
    fn new(peer: Peer, speaks_first: bool) -> Self {
        let to_say = if speaks_first { pattern(7, 40_000) } else { Vec::new() };
        Self { peer, heard: Vec::new(), to_say, said: 0, speaks_first, has_finished: false, is_over: false }
    }

    fn work(&mut self) {
        if self.is_over {
            return;
        }
        let bytes = self.peer.read(usize::MAX);
        self.heard.extend(&bytes);
        if !self.speaks_first {
            self.to_say.extend(bytes.iter().map(|byte| byte ^ 1));
        }
        let status = self.peer.status();
        let is_heard = status == Status::Ended;
        if is_heard && !self.speaks_first && !self.to_say.ends_with(TRAILER) {
            self.to_say.extend(TRAILER);
        }
        self.said += self.peer.send(&self.to_say[self.said..]);
        if self.said == self.to_say.len() && (is_heard || self.speaks_first) && !self.has_finished {
            self.has_finished = true;
            self.peer.finish();
        }
        if matches!(status, Status::Failed(_)) || (is_heard && self.has_finished) {
            self.is_over = true;
            self.peer.close();
        }
    }
}

struct Cast {
    talkers: Vec<Talker>,
    servers: Vec<Server>,
    speaks_first: bool,
}

impl Cast {
    fn new(talkers: Vec<Talker>, speaks_first: bool) -> Self {
        Self { talkers, servers: Vec::new(), speaks_first }
    }
}

impl Play for Cast {
    fn news(&mut self, world: &World, turn: Turn) {
        match turn {
            Turn::Incoming(peer) => {
                self.servers.push(Server::new(peer, self.speaks_first));
                self.servers.last_mut().unwrap().work();
            }
            Turn::Peer(peer) => match self.servers.iter_mut().find(|server| server.peer == peer) {
                Some(server) => server.work(),
                None => self.talkers.news(world, Turn::Peer(peer)),
            },
            turn => self.talkers.news(world, turn),
        }
    }

    fn is_over(&self) -> bool {
        self.talkers.is_over() && self.servers.iter().all(|server| server.is_over)
    }
}

/// What a client sends: its number first, so that the server's side can be told apart.
fn stream(seed: u64, number: usize, bytes: usize) -> Vec<u8> {
    let mut stream = vec![number as u8];
    stream.extend(pattern(seed + number as u64, bytes));
    stream
}

fn proxy_rig(world: &World, family: Family, limits: Limits, upstream: Address) -> (Rig, Rc<Cell<usize>>) {
    let Bridging { rig, sessions, .. } = bridging_rig(world, family, limits, upstream, 0);
    (rig, sessions)
}

/// A proxy that has the system pass on bytes.
pub struct Bridging {
    pub rig: Rig,
    /// Sessions that were made and not closed.
    pub sessions: Rc<Cell<usize>>,
    /// Bytes that its services were told of.
    pub passed: Rc<Cell<u64>>,
}

/// The same, with so many bridged pairs on each lane at the most.
pub fn bridging_rig(world: &World, family: Family, limits: Limits, upstream: Address, pairs_max: usize) -> Bridging {
    let (sessions, passed) = (Rc::default(), Rc::default());
    let make = |_| Proxy {
        upstream: upstream.clone(),
        sessions: Rc::clone(&sessions),
        bridges: pairs_max > 0,
        passed: Rc::clone(&passed),
    };
    let plan = RigPlan::lanes(2).family(family).tuning(Tuning::new().bridged_pairs_max(pairs_max));
    Bridging { rig: Rig::serving(world, &plan, limits, make), sessions, passed }
}

fn judge(cast: &Cast) {
    for server in cast.servers.iter().filter(|server| !server.heard.is_empty()) {
        let talker = &cast.talkers[usize::from(server.heard[0])];
        assert!(talker.to_send.starts_with(&server.heard), "the server heard other bytes");
    }
    for talker in &cast.talkers {
        let whole = match cast.speaks_first {
            true => pattern(7, 40_000),
            false => talker.to_send.iter().map(|byte| byte ^ 1).chain(TRAILER.iter().copied()).collect(),
        };
        assert!(whole.starts_with(&talker.got), "the client heard other bytes");
    }
}

pub fn run(seed: u64, faults: Faults) -> Report {
    let world = World::new(seed, faults);
    let pairs_max = if seed.is_multiple_of(3) { 0 } else { 16 };
    let course = Course { family: Family::of(seed), limits: patient(), clients: 6, bytes: 20_000, pairs_max };
    exact(&world, seed, faults, course);
    world.report()
}

/// Bulk, which passes through pipes.
fn bulk(seed: u64, faults: Faults) -> Report {
    let world = World::new(seed, faults);
    let limits = patient().output_high(64 << 10);
    exact(&world, seed, faults, Course { family: Family::Inet, limits, clients: 2, bytes: 200_000, pairs_max: 0 });
    world.report()
}

/// So many clients with so many bytes each, through a proxy that has so many pairs bridged on each lane at the most.
pub struct Course {
    pub family: Family,
    pub limits: Limits,
    pub clients: usize,
    pub bytes: usize,
    pub pairs_max: usize,
}

/// Runs it, and judges it. Returns how many bytes the system has passed on.
pub fn exact(world: &World, seed: u64, faults: Faults, course: Course) -> u64 {
    let Course { family, limits, clients, bytes, pairs_max } = course;
    let upstream = upstream(world, family);
    let Bridging { mut rig, sessions, .. } = bridging_rig(world, family, limits, upstream, pairs_max);
    let talker = |number: usize| Talker::new(rig.connect(number), seed, stream(seed, number, bytes));
    let mut cast = Cast::new((0..clients).map(talker).collect(), seed % 2 == 1);
    assert!(rig.play(&mut cast), "clients wait for ever");
    rig.close(&mut cast);
    judge(&cast);
    if faults == Faults::none() {
        let whole = if cast.speaks_first { 40_000 } else { bytes + 1 + TRAILER.len() };
        assert!(cast.talkers.iter().all(|talker| talker.got.len() == whole && talker.is_complete()));
        assert!(cast.servers.iter().all(|server| server.heard.len() == bytes + 1));
        assert_eq!(rig.count(C::EndingsEndOfStream), 2 * clients as u64);
    }
    assert_eq!(sessions.get(), 0, "sessions that were never closed");
    let opened = rig.count(C::Accepts) + rig.count(C::Connects) + rig.count(C::ConnectsFailed);
    assert_eq!(endings(&rig, 0), opened);
    rig.lane_count(LaneCounter::BytesBridged)
}

#[test]
fn both_ways_are_exact_and_ends_are_passed_on() {
    for_seeds(60, |seed| {
        run(seed, Faults::none());
    });
}

#[test]
fn both_ways_are_exact_under_every_fault() {
    for_seeds(150, |seed| {
        run(seed, Faults::all(seed));
    });
    for_seeds(20, |seed| {
        bulk(seed, Faults::all(seed));
    });
}

#[test]
fn a_client_that_finishes_while_the_way_opens_is_served() {
    for_seeds(60, |seed| {
        let world = World::new(seed, Faults::none());
        let upstream = upstream(&world, Family::of(seed));
        let (mut rig, _) = proxy_rig(&world, Family::of(seed), patient(), upstream);
        let silent = Talker::new(rig.connect(0), seed, Vec::new());
        let peer = silent.peer.clone();
        let mut cast = Cast::new(vec![silent], false);
        while peer.status() == Status::Opening {
            rig.pass(Duration::from_micros(1), &mut cast);
        }
        peer.finish();
        rig.pass(50 * MS, &mut cast);
        assert_eq!(String::from_utf8_lossy(&cast.talkers[0].got), String::from_utf8_lossy(TRAILER));
        rig.close(&mut cast);
    });
}

#[test]
fn a_client_that_breaks_off_while_the_way_opens_leaves_nothing_behind() {
    for_seeds(400, |seed| {
        let world = World::new(seed, Faults::none());
        // Over Unix sockets nothing is broken off: whoever closes has finished.
        let upstream = upstream(&world, Family::Inet);
        let (mut rig, sessions) = proxy_rig(&world, Family::Inet, patient(), upstream);
        let peer = rig.connect(0);
        while peer.status() == Status::Opening {
            rig.wait(Duration::from_micros(5));
        }
        peer.reset();
        // Where the way was open already, its end lingers: nobody plays the server here.
        rig.wait(3 * S);
        assert_eq!((rig.connections(), sessions.get()), (0, 0));
        let done = rig.count(C::Connects) + rig.count(C::ConnectsFailed) + rig.count(C::Accepts);
        assert_eq!(endings(&rig, 0), done);
        rig.close(&mut Cast::new(Vec::new(), false));
    });
}

#[test]
fn a_client_whose_server_cannot_be_reached_is_let_go() {
    let world = World::new(1, Faults::none());
    let (mut rig, sessions) = proxy_rig(&world, Family::Inet, patient(), at(99).into());
    let mut talkers = vec![Talker::new(rig.connect(0), 1, stream(1, 0, 1000))];
    assert!(rig.play(&mut talkers));
    assert_eq!((rig.count(C::ConnectsFailed), rig.count(C::EndingsError)), (1, 1));
    rig.close(&mut talkers);
    assert_eq!(sessions.get(), 0);
}

/// Sends all of `bytes` from one end, while the other reads nothing for long; then it reads all.
fn slow_reader(rig: &mut Rig, from: &Peer, to: &Peer, bytes: &[u8]) {
    let mut sent = 0;
    for _ in 0..100 {
        sent += from.send(&bytes[sent..]);
        rig.wait(20 * MS);
    }
    assert!(sent < bytes.len(), "the sender is slowed down");
    let held: usize = rig.arenas.iter().map(corelane_seam::Arena::used).sum();
    assert!(held < 1 << 20, "{held} bytes are held for who does not read");
    assert!(rig.count(C::OutputHighHits) > 0);
    let mut got = Vec::new();
    for _ in 0..2_000 {
        sent += from.send(&bytes[sent..]);
        got.extend(to.read(usize::MAX));
        rig.wait(MS / 5);
    }
    assert!(got == bytes, "{} of {} bytes, {sent} sent", got.len(), bytes.len());
}

/// Keeps the server's end of the one connection.
pub struct Accepting(pub Option<Peer>);

impl Play for Accepting {
    fn news(&mut self, _: &World, turn: Turn) {
        if let Turn::Incoming(peer) = turn {
            self.0 = Some(peer);
        }
    }

    fn is_over(&self) -> bool {
        self.0.is_some()
    }
}

/// Pipes are for TCP on both sides, with nothing before it.
#[test]
fn what_has_a_transform_or_a_path_passes_through_memory() {
    for (family, is_veiled) in [(Family::Inet, false), (Family::Inet, true), (Family::Path, false)] {
        let world = World::new(1, Faults::none());
        let upstream = upstream(&world, family);
        let make = |_| Proxy { upstream: upstream.clone(), sessions: Rc::default(), bridges: false, passed: Rc::default() };
        let veil = move |side, _: &corelane_svc::Peer| (is_veiled && side == Ends::Server).then(transform::xor);
        let limits = patient().output_high(64 << 10);
        let mut rig = Rig::behind(&world, &RigPlan::lanes(1).family(family), limits, make, veil);
        let mut cast = Cast::new(vec![Talker::new(rig.connect(0), 1, stream(1, 0, 1_000_000))], false);
        assert!(rig.play(&mut cast), "it waits for ever");
        assert!(cast.servers[0].heard.len() == 1_000_001 && cast.talkers[0].got.len() == 1_000_001 + TRAILER.len());
        let piped = rig.lane_count(LaneCounter::BytesPiped);
        assert_eq!(piped > 0, family == Family::Inet && !is_veiled, "{piped} bytes");
        rig.close(&mut cast);
    }
}

#[test]
fn who_reads_slowly_slows_down_who_sends() {
    let world = World::new(1, Faults::none());
    let upstream = upstream(&world, Family::Inet);
    let (mut rig, _) = proxy_rig(&world, Family::Inet, patient(), upstream);
    let one = world.connect(client(1), address()).unwrap();
    let mut accepting = Accepting(None);
    assert!(rig.play(&mut accepting));
    let other = accepting.0.unwrap();
    rig.wait(MS);
    let bytes = pattern(1, 5_000_000);
    slow_reader(&mut rig, &one, &other, &bytes);
    slow_reader(&mut rig, &other, &one, &bytes);
    // What was handed on is counted as forwarded, not as copied.
    assert_eq!(rig.count(C::BytesForwarded), 10_000_000);
    one.close();
    rig.wait(MS);
    assert_eq!(other.status(), Status::Ended);
    other.close();
    rig.wait(S);
    rig.close(&mut Nobody);
}
