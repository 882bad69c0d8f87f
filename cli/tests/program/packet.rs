//! Services over an interface's frames, asked by the kernel at the other end of the wire.

use crate::common::*;
use corelane::admin::packets::{PACKET_BYTES_MAX, take};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

on_each_driver!(
    a_second_server_at_an_interface_is_refused,
    datagrams_over_frames_come_back,
    datagrams_longer_than_a_frame_are_not_cut,
    frames_are_as_many_as_may_be_locked,
    c_03_another_process_takes_what_its_filter_names,
    f_08_the_kernels_own_vxlan_is_opened,
    n_08_n_09_each_look_from_outside_adds_up,
    load_and_serve_meet_over_frames,
    n_05_n_11_x_12_policies_limits_and_drops_change_by_the_operators_command,
    over_a_tap_the_kernel_at_its_other_end_is_served,
    over_a_tap_without_programs_packets_change_lanes,
    without_programs_there_are_packet_sockets,
    x_12_packets_follow_the_table
);

/// A wire whose near end, `va`, is the program's, and whose far end, `vb`, is the kernel's. What the kernel sends there has its checksums: a wire of
/// this kind would leave them out.
pub const WIRE: &str = "ip link set lo up && ip link add va type veth peer name vb && ip link set va up && ip link set vb up \
    && ip addr add 10.9.0.1/24 dev vb && ip -6 addr add fd09::1/64 dev vb nodad && python3 -c '
