//! A gateway of two lanes: many flows at once, in both directions, with translation and without.

use crate::common::*;
use crate::gateway::{Own, WIRES, ended, start_own, stations, write};
use crate::gateway_commands::json_of;
use crate::packet::{ends, of_lanes};
use crate::packet_ports::WAYS;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

on_each_driver!(flows_of_two_lanes_keep_their_order_and_are_counted_once);

/// Fifty flows of `a`'s to `b`, and fifty to `o`, whose source is translated. Each has two packets under way in both directions: so no queue of a wire, which holds
/// 256, is ever full.
const FLOWS: &str = r#"
FLOWS, ROUNDS, EACH = 50, 8, 2
mine = stations["a"][2]
for wire in wires.values():
    wire.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE

# Whom flows go to: the station, its address, and who the sender is there.
PEERS = [("b", stations["b"][2], mine), ("o", "198.51.100.9", "192.0.2.2")]

def forth(far, flow, number):
    put("a", b"\x08\x00", datagram(mine, far, (5000 + flow, 1000), struct.pack("!HH", flow, number)))

def back(name, far, there, port, flow, number):
    put(name, b"\x08\x00", datagram(far, there, (1000, port), struct.pack("!HH", flow, number)))

# Each lane learns who its neighbours are, and each flow gets its session.
def warm():
    for name, far, there in PEERS:
        for flow in range(FLOWS):
            words = struct.pack("!HH", flow, 0)
            port, to = ports(asked("a", datagram(mine, far, (5000 + flow, 1000), words), name, 17, there))
            asked(name, datagram(far, there, (1000, port), words), "a", 17, far)
    quiet()

def all_flows():
    for name, far, there in PEERS:
        outside, known = {}, {}
        for round in range(ROUNDS + 1):
            due = 0
            for number in range(round * EACH, (round + 1) * EACH):
                for flow in range(FLOWS):
                    if round < ROUNDS:
                        forth(far, flow, number)
                        due += 1
                    if round > 0:
                        back(name, far, there, outside[flow], flow, number - EACH)
                        due += 1
            silent = 0
            while due > 0:
                came = heard(0.2)
                silent = 0 if came else silent + 1
                assert silent < 50, "%d did not come" % due
                for to, protocol, source, body in came:
                    (here, there_port), (flow, number) = ports(body), struct.unpack("!HH", body[8:])
                    assert protocol == 17 and source == (there if to == name else far), (to, source)
                    assert number == known.get((to, flow), -1) + 1, "flow %d at %s: %d behind %d" % (flow, to, number, known.get((to, flow), -1))
                    known[to, flow] = number
                    if to == name:
                        assert outside.setdefault(flow, here) == here and there_port == 1000, body
                    else:
                        assert to == "a" and (here, there_port) == (1000, 5000 + flow), body
                    due -= 1
        assert len(set(outside.values())) == FLOWS
    assert not heard(0.2), "one came twice"
"#;

/// What each flow of [`FLOWS`] to one peer sends, of all of them.
const SENT: u64 = 50 * 8 * 2;

/// What has been counted, of rules and of interfaces.
fn counted(server: &Server) -> Vec<(String, u64)> {
    let rows = |what: &str| json_of(server, &[what]).as_array().unwrap().clone();
    let number = |row: &Value, part: &str| row[part].as_u64().unwrap();
    let rules = rows("show").into_iter().map(|row| (row["number"].to_string(), number(&row, "packets")));
    let directions =
        |row: &Value| ["packets_in", "packets_out"].map(|part| (format!("{} {part}", row["name"]), number(row, part)));
    rules.chain(rows("interfaces").iter().flat_map(directions)).collect()
}

/// Packets come by both queues of a port, or all by one of them.
const QUEUES: [&str; 2] = ["numrxqueues 2 numtxqueues 2", "numrxqueues 1 numtxqueues 1"];

fn flows_of_two_lanes_keep_their_order_and_are_counted_once(driver: Driver) {
    let test = "gateway_lanes::flows_of_two_lanes_keep_their_order_and_are_counted_once";
    // The driver does not see how packets come.
    let most = if driver == Driver::Epoll { 4 } else { 1 };
    let [two, one] = QUEUES;
    // Packet sockets need no queue for each lane.
    let ways = [(WAYS[0], [two, two]), (WAYS[0], [two, one]), (WAYS[1], [two, two]), (WAYS[1], [one, one])];
    for (number, (way, queues)) in ways.into_iter().take(most).enumerate() {
        let folder = Scratch::new();
        let Some(server) = start_two(driver, test, &folder, way, queues, "") else { return };
        assert_eq!(keeps_and_counts(&server, &format!("{way}, {queues:?}")), 4 * SENT, "{way}, {queues:?}");
        if number == 0 {
            limits_are_told(&server, &folder);
        }
        ends(server);
    }
}

