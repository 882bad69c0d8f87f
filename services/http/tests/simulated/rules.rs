//! What the RFCs ask of a server, one exchange after the other.

use super::rig::{MS, Peer, Rig, RigPlan, S, Status, patient};
use super::shop::{COLLECT_BYTES, RECEIVE_BYTES, Shop};
use corelane::admin::watch::{LaneCounter, ServiceCounter as C};
use corelane::service::{LEASE_BYTES_MAX, Limits};
use corelane::testing::{Faults, World};
use corelane_http::Http;
use std::time::Duration;

struct Case {
    rig: Rig,
    peer: Peer,
}

impl Case {
    fn new() -> Self {
        Self::with(patient())
    }

    fn with(limits: Limits) -> Self {
        let world = World::new(1, Faults::none());
        let mut rig = Rig::serving(&world, &RigPlan::lanes(1), limits, |_| Http::new(Shop::default()));
        let peer = rig.connect(1);
        rig.wait(MS);
        Self { rig, peer }
    }

    /// What is answered to `request` within some milliseconds; the day does not pass so fast.
    fn ask(&mut self, request: &str) -> String {
        self.rig.ask(&self.peer, request).replace("Date: Thu, 01 Jan 2026 00:00:01 GMT\r\n", "Date\r\n")
    }

    /// The same on a connection of its own, and whether that has closed.
    fn ask_alone(&mut self, request: &str) -> (String, bool) {
        self.peer.close();
        self.peer = self.rig.connect(2);
        self.rig.wait(MS);
        let answer = self.ask(request);
        (answer, self.peer.status() != Status::Open)
    }

    fn close(mut self) {
        self.peer.close();
        self.rig.wait(5 * MS);
        assert_eq!(self.rig.connections(), 0);
    }
}

#[test]
fn an_answer_is_framed_as_its_client_can_read_it() {
    let mut case = Case::new();
    let (now, chunks) = ("Content-Length: 1\r\n\r\n\0", "Transfer-Encoding: chunked\r\n\r\n1\r\n\0\r\n0\r\n\r\n");
    // (request, answer, whether the connection closes behind it)
    let table = [
        ("GET /now/1 HTTP/1.1\r\nHost: a\r\n\r\n", format!("HTTP/1.1 200 OK\r\nDate\r\n{now}"), false),
        (
            "GET /now/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            format!("HTTP/1.1 200 OK\r\nDate\r\nConnection: close\r\n{now}"),
            true,
        ),
        ("GET /now/1 HTTP/1.0\r\n\r\n", format!("HTTP/1.1 200 OK\r\nDate\r\nConnection: close\r\n{now}"), true),
        (
            "GET /now/1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            format!("HTTP/1.1 200 OK\r\nDate\r\nConnection: keep-alive\r\n{now}"),
            false,
        ),
        ("HEAD /now/1 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nDate\r\nContent-Length: 1\r\n\r\n".to_owned(), false),
        ("GET /chunks/1 HTTP/1.1\r\nHost: a\r\n\r\n", format!("HTTP/1.1 200 OK\r\nDate\r\n{chunks}"), false),
        (
            "HEAD /chunks/1 HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            false,
        ),
        ("GET /chunks/1 HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nDate\r\nConnection: close\r\n\r\n\0".to_owned(), true),
        (
            "GET /chunks/1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate\r\nConnection: close\r\n\r\n\0".to_owned(),
            true,
        ),
        ("GET /sized/1 HTTP/1.0\r\n\r\n", format!("HTTP/1.1 200 OK\r\nDate\r\nConnection: close\r\n{now}"), true),
        ("GET /empty/204 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 204 No Content\r\nDate\r\n\r\n".to_owned(), false),
        ("GET /empty/304 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nDate\r\n\r\n".to_owned(), false),
        ("GET /empty/200 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nDate\r\nContent-Length: 0\r\n\r\n".to_owned(), false),
        (
            "GET /split HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 500 Internal Server Error\r\nDate\r\nContent-Length: 0\r\n\r\n".to_owned(),
            false,
        ),
        ("GET http://b/now/1 HTTP/1.1\r\nHost: a\r\n\r\n", format!("HTTP/1.1 200 OK\r\nDate\r\n{now}"), false),
    ];
    for (request, answer, closes) in table {
        assert_eq!(case.ask_alone(request), (answer, closes), "{request}");
    }
    case.close();
}