import ctypes, fcntl, socket, struct
wish = (ctypes.c_uint32 * 2)(0x17, 0)  # ETHTOOL_STXCSUM
fcntl.ioctl(socket.socket(), 0x8946, struct.pack(\"16sP16x\", b\"vb\", ctypes.addressof(wish)))  # SIOCETHTOOL
'";
pub const V4: &str = "echo=udp://10.9.0.2:60007?reflect";
const V6: &str = "echo=udp://[fd09::2]:60007?reflect";
/// At a socket.
const BESIDE: &str = "echo=udp://127.0.0.1:60007?reflect";
const PORT: &str = "va,ip=10.9.0.2/24,ip=fd09::2/64";

pub fn can_run(test: &str) -> bool {
    is_root(test) && have(test, &["unshare", "ip", "python3", "setpriv"])
}

/// The same port, whose lanes take packets in by themselves.
const POLLING: &str = "va,ip=10.9.0.2/24,ip=fd09::2/64,poll";

/// A script for a shell in a network of its own: it sets that up, and becomes the program by way of this command.
pub fn exec_in(network: &str, way: &str) -> String {
    format!("{network} && exec {way} \"$0\" \"$@\"")
}

/// Starts a server at the near end, under `command`, and asks it from the far end.
pub fn echoes(driver: Driver, test: &str, command: &str, port: &str) -> Option<Server> {
    if !can_run(&driver.case(test)) {
        return None;
    }
    let script = exec_in(WIRE, command);
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let arguments = ["--lanes", "1", "--packet", port, V4, V6, "echo=udp://127.0.0.1:60007"];
    let server = driver.start_under(test, &wrapper, &arguments)?;
    in_network_of(server.pid(), || {
        for (from, to) in
            [("10.9.0.1:0", "10.9.0.2:60007"), ("[fd09::1]:0", "[fd09::2]:60007"), ("127.0.0.1:0", "127.0.0.1:60007")]
        {
            // An address is probed for first (RFC 4862 section 5.4), and the kernel asks for a neighbour three times only.
            until("it is reached", || answers(from, to, Duration::from_millis(100)));
            let socket = UdpSocket::bind(from).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.connect(to).unwrap();
            for bytes in [0, 1, 510, 1472, 1473, 9000, 20_000] {
                echo_datagram(&socket, &pattern(bytes, bytes as u64));
            }
        }
        let nobody = UdpSocket::bind("10.9.0.1:0").unwrap();
        nobody.set_read_timeout(Some(PATIENCE)).unwrap();
        nobody.connect("10.9.0.2:60008").unwrap();
        nobody.send(b"anybody?").unwrap();
        let refused = nobody.recv(&mut [0; 8]).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "the stack says so itself");
    });
    Some(server)
}

pub fn ends(mut server: Server) {
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
}

fn datagrams_over_frames_come_back(driver: Driver) {
    let test = "packet::datagrams_over_frames_come_back";
    for port in [PORT, POLLING] {
        let Some(server) = echoes(driver, test, "", port) else { return };
        assert!(!server.notes.iter().any(|note| note.contains("no AF_XDP")), "{:?}", server.notes);
        ends(server);
    }
}

/// Over a wire whose packets are longer than a lane's frames, datagrams are served whole, by AF_XDP and by packet sockets.
fn datagrams_longer_than_a_frame_are_not_cut(driver: Driver) {
    let test = "packet::datagrams_longer_than_a_frame_are_not_cut";
    if !can_run(&driver.case(test)) {
        return;
    }
    for (command, port_kind) in
        [("", "AF_XDP, copied by the kernel"), ("setpriv --bounding-set=-bpf,-sys_admin", "a packet socket")]
    {
        let script = exec_in(&format!("{WIRE} && ip link set va mtu 9000 && ip link set vb mtu 9000"), command);
        let wrapper = ["unshare", "--net", "sh", "-c", &script];
        let Some(server) = driver.start_under(test, &wrapper, &["--lanes", "1", "--packet", PORT, V4, V6]) else { return };
        in_network_of(server.pid(), || {
            for (from, to) in [("10.9.0.1:0", "10.9.0.2:60007"), ("[fd09::1]:0", "[fd09::2]:60007")] {
                let socket = UdpSocket::bind(from).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket.connect(to).unwrap();
                for bytes in [8000, 1, 1850, 1900, 8000, 8952] {
                    echo_datagram(&socket, &pattern(bytes, bytes as u64));
                }
            }
        });
        let packets = &json_of(&server, "-s")["packets"];
        assert_eq!((packets["fragments"].as_u64(), packets["udp_sent"].as_u64()), (Some(0), Some(12)), "{packets}");
        assert_eq!(json_of(&server, "-Q")["ports"][0]["packets"], port_kind);
        ends(server);
    }
}

/// Asks from the far end until `is_done`, and says how many datagrams were.
fn ask_on(pid: u32, is_done: &AtomicBool) -> u64 {
    in_network_of(pid, || {
        let sockets: Vec<UdpSocket> = (0..8).map(|_| UdpSocket::bind("10.9.0.1:0").unwrap()).collect();
        let mut asked = 0;
        while !is_done.load(Ordering::Relaxed) {
            for socket in &sockets {
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket.connect("10.9.0.2:60007").unwrap();
                echo_datagram(socket, &pattern(64 + asked as usize % 3000, asked));
                asked += 1;
            }
        }
        asked
    })
}

/// The kernel's own tunnel to the near end. It carries frames, and so is told whose.
const TUNNEL: &str = "ip link add tv type vxlan id 42 local 10.9.0.1 remote 10.9.0.2 dstport 4789 dev vb && ip link set tv up \
    && ip addr add 10.30.0.1/24 dev tv && ip link set va address 02:00:00:00:09:02 && ip neigh add 10.30.0.2 lladdr 02:00:00:00:09:02 dev tv";

fn f_08_the_kernels_own_vxlan_is_opened(driver: Driver) {
    let test = "packet::f_08_the_kernels_own_vxlan_is_opened";
    if !can_run(&driver.case(test)) {
        return;
    }
    let make = ["--net", "ip", "link", "add", "tv", "type", "vxlan", "id", "42", "dstport", "4789"];
    if !output(Command::new("unshare").args(make)).status.success() {
        return skip(&driver.case(test), "this kernel makes no VXLAN devices");
    }
    let script = exec_in(&format!("{WIRE} && {TUNNEL}"), "");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let port = format!("{PORT},ip=10.30.0.2/24,tunnel=vxlan@10.9.0.1");
    let arguments = ["--lanes", "1", "--packet", &port, "echo=udp://10.30.0.2:60007?reflect"];
    let Some(server) = driver.start_under(test, &wrapper, &arguments) else { return };
    let sizes = [0, 1, 510, 1300, 1472, 9000];
    in_network_of(server.pid(), || {
        let socket = UdpSocket::bind("10.30.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect("10.30.0.2:60007").unwrap();
        sizes.iter().for_each(|bytes| echo_datagram(&socket, &pattern(*bytes, *bytes as u64)));
    });
    let packets = &json_of(&server, "-s")["packets"];
    assert!(packets["vxlan_opened"].as_u64().unwrap() >= sizes.len() as u64, "{packets}");
    ends(server);
}

/// Whether a datagram of the kernel at the far end comes back within that time.
pub fn comes_back(pid: u32, from: &str, patience: Duration) -> bool {
    in_network_of(pid, || answers(from, "10.9.0.2:60007", patience))
}

/// Whether a datagram from there is answered, within the network of this thread.
fn answers(from: &str, to: &str, patience: Duration) -> bool {
    // A process that another test starts holds a socket that was closed here, until it runs its program.
    let mut bound = None;
    until("the port is free", || {
        bound = UdpSocket::bind(from).ok();
        bound.is_some()
    });
    let socket = bound.unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    socket.send(b"where to?").unwrap();
    socket.recv(&mut [0; 64]).is_ok()
}

fn c_03_another_process_takes_what_its_filter_names(driver: Driver) {
    let test = "packet::c_03_another_process_takes_what_its_filter_names";
    if !can_run(&driver.case(test)) {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.path().join("channels");
    let script = exec_in(WIRE, "");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let port = format!("{PORT},channels={}", path.display());
    let Some(server) = driver.start_under(test, &wrapper, &["--lanes", "1", "--packet", &port, V4]) else { return };
    let (flow, other, soon) = ("10.9.0.1:5001", "10.9.0.1:5002", Duration::from_millis(100));
    assert!(comes_back(server.pid(), flow, PATIENCE));
    let mut taken = take(&path, "udp 10.9.0.1/32:5001 10.9.0.2/32:60007").unwrap();
    let refused = take(&path, "udp somebody").unwrap_err().to_string();
    assert!(refused.contains("write PROTOCOL SOURCE DESTINATION"), "{refused}");
    // The lane hears of it in its next turn; from then on nothing comes back.
    until("the channel is open", || !comes_back(server.pid(), flow, soon));
    assert!(comes_back(server.pid(), other, PATIENCE), "a miss goes to the service");
    let (consumer, mut packet) = (&mut taken.consumers[0], [0; PACKET_BYTES_MAX]);
    let mut length = 0;
    until("a packet is in the channel", || {
        // A late answer looks like none, so the channel may have been opened only now.
        let _ = comes_back(server.pid(), flow, soon);
        length = consumer.take(&mut packet).unwrap().unwrap_or(0);
        length > 0
    });
    assert!(packet[..length].ends_with(b"where to?") && packet[0] == 0x45, "{:?}", &packet[..length]);
    drop(taken);
    until("the channel is taken away", || comes_back(server.pid(), flow, soon));
    assert!(json_of(&server, "-s")["packets"]["channel_put"].as_u64().unwrap() > 0);
    ends(server);
    assert!(!path.exists());
}

/// In each snapshot under load: handled is dispatched, hybrid and queued less what waits; received is what became of it.
fn n_08_n_09_each_look_from_outside_adds_up(driver: Driver) {
    let test = "packet::n_08_n_09_each_look_from_outside_adds_up";
    let Some(server) = echoes(driver, test, "", PORT) else { return };
    let (pid, is_done) = (server.pid(), AtomicBool::new(false));
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask_on(pid, &is_done));
        for _ in 0..10 {
            let report = json_of(&server, "-Q");
            let rows = report["workstreams"].as_array().unwrap();
            assert_eq!(rows.len(), 6, "{report}");
            for row in rows {
                let of = |name: &str| row[name].as_u64().unwrap();
                assert_eq!(of("handled") + of("length"), of("dispatched") + of("hybrid") + of("queued"), "{row}");
            }
            let packets = &json_of(&server, "-s")["packets"];
            let of = |name: &str| packets[name].as_u64().unwrap();
            let parts = ["udp_damaged", "udp_no_socket", "udp_socket_full", "udp_delivered", "udp_elsewhere"];
            assert_eq!(of("udp_received"), parts.iter().map(|name| of(name)).sum::<u64>(), "{packets}");
        }
        is_done.store(true, Ordering::Relaxed);
        asking.join().unwrap()
    });
    let packets = &json_of(&server, "-s")["packets"];
    assert!(asked > 0 && packets["udp_delivered"].as_u64().unwrap() >= asked, "{asked}: {packets}");
    assert!(packets["udp_no_socket"].as_u64().unwrap() > 0 && packets["reassembled"].as_u64().unwrap() > 0, "{packets}");
    let text = String::from_utf8(server.stat(&["-Q"]).stdout).unwrap();
    for line in ["Configuration:", "Protocols:", "Workstreams:", "Services:", "ip         1    256    cpu  default   C--"] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
    ends(server);
}

