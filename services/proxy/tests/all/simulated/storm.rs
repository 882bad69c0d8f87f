//! All at once: servers of every manner, clients that leave, faults of every kind.

use super::cast::{Cast, Manner, stream};
use super::{list, listen, proxied, proxied_in_kernel, upstream};
use corelane::admin::watch::{LaneCounter, ServiceCounter as C};
use corelane::service::Random;
use corelane::testing::{Faults, RigPlan, Talker, World, endings, for_seeds, patient};
use corelane_upstreams::{Balance, Settings};
use std::time::Duration;

/// Returns how many bytes the kernel has passed on by itself. If it is to, all is said little at a time.
fn run(seed: u64, faults: Faults, in_kernel: bool) -> u64 {
    let mut random = Random::new(seed ^ 0x7072_6f78);
    let world = World::new(seed, faults);
    listen(&world, 3);
    if random.below(3) == 0 {
        world.stop_listening(upstream(1));
    }
    let balance = [Balance::RoundRobin, Balance::Least, Balance::Hash][random.index(3)];
    let settings = Settings { balance, ejection: Duration::from_millis(100), ..Settings::new() };
    let limits = patient().connect_limit(Duration::from_secs(1)).output_high(1 << (12 + random.below(7)));
    let mut rig = match in_kernel {
        true => proxied_in_kernel(&world, limits, &list(3), settings),
        false => proxied(&world, &RigPlan::lanes(2), limits, &list(3), settings),
    };
    let talker = |number: usize| Talker::new(rig.connect(number), seed, stream(seed, number, 6_000));
    let mut talkers: Vec<_> = (0..8).map(talker).collect();
    if in_kernel {
        talkers.iter_mut().for_each(|talker| talker.piece_most = 100);
    }
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
    rig.lane_count(LaneCounter::BytesBridged)
}

#[test]
fn what_comes_out_is_what_went_in_whoever_leaves() {
    for_seeds(400, |seed| {
        run(seed, Faults::none(), false);
    });
}

#[test]
fn what_comes_out_is_what_went_in_under_every_fault() {
    for_seeds(400, |seed| {
        run(seed, Faults::all(seed), false);
    });
}

#[test]
fn what_the_kernel_passes_on_is_what_went_in_whoever_leaves_and_under_every_fault() {
    let mut bytes = 0;
    for_seeds(150, |seed| bytes += run(seed, Faults::none(), true) + run(seed, Faults::all(seed), true));
    println!("{bytes} bytes were passed on");
    assert!(bytes > 0, "nothing was passed on");
}