#[test]
fn what_is_wrong_with_a_head_is_said_and_closes_where_its_end_is_not_known() {
    let mut case = Case::new();
    let next = "GET /now/1 HTTP/1.1\r\nHost: a\r\n\r\n";
    // (request, status, whether the next one is answered)
    let table = [
        ("GET / HTTP/1.1\r\n\r\n", "400 Bad Request", true),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400 Bad Request", true),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400 Bad Request", false),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", "400 Bad Request", false),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "400 Bad Request", false),
        ("GET / HTTP/1.1\nHost: a\n\n", "400 Bad Request", false),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505 HTTP Version Not Supported", false),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", "417 Expectation Failed", true),
        ("\x16\x03\x01\x02\0\x01", "400 Bad Request", false),
    ];
    for (request, status, goes_on) in table {
        let (answer, closed) = case.ask_alone(&format!("{request}{next}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
        assert_eq!((answer.contains("200 OK"), closed), (goes_on, !goes_on), "{request}: {answer}");
        assert_eq!(answer.contains("Connection: close"), !goes_on, "{request}");
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9_000));
    assert!(case.ask_alone(&long).0.starts_with("HTTP/1.1 414 "));
    let fat = format!("GET / HTTP/1.1\r\nHost: a\r\nFat: {}\r\n\r\n", "a".repeat(17_000));
    assert!(case.ask_alone(&fat).0.starts_with("HTTP/1.1 431 "));
    assert_eq!(case.rig.named("heads_refused"), 11);
    case.close();
}

#[test]
fn a_client_that_waits_is_told_to_send_what_is_wanted() {
    let mut case = Case::new();
    let head = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    for path in ["/echo", "/sum"] {
        assert_eq!(case.ask(&head(path)), "HTTP/1.1 100 Continue\r\n\r\n", "{path}");
        assert!(case.ask("ab").starts_with("HTTP/1.1 200 OK\r\n"), "{path}");
    }
    let (answer, closed) = case.ask_alone(&head("/ignore"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && closed, "nobody knows whether its content comes: {answer}");
    assert!(answer.contains("Connection: close\r\n"), "{answer}");
    assert_eq!((case.rig.named("answers_1xx"), case.rig.named("contents_unwanted")), (2, 1));
    case.close();
}

#[test]
fn content_over_its_bound_is_refused() {
    let mut case = Case::new();
    let sized = |path: &str, bytes: u64| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n");
    let chunked =
        |path: &str, bytes: u64| format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n");
    for (path, bound) in [("/echo", COLLECT_BYTES), ("/sum", RECEIVE_BYTES)] {
        for request in [sized(path, bound + 1), chunked(path, bound + 1)] {
            let (answer, closed) = case.ask_alone(&request);
            assert!(answer.starts_with("HTTP/1.1 413 Content Too Large\r\n") && closed, "{request}: {answer}");
        }
        assert_eq!(case.ask_alone(&sized(path, bound)), (String::new(), false), "{path}");
    }
    // What an application would collect is bounded by what a lane can lend.
    let (answer, closed) = case.ask_alone(&sized("/hoard", LEASE_BYTES_MAX as u64 + 1));
    assert!(answer.starts_with("HTTP/1.1 413 Content Too Large\r\n") && closed, "{answer}");
    assert_eq!(case.rig.named("contents_refused"), 5);
    case.close();
}

#[test]
fn an_exchange_that_is_not_ended_is_told_so() {
    let mut case = Case::new();
    let chunked = "PUT /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
    let (too_long, no_chunk) = (format!("{chunked}{:x}\r\n", RECEIVE_BYTES), format!("{chunked}x\r\n"));
    let half = "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na";
    // It is told once, whether its content is refused, or its client leaves.
    for (number, request) in
        [too_long.as_str(), &no_chunk, half, "GET /sized/600000 HTTP/1.1\r\nHost: a\r\n\r\n"].iter().enumerate()
    {
        case.ask_alone(request);
        case.peer.reset();
        case.rig.wait(5 * MS);
        let (told, _) = case.ask_alone("GET /gone HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(told.ends_with(&format!("\r\n\r\n{}", number + 1)), "{request:.40}: {told}");
    }
    case.close();
}

/// Content for which there is no memory now waits, and comes whole.
#[test]
fn content_is_collected_whole_though_memory_is_short() {
    let world = World::new(1, Faults::none());
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1).memory(1 << 20), patient(), |_| Http::new(Shop::default()));
    let clients: Vec<_> = (1..=12).map(|number| rig.connect(number)).collect();
    rig.wait(MS);
    let content =
        |number: usize| (0..200_000).map(|at: usize| b'a' + (((at * (number + 3)) >> 2) % 26) as u8).collect::<Vec<u8>>();
    let mut left: Vec<Vec<u8>> = (0..clients.len())
        .map(|number| {
            let head = b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 200000\r\n\r\n";
            [&head[..], &content(number)].concat()
        })
        .collect();
    let mut heard = vec![Vec::new(); clients.len()];
    for _ in 0..4_000 {
        for (number, client) in clients.iter().enumerate() {
            // In pieces of a length that is nobody's.
            let piece = left[number].len().min(7_001);
            let taken = client.send(&left[number][..piece]);
            left[number].drain(..taken);
            heard[number].extend(client.read(usize::MAX));
        }
        rig.wait(MS / 4);
        if clients.iter().all(|client| client.status() != Status::Open) {
            break;
        }
    }
    assert!(rig.lane_count(LaneCounter::MemoryLimitHits) > 0, "memory was short");
    let whole = heard
        .iter()
        .enumerate()
        .filter(|(number, heard)| heard.ends_with(&[&b"\r\n\r\n"[..], &content(*number)].concat()))
        .count();
    let broken = rig.count(C::EndingsAborted) as usize;
    assert!(whole > 0 && whole + broken == clients.len(), "{whole} came whole, {broken} were broken off for want of memory");
    clients.iter().for_each(|client| client.close());
    rig.wait(5 * MS);
    assert_eq!(rig.connections(), 0);
}

