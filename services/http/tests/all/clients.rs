//! The examples and a fixed reply, asked by clients that others wrote.

#[allow(dead_code)] // its main
#[path = "../../examples/hello.rs"]
pub mod hello;
#[allow(dead_code)] // its main
#[path = "../../examples/upload.rs"]
mod upload;

use crate::foreign::measuring;
use corelane::lanes::{DriverChoice, Running};
use corelane::{Lanes, StreamService};
use corelane_http::{ENTRY, Fixed, Http};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

fn served<S: StreamService>(build: impl Fn(usize) -> S + Send + Sync + 'static) -> Running {
    Lanes::per_core().lanes(2).serve("tcp://127.0.0.1:0", build).unwrap().start().unwrap()
}

/// A program that may not be installed; then the test is left out, by name.
fn program(name: &str, package: &str) -> Option<Command> {
    let is_here = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !is_here {
        skip(&format!("there is no {name}: apt-get install -y {package}"));
    }
    is_here.then(|| Command::new(name))
}

fn skip(reason: &str) {
    corelane_testkit::skip("http", reason);
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn curl_is_answered_by_routes() {
    let Some(mut curl) = program("curl", "curl") else { return };
    let running = served(|_| Http::new(hello::routes()));
    let url = |path: &str| format!("http://{}{path}", running.address());
    curl.args(["-sS", "-w", "%{http_code} %{num_connects}\n"]);
    let text = said(curl.args([url("/"), url("/greet/you"), url("/nowhere")]));
    assert_eq!(text, "hello\n200 1\nhello, you\n200 0\n404 Not Found\n404 0\n");
    let mut curl = Command::new("curl");
    let text = said(curl.args(["-sS", "-X", "DELETE", "-D", "-", &url("/")]));
    assert!(text.starts_with("HTTP/1.1 405 Method Not Allowed\r\n") && text.contains("Allow: GET, HEAD, OPTIONS\r\n"), "{text}");
    let text = said(Command::new("curl").args(["-sS", "-I", &url("/")]));
    assert!(text.contains("Content-Length: 6\r\n") && !text.contains("hello"), "{text}");
}

#[test]
fn curl_sends_files_that_arrive_whole() {
    let Some(curl) = program("curl", "curl") else { return };
    drop(curl);
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let directory = tempfile::tempdir().unwrap();
        let (source, target) = (directory.path().join("source"), directory.path().to_owned());
        let content: Vec<u8> = (0..20_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(&source, &content).unwrap();
        let lanes = Lanes::per_core().lanes(1).driver(driver);
        let running =
            lanes.serve("tcp://127.0.0.1:0", move |_| Http::new(upload::Uploads::new(&target))).unwrap().start().unwrap();
        for (name, how) in [
            ("sized", &["-H", "Expect:"][..]),
            ("invited", &["-H", "Expect: 100-continue"]),
            ("chunks", &["-H", "Transfer-Encoding: chunked"]),
        ] {
            let mut curl = Command::new("curl");
            curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-T"]).arg(&source).args(how);
            assert_eq!(said(curl.arg(format!("http://{}/{name}", running.address()))), "201", "{name}");
            assert!(std::fs::read(directory.path().join(name)).unwrap() == content, "{name}: other bytes");
        }
        let refused =
            said(Command::new("curl").args(["-sS", "-T"]).arg(&source).arg(format!("http://{}/..%2fx", running.address())));
        assert_eq!(refused, "400 Bad Request\n");
    }
}

/// An upload that is refused, or breaks off, leaves the file that was there, and nothing beside it.
#[test]
fn an_upload_that_comes_to_nothing_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (kept, target) = (directory.path().join("kept"), directory.path().to_owned());
    std::fs::write(&kept, "as it was").unwrap();
    let running = served(move |_| Http::new(upload::Uploads::new(&target)));
    let begin = |framing: &str, content: &[u8]| {
        let mut stream = TcpStream::connect(running.address()).unwrap();
        write!(stream, "PUT /kept HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").unwrap();
        stream.write_all(content).unwrap();
        stream
    };
    let answer = |mut stream: TcpStream| {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer[9..12].to_owned()
    };
    assert_eq!(answer(begin("Content-Length: 2000000000", b"")), "413");
    assert_eq!(answer(begin("Transfer-Encoding: chunked", b"5\r\nhello\r\n7fffffff\r\n")), "413");
    let names = || std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    let until = |is_so: &dyn Fn() -> bool| {
        (0..10_000).any(|_| {
            is_so() || {
                // reason: a folder tells nobody; it is looked at again
                std::thread::sleep(Duration::from_millis(1));
                false
            }
        })
    };
    // What the refused one has begun goes a moment behind its answer.
    assert!(until(&|| names() == ["kept"]), "nothing is left of it: {:?}", names());
    let breaks_off = begin("Content-Length: 10", b"half");
    assert!(until(&|| names().len() == 2), "it is written beside the file: {:?}", names());
    drop(breaks_off);
    assert!(until(&|| names() == ["kept"]), "nothing is left of it: {:?}", names());
    assert_eq!(std::fs::read(&kept).unwrap(), b"as it was");
    assert_eq!(answer(begin("Connection: close\r\nContent-Length: 5", b"whole")), "201");
    assert_eq!(std::fs::read(&kept).unwrap(), b"whole");
    assert!(until(&|| names() == ["kept"]), "it has its name alone: {:?}", names());
}

#[test]
fn programs_that_measure_find_no_fault() {
    let running = served(|_| Http::new(Fixed::new(8)));
    measuring::find_no_fault("programs_that_measure_find_no_fault", running.address().inet().unwrap(), "/");
}

#[test]
fn heads_are_as_long_as_the_operator_says() {
    let ask = |running: &Running, target: usize, head: usize| {
        let mut stream = TcpStream::connect(running.address()).unwrap();
        let (begin, end) = (format!("GET /{} HTTP/1.1\r\nHost: a\r\nX: ", "a".repeat(target - 1)), "\r\n\r\n");
        let head = format!("{begin}{}{end}", "b".repeat(head - begin.len() - end.len()));
        stream.write_all(head.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer[9..12].to_owned()
    };
    for bytes in [1 << 10, 64 << 10] {
        let place = format!("http://127.0.0.1:0?reply=8&head-bytes={bytes}");
        let running = Lanes::per_core().lanes(1).serve_entry(&ENTRY, &place).unwrap().start().unwrap();
        let answers = [(10, bytes), (10, bytes + 1), (bytes / 2, bytes), (bytes / 2 + 1, bytes)]
            .map(|(target, head)| ask(&running, target, head));
        assert_eq!(answers, ["200", "431", "200", "414"], "{bytes}");
    }
}
