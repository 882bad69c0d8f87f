//! The status screen of the load generator: its own tests, and what becomes of a real terminal.
//!
//! The terminal is a pseudo terminal (pty(7)) with a terminal emulator at its other end. The program in it is this test again, told
//! by an environment variable which role it has.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../src/load"]
mod load {
    pub mod screen;
}

use corelane_load::report::{Progress, Second};
use load::screen::{Lines, Screen};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tells the program in the terminal which role it has.
const ROLE: &str = "CORELANE_TEST_SCREEN";

/// Runs the program, in the foreground or as a job in the background, and prints the terminal's modes before and after.
const FOREGROUND: &str = r#"stty -g; "$@"; code=$?; stty -g; exit $code"#;
const BACKGROUND: &str = r#"set -m; stty -g; "$@" & wait $!; code=$?; stty -g; exit $code"#;

/// What the program in the terminal does.
fn play(role: &str) {
    let mut progress = Progress {
        phase: "measuring".to_owned(),
        what: "echo at tcp://127.0.0.1:60007".to_owned(),
        done: 0.5,
        left_s: Some(15.0),
        requests: 12_345,
        series: vec![Second { requests_per_second: 101_234.0, ..Second::default() }],
        latency_us: [("50".to_owned(), 48.2)].into(),
        ..Progress::default()
    };
    match Screen::open() {
        Some(mut screen) => loop {
            screen.show(&progress);
            progress.requests += 1;
            match role {
                "panics" => panic!("on purpose"),
                "goes on after a panic" => {
                    let _ = std::thread::spawn(|| panic!("elsewhere")).join();
                    screen.show(&progress);
                    break;
                }
                "does not end" => drop(screen.wants_end()),
                _ if screen.wants_end() => break,
                _ => {}
            }
            // reason: the pace of the frames; nothing waits for it.
            std::thread::sleep(Duration::from_millis(5));
        },
        None => Lines::default().show(&progress),
    }
    println!("the result");
}

/// A terminal with a program in it.
struct Terminal {
    child: Child,
    ours: File,
    theirs: OwnedFd,
    emulator: vt100::Parser,
}

/// What a program left behind.
struct Ended {
    status: ExitStatus,
    output: String,
    restored: bool,
}

/// This test as a program of its own.
fn program(test: &str, role: &str) -> Vec<OsString> {
    let arguments = ["--exact", test, "--nocapture"].map(OsString::from);
    // The report of a panic has to fit into the terminal.
    let program: [OsString; 4] =
        ["env".into(), "RUST_BACKTRACE=0".into(), format!("{ROLE}={role}").into(), std::env::current_exe().unwrap().into()];
    program.into_iter().chain(arguments).collect()
}

/// Whether this is the program, which has then played its role.
fn is_program() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    play(&role);
    true
}

impl Terminal {
    /// A terminal with a program that plays a role; none in that program.
    fn start(test: &str, role: &str, script: &str) -> Option<Self> {
        if is_program() {
            return None;
        }
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).unwrap();
        let end = || Stdio::from(pair.slave.try_clone().unwrap());
        let child = Command::new("setsid")
            .args(["--ctty", "sh", "-c", script, "sh"])
            .args(program(test, role))
            .env("TERM", "xterm-256color")
            .stdin(end())
            .stdout(Stdio::piped())
            .stderr(end())
            .spawn()
            .unwrap();
        Some(Self { child, ours: pair.master.into(), theirs: pair.slave, emulator: vt100::Parser::default() })
    }

    /// Reads what the program writes until the screen is as wanted.
    fn wait_for(&mut self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !wanted(self.emulator.screen()) {
            assert!(Instant::now() < deadline, "waiting for {what}:\n{}", self.emulator.screen().contents());
            self.read();
        }
    }

    /// Feeds the emulator with what there is, or comes soon.
    fn read(&mut self) -> bool {
        let mut ends = [PollFd::new(self.ours.as_fd(), PollFlags::POLLIN)];
        poll(&mut ends, PollTimeout::from(20u8)).unwrap();
        let readable = ends[0].any().unwrap_or(false);
        let mut bytes = [0; 4096];
        let length = if readable { self.ours.read(&mut bytes).unwrap_or(0) } else { 0 };
        self.emulator.process(&bytes[..length]);
        length > 0
    }

    fn wait_for_screen(&mut self) {
        self.wait_for("the screen", |screen| screen.alternate_screen() && screen.contents().contains("q or Ctrl-C"));
    }

    fn press(&mut self, keys: &[u8]) {
        self.ours.write_all(keys).unwrap();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.theirs).unwrap().local_flags.intersects(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
    }

    /// Waits for the end of the program.
    fn ended(&mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            self.read();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the program does not end:\n{}", self.emulator.screen().contents());
        };
        while self.read() {}
        let mut output = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        let restored = output.lines().next() == output.lines().last() && !self.emulator.screen().alternate_screen();
        Ended { status, output, restored: restored && !self.emulator.screen().hide_cursor() }
    }
}

