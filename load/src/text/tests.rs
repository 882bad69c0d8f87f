//! The tables as people read them, for several runs.

use super::*;
use crate::report::{Opened, SCHEMA, Second, Spread};

fn quantiles(scale: f64) -> Quantiles {
    let times = [("min", 0.4), ("50", 1.0), ("90", 2.5), ("99", 12.0), ("99.9", 95.0), ("max", 1_500.0), ("mean", 1.31)];
    times.map(|(key, time)| (key.to_owned(), time * scale)).into()
}

fn closed_loop() -> Report {
    Report {
        program: "corelane 0.1.0".to_owned(),
        workload: "echo".to_owned(),
        target: "tcp://127.0.0.1:60007".to_owned(),
        started_unix_s: 1_767_225_599.0,
        settings: Settings {
            mode: "closed".to_owned(),
            connections: 64,
            depth: 1,
            size: 64,
            duration_s: Some(10.0),
            warm_up_s: 2.0,
            timeout_s: 5.0,
            lanes: 2,
            driver: "uring".to_owned(),
            seed: 1,
            ..Settings::default()
        },
        seconds: 10.0,
        requests: 1_012_340,
        requests_per_second: 101_234.0,
        answered_in_window: 1_012_340,
        bytes_sent: 64_789_760,
        bytes_received: 64_789_760,
        errors: crate::kinds::Errors::default().by_name(&[]),
        latency_from: "send".to_owned(),
        latency_us: quantiles(48.2),
        server_us_per_request: Some(5.913),
        server: Some(Server {
            pid: 4_242,
            cpus_used: 0.5986,
            waiting_for_cpu: 0.0021,
            resident_bytes: 12_345_678,
            bytes_per_connection: Some(512.0),
            trains_dropped: None,
            per_request: [("receives", 1.0), ("sends", 0.98), ("bytes_copied", 0.0)].map(|(n, v)| (n.to_owned(), v)).into(),
        }),
        generator: Generator {
            us_per_request: 7.2,
            resident_bytes: 21_000_000,
            stolen: 0.0123,
            socket_buffer_drops: 0,
            retransmissions: 3,
            datagrams_refused: 0,
            lanes: vec![lane(0, 500_000), lane(1, 512_340)],
        },
        limit: "server".to_owned(),
        believable: true,
        ..Report::default()
    }
}

fn lane(lane: u64, requests: u64) -> Lane {
    Lane {
        lane,
        cpu: Some(lane),
        cpu_used: 0.731,
        busy: 0.702,
        waiting_for_cpu: 0.012,
        connections: 32,
        requests,
        errors: 0,
        seconds: 10.0,
        longest_us: 900.0,
        ..Lane::default()
    }
}

fn open_loop() -> Report {
    let mut report = closed_loop();
    report.settings.mode = "open".to_owned();
    report.settings.rate = Some(200_000.0);
    report.settings.arrivals = Some("poisson".to_owned());
    report.settings.depth = 16;
    report.offered_per_second = Some(199_870.5);
    report.not_sent = Some(12_345);
    report.latency_from = "intended start".to_owned();
    report.service_us = Some(quantiles(48.2));
    report.latency_us = quantiles(9_640.0);
    report.send_lag_us = Some(quantiles(0.21));
    report.errors.extend([("client_timeout".to_owned(), 1_234), ("reset".to_owned(), 2)]);
    report.limit = "generator".to_owned();
    report.believable = false;
    report.doubts = vec![
        "lane 1 of the generator was busy for 99.2 % of the time, so the rate is what it could send and not what the server can \
         answer: use more lanes or a lower rate"
            .to_owned(),
        "12,345 requests were not sent".to_owned(),
    ];
    report.notes = vec!["the server shares both CPUs with the generator".to_owned()];
    report.server = None;
    report.server_us_per_request = None;
    report.generator.lanes[1].cpu = None;
    report
}

fn spread(median: f64) -> Spread {
    Spread { median, least: median * 0.9, greatest: median * 1.2, low: median * 0.97, high: median * 1.04 }
}

fn repeated() -> Report {
    let mut report = closed_loop();
    let figures = [
        ("requests_per_second", 101_234.0),
        ("requests", 1_012_340.0),
        ("latency_us.50", 48.2),
        ("latency_us.99", 578.4),
        ("latency_us.99.9", 4_579.0),
        ("latency_us.max", 72_300.0),
        ("latency_us.min", 19.28),
        ("server_us_per_request", 5.913),
        ("server.bytes_per_connection", 512.0),
        ("generator.us_per_request", 7.2),
    ];
    let figures = figures.map(|(name, median)| (name.to_owned(), spread(median))).into();
    report.repeated = Some(Repeated { figures, runs: vec![closed_loop(); 5] });
    report
}

fn pair() -> Paired {
    let mut b = repeated();
    b.target = "tcp://127.0.0.1:60008".to_owned();
    b.doubts = vec!["run 3: the host took 12.0 % of the CPU time".to_owned()];
    b.believable = false;
    b.limit = "neither".to_owned();
    b.errors.insert("lost".to_owned(), 7);
    let ratios =
        [("requests_per_second", 1.0123), ("latency_us.50", 0.9512), ("latency_us.99", 0.8), ("server_us_per_request", 0.5)];
    let ratios = ratios.map(|(name, ratio)| (name.to_owned(), spread(ratio))).into();
    Paired { schema: SCHEMA, a: repeated(), b, ratios, rounds: 15, believable: false }
}

