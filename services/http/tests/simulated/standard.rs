//! Sentences of RFC 9110 and RFC 9112 that no client asks for by itself.

use super::rig::{MS, Peer, Rig, RigPlan, Status, patient};
use super::shop::{OURS, Shop};
use corelane::testing::{Faults, Nobody, World};
use corelane_http::http1::{self, Method};
use corelane_http::{Application, HEAD_BYTES_MAX, Http, Routes};

struct Case {
    rig: Rig,
}

impl Case {
    fn of<A: Application>(application: impl Fn() -> A + 'static) -> Self {
        let world = World::new(1, Faults::none());
        Self { rig: Rig::serving(&world, &RigPlan::lanes(1), patient(), move |_| Http::new(application())) }
    }

    fn connect(&mut self) -> Peer {
        let peer = self.rig.connect(1);
        self.rig.wait(MS);
        peer
    }

    /// What is answered on a connection of its own, and whether that has closed.
    fn ask(&mut self, request: &str) -> (String, bool) {
        let peer = self.connect();
        let answer = self.rig.ask(&peer, request);
        let closed = peer.status() != Status::Open;
        peer.close();
        (answer, closed)
    }

    fn end(mut self) {
        self.rig.wait(5 * MS);
        assert_eq!(self.rig.connections(), 0);
    }
}

const NEXT: &str = "GET /now/1 HTTP/1.1\r\nHost: a\r\n\r\n";

