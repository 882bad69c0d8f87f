//! Requests sent on by the real drivers: curl before, and Python's servers behind.

use corelane::Lanes;
use corelane::lanes::{DriverChoice, Running};
use corelane_http::ENTRY;
use corelane_testkit::{is_installed, skip};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const DRIVERS: [DriverChoice; 2] = [DriverChoice::Epoll, DriverChoice::Uring];

/// A server behind; it goes with the test.
struct Behind {
    child: Child,
    port: u16,
}

impl Behind {
    /// Runs a program of Python's that says its port in its first line, at the end of a word.
    fn start(arguments: &[&str], folder: &Path) -> Self {
        let mut command = Command::new("python3");
        let mut child = command
            .args(["-u"])
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or_else(|| panic!("no port: {line}"));
        Self { child, port }
    }

    fn says_what_it_was_asked() -> Self {
        Self::start(&[&format!("{}/tests/all/behind/says.py", env!("CARGO_MANIFEST_DIR"))], Path::new("/"))
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn are_here(test: &str) -> bool {
    let missing = ["curl", "python3"].into_iter().find(|program| !is_installed(program));
    missing.into_iter().for_each(|program| skip(test, &format!("there is no {program}: apt-get install -y {program}")));
    missing.is_none()
}

fn forwarding(driver: DriverChoice, to: &str) -> Running {
    let place = format!("http://127.0.0.1:0?to={to}");
    Lanes::per_core().lanes(1).driver(driver).serve_entry(&ENTRY, &place).unwrap().start().unwrap()
}

fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "--max-time", "60"]).args(arguments).env("no_proxy", "*").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn fields(said: &str) -> Vec<(String, String)> {
    let said: serde_json::Value = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    said["fields"].as_array().unwrap().iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

#[test]
fn the_server_behind_is_told_who_asks_and_its_connection_is_kept() {
    if !are_here("the_server_behind_is_told_who_asks_and_its_connection_is_kept") {
        return;
    }
    let behind = Behind::says_what_it_was_asked();
    for driver in DRIVERS {
        let running = forwarding(driver, &format!("localhost:{}", behind.port));
        let url = |path: &str| format!("http://{}{path}", running.address());
        let mine = ["-H", "X-Forwarded-For: 192.0.2.1", "-H", "Connection: x-mine", "-H", "X-Mine: 1", "-H", "X-Kept: 1"];
        let mut said = Vec::new();
        for path in ["/a?b=c", "/chunks", "/d"] {
            said.push(curl(&[&mine[..], &[&url(path)]].concat()));
        }
        let of = |said: &str, name: &str| {
            fields(said).into_iter().filter(|(known, _)| known == name).map(|(_, value)| value).collect::<Vec<_>>()
        };
        for said in &said {
            assert_eq!(of(said, "x-forwarded-for"), ["127.0.0.1"]);
            assert_eq!(of(said, "host"), [running.address().to_string()]);
            assert_eq!((of(said, "x-mine").len(), of(said, "x-kept").len(), of(said, "connection").len()), (0, 1, 0));
        }
        let port = |said: &str| serde_json::from_str::<serde_json::Value>(said).unwrap()["port"].as_u64();
        assert!(port(&said[0]) == port(&said[1]) && port(&said[1]) == port(&said[2]), "one connection carries them all");
        let head = curl(&["-I", &url("/")]);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Server: BaseHTTP"), "{head}");
        // It is the one of the server behind, which says what day it was there.
        assert!(head.contains("Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n") && head.matches("Date: ").count() == 1, "{head}");
    }
}

#[test]
fn what_is_sent_up_and_down_is_the_same() {
    if !are_here("what_is_sent_up_and_down_is_the_same") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..20_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = folder.path().join("large");
    std::fs::write(&file, &content).unwrap();
    let sum = Command::new("sha256sum").arg(&file).output().unwrap().stdout;
    let sum = String::from_utf8(sum).unwrap().split_whitespace().next().unwrap().to_owned();
    // Python's own server of files speaks HTTP/1.0, and closes.
    let files = Behind::start(&["-m", "http.server", "--bind", "127.0.0.1", "0"], folder.path());
    let asked = Behind::says_what_it_was_asked();
    for driver in DRIVERS {
        let down = forwarding(driver, &format!("127.0.0.1:{}", files.port));
        let got = folder.path().join("got");
        for more in [&["--limit-rate", "40M"][..], &[]] {
            let url = format!("http://{}/large", down.address());
            curl(&[&["-o", got.to_str().unwrap(), &url], more].concat());
            assert!(std::fs::read(&got).unwrap() == content, "other bytes have come");
        }
        let up = forwarding(driver, &format!("127.0.0.1:{}", asked.port));
        for how in ["Expect:", "Expect: 100-continue", "Transfer-Encoding: chunked"] {
            let said = curl(&["-H", how, "-T", file.to_str().unwrap(), &format!("http://{}/up", up.address())]);
            assert!(said.contains(&sum), "{how}: {said}");
        }
    }
}

#[test]
fn a_changed_protocol_passes_through_the_drivers() {
    if !are_here("a_changed_protocol_passes_through_the_drivers") {
        return;
    }
    let behind = Behind::says_what_it_was_asked();
    for driver in DRIVERS {
        let running = forwarding(driver, &format!("127.0.0.1:{}", behind.port));
        let mut stream = TcpStream::connect(running.address()).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: capitals\r\n\r\n").unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            heard.push(byte[0]);
        }
        let head = String::from_utf8(heard).unwrap();
        assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"), "{head}");
        let said = "a line\n".repeat(100_000);
        let mut writer = stream.try_clone().unwrap();
        let sent = said.clone();
        let writing = std::thread::spawn(move || {
            writer.write_all(sent.as_bytes()).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        writing.join().unwrap();
        assert!(heard == said.to_uppercase(), "{} bytes of {}", heard.len(), said.len());
    }
}

#[test]
fn who_is_not_there_is_bad_gateway() {
    if !are_here("who_is_not_there_is_bad_gateway") {
        return;
    }
    for driver in DRIVERS {
        let running = forwarding(driver, &corelane_testkit::free().to_string());
        let said = curl(&["-w", "%{http_code}", &format!("http://{}/", running.address())]);
        assert_eq!(said, "502 Bad Gateway\nthe server behind this one refuses connections\n502");
    }
}