/// Who does not send the rest is told so; who cannot, because there is no memory for it, is told that instead.
#[test]
fn content_for_which_there_is_no_memory_in_time_is_the_servers_fault() {
    let world = World::new(1, Faults::none());
    let limits = patient().read_limit(Duration::from_secs(5)).receive_rate_min(0);
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1).memory(1 << 20), limits, |_| Http::new(Shop::default()));
    let clients: Vec<_> = (1..=12).map(|number| rig.connect(number)).collect();
    rig.wait(MS);
    let request = format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n{}", "x".repeat(199_999));
    let mut sent = vec![0; clients.len()];
    for _ in 0..1_000 {
        for (client, sent) in clients.iter().zip(&mut sent) {
            *sent += client.send(&request.as_bytes()[*sent..]);
        }
        rig.wait(MS);
    }
    rig.wait(10 * S);
    let said = |client: &Peer| String::from_utf8_lossy(&client.read(usize::MAX)).chars().take(12).collect::<String>();
    let heard: Vec<_> = clients.iter().map(said).collect();
    let of = |status: &str| heard.iter().filter(|heard| **heard == format!("HTTP/1.1 {status}")).count();
    assert_eq!(of("408") + of("503"), clients.len(), "all were told: {heard:?}");
    // Whose memory is given back lets another one go on, who then is at fault, too.
    assert!(of("408") > 0 && of("503") > 0, "{heard:?}");
    let counted = (rig.named("answers_4xx"), rig.named("answers_5xx"));
    assert_eq!(counted, (of("408") as u64, of("503") as u64));
    clients.iter().for_each(|client| client.close());
    rig.wait(5 * MS);
    assert_eq!((rig.connections(), rig.lane_count(LaneCounter::MemoryUsed)), (0, 0));
}

