//! Echo: what goes in comes out.

use crate::for_seeds;
use crate::rig::Talker;
use crate::rig::{Family, MS, Rig, RigPlan, endings, patient};
use corelane_sim::{Faults, Planted, Random, Report, World};
use corelane_svc::{Cx, Input, Next, Output, Peer, Silent, StreamService};
use corelane_watch::ServiceCounter;

pub struct Echo;

impl StreamService for Echo {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        cx.count_requests(1);
        output.forward(input.take_all());
        Next::Continue
    }
}

/// Bytes that belong to `seed`.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    Random::new(seed).bytes(bytes)
}

/// Echo on one or two lanes, with clients that send, finish, and check; then a drain. Returns how many were served in full.
pub fn run(seed: u64, faults: Faults, clients: usize, bytes: usize, bug: Option<Planted>) -> (usize, Report) {
    let world = World::new(seed, faults);
    if let Some(bug) = bug {
        world.plant(bug);
    }
    let plan = RigPlan::lanes(1 + seed as usize % 2).memory(4 << 20).family(Family::of(seed));
    let mut rig = Rig::serving(&world, &plan, patient(), |_| Echo);
    let talker = |number| Talker::new(rig.connect(number), seed, pattern(seed + number as u64, bytes));
    let mut talkers: Vec<Talker> = (0..clients).map(talker).collect();
    assert!(rig.play(&mut talkers), "clients wait for ever");
    // The lanes are asleep when the order comes: only their doorbells wake them.
    rig.pass(MS, &mut talkers);
    rig.drain(&mut talkers);
    let mut served = 0;
    for talker in &talkers {
        assert!(talker.to_send[..talker.sent].starts_with(&talker.got), "wrong bytes");
        assert!(!talker.is_complete() || talker.got == talker.to_send, "a clean end with bytes missing");
        served += usize::from(talker.is_complete());
    }
    world.check().unwrap();
    assert_eq!(endings(&rig, 0), rig.count(ServiceCounter::Accepts), "endings against accepted connections");
    (served, world.report())
}

#[test]
fn echo_is_byte_exact_without_faults() {
    for_seeds(200, |seed| assert_eq!(run(seed, Faults::none(), 20, 20_000, None).0, 20));
}

#[test]
fn echo_is_byte_exact_under_every_fault() {
    for_seeds(1_000, |seed| {
        run(seed, Faults::all(seed), 30, 3_000, None);
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for_seeds(50, |seed| {
        let [first, second] = [0, 1].map(|_| run(seed, Faults::all(seed), 10, 5_000, None).1);
        assert_eq!(first, second);
    });
}
