//! `corelane profile`: the functions in which the lanes of a running process are.

use crate::common::*;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Profiles a server that is asked all the while.
fn profiled(server: &Server, arguments: &[&str]) -> Output {
    let ends = AtomicBool::new(false);
    let mut stream = server.connect();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                echo(&mut stream, &pattern(60_000, 1));
            }
        });
        let found = output(&mut profile(server, arguments));
        ends.store(true, Ordering::Relaxed);
        found
    })
}

fn profile(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("profile").args(arguments).env("CORELANE_RUN_DIR", server.run.path());
    command
}

#[test]
fn the_functions_of_a_lane_under_load_are_named() {
    let server = Server::start(&["--lanes", "1", TCP]);
    let pid = server.pid().to_string();
    let mut said = String::new();
    // A busy machine gives a lane few samples in a second: they are taken until each part of its turn is among them.
    let are_named = (0..30).any(|_| {
        let done = profiled(&server, &["--pid", &pid, "--lane", "0", "--duration", "1s", "--format", "collapsed"]);
        let (words, errors) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
        assert!(done.status.success(), "{errors}");
        assert!(words.lines().all(|line| line.starts_with("lane 0;")), "{words}\n{errors}");
        said.push_str(&words);
        let named = |function: &str| said.contains(function);
        // A function that stands within another one, as its builder chose, is named without its path.
        (named(";turn;") || named("::turn;")) && named(";corelane_drivers::readiness::")
    });
    assert!(are_named, "{said}");
    let file = server.run.path().join("flames.svg");
    let mut picture = String::new();
    let is_shown = (0..30).any(|_| {
        let done = profiled(&server, &["--duration", "1s", "--out", file.to_str().unwrap()]);
        assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
        picture = std::fs::read_to_string(&file).unwrap();
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
        picture.contains("<title>lane 0: ")
    });
    assert!(is_shown, "{picture}");
}

#[test]
fn what_cannot_be_profiled_is_named() {
    let mut server = Server::start(&["--lanes", "2", TCP]);
    let pid = server.pid().to_string();
    let refused = |server: &Server, arguments: &[&str]| {
        let done = output(&mut profile(server, arguments));
        assert!(!done.status.success(), "{done:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    let own = std::process::id().to_string();
    for (arguments, words) in [
        (["--pid", &pid, "--lane", "7"], format!("--lane: process {pid} has no lane 7, but lanes 0 to 1")),
        (["--pid", &own, "--duration", "1s"], format!("process {own} has no counter page: is it a corelane process")),
        (["--pid", &pid, "--duration", "500ms"], "write a time from 1s to 1h".to_owned()),
    ] {
        let said = refused(&server, &arguments);
        assert!(said.contains(&words), "{said}");
    }
    server.signal(nix::sys::signal::Signal::SIGKILL);
    server.ended();
    let said = refused(&server, &["--pid", &pid]);
    assert!(said.contains(&format!("process {pid} has ended")), "{said}");
}

#[test]
fn who_may_not_look_is_told_what_it_takes() {
    let test = "profile::who_may_not_look_is_told_what_it_takes";
    if !is_root(test) || !have(test, &["setpriv"]) {
        return;
    }
    let folder = std::sync::Arc::new(Scratch::new());
    let program = copy_for_all(&folder);
    let server = Server::start_as(Launch { wrapper: &[], program: PROGRAM, arguments: &["--lanes", "1", TCP], run: folder });
    let pid = server.pid().to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", &program, "profile", "--pid", &pid]);
    let done = output(command.env("CORELANE_RUN_DIR", server.run.path()));
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && (said.contains("is not for this user") || said.contains("of this user")), "{said}");
}
