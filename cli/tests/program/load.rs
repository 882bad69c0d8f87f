//! `corelane load` as a program: against servers that behave, and against those that do not.

mod arguments;
mod bulk;
mod counts;
mod datagrams;
mod hostile;
mod hosts;
pub mod others;
mod rpc;
mod rpctest;
mod scarce;
mod secure;
mod sense;
mod signals;
mod styles;
mod unix;
mod web;

use crate::common::*;
use corelane_load::report::{Paired, Report};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Output};

/// What the program ends with.
const GOOD: i32 = 0;
const NOT_MADE: i32 = 1;
const REFUSED: i32 = 2;
const FAILURES: i32 = 3;
const DOUBTS: i32 = 4;

/// Doubts that a busy machine casts on any run. No test here can keep them away, and none is about them.
const OF_THE_MACHINE: [&str; 6] = [
    "for its CPU",
    "the host took",
    "the generator was at its limit",
    "the generator sent late",
    "the run fell behind",
    "of the generator was away",
];

/// The doubt of a run of which too much failed.
const OF_FAILURES: &str = "% of what was tried failed";

/// A run that came to a report.
struct Run {
    code: i32,
    report: Report,
}

impl Run {
    /// Reads what the program printed. Whatever the run was, its report must make sense.
    ///
    /// # Panics
    /// If there is no report, or more than that, or it contradicts itself or the exit code.
    fn of(output: &Output) -> Self {
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(words.is_empty(), "beside its report the program says {words:?}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let report: Report = serde_json::from_value(document.clone()).expect("every field is there, with its type");
        assert_eq!(serde_json::to_value(&report).unwrap(), document, "a field that is not documented");
        let run = Self { code: output.status.code().expect("no signal ended it"), report };
        sense::check(&run);
        run
    }

    /// What failed or was noted, by kind.
    fn errors(&self) -> BTreeMap<&str, u64> {
        self.report.errors.iter().filter(|(_, count)| **count > 0).map(|(kind, &count)| (kind.as_str(), count)).collect()
    }

    /// Asserts that nothing but these kinds was met, and each of them.
    fn met(&self, kinds: &[&str]) -> &Self {
        let met: Vec<&str> = self.errors().into_keys().collect();
        let mut kinds = kinds.to_vec();
        kinds.sort_unstable();
        assert_eq!(met, kinds, "{:?}", self.report.errors);
        self
    }

    /// The doubts, but for those that a busy machine casts, and that of failures, which [`sense::check`] holds against the errors.
    fn doubts(&self) -> Vec<&str> {
        let is_said = |doubt: &&String| OF_THE_MACHINE.iter().chain([&OF_FAILURES]).any(|word| doubt.contains(word));
        self.report.doubts.iter().filter(|doubt| !is_said(doubt)).map(String::as_str).collect()
    }

    /// Asserts that there are exactly these doubts, each by a word of it.
    fn doubted(&self, words: &[&str]) -> &Self {
        let doubts = self.doubts();
        assert_eq!(doubts.len(), words.len(), "{doubts:?} are not {words:?}");
        for word in words {
            assert!(doubts.iter().any(|doubt| doubt.contains(word)), "{word:?} is not in {doubts:?}");
        }
        self
    }
}

/// The command for a run with its pages in a folder of its own.
fn load_command(wrapper: &[&str], folder: &Scratch, arguments: &[&str]) -> Command {
    let mut command = wrapped(wrapper, PROGRAM);
    command.arg("load").args(arguments).env("CORELANE_RUN_DIR", folder.path());
    command
}

/// Runs `corelane load` to its end.
fn ended(wrapper: &[&str], arguments: &[&str]) -> Output {
    output(&mut load_command(wrapper, &Scratch::new(), arguments))
}

/// A run that comes to a report, by way of `wrapper`.
fn load_under(wrapper: &[&str], arguments: &[&str]) -> Run {
    Run::of(&ended(wrapper, &[&["--json", "--quiet"], arguments].concat()))
}

/// A run that comes to a report.
fn load(arguments: &[&str]) -> Run {
    load_under(&[], arguments)
}

/// Two targets compared.
fn compare(arguments: &[&str]) -> (i32, Paired) {
    let output = ended(&[], &[&["--json", "--quiet"], arguments].concat());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let paired: Paired = serde_json::from_value(document.clone()).expect("every field is there, with its type");
    assert_eq!(serde_json::to_value(&paired).unwrap(), document, "a field that is not documented");
    (output.status.code().expect("no signal ended it"), paired)
}

/// The program ends with `code`, no report, and one line that has all these words.
fn says(wrapper: &[&str], arguments: &[&str], code: i32, words: &[&str]) {
    says_in_a_line(ended(wrapper, &[&["--quiet"], arguments].concat()), arguments, code, words);
}

/// As [`says`], of what has run.
fn says_in_a_line(output: Output, arguments: &[&str], code: i32, words: &[&str]) {
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text:?}");
    assert!(output.stdout.is_empty(), "{arguments:?} came to a report");
    assert!(text.starts_with("corelane: ") && text.lines().count() == 1, "{arguments:?}: {text:?}");
    assert!(text.len() < 300, "{arguments:?}: a long line: {text:?}");
    for word in words {
        assert!(text.contains(word), "{arguments:?}: {word:?} is not in {text:?}");
    }
}

fn url(address: impl std::fmt::Display) -> String {
    format!("tcp://{address}")
}