pub fn json_of(server: &Server, flag: &str) -> Value {
    let output = server.stat(&[flag, "--json"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn without_programs_there_are_packet_sockets(driver: Driver) {
    let test = "packet::without_programs_there_are_packet_sockets";
    // The kernel gives nobody programs who has neither of these.
    let Some(server) = echoes(driver, test, "setpriv --bounding-set=-bpf,-sys_admin", POLLING) else { return };
    let lost = server.notes.iter().find(|note| note.contains("no AF_XDP but packet sockets"));
    assert!(lost.is_some_and(|lost| lost.contains("CAP_BPF") && !lost.contains("classic")), "{:?}", server.notes);
    ends(server);
}

/// A process that may lock little has as many frames as that holds, says so, and serves; one that asks for more is told the remedies.
fn frames_are_as_many_as_may_be_locked(driver: Driver) {
    let test = "packet::frames_are_as_many_as_may_be_locked";
    let limited = "setpriv --bounding-set=-ipc_lock prlimit --memlock=1048576";
    if !have(&driver.case(test), &["prlimit"]) {
        return;
    }
    // What is locked counts for the user: two such tests at once have less each.
    static LOCKED: Mutex<()> = Mutex::new(());
    let _alone = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(server) = echoes(driver, test, limited, PORT) else { return };
    // io_uring's rings are locked as well.
    let frames = if matches!(driver, Driver::Uring) { 320 } else { 512 };
    let words = format!("{frames} frames a lane and not 4096");
    assert!(server.notes.iter().any(|note| note.contains(&words)), "{:?}", server.notes);
    let script = format!("exec {limited} \"$0\" \"$@\"");
    for (more, words) in [(",frames=513", "1050624 bytes of frames"), (",frames=255", "no number of frames from 256 to 65536")] {
        let mut other = Command::new("unshare");
        other.args(["--net", "sh", "-c", &format!("{WIRE} && {script}"), PROGRAM, "serve", "--driver", driver.name()]);
        other.args(["--lanes", "1", "--packet", &format!("{PORT}{more}"), V4]).env("CORELANE_RUN_DIR", server.run.path());
        let refused = output(&mut other);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains(words) && said.contains("frames=N"), "{refused:?}");
    }
    ends(server);
}

/// A second server at an interface would hear nothing, so it is refused, and told what to do. Who has the interface a confined process cannot see.
fn a_second_server_at_an_interface_is_refused(driver: Driver) {
    let test = "packet::a_second_server_at_an_interface_is_refused";
    for (port, others) in [(PORT, "va,ip=10.9.0.3/24"), (POLLING, "va,ip=10.9.0.3/24,poll")] {
        let Some(server) = echoes(driver, test, "", port) else { return };
        let mut other = Command::new(PROGRAM);
        other.args(["serve", "--driver", driver.name(), "--lanes", "1", "--packet", others, "echo=udp://10.9.0.3:60007?reflect"]);
        let run = Scratch::new();
        other.env("CORELANE_RUN_DIR", run.path());
        let refused = in_network_of(server.pid(), || output(&mut other));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(said.contains("va has an XDP program already") && said.contains("bpftool link"), "{said}");
        assert!(comes_back(server.pid(), "10.9.0.1:0", PATIENCE), "the first goes on");
        ends(server);
    }
}

/// A counter of each lane's stack.
pub fn of_lanes(server: &Server, counter: &str) -> Vec<u64> {
    let snapshot: Value = serde_json::from_slice(&server.stat(&["--json"]).stdout).unwrap();
    let counted = |lane: &Value| lane["packets"]["counters"][counter].as_u64().unwrap();
    snapshot["lanes"].as_array().unwrap().iter().map(counted).collect()
}

/// How many datagrams each lane's stack has handed to sockets.
fn delivered(server: &Server) -> Vec<u64> {
    of_lanes(server, "udp_delivered")
}

/// A flow goes to the lane that `rss table` gives its bucket, there and back, and none of its datagrams is lost.
fn follows_the_table(server: &Server) {
    for lane in [1, 0, 1] {
        let mut table = Command::new(PROGRAM);
        table.args(["rss", "table", "--move", &format!("0-127:{lane}")]).env("CORELANE_RUN_DIR", server.run.path());
        let moved = output(&mut table);
        assert!(moved.status.success(), "{moved:?}");
        let socket = in_network_of(server.pid(), || UdpSocket::bind("10.9.0.1:0").unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect("10.9.0.2:60007").unwrap();
        // Lanes hear of the table in a turn of their own.
        until("the flow is on its lane", || {
            let before = server.packet_counts("udp_delivered")[lane];
            echo_datagram(&socket, b"whose?");
            server.packet_counts("udp_delivered")[lane] > before
        });
        let before = delivered(server);
        (0..100).for_each(|number| echo_datagram(&socket, &pattern(64, number)));
        let after = delivered(server);
        assert_eq!((after[lane] - before[lane], after[1 - lane]), (100, before[1 - lane]));
    }
}

fn x_12_packets_follow_the_table(driver: Driver) {
    let test = "packet::x_12_packets_follow_the_table";
    if !can_run(&driver.case(test)) {
        return;
    }
    // Also where nothing is served at sockets, for which the kernel has the table.
    for more in [&[BESIDE][..], &[]] {
        follow_the_table_with(driver, test, more);
    }
}

fn follow_the_table_with(driver: Driver, test: &str, more: &[&str]) {
    let wire = WIRE.replace(
        "va type veth peer name vb",
        "va numrxqueues 2 numtxqueues 2 type veth peer name vb numrxqueues 2 numtxqueues 2",
    );
    let script = exec_in(&wire, "");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let arguments = [&["--lanes", "2", "--packet", PORT, V4], more].concat();
    let Some(server) = driver.start_under(test, &wrapper, &arguments) else { return };
    follows_the_table(&server);
    ends(server);
}

/// A wire between two lanes' ends, without an address of the kernel's.
const BETWEEN: &str = "ip link set lo up && ip link add va type veth peer name vb && ip link set va up && ip link set vb up";
const RPC: &str = "rpc=udp://10.9.0.2:62049";
/// The near end is the server's, the far end the generator's.
const GENERATOR: &str = "vb,ip=10.9.0.1/24,ip=fd09::1/64";

/// Every request was answered rightly; and so they were, in times that are not to be believed.
const EXIT_DONE: i32 = 0;
const EXIT_DOUBTS: i32 = 4;

/// Runs the generator where the server is.
fn load_beside(driver: Driver, server: &Server, run: &Scratch, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new("nsenter");
    command.args([
        "--net",
        "--target",
        &server.pid().to_string(),
        PROGRAM,
        "load",
        "--driver",
        driver.name(),
        "--packet",
        GENERATOR,
    ]);
    command.args(["--lanes", "1", "--json", "--quiet"]).args(arguments).env("CORELANE_RUN_DIR", run.path());
    output(&mut command)
}

/// Both ends are lanes over frames: UDP echo one by one and in trains, and calls of RPC over UDP; what cannot be is refused.
fn load_and_serve_meet_over_frames(driver: Driver) {
    let test = "packet::load_and_serve_meet_over_frames";
    if !can_run(&driver.case(test)) || !have(&driver.case(test), &["nsenter"]) {
        return;
    }
    let script = exec_in(BETWEEN, "");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let arguments = ["--lanes", "1", "--packet", PORT, V4, V6, RPC];
    let Some(server) = driver.start_under(test, &wrapper, &arguments) else { return };
    let run = Scratch::new();
    let (echo, over_v6, calls) = ("udp://10.9.0.2:60007", "udp://[fd09::2]:60007", "udp://10.9.0.2:62049");
    let mut asked = 0;
    for workload in [
        &["udp", echo, "--requests", "300"][..],
        &["udp", echo, "--requests", "300", "--connections", "4", "--depth", "8", "--size", "1400"],
        &["udp", over_v6, "--requests", "300", "--singles", "--depth", "4"],
        &["rpc", calls, "--requests", "300", "--size", "0"],
        &["rpc", calls, "--requests", "300", "--connections", "4", "--size", "600"],
    ] {
        let done = load_beside(driver, &server, &run, &[workload, &["--timeout", "20s"]].concat());
        let report: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{workload:?}: {done:?}"));
        // What it thinks of its own figures is not the point: two lanes share a CPU here.
        let is_well = matches!(done.status.code(), Some(code) if code == EXIT_DONE || code == EXIT_DOUBTS);
        assert!(is_well && report["requests"].as_u64() == Some(300), "{workload:?}: {report}");
        asked += 300;
    }
    assert!(delivered(&server)[0] >= asked, "all of them came as frames: {:?}", delivered(&server));
    let refusals = [
        (&["echo", "tcp://10.9.0.2:60007"][..], "there is UDP so far"),
        (&["http", "http://10.9.0.2/"], "there is UDP so far"),
        (&["udp", "unixgram:/tmp/nobody"], "a Unix socket has no frames"),
        (&["udp", "udp://10.8.0.2:60007"], "is in no network of vb: give an address beside it"),
        (&["udp", "udp://10.9.0.1:60007"], "is the generator's own address"),
    ];
    for (arguments, words) in refusals {
        let refused = load_beside(driver, &server, &run, arguments);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(words), "{arguments:?}: {refused:?}");
    }
    ends(server);
}

/// Has the operator's command carried out; what it printed, or said.
fn dispatch(server: &Server, arguments: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(PROGRAM);
    command.args(["dispatch", "--json"]).args(arguments).env("CORELANE_RUN_DIR", server.run.path());
    let done = output(&mut command);
    match done.status.success() {
        true => Ok(serde_json::from_slice(&done.stdout).unwrap()),
        false => Err(String::from_utf8(done.stderr).unwrap()),
    }
}

/// A row of `-Q`'s blocks: of the protocol, and in the second block of lane 0.
fn row_of<'a>(report: &'a Value, block: &str, name: &str) -> &'a Value {
    report[block].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()
}

