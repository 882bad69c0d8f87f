//! The histogram log, read by the reader of another language and by the library's own.

mod python;

use base64::Engine;
use corelane_load::curve::quantiles;
use corelane_load::hdr::{About, Line, append, log};
use corelane_load::interval::{LONGEST_NS, histogram};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::io::{ErrorKind, Write};
use std::time::Duration;

/// When measuring began.
const START_UNIX_S: f64 = 1_700_000_000.123;

/// What the readers are asked for; ranks of these are whole in every histogram here, so that no reader has to round.
const PERCENTS: [f64; 6] = [0.0, 50.0, 90.0, 99.0, 99.9, 100.0];

/// A second in which nothing was answered, and others of `thousands` of times from nanoseconds to over an hour.
fn times(thousands: u64) -> Histogram<u64> {
    let mut all = histogram();
    let mut state = thousands;
    for _ in 0..1_000 * thousands {
        // Knuth's generator (The Art of Computer Programming, 3.3.4); bits 14 to 19 choose the size, those above the value.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.saturating_record((state >> 20) >> ((state >> 14) & 63).min(43));
    }
    all
}

/// All that is logged: warm-up, two seconds of latency and service time, a second without an answer, a part of one.
fn lines(histograms: &[Histogram<u64>]) -> Vec<Line<'_>> {
    let plan = [
        (About::WarmUp, -2.0, 1.0),
        (About::WarmUp, -1.0, 1.0),
        (About::Latency, 0.0, 1.0),
        (About::Service, 0.0, 1.0),
        (About::Latency, 1.0, 1.0),
        (About::Service, 1.0, 1.0),
        (About::Latency, 2.0, 1.0),
        (About::Latency, 3.0, 0.25),
    ];
    let line = |((about, start_s, length_s), times)| Line { about, start_s, length_s, times };
    plan.into_iter().zip(histograms).map(line).collect()
}

fn histograms() -> Vec<Histogram<u64>> {
    [1, 2, 10, 7, 3, 5, 0, 1].map(times).to_vec()
}

fn written(lines: &[Line<'_>]) -> Vec<u8> {
    let mut text = Vec::new();
    log(&mut text, START_UNIX_S, lines).expect("memory takes it");
    text
}

fn tag(line: &Line<'_>) -> Option<&'static str> {
    match line.about {
        About::Latency => None,
        About::Service => Some("service"),
        About::WarmUp => Some("warmup"),
    }
}

#[test]
fn the_library_reads_back_what_was_recorded() {
    let histograms = histograms();
    let (text, lines) = (written(&lines(&histograms)), lines(&histograms));
    let mut entries = IntervalLogIterator::new(&text);
    let start = Duration::from_millis((START_UNIX_S * 1e3) as u64);
    assert_eq!(entries.next(), Some(Ok(LogEntry::StartTime(start))));
    for line in &lines {
        let Some(Ok(LogEntry::Interval(found))) = entries.next() else { panic!("no line for {line:?}") };
        assert_eq!(found.tag().map(|tag| tag.as_str()), tag(line));
        assert_eq!(found.start_timestamp().as_millis() as i64 - start.as_millis() as i64, (line.start_s * 1e3) as i64);
        assert_eq!(found.duration(), Duration::from_secs_f64(line.length_s));
        assert!((found.max() - line.times.max() as f64 / 1e6).abs() < 0.001, "milliseconds: {}", found.max());
        let bytes = base64::engine::general_purpose::STANDARD.decode(found.encoded_histogram()).expect("base64");
        let times: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram");
        assert_eq!(&times, line.times);
    }
    assert_eq!(entries.next(), None);
}

#[test]
fn a_log_written_bit_by_bit_reads_as_one_written_at_once() {
    let histograms = histograms();
    let lines = lines(&histograms);
    let mut text = written(&lines[..3]);
    for line in &lines[3..] {
        append(&mut text, START_UNIX_S, std::slice::from_ref(line)).expect("memory takes it");
    }
    assert!(IntervalLogIterator::new(&text).eq(IntervalLogIterator::new(&written(&lines))));
}

#[test]
fn pythons_reader_finds_what_was_recorded() {
    let histograms = histograms();
    let lines = lines(&histograms);
    let Some(found) = python::read("pythons_reader_finds_what_was_recorded", &written(&lines)) else { return };
    assert_eq!(found.lines.len(), lines.len());
    for (found, line) in found.lines.iter().zip(&lines) {
        let start_ms = ((START_UNIX_S + line.start_s) * 1e3).round() as u64;
        assert_eq!(found.tag.as_deref(), tag(line));
        assert_eq!((found.start_ms, found.end_ms), (start_ms, start_ms + (line.length_s * 1e3) as u64));
        let recorded = line.times.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()));
        assert_eq!(found.recorded, Vec::from_iter(recorded));
        assert_eq!(found.count, line.times.len());
        if line.times.is_empty() {
            continue;
        }
        assert_eq!((found.min, found.max), (line.times.min(), line.times.max()));
        let us = quantiles(line.times, &PERCENTS);
        let expected = PERCENTS.map(|percent| (us[&percent.to_string()] * 1e3).round() as u64);
        assert_eq!(found.quantiles, expected);
    }
    assert!(found.lines.iter().any(|line| line.max > LONGEST_NS / 1_000 * 999), "the longest time was among them");
    // A reader that is not told otherwise begins at StartTime: without the warm-up, with all that was measured.
    assert_eq!(found.from_start, lines.iter().filter(|line| line.about != About::WarmUp).count());
}

