//! One second, as the graphs need it.

use corelane::admin::watch::{Histogram, LaneHistogram, ServiceCounter, Snapshot};
use serde::Serialize;

/// One second, as the graphs need it. In the page's script the fields are numbered in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Sample(
    /// When it ended, in milliseconds since 1970.
    u64,
    /// Requests.
    f64,
    /// Connections that are open.
    u64,
    /// Microseconds that half, and 99 of 100, of its requests took.
    Option<f64>,
    Option<f64>,
    /// Strays.
    f64,
    /// The share of their time in which the lanes worked.
    f64,
);

pub(super) fn sample(since: &Snapshot, unix_milliseconds: u64) -> Sample {
    let all = |counter| since.services.iter().fold(0, |sum: u64, one| sum.saturating_add(one.values.get(counter)));
    let rate = |counter| since.per_second(all(counter)).unwrap_or(0.0);
    let requests = since.histogram(LaneHistogram::RequestNanoseconds);
    let worked: f64 = since.lanes.iter().filter_map(|lane| since.shares(lane)).map(|shares| shares.productive).sum();
    Sample(
        unix_milliseconds,
        rate(ServiceCounter::Requests),
        all(ServiceCounter::ConnectionsOpen),
        microseconds(&requests, 500),
        microseconds(&requests, 990),
        rate(ServiceCounter::Strays),
        worked / since.lanes.len().max(1) as f64,
    )
}

/// A quantile, in microseconds.
pub(super) fn microseconds(histogram: &Histogram, thousandths: u32) -> Option<f64> {
    histogram.quantile(thousandths).map(|nanoseconds| nanoseconds as f64 / 1e3)
}
