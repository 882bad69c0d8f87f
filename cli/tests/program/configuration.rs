//! `serve --config` and the environment: the flags' words, each with its place.

use crate::common::*;
use nix::sys::signal::Signal;
use std::fs;
use std::io::Read;
use std::path::Path;
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
        "services = [\"echo=tcp://127.0.0.1:0\"]\nlanes = 1\ndriver = \"epoll\"\nspin = \"50us\"\n[limit]\nidle_limit = \"30s\"\nread_limit = \"30s\"\n",
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
        ("memory = 64\n", "c.toml:1:10: --memory: a lane cannot work with 64 bytes: use 4MiB to 64GiB, such as 64MiB"),
        ("services = [\n  \"echo=tcp://127.0.0.1:0\",\n  \"echo=tcp://127.0.0.1:0?reflekt\",\n]\n", "c.toml:3:3: "),
        ("services = [\"--join\"]\n", "c.toml:1:13: services: \"--join\" is not SERVICE=URL"),
        ("[limit]\nidle_limit = \"1s\"\nno_limit = 1\n", "c.toml:3:1: --limit: "),
        ("[limit]\nidle_limit = 3\n", "c.toml:2:1: --limit: idle_limit: \"3\" has no unit: write 3s for seconds"),
        ("spin = 50\n", "c.toml:1:8: invalid value '50' for '--spin <TIME>': \"50\" has no unit"),
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

/// Nor is anything made that a start would make.
#[test]
fn who_asks_whether_settings_are_right_writes_nothing() {
    let folder = Scratch::new();
    let place = folder.path().to_str().unwrap();
    let files = |log: &str| format!("http=http://127.0.0.1:0?root={place}&log={place}/{log}");
    for asking in [&["--check"][..], &["--plan"]] {
        let right = serve(&[asking, &["--lanes", "1", &files("access.log")]].concat(), &[]);
        assert!(right.status.success(), "{right:?}");
        let wrong = serve(&[asking, &["--lanes", "1", &files("none/access.log")]].concat(), &[]);
        let said = String::from_utf8(wrong.stderr).unwrap();
        assert!(wrong.status.code() == Some(2) && said.contains("none/access.log cannot be opened"), "{said}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "something was made");
    let server = Server::start(&["--lanes", "1", &files("access.log")]);
    assert!(folder.path().join("access.log").exists(), "a start makes it");
    drop(server);
}

#[test]
fn the_environment_sets_and_is_named_when_it_is_wrong() {
    let (_folder, file) = written("memory = 1\n");
    let right =
        serve(&["--check"], &[("CORELANE_CONFIG", &file), ("CORELANE_MEMORY", "8MiB"), ("CORELANE_PORT", "tcp://192.0.2.1:1")]);
    assert!(right.status.success(), "the environment precedes the file: {right:?}");
    assert!(String::from_utf8(right.stdout).unwrap().ends_with("checked: the settings are right; nothing was started\n"));
    let wrong = serve(&["--check"], &[("CORELANE_LANES", "many")]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().starts_with("corelane: CORELANE_LANES: invalid value 'many'"));
}

/// Whether a new connection that does nothing is closed soon: nobody closes one that the old limit still holds.
fn is_closed_when_idle(server: &Server) -> bool {
    let mut idle = server.connect();
    idle.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
    matches!(idle.read(&mut [0]), Ok(0))
}

#[test]
fn a_hangup_changes_the_level_of_the_log() {
    let folder = Scratch::new();
    let path = folder.path().join("corelane.toml");
    let write = |level: &str, idle: &str| {
        replace(&path, &format!("services = [\"{TCP}\"]\nlog-level = \"{level}\"\n[limit]\nidle_limit = \"{idle}\"\n"));
    };
    write("error", "10m");
    let server = Server::start(&["--config", path.to_str().unwrap()]);
    write("error", "1ms");
    server.signal(Signal::SIGHUP);
    until("the limit is changed", || is_closed_when_idle(&server));
    write("info", "1ms");
    server.signal(Signal::SIGHUP);
    until("the level is changed", || server.words().contains("SIGHUP: the level of the log is changed"));
    assert!(!server.words().contains("limits of time"), "that was no error: {}", server.words());
    write("warn", "1ms");
    server.signal(Signal::SIGHUP);
    write("warning", "1ms");
    server.signal(Signal::SIGHUP);
    until("what is wrong is a warning", || server.words().contains("what was there before is kept"));
    assert_eq!(server.words().matches("the level of the log").count(), 1, "{}", server.words());
}

#[test]
fn a_hangup_changes_limits_of_time_and_names_what_counts_from_the_next_start_on() {
    let folder = Scratch::new();
    let path = folder.path().join("corelane.toml");
    let file = path.to_str().unwrap();
    let write = |idle: &str, lanes: u32| {
        replace(&path, &format!("services = [\"{TCP}\"]\nlanes = {lanes}\n[limit]\nidle_limit = \"{idle}\"\n"));
    };
    write("10m", 1);
    let server = Server::start(&["--config", file]);
    let mut stays = server.connect();
    echo(&mut stays, b"for ten minutes");
    let hang_up = |words: &str| {
        server.signal(Signal::SIGHUP);
        until(words, || server.words().contains(words));
    };
    write("1ms", 2);
    hang_up("corelane: SIGHUP: the limits of time are changed");
    until("what cannot change is named", || {
        server.words().contains(&format!("{file}:2:9: lanes \"2\" counts from the next start on"))
    });
    // It was the limit of a connection that has nothing to do from then on; who does nothing is closed long before ten minutes are over.
    until("the limit is changed", || is_closed_when_idle(&server));
    server.wait_for("idle_limit_hits", |hits| hits >= 1);
    replace(&path, "lanes = \n");
    hang_up("[CL-0023] SIGHUP: what was there before is kept: ");
    // One line of a cause is written each second.
    until("what is wrong with a limit is named with its place", || {
        replace(&path, &format!("services = [\"{TCP}\"]\nlanes = 1\n[limit]\nidle_limit = \"soon\"\n"));
        server.signal(Signal::SIGHUP);
        server.words().contains(&format!("{file}:4:1: --limit: idle_limit: "))
    });
    write("10m", 1);
    hang_up("lanes \"1\" counts from the next start on");
    replace(&path, &format!("services = [\"{TCP}\"]\n[limit]\nidle_limit = \"10m\"\n"));
    hang_up("lanes \"1\" is gone, which counts from the next start on");
    echo(&mut server.connect(), b"it still serves");
}

/// Gives a file another text whole at once: a hangup may still be under way that reads it.
fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).and_then(|()| fs::rename(&next, path)).unwrap();
}

