//! `--log-format`: how lines for the operator are written on standard error.
//!
//! ```text
//! lanes, threads --bounded queue--> the thread that writes: a line as it is, or an event of `tracing` with code and lane as fields, as JSON
//! ```
//!
//! Only that thread waits for a reader.

use anyhow::{Context, Result};
use corelane::admin::reports;
use std::io::stderr;
use tracing::{error, info, warn};

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// As it is.
    Text,
    /// As an object.
    Json,
}

/// Has lines written in this form, unless that has begun.
///
/// # Errors
/// What the system says of the thread.
pub fn begin(format: LogFormat) -> Result<()> {
    if format == LogFormat::Text {
        return Ok(());
    }
    // Refused only where a program that has this one in it has set another, which then has the events.
    let _ = tracing_subscriber::fmt().json().with_target(false).with_writer(stderr).try_init();
    reports::start_into(event).context("starting the thread that writes reports").map(drop)
}

/// Writes the notes of a start as well, where lines are objects: standard output has them as they are.
pub fn tell_notes(format: LogFormat, notes: &[String]) {
    if format == LogFormat::Json {
        notes.iter().for_each(|note| reports::line(note));
    }
}

/// Writes a line, on the thread for it.
fn event(line: &str) {
    let Parts { code, lane, message } = Parts::of(line);
    match message {
        _ if line.starts_with("thread ") && line.contains(" panicked ") => error!(code, lane, "{message}"),
        _ if line.starts_with("corelane: SIGHUP") => info!(code, lane, "{message}"),
        _ => warn!(code, lane, "{message}"),
    }
}

/// What a line says of itself at its beginning: `corelane: `, `lane 3: `, `[CL-0001] `, in this order.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    code: Option<&'a str>,
    lane: Option<u64>,
    message: &'a str,
}

impl<'a> Parts<'a> {
    fn of(line: &'a str) -> Self {
        let rest = line.strip_prefix("corelane: ").unwrap_or(line);
        let of_lane = rest.strip_prefix("lane ").and_then(|rest| rest.split_once(": "));
        let (lane, rest) = match of_lane.and_then(|(number, rest)| Some((number.parse().ok()?, rest))) {
            Some((lane, rest)) => (Some(lane), rest),
            None => (None, rest),
        };
        let coded = rest.strip_prefix('[').and_then(|rest| rest.split_once("] ")).filter(|(code, _)| code.starts_with("CL-"));
        let (code, message) = coded.map_or((None, rest), |(code, rest)| (Some(code), rest));
        Self { code, lane, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_its_lane_and_its_code() {
        let parts = |code, lane, message| Parts { code, lane, message };
        assert_eq!(Parts::of("corelane: lane 3: [CL-0015] no table"), parts(Some("CL-0015"), Some(3), "no table"));
        assert_eq!(Parts::of("lane 12: 3 more lines"), parts(None, Some(12), "3 more lines"));
        assert_eq!(Parts::of("[CL-0001] uring refused"), parts(Some("CL-0001"), None, "uring refused"));
        assert_eq!(Parts::of("lane x: [no code] y"), parts(None, None, "lane x: [no code] y"));
    }
}
