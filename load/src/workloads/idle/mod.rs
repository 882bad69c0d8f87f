//! Many connections, each used once in a while: echo whose rate is one request a connection in so many seconds.

use super::{WorkloadEntry, echo};
use crate::amounts;
use corelane::service::entry::choice::{Choice, Chosen, Text};
use std::time::Duration;

/// How often each connection is used unless it is said.
const DEFAULT: Duration = Duration::from_secs(10);

const EVERY: Text = Text::new(
    "every",
    "TIME",
    |text| every(text).map(drop),
    "how often each connection is used; to give others their times, use --rate [default: 10s]",
);

/// Idle connections over TCP.
pub const ENTRY: WorkloadEntry = WorkloadEntry {
    name: "idle",
    about: "many connections, each of which echoes once in --every",
    default_connections: 10_000,
    default_duration: Duration::from_secs(10),
    options: &[Choice::Text(EVERY)],
    rate: Some(rate),
    ..echo::ENTRY
};

fn every(text: &str) -> Result<Duration, String> {
    match amounts::time(text)? {
        Duration::ZERO => Err("each connection is used once in a time that is more than nothing".to_owned()),
        time => Ok(time),
    }
}

fn rate(chosen: &Chosen, connections: u32) -> f64 {
    let every = chosen.text(&EVERY).and_then(|text| every(text).ok()).unwrap_or(DEFAULT);
    f64::from(connections) / every.as_secs_f64()
}
