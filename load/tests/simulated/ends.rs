//! Every run ends by itself, and says so if that is not as it was asked for. How soon it must end, the rig asserts of every run.

use crate::simulated::account::verify;
use crate::simulated::datagram_account;
use crate::simulated::datagram_peers::DatagramServer;
use crate::simulated::figures::requests_each;
use crate::simulated::for_seeds;
use crate::simulated::peers::{Manner, Peers};
use crate::simulated::plans::{datagrams, streams};
use crate::simulated::rig::{MS, Outcome, Rig, S, target};
use crate::simulated::streams::served;
use crate::simulated::witness::Note;
use corelane::testing::{Faults, Nobody, Play};
use corelane_load::arrivals::Arrivals;
use corelane_load::plan::{Extent, Mode, Plan};
use std::time::Duration;

fn open(rate: f64) -> Mode {
    Mode::Open { rate, arrivals: Arrivals::Fixed }
}

fn number(requests: u64, mode: Mode, base: Plan) -> Plan {
    Plan { extent: Extent::Requests(requests), connections: 3, lanes: 2, mode, ..base }
}

fn silent(seed: u64, plan: Plan) -> Outcome {
    let rig = Rig::new(seed, Faults::none(), plan).generate(0);
    let mut peers = Peers::new(&rig, |_| Manner::SilentAfter(0));
    rig.run(&mut peers)
}

#[test]
fn a_target_that_never_answers_ends_a_number_of_requests() {
    for_seeds(20, |seed| {
        for mode in [Mode::Closed, open(200.0)] {
            let outcome = silent(seed, number(100_000, mode, streams(target(true))));
            let report = &outcome.report;
            verify(&outcome, true);
            assert!(!outcome.desk.borrow().early.is_empty() && !report.believable);
            assert!(report.doubts[0].contains("nothing was answered for 1.8 s"), "{:?}", report.doubts);
            assert!(report.errors["client_timeout"] > 0 && report.requests == 0);
        }
    });
}

#[test]
fn a_target_that_loses_every_datagram_ends_a_number_of_requests() {
    for_seeds(20, |seed| {
        for mode in [Mode::Closed, open(200.0)] {
            let plan = number(100_000, mode, datagrams(target(true)));
            let rig = Rig::new(seed, Faults { datagram_loss: 1_000, ..Faults::none() }, plan).generate(0);
            let mut server = DatagramServer::new(&rig, seed, 0, 0);
            let outcome = rig.run(&mut server);
            datagram_account::verify(&outcome);
            assert!(outcome.report.doubts[0].contains("nothing was answered"), "{:?}", outcome.report.doubts);
            assert!(outcome.report.errors["lost"] > 0 && server.counts.received == 0);
        }
    });
}

/// A pause between requests that is longer than anybody waits for an answer is no silence of the target.
#[test]
fn few_requests_are_made_in_their_time() {
    for_seeds(10, |seed| {
        let timeout = Duration::from_millis(100);
        let rates = [open(0.3), Mode::Connections { rate: 0.3, arrivals: Arrivals::Fixed, requests: 2 }];
        for mode in rates {
            let each = if matches!(mode, Mode::Open { .. }) { 1 } else { 2 };
            let plan = Plan { timeout, ..number(6, mode, streams(target(false))) };
            let outcome = served(seed, Faults::none(), plan, 1).0.generate(0).run(&mut Nobody);
            verify(&outcome, true);
            assert_eq!(outcome.report.requests, 6 * each, "{:?}", outcome.report.doubts);
        }
        let plan = Plan { timeout, ..number(6, open(0.3), datagrams(target(true))) };
        let rig = Rig::new(seed, Faults::none(), plan).generate(0);
        let mut server = DatagramServer::new(&rig, seed, 0, 0);
        let outcome = rig.run(&mut server);
        datagram_account::verify(&outcome);
        assert_eq!(outcome.report.requests, 6, "{:?}", outcome.report.doubts);
    });
}

/// A generator that was away for longer than it would wait for an answer has not waited for one: what was answered meanwhile is an
/// answer, and the run goes on to its end.
#[test]
fn a_generator_that_was_away_holds_nothing_against_its_target() {
    fn away(mut rig: Rig, cast: &mut impl Play) {
        while rig
            .desk
            .borrow()
            .journal
            .iter()
            .filter(|entry| matches!(entry.note, Note::Sent { .. } | Note::Wrote { .. }))
            .count()
            < 20
        {
            assert!(rig.step(cast));
        }
        rig.world.pass(Duration::from_nanos(10 * S));
        let outcome = rig.run(cast);
        assert!(outcome.desk.borrow().early.is_empty(), "{:?}", outcome.report.doubts);
        assert_eq!(outcome.report.requests, 200, "{:?}", outcome.report.errors);
    }
    for_seeds(10, |seed| {
        let timeout = Duration::from_secs(1);
        for mode in [Mode::Closed, open(100.0)] {
            let plan = Plan { timeout, ..number(200, mode.clone(), streams(target(true))) };
            let rig = Rig::new(seed, Faults::none(), plan).generate(0);
            let mut peers = Peers::new(&rig, |_| Manner::Echo);
            away(rig, &mut peers);
            let plan = Plan { timeout, ..number(200, mode, datagrams(target(true))) };
            let rig = Rig::new(seed, Faults::none(), plan).generate(0);
            let mut server = DatagramServer::new(&rig, seed, 0, 0);
            away(rig, &mut server);
        }
    });
}

