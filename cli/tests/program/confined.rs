//! Little is allowed: no root, hardly any locked memory, few descriptors, no io_uring.

use crate::common::*;
use crate::faults::begin_from;
use nix::sys::signal::Signal;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

on_each_driver!(
    an_ordinary_user_can_serve,
    little_locked_memory_is_enough,
    own_descriptors_give_each_lane_the_limit,
    without_own_descriptors_all_lanes_share_the_limit,
    one_address_does_not_take_all_descriptors,
);

/// Serves a little of everything.
fn serves(server: &Server) {
    for seed in 0..20 {
        echo(&mut server.connect(), &pattern(100_000, seed));
        echo_datagram(&datagrams_to(server.udp()), &pattern(1000, seed));
    }
}

/// Runs a program as a user who may nothing special.
pub const AS_ORDINARY_USER: [&str; 6] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];

/// A server of an ordinary user, run by `wrapper`; none, and the test is skipped by name, where that cannot be.
fn of_an_ordinary_user(driver: Driver, choice: &str, test: &str, wrapper: &[&str]) -> Option<Server> {
    if !is_root(&driver.case(test)) || !have(&driver.case(test), &["setpriv", "prlimit"]) {
        return None;
    }
    let folder = Arc::new(Scratch::new());
    let program = copy_for_all(&folder);
    let wrapper = [wrapper, &AS_ORDINARY_USER].concat();
    let arguments = ["--driver", choice, TCP, UDP];
    let server = Server::start_as(Launch { wrapper: &wrapper, program: &program, arguments: &arguments, run: folder });
    assert_eq!(server.status("Uid"), u64::from(ORDINARY_USER));
    Some(server)
}

fn an_ordinary_user_can_serve(driver: Driver) {
    let Some(server) = of_an_ordinary_user(driver, driver.name(), "confined::an_ordinary_user_can_serve", &[]) else { return };
    serves(&server);
    server.comes_to("datagrams_out", 20);
}

fn little_locked_memory_is_enough(driver: Driver) {
    let limit = ["prlimit", "--memlock=65536"]; // root would be above it
    // By name a driver is used or refused.
    let choice = if driver == Driver::Uring { "auto" } else { driver.name() };
    let Some(server) = of_an_ordinary_user(driver, choice, "confined::little_locked_memory_is_enough", &limit) else { return };
    let of_driver = server.notes.iter().filter(|note| note.contains("refused")).count();
    assert!(server.driver() == driver.name() || of_driver == 1, "{:?}", server.notes);
    serves(&server);
}

/// Has 500 connections with 320 descriptors on each of two lanes, and echoes on all of them.
fn has_five_hundred(server: &Server) {
    let mut streams: Vec<_> = (0..500).map(|_| server.connect()).collect();
    for round in 0..2 {
        for (seed, stream) in streams.iter_mut().enumerate() {
            echo(stream, &pattern(10 + round, seed as u64));
        }
    }
    assert_eq!((server.count("accepts"), server.count("accepts_no_descriptor")), (500, 0));
}

fn own_descriptors_give_each_lane_the_limit(driver: Driver) {
    let test = "confined::own_descriptors_give_each_lane_the_limit";
    if !have(&driver.case(test), &["prlimit"]) {
        return;
    }
    let arguments = ["--lanes", "2", "--limit", "connections_per_peer_max=1000", TCP];
    let Some(server) = driver.start_under(test, &["prlimit", "--nofile=320"], &arguments) else { return };
    has_five_hundred(&server);
}

fn without_own_descriptors_all_lanes_share_the_limit(driver: Driver) {
    let test = "confined::without_own_descriptors_all_lanes_share_the_limit";
    if !have(&driver.case(test), &["prlimit"]) {
        return;
    }
    let arguments = ["--lanes", "2", "--share-descriptors", "--limit", "connections_per_peer_max=1000", TCP];
    let Some(server) = driver.start_under(test, &["prlimit", "--nofile=320"], &arguments) else { return };
    let streams: Vec<_> = (0..500).map(|_| server.connect()).collect();
    server.wait_for("accepts_no_descriptor", |accepts| accepts > 0);
    server.wait_for("accepts", |accepts| accepts >= 200);
    let accepts = server.count("accepts");
    assert!((200..320).contains(&accepts), "{accepts} connections with 320 descriptors");
    drop(streams);
}

