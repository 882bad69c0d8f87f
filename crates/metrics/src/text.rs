//! The exposition: OpenMetrics text, which Prometheus and the OpenTelemetry collector read.

use crate::families::Families;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// What the text is, for `Content-Type`.
pub(crate) const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The snapshot as text.
pub(crate) fn text(families: Families) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(families));
    let mut out = String::new();
    // reason: writing to a string does not fail, and every histogram has buckets.
    encode(&mut out, &registry).expect("a snapshot can be written");
    out
}
