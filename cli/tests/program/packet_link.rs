//! Services over frames as good neighbours of their link: a router that moves is followed, addresses are introduced, and what becomes of the interface is told.

use crate::common::*;
use crate::packet::{V4, WIRE, can_run, ends, exec_in, json_of, of_lanes};
use crate::packet_ports::{WAYS, client, probe, run, run_script, start, text_of};
use std::process::Command;

on_each_driver!(
    a_carrier_and_a_program_that_are_gone_are_told_to_all_who_ask,
    a_router_that_moves_is_followed,
    an_address_that_another_station_has_is_told,
    an_address_that_is_claimed_is_defended_and_told,
    an_mtu_of_68_is_enough_for_ipv4,
    queues_without_a_lane_are_refused_and_told
);

/// A client of the far end that speaks to the wire itself: a router with the address `10.9.0.1`, whose link-layer address changes.
const ROUTER: &str = r#"
mac = bytes.fromhex(sys.argv[1].replace(":", ""))
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("vb", 0))
wire.setsockopt(263, 1, struct.pack("iHH8s", socket.if_nametoindex("vb"), 1, 0, bytes(8)))  # SOL_PACKET, PACKET_ADD_MEMBERSHIP, promiscuous
wire.settimeout(0.02)
ours, theirs = socket.inet_aton("192.0.2.7"), socket.inet_aton("10.9.0.2")
router = socket.inet_aton("10.9.0.9")
moved = False

def arp(own, operation, sender, target_mac, target, to):
    wire.send(to + own + bytes.fromhex("0806000108000604") + struct.pack("!H", operation) + own + sender + target_mac + target)

def ask(own):
    data = struct.pack("!HHHH", 5000, 60007, 12, 0) + b"data"
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(data), 0, 0, 64, 17, 0, ours, theirs)
    head = head[:10] + struct.pack("!H", sum_of(head)) + head[12:]
    wire.send(mac + own + b"\x08\x00" + head + data)

# Asks until the answer goes to this link-layer address; who asks for the router's is answered by him who has it now.
def until_answered(own):
    for _ in range(500):
        ask(own)
        try:
            while True:
                frame = wire.recv(2000)
                if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[38:42] == router:
                    if frame[:6] in (own, b"\xff" * 6):
                        arp(own, 2, router, frame[22:28], frame[28:32], frame[22:28])
                elif frame[:6] == own and frame[12:14] == b"\x08\x00" and frame[26:30] == theirs:
                    return
        except TimeoutError:
            pass
    raise SystemExit("no answer to " + own.hex())

first, second, third = [bytes.fromhex("0200000000" + last) for last in ("a1", "a2", "a3")]
until_answered(first)
arp(second, 1, router, bytes(6), router, b"\xff" * 6)
until_answered(second)
arp(third, 2, router, third, router, b"\xff" * 6)
until_answered(third)
print("followed")
"#;

/// Fail-over: the router has another link-layer address, and says so unasked, by a request and by a reply (RFC 5227, section 3). Answers go there, and not for the 30 seconds
/// in which what a neighbour has said is fresh.
fn a_router_that_moves_is_followed(driver: Driver) {
    let test = "packet_link::a_router_that_moves_is_followed";
    if !can_run(&driver.case(test)) {
        return;
    }
    for way in WAYS {
        let script = exec_in(WIRE, way);
        let wrapper = ["unshare", "--net", "sh", "-c", &script];
        let arguments = ["--lanes", "1", "--packet", "va,ip=10.9.0.2/24,via=10.9.0.9", V4];
        let Some(server) = driver.start_under(test, &wrapper, &arguments) else { return };
        assert_eq!(run_script(&server, ROUTER, ""), "followed", "{way}");
        ends(server);
    }
}

/// Takes the XDP program of a process off its interface, behind its back.
const DETACH: &str = r#"
import ctypes, glob, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
CALL = 321 if platform.machine() == "x86_64" else 280

