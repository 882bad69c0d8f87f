//! Many who want a lane's memory and give nothing back, from up to 64 addresses, while honest clients of every service go on.
//!
//! What is promised: at most 1 in 100 requests of an honest client, small ones, takes 100 ms or more; none is lost.

use crate::calls::{echo, messages, null, opaque, record, success};
use crate::for_seeds;
use crate::rig::{MS, Plan, Play, Rig, S, at};
use corelane_rpc::{Echo as EchoProgram, Null, Rpc, RpcCounter, RpcDatagrams};
use corelane_sim::{DatagramPeer, Faults, Peer, Random, Status, Turn, World};
use corelane_svc::{Cx, Input, Limits, Next, Output, Peer as Ends, Sharing, StreamService};
use corelane_watch::{LaneCounter, OwnCounter, ServiceCounter as C};
use std::net::SocketAddr;

/// A lane of a quarter of the usual memory, and a quarter of ten times the connections that once silenced a usual one:
/// 900 begun records and 3,000 readers that do not read.
const MEMORY: usize = 16 << 20;
const ATTACKERS: usize = 975;
const ATTACKER_ADDRESSES: usize = 64;
const RPC_PORT: u16 = 111;
const ECHO_PORT: u16 = 7;
/// How long the attack goes on.
const SPAN: u64 = 2 * S;
const BOUND: u64 = 100 * MS;
/// The alarm of the one who calls by datagrams.
const CALLER: u64 = 1 << 32;

/// Sends back what it gets.
struct Echo;

impl StreamService for Echo {
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Ends) {}

    fn receive(&mut self, _cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        output.forward(input.take_all());
        Next::Continue
    }
}

/// What an attacker does with a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Begins a record of 1 MiB, and stops after so many bytes.
    BegunRecord(usize),
    /// The same in many fragments, which are joined.
    BegunFragments(usize),
    /// Has all it sends echoed, and reads nothing.
    NeverReads,
    /// Calls for large replies, and reads none.
    NeverReadsReplies,
    /// Begins a record of 1 MiB, and adds a byte now and then.
    Drips,
}

impl Kind {
    fn drawn(random: &mut Random) -> Self {
        match random.below(6) {
            0 => Self::BegunRecord(random.one_to(300_000)),
            1 => Self::BegunFragments(random.one_to(300_000)),
            2 | 3 => Self::NeverReads,
            4 => Self::NeverReadsReplies,
            _ => Self::Drips,
        }
    }

    fn port(self) -> u16 {
        if self == Self::NeverReads { ECHO_PORT } else { RPC_PORT }
    }

    /// What it sends at first: a head, then so many bytes of a piece again and again.
    fn script(self) -> (Vec<u8>, &'static [u8], usize) {
        let mark = |last: bool, bytes: u32| (u32::from(last) << 31 | bytes).to_be_bytes();
        let begun = mark(true, (1 << 20) - 4).to_vec();
        match self {
            Self::BegunRecord(bytes) => (begun, &FILLER, bytes),
            Self::BegunFragments(bytes) => {
                ([&mark(false, 9_000)[..], &[7; 9_000]].concat().repeat(1 + bytes / 9_000), &FILLER, 0)
            }
            Self::NeverReads => (Vec::new(), &FILLER, 512 << 10),
            Self::NeverReadsReplies => (record(&echo(1, &[7; 60_000])).repeat(8), &FILLER, 0),
            Self::Drips => (begun, &FILLER, 5_000),
        }
    }
}

static FILLER: [u8; 16 << 10] = [7; 16 << 10];

struct Attacker {
    peer: Peer,
    from: SocketAddr,
    kind: Kind,
    head: Vec<u8>,
    piece: &'static [u8],
    total: usize,
    sent: usize,
}

impl Attacker {
    fn new(world: &World, number: usize, random: &mut Random) -> Self {
        let from = SocketAddr::from(([198, 51, 100, 1 + (number % ATTACKER_ADDRESSES) as u8], 0));
        let kind = Kind::drawn(random);
        let (head, piece, more) = kind.script();
        let total = head.len() + more;
        Self { peer: world.connect(from, at(kind.port())).unwrap(), from, kind, head, piece, total, sent: 0 }
    }