/// Waits until the server says these words after a hangup.
fn hang_up(server: &Server, words: &str) {
    server.signal(Signal::SIGHUP);
    until(words, || server.words().contains(words));
}

/// Two services at one address, however they are written.
const TWICE: &str =
    "services = [\"echo=tcp://127.0.0.1:9\", \"echo=udp://127.0.0.1:9\", \"proxy=tcp://127.0.0.1:9?to=127.0.0.1:1\"]\n";

#[test]
fn what_is_wrong_is_wrong_at_a_start_a_check_the_doctor_and_a_hangup() {
    let scratch = Scratch::new();
    let wrong = [
        ("[limit]\nidle_limt = \"5s\"\n", "there is no limit \"idle_limt\""),
        ("[limit]\nidle_limit = 5\n", "idle_limit: \"5\" has no unit"),
        ("[limit]\nrecord_max = \"5MiB\"\n", "record_max=5MiB: a lane with 64 MiB"),
        ("lanes = 0\n", "0 is not a number of lanes"),
        ("user = \"no-such-user-here\"\n", "there is no user \"no-such-user-here\""),
        ("cpus = \"99\"\n", "CPU 99 is not among"),
        (TWICE, "echo and proxy are both to be served at tcp://127.0.0.1:9"),
    ];
    let running = scratch.path().join("running.toml");
    let right = format!("services = [\"{TCP}\"]\n[limit]\nidle_limit = \"10m\"\n");
    fs::write(&running, &right).unwrap();
    let server = Server::start(&["--config", running.to_str().unwrap()]);
    for (text, words) in wrong {
        let services = if text == TWICE { String::new() } else { format!("services = [\"{TCP}\"]\n") };
        let (_folder, file) = written(&format!("{services}{text}"));
        for arguments in [&["serve"][..], &["serve", "--check"], &["serve", "--plan"], &["doctor"]] {
            let told = output(Command::new(PROGRAM).args(arguments).args(["--config", &file]));
            let said = [told.stdout, told.stderr].map(|said| String::from_utf8(said).unwrap()).join(" ");
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(!told.status.success() && said.contains(words), "{arguments:?} {text:?}: {said}");
        }
        // One line of a cause is written each second.
        until(words, || {
            replace(&running, &fs::read_to_string(&file).unwrap());
            server.signal(Signal::SIGHUP);
            server.words().contains(words)
        });
    }
    replace(&running, &right.replace("10m", "9m"));
    hang_up(&server, "SIGHUP: the limits of time are changed");
    assert!(!server.words().contains("counts from the next start on"), "what is refused counts never: {}", server.words());
}

