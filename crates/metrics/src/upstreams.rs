//! Upstreams of the services that have some: asked of the lanes, and told as families of metrics.
//!
//! A lane that does not answer is waited for for a moment, once, and not asked again until it has answered. Meanwhile what was known last is told, so that counters never go back.

use crate::names::{Family, Labels};
use corelane::admin::watch::{Kind, Snapshot};
use corelane::lanes::LiveServices;
use corelane_upstreams::{Gathering, Row, Shown, State};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long lanes are waited for with each question, and with all: a lane that is stuck does not answer the first.
const PATIENCE: Duration = Duration::from_millis(100);
const PATIENCE_IN_ALL: Duration = Duration::from_secs(1);

/// For who looks again so soon, nobody is asked anew.
const FRESH: Duration = Duration::from_millis(100);

/// The most upstreams that metrics tell, so that an answer stays below some megabytes.
pub(crate) const TOLD_MAX: usize = 1_024;

/// Bounds of the histogram: powers of two of microseconds, from 64 µs to 67 s.
const BOUNDS: RangeInclusive<u32> = 6..=26;

/// Whether a service of a process has upstreams: where none has, nobody needs to be asked.
#[must_use]
pub fn has_upstreams(snapshot: &Snapshot) -> bool {
    snapshot.services.iter().any(|service| service.values.own("upstreams").is_some_and(|count| count > 0))
}

/// What is known of upstreams.
#[derive(Default)]
pub(crate) struct Watched {
    /// None where no lanes run beside.
    services: Option<LiveServices>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    asked_at: Option<Instant>,
    shown: Arc<[Shown]>,
}

impl Watched {
    /// Of these services.
    pub fn new(services: LiveServices) -> Self {
        Self { services: Some(services), ..Self::default() }
    }

    /// All upstreams, as of now, or as they were when all lanes answered last.
    pub fn shown(&self, snapshot: &Snapshot) -> Arc<[Shown]> {
        let Some(services) = self.services.as_ref().filter(|_| has_upstreams(snapshot)) else { return Arc::default() };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.asked_at.is_none_or(|at| at.elapsed() >= FRESH) {
            if let Some(shown) = gathered(services) {
                known.shown = shown.into();
            }
            known.asked_at = Some(Instant::now());
        }
        known.shown.clone()
    }
}

fn gathered(services: &LiveServices) -> Option<Vec<Shown>> {
    let (mut gathering, due) = (Gathering::new(), Instant::now() + PATIENCE_IN_ALL);
    while let Some(question) = gathering.question() {
        let left = due.saturating_duration_since(Instant::now()).min(PATIENCE);
        let answers = match question.service {
            None => services.glance(&question.words, left),
            Some(number) => services.glance_one(number, &question.words, left),
        };
        for answered in answers? {
            if let Ok(page) = serde_json::from_str(&answered.answer) {
                gathering.heard(&answered.service, answered.number, page);
            }
        }
    }
    Some(gathering.shown())
}

