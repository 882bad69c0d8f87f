//! The access log of HTTP: what curl and hostile clients leave in it, and what becomes of it when its file moves or takes nothing.

use crate::common::*;
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

on_each_driver!(curl_leaves_a_line, a_log_is_rotated_under_load);

fn place(path: &Path, more: &str) -> String {
    format!("http=http://127.0.0.1:0?reply=8&log={}{more}", path.display())
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Asks so many times, in one go, and hears all answers.
fn ask(address: SocketAddr, request: &str, times: usize) {
    let mut stream = connect(address);
    stream.write_all(request.repeat(times).as_bytes()).unwrap();
    let (mut heard, mut memory) = (Vec::new(), [0; 65_536]);
    while heard.windows(12).filter(|at| at.starts_with(b"HTTP/1.1 200")).count() < times {
        let bytes = stream.read(&mut memory).unwrap();
        assert!(bytes > 0, "it hung up");
        heard.extend_from_slice(&memory[..bytes]);
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn curl_leaves_a_line(driver: Driver) {
    let test = "http_log::curl_leaves_a_line";
    if !have(&driver.case(test), &["curl"]) {
        return;
    }
    let folder = Scratch::new();
    for (format, due) in
        [("combined", "\"x\\x22y\\x5Cz\" \"127.0.0.1\""), ("json", "\"agent\":\"x\\\"y\\\\z\",\"host\":\"127.0.0.1\"")]
    {
        let path = folder.path().join(format);
        let Some(mut server) = driver.start(test, &[&place(&path, &format!("&log-format={format}"))]) else { return };
        let url = format!("http://{}/a?b", server.address("http"));
        let done = output(Command::new("curl").args(["-sS", "-A", "x\"y\\z", "-e", "http://c/", &url]));
        assert!(done.status.success() && done.stdout.len() == 8, "{done:?}");
        until("it is in the file", || !lines(&path).is_empty());
        let line = &lines(&path)[0];
        let asked =
            if format == "combined" { "\"GET /a?b HTTP/1.1\"" } else { "\"method\":\"GET\",\"path\":\"/a\",\"query\":\"b\"," };
        for word in ["127.0.0.1", asked, "http://c/", due] {
            assert!(line.contains(word), "{word} is not in {line}");
        }
        server.signal(Signal::SIGTERM);
        assert!(server.ended().success());
        assert_eq!(lines(&path).len(), 1);
        assert!(format == "combined" || serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
}

fn a_log_is_rotated_under_load(driver: Driver) {
    let folder = Scratch::new();
    let path = folder.path().join("log");
    let moved = |number: usize| -> PathBuf { folder.path().join(format!("log.{number}")) };
    let Some(mut server) = driver.start("http_log::a_log_is_rotated_under_load", &["--lanes", "2", &place(&path, "")]) else {
        return;
    };
    let address = server.address("http");
    let requests = std::thread::scope(|scope| {
        let asked = [0, 1].map(|_| scope.spawn(move || (0..40).map(|_| ask(address, GET, 250)).count() * 250));
        for number in 0..4 {
            until("something was logged", || {
                fs::metadata(&path).is_ok_and(|facts| facts.len() > 0) || asked.iter().all(|one| one.is_finished())
            });
            if fs::rename(&path, moved(number)).is_ok() {
                // As nginx has it, and as systemd's reload does.
                server.signal(if number % 2 == 0 { Signal::SIGUSR1 } else { Signal::SIGHUP });
            }
        }
        asked.map(|one| one.join().unwrap()).into_iter().sum::<usize>()
    });
    server.comes_to("log_lines", requests as u64);
    let dropped = server.count("log_lines_dropped") as usize;
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    let files = (0..4).map(moved).chain([path]).map(|path| fs::read_to_string(path).unwrap_or_default());
    let all: Vec<String> = files.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    assert!(all.iter().all(|line| line.starts_with("127.0.0.1 ") && line.ends_with(" +")), "each line is whole");
    assert_eq!(all.len() + dropped, requests, "what is not in the files is counted");
}

#[test]
fn a_full_disk_holds_nobody_up_and_is_said_and_counted() {
    let mut server = Server::start(&["--lanes", "1", &place(Path::new("/dev/full"), "")]);
    ask(server.address("http"), GET, 500);
    server.wait_for("log_lines", |lines| lines == 500);
    until("it is said", || server.words().contains("[CL-0024] the log /dev/full could not be written"));
    ask(server.address("http"), GET, 500);
    // Of what is lost the lane hears with its next line.
    until("it is counted", || {
        ask(server.address("http"), GET, 1);
        server.count("log_lines_dropped") >= 1_000
    });
    assert_eq!(server.words().matches("could not be written").count(), 1, "once a minute");
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

#[test]
fn a_pipe_that_nobody_reads_holds_nobody_up() {
    let folder = Scratch::new();
    let path = folder.path().join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Open for both, so that opening it waits for nobody; and nobody reads.
    let held = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut server = Server::start(&["--lanes", "1", &place(&path, "")]);
    (0..20).for_each(|_| ask(server.address("http"), GET, 500));
    server.wait_for("log_lines", |lines| lines == 10_000);
    assert!(server.count("log_lines_dropped") > 1_000);
    drop(held);
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

#[test]
fn what_cannot_be_opened_is_refused() {
    for (options, due) in [
        ("log=/nowhere/at/all", "\"log\": /nowhere/at/all cannot be opened: No such file or directory"),
        ("log-format=json", "\"log-format\": it means nothing without log=FILE"),
        ("reply=8&listing", "\"listing\": it is for files, and means nothing with reply=BYTES"),
        ("reply=8&index=a.html", "\"index\": it is for files, and means nothing with reply=BYTES"),
        ("log=/dev/null&log-format=xml", "\"xml\" is neither combined nor json"),
    ] {
        let refused = output(Command::new(PROGRAM).args(["serve", &format!("http=http://127.0.0.1:0?{options}")]));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains(due), "{said}");
    }
}

#[test]
fn standard_output_that_is_a_socket_takes_a_log() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let run = Scratch::new();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--lanes", "1", &place(Path::new("/dev/stdout"), "")]).env("CORELANE_RUN_DIR", run.path());
    command.stdin(std::process::Stdio::null()).stdout(std::os::fd::OwnedFd::from(theirs)).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut heard = std::io::BufReader::new(ours);
    let mut next = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut heard, &mut line).unwrap();
        line
    };
    let url = next();
    let address = url.trim().strip_prefix("http http://").unwrap_or_else(|| panic!("{url}")).parse().unwrap();
    while next() != "ready\n" {}
    ask(address, GET, 1);
    assert!(next().contains("\"GET / HTTP/1.1\""));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGHUP).unwrap();
    ask(address, GET, 1);
    assert!(next().contains("\"GET / HTTP/1.1\""), "also when it was opened anew");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!said.contains("pipe") && !said.contains("socket"), "{said}");
}
