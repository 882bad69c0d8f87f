//! `corelane load` in a terminal of 80 by 24, as people see it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod pty;

use pty::{BACKGROUND, FOREGROUND, Terminal};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Longer than a test: the run ends when it is told to.
const FOR_LONG: &str = "10m";

const PROGRAM: &str = env!("CARGO_BIN_EXE_corelane");

/// What the program ends with if its figures are not to be believed: those of a run that was cut short.
const DOUBTS: i32 = 4;

/// An echo server at a port of its own.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut server = Command::new(PROGRAM);
        let mut child = server.args(["serve", "echo=tcp://127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let url = lines.next().unwrap().strip_prefix("echo ").unwrap().to_owned();
        assert!(lines.any(|line| line == "ready"));
        Self { child, url }
    }

    /// A load on it.
    fn load(&self, duration: &str) -> [OsString; 10] {
        [PROGRAM, "load", "echo", &self.url, "-c", "4", "--duration", duration, "--warmup", "100ms"].map(OsString::from)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ends_after(keys: &[u8]) {
    let server = Server::start();
    let mut terminal = Terminal::start(&server.load(FOR_LONG), FOREGROUND);
    terminal.wait_for("measured seconds", |screen| screen.contents().contains("measured") && screen.contents().contains(" mean"));
    terminal.wait_for_screen();
    let screen = terminal.emulator.screen();
    let lines: Vec<String> = screen.contents().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 24, "{}", screen.contents());
    for (line, what) in
        [(0, &*server.url), (2, "measuring"), (3, " left"), (5, "rate "), (6, "4 of 4 connections"), (8, "errors    none")]
    {
        assert!(lines[line].contains(what), "{what} in line {line}:\n{}", screen.contents());
    }
    assert!(screen.hide_cursor() && terminal.is_raw());
    terminal.press(keys);
    let ended = terminal.ended();
    assert!(ended.status.code() == Some(DOUBTS) && ended.restored, "{:?} {}", ended.status, ended.output);
    assert!(ended.output.contains("NOT TO BE BELIEVED") && !ended.output.contains('\u{1b}'), "{:?}", ended.output);
    assert_eq!(terminal.emulator.screen().contents(), "", "nothing stays of the screen");
}

#[test]
fn q_ends_the_run_with_a_report() {
    ends_after(b"q");
}

#[test]
fn control_c_ends_the_run_with_a_report() {
    ends_after(b"\x1b[xyz\x03");
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let server = Server::start();
    let mut terminal = Terminal::start(&server.load(FOR_LONG), FOREGROUND);
    terminal.wait_for_screen();
    terminal.resize(10, 40);
    terminal.wait_for("the small screen", |screen| {
        let contents = screen.contents();
        contents.starts_with("echo ") && contents.lines().count() <= 10 && contents.lines().any(|line| line == "errors  none")
    });
    terminal.press(b"q");
    assert!(terminal.ended().restored);
}

#[test]
fn a_job_in_the_background_prints_lines() {
    let server = Server::start();
    let mut terminal = Terminal::start(&server.load("200ms"), BACKGROUND);
    let ended = terminal.ended();
    assert!(ended.restored && ended.output.contains("requests "), "{}", ended.output);
    let left = terminal.emulator.screen().contents();
    assert!(left.contains("measuring; "), "{left}");
}
