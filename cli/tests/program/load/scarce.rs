//! Descriptors and ports that run out, ways that lead nowhere, and crowds.

use super::*;
use std::process::Stdio;

/// Runs the program in the network namespace of a server.
fn beside(server: &Server) -> Vec<String> {
    vec!["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", server.pid())]
}

fn words(of: &[String]) -> Vec<&str> {
    of.iter().map(String::as_str).collect()
}

#[test]
fn without_descriptors_the_run_goes_on_with_those_it_has() {
    let test = "load::scarce::without_descriptors_the_run_goes_on_with_those_it_has";
    if !have(test, &["prlimit"]) {
        return;
    }
    let server = Server::start(&[TCP, UDP]);
    let url = url(server.tcp());
    for driver in [Driver::Epoll, Driver::Uring] {
        let arguments = ["--driver", driver.name(), "echo", &url, "--connections", "200", "--lanes", "1"];
        // The run begins when nothing more has opened for the timeout, so it is waited for.
        let window = ["--warmup", "0s", "--duration", "500ms", "--timeout", "3s"];
        let run = load_under(&["prlimit", "--nofile=64"], &[&arguments[..], &window].concat());
        run.met(&["no_descriptor"]).doubted(&["of 200 connections were open"]);
        let open = run.report.generator.lanes[0].connections;
        assert!((20..64).contains(&open) && run.report.errors["no_descriptor"] >= 200 - open, "{open} {:?}", run.errors());
        assert!(run.report.requests > open, "{} requests", run.report.requests);
    }
    let udp = format!("udp://{}", server.udp());
    let words = ["no_descriptor", "ulimit -n"];
    says(&["prlimit", "--nofile=64"], &["udp", &udp, "--connections", "200", "--lanes", "1"], NOT_MADE, &words);
}

#[test]
fn without_ports_the_run_goes_on_with_those_it_has() {
    let test = "load::scarce::without_ports_the_run_goes_on_with_those_it_has";
    if !is_root(test) || !have(test, &["unshare", "nsenter", "ip"]) {
        return;
    }
    let script = "ip link set lo up && echo 50000 50019 > /proc/sys/net/ipv4/ip_local_port_range && exec \"$0\" \"$@\"";
    let server = Server::start_under(&["unshare", "--net", "sh", "-c", script], &["echo=tcp://127.0.0.1:7", UDP]);
    let (wrapper, url) = (beside(&server), url(server.tcp()));
    let window = ["--warmup", "0s", "--duration", "300ms", "--timeout", "3s"];
    let run = load_under(&words(&wrapper), &[&["echo", &url, "--connections", "60"][..], &window].concat());
    run.met(&["no_address"]).doubted(&["only 20 of 60 connections were open"]);
    assert!(run.report.errors["no_address"] >= 40 && run.report.requests > 20, "{:?}", run.errors());
    // Other addresses have ports of their own; those of the first one wait for late segments (TIME-WAIT, RFC 9293 section 3.6.1).
    let sources = ["--source", "127.0.0.2", "--source", "127.0.0.3", "--source", "127.0.0.4"];
    let run = load_under(&words(&wrapper), &[&["echo", &url, "--connections", "60"][..], &window, &sources].concat());
    run.met(&[]).doubted(&[]);
}

/// A network with an address on the other side of a link where nobody is, and one that there is no way to.
const NOWHERE: [&str; 5] = [
    "unshare",
    "--net",
    "sh",
    "-c",
    "ip link set lo up && ip link add here type veth peer name there && ip address add 192.0.2.1/24 dev here && \
     ip link set here up && ip link set there up && ip neighbour add 192.0.2.7 lladdr 02:00:00:00:00:07 dev here && \
     ip route add prohibit 198.51.100.0/24 && exec \"$0\" \"$@\"",
];

#[test]
fn ways_that_lead_nowhere_are_said_in_a_line() {
    let test = "load::scarce::ways_that_lead_nowhere_are_said_in_a_line";
    if !is_root(test) || !have(test, &["unshare", "ip"]) {
        return;
    }
    for driver in [Driver::Epoll, Driver::Uring] {
        let start = ["--driver", driver.name(), "--timeout", "400ms", "echo"];
        let silent = [&start[..], &["tcp://192.0.2.7:7", "--connections", "20"]].concat();
        says(&NOWHERE, &silent, NOT_MADE, &["tcp://192.0.2.7:7", "(client_timeout)", "nothing answered"]);
        let none = [&start[..], &["tcp://203.0.113.7:7"]].concat();
        says(&NOWHERE, &none, NOT_MADE, &["tcp://203.0.113.7:7", "(unreachable)", "check the address"]);
        let prohibited = [&start[..], &["tcp://198.51.100.7:7"]].concat();
        says(&NOWHERE, &prohibited, NOT_MADE, &["tcp://198.51.100.7:7", "cannot be reached"]);
        let datagrams = ["--driver", driver.name(), "--timeout", "400ms", "udp", "udp://192.0.2.7:7", "--requests", "5"];
        let run = load_under(&NOWHERE, &datagrams);
        run.met(&["lost"]);
    }
}

/// What a crowd of idle connections came to, on a server and on a generator of so many lanes in a network of their own.
fn crowd(connections: u64, lanes: &str, every: &str) {
    // All come from one address.
    let limit = ["--limit", "connections_per_peer_max=100000"];
    let server = Server::start_under(&IN_OWN_NETWORK, &[&["--lanes", lanes][..], &limit, &[TCP, UDP]].concat());
    let (wrapper, url, count) = (beside(&server), url(server.tcp()), connections.to_string());
    let pid = server.pid().to_string();
    let arguments = ["idle", &url, "--connections", &count, "--every", every, "--requests", &count];
    let more = ["--lanes", lanes, "--server-pid", &pid, "--timeout", "30s"];
    let mut command = load_command(&words(&wrapper), &server.run, &[&["--json", "--quiet"], &arguments[..], &more].concat());
    // So many take longer on a busy machine than anything else is given, and the run ends by itself.
    let run = Run::of(&command.stdin(Stdio::null()).output().unwrap());
    run.met(&[]).doubted(&[]);
    assert_eq!(run.report.requests, connections);
    assert_eq!(run.report.generator.lanes.iter().map(|lane| lane.connections).sum::<u64>(), connections);
    server.comes_to("bytes_in", connections * 64);
    assert_eq!(server.count("accepts"), connections);
    let (mine, theirs) = (&run.report.generator, run.report.server.as_ref().expect("it was measured"));
    println!(
        "{connections} connections: {} bytes each at the generator, {} at the server",
        mine.resident_bytes / connections,
        theirs.bytes_per_connection.unwrap_or_default()
    );
}

#[test]
fn twenty_thousand_idle_connections_are_held() {
    let test = "load::scarce::twenty_thousand_idle_connections_are_held";
    if !is_root(test) || !have(test, &["unshare", "nsenter", "ip"]) {
        return;
    }
    crowd(20_000, "2", "3s");
}

#[test]
fn seventy_thousand_idle_connections_are_held() {
    let test = "load::scarce::seventy_thousand_idle_connections_are_held";
    if !is_root(test) || !have(test, &["unshare", "nsenter", "ip"]) {
        return;
    }
    crowd(70_000, "5", "10s");
}
