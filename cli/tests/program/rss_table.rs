//! `corelane rss table` and the control socket: what is shown, what changes, who may, and what a hostile client gets.

use crate::common::*;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

/// `corelane rss table` on a run directory.
fn table(run: &Scratch, arguments: &[&str]) -> Output {
    output(Command::new(PROGRAM).args(["rss", "table"]).args(arguments).env("CORELANE_RUN_DIR", run.path()))
}

/// What it prints, without the end of the line.
fn shown(run: &Scratch, arguments: &[&str]) -> String {
    let output = table(run, arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Its exit code is as expected, and it says one line that has all these words.
fn refuses(run: &Scratch, arguments: &[&str], code: i32, words: &[&str]) {
    says(&table(run, arguments), code, words);
}

fn says(output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(text.starts_with("corelane: ") && text.lines().count() == 1, "{text:?}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(output.stdout.is_empty(), "{output:?}");
}

fn served(arguments: &[&str]) -> Server {
    Server::start(&[&["--lanes", "2", "--buckets", "8", TCP], arguments].concat())
}

fn beside(run: &Arc<Scratch>) -> Server {
    Server::start_as(Launch {
        wrapper: &[],
        program: PROGRAM,
        arguments: &["--lanes", "2", "--buckets", "8", TCP],
        run: run.clone(),
    })
}

/// The control sockets of a run directory.
fn sockets(run: &Scratch) -> Vec<PathBuf> {
    let files = fs::read_dir(run.path()).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|suffix| suffix == "control")).collect()
}

/// The counts of each lane.
fn counted(server: &Server, counter: &str) -> Vec<u64> {
    let page = server.page();
    let lanes = page["lanes"].as_array().unwrap();
    lanes.iter().map(|lane| number(&lane["services"][0]["counters"][counter])).collect()
}

fn accepts(server: &Server) -> Vec<u64> {
    counted(server, "accepts")
}

fn connections_open(server: &Server) -> Vec<u64> {
    counted(server, "connections_open")
}

#[test]
fn the_table_is_shown_and_rewritten() {
    let server = served(&[]);
    let shown = |arguments: &[&str]| shown(&server.run, arguments);
    assert_eq!(shown(&[]), "0:0 1:1 2:0 3:1 4:0 5:1 6:0 7:1");
    assert_eq!(shown(&["--set", "0-3:0 4-7:1"]), "0:0 1:0 2:0 3:0 4:1 5:1 6:1 7:1");
    assert_eq!(shown(&["--move", "0,7:1"]), "0:1 1:0 2:0 3:0 4:1 5:1 6:1 7:1");
    assert_eq!(shown(&["--weights", "3,1"]), "0:0 1:0 2:0 3:0 4:0 5:0 6:1 7:1");
    assert_eq!(shown(&["--even"]), "0:1 1:1 2:0 3:0 4:0 5:0 6:1 7:1");
    let object: Value = serde_json::from_str(&shown(&["--json", "--pid", &server.pid().to_string()])).unwrap();
    assert_eq!(object, serde_json::json!({ "pid": server.pid(), "buckets": 8, "table": [1, 1, 0, 0, 0, 0, 1, 1] }));
    assert_eq!(shown(&["--set", &shown(&[])]), shown(&[]), "what is printed can be given back");
}

#[test]
fn new_connections_follow_the_table_and_so_do_idle_ones() {
    let server = served(&[]);
    shown(&server.run, &["--set", "0-7:0"]);
    let mut before: Vec<_> = (0..20).map(|_| server.connect()).collect();
    before.iter_mut().for_each(|stream| echo(stream, b"on lane 0"));
    assert_eq!(accepts(&server), [20, 0]);
    shown(&server.run, &["--move", "0-7:1"]);
    // A connection that answers has arrived.
    before.iter_mut().for_each(|stream| echo(stream, b"on lane 1"));
    assert_eq!(connections_open(&server), [0, 20]);
    let mut after: Vec<_> = (0..20).map(|_| server.connect()).collect();
    after.iter_mut().chain(&mut before).for_each(|stream| echo(stream, b"wherever it is"));
    assert_eq!(accepts(&server), [20, 20]);
    assert_eq!(["moves_away", "moves_here", "moves_lost"].map(|counter| server.count(counter)), [20, 20, 0]);
    // The last lane that serves some cannot leave.
    shown(&server.run, &["--move", "0:0"]);
    shown(&server.run, &["--leave", "1"]);
    before.iter_mut().chain(&mut after).for_each(|stream| echo(stream, b"where its bucket is"));
    assert_eq!(connections_open(&server), [40, 0]);
    assert_eq!(server.count("endings_aborted") + server.count("endings_error"), 0);
}

#[test]
fn what_is_wrong_is_named_and_nothing_changes() {
    let server = served(&[]);
    let cases: &[(&[&str], &str)] = &[
        (&["--move", "8:0"], "there is no bucket 8: the table has 0 to 7"),
        (&["--move", "0:2"], "there is no lane 2: take 0 to 1"),
        (&["--move", "0"], "\"0\" is no entry: write buckets and their lane"),
        (&["--move", ""], "no entry"),
        (&["--move", "0:0\n1:1"], "one line"),
        (&["--set", "0-6:0"], "bucket 7 is not named"),
        (&["--set", "0-7:0 7:1"], "bucket 7 is named twice"),
        (&["--weights", "1"], "1 weights for 2 lanes"),
        (&["--weights", "0,0"], "no lane to serve"),
        (&["--weights", "a,b"], "\"a\" is no weight"),
        (&["--move", &"0:0 ".repeat(9_000)], "at most 16383 bytes"),
    ];
    for (arguments, words) in cases {
        refuses(&server.run, arguments, 2, &[words]);
    }
    assert_eq!(shown(&server.run, &[]), "0:0 1:1 2:0 3:1 4:0 5:1 6:0 7:1");
    let two = table(&server.run, &["--even", "--weights", "1,1"]);
    assert_eq!(two.status.code(), Some(2), "one change at a time: {two:?}");
}

#[test]
fn where_no_table_chooses_it_is_said() {
    let one = Server::start(&["--lanes", "1", "--buckets", "4", TCP]);
    assert_eq!(shown(&one.run, &[]), "0:0 1:0 2:0 3:0");
    refuses(&one.run, &["--even"], 2, &["no table chooses the lanes here", "start with two lanes or more"]);
    let kernel = served(&["--steering", "kernel"]);
    refuses(&kernel.run, &[], 2, &["no table chooses the lanes here (kernel hash does)"]);
}

#[test]
fn which_process_is_meant_must_be_clear() {
    let run = Arc::new(Scratch::new());
    refuses(&run, &[], 2, &["no corelane process of this user is running here", "`corelane serve`"]);
    let mut servers = [beside(&run), beside(&run)];
    let pids = servers.each_ref().map(|server| server.pid().to_string());
    refuses(&run, &[], 2, &["name one with --pid", &pids[0], &pids[1]]);
    shown(&run, &["--pid", &pids[0], "--set", "0-7:1"]);
    assert_eq!(shown(&run, &["--pid", &pids[1]]), "0:0 1:1 2:0 3:1 4:0 5:1 6:0 7:1");
    servers[1].signal(Signal::SIGTERM);
    assert!(servers[1].ended().success());
    assert_eq!(shown(&run, &[]), "0:1 1:1 2:1 3:1 4:1 5:1 6:1 7:1", "one is left");
    assert_eq!(sockets(&run).len(), 1, "who ends takes the socket away");
    refuses(&run, &["--pid", &pids[1]], 2, &[&pids[1], "has ended"]);
    refuses(&run, &["--pid", &std::process::id().to_string()], 2, &["has no counter page"]);
    refuses(&run, &["--pid", "4294967295"], 2, &["there is no process 4294967295"]);
}

#[test]
fn a_killed_process_leaves_a_socket_that_the_next_one_removes() {
    let run = Arc::new(Scratch::new());
    let living = beside(&run);
    let mut killed = beside(&run);
    let pid = killed.pid().to_string();
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert_eq!(sockets(&run).len(), 2);
    refuses(&run, &["--pid", &pid], 2, &[&pid, "has ended"]);
    assert_eq!(shown(&run, &[]), "0:0 1:1 2:0 3:1 4:0 5:1 6:0 7:1", "the one that lives is meant");
    let next = beside(&run);
    let left: Vec<String> = sockets(&run).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    for pid in [living.pid(), next.pid()] {
        assert!(left.iter().any(|name| name.starts_with(&format!("{pid}-"))), "{pid} is not in {left:?}");
        shown(&run, &["--pid", &pid.to_string(), "--even"]);
    }
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_process_that_hangs_is_told_from_one_that_refuses() {
    let server = served(&[]);
    server.signal(Signal::SIGSTOP);
    refuses(&server.run, &[], 1, &[&server.pid().to_string(), "no answer", "does the process hang?"]);
    server.signal(Signal::SIGCONT);
    assert_eq!(shown(&server.run, &[]), "0:0 1:1 2:0 3:1 4:0 5:1 6:0 7:1");
}

#[test]
fn a_process_of_another_user_is_left_to_that_user() {
    if !is_root("rss_table::a_process_of_another_user_is_left_to_that_user") {
        return;
    }
    let server = served(&[]);
    let (folder, run) = (Scratch::new(), Scratch::new());
    let program = copy_for_all(&folder);
    std::os::unix::fs::chown(run.path(), Some(ORDINARY_USER), None).unwrap();
    let mut command = Command::new(program);
    command.args(["rss", "table", "--pid", &server.pid().to_string()]).env("CORELANE_RUN_DIR", run.path());
    says(&output(command.uid(ORDINARY_USER)), 2, &["belongs to user 0 and this is user 65534", "ask as that user"]);
}

/// A connection to the control socket that has sent `bytes`.
fn sent(socket: &Path, bytes: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    // What is too long is not read to its end.
    let _ = stream.write_all(bytes);
    stream
}

/// All that comes; an end with bytes of ours unread shows as a reset behind it.
fn answer(mut stream: UnixStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn what_is_no_request_is_refused_and_the_service_goes_on() {
    // It is to say nothing, and on a busy machine a turn may take a second.
    let server = served(&["--stall", "1h"]);
    let mut stream = server.connect();
    let socket = &sockets(&server.run)[0];
    assert!(answer(sent(socket, &vec![b'0'; 1 << 20])).starts_with("error a request has at most"));
    assert!(answer(sent(socket, &[0, 255, 254, b'\n'])).starts_with("error the request is not UTF-8"));
    assert!(answer(sent(socket, b"GET / HTTP/1.0\r\n\r\n")).starts_with("error there is no such command"));
    let half = sent(socket, b"table set 0-7");
    half.shutdown(Shutdown::Write).unwrap();
    assert!(answer(half).starts_with("error the request ends before its line does"));
    let stuck = sent(socket, b"tab");
    assert_eq!(answer(sent(socket, b"table\n")), "ok 0:0 1:1 2:0 3:1 4:0 5:1 6:0 7:1\n");
    echo(&mut stream, b"nobody noticed");
    assert_eq!(answer(stuck), "", "who stops in the middle is dropped");
    assert_eq!(server.words(), "");
}

#[test]
fn a_hundred_clients_at_once_are_answered_one_after_the_other() {
    let server = served(&[]);
    let socket = &sockets(&server.run)[0];
    let asked = |number: usize| match number % 4 {
        0 => ("table set 0-7:0\n".to_owned(), "ok 0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0\n"),
        1 => ("table set 0-7:1\n".to_owned(), "ok 0:1 1:1 2:1 3:1 4:1 5:1 6:1 7:1\n"),
        2 => ("x".repeat(50_000), "error a request has at most 16383 bytes: ask for less at once\n"),
        _ => ("half".to_owned(), ""),
    };
    let clients: Vec<_> = (0..100).map(|number| (number, sent(socket, asked(number).0.as_bytes()))).collect();
    for (number, stream) in clients {
        assert_eq!(answer(stream), asked(number).1, "client {number}");
    }
    echo(&mut server.connect(), b"still there");
    shown(&server.run, &["--even"]);
}

#[test]
fn lanes_leave_and_come_back() {
    let server = served(&[]);
    let run = &server.run;
    assert_eq!(shown(run, &["--leave", "1"]), "0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0");
    refuses(run, &["--move", "0:1"], 2, &["lane 1 has left"]);
    refuses(run, &["--leave", "1"], 2, &["lane 1 has left"]);
    assert_eq!(shown(run, &["--even"]), "0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0");
    for _ in 0..10 {
        echo(&mut server.connect(), b"lane 0 serves all");
    }
    assert_eq!(accepts(&server), [10, 0]);
    assert_eq!(shown(run, &["--enter", "1"]).matches(":1").count(), 4);
    refuses(run, &["--enter", "1"], 2, &["lane 1 is there"]);
    refuses(run, &["--leave", "2"], 2, &["there is no lane 2"]);
    let socket = &sockets(run)[0];
    assert_eq!(answer(sent(socket, b"lane leave 1\n")), "ok 0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0\n");
}