#[test]
fn a_variable_that_sets_nothing_is_named() {
    let doctor = output(Command::new(PROGRAM).args(["doctor", "--json", "--", TCP]).env("CORELANE_LANE", "3"));
    let check = serve(&["--check", TCP], &[("CORELANE_LANE", "3"), ("CORELANE_LANES", "1")]);
    for told in [&doctor, &check] {
        let said = String::from_utf8_lossy(&told.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.status.success() && said.contains("CL-0030") && said.contains("CORELANE_LANE,"), "{told:?}");
    }
    let server = Server::start_under(&["env", "CORELANE_LANE=3"], &[TCP]);
    assert!(server.notes.iter().any(|note| note.contains("[CL-0030]") && note.contains("CORELANE_LANE,")), "{:?}", server.notes);
}

#[test]
fn a_root_that_the_user_cannot_read_is_refused_before_anybody_is_served() {
    let test = "configuration::a_root_that_the_user_cannot_read_is_refused_before_anybody_is_served";
    if !is_root(test) {
        return;
    }
    let scratch = Scratch::new();
    fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for mode in [0o700, 0o711, 0o744] {
        let root = scratch.path().join(format!("{mode:o}"));
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let place = format!("http=http://127.0.0.1:0?root={}", root.display());
        let user = ["--user", "7777777:7777777"];
        for arguments in [&["serve"][..], &["serve", "--check"], &["doctor", "--"]] {
            let told =
                output(Command::new(PROGRAM).args(arguments).args(user).arg(&place).env("CORELANE_RUN_DIR", scratch.path()));
            let said =
                String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).split_whitespace().collect::<Vec<_>>().join(" ");
            let words = "this user may not list this directory and go into it";
            assert!(!told.status.success() && said.contains(words), "{mode:o} {arguments:?}: {said}");
        }
        let right = output(Command::new(PROGRAM).args(["serve", "--check", &place]));
        assert!(right.status.success(), "root may: {right:?}");
    }
}

#[test]
fn too_few_descriptors_for_the_limits_are_told_at_the_start() {
    let test = "configuration::too_few_descriptors_for_the_limits_are_told_at_the_start";
    if !have(test, &["prlimit"]) {
        return;
    }
    // A service that may have more than a lane has by default raises the lane's own bound as well.
    let cases =
        [("64", "idle_limit=10m", 1088), ("500", "connections_max=1000", 1064), ("500", "connections_max=150000", 150_064)];
    for (descriptors, limit, wanted) in cases {
        let wrapper = ["prlimit", &format!("--nofile={descriptors}")];
        let words = format!("a lane may have {descriptors} descriptors, and its limits of connections ask for {wanted}:");
        let server = Server::start_under(&wrapper, &["--lanes", "1", "--limit", limit, TCP]);
        assert!(server.notes.iter().any(|note| note.contains("[CL-0029]") && note.contains(&words)), "{:?}", server.notes);
        echo(&mut server.connect(), b"it serves all the same");
        let check = output(wrapped(&wrapper, PROGRAM).args(["serve", "--check", "--lanes", "1", "--limit", limit, TCP]));
        let said = String::from_utf8(check.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(check.status.success() && said.contains(&words), "{said}");
    }
}
