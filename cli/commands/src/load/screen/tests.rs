//! What becomes of a real terminal. The program in it is this test again, told by an environment variable which role it has.

#[path = "../../../../tests/pty/mod.rs"]
mod pty;

use super::*;
use corelane_load::report::Second;
use pty::{FOREGROUND, PATIENCE, Terminal};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Tells the program in the terminal which role it has.
const ROLE: &str = "CORELANE_TEST_SCREEN";

/// What the program in the terminal does.
fn play(role: &str) {
    let progress = Progress {
        phase: "measuring".to_owned(),
        what: "echo at tcp://127.0.0.1:60007".to_owned(),
        done: 0.5,
        left_s: Some(15.0),
        series: vec![Second { requests_per_second: 101_234.0, ..Second::default() }],
        latency_us: [("50".to_owned(), 48.2)].into(),
        ..Progress::default()
    };
    let Some(mut screen) = Screen::open() else {
        Lines::default().show(&progress);
        return println!("the result");
    };
    screen.show(&progress);
    match role {
        "panics" => panic!("on purpose"),
        "goes on after a panic" => {
            let _ = std::thread::spawn(|| panic!("elsewhere")).join();
            screen.show(&progress);
        }
        _ => loop {
            screen.read_end();
            // reason: the pace of a run that does not end; nothing waits for it.
            std::thread::sleep(Duration::from_millis(5));
        },
    }
    println!("the result");
}

/// This test as a program of its own.
fn program(test: &str, role: &str) -> Vec<OsString> {
    let test = format!("load::screen::tests::{test}");
    let arguments = ["--exact", &test, "--nocapture"].map(OsString::from);
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

/// A terminal with this test as a program that plays a role; none in that program.
fn start(test: &str, role: &str) -> Option<Terminal> {
    (!is_program()).then(|| Terminal::start(&program(test, role), FOREGROUND))
}

#[test]
fn a_panic_restores_the_terminal_before_it_is_reported() {
    let Some(mut terminal) = start("a_panic_restores_the_terminal_before_it_is_reported", "panics") else {
        return;
    };
    let ended = terminal.ended();
    assert!(!ended.status.success() && ended.restored, "{}", ended.output);
    let left = terminal.emulator.screen().contents();
    assert!(left.contains("on purpose"), "{left}");
}

#[test]
fn a_panic_that_is_survived_ends_the_screen_but_not_the_run() {
    let Some(mut terminal) = start("a_panic_that_is_survived_ends_the_screen_but_not_the_run", "goes on after a panic") else {
        return;
    };
    let ended = terminal.ended();
    assert!(ended.status.success() && ended.restored && ended.output.contains("the result"), "{}", ended.output);
    let left = terminal.emulator.screen().contents();
    assert!(left.contains("elsewhere") && !left.contains("measuring"), "{left}");
}

#[test]
fn a_run_that_does_not_end_holds_nobody() {
    let Some(mut terminal) = start("a_run_that_does_not_end_holds_nobody", "does not end") else { return };
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

#[test]
fn q_and_control_c_ask_for_the_end() {
    assert_eq!([requests(b"q"), requests(b"\x03"), requests(b"xq\x03"), requests(b"")], [1, 1, 2, 0]);
    assert_eq!([requests(b"Q"), requests(b"xyz"), requests(b"\x1bOq"), requests(b"\x1bOq\x03")], [0, 0, 0, 1]);
}
