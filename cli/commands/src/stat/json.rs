//! A snapshot as JSON (RFC 8259) for programs. All numbers but the derived figures are whole and below 2^64.

use crate::upstreams::Beside;
use corelane::admin::watch::{
    Counter, Histogram, LaneCounter, LaneFigures, LaneHistogram, LaneSnapshot, PacketCounter, PacketsSnapshot, ProcessFigures,
    Quantiles, ServiceCounter, Snapshot, StreamCounter, Values,
};
use corelane_upstreams::Shown;
use serde::{Serialize, Serializer};

/// The snapshot as one JSON object. Every counter is there, zero or not, under its name; a derived figure
/// that would be a division by zero is null. Upstreams stand as `corelane proxy show --json` has them, since the start of the process; null where none are known.
pub fn json(snapshot: &Snapshot, upstreams: &Beside) -> String {
    // reason: all keys are strings, and writing to a string does not fail.
    serde_json::to_string(&Whole { upstreams: upstreams.now(), ..Whole::of(snapshot) }).expect("a snapshot can be written")
}

#[derive(Serialize)]
struct Whole<'a> {
    process: ProcessShown<'a>,
    at_nanoseconds: u64,
    span_nanoseconds: Option<u64>,
    notes: &'a [String],
    notes_refused: u64,
    total: CountersShown<'a, LaneCounter>,
    services: Vec<Service<'a>>,
    lanes: Vec<Lane<'a>>,
    upstreams: Option<&'a [Shown]>,
}

impl<'a> Whole<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let figures = ProcessFigures::of(snapshot);
        let services = snapshot.services.iter().map(|service| {
            let row = CountersShown::of(&service.values);
            Service { name: &service.name.name, url: Some(&service.name.url), row }
        });
        Self {
            process: ProcessShown::of(snapshot),
            at_nanoseconds: snapshot.at_nanoseconds,
            span_nanoseconds: snapshot.span_nanoseconds,
            notes: &snapshot.notes,
            notes_refused: snapshot.notes_refused,
            total: CountersShown::of(&snapshot.total),
            services: services.collect(),
            lanes: snapshot.lanes.iter().zip(&figures.lanes).map(|(lane, figures)| Lane::of(snapshot, lane, figures)).collect(),
            upstreams: None,
        }
    }
}

#[derive(Serialize)]
struct ProcessShown<'a> {
    pid: u32,
    start_ticks: u64,
    pid_namespace: u64,
    liveness: &'static str,
    program: &'a str,
    started_unix_nanoseconds: u64,
}

impl<'a> ProcessShown<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        Self {
            pid: snapshot.process.pid,
            start_ticks: snapshot.process.start_ticks,
            pid_namespace: snapshot.process.pid_namespace,
            liveness: snapshot.liveness.name(),
            program: &snapshot.program,
            started_unix_nanoseconds: snapshot.started_unix_nanoseconds,
        }
    }
}

#[derive(Serialize)]
struct Lane<'a> {
    cpu: Option<u32>,
    driver: &'a str,
    steering: &'a str,
    state: &'static str,
    is_whole: bool,
    #[serde(serialize_with = "histograms")]
    histograms: &'a [Histogram],
    #[serde(flatten)]
    row: CountersShown<'a, LaneCounter>,
    services: Vec<Service<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<Packets<'a>>,
}

/// The packet path of a lane.
#[derive(Serialize)]
struct Packets<'a> {
    is_whole: bool,
    #[serde(flatten)]
    row: CountersShown<'a, PacketCounter>,
    protocols: Vec<ProtocolShown<'a>>,
}

#[derive(Serialize)]
struct ProtocolShown<'a> {
    name: &'a str,
    #[serde(flatten)]
    row: CountersShown<'a, StreamCounter>,
}

impl<'a> Packets<'a> {
    fn of(packets: &'a PacketsSnapshot) -> Self {
        let protocols =
            packets.streams.iter().map(|stream| ProtocolShown { name: &stream.name, row: CountersShown::of(&stream.values) });
        Self { is_whole: packets.is_whole, row: CountersShown::of(&packets.values), protocols: protocols.collect() }
    }
}

impl<'a> Lane<'a> {
    fn of(snapshot: &'a Snapshot, lane: &'a LaneSnapshot, figures: &LaneFigures) -> Self {
        let rows = snapshot.services.iter().zip(&lane.services);
        let services = rows.map(|(service, row)| Service { name: &service.name.name, url: None, row: CountersShown::of(row) });
        Self {
            cpu: lane.name.cpu,
            driver: &lane.name.driver,
            steering: &lane.name.steering,
            state: figures.state,
            is_whole: lane.is_whole,
            histograms: &lane.histograms,
            row: CountersShown::of(&lane.values),
            services: services.collect(),
            packets: lane.packets.as_ref().map(Packets::of),
        }
    }
}

/// A service on all lanes, or on one, where its address is not told again.
#[derive(Serialize)]
struct Service<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(flatten)]
    row: CountersShown<'a, ServiceCounter>,
}

#[derive(Serialize)]
struct CountersShown<'a, C: Counter> {
    #[serde(serialize_with = "counters")]
    counters: &'a Values<C>,
    #[serde(serialize_with = "ratios")]
    ratios: &'a Values<C>,
}

impl<'a, C: Counter> CountersShown<'a, C> {
    fn of(values: &'a Values<C>) -> Self {
        Self { counters: values, ratios: values }
    }
}

fn counters<C: Counter, S: Serializer>(values: &Values<C>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(values.all().map(|one| (one.name, one.value)))
}

