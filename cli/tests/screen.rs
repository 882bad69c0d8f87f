//! `corelane load` and `corelane top` in a terminal of 80 by 24, as people see them.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod pty;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pty::{BACKGROUND, FOREGROUND, Terminal};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Longer than a test: the run ends when it is told to.
const FOR_LONG: &str = "10m";

const PROGRAM: &str = env!("CARGO_BIN_EXE_corelane");

/// What the program ends with if its figures are not to be believed: those of a run that was cut short.
const DOUBTS: i32 = 4;

/// An echo server at a port of its own.
struct Server {
    child: Child,
    url: String,
    run: PathBuf,
}

impl Server {
    fn start() -> Self {
        Self::start_in(Self::directory(), &["--spin", "0"])
    }

    /// A run directory of its own, in memory as a page must be.
    fn directory() -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("corelane-screen-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        PathBuf::from("/dev/shm").join(name)
    }

    fn start_in(run: PathBuf, more: &[&str]) -> Self {
        let mut server = Command::new(PROGRAM);
        server.args(["serve", "echo=tcp://127.0.0.1:0"]).args(more).env("CORELANE_RUN_DIR", &run);
        let mut child = server.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let url = lines.next().unwrap().strip_prefix("echo ").unwrap().to_owned();
        assert!(lines.any(|line| line == "ready"));
        Self { child, url, run }
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
        let _ = std::fs::remove_dir_all(&self.run);
    }
}

fn ends_after(keys: &[u8]) {
    let server = Server::start();
    let mut terminal = Terminal::start(&server.load(FOR_LONG), FOREGROUND);
    terminal.wait_for_screen();
    let parts =
        [(0, &*server.url), (2, "measuring"), (3, " left"), (5, "rate "), (6, "4 of 4 connections"), (8, "errors    none")];
    // A screen comes in pieces.
    terminal.wait_for(&format!("measured seconds, and in their lines {parts:?}"), |screen| {
        let contents = screen.contents();
        let lines: Vec<&str> = contents.lines().collect();
        let has_parts = lines.len() == 24 && parts.iter().all(|(line, what)| lines[*line].contains(what));
        has_parts && contents.contains("measured") && contents.contains(" mean") && screen.hide_cursor()
    });
    assert!(terminal.is_raw());
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

impl Server {
    /// `corelane top` on its run directory.
    fn top(&self) -> Terminal {
        let run = format!("CORELANE_RUN_DIR={}", self.run.display());
        Terminal::start(&["env", &run, PROGRAM, "top"].map(OsString::from), FOREGROUND)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }
}

/// Waits until the screen shows this.
fn shows(terminal: &mut Terminal, words: &str) {
    terminal.wait_for(words, |screen| screen.alternate_screen() && screen.contents().contains(words));
}

fn ends_by_q(mut terminal: Terminal) {
    terminal.press(b"q");
    let ended = terminal.ended();
    assert!(ended.status.code() == Some(0) && ended.restored, "{:?} {}", ended.status, ended.output);
    assert_eq!(terminal.emulator.screen().contents(), "", "nothing stays of the screen");
}

#[test]
fn top_shows_a_process_until_q() {
    let server = Server::start();
    let mut terminal = server.top();
    shows(&mut terminal, &format!("process {} (alive)", server.child.id()));
    let parts = ["rates over", "WORK EMPTY SLEEP", &server.url, "BUCKETS  ", "q ends", " CPUs, for ", "\nrequests "];
    // A screen comes in pieces.
    terminal.wait_for(&format!("{parts:?}"), |screen| {
        let contents = screen.contents();
        screen.alternate_screen() && parts.iter().all(|part| contents.contains(part))
    });
    terminal.press(b"h");
    shows(&mut terminal, "Any key goes back");
    terminal.press(b"\x1b[B");
    shows(&mut terminal, "WORK EMPTY SLEEP");
    terminal.press(b"/ech\rs ");
    shows(&mut terminal, "PAUSED  filter: ech");
    terminal.resize(10, 40);
    shows(&mut terminal, "This terminal has 40 by 10.");
    terminal.resize(50, 200);
    terminal.wait_for("all of it is used", |screen| {
        let contents = screen.contents();
        let last = contents.lines().last().unwrap_or_default();
        contents.lines().count() == 50 && last.starts_with("q ends") && contents.contains("\ncpu ")
    });
    ends_by_q(terminal);
}

#[test]
fn top_shows_the_connections_of_a_process() {
    let server = Server::start();
    let stream = std::net::TcpStream::connect(server.url.strip_prefix("tcp://").unwrap()).unwrap();
    let mut terminal = server.top();
    shows(&mut terminal, &format!("process {} (alive)", server.child.id()));
    terminal.press(b"c");
    shows(&mut terminal, &format!("process {}: 1 TCP connection, ", server.child.id()));
    shows(&mut terminal, &format!("\n{} ", stream.local_addr().unwrap()));
    // Every key does there what help says, and help leads back to them.
    terminal.press(b"sh");
    shows(&mut terminal, "Any key goes back");
    terminal.press(b" ");
    shows(&mut terminal, "c lanes");
    terminal.press(b"n");
    drop(stream);
    shows(&mut terminal, "0 TCP connections, 0 strays");
    terminal.press(b"c");
    shows(&mut terminal, "WORK EMPTY SLEEP");
    ends_by_q(terminal);
}

#[test]
fn top_goes_on_while_a_process_stands_still_and_after_its_end() {
    let mut server = Server::start();
    let mut terminal = server.top();
    shows(&mut terminal, "rates over");
    server.signal(Signal::SIGSTOP);
    shows(&mut terminal, "(stopped)");
    shows(&mut terminal, "! the process is stopped, and serves nobody until it goes on");
    server.signal(Signal::SIGKILL);
    server.child.wait().unwrap();
    shows(&mut terminal, "(dead)");
    shows(&mut terminal, "! the process is dead: it was killed, or crashed, and serves nobody");
    ends_by_q(terminal);
}

#[test]
fn top_lets_one_of_several_processes_be_chosen() {
    let first = Server::start();
    let second = Server::start_in(first.run.clone(), &[]);
    let mut terminal = first.top();
    shows(&mut terminal, "Several processes run: choose one");
    terminal.press(b"\x1b[B\r");
    shows(&mut terminal, "q ends  s sorts");
    terminal.press(b"n");
    let contents = terminal.emulator.screen().contents();
    assert!([&first, &second].iter().any(|server| contents.contains(&format!("process {} ", server.child.id()))), "{contents}");
    terminal.press(b"\x03");
    assert!(terminal.ended().restored);
}

#[test]
fn top_without_a_process_or_a_terminal_says_what_to_do() {
    let server = Server::start();
    let top = |run: PathBuf| {
        let mut top = Command::new(PROGRAM);
        top.arg("top").env("CORELANE_RUN_DIR", run).output().unwrap()
    };
    for (run, words) in
        [(server.run.clone(), "use `corelane stat --every 1s`"), (Server::directory(), "start one with `corelane serve`")]
    {
        let output = top(run.clone());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
        if run != server.run {
            let _ = std::fs::remove_dir_all(run);
        }
    }
}
