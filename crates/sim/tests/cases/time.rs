//! Clocks, bells and who runs when.

use crate::bench::Bench;
use corelane_seam::{Arena, Driver, Op, Outcome, StreamOp, StreamOutcome, Tuning, Wait};
use corelane_sim::{FaultKind, Faults, Random, Turn, World};
use std::time::Duration;

#[test]
fn a_lane_sleeps_until_its_time_and_no_longer() {
    let mut bench = Bench::new(Faults::none());
    bench.step();
    let time = bench.world.now() + Duration::from_millis(5);
    bench.collect(0, Wait::Until(time.nanoseconds()));
    bench.world.alarm(time - Duration::from_nanos(1), 1);
    assert_eq!((bench.world.step(), bench.world.now()), (Some(Turn::Alarm(1)), time - Duration::from_nanos(1)));
    assert_eq!((bench.world.step(), bench.world.now()), (Some(Turn::Lane(0)), time));
    bench.collect(0, Wait::Forever);
    assert!(!bench.lanes[0].is_asleep(), "it has woken");
    bench.step();
    bench.collect(0, Wait::Forever);
    assert!(bench.lanes[0].is_asleep());
    assert_eq!(bench.world.step(), None);
}

#[test]
fn a_lane_that_does_not_want_to_sleep_lets_time_pass() {
    let mut bench = Bench::new(Faults::none());
    bench.world.alarm(bench.world.now() + Duration::from_millis(1), 1);
    let mut turns = 0;
    while let Some(Turn::Lane(0)) = bench.world.step() {
        bench.collect(0, Wait::No);
        turns += 1;
    }
    assert!((100..10_000).contains(&turns), "{turns}");
}

#[test]
fn time_can_pass_with_all_that_happens_and_nobody_running() {
    let mut bench = Bench::new(Faults::none());
    let (socket, peer) = bench.pipe();
    let before = bench.world.report();
    peer.send(b"on the way");
    bench.world.pass(Duration::from_nanos(1));
    assert_eq!((bench.lanes[0].readable_bytes(socket), bench.world.now()), (0, before.now + Duration::from_nanos(1)));
    bench.world.pass(Duration::from_millis(1));
    assert_eq!((bench.lanes[0].readable_bytes(socket), bench.world.now()), (10, before.now + Duration::from_nanos(1_000_001)));
    assert_eq!(bench.world.report().turns, before.turns);
}

#[test]
fn a_bell_from_another_thread_wakes_a_sleeper() {
    let mut bench = Bench::new(Faults::none());
    bench.settle();
    let bell = bench.lanes[0].bell();
    std::thread::spawn(move || bell.ring()).join().unwrap();
    assert_eq!(bench.world.step(), Some(Turn::Lane(0)));
}

#[test]
fn a_ring_before_the_collect_is_not_slept_through() {
    let mut bench = Bench::new(Faults::none());
    bench.settle();
    bench.lanes[0].bell().ring();
    bench.collect(0, Wait::Forever);
    assert_eq!(bench.world.step(), Some(Turn::Lane(0)), "the collect returned at once");
    bench.collect(0, Wait::Forever);
    assert_eq!(bench.world.step(), None);
}

#[test]
fn a_late_bell_comes_later_and_is_never_lost() {
    let mut bench = Bench::new(Faults { delayed_bell: 1_000, ..Faults::none() });
    bench.settle();
    for number in 1..=100 {
        let before = bench.world.now();
        bench.lanes[0].bell().ring();
        assert_eq!(bench.world.step(), Some(Turn::Lane(0)));
        assert!(bench.world.now() > before);
        bench.settle();
        assert_eq!(bench.world.report().faults.of(FaultKind::DelayedBell), number);
    }
    assert_eq!((bench.world.step(), bench.world.check()), (None, Ok(())));
}

#[test]
fn clocks_jump_and_sleepers_wake_for_nothing() {
    let mut bench = Bench::new(Faults { clock_jump: 1_000, spurious_wake: 1_000, ..Faults::none() });
    let start = bench.world.now();
    bench.world.alarm(start + Duration::from_nanos(1), 1);
    bench.settle();
    assert!(bench.world.now() > start + Duration::from_millis(1));
    let before = bench.world.report().turns;
    bench.world.alarm(bench.world.now() + Duration::from_secs(60), 1);
    bench.settle();
    let counts = bench.world.report();
    assert!(counts.turns > before && counts.faults.of(FaultKind::SpuriousWake) > 0);
}

#[test]
fn whose_turn_it_is_follows_the_seed() {
    let order = |seed| {
        let world = World::new(seed, Faults::none());
        let mut lanes: Vec<_> = (0..4).map(|_| world.driver(Arena::new(1).unwrap(), Tuning::default())).collect();
        let turns = (0..32).map(|_| {
            let Some(Turn::Lane(lane)) = world.step() else { panic!("a lane is awake") };
            lanes[lane].collect(Wait::No, 1, &mut Vec::new());
            lane
        });
        turns.collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    assert!((0..4).all(|lane| order(3).contains(&lane)));
}

#[test]
fn a_stop_that_comes_late_may_find_the_operation_ended() {
    let mut random = Random::new(1);
    let mut bench = Bench::new(Faults { cancel_race: 1_000, ..Faults::none() });
    let (socket, peer) = bench.pipe();
    let (mut received, mut cancelled) = (0, 0);
    while received == 0 || cancelled == 0 {
        let receive = bench.push(0, StreamOp::Receive { socket });
        bench.push(0, Op::StopReceive { socket });
        if random.below(2) == 0 {
            peer.send(b"x");
        }
        match bench.end(receive) {
            Outcome::Stream(StreamOutcome::Received(_)) => received += 1,
            Outcome::Failed(_) => cancelled += 1,
            other => panic!("{other:?}"),
        }
        bench.settle();
    }
    assert_eq!(bench.world.report().faults.of(FaultKind::CancelRace), received);
}

#[test]
fn bytes_that_arrive_just_before_a_close_are_still_delivered() {
    let mut bench = Bench::new(Faults { cancel_race: 1_000, ..Faults::none() });
    let (socket, peer) = bench.pipe();
    let receive = bench.push(0, StreamOp::Receive { socket });
    bench.settle();
    peer.send(b"just in time");
    let close = bench.push(0, Op::Close { socket, reset: false });
    assert!(matches!(bench.end(close), Outcome::Closed));
    let outcome = bench.take(receive).unwrap().outcome;
    assert!(matches!(outcome, Outcome::Stream(StreamOutcome::Received(bytes)) if *bytes == *b"just in time"));
    assert_eq!(bench.world.report().faults.of(FaultKind::CancelRace), 1);
}

#[test]
fn the_log_names_what_happened() {
    let mut bench = Bench::new(Faults::none());
    let (_, peer) = bench.pipe();
    peer.send(b"hello");
    bench.settle();
    let log = bench.world.log();
    for part in ["lane 0 pushes 1:1.5", "lane 0 accepted 1:1.5", "peer 0 sends 5", "gets 5", "lane 0 sleeps"] {
        assert!(log.iter().any(|line| line.ends_with(part)), "{part} in {log:#?}");
    }
}
