//! A gateway of two ports, with stations on raw wires behind both: what it forwards, refuses and translates, and what becomes of it while it runs.

use crate::common::*;
use crate::gateway_commands::{gateway as asked, json_of};
use crate::packet::{ends, of_lanes};
use crate::packet_ports::{SUM_OF, WAYS, run};
use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

on_each_driver!(
    a_broken_configuration_leaves_the_old_one_in_force,
    packets_are_forwarded_ruled_and_translated,
    rules_change_under_traffic_and_none_is_lost,
    what_is_left_when_it_is_killed_or_loses_a_port
);

/// Two wires, whose near ends are the gateway's ports. The kernel has an address at one of them, and says nothing of its own there.
pub const WIRES: &str = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 && ip link set lo up && for n in 1 2; do ip link add va$n type veth peer name vb$n && ip link set va$n up && ip link set vb$n up; done && ip addr add 10.99.0.1/24 dev va1";

pub const CONFIGURATION: &str = r#"
[[port]]
interface = "va1"

[[port.network]]
vlan = 10
name = "users10"
addresses = ["10.0.10.1/24"]

[[port.network]]
vlan = "100.20"
name = "users20"
addresses = ["10.0.20.1/24"]

[[port]]
interface = "va2"

[[port.network]]
name = "outside"
addresses = ["192.0.2.2/24"]

[[route]]
to = "default"
via = "192.0.2.1"

[rules]
file = "gateway.rules"

[nat]
interfaces = ["outside"]

[[nat.forward]]
protocol = "udp"
port = 53
to = "10.0.10.77:5353"
"#;

pub const RULES: &str = "add 100 count udp from any to any in via users10\nadd 200 deny udp from any to any 99 in\n";

/// Stations behind the ports: `a` in VLAN 10, `b` in VLAN 100.20, `o` outside.
const STATIONS: &str = r#"
import fcntl, select, time
stations = {"a": ("vb1", [10], "10.0.10.77", "10.0.10.1"), "b": ("vb1", [100, 20], "10.0.20.77", "10.0.20.1"), "o": ("vb2", [], "192.0.2.1", None)}
macs = {name: bytes([2, 0, 0, 0, 0, number]) for number, name in enumerate(stations)}
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
near = lambda wire: fcntl.ioctl(asking, 0x8927, struct.pack("256s", b"va" + wire[2:].encode()))[18:24]  # SIOCGIFHWADDR
wires, ours = {}, {}
for wire in ["vb1", "vb2"]:
    try:
        ours[wire] = near(wire)
    except OSError:
        continue
    wires[wire] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wires[wire].bind((wire, 0))
    wires[wire].setsockopt(263, 1, struct.pack("iHH8s", socket.if_nametoindex(wire), 1, 0, bytes(8)))  # SOL_PACKET, PACKET_ADD_MEMBERSHIP, promiscuous
    wires[wire].setsockopt(263, 8, 1)  # PACKET_AUXDATA

def tags_of(name):
    numbers = stations[name][1]
    kinds = [[], [0x8100], [0x88a8, 0x8100]][len(numbers)]
    return b"".join(struct.pack("!HH", *tag) for tag in zip(kinds, numbers))

# A frame as it was on the wire: the kernel takes the first tag out.
def hear(wire):
    data, extra, _, _ = wires[wire].recvmsg(4000, 200)
    for level, kind, value in extra:
        status, _, _, _, _, control, protocol = struct.unpack("IIIHHHH", value[:20])
        if status & 16:  # TP_STATUS_VLAN_VALID
            data = data[:12] + struct.pack("!HH", protocol, control) + data[12:]
    return data

def put(name, kind, packet):
    wires[stations[name][0]].send(ours[stations[name][0]] + macs[name] + tags_of(name) + kind + packet)

def packet(source, to, protocol, rest, hops=64):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(rest), 0, 0, hops, protocol, 0, socket.inet_aton(source), socket.inet_aton(to))
    return head[:10] + struct.pack("!H", sum_of(head)) + head[12:] + rest

def datagram(source, to, ports, data):
    return packet(source, to, 17, struct.pack("!HHHH", *ports, 8 + len(data), 0) + data)

def echo(source, to, number):
    body = struct.pack("!BBHHH", 8, 0, 0, 7, number)
    return packet(source, to, 1, body[:2] + struct.pack("!H", sum_of(body)) + body[4:])

