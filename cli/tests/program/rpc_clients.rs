//! Clients of RPC that nobody here wrote: rpcinfo, libtirpc, and the one of Python's pyvisa-py; with a portmapper and without.

use crate::common::*;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

on_each_driver!(
    rpcinfo_knows_what_is_served,
    libtirpc_makes_its_calls,
    pyvisa_makes_its_calls,
    clients_find_the_program_through_rpcbind,
    pyvisa_finds_the_program_through_rpcbind,
);

const RPC: [&str; 2] = ["rpc=tcp://127.0.0.1:0", "rpc=udp://127.0.0.1:0"];

/// Python of the environment that `cargo xtask test --install` makes.
const PYTHON: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../python/bin/python");

/// Where Debian puts the headers of libtirpc.
const HEADERS: &str = "/usr/include/tirpc";

/// What both clients say when each of their own checks has passed.
const GOOD: &[u8] = b"all as expected\n";

/// What a command says, and whether it has succeeded.
fn run(command: &mut Command) -> (String, bool) {
    let done = output(command);
    let words = [done.stdout, done.stderr].concat();
    (String::from_utf8(words).unwrap(), done.status.success())
}

/// Asserts that a client is content.
fn is_content(command: &mut Command) {
    let done = output(command);
    assert!(done.status.success() && done.stdout == GOOD, "{done:?}");
}

/// The client of libtirpc, compiled; none, and the test is skipped by name, where that is not possible.
fn compiled(case: &str, server: &Server) -> Option<PathBuf> {
    if !have(case, &["cc"]) {
        return None;
    }
    if !PathBuf::from(HEADERS).join("rpc/rpc.h").is_file() {
        skip(case, "libtirpc-dev is not installed");
        return None;
    }
    let [source, program] = ["client.c", "client"].map(|name| server.run.path().join(name));
    fs::write(&source, include_str!("rpc_clients/client.c")).unwrap();
    let mut command = Command::new("cc");
    command.args(["-Wall", "-Werror", "-isystem", HEADERS]).arg(source).arg("-o").arg(&program).arg("-ltirpc");
    let (words, is_compiled) = run(&mut command);
    assert!(is_compiled, "{words}");
    Some(program)
}

/// The script for Python; none, and the test is skipped by name, without the library that it calls through.
fn script(case: &str, server: &Server) -> Option<PathBuf> {
    let imports = Command::new(PYTHON).args(["-c", "import pyvisa_py.protocols.rpc"]).output();
    if !imports.is_ok_and(|output| output.status.success()) {
        skip(case, "Python's pyvisa-py is not installed");
        return None;
    }
    let script = server.run.path().join("client.py");
    fs::write(&script, include_str!("rpc_clients/client.py")).unwrap();
    Some(script)
}

