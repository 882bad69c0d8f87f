//! What the program finds out about the machine, and the plan it makes of it.

use crate::common::*;
use serde_json::{Value, json};
use std::process::{Command, Output};

/// Runs the program in a network of its own, with a wire that has four queues each way; packets of queue 1 are sent on to
/// CPU 0, and CPU 1 sends from queue 2. /sys is that of the network.
const ON_A_WIRE: [&str; 6] = ["unshare", "--net", "--mount", "sh", "-c", WIRE];
const WIRE: &str = "mount -t sysfs sysfs /sys && ip link set lo up && \
    ip link add wire numrxqueues 4 numtxqueues 4 type veth peer name peer numrxqueues 4 numtxqueues 4 && \
    ip addr add 10.77.0.1/24 dev wire && ip link set wire up && ip link set peer up && \
    echo 1 > /sys/class/net/wire/queues/rx-1/rps_cpus && echo 2 > /sys/class/net/wire/queues/tx-2/xps_cpus && exec \"$0\" \"$@\"";

/// The same with the /sys of the network outside.
const ON_A_WIRE_WITHOUT_SYS: [&str; 5] = ["unshare", "--net", "sh", "-c", OTHER_WIRE];
const OTHER_WIRE: &str = "ip link set lo up && ip link add eth0 numrxqueues 3 numtxqueues 4 type veth peer name peer && \
    ip addr add 10.77.0.1/24 dev eth0 && ip link set eth0 up && ip link set peer up && exec \"$0\" \"$@\"";

fn run(wrapper: &[&str], arguments: &[&str]) -> Output {
    let run = Scratch::new();
    output(wrapped(wrapper, PROGRAM).args(arguments).env("CORELANE_RUN_DIR", run.path()))
}

fn text(output: &Output) -> String {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text
}

fn object(output: &Output) -> Value {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether there can be a network with a wire in it.
fn has_networks(test: &str) -> bool {
    is_root(test) && have(test, &["unshare", "ip", "mount"])
}

fn names(warnings: &Value) -> Vec<&str> {
    warnings.as_array().unwrap().iter().map(|warning| warning["name"].as_str().unwrap()).collect()
}

#[test]
fn a_plan_is_what_serving_would_do() {
    let server = Server::start(&[TCP]);
    let place = format!("echo={}", server.urls[0]);
    // The port is served already: a plan takes nothing.
    let plan = object(&run(&[], &["serve", "--plan", "--json", &place]));
    let cpus: Vec<String> = plan["lanes"].as_array().unwrap().iter().map(|lane| lane["cpu"].to_string()).collect();
    let served: Vec<String> = server.lane_cpus().into_iter().map(|(_, cpu)| cpu).collect();
    assert_eq!(cpus, served);
    assert_eq!((&plan["interface"], &plan["warnings"], server.interface_line.as_str()), (&Value::Null, &json!([]), ""));
    let text = text(&run(&[], &["serve", "--plan", &place]));
    assert_eq!(text.lines().count(), 1 + served.len() + 1, "{text}");
    assert!(text.starts_with("lane ") && text.ends_with("interface: none but loopback\n"), "{text}");
}

#[test]
fn a_plan_obeys_affinity_and_what_was_asked_for() {
    if !have("plan::a_plan_obeys_affinity_and_what_was_asked_for", &["taskset"]) {
        return;
    }
    let plan = object(&run(&[], &["serve", "--plan", "--json"]));
    let last = plan["allowed_cpus"].as_array().unwrap().last().unwrap().to_string();
    let bound = object(&run(&["taskset", "-c", &last], &["serve", "--plan", "--json", "--lanes", "2"]));
    let cpus: Vec<String> = bound["lanes"].as_array().unwrap().iter().map(|lane| lane["cpu"].to_string()).collect();
    assert_eq!((cpus, names(&bound["warnings"])), (vec![last.clone(), last.clone()], vec!["more_lanes_than_cpus"]));
    let text = text(&run(&["taskset", "-c", &last], &["serve", "--plan", "--lanes", "2"]));
    assert!(text.contains("warning: 2 lanes for 1 CPU: some share one\n  remedy: --lanes 1"), "{text}");
}

#[test]
fn a_plan_refuses_what_serving_refuses() {
    for (arguments, word) in [
        (&["--lanes", "0"][..], "0 is not a number of lanes"),
        (&["--cpus", "999"], "CPU 999"),
        (&["echo=tcp://no-such-host.invalid:1"], "no-such-host.invalid"),
        (&["nothing=tcp://127.0.0.1:1"], "no service"),
    ] {
        let output = run(&[], &[&["serve", "--plan"], arguments].concat());
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && words.contains(word) && words.lines().count() == 1, "{words}");
    }
    let output = run(&[], &["serve", "--json"]);
    assert!(output.status.code() == Some(2) && String::from_utf8(output.stderr).unwrap().contains("--plan"));
}

