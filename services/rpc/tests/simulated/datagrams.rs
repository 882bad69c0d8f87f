//! Calls over datagrams: singly and in trains, answered in trains, right under loss and repetition.

use crate::calls::{call, echo, null, opaque, reply, success, xid};
use crate::for_seeds;
use crate::programs::{ADD, ADD_AT_LENGTH, ADD_LATER, Added, BY_HELPER, ONCE, Once, SLOW, Slow, WITH_DATA};
use crate::rig::{Family, Play, Rig, RigPlan, address};
use corelane::admin::watch::ServiceCounter as C;
use corelane::service::{Limits, Reason};
use corelane::testing::{DatagramPeer, FaultCounts, FaultKind, Faults, Random, Report, Turn, World};
use corelane_rpc::{Echo, Null, RpcDatagrams};
use corelane_wire::rpc::Acceptance;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

const CLIENTS: usize = 4;
/// The port of the service.
const PORT: u16 = 7;
/// After how long a call is repeated.
const AGAIN: Duration = Duration::from_millis(50);

/// Once-only calls that are remembered.
pub const DUPLICATES_MAX: usize = 1024;

pub fn rig(world: &World, lanes: usize, added: &Added) -> Rig {
    rig_at(world, Family::Inet, lanes, added)
}

fn rig_at(world: &World, family: Family, lanes: usize, added: &Added) -> Rig {
    let added = added.clone();
    let plan = RigPlan::lanes(lanes);
    Rig::new(world, &plan, move |roster| {
        let programs = (Null, Echo, Slow::default(), Once::new(&added));
        roster.serve_datagrams(
            family.at(PORT),
            Limits::default(),
            RpcDatagrams::talking(programs).duplicates_max(DUPLICATES_MAX),
        );
    })
}

/// A caller that repeats what it has no answer to.
pub struct Caller {
    pub peer: DatagramPeer,
    /// Where the service is.
    to: SocketAddr,
    /// The calls without answer, by their numbers.
    pub open: BTreeMap<u32, Vec<u8>>,
    /// Every answer that came.
    pub got: Vec<Vec<u8>>,
}

impl Caller {
    pub fn new(world: &World, number: usize) -> Self {
        Self::of(world, Family::Inet, number)
    }

    fn of(world: &World, family: Family, number: usize) -> Self {
        let peer = world.bind(family.asker(world, number)).unwrap();
        Self { peer, to: family.way(world, PORT), open: BTreeMap::new(), got: Vec::new() }
    }

    /// Sends all calls without answer, as far as there is room at a Unix name.
    pub fn ask(&self) {
        for call in self.open.values() {
            if let Err(fault) = self.peer.send(self.to, call) {
                assert_eq!(fault.reason, Reason::Busy);
            }
        }
    }

    fn hear(&mut self) {
        while let Some((from, message)) = self.peer.receive() {
            assert_eq!(from, self.to);
            self.open.remove(&xid(&message));
            self.got.push(message);
        }
    }
}

pub struct Callers(pub Vec<Caller>);