/// An address as rpcbind writes it (RFC 5665 section 5.2.3.3).
fn universal(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

/// rpcinfo asks at an address; `-n` would do for a port, but the one of Debian 12 passes over it for TCP.
fn rpcinfo_knows_what_is_served(driver: Driver) {
    let test = "rpc_clients::rpcinfo_knows_what_is_served";
    if !have(&driver.case(test), &["rpcinfo"]) {
        return;
    }
    let Some(server) = driver.start(test, &RPC) else { return };
    for (protocol, address) in [("tcp", server.tcp()), ("udp", server.udp())] {
        let ask = |program: &[&str]| run(Command::new("rpcinfo").args(["-a", &universal(address), "-T", protocol]).args(program));
        let ready = |version: u32| format!("program 100003 version {version} ready and waiting\n");
        assert_eq!(ask(&["100003", "3"]), (ready(3), true));
        assert_eq!(ask(&["100003"]), (ready(3) + &ready(4), true), "it asks which versions there are");
        let (words, is_there) = ask(&["100003", "5"]);
        assert!(words.contains("low version = 3, high version = 4") && !is_there, "{words}");
        let (words, is_there) = ask(&["100099", "1"]);
        assert!(words.contains("Program unavailable") && !is_there, "{words}");
    }
    assert_eq!(server.count("protocol_errors"), 0);
}

fn libtirpc_makes_its_calls(driver: Driver) {
    let test = "rpc_clients::libtirpc_makes_its_calls";
    let Some(server) = driver.start(test, &RPC) else { return };
    let Some(client) = compiled(&driver.case(test), &server) else { return };
    for (protocol, address) in [("tcp", server.tcp()), ("udp", server.udp())] {
        let port = address.port().to_string();
        is_content(Command::new(&client).args(["calls", protocol, "127.0.0.1", &port]));
    }
    assert_eq!(server.count("protocol_errors"), 0);
    server.wait_for("endings_end_of_stream", |count| count == server.count("accepts"));
}

fn pyvisa_makes_its_calls(driver: Driver) {
    let test = "rpc_clients::pyvisa_makes_its_calls";
    let Some(server) = driver.start(test, &RPC) else { return };
    let Some(script) = script(&driver.case(test), &server) else { return };
    let ports = [server.tcp(), server.udp()].map(|address| address.port().to_string());
    is_content(Command::new(PYTHON).arg(script).arg("127.0.0.1").args(ports));
    assert_eq!(server.count("protocol_errors"), 0);
    server.wait_for("endings_end_of_stream", |count| count == server.count("accepts"));
}

/// Runs a program in a network of its own with a `/run` of its own, where rpcbind has its socket and its lock.
const WITH_OWN_RPCBIND: [&str; 6] =
    ["unshare", "--net", "--mount", "sh", "-c", "ip link set lo up && mount -t tmpfs tmpfs /run && exec \"$0\" \"$@\""];

/// rpcbind beside a server, ended when dropped.
struct Rpcbind(Child);

impl Drop for Rpcbind {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command in the network of a server, and with its `/run`.
fn beside(server: &Server, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &server.pid().to_string(), "--net", "--mount", "--"]).arg(program);
    command
}

/// A server whose program an rpcbind of its own knows, and the client that has told it; none, and the test is skipped by name, where
/// that cannot be had.
fn registered(driver: Driver, test: &str) -> Option<(Server, Rpcbind, PathBuf)> {
    let case = driver.case(test);
    if !have(&case, &["rpcbind", "rpcinfo", "ip", "unshare", "nsenter"]) || !is_root(&case) {
        return None;
    }
    let served = ["rpc=tcp://127.0.0.1:62049", "rpc=udp://127.0.0.1:62049"];
    let server = driver.start_under(test, &WITH_OWN_RPCBIND, &served)?;
    let client = compiled(&case, &server)?;
    let rpcbind = Rpcbind(beside(&server, "rpcbind").arg("-f").stdin(Stdio::null()).spawn().unwrap());
    until("rpcbind takes the program", || run(beside(&server, &client).args(["register", "62049"])).1);
    Some((server, rpcbind, client))
}

fn clients_find_the_program_through_rpcbind(driver: Driver) {
    let test = "rpc_clients::clients_find_the_program_through_rpcbind";
    let Some((server, _rpcbind, client)) = registered(driver, test) else { return };
    let (list, _) = run(beside(&server, "rpcinfo").args(["-p", "127.0.0.1"]));
    for protocol in ["tcp", "udp"] {
        let line = ["100003", "3", protocol, "62049"];
        assert!(list.lines().any(|words| words.split_whitespace().take(4).eq(line)), "{list}");
        let place = ["-T", protocol, "127.0.0.1", "100003", "3"];
        let expected = "program 100003 version 3 ready and waiting\n".to_owned();
        assert_eq!(run(beside(&server, "rpcinfo").args(place)), (expected, true));
        is_content(beside(&server, &client).args(["found", protocol, "127.0.0.1"]));
    }
}

fn pyvisa_finds_the_program_through_rpcbind(driver: Driver) {
    let test = "rpc_clients::pyvisa_finds_the_program_through_rpcbind";
    let Some((server, _rpcbind, _)) = registered(driver, test) else { return };
    let Some(script) = script(&driver.case(test), &server) else { return };
    is_content(beside(&server, PYTHON).arg(script).arg("127.0.0.1"));
}
