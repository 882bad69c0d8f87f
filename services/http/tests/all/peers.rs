//! An application sees who asks: the addresses of both ends, and what TLS has learned of the client.
#![forbid(unsafe_code)]

use corelane::service::{Refused, Silent};
use corelane::{Cx, Lanes};
use corelane_http::{Application, Handled, Http, Reply, Request};
use std::io::{Read, Write};
use std::net::TcpStream;

struct Mirror;

impl Application for Mirror {
    type Talk = Silent;

    fn request(&mut self, cx: &mut Cx<'_, Silent>, _request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        let peer = cx.peer(cx.id()).unwrap();
        let words = format!("{} asks {}; behind TLS: {}", peer.address, peer.local, peer.learned.is_some());
        reply.text(&words)
    }
}

#[test]
fn an_application_sees_who_asks() {
    let lanes = Lanes::per_core().lanes(1);
    let running = lanes.serve("tcp://127.0.0.1:0", |_| Http::new(Mirror)).unwrap().start().unwrap();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(running.address().inet().unwrap()).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let (from, to) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        write!(stream, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with(&format!("\r\n\r\n{from} asks {to}; behind TLS: false")), "{answer}");
    }
}
