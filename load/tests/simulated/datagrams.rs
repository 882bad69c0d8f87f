//! Over datagrams, against the echo service and against a server that misbehaves, on a way that loses, doubles and reorders.

use crate::simulated::datagram_account::verify;
use crate::simulated::datagram_peers::{Counts, DatagramServer};
use crate::simulated::for_seeds;
use crate::simulated::plans::{datagrams, drawn, followed, steady, with_memory};
use crate::simulated::rig::{MS, Outcome, Rig, patient, target};
use crate::simulated::witness::Note;
use corelane::testing::{Faults, Nobody};
use corelane_echo::{Answer, EchoDatagrams};
use corelane_load::kinds::Kind;
use corelane_load::plan::{Extent, Mode, Plan};
use std::collections::BTreeSet;
use std::time::Duration;

/// Any plan over datagrams.
fn plan(seed: u64, is_played: bool) -> Plan {
    drawn(seed, datagrams(target(is_played)))
}

fn served(seed: u64, faults: Faults, plan: Plan) -> Rig {
    Rig::new(seed, faults, plan).serve(1 + seed as usize % 3, |roster| {
        let echo = EchoDatagrams::new(Answer::Everybody);
        roster.serve_datagrams(target(false), patient(), echo);
    })
}

/// Any plan against the echo service.
pub fn run(seed: u64, faults: Faults) -> Outcome {
    served(seed, faults, plan(seed, false)).generate(0).run(&mut Nobody)
}

#[test]
fn counts_and_times_are_exact_without_faults() {
    for_seeds(150, |seed| {
        let outcome = run(seed, Faults::none());
        let figures = verify(&outcome);
        assert_eq!(figures.errors.values().sum::<u64>(), 0, "{:?}", outcome.report.errors);
    });
}

#[test]
fn counts_and_times_are_exact_under_every_fault_of_the_way() {
    for_seeds(250, |seed| {
        verify(&run(seed, with_memory(steady(seed))));
    });
}

/// Where the clock jumps it cannot be told when a datagram was given up, nor without memory when it was to start; but each that counts was answered or lost, once.
#[test]
fn every_datagram_is_answered_or_lost_whatever_the_clock_and_the_memory_do() {
    for_seeds(250, |seed| {
        let outcome = run(seed, followed(seed));
        let (plan, report, desk) = (&outcome.plan, &outcome.report, outcome.desk.borrow());
        if plan.mode == Mode::Closed && matches!(plan.extent, Extent::For(_)) {
            return;
        }
        assert_eq!(report.sent, report.requests + report.errors["lost"], "{:?}", report.errors);
        let (from, until) = desk.window.unwrap();
        let wrote = desk.journal.iter().filter(|entry| matches!(entry.note, Note::Wrote { .. }) && entry.at >= from);
        // With a rate some that are sent late were to start before the window, or behind it.
        assert!(report.sent <= wrote.count() as u64 && report.bytes_sent == report.sent * plan.size as u64);
        if let (Extent::Requests(asked), true) = (plan.extent, desk.early.is_empty() && plan.mode == Mode::Closed) {
            assert_eq!((report.sent, until), (asked, u64::MAX));
        }
    });
}

/// A datagram is waited for as long as the window is, so that many are given up in it that were sent before, and many after it. Lost are
/// those that were sent in it and did not come back.
#[test]
fn as_many_are_lost_as_were_sent_in_the_window_and_did_not_come_back() {
    for_seeds(20, |seed| {
        let length = Duration::from_millis(400);
        let plan = Plan { connections: 3, depth: 4, extent: Extent::For(length), warm_up: length, ..datagrams(target(false)) };
        let outcome = served(seed, Faults { datagram_loss: 300, ..Faults::none() }, plan).generate(0).run(&mut Nobody);
        let desk = outcome.desk.borrow();
        let (from, until) = desk.window.unwrap();
        let mut waiting = BTreeSet::new();
        for entry in &desk.journal {
            match entry.note {
                Note::Wrote { place, number } if (from..until).contains(&entry.at) => assert!(waiting.insert((place, number))),
                Note::Came { place, number: Some(number), .. } => drop(waiting.remove(&(place, number))),
                _ => {}
            }
        }
        assert!(waiting.len() > 5, "{} of {}", waiting.len(), outcome.report.sent);
        assert_eq!(outcome.report.errors["lost"], waiting.len() as u64);
        assert!(
            outcome.report.doubts.iter().any(|doubt| doubt.contains("of what was tried failed")),
            "{:?}",
            outcome.report.doubts
        );
    });
}