    fn work(&mut self, world: &World) {
        match self.peer.status() {
            Status::Opening => {}
            Status::Open if self.kind == Kind::Drips && self.sent == self.total => self.total += 1,
            Status::Open => while self.send() {},
            // Thrown out, it comes again.
            _ => {
                self.peer.close();
                (self.peer, self.sent) = (world.connect(self.from, at(self.kind.port())).unwrap(), 0);
            }
        }
    }
}

impl Attacker {
    /// Sends a piece; false if there is no more, or no room.
    fn send(&mut self) -> bool {
        let piece = self.head.get(self.sent..).filter(|rest| !rest.is_empty()).unwrap_or(self.piece);
        let piece = &piece[..piece.len().min(self.total - self.sent)];
        let sent = self.peer.send(piece);
        self.sent += sent;
        sent > 0 && sent == piece.len()
    }
}

/// A client with one request at a time.
struct Honest {
    peer: Peer,
    is_rpc: bool,
    request: Vec<u8>,
    answer: Vec<u8>,
    asked_at: u64,
    /// How long each request took.
    took: Vec<u64>,
    number: u32,
}

impl Honest {
    fn new(world: &World, number: usize) -> Self {
        let is_rpc = number.is_multiple_of(2);
        let from = SocketAddr::from(([192, 0, 2, 1 + (number % 4) as u8], 0));
        let peer = world.connect(from, at(if is_rpc { RPC_PORT } else { ECHO_PORT })).unwrap();
        Self { peer, is_rpc, request: Vec::new(), answer: Vec::new(), asked_at: 0, took: Vec::new(), number: 0 }
    }

    fn ask(&mut self, now: u64, random: &mut Random) {
        assert!(self.request.is_empty(), "an honest client has waited for over a second");
        self.number += 1;
        let payload = vec![self.number as u8; random.one_to(4_000)];
        self.request = match (self.is_rpc, self.number % 2) {
            (true, 0) => record(&null(self.number)),
            (true, _) => record(&echo(self.number, &payload)),
            _ => payload,
        };
        self.asked_at = now;
        assert_eq!(self.peer.send(&self.request), self.request.len(), "an honest client is not pushed back");
    }

    fn hear(&mut self, now: u64) {
        assert!(!matches!(self.peer.status(), Status::Failed(_) | Status::Ended), "an honest client was thrown out");
        self.answer.extend(self.peer.read(usize::MAX));
        let is_whole = match self.is_rpc {
            true => messages(&self.answer).0.len() == 1,
            false => !self.request.is_empty() && self.answer == self.request,
        };
        if is_whole {
            self.took.push(now - self.asked_at);
            (self.request, self.answer) = (Vec::new(), Vec::new());
        }
    }
}

/// A client with one call at a time, each in a datagram.
struct Caller {
    peer: DatagramPeer,
    number: u32,
    /// When the call was made that has no answer yet.
    asked_at: Option<u64>,
    took: Vec<u64>,
}

impl Caller {
    fn new(world: &World) -> Self {
        let peer = world.bind(SocketAddr::from(([192, 0, 2, 9], 4_000))).unwrap();
        Self { peer, number: 0, asked_at: None, took: Vec::new() }
    }

    /// Makes the next call, if the last one is answered.
    fn ask(&mut self, now: u64) {
        if self.asked_at.is_none() {
            self.number += 1;
            self.asked_at = Some(now);
            self.peer.send(at(RPC_PORT), &echo(self.number, &[7; 400])).unwrap();
        }
    }

    fn hear(&mut self, now: u64) {
        while let Some((_, message)) = self.peer.receive() {
            assert_eq!(message, success(self.number, &opaque(&[7; 400])));
            self.took.extend(self.asked_at.take().map(|asked_at| now - asked_at));
        }
    }
}

struct Cast {
    attackers: Vec<Attacker>,
    honest: Vec<Honest>,
    caller: Caller,
    random: Random,
}

impl Cast {
    /// Whose turn an alarm is.
    fn set_alarm(&mut self, world: &World, number: usize) {
        let pause = if number < self.honest.len() { 20 * MS } else { 200 * MS };
        world.alarm(world.now() + 1 + self.random.below(pause), number as u64);
    }
}

