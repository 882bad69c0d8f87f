//! When a connection to a server behind may carry another request. That server is the test itself, over real sockets.

use super::sited::{DRIVERS, connect, rows, serving, told};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::Duration;

/// How long the server behind waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// What stands within the content of a request, and reads like one.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

fn bound() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("to={}", listener.local_addr().unwrap());
    (listener, to)
}

/// The next connection of the proxy's.
fn accept(listener: &TcpListener) -> TcpStream {
    let (told, heard) = channel();
    let listener = listener.try_clone().unwrap();
    // A thread waits for it, so that a connection that never comes fails the test and does not hang it.
    spawn(move || told.send(listener.accept().unwrap().0));
    let stream = heard.recv_timeout(PATIENCE).expect("a connection comes");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

/// What comes up to this end.
fn hear(stream: &mut TcpStream, end: &str) -> String {
    let (mut heard, mut byte) = (Vec::new(), [0]);
    while !heard.ends_with(end.as_bytes()) {
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} behind {:?}", String::from_utf8_lossy(&heard)));
        heard.push(byte[0]);
    }
    String::from_utf8(heard).unwrap()
}

/// Answers the next request of this path, which comes by a connection of its own.
fn serve_anew(listener: &TcpListener, path: &str) -> TcpStream {
    let mut stream = accept(listener);
    let head = hear(&mut stream, "\r\n\r\n");
    assert!(head.starts_with(&format!("GET /{path} HTTP/1.1\r\n")), "{head}");
    say(&mut stream, &format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()));
    stream
}

fn get(path: &str) -> String {
    format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Nothing more comes by this connection of the proxy's, which it breaks off.
fn is_broken_off(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let end = stream.read_to_end(&mut rest).map_err(|error| error.kind());
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    end == Err(ErrorKind::ConnectionReset)
}

#[test]
fn an_answer_that_comes_before_its_request_is_whole_is_heard_and_nothing_is_smuggled() {
    let length = "half:".len() + SMUGGLED.len();
    let of_length = (format!("Content-Length: {length}\r\n\r\nhalf:"), "half:", SMUGGLED.to_owned());
    let last = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    let in_chunks = ("Transfer-Encoding: chunked\r\n\r\n5\r\nhalf:\r\n".to_owned(), "half:\r\n", last);
    for driver in DRIVERS {
        for (first, heard, last) in [&of_length, &in_chunks] {
            for closes in [false, true] {
                let (listener, to) = bound();
                let running = serving(driver, &to);
                let mut client = connect(&running);
                say(&mut client, &format!("POST /first HTTP/1.1\r\nHost: a\r\n{first}"));
                let mut half = accept(&listener);
                assert!(hear(&mut half, heard).starts_with("POST /first HTTP/1.1\r\n"));
                let close = if closes { "Connection: close\r\n" } else { "" };
                say(&mut half, &format!("HTTP/1.1 403 Forbidden\r\n{close}Content-Length: 5\r\n\r\nearly"));
                if closes {
                    // The proxy may have broken it off already.
                    let _ = half.shutdown(Shutdown::Write);
                }
                assert!(hear(&mut client, "early").starts_with("HTTP/1.1 403 Forbidden\r\n"));
                // What is left of the content reads like a request, and belongs to nobody.
                say(&mut client, &format!("{last}{}", get("next")));
                assert!(is_broken_off(&mut half), "{driver:?}: a request that is not whole must not be taken for one");
                let _next = serve_anew(&listener, "next");
                assert!(hear(&mut client, "next").starts_with("HTTP/1.1 200 OK\r\n"));
            }
        }
    }
}

#[test]
fn an_answer_that_comes_before_any_request_is_nobodys() {
    for driver in DRIVERS {
        let (listener, to) = bound();
        let running = serving(driver, &to);
        let mut clients = [connect(&running), connect(&running)];
        say(&mut clients[0], &get("one"));
        let mut kept = serve_anew(&listener, "one");
        assert!(hear(&mut clients[0], "one").starts_with("HTTP/1.1 200 OK\r\n"));
        say(&mut kept, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray");
        assert!(is_broken_off(&mut kept), "{driver:?}: who says what nobody has asked for is asked no more");
        let [first, second] = &mut clients;
        say(second, &get("two"));
        let _kept = serve_anew(&listener, "two");
        let answer = hear(second, "two");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && !answer.contains("stray"), "{driver:?}: {answer}");
        // Nothing was left for the one before it either.
        first.set_nonblocking(true).unwrap();
        assert_eq!(first.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn a_connection_to_a_server_that_is_drained_is_not_kept() {
    for driver in DRIVERS {
        let (listener, to) = bound();
        let running = serving(driver, &to);
        let [mut client, mut other] = [connect(&running), connect(&running)];
        say(&mut other, &get("idle"));
        let mut idle = accept(&listener);
        hear(&mut idle, "\r\n\r\n");
        say(&mut client, &get("one"));
        let mut stream = accept(&listener);
        hear(&mut stream, "\r\n\r\n");
        say(&mut idle, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nidle");
        assert!(hear(&mut other, "idle").starts_with("HTTP/1.1 200 OK\r\n"));
        let name = to.trim_start_matches("to=");
        assert_eq!(told(&running, &format!("upstreams drain {name}")), "{\"named\":1}");
        assert_eq!(idle.read(&mut [0]).unwrap(), 0, "{driver:?}: one that is idle is closed at once");
        say(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none");
        assert!(hear(&mut client, "one").starts_with("HTTP/1.1 200 OK\r\n"), "what is under way goes on");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{driver:?}: it is closed in order");
        assert_eq!(rows(&running, "upstreams show 0 4096")[0].state.word(), "drained");
        assert_eq!(told(&running, &format!("upstreams enable {name}")), "{\"named\":1}");
        say(&mut client, &get("two"));
        let _kept = serve_anew(&listener, "two");
        assert!(hear(&mut client, "two").starts_with("HTTP/1.1 200 OK\r\n"));
    }
}
