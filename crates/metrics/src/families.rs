//! A snapshot as families of metrics, encoded by the library.

use crate::health;
use crate::names::{Family, Labels, Reworded};
use crate::upstreams;
use corelane::admin::watch::{
    Counter, Histogram, LaneCounter, LaneHistogram, LaneSnapshot, PacketCounter, ProcessFigures, ServiceCounter, Snapshot, Value,
    Values,
};
use corelane_upstreams::Shown;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The most rows of services on lanes that are told one by one. Where there are more, services are told for all lanes together (`lane="all"`), so that an
/// answer stays below some megabytes.
pub(crate) const ROWS_MAX: usize = 512;

/// Buckets of histograms: a bound each power of two up to this one.
const BOUNDS: u32 = 40;

/// What counters of services' own mean, by service and name.
pub(crate) type Meanings = Arc<BTreeMap<(String, String), &'static str>>;

/// A snapshot, to be encoded once, and what the page does not hold.
#[derive(Debug)]
pub(crate) struct Families {
    pub snapshot: Snapshot,
    pub meanings: Meanings,
    /// Streams of the dashboard that ended for others.
    pub displaced: u64,
    pub more: More,
    pub upstreams: Arc<[Shown]>,
}

/// Families that a program tells beside its page, each with its samples. No two of a family have the same labels.
pub type More = Vec<(Family, Vec<(Labels, u64)>)>;

/// What has them when somebody asks: soon, for nobody else is answered meanwhile.
pub(crate) type Telling = Box<dyn Fn() -> More + Send + Sync>;

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let to = &mut encoder;
        let figures = ProcessFigures::of(&self.snapshot);
        Reworded::ALL.into_iter().try_for_each(|told| self.told(to, told, &figures))?;
        for &counter in LaneCounter::ALL {
            let Some(family) = Family::declared("lane", counter) else { continue };
            write(to, &family, self.lanes().map(|(labels, lane)| (labels, lane.values.get(counter))))?;
        }
        for which in LaneHistogram::ALL {
            self.histogram(to, which)?;
        }
        self.packets(to)?;
        let rows = rows(&self.snapshot);
        for &counter in ServiceCounter::ALL {
            let Some(family) = Family::declared("service", counter) else { continue };
            write(to, &family, rows.iter().map(|row| (row.labels.clone(), row.values.get(counter))))?;
        }
        own(to, &rows, &self.meanings)?;
        self.upstreams(to)?;
        self.more.iter().try_for_each(|(family, samples)| write(to, family, samples.iter().cloned()))
    }
}

