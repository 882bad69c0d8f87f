//! Reports as runs produce them, made up: the same ones each time.

use corelane_load::kinds::Errors;
use corelane_load::report::{Generator, Lane, Paired, Point, Quantiles, Report, SCHEMA, Second, Server, Settings};
use std::collections::BTreeMap;

/// Numbers from 0 to 1 that look random.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1u64 << 24) as f64
    }
}

fn quantiles(median: f64, tail: f64) -> Quantiles {
    let at = |percent: f64| median * (1.0 - percent / 100.0).max(1e-5).powf(-tail) / 2f64.powf(tail);
    let percents = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99].map(|percent| (percent.to_string(), at(percent)));
    let rest = [("min", median * 0.6), ("mean", median * 1.1), ("stddev", median * 0.4), ("max", at(100.0))];
    percents.into_iter().chain(rest.map(|(name, us)| (name.to_owned(), us))).collect()
}

/// A long-tailed distribution with a knee at `knee` percent, as stalls make it.
fn distribution(median: f64, tail: f64, knee: f64) -> Vec<Point> {
    let at = |step: u32| {
        let rest = 10f64.powf(-f64::from(step) / 40.0);
        let percent = 100.0 * (1.0 - rest);
        let stall = if percent > knee { 40_000.0 * (1.0 - rest / (1.0 - knee / 100.0)) } else { 0.0 };
        Point { percent, us: median * rest.powf(-tail) * 0.8 + stall }
    };
    let mut points: Vec<_> = (0..200).map(at).collect();
    points.push(Point { percent: 100.0, us: points[199].us });
    points
}

fn lanes(count: u64, requests: u64) -> Vec<Lane> {
    let lane = |lane: u64| Lane {
        lane,
        cpu: Some(lane),
        cpu_used: 0.62 - 0.1 * lane as f64 / count as f64,
        busy: 0.55 - 0.1 * lane as f64 / count as f64,
        waiting_for_cpu: 0.013,
        connections: 32,
        requests: requests / count + lane * requests / 50 / count,
        errors: 3 * lane,
        seconds: 60.0,
        longest_us: 5_000.0,
        ..Lane::default()
    };
    (0..count).map(lane).collect()
}

fn settings(mode: &str) -> Settings {
    Settings {
        mode: mode.into(),
        connections: 64,
        depth: 1,
        size: 64,
        duration_s: Some(30.0),
        warm_up_s: 3.0,
        timeout_s: 1.0,
        lanes: 2,
        driver: "epoll".into(),
        seed: 42,
        ..Settings::default()
    }
}

fn seconds(from: i32, to: i32, rate: f64, median: f64, is_stalled: impl Fn(i32) -> bool) -> Vec<Second> {
    let mut noise = Noise(7);
    let second = |at: i32| {
        let stalled = is_stalled(at);
        let rate = rate * (0.98 + 0.04 * noise.next()) * if stalled { 0.35 } else { 1.0 };
        let median = median * (0.95 + 0.1 * noise.next());
        let errors: BTreeMap<_, _> = stalled.then(|| ("client_timeout".to_owned(), 120)).into_iter().collect();
        Second {
            at_s: f64::from(at),
            length_s: 1.0,
            requests_per_second: rate,
            errors,
            latency_us: quantiles(median, if stalled { 0.9 } else { 0.15 + 0.03 * noise.next() }),
            lanes: vec![(rate / 2.0) as u64; 2],
            flows: Vec::new(),
        }
    };
    (from..to).map(second).collect()
}

/// How much of each there was.
fn of_each<const N: usize>(some: [(&str, f64); N]) -> BTreeMap<String, f64> {
    some.map(|(name, value)| (name.to_owned(), value)).into()
}

/// An open loop with two stalls, and all that can be measured.
pub fn rich() -> Report {
    let mut errors = Errors::default().by_name(&[]);
    errors.insert("client_timeout".into(), 360);
    errors.insert("reset".into(), 2);
    Report {
        schema: SCHEMA,
        program: "corelane 0.1.0".into(),
        workload: "echo".into(),
        target: "tcp://[2001:db8::10]:60007".into(),
        started_unix_s: 1_772_366_400.0,
        settings: Settings { rate: Some(20_000.0), arrivals: Some("poisson".into()), ..settings("open") },
        seconds: 30.0,
        requests: 598_412,
        requests_per_second: 19_534.2,
        offered_per_second: Some(20_003.7),
        not_sent: Some(312),
        bytes_sent: 38_400_000,
        bytes_received: 38_298_368,
        errors,
        latency_from: "intended start".into(),
        latency_us: quantiles(61.3, 0.62),
        service_us: Some(quantiles(58.1, 0.2)),
        send_lag_us: Some(quantiles(1.8, 0.4)),
        server_us_per_request: Some(5.73),
        server: Some(Server {
            trains_dropped: None,
            pid: 4711,
            cpus_used: 1.12,
            waiting_for_cpu: 0.031,
            resident_bytes: 14_680_064,
            bytes_per_connection: Some(612.0),
            per_request: of_each([("receives", 0.98), ("sends", 0.97), ("sleeps", 0.41), ("bytes_copied", 0.0)]),
        }),
        generator: Generator {
            us_per_request: 4.9,
            resident_bytes: 21_000_000,
            stolen: 0.0123,
            socket_buffer_drops: 0,
            retransmissions: 17,
            datagrams_refused: 0,
            lanes: lanes(2, 598_412),
        },
        limit: "server".into(),
        believable: false,
        doubts: vec![
            "The generator sent 1 % of the requests more than 1 ms late: its own lanes waited 1.3 % of the time for a CPU."
                .into(),
            "The host took 1.2 % of the CPU time from this machine.".into(),
        ],
        notes: vec!["The server answered nothing for 0.6 s at second 12.".into()],
        series: seconds(-3, 30, 20_000.0, 61.0, |at| at == 12 || at == 22),
        distribution: distribution(61.0, 0.12, 99.2),
        service_distribution: distribution(58.0, 0.1, 99.97),
        ..Report::default()
    }
}