impl Play for Callers {
    fn news(&mut self, _: &World, turn: Turn) {
        let Turn::Datagrams(peer) = turn else { return };
        if let Some(caller) = self.0.iter_mut().find(|caller| caller.peer == peer) {
            caller.hear();
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}

impl Callers {
    /// Lets everybody ask, again and again, until all is answered.
    pub fn finish(&mut self, rig: &mut Rig) {
        for _ in 0..1_000 {
            if self.0.iter().all(|caller| caller.open.is_empty()) {
                return;
            }
            self.0.iter().for_each(Caller::ask);
            rig.pass(AGAIN, self);
        }
        panic!("calls are never answered");
    }
}

/// A call and what is due for it; no answer is due for a number that was added more than once.
fn question(random: &mut Random, xid: u32) -> (Vec<u8>, Vec<u8>) {
    let payload = vec![xid as u8; random.below(1_200) as usize];
    let (words, number) = (opaque(&payload), xid.to_be_bytes());
    let slow = |procedure, arguments: &[u8]| call(xid, [SLOW.number, 2, procedure], arguments);
    let once = |procedure| call(xid, [ONCE.number, 1, procedure], &number);
    let added = success(xid, &[number, 1_u32.to_be_bytes()].concat());
    match random.below(9) {
        0..=2 => (null(xid), success(xid, &[])),
        3 => (echo(xid, &payload), success(xid, &words)),
        4 => (slow(BY_HELPER, &number), success(xid, &number)),
        5 => (slow(WITH_DATA, &words), success(xid, &words)),
        6 => (once(ADD), added),
        7 => (once(ADD_LATER), added),
        _ => (call(xid, [100_003, 3, 5], &[]), reply(xid, Acceptance::ProcedureUnavailable)),
    }
}

fn run(seed: u64, faults: Faults) -> Report {
    let world = World::new(seed, faults);
    let (mut random, added) = (Random::new(seed), Added::default());
    let family = Family::of(seed);
    let mut rig = rig_at(&world, family, random.one_to(3), &added);
    let mut callers = Callers((0..CLIENTS).map(|number| Caller::of(&world, family, number)).collect());
    let mut due = BTreeMap::new();
    for (number, caller) in callers.0.iter_mut().enumerate() {
        for one in 0..random.one_to(40) as u32 {
            let xid = number as u32 * 1_000 + one;
            let (call, reply) = question(&mut random, xid);
            caller.open.insert(xid, call);
            due.insert(xid, reply);
        }
    }
    callers.finish(&mut rig);
    rig.drain(&mut callers);
    world.check().unwrap();
    let was_refused = world.report().faults.of(FaultKind::RefusedMemory) > 0;
    for message in callers.0.iter().flat_map(|caller| &caller.got) {
        let failed = was_refused && *message == reply(xid(message), Acceptance::SystemError);
        assert!(failed || &due[&xid(message)] == message, "a wrong reply: {message:?}");
    }
    assert!(added.borrow().values().all(|&times| times == 1), "a call was carried out twice: {added:?}");
    assert_eq!((rig.named("protocol_errors"), rig.count(C::Panics)), (0, 0));
    world.report()
}

#[test]
fn every_call_is_answered() {
    for_seeds(100, |seed| {
        run(seed, Faults::none());
    });
}

#[test]
fn every_call_is_answered_and_done_once_under_every_fault() {
    let mut all = FaultCounts::default();
    for_seeds(500, |seed| all.add(&run(seed, Faults::all(seed)).faults));
    let of_datagrams = [FaultKind::DatagramLoss, FaultKind::DatagramDuplicate, FaultKind::DatagramReorder];
    assert!(of_datagrams.iter().all(|&kind| all.of(kind) > 0), "{all:?}");
}

#[test]
fn replies_to_one_peer_leave_as_a_train() {
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world, 1, &Added::default());
    let mut callers = Callers((0..2).map(|number| Caller::new(&world, number)).collect());
    for (number, caller) in callers.0.iter_mut().enumerate() {
        caller.open = (0..32).map(|one| (number as u32 * 100 + one, null(number as u32 * 100 + one))).collect();
        caller.ask();
    }
    rig.pass(AGAIN, &mut callers);
    assert!(callers.0.iter().all(|caller| caller.open.is_empty()));
    let counts = [C::Requests, C::DatagramsOut, C::DatagramSends].map(|counter| rig.count(counter));
    assert_eq!(counts[..2], [64, 64]);
    assert!(counts[2] <= rig.count(C::DatagramReceives) && rig.count(C::TrainsOut) < 16, "{counts:?}");
    rig.close(&mut callers);
}

#[test]
fn what_is_no_call_is_dropped_and_counted() {
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world, 1, &Added::default());
    let mut callers = Callers(vec![Caller::new(&world, 0)]);
    let bad: [&[u8]; 4] = [&[], &[1, 2, 3], &null(1)[..39], &[0xff; 60]];
    for message in bad {
        callers.0[0].peer.send(address(), message).unwrap();
    }
    callers.0[0].peer.send(address(), &success(1, &[])).unwrap();
    callers.0[0].peer.send(address(), &null(2)).unwrap();
    rig.pass(AGAIN, &mut callers);
    assert_eq!(callers.0[0].got, [success(2, &[])]);
    assert_eq!((rig.named("protocol_errors"), rig.named("requests_dropped"), rig.count(C::Requests)), (4, 1, 6));
    rig.close(&mut callers);
}

#[test]
fn nobody_is_sent_more_than_was_sent_in_its_name() {
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world, 1, &Added::default());
    let mut callers = Callers(vec![Caller::new(&world, 0)]);
    let mut other = null(7);
    other[11] = 3; // a version of RPC that there is not: 12 bytes are enough to be refused with 24
    let mut refused = 0;
    for length in 1..=other.len() {
        callers.0[0].peer.send(address(), &other[..length]).unwrap();
        rig.pass(AGAIN, &mut callers);
        for reply in std::mem::take(&mut callers.0[0].got) {
            assert!(reply.len() <= length, "{length} bytes are answered with {}", reply.len());
            refused += 1;
        }
    }
    assert_eq!((refused, rig.named("requests_refused"), rig.named("requests_dropped")), (17, 17, 12));
    rig.close(&mut callers);
}

#[test]
fn a_reply_longer_than_a_datagram_is_a_failure_of_the_service() {
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world, 1, &Added::default());
    let mut callers = Callers(vec![Caller::new(&world, 0)]);
    // A call may be as long as a datagram, and its reply is shorter: so only the padding of one that is not whole can exceed it.
    let longest = echo(1, &[7; 65_507 - 44 - 3]);
    callers.0[0].peer.send(address(), &longest).unwrap();
    callers.0[0].peer.send(address(), &call(2, [ONCE.number, 1, ADD_AT_LENGTH], &[0, 0, 0, 1])).unwrap();
    rig.pass(AGAIN, &mut callers);
    let mut got = callers.0[0].got.iter().map(|message| (xid(message), message.len())).collect::<Vec<_>>();
    got.sort_unstable();
    assert_eq!(got, [(1, 24 + 4 + 65_460), (2, 24 + 2000)]);
    rig.close(&mut callers);
}
