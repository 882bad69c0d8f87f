//! Each doubt of a verdict comes from something that happens, and what set the rate is named.

use crate::simulated::account::verify;
use crate::simulated::datagram_peers::DatagramServer;
use crate::simulated::peers::{Manner, Peers};
use crate::simulated::plans::{datagrams, streams};
use crate::simulated::rig::{MS, Outcome, Rig, S, target};
use crate::simulated::streams::served;
use corelane::testing::{Faults, Nobody};
use corelane_load::arrivals::Arrivals;
use corelane_load::judge;
use corelane_load::plan::{Extent, Mode, Plan};
use corelane_load::report::{Lane, Report, Server};
use std::time::Duration;

fn open(rate: f64) -> Mode {
    Mode::Open { rate, arrivals: Arrivals::Fixed }
}

fn for_a_second(mode: Mode) -> Plan {
    Plan { mode, connections: 2, extent: Extent::For(Duration::from_secs(1)), ..streams(target(true)) }
}

fn played(plan: Plan, manner: impl FnMut(usize) -> Manner + 'static) -> Outcome {
    let rig = Rig::new(1, Faults::none(), plan).generate(0);
    let mut peers = Peers::new(&rig, manner);
    let outcome = rig.run(&mut peers);
    verify(&outcome, true);
    outcome
}

/// The verdict of a run whose facts are other ones.
fn judged(outcome: &Outcome, change: impl FnOnce(&mut Report)) -> Report {
    let mut report = outcome.report.clone();
    change(&mut report);
    judge(&outcome.plan, &outcome.desk.borrow().collector, false, &mut report);
    report
}

fn has_doubt(report: &Report, words: &str) -> bool {
    assert_eq!(report.believable, report.doubts.is_empty());
    report.doubts.iter().any(|doubt| doubt.contains(words))
}

/// Answers 20 ms late, again and again.
fn slow(from: u64) -> impl FnMut(usize) -> Manner {
    move |_| Manner::Stall { from, until: from + 3 * S }
}

#[test]
fn a_run_that_keeps_its_rate_is_believed() {
    let outcome = played(for_a_second(open(500.0)), |_| Manner::Echo);
    let report = &outcome.report;
    assert_eq!((report.limit.as_str(), report.believable, &report.doubts), ("rate", true, &Vec::new()));
    assert_eq!(judged(&outcome, |report| report.server = Some(Server { cpus_used: 1.0, ..Server::default() })).limit, "rate");
}

#[test]
fn nothing_answered_rightly_is_doubted() {
    let outcome = played(for_a_second(Mode::Closed), |_| Manner::WrongAfter(0));
    assert!(has_doubt(&outcome.report, "nothing was answered rightly"), "{:?}", outcome.report.doubts);
}

#[test]
fn connections_that_are_missing_at_the_end_are_doubted() {
    let rig = Rig::new(1, Faults::none(), for_a_second(open(100.0))).generate(0);
    let mut peers = Peers::new(&rig, |number| if number == 0 { Manner::CloseAfter(64 * 51) } else { Manner::Echo });
    let outcome = rig.run(&mut peers);
    let report = &outcome.report;
    assert!(has_doubt(report, "only 1 of 2 connections were open at the end"), "{:?}", report.doubts);
}

/// A rate that is not kept, and whose fault that is.
#[test]
fn a_run_that_falls_behind_is_doubted_and_its_limit_is_named() {
    let mut plan = for_a_second(open(1_000.0));
    plan.timeout = Duration::from_secs(5);
    let rig = Rig::new(1, Faults::none(), plan).generate(0);
    let mut peers = Peers::new(&rig, slow((rig.world.now() + Duration::from_nanos(500 * MS)).nanoseconds()));
    let outcome = rig.run(&mut peers);
    verify(&outcome, true);
    let full = Lane { busy: 0.7, waiting_for_cpu: 0.26, ..Lane::default() };
    for (limit, words, cpus_used, lane) in [
        ("neither", "more connections, or more depth", 0.5, Lane::default()),
        ("server", "the server was at its limit", 0.95, full.clone()),
        ("server", "the server was at its limit", 3.9, Lane::default()),
        ("generator", "the generator was at its limit", 1.5, full),
    ] {
        let report = judged(&outcome, |report| {
            report.server = Some(Server { cpus_used, ..Server::default() });
            report.generator.lanes[0] = Lane { connections: report.generator.lanes[0].connections, ..lane };
        });
        assert_eq!(report.limit, limit);
        assert!(has_doubt(&report, "fell behind") && has_doubt(&report, words), "{:?}", report.doubts);
    }
}

