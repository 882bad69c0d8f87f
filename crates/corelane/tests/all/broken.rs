//! A lane that cannot go on, and standard error that nobody reads: what the rest of the process does.
#![forbid(unsafe_code)]

use crate::orders::Orders;
use corelane::admin::watch::{LaneCounter, Reader, ServiceCounter};
use corelane::lanes::{DriverChoice, Running, Signals};
use corelane::{Error, Lanes};
use nix::sys::signal::{Signal, raise};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Tells the child of a test from the parent.
const CHILD: &str = "CORELANE_TEST_CHILD";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The descriptors of this thread through which epoll is asked.
fn epolls() -> Vec<RawFd> {
    let files = std::fs::read_dir("/proc/thread-self/fd").unwrap().map(Result::unwrap);
    let is_epoll =
        |path: &std::path::Path| std::fs::read_link(path).is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]");
    files.filter(|file| is_epoll(&file.path())).map(|file| file.file_name().to_str().unwrap().parse().unwrap()).collect()
}

/// Puts a file in the place of a descriptor: what is opened takes the lowest number that is free.
fn replace(number: RawFd) {
    nix::unistd::close(number).unwrap();
    assert_eq!(std::fs::File::open("/dev/null").unwrap().into_raw_fd(), number);
}

/// A lane is in a call that does not return.
static HANGS: AtomicBool = AtomicBool::new(false);

/// Answers a byte with its lane's number; panics when it is told to, with words of any length; takes away what its lane waits with; or never returns.
fn carry_out(lane: usize, order: u8) -> u8 {
    match order {
        b'p' => panic!("{}", "as it was told to ".repeat(500)),
        b'b' => epolls().into_iter().for_each(replace),
        b'h' => loop {
            HANGS.store(true, Ordering::Release);
            std::thread::park();
        },
        _ => {}
    }
    lane as u8
}

fn start() -> Running {
    let lanes = Lanes::per_core().lanes(2).driver(DriverChoice::Epoll);
    lanes.serve("tcp://127.0.0.1:0", |lane| Orders(move |order| carry_out(lane, order))).unwrap().start().unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The lane that answers.
fn ask(stream: &mut TcpStream) -> u8 {
    stream.write_all(b"?").unwrap();
    let mut lane = [0];
    stream.read_exact(&mut lane).unwrap();
    lane[0]
}

/// A connection of each of the two lanes.
fn on_each_lane(address: SocketAddr) -> [TcpStream; 2] {
    let mut streams = [None, None];
    while streams.iter().any(Option::is_none) {
        let mut stream = connect(address);
        let lane = ask(&mut stream);
        streams[lane as usize].get_or_insert(stream);
    }
    streams.map(Option::unwrap)
}

/// A test that runs once more, as a process of its own.
struct Again {
    process: Child,
    /// Its run directory, in which its page stays.
    _folder: TempDir,
}

/// Runs a test once more as a process of its own, with a standard error that is not read.
fn child(test: &str) -> Option<Again> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD, "1").env("CORELANE_RUN_DIR", folder.path());
    let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    Some(Again { process, _folder: folder })
}

impl Again {
    /// It has run the test to its end.
    fn succeeds(mut self) {
        let mut words = String::new();
        self.process.stdout.take().unwrap().read_to_string(&mut words).unwrap();
        assert!(self.process.wait().unwrap().success() && words.contains("1 passed"), "{words}");
    }
}

/// Waits for a line of the parent.
fn told() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn a_broken_lane_ends_the_wait_with_what_happened_where() {
    if let Some(child) = child("broken::a_broken_lane_ends_the_wait_with_what_happened_where") {
        return child.succeeds();
    }
    corelane::admin::reports::set_panic_hook();
    let running = start();
    let [mut other, mut broken] = on_each_lane(running.address().inet().unwrap());
    broken.write_all(b"b").unwrap();
    let Err(Error::LanePanicked { lane, words, left_behind }) = running.wait() else { panic!("nobody notices") };
    assert_eq!((lane, left_behind), (1, 0));
    assert!(words.contains("readiness/events.rs:") && words.contains("looking for events"), "{words}");
    assert_eq!(other.read(&mut [0]).unwrap(), 0, "the other lane has drained");
}

