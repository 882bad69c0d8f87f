//! Many who want a lane's memory and give nothing back, from up to 64 addresses, while honest clients of every service go on.
//!
//! What is promised: at most 1 in 100 requests of an honest client, small ones, takes 100 ms or more; none is lost.

use crate::calls::{echo, messages, null, opaque, record, success};
use crate::for_seeds;
use crate::rig::{MS, Play, Rig, RigPlan, S, at};
use corelane::Instant;
use corelane::admin::watch::{LaneCounter, ServiceCounter as C};
use corelane::service::{Cx, Input, Limits, Next, Output, Peer as Ends, Silent, StreamService};
use corelane::testing::{DatagramPeer, Faults, Peer, Random, Status, Turn, World};
use corelane_rpc::{Echo as EchoProgram, Null, Rpc, RpcDatagrams};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

/// A lane of a quarter of the usual memory, and a quarter of ten times the connections that once silenced a usual one:
/// 900 begun records and 3,000 readers that do not read.
const MEMORY: usize = 16 << 20;
const ATTACKERS: usize = 975;
const ATTACKER_ADDRESSES: usize = 64;
const RPC_PORT: u16 = 111;
const ECHO_PORT: u16 = 7;
const BOUND: Duration = Duration::from_millis(100);
/// The alarm of the one who calls by datagrams.
const CALLER: u64 = 1 << 32;

/// Sends back what it gets.
struct Echo;

impl StreamService for Echo {
    type Talk = Silent;
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
            0 => Self::BegunRecord(random.one_to(BEGUN_BYTES_MAX)),
            1 => Self::BegunFragments(random.one_to(BEGUN_BYTES_MAX)),
            2 | 3 => Self::NeverReads,
            4 => Self::NeverReadsReplies,
            _ => Self::Drips,
        }
    }

    fn port(self) -> u16 {
        if self == Self::NeverReads { ECHO_PORT } else { RPC_PORT }
    }

    /// What it sends at first: a head, then so many bytes of [`FILLER`].
    fn script(self) -> (&'static [u8], usize) {
        match self {
            Self::BegunRecord(bytes) => (&BEGUN, bytes),
            Self::BegunFragments(bytes) => (&FRAGMENTS[..(1 + bytes / FRAGMENT_BYTES) * (4 + FRAGMENT_BYTES)], 0),
            Self::NeverReads => (&[], 512 << 10),
            Self::NeverReadsReplies => (&CALLS, 0),
            Self::Drips => (&BEGUN, 5_000),
        }
    }
}

static FILLER: [u8; 16 << 10] = [7; 16 << 10];
/// The mark of a record of 1 MiB.
static BEGUN: [u8; 4] = (1 << 31 | ((1 << 20) - 4_u32)).to_be_bytes();
const FRAGMENT_BYTES: usize = 9_000;
const BEGUN_BYTES_MAX: usize = 300_000;
/// The beginning of a record in many fragments.
static FRAGMENTS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let fragment = [&(FRAGMENT_BYTES as u32).to_be_bytes()[..], &[7; FRAGMENT_BYTES]].concat();
    fragment.repeat(1 + BEGUN_BYTES_MAX / FRAGMENT_BYTES)
});
/// Calls for large replies.
static CALLS: LazyLock<Vec<u8>> = LazyLock::new(|| record(&echo(1, &[7; 60_000])).repeat(8));

struct Attacker {
    peer: Peer,
    from: SocketAddr,
    kind: Kind,
    head: &'static [u8],
    total: usize,
    sent: usize,
    /// When it begins to send.
    begins_at: Instant,
}

impl Attacker {
    fn new(world: &World, number: usize, kind: Kind, begins_at: Instant) -> Self {
        let from = SocketAddr::from(([198, 51, 100, 1 + (number % ATTACKER_ADDRESSES) as u8], 0));
        let (head, more) = kind.script();
        let total = head.len() + more;
        Self { peer: world.connect(from, at(kind.port())).unwrap(), from, kind, head, total, sent: 0, begins_at }
    }