#[test]
fn content_that_nobody_wants_is_passed_over_up_to_a_bound() {
    let mut case = Case::new();
    let request = |bytes: usize| {
        let content = "x".repeat(bytes.min(70_000));
        format!("POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n{content}")
    };
    let next = "GET /now/1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let (answer, closed) = case.ask_alone(&(request(60_000) + next));
    assert!(answer.contains("ignored") && answer.ends_with("\r\n\r\n\0") && !closed, "{answer}");
    assert!(!answer.contains("Connection: close"), "{answer}");
    // What is not passed over ends the connection, and the answer says so, whoever gives it.
    for path in ["/ignore", "/later/1", "/late/1", "/chunks/1", "/split", "/none"] {
        let (answer, closed) = case.ask_alone(&request(1 << 20).replace("/ignore", path));
        assert!(closed && answer.contains("Connection: close\r\n"), "{path}: {answer}");
    }
    let (answer, closed) = case.ask_alone(&request(1 << 20).replace("Host: a", "Hose: a"));
    assert!(answer.starts_with("HTTP/1.1 400") && closed && answer.contains("Connection: close\r\n"), "{answer}");
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(1 << 16));
    let head = "POST /ignore HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(!case.ask_alone(&format!("{head}{chunk}0\r\n\r\n")).1);
    assert!(case.ask_alone(&format!("{head}{chunk}1\r\nx\r\n")).1);
    case.close();
}

#[test]
fn content_in_chunks_that_are_none_is_refused() {
    let mut case = Case::new();
    for path in ["/echo", "/sum"] {
        for content in ["x\r\n", "1\r\nab", "10000000000000000\r\n", "-1\r\n"] {
            let request = format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{content}");
            let (answer, closed) = case.ask_alone(&request);
            assert!(answer.starts_with("HTTP/1.1 4") && closed, "{request}: {answer}");
        }
    }
    assert_eq!(case.rig.named("contents_refused"), 8);
    case.close();
}