def bpf(command, attribute):
    return libc.syscall(CALL, command, ctypes.create_string_buffer(attribute, len(attribute)), len(attribute))

links = set()
for name in glob.glob("/proc/%s/task/*/fdinfo/*" % sys.argv[1]):
    try:
        shown = dict(line.split(":", 1) for line in open(name) if ":" in line)
    except OSError:
        continue
    if shown.get("link_type", "").strip() == "xdp":
        links.add(int(shown["link_id"]))
assert len(links) == 1, links
link = bpf(30, struct.pack("<III", links.pop(), 0, 0))  # BPF_LINK_GET_FD_BY_ID
assert bpf(34, struct.pack("<I", link)) == 0, ctypes.get_errno()  # BPF_LINK_DETACH
"#;

fn a_carrier_and_a_program_that_are_gone_are_told_to_all_who_ask(driver: Driver) {
    let test = "packet_link::a_carrier_and_a_program_that_are_gone_are_told_to_all_who_ask";
    if !can_run(&driver.case(test)) {
        return;
    }
    for way in WAYS {
        let Some(server) = start(driver, test, WIRE, way, &["--metrics", "127.0.0.1:0"]) else { return };
        let ready = |code: &str| until(code, || probe(&server, "/readyz").starts_with(&format!("HTTP/1.0 {code}")));
        ready("200");
        echo_datagram(&client(&server, 0), b"up");
        run(&server, "ip link set vb down");
        ready("503");
        assert!(probe(&server, "/readyz").contains("its interface va is without a carrier: "), "{}", probe(&server, "/readyz"));
        until("it is said", || server.words().contains("[CL-0026] interface va is without a carrier"));
        assert!(text_of(&server).contains("lane 0: its interface va is without a carrier: "), "{}", text_of(&server));
        assert_eq!(json_of(&server, "-Q")["ports"][0]["state"], "without a carrier");
        run(&server, "ip link set vb up");
        ready("200");
        until("it is said", || server.words().contains("interface va is up again"));
        // What changes and goes on is told, and followed.
        run(&server, "ip link set va mtu 1400 && ip link set vb mtu 1400 && ip link set va address 02:00:00:00:00:07");
        until("it is said", || server.words().contains("interface va has an MTU of 1400 now"));
        until("it is said", || server.words().contains("interface va has the link address 02:00:00:00:00:07 now"));
        echo_datagram(&client(&server, 0), &[7; 1390]);
        let known = run(&server, "ip neigh show 10.9.0.2");
        assert!(known.contains("02:00:00:00:00:07"), "{known}");
        if way.is_empty() {
            let detached = output(Command::new("python3").args(["-c", DETACH, &server.pid().to_string()]));
            assert!(detached.status.success(), "{detached:?}");
            ready("503");
            until("it is said", || server.words().contains("[CL-0026] interface va is without its program"));
        }
        ends(server);
    }
}

/// A script that answers each question for `10.9.0.2` as another station, once it was asked; it says so, and goes on until its input ends.
const SQUATTER: &str = r#"
import os, select
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("vb", 0))
own, address, parent = bytes.fromhex("020000000066"), socket.inet_aton("10.9.0.2"), os.getppid()
print("ready", flush=True)
# He ends with the server, whatever becomes of it.
while os.getppid() == parent:
    found, _, _ = select.select([wire, sys.stdin], [], [], 0.5)
    if sys.stdin in found:
        break
    if not found:
        continue
    frame = wire.recv(2000)
    if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[38:42] == address:
        wire.send(frame[6:12] + own + bytes.fromhex("08060001080006040002") + own + address + frame[22:28] + frame[28:32])
"#;

