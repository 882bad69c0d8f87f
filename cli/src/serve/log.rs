//! `--log-format` and `--log-level`: how lines for the operator are written on standard error, and which.
//!
//! ```text
//! lanes, threads --bounded queue--> the thread that writes: a line as it is, or an event of `tracing` with code and lane as fields, as JSON
//! ```
//!
//! Only that thread waits for a reader.

use crate::print::note;
use anyhow::{Context, Result};
use corelane::admin::reports::{self, Record};
use std::io::stderr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tracing::{error, info, warn};

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// As it is.
    Text,
    /// As an object.
    Json,
}

/// Which lines are written: those of this level, and of all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[repr(u8)]
pub enum LogLevel {
    /// What broke: a panic, a lane that ended by one.
    Error,
    /// What somebody should look at: what the program does without, and what it refused.
    Warn,
    /// What happened in order.
    Info,
}

/// The level in force, which can change while lines are written.
pub struct Log(Arc<AtomicU8>);

impl Log {
    /// Has lines of this level written in this form, unless that has begun.
    ///
    /// # Errors
    /// What the system says of the thread.
    pub fn begin(format: LogFormat, level: LogLevel) -> Result<Self> {
        if format == LogFormat::Json {
            // Refused only where a program that has this one in it has set another, which then has the events.
            let _ = tracing_subscriber::fmt().json().with_target(false).with_writer(stderr).try_init();
        }
        let log = Self(Arc::new(AtomicU8::new(level as u8)));
        let in_force = log.0.clone();
        let write = move |line: &str| {
            let level = level_of(line);
            if level as u8 > in_force.load(Ordering::Relaxed) {
                return;
            }
            match format {
                LogFormat::Json => event(line, level),
                LogFormat::Text => note(line),
            }
        };
        reports::start_into(write).context("starting the thread that writes reports")?;
        Ok(log)
    }

    /// Lines of this level are written from now on.
    pub fn set(&self, level: LogLevel) {
        self.0.store(level as u8, Ordering::Relaxed);
    }
}

/// Writes the notes of a start as well, where lines are objects: standard output has them as they are.
pub fn tell_notes(format: LogFormat, notes: &[Record]) {
    if format == LogFormat::Json {
        notes.iter().for_each(|note| reports::line(&note.to_string()));
    }
}

/// The level of a line, by its words: those that are not known are to be looked at.
fn level_of(line: &str) -> LogLevel {
    let panicked = line.starts_with("thread ") && line.contains(" panicked ");
    let is_orderly = line.starts_with("corelane: SIGHUP: ") || line.contains(" has taken over");
    match (panicked || line.starts_with("corelane: serving: "), is_orderly) {
        (true, _) => LogLevel::Error,
        (_, true) => LogLevel::Info,
        _ => LogLevel::Warn,
    }
}

/// Writes a line as an object.
fn event(line: &str, level: LogLevel) {
    let Parts { code, lane, message } = Parts::of(line);
    match level {
        LogLevel::Error => error!(code, lane, "{message}"),
        LogLevel::Warn => warn!(code, lane, "{message}"),
        LogLevel::Info => info!(code, lane, "{message}"),
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
    fn lines_have_the_level_of_what_they_tell() {
        for (line, level) in [
            ("thread lane-0 panicked at x.rs:1: no", LogLevel::Error),
            ("corelane: serving: lane 1 broke", LogLevel::Error),
            ("lane 0: [CL-1201] in one turn for 1000 ms", LogLevel::Warn),
            ("[CL-0023] SIGHUP: what was there before is kept: no", LogLevel::Warn),
            ("corelane: SIGHUP: the limits of time are changed", LogLevel::Info),
            ("corelane: process 7 has taken over: what is open here is finished", LogLevel::Info),
        ] {
            assert_eq!(level_of(line), level, "{line}");
        }
    }

    #[test]
    fn a_line_tells_its_lane_and_its_code() {
        let parts = |code, lane, message| Parts { code, lane, message };
        assert_eq!(Parts::of("corelane: lane 3: [CL-0015] no table"), parts(Some("CL-0015"), Some(3), "no table"));
        assert_eq!(Parts::of("lane 0: [CL-1201]   parse at x.rs:1"), parts(Some("CL-1201"), Some(0), "  parse at x.rs:1"));
        assert_eq!(Parts::of("lane 12: 3 more lines"), parts(None, Some(12), "3 more lines"));
        assert_eq!(Parts::of("[CL-0001] uring refused"), parts(Some("CL-0001"), None, "uring refused"));
        assert_eq!(Parts::of("lane x: [no code] y"), parts(None, None, "lane x: [no code] y"));
    }
}