/// What fails in the warm-up is seen there, second by second, and counts nowhere.
#[test]
fn what_is_lost_in_the_warm_up_is_seen_in_its_seconds() {
    let (extent, warm_up) = (Extent::For(Duration::from_millis(200)), Duration::from_millis(1_500));
    let plan = Plan { extent, warm_up, depth: 3, ..datagrams(target(false)) };
    let outcome = served(1, Faults { datagram_loss: 300, ..Faults::none() }, plan).generate(0).run(&mut Nobody);
    let lost = |is_asked: fn(f64) -> bool| {
        let seconds = outcome.report.series.iter().filter(|second| is_asked(second.at_s));
        seconds.filter_map(|second| second.errors.get("lost")).sum::<u64>()
    };
    assert!(lost(|at_s| at_s < 0.0) > 0, "{:?}", outcome.report.series);
    assert!(lost(|at_s| at_s >= 0.0) <= outcome.report.errors["lost"], "{:?}", outcome.report.errors);
}

fn played(seed: u64, faults: Faults, plan: Plan, mischief: u64) -> (Outcome, Counts) {
    let rig = Rig::new(seed, faults, plan).generate(0);
    let mut server = DatagramServer::new(&rig, seed, mischief, 700 * MS);
    (rig.run(&mut server), server.counts)
}

/// Any plan against a server that misbehaves, for every second seed under the faults of the way too.
fn misbehaved(seed: u64) -> Outcome {
    let faults = if seed.is_multiple_of(2) { Faults::none() } else { with_memory(steady(seed)) };
    played(seed, faults, plan(seed, true), 20 + seed % 300).0
}

#[test]
fn whatever_the_server_does_the_counts_are_exact() {
    for_seeds(250, |seed| {
        verify(&misbehaved(seed));
    });
}

/// At 1,414 requests a second two sockets with one in flight each are still at those of the warm-up when five in a row are lost: both lanes give up, with
/// all four requests of the window due and not sent.
#[test]
fn what_was_due_when_a_lane_gave_up_amid_losses_is_not_sent() {
    let outcome = misbehaved(1_124_394_893);
    let figures = verify(&outcome);
    let (plan, report, desk) = (&outcome.plan, &outcome.report, outcome.desk.borrow());
    assert!(matches!((&plan.mode, plan.extent), (Mode::Open { .. }, Extent::Requests(4))), "another plan: {plan:?}");
    assert_eq!((desk.early.len(), report.sent, report.not_sent, figures.offered), (2, 0, Some(4), 4));
}

/// The server's own counts are the report's, where nothing happens on the way: what it drops or answers wrongly is lost, what it answers
/// too late comes back as if answered twice.
#[test]
fn what_the_server_did_is_what_the_report_says() {
    for_seeds(150, |seed| {
        let plan = Plan { extent: Extent::Requests(300), warm_up: Duration::ZERO, mode: Mode::Closed, ..plan(seed, true) };
        // The last answers that are too late come when nobody listens any more.
        let (outcome, counts) = played(seed, Faults::none(), plan, 150);
        if !outcome.desk.borrow().early.is_empty() {
            return;
        }
        let report = &outcome.report;
        let of = |kind: Kind| report.errors[kind.name()];
        assert_eq!(report.requests + of(Kind::Lost), 300);
        assert_eq!((counts.received, report.bytes_sent), (300, 300 * outcome.plan.size as u64));
        assert_eq!(of(Kind::Lost), counts.dropped + counts.wrong + counts.late);
        assert!(of(Kind::Mismatch) <= counts.wrong && of(Kind::Duplicate) <= counts.twice + counts.late);
        assert_eq!(report.requests, counts.answered + counts.twice + counts.held);
    });
}

#[test]
fn a_server_that_is_not_there_is_named() {
    for_seeds(20, |seed| {
        let plan = Plan { mode: Mode::Closed, target: target(false).into(), ..plan(seed, true) };
        let rig = Rig::new(seed, Faults::none(), plan).serve(1, |_| {}).generate(0);
        let outcome = rig.run(&mut Nobody);
        let desk = outcome.desk.borrow();
        assert_eq!(desk.collector.unreachable().unwrap().0, Kind::Refused);
    });
}