# What comes to stations meanwhile: to whom, protocol, from whom, and what IP carries. Answers who asks for a station's address.
def heard(patience):
    came, until = [], time.monotonic() + patience
    while not came and time.monotonic() < until:
        for wire in select.select(list(wires.values()), [], [], 0.02)[0]:
            wire = next(name for name, one in wires.items() if one is wire)
            try:
                frame = hear(wire)
            except OSError:
                wires.pop(wire)
                continue
            if frame[6:12] != ours[wire]:
                continue
            for name, (where, _, address, _) in stations.items():
                tags, own = tags_of(name), socket.inet_aton(address)
                rest = frame[12 + len(tags):]
                if where != wire or not frame[12:].startswith(tags):
                    continue
                if rest[:2] == b"\x08\x06" and rest[8:10] == b"\0\1" and rest[26:30] == own:
                    put(name, b"\x08\x06", bytes.fromhex("0001080006040002") + macs[name] + own + rest[10:20])
                elif rest[:2] == b"\x08\x00" and frame[:6] == macs[name]:
                    assert sum_of(rest[2:22]) == 0, rest.hex()
                    length = struct.unpack("!H", rest[4:6])[0]
                    came.append((name, rest[11], socket.inet_ntoa(rest[14:18]), rest[22:2 + length]))
    return came

# Says it until that comes to the station from that address, with these words at its end; returns what IP carries.
def asked(name, what, to, protocol, source, words=b""):
    for _ in range(100):
        put(name, b"\x08\x00", what)
        for came in heard(0.1):
            if came[:3] == (to, protocol, source) and came[3].endswith(words):
                return came[3]
    raise Exception("nothing came")

def ports(body):
    return struct.unpack("!HH", body[:4])

def quiet():
    while heard(0.2):
        pass

# A datagram of the one station to the other.
def tell(words):
    put("a", b"\x08\x00", datagram(stations["a"][2], stations["b"][2], (7, 9), words))

# Datagrams until one comes, and then what is left of them; how many these were.
def begun():
    tries, came = 0, []
    while not came:
        tell(b"first")
        tries, came = tries + 1, heard(0.1)
    quiet()
    return tries

# Sixteen, of which all come.
def train():
    for number in range(16):
        tell(b"%d" % number)
    came, silent = 0, 0
    while came < 16 and silent < 200:
        now = len(heard(0.1))
        came, silent = came + now, silent + (now == 0)
    assert came == 16, "%d of a train came" % came
"#;

/// Starts a gateway whose files lie in that folder.
pub fn start(driver: Driver, test: &str, folder: &Scratch, way: &str, more: &[&str]) -> Option<Server> {
    let own = Own { way, arguments: &[&["--lanes", "1"], more].concat(), ..Own::default() };
    start_own(driver, test, folder, &own)
}

/// A gateway that differs from that of most tests.
pub struct Own<'a> {
    /// Lines of shell that make its wires.
    pub wires: &'a str,
    /// What the program is run by.
    pub way: &'a str,
    pub configuration: &'a str,
    pub rules: &'a str,
    pub arguments: &'a [&'a str],
}

impl Default for Own<'_> {
    fn default() -> Self {
        Self { wires: WIRES, way: "", configuration: CONFIGURATION, rules: RULES, arguments: &[] }
    }
}

/// Starts a gateway whose files lie in that folder, and in whose network its wires are made.
pub fn start_own(driver: Driver, test: &str, folder: &Scratch, own: &Own) -> Option<Server> {
    if !can_run(&driver.case(test)) {
        return None;
    }
    std::fs::write(folder.path().join("gw.toml"), own.configuration).unwrap();
    std::fs::write(folder.path().join("gateway.rules"), own.rules).unwrap();
    let script = format!("{} && exec {} \"$0\" \"$@\"", own.wires, own.way);
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let place = format!("gateway={}", folder.path().join("gw.toml").display());
    driver.start_under(test, &wrapper, &[own.arguments, &[&place]].concat())
}

