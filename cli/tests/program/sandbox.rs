//! `--sandbox`: every thread is confined, everything serves, and what is replaced is found.

use crate::common::*;
use crate::tls::certified;
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

on_each_driver!(every_thread_is_confined_and_what_is_replaced_is_found);

/// Gets a file from a server that shows this certificate; another one is an error.
const PYTHON: &str = r#"
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[2])
with urllib.request.urlopen(f"https://localhost:{sys.argv[1]}/page.html", timeout=60, context=context) as answer:
    assert answer.read() == b"a page"
"#;

fn shows(port: u16, certificate: &str) -> bool {
    output(Command::new("python3").args(["-c", PYTHON, &port.to_string(), certificate])).status.success()
}

/// The mode of seccomp(2) of each thread: 2 is a filter (proc_pid_status(5)).
fn modes(server: &Server) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    let mode = |text: String| text.lines().find_map(|line| line.strip_prefix("Seccomp:").map(str::trim).map(str::to_owned));
    texts.map(|text| mode(text).expect("each thread has a mode")).collect()
}

fn every_thread_is_confined_and_what_is_replaced_is_found(driver: Driver) {
    let test = "sandbox::every_thread_is_confined_and_what_is_replaced_is_found";
    if !have(&driver.case(test), &["openssl", "python3"]) {
        return;
    }
    let [ours, next, other] = [(); 3].map(|()| Scratch::new());
    let (certificate, key) = certified(&ours);
    fs::create_dir(ours.path().join("root")).unwrap();
    fs::write(ours.path().join("root/page.html"), "a page").unwrap();
    let at = |name: &str| ours.path().join(name).to_str().unwrap().to_owned();
    let (log, socket) = (at("log"), format!("echo=unix:{}", at("x.sock")));
    let place = format!("http=https://127.0.0.1:0?root={}&log={log}&certificate={certificate}&key={key}", at("root"));
    let arguments = ["--sandbox", "required", "--lanes", "2", &place, TCP, UDP, &socket];
    let Some(mut server) = driver.start(test, &arguments) else { return };
    let port = server.address("https").port();
    let modes = modes(&server);
    assert!(modes.len() > 4 && modes.iter().all(|mode| mode == "2"), "{modes:?}");
    assert!(shows(port, &certificate));
    // Another certificate comes into the same place.
    let (new_certificate, new_key) = certified(&next);
    let replace = |from: &str, to: &str| {
        fs::copy(from, at("coming")).unwrap();
        fs::rename(at("coming"), to).unwrap();
    };
    replace(&new_key, &key);
    replace(&new_certificate, &certificate);
    until("it shows the new certificate", || shows(port, &new_certificate));
    // One that lies elsewhere is not opened, though who serves might, and the last one stays.
    let (outside, _) = certified(&other);
    fs::remove_file(&certificate).unwrap();
    symlink(&outside, &certificate).unwrap();
    let says_so = |line: String| line.contains("what was there before is kept") && line.to_lowercase().contains("permission");
    until("it says that it may not", || server.lines.try_iter().any(says_so));
    assert!(shows(port, &new_certificate));
    fs::rename(&log, at("moved")).unwrap();
    server.signal(Signal::SIGHUP);
    until("the log is opened anew", || {
        shows(port, &new_certificate) && fs::read_to_string(&log).is_ok_and(|log| !log.is_empty())
    });
    for seed in 0..20 {
        echo(&mut server.connect(), &pattern(100_000, seed));
        echo_datagram(&datagrams_to(server.udp()), &pattern(1000, seed));
    }
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
    assert!(fs::metadata(at("x.sock")).is_err(), "what it made it can remove");
}

#[test]
fn who_wants_none_has_none() {
    let server = Server::start(&["--sandbox", "off", "--lanes", "1", TCP]);
    assert!(modes(&server).iter().all(|mode| mode == "0"), "{:?}", modes(&server));
    echo(&mut server.connect(), b"free");
}