/// Each lane counts flows by itself, which is said to who limits them.
fn limits_are_told(server: &Server, folder: &Scratch) {
    assert!(!server.notes.iter().any(|note| note.contains("CL-0039")), "{:?}", server.notes);
    write(&folder.path().join("gateway.rules"), "add 100 allow tcp from any to any limit src-addr 4\n");
    server.signal(Signal::SIGHUP);
    until("it is said", || server.words().contains("rule 100 lets up to 2 x 4 flows pass"));
    let place = format!("gateway={}", folder.path().join("gw.toml").display());
    let mut other = Command::new("unshare");
    let start = format!("{} && exec {PROGRAM} serve --lanes 2 {place}", with_queues([QUEUES[0]; 2], ""));
    other.args(["--net", "sh", "-c", &start]).env("CORELANE_RUN_DIR", server.run.path());
    let mut other = other.stdout(Stdio::piped()).spawn().unwrap();
    let told = BufReader::new(other.stdout.take().unwrap()).lines().map_while(Result::ok).take_while(|line| line != "ready");
    assert_eq!(told.filter(|line| line.contains("[CL-0039] gateway: rule 100 lets up to 2 x 4 flows pass")).count(), 1);
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Ports' programs forward what is not translated, and lanes the rest.
#[test]
fn flows_of_the_fast_path_keep_their_order_and_are_counted_once() {
    let test = "gateway_lanes::flows_of_the_fast_path_keep_their_order_and_are_counted_once";
    if !have(test, &["ethtool"]) {
        return;
    }
    let (folder, gro) = (Scratch::new(), "&& ethtool -K vb1 gro on && ethtool -K vb2 gro on");
    let Some(server) = start_two(Driver::Epoll, test, &folder, "", [QUEUES[0]; 2], gro) else { return };
    let before = json_of(&server, &["status"])["fast_path"]["forwarded"].as_u64().unwrap();
    let by_lanes = keeps_and_counts(&server, "fast path");
    let by_programs = json_of(&server, &["status"])["fast_path"]["forwarded"].as_u64().unwrap() - before;
    // A way is a lane's again after some seconds, for the next packet.
    assert!((2 * SENT..3 * SENT).contains(&by_lanes) && by_programs > SENT, "{by_lanes} and {by_programs}");
    ends(server);
}

/// Starts a gateway of two lanes, at wires whose ends have these queues.
fn start_two(driver: Driver, test: &str, folder: &Scratch, way: &str, ends: [&str; 2], more: &str) -> Option<Server> {
    let own = Own { wires: &with_queues(ends, more), way, arguments: &["--lanes", "2"], ..Own::default() };
    start_own(driver, test, folder, &own)
}

/// Wires whose near and far ends have these queues.
fn with_queues([near, far]: [&str; 2], more: &str) -> String {
    WIRES.replace("type veth peer name vb$n", &format!("{near} type veth peer name vb$n {far}")) + more
}

/// Has all flows sent, and looks at what was counted; how many of their packets lanes have forwarded.
fn keeps_and_counts(server: &Server, how: &str) -> u64 {
    ended(stations(server, &format!("{FLOWS}\nwarm()")));
    let before = (counted(server), of_lanes(server, "packets_forwarded"));
    ended(stations(server, &format!("{FLOWS}\nall_flows()")));
    let after = (counted(server), of_lanes(server, "packets_forwarded"));
    let grown: Vec<(&str, u64)> = after.0.iter().zip(&before.0).map(|((name, now), (_, then))| (&**name, now - then)).collect();
    let expected = [
        ("100", 2 * SENT),
        ("200", 0),
        ("65535", 8 * SENT),
        ("\"va1\" packets_in", 0),
        ("\"va1\" packets_out", 0),
        ("\"users10\" packets_in", 2 * SENT),
        ("\"users10\" packets_out", 2 * SENT),
        ("\"users20\" packets_in", SENT),
        ("\"users20\" packets_out", SENT),
        ("\"outside\" packets_in", SENT),
        ("\"outside\" packets_out", SENT),
    ];
    assert_eq!(grown, expected, "{how}");
    let totals = json_of(server, &["status"]);
    assert_eq!((&totals["lanes"], &totals["translated"]["sessions"]), (&2.into(), &50.into()), "{totals}");
    let each: Vec<u64> = after.1.iter().zip(before.1).map(|(now, then)| now - then).collect();
    assert!(each.len() == 2 && each.iter().all(|lane| *lane > 0), "{how}: {each:?}");
    each.iter().sum()
}
