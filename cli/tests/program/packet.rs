//! Services over an interface's frames, asked by the kernel at the other end of the wire.

use crate::common::*;
use nix::sys::signal::Signal;
use std::net::UdpSocket;
use std::process::Command;

on_each_driver!(datagrams_over_frames_come_back, without_programs_there_are_packet_sockets);

/// A wire whose near end, `va`, is the program's, and whose far end, `vb`, is the kernel's. What the kernel sends there has its checksums: a wire of
/// this kind would leave them out.
const WIRE: &str = "ip link set lo up && ip link add va type veth peer name vb && ip link set va up && ip link set vb up \
    && ip addr add 10.9.0.1/24 dev vb && ip -6 addr add fd09::1/64 dev vb nodad && python3 -c '
import ctypes, fcntl, socket, struct
wish = (ctypes.c_uint32 * 2)(0x17, 0)  # ETHTOOL_STXCSUM
fcntl.ioctl(socket.socket(), 0x8946, struct.pack(\"16sP16x\", b\"vb\", ctypes.addressof(wish)))  # SIOCETHTOOL
'";
const V4: &str = "echo=udp://10.9.0.2:60007?reflect";
const V6: &str = "echo=udp://[fd09::2]:60007?reflect";
const PORT: &str = "va,ip=10.9.0.2/24,ip=fd09::2/64";

fn can_run(test: &str) -> bool {
    is_root(test) && have(test, &["unshare", "ip", "python3", "setpriv"])
}

/// Starts a server at the near end, under `command`, and asks it from the far end.
fn echoes(driver: Driver, test: &str, command: &str) -> Option<Server> {
    if !can_run(&driver.case(test)) {
        return None;
    }
    let script = format!("{WIRE} && exec {command} \"$0\" \"$@\"");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let arguments = ["--lanes", "1", "--packet", PORT, V4, V6, "echo=udp://127.0.0.1:60007"];
    let server = driver.start_under(test, &wrapper, &arguments)?;
    in_network_of(server.pid(), || {
        for (from, to) in
            [("10.9.0.1:0", "10.9.0.2:60007"), ("[fd09::1]:0", "[fd09::2]:60007"), ("127.0.0.1:0", "127.0.0.1:60007")]
        {
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

fn ends(mut server: Server) {
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
}

fn datagrams_over_frames_come_back(driver: Driver) {
    let test = "packet::datagrams_over_frames_come_back";
    let Some(server) = echoes(driver, test, "") else { return };
    assert!(!server.notes.iter().any(|note| note.contains("no AF_XDP")), "{:?}", server.notes);
    ends(server);
}

fn without_programs_there_are_packet_sockets(driver: Driver) {
    let test = "packet::without_programs_there_are_packet_sockets";
    // The kernel gives nobody programs who has neither of these.
    let Some(server) = echoes(driver, test, "setpriv --bounding-set=-bpf,-sys_admin") else { return };
    let lost = server.notes.iter().find(|note| note.contains("no AF_XDP but packet sockets"));
    assert!(lost.is_some(), "{:?}", server.notes);
    ends(server);
}

#[test]
fn what_cannot_be_is_refused_with_its_remedy() {
    let test = "packet::what_cannot_be_is_refused_with_its_remedy";
    if !can_run(test) {
        return;
    }
    let script = format!("{WIRE} && exec \"$0\" \"$@\"");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    for (port, service, words) in [
        ("va,ip=10.9.0.1/24", "echo=udp://10.9.0.1:60007", "the kernel has 10.9.0.1 as well"),
        (PORT, "echo=tcp://10.9.0.2:60007", "there is UDP so far"),
        (PORT, "echo=udp://10.9.0.2:0", "name one"),
        ("none,ip=10.9.0.2/24", V4, "none"),
        ("va,ip=10.9.0.2/40", V4, "IPv4 has up to 32 bits"),
        ("va,ip=10.9.0.2/24,via=10.8.0.1", V4, "give an address beside it first"),
    ] {
        let run = Scratch::new();
        let mut command: Command = wrapped(&wrapper, PROGRAM);
        let output =
            output(command.args(["serve", "--lanes", "1", "--packet", port, service]).env("CORELANE_RUN_DIR", run.path()));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(words) && text.lines().count() == 1, "{port} {service}: {text:?}");
    }
}