/// Connections with several requests each are compared in requests.
#[test]
fn connections_that_fall_behind_are_doubted() {
    let mode = Mode::Connections { rate: 200.0, arrivals: Arrivals::Fixed, requests: 4 };
    let plan = Plan { timeout: Duration::from_millis(100), ..for_a_second(mode) };
    let outcome = played(plan, |number| if number % 2 == 0 { Manner::SilentAfter(0) } else { Manner::Echo });
    let report = &outcome.report;
    assert!(report.requests_per_second > 10.0);
    assert!(has_doubt(report, "requests/s were answered of 800.0 offered"), "{:?}", report.doubts);
    // Those that fail at once were asked in time: nothing is behind.
    let mode = Mode::Connections { rate: 200.0, arrivals: Arrivals::Fixed, requests: 4 };
    let failing = played(for_a_second(mode), |number| if number % 2 == 0 { Manner::WrongAfter(0) } else { Manner::Echo });
    let report = &failing.report;
    assert!(has_doubt(report, "of what was tried failed") && !has_doubt(report, "fell behind"), "{:?}", report.doubts);
    assert_eq!(report.limit, "rate");
    let kept = played(for_a_second(Mode::Connections { rate: 200.0, arrivals: Arrivals::Fixed, requests: 4 }), |_| Manner::Echo);
    assert_eq!((kept.report.limit.as_str(), kept.report.believable), ("rate", true), "{:?}", kept.report.doubts);
    assert_eq!(kept.report.requests, 800);
}

#[test]
fn a_closed_loop_at_the_generators_limit_is_doubted() {
    let plan = Plan { extent: Extent::For(Duration::from_millis(100)), ..for_a_second(Mode::Closed) };
    let plan = Plan { target: target(false).into(), ..plan };
    let outcome = served(1, Faults::none(), plan, 1).0.generate(0).run(&mut Nobody);
    assert_eq!((outcome.report.limit.as_str(), outcome.report.believable), ("neither", true), "{:?}", outcome.report.doubts);
    let report = judged(&outcome, |report| report.generator.lanes[0].busy = 0.99);
    assert_eq!(report.limit, "generator");
    assert!(has_doubt(&report, "lane 0 was busy 99 % of the time"), "{:?}", report.doubts);
    let report = judged(&outcome, |report| {
        report.generator.lanes[0].busy = 0.99;
        report.server = Some(Server { cpus_used: 1.97, ..Server::default() });
    });
    assert_eq!((report.limit.as_str(), report.believable), ("server", true), "{:?}", report.doubts);
}

/// A generator that is stopped for a while sends late, and measures late, whatever its clock of sending says.
#[test]
fn a_generator_that_was_away_is_doubted() {
    for mode in [Mode::Closed, open(100.0)] {
        let plan = Plan { connections: 1, ..for_a_second(mode) };
        // Not noticed, too short, a part of the window that is too large, and long at once.
        for away in [0, 10 * MS, 200 * MS, 400 * MS] {
            let mut rig = Rig::new(1, Faults::none(), plan.clone()).generate(0);
            let mut peers = Peers::new(&rig, |_| Manner::Echo);
            let stop_at = rig.world.now() + Duration::from_nanos(300 * MS);
            while rig.world.now() < stop_at {
                assert!(rig.step(&mut peers));
            }
            rig.world.pass(Duration::from_nanos(away));
            let outcome = rig.run(&mut peers);
            verify(&outcome, away == 0);
            let (report, lane) = (&outcome.report, &outcome.report.generator.lanes[0]);
            assert_eq!(has_doubt(report, "lane 0 of the generator was away for up to"), away >= 200 * MS, "{:?}", report.doubts);
            // It had asked to be called a little after it was stopped.
            let least = if away >= 200 * MS { away as f64 / 1e3 - 110e3 } else { 0.0 };
            assert!(lane.longest_gap_us >= least && lane.longest_gap_us * 1e3 <= away as f64, "{lane:?}");
            assert_eq!(lane.gaps_us, lane.longest_gap_us);
        }
    }
}

#[test]
fn a_generator_of_datagrams_that_was_away_is_doubted() {
    let plan = Plan { extent: Extent::For(Duration::from_secs(10)), ..datagrams(target(true)) };
    let mut rig = Rig::new(1, Faults::none(), plan).generate(0);
    let mut server = DatagramServer::new(&rig, 1, 0, 0);
    let stop_at = rig.world.now() + Duration::from_nanos(300 * MS);
    while rig.world.now() < stop_at {
        assert!(rig.step(&mut server));
    }
    rig.world.pass(Duration::from_nanos(380 * MS));
    let outcome = rig.run(&mut server);
    let (report, lane) = (&outcome.report, &outcome.report.generator.lanes[0]);
    // Long at once, though it is a small part of the window.
    assert!(has_doubt(report, "lane 0 of the generator was away for up to"), "{:?}", report.doubts);
    assert!((270e3..=380e3).contains(&lane.gaps_us) && lane.gaps_us == lane.longest_gap_us, "{lane:?}");
}

