//! All of a snapshot as text for people, 80 columns wide.

use super::behind::SILENT;
use super::figures::or_none;
use crate::upstreams::{Beside, place, within};
use corelane::admin::watch::{
    Counter, Histogram, Kind, LaneHistogram, LaneSnapshot, ProcessFigures, Quantiles, Snapshot, Value, Values,
};
use corelane_upstreams::Shown;
use std::fmt::Write;

const COLUMNS: usize = 80;
const NAME_COLUMNS: usize = 32;
const VALUE_COLUMNS: usize = 20;
const RATE_COLUMNS: usize = 12;

/// The snapshot as text: what the process lacks, all lanes together, each service on all lanes, and each lane. If it has a
/// span, counters have a second column with the rate per second. Upstreams stand behind services, since the start of the process.
pub fn text(snapshot: &Snapshot, upstreams: &Beside) -> String {
    let mut writer = Writer { out: String::new(), snapshot, figures: ProcessFigures::of(snapshot) };
    writer.process();
    writer.notes();
    writer.heading("", "all lanes");
    writer.values(&snapshot.total);
    for service in &snapshot.services {
        writer.heading("", &format!("service {} at {}, all lanes", service.name.name, service.name.url));
        writer.values(&service.values);
    }
    writer.upstreams(upstreams);
    for (index, lane) in snapshot.lanes.iter().enumerate() {
        writer.lane(index, lane);
    }
    writer.out
}

struct Writer<'a> {
    out: String,
    snapshot: &'a Snapshot,
    figures: ProcessFigures<'a>,
}

