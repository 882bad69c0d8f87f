//! What must be true of every report, whatever the run was.

use super::*;
use corelane_load::report::{Lane, Quantiles, SCHEMA, Second};

/// Noted, but nothing failed.
const NO_FAILURES: [&str; 2] = ["duplicate", "reordered"];

/// What every report has, and what those of rpc have beside it.
const KINDS: [&str; 15] = [
    "client_timeout",
    "closed",
    "duplicate",
    "lost",
    "mismatch",
    "no_address",
    "no_descriptor",
    "other",
    "refused",
    "reordered",
    "reset",
    "socket_timeout",
    "table_full",
    "tls",
    "unreachable",
];
const OF_RPC: [&str; 3] = ["rpc_denied", "rpc_failed", "rpc_unavailable"];
const OF_HTTP: [&str; 6] = ["http_4xx", "http_5xx", "http_content", "http_cut", "http_malformed", "http_unasked"];

/// Asserts that a report agrees with itself and with the exit code.
pub fn check(run: &Run) {
    let report = &run.report;
    assert_eq!((report.schema, &report.program), (SCHEMA, &format!("corelane {}", env!("CARGO_PKG_VERSION"))));
    assert_eq!(report.believable, report.doubts.is_empty(), "{:?}", report.doubts);
    let failures = failures(report);
    let code = if failures > 0 {
        FAILURES
    } else if !report.believable {
        DOUBTS
    } else {
        GOOD
    };
    assert_eq!(run.code, code, "{:?} {:?}", report.doubts, run.errors());
    assert!(["server", "generator", "rate", "neither"].contains(&report.limit.as_str()), "{}", report.limit);
    times_are_in_order(report);
    rates_agree(report);
    answers_are_of_a_class(report);
    assert_eq!(report.handshakes.is_some(), report.settings.tls.is_some());
    assert_eq!((report.handshake_us.is_some(), report.settings.tls.is_some()), (report.handshakes.is_some(), is_secure(report)));
    if report.repeated.is_none() {
        // A datagram that is no answer leaves one to be lost.
        let twice = if report.target.starts_with("udp:") { report.errors["mismatch"] } else { 0 };
        let too_many = (failures - twice) as f64 / (failures - twice + report.requests).max(1) as f64 > 0.01;
        let is_doubted = report.doubts.iter().any(|doubt| doubt.contains(OF_FAILURES));
        assert_eq!(is_doubted, too_many && report.requests > 0, "{failures} failures: {:?}", report.doubts);
        lanes_add_up(report, failures);
        seconds_add_up(report);
    }
}

fn failures(report: &Report) -> u64 {
    let own: &[&str] = match report.workload.as_str() {
        "rpc" => &OF_RPC,
        "http" => &OF_HTTP,
        _ => &[],
    };
    let mut kinds = [&KINDS, own].concat();
    kinds.sort_unstable();
    assert_eq!(report.errors.keys().collect::<Vec<_>>(), kinds, "every kind is present, and none of another workload");
    report.errors.iter().filter(|(kind, _)| !NO_FAILURES.contains(&kind.as_str())).map(|(_, count)| count).sum()
}

fn is_secure(report: &Report) -> bool {
    ["https://", "tls://"].iter().any(|scheme| report.target.starts_with(scheme))
}

/// Every answer that counts has a status, and so do those that failed for what they are.
fn answers_are_of_a_class(report: &Report) {
    assert_eq!(report.counted.is_empty(), !["http", "sink"].contains(&report.workload.as_str()));
    if report.workload == "http" && report.repeated.is_none() {
        let classes: u64 = (2..=5).map(|class| report.counted[&format!("status_{class}xx")]).sum();
        let judged: u64 = ["http_4xx", "http_5xx", "http_content"].iter().map(|kind| report.errors[*kind]).sum();
        assert_eq!(classes, report.requests + judged, "{:?} {:?}", report.counted, report.errors);
    }
}

