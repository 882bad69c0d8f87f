//! Files of a device that does not answer: a file system of the test's own (fuse(4)), of which a large file cannot be read until the test says so. Meanwhile the lane serves others.

use crate::common::*;
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

on_each_driver!(a_device_that_does_not_answer_holds_nobody_else_up);

const SCRIPT: &str = include_str!("slow_device.py");
/// Bytes of the large file: several windows, and a last one that is not whole.
const COLD_BYTES: usize = (3 << 20) + 4321;

fn cold() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..COLD_BYTES as u64).step_by(8).flat_map(u64::to_be_bytes).collect();
    bytes.truncate(COLD_BYTES);
    bytes
}

fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// The content of the answer.
fn content(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer[..answer.len().min(500)]));
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
    answer.split_off(end + 4)
}

/// Whether a device of one's own can be had here; if not, the test is skipped by name.
fn can_mount(test: &str) -> bool {
    if !is_root(test) || !have(test, &["python3", "unshare"]) {
        return false;
    }
    let mount = "import ctypes, os, sys; fd = os.open('/dev/fuse', os.O_RDWR); \
                 options = f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode(); \
                 sys.exit(ctypes.CDLL(None).mount(b'x', sys.argv[1].encode(), b'fuse', 0, options) != 0)";
    let folder = Scratch::new();
    let place = folder.path().to_str().unwrap();
    let can = output(Command::new("unshare").args(["--mount", "python3", "-c", mount, place])).status.success();
    if !can {
        skip(test, "no file system of one's own can be mounted (/dev/fuse)");
    }
    can
}

/// How often a part of a large file was not in the system's memory.
fn files_cold(server: &Server) -> u64 {
    let stat = output(
        Command::new(PROGRAM)
            .args(["stat", "--json", "--pid", &server.pid().to_string()])
            .env("CORELANE_RUN_DIR", server.run.path()),
    );
    let page: serde_json::Value = serde_json::from_slice(&stat.stdout).unwrap();
    number(&page["services"][0]["counters"]["files_cold"])
}

fn a_device_that_does_not_answer_holds_nobody_else_up(driver: Driver) {
    let test = "slow_device::a_device_that_does_not_answer_holds_nobody_else_up";
    if !can_mount(&driver.case(test)) {
        return;
    }
    let folder = Scratch::new();
    let script = folder.path().join("slow_device.py");
    fs::write(&script, SCRIPT).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (script, place, bytes) = (path("slow_device.py"), path(""), COLD_BYTES.to_string());
    let wrapper = ["unshare", "--mount", "python3", &script, place.trim_end_matches('/'), &bytes];
    let root = format!("http=http://127.0.0.1:0?root={}", path("site"));
    let Some(mut server) = driver.start_under(test, &wrapper, &["--lanes", "1", &root]) else { return };
    let address = server.address("http");
    assert_eq!(content(ask(address, "/warm.txt")), b"warm\n");
    let cold_asked = ask(address, "/cold.bin");
    until("the device is asked for the large file", || Path::new(&path("asked")).exists());
    // It is the same lane, and the device has not answered.
    for _ in 0..100 {
        assert_eq!(content(ask(address, "/warm.txt")), b"warm\n");
    }
    assert_eq!(files_cold(&server), 0, "none has come yet");
    fs::write(path("release"), "").unwrap();
    assert!(content(cold_asked) == cold(), "it comes whole");
    assert!(files_cold(&server) > 0);
    assert_eq!(content(ask(address, "/warm.txt")), b"warm\n");
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}
