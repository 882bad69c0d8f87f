//! A run that somebody ends, in each of its phases; and one that nobody reads.

use super::hosts::*;
use super::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A run under way, killed when dropped.
struct Loading {
    child: Option<Child>,
    _folder: Scratch,
}

impl Loading {
    fn start(arguments: &[&str]) -> Self {
        let folder = Scratch::new();
        let mut command = load_command(&[], &folder, &[&["--json", "--quiet"], arguments].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: Some(command.spawn().unwrap()), _folder: folder }
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().unwrap().id();
        kill(Pid::from_raw(pid as i32), signal).unwrap();
    }

    /// Waits for its end, which must come by itself.
    fn ended(&mut self) -> Output {
        let mut child = self.child.take().unwrap();
        until("the run has ended", || child.try_wait().unwrap().is_some());
        child.wait_with_output().unwrap()
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A host that echoes the first so many requests of 64 bytes of each connection, counts them, and is silent then.
fn echoing(requests: u64) -> (Host, Arc<AtomicU64>) {
    let echoed = Arc::new(AtomicU64::new(0));
    let counted = echoed.clone();
    let host = Host::start(move |mut stream: TcpStream| {
        let mut bytes = [0; 64];
        for _ in 0..requests {
            if stream.read_exact(&mut bytes).is_err() {
                return;
            }
            counted.fetch_add(1, Ordering::Relaxed);
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
        swallow(stream);
    });
    (host, echoed)
}

/// A host that echoes so many requests of 64 bytes, of all connections together, counts them, and is silent then.
fn echoing_in_all(requests: u64) -> (Host, Arc<AtomicU64>) {
    let echoed = Arc::new(AtomicU64::new(0));
    let counted = echoed.clone();
    let host = Host::start(move |mut stream: TcpStream| {
        let mut bytes = [0; 64];
        while counted.load(Ordering::Relaxed) < requests {
            if stream.read_exact(&mut bytes).is_err() || stream.write_all(&bytes).is_err() {
                return;
            }
            counted.fetch_add(1, Ordering::Relaxed);
        }
        swallow(stream);
    });
    (host, echoed)
}

/// Long enough that no test waits for it.
const FOR_EVER: &str = "1h";

/// A run that is told to end by `signal` when `is_time`, with the window that it was in.
fn ends_early(signal: Signal, arguments: &[&str], is_time: impl FnMut() -> bool) -> Run {
    let mut loading = Loading::start(arguments);
    until("the run is in its phase", is_time);
    // Whoever rotates logs may send it to any of our programs: it ends none.
    loading.signal(Signal::SIGUSR1);
    loading.signal(signal);
    let run = Run::of(&loading.ended());
    assert!(run.report.seconds < 60.0, "{} s that never were", run.report.seconds);
    assert_eq!(run.code, DOUBTS);
    run
}

const TOLD: &str = "it was told to end";

#[test]
fn told_to_end_while_it_connects() {
    let (host, _) = echoing(u64::MAX);
    // The first one is had; the others come from where nobody is.
    let url = host.url();
    let arguments = ["echo", &url, "--connections", "2", "--lanes", "1", "--timeout", FOR_EVER, "--warmup", FOR_EVER];
    let deaf = super::hostile::deaf();
    let stuck = ["echo", &deaf.1, "--connections", "20", "--lanes", "1", "--timeout", FOR_EVER];
    let mut loading = Loading::start(&stuck);
    until("it connects", || super::hostile::is_full(&deaf.0));
    loading.signal(Signal::SIGINT);
    let run = Run::of(&loading.ended());
    run.doubted(&[TOLD, "nothing was answered rightly", "of 20 connections were open"]);
    assert_eq!((run.report.seconds, run.report.series.len()), (0.0, 0));
    // In the warm-up nothing counts, though much is answered.
    let run = ends_early(Signal::SIGTERM, &arguments, || host.accepted() == 2);
    run.met(&[]).doubted(&[TOLD, "nothing was answered rightly"]);
    assert_eq!((run.report.requests, run.report.seconds), (0, 0.0));
}

#[test]
fn told_to_end_while_it_measures() {
    let (host, echoed) = echoing(u64::MAX);
    let url = host.url();
    for more in [&["--connections", "4", "--depth", "4"][..], &["--rate", "1000"], &["--connection-rate", "300"]] {
        echoed.store(0, Ordering::Relaxed);
        let arguments = [&["echo", &url, "--warmup", "0s", "--duration", FOR_EVER], more].concat();
        let run = ends_early(Signal::SIGINT, &arguments, || echoed.load(Ordering::Relaxed) >= 100);
        run.met(&[]).doubted(&[TOLD]);
        let report = &run.report;
        assert!(report.requests >= 90 && report.requests <= echoed.load(Ordering::Relaxed), "{} {more:?}", report.requests);
        assert!(report.requests_per_second >= 1.0, "{} /s over {} s", report.requests_per_second, report.seconds);
    }
}

#[test]
fn told_to_end_while_it_waits_for_answers() {
    let (host, echoed) = echoing(5);
    let url = host.url();
    for extent in [&["--requests", "6"][..], &["--duration", "300ms", "--warmup", "0s"]] {
        echoed.store(0, Ordering::Relaxed);
        let arguments = [&["echo", &url, "--timeout", FOR_EVER], extent].concat();
        let run = ends_early(Signal::SIGINT, &arguments, || echoed.load(Ordering::Relaxed) >= 5);
        run.met(&[]).doubted(&[TOLD]);
        assert_eq!(run.report.requests, 5);
    }
}

/// The state of a process, as /proc/PID/stat has it behind the name.
fn state_of(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap()
}

/// With one request in flight nothing is ever late to be sent; all the same the time in which nobody was there to send is no time of
/// the server's.
#[test]
fn a_generator_that_was_stopped_is_doubted() {
    let (host, echoed) = echoing(u64::MAX);
    let url = host.url();
    for more in [&["--depth", "1"][..], &["--rate", "500"]] {
        let start = ["echo", &url, "--lanes", "1", "--warmup", "0s", "--duration", FOR_EVER];
        let mut loading = Loading::start(&[&start[..], more].concat());
        let before = echoed.load(Ordering::Relaxed);
        until("it measures", || echoed.load(Ordering::Relaxed) >= before + 50);
        let pid = loading.child.as_ref().unwrap().id();
        loading.signal(Signal::SIGSTOP);
        until("it is stopped", || state_of(pid) == 'T');
        let stopped = Instant::now();
        until("it was stopped for a while", || stopped.elapsed() > Duration::from_millis(700));
        let before = echoed.load(Ordering::Relaxed);
        loading.signal(Signal::SIGCONT);
        until("it goes on", || echoed.load(Ordering::Relaxed) >= before + 50);
        loading.signal(Signal::SIGINT);
        let run = Run::of(&loading.ended());
        assert_eq!(run.code, DOUBTS);
        let lane = &run.report.generator.lanes[0];
        assert!(
            run.report.doubts.iter().any(|doubt| doubt.contains("lane 0 of the generator was away")),
            "{:?}",
            run.report.doubts
        );
        // It looks around ten times a second, whatever comes.
        assert!(lane.longest_gap_us >= 600e3 && lane.gaps_us >= lane.longest_gap_us, "{lane:?}");
    }
}

#[test]
fn told_to_end_among_several_runs() {
    // Two runs and a part of the third, which then waits for the signal however late that is.
    let (host, echoed) = echoing_in_all(120);
    let url = host.url();
    let arguments = ["echo", &url, "--runs", "100", "--requests", "50", "--timeout", FOR_EVER];
    let run = ends_early(Signal::SIGINT, &arguments, || echoed.load(Ordering::Relaxed) >= 120);
    let runs = run.report.repeated.as_ref().map_or(1, |repeated| repeated.runs.len());
    assert!((2..=3).contains(&runs), "{runs} runs");
}

#[test]
fn the_second_signal_ends_it_at_once() {
    let (host, echoed) = echoing(5);
    let mut loading = Loading::start(&["echo", &host.url(), "--timeout", FOR_EVER]);
    until("it waits", || echoed.load(Ordering::Relaxed) >= 5);
    // Two of a kind would be one if the first is still on its way.
    loading.signal(Signal::SIGINT);
    loading.signal(Signal::SIGTERM);
    let output = loading.ended();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_reader_that_has_gone_does_no_harm() {
    let (host, _) = echoing(u64::MAX);
    for format in [&[][..], &["--json"]] {
        let folder = Scratch::new();
        let url = host.url();
        let arguments = [&["--quiet", "echo", &url, "--requests", "10"], format].concat();
        let mut command = load_command(&[], &folder, &arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        until("the run has ended", || child.try_wait().unwrap().is_some());
        let output = child.wait_with_output().unwrap();
        assert!([Some(GOOD), Some(DOUBTS)].contains(&output.status.code()), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn what_the_system_does_not_take_is_said_after_the_run() {
    let (host, _) = echoing(u64::MAX);
    let url = host.url();
    for option in ["--hdr", "--report"] {
        let output = ended(&[], &["--json", "--quiet", "echo", &url, "--requests", "10", option, "/dev/full"]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(NOT_MADE), "{option}: {text}");
        assert!(text.lines().count() == 1 && text.contains("No space left"), "{option}: {text:?}");
        // The run was made, and is not lost.
        assert!(output.stdout.starts_with(b"{"), "{option}: no report");
    }
    let arguments = ["--quiet", "echo", &url, "--requests", "10"];
    let output = ended(&["sh", "-c", "exec \"$0\" \"$@\" >/dev/full"], &arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(NOT_MADE) && text.contains("writing to standard output"), "{text:?}");
}
