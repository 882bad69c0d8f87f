//! HTTP: counts are exact, whatever the server answers and the way does; each fault of a server has its kind.

use crate::simulated::http_server::{Answers, CONTENT, Seen, Server, right};
use crate::simulated::plans::{drawn, followed, is_steady, steady, streams};
use crate::simulated::rig::{Outcome, Rig, patient, target};
use crate::simulated::{account, for_seeds};
use corelane::testing::{Faults, Nobody, Peer, Play, Random, Turn, World};
use corelane_load::Verdict;
use corelane_load::arrivals::Arrivals;
use corelane_load::kinds::Kind;
use corelane_load::plan::{Extent, Mode, Plan};
use corelane_load::report::Report;
use corelane_load::workloads::Particulars;
use corelane_load::workloads::http::{
    CLIENT_ERROR, CONTENT as OTHER_CONTENT, CUT, Content, Expect, HttpSettings, MALFORMED, SERVER_ERROR, UNASKED, Wanted,
};
use std::rc::Rc;
use std::time::Duration;

fn run(seed: u64, faults: Faults, plan: Plan, answers: Answers) -> (Outcome, Rc<Seen>) {
    let seen: Rc<Seen> = Rc::default();
    let rig = Rig::new(seed, faults, plan).serve(1 + seed as usize % 3, |roster| {
        roster.serve(target(false), patient(), Server { answers, seen: seen.clone() });
    });
    (rig.generate(0).run(&mut Nobody), seen)
}

fn http(plan: Plan, settings: HttpSettings) -> Plan {
    Plan { workload: "http".into(), particulars: Particulars::of(settings), ..plan }
}

#[test]
fn counts_and_times_are_exact() {
    for_seeds(150, |seed| {
        let plan = drawn(seed, streams(target(false)));
        let size = if seed % 2 == 0 { 0 } else { plan.size };
        // All requests have one length: the last of a connection does not say so.
        let plan = http(Plan { size, ..plan }, HttpSettings { says_close: false, ..HttpSettings::default() });
        let by_connection = matches!(plan.mode, Mode::Connections { .. });
        let by_number = by_connection && matches!(plan.extent, Extent::Requests(_));
        let faults = match seed % 3 {
            0 => Faults::none(),
            1 => steady(seed),
            _ => followed(seed),
        };
        let faults = if by_number { Faults { reset: 0, ..faults } } else { faults };
        let (outcome, _) = run(seed, faults, plan, Answers::Right);
        // The account knows when bytes were taken, not when the first of a head came.
        let is_followed = (!by_connection || seed % 3 == 0) && account::is_clear(&outcome);
        if outcome.desk.borrow().collector.unreachable().is_none() && is_followed {
            account::verify(&outcome, is_steady(faults));
        }
        let report = &outcome.report;
        for kind in [Kind::Mismatch, OTHER_CONTENT, MALFORMED, CUT, UNASKED, CLIENT_ERROR] {
            assert_eq!(report.errors[kind.name()], 0, "{kind}");
        }
        let (counted, answered) = (&report.counted, report.requests);
        let content = answered * CONTENT.len() as u64;
        assert_eq!((counted["status_2xx"], counted["content_bytes"]), (answered, content));
        assert_eq!(counted["head_bytes"], answered * (right().len() - CONTENT.len()) as u64);
    });
}

const REQUESTS: u64 = 60;

/// A closed loop of 60 requests, up to four in flight on each of three connections.
fn closed_loop() -> Plan {
    let extent = Extent::Requests(REQUESTS);
    http(Plan { extent, connections: 3, lanes: 2, depth: 4, size: 0, ..streams(target(false)) }, HttpSettings::default())
}

fn failed(report: &Report) -> u64 {
    report.errors.values().sum()
}

/// All 60 were answered, and the server has answered no other.
fn all_answered(report: &Report, seen: &Seen, told: &str) {
    assert_eq!((report.requests, failed(report), report.sent), (REQUESTS, 0, REQUESTS), "{told}: {:?}", report.errors);
    assert_eq!(seen.answers.get(), REQUESTS, "{told}");
}