/// Before the window a lane may be away as it likes.
#[test]
fn a_generator_that_was_away_in_the_warm_up_is_believed() {
    let plan = Plan { connections: 1, warm_up: Duration::from_secs(2), ..for_a_second(Mode::Closed) };
    let mut rig = Rig::new(1, Faults::none(), plan).generate(0);
    let mut peers = Peers::new(&rig, |_| Manner::Echo);
    while rig.desk.borrow().window.is_none() {
        assert!(rig.step(&mut peers));
    }
    rig.world.pass(Duration::from_nanos(S));
    let outcome = rig.run(&mut peers);
    assert_eq!(
        (outcome.report.generator.lanes[0].longest_gap_us, outcome.report.believable),
        (0.0, true),
        "{:?}",
        outcome.report.doubts
    );
}

/// With failures among them, however few are too many, the figures are of the other requests.
#[test]
fn a_run_of_which_a_part_failed_is_doubted() {
    let outcome = played(for_a_second(open(500.0)), |_| Manner::Echo);
    let with = |failed: u64| {
        judged(&outcome, |report| {
            report.requests -= failed;
            report.errors.insert("lost".to_owned(), failed);
            report.errors.insert("duplicate".to_owned(), 400);
        })
    };
    assert!(with(5).believable, "{:?}", with(5).doubts);
    assert!(has_doubt(&with(150), "30.0 % of what was tried failed"), "{:?}", with(150).doubts);
    assert!(has_doubt(&with(6), "1.2 % of what was tried failed"), "{:?}", with(6).doubts);
}

/// A datagram that is no answer and the request that it was sent for, which is lost, are one failure.
#[test]
fn a_wrong_datagram_is_no_second_failure() {
    let rig = Rig::new(1, Faults::none(), Plan { mode: open(500.0), ..datagrams(target(true)) }).generate(0);
    let mut server = DatagramServer::new(&rig, 1, 0, 0);
    let outcome = rig.run(&mut server);
    let with = |wrong: u64, lost: u64| {
        judged(&outcome, |report| {
            report.requests = 1_000 - lost;
            report.errors.extend([("mismatch".to_owned(), wrong), ("lost".to_owned(), lost)]);
        })
    };
    assert!(with(8, 8).believable, "{:?}", with(8, 8).doubts);
    assert!(has_doubt(&with(0, 11), "1.1 % of what was tried failed"), "{:?}", with(0, 11).doubts);
}

/// A lag is of what was sent, a latency of what was answered: the one is not said to be a part of the other where it is longer.
#[test]
fn a_late_generator_is_doubted_with_what_is_true() {
    let outcome = played(for_a_second(open(500.0)), |_| Manner::Echo);
    let late = |lag: f64, latency: Option<f64>| {
        let report = judged(&outcome, |report| {
            report.send_lag_us.as_mut().unwrap().insert("99".to_owned(), lag);
            report.latency_us.remove("99");
            report.latency_us.extend(latency.map(|us| ("99".to_owned(), us)));
        });
        report.doubts.concat()
    };
    assert_eq!(late(1_000.0, Some(2_000.0)), "");
    assert_eq!(late(1_500.0, Some(15_000.0)), "");
    let part = late(1_500.0, Some(14_000.0));
    assert!(part.contains("by more than 1500 us, which is a part of the latency at 99 %, 14000 us"), "{part}");
    let longer = late(5_000.0, Some(3_000.0));
    assert!(longer.contains("as long as the latency at 99 %, 3000 us, or longer"), "{longer}");
    assert!(late(5_000.0, None).contains("no latency was measured"), "{}", late(5_000.0, None));
}

#[test]
fn what_the_machine_did_is_doubted_and_noted() {
    let outcome = played(for_a_second(open(500.0)), |_| Manner::Echo);
    let waited = judged(&outcome, |report| report.generator.lanes[0].waiting_for_cpu = 0.06);
    assert!(has_doubt(&waited, "lane 0 of the generator waited 6 % of the time for its CPU"), "{:?}", waited.doubts);
    let stolen = judged(&outcome, |report| report.generator.stolen = 0.11);
    assert!(has_doubt(&stolen, "the host took 11 %"), "{:?}", stolen.doubts);
    let below = judged(&outcome, |report| {
        (report.generator.lanes[0].waiting_for_cpu, report.generator.stolen) = (0.05, 0.1);
        report.generator.socket_buffer_drops = 7;
        report.seconds = 0.5;
    });
    assert!(below.believable, "{:?}", below.doubts);
    assert!(below.notes[0].starts_with("7 packets were dropped") && below.notes[1].contains("short"), "{:?}", below.notes);
}