#[test]
fn a_second_signal_ends_the_wait_though_a_lane_hangs() {
    if let Some(child) = child("broken::a_second_signal_ends_the_wait_though_a_lane_hangs") {
        return child.succeeds();
    }
    let signals = Signals::block().unwrap();
    let running = start();
    connect(running.address().inet().unwrap()).write_all(b"h").unwrap();
    while !HANGS.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    // Two of one kind may come as one.
    [Signal::SIGTERM, Signal::SIGINT].into_iter().for_each(|signal| raise(signal).unwrap());
    let Err(Error::LanesHang { lanes: 1 }) = running.run_until_told(signals) else { panic!("nobody notices") };
}

/// Panics of sessions on one lane, until the page has so many.
fn panics(running: &Running, count: u64) {
    let reader = Reader::of(running.counters()).unwrap();
    let begin = Instant::now();
    loop {
        let snapshot = reader.snapshot(0);
        let so_far: u64 = snapshot.services.iter().map(|service| service.values.get(ServiceCounter::Panics)).sum();
        if so_far >= count {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{so_far} panics");
        let mut stream = connect(running.address().inet().unwrap());
        stream.write_all(b"p").unwrap();
        // It ends, with a reset or without.
        let _ = stream.read(&mut [0]);
    }
}

/// Lines lost, as the page has it.
fn lost(running: &Running) -> u64 {
    Reader::of(running.counters()).unwrap().snapshot(0).total.get(LaneCounter::ReportLinesDropped)
}

#[test]
fn standard_error_that_is_closed_costs_lines_and_nothing_else() {
    if let Some(mut child) = child("broken::standard_error_that_is_closed_costs_lines_and_nothing_else") {
        drop(child.process.stderr.take());
        child.process.stdin.take().unwrap().write_all(b"it is closed\n").unwrap();
        return child.succeeds();
    }
    told();
    corelane::admin::reports::set_panic_hook();
    let running = start();
    let mut streams = on_each_lane(running.address().inet().unwrap());
    let (begin, mut count) = (Instant::now(), 3);
    panics(&running, count);
    // Until it begins, a program that another test starts has a copy of the pipe's other end: then nothing is lost yet.
    while lost(&running) == 0 {
        assert!(begin.elapsed() < PATIENCE, "nothing is lost");
        count += 1;
        panics(&running, count);
        streams.iter_mut().for_each(|stream| assert!(ask(stream) < 2));
    }
    running.stop();
    running.wait().unwrap();
}

/// Fills the pipe that standard error is, so that not a byte more finds room.
fn fill_standard_error() {
    let pipe = std::fs::OpenOptions::new().write(true).custom_flags(nix::libc::O_NONBLOCK).open("/proc/self/fd/2").unwrap();
    while (&pipe).write(&[b'.'; 1]).is_ok() {}
}

/// All that comes; the pipe is read to its end.
fn read(mut stderr: ChildStderr) -> String {
    let mut words = String::new();
    stderr.read_to_string(&mut words).unwrap();
    words
}

#[test]
fn standard_error_that_nobody_reads_stops_nobody() {
    if let Some(mut child) = child("broken::standard_error_that_nobody_reads_stops_nobody") {
        let mut stdout = child.process.stdout.take().unwrap();
        let mut words = [0; 1 << 12];
        let mut seen = String::new();
        while !seen.contains("served all the same") {
            let length = stdout.read(&mut words).unwrap();
            assert!(length > 0, "{seen}");
            seen.push_str(&String::from_utf8_lossy(&words[..length]));
        }
        // Now it is read, and what waited comes out.
        let lines = read(child.process.stderr.take().unwrap());
        assert!(lines.contains("panicked at ") && lines.contains("a session panicked and was ended"), "{lines}");
        assert!(child.process.wait().unwrap().success());
        return;
    }
    corelane::admin::reports::set_panic_hook();
    fill_standard_error();
    let running = start();
    let mut streams = on_each_lane(running.address().inet().unwrap());
    panics(&running, 40);
    assert_eq!([0, 1].map(|lane| ask(&mut streams[lane])), [0, 1]);
    println!("served all the same");
    running.stop();
    running.wait().unwrap();
}