#[test]
fn every_framing_is_read() {
    for_seeds(30, |seed| {
        let faults = Faults { short_read: 300, short_write: 200, ..Faults::none() };
        for (answers, class, content) in [
            (Answers::Right, 2, CONTENT.len()),
            (Answers::Chunked, 2, 8),
            (Answers::UntilClose, 2, CONTENT.len()),
            (Answers::Http10, 2, CONTENT.len()),
            (Answers::Interim, 2, CONTENT.len()),
            (Answers::Slowly, 2, CONTENT.len()),
            (Answers::Elsewhere, 3, 0),
            (Answers::Status(204), 2, 0),
            (Answers::Status(304), 3, 0),
        ] {
            let (outcome, seen) = run(seed, faults, closed_loop(), answers);
            let (report, told) = (&outcome.report, format!("{answers:?}"));
            all_answered(report, &seen, &told);
            let counted = &report.counted;
            assert_eq!(counted[&format!("status_{class}xx")], REQUESTS, "{told}: {counted:?}");
            assert_eq!(counted["content_bytes"], REQUESTS * content as u64, "{told}");
            assert_eq!(counted["status_1xx"], if answers == Answers::Interim { 2 * REQUESTS } else { 0 }, "{told}");
            assert_eq!(counted["redirects"], if answers == Answers::Elsewhere { REQUESTS } else { 0 }, "{told}");
            assert_eq!(counted["trailer_bytes"], if answers == Answers::Chunked { REQUESTS * 8 } else { 0 }, "{told}");
        }
    });
}

/// Answers that say no are answers: a run of a number of requests has them all, and says what they were.
#[test]
fn who_answers_with_404_alone_is_no_silent_target() {
    let (timeout, requests) = (Duration::from_millis(50), 6_000);
    let plan = Plan { timeout, extent: Extent::Requests(requests), depth: 1, ..closed_loop() };
    let (outcome, seen) = run(1, Faults::none(), plan, Answers::FailingSlowly(404));
    let (desk, report) = (outcome.desk.borrow(), &outcome.report);
    assert!(desk.early.is_empty(), "{:?}", report.doubts);
    assert_eq!((seen.answers.get(), report.errors["http_4xx"], report.requests), (requests, requests, 0));
    assert!(report.seconds > 1.2, "longer than a silent target is borne: {} s", report.seconds);
    let words = format!("nothing was answered rightly; what came had status 4xx {requests} times");
    assert!(report.doubts.contains(&words), "{:?}", report.doubts);
    assert_eq!(report.verdict(), Verdict::Failures);
    let text = corelane_load::text::summary(report).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&words) && text.contains("none: no answer was right; what came had status 4xx"), "{text}");
}

#[test]
fn answers_to_head_have_no_content() {
    let settings = HttpSettings { method: Some("HEAD".into()), ..HttpSettings::default() };
    let (outcome, seen) = run(1, Faults::none(), http(closed_loop(), settings), Answers::Right);
    all_answered(&outcome.report, &seen, "HEAD");
    assert_eq!(outcome.report.counted["content_bytes"], 0);
}

/// A server that ends each connection is connected to again; what was asked behind its last answer is asked again, and counts from its first start.
#[test]
fn who_closes_is_connected_to_again() {
    for_seeds(60, |seed| {
        for (answers, each) in
            [(Answers::ClosesEach, 1), (Answers::ClosesAfter(7), 7), (Answers::UntilClose, 1), (Answers::Http10, 1)]
        {
            let plan = Plan { depth: 1 + (seed % 5) as u32, ..closed_loop() };
            let (outcome, seen) = run(seed, Faults::none(), plan, answers);
            let (report, told) = (&outcome.report, format!("{answers:?}"));
            all_answered(report, &seen, &told);
            assert_eq!(seen.connections.get(), 3 + report.renewed, "{told}");
            assert!((REQUESTS / each).abs_diff(seen.connections.get()) <= 3, "{told}: {} connections", seen.connections.get());
            assert!(outcome.plan.depth > 1 || report.asked_again == 0, "{told}: {}", report.asked_again);
            assert!(report.doubts.iter().all(|doubt| !doubt.contains("were open at the end")), "{:?}", report.doubts);
        }
    });
}

