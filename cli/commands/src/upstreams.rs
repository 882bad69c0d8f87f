//! Upstreams of a running process, asked of its lanes, and as they are shown in lines.

use corelane::admin::control::{ControlError, ask_service_within, ask_services_within};
use corelane::admin::watch::{Liveness, ProcessId, RunDirectory, Snapshot, list};
use corelane_metrics::has_upstreams;
use corelane_upstreams::{Gathering, Page, Question, Row, Shown, since};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a process is waited for where upstreams are one thing among others.
const GLANCE: Duration = Duration::from_millis(300);

/// One lane's answer for one service.
#[derive(Deserialize)]
pub struct Answer<T> {
    service: String,
    number: usize,
    pub answer: T,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Fault {
    Asking(ControlError),
    /// What came is no answer of this version.
    Answer(serde_json::Error),
}

/// The answers to these words, of the process whose page is at `page`.
pub fn answers<T: for<'a> Deserialize<'a>>(page: &Path, words: &str, patience: Duration) -> Result<Vec<Answer<T>>, Fault> {
    read(ask_services_within(page, words, patience))
}

fn read<T: for<'a> Deserialize<'a>>(answer: Result<String, ControlError>) -> Result<Vec<Answer<T>>, Fault> {
    serde_json::from_str(&answer.map_err(Fault::Asking)?).map_err(Fault::Answer)
}

/// All upstreams of a process, each of a service once.
pub fn gathered(page: &Path, patience: Duration) -> Result<Vec<Shown>, Fault> {
    let (mut gathering, due) = (Gathering::new(), Instant::now() + patience);
    while let Some(question) = gathering.question() {
        // A socket takes no time of nothing.
        let left = due.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let Question { service, words } = question;
        let answer = match service {
            None => ask_services_within(page, &words, left),
            Some(number) => ask_service_within(page, number, &words, left),
        };
        for Answer { service, number, answer } in read::<Page>(answer)? {
            gathering.heard(&service, number, answer);
        }
    }
    Ok(gathering.shown())
}

/// Upstreams beside a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Beside {
    /// No service has one, or nobody can be asked.
    #[default]
    None,
    /// The process does not answer at once.
    Silent,
    /// What there is, since the start, and since the last look if there was one.
    Shown { now: Vec<Shown>, since: Option<Vec<Shown>> },
}

impl Beside {
    /// Those of the process of a snapshot. Counters are taken since `before`.
    pub fn of(snapshot: &Snapshot, before: &Self) -> Self {
        if snapshot.liveness != Liveness::Alive || !has_upstreams(snapshot) {
            return Self::None;
        }
        match page_of(snapshot.process).and_then(|page| gathered(&page, GLANCE).ok()) {
            None => Self::Silent,
            Some(now) => {
                let since = before.now().map(|before| since(&now, before));
                Self::Shown { now, since }
            }
        }
    }

    /// Whether counts are those since the last look.
    pub fn is_since(&self) -> bool {
        matches!(self, Self::Shown { since: Some(_), .. })
    }

    /// All of them, since the start.
    pub fn now(&self) -> Option<&[Shown]> {
        match self {
            Self::Shown { now, .. } => Some(now),
            Self::None | Self::Silent => None,
        }
    }

    /// All of them, since the last look if there was one.
    pub fn shown(&self) -> &[Shown] {
        match self {
            Self::Shown { now, since } => since.as_deref().unwrap_or(now),
            Self::None | Self::Silent => &[],
        }
    }
}

/// The page of a process that can be asked.
fn page_of(process: ProcessId) -> Option<PathBuf> {
    let pages =
        RunDirectory::existing().into_iter().filter_map(Result::ok).flat_map(|directory| list(&directory).unwrap_or_default());
    pages.filter(|page| page.published).find(|page| page.process == process).map(|page| page.path)
}

/// Where an upstream is, or why that is not known.
pub fn place(row: &Row) -> String {
    row.address.as_ref().map(ToString::to_string).or_else(|| row.fault.clone()).unwrap_or_else(|| "-".to_owned())
}

