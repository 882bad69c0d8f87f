//! What the tests of asynchronous connections share.

use corelane::aio::Serve;
use corelane::service::Limits;
use corelane::testing::{FaultKind, Faults, MS, Peer, Rig, RigPlan, Scene, World, simulate};

/// One lane without faults that serves this.
pub fn served(limits: Limits, make: impl Fn() -> Serve) -> (World, Rig) {
    let world = World::new(1, Faults::none());
    let rig = Rig::serving(&world, &RigPlan::lanes(1), limits, move |_lane| make());
    (world, rig)
}

/// Has `peer` say as much as is taken within some milliseconds; returns how many bytes.
pub fn fill(rig: &mut Rig, peer: &Peer, milliseconds: u64) -> usize {
    let mut said = 0;
    for _ in 0..milliseconds {
        rig.wait(MS);
        said += peer.send(&[5; 64 << 10]);
    }
    rig.wait(MS);
    said
}

/// All faults but those that end connections between lanes, of which no client knows.
pub fn gentle(seed: u64) -> Faults {
    let ends = [FaultKind::Reset, FaultKind::AbortedAccept, FaultKind::LostAccept, FaultKind::FilledTable, FaultKind::ClockJump];
    ends.into_iter().fold(Faults::all(seed), |faults, kind| faults.with(kind, 0))
}

/// Plays a scene from as many seeds.
pub fn run(runs: u64, faults: impl Fn(u64) -> Faults, arrange: impl Fn(&mut Scene)) {
    match simulate(runs, faults, arrange) {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}
