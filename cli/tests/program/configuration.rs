//! `serve --config` and the environment: the flags' words, each with its place.

use crate::common::*;
use nix::sys::signal::Signal;
use std::fs;
use std::io::Read;
use std::process::{Command, Output};

/// A folder with this configuration in it, and its path.
fn written(text: &str) -> (Scratch, String) {
    let folder = Scratch::new();
    let file = folder.path().join("c.toml");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (folder, file)
}

fn serve(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    output(Command::new(PROGRAM).arg("serve").args(arguments).envs(environment.iter().copied()))
}

#[test]
fn a_file_serves_as_the_flags_would() {
    let (_folder, file) = written(
        "services = [\"echo=tcp://127.0.0.1:0\"]\nlanes = 1\ndriver = \"epoll\"\nspin = \"50us\"\n[limit]\nidle_limit = \"30s\"\nread_limit = 30000\n",
    );
    let server = Server::start(&["--config", &file]);
    assert_eq!(server.urls.len(), 1, "{:?}", server.urls);
    assert!(server.driver_line.starts_with("epoll, 1 lane on"), "{}", server.driver_line);
    let given = Server::start(&["--config", &file, UDP]);
    assert!(given.urls.len() == 1 && given.urls[0].starts_with("udp://"), "{:?}", given.urls);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let cases = [
        ("lanes = \n", "c.toml:1:9: "),
        ("lanes = 1\nlane = 2\n", "c.toml:2:1: there is no \"lane\" (did you mean lanes?): the keys are services, "),
        ("plan = true\n", "c.toml:1:1: there is no \"plan\""),
        ("\n  lanes = \"many\"\n", "c.toml:2:11: invalid value 'many' for '--lanes <N>'"),
        ("lanes = 99999999999999999999999\n", "c.toml:1:9: lanes: "),
        ("lanes = [1]\n", "c.toml:1:9: lanes: it cannot be array"),
        ("lanes = true\n", "c.toml:1:9: lanes: true and false are no values of it"),
        ("join = \"yes\"\n", "c.toml:1:8: join: \"yes\" is neither true nor false"),
        ("driver = \"select\"\n", "c.toml:1:10: "),
        ("udp-hash = 3\n", "c.toml:1:12: invalid value '3' for '--udp-hash <N>' [possible values: 4, 2]"),
        ("spin = \"soon\"\n", "c.toml:1:8: invalid value 'soon' for '--spin <TIME>': \"soon\" is no time"),
        ("[limit]\nidle_limit = \"30 apples\"\n", "c.toml:2:1: --limit: idle_limit: \"30 apples\" is no time"),
        ("memory = 1\n", "c.toml:1:10: --memory: a lane cannot work with 1 MiB"),
        ("services = [\n  \"echo=tcp://127.0.0.1:0\",\n  \"echo=tcp://127.0.0.1:0?reflekt\",\n]\n", "c.toml:3:3: "),
        ("services = [\"--join\"]\n", "c.toml:1:13: services: \"--join\" is not SERVICE=URL"),
        ("[limit]\nidle_limit = 1\nno_limit = 1\n", "c.toml:3:1: --limit: "),
    ];
    for (text, words) in cases {
        let (_folder, file) = written(text);
        let output = serve(&["--check", "--config", &file], &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{text:?}: {said}");
        assert!(said.contains(words), "{text:?}: {words:?} is not in {said:?}");
    }
}

#[test]
fn a_file_that_is_not_there_or_far_too_long_is_named() {
    let (_folder, file) = written(&"#".repeat((1 << 20) + 1));
    for (file, words) in [("/there/is/none.toml", "No such file"), (file.as_str(), "longer than 1048576 bytes")] {
        let output = serve(&["--check", "--config", file], &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(file) && said.contains(words), "{said}");
    }
}

#[test]
fn the_environment_sets_and_is_named_when_it_is_wrong() {
    let (_folder, file) = written("memory = 1\n");
    let right =
        serve(&["--check"], &[("CORELANE_CONFIG", &file), ("CORELANE_MEMORY", "8"), ("CORELANE_PORT", "tcp://192.0.2.1:1")]);
    assert!(right.status.success(), "the environment precedes the file: {right:?}");
    assert!(String::from_utf8(right.stdout).unwrap().ends_with("checked: the settings are right; nothing was started\n"));
    let wrong = serve(&["--check"], &[("CORELANE_LANES", "many")]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().starts_with("corelane: CORELANE_LANES: invalid value 'many'"));
}

#[test]
fn a_hangup_changes_the_level_of_the_log() {
    let folder = Scratch::new();
    let path = folder.path().join("corelane.toml");
    let write = |level: &str, idle: u32| {
        let words = format!("services = [\"{TCP}\"]\nlog-level = \"{level}\"\n[limit]\nidle_limit = {idle}\n");
        // Whole at once: a hangup may still be under way.
        let next = path.with_extension("next");
        fs::write(&next, words).and_then(|()| fs::rename(&next, &path)).unwrap();
    };
    write("error", 600_000);
    let server = Server::start(&["--config", path.to_str().unwrap()]);
    write("error", 1);
    server.signal(Signal::SIGHUP);
    until("the limit is changed", || {
        let mut idle = server.connect();
        // Whom the old limit still holds is closed by nobody.
        idle.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
        matches!(idle.read(&mut [0]), Ok(0))
    });
    write("info", 1);
    server.signal(Signal::SIGHUP);
    until("the level is changed", || server.words().contains("SIGHUP: the level of the log is changed"));
    assert!(!server.words().contains("limits of time"), "that was no error: {}", server.words());
    write("warn", 1);
    server.signal(Signal::SIGHUP);
    write("warning", 1);
    server.signal(Signal::SIGHUP);
    until("what is wrong is a warning", || server.words().contains("what was there before is kept"));
    assert_eq!(server.words().matches("the level of the log").count(), 1, "{}", server.words());
}

#[test]
fn a_hangup_changes_limits_of_time_and_names_what_counts_from_the_next_start_on() {
    let folder = Scratch::new();
    let path = folder.path().join("corelane.toml");
    let file = path.to_str().unwrap();
    let write = |idle: u32, lanes: u32| {
        fs::write(&path, format!("services = [\"{TCP}\"]\nlanes = {lanes}\n[limit]\nidle_limit = {idle}\n")).unwrap();
    };
    write(600_000, 1);
    let server = Server::start(&["--config", file]);
    let mut stays = server.connect();
    echo(&mut stays, b"for ten minutes");
    let hang_up = |words: &str| {
        server.signal(Signal::SIGHUP);
        until(words, || server.words().contains(words));
    };
    write(1, 2);
    hang_up("corelane: SIGHUP: the limits of time are changed");
    until("what cannot change is named", || {
        server.words().contains(&format!("{file}:2:9: lanes \"2\" counts from the next start on"))
    });
    // It was the limit of a connection that has nothing to do from then on; who does nothing is closed long before ten minutes are over.
    let mut idle = server.connect();
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    server.wait_for("idle_limit_hits", |hits| hits >= 1);
    fs::write(&path, "lanes = \n").unwrap();
    hang_up("[CL-0023] SIGHUP: what was there before is kept: ");
    // One line of a cause is written each second.
    until("what is wrong with a limit is named with its place", || {
        fs::write(&path, format!("services = [\"{TCP}\"]\nlanes = 1\n[limit]\nidle_limit = \"soon\"\n")).unwrap();
        server.signal(Signal::SIGHUP);
        server.words().contains(&format!("{file}:4:1: --limit: idle_limit: "))
    });
    write(600_000, 1);
    hang_up("lanes \"1\" counts from the next start on");
    fs::write(&path, format!("services = [\"{TCP}\"]\n[limit]\nidle_limit = 600000\n")).unwrap();
    hang_up("lanes \"1\" is gone, which counts from the next start on");
    echo(&mut server.connect(), b"it still serves");
}