    fn work(&mut self, world: &World) {
        match self.peer.status() {
            Status::Opening => {}
            Status::Open if world.now() < self.begins_at => {}
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
        let piece = self.head.get(self.sent..).filter(|rest| !rest.is_empty()).unwrap_or(&FILLER);
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
    asked_at: Instant,
    /// How long each request took.
    took: Vec<Duration>,
    number: u32,
}

impl Honest {
    fn new(world: &World, number: usize) -> Self {
        let is_rpc = number.is_multiple_of(2);
        let from = SocketAddr::from(([192, 0, 2, 1 + (number % 4) as u8], 0));
        let peer = world.connect(from, at(if is_rpc { RPC_PORT } else { ECHO_PORT })).unwrap();
        Self { peer, is_rpc, request: Vec::new(), answer: Vec::new(), asked_at: world.now(), took: Vec::new(), number: 0 }
    }

    fn ask(&mut self, now: Instant, random: &mut Random) {
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

    fn hear(&mut self, now: Instant) {
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
    pause: Duration,
    /// When the call was made that has no answer yet.
    asked_at: Option<Instant>,
    took: Vec<Duration>,
}

impl Caller {
    fn new(world: &World, pause: Duration) -> Self {
        let peer = world.bind(SocketAddr::from(([192, 0, 2, 9], 4_000))).unwrap();
        Self { peer, number: 0, pause, asked_at: None, took: Vec::new() }
    }

    /// Makes the next call, if the last one is answered.
    fn ask(&mut self, now: Instant) {
        if self.asked_at.is_none() {
            self.number += 1;
            self.asked_at = Some(now);
            self.peer.send(at(RPC_PORT), &echo(self.number, &[7; 400])).unwrap();
        }
    }

    fn hear(&mut self, now: Instant) {
        while let Some((_, message)) = self.peer.receive() {
            assert_eq!(message, success(self.number, &opaque(&[7; 400])));
            self.took.extend(self.asked_at.take().map(|asked_at| now - asked_at));
        }
    }
}

struct Cast {
    attackers: Vec<Attacker>,
    /// Which of them a peer's number is, as long as it has no other peer.
    attacker_of: HashMap<usize, usize>,
    honest: Vec<Honest>,
    caller: Caller,
    random: Random,
}

impl Cast {
    fn work(&mut self, world: &World, at: usize) {
        let before = self.attackers[at].peer.id();
        self.attackers[at].work(world);
        let after = self.attackers[at].peer.id();
        if after != before {
            self.attacker_of.remove(&before);
            self.attacker_of.insert(after, at);
        }
    }

    /// Whose turn an alarm is.
    fn set_alarm(&mut self, world: &World, number: usize) {
        let pause = if number < self.honest.len() { 20 * MS } else { 200 * MS };
        world.alarm(world.now() + Duration::from_nanos(1) + self.random.time_below(pause), number as u64);
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
                    if let Some(&at) = self.attacker_of.get(&peer.id()) {
                        self.work(world, at);
                    }
                }
            },
            Turn::Datagrams(_) => self.caller.hear(world.now()),
            Turn::Alarm(CALLER) => {
                self.caller.ask(world.now());
                world.alarm(world.now() + self.caller.pause, CALLER);
            }
            Turn::Alarm(number) if (number as usize) < self.honest.len() => {
                let Self { honest, random, .. } = self;
                match honest[number as usize].peer.status() {
                    Status::Opening => self.set_alarm(world, number as usize),
                    _ => honest[number as usize].ask(world.now(), random),
                }
            }
            Turn::Alarm(number) => {
                self.work(world, number as usize - self.honest.len());
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
    let plan = RigPlan::lanes(1).memory(MEMORY);
    Rig::new(world, &plan, |roster| {
        roster.serve(at(RPC_PORT), Limits::default(), Rpc::new((Null, EchoProgram)));
        roster.serve(at(ECHO_PORT), Limits::default(), Echo);
        let calls = RpcDatagrams::new((Null, EchoProgram));
        roster.serve_datagrams(at(RPC_PORT), Limits::default(), calls);
    })
}

/// Who attacks, and how.
struct Attack {
    attackers: usize,
    kind: fn(&mut Random) -> Kind,
    /// For how long they are connected before they all begin at once.
    waits: Duration,
    /// How long it goes on.
    span: Duration,
    /// How often the one calls who calls by datagrams.
    caller_pause: Duration,
}

/// What came of it: how long the honest requests took over connections and over datagrams, sorted, and how many connections were
/// ended for their memory.
struct Toll {
    took: Vec<Duration>,
    of_caller: Vec<Duration>,
    ended: u64,
}

impl Attack {
    fn cast(&self, world: &World, seed: u64) -> Cast {
        let (begins_at, mut random) = (world.now() + self.waits, Random::new(seed));
        let honest: Vec<Honest> = (0..8).map(|number| Honest::new(world, number)).collect();
        let attacker = |number| Attacker::new(world, number, (self.kind)(&mut random), begins_at);
        let attackers: Vec<_> = (0..self.attackers).map(attacker).collect();
        let attacker_of = attackers.iter().enumerate().map(|(at, attacker)| (attacker.peer.id(), at)).collect();
        let caller = Caller::new(world, self.caller_pause);
        let mut cast = Cast { attackers, attacker_of, honest, caller, random };
        world.alarm(world.now() + MS, CALLER);
        let honest = cast.honest.len();
        for number in 0..honest + self.attackers {
            match number >= honest && self.waits > Duration::from_nanos(0) {
                true => world.alarm(begins_at, number as u64),
                false => cast.set_alarm(world, number),
            }
        }
        cast
    }

    fn play(&self, seed: u64) -> Toll {
        let world = World::new(seed, Faults::none());
        let mut rig = rig(&world);
        let mut cast = self.cast(&world, seed);
        rig.pass(self.span, &mut cast);
        let now = world.now();
        let unanswered = cast.caller.asked_at.map(|asked_at| now - asked_at);
        let of_caller = sorted(cast.caller.took.into_iter().chain(unanswered));
        let waiting = cast.honest.iter().filter(|honest| !honest.request.is_empty()).map(|honest| now - honest.asked_at);
        let took = sorted(cast.honest.iter().flat_map(|honest| honest.took.iter().copied()).chain(waiting));
        assert!(rig.lane_count(LaneCounter::MemoryLimitHits) > 0, "the attack wants more than there is");
        let dropped: u64 = [0, 2].iter().map(|&service| rig.named_of(service, "requests_dropped")).sum();
        assert_eq!(dropped, 0, "a call was dropped because there was no memory for its answer");
        Toll { took, of_caller, ended: rig.count_of(0, C::MemoryEndings) + rig.count_of(1, C::MemoryEndings) }
    }
}

fn sorted(took: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut took: Vec<Duration> = took.collect();
    took.sort_unstable();
    took
}

/// Asserts that there were so many requests at least, of which at most 1 in 100 took too long.
fn assert_in_time(took: &[Duration], least: usize) {
    let longest = took.last().map_or(0, Duration::as_millis);
    assert!(took.len() > least, "{} requests, the longest took {longest} ms", took.len());
    let late = took.iter().filter(|&&took| took >= BOUND).count();
    assert!(late * 100 <= took.len(), "{late} of {} requests took 100 ms and more, the longest {longest} ms", took.len());
}

#[test]
fn honest_clients_are_answered_whatever_others_hold() {
    let attack = Attack { attackers: ATTACKERS, kind: Kind::drawn, waits: Duration::ZERO, span: 2 * S, caller_pause: 10 * MS };
    let mut ended = 0;
    for_seeds(200, |seed| {
        let Toll { took, of_caller, ended: of_run } = attack.play(seed);
        assert_in_time(&took, 300);
        assert_in_time(&of_caller, 100);
        ended += of_run;
    });
    println!("{ended} connections were ended for their memory");
}

#[test]
fn honest_clients_are_answered_though_all_others_begin_at_once() {
    // Each of them has a receive under way before any holds memory: together for more than there is.
    let attack = Attack {
        attackers: 6 * ATTACKERS,
        kind: |_| Kind::BegunRecord(3_000),
        waits: 100 * MS,
        span: 400 * MS,
        caller_pause: MS / 10,
    };
    for_seeds(5, |seed| {
        let Toll { took, of_caller, .. } = attack.play(seed);
        assert_in_time(&took, 100);
        assert_in_time(&of_caller, 100);
    });
}

#[test]
fn what_is_received_can_be_answered() {
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world);
    let arena = rig.arenas[0].clone();
    let mut taken: Vec<_> = std::iter::from_fn(|| arena.lease(64 << 10)).collect();
    taken.pop();
    let mut cast = Cast {
        attackers: Vec::new(),
        attacker_of: HashMap::new(),
        honest: Vec::new(),
        caller: Caller::new(&world, MS),
        random: Random::new(1),
    };
    world.alarm(world.now() + MS, CALLER);
    rig.pass(10 * MS, &mut cast);
    assert_eq!(
        rig.named_of(2, "requests_dropped"),
        0,
        "the last block was taken to receive the call, and none was left to answer it"
    );
    drop(taken);
    let wakes_the_lane = Honest::new(&world, 0);
    rig.pass(10 * MS, &mut cast);
    assert!(!cast.caller.took.is_empty(), "it waits where it arrived");
    wakes_the_lane.peer.close();
}
