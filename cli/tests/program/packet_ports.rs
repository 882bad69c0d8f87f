//! What becomes of a lane's port, as the operator is told it: its interface goes away, it loses packets, the kernel answers beside it.

use crate::common::*;
use crate::packet::{V4, WIRE, can_run, ends, exec_in, json_of, of_lanes};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;

on_each_driver!(
    a_burst_is_answered_whole,
    a_flood_of_fragments_leaves_honest_datagrams,
    an_interface_that_is_down_or_gone_is_told_to_all_who_ask,
    each_question_has_one_answer,
    of_a_datagram_no_more_fragments_wait_than_are_set,
    the_longest_datagrams_are_answered,
    what_a_stopped_lane_loses_is_counted,
    what_leaves_its_checksums_out_is_answered,
    what_the_kernel_answers_beside_lanes_is_told,
    wrong_checksums_are_told_with_their_remedy
);

const ADDRESS: &str = "va,ip=10.9.0.2/24";
/// Without these nobody is given programs, so there are packet sockets.
const NO_PROGRAMS: &str = "setpriv --bounding-set=-bpf,-sys_admin";
/// The ways that packets come.
pub const WAYS: [&str; 2] = ["", NO_PROGRAMS];

pub fn start(driver: Driver, test: &str, before: &str, command: &str, more: &[&str]) -> Option<Server> {
    start_at(ADDRESS, driver, test, before, command, more)
}

/// The same with another port.
fn start_at(port: &str, driver: Driver, test: &str, before: &str, command: &str, more: &[&str]) -> Option<Server> {
    let script = exec_in(before, command);
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    driver.start_under(test, &wrapper, &[&["--lanes", "1", "--packet", port, V4][..], more].concat())
}