impl Writer<'_> {
    fn process(&mut self) {
        let Snapshot { process, liveness, program, started_unix_nanoseconds, lanes, services, .. } = self.snapshot;
        let started = date(started_unix_nanoseconds / 1_000_000_000);
        let (pid, liveness) = (process.pid, liveness.name());
        self.wrapped("", &format!("process {pid} ({liveness}), {program}, started {started}"));
        let span = self.snapshot.span_nanoseconds.map(|span| format!(", over {:.3} s", span as f64 / 1e9));
        let (lanes, services) = (plural(lanes.len(), "lane"), plural(services.len(), "service"));
        self.wrapped("", &format!("{lanes}, {services}{}", span.unwrap_or_default()));
    }

    fn notes(&mut self) {
        for note in &self.snapshot.notes {
            self.wrapped("  ", &format!("note: {note}"));
        }
        if self.snapshot.notes_refused > 0 {
            self.wrapped("  ", &format!("note: {} more, for which there was no room", self.snapshot.notes_refused));
        }
    }

    fn upstreams(&mut self, upstreams: &Beside) {
        if *upstreams == Beside::Silent {
            self.heading("", SILENT);
        }
        for Shown { service, row, .. } in upstreams.now().unwrap_or_default() {
            let (name, state) = (&row.name, row.state);
            self.heading("", &format!("upstream {name} of {service} at {}: {state}, weight {}", place(row), row.weight));
            let counts = &row.counts;
            let values = [
                ("uses_open", row.uses.into()),
                ("connections_open", row.connections.into()),
                ("uses", counts.uses),
                ("connects", counts.connects),
                ("failed_connect", counts.failed_connect),
                ("failed_timeout", counts.failed_timeout),
                ("failed_reset", counts.failed_reset),
                ("failed_answer", counts.failed_answer),
                ("retries", counts.retries),
                ("ejections", counts.ejections),
                ("checks_failed", counts.checks_failed),
                ("full", counts.full),
                ("bytes_to", counts.bytes_to),
                ("bytes_from", counts.bytes_from),
            ];
            for (name, value) in values {
                let _ = writeln!(self.out, "  {name:<NAME_COLUMNS$}{value:>VALUE_COLUMNS$}");
            }
            let _ = writeln!(self.out, "  first bytes: p50 {}, p99 {}", within(row, 0.5), within(row, 0.99));
        }
    }

    fn lane(&mut self, index: usize, lane: &LaneSnapshot) {
        let state = lane.state().map_or("in a state unknown here", |state| state.name());
        let cpu = lane.name.cpu.map_or("no CPU".to_owned(), |cpu| format!("CPU {cpu}"));
        let (driver, steering) = (&lane.name.driver, &lane.name.steering);
        let age = self.figures.lanes[index].last_turn_age_nanoseconds;
        let turn = age.map(|age| format!(", last turn {:.3} s before", age as f64 / 1e9));
        let turn = turn.unwrap_or_default();
        let torn = if lane.is_whole { "" } else { ", read while it wrote" };
        self.heading("", &format!("lane {index}: {state}, {cpu}, driver {driver}, steering {steering}{turn}{torn}"));
        self.values(&lane.values);
        LaneHistogram::ALL.iter().for_each(|&which| self.histogram(which, lane.histogram(which)));
        for (service, values) in self.snapshot.services.iter().zip(&lane.services) {
            self.heading("  ", &format!("service {} at {}, lane {index}", service.name.name, service.name.url));
            self.values(values);
        }
        if let Some(packets) = &lane.packets {
            self.heading("  ", &format!("packets, lane {index}"));
            self.values(&packets.values);
            for stream in &packets.streams {
                self.heading("  ", &format!("packets of {}, lane {index}", stream.name));
                self.values(&stream.values);
            }
        }
    }

    fn values<C: Counter>(&mut self, values: &Values<C>) {
        for Value { name, kind, unit, value } in values.all() {
            // A mark means something for one lane only, and stands in its heading.
            if kind == Kind::Mark {
                continue;
            }
            let rate = Some(value).filter(|_| kind == Kind::Counter).and_then(|n| self.snapshot.per_second(n));
            let rate = rate.map(|rate| if rate < 1e12 { format!("{rate:.0}") } else { format!("{rate:.2e}") });
            let rate = rate.map(|rate| format!("{rate:>RATE_COLUMNS$}/s"));
            let _ = write!(self.out, "  {:<NAME_COLUMNS$}{value:>VALUE_COLUMNS$} ", name);
            let _ = writeln!(self.out, "{:<11}{}", unit, rate.unwrap_or_default());
        }
        for ratio in C::RATIOS {
            if let Some(value) = values.ratio(ratio) {
                let _ = writeln!(self.out, "  {:<NAME_COLUMNS$}{value:>VALUE_COLUMNS$.3}", ratio.name);
            }
        }
    }

    /// How many values there were, and which one half, 99 and 99.9 of 100 of them do not exceed.
    fn histogram(&mut self, which: LaneHistogram, histogram: &Histogram) {
        let Quantiles { p50, p99, p999, .. } = Quantiles::of(histogram);
        let [half, most, nearly_all] = [p50, p99, p999].map(|value| or_none(value, |value| value.to_string()));
        let name = which.declaration().name;
        let _ = writeln!(self.out, "  {name:<NAME_COLUMNS$}{:>VALUE_COLUMNS$} values", histogram.count());
        let _ = writeln!(self.out, "      p50 {half}, p99 {most}, p999 {nearly_all} {}", which.declaration().unit);
    }

    fn heading(&mut self, indent: &str, text: &str) {
        self.out.push('\n');
        self.wrapped(indent, text);
    }

    /// Writes a paragraph; its lines after the first are indented by four more.
    fn wrapped(&mut self, indent: &str, text: &str) {
        let deeper = format!("{indent}    ");
        let options = textwrap::Options::new(COLUMNS).initial_indent(indent).subsequent_indent(&deeper);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(self.out, "{}", textwrap::fill(&words, options));
    }
}

