//! `corelane load rpc` against the program's own server, against rpcbind, and against servers that answer otherwise than they should.

use super::hosts::*;
use super::*;
use crate::rpcbind::Rpcbind;
use std::io::{Read, Write};

on_each_driver!(
    calls_over_connections_and_datagrams_are_answered,
    who_answers_something_else_is_counted,
    who_refuses_is_counted_by_its_reason,
    who_answers_never_is_given_up,
);

const RPC: [&str; 2] = ["rpc=tcp://127.0.0.1:0", "rpc=udp://127.0.0.1:0"];

/// A run for which no reply of a busy machine comes too late.
fn of(driver: Driver, url: &str, more: &[&str]) -> Run {
    given(driver, url, "20s", more)
}

/// A run that has replies which never come.
fn impatient(driver: Driver, url: &str, more: &[&str]) -> Run {
    given(driver, url, "300ms", more)
}

fn given(driver: Driver, url: &str, timeout: &str, more: &[&str]) -> Run {
    let start = ["--driver", driver.name(), "--warmup", "0s", "--timeout", timeout, "rpc", url];
    load(&[&start[..], more].concat())
}

fn calls_over_connections_and_datagrams_are_answered(driver: Driver) {
    let test = "load::rpc::calls_over_connections_and_datagrams_are_answered";
    let Some(server) = driver.start(test, &RPC) else { return };
    let (tcp, udp) = (url(server.tcp()), format!("udp://{}", server.udp()));
    let patient = ["--timeout", "20s", "--requests", "600", "--connections", "3"];
    for (url, more, bytes) in [
        (&tcp, &["--depth", "16"][..], 44),
        (&tcp, &["--size", "1001", "--depth", "4"], 44 + 4 + 1_004),
        (&tcp, &["--size", "70000"], 44 + 4 + 70_000),
        (&tcp, &["--split", "3"], 40 + 3 * 4),
        (&tcp, &["--split", "40", "--depth", "8"], 40 + 40 * 4),
        (&tcp, &["--split", "bytes=30", "--size", "10"], 44 + 4 + 12),
        (&tcp, &["--program", "100003:4"], 44),
        (&udp, &["--depth", "16"], 40),
        (&udp, &["--size", "1001", "--singles"], 40 + 4 + 1_004),
    ] {
        let start = ["--driver", driver.name(), "rpc", url];
        let run = load(&[&start[..], &patient, more].concat());
        // Replies over datagrams may come in another order; on a busy machine one may be lost.
        let (errors, lost) = (run.errors(), run.report.errors["lost"]);
        assert!(
            errors.keys().all(|kind| ["reordered", "lost"].contains(kind)) && (url == &udp || lost == 0),
            "{more:?}: {errors:?}"
        );
        assert_eq!((run.report.requests + lost, run.report.bytes_sent), (600, 600 * bytes), "{more:?}");
    }
}

/// Replies to one call: its number, and these words.
fn reply(call: &[u8], words: &[u32]) -> Vec<u8> {
    let mut reply = call[..4].to_vec();
    words.iter().for_each(|word| reply.extend(word.to_be_bytes()));
    reply
}