#[test]
fn measuring_begins_at_the_start_time_to_the_digit() {
    let nothing = histogram();
    for parts in 0..2_000 {
        let line = Line { about: About::Latency, start_s: 0.0, length_s: 1.0, times: &nothing };
        let mut text = Vec::new();
        log(&mut text, 1_700_000_000.0 + f64::from(parts) / 1_999.0, &[line]).expect("memory takes it");
        let text = String::from_utf8(text).expect("text");
        let start = text.split_once("StartTime: ").and_then(|(_, rest)| rest.split_once(" (")).expect("StartTime").0;
        let first = text.lines().last().and_then(|line| line.split_once(',')).expect("a line").0;
        assert_eq!(start, first);
    }
}

#[test]
fn the_header_says_version_and_units() {
    let text = String::from_utf8(written(&[])).expect("text");
    assert!(text.starts_with("#[Histogram log format version 1.3]\n"), "{text}");
    assert!(text.contains("nanoseconds") && text.contains("#[MaxValueDivisor: 1000000.000]"), "{text}");
    assert!(text.contains("\n\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"));
    assert!(text.lines().all(|line| line.starts_with(['#', '"'])), "{text}");
}

#[test]
fn times_that_no_log_can_hold_are_refused() {
    let (mut times, mut text) = (times(1), Vec::new());
    for (unix_s, start_s, length_s) in [
        (f64::NAN, 0.0, 1.0),
        (f64::INFINITY, 0.0, 1.0),
        (-1.0, 5.0, 1.0),
        (1.0, -2.0, 1.0),
        (1.0, f64::NAN, 1.0),
        (1.0, 0.0, -1.0),
        (1.0, 0.0, 1e300),
    ] {
        let line = Line { about: About::Latency, start_s, length_s, times: &times };
        let error = log(&mut text, unix_s, &[line]).expect_err("a time that cannot be");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    times.saturating_record_n(1, u64::MAX);
    let line = Line { about: About::Latency, start_s: 0.0, length_s: 1.0, times: &times };
    assert_eq!(log(&mut text, 1.0, &[line]).expect_err("a count that cannot be").kind(), ErrorKind::InvalidInput);
}

/// Takes so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_error_of_the_file_is_returned_wherever_it_happens() {
    let histograms = [times(1)];
    let lines = lines(&histograms);
    let whole = written(&lines).len();
    for room in (0..whole).step_by(97).chain([whole - 1]) {
        let error = log(&mut Full(room), START_UNIX_S, &lines).expect_err("it does not fit");
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{room} of {whole} bytes");
    }
    log(&mut Full(whole), START_UNIX_S, &lines).expect("it fits");
}
