//! `corelane rss check`: right servers are right, and a fault in who gets which flow is found and named.

use crate::common::*;
use nix::libc::{BPF_K, BPF_RET, sock_filter, sock_fprog};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket, sockopt};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Output};

/// Flows for each of the 128 buckets, by default.
const FLOWS: u64 = 4;
const ALL: u64 = 128 * FLOWS;
const PLACES: [&str; 4] = ["echo=tcp://127.0.0.1:0", "echo=tcp://[::1]:0", "echo=udp://127.0.0.1:0", "echo=udp://[::1]:0"];

fn start(arguments: &[&str]) -> Server {
    Server::start(&[&["--lanes", "3"], arguments, &PLACES].concat())
}

fn check(run: &Scratch, arguments: &[&str]) -> Output {
    output(Command::new(PROGRAM).args(["rss", "check"]).args(arguments).env("CORELANE_RUN_DIR", run.path()))
}

/// What it found, and its exit code.
fn found(run: &Scratch, arguments: &[&str]) -> (i32, Value) {
    let output = check(run, &[arguments, &["--json"]].concat());
    assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let lanes = found["lanes"].as_array().unwrap();
    let sum = |field: &str| lanes.iter().map(|lane| number(&lane[field])).sum::<u64>();
    assert_eq!(number(&found["sent"]), number(&found["arrived"]) + number(&found["lost"]), "{found}");
    for field in ["sent", "arrived", "strays"] {
        assert_eq!(sum(field), number(&found[field]), "{found}");
    }
    (output.status.code().unwrap(), found)
}

fn sums(found: &Value) -> [u64; 3] {
    ["sent", "arrived", "strays"].map(|field| number(&found[field]))
}

#[test]
fn flows_are_right_at_every_place_before_and_after_a_rewrite() {
    for steering in ["auto", "classic"] {
        let server = start(&["--steering", steering]);
        for moved in ["", "0-63:2"] {
            if !moved.is_empty() {
                let mut table = Command::new(PROGRAM);
                table.args(["rss", "table", "--move", moved]).env("CORELANE_RUN_DIR", server.run.path());
                assert!(output(&mut table).status.success());
            }
            for url in &server.urls {
                let (code, found) = found(&server.run, &[url]);
                assert_eq!((code, sums(&found)), (0, [ALL, ALL, 0]), "{found}");
                assert_eq!((number(&found["strays_counted"]), number(&found["unreached"])), (0, 0));
                assert_eq!((&found["url"], number(&found["pid"])), (&Value::from(url.as_str()), server.pid().into()));
            }
        }
        let shown = check(&server.run, &[&server.urls[0], "--pid", &server.pid().to_string(), "--flows", "1"]);
        let text = String::from_utf8(shown.stdout).unwrap();
        assert!(text.contains("128 sent, 128 arrived, 0 lost, 0 strays"), "{text}");
    }
}

#[test]
fn udp_by_addresses_is_checked_from_many_addresses() {
    let server = start(&["--udp-hash", "2"]);
    let (code, found) = found(&server.run, &[&format!("udp://{}", server.udp())]);
    assert_eq!((code, sums(&found)), (0, [ALL, ALL, 0]), "{found}");
}

#[test]
fn of_the_addresses_of_a_name_the_one_that_is_served_is_checked() {
    let test = "rss_check::of_the_addresses_of_a_name_the_one_that_is_served_is_checked";
    if !is_root(test) || !have(test, &["unshare", "mount"]) {
        return;
    }
    let (folder, server) = (Scratch::new(), Server::start(&["--lanes", "2", TCP]));
    let (port, pid) = (server.tcp().port(), server.pid().to_string());
    for more in [&[][..], &["--pid", &pid]] {
        let mut check = where_many_test_has_two_addresses(&folder);
        check.args(["rss", "check", &format!("tcp://many.test:{port}"), "--flows", "1"]).args(more);
        let checked = output(check.env("CORELANE_RUN_DIR", server.run.path()));
        assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    }
}

#[test]
fn one_lane_is_always_right() {
    let server = Server::start(&["--lanes", "1", TCP]);
    assert_eq!(found(&server.run, &[&server.urls[0]]).0, 0);
}

