//! Python's reader of histogram logs, in the environment that `cargo xtask test --install` makes.

use corelane_testkit::skip;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The environment's interpreter.
const PYTHON: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../python/bin/python");

/// What the reader found in a log.
#[derive(Deserialize)]
pub struct Found {
    /// Every line.
    pub lines: Vec<FoundLine>,
    /// How many lines it gives unless asked for all.
    pub from_start: usize,
}

/// A line; times are in nanoseconds.
#[derive(Deserialize)]
pub struct FoundLine {
    pub tag: Option<String>,
    pub start_ms: u64,
    pub end_ms: u64,
    pub count: u64,
    pub min: u64,
    pub max: u64,
    pub quantiles: Vec<u64>,
    /// Every time that was met, and how often.
    pub recorded: Vec<(u64, u64)>,
}

/// What the reader finds in `text`; none, and the test is skipped by name, where it is not installed.
pub fn read(test: &str, text: &[u8]) -> Option<Found> {
    if !python(&["import hdrh"]).is_some_and(|output| output.status.success()) {
        skip(test, "Python's hdrhistogram is not installed");
        return None;
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}.hlog", std::process::id()));
    fs::write(&path, text).expect("the target folder takes files");
    let output = python(&[include_str!("read_log.py"), &path.to_string_lossy()]).expect("it has just run");
    fs::remove_file(path).expect("it is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("what the script prints"))
}

fn python(arguments: &[&str]) -> Option<Output> {
    Command::new(PYTHON).arg("-c").args(arguments).output().ok()
}