/// Samples of an upstream: what is told by the label of the family's own, if it has one, and the value.
type Values = Vec<(Option<&'static str>, u64)>;

/// Each family by its name, kind, unit, meaning, the label of its own, and what it has of an upstream.
type FamilyOf = (&'static str, Kind, &'static str, &'static str, &'static str, fn(&Row) -> Values);

const STATE: FamilyOf = (
    "state",
    Kind::Gauge,
    "state",
    "The upstream's state: 0 up, 1 rising, 2 ejected, 3 down, 4 drained, 5 leaving, 6 unresolved; the worst of all lanes.",
    "",
    |row| one(State::ALL.iter().position(|state| *state == row.state).unwrap_or(State::ALL.len()) as u64),
);

const FAILURES: FamilyOf = (
    "failures",
    Kind::Counter,
    "failures",
    "How often it failed (label `reason`: `connect` it took no connection, `timeout` none in time, `reset` it broke off, `answer` it answered what is none).",
    "reason",
    |row| {
        let counts = &row.counts;
        vec![
            (Some("connect"), counts.failed_connect),
            (Some("timeout"), counts.failed_timeout),
            (Some("reset"), counts.failed_reset),
            (Some("answer"), counts.failed_answer),
        ]
    },
);

const BYTES: FamilyOf = (
    "passed",
    Kind::Counter,
    "bytes",
    "Bytes that it was sent, or that came from it (label `direction`: `to`, `from`).",
    "direction",
    |row| vec![(Some("to"), row.counts.bytes_to), (Some("from"), row.counts.bytes_from)],
);

const FAMILIES: &[FamilyOf] = &[
    STATE,
    ("weight", Kind::Gauge, "1", "Its weight.", "", |row| one(row.weight.into())),
    ("open", Kind::Gauge, "uses", "Requests, or clients of a proxy, that are under way there.", "", |row| one(row.uses.into())),
    ("connections", Kind::Gauge, "connections", "Connections to it that are open.", "", |row| one(row.connections.into())),
    ("uses", Kind::Counter, "uses", "Requests, or clients of a proxy, that it was given.", "", |row| one(row.counts.uses)),
    ("connects", Kind::Counter, "connections", "Connections to it that were opened.", "", |row| one(row.counts.connects)),
    FAILURES,
    ("retries", Kind::Counter, "uses", "Uses that were begun anew elsewhere, because it failed.", "", |row| {
        one(row.counts.retries)
    }),
    ("ejections", Kind::Counter, "ejections", "How often it was left out for a while.", "", |row| one(row.counts.ejections)),
    ("checks_failed", Kind::Counter, "checks", "Checks of it that failed.", "", |row| one(row.counts.checks_failed)),
    (
        "full",
        Kind::Counter,
        "uses",
        "Uses that it was not given, because it, or their client there, had as many as may be.",
        "",
        |row| one(row.counts.full),
    ),
    BYTES,
];

fn one(value: u64) -> Values {
    vec![(None, value)]
}

fn family((name, kind, unit, meaning, ..): &FamilyOf) -> Option<Family> {
    Family::of("upstream", name, *kind, unit, meaning)
}

/// That of the times until the first bytes.
pub(crate) fn first_bytes() -> Family {
    let meaning = "How long its first byte took, from the beginning of a use.";
    Family::histogram_of("upstream", "first_byte_nanoseconds", "nanoseconds", meaning)
}

/// All families, for the page that names them.
pub(crate) fn families() -> impl Iterator<Item = Family> {
    FAMILIES.iter().filter_map(family).chain([first_bytes()])
}

/// Each upstream that is told, with its labels.
pub(crate) fn labelled<'a>(shown: &'a [Shown], snapshot: &Snapshot) -> Vec<(Labels, &'a Row)> {
    let labels = |one: &Shown| {
        let url = snapshot.services.get(one.number).map_or_else(String::new, |service| service.name.url.clone());
        let address = one.row.address.as_ref().map_or_else(String::new, ToString::to_string);
        let pairs = [("service", one.service.clone()), ("url", url), ("upstream", one.row.name.clone()), ("address", address)];
        pairs.map(|(label, value)| (label.to_owned(), value)).to_vec()
    };
    shown.iter().take(TOLD_MAX).map(|one| (labels(one), &one.row)).collect()
}

/// Each family with its samples.
pub(crate) fn samples(rows: &[(Labels, &Row)]) -> impl Iterator<Item = (Family, Vec<(Labels, u64)>)> {
    FAMILIES.iter().filter_map(|told| {
        let (.., label, values) = told;
        let of_row = |(labels, row): &(Labels, &Row)| {
            let sample = |(of, value): (Option<&str>, u64)| {
                let own = of.map(|of| ((*label).to_owned(), of.to_owned()));
                (labels.iter().cloned().chain(own).collect(), value)
            };
            values(row).into_iter().map(sample).collect::<Vec<_>>()
        };
        Some((family(told)?, rows.iter().flat_map(of_row).collect()))
    })
}

/// The sum of an upstream's times in seconds, and how many there are up to each bound from the one before.
pub(crate) fn bounded(row: &Row) -> (f64, Vec<(f64, u64)>) {
    let mut bounds: Vec<(Duration, u64)> = BOUNDS.map(|power| (Duration::from_micros(1 << power), 0)).collect();
    let (mut beyond, mut before) = (0, 0);
    for (end, sum) in row.times.cumulative() {
        let count = sum - std::mem::replace(&mut before, sum);
        match bounds.iter_mut().find(|(bound, _)| end <= *bound) {
            Some((_, counted)) => *counted += count,
            None => beyond += count,
        }
    }
    let mut bounds: Vec<(f64, u64)> = bounds.into_iter().map(|(bound, count)| (bound.as_secs_f64(), count)).collect();
    bounds.push((f64::INFINITY, beyond));
    (row.times.sum().as_secs_f64(), bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_below_their_bounds() {
        let row = r#"{"name":"a:1","address":null,"state":"up","weight":1,"uses_open":0,"connections_open":0,"fault":null,"uses":3,"connects":0,
            "failed_connect":0,"failed_timeout":0,"failed_reset":0,"failed_answer":0,"retries":0,"ejections":0,"checks_failed":0,"bytes_to":0,"bytes_from":0,
            "microseconds":[[4,2],[64,1],[80,5],[134217728,7]],"microseconds_sum":1500000}"#;
        let (sum, bounds) = bounded(&serde_json::from_str(row).unwrap());
        assert_eq!((sum, bounds.len(), bounds[0], bounds[1]), (1.5, 22, (0.000_064, 3), (0.000_128, 5)));
        assert_eq!((bounds[20], bounds[21]), ((67.108_864, 0), (f64::INFINITY, 7)));
    }
}