/// Has every flow to `at` selected for the socket that came first there, as anybody of the same user can.
fn take_over(at: SocketAddr, kind: SockType) -> OwnedFd {
    // No child of another test is to have it, or it would stay when it is closed here.
    let own = socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&own, sockopt::ReusePort, &true).unwrap();
    bind(own.as_raw_fd(), &SockaddrStorage::from(at)).unwrap();
    if kind == SockType::Stream {
        listen(&own, Backlog::new(1).unwrap()).unwrap();
    }
    let mut first = [sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    let program = sock_fprog { len: 1, filter: first.as_mut_ptr() };
    setsockopt(&own, sockopt::AttachReusePortCbpf, &program).unwrap();
    own
}

#[test]
fn flows_of_other_lanes_on_the_first_socket_are_found() {
    for (steering, scheme, kind) in
        [("auto", "tcp", SockType::Stream), ("classic", "tcp", SockType::Stream), ("auto", "udp", SockType::Datagram)]
    {
        let server = start(&["--steering", steering]);
        let at = server.address(scheme);
        let url = format!("{scheme}://{at}");
        let first = take_over(at, kind);
        let (code, wrong) = found(&server.run, &[&url]);
        // Lanes register in turn, but which is first is chance. 43 buckets are lane 0's and lane 1's, 42 are lane 2's.
        let [sent, arrived, strays] = sums(&wrong);
        assert_eq!((code, sent, arrived), (3, ALL, ALL), "{wrong}");
        assert!([FLOWS * 85, FLOWS * 86].contains(&strays), "{wrong}");
        assert_eq!(number(&wrong["strays_counted"]), strays, "the process counts the same");
        let on = &wrong["misplaced"][0]["arrived_on"];
        let misplaced = wrong["misplaced"].as_array().unwrap();
        assert!(misplaced.iter().all(|one| one["arrived_on"] == *on && one["lane"] != *on && one["flows"] == FLOWS), "{wrong}");
        let shown = check(&server.run, &[&url]);
        let text = String::from_utf8(shown.stdout).unwrap();
        assert_eq!(shown.status.code(), Some(3));
        assert!(text.contains(&format!("{strays} strays\nbucket ")) && text.contains(" arrived on lane "), "{text}");
        drop(first);
    }
}

#[test]
fn the_process_tells_its_key() {
    let server = start(&["--key", "random"]);
    let (code, found) = found(&server.run, &[&format!("tcp://{}", server.address("tcp"))]);
    assert_eq!((code, sums(&found)), (0, [ALL, ALL, 0]), "{found}");
}

#[test]
fn a_log_is_judged() {
    let folder = Scratch::new();
    let log = folder.path().join("log").display().to_string();
    fs::write(&log, "flowid queue\n0x21f7db62 3\n0x21f7db62 3\n0x335a5c03 2\n").unwrap();
    let (code, wrong) = found(&folder, &["--log", &log, "--lanes", "4"]);
    assert_eq!((code, sums(&wrong)), (3, [3, 3, 3]), "{wrong}");
    assert_eq!(wrong["misplaced"][1], serde_json::json!({ "bucket": 98, "lane": 2, "arrived_on": 3, "flows": 2 }));
    fs::write(&log, "0x21f7db62 2\n0x335a5c03 3\n").unwrap();
    assert_eq!(found(&folder, &["--log", &log, "--lanes", "4"]).0, 0);
}

#[test]
fn what_cannot_be_checked_is_named() {
    let server = Server::start(&["--lanes", "2", "--steering", "kernel", TCP]);
    let folder = Scratch::new();
    let log = folder.path().join("log").display().to_string();
    fs::write(&log, "0x1 1\nnonsense\n").unwrap();
    let (url, pid) = (server.urls[0].as_str(), server.pid().to_string());
    let cases: &[(&[&str], &str)] = &[
        (&[url], "no table chooses the lanes here"),
        (&["tcp://127.0.0.1:9"], "no corelane process of this user here serves tcp://127.0.0.1:9"),
        (&["tcp://127.0.0.1:9", "--pid", &pid], "does not serve tcp://127.0.0.1:9"),
        (&["tcp://127.0.0.1"], "names no port"),
        (&["http://127.0.0.1:9"], "http"),
        (&[url, "--lanes", "4"], "--lanes is for --log"),
        (&["--log", "/nowhere/log"], "--log: /nowhere/log"),
        (&["--log", "/dev/null"], "has no line with a flow"),
        (&["--log", &log], "line 2 is \"nonsense\""),
    ];
    for (arguments, words) in cases {
        let output = check(&server.run, arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(words) && text.lines().count() == 1, "{arguments:?}: {text:?}");
    }
}