/// A closed loop that nothing speaks against, without a server that is known.
pub fn closed() -> Report {
    Report {
        settings: Settings { depth: 16, ..settings("closed") },
        requests: 31_234_567,
        requests_per_second: 1_041_152.2,
        offered_per_second: None,
        not_sent: None,
        errors: Errors::default().by_name(&[]),
        latency_from: "send".into(),
        service_us: None,
        send_lag_us: None,
        server_us_per_request: None,
        server: None,
        generator: Generator { us_per_request: 0.4, lanes: lanes(64, 31_234_567), ..Generator::default() },
        limit: "neither".into(),
        believable: true,
        doubts: vec![],
        notes: vec![],
        series: seconds(-1, 10, 1_041_000.0, 140.0, |_| false),
        service_distribution: vec![],
        distribution: distribution(140.0, 0.05, 100.0),
        ..rich()
    }
}

/// A run that got no answer at all.
pub fn empty() -> Report {
    Report {
        schema: SCHEMA,
        program: "corelane 0.1.0".into(),
        started_unix_s: 1_772_366_400.0,
        workload: "echo".into(),
        target: "tcp://127.0.0.1:1".into(),
        latency_from: "send".into(),
        settings: settings("closed"),
        doubts: vec!["No request was answered.".into()],
        ..Report::default()
    }
}

/// An hour at one point a second.
pub fn hour() -> Report {
    Report { seconds: 3600.0, series: seconds(-30, 3600, 20_000.0, 61.0, |at| at % 700 == 699), ..rich() }
}

/// One second, and text and numbers that nobody should send.
pub fn hostile() -> Report {
    let nasty = "<script>alert(1)</script>\"'&]]>--><svg onload=x>".to_owned();
    let mut report = Report {
        workload: nasty.clone(),
        target: format!("tcp://{}:1/{nasty}", "very-long-name".repeat(30)),
        limit: nasty.clone(),
        requests_per_second: f64::INFINITY,
        seconds: f64::NAN,
        requests: u64::MAX,
        doubts: vec![nasty.clone(), "x".repeat(500)],
        series: seconds(0, 1, 1e12, 1e9, |_| true),
        ..rich()
    };
    report.latency_us = [("50", f64::NAN), ("99", f64::INFINITY), ("max", 3.6e9)].map(|(name, us)| (name.to_owned(), us)).into();
    report.distribution.push(Point { percent: f64::NAN, us: f64::INFINITY });
    report.errors = [(nasty, u64::MAX)].into();
    report.generator.stolen = f64::NAN;
    report.generator.lanes = vec![Lane { cpu_used: f64::NAN, requests: u64::MAX, ..Lane::default() }; 3];
    report
}

/// A run whose rate, latency and CPU time are those of [`rich`] times a factor.
fn scaled(factor: f64) -> Report {
    let mut report = Report { doubts: vec![], believable: true, ..rich() };
    report.requests_per_second *= factor;
    report.latency_us.values_mut().for_each(|us| *us *= 2.0 - factor);
    report.distribution.iter_mut().for_each(|point| point.us *= 2.0 - factor);
    report.server_us_per_request = report.server_us_per_request.map(|us| us * (1.5 - factor / 2.0));
    report
}

/// `count` runs, each of them a little different.
fn runs(count: usize, factor: f64) -> Vec<Report> {
    let mut noise = Noise(factor.to_bits());
    (0..count).map(|_| scaled(factor * (0.96 + 0.08 * noise.next()))).collect()
}

/// Five runs of the same settings.
pub fn repeated() -> Report {
    corelane_load::repeated::repeated(runs(5, 1.0))
}

/// Two targets over fifteen rounds.
pub fn paired() -> Paired {
    let other = |mut report: Report| {
        report.target = "tcp://127.0.0.1:11211".into();
        report
    };
    let rounds = runs(15, 1.02).into_iter().zip(runs(15, 0.91).into_iter().map(other));
    let mut paired = corelane_load::repeated::paired(rounds.collect());
    paired.b.doubts = vec!["runs 3, 4, 11: the generator set the rate".into()];
    paired.believable = false;
    paired
}