#[test]
fn the_interface_that_serves_is_planned_with() {
    let test = "plan::the_interface_that_serves_is_planned_with";
    if !has_networks(test) {
        return;
    }
    let arguments = ["serve", "--plan", "--lanes", "5", "echo=tcp://10.77.0.1:0"];
    let plan = object(&run(&ON_A_WIRE, &[&arguments[..], &["--json"]].concat()));
    let wire = json!({ "name": "wire", "driver": "veth", "node": null, "rx_queues": 4, "buckets": null });
    assert_eq!(plan["interface"], wire);
    let names = names(&plan["warnings"]);
    assert!(names.ends_with(&["fewer_queues_than_lanes", "packets_sent_on"]), "{names:?}");
    let text = text(&run(&ON_A_WIRE, &arguments));
    for part in ["interface: wire (veth), 4 receive queues", "wire has 4 receive queues for 5 lanes", "queues/rx-1/rps_cpus"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn serving_says_what_stands_in_the_way() {
    let test = "plan::serving_says_what_stands_in_the_way";
    if !has_networks(test) {
        return;
    }
    let server = Server::start_under(&ON_A_WIRE, &["--cpus", "0", "echo=tcp://10.77.0.1:0"]);
    assert!(server.interface_line.starts_with("wire (veth), 4 receive queues"), "{}", server.interface_line);
    let [note] = &server.notes[..] else { panic!("{:?}", server.notes) };
    assert!(note.contains("packets of queue 1 sent on to CPU 0") && note.contains("remedy: echo 0 >"), "{note}");
    assert_eq!(server.page()["notes"], json!(server.notes));
}

#[test]
fn what_an_interface_has_is_shown() {
    let test = "plan::what_an_interface_has_is_shown";
    if !has_networks(test) {
        return;
    }
    let shown = object(&run(&ON_A_WIRE, &["rss", "show", "wire", "--json"]));
    let [wire] = &shown["interfaces"].as_array().unwrap()[..] else { panic!("{shown}") };
    assert_eq!((&wire["driver"], &wire["rx_queues"], &wire["tx_queues"]), (&json!("veth"), &json!(4), &json!(4)));
    assert_eq!((&wire["rps_cpus"], &wire["rss"]), (&json!([[], [0], [], []]), &Value::Null));
    assert_eq!((&wire["channels"]["rx"], &wire["channels"]["rx_max"]), (&json!(4), &json!(4)));
    assert!(wire["addresses"].as_array().unwrap().contains(&json!("10.77.0.1")), "{wire}");
    if wire["xps_cpus"] != json!([[], [], [1], []]) {
        skip(test, "this machine has no CPU 1, or no XPS");
    }
    let text = text(&run(&ON_A_WIRE, &["rss", "show"]));
    for part in
        ["wire (veth): up\n", "peer (veth): up\n", "lo: up\n", "4 receive, 4 transmit", "hash        none", "queue 1: CPU 0"]
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn the_files_of_another_network_are_not_believed() {
    let test = "plan::the_files_of_another_network_are_not_believed";
    if !has_networks(test) {
        return;
    }
    let shown = object(&run(&ON_A_WIRE_WITHOUT_SYS, &["rss", "show", "eth0", "--json"]));
    let eth0 = &shown["interfaces"][0];
    assert_eq!((&eth0["driver"], &eth0["rx_queues"], &eth0["tx_queues"]), (&json!("veth"), &json!(3), &json!(4)));
    assert_eq!((&eth0["interrupts"], &eth0["node"]), (&json!([]), &Value::Null));
}

#[test]
fn an_interface_that_is_not_there_is_named_with_those_there_are() {
    for arguments in [&["rss", "show", "no-such-one"][..], &["rss", "show", "no-such-one", "--json"]] {
        let output = run(&[], arguments);
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{words}");
        assert!(
            words.starts_with("corelane: there is no interface \"no-such-one\": there are ") && words.contains("lo"),
            "{words}"
        );
        assert_eq!(words.lines().count(), 1);
    }
}

#[test]
fn what_steers_running_processes_is_shown() {
    let server = Server::start(&["--lanes", "2", TCP, UDP]);
    let show = |arguments: &[&str]| {
        output(Command::new(PROGRAM).args(["rss", "show"]).args(arguments).env("CORELANE_RUN_DIR", server.run.path()))
    };
    let shown = object(&show(&["--json"]));
    let [process] = &shown["processes"].as_array().unwrap()[..] else { panic!("{shown}") };
    assert_eq!((&process["pid"], &process["services"][1]["url"]), (&json!(server.pid()), &json!(server.urls[1])));
    let steering = server.page()["lanes"][0]["steering"].as_str().unwrap().to_owned();
    assert_eq!(process["lanes"][0]["steering"], json!(steering));
    let text = text(&show(&[]));
    assert!(text.contains(&format!("process {}: 2 lanes, steered by {steering}\n", server.pid())), "{text}");
    assert!(text.contains(&server.urls[0]), "{text}");
}
