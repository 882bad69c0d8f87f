//! What blocks is called on a helper thread, by the example; the answer waits for it, and nobody else does.

#[allow(dead_code)] // its main
#[path = "../../examples/resolve.rs"]
mod example;

use corelane::Lanes;
use corelane_http::Http;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn what_a_helper_thread_finds_is_answered_by_the_one_who_hears_of_it() {
    let lanes = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", |_| Http::new(example::routes()));
    let running = lanes.unwrap().start().unwrap();
    let mut stream = TcpStream::connect(running.address().inet().unwrap()).unwrap();
    // No label of a name is as long as the second one's (RFC 1035, section 2.3.4).
    for name in ["127.0.0.1", &"x".repeat(64), "::1"] {
        write!(stream, "GET /resolve/{name} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    write!(stream, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| answer.split(' ').next().unwrap()).collect();
    assert_eq!(statuses, ["200", "404", "200", "404"], "{answers}");
    assert!(answers.contains("\r\n\r\n127.0.0.1\n") && answers.contains("\r\n\r\n::1\n"), "{answers}");
}