/// Writes a file whole, or not at all: a process that reads it meanwhile never finds a part.
pub fn write(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

pub fn can_run(test: &str) -> bool {
    is_root(test) && have(test, &["unshare", "ip", "python3", "setpriv"])
}

/// A script among the stations, where the server is.
pub fn stations(server: &Server, script: &str) -> Child {
    let mut python = Command::new("python3");
    python.args(["-c", &format!("{SUM_OF}{STATIONS}{script}")]).stdout(Stdio::piped()).stderr(Stdio::piped());
    in_network_of(server.pid(), || python.spawn().unwrap())
}

/// What it prints at its end.
pub fn ended(script: Child) -> String {
    let output = script.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Among the stations, to the gateway, out and in.
const ALL_WAYS: &str = r#"
# To the gateway itself.
for name in "ab":
    mine, gateway = stations[name][2:]
    assert asked(name, echo(mine, gateway, 1), name, 1, gateway)[0] == 0
# Among its VLANs.
for name, to in ["ab", "ba"]:
    body = asked(name, datagram(stations[name][2], stations[to][2], (7, 9), b"on"), to, 17, stations[name][2])
    assert ports(body) == (7, 9), body
# Out, with another source, and the answer to that back in. Each is awaited by its words, for one that was asked for twice may come late.
mine, far, outside = stations["a"][2], "198.51.100.9", "192.0.2.2"
body = asked("a", datagram(mine, far, (5000, 1000), b"out"), "o", 17, outside)
assert body[8:] == b"out", body
port, _ = ports(body)
body = asked("o", datagram(far, outside, (1000, port), b"back"), "a", 17, far, b"back")
assert ports(body) == (1000, 5000) and body[8:] == b"back", body
# In by a port that leads inside.
body = asked("o", datagram(far, outside, (1000, 53), b"name?"), "a", 17, far, b"name?")
assert ports(body) == (1000, 5353), body
body = asked("a", datagram(mine, far, (5353, 1000), b"name!"), "o", 17, outside, b"name!")
assert ports(body) == (53, 1000), body
# A port that a rule refuses, a source that is elsewhere, and somebody outside whom nobody inside has asked.
put("a", b"\x08\x00", datagram(mine, stations["b"][2], (7, 99), b"refused"))
put("a", b"\x08\x00", datagram("10.0.20.99", stations["b"][2], (7, 9), b"forged"))
put("o", b"\x08\x00", datagram(far, outside, (1000, 40000), b"stranger"))
assert all(came[3][8:] not in (b"refused", b"forged", b"stranger") for came in heard(0.3))
body = asked("a", datagram(mine, stations["b"][2], (7, 9), b"last"), "b", 17, mine)
print("all ways")
"#;

fn packets_are_forwarded_ruled_and_translated(driver: Driver) {
    let test = "gateway::packets_are_forwarded_ruled_and_translated";
    for way in WAYS {
        let folder = Scratch::new();
        let Some(server) = start(driver, test, &folder, way, &[]) else { return };
        assert_eq!(server.ports, ["port va1: users10 10.0.10.1/24, users20 10.0.20.1/24", "port va2: outside 192.0.2.2/24"]);
        let silent = "[CL-0035] packet va1: the kernel has 10.99.0.1 there and hears nothing any more";
        assert_eq!(server.notes.iter().any(|note| note.contains(silent)), way.is_empty(), "{:?}", server.notes);
        assert_eq!(ended(stations(&server, ALL_WAYS)), "all ways", "{way}");
        let counted = |name| server.packet_counts(name)[0];
        until("what went on, and what did not, is counted", || {
            counted("packets_forwarded") >= 7 && counted("forward_reverse_path") == 1 && counted("packets_refused") == 1
        });
        ends(server);
    }
}

/// Datagrams from station to station until somebody says that it is over, in trains of which all have to come before the next goes; prints how many these were.
const TRAFFIC: &str = r#"
import os
sent = begun()
print("begun", flush=True)
while not os.path.exists(END):
    train()
    sent += 16
print(sent)
"#;

/// Traffic that goes on.
pub struct Traffic {
    script: Child,
    lines: Lines<BufReader<ChildStdout>>,
    end: PathBuf,
}

impl Traffic {
    /// Begins it; the first of it has come.
    pub fn begin(server: &Server, folder: &Scratch) -> Self {
        let end = folder.path().join("end");
        let mut script = stations(server, &format!("END = {end:?}\n{TRAFFIC}"));
        let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "begun");
        Self { script, lines, end }
    }

    /// Ends it; how many datagrams were sent, all of which came but for those before the first.
    pub fn end(mut self) -> u64 {
        std::fs::write(&self.end, "").unwrap();
        let sent = self.lines.next().and_then(|line| line.ok()?.parse().ok());
        let ended = self.script.wait_with_output();
        sent.unwrap_or_else(|| panic!("{ended:?}"))
    }
}

/// Changes of the rules in [`rules_change_under_traffic_and_none_is_lost`].
const CHANGES: usize = 5;

fn rules_change_under_traffic_and_none_is_lost(driver: Driver) {
    let test = "gateway::rules_change_under_traffic_and_none_is_lost";
    let folder = Scratch::new();
    let Some(server) = start(driver, test, &folder, "", &[]) else { return };
    let traffic = Traffic::begin(&server, &folder);
    for change in 1..=CHANGES {
        let more: String =
            (0..200).map(|number| format!("add {} count udp from any to any {}\n", 1000 + number, change + number)).collect();
        write(&folder.path().join("gateway.rules"), &format!("{RULES}{more}"));
        server.signal(Signal::SIGHUP);
        let last = format!("01199 count udp from any to any dst-port {}", change + 199);
        until("the change is in force", || asked(&server, &["list", "1199"]).ok().as_ref() == Some(&last));
    }
    let sent = traffic.end();
    let rows = json_of(&server, &["show", "100"]);
    assert_eq!(rows[0]["packets"].as_u64(), Some(sent), "a rule that stays counts on, and no packet is judged twice");
    assert_eq!(of_lanes(&server, "packets_refused")[0], 0, "{}", server.words());
    ends(server);
}

fn a_broken_configuration_leaves_the_old_one_in_force(driver: Driver) {
    let test = "gateway::a_broken_configuration_leaves_the_old_one_in_force";
    let folder = Scratch::new();
    let Some(server) = start(driver, test, &folder, "", &[]) else { return };
    let (file, rules) = (folder.path().join("gw.toml"), folder.path().join("gateway.rules"));
    // Lines of one cause come a second apart, so what is not told is asked for again.
    let again = |what: &str| {
        until(what, || {
            server.signal(Signal::SIGHUP);
            server.words().contains(what)
        });
    };
    write(&rules, "add 100 denny ip from any to any\n");
    again(&format!("[CL-0023] SIGHUP: what was there before is kept: {}:1:9: ", rules.display()));
    write(&rules, RULES);
    write(&file, &CONFIGURATION.replace("vlan = 10", "vlan = 0"));
    again(&format!("[CL-0023] SIGHUP: what was there before is kept: {}:6:8: ", file.display()));
    write(&file, &CONFIGURATION.replace("192.0.2.1\"", "192.0.3.1\""));
    again("the router 192.0.3.1 is in no network");
    std::fs::remove_file(&rules).unwrap();
    again(&format!("kept: {}: it cannot be read", rules.display()));
    assert_eq!(ended(stations(&server, ALL_WAYS)), "all ways", "all is as it was");
    write(&rules, &format!("{RULES}add 50 deny ip from 10.0.10.77 to 10.0.20.77\n"));
    write(&file, &CONFIGURATION.replace("10.0.20.1/24", "10.0.21.1/24"));
    again("ports and networks of the gateway's file count from the next start on");
    let refused = r#"
put("a", b"\x08\x00", datagram(stations["a"][2], stations["b"][2], (7, 9), b"refused"))
assert all(came[0] != "b" for came in heard(0.3))
print(asked("b", datagram(stations["b"][2], stations["a"][2], (7, 9), b"on"), "a", 17, stations["b"][2])[8:])
"#;
    assert_eq!(ended(stations(&server, refused)), "b'on'", "new rules, and the networks from before");
    assert!(of_lanes(&server, "packets_refused")[0] >= 2, "one of them by the rule that is new");
    ends(server);
}

/// Has the kernel asked for its own address at a port, which it hears when nobody else has the port's packets; then sends it a packet for another host there, which it forwards.
const KERNEL: &str = r#"
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("vb1", 0))
wire.settimeout(10)
own, his = wire.getsockname()[4], bytes([2, 0, 0, 0, 0, 8])
wire.setsockopt(263, 1, struct.pack("iHH8s", socket.if_nametoindex("vb1"), 1, 0, bytes(8)))  # SOL_PACKET, PACKET_ADD_MEMBERSHIP, promiscuous
ours, other, theirs = (socket.inet_aton("10.99.0.%d" % host) for host in (9, 8, 1))
wire.send(b"\xff" * 6 + own + bytes.fromhex("08060001080006040001") + own + ours + bytes(6) + theirs)
while True:
    frame = wire.recv(2000)
    if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\2" and frame[28:32] == theirs:
        break
