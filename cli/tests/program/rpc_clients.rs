//! Clients of RPC that nobody here wrote: libtirpc, and the one of Python's pyvisa-py; with rpcbind and without.
//! That rpcinfo is content stands in `rpc` and `load::rpc`.

use crate::common::*;
use crate::rpcbind::Rpcbind;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

on_each_driver!(
    libtirpc_makes_its_calls,
    pyvisa_makes_its_calls,
    libtirpc_finds_the_program_through_rpcbind,
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

/// A server whose programs an rpcbind of its own knows; none, and the test is skipped by name, where that cannot be had.
fn registered(driver: Driver, test: &str) -> Option<(Server, Rpcbind)> {
    let rpcbind = Rpcbind::start(&driver.case(test))?;
    let served = RPC.map(|place| format!("{place}?register"));
    let server = driver.start_under(test, &words(&rpcbind.wrapper()), &served.each_ref().map(String::as_str))?;
    assert!(server.notes.iter().any(|note| note.starts_with("rpcbind knows")), "{:?}", server.notes);
    Some((server, rpcbind))
}

fn words(wrapper: &[String]) -> Vec<&str> {
    wrapper.iter().map(String::as_str).collect()
}

fn libtirpc_finds_the_program_through_rpcbind(driver: Driver) {
    let test = "rpc_clients::libtirpc_finds_the_program_through_rpcbind";
    let Some((server, rpcbind)) = registered(driver, test) else { return };
    let Some(client) = compiled(&driver.case(test), &server) else { return };
    for protocol in ["tcp", "udp"] {
        is_content(wrapped(&words(&rpcbind.wrapper()), client.to_str().unwrap()).args(["found", protocol, "127.0.0.1"]));
    }
}

fn pyvisa_finds_the_program_through_rpcbind(driver: Driver) {
    let test = "rpc_clients::pyvisa_finds_the_program_through_rpcbind";
    let Some((server, rpcbind)) = registered(driver, test) else { return };
    let Some(script) = script(&driver.case(test), &server) else { return };
    is_content(wrapped(&words(&rpcbind.wrapper()), PYTHON).arg(script).arg("127.0.0.1"));
}

#[test]
fn an_rpcbind_that_is_started_anew_or_late_is_told() {
    let test = "rpc_clients::an_rpcbind_that_is_started_anew_or_late_is_told";
    let Some((server, mut rpcbind)) = registered(Driver::Epoll, test) else { return };
    let known = rpcbind.knows();
    assert!(!known.is_empty());
    rpcbind.start_anew();
    until("it knows again", || rpcbind.knows() == known);
    until("that is said", || server.words().contains("rpcbind had forgotten what is served"));
    rpcbind.end();
    let served = RPC.map(|place| format!("{place}?register"));
    let mut late = Server::start_under(&words(&rpcbind.wrapper()), &served.each_ref().map(String::as_str));
    assert!(late.notes.iter().any(|note| note.contains("it is told as soon as it answers")), "{:?}", late.notes);
    drop(server);
    rpcbind.start_anew();
    until("it knows who was there before it", || late.words().contains("rpcbind is there now") && !rpcbind.knows().is_empty());
    late.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(late.ended().success());
    assert!(rpcbind.knows().is_empty(), "until the end");
}
