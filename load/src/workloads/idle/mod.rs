//! Many connections, each used once in a while: echo whose rate is one request a connection in so many seconds.

use super::{WorkloadEntry, echo};
use corelane::service::entry::choice::{Choice, Chosen, Time};
use std::time::Duration;

const EVERY: Time = Time::new("every", "how often each connection is used; to give others their times, use --rate").between(
    Duration::from_micros(1),
    Duration::from_secs(86_400),
    Duration::from_secs(10),
);

/// Idle connections over TCP.
pub const ENTRY: WorkloadEntry = WorkloadEntry {
    name: "idle",
    about: "many connections, each of which echoes once in --every",
    default_connections: 10_000,
    default_duration: Duration::from_secs(10),
    options: &[Choice::Time(EVERY)],
    rate: Some(rate),
    ..echo::ENTRY
};

fn rate(chosen: &Chosen, connections: u32) -> f64 {
    f64::from(connections) / chosen.time(&EVERY).as_secs_f64()
}