/// Answers each record of one fragment with what `make` makes of it, as a record.
fn answering(make: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Host {
    Host::start(move |mut stream| {
        let mut mark = [0; 4];
        while stream.read_exact(&mut mark).is_ok() {
            let mut call = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
            let made = stream.read_exact(&mut call).map(|()| make(&call));
            let record = made.map(|message| [&(message.len() as u32 | 1 << 31).to_be_bytes()[..], &message].concat());
            if record.and_then(|record| stream.write_all(&record)).is_err() {
                return;
            }
        }
    })
}

const SHORT: [&str; 4] = ["--duration", "300ms", "--connections", "2"];

fn who_answers_something_else_is_counted(driver: Driver) {
    let accepted = |call: &[u8]| reply(call, &[1, 0, 0, 0, 0]);
    type Make = fn(&[u8]) -> Vec<u8>;
    let makes: [Make; 6] = [
        |call| call.to_vec(),
        |call| vec![0xff; call.len()],
        |call| call[..3].to_vec(),
        |call| reply(&(u32::from_be_bytes(call[..4].try_into().unwrap()) ^ 1 << 31).to_be_bytes(), &[1, 0, 0, 0, 0]),
        |call| reply(call, &[1, 0, 1, 4, 7, 0]),
        |call| reply(call, &[1, 0, 0, 0, 0, 7]),
    ];
    for make in makes {
        let run = of(driver, &answering(make).url(), &SHORT);
        run.met(&["mismatch"]);
        assert_eq!((run.code, run.report.requests, run.report.believable), (FAILURES, 0, false));
        let post = Post::start(move |_, call| vec![make(call)]);
        let run = impatient(driver, &post.url(), &SHORT);
        run.met(&["lost", "mismatch"]);
    }
    let post = Post::start(move |number, call| vec![accepted(call); 1 + usize::from(number % 2 == 0)]);
    let run = of(driver, &post.url(), &["--requests", "50"]);
    assert_eq!((run.report.requests, run.report.errors["mismatch"]), (50, 0), "{:?}", run.errors());
    assert!(run.report.errors["duplicate"] >= 20, "{:?}", run.errors());
}

fn who_refuses_is_counted_by_its_reason(driver: Driver) {
    for (words, kind) in [
        (&[1, 0, 0, 0, 1][..], "rpc_unavailable"),
        (&[1, 0, 0, 0, 2, 5, 6], "rpc_unavailable"),
        (&[1, 0, 0, 0, 3], "rpc_unavailable"),
        (&[1, 0, 0, 0, 4], "rpc_failed"),
        (&[1, 0, 0, 0, 5], "rpc_failed"),
        (&[1, 1, 0, 2, 2], "rpc_denied"),
        (&[1, 1, 1, 5], "rpc_denied"),
    ] {
        let host = answering(move |call| reply(call, words));
        let run = of(driver, &host.url(), &["--requests", "40", "--connections", "2"]);
        run.met(&[kind]);
        assert_eq!((run.report.errors[kind], host.accepted()), (40, 2), "the connection goes on");
        let post = Post::start(move |_, call| vec![reply(call, words)]);
        let run = of(driver, &post.url(), &["--requests", "40"]);
        run.met(&[kind]);
        assert_eq!(run.report.errors[kind], 40);
    }
}

fn who_answers_never_is_given_up(driver: Driver) {
    let host = Host::start(swallow);
    let run = impatient(driver, &host.url(), &["--requests", "100", "--depth", "8", "--connections", "2"]);
    run.met(&["client_timeout"]);
    let post = Post::start(|_, _| Vec::new());
    impatient(driver, &post.url(), &["--requests", "10"]).met(&["lost"]);
    // A record that never ends is one too long to be a reply.
    let endless = Host::start(|mut stream| {
        let _ = stream.read(&mut [0; 100]).and_then(|_| stream.write_all(&0x7fff_ffff_u32.to_be_bytes()));
        swallow(stream);
    });
    of(driver, &endless.url(), &["--requests", "4"]).met(&["mismatch"]);
}

#[test]
fn what_cannot_be_met_is_refused_in_a_line() {
    for (arguments, words) in [
        (&["rpc", "--program", "nfs"][..], &["PROGRAM:VERSION"][..]),
        (&["rpc", "--split", "some"], &["--split"]),
        (&["rpc", "--split", "0"], &["split", "between 1 and"]),
        (&["rpc", "udp://127.0.0.1", "--split", "3"], &["split", "tcp://"]),
        (&["rpc", "udp://127.0.0.1", "--size", "65500"], &["size"]),
        (&["rpc", "--size", "9000000"], &["size"]),
        (&["rpc", "udp://127.0.0.1", "--connection-rate", "3"], &["datagrams"]),
        (&["echo", "--split", "3"], &["--split", "rpc"]),
        (&["echo", "udp://127.0.0.1"], &["tcp://"]),
    ] {
        let output = ended(&[], arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(REFUSED), "{arguments:?}: {said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{arguments:?}: {word:?} is not in {said:?}"));
    }
}

#[test]
fn rpcbind_answers_calls() {
    let Some(rpcbind) = Rpcbind::start("load::rpc::rpcbind_answers_calls") else { return };
    let wrapper = rpcbind.wrapper();
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    for url in ["tcp://127.0.0.1:111", "udp://127.0.0.1:111"] {
        let calls = ["rpc", url, "--requests", "500", "--depth", "8", "--timeout", "20s"];
        let run = load_under(&wrapper, &[&calls[..], &["--program", "100000:4"]].concat());
        assert_eq!((run.report.requests, run.report.errors["mismatch"]), (500, 0), "{url}: {:?}", run.errors());
        let run = load_under(&wrapper, &[&calls[..], &["--program", "100000:9"]].concat());
        assert_eq!(run.report.errors["rpc_unavailable"], 500, "{url}: {:?}", run.errors());
    }
}

#[test]
fn what_is_served_is_registered_until_the_end() {
    let Some(rpcbind) = Rpcbind::start("load::rpc::what_is_served_is_registered_until_the_end") else { return };
    let wrapper = rpcbind.wrapper();
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    assert_eq!(rpcbind.knows(), [""; 0]);
    let mut server = Server::start_under(&wrapper, &["rpc=tcp://127.0.0.1:0?register", "rpc=udp://[::]:0?register"]);
    let (tcp, udp) = (server.tcp().port(), server.udp().port());
    let mut expected = Vec::new();
    for (transport, port) in [("tcp", tcp), ("udp", udp)] {
        expected.extend(["100003 3", "100003 4", "536870919 1"].map(|program| format!("{program} {transport} {port}")));
    }
    expected.sort();
    assert_eq!(rpcbind.knows(), expected);
    assert!(rpcbind.rpcinfo(&["-T", "udp", "127.0.0.1", "100003", "3"]).status.success(), "who looks it up finds it");
    // What another serves is not taken from it.
    let other = Server::start_under(&wrapper, &["rpc=tcp://127.0.0.1:0?register"]);
    assert!(
        other.notes.iter().any(|note| note.starts_with("[CL-0022] not registered") && note.contains("rpcinfo -d")),
        "{:?}",
        other.notes
    );
    assert_eq!(rpcbind.knows(), expected);
    drop(other);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(server.ended().success());
    assert_eq!(rpcbind.knows(), [""; 0]);
}

#[test]
fn without_rpcbind_the_service_runs_and_says_so() {
    let test = "load::rpc::without_rpcbind_the_service_runs_and_says_so";
    if !is_root(test) || !have(test, &["unshare", "ip"]) {
        return;
    }
    let server = Server::start_under(&IN_OWN_NETWORK, &["rpc=tcp://127.0.0.1:0?register"]);
    assert!(server.notes.iter().any(|note| note.contains("rpcbind does not run at 127.0.0.1:111")), "{:?}", server.notes);
}