/// An address that another station has is not announced, and told to all who ask, until he is gone.
fn an_address_that_another_station_has_is_told(driver: Driver) {
    let test = "packet_link::an_address_that_another_station_has_is_told";
    if !can_run(&driver.case(test)) {
        return;
    }
    for way in WAYS {
        let scratch = Scratch::new();
        let (file, pipe) = (scratch.path().join("squatter.py"), scratch.path().join("pipe"));
        std::fs::write(&file, format!("import socket, sys\n{SQUATTER}")).unwrap();
        let (file, pipe) = (file.display(), pipe.display());
        // He ends when something is written into the pipe. A command that is run in such a network later starts no other.
        let squat = format!("if mkfifo {pipe} 2> /dev/null; then python3 {file} 0<> {pipe} > {pipe}.out 2>&1 & fi");
        let before = format!("{WIRE} && {squat}; while ! grep -q ready {pipe}.out; do sleep 0.01; done");
        let Some(server) = start(driver, test, &before, way, &["--metrics", "127.0.0.1:0"]) else { return };
        until("it is said", || {
            server.words().contains("[CL-0032] 10.9.0.2 is another's at va: 02:00:00:00:00:66 answers for it")
        });
        until("503", || probe(&server, "/readyz").starts_with("HTTP/1.0 503"));
        let told = server.stat(&[]);
        assert!(String::from_utf8_lossy(&told.stdout).contains("1 address of lanes is another station's"), "{told:?}");
        assert_eq!(of_lanes(&server, "announcements_sent"), [0]);
        // Half a minute for all ways would be too long.
        if way.is_empty() {
            run(&server, &format!("echo over > {pipe}"));
            until("he is gone", || probe(&server, "/readyz").starts_with("HTTP/1.0 200"));
            until("it is announced", || server.packet_counts("announcements_sent")[0] > 0);
            until("it is said", || server.words().contains("10.9.0.2 at va is nobody else's any more"));
        }
        ends(server);
    }
}

/// A claim of somebody who comes later is told, and ends nothing.
fn an_address_that_is_claimed_is_defended_and_told(driver: Driver) {
    let test = "packet_link::an_address_that_is_claimed_is_defended_and_told";
    if !can_run(&driver.case(test)) {
        return;
    }
    for way in WAYS {
        let Some(server) = start(driver, test, WIRE, way, &["--metrics", "127.0.0.1:0"]) else { return };
        until("it is announced", || server.packet_counts("announcements_sent")[0] > 0);
        run(&server, CLAIM);
        until("it is said", || server.words().contains("[CL-0032] 10.9.0.2 at va is claimed by 02:00:00:00:00:66 as well"));
        assert!(probe(&server, "/readyz").starts_with("HTTP/1.0 200"));
        assert!(text_of(&server).contains("that claim an address of lanes"), "{}", text_of(&server));
        echo_datagram(&client(&server, 0), b"still served");
        ends(server);
    }
}

