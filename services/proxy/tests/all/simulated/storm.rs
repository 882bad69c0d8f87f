//! All at once: servers of every manner, clients that leave, faults of every kind.

use super::cast::{Cast, Manner, stream};
use super::{list, listen, proxied, upstream};
use corelane::admin::watch::ServiceCounter as C;
use corelane::service::Random;
use corelane::testing::{Faults, RigPlan, Talker, World, endings, for_seeds, patient};
use corelane_upstreams::{Balance, Settings};
use std::time::Duration;

fn run(seed: u64, faults: Faults) {
    let mut random = Random::new(seed ^ 0x7072_6f78);
    let world = World::new(seed, faults);
    listen(&world, 3);
    if random.below(3) == 0 {
        world.stop_listening(upstream(1));
    }
    let balance = [Balance::RoundRobin, Balance::Least, Balance::Hash][random.index(3)];
    let settings = Settings { balance, ejection: Duration::from_millis(100), ..Settings::new() };
    let limits = patient().connect_limit(Duration::from_secs(1)).output_high(1 << (12 + random.below(7)));
    let mut rig = proxied(&world, &RigPlan::lanes(2), limits, &list(3), settings);
    let talkers: Vec<_> = (0..8).map(|number| Talker::new(rig.connect(number), seed, stream(seed, number, 6_000))).collect();
    let breakers: Vec<usize> = (0..8).filter(|_| random.below(4) == 0).collect();
    let mut manners = random.clone();
    let manner = move |_| match manners.below(6) {
        0 => Manner::SpeaksFirst,
        1 => Manner::IsSlow,
        2 => Manner::Resets(manners.index(6_000)),
        3 => Manner::Closes(manners.index(6_000)),
        _ => Manner::Echoes,
    };
    let mut cast = Cast::new(talkers, manner);
    for number in breakers {
        cast.break_off(&world, number, random.time_below(Duration::from_millis(10)));
    }
    assert!(rig.play(&mut cast), "somebody waits for ever: {}", cast.waiting());
    cast.judge();
    rig.close(&mut cast);
    cast.judge();
    let opened = rig.count(C::Accepts) + rig.count(C::Connects) + rig.count(C::ConnectsFailed);
    assert_eq!(endings(&rig, 0), opened, "each connection ends once");
}

#[test]
fn what_comes_out_is_what_went_in_whoever_leaves() {
    for_seeds(400, |seed| run(seed, Faults::none()));
}

#[test]
fn what_comes_out_is_what_went_in_under_every_fault() {
    for_seeds(400, |seed| run(seed, Faults::all(seed)));
}
