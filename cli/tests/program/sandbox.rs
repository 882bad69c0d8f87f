//! `--sandbox`: every thread is confined, everything serves, and what is replaced is found.

use crate::common::*;
use crate::tls::certified;
use nix::sys::signal::Signal;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::Command;
#[cfg(target_arch = "x86_64")]
use {
    nix::errno::Errno,
    nix::sys::ptrace,
    nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid},
    nix::unistd::Pid,
};

on_each_driver!(
    every_thread_is_confined_and_what_is_replaced_is_found,
    no_thread_opens_what_is_not_named,
    settings_are_read_again_though_everything_is_confined,
);

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

/// The threads of the server, with their names. Those of the kernel's for a ring act with the rights of who asks them, and make no calls.
#[cfg(target_arch = "x86_64")]
fn threads(server: &Server) -> Vec<(String, Pid)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().filter_map(Result::ok);
    let number = |task: &fs::DirEntry| Pid::from_raw(task.file_name().to_str().unwrap().parse().unwrap());
    let all =
        tasks.filter_map(|task| Some((fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned(), number(&task))));
    all.filter(|(name, _)| !name.starts_with("iou-")).collect()
}

/// What openat(2) of `path` answers on a thread, which is made to call it where it waits, as whoever has taken it over might (ptrace(2)). None if it has ended.
#[cfg(target_arch = "x86_64")]
fn opens(thread: Pid, path: &str) -> Option<i64> {
    const SYSCALL: i64 = 0x050f;
    let stopped = || waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
    let mut before = None;
    until("it waits in a call, or has ended", || {
        // Refused while it ends (EPERM), and then there is none (ESRCH).
        if let Err(error) = ptrace::attach(thread) {
            return error == Errno::ESRCH;
        }
        if !matches!(stopped(), WaitStatus::Stopped(..)) {
            return true;
        }
        let registers = ptrace::getregs(thread).unwrap();
        let waits = ptrace::read(thread, (registers.rip - 2) as *mut _).unwrap() & 0xffff == SYSCALL;
        if !waits {
            ptrace::detach(thread, None).unwrap();
        }
        before = waits.then_some(registers);
        waits
    });
    let before = before?;
    // Beyond what a function may have below its stack's end.
    let at = (before.rsp - 1024) & !7;
    let mut bytes = path.as_bytes().to_vec();
    bytes.resize(bytes.len() / 8 * 8 + 8, 0);
    for (word, bytes) in bytes.chunks(8).enumerate() {
        ptrace::write(thread, (at + 8 * word as u64) as *mut _, i64::from_ne_bytes(bytes.try_into().unwrap())).unwrap();
    }
    let mut call = before;
    (call.rip, call.orig_rax, call.rax) = (before.rip - 2, u64::MAX, nix::libc::SYS_openat as u64);
    (call.rdi, call.rsi, call.rdx) = (nix::libc::AT_FDCWD as u64, at, nix::libc::O_RDONLY as u64);
    ptrace::setregs(thread, call).unwrap();
    ptrace::step(thread, None).unwrap();
    stopped();
    let answer = ptrace::getregs(thread).unwrap().rax.cast_signed();
    ptrace::setregs(thread, before).unwrap();
    ptrace::detach(thread, None).unwrap();
    Some(answer)
}

#[cfg(not(target_arch = "x86_64"))]
fn no_thread_opens_what_is_not_named(driver: Driver) {
    skip(&driver.case("sandbox::no_thread_opens_what_is_not_named"), "how a thread is made to call is known for x86-64 alone");
}