near = frame[6:12]
head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 0, 0, 64, 17, 0, ours, other)
head = head[:10] + struct.pack("!H", sum_of(head)) + head[12:]
wire.send(near + own + b"\x08\x00" + head + struct.pack("!HHHH", 7, 9, 8, 0))
while True:
    frame = wire.recv(2000)
    if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[38:42] == other:
        wire.send(near + his + bytes.fromhex("08060001080006040002") + his + other + near + theirs)
    elif frame[:14] == his + near + b"\x08\x00" and frame[26:34] == ours + other:
        assert frame[22] == 63, "one hop less"
        break
"#;

fn what_is_left_when_it_is_killed_or_loses_a_port(driver: Driver) {
    let test = "gateway::what_is_left_when_it_is_killed_or_loses_a_port";
    let folder = Scratch::new();
    let wires = format!("{WIRES} && echo 1 > /proc/sys/net/ipv4/conf/va1/forwarding");
    let own = Own { wires: &wires, arguments: &["--lanes", "1"], ..Own::default() };
    let Some(mut server) = start_own(driver, test, &folder, &own) else { return };
    let traffic = Traffic::begin(&server, &folder);
    run(&server, "ip link delete va2");
    until("it is said", || server.words().contains("[CL-0026] interface va2 is gone"));
    // What does not go by that port is not touched.
    traffic.end();
    // Another process keeps the namespace.
    let mut keeper = in_network_of(server.pid(), || Command::new("sleep").arg("1000").spawn().unwrap());
    let left = |pid: u32| in_network_of(pid, || output(Command::new("sh").args(["-c", LEFT])).stdout);
    assert!(String::from_utf8(left(keeper.id())).unwrap().starts_with("1\n"), "the port that is there has its program");
    server.signal(Signal::SIGKILL);
    server.ended();
    until("nothing stays attached, and the kernel forwards by the one port alone, as before", || {
        left(keeper.id()) == b"0\n0\n1\n"
    });
    let kernel = in_network_of(keeper.id(), || output(Command::new("python3").args(["-c", &format!("{SUM_OF}{KERNEL}")])));
    assert!(kernel.status.success(), "the kernel hears again what comes by the port, and forwards: {kernel:?}");
    keeper.kill().unwrap();
    keeper.wait().unwrap();
}