/// Runs a line of shell where the server is.
pub fn run(server: &Server, line: &str) -> String {
    let output = in_network_of(server.pid(), || output(Command::new("sh").args(["-c", line])));
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What scripts check sums with.
pub const SUM_OF: &str = r#"
import socket, struct, sys

def sum_of(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
"#;

/// Runs a script where the server is, with the link-layer address of the near end and one more word; returns what it prints.
pub fn run_script(server: &Server, script: &str, word: &str) -> String {
    let mac = run(server, MAC);
    let mut python = Command::new("python3");
    python.args(["-c", &format!("{SUM_OF}{script}"), mac.trim(), word]);
    let output = in_network_of(server.pid(), || output(&mut python));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub fn client(server: &Server, port: u16) -> UdpSocket {
    let socket = in_network_of(server.pid(), || UdpSocket::bind(("10.9.0.1", port)).unwrap());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect("10.9.0.2:60007").unwrap();
    socket
}

pub fn probe(server: &Server, path: &str) -> String {
    let address = server.address("http");
    in_network_of(server.pid(), || {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

pub fn text_of(server: &Server) -> String {
    String::from_utf8(server.stat(&[]).stdout).unwrap()
}

fn an_interface_that_is_down_or_gone_is_told_to_all_who_ask(driver: Driver) {
    let test = "packet_ports::an_interface_that_is_down_or_gone_is_told_to_all_who_ask";
    if !can_run(&driver.case(test)) {
        return;
    }
    for way in WAYS {
        let before = format!("{WIRE} && ip link set va down");
        let Some(server) = start(driver, test, &before, way, &["--metrics", "127.0.0.1:0"]) else { return };
        let ready = |code: &str| until(code, || probe(&server, "/readyz").starts_with(&format!("HTTP/1.0 {code}")));
        ready("503");
        until("it is said", || server.words().contains("[CL-0026] interface va is down"));
        run(&server, "ip link set va up");
        ready("200");
        echo_datagram(&client(&server, 0), b"up");
        run(&server, "ip link set va down");
        ready("503");
        assert!(text_of(&server).contains("lane 0: its interface va is down: "), "{}", text_of(&server));
        assert_eq!(json_of(&server, "-Q")["ports"][0]["state"], "down");
        run(&server, "ip link set va up");
        ready("200");
        assert!(server.words().contains("interface va is up again"), "{}", server.words());
        run(&server, "ip link delete va");
        ready("503");
        until("it is said", || server.words().contains("[CL-0026] interface va is gone"));
        assert!(text_of(&server).contains("its interface va is gone: "), "{}", text_of(&server));
        assert_eq!(json_of(&server, "-Q")["ports"][0]["state"], "gone");
        ends(server);
    }
}

fn lost(server: &Server) -> u64 {
    ["port_no_frame", "port_ring_full", "port_too_long"].iter().flat_map(|counter| server.packet_counts(counter)).sum()
}

fn what_a_stopped_lane_loses_is_counted(driver: Driver) {
    let test = "packet_ports::what_a_stopped_lane_loses_is_counted";
    if !can_run(&driver.case(test)) {
        return;
    }
    for way in WAYS {
        let Some(server) = start(driver, test, WIRE, way, &[]) else { return };
        let socket = client(&server, 0);
        echo_datagram(&socket, b"awake");
        let before = of_lanes(&server, "frames_in")[0];
        let mut sent = 0;
        until("what was lost is counted", || {
            // The wire itself loses some where this machine is busy: then fewer come to the port than it has frames for.
            server.signal(Signal::SIGSTOP);
            (0..6000).for_each(|_| assert_eq!(socket.send(&[1; 64]).unwrap(), 64));
            server.signal(Signal::SIGCONT);
            sent += 6000;
            lost(&server) > 0
        });
        until("what was kept is answered", || server.packet_counts("udp_sent")[0] > before);
        let (came, lost) = (of_lanes(&server, "frames_in")[0] - before, lost(&server));
        assert!(came + lost <= sent + 16, "{came} came and {lost} were lost of {sent}");
        assert!(text_of(&server).contains("packets lost at ports"), "{}", text_of(&server));
        let packets = &json_of(&server, "-s")["packets"];
        assert!(packets["port_ring_full"].as_u64().unwrap() + packets["port_no_frame"].as_u64().unwrap() > 0, "{packets}");
        ends(server);
    }
}

/// Sends datagrams that were damaged on the wire.
const DAMAGED: &str = r#"
mac = bytes.fromhex(sys.argv[1].replace(":", ""))
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("vb", 0))
ends = socket.inet_aton("10.9.0.1") + socket.inet_aton("10.9.0.2")
head = struct.pack("!BBHHHBBH8s", 0x45, 0, 32, 0, 0, 64, 17, 0, ends)
head = head[:10] + struct.pack("!H", sum_of(head)) + head[12:]
for _ in range(3):
    wire.send(mac + wire.getsockname()[4] + b"\x08\x00" + head + struct.pack("!HHHH", 5000, 60007, 12, 0xbad) + b"data")
"#;

fn wrong_checksums_are_told_with_their_remedy(driver: Driver) {
    let test = "packet_ports::wrong_checksums_are_told_with_their_remedy";
    if !can_run(&driver.case(test)) {
        return;
    }
    let Some(server) = start(driver, test, WIRE, "", &[]) else { return };
    run_script(&server, DAMAGED, "");
    until("it is told", || {
        text_of(&server).contains("packets with wrong checksums: ") && text_of(&server).contains("ethtool -K PEER tx off")
    });
    ends(server);
}

/// On a wire between two ends of one machine the kernel leaves checksums to a card that there is not; that is known, and all is answered.
fn what_leaves_its_checksums_out_is_answered(driver: Driver) {
    let test = "packet_ports::what_leaves_its_checksums_out_is_answered";
    if !can_run(&driver.case(test)) {
        return;
    }
    let (bare, _) = WIRE.split_once(" && python3").unwrap();
    for way in WAYS {
        let Some(server) = start(driver, test, bare, way, &[]) else { return };
        let socket = client(&server, 0);
        // The last two are cut, and so are summed.
        for bytes in [0, 1, 510, 1472, 1473, 60_000] {
            echo_datagram(&socket, &pattern(bytes, bytes as u64));
        }
        // A packet socket says of each packet whether its sum was left out.
        let left = if way == NO_PROGRAMS { 0 } else { 4 };
        until("it is counted", || server.packet_counts("udp_sent")[0] == 6);
        let [left_out, wrong] = ["sums_left", "frames_checksum"].map(|counter| server.packet_counts(counter)[0]);
        assert_eq!((left_out, wrong), (left, 0), "{way}");
        ends(server);
    }
}

/// The kernel cuts datagrams as the interface's MTU has it; the longest are put together, and come back in fragments that the kernel puts together.
fn the_longest_datagrams_are_answered(driver: Driver) {
    let test = "packet_ports::the_longest_datagrams_are_answered";
    if !can_run(&driver.case(test)) {
        return;
    }
    for (way, mtu) in WAYS.into_iter().flat_map(|way| [(way, 1500), (way, 9000)]) {
        let before = format!("{WIRE} && ip link set va mtu {mtu} && ip link set vb mtu {mtu}");
        let Some(server) = start(driver, test, &before, way, &[]) else { return };
        let socket = client(&server, 0);
        for bytes in [8973, 25_001, 60_000, 65_507] {
            echo_datagram(&socket, &pattern(bytes, bytes as u64));
        }
        let packets = &json_of(&server, "-s")["packets"];
        let count = |name: &str| packets[name].as_u64().unwrap();
        // The kernel says a word now and then that is for others.
        assert_eq!((count("reassembled"), count("frames_dropped") - count("frames_not_ours")), (4, 0), "{packets}");
        ends(server);
    }
}

/// One may wait in fewer fragments than the longest needs, as FreeBSD has it: with one more it must be whole.
fn of_a_datagram_no_more_fragments_wait_than_are_set(driver: Driver) {
    let test = "packet_ports::of_a_datagram_no_more_fragments_wait_than_are_set";
    if !can_run(&driver.case(test)) {
        return;
    }
    let port = format!("{ADDRESS},fragments=16");
    let Some(server) = start_at(&port, driver, test, WIRE, "", &[]) else { return };
    let (socket, fits) = (client(&server, 0), 17 * 1480 - 8);
    echo_datagram(&socket, &pattern(fits, 1));
    socket.send(&pattern(fits + 1, 2)).unwrap();
    echo_datagram(&socket, &pattern(fits, 3));
    until("it is counted", || server.packet_counts("fragments_too_many") == [1]);
    ends(server);
}

/// Frames that the wire itself had no room for, so that they never came to the near end (proc_pid_net(5)).
fn lost_on_the_wire(server: &Server) -> u64 {
    let table = in_network_of(server.pid(), || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
    let far = table.lines().find_map(|line| line.trim().strip_prefix("vb:")).unwrap();
    far.split_whitespace().nth(11).unwrap().parse().unwrap()
}

/// Whether the wire brought a whole burst to a stopped lane, which then has to answer all of it.
fn is_burst_brought(server: &Server, burst: u64, what: &str) -> bool {
    let socket = client(server, 0);
    echo_datagram(&socket, b"awake");
    let before = lost_on_the_wire(server);
    server.signal(Signal::SIGSTOP);
    // Each is another: the service takes many of the same for a loop.
    (0..burst).for_each(|number| assert_eq!(socket.send(&pattern(64, number)).unwrap(), 64));
    server.signal(Signal::SIGCONT);
    let on_the_wire = || lost_on_the_wire(server) - before;
    until("all are answered", || server.packet_counts("udp_sent")[0] + lost(server) + on_the_wire() > burst);
    assert_eq!(lost(server), 0, "{what}");
    if on_the_wire() > 0 {
        return false;
    }
    assert_eq!(server.packet_counts("udp_sent")[0], burst + 1, "{what}");
    let ports = &json_of(server, "-Q")["ports"][0];
    assert_eq!((ports["lost"].as_u64(), ports["send_lost"].as_u64()), (Some(0), Some(0)), "{ports}");
    true
}

/// A burst that comes while a lane does something else finds room as long as there are frames, and all of it is answered.
fn a_burst_is_answered_whole(driver: Driver) {
    let test = "packet_ports::a_burst_is_answered_whole";
    if !can_run(&driver.case(test)) {
        return;
    }
    // The ring of a packet socket has 2,048 places, whatever the frames.
    for (way, more, burst) in [("", "", 1500), ("", ",frames=8192", 2400), (NO_PROGRAMS, "", 1500)] {
        let port = format!("{ADDRESS}{more}");
        // The wire itself loses some where this machine is busy: another server has another burst then.
        let mut is_brought = false;
        for _ in 0..20 {
            let Some(server) = start_at(&port, driver, test, WIRE, way, &[]) else { return };
            is_brought = is_burst_brought(&server, burst, &format!("{way} {port}"));
            ends(server);
            if is_brought {
                break;
            }
        }
        assert!(is_brought, "{way} {port}: the wire brings no whole burst");
    }
}

/// Prints the link-layer address of the near end.
const MAC: &str = "ip -o link show va | sed 's/.*ether \\([0-9a-f:]*\\).*/\\1/'";
/// Has somebody on the wire ask whose the address is.
const ASKED_FOR: &str = "python3 -c '
import socket
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((\"vb\", 0))
wire.send(bytes.fromhex(\"ffffffffffff0200000000010806\" + \"00010800060400010200000000010a0900010000000000000a090002\"))
'";

/// Switched off and on again while lanes serve; it was on at the start, which was said where the kernel sees anything.
fn forwarding_is_told(server: &Server, way: &str, sees: bool) {
    const SWITCH: &str = "/proc/sys/net/ipv4/conf/va/forwarding";
    let until_awake = |what: &str, is_so: &dyn Fn() -> bool| {
        until(what, || {
            // Only a lane that is awake looks.
            run(server, ASKED_FOR);
            is_so()
        });
    };
    let is_on = || text_of(server).contains("the kernel forwards what comes in by va, and tells senders");
    until_awake("what was on at the start is told as long as it is", &|| is_on() == sees);
    let said = |words: &str| server.words().matches(words).count();
    let (on, off) =
        ("[CL-0027] packet va: the kernel forwards what comes in by va", "forwards nothing that comes in by va any more");
    let before = said(on);
    run(server, &format!("echo 0 > {SWITCH}"));
    if sees {
        until_awake("it is off", &|| said(off) == 1 && !is_on());
    }
    run(server, &format!("echo 1 > {SWITCH}"));
    if sees {
        until_awake("it is on", &|| said(on) == before + 1 && is_on());
    } else {
        assert_eq!((said(on), said(off), is_on()), (0, 0, false), "{way}: the kernel sees nothing");
    }
}

fn what_the_kernel_answers_beside_lanes_is_told(driver: Driver) {
    let test = "packet_ports::what_the_kernel_answers_beside_lanes_is_told";
    if !can_run(&driver.case(test)) {
        return;
    }
    let before = format!("{WIRE} && echo 1 > /proc/sys/net/ipv4/ip_forward");
    for way in WAYS {
        let Some(server) = start(driver, test, &before, way, &[]) else { return };
        let is_told =
            server.notes.iter().any(|note| note.contains("[CL-0027]") && note.contains("net.ipv4.conf.va.forwarding=0"));
        assert_eq!(is_told, way == NO_PROGRAMS, "the kernel sees nothing under AF_XDP: {:?}", server.notes);
        let socket = client(&server, 0);
        echo_datagram(&socket, b"alone");
        forwarding_is_told(&server, way, is_told);
        run(&server, "ip addr add 10.9.0.2/32 dev lo");
        let said = |words: &str| {
            until(words, || {
                // Only a lane that is awake looks, and from here the address is the kernel's own.
                run(&server, ASKED_FOR);
                server.words().contains(words)
            });
        };
        said("[CL-0027] the kernel has 10.9.0.2 as well now");
        let is_told = || text_of(&server).contains("1 address of lanes is the kernel's as well");
        until("it is told", is_told);
        run(&server, "ip addr delete 10.9.0.2/32 dev lo");
        said("the kernel has 10.9.0.2 no longer");
        until("it is over", || !is_told());
        ends(server);
    }
}

/// Asks whose the address is (ARP), for an echo (ICMP), a service, and a port that has none, each a few times; prints how many answers came to each. The
/// kernel's would come first, and all have come before the last service's answer, since each question is put behind the answer to the one before it.
const COUNTED: &str = r#"
mac = bytes.fromhex(sys.argv[1].replace(":", ""))
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("vb", 0))
wire.settimeout(10)
own = wire.getsockname()[4]
ours, theirs = socket.inet_aton("10.9.0.1"), socket.inet_aton("10.9.0.2")

def ip(protocol, data):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(data), 0, 0, 64, protocol, 0, ours, theirs)
    head = head[:10] + struct.pack("!H", sum_of(head)) + head[12:]
    return mac + own + b"\x08\x00" + head + data

def datagram(port):
    return ip(17, struct.pack("!HHHH", 5000, port, 12, 0) + b"data")

echo = struct.pack("!BBHHH", 8, 0, 0, 1, 1)
asked = {
    "arp": mac + own + bytes.fromhex("08060001080006040001") + own + ours + bytes(6) + theirs,
    "ping": ip(1, echo[:2] + struct.pack("!H", sum_of(echo)) + echo[4:]),
    "service": datagram(60007),
    "nobody": datagram(9),
}

def kind_of(frame):
    if frame[6:12] != mac:
        return None
    kind = frame[12:14]
    if kind == b"\x08\x06" and frame[20:22] == b"\x00\x02":
        return "arp"
    if kind == b"\x08\x00" and frame[26:30] == theirs:
        if frame[23] == 1:
            return {0: "ping", 3: "nobody"}[frame[34]]
        return "service"

answers = dict.fromkeys(asked, 0)
# None goes unanswered: a limit of errors a second is far.
for name in list(asked) * 3 + ["service"]:
    wire.send(asked[name])
    while True:
        found = kind_of(wire.recv(2000))
        if found:
            answers[found] += 1
        if found == name:
            break
print(*answers.values())
"#;

fn each_question_has_one_answer(driver: Driver) {
    let test = "packet_ports::each_question_has_one_answer";
    if !can_run(&driver.case(test)) {
        return;
    }
    for way in WAYS {
        let Some(server) = start(driver, test, WIRE, way, &[]) else { return };
        echo_datagram(&client(&server, 0), b"who is there");
        assert_eq!(run_script(&server, COUNTED, ""), "3 3 4 3", "{way}");
        ends(server);
    }
}

/// Sends honest datagrams in two fragments with forged ones between, and prints how many of how many came back. Each few of the forged ones are followed by
/// a datagram that is waited for, so that none is lost on the way.
const FLOOD: &str = r#"
import random
mac, is_one, rounds, between = bytes.fromhex(sys.argv[1].replace(":", "")), sys.argv[2] == "one", 20, 200
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("vb", 0))
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer.bind(("10.9.0.1", 5000))
peer.connect(("10.9.0.2", 60007))
peer.settimeout(10)

def part(source, name, offset, more, data):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(data), name, more << 13 | offset >> 3, 64, 17, 0,
                       socket.inet_aton(source), socket.inet_aton("10.9.0.2"))
    head = head[:10] + struct.pack("!H", sum_of(head)) + head[12:]
    wire.send(mac + bytes.fromhex("020000000001") + b"\x08\x00" + head + data)

def echo(data):
    peer.send(data)
    # An honest one may come in between: the kernel hands packets of two CPUs over as it likes.
    while True:
        got = peer.recv(9000)
        if got == data:
            return
        assert len(got) == 2000 and got == got[:1] * 2000, got[:30]
        passed.add(got[0])

passed = set()
echo(b"who is there")
for turn in range(rounds):
    payload = bytes([turn]) * 2000
    whole = struct.pack("!HHHH", 5000, 60007, 8 + len(payload), 0) + payload
    part("10.9.0.1", 40000 + turn, 0, True, whole[:1480])
    for forged in range(between):
        source = "10.66.66.66" if is_one else "10.%d.%d.%d" % tuple(random.randrange(1, 255) for _ in range(3))
        part(source, (turn * between + forged) & 0xffff, 0, True, b"f" * 64)
        if forged % 20 == 19:
            echo(b"still there")
    part("10.9.0.1", 40000 + turn, 1480, False, whole[1480:])
    echo(b"the next")
passed = len(passed)
print(passed, rounds)
"#;

fn a_flood_of_fragments_leaves_honest_datagrams(driver: Driver) {
    let test = "packet_ports::a_flood_of_fragments_leaves_honest_datagrams";
    if !can_run(&driver.case(test)) {
        return;
    }
    for way in WAYS {
        let Some(server) = start(driver, test, WIRE, way, &[]) else { return };
        for from in ["anywhere", "one"] {
            let counts = run_script(&server, FLOOD, from);
            let (passed, of) = counts.split_once(' ').unwrap();
            let [passed, of] = [passed, of].map(|count| count.parse::<u32>().unwrap());
            assert!(2 * passed >= of, "{passed} of {of} honest datagrams passed a flood from {from}");
        }
        let packets = &json_of(&server, "-s")["packets"];
        let of = |name: &str| packets[name].as_u64().unwrap();
        assert_eq!(of("fragments"), of("fragments_joined") + of("fragments_waiting") + of("fragments_dropped"), "{packets}");
        ends(server);
    }
}