fn one_address_does_not_take_all_descriptors(driver: Driver) {
    let test = "confined::one_address_does_not_take_all_descriptors";
    if !have(&driver.case(test), &["prlimit"]) {
        return;
    }
    for (more, lanes) in [(&["--lanes", "1"][..], 1), (&["--lanes", "2", "--share-descriptors"], 2)] {
        let arguments = [more, &[TCP]].concat();
        let Some(server) = driver.start_under(test, &["prlimit", "--nofile=320"], &arguments) else { return };
        let taken: Vec<_> = (0..400).map(|_| begin_from(Ipv4Addr::LOCALHOST, server.tcp())).collect();
        server.wait_for("connections_per_peer_max_hits", |hits| hits > 0);
        server.wait_for("accepts", |accepts| accepts >= 100);
        for seed in 0..20 {
            echo(&mut begin_from(Ipv4Addr::new(127, 0, 0, 2), server.tcp()), &pattern(1000, seed));
        }
        assert!(server.count("accepts") <= 160 + 20, "{} on {lanes} lanes", server.count("accepts"));
        drop(taken);
    }
}

/// A filter as a container's run time has it: these calls are not permitted, all else is.
pub fn without(calls: &[(i64, Vec<SeccompRule>)]) -> BpfProgram {
    let refuse = SeccompAction::Errno(nix::libc::EPERM as u32);
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let rules = BTreeMap::from_iter(calls.iter().cloned());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).unwrap().try_into().unwrap()
}

/// Does something below a filter. A thread passes its filter on to the processes that it starts (seccomp(2)).
pub fn below<T: Send>(filter: &BpfProgram, what: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let filtered = scope.spawn(|| {
            apply_filter(filter).unwrap();
            what()
        });
        filtered.join().unwrap()
    })
}

fn start_without_io_uring(arguments: &'static [&'static str]) -> Server {
    below(&without(&[(nix::libc::SYS_io_uring_setup, Vec::new())]), || Server::start(arguments))
}