/// What is attached to ports, and whether the kernel forwards.
const LEFT: &str = "ip -o link show | grep -c xdp; cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/va1/forwarding";

#[test]
fn two_gateways_at_one_interface_and_lanes_without_a_queue_are_refused() {
    let test = "gateway::two_gateways_at_one_interface_and_lanes_without_a_queue_are_refused";
    for way in WAYS {
        let folder = Scratch::new();
        let Some(server) = start(Driver::Epoll, test, &folder, way, &[]) else { return };
        let place = format!("gateway={}", folder.path().join("gw.toml").display());
        let refused = |words: &str| {
            let line = format!("CORELANE_RUN_DIR={} {way} {PROGRAM} serve {words} {place}", server.run.path().display());
            let second = in_network_of(server.pid(), || output(Command::new("sh").args(["-c", &line])));
            assert_eq!(second.status.code(), Some(2), "{second:?}");
            String::from_utf8(second.stderr).unwrap()
        };
        let second = refused("--lanes 1");
        assert!(second.contains("gateway: ") && second.contains("va1"), "{second}");
        assert!(second.contains("end it") || second.contains("end that one") || second.contains("end the process"), "{second}");
        let taking = refused("--lanes 1 --take-over");
        assert!(taking.contains("ports (--packet, gateway) cannot be taken over"), "{taking}");
        if way.is_empty() {
            let lanes = refused("--lanes 2");
            assert!(lanes.contains("va1 has no queue 1: give it more (ethtool -L va1 rx 2 tx 2)"), "{lanes}");
        }
        ends(server);
    }
}

/// The example of the page is right, as far as that can be seen without its machine.
#[test]
fn the_example_of_the_page_is_checked() {
    let test = "gateway::the_example_of_the_page_is_checked";
    if !can_run(test) {
        return;
    }
    let page = include_str!("../../../docs/gateway.md");
    let part = |name: &str| page.split(&format!("```{name}\n")).nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = Scratch::new();
    std::fs::write(folder.path().join("gateway.toml"), part("toml")).unwrap();
    std::fs::write(folder.path().join("gateway.rules"), part("text")).unwrap();
    let line = format!(
        "for n in 1 2; do ip link add eth$n type veth peer name far$n && ip link set eth$n up; done && cd {} && exec {PROGRAM} serve --lanes 1 --check gateway=gateway.toml",
        folder.path().display()
    );
    let checked = output(Command::new("unshare").args(["--net", "sh", "-c", &line]));
    assert!(checked.status.success(), "{checked:?}");
    assert!(String::from_utf8_lossy(&checked.stdout).contains("checked: the settings are right"), "{checked:?}");
}
