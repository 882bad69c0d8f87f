//! A snapshot on one screen of 80 columns: a line a service, a line a lane, and what is wrong.

use super::behind::{self, SILENT};
use super::figures::{amount, latency, or_none, percent, time};
use super::polled;
use super::text::{date, plural};
use crate::upstreams::Beside;
use crate::wrap::fit;
use corelane::admin::watch::{LaneFigures, ProcessFigures, ServiceFigures, ServiceSnapshot, Snapshot};
use corelane::admin::wrong::{Finding, Grade, findings};
use std::fmt::Write;

const COLUMNS: usize = 80;
/// The most lanes, services, upstreams and lines of what is wrong that are shown, so that all of it stays a screen. More are counted.
const LANES_MAX: usize = 16;
const SERVICES_MAX: usize = 12;
const UPSTREAMS_MAX: usize = 12;
const WRONG_MAX: usize = 12;

/// The snapshot at a glance, with its upstreams: rates if it has a span, else what was counted since the start.
pub fn glance(snapshot: &Snapshot, upstreams: &Beside) -> String {
    let mut out = String::new();
    let (grave, others): (Vec<_>, Vec<_>) = findings(snapshot).into_iter().partition(|one| one.grade == Grade::Grave);
    let figures = ProcessFigures::of(snapshot);
    head(&mut out, snapshot, &figures);
    wrong(&mut out, &grave);
    services(&mut out, snapshot, &figures.services);
    behind(&mut out, snapshot, upstreams);
    lanes(&mut out, &figures.lanes);
    polled::lines(snapshot, &figures, COLUMNS).iter().for_each(|words| line(&mut out, words));
    if let Some(latency) = latency(figures.request_nanoseconds) {
        block(&mut out, &latency);
    }
    wrong(&mut out, &others);
    out
}

/// A line with an empty one before it.
fn block(out: &mut String, text: &str) {
    out.push('\n');
    line(out, text);
}

fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "{}", fit(text.trim_end(), COLUMNS));
}

fn more(out: &mut String, count: usize, shown: usize, what: &str) {
    if count > shown {
        line(out, &format!("  and {} more {what}: --all shows them", count - shown));
    }
}

fn head(out: &mut String, snapshot: &Snapshot, figures: &ProcessFigures<'_>) {
    let Snapshot { process, liveness, program, started_unix_nanoseconds, lanes, services, .. } = snapshot;
    let started = date(started_unix_nanoseconds / 1_000_000_000);
    line(out, &format!("process {} ({}), {program}, started {started}", process.pid, liveness.name()));
    let ProcessFigures { driver, steering, .. } = figures;
    let span = match snapshot.span_nanoseconds {
        Some(span) => format!("rates over {}", time(span)),
        None => "since its start".to_owned(),
    };
    let (services, lanes) = (plural(services.len(), "service"), plural(lanes.len(), "lane"));
    line(out, &format!("{services}, {lanes}, driver {driver}, steering {steering}; {span}"));
}

fn services(out: &mut String, snapshot: &Snapshot, figures: &[ServiceFigures]) {
    if snapshot.services.is_empty() {
        return;
    }
    block(out, "SERVICE       OPEN REQUESTS   IN B  OUT B REQ/SEND STRAYS URL");
    for (service, figures) in snapshot.services.iter().zip(figures).take(SERVICES_MAX) {
        service_line(out, service, figures);
    }
    more(out, snapshot.services.len(), SERVICES_MAX, "services");
}

fn service_line(out: &mut String, ServiceSnapshot { name, .. }: &ServiceSnapshot, figures: &ServiceFigures) {
    let text = format!(
        "{:<11} {:>6} {:>8} {:>6} {:>6} {:>8} {:>6} {}",
        fit(&name.name, 11),
        amount(figures.connections_open as f64),
        amount(figures.requests.shown()),
        amount(figures.bytes_in.shown()),
        amount(figures.bytes_out.shown()),
        or_none(figures.requests_per_send, amount),
        amount(figures.strays.shown()),
        name.url
    );
    line(out, &text);
}

fn behind(out: &mut String, snapshot: &Snapshot, upstreams: &Beside) {
    if *upstreams == Beside::Silent {
        out.push('\n');
        let _ = writeln!(out, "{}", textwrap::fill(SILENT, COLUMNS));
    }
    let seconds = snapshot.span_nanoseconds.map(|span| span as f64 / 1e9);
    let lines = behind::lines(upstreams, |_| true, seconds, COLUMNS);
    if let [_, ..] = &lines[..] {
        block(out, &behind::heading(COLUMNS));
        lines.iter().take(UPSTREAMS_MAX).for_each(|(_, words)| line(out, words));
        more(out, lines.len(), UPSTREAMS_MAX, "upstreams");
    }
}

