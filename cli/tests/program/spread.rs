//! `corelane load --spread`: the target's lanes get the connections that they are to get, and the report says so.

use crate::common::*;
use serde_json::Value;
use std::process::{Command, Output};

const PLACES: [&str; 3] = [TCP, UDP, "echo=tcp://[::1]:0"];

fn load(run: &Scratch, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["load"]).args(arguments).args(["--json", "--quiet"]).env("CORELANE_RUN_DIR", run.path());
    output(&mut command)
}

/// The connections that each of the target's lanes was to get.
fn told(output: &Output) -> Vec<u64> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let errors = report["errors"].as_object().unwrap();
    assert!(errors.values().all(|count| number(count) == 0), "{errors:?}");
    let lanes = report["target_lanes"].as_array().unwrap();
    let all: u64 = lanes.iter().map(|lane| number(&lane["connections"])).sum();
    for lane in lanes {
        let share = number(&lane["connections"]) as f64 / all as f64;
        assert_eq!(lane["share"].as_f64(), Some(share));
    }
    lanes.iter().map(|lane| number(&lane["connections"])).collect()
}

/// What each lane of the server has of a counter, of all its services.
fn counted(server: &Server, counter: &str) -> Vec<u64> {
    let page = server.page();
    let of_lane = |lane: &Value| {
        lane["services"].as_array().unwrap().iter().map(|service| number(&service["counters"][counter])).sum::<u64>()
    };
    page["lanes"].as_array().unwrap().iter().map(of_lane).collect()
}

fn difference(after: &[u64], before: &[u64]) -> Vec<u64> {
    after.iter().zip(before).map(|(after, before)| after - before).collect()
}

#[test]
fn lanes_get_their_connections() {
    let server = Server::start(&[&["--lanes", "3"], &PLACES[..]].concat());
    for url in [&server.urls[0], &server.urls[2]] {
        for (spread, expected) in
            [("even", [20, 20, 20]), ("one", [60, 0, 0]), ("one:2", [0, 0, 60]), ("3,1,2", [30, 10, 20]), ("1,0,1", [30, 0, 30])]
        {
            let before = counted(&server, "accepts");
            let output = load(&server.run, &["echo", url, "-c", "60", "-n", "600", "--spread", spread]);
            assert_eq!(told(&output), expected, "{spread}");
            assert_eq!(difference(&counted(&server, "accepts"), &before), expected, "{spread} to {url}");
        }
    }
    assert_eq!(server.count("strays"), 0);
}

#[test]
fn datagrams_and_new_connections_go_where_they_should() {
    let server = Server::start(&[&["--lanes", "3"], &PLACES[..]].concat());
    let output = load(&server.run, &["udp", &server.urls[1], "-c", "30", "-n", "300", "--spread", "one:1", "--timeout", "30s"]);
    assert_eq!(told(&output), [0, 30, 0]);
    assert_eq!(counted(&server, "datagrams_in"), [0, 300, 0]);
    let rate = ["--connection-rate", "200", "-n", "100", "--spread", "one:2"];
    let output = load(&server.run, &[&["echo", server.urls[0].as_str(), "-c", "20"], &rate[..]].concat());
    assert_eq!(told(&output), [0, 0, 20]);
    assert_eq!(counted(&server, "accepts"), [0, 0, 100]);
    assert_eq!(server.count("strays"), 0);
}

#[test]
fn the_table_is_asked_for_or_said() {
    let server = Server::start(&["--lanes", "2", TCP]);
    let mut table = Command::new(PROGRAM);
    table.args(["rss", "table", "--weights", "0,1"]).env("CORELANE_RUN_DIR", server.run.path());
    assert!(output(&mut table).status.success());
    // An address of its own, so that no other test has its ports.
    let echo = ["echo", server.urls[0].as_str(), "-c", "10", "-n", "10", "--spread", "even", "--source", "127.0.5.1"];
    assert_eq!(told(&load(&server.run, &echo)), [0, 10], "lane 0 has no buckets");
    assert_eq!(counted(&server, "accepts"), [0, 10]);
    // What is said is believed, though it is not so here.
    let stranger = Scratch::new();
    assert_eq!(told(&load(&stranger, &[&echo[..], &["--spread-lanes", "5"]].concat())), [2; 5]);
}

#[test]
fn what_cannot_be_spread_is_named() {
    let server = Server::start(&["--lanes", "2", TCP]);
    let url = server.urls[0].as_str();
    let cases: &[(&[&str], &str)] = &[
        (&[url, "--spread", "odd"], "--spread: \"odd\" is none of even, one, one:LANE, and weights"),
        (&[url, "--spread", "one:2"], "there is no lane 2"),
        (&[url, "--spread", "1,1,1"], "3 weights for 2 lanes"),
        (&[url, "--spread", "0,0"], "no lane"),
        (&[url, "--spread", "even", "--spread-lanes", "0"], "--spread-lanes"),
        (&[url, "--spread", "even", "--spread-lanes", "129"], "129 lanes are too many for a table of 128 buckets"),
        (&["tcp://127.0.0.1:9", "--spread", "even"], "say how many lanes it has with --spread-lanes"),
        (
            &[url, "--spread", "one", "-c", "9999", "--source", "127.0.0.1", "--spread-lanes", "100"],
            "ports lead to lane 0, for 9999",
        ),
    ];
    for (arguments, words) in cases {
        let output = load(&server.run, &[&["echo"], *arguments].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(words) && text.lines().count() == 1, "{arguments:?}: {text:?}");
    }
}
