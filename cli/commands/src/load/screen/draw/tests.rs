//! Frames of all sizes, read as text.

use super::*;
use corelane_load::kinds::{Errors, Kind};
use corelane_load::report::{Quantiles, Second};
use ratatui::Terminal;
use ratatui::backend::TestBackend as Paper; // tidy: allow(backend) the library's own name
use std::collections::BTreeSet;

const PHASES: [&str; 5] = ["connecting", "warming up", "measuring", "waiting for the last answers", "done"];

/// What a frame of this size shows, line by line.
fn rendered(progress: &Progress, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(Paper::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, progress)).unwrap();
    let paper = terminal.backend(); // tidy: allow(backend) the library's own name
    let buffer = paper.buffer();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}

fn quantiles(scale: f64) -> Quantiles {
    [("50", 1.0), ("90", 2.5), ("99", 12.0), ("99.9", 95.0), ("max", 150.0), ("mean", 1.3), ("min", 0.4)]
        .map(|(key, us)| (key.to_owned(), us * scale))
        .into()
}

/// Seconds in which the rate swings, with two of warm-up, and a failure in the fifth.
fn seconds(count: u32) -> Vec<Second> {
    let second = |index: u32| {
        let swing = f64::from(index * 7 % 20) / 20.0;
        let errors = if index == 5 { [("reset".to_owned(), 3)].into() } else { [].into() };
        Second {
            at_s: f64::from(index) - 2.0,
            length_s: 1.0,
            requests_per_second: 60_000.0 + 60_000.0 * swing,
            errors,
            latency_us: quantiles(48.2 * (1.0 + swing)),
            lanes: Vec::new(),
            flows: Vec::new(),
        }
    };
    (0..count).map(second).collect()
}

fn measuring() -> Progress {
    let mut errors = Errors::default().by_name(&[]);
    errors.insert("reset".to_owned(), 3);
    Progress {
        phase: "measuring".to_owned(),
        what: "echo at tcp://127.0.0.1:60007, 64 connections, depth 16, 64 bytes, 100,000/s poisson".to_owned(),
        connections: (64, 64),
        done: 0.4,
        elapsed_s: 12.0,
        left_s: Some(18.0),
        rate: Some(100_000.0),
        series: seconds(14),
        requests: 1_198_765,
        latency_us: quantiles(48.2),
        errors,
        lag_us: Some(1.25),
        run: (2, 5),
    }
}

/// Every number the given one, every kind of error met.
fn extreme(number: f64, count: u64, what: &str) -> Progress {
    let mut progress = measuring();
    let times: Quantiles = ["50", "99", "99.9", "max"].map(|key| (key.to_owned(), number)).into();
    for second in &mut progress.series {
        (second.at_s, second.length_s, second.requests_per_second) = (number, number, number);
        second.latency_us = times.clone();
    }
    Progress {
        what: what.to_owned(),
        phase: "waiting for the last answers".to_owned(),
        connections: (count, count),
        done: number,
        elapsed_s: number,
        left_s: Some(number),
        rate: Some(number),
        requests: count,
        latency_us: times,
        errors: Kind::ALL.map(|kind| (kind.name().to_owned(), count)).into(),
        lag_us: Some(number),
        run: (count, count),
        ..progress
    }
}

/// All that may stand in a frame, in whole pieces.
fn pieces(progress: &Progress) -> BTreeSet<String> {
    let facts = [facts::phase, facts::rates, facts::state, facts::latency, facts::failures].map(|of| of(progress));
    facts.concat().into_iter().map(|field| field.text).collect()
}

