//! What each counter is called outside of the program. `docs/metrics.md` is made of this.
//!
//! Prometheus wants base units at the end of a name (seconds, bytes), `_total` behind counters, and labels for lane and service;
//! OpenTelemetry wants dots, and the unit (UCUM) beside the name. Both follow from the catalogue by one rule, so a name is as stable as its counter's.

use corelane::admin::watch::{Counter, Declaration, Kind, LaneHistogram, PacketCounter};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Labels of a sample, each with its value.
pub type Labels = Vec<(String, String)>;

/// What one counter, gauge or histogram is called.
#[derive(Clone, Debug)]
pub struct Family {
    /// Its name for Prometheus, without unit and `_total`.
    pub(crate) stem: String,
    /// Its name for OpenTelemetry.
    pub opentelemetry: String,
    /// Its unit as Prometheus has it; none where things are counted.
    pub(crate) unit: Option<Unit>,
    /// Its unit for OpenTelemetry, in UCUM.
    pub ucum: String,
    /// How it changes.
    pub(crate) metric: MetricType,
    /// By what the counter's value is divided for the unit.
    pub(crate) divisor: f64,
    /// What it says.
    pub meaning: String,
}

const NANOSECONDS: &str = "nanoseconds";

impl Family {
    /// The name in the exposition, as a query has it.
    pub fn prometheus(&self) -> String {
        let unit = self.unit.as_ref().map_or(String::new(), |unit| format!("_{}", unit.as_str()));
        let end = if matches!(self.metric, MetricType::Counter) { "_total" } else { "" };
        format!("{}{unit}{end}", self.stem)
    }

    fn new(scope: &str, name: &str, unit: &str, metric: MetricType, meaning: &str) -> Self {
        let is_time = unit == NANOSECONDS;
        let is_memory = unit == "bytes";
        let name = if is_time { name.strip_suffix("_nanoseconds").unwrap_or(name) } else { name };
        let name = if is_memory { name.strip_prefix("bytes_").unwrap_or(name) } else { name };
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let (base, ucum, divisor) = match unit {
            NANOSECONDS => (Some(Unit::Seconds), "s".to_owned(), 1e9),
            "bytes" => (Some(Unit::Bytes), "By".to_owned(), 1.0),
            // A number of nothing (UCUM section 4.2).
            "1" => (None, "1".to_owned(), 1.0),
            things => (None, format!("{{{things}}}"), 1.0),
        };
        let (stem, opentelemetry) = (format!("corelane_{scope}_{name}"), format!("corelane.{scope}.{name}"));
        Self { stem, opentelemetry, unit: base, ucum, metric, divisor, meaning: meaning.to_owned() }
    }

    /// Of a counter that is declared, in `scope`. None for marks, which are told in other words.
    #[must_use]
    pub fn of(scope: &str, name: &str, kind: Kind, unit: &str, meaning: &str) -> Option<Self> {
        let metric = match kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Mark => return None,
        };
        Some(Self::new(scope, name, unit, metric, meaning))
    }

    /// Of a counter of the catalogue.
    pub(crate) fn declared<C: Counter>(scope: &str, counter: C) -> Option<Self> {
        let Declaration { name, kind, unit, meaning, .. } = counter.declaration();
        Self::of(scope, name, *kind, unit, meaning)
    }

    /// Of a counter of the packet path. Marks of it are numbers whose meaning tells what they stand for.
    pub(crate) fn of_packets(counter: PacketCounter) -> Self {
        let Declaration { name, kind, unit, meaning, .. } = counter.declaration();
        let metric = if *kind == Kind::Counter { MetricType::Counter } else { MetricType::Gauge };
        Self::new("packets", name.strip_prefix("packets_").unwrap_or(name), unit, metric, meaning)
    }

    /// Of a counter of a service's own: the service's name is part of it, as two may count different things by one name.
    pub(crate) fn own(service: &str, name: &str, kind: Kind, unit: &str, meaning: &str) -> Option<Self> {
        let service: String = service.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        Self::of("service", &format!("{service}_{name}"), kind, unit, meaning)
    }

    /// Of a histogram.
    pub(crate) fn histogram(which: LaneHistogram) -> Self {
        let declared = which.declaration();
        Self::histogram_of("lane", declared.name, declared.unit, declared.meaning)
    }

    /// The same for another scope.
    pub(crate) fn histogram_of(scope: &str, name: &str, unit: &str, meaning: &str) -> Self {
        Self::new(scope, name, unit, MetricType::Histogram, meaning)
    }
}