/// What `corelane serve` says when it refuses to start below the filter.
fn refused_below(filter: &BpfProgram, arguments: &[&str]) -> String {
    let run = Scratch::new();
    let mut command = Command::new(PROGRAM);
    command.arg("serve").args(arguments).env("CORELANE_RUN_DIR", run.path());
    let output = below(filter, || output(&mut command));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn io_uring_asked_for_by_name_and_refused_is_an_error() {
    let words = refused_below(&without(&[(nix::libc::SYS_io_uring_setup, Vec::new())]), &["--driver", "uring", TCP]);
    for part in ["uring was asked for by name and is refused", "io_uring_setup is forbidden", "let auto choose"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn calls_that_are_not_permitted_are_named_with_the_remedy() {
    let cases = [
        (nix::libc::SYS_eventfd2, "eventfd2"),
        (nix::libc::SYS_sched_setaffinity, "sched_setaffinity"),
        (nix::libc::SYS_setsockopt, "setsockopt"),
        (nix::libc::SYS_accept4, "accept4"),
        (nix::libc::SYS_recvfrom, "recvfrom"),
        (nix::libc::SYS_sendto, "sendto"),
        (nix::libc::SYS_recvmmsg, "recvmmsg"),
        (nix::libc::SYS_sendmmsg, "sendmmsg"),
        (nix::libc::SYS_shutdown, "shutdown"),
    ];
    for (call, name) in cases {
        let words = refused_below(&without(&[(call, Vec::new())]), &["--driver", "epoll", TCP]);
        assert!(words.contains(name) && words.contains("seccomp profile") && !words.contains("ports below"), "{name}: {words}");
    }
}

/// Runs a test in a process of its own, where hardly a descriptor is open. True in that process, where the test goes on.
fn is_alone(test: &str) -> bool {
    let name = "CORELANE_TEST_ALONE";
    if std::env::var(name).is_ok_and(|alone| alone == test) {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let output = output(Command::new(program).args(["--exact", test, "--nocapture"]).env(name, test));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    false
}

#[test]
fn where_limits_may_not_be_asked_for_they_are_as_they_are() {
    // The system's library starts no program then that is to have a descriptor above 255: it takes this limit for the least there is (getdtablesize(3)).
    if !is_alone("confined::where_limits_may_not_be_asked_for_they_are_as_they_are") {
        return;
    }
    let filter = without(&[(nix::libc::SYS_prlimit64, Vec::new())]);
    let mut server = below(&filter, || Server::start(&["--limit", "connections_max=10", TCP]));
    echo(&mut server.connect(), b"as always");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
}

#[test]
fn a_lane_that_breaks_ends_the_program_with_a_code_of_its_own() {
    // To wait without an end is not permitted: what no lane can live with.
    let endless = SeccompCondition::new(3, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0).unwrap();
    let filter = without(&[(nix::libc::SYS_epoll_pwait2, vec![SeccompRule::new(vec![endless]).unwrap()])]);
    let arguments = ["--driver", "epoll", "--steering", "kernel", TCP];
    let mut server = below(&filter, || Server::start(&arguments));
    assert_eq!(server.ended().code(), Some(70));
    until("its words have come", || server.words().contains("please report it"));
    let words = server.words();
    let report = words.lines().find(|line| line.starts_with("corelane: ")).unwrap_or_default();
    for part in ["serving: lane ", "panicked at crates/drivers/src/readiness/events.rs:", "looking for events"] {
        assert!(report.contains(part), "{part:?}: {words}");
    }
}

/// A control group with a limit, such as of `memory.max`; none where this process may not make one. It is removed when dropped.
pub struct Group(PathBuf);

impl Group {
    pub fn with(file: &str, limit: &str) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (controller, _) = file.split_once('.')?;
        let root = PathBuf::from("/sys/fs/cgroup");
        fs::read_to_string(root.join("cgroup.subtree_control")).ok().filter(|names| names.contains(controller))?;
        let path = root.join(format!("corelane-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        fs::write(group.0.join(file), limit).ok().map(|()| group)
    }

    /// What a shell does to enter it and run its arguments there.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.0.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Those who were in it leave it a moment after they have ended.
        until("the group is empty", || fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn lanes_fit_into_the_memory_of_the_control_group() {
    let Some(group) = Group::with("memory.max", &(200 << 20).to_string()) else {
        return skip(
            "confined::lanes_fit_into_the_memory_of_the_control_group",
            "it needs a control group with a limit of memory",
        );
    };
    let enter = group.enter();
    let wrapper = ["sh", "-c", &enter];
    for (memory, words) in [(&[][..], "each lane takes 50 MiB"), (&["--memory", "64MiB"], "kept, because it was asked for")] {
        let server = Server::start_under(&wrapper, &[&["--lanes", "2"], memory, &[TCP, UDP]].concat());
        let told = |note: &&String| note.contains("2 x 64 MiB are more than a half of the 200 MiB") && note.contains(words);
        assert_eq!(server.notes.iter().filter(told).count(), 1, "{:?}", server.notes);
        serves(&server);
    }
}

#[test]
fn where_io_uring_is_refused_epoll_serves_and_says_so_once() {
    // On a busy machine some turns take long, and nothing is to be said of them.
    let server = start_without_io_uring(&["--driver", "auto", "--stall", "1h", TCP, UDP]);
    assert_eq!(server.driver(), "epoll");
    assert!(
        matches!(&server.notes[..], [note] if note.contains("uring refused") && note.contains("epoll")),
        "{:?}",
        server.notes
    );
    serves(&server);
    assert_eq!(server.words(), "", "it is said twice");
    let page = server.page();
    assert_eq!(page["notes"], serde_json::json!(server.notes));
    assert!(page["lanes"].as_array().unwrap().iter().all(|lane| lane["driver"] == "epoll"));
    let text = String::from_utf8(server.stat(&[]).stdout).unwrap();
    assert_eq!(text.matches("note:").count(), 1, "{text}");
}

#[test]
fn where_io_uring_is_refused_and_not_asked_for_nothing_is_said() {
    let server = start_without_io_uring(&["--driver", "epoll", TCP, UDP]);
    assert!(server.notes.is_empty(), "{:?}", server.notes);
    serves(&server);
}

#[test]
fn where_no_thread_is_to_be_had_that_is_said() {
    let test = "confined::where_no_thread_is_to_be_had_that_is_said";
    if !is_root(test) || !have(test, &["prlimit", "setpriv"]) {
        return;
    }
    let folder = Arc::new(Scratch::new());
    let program = copy_for_all(&folder);
    // As an old filter does that does not know clone3: nobody is there to wait for whoever reads the words.
    let mut command = Command::new("prlimit");
    command.args(["--nproc=1", "setpriv", "--reuid=7777778", "--regid=7777778", "--clear-groups", &program, "serve", TCP]);
    let done = output(&mut command);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.code() == Some(2) && said.starts_with("corelane: ") && said.contains("thread"), "{said:?}");
}

#[test]
fn loopback_that_is_down_is_told() {
    let test = "confined::loopback_that_is_down_is_told";
    if !is_root(test) || !have(test, &["unshare"]) {
        return;
    }
    let server = Server::start_under(&["unshare", "--net"], &["--lanes", "1", TCP]);
    assert!(
        server.notes.iter().any(|note| note.contains("[CL-0031]") && note.contains("ip link set lo up")),
        "{:?}",
        server.notes
    );
}

/// What a server below the filter answers, with its status.
fn answer(server: &Server, path: &str) -> String {
    let mut stream = connect(server.address("http"));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// As filters of containers were until 2021, which did not know openat2(2).
#[test]
fn where_openat2_is_refused_files_are_served_and_no_others() {
    let folder = Scratch::new();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("site/a/b")).unwrap();
    fs::write(at("site/a/b/page.html"), "a page").unwrap();
    fs::write(at("secret"), "of nobody").unwrap();
    for (link, to) in [("site/inside", "a/b"), ("site/out", "../secret"), ("site/a/up", "../../secret")] {
        std::os::unix::fs::symlink(to, at(link)).unwrap();
    }
    let filter = without(&[(nix::libc::SYS_openat2, Vec::new())]);
    let root = format!("http=http://127.0.0.1:0?root={}", at("site").display());
    for driver in ["epoll", "auto"] {
        let server = below(&filter, || Server::start(&["--driver", driver, "--lanes", "1", &root]));
        for path in ["/a/b/page.html", "/inside/page.html"] {
            assert!(answer(&server, path).ends_with("\r\n\r\na page"), "{driver} {path}");
        }
        for path in ["/out", "/a/up"] {
            let answer = answer(&server, path);
            assert!(answer.starts_with("HTTP/1.1 404 ") && !answer.contains("of nobody"), "{driver} {path}: {answer}");
        }
    }
    let told = below(&filter, || output(Command::new(PROGRAM).arg("doctor")));
    let told = String::from_utf8(told.stdout).unwrap();
    let line = told.lines().find(|line| line.contains("CL-1033")).unwrap_or_default();
    assert!(line.contains("degraded"), "{told}");
}

#[test]
fn a_call_that_files_need_and_may_not_have_is_named_at_the_start() {
    let filter = without(&[(nix::libc::SYS_sendfile, Vec::new())]);
    let words = refused_below(&filter, &["http=http://127.0.0.1:0?root=/"]);
    assert!(words.contains("sendfile") && words.contains("seccomp profile"), "{words}");
    drop(below(&filter, || Server::start(&[TCP])));
}
