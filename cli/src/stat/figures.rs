//! Figures as people read them at a glance: three or four digits and a unit.

use corelane::admin::watch::Histogram;

pub use corelane::admin::watch::figures::{amount, time};

/// How long requests took, in a line; none if there were none.
pub fn latency(requests: &Histogram) -> Option<String> {
    let quantile = |thousandths| requests.quantile(thousandths).map(time);
    let [half, most, nearly_all] = [quantile(500)?, quantile(990)?, quantile(999)?];
    Some(format!("requests from receive to send: p50 {half}  p99 {most}  p99.9 {nearly_all}"))
}
