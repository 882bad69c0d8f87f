//! `corelane serve --metrics`: what it counts is told while it serves, and that it drains.

use crate::common::*;
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

pub fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn sum(text: &str, metric: &str) -> f64 {
    let values = text.lines().filter(|line| line.starts_with(&format!("{metric}{{")));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// Echoes while the lane still reads, which an answer shows.
fn held(server: &Server) -> TcpStream {
    let mut stream = server.connect();
    echo(&mut stream, b"twelve bytes");
    stream
}

#[test]
fn metrics_are_the_page_s_and_a_drain_shows() {
    let mut server = Server::start(&[
        "--lanes",
        "2",
        "--metrics",
        "127.0.0.1:0",
        "--limit",
        "linger_limit=10m",
        "--limit",
        "drain_limit=10m",
        TCP,
    ]);
    let address = server.address("http");
    let stream = held(&server);
    server.comes_to("bytes_out", 12);
    let text = get(address, "/metrics");
    assert_eq!(sum(&text, "corelane_service_out_bytes_total"), 12.0, "{text}");
    assert_eq!(sum(&text, "corelane_service_connections_open"), 1.0);
    assert_eq!(sum(&text, "corelane_lane_buckets"), 128.0, "each bucket has a lane");
    assert!(get(address, "/readyz").starts_with("HTTP/1.0 200"));
    server.signal(Signal::SIGTERM);
    until("the drain shows", || get(address, "/readyz").starts_with("HTTP/1.0 503"));
    assert!(get(address, "/livez").starts_with("HTTP/1.0 200"), "who drains lives");
    drop(stream);
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn an_address_that_is_taken_is_said_before_anything_is_served() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = Scratch::new();
    let mut serve = Command::new(PROGRAM);
    serve.args(["serve", "--lanes", "1", "--metrics", &address, TCP]).env("CORELANE_RUN_DIR", run.path());
    let output = output(&mut serve);
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && words.contains(&format!("metrics cannot be served at {address}")), "{words}");
    assert!(output.stdout.is_empty(), "nobody is told that it is ready");
}

/// Also of what services count of their own, which the page of counters does not explain.
#[test]
fn every_metric_is_explained() {
    let server = Server::start(&["--lanes", "1", "--metrics", "127.0.0.1:0", "http=http://127.0.0.1:0?reply=1"]);
    let metrics = server.urls.last().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    let text = get(metrics, "/metrics");
    let explained = "# HELP corelane_service_http_answers_2xx_total Answers with a status from 200 to 299.";
    assert!(text.contains(explained) && !text.contains("Of the service's own"), "{text}");
}