impl Drop for Terminal {
    /// A test that failed leaves no program behind: the end of the terminal ends all in it.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ends_after(test: &str, keys: &[u8]) {
    let Some(mut terminal) = Terminal::start(test, "ends", FOREGROUND) else { return };
    terminal.wait_for_screen();
    let screen = terminal.emulator.screen();
    for figure in ["measuring", "101,234/s now", "p50 48.2 us", "15 s left", "answered"] {
        assert!(screen.contents().contains(figure), "{figure} in:\n{}", screen.contents());
    }
    assert!(screen.hide_cursor() && terminal.is_raw());
    terminal.press(keys);
    let ended = terminal.ended();
    assert!(ended.status.success() && ended.restored, "{}", ended.output);
    assert!(ended.output.contains("the result") && !ended.output.contains('\u{1b}'), "{:?}", ended.output);
    assert_eq!(terminal.emulator.screen().contents(), "", "nothing stays of the screen");
}

#[test]
fn q_ends_the_run_and_restores_the_terminal() {
    ends_after("q_ends_the_run_and_restores_the_terminal", b"q");
}

#[test]
fn control_c_ends_the_run_and_restores_the_terminal() {
    ends_after("control_c_ends_the_run_and_restores_the_terminal", b"\x1b[xyz\x03");
}

#[test]
fn a_panic_restores_the_terminal_before_it_is_reported() {
    let Some(mut terminal) = Terminal::start("a_panic_restores_the_terminal_before_it_is_reported", "panics", FOREGROUND) else {
        return;
    };
    let ended = terminal.ended();
    assert!(!ended.status.success() && ended.restored, "{}", ended.output);
    let left = terminal.emulator.screen().contents();
    assert!(left.contains("on purpose"), "{left}");
}

#[test]
fn a_panic_that_is_survived_ends_the_screen_but_not_the_run() {
    let Some(mut terminal) =
        Terminal::start("a_panic_that_is_survived_ends_the_screen_but_not_the_run", "goes on after a panic", FOREGROUND)
    else {
        return;
    };
    let ended = terminal.ended();
    assert!(ended.status.success() && ended.restored && ended.output.contains("the result"), "{}", ended.output);
    let left = terminal.emulator.screen().contents();
    assert!(left.contains("elsewhere") && !left.contains("measuring"), "{left}");
}

#[test]
fn a_run_that_does_not_end_holds_nobody() {
    let Some(mut terminal) = Terminal::start("a_run_that_does_not_end_holds_nobody", "does not end", FOREGROUND) else { return };
    terminal.wait_for_screen();
    terminal.press(b"\x03\x03");
    terminal.wait_for("the terminal as it was", |screen| !screen.alternate_screen() && !screen.hide_cursor());
    let deadline = Instant::now() + PATIENCE;
    while terminal.is_raw() {
        assert!(Instant::now() < deadline, "the second Ctrl-C gives the terminal back");
        terminal.read();
    }
    terminal.press(b"\x03");
    assert_eq!(terminal.ended().status.signal(), Some(nix::sys::signal::Signal::SIGINT as i32));
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let Some(mut terminal) = Terminal::start("the_screen_follows_the_size_of_the_terminal", "ends", FOREGROUND) else { return };
    terminal.wait_for_screen();
    let name = nix::unistd::ttyname(&terminal.theirs).unwrap();
    terminal.emulator.screen_mut().set_size(10.try_into().unwrap(), 40.try_into().unwrap());
    let stty = Command::new("stty").arg("-F").arg(name).args(["cols", "40", "rows", "10"]).status().unwrap();
    assert!(stty.success());
    terminal.wait_for("the small screen", |screen| {
        let contents = screen.contents();
        let lines: Vec<&str> = contents.lines().collect();
        lines.first() == Some(&"echo at tcp://127.0.0.1:60007")
            && lines.last() == Some(&"q or Ctrl-C: end now, with what was ...")
    });
    terminal.press(b"q");
    assert!(terminal.ended().status.success());
}

#[test]
fn a_job_in_the_background_prints_lines() {
    let Some(mut terminal) = Terminal::start("a_job_in_the_background_prints_lines", "ends", BACKGROUND) else { return };
    let ended = terminal.ended();
    assert!(ended.status.success() && ended.restored && ended.output.contains("the result"), "{}", ended.output);
    let left = terminal.emulator.screen().contents();
    assert!(left.contains("measuring; 15 s left; 101,234/s now"), "{left}");
}

#[test]
fn without_a_terminal_there_are_lines() {
    if is_program() {
        return;
    }
    let command = program("without_a_terminal_there_are_lines", "ends");
    let program = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).output().unwrap();
    let lines = String::from_utf8(program.stderr).unwrap();
    assert!(program.status.success() && lines.starts_with("echo at tcp://127.0.0.1:60007\nmeasuring; 15 s left; "), "{lines}");
    assert!(String::from_utf8(program.stdout).unwrap().contains("the result"));
}
