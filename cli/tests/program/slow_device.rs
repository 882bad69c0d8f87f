//! Files of a device that does not answer: a file system of the test's own (fuse(4)), of which a large file cannot be read until the test says so. Meanwhile the lane serves others.

use crate::common::*;
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

on_each_driver!(
    a_device_that_does_not_answer_holds_nobody_else_up,
    whichever_call_is_not_answered_others_are_served,
    a_change_of_which_nobody_tells_is_seen,
    an_overlay_of_directories_that_are_here_is_watched,
    an_overlay_of_what_a_device_serves_holds_nobody_up,
);

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

/// A lane that serves the files of such a device, in a folder of the test's own; none where the driver cannot be had.
fn serving(driver: Driver, test: &str, folder: &Scratch, bytes: usize, more: &[&str]) -> Option<Server> {
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let script = path("slow_device.py");
    fs::write(&script, SCRIPT).unwrap();
    let (place, bytes) = (folder.path().to_str().unwrap(), bytes.to_string());
    let wrapper = ["unshare", "--mount", "python3", &script, place, &bytes];
    let root = format!("http=http://127.0.0.1:0?root={}&listing", path("site"));
    let arguments = [&["--sandbox", "auto", "--lanes", "1", &root][..], more].concat();
    let mut server = driver.start_under(test, &wrapper, &arguments)?;
    // Looks at it need no such device.
    server.wrapper.clear();
    Some(server)
}

/// Of what changes there nobody tells, whether the device says what it is or not: it is looked at again.
fn a_change_of_which_nobody_tells_is_seen(driver: Driver) {
    let test = "slow_device::a_change_of_which_nobody_tells_is_seen";
    if !can_mount(&driver.case(test)) {
        return;
    }
    for bytes in [0, 1] {
        let folder = Scratch::new();
        let Some(mut server) = serving(driver, test, &folder, bytes, &[]) else { return };
        let address = server.address("http");
        for _ in 0..10 {
            assert_eq!(content(ask(address, "/warm.txt")), b"warm\n");
        }
        fs::write(folder.path().join("changed"), "").unwrap();
        until("the change is seen", || content(ask(address, "/warm.txt")) == b"cool\n");
        assert!(server.lane_count("watches_refused") > 0);
        server.signal(Signal::SIGTERM);
        assert!(server.ended().success());
    }
}