fn times_are_in_order(report: &Report) {
    let rated = [&report.service_us, &report.send_lag_us];
    let by_connection = [&report.connect_us, &report.connection_us];
    assert!(rated.iter().all(|times| times.is_some() == has_times(report)));
    assert!(by_connection.iter().all(|times| times.is_some() == (report.settings.mode == "connections")));
    let all = [&report.latency_us].into_iter().chain(rated.into_iter().chain(by_connection).flatten());
    all.for_each(quantiles_rise);
    report.series.iter().for_each(|second| quantiles_rise(&second.latency_us));
    let is_one_way = ["sink", "flood"].contains(&report.settings.mode.as_str());
    assert_eq!((report.flow.is_some(), report.series.iter().all(|second| second.flows.is_empty())), (is_one_way, !is_one_way));
    assert!(
        report.requests == 0 || report.repeated.is_some() || report.latency_us.is_empty() == is_one_way,
        "answers without times"
    );
    for curve in [&report.distribution, &report.service_distribution] {
        assert!(curve.is_sorted_by(|a, b| a.percent < b.percent && a.us < b.us), "{curve:?}");
        assert!(curve.last().is_none_or(|point| point.percent == 100.0));
    }
}

/// Whether requests, or connections, had times of their own.
fn has_times(report: &Report) -> bool {
    ["open", "connections"].contains(&report.settings.mode.as_str())
}

fn quantiles_rise(times: &Quantiles) {
    if times.is_empty() {
        return;
    }
    let mut named: Vec<(f64, f64)> = times.iter().filter_map(|(name, &us)| Some((name.parse().ok()?, us))).collect();
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = [times["min"]].into_iter().chain(named.iter().map(|pair| pair.1)).chain([times["max"]]);
    assert!(ends.collect::<Vec<_>>().is_sorted(), "{times:?}");
    assert!(times["min"] <= times["mean"] && times["mean"] <= times["max"] && times["stddev"] >= 0.0, "{times:?}");
}

fn rates_agree(report: &Report) {
    let is_open = has_times(report);
    assert_eq!((report.offered_per_second.is_some(), report.not_sent.is_some()), (is_open, is_open));
    assert_eq!(report.settings.duration_s.is_some(), report.settings.requests.is_none(), "one of them ends a run");
    if let (Some(wanted), Some(window)) = (report.settings.duration_s, Some(report.seconds)) {
        assert!(window <= wanted, "{window} s were measured of {wanted}");
    }
    let Some(offered) = report.offered_per_second else { return };
    // What the warm-up left over is answered in the window, too.
    let has_warm_up = report.settings.warm_up_s > 0.0;
    assert!(has_warm_up || offered >= report.requests_per_second, "{offered} offered");
}

fn lanes_add_up(report: &Report, failures: u64) {
    let lanes = &report.generator.lanes;
    assert_eq!(lanes.len() as u64, report.settings.lanes);
    let sum = |of: fn(&Lane) -> u64| lanes.iter().map(of).sum::<u64>();
    assert_eq!((sum(|lane| lane.requests), sum(|lane| lane.errors)), (report.requests, failures), "{lanes:?}");
    assert!(sum(|lane| lane.connections) <= report.settings.connections);
    for (number, lane) in lanes.iter().enumerate() {
        assert_eq!(lane.lane, number as u64);
        let shares = [lane.cpu_used, lane.busy, lane.waiting_for_cpu, lane.cpu_used + lane.waiting_for_cpu];
        assert!(shares.iter().all(|share| (0.0..=1.0 + 1e-9).contains(share)), "{lane:?}");
        assert!(lane.busy <= lane.cpu_used + 1e-9, "{lane:?}");
    }
}

fn seconds_add_up(report: &Report) {
    let series = &report.series;
    assert!(series.is_sorted_by(|a, b| a.at_s < b.at_s), "{series:?}");
    for second in series {
        assert!(second.length_s > 0.0 && second.length_s <= 1.0 + 1e-6, "{second:?}");
        assert_eq!(second.lanes.len() as u64, report.settings.lanes);
        assert!(second.errors.values().all(|&count| count > 0), "{second:?}");
    }
    let measured: Vec<&Second> = series.iter().filter(|second| second.at_s >= 0.0).collect();
    let answered: u64 = measured.iter().flat_map(|second| &second.lanes).sum();
    let by_time = report.settings.duration_s.is_some();
    // With a rate, answers that come after the window count, and are in none of its seconds.
    let exactly = report.settings.mode == "closed" || !by_time;
    assert!(if exactly { answered == report.requests } else { answered <= report.requests }, "{answered} in {series:?}");
    let in_window: f64 = measured.iter().map(|second| second.requests_per_second * second.length_s).sum();
    let rate = report.requests_per_second * report.seconds;
    assert!((in_window - rate).abs() < 0.01 + 1e-6 * rate, "{in_window} answers by the second, {rate} by the rate");
}