/// The same where requests, or connections, have times of their own, and for a time.
#[test]
fn who_closes_is_connected_to_again_in_every_mode() {
    for_seeds(60, |seed| {
        let arrivals = Arrivals::Poisson;
        for mode in
            [Mode::Open { rate: 2_000.0, arrivals: arrivals.clone() }, Mode::Connections { rate: 300.0, arrivals, requests: 5 }]
        {
            let each = if matches!(mode, Mode::Connections { .. }) { 5 } else { 1 };
            let plan = Plan { mode, connections: 20, ..closed_loop() };
            let (outcome, seen) = run(seed, Faults::none(), plan, Answers::ClosesAfter(3));
            let report = &outcome.report;
            assert_eq!((report.requests, failed(report)), (REQUESTS * each, 0), "{:?}", report.errors);
            assert_eq!(seen.answers.get(), REQUESTS * each);
            assert!(report.renewed > 0);
        }
        let plan = Plan { extent: Extent::For(Duration::from_millis(30)), ..closed_loop() };
        let (outcome, seen) = run(seed, Faults::none(), plan, Answers::ClosesAfter(3));
        assert_eq!(failed(&outcome.report), 0, "{:?}", outcome.report.errors);
        // The load goes on behind the window.
        assert!(outcome.report.requests > 0 && outcome.report.requests <= seen.answers.get());
    });
}

#[test]
fn a_connection_for_each_request_says_so() {
    let plan = Plan { requests_each: Some(1), depth: 1, ..closed_loop() };
    let (outcome, seen) = run(1, Faults::none(), plan, Answers::Right);
    all_answered(&outcome.report, &seen, "one each");
    assert_eq!((seen.last.get(), outcome.report.asked_again), (REQUESTS, 0));
    let mode = Mode::Connections { rate: 500.0, arrivals: Arrivals::Fixed, requests: 3 };
    let (outcome, seen) = run(1, Faults::none(), Plan { mode, ..closed_loop() }, Answers::Right);
    assert_eq!((outcome.report.requests, seen.last.get(), seen.connections.get()), (3 * REQUESTS, REQUESTS, REQUESTS));
}

/// What each fault of a server is called, and how many of the 60 requests it lets through at least.
const FAULTS: &[(Answers, &[Kind], u64)] = &[
    (Answers::Failing(404), &[CLIENT_ERROR], 0),
    (Answers::Failing(503), &[SERVER_ERROR], 0),
    (Answers::Shorter, &[OTHER_CONTENT], 50),
    (Answers::Changed, &[OTHER_CONTENT], 50),
    (Answers::Nonsense, &[MALFORMED], 0),
    (Answers::BareLf, &[MALFORMED], 0),
    (Answers::TwoLengths, &[MALFORMED], 0),
    (Answers::BadChunk, &[MALFORMED], 0),
    (Answers::EndlessHead, &[MALFORMED], 0),
    (Answers::Switches, &[MALFORMED], 0),
    (Answers::Cut, &[CUT, Kind::Reset], 0),
    (Answers::CutHead, &[CUT, Kind::Reset], 0),
    (Answers::Reset, &[Kind::Reset], 0),
    (Answers::Never, &[Kind::ClientTimeout], 0),
    (Answers::Endless, &[Kind::ClientTimeout], 0),
];