/// Somebody announces that he has the address.
const CLAIM: &str = "python3 -c '
import socket
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((\"vb\", 0))
wire.send(bytes.fromhex(\"ffffffffffff0200000000660806\" + \"00010800060400010200000000660a0900020000000000000a090002\"))
'";

/// Fewer lanes than queues answer nobody whose packets come to the others: that is refused at the start, with what helps, and told where it comes later.
fn queues_without_a_lane_are_refused_and_told(driver: Driver) {
    let test = "packet_link::queues_without_a_lane_are_refused_and_told";
    if !can_run(&driver.case(test)) || !have(&driver.case(test), &["ethtool"]) {
        return;
    }
    let two = "numrxqueues 2 numtxqueues 2";
    let before = WIRE.replace("va type veth peer name vb", &format!("va {two} type veth peer name vb {two}"));
    let run_dir = Scratch::new();
    let mut refused: Command = wrapped(&["unshare", "--net", "sh", "-c", &exec_in(&before, "")], PROGRAM);
    refused.args(["serve", "--driver", driver.name(), "--lanes", "1", "--packet", "va,ip=10.9.0.2/24", V4]);
    let refused = output(refused.env("CORELANE_RUN_DIR", run_dir.path()));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let advice = "ethtool -L va rx 1 tx 1";
    assert!(refused.status.code() == Some(2) && said.contains("va receives by 2 queues and 1 would have a lane"), "{refused:?}");
    assert!(said.contains(&format!("({advice}), or serve with 2 lanes (--lanes 2)")), "{said}");
    // Who asks before the start hears the same, of queues without lanes and of lanes without queues.
    for (lanes, words) in [("1", "va receives by 2 queues"), ("3", "va has no queue 2")] {
        for asking in [&["serve", "--check"][..], &["doctor", "--"]] {
            let mut asked: Command = wrapped(&["unshare", "--net", "sh", "-c", &exec_in(&before, "")], PROGRAM);
            asked.args(asking).args(["--driver", driver.name(), "--lanes", lanes, "--packet", "va,ip=10.9.0.2/24", V4]);
            let asked = output(asked.env("CORELANE_RUN_DIR", run_dir.path()));
            let said = [asked.stdout, asked.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
            assert!(asked.status.code() != Some(0) && said.contains(words), "{asking:?} {lanes}: {said}");
        }
    }
    let before = format!("{before} && ethtool -L vb rx 1 tx 1 && {advice}");
    let Some(server) = start(driver, test, &before, "", &["--metrics", "127.0.0.1:0"]) else { return };
    let ready = |code: &str| until(code, || probe(&server, "/readyz").starts_with(&format!("HTTP/1.0 {code}")));
    ready("200");
    run(&server, "ethtool -L va rx 2 tx 2");
    ready("503");
    until("it is said", || server.words().contains("[CL-0028] interface va is short of lanes"));
    assert!(server.words().contains("(ethtool -L va combined N, at a veth rx N tx N, for N lanes)"), "{}", server.words());
    run(&server, advice);
    ready("200");
    echo_datagram(&client(&server, 0), b"by the one");
    ends(server);
}

/// The least MTU that there is (RFC 791) serves IPv4; with an address of IPv6 it is refused, and what the message advises helps.
fn an_mtu_of_68_is_enough_for_ipv4(driver: Driver) {
    let test = "packet_link::an_mtu_of_68_is_enough_for_ipv4";
    if !can_run(&driver.case(test)) {
        return;
    }
    let small = format!("{WIRE} && ip link set va mtu 68 && ip link set vb mtu 68");
    for way in WAYS {
        let Some(server) = start(driver, test, &small, way, &[]) else { return };
        let socket = client(&server, 0);
        [1, 40, 41, 400].into_iter().for_each(|bytes| echo_datagram(&socket, &pattern(bytes, 7)));
        ends(server);
    }
    let both = ["serve", "--driver", driver.name(), "--lanes", "1", "--packet", "va,ip=10.9.0.2/24,ip=fd09::2/64", V4];
    let run_dir = Scratch::new();
    let mut refused: Command = wrapped(&["unshare", "--net", "sh", "-c", &exec_in(&small, "")], PROGRAM);
    let refused = output(refused.args(both).env("CORELANE_RUN_DIR", run_dir.path()));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let advice = "ip link set va mtu 1280";
    assert!(refused.status.code() == Some(2) && said.contains(&format!("({advice}), or give no IPv6 address")), "{refused:?}");
    let script = exec_in(&format!("{small} && {advice}"), "");
    let Some(server) = driver.start_under(test, &["unshare", "--net", "sh", "-c", &script], &both[3..]) else { return };
    let is_told = || text_of(&server).contains("interface va has an MTU of 68, and IPv6 asks for 1280");
    run(&server, "ip link set va mtu 68");
    until("it is told", is_told);
    until("it is said", || server.words().contains("[CL-0033] interface va has an MTU of 68 now"));
    run(&server, "ip link set va mtu 1500");
    until("it is over", || !is_told());
    ends(server);
}