/// How many values there were, quantiles that are null if there were none, and the buckets: smallest value, largest value, count.
#[derive(Serialize)]
struct Distribution {
    count: u64,
    p50: Option<u64>,
    p90: Option<u64>,
    p99: Option<u64>,
    p999: Option<u64>,
    buckets: Vec<(u64, u64, u64)>,
}

impl Distribution {
    fn of(histogram: &Histogram) -> Self {
        let Quantiles { p50, p90, p99, p999 } = Quantiles::of(histogram);
        Self { count: histogram.count(), p50, p90, p99, p999, buckets: histogram.buckets().collect() }
    }
}

fn histograms<S: Serializer>(histograms: &[Histogram], to: S) -> Result<S::Ok, S::Error> {
    assert!(histograms.len() == LaneHistogram::ALL.len(), "a lane has each histogram");
    let names = LaneHistogram::DECLARED.iter().map(|one| one.name);
    to.collect_map(names.zip(histograms.iter().map(Distribution::of)))
}

fn ratios<C: Counter, S: Serializer>(values: &Values<C>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(C::RATIOS.iter().map(|ratio| (ratio.name, values.ratio(ratio))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{CounterName, Description, Kind, LaneName, Page, Reader, ServiceName};
    use proptest::prelude::*;
    use serde_json::Value;

    fn page(name: &str, note: &str) -> Page {
        let lane = |cpu| LaneName { cpu, driver: "sim".into(), steering: "table".into() };
        let service = |name: &str| ServiceName { name: name.into(), url: "udp://[::]:7".into(), counters: Vec::new() };
        let apples = CounterName { name: "apples".into(), kind: Kind::Counter, unit: "apples".into() };
        let mut page = Page::heap(&Description {
            program: "example 1.0".into(),
            services: vec![service("echo"), ServiceName { counters: vec![apples], ..service(name) }],
            lanes: vec![lane(Some(3)), lane(None)],
            ..Description::default()
        })
        .unwrap();
        page.note(note);
        page
    }

    #[test]
    fn every_value_is_found_under_its_name() {
        let page = page("cache", "none");
        for lane in 0..2 {
            for &counter in LaneCounter::ALL {
                page.lane(lane).unwrap().set(counter, u64::MAX - (lane * 1000 + counter.index()) as u64);
            }
            for service in 0..2 {
                for &counter in ServiceCounter::ALL {
                    page.service(lane, service).unwrap().set(counter, (lane * 1000 + service * 100 + counter.index()) as u64);
                }
            }
        }
        page.lane(1).unwrap().record(LaneHistogram::TurnNanoseconds, 900);
        let snapshot = Reader::of(&page).unwrap().snapshot(5);
        let value: Value = serde_json::from_str(&json(&snapshot, &Beside::None)).unwrap();
        assert_eq!(value["at_nanoseconds"], 5);
        assert_eq!(value["span_nanoseconds"], Value::Null);
        assert_eq!(value["lanes"][0]["cpu"], 3);
        assert_eq!(value["lanes"][1]["cpu"], Value::Null);
        assert_eq!(value["lanes"].as_array().unwrap().len(), 2);
        let turns = |lane: usize| &value["lanes"][lane]["histograms"]["turn_nanoseconds"];
        assert_eq!(turns(1)["buckets"], serde_json::json!([[896, 1023, 1]]));
        assert_eq!((&turns(1)["p99"], &turns(0)["p99"], &turns(0)["count"]), (&1023.into(), &Value::Null, &0.into()));
        assert_eq!(value["lanes"][0]["is_whole"], true);
        for (index, lane) in snapshot.lanes.iter().enumerate() {
            let found = &value["lanes"][index];
            check(found, &lane.values);
            check(&found["services"][0], &lane.services[0]);
            check(&found["services"][1], &lane.services[1]);
        }
        check(&value["total"], &snapshot.total);
        assert_eq!(
            (&value["services"][0]["counters"]["apples"], &value["services"][1]["counters"]["apples"]),
            (&Value::Null, &0.into())
        );
        check(&value["services"][1], &snapshot.services[1].values);
    }

    fn check<C: Counter>(found: &Value, values: &Values<C>) {
        assert_eq!(found["counters"].as_object().unwrap().len(), values.all().count(), "a service's own are among them");
        for counter in values.all() {
            assert_eq!(found["counters"][counter.name], counter.value);
        }
        for ratio in C::RATIOS {
            // The parser rounds its last digit otherwise.
            let close = |a: f64, b: f64| (a - b).abs() <= a.abs() * 1e-12;
            match (found["ratios"][ratio.name].as_f64(), values.ratio(ratio)) {
                (Some(found), Some(value)) => assert!(close(found, value), "{}", ratio.name),
                (found, value) => assert_eq!(found, value, "{}", ratio.name),
            }
        }
    }

    #[test]
    fn strings_of_any_character_survive() {
        for text in ["\"", "\\", "\u{1}\u{1f}\u{7f}", "a\"b\\c\n", "ä€😀"] {
            let snapshot = Reader::of(&page("cache", text)).unwrap().snapshot(0);
            let value: Value = serde_json::from_str(&json(&snapshot, &Beside::None)).unwrap();
            assert_eq!(value["notes"][0], snapshot.notes[0]);
        }
    }

    proptest! {
        #[test]
        fn any_name_and_note_make_valid_json(name in "\\PC{0,30}", note in "\\PC{1,300}") {
            let snapshot = Reader::of(&page(&name, &note)).unwrap().snapshot(0);
            let value: Value = serde_json::from_str(&json(&snapshot, &Beside::None)).unwrap();
            prop_assert_eq!(&value["services"][1]["name"], snapshot.services[1].name.name.as_str());
            prop_assert_eq!(&value["notes"][0], snapshot.notes[0].as_str());
        }
    }
}