#[test]
fn an_answer_that_ends_too_early_is_no_whole_one() {
    let mut case = Case::new();
    let answer = case.ask("GET /short/100000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.contains("Content-Length: 200000\r\n") && answer.len() < 200_000, "{} bytes", answer.len());
    assert!(matches!(case.peer.status(), Status::Failed(_)), "cut off, not ended in order");
    assert_eq!((case.rig.named("answers_cut_short"), case.rig.count(C::EndingsAborted)), (1, 1));
    case.close();
}

#[test]
fn a_panic_ends_its_connection_alone() {
    let mut case = Case::new();
    let other = case.rig.connect(3);
    assert_eq!(case.ask("GET /panic HTTP/1.1\r\nHost: a\r\n\r\n"), "");
    assert!(matches!(case.peer.status(), Status::Failed(_)));
    assert!(case.rig.ask(&other, "GET /now/1 HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
    other.close();
    case.close();
}

#[test]
fn what_is_held_for_too_long_is_given_up() {
    let mut case = Case::new();
    case.peer.send(
        b"GET /now/1 HTTP/1.1\r\nHost: a\r\n\r\nGET /never HTTP/1.1\r\nHost: a\r\n\r\nGET /now/1 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    case.rig.wait(60 * MS);
    let heard = case.rig.hear(&case.peer);
    let statuses: Vec<_> = heard.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "503", "200"], "{heard}");
    assert!(heard.contains("Connection: close"));
    assert_ne!(case.peer.status(), Status::Open);
    case.close();
}

#[test]
fn a_drain_answers_what_was_asked_and_says_that_it_was_the_last() {
    let mut case = Case::new();
    let (idle, paused) = (case.rig.connect(2), case.rig.connect(3));
    case.rig.wait(MS);
    paused.send(b"GET /chunks/20000 HTTP/1.1\r\nHost: a\r\n\r\nGET /now/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    case.peer.send(b"GET /wait/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    // All has come, and nothing is answered whole.
    case.rig.wait(MS / 2);
    case.rig.begin_drain();
    case.rig.until_ended(&mut super::rig::Nobody);
    assert!(case.rig.has_ended());
    let said = |peer: &Peer| String::from_utf8_lossy(&peer.read(usize::MAX)).into_owned();
    let (waited, whole) = (said(&case.peer), said(&paused));
    assert!(waited.starts_with("HTTP/1.1 200 OK\r\n"), "{waited}");
    assert!(whole.contains("0\r\n\r\nHTTP/1.1 200 OK\r\n"), "all of it, and what was asked behind it: {whole}");
    assert_eq!((case.rig.count(C::EndingsAborted), said(&idle)), (0, String::new()));
}

#[test]
fn who_is_slow_is_given_up() {
    // (what is sent at first, what then each second, which limit ends it, whether it is answered)
    let sized = |request: &str| format!("{request} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    let get = "GET /now/1 HTTP/1.1\r\nHost: a\r\n";
    let table = [
        // The time for a head is one, however it comes.
        (format!("{get}A: "), "a", C::ReadLimitHits, "408"),
        (get.to_owned(), "", C::ReadLimitHits, "408"),
        ("G".to_owned(), "", C::ReadLimitHits, "408"),
        (format!("{get}\r\n{get}"), "", C::ReadLimitHits, "200 408"),
        (sized("PUT /sum"), "a", C::ReceiveRateMinHits, "408"),
        (sized("PUT /sum"), "", C::ReadLimitHits, "408"),
        (sized("POST /echo"), "a", C::ReceiveRateMinHits, "408"),
        // It was answered before.
        (sized("POST /ignore"), "a", C::ReceiveRateMinHits, "200"),
        (format!("{get}\r\n"), "", C::IdleLimitHits, "200"),
        // Empty lines ask for nothing.
        ("\r\n".to_owned(), "\r\n", C::IdleLimitHits, ""),
    ];
    for (first, then, limit, statuses) in table {
        let mut case = Case::with(Limits::new().idle_limit(Duration::from_secs(40)));
        case.peer.send(first.as_bytes());
        let mut heard = Vec::new();
        let mut lasted = 0_u32;
        for _ in 0..45 {
            case.rig.wait(S);
            heard.extend(case.peer.read(usize::MAX));
            if case.peer.status() != Status::Open {
                break;
            }
            case.peer.send(then.as_bytes());
            lasted += 1;
        }
        let heard = String::from_utf8_lossy(&heard);
        let answered: Vec<_> = heard.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(answered.join(" "), statuses, "{first}{then}: {heard}");
        assert!((29..=41).contains(&lasted), "{first}{then}: {lasted} s");
        assert_eq!(case.peer.status(), Status::Ended, "{first}{then}");
        assert_eq!(case.rig.count(limit), 1, "{first}{then}");
        case.close();
    }
}

#[test]
fn a_drain_cuts_nothing_of_a_pipeline() {
    let mut case = Case::new();
    let (first, next) = ("GET /flood/1000000 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /now/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    case.peer.send(format!("{first}{}", next.repeat(4)).as_bytes());
    // All has come, and waits behind what is not read.
    case.rig.wait(10 * MS);
    case.rig.begin_drain();
    let mut heard = Vec::new();
    while !case.rig.has_ended() {
        heard.extend(case.peer.read(usize::MAX));
        case.rig.wait(MS);
    }
    heard.extend(case.peer.read(usize::MAX));
    let heard = String::from_utf8_lossy(&heard);
    let (heard, last) = heard.rsplit_once("HTTP/1.1 200 OK").unwrap();
    assert_eq!(heard.matches("HTTP/1.1 200 OK").count(), 4);
    assert!(last.contains("Connection: close") && !heard.contains("Connection: close"), "{last}");
}

/// A client may send an empty line behind its last request, as old ones do, when the answer is on its way: a close with that unread, or before it, would be a reset,
/// which takes the rest of the answer from it (RFC 9112 section 9.6).
#[test]
fn a_byte_behind_the_last_request_takes_nothing_of_the_answer() {
    let mut case = Case::new();
    let close = "Connection: close\r\n";
    for request in [
        format!("GET /now/120000 HTTP/1.1\r\nHost: a\r\n{close}\r\n"),
        "GET /now/120000 HTTP/1.0\r\n\r\n".to_owned(),
        format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 120000\r\n{close}\r\n{}", "a".repeat(120_000)),
    ] {
        let peer = case.rig.connect(3);
        case.rig.wait(MS);
        peer.send(request.as_bytes());
        case.rig.wait(2 * MS);
        peer.send(b"\r\n");
        let mut heard = Vec::new();
        for _ in 0..40 {
            heard.extend(peer.read(4_000));
            case.rig.wait(500 * MS);
        }
        assert!(heard.len() > 120_000 && peer.status() == Status::Ended, "{} bytes, {:?}", heard.len(), peer.status());
        peer.close();
        case.rig.wait(MS);
    }
    case.close();
}
