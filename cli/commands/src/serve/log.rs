//! `--log-format` and `--log-level`: how lines for the operator are written on standard error, and which.
//!
//! ```text
//! lanes, threads --bounded queue--> the thread that writes: a record as its line, or as an event of `tracing` with code and lane as fields, as JSON
//! ```
//!
//! Only that thread waits for a reader.

use crate::print::note;
use anyhow::{Context, Result};
use corelane::admin::reports::{self, Code, Level, Record};
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
        let write = move |record: &Record| {
            if LogLevel::from(record.level) as u8 > in_force.load(Ordering::Relaxed) {
                return;
            }
            match format {
                LogFormat::Json => event(record),
                LogFormat::Text => note(record),
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
        notes.iter().cloned().for_each(reports::line);
    }
}

/// Writes a line as an object.
fn event(record: &Record) {
    let Record { code, lane, text, .. } = record;
    let (code, lane) = (code.map(Code::as_str), *lane);
    match record.level {
        Level::Error => error!(code, lane, "{text}"),
        Level::Warn => warn!(code, lane, "{text}"),
        Level::Info => info!(code, lane, "{text}"),
    }
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::Error,
            Level::Warn => Self::Warn,
            Level::Info => Self::Info,
        }
    }
}