/// Landlock counts for the thread that asks for it, and those that it starts later: so each is asked, whatever it is for.
#[cfg(target_arch = "x86_64")]
fn no_thread_opens_what_is_not_named(driver: Driver) {
    let test = "sandbox::no_thread_opens_what_is_not_named";
    if !have(&driver.case(test), &["openssl", "python3"]) {
        return;
    }
    let [ours, other, manager] = [(); 3].map(|()| Scratch::new());
    let (certificate, key) = certified(&ours);
    fs::create_dir(ours.path().join("root")).unwrap();
    fs::write(ours.path().join("root/page.html"), "a page").unwrap();
    let at = |folder: &Scratch, name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at(&other, "secret"), "of somebody else").unwrap();
    let place = format!(
        "http=https://127.0.0.1:0?root={}&log={}&certificate={certificate}&key={key}",
        at(&ours, "root"),
        at(&ours, "log")
    );
    let told = std::os::unix::net::UnixDatagram::bind(at(&manager, "notify")).unwrap();
    let [notify, watchdog] = [format!("NOTIFY_SOCKET={}", at(&manager, "notify")), "WATCHDOG_USEC=600000000".to_owned()];
    let any = "127.0.0.1:0";
    let arguments = ["--sandbox", "required", "--lanes", "2", "--metrics", any, "--dashboard", any, &place, TCP];
    let Some(server) = driver.start_under(test, &["env", &notify, &watchdog], &arguments) else { return };
    assert!(shows(server.address("https").port(), &certificate), "a helper has read the file");
    let threads = threads(&server);
    let here = |name: &&str| threads.iter().any(|(thread, _)| thread == *name);
    let due = [
        "corelane",
        "report",
        "lane-0",
        "lane-1",
        "control",
        "corelane-stalls",
        "corelane-http",
        "corelane-files",
        "journal",
        "watchdog",
    ];
    assert!(due.iter().all(here), "{threads:?}");
    assert!(driver == Driver::Uring || here(&"corelane-helper"), "{threads:?}");
    for (name, thread) in &threads {
        let is_due = due.contains(&&**name);
        let answer = opens(*thread, &at(&other, "secret"));
        assert!(answer.map_or(!is_due, |answer| answer == i64::from(-nix::libc::EACCES)), "{name}: {answer:?}");
        let answer = opens(*thread, &certificate);
        assert!(answer.map_or(!is_due, |answer| answer >= 0), "{name} opens what is named: {answer:?}");
    }
    echo(&mut server.connect(), b"it serves as before");
    drop(told);
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
    let says_so = |line: &str| line.starts_with("[CL-0020] TLS: what was there before is kept") && line.contains("ermission");
    until("it says that it may not", || server.words().lines().any(says_so));
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

fn settings_are_read_again_though_everything_is_confined(driver: Driver) {
    let folder = Scratch::new();
    let path = folder.path().join("corelane.toml");
    let write = |idle: &str| {
        let words = format!("services = [\"{TCP}\"]\nlanes = 1\nsandbox = \"required\"\n[limit]\nidle_limit = \"{idle}\"\n");
        // Another file in its place, as editors leave one.
        let next = path.with_extension("next");
        fs::write(&next, words).and_then(|()| fs::rename(&next, &path)).unwrap();
    };
    write("10m");
    let test = "sandbox::settings_are_read_again_though_everything_is_confined";
    let Some(server) = driver.start(test, &["--config", path.to_str().unwrap()]) else { return };
    assert!(modes(&server).iter().all(|mode| mode == "2"), "{:?}", modes(&server));
    write("1ms");
    server.signal(Signal::SIGHUP);
    until("the limit is changed", || {
        let mut idle = server.connect();
        // Whom a lane has accepted before it heard of the limit is closed by nobody.
        idle.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
        matches!(idle.read(&mut [0]), Ok(0))
    });
    until("it says so", || server.words().contains("the limits of time are changed"));
}

#[test]
fn who_wants_none_has_none() {
    let server = Server::start(&["--sandbox", "off", "--lanes", "1", TCP]);
    assert!(modes(&server).iter().all(|mode| mode == "0"), "{:?}", modes(&server));
    echo(&mut server.connect(), b"free");
}