fn n_05_n_11_x_12_policies_limits_and_drops_change_by_the_operators_command(driver: Driver) {
    let test = "packet::n_05_n_11_x_12_policies_limits_and_drops_change_by_the_operators_command";
    let Some(server) = echoes(driver, test, "", PORT) else { return };
    let shown = dispatch(&server, &[]).unwrap();
    assert_eq!(
        (&shown["configuration"]["dispatch"], &row_of(&shown, "protocols", "ip")["dispatch"]),
        (&"hybrid".into(), &"default".into())
    );
    assert!(row_of(&shown, "workstreams", "ip")["hybrid"].as_u64().unwrap() > 0, "{shown}");
    // Each is in force when it is told: what comes now is queued.
    let queued = |report: &Value| row_of(report, "workstreams", "ip")["queued"].as_u64().unwrap();
    let shown = dispatch(&server, &["--set", "deferred", "--set", "ip6=direct", "--limit", "ip=512"]).unwrap();
    assert_eq!(json_of(&server, "-Q")["protocols"], shown["protocols"], "as `stat -Q` shows it");
    assert_eq!(shown["configuration"]["dispatch"], "deferred");
    assert_eq!(
        (&row_of(&shown, "protocols", "ip6")["dispatch"], &row_of(&shown, "protocols", "ip")["queue_limit"]),
        (&"direct".into(), &512.into())
    );
    let before = queued(&shown);
    assert!(comes_back(server.pid(), "10.9.0.1:0", PATIENCE));
    assert!(queued(&json_of(&server, "-Q")) > before);
    // A queue that holds nothing drops all, which is counted until it is cleared.
    dispatch(&server, &["--limit", "ip=0", "--set", "ip6=default"]).unwrap();
    assert!(!comes_back(server.pid(), "10.9.0.1:0", Duration::from_millis(50)));
    let drops = |report: &Value| row_of(report, "workstreams", "ip")["drops"].as_u64().unwrap();
    until("the drop is counted", || drops(&json_of(&server, "-Q")) > 0);
    let shown = dispatch(&server, &["--limit", "ip=256", "--clear-drops", "ip", "--set", "hybrid"]).unwrap();
    assert_eq!((drops(&shown), &row_of(&shown, "protocols", "ip6")["dispatch"]), (0, &"default".into()));
    assert!(comes_back(server.pid(), "10.9.0.1:0", PATIENCE));
    for (arguments, words) in [
        (["--set", "ipx=direct"], "--set: there is no protocol \"ipx\": name one of ip, arp, ether"),
        (["--set", "default"], "--set: default is a protocol's"),
        (["--limit", "ip=10241"], "--limit: a queue holds 10240 packets at most, not 10241"),
        (["--clear-drops", "tcp"], "--clear-drops: there is no protocol \"tcp\""),
    ] {
        let said = dispatch(&server, &arguments).unwrap_err();
        assert!(said.contains(words) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
    ends(server);
    let Some(plain) = driver.start(test, &["--lanes", "1", BESIDE]) else { return };
    let said = dispatch(&plain, &["--set", "direct"]).unwrap_err();
    assert!(said.contains("no lane of this process has packets: start it with `serve --packet`"), "{said}");
    ends(plain);
}

/// What gives the kernel's end of a tap an address.
const TAP: &str = "ip addr add 10.9.0.1/24 dev tap0 && ip link set tap0 up";

/// Packets that came in on another lane than that of their bucket.
fn crossed(server: &Server) -> u64 {
    of_lanes(server, "packets_crossed").iter().sum()
}

/// A tap that is made, and one that is there: the kernel brings each flow to its lane's queue, also when the table is another.
fn over_a_tap_the_kernel_at_its_other_end_is_served(driver: Driver) {
    let test = "packet::over_a_tap_the_kernel_at_its_other_end_is_served";
    if !can_run(&driver.case(test)) {
        return;
    }
    let (there, made) = (format!("ip tuntap add dev tap0 mode tap multi_queue && {TAP}"), "true".to_owned());
    for before in [made, there] {
        let script = exec_in(&format!("ip link set lo up && {before}"), "");
        let wrapper = ["unshare", "--net", "sh", "-c", &script];
        let arguments = ["--lanes", "2", "--packet", "tap:tap0,ip=10.9.0.2/24", V4, BESIDE];
        let Some(server) = driver.start_under(test, &wrapper, &arguments) else { return };
        if before == "true" {
            let set_up = in_network_of(server.pid(), || output(Command::new("sh").args(["-c", TAP])));
            assert!(set_up.status.success(), "{set_up:?}");
        }
        follows_the_table(&server);
        assert!(crossed(&server) < 10, "the kernel knows the table: {}", crossed(&server));
        ends(server);
    }
}

fn over_a_tap_without_programs_packets_change_lanes(driver: Driver) {
    let test = "packet::over_a_tap_without_programs_packets_change_lanes";
    if !can_run(&driver.case(test)) {
        return;
    }
    let tap = format!("ip link set lo up && ip tuntap add dev tap0 mode tap multi_queue && {TAP}");
    let script = exec_in(&tap, "setpriv --bounding-set=-bpf,-sys_admin");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let arguments = ["--lanes", "2", "--packet", "tap:tap0,ip=10.9.0.2/24", V4, BESIDE];
    let Some(server) = driver.start_under(test, &wrapper, &arguments) else { return };
    let lost = server.notes.iter().find(|note| note.contains("the kernel gives packets to queues as it likes"));
    assert!(lost.is_some(), "{:?}", server.notes);
    follows_the_table(&server);
    ends(server);
}

#[test]
fn what_cannot_be_is_refused_with_its_remedy() {
    let test = "packet::what_cannot_be_is_refused_with_its_remedy";
    if !can_run(test) {
        return;
    }
    let script = exec_in(WIRE, "");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let scratch = Scratch::new();
    let file = scratch.path().join("notes.txt");
    std::fs::write(&file, "kept").unwrap();
    let on_a_file = format!("{PORT},channels={}", file.display());
    for (port, service, words) in [
        (on_a_file.as_str(), V4, "what lies there is no socket: remove it, or choose another path"),
        ("va,ip=10.9.0.1/24", "echo=udp://10.9.0.1:60007?reflect", "the kernel has 10.9.0.1 as well"),
        (PORT, "echo=tcp://10.9.0.2:60007", "there is UDP so far"),
        (PORT, "echo=udp://10.9.0.2:0?reflect", "name one"),
        ("none,ip=10.9.0.2/24", V4, "none"),
        ("tap:va,ip=10.9.0.2/24", V4, "the name is taken"),
        ("tap:tap0,ip=10.9.0.1/24", "echo=udp://10.9.0.1:60007?reflect", "the kernel has 10.9.0.1"),
        ("va,ip=10.9.0.2/40", V4, "IPv4 has up to 32 bits"),
        ("va,ip=10.9.0.2/24,ip=10.9.0.2/24", V4, "ip=10.9.0.2 stands there twice"),
        ("va,ip=10.9.0.255/24", "echo=udp://10.9.0.255:60007?reflect", "10.9.0.255 is no address of one host"),
        ("va,ip=127.0.0.2/8", "echo=udp://127.0.0.2:60007?reflect", "127.0.0.2 is no address of one host"),
        ("va,ip=10.9.0.2/24,via=10.8.0.1", V4, "give an address beside it first"),
    ] {
        let run = Scratch::new();
        let mut command: Command = wrapped(&wrapper, PROGRAM);
        let output =
            output(command.args(["serve", "--lanes", "1", "--packet", port, service]).env("CORELANE_RUN_DIR", run.path()));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        // What is no value of the option is told with where help is.
        let is_short = text.lines().count() == 1 || text.starts_with("error: invalid value");
        assert!(text.contains(words) && is_short, "{port} {service}: {text:?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
}

/// A service at all addresses is the kernel's: that is said, unless the lanes' own are named as well. A plan is of the interface that is named.
#[test]
fn a_check_and_a_plan_know_the_interface_of_frames() {
    let test = "packet::a_check_and_a_plan_know_the_interface_of_frames";
    if !can_run(test) {
        return;
    }
    let script = exec_in(WIRE, "");
    let asked = |asking: &str, services: &[&str]| {
        let run = Scratch::new();
        let mut command: Command = wrapped(&["unshare", "--net", "sh", "-c", &script], PROGRAM);
        command.args(["serve", asking, "--lanes", "1", "--packet", PORT]).args(services).env("CORELANE_RUN_DIR", run.path());
        let done = output(&mut command);
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let all = "echo=udp://0.0.0.0:60007?reflect";
    let said = asked("--check", &[all]);
    let words = "[CL-0034] udp://0.0.0.0:60007 is served at the kernel's addresses alone, and not over the frames of va: name these as well: udp://10.9.0.2:60007 ";
    assert!(said.contains(words), "{said}");
    assert!(asked("--check", &["echo=udp://[::]:60007?reflect", V4]).contains("name these as well: udp://[fd09::2]:60007 "));
    for services in [&[all, V4][..], &[V4], &["echo=tcp://0.0.0.0:60007"]] {
        assert!(!asked("--check", services).contains("CL-0034"), "{services:?}");
    }
    let plan = asked("--plan", &[V4]);
    assert!(plan.contains("interface: va (veth)"), "{plan}");
}

#[test]
fn without_the_right_to_raw_packets_the_capability_is_named() {
    let test = "packet::without_the_right_to_raw_packets_the_capability_is_named";
    if !can_run(test) {
        return;
    }
    let script = exec_in(WIRE, "setpriv --bounding-set=-net_raw");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let run = Scratch::new();
    let mut command: Command = wrapped(&wrapper, PROGRAM);
    let output = output(command.args(["serve", "--lanes", "1", "--packet", PORT, V4]).env("CORELANE_RUN_DIR", run.path()));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("CAP_NET_RAW") && !text.contains("CAP_NET_ADMIN"), "{text:?}");
}