pub fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Date and time of a number of seconds since 1970, in the Gregorian calendar and UTC.
pub fn date(seconds: u64) -> String {
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    while days >= year_days(year) {
        days -= year_days(year);
        year += 1;
    }
    let february = year_days(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", days + 1)
}

fn year_days(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    365 + u64::from(leap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{
        CounterName, Description, LaneCounter, LaneName, LaneState, Page, Reader, ServiceCounter, ServiceName,
    };

    fn page(url: &str) -> Page {
        let lane = |cpu| LaneName { cpu, driver: "sim".into(), steering: "table".into() };
        let apples = CounterName { name: "apples".into(), kind: Kind::Counter, unit: "apples".into() };
        let mut page = Page::heap(&Description {
            program: "example 1.0".into(),
            services: vec![ServiceName { name: "echo".into(), url: url.into(), counters: vec![apples] }],
            lanes: vec![lane(Some(3)), lane(None)],
            started_unix_nanoseconds: 1_774_096_496_123_456_789,
            ..Description::default()
        })
        .unwrap();
        page.note("io_uring refused: Operation not permitted (seccomp); serving with epoll; remedy: allow io_uring_setup(2)");
        page
    }

    fn all_max(page: &Page) {
        for lane in 0..2 {
            let (row, service) = (page.lane(lane).unwrap(), page.service(lane, 0).unwrap());
            LaneCounter::ALL.iter().for_each(|&counter| row.set(counter, u64::MAX));
            ServiceCounter::ALL.iter().for_each(|&counter| service.set(counter, u64::MAX));
        }
    }

    #[test]
    fn a_quiet_page_shows_every_counter() {
        let snapshot = Reader::of(&page("tcp://[::]:7")).unwrap().snapshot(0);
        let all = text(&snapshot, &Beside::None);
        let head = "process 0 (alive), example 1.0, started 2026-03-21 12:34:56 UTC
2 lanes, 1 service
  note: io_uring refused: Operation not permitted (seccomp); serving with epoll;
      remedy: allow io_uring_setup(2)

all lanes
  turns_productive                                   0 turns
";
        assert!(all.lines().map(str::trim_end).zip(head.lines()).all(|(shown, due)| shown == due), "{all}");
        let headings = ["service echo at tcp://[::]:7, all lanes", "lane 0: starting, CPU 3, driver sim, steering table"];
        let headings = headings
            .into_iter()
            .chain(["  service echo at tcp://[::]:7, lane 0", "lane 1: starting, no CPU, driver sim, steering table"]);
        headings.for_each(|heading| assert_eq!(all.lines().filter(|line| *line == heading).count(), 1, "{heading}"));
        for entry in LaneCounter::DECLARED.iter().chain(ServiceCounter::DECLARED).filter(|entry| entry.kind != Kind::Mark) {
            assert_eq!(all.matches(&format!("  {} ", entry.name)).count(), 3, "{}", entry.name);
        }
        assert_eq!(
            all.matches(&format!("  {:<32}{:>20} apples", "apples", 0)).count(),
            3,
            "a service's own is shown as the others are"
        );
    }

    #[test]
    fn totals_rates_and_states_are_shown() {
        let page = page("tcp://[::]:7");
        let reader = Reader::of(&page).unwrap();
        let before = reader.snapshot(1_000_000_000);
        page.lane(0).unwrap().set(LaneCounter::LaneState, LaneState::Spinning as u64);
        page.lane(1).unwrap().set(LaneCounter::LaneState, 77);
        page.lane(1).unwrap().set(LaneCounter::LastTurnNanoseconds, 500_000_000);
        page.service(0, 0).unwrap().add(ServiceCounter::Requests, 30);
        page.service(1, 0).unwrap().add(ServiceCounter::Requests, 10);
        page.service(1, 0).unwrap().add(ServiceCounter::Sends, 16);
        page.service(1, 0).unwrap().set(ServiceCounter::ConnectionsOpen, 5);
        let text = text(&reader.snapshot(3_000_000_000).since(&before).unwrap(), &Beside::None);
        for line in [
            "2 lanes, 1 service, over 2.000 s",
            "  requests                                          40 requests             20/s",
            "  requests                                          30 requests             15/s",
            "  connections_open                                   5 connections",
            "  requests_per_send                              2.500",
            "lane 0: spinning, CPU 3, driver sim, steering table",
            "lane 1: in a state unknown here, no CPU, driver sim, steering table, last turn",
            "    2.500 s before",
        ] {
            assert!(text.lines().any(|got| got.trim_end() == line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn no_line_is_longer_than_80_columns() {
        let page = page(&"tcp://[::]:60007/ä".repeat(20));
        let reader = Reader::of(&page).unwrap();
        let before = reader.snapshot(0);
        all_max(&page);
        let snapshot = reader.snapshot(u64::MAX);
        for snapshot in [&snapshot, &snapshot.since(&before).unwrap(), &reader.snapshot(1).since(&before).unwrap()] {
            let behind = Beside::Shown { now: crate::upstreams::examples(2), since: None };
            for line in text(snapshot, &behind).lines() {
                assert!(line.chars().count() <= COLUMNS, "{line}");
            }
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_709_251_199), "2024-02-29 23:59:59 UTC");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59:59 UTC");
        assert_eq!(date(4_107_542_400), "2100-03-01 00:00:00 UTC");
        assert_eq!(date(u64::MAX / 1_000_000_000), "2554-07-21 23:34:33 UTC");
    }
}