#[test]
fn each_fault_of_a_server_shows_as_its_own_kind() {
    for &(answers, kinds, through) in FAULTS {
        // What has no end comes no faster than a small window lets it.
        let buffers = (0, if answers == Answers::Endless { 2 << 10 } else { 0 });
        for depth in [1, 4] {
            let (outcome, _) = run(1, Faults::none(), Plan { depth, buffers, ..closed_loop() }, answers);
            let (report, told) = (&outcome.report, format!("{answers:?} at depth {depth}"));
            let mine: u64 = kinds.iter().map(|kind| report.errors[kind.name()]).sum();
            assert!(mine > 0 && mine == failed(report), "{told}: {:?}", report.errors);
            assert!(report.errors[kinds[0].name()] > 0, "{told}: {:?}", report.errors);
            assert!(report.requests >= through && report.requests + mine <= REQUESTS, "{told}: {}", report.requests);
            if outcome.desk.borrow().early.is_empty() {
                assert_eq!(report.requests + mine, REQUESTS, "{told}");
            }
        }
    }
}

/// An answer too many is told, and what it was taken for is not: the request behind it fails with its connection.
#[test]
fn bytes_that_nobody_asked_for_are_told() {
    let (outcome, _) = run(1, Faults::none(), Plan { depth: 1, ..closed_loop() }, Answers::Twice);
    assert!(outcome.report.errors[UNASKED.name()] > 0, "{:?}", outcome.report.errors);
    assert_eq!(failed(&outcome.report), outcome.report.errors[UNASKED.name()]);
}

/// Answers as soon as it is connected to.
struct Early(Vec<Peer>);

impl Play for Early {
    fn news(&mut self, _world: &World, turn: Turn) {
        if let Turn::Incoming(peer) = turn {
            peer.send(right().as_bytes());
            self.0.push(peer);
        }
    }
}

#[test]
fn an_answer_before_any_request_is_told() {
    let mode = Mode::Open { rate: 10.0, arrivals: Arrivals::Fixed };
    let plan = Plan { mode, target: target(true).into(), extent: Extent::For(Duration::from_millis(500)), ..closed_loop() };
    let rig = Rig::new(1, Faults::none(), plan).generate(0);
    rig.world.listen(target(true)).unwrap();
    let report = rig.run(&mut Early(Vec::new())).report;
    // On a connection that is opened again a request may wait already, and takes the answer for its own.
    assert!(report.errors[UNASKED.name()] >= 3, "{:?}", report.errors);
}

/// With any status an answer is an answer, and its class is counted.
#[test]
fn any_status_may_be_an_answer() {
    let settings = HttpSettings { any_status: true, ..HttpSettings::default() };
    for (status, class) in [(404, "status_4xx"), (503, "status_5xx")] {
        let (outcome, seen) = run(1, Faults::none(), http(closed_loop(), settings.clone()), Answers::Failing(status));
        all_answered(&outcome.report, &seen, class);
        assert_eq!(outcome.report.counted[class], REQUESTS);
    }
}

#[test]
fn contents_are_compared_with_what_is_given() {
    let right = Content::of(CONTENT.as_bytes());
    for (expect, is_right) in [
        (Expect::Any, true),
        (Expect::Length(right.bytes), true),
        (Expect::Length(right.bytes + 1), false),
        (Expect::Content(right), true),
        (Expect::Content(Content { hash: right.hash ^ 1, ..right }), false),
    ] {
        let plan = http(closed_loop(), HttpSettings { expect, ..HttpSettings::default() });
        let (outcome, _) = run(1, Faults::none(), plan, Answers::Right);
        let errors = &outcome.report.errors;
        assert_eq!((outcome.report.requests == REQUESTS, errors[OTHER_CONTENT.name()] == 0), (is_right, is_right), "{expect:?}");
    }
}