/// Checks that every figure in a frame is a whole one: lines are pieces with at least two spaces between them.
#[track_caller]
fn assert_whole(progress: &Progress, width: u16, height: u16) {
    let text = rendered(progress, width, height);
    let pieces = pieces(progress);
    // Wide letters take two places, of which the second is read as a space.
    let dense = |text: &str| text.replace(' ', "");
    let title = dense(&fit(&progress.what, width.into()));
    let hint = fit(HINT, width.into());
    let is_bar = |line: &str| line.starts_with(['\u{2588}', '\u{2591}']);
    let marks = ['\u{2500}', '~', '!'];
    let is_plot = |line: &str| {
        ["latency p99", "latency max", "requests/s"].iter().any(|what| line.starts_with(what)) || line.starts_with(marks)
    };
    let is_bars = |line: &str| line.chars().all(|c| c == ' ' || ('\u{2581}'..='\u{2588}').contains(&c));
    for line in text.lines().filter(|line| !line.is_empty() && dense(line) != title && *line != hint) {
        if is_bar(line) || is_plot(line) || is_bars(line) {
            continue;
        }
        for piece in line.split("  ").map(str::trim).filter(|piece| !piece.is_empty()) {
            let label = ["rate", "done", "latency", "errors"].contains(&piece);
            let more = piece.starts_with('+') && piece.ends_with(" more");
            let left = piece.ends_with(" left") || piece.ends_with(" %");
            assert!(label || more || left || pieces.contains(piece), "{piece:?} in {width}x{height}:\n{text}");
        }
    }
}

#[test]
fn a_frame_of_80_by_24() {
    let text = rendered(&measuring(), 80, 24);
    assert!(text == include_str!("80x24.txt"), "this is the frame:\n{text}");
}

#[test]
fn a_frame_of_40_by_10() {
    let text = rendered(&measuring(), 40, 10);
    assert!(text == include_str!("40x10.txt"), "this is the frame:\n{text}");
}

#[test]
fn a_large_frame_shows_all_there_is() {
    let progress = measuring();
    let text = rendered(&progress, 200, 60);
    for piece in pieces(&progress) {
        assert!(text.contains(&piece), "{piece:?} in:\n{text}");
    }
    assert!(text.contains("p50 48.2 us") && text.contains("18 s left") && text.contains("~~~\u{2500}"), "{text}");
}

#[test]
fn all_phases_in_all_sizes_show_whole_figures() {
    for phase in PHASES {
        let progress = Progress { phase: phase.to_owned(), ..measuring() };
        let empty = Progress { phase: phase.to_owned(), ..Progress::default() };
        for (width, height) in
            [(80, 24), (40, 10), (200, 60), (79, 8), (60, 12), (59, 13), (300, 4), (25, 40), (7, 7), (1, 1), (0, 0)]
        {
            assert_whole(&progress, width, height);
            assert_whole(&empty, width, height);
            assert!(width < 40 || height < 8 || rendered(&progress, width, height).contains(phase));
        }
    }
}

#[test]
fn every_size_shows_whole_figures() {
    for width in 0..130 {
        for height in 0..30 {
            assert_whole(&measuring(), width, height);
        }
    }
}

#[test]
fn extreme_numbers_neither_panic_nor_are_cut() {
    for number in [0.0, -1.0, 1e-300, f64::MAX, f64::MIN, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, u64::MAX as f64] {
        for (count, what) in [(0, ""), (u64::MAX, "\u{1b}[2J\n\u{4e16}\u{754c}"), (1, &*"x".repeat(500))] {
            let progress = extreme(number, count, what);
            for (width, height) in [(80, 24), (40, 10), (200, 60), (3, 50), (80, 1)] {
                assert_whole(&progress, width, height);
                let text = rendered(&progress, width, height);
                let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
                assert!(!words.iter().any(|word| ["NaN", "inf"].contains(word)), "{text}");
            }
        }
    }
}

#[test]
fn an_hour_fits_into_the_width() {
    let progress = Progress { series: seconds(3_602), ..measuring() };
    let text = rendered(&progress, 80, 24);
    assert!(text.contains("46 s a column, mean") && text.contains("46 s a column, worst"), "{text}");
    let marks = text.lines().rev().nth(1).unwrap();
    assert_eq!(marks, format!("!{}", "\u{2500}".repeat(78)), "{text}");
}

#[test]
fn a_stall_leaves_a_hole_in_the_throughput() {
    let mut progress = measuring();
    progress.series[8].requests_per_second = 0.0;
    let text = rendered(&progress, 80, 24);
    let above = text.lines().take_while(|line| !line.contains("latency p99 ")).last().unwrap();
    let lowest: Vec<char> = above.chars().collect();
    // The run of 32 seconds has two columns for each.
    assert_eq!(lowest[16..18], [' ', ' '], "{text}");
    assert!(lowest[15] != ' ' && lowest[18] != ' ', "{text}");
}