fn lanes(out: &mut String, figures: &[LaneFigures]) {
    block(out, "LANE CPU STATE   LAST TURN BUSY REQUESTS   OPEN TURN P50 TURN P99 REQ P99 MEMORY");
    for (number, lane) in figures.iter().take(LANES_MAX).enumerate() {
        lane_line(out, number, lane);
    }
    more(out, figures.len(), LANES_MAX, "lanes");
}

fn lane_line(out: &mut String, number: usize, lane: &LaneFigures) {
    let text = format!(
        "{number:>4} {:>3} {:<8} {:>8} {:>4} {:>8} {:>6} {:>8} {:>8} {:>7} {:>6}",
        or_none(lane.cpu, |cpu| cpu.to_string()),
        lane.state,
        or_none(lane.last_turn_age_nanoseconds, time),
        or_none(lane.shares, |shares| percent(shares.productive)),
        amount(lane.requests.shown()),
        amount(lane.connections_open as f64),
        or_none(lane.turn_nanoseconds.p50, time),
        or_none(lane.turn_nanoseconds.p99, time),
        or_none(lane.request_nanoseconds.p99, time),
        amount(lane.memory_used_bytes as f64),
    );
    line(out, &text);
}

/// What is wrong: what keeps somebody from being served stands under the head, all else at the end.
fn wrong(out: &mut String, lines: &[Finding]) {
    if lines.is_empty() {
        return;
    }
    out.push('\n');
    for Finding { text, .. } in lines.iter().take(WRONG_MAX) {
        let options = textwrap::Options::new(COLUMNS).initial_indent("! ").subsequent_indent("    ");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(out, "{}", textwrap::fill(&words, options));
    }
    more(out, lines.len(), WRONG_MAX, "such lines");
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{
        Counter, Description, LaneCounter, LaneHistogram, LaneName, LaneState, Page, Reader, ServiceCounter, ServiceName,
    };

    fn page(lanes: u32, services: usize) -> Page {
        let lane = |cpu| LaneName { cpu: Some(cpu), driver: "sim".into(), steering: "table".into() };
        let service = |i| ServiceName { name: format!("echo{i}"), url: format!("tcp://[::]:{i}"), counters: Vec::new() };
        Page::heap(&Description {
            program: "example 1.0".into(),
            services: (0..services).map(service).collect(),
            lanes: (0..lanes).map(lane).collect(),
            started_unix_nanoseconds: 1_774_096_496_123_456_789,
            ..Description::default()
        })
        .unwrap()
    }

    #[test]
    fn a_working_process_is_seen_at_a_glance() {
        let page = page(2, 1);
        let reader = Reader::of(&page).unwrap();
        let before = reader.snapshot(1_000_000_000);
        let (lane, service) = (page.lane(0).unwrap(), page.service(0, 0).unwrap());
        lane.set(LaneCounter::LaneState, LaneState::Running as u64);
        lane.set(LaneCounter::LastTurnNanoseconds, 2_999_999_000);
        lane.add(LaneCounter::SleepNanoseconds, 500_000_000);
        (0..100).for_each(|_| lane.record(LaneHistogram::TurnNanoseconds, 6_500));
        lane.record_many(LaneHistogram::RequestNanoseconds, 6_500, 990);
        lane.record_many(LaneHistogram::RequestNanoseconds, 3_000_000, 10);
        service.add(ServiceCounter::Requests, 64_000);
        service.add(ServiceCounter::Sends, 4_000);
        service.set(ServiceCounter::ConnectionsOpen, 16);
        let shown = glance(&reader.snapshot(3_000_000_000).since(&before).unwrap(), &Beside::None);
        assert_eq!(
            shown,
            "process 0 (alive), example 1.0, started 2026-03-21 12:34:56 UTC
1 service, 2 lanes, driver sim, steering table; rates over 2.00s

SERVICE       OPEN REQUESTS   IN B  OUT B REQ/SEND STRAYS URL
echo0           16    32.0k      0      0       16      0 tcp://[::]:0

LANE CPU STATE   LAST TURN BUSY REQUESTS   OPEN TURN P50 TURN P99 REQ P99 MEMORY
   0   0 running    1.00us  75%    32.0k     16   7.17us   7.17us  7.17us      0
   1   1 starting        - 100%        0      0        -        -       -      0

requests from receive to send: p50 7.17us  p99 7.17us  p99.9 3.15ms
"
        );
    }

    #[test]
    fn upstreams_are_seen_at_a_glance_and_those_that_are_out_first() {
        let page = page(1, 1);
        let snapshot = Reader::of(&page).unwrap().snapshot(0);
        let behind = Beside::Shown { now: crate::upstreams::examples(2), since: None };
        let shown = glance(&snapshot, &behind);
        let lines: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("UPSTREAM")).take(3).collect();
        let expected = [
            "UPSTREAM                   STATE       OPEN   USES FAILED   IN B  OUT B BYTE P99",
            "10.0.0.1:1 a1.example:1    ejected        2     11      6  2.00M  1.00k   5.12ms",
        ];
        assert_eq!(lines[..2], expected, "{shown}");
        assert!(lines[2].starts_with("10.0.0.0:1 a0.example:1    up "), "{shown}");
        assert!(glance(&snapshot, &Beside::Silent).contains("\nupstreams are not shown: "));
    }

    #[test]
    fn how_long_the_rates_are_of_is_never_cut() {
        let page = page(16, 12);
        let reader = Reader::of(&page).unwrap();
        let before = reader.snapshot(0);
        let mut shown = reader.snapshot(99_900_000).since(&before).unwrap();
        for lane in &mut shown.lanes {
            (lane.name.driver, lane.name.steering) = ("uring".into(), "classic program".into());
        }
        let second = glance(&shown, &Beside::None).lines().nth(1).unwrap_or_default().to_owned();
        assert_eq!(second, "12 services, 16 lanes, driver uring, steering classic program; rates over 99.9ms");
    }

    #[test]
    fn what_is_wrong_is_named_with_whose_it_is() {
        let mut page = page(2, 1);
        page.note("io_uring refused; serving with epoll; remedy: allow io_uring_setup(2)");
        let (lane, service) = (page.lane(1).unwrap(), page.service(0, 0).unwrap());
        lane.set(LaneCounter::LaneState, LaneState::Running as u64);
        lane.set(LaneCounter::LastTurnNanoseconds, 1_000_000_000);
        service.add(ServiceCounter::Strays, 12);
        service.add(ServiceCounter::Requests, 5);
        let reader = Reader::of(&page).unwrap();
        let shown = glance(&reader.snapshot(8_000_000_000), &Beside::None);
        for line in [
            "! lane 1 is stalled: in one turn for 7.00s, outside of any service's call",
            "! service echo0: strays 12",
            "! note: io_uring refused; serving with epoll; remedy: allow io_uring_setup(2)",
        ] {
            assert!(shown.lines().any(|got| got == line), "{line:?} is not in\n{shown}");
        }
        assert_eq!(shown.matches("! ").count(), 3, "{shown}");
        lane.set(LaneCounter::LaneState, LaneState::Sleeping as u64);
        assert!(!glance(&reader.snapshot(8_000_000_000), &Beside::None).contains("stalled"), "who sleeps is in no turn");
    }

    #[test]
    fn any_page_fits_its_screen() {
        for (lanes, services) in [(1, 0), (2, 1), (300, 64)] {
            let page = page(lanes, services);
            let reader = Reader::of(&page).unwrap();
            let before = reader.snapshot(0);
            for lane in 0..lanes as usize {
                LaneCounter::ALL.iter().for_each(|&counter| page.lane(lane).unwrap().set(counter, u64::MAX));
                for service in 0..services {
                    ServiceCounter::ALL.iter().for_each(|&c| page.service(lane, service).unwrap().set(c, u64::MAX));
                }
            }
            let behind = Beside::Shown { now: crate::upstreams::examples(services), since: None };
            for snapshot in [reader.snapshot(u64::MAX), reader.snapshot(1).since(&before).unwrap()] {
                let shown = glance(&snapshot, &behind);
                // Two lines of head; four headings, before each an empty line; a line for those that are left out of each. A
                // finding takes two lines where a remedy stands behind it. How lanes poll takes a line, and some for their shares and for long turns.
                let rows = LANES_MAX + SERVICES_MAX + UPSTREAMS_MAX;
                assert!(shown.lines().count() <= 2 + 2 * 4 + rows + 2 * WRONG_MAX + 4 + 40, "{shown}");
                assert!(shown.lines().all(|line| line.chars().count() <= COLUMNS), "{shown}");
            }
        }
    }
}
