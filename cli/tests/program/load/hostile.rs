//! Servers over connections that do not do what they should: each failure is counted as what it is, and the run ends.

use super::hosts::*;
use super::*;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, setsockopt, socket, sockopt,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

on_each_driver!(
    who_closes_at_once_is_counted,
    who_closes_after_one_answer_is_counted,
    who_resets_is_counted,
    who_answers_something_else_is_counted,
    who_answers_twice_as_much_is_counted,
    who_answers_late_is_given_up,
    who_never_answers_is_given_up,
    who_never_reads_is_given_up,
    who_answers_half_is_given_up,
    who_accepts_nothing_more_leaves_connections_missing,
    who_is_not_there_is_said_in_a_line,
    who_goes_away_for_good_ends_a_run_of_requests,
    who_goes_away_and_comes_back_is_used_again,
    connections_at_a_rate_count_what_becomes_of_each,
);

const SIZE: usize = 64;

/// A short run of `more` against a host, of 64-byte requests, for which no answer of a busy machine comes too late.
fn run(driver: Driver, host: &Host, more: &[&str]) -> Run {
    given(driver, host, "20s", more)
}

/// As [`run`], with so long for each answer.
fn given(driver: Driver, host: &Host, timeout: &str, more: &[&str]) -> Run {
    let url = host.url();
    let start = ["--driver", driver.name(), "--warmup", "0s", "--timeout", timeout, "echo", &url];
    load(&[&start[..], more].concat())
}

const SHORT: [&str; 4] = ["--duration", "400ms", "--connections", "4"];

fn who_closes_at_once_is_counted(driver: Driver) {
    let host = Host::start(drop);
    // All four may never be open at once, and then the run begins when the timeout is over.
    let run = given(driver, &host, "3s", &SHORT);
    assert_eq!((run.code, run.report.requests, run.report.believable), (FAILURES, 0, false));
    let errors = run.errors();
    assert!(errors.keys().all(|kind| ["closed", "reset"].contains(kind)) && !errors.is_empty(), "{errors:?}");
    assert!(host.accepted() > 4, "each place gets another connection");
}

/// Answers so many bytes of requests, then closes.
fn echo_some(mut stream: TcpStream, requests: usize) {
    let mut bytes = [0; SIZE];
    for _ in 0..requests {
        if stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes)).is_err() {
            return;
        }
    }
}

fn who_closes_after_one_answer_is_counted(driver: Driver) {
    let host = Host::start(|stream| echo_some(stream, 1));
    let run = run(driver, &host, &SHORT);
    let errors = run.errors();
    assert!(errors.keys().all(|kind| ["closed", "reset"].contains(kind)) && !errors.is_empty(), "{errors:?}");
    // One answer on each connection.
    assert!(run.report.requests >= 4 && run.report.requests <= host.accepted(), "{} answers", run.report.requests);
    assert!(run.doubts().iter().all(|doubt| doubt.contains("of 4 connections were open")), "{:?}", run.doubts());
}

/// Ends the connection with a reset (SO_LINGER, socket(7)).
fn reset(stream: TcpStream) {
    let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&stream, sockopt::Linger, &linger).unwrap();
}

fn who_resets_is_counted(driver: Driver) {
    let host = Host::start(|mut stream| {
        let _ = stream.read_exact(&mut [0; SIZE]);
        reset(stream);
    });
    let run = run(driver, &host, &SHORT);
    run.met(&["reset"]);
    assert_eq!((run.code, run.report.requests, run.report.believable), (FAILURES, 0, false));
}

/// Answers each piece that arrives with what `make` makes of it.
pub fn answering(make: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Host {
    Host::start(move |mut stream| {
        let mut bytes = [0; 65_536];
        while let Ok(length @ 1..) = stream.read(&mut bytes) {
            if stream.write_all(&make(&bytes[..length])).is_err() {
                return;
            }
        }
    })
}

fn who_answers_something_else_is_counted(driver: Driver) {
    let host = answering(|bytes| vec![b'x'; bytes.len()]);
    let run = run(driver, &host, &SHORT);
    run.met(&["mismatch"]);
    assert_eq!((run.code, run.report.requests, run.report.believable), (FAILURES, 0, false));
}

fn who_answers_twice_as_much_is_counted(driver: Driver) {
    let host = answering(|bytes| [bytes, bytes].concat());
    let run = run(driver, &host, &SHORT);
    run.met(&["mismatch"]);
}

fn who_answers_late_is_given_up(driver: Driver) {
    let host = answering(|bytes| {
        // reason: the server is to be slower than the generator is patient.
        thread::sleep(Duration::from_secs(5));
        bytes.to_vec()
    });
    let run = given(driver, &host, "300ms", &SHORT);
    run.met(&["client_timeout"]);
    // Who waited in vain is in the times with what it waited.
    assert!(run.report.latency_us["min"] >= 300_000.0, "{:?}", run.report.latency_us);
    assert_eq!((run.code, run.report.requests, run.report.believable), (FAILURES, 0, false));
}

fn who_never_answers_is_given_up(driver: Driver) {
    let host = Host::start(swallow);
    let run = given(driver, &host, "300ms", &["--requests", "100", "--depth", "8", "--connections", "2"]);
    run.met(&["client_timeout"]);
    assert_eq!(run.report.errors["client_timeout"] % 8, 0, "a connection fails with all its requests");
    assert!(run.doubts().iter().any(|doubt| doubt.contains("nothing was answered for")), "{:?}", run.doubts());
}

fn who_never_reads_is_given_up(driver: Driver) {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let host = Host::start(move |stream| {
        let _ = wait.lock().map(|wait| wait.recv());
        drop(stream);
    });
    let run = given(driver, &host, "300ms", &["--requests", "4", "--connections", "4", "--size", "8000000"]);
    drop(done);
    run.met(&["client_timeout"]);
    assert_eq!(run.report.errors["client_timeout"], 4);
}

fn who_answers_half_is_given_up(driver: Driver) {
    let host = Host::start(|mut stream| {
        let mut bytes = [0; SIZE];
        let _ = stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes[..SIZE / 2]));
        swallow(stream);
    });
    // Both halves are to come before the end, also from a busy machine.
    let run = given(driver, &host, "3s", &["--requests", "2", "--connections", "2"]);
    run.met(&["client_timeout"]);
    assert_eq!((run.report.errors["client_timeout"], run.report.bytes_received), (2, SIZE as u64));
}