/// With fewer requests than lanes some lanes have nothing to do, and end all the same.
#[test]
fn fewer_requests_than_lanes_are_made() {
    for_seeds(30, |seed| {
        for mode in [Mode::Closed, open(1_000.0)] {
            let requests = 1 + seed % 4;
            let plan = Plan { connections: 8, lanes: 4, depth: 3, ..number(requests, mode, streams(target(false))) };
            let outcome = served(seed, Faults::none(), plan, 1).0.generate(0).run(&mut Nobody);
            verify(&outcome, true);
            assert_eq!(outcome.report.requests, requests);
        }
    });
}

/// A lane that only waits for its last answer does so asleep, though it has a place whose connection is lost.
#[test]
fn a_lane_that_waits_for_its_last_answer_sleeps() {
    let extent = Extent::For(Duration::from_millis(200));
    let plan = Plan { connections: 2, extent, timeout: Duration::from_secs(4), mode: open(100.0), ..streams(target(true)) };
    let rig = Rig::new(1, Faults::none(), plan).generate(0);
    // One never answers; the other is gone soon before the end.
    let manner = |number| if number == 0 { Manner::SilentAfter(0) } else { Manner::CloseAfter(1_100) };
    let mut peers = Peers::new(&rig, manner);
    let outcome = rig.run(&mut peers);
    verify(&outcome, true);
    let desk = outcome.desk.borrow();
    let end = desk.window.unwrap().1 + 100 * MS;
    let over = desk.journal.iter().find(|entry| entry.note == Note::Over).unwrap().at;
    let turns = desk.turns.iter().filter(|turn| (end..over).contains(&turn.1)).count();
    assert!(over > end + 3 * S && turns < 200, "{turns} turns in {} ns", over - end);
}

/// The time in which nothing was answered any more, before somebody ended the run, is time of the run: its rate is no better for it.
#[test]
fn silence_before_a_run_is_told_to_end_is_part_of_it() {
    for_seeds(10, |seed| {
        for extent in [Extent::For(Duration::from_secs(3_600)), Extent::Requests(1_000_000)] {
            let plan = Plan { connections: 2, lanes: 2, extent, timeout: Duration::from_secs(60), ..streams(target(true)) };
            let mut rig = Rig::new(seed, Faults::none(), plan).generate(0);
            let mut peers = Peers::new(&rig, |_| Manner::SilentAfter(100 * 64));
            let stop_at = rig.world.now() + Duration::from_nanos(3 * S);
            while rig.world.now() < stop_at {
                assert!(rig.step(&mut peers));
            }
            rig.stop();
            let outcome = rig.run(&mut peers);
            let report = &outcome.report;
            let seconds = (stop_at.nanoseconds() - outcome.desk.borrow().window.unwrap().0) as f64 / 1e9;
            assert!((report.seconds - seconds).abs() < 0.12, "{} s, stopped after {seconds} s", report.seconds);
            assert_eq!((report.requests, report.answered_in_window), (200, 200));
            assert!(
                (report.requests_per_second - 200.0 / report.seconds).abs() < 1e-6,
                "{} a second",
                report.requests_per_second
            );
        }
    });
}

/// Told to end, a run ends soon, and its rates are those of the time that it had.
#[test]
fn a_run_that_is_told_to_end_is_as_long_as_it_was() {
    for_seeds(20, |seed| {
        for mode in [Mode::Closed, open(500.0), Mode::Connections { rate: 200.0, arrivals: Arrivals::Poisson, requests: 2 }] {
            let extent = Extent::For(Duration::from_secs(3_600));
            let plan = Plan { connections: 2, lanes: 2, extent, mode, ..streams(target(false)) };
            let (rig, _) = served(seed, Faults::none(), plan, 1);
            let mut rig = rig.generate(0);
            let stop_at = rig.world.now() + Duration::from_nanos(300 * MS) + Duration::from_nanos(seed % 20 * 37 * MS);
            while rig.world.now() < stop_at {
                assert!(rig.step(&mut Nobody));
            }
            rig.stop();
            let world = rig.world.clone();
            let outcome = rig.run(&mut Nobody);
            let report = &outcome.report;
            assert!(world.now() < stop_at + Duration::from_nanos(20 * S));
            let seconds = (stop_at.nanoseconds() - outcome.desk.borrow().window.unwrap().0) as f64 / 1e9;
            assert!((report.seconds - seconds).abs() < 0.12, "{} s, stopped after {seconds} s", report.seconds);
            assert!(report.doubts.iter().any(|doubt| doubt.contains("told to end")), "{:?}", report.doubts);
            if let Some(offered) = report.offered_per_second {
                let rate = outcome.plan.rate().unwrap() * requests_each(&outcome.plan) as f64;
                assert!((offered / rate - 1.0).abs() < 0.35, "{offered} offered of {rate}");
                assert_eq!(report.not_sent, Some(0));
            }
        }
    });
}
