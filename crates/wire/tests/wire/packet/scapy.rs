//! Scapy as a foreign oracle: it reads what we write, and we read what it writes, field by field.
//!
//! `CORELANE_SCAPY_PACKETS` sets how many packets go each way.

use super::told::{self, hex};
use super::{build, told::frame};
use crate::hostile::Random;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/packets.py");
const PACKETS: usize = 1_000;
const SEED: u64 = 20_261_122;

/// The interpreter that `cargo xtask test` makes, if it has Scapy.
fn interpreter() -> Option<PathBuf> {
    // Two folders up from the one of this test: target/PROFILE/deps.
    let program = std::env::current_exe().unwrap();
    let python = program.ancestors().nth(3).map_or_else(|| Path::new(".").to_owned(), |target| target.join("python/bin/python"));
    let output = Command::new(&python).args(["-c", "import scapy"]).output();
    output.is_ok_and(|output| output.status.success()).then_some(python)
}

fn packets() -> usize {
    std::env::var("CORELANE_SCAPY_PACKETS").map_or(PACKETS, |text| text.parse().unwrap())
}

fn skip(name: &str) {
    let reason = "there is no Scapy in the Python environment of the tests (cargo xtask test --install)";
    corelane_testkit::skip(name, reason);
}

/// What the script says to these lines.
fn ask(python: &Path, arguments: &[&str], lines: &str) -> String {
    let mut command = Command::new(python);
    command.arg(SCRIPT).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = command.spawn().unwrap();
    let mut input = script.stdin.take().unwrap();
    // The script reads all before it writes anything, so neither side waits for the other.
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    let output = script.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn scapy_reads_what_we_write() {
    let Some(python) = interpreter() else { return skip("scapy_reads_what_we_write") };
    let mut random = Random::new(SEED);
    let frames: Vec<_> = (0..packets()).map(|_| build::frame(&mut random)).collect();
    let lines: String = frames.iter().map(|frame| hex(frame) + "\n").collect();
    let answers = ask(&python, &["read"], &lines);
    assert_eq!(answers.lines().count(), frames.len());
    for (bytes, answer) in frames.iter().zip(answers.lines()) {
        let (theirs, built) = answer.split_once('\t').unwrap();
        assert_eq!(theirs, frame(bytes), "{}", hex(bytes));
        assert_eq!(built, hex(bytes), "lengths and checksums as Scapy computes them: {theirs}");
    }
    println!("{} packets", frames.len());
}

#[test]
fn we_read_what_scapy_writes() {
    let Some(python) = interpreter() else { return skip("we_read_what_scapy_writes") };
    let answers = ask(&python, &["write", &SEED.to_string(), &packets().to_string()], "");
    assert_eq!(answers.lines().count(), packets());
    for answer in answers.lines() {
        let (bytes, theirs) = answer.split_once('\t').unwrap();
        let frame: Vec<u8> = (0..bytes.len()).step_by(2).map(|at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap()).collect();
        assert_eq!(told::frame(&frame), theirs, "{bytes}");
        crate::parsers::packet_frame(&frame);
    }
    println!("{} packets", packets());
}