/// The code of the first answer.
fn code(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn nobody_gets_a_tunnel() {
    let mut case = Case::of(Shop::default);
    // What stands behind it is no request: who hopes for a tunnel may speak another protocol already.
    let (answer, closed) = case.ask(&format!("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n{NEXT}"));
    assert!(answer.starts_with("HTTP/1.1 501 Not Implemented\r\n") && answer.contains("\r\nConnection: close\r\n"), "{answer}");
    assert_eq!((answer.matches("HTTP/1.1").count(), closed), (1, true), "{answer}");
    for wrong in ["CONNECT a: HTTP/1.1", "CONNECT a HTTP/1.1", "CONNECT a:65536 HTTP/1.1"] {
        assert_eq!(code(&case.ask(&format!("{wrong}\r\nHost: a\r\n\r\n")).0), "400", "{wrong}");
    }
    case.end();
}

#[test]
fn what_is_https_is_not_told_in_plain() {
    let mut case = Case::of(Shop::default);
    let (answer, closed) = case.ask(&format!("GET https://a/now/1 HTTP/1.1\r\nHost: a\r\n\r\n{NEXT}"));
    assert!(answer.starts_with("HTTP/1.1 421 Misdirected Request\r\n") && !closed, "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "the next one is answered: {answer}");
    assert_eq!(code(&case.ask("GET http://a/now/1 HTTP/1.1\r\nHost: a\r\n\r\n").0), "200");
    case.end();
}

#[test]
fn a_method_that_nobody_knows_is_not_implemented() {
    let mut case = Case::of(|| {
        let mut routes = Routes::new(());
        routes.get("/a", |(), _, _, reply| reply.text("a"));
        routes.on(Method::Other("LIST"), "/b", |(), _, _, reply| reply.text("b"));
        routes
    });
    for (method, path, expected, allow) in [
        ("GET", "/a", "200", ""),
        ("HEAD", "/a", "200", ""),
        ("LIST", "/b", "200", ""),
        ("FOO", "/a", "501", ""),
        ("get", "/a", "501", ""),
        ("FOO", "/nothing", "501", ""),
        ("POST", "/a", "405", "Allow: GET, HEAD, OPTIONS\r\n"),
        ("LIST", "/a", "405", "Allow: GET, HEAD, OPTIONS\r\n"),
        ("DELETE", "/b", "405", "Allow: LIST, OPTIONS\r\n"),
        ("TRACE", "/a", "405", "Allow: GET, HEAD, OPTIONS\r\n"),
        ("POST", "/nothing", "404", ""),
        ("LIST", "/nothing", "404", ""),
        ("OPTIONS", "/b", "204", "Allow: LIST, OPTIONS\r\n"),
        ("OPTIONS", "*", "204", ""),
    ] {
        let (answer, _) = case.ask(&format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!((code(&answer), answer.contains("Allow: ")), (expected, !allow.is_empty()), "{method} {path}: {answer}");
        assert!(answer.contains(allow), "{method} {path}: {answer}");
        let explains = answer.ends_with(&format!("\r\n\r\n{}\n", answer.lines().next().unwrap().split_at(9).1));
        assert_eq!(explains, expected.starts_with(['4', '5']), "{method} {path}: {answer}");
    }
    case.end();
}

#[test]
fn an_answer_that_could_not_be_one_is_a_fault_of_the_application() {
    let mut case = Case::of(Shop::default);
    for status in [100, 101, 103, 199] {
        for word in ["empty", "words", "parts"] {
            let (answer, closed) = case.ask(&format!("GET /{word}/{status} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert!(answer.starts_with("HTTP/1.1 500 ") && answer.ends_with("Content-Length: 0\r\n\r\n") && !closed, "{answer}");
        }
    }
    let fat = |bytes: usize| format!("GET /fat/{bytes} HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(case.ask(&fat(65_000)).0.starts_with("HTTP/1.1 200 "));
    assert!(case.ask(&fat(HEAD_BYTES_MAX)).0.starts_with("HTTP/1.1 500 "));
    for (at, ours) in OURS.iter().enumerate() {
        let (answer, closed) = case.ask(&format!("GET /ours/{at} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 500 ") && !answer.contains("close") && !closed, "{ours}: {answer}");
    }
    case.end();
}

#[test]
fn statuses_without_content_have_none_and_say_so_as_they_must() {
    let mut case = Case::of(Shop::default);
    for (status, length) in [(204, None), (304, None), (205, Some("0"))] {
        for word in ["empty", "words", "parts"] {
            let (answer, closed) = case.ask(&format!("GET /{word}/{status} HTTP/1.1\r\nHost: a\r\n\r\n{NEXT}"));
            let (head, behind) = answer.split_once("\r\n\r\n").unwrap();
            assert!(behind.starts_with("HTTP/1.1 200 OK\r\n") && !closed, "{status} {word}: {answer}");
            let said = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            assert_eq!((said, head.contains("Transfer-Encoding")), (length, false), "{status} {word}: {head}");
        }
    }
    case.end();
}

#[test]
fn the_space_before_a_reason_that_is_missing_is_sent() {
    let mut case = Case::of(Shop::default);
    assert!(case.ask("GET /empty/599 HTTP/1.1\r\nHost: a\r\n\r\n").0.starts_with("HTTP/1.1 599 \r\n"));
    case.end();
}

#[test]
fn behind_the_last_request_nothing_is_served() {
    let mut case = Case::of(Shop::default);
    let last = "GET /now/1 HTTP/1.1\r\nHost: a\r\nConnection: ,x, ,close,\r\n\r\n";
    let slow = "GET /later/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let unread = "POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    let uninvited = "POST /late/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    let unwanted = "POST /ignore HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab";
    for first in [last, slow, unread, uninvited, unwanted, "GET /now/1 HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n"] {
        let peer = case.connect();
        let mut answer = case.rig.ask(&peer, &format!("{first}{NEXT}"));
        peer.send(NEXT.as_bytes());
        case.rig.wait(20 * MS);
        answer.push_str(&String::from_utf8_lossy(&peer.read(usize::MAX)));
        assert_eq!((answer.matches("HTTP/1.1 ").count(), peer.status() == Status::Open), (1, false), "{first}: {answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{first}: {answer}");
        peer.close();
    }
    case.end();
}

#[test]
fn behind_the_last_answer_of_a_drain_nothing_is_served() {
    let mut case = Case::of(Shop::default);
    let peer = case.connect();
    peer.send(b"GET /wait/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    case.rig.wait(MS / 2);
    case.rig.begin_drain();
    let mut answer = String::new();
    for _ in 0..20 {
        case.rig.wait(MS);
        answer.push_str(&String::from_utf8_lossy(&peer.read(usize::MAX)));
        peer.send(NEXT.as_bytes());
    }
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "{answer}");
    peer.close();
    case.rig.until_ended(&mut Nobody);
}

#[test]
fn content_that_is_cut_short_is_never_taken_for_whole() {
    let mut case = Case::of(Shop::default);
    for content in ["Content-Length: 10\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"] {
        for path in ["/echo", "/sum", "/drip"] {
            let peer = case.connect();
            peer.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{content}").as_bytes());
            peer.finish();
            case.rig.wait(20 * MS);
            let answer = String::from_utf8_lossy(&peer.read(usize::MAX)).into_owned();
            assert!(!answer.contains(" 200 ") && peer.status() != Status::Open, "{path}: {answer}");
            peer.close();
        }
    }
    case.end();
}

/// Fields that end a head decide, never those behind the content.
#[test]
fn trailers_are_no_fields_of_the_head() {
    let mut case = Case::of(Shop::default);
    for trailer in ["Connection: close", "Content-Length: 99", "Host: b", "Transfer-Encoding: gzip", "Expect: wonders"] {
        let chunked = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n";
        let (answer, closed) = case.ask(&format!("POST /echo HTTP/1.1\r\nHost: a\r\n{chunked}{trailer}\r\n\r\n{NEXT}"));
        assert!(answer.contains("\r\n\r\nhelloHTTP/1.1 200 OK") && !closed, "{trailer}: {answer}");
    }
    case.end();
}

#[test]
fn a_client_of_the_old_version_is_sent_nothing_that_it_does_not_know() {
    let mut case = Case::of(Shop::default);
    let waits = "POST /echo HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    let (answer, _) = case.ask(waits);
    assert_eq!(answer, "", "no 100 (Continue)");
    let (answer, closed) = case.ask("GET /chunks/9 HTTP/1.0\r\nConnection: keep-alive, upgrade\r\nUpgrade: h2c\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && !answer.contains("Transfer-Encoding") && closed, "{answer}");
    let (answer, _) = case.ask("GET /now/1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c, websocket\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "an upgrade may be passed over: {answer}");
    case.end();
}

#[test]
fn the_head_alone_has_the_fields_of_the_whole() {
    let mut case = Case::of(Shop::default);
    for path in ["/now/5", "/later/5", "/late/5", "/sized/5", "/chunks/5", "/empty/205", "/words/404", "/split", "/empty/304"] {
        let [whole, alone] = ["GET", "HEAD"].map(|method| case.ask(&format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n")).0);
        let (head, _) = whole.split_once("\r\n\r\n").unwrap();
        assert_eq!(alone, format!("{head}\r\n\r\n"), "{path}");
    }
    case.end();
}

/// What is put together beforehand is held to the same.
#[test]
fn what_could_not_be_answered_cannot_be_prepared() {
    use corelane_http::Prepared;
    let of = |code: u16, fields: &[(&str, &str)]| Prepared::new(http1::Status::new(code).unwrap(), fields, b"words");
    assert!(of(100, &[]).is_err() && of(101, &[]).is_err() && of(200, &[("X", "a\r\nb")]).is_err());
    assert!(OURS.iter().all(|ours| of(200, &[(ours, "1")]).is_err()));
    assert!(of(200, &[("X", "a")]).is_ok() && of(205, &[]).is_ok());
}
