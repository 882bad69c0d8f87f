//! A port of a gateway that is set down and up again under traffic.

use crate::common::*;
use crate::gateway::{Own, WIRES, start_own, stations, write};
use crate::gateway_commands::json_of as told;
use crate::packet::{ends, json_of};
use crate::packet_ports::{WAYS, run};
use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout};

on_each_driver!(a_port_that_was_down_forwards_again);

/// Flows among the stations, which go on until a file is there, also where nothing comes. Another file has a number and names of flows: once each of these has brought
/// something that was sent since, the number is printed.
const FLOWS: &str = r#"
import os
a, b, far, outside = stations["a"][2], stations["b"][2], "198.51.100.9", "192.0.2.2"
# By the names of both stations: source and destination, and whom it comes to with which source.
ENDS = {"ab": (a, b), "ba": (b, a), "ao": (a, far), "oa": (far, outside)}
COMES = {("b", a): "ab", ("a", b): "ba", ("o", outside): "ao", ("a", far): "oa"}
number, asked_last, waits, port = 0, "0", None, None
while not os.path.exists(END):
    number += 1
    for flow, between in {"ab": (7, 9), "ba": (7, 9), "ao": (7, 9), "oa": (9, port)}.items():
        # What comes back has to know the port that translation has given.
        if between[1] is None:
            continue
        try:
            put(flow[0], b"\x08\x00", datagram(*ENDS[flow], between, struct.pack("!I", number)))
        except OSError:
            pass  # the other end of the wire is down
    # A round each hundredth of a second: no flow fills the wires for others.
    round_ends = time.monotonic() + 0.01
    while (left := round_ends - time.monotonic()) > 0:
        for name, protocol, source, body in heard(left):
            flow = COMES[name, source]
            if flow == "ao":
                port = ports(body)[0]
            if waits and struct.unpack("!I", body[8:12])[0] > since:
                waits.discard(flow)
    words = open(ASKED).read().split()
    if words[0] != asked_last:
        asked_last, waits, since = words[0], set(words[1:]), number
    if waits is not None and not waits:
        print(asked_last, flush=True)
        waits = None
"#;

/// All that there are.
const ALL: &str = "ab ba ao oa";

struct Flows {
    script: Child,
    lines: Lines<BufReader<ChildStdout>>,
    end: PathBuf,
    asked: PathBuf,
    number: usize,
}

impl Flows {
    /// Begins them; each of them comes.
    fn begin(server: &Server, folder: &Scratch) -> Self {
        let [end, asked] = ["end", "asked"].map(|name| folder.path().join(name));
        write(&asked, "0");
        let mut script = stations(server, &format!("END, ASKED = {end:?}, {asked:?}\n{FLOWS}"));
        let lines = BufReader::new(script.stdout.take().unwrap()).lines();
        let mut flows = Self { script, lines, end, asked, number: 0 };
        flows.come(ALL);
        flows
    }

    /// Waits until each of these has brought something that was sent from now on.
    fn come(&mut self, names: &str) {
        self.number += 1;
        write(&self.asked, &format!("{} {names}", self.number));
        assert_eq!(self.lines.next().unwrap().unwrap(), self.number.to_string());
    }

    fn end(self) {
        std::fs::write(&self.end, "").unwrap();
        let ended = self.script.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

/// Sets each port down and up again, some times: what goes by the other one alone goes on, and all goes on afterwards.
fn is_down_and_up(server: &Server, flows: &mut Flows) {
    let is_known_as = |state: &str| until(state, || json_of(server, "-Q")["ports"][0]["state"] == state);
    for (port, others) in [("va1", ""), ("va2", "ab ba"), ("va1", ""), ("va2", "ab ba")] {
        run(server, &format!("ip link set {port} down"));
        is_known_as("down");
        flows.come(others);
        run(server, &format!("ip link set {port} up"));
        is_known_as("up");
        flows.come(ALL);
    }
}

fn a_port_that_was_down_forwards_again(driver: Driver) {
    let test = "gateway_ports::a_port_that_was_down_forwards_again";
    for way in WAYS {
        let folder = Scratch::new();
        let own = Own { way, arguments: &["--lanes", "1"], ..Own::default() };
        let Some(server) = start_own(driver, test, &folder, &own) else { return };
        let mut flows = Flows::begin(&server, &folder);
        is_down_and_up(&server, &mut flows);
        flows.end();
        ends(server);
    }
}

#[test]
fn programs_forward_again_after_a_port_was_down() {
    let test = "gateway_ports::programs_forward_again_after_a_port_was_down";
    if !have(test, &["ethtool"]) {
        return;
    }
    let (folder, wires) = (Scratch::new(), format!("{WIRES} && ethtool -K vb1 gro on && ethtool -K vb2 gro on"));
    let own = Own { wires: &wires, arguments: &["--lanes", "1"], ..Own::default() };
    let Some(server) = start_own(Driver::Epoll, test, &folder, &own) else { return };
    let mut flows = Flows::begin(&server, &folder);
    let forwarded = || told(&server, &["status"])["fast_path"]["forwarded"].as_u64().unwrap();
    let more = || {
        let before = forwarded();
        until("programs forward", || forwarded() > before);
    };
    more();
    is_down_and_up(&server, &mut flows);
    more();
    flows.end();
    ends(server);
}