/// Each path is asked for as often as its weight says; contents of requests arrive whole.
#[test]
fn paths_are_mixed_by_weight() {
    let path = |number: u32, weight| Wanted { weight, ..Wanted::new(&format!("/{number}")) };
    let wanted = vec![path(0, 3), path(1, 1), path(2, 2)];
    let plan = Plan { lanes: 1, size: 1_000, ..closed_loop() };
    let (outcome, seen) =
        run(1, Faults::none(), http(plan, HttpSettings { wanted: wanted.clone(), ..HttpSettings::default() }), Answers::Right);
    all_answered(&outcome.report, &seen, "mixed");
    assert_eq!(seen.content_bytes.get(), REQUESTS * 1_000);
    assert_eq!(seen.paths.each_ref().map(std::cell::Cell::get), [30, 10, 20, 0]);
    // What is asked again is what was asked.
    for_seeds(30, |seed| {
        let plan = Plan { lanes: 1, connections: 1 + (seed % 4) as u32, depth: 5, ..closed_loop() };
        let settings = HttpSettings { wanted: wanted.clone(), ..HttpSettings::default() };
        let (outcome, seen) = run(seed, Faults::none(), http(plan, settings), Answers::ClosesAfter(3));
        all_answered(&outcome.report, &seen, "mixed, and closed");
        assert!(outcome.report.asked_again > 0);
        assert_eq!(seen.paths.each_ref().map(std::cell::Cell::get), [30, 10, 20, 0]);
    });
}

/// Content without end goes through a lane of little memory, and is given up after the timeout.
#[test]
fn endless_content_needs_no_memory() {
    let plan = Plan {
        connections: 1,
        lanes: 1,
        depth: 1,
        extent: Extent::Requests(1),
        timeout: Duration::from_secs(2),
        ..closed_loop()
    };
    let seen: Rc<Seen> = Rc::default();
    let rig = Rig::new(1, Faults::none(), plan)
        .serve(1, |roster| roster.serve(target(false), patient(), Server { answers: Answers::Endless, seen: seen.clone() }));
    let outcome = rig.generate_in(0, 1 << 20).run(&mut Nobody);
    let report = &outcome.report;
    assert_eq!((report.errors[Kind::ClientTimeout.name()], failed(report)), (1, 1), "{:?}", report.errors);
    assert!(report.bytes_received > 8 << 20, "{} bytes went through 1 MiB", report.bytes_received);
}

/// Whatever a server does, in any mode and with any fault of the way, the run ends, and no request is lost or counted twice.
#[test]
fn whatever_the_server_does_each_request_is_answered_or_has_failed() {
    for_seeds(200, |seed| {
        let mut random = Random::new(seed);
        let every = [
            Answers::Right,
            Answers::Chunked,
            Answers::UntilClose,
            Answers::ClosesEach,
            Answers::ClosesAfter(random.one_to(5) as u64),
            Answers::Http10,
            Answers::Failing(500),
            Answers::Interim,
            Answers::Changed,
            Answers::Nonsense,
            Answers::Cut,
            Answers::Reset,
            Answers::Slowly,
            Answers::Never,
            Answers::Twice,
        ];
        let answers = every[random.below(every.len() as u64) as usize];
        let plan = drawn(seed, streams(target(false)));
        let each = if plan.mode == Mode::Closed && random.below(2) == 0 { Some(random.one_to(4) as u32) } else { None };
        let size = if seed % 2 == 0 { 0 } else { plan.size };
        let plan = http(Plan { requests_each: each, size, ..plan }, HttpSettings::default());
        let faults = if seed % 3 == 0 { Faults::none() } else { followed(seed) };
        let (outcome, seen) = run(seed, faults, plan, answers);
        let desk = outcome.desk.borrow();
        if desk.collector.unreachable().is_some() || !desk.early.is_empty() {
            return;
        }
        let (report, told) = (&outcome.report, format!("{answers:?} {:?}", outcome.report.errors));
        assert!(seen.answers.get() >= report.requests || answers == Answers::Twice, "{told}");
        let classes: u64 = ["2", "3", "4", "5"].iter().map(|class| report.counted[&format!("status_{class}xx")]).sum();
        assert_eq!(
            classes,
            report.requests + report.errors["http_4xx"] + report.errors["http_5xx"] + report.errors["http_content"],
            "{told}"
        );
        if let (Extent::Requests(_), true, false) =
            (outcome.plan.extent, outcome.plan.warm_up.is_zero(), matches!(outcome.plan.mode, Mode::Connections { .. }))
        {
            assert!(report.requests <= report.sent && report.requests + failed(report) >= report.sent, "{told}: {}", report.sent);
        }
    });
}
