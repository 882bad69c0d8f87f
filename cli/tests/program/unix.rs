//! Unix sockets: a foreign client, and what is told of the places.

use crate::common::*;
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::Command;

on_each_driver!(a_foreign_client_gets_its_bytes_back);

/// Connections and datagrams of Python's own, with and without a name.
const PYTHON: &str = r#"
import os, socket, sys

stream_at, datagrams_at, own = sys.argv[1:]
streams = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(20)]
for number, stream in enumerate(streams):
    stream.settimeout(60)
    if number == 7:
        stream.bind(own + ".stream")
    stream.connect(stream_at)
for size in (1, 100, 70_000):
    data = os.urandom(size)
    for stream in streams:
        stream.sendall(data)
    for stream in streams:
        back = b""
        while len(back) < size:
            back += stream.recv(size - len(back)) or sys.exit("it ended")
        assert back == data
for stream in streams:
    stream.shutdown(socket.SHUT_WR)
    assert stream.recv(1) == b""

nameless = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
nameless.sendto(b"cannot be answered", datagrams_at)
client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
client.settimeout(60)
client.bind(own)
for size in (0, 1, 1000, 60_000):
    data = os.urandom(size)
    client.sendto(data, datagrams_at)
    assert client.recvfrom(65_536) == (data, datagrams_at)
print("all came back")
"#;

fn a_foreign_client_gets_its_bytes_back(driver: Driver) {
    let test = "unix::a_foreign_client_gets_its_bytes_back";
    if !have(&driver.case(test), &["python3"]) {
        return;
    }
    let folder = Scratch::new();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (stream, datagrams) = (at("x.sock"), at("d.sock"));
    let asked = [format!("echo=unix:{stream}?mode=0600"), format!("echo=unixgram:{datagrams}")];
    let arguments = ["--lanes", "2", &asked[0], &asked[1]];
    let Some(mut server) = driver.start(test, &arguments) else { return };
    assert_eq!(server.urls, [format!("unix:{stream}?mode=0600"), format!("unixgram:{datagrams}")]);
    let file = fs::metadata(&stream).unwrap();
    assert_eq!((file.file_type().is_socket(), file.mode() & 0o777), (true, 0o600));
    let script = at("client.py");
    fs::write(&script, PYTHON).unwrap();
    let done = output(Command::new("python3").args([&script, &stream, &datagrams, &at("own.sock")]));
    assert!(done.status.success(), "{done:?}");
    assert_eq!(done.stdout, b"all came back\n");
    assert_eq!(server.count("accepts"), 20);
    server.comes_to("endings_end_of_stream", 20);
    assert_eq!((server.count("datagrams_in"), server.count("strays")), (5, 0));
    let shown = String::from_utf8(server.stat(&["--all"]).stdout).unwrap();
    assert!(asked.iter().all(|place| shown.contains(&place["echo=".len()..])), "{shown}");
    let second = output(Command::new(PROGRAM).args(["serve", &asked[0]]).env("CORELANE_RUN_DIR", server.run.path()));
    let words = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success() && words.contains(&format!("process {} of user", server.pid())), "{words}");
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    assert!(fs::metadata(&stream).is_err() && fs::metadata(&datagrams).is_err(), "the paths go with the server");
}

/// A server that was killed leaves its path behind, and the next one takes it.
#[test]
fn a_path_that_a_killed_server_left_is_taken() {
    let folder = Scratch::new();
    let place = format!("echo=unix:{}", folder.path().join("x.sock").display());
    let mut first = Server::start(&["--lanes", "1", &place]);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert!(folder.path().join("x.sock").exists());
    let second = Server::start(&["--lanes", "1", &place]);
    assert!(std::os::unix::net::UnixStream::connect(folder.path().join("x.sock")).is_ok());
    drop(second);
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let folder = Scratch::new();
    let path = folder.path().join("x").display().to_string();
    let long = "x".repeat(108);
    for (place, more, words) in [
        (format!("echo=unix:{path}/y"), &[][..], "x is missing: create it"),
        (format!("echo=unix:/{long}"), &[], "at most 107 bytes, and this has 109: choose a shorter path"),
        (format!("echo=unix:{path}?mode=0999"), &[], "octal digits"),
        ("echo=unix:@name?mode=0600".to_owned(), &[], "an abstract name has no mode"),
        (format!("echo=unix:{path}"), &["--join"], "leave out --join"),
        ("echo=unix:".to_owned(), &[], "unix: without a path"),
    ] {
        let ended =
            output(Command::new(PROGRAM).args(["serve", &place]).args(more).env("CORELANE_RUN_DIR", folder.path().join("run")));
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success() && said.contains(words), "{place}: {said}");
    }
}
