//! Figures as people read them at a glance: three or four digits and a unit.

use corelane::admin::watch::Quantiles;

pub use corelane::admin::watch::figures::{amount, time};

/// A part of 1.
pub fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// A figure in these words, or that there is none.
pub fn or_none<T>(figure: Option<T>, words: impl Fn(T) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), words)
}

/// How long requests took, in a line; none if there were none.
pub fn latency(request_nanoseconds: Quantiles) -> Option<String> {
    let Quantiles { p50, p99, p999, .. } = request_nanoseconds;
    let [half, most, nearly_all] = [p50?, p99?, p999?].map(time);
    Some(format!("requests from receive to send: p50 {half}  p99 {most}  p99.9 {nearly_all}"))
}