/// A report in which every number is the worst and every text is hostile.
fn extreme(number: f64, text: &str) -> Report {
    let mut report = open_loop();
    let times: Quantiles = ["min", "50", "99.9", "nan", text].map(|key| (key.to_owned(), number)).into();
    let lane = Lane {
        requests: u64::MAX,
        connections: u64::MAX,
        errors: u64::MAX,
        cpu: Some(u64::MAX),
        cpu_used: number,
        ..lane(u64::MAX, 0)
    };
    report.target = text.to_owned();
    report.settings = Settings { mode: text.to_owned(), rate: Some(number), seed: u64::MAX, ..report.settings };
    report.started_unix_s = number;
    (report.seconds, report.requests, report.requests_per_second) = (number, u64::MAX, number);
    report.answered_in_window = 7;
    (report.not_sent, report.offered_per_second) = (Some(u64::MAX), Some(number));
    (report.bytes_sent, report.bytes_received) = (u64::MAX, u64::MAX);
    report.errors.extend([(text.to_owned(), u64::MAX), ("lost".to_owned(), u64::MAX)]);
    report.latency_us = times.clone();
    (report.connect_us, report.connection_us) = (Some(times.clone()), Some(times.clone()));
    (report.limit, report.latency_from) = (text.to_owned(), text.to_owned());
    report.doubts = vec![text.to_owned(); 2];
    report.server_us_per_request = Some(number);
    report.server =
        Some(Server { cpus_used: number, bytes_per_connection: Some(number), per_request: times, ..Server::default() });
    report.generator = Generator { us_per_request: number, stolen: number, lanes: vec![lane; 3], ..Generator::default() };
    let spread = Spread { median: number, least: number, greatest: number, low: number, high: number };
    let figures =
        ["requests_per_second", "latency_us.50", "server_us_per_request", text].map(|name| (name.to_owned(), spread)).into();
    report.repeated = Some(Repeated { figures, runs: Vec::new() });
    report
}

fn assert_readable(text: &str) {
    for line in text.lines() {
        assert!(line.len() <= layout::WIDTH, "{} columns: {line}", line.len());
        assert!(line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{line:?}");
        assert_eq!(line, line.trim_end());
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).collect();
        assert!(!words.iter().any(|word| ["NaN", "inf"].contains(word)), "{line}");
    }
    assert!(text.ends_with('\n') && !text.ends_with("\n\n") && !text.contains("\n\n\n"), "{text}");
}

#[track_caller]
fn assert_text(text: &str, expected: &str) {
    assert_readable(text);
    assert!(text == expected, "this is the text:\n{text}");
}

#[test]
fn a_closed_loop() {
    assert_text(&summary(&closed_loop()), include_str!("closed.txt"));
}

#[test]
fn an_open_loop_that_is_in_doubt() {
    assert_text(&summary(&open_loop()), include_str!("open.txt"));
}

#[test]
fn repeated_runs() {
    assert_text(&summary(&repeated()), include_str!("repeated.txt"));
}

#[test]
fn pairs() {
    assert_text(&super::paired(&pair()), include_str!("paired.txt"));
}

#[test]
fn nothing_measured() {
    assert_text(&summary(&Report { series: vec![Second::default()], ..Report::default() }), include_str!("empty.txt"));
    assert_readable(&super::paired(&Paired::default()));
}

#[test]
fn one_lane_has_no_balance() {
    let mut report = closed_loop();
    report.settings.lanes = 1;
    report.settings.connections = 1;
    report.generator.lanes.truncate(1);
    let text = summary(&report);
    assert!(text.contains("closed loop, 1 connection, depth 1") && text.contains("1 lane on uring"), "{text}");
    assert!(!text.contains("balance"), "{text}");
}

#[test]
fn new_connections_at_a_rate() {
    let mut report = open_loop();
    report.settings.mode = "connections".to_owned();
    report.settings.requests_per_connection = Some(3);
    (report.requests, report.opened) = (1_012_000, Some(Opened::default()));
    (report.connect_us, report.connection_us) = (Some(quantiles(100.0)), Some(quantiles(300.0)));
    let text = summary(&report);
    assert_readable(&text);
    assert!(text.contains("200,000/s new connections, 3 requests on each"), "{text}");
    assert!(text.contains("counted in requests"), "one unit for offered, achieved and not sent:\n{text}");
    // What was answered in the window, divided by its length, is the rate; what was answered later is told beside it.
    assert!(text.contains("1,012,340 answered in 10.0 s,") && text.contains("1,012,000 answered of those that were"), "{text}");
    assert!(text.contains("times           connection\nbegin at            asking\n"), "the fifth column stands alone:\n{text}");
}

#[test]
fn extreme_figures_and_hostile_names_stay_within_the_lines() {
    let texts = ["", "a", &"x".repeat(300), "\u{1b}[2J\r\n\t\u{202e}\u{7f}", &"word ".repeat(60)];
    for number in [0.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, -1.0, 999_999_999_999.0] {
        for text in texts {
            let report = extreme(number, text);
            assert_readable(&summary(&report));
            let ratios = report.repeated.clone().unwrap_or_default().figures;
            assert_readable(&super::paired(&Paired { a: report.clone(), b: report, ratios, ..Paired::default() }));
        }
    }
}
