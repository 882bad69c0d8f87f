//! What a lane has beside it, or at once: as much as was allowed.

use crate::common::*;
use crate::drain::stop;
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};

/// Requests at once, each for a file of its own: enough for the default number of threads, and more.
const REQUESTS: usize = 64;

/// A server with a lane that has answered all these requests, which it found waiting together.
fn answered(allowed: &[&str]) -> Server {
    let folder = Scratch::new();
    for number in 0..REQUESTS {
        fs::write(folder.path().join(number.to_string()), number.to_string()).unwrap();
    }
    let place = format!("http=http://127.0.0.1:0?root={}", folder.path().display());
    let server = Server::start(&[&["--driver", "epoll", "--lanes", "1"], allowed, &[&place]].concat());
    // All of them are there when the lane has its next turn.
    stop(&server);
    let mut clients: Vec<_> = (0..REQUESTS).map(|_| connect(server.address("http"))).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        write!(client, "GET /{number} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    }
    server.signal(Signal::SIGCONT);
    for (number, mut client) in clients.into_iter().enumerate() {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(&format!("\r\n\r\n{number}")), "{answer}");
    }
    server
}

/// How many threads work at files beside the lane of a server that was allowed so many.
fn helpers(allowed: &[&str]) -> usize {
    let server = answered(allowed);
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    names.filter(|name| name == "corelane-helper\n").count()
}

#[test]
fn a_lane_has_no_more_threads_beside_it_than_are_allowed() {
    let few = helpers(&["--offload-threads", "2"]);
    assert!((1..=2).contains(&few), "{few} threads where 2 are allowed");
    let more = helpers(&["--offload-threads", "16"]);
    assert!((1..=16).contains(&more), "{more} threads where 16 are allowed");
}

#[test]
fn a_lane_watches_no_more_directories_than_are_allowed() {
    let server = answered(&["--offload-max", "1", "--watches-max", "0"]);
    assert!(server.lane_count("watches_refused") > 0, "no directory may be watched");
    let server = answered(&[]);
    assert_eq!(server.lane_count("watches_refused"), 0, "one directory may be watched");
}

#[test]
fn a_connection_beyond_the_tasks_that_are_allowed_is_closed() {
    let server = Server::start(&["--lanes", "1", "--tasks-max", "2", &format!("{TCP}?async")]);
    // The service itself is one of the two.
    let mut first = server.connect();
    echo(&mut first, b"one");
    let (bytes, _) = read_to_end(&mut server.connect());
    assert!(bytes.is_empty(), "{bytes:?}");
    until("it is counted", || server.lane_count("tasks_max_hits") == 1);
    echo(&mut first, b"goes on");
}