impl Play for Cast {
    fn news(&mut self, world: &World, turn: Turn) {
        match turn {
            Turn::Peer(peer) => match self.honest.iter_mut().position(|honest| honest.peer == peer) {
                Some(at) => {
                    let waited = !self.honest[at].request.is_empty();
                    self.honest[at].hear(world.now());
                    if waited && self.honest[at].request.is_empty() {
                        self.set_alarm(world, at);
                    }
                }
                None => {
                    if let Some(attacker) = self.attackers.iter_mut().find(|attacker| attacker.peer == peer) {
                        attacker.work(world);
                    }
                }
            },
            Turn::Datagrams(_) => self.caller.hear(world.now()),
            Turn::Alarm(CALLER) => {
                self.caller.ask(world.now());
                world.alarm(world.now() + 10 * MS, CALLER);
            }
            Turn::Alarm(number) if (number as usize) < self.honest.len() => {
                let Self { honest, random, .. } = self;
                match honest[number as usize].peer.status() {
                    Status::Opening => self.set_alarm(world, number as usize),
                    _ => honest[number as usize].ask(world.now(), random),
                }
            }
            Turn::Alarm(number) => {
                self.attackers[number as usize - self.honest.len()].work(world);
                self.set_alarm(world, number as usize);
            }
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}

fn rig(world: &World) -> Rig {
    let plan = Plan { services: 3, counters: RpcCounter::DECLARED, ..Plan::lanes(1).memory(MEMORY) };
    Rig::new(world, &plan, |lane, services, driver, page| {
        let alone = Sharing { share_port: false, v6_only: false };
        let rpc = services.add_stream(Rpc::new((Null, EchoProgram)), Limits::default(), page.service(lane, 0).unwrap());
        services.listen(driver, rpc, at(RPC_PORT), alone).unwrap();
        let echo = services.add_stream(Echo, Limits::default(), page.service(lane, 1).unwrap());
        services.listen(driver, echo, at(ECHO_PORT), alone).unwrap();
        let calls = RpcDatagrams::new((Null, EchoProgram));
        let calls = services.add_datagrams(calls, Limits::default(), page.service(lane, 2).unwrap());
        services.bind(driver, calls, at(RPC_PORT), alone).unwrap();
    })
}

/// An attack of one seed: how long the honest requests took over connections and over datagrams, sorted, and how many connections were ended for their memory.
fn attack(seed: u64) -> (Vec<u64>, Vec<u64>, u64) {
    let world = World::new(seed, Faults::none());
    let mut rig = rig(&world);
    let mut random = Random::new(seed);
    let honest: Vec<Honest> = (0..8).map(|number| Honest::new(&world, number)).collect();
    let attackers = (0..ATTACKERS).map(|number| Attacker::new(&world, number, &mut random)).collect();
    let mut cast = Cast { attackers, honest, caller: Caller::new(&world), random };
    world.alarm(world.now() + MS, CALLER);
    for number in 0..cast.honest.len() + ATTACKERS {
        cast.set_alarm(&world, number);
    }
    rig.pass(SPAN, &mut cast);
    let unanswered = cast.caller.asked_at.map(|asked_at| SPAN - asked_at.min(SPAN));
    let of_caller = cast.caller.took.into_iter().chain(unanswered);
    let mut took: Vec<u64> = cast.honest.iter().flat_map(|honest| honest.took.iter().copied()).collect();
    let waiting = cast.honest.iter().filter(|honest| !honest.request.is_empty()).map(|honest| SPAN - honest.asked_at.min(SPAN));
    took.extend(waiting);
    let took = sorted(took);
    let ended = rig.count_of(0, C::MemoryEndings) + rig.count_of(1, C::MemoryEndings);
    assert!(rig.lane_count(LaneCounter::MemoryLimitHits) > 0, "the attack wants more than there is");
    (took, sorted(of_caller.collect()), ended)
}

fn sorted(mut took: Vec<u64>) -> Vec<u64> {
    took.sort_unstable();
    took
}

/// Asserts that there were so many requests at least, of which at most 1 in 100 took too long.
fn assert_in_time(took: &[u64], least: usize) {
    let longest = took.last().map_or(0, |took| took / MS);
    assert!(took.len() > least, "{} requests, the longest took {longest} ms", took.len());
    let late = took.iter().filter(|&&took| took >= BOUND).count();
    assert!(late * 100 <= took.len(), "{late} of {} requests took 100 ms and more, the longest {longest} ms", took.len());
}

#[test]
fn honest_clients_are_answered_whatever_others_hold() {
    let mut ended = 0;
    for_seeds(20, |seed| {
        let (took, of_caller, of_run) = attack(seed);
        assert_in_time(&took, 300);
        assert_in_time(&of_caller, 100);
        ended += of_run;
    });
    println!("{ended} connections were ended for their memory");
}