impl Families {
    fn upstreams(&self, to: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let rows = upstreams::labelled(&self.upstreams, &self.snapshot);
        if rows.is_empty() {
            return Ok(());
        }
        upstreams::samples(&rows).try_for_each(|(family, samples)| write(to, &family, samples.into_iter()))?;
        let family = upstreams::first_bytes();
        let mut metric = to.encode_descriptor(&family.stem, &family.meaning, family.unit.as_ref(), family.metric)?;
        for (labels, row) in &rows {
            let (sum, buckets) = upstreams::bounded(row);
            metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, row.times.count(), &buckets, None)?;
        }
        Ok(())
    }

    /// Of lanes that have packets; a program without them has none of these families.
    fn packets(&self, to: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let rows: Vec<_> = self.lanes().filter_map(|(labels, lane)| Some((labels, &lane.packets.as_ref()?.values))).collect();
        let counters = PacketCounter::ALL.iter().filter(|_| !rows.is_empty());
        let mut each = counters.map(|&counter| {
            let samples = rows.iter().map(|(labels, values)| (labels.clone(), values.get(counter)));
            write(to, &Family::of_packets(counter), samples)
        });
        each.try_for_each(|written| written)
    }

    fn lanes(&self) -> impl Iterator<Item = (Labels, &LaneSnapshot)> {
        self.snapshot.lanes.iter().enumerate().map(|(number, lane)| (vec![("lane".to_owned(), number.to_string())], lane))
    }

    fn told(&self, to: &mut DescriptorEncoder<'_>, told: Reworded, figures: &ProcessFigures<'_>) -> Result<(), fmt::Error> {
        let family = told.family();
        let of = |number: usize, lane: &LaneSnapshot| match told {
            Reworded::State => lane.state().map(|state| state as u64),
            Reworded::LastTurn => figures.lanes[number].last_turn_age_nanoseconds,
            Reworded::Stalled => Some(figures.lanes[number].stalled_nanoseconds.unwrap_or(0)),
            Reworded::Buckets => {
                Some(self.snapshot.steering.lanes.iter().filter(|&&owner| usize::from(owner) == number).count() as u64)
            }
            Reworded::Ready | Reworded::Started | Reworded::Displaced => None,
        };
        let none = || Labels::new();
        match told {
            Reworded::Ready => write(to, &family, [(none(), u64::from(health::ready(&self.snapshot).is_good))].into_iter()),
            Reworded::Started => write(to, &family, [(none(), self.snapshot.started_unix_nanoseconds)].into_iter()),
            Reworded::Displaced => write(to, &family, [(none(), self.displaced)].into_iter()),
            _ => {
                let lanes = self.lanes().enumerate();
                write(to, &family, lanes.filter_map(|(number, (labels, lane))| Some((labels, of(number, lane)?))))
            }
        }
    }

    fn histogram(&self, to: &mut DescriptorEncoder<'_>, which: LaneHistogram) -> Result<(), fmt::Error> {
        let family = Family::histogram(which);
        let mut metric = to.encode_descriptor(&family.stem, &family.meaning, family.unit.as_ref(), family.metric)?;
        for (labels, lane) in self.lanes() {
            let (sum, buckets) = bounded(lane.histogram(which), family.divisor);
            let count = buckets.iter().map(|(_, count)| count).sum();
            metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

/// The sum of all values, each taken as the middle of its bucket, and how many values there are up to each bound.
fn bounded(histogram: &Histogram, divisor: f64) -> (f64, Vec<(f64, u64)>) {
    let mut bounds: Vec<(f64, u64)> = (0..=BOUNDS).map(|power| ((1_u64 << power) as f64 / divisor, 0)).collect();
    bounds.push((f64::INFINITY, 0));
    let mut sum = 0.0;
    for (lowest, highest, count) in histogram.buckets() {
        // No bucket reaches over a power of two. The last one has no end.
        let is_last = highest == u64::MAX;
        let middle = if is_last { lowest } else { lowest.midpoint(highest) };
        sum += middle as f64 * count as f64;
        let at = if is_last { bounds.len() - 1 } else { highest.checked_ilog2().map_or(0, |power| power as usize + 1) };
        assert!(is_last || highest as f64 / divisor <= bounds[at].0, "a value lies below its bound");
        bounds[at].1 += count;
    }
    (sum / divisor, bounds)
}

/// A service on a lane, or on all.
struct LabelledCounters<'a> {
    labels: Labels,
    service: &'a str,
    values: &'a Values<ServiceCounter>,
}

fn rows(snapshot: &Snapshot) -> Vec<LabelledCounters<'_>> {
    let labels = |lane: String, service: usize| {
        let name = &snapshot.services[service].name;
        let pairs = [("lane", lane), ("service", name.name.clone()), ("url", name.url.clone())];
        pairs.map(|(label, value)| (label.to_owned(), value)).to_vec()
    };
    let row = |lane: String, service: usize, values| LabelledCounters {
        labels: labels(lane, service),
        service: &snapshot.services[service].name.name,
        values,
    };
    if snapshot.lanes.len() * snapshot.services.len() > ROWS_MAX {
        let services = snapshot.services.iter().enumerate();
        return services.map(|(service, one)| row("all".to_owned(), service, &one.values)).collect();
    }
    let lanes = snapshot.lanes.iter().enumerate();
    lanes
        .flat_map(|(number, lane)| lane.services.iter().enumerate().map(move |(service, values)| (number, service, values)))
        .map(|(number, service, values)| row(number.to_string(), service, values))
        .collect()
}

/// What services count of their own: a family for each name, in which samples of all lanes stand together.
fn own(to: &mut DescriptorEncoder<'_>, rows: &[LabelledCounters<'_>], meanings: &Meanings) -> Result<(), fmt::Error> {
    let mut told: Vec<String> = Vec::new();
    for row in rows {
        for Value { name, kind, unit, .. } in row.values.all().skip(ServiceCounter::ALL.len()) {
            let meaning = meanings.get(&(row.service.to_owned(), name.to_owned())).unwrap_or(&"Of the service's own.");
            let Some(family) = Family::own(row.service, name, kind, unit, meaning) else { continue };
            if told.contains(&family.stem) {
                continue;
            }
            let same = rows.iter().filter(|other| other.service == row.service);
            write(to, &family, same.filter_map(|row| Some((row.labels.clone(), row.values.own(name)?))))?;
            told.push(family.stem);
        }
    }
    Ok(())
}

fn write(
    to: &mut DescriptorEncoder<'_>,
    family: &Family,
    samples: impl Iterator<Item = (Labels, u64)>,
) -> Result<(), fmt::Error> {
    let mut metric = to.encode_descriptor(&family.stem, &family.meaning, family.unit.as_ref(), family.metric)?;
    for (labels, value) in samples {
        if labels.is_empty() {
            sample(&mut metric, family, value)?;
        } else {
            sample(&mut metric.encode_family(&labels)?, family, value)?;
        }
    }
    Ok(())
}

fn sample(metric: &mut MetricEncoder<'_>, family: &Family, value: u64) -> Result<(), fmt::Error> {
    let divided = value as f64 / family.divisor;
    match (family.metric, family.unit.is_some() && family.divisor > 1.0) {
        (MetricType::Counter, true) => metric.encode_counter(&divided, NO_EXEMPLAR),
        (MetricType::Counter, false) => metric.encode_counter(&value, NO_EXEMPLAR),
        (_, true) => metric.encode_gauge(&divided),
        (_, false) => metric.encode_gauge(&value),
    }
}

const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, u64>> = None;