/// Those that are told in other words than a counter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reworded {
    Ready,
    Started,
    State,
    LastTurn,
    Stalled,
    Buckets,
    Displaced,
}

impl Reworded {
    pub const ALL: [Self; 7] =
        [Self::Ready, Self::Started, Self::Displaced, Self::State, Self::LastTurn, Self::Stalled, Self::Buckets];

    pub fn family(self) -> Family {
        let (scope, name, unit, meaning) = match self {
            Self::Ready => (
                "process",
                "ready",
                "1",
                "1 while every lane serves, none drains, and no interface of theirs is down, as /readyz; else 0.",
            ),
            Self::Started => ("process", "start_time_nanoseconds", NANOSECONDS, "When the process started, since 1970."),
            Self::State => (
                "lane",
                "state",
                "state",
                "The lane's state: 0 starting, 1 running, 2 spinning, 3 sleeping, 4 draining, 5 ended.",
            ),
            Self::LastTurn => ("lane", "last_turn_age_nanoseconds", NANOSECONDS, "The time since the lane's last turn began."),
            Self::Stalled => (
                "lane",
                "stalled_nanoseconds",
                NANOSECONDS,
                "The time that a stalled lane has been in its turn; 0 if it is not stalled.",
            ),
            Self::Displaced => (
                "process",
                "dashboard_streams_displaced",
                "streams",
                "Streams of the dashboard that ended because more look on than may: of the address that had most, the oldest.",
            ),
            Self::Buckets => ("lane", "buckets", "buckets", "How many buckets of the table the lane serves."),
        };
        let metric = if self == Self::Displaced { MetricType::Counter } else { MetricType::Gauge };
        Family::new(scope, name, unit, metric, meaning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{LaneCounter, ServiceCounter};
    use std::collections::HashSet;

    fn all() -> Vec<Family> {
        let lane = LaneCounter::ALL.iter().filter_map(|&counter| Family::declared("lane", counter));
        let service = ServiceCounter::ALL.iter().filter_map(|&counter| Family::declared("service", counter));
        let histograms = LaneHistogram::ALL.into_iter().map(Family::histogram);
        let service = service.chain(PacketCounter::ALL.iter().map(|&counter| Family::of_packets(counter)));
        Reworded::ALL.map(Reworded::family).into_iter().chain(lane).chain(service).chain(histograms).collect()
    }

    #[test]
    fn names_are_told_apart_and_are_names() {
        let mut seen = HashSet::new();
        for family in all() {
            let name = family.prometheus();
            assert!(
                name.starts_with("corelane_") && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')),
                "{name}"
            );
            assert!(!name.contains("nanosecond") && !name.contains("bytes_bytes"), "{name}");
            assert!(seen.insert(name.clone()) && seen.insert(family.opentelemetry.clone()), "{name}");
            assert!(!family.ucum.is_empty() && !family.meaning.is_empty(), "{name}");
        }
    }

    #[test]
    fn units_are_base_units_at_the_end() {
        let name = |family: Option<Family>| family.map(|one| (one.prometheus(), one.opentelemetry, one.ucum));
        let expected =
            |prometheus: &str, opentelemetry: &str, ucum: &str| Some((prometheus.into(), opentelemetry.into(), ucum.into()));
        let spin = name(Family::declared("lane", LaneCounter::SpinNanoseconds));
        assert_eq!(spin, expected("corelane_lane_spin_seconds_total", "corelane.lane.spin", "s"));
        let memory = name(Family::declared("lane", LaneCounter::MemoryUsed));
        assert_eq!(memory, expected("corelane_lane_memory_used_bytes", "corelane.lane.memory_used", "By"));
        let bytes = name(Family::declared("service", ServiceCounter::BytesIn));
        assert_eq!(bytes, expected("corelane_service_in_bytes_total", "corelane.service.in", "By"));
        assert_eq!(Reworded::Ready.family().ucum, "1");
        let own = name(Family::own("my-web", "answers_2xx", Kind::Counter, "answers", ""));
        assert_eq!(
            own,
            expected("corelane_service_my_web_answers_2xx_total", "corelane.service.my_web_answers_2xx", "{answers}")
        );
        assert!(Family::declared("lane", LaneCounter::LaneState).is_none(), "marks are told in other words");
    }
}