/// Listens with room for one connection, and accepts none.
pub fn deaf() -> (OwnedFd, String) {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))).unwrap();
    listen(&socket, Backlog::new(0).unwrap()).unwrap();
    let address: SockaddrIn = getsockname(socket.as_raw_fd()).unwrap();
    (socket, url(address))
}

/// Whether somebody waits in vain for a listener on loopback to take them: all of it stands in the kernel's table (proc_net(5)).
pub fn is_full(listener: &OwnedFd) -> bool {
    let address: SockaddrIn = getsockname(listener.as_raw_fd()).unwrap();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!("0100007F:{:04X} 02 ", address.port()); // SYN_SENT
    table.contains(&remote)
}

fn who_accepts_nothing_more_leaves_connections_missing(driver: Driver) {
    let (_listener, url) = deaf();
    let start = ["--driver", driver.name(), "--warmup", "0s", "--timeout", "300ms", "echo", &url];
    let run = load(&[&start[..], &["--duration", "400ms", "--connections", "8"]].concat());
    run.met(&["client_timeout"]);
    run.doubted(&["nothing was answered rightly", "of 8 connections were open"]);
}

fn who_is_not_there_is_said_in_a_line(driver: Driver) {
    let url = url(corelane_testkit::free());
    for more in [&["--connections", "50"][..], &["--rate", "100"], &["--connection-rate", "100"], &["--requests", "5"]] {
        let start = ["--driver", driver.name(), "echo", &url];
        says(&[], &[&start[..], more].concat(), NOT_MADE, &[&url, "(refused)", "is a server listening there?"]);
    }
}

fn who_goes_away_for_good_ends_a_run_of_requests(driver: Driver) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = url(listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        drop(listener);
        echo_some(stream, 10);
    });
    // The generator despairs after twice the timeout and a second; the ten answers are to come in time.
    let start = ["--driver", driver.name(), "--timeout", "3s", "echo", &url, "--requests", "1000000"];
    let run = load(&start);
    served.join().unwrap();
    assert_eq!(run.report.requests, 10);
    assert!(run.report.errors["refused"] > 0, "{:?}", run.errors());
    run.doubted(&["nothing was answered for", "only 0 of 1 connections"]);
}

fn who_goes_away_and_comes_back_is_used_again(driver: Driver) {
    let away = AtomicU64::new(0);
    // Whoever comes fifth to tenth is sent away.
    let host = Host::start(move |stream| match away.fetch_add(1, Ordering::Relaxed) {
        4..10 => reset(stream),
        _ => echo_some(stream, 100),
    });
    let run = run(driver, &host, &["--requests", "2000", "--connections", "4"]);
    let failed: u64 = run.errors().into_values().sum();
    // When all are made, each place may still lose its connection with none in flight.
    assert!((2000..=2004).contains(&(run.report.requests + failed)), "{} {:?}", run.report.requests, run.errors());
    assert!(run.report.requests >= 1900 && host.accepted() > 20, "{:?} on {}", run.errors(), host.accepted());
}

fn connections_at_a_rate_count_what_becomes_of_each(driver: Driver) {
    let number = AtomicU64::new(0);
    // One in four resets, one in four answers wrongly, two are as they should be.
    let host = Host::start(move |mut stream| match number.fetch_add(1, Ordering::Relaxed) % 4 {
        0 => {
            let _ = stream.read_exact(&mut [0; SIZE]);
            reset(stream);
        }
        1 => {
            let _ = stream.read_exact(&mut [0; SIZE]);
            let _ = stream.write_all(&[b'x'; SIZE]);
            swallow(stream);
        }
        _ => echo_some(stream, 3),
    });
    let more = ["--connection-rate", "200", "--requests-per-connection", "3", "--requests", "40"];
    let run = load(&[&["--driver", driver.name(), "echo", &host.url()][..], &more].concat());
    run.met(&["mismatch", "reset"]).doubted(&[]);
    assert_eq!((host.accepted(), run.report.requests), (40, 60));
    assert_eq!((run.report.errors["reset"], run.report.errors["mismatch"]), (10, 10));
}