/// Of which service one is: its number stands behind a name that several have.
fn service(one: &Shown, shown: &[Shown]) -> String {
    let is_namesake = |other: &Shown| other.service == one.service && other.number != one.number;
    if shown.iter().any(is_namesake) { format!("{} {}", one.service, one.number) } else { one.service.clone() }
}

/// The time within which this part of all uses had their first bytes.
pub fn within(row: &Row, part: f64) -> String {
    row.times.within(part).map_or_else(|| "-".to_owned(), |time| format!("{time:?}"))
}

/// The columns behind the name.
const COLUMNS: [&str; 11] =
    ["address", "state", "weight", "open", "uses", "failed", "retries", "p50", "p99", "bytes-to", "bytes-from"];

/// A line for each upstream, its columns as wide as they have to be. The services stand before them where there are several, and behind all why a name has no address.
pub fn table(shown: &[Shown]) -> String {
    let has_services = shown.iter().any(|one| one.number != shown[0].number);
    let cells = |one: &Shown| {
        let (row, counts) = (&one.row, &one.row.counts);
        let numbers = [u64::from(row.weight), row.uses.into(), counts.uses, counts.failures(), counts.retries];
        let bytes = [counts.bytes_to, counts.bytes_from].map(|number| number.to_string());
        let address = row.address.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let first = [row.name.clone(), address, row.state.to_string()];
        let service = has_services.then(|| service(one, shown));
        let why = row.fault.clone().unwrap_or_default();
        let times = [within(row, 0.5), within(row, 0.99)];
        let numbers = numbers.map(|number| number.to_string());
        service.into_iter().chain(first).chain(numbers).chain(times).chain(bytes).chain([why]).collect()
    };
    let why = if shown.iter().any(|one| one.row.fault.is_some()) { "why" } else { "" };
    let before = has_services.then_some("service").into_iter().chain(["upstream"]);
    let head: Vec<String> = before.chain(COLUMNS).chain([why]).map(str::to_owned).collect();
    let lines: Vec<Vec<String>> = [head].into_iter().chain(shown.iter().map(cells)).collect();
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let line = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Upstreams for tests of what shows them.
#[cfg(test)]
pub fn examples(count: usize) -> Vec<Shown> {
    let row = |number: usize| {
        let state = ["up", "ejected"][number % 2];
        let text = format!(
            r#"{{"service":"proxy","number":0,"name":"a{number}.example:1","address":"10.0.0.{number}:1","state":"{state}","weight":1,"uses_open":2,"connections_open":1,
            "fault":null,"uses":11,"connects":9,"failed_connect":2,"failed_timeout":0,"failed_reset":1,"failed_answer":3,"retries":4,"ejections":1,"checks_failed":0,
            "bytes_to":1000,"bytes_from":2000000,"microseconds":[[112,11],[5120,2]],"microseconds_sum":9000}}"#
        );
        serde_json::from_str(&text).unwrap()
    };
    (0..count).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_are_shown_in_columns() {
        let shown = table(&examples(2));
        let second = shown.lines().nth(2).unwrap().split_whitespace().collect::<Vec<_>>();
        let expected = ["a1.example:1", "10.0.0.1:1", "ejected", "1", "2", "11", "6", "4", "112µs", "5.12ms", "1000", "2000000"];
        assert_eq!(second, expected);
        assert!(!shown.starts_with("service") && !shown.contains("why"), "{shown}");
        let mut several = examples(3);
        (several[1].number, several[2].number) = (1, 2);
        several[2].service = "http".to_owned();
        (several[2].row.address, several[2].row.fault) = (None, Some("the host \"a\" is not known".to_owned()));
        let shown = table(&several);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with("service  upstream") && lines[0].ends_with("  why"), "{shown}");
        assert!(lines[1].starts_with("proxy 0  a0.") && lines[2].starts_with("proxy 1  a1."), "{shown}");
        assert!(lines[3].starts_with("http     a2.example:1  -           up"), "{shown}");
        assert!(lines[3].ends_with("  the host \"a\" is not known") && lines[1].len() < lines[3].len(), "{shown}");
        let json: serde_json::Value = serde_json::to_value(&examples(1)[0]).unwrap();
        assert_eq!((&json["service"], &json["microseconds"]), (&"proxy".into(), &serde_json::json!([[112, 11], [5120, 2]])));
    }
}
