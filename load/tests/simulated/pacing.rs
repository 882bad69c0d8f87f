//! When requests go: at their own times, whether the server answers or not.

use crate::simulated::account::verify;
use crate::simulated::for_seeds;
use crate::simulated::peers::{Manner, Peers};
use crate::simulated::plans::streams;
use crate::simulated::rig::{MS, Outcome, Rig, S, target};
use crate::simulated::streams::served;
use crate::simulated::witness::Note;
use corelane::testing::{Faults, Nobody, Random};
use corelane_load::arrivals::Arrivals;
use corelane_load::plan::{Extent, Mode, Plan};
use std::time::Duration;

fn open_loop(rate: u64, arrivals: Arrivals, lanes: usize, length: Duration) -> Plan {
    let mode = Mode::Open { rate: rate as f64, arrivals };
    Plan { mode, lanes, connections: 8, depth: 64, extent: Extent::For(length), ..streams(target(false)) }
}

fn idle_server(seed: u64, plan: Plan) -> Outcome {
    let (rig, _) = served(seed, Faults::none(), plan, 2);
    rig.generate(0).run(&mut Nobody)
}

/// When the requests of each lane went, in nanoseconds after the start.
fn departures(outcome: &Outcome) -> Vec<Vec<u64>> {
    let desk = outcome.desk.borrow();
    let start = desk.window.unwrap().0 - outcome.plan.warm_up.as_nanos() as u64;
    let mut lanes = vec![Vec::new(); outcome.plan.lanes];
    for entry in &desk.journal {
        if let Note::Sent { count, .. } = entry.note {
            (0..count).for_each(|_| lanes[entry.lane].push(entry.at - start));
        }
    }
    lanes
}

/// Asserts that the requests of lane `lane` went at `due`, each in the first turn of its lane that began then or later.
fn assert_paced(outcome: &Outcome, lane: usize, due: &[u64], went: &[u64]) {
    let desk = outcome.desk.borrow();
    let start = desk.window.unwrap().0 - outcome.plan.warm_up.as_nanos() as u64;
    let turns: Vec<u64> = desk.turns.iter().filter(|turn| turn.0 == lane && turn.1 >= start).map(|turn| turn.1 - start).collect();
    for (&due, &went) in due.iter().zip(went) {
        let first = turns[turns.partition_point(|&turn| turn < due)];
        assert_eq!(went, first, "due {due} ns after the start");
    }
}

/// The simulated lanes take 0.2 to 2.2 us for a turn, one after the other: within a turn is as exact as time is here.
#[test]
fn with_an_idle_server_each_request_goes_in_the_first_turn_after_its_time() {
    for_seeds(120, |seed| {
        let mut random = Random::new(seed);
        let (rate, lanes) = (1 + random.below(20_000), random.one_to(4));
        let outcome = idle_server(seed, open_loop(rate, Arrivals::Fixed, lanes, Duration::from_millis(100)));
        verify(&outcome, true);
        for (lane, went) in departures(&outcome).iter().enumerate() {
            let due: Vec<u64> = (0..went.len() as u64).map(|own| nanoseconds((own * lanes as u64) + lane as u64, rate)).collect();
            assert_paced(&outcome, lane, &due, went);
        }
        assert_eq!(outcome.report.not_sent, Some(0));
        assert_eq!(outcome.report.requests, (rate * 100).div_ceil(1_000));
        // The answer to the last may come after the end, and of fewer than a hundred one is more than may be missing.
        assert!(outcome.report.limit == "rate" || outcome.report.requests <= 100, "{}", outcome.report.limit);
    });
}

/// When arrival `number` of a fixed rate is due: whole nanoseconds after the start.
fn nanoseconds(number: u64, rate: u64) -> u64 {
    (number as f64 / rate as f64 * 1e9) as u64
}