/// Each call of a file is one of the device's as well: while it answers none of a kind, the lane has other clients.
fn whichever_call_is_not_answered_others_are_served(driver: Driver) {
    let test = "slow_device::whichever_call_is_not_answered_others_are_served";
    if !can_mount(&driver.case(test)) {
        return;
    }
    let folder = Scratch::new();
    let path = |name: &str| folder.path().join(name);
    let Some(mut server) = serving(driver, test, &folder, 0, &[TCP]) else { return };
    let address = server.address("http");
    assert_eq!(content(ask(address, "/warm.txt")), b"warm\n");
    let calls = ["OPEN", "GETATTR", "READ", "LOOKUP", "STATFS", "FLUSH", "OPENDIR", "READDIR"];
    for call in if driver == Driver::Uring { &calls[..] } else { &calls[..3] } {
        // It is there whole at once.
        fs::write(path("next"), call).unwrap();
        fs::rename(path("next"), path("hold")).unwrap();
        if *call == "READ" {
            // What is in memory is read again when it has changed.
            fs::write(path("changed"), "").unwrap();
        }
        let (mut asked, mut looks) = (Vec::new(), 0_u32);
        // What was asked for lately is in memory.
        until(call, || {
            if looks.is_multiple_of(20) {
                asked.extend(["/warm.txt", "/"].map(|name| ask(address, name)));
            }
            looks += 1;
            path(&format!("held-{call}")).exists()
        });
        for seed in 0..50 {
            echo(&mut server.connect(), &pattern(1000, seed));
        }
        fs::remove_file(path("hold")).unwrap();
        for stream in asked {
            assert!(!content(stream).is_empty(), "{call}");
        }
    }
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

/// Mounts an overlay at `$1/all` for this mount namespace alone, of an upper directory in memory over the one that lies at `$1/$2`, and becomes the program that is named behind.
const OVERLAY: &str = r#"set -e
mkdir "$1/memory" "$1/all"
mount -t tmpfs none "$1/memory"
mkdir "$1/memory/lower" "$1/memory/upper" "$1/memory/work"
echo below > "$1/memory/lower/lower.txt"
mount -t overlay none -o "lowerdir=$1/$2,upperdir=$1/memory/upper,workdir=$1/memory/work" "$1/all"
echo above > "$1/all/upper.txt"
shift 2
exec "$@""#;

/// Whether an overlay can be had here, of files of such a device too; if not, the test is skipped by name.
fn can_overlay(test: &str, device: Option<&str>) -> bool {
    if !can_mount(test) {
        return false;
    }
    let folder = Scratch::new();
    let place = folder.path().to_str().unwrap();
    let lower = if device.is_some() { "site" } else { "memory/lower" };
    let mount = ["/bin/sh", "-c", OVERLAY, "sh", place, lower, "true"];
    let of_device = device.map_or(Vec::new(), |script| vec!["python3", script, place, "0"]);
    let can = output(Command::new("unshare").arg("--mount").args(of_device).args(mount)).status.success();
    if !can {
        skip(test, "no overlay can be mounted");
    }
    can
}

/// It answers as its layers do: what changes there is told of.
fn an_overlay_of_directories_that_are_here_is_watched(driver: Driver) {
    let test = "slow_device::an_overlay_of_directories_that_are_here_is_watched";
    if !can_overlay(&driver.case(test), None) {
        return;
    }
    let folder = Scratch::new();
    let place = folder.path().to_str().unwrap();
    let wrapper = ["unshare", "--mount", "/bin/sh", "-c", OVERLAY, "sh", place, "memory/lower"];
    let root = format!("http=http://127.0.0.1:0?root={place}/all");
    let Some(mut server) = driver.start_under(test, &wrapper, &["--sandbox", "auto", "--lanes", "1", &root]) else { return };
    server.wrapper.clear();
    let address = server.address("http");
    for _ in 0..10 {
        let found = ["/lower.txt", "/upper.txt"].map(|name| content(ask(address, name)));
        assert_eq!(found, [b"below\n", b"above\n"]);
    }
    assert_eq!((server.lane_count("watches_refused"), server.count("files_cold")), (0, 0));
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

/// Its lower layer is a device's: it is far, as that is, whoever has written into its upper one.
fn an_overlay_of_what_a_device_serves_holds_nobody_up(driver: Driver) {
    let test = "slow_device::an_overlay_of_what_a_device_serves_holds_nobody_up";
    let folder = Scratch::new();
    let path = |name: &str| folder.path().join(name);
    let script = path("slow_device.py").to_str().unwrap().to_owned();
    fs::write(&script, SCRIPT).unwrap();
    if !can_overlay(&driver.case(test), Some(&script)) {
        return;
    }
    let place = folder.path().to_str().unwrap();
    let wrapper = ["unshare", "--mount", "python3", &script, place, "0", "/bin/sh", "-c", OVERLAY, "sh", place, "site"];
    let root = format!("http=http://127.0.0.1:0?root={place}/all");
    let arguments = ["--sandbox", "auto", "--lanes", "1", &root, TCP];
    let Some(mut server) = driver.start_under(test, &wrapper, &arguments) else { return };
    server.wrapper.clear();
    let address = server.address("http");
    assert_eq!([content(ask(address, "/warm.txt")), content(ask(address, "/upper.txt"))], [&b"warm\n"[..], b"above\n"]);
    assert!(server.lane_count("watches_refused") > 0);
    fs::write(path("next"), "OPEN").unwrap();
    fs::rename(path("next"), path("hold")).unwrap();
    let (mut asked, mut looks) = (Vec::new(), 0_u32);
    // What was asked for lately is in memory.
    until("the device is asked", || {
        if looks.is_multiple_of(20) {
            asked.push(ask(address, "/warm.txt"));
        }
        looks += 1;
        path("held-OPEN").exists()
    });
    for seed in 0..50 {
        echo(&mut server.connect(), &pattern(1000, seed));
    }
    fs::remove_file(path("hold")).unwrap();
    for stream in asked {
        assert!(!content(stream).is_empty());
    }
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

fn a_device_that_does_not_answer_holds_nobody_else_up(driver: Driver) {
    let test = "slow_device::a_device_that_does_not_answer_holds_nobody_else_up";
    if !can_mount(&driver.case(test)) {
        return;
    }
    let folder = Scratch::new();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let Some(mut server) = serving(driver, test, &folder, COLD_BYTES, &[]) else { return };
    let address = server.address("http");
    assert_eq!(content(ask(address, "/warm.txt")), b"warm\n");
    let cold_asked = ask(address, "/cold.bin");
    until("the device is asked for the large file", || Path::new(&path("asked")).exists());
    // It is the same lane, and the device has not answered.
    for _ in 0..100 {
        assert_eq!(content(ask(address, "/warm.txt")), b"warm\n");
    }
    let mut content_of_it = [0; 1 << 10];
    cold_asked.set_nonblocking(true).unwrap();
    let head = cold_asked.peek(&mut content_of_it).map_or(0, |bytes| bytes);
    assert!(!content_of_it[..head].windows(5).any(|bytes| bytes == b"\r\n\r\n\0"), "none of it has come yet");
    cold_asked.set_nonblocking(false).unwrap();
    fs::write(path("release"), "").unwrap();
    assert!(content(cold_asked) == cold(), "it comes whole");
    assert!(server.count("files_cold") > 0);
    assert_eq!(content(ask(address, "/warm.txt")), b"warm\n");
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}
