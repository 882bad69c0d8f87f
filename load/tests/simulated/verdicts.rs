//! Each doubt of a verdict comes from something that happens, and what set the rate is named.

use crate::account::verify;
use crate::peers::{Manner, Peers};
use crate::plans::streams;
use crate::rig::{MS, Outcome, Rig, S, target};
use crate::streams::served;
use corelane_load::arrivals::Arrivals;
use corelane_load::judge;
use corelane_load::plan::{Extent, Mode, Plan};
use corelane_load::report::{Lane, Report, Server};
use corelane_sim::Faults;
use std::time::Duration;

fn open(rate: f64) -> Mode {
    Mode::Open { rate, arrivals: Arrivals::Fixed }
}

fn for_a_second(mode: Mode) -> Plan {
    Plan { mode, connections: 2, extent: Extent::For(Duration::from_secs(1)), ..streams(target(true)) }
}

fn played(plan: Plan, manner: impl FnMut(usize) -> Manner + 'static) -> Outcome {
    let rig = Rig::new(1, Faults::none(), plan).generate(0);
    let mut peers = Peers::new(&rig.world, manner);
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
    let mut peers = Peers::new(&rig.world, |number| if number == 0 { Manner::CloseAfter(64 * 51) } else { Manner::Echo });
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
    let mut peers = Peers::new(&rig.world, slow(rig.world.now() + 500 * MS));
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

/// Connections with several requests each are compared with connections, not with requests.
#[test]
fn connections_that_fall_behind_are_doubted() {
    let mode = Mode::Connections { rate: 200.0, arrivals: Arrivals::Fixed, requests: 4 };
    let plan = Plan { timeout: Duration::from_millis(100), ..for_a_second(mode) };
    let outcome = played(plan, |number| if number % 2 == 0 { Manner::SilentAfter(0) } else { Manner::Echo });
    let report = &outcome.report;
    assert!(report.requests_per_second > 10.0);
    assert!(has_doubt(report, "connections/s were answered of 200.0 offered"), "{:?}", report.doubts);
    let kept = played(for_a_second(Mode::Connections { rate: 200.0, arrivals: Arrivals::Fixed, requests: 4 }), |_| Manner::Echo);
    assert_eq!((kept.report.limit.as_str(), kept.report.believable), ("rate", true), "{:?}", kept.report.doubts);
    assert_eq!(kept.report.requests, 800);
}

#[test]
fn a_closed_loop_at_the_generators_limit_is_doubted() {
    let plan = Plan { extent: Extent::For(Duration::from_millis(100)), ..for_a_second(Mode::Closed) };
    let plan = Plan { target: target(false), ..plan };
    let outcome = served(1, Faults::none(), plan, 1).0.generate(0).run(&mut ());
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
    assert!(below.notes[0].starts_with("7 datagrams were dropped") && below.notes[1].contains("short"), "{:?}", below.notes);
}