#[test]
fn a_recording_is_played_at_its_times() {
    for_seeds(60, |seed| {
        let mut random = Random::new(seed);
        let mut times: Vec<u64> = (0..200).map(|_| random.below(90 * MS)).collect();
        times[0] = 0;
        times.sort_unstable();
        let lanes = random.one_to(4);
        let plan = open_loop(1, Arrivals::Recorded(times.clone().into()), lanes, Duration::from_millis(100));
        let outcome = idle_server(seed, plan);
        for (lane, went) in departures(&outcome).iter().enumerate() {
            let due: Vec<u64> = times.iter().copied().skip(lane).step_by(lanes).collect();
            assert_eq!(due.len(), went.len());
            assert_paced(&outcome, lane, &due, went);
        }
    });
}

/// Arrivals at equal distances are those of the run, however many lanes share them.
#[test]
fn fixed_arrivals_are_the_same_with_any_number_of_lanes() {
    for_seeds(30, |seed| {
        let rate = 100 + seed % 30 * 37;
        for lanes in 1..=4 {
            let outcome = idle_server(seed, open_loop(rate, Arrivals::Fixed, lanes, Duration::from_millis(200)));
            let mut went: Vec<u64> = departures(&outcome).into_iter().flatten().collect();
            went.sort_unstable();
            // The load goes on a little behind the window; what went in turn n was due in turn n, and not much later.
            for (number, &went) in went.iter().enumerate() {
                let due = nanoseconds(number as u64, rate);
                assert!(went >= due && went < due + 40_000, "arrival {number} of {lanes} lanes went {went} ns after the start");
            }
            assert_eq!(outcome.report.requests, (rate * 200).div_ceil(1_000));
        }
    });
}

/// A server that answers nothing for a second: 1,000 requests a second over four connections with one request in flight each. Those that
/// could not be sent in that second are the generator's fault in no way, and the server's in every way: they count from when they were
/// to start. What a request took from its sending says nothing of it, except for the four that were caught.
#[test]
fn a_stall_shows_from_the_intended_start_and_not_in_the_service_time() {
    for_seeds(10, |seed| {
        let mode = Mode::Open { rate: 1_000.0, arrivals: Arrivals::Fixed };
        let plan = Plan {
            mode,
            connections: 4,
            lanes: 1 + seed as usize % 2,
            extent: Extent::For(Duration::from_secs(3)),
            timeout: Duration::from_secs(5),
            ..streams(target(true))
        };
        let rig = Rig::new(seed, Faults::none(), plan).generate(0);
        let from = rig.world.now().nanoseconds() + S;
        let mut peers = Peers::new(&rig, move |_| Manner::Stall { from, until: from + S });
        let outcome = rig.run(&mut peers);
        let figures = verify(&outcome, true);
        let report = &outcome.report;
        assert_eq!((report.requests, figures.not_sent), (3_000, 0));
        // A third of the requests was to start in the stall; of these, one in three waited for at least two thirds of it.
        assert!(report.latency_us["90"] > 650_000.0, "{:?}", report.latency_us);
        assert!(report.latency_us["99"] > 950_000.0, "{:?}", report.latency_us);
        let service = report.service_us.as_ref().unwrap();
        assert!(service["99"] < 10_000.0 && service["max"] > 900_000.0, "{service:?}");
        let lag = report.send_lag_us.as_ref().unwrap();
        assert!(lag["max"] < 1_000.0, "the generator was never late: {lag:?}");
        assert!(!report.doubts.iter().any(|doubt| doubt.contains("sent late")), "{:?}", report.doubts);
    });
}

/// A lane that runs late says so: the clock jumps while nothing else is wrong.
#[test]
fn a_generator_that_is_late_is_doubted() {
    let plan = open_loop(2_000, Arrivals::Fixed, 1, Duration::from_secs(4));
    let faults = Faults { clock_jump: 1, ..Faults::none() };
    let (rig, _) = served(3, faults, Plan { timeout: Duration::from_secs(30), ..plan }, 1);
    let outcome = rig.generate(0).run(&mut Nobody);
    verify(&outcome, false);
    let report = &outcome.report;
    assert!(report.send_lag_us.as_ref().unwrap()["99"] > 100_000.0, "{:?}", report.send_lag_us);
    assert!(report.doubts.iter().any(|doubt| doubt.contains("sent late")), "{:?}", report.doubts);
}
