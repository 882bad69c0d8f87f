//! Servers behind that break every rule: no client ever takes what is not whole for whole, or hears the answer to another's request.

use super::odd::{BookRef, Odd, Seen};
use super::{BEHIND, FOR_EVER, behind_at, forwarding};
use crate::simulated::answers::{Heard, answers, text};
use crate::simulated::for_seeds;
use crate::simulated::rig::{MS, Peer, Rig, RigPlan, S, Status, Talker, address, at, patient};
use corelane::admin::watch::LaneCounter;
use corelane::service::Limits;
use corelane::testing::{Faults, Random, World};
use corelane_http::http1::Method;
use corelane_http::{Forward, Hosts, Http};
use corelane_upstreams::Check;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) struct Case {
    pub rig: Rig,
    pub book: BookRef,
}

impl Case {
    pub fn new(seed: u64, forward: impl Fn(Forward) -> Forward) -> Self {
        Self::with(seed, patient(), forward)
    }

    pub fn with(seed: u64, limits: Limits, forward: impl Fn(Forward) -> Forward) -> Self {
        let (world, book) = (World::new(seed, Faults::none()), BookRef::default());
        let rig = forwarding(&world, &RigPlan::lanes(1), (limits, patient()), forward, |_| Odd::new(book.clone(), seed));
        Self { rig, book }
    }

    /// What is answered to `request` on a connection of its own, and whether that has closed.
    pub fn ask(&mut self, request: &str) -> (String, bool) {
        let peer = self.rig.connect(2);
        self.rig.wait(MS);
        assert_eq!(peer.send(request.as_bytes()), request.len());
        let answer = self.hear(&peer);
        let is_closed = peer.status() != Status::Open;
        peer.close();
        self.rig.wait(5 * MS);
        (answer, is_closed)
    }

    pub fn hear(&mut self, peer: &Peer) -> String {
        self.rig.wait(40 * MS);
        let text = String::from_utf8_lossy(&peer.read(usize::MAX)).into_owned();
        text.replace("Date: Thu, 01 Jan 2026 00:00:01 GMT\r\n", "").replace("Date: Thu, 01 Jan 2026 00:00:02 GMT\r\n", "")
    }

    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.book.borrow_mut().requests)
    }

    pub fn close(mut self) {
        self.rig.close(&mut crate::simulated::rig::Nobody);
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

pub(super) fn bad(code: &str, words: &str) -> String {
    format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{code}\n{words}\n",
        code.len() + words.len() + 2
    )
}

#[test]
fn an_answer_is_framed_anew_whatever_framing_it_came_in() {
    let mut case = Case::new(1, |forward| forward.timeout(2 * S));
    let of_length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n7:0";
    let table = [
        ("whole", of_length.to_owned()),
        ("old", of_length.to_owned()),
        ("long", of_length.to_owned()),
        ("leave", of_length.to_owned()),
        ("interim", format!("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n{of_length}")),
        ("204", "HTTP/1.1 204 No Content\r\nX-Id: 7\r\n\r\n".to_owned()),
        ("304", "HTTP/1.1 304 Not Modified\r\nETag: \"7\"\r\n\r\n".to_owned()),
        ("garbage", bad("502 Bad Gateway", "what the server behind this one has answered is no HTTP/1.1")),
        ("both", bad("502 Bad Gateway", "what the server behind this one has answered is no HTTP/1.1")),
        ("twice", bad("502 Bad Gateway", "what the server behind this one has answered is no HTTP/1.1")),
        ("bare", bad("502 Bad Gateway", "what the server behind this one has answered is no HTTP/1.1")),
        ("switch", bad("502 Bad Gateway", "what the server behind this one has answered is no HTTP/1.1")),
        ("headless", bad("502 Bad Gateway", "the server behind this one has ended its connection before it answered")),
        ("reset", bad("502 Bad Gateway", "the server behind this one has ended its connection before it answered")),
    ];
    for (kind, answer) in table {
        assert_eq!(case.ask(&get(&format!("/{kind}/7"))), (answer, false), "{kind}");
    }
    // Of which the length is not known before its end; where all has come at once, it is.
    for kind in ["chunked", "close"] {
        let (answer, is_closed) = case.ask(&get(&format!("/{kind}/7")));
        let (methods, mine) = ([Method::Get], if kind == "close" { "Server: x\r\n" } else { "" });
        let (heard, rest, _) = answers(answer.as_bytes(), &methods, false);
        assert!(heard[0].content == b"7:0" && rest.is_empty() && !is_closed && answer.contains(mine), "{answer}");
    }
    // What is begun and not whole is broken off.
    for kind in ["short", "cut", "badchunk"] {
        let (answer, is_closed) = case.ask(&get(&format!("/{kind}/7")));
        let is_told = answer.starts_with("HTTP/1.1 502 ");
        assert!(is_told || is_closed && answers(answer.as_bytes(), &[Method::Get], true).0.is_empty(), "{kind}: {answer}");
    }
    let (answer, is_closed) = case.ask("GET /chunked/7 HTTP/1.0\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\n7:0") && is_closed && !answer.contains("chunked"), "{answer}");
    let (answer, _) = case.ask("HEAD /whole/7 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
    case.close();
}

#[test]
fn an_answer_that_passes_a_bound_is_told_as_that() {
    let mut case = Case::new(1, |forward| forward.timeout(2 * S));
    let words =
        "the answer of the server behind this one passes a bound: its head, interim answers, chunk extensions or trailers";
    let told = bad("502 Bad Gateway", words);
    for kind in ["fat", "fat-line", "many-fields", "endless"] {
        assert_eq!(case.ask(&get(&format!("/{kind}/7"))), (told.clone(), false), "{kind}");
    }
    // Of these the head is right, and may have gone on.
    for kind in ["extensions", "trailers"] {
        let (answer, is_closed) = case.ask(&get(&format!("/{kind}/7")));
        assert!(answer == told || is_closed && answers(answer.as_bytes(), &[Method::Get], true).0.is_empty(), "{kind}: {answer}");
    }
    case.close();
}

/// Answers that two readers could take differently.
#[test]
fn an_answer_that_is_none_of_the_standards_is_never_passed_on() {
    let mut case = Case::new(1, |forward| forward.timeout(2 * S));
    let malformed = bad("502 Bad Gateway", "what the server behind this one has answered is no HTTP/1.1");
    let kinds =
        ["folded", "foldedlength", "nul", "spaced", "plus", "listed", "huge", "identity", "gzip", "oldchunks", "status", "major"];
    for kind in kinds {
        assert_eq!(case.ask(&get(&format!("/{kind}/7"))), (malformed.clone(), false), "{kind}");
    }
    // Of this one the head is right.
    let (answer, is_closed) = case.ask(&get("/hugechunk/7"));
    assert!(answer == malformed || is_closed && answers(answer.as_bytes(), &[Method::Get], true).0.is_empty(), "{answer}");
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    peer.send(get("/dribble/7").as_bytes());
    case.rig.wait(S);
    assert!(peer.read(usize::MAX).is_empty());
    case.rig.wait(3 * S);
    let told = case.hear(&peer);
    assert!(told.starts_with("HTTP/1.1 504 "), "a head that never ends is given up in its time: {told}");
    peer.close();
    case.close();
}

#[test]
fn a_connection_that_its_server_has_closed_while_it_was_idle_loses_no_request() {
    let mut case = Case::new(8, |forward| forward);
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    for id in 0..5 {
        peer.send(get(&format!("/leave/{id}")).as_bytes());
        assert!(case.hear(&peer).ends_with(&format!("{id}:0")));
        // It may not be sent twice, so it must not be lost once.
        peer.send(format!("POST /whole/{id} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx").as_bytes());
        assert!(case.hear(&peer).ends_with(&format!("{id}:1")));
    }
    assert_eq!((case.seen().len(), case.rig.named("forwards_retried")), (10, 0));
    peer.close();
    case.close();
}

/// One client takes as many connections as it may, all for a server that is silent: others are served.
#[test]
fn a_client_that_takes_all_connections_to_a_silent_server_silences_nobody_else() {
    let limits = patient().connections_max(40);
    let mut case = Case::with(9, limits, |forward| forward.timeout(3600 * S));
    let mut greedy = Vec::new();
    for _ in 0..60 {
        let peer = case.rig.connect(1);
        case.rig.wait(MS);
        peer.send(get("/silent/1").as_bytes());
        case.rig.wait(MS);
        greedy.push(peer);
    }
    for number in 2..8 {
        let peer = case.rig.connect(number);
        case.rig.wait(MS);
        peer.send(get("/whole/7").as_bytes());
        let heard = case.hear(&peer);
        assert!(heard.ends_with("7:0"), "client {number}: {heard}");
        peer.close();
        case.rig.wait(5 * MS);
    }
    greedy.iter().for_each(Peer::close);
    case.rig.wait(5 * MS);
    case.close();
}

/// Many clients of one silent server: it has its part of the connections, and another site goes on.
#[test]
fn many_clients_of_a_silent_server_leave_other_sites_their_connections() {
    const OTHER: u16 = BEHIND + 1;
    let (world, book) = (World::new(1, Faults::none()), BookRef::default());
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        let site = |port: u16| {
            move |tokens| Forward::new(&behind_at(port), 0).tokens(tokens).timeout(3600 * S).of_site(&port.to_string())
        };
        let mut hosts = Hosts::new(Some(site(BEHIND)));
        hosts.add("other.test", site(OTHER)).unwrap();
        roster.serve(address(), patient().connections_max(80), Http::new(hosts));
        [BEHIND, OTHER].iter().for_each(|port| roster.serve(at(*port), patient(), Odd::new(book.clone(), 1)));
    });
    let ask = |rig: &mut Rig, number: usize, kind: &str, host: &str| {
        let peer = rig.connect(number);
        rig.wait(MS);
        peer.send(format!("GET /{kind}/7 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes());
        rig.wait(40 * MS);
        let heard = String::from_utf8(peer.read(usize::MAX)).unwrap();
        if !heard.is_empty() {
            peer.close();
            rig.wait(MS);
        }
        (peer, heard)
    };
    let asked: Vec<_> = (0..100).map(|number| ask(&mut rig, number, "silent", "a")).collect();
    let (waiting, told): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(_, heard)| heard.is_empty());
    let is_told = |heard: &str| heard.starts_with("HTTP/1.1 503 ") && heard.ends_with("under way as they may have\n");
    assert!(told.iter().all(|(_, heard)| is_told(heard)), "{told:?}");
    assert_eq!((waiting.len(), rig.named("forwards_refused")), (20, 80));
    for number in 100..110 {
        let (_, heard) = ask(&mut rig, number, "whole", "other.test");
        assert!(heard.ends_with("7:0"), "{heard}");
    }
    waiting.iter().for_each(|(peer, _)| peer.close());
    rig.wait(5 * MS);
    rig.close(&mut crate::simulated::rig::Nobody);
}

/// A server that takes no connection, and does not refuse any either.
fn unheard(limits: Limits) -> Rig {
    let world = World::new(1, Faults::none());
    world.listen(at(9_999)).unwrap();
    world.silence(at(9_999), true);
    let plan = RigPlan::lanes(1).connections_max(60_000);
    Rig::serving(&world, &plan, limits, |lane| Http::new(Forward::new(&behind_at(9_999), lane)))
}

#[test]
fn a_server_that_takes_no_connection_is_given_up_in_the_time_of_connecting() {
    let mut rig = unheard(patient().connect_limit(3 * S));
    let peer = rig.connect(1);
    rig.wait(MS);
    peer.send(get("/").as_bytes());
    rig.wait(2 * S);
    assert!(peer.read(usize::MAX).is_empty());
    rig.wait(2 * S);
    let told = String::from_utf8(peer.read(usize::MAX)).unwrap();
    assert!(told.starts_with("HTTP/1.1 504 ") && told.ends_with("does not take connections in time\n"), "{told}");
    assert_eq!((rig.named("forwards_timed_out"), rig.connections()), (1, 1), "the client's connection stays");
    peer.close();
    rig.wait(5 * MS);
    rig.close(&mut crate::simulated::rig::Nobody);
}

#[test]
fn where_a_server_takes_no_connection_another_is_asked_however_long_connecting_may_take() {
    let (world, book) = (World::new(1, Faults::none()), BookRef::default());
    world.listen(at(9_999)).unwrap();
    world.silence(at(9_999), true);
    let mut behind = behind_at(9_999);
    behind.targets = format!("{},{}", at(9_999), at(BEHIND)).parse().unwrap();
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        let limits = patient().connect_limit(3 * S);
        roster.serve(address(), limits, Http::new(Forward::new(&behind, roster.lane()).timeout(S)));
        roster.serve(at(BEHIND), patient(), Odd::new(book.clone(), 1));
    });
    let peers = [1, 2].map(|number| rig.connect(number));
    rig.wait(MS);
    peers.iter().for_each(|peer| assert!(peer.send(get("/whole/1").as_bytes()) > 0));
    rig.wait(4 * S);
    assert!(peers.iter().all(|peer| peer.read(usize::MAX).starts_with(b"HTTP/1.1 200 ")));
    assert_eq!(rig.named("forwards_timed_out"), 0);
    peers.iter().for_each(Peer::close);
    rig.wait(5 * MS);
    rig.close(&mut crate::simulated::rig::Nobody);
}

#[test]
fn ten_thousand_half_open_connections_to_a_server_end_in_their_time() {
    let mut rig = unheard(patient().connect_limit(S));
    let mut clients = Vec::new();
    // No more at once than may wait to be accepted.
    for some in 0..20 {
        let new: Vec<_> = (0..500).map(|number| rig.connect(some * 500 + number)).collect();
        rig.wait(5 * MS);
        new.iter().for_each(|peer| assert!(peer.send(get("/").as_bytes()) > 0));
        rig.wait(5 * MS);
        clients.extend(new);
    }
    assert_eq!((rig.connections(), rig.named("forwards_refused")), (20_000, 0));
    assert!(rig.arenas[0].used() < 8 << 20, "a head is kept of each: {}", rig.arenas[0].used());
    rig.wait(3 * S);
    assert_eq!((rig.connections(), rig.named("forwards_timed_out")), (10_000, 10_000), "none is left half open");
    assert!(clients.iter().all(|peer| peer.read(usize::MAX).starts_with(b"HTTP/1.1 504 ")));
    clients.iter().for_each(Peer::close);
    rig.wait(S);
    assert_eq!((rig.connections(), rig.lane_count(LaneCounter::MemoryUsed)), (0, 0));
    rig.close(&mut crate::simulated::rig::Nobody);
}

#[test]
fn who_is_silent_is_given_up_in_its_time() {
    // Who is idle has less time than who owes an answer.
    let limits = patient().idle_limit(5 * S).requests_in_flight_max(1);
    let mut case = Case::with(2, limits, |forward| forward.timeout(Duration::from_secs(20)));
    let peers: Vec<_> = (1..=2).map(|number| case.rig.connect(number)).collect();
    case.rig.wait(MS);
    peers[0].send(get("/silent/1").as_bytes());
    peers[1].send(get("/stall/1").as_bytes());
    case.rig.wait(19 * S);
    assert!(peers[0].read(usize::MAX).is_empty() && peers.iter().all(|peer| peer.status() == Status::Open));
    case.rig.wait(4 * S);
    let told = String::from_utf8_lossy(&peers[0].read(usize::MAX)).into_owned();
    assert!(told.starts_with("HTTP/1.1 504 Gateway Timeout\r\n") && told.ends_with("does not answer in time\n"), "{told}");
    let begun = peers[1].read(usize::MAX);
    assert!(begun.starts_with(b"HTTP/1.1 200 OK\r\n") && begun.ends_with(b"1:0"));
    assert!(peers[0].status() == Status::Open && peers[1].status() != Status::Open, "what was begun is broken off");
    assert_eq!((case.rig.named("forwards_timed_out"), case.rig.named("answers_cut_short")), (2, 1));
    peers.iter().for_each(Peer::close);
    case.close();
}

#[test]
fn who_is_silent_for_several_clients_is_left_out() {
    const OTHER: u16 = BEHIND + 1;
    let (world, book) = (World::new(1, Faults::none()), BookRef::default());
    let mut behind = behind_at(BEHIND);
    behind.targets = format!("{},{}", at(BEHIND), at(OTHER)).parse().unwrap();
    behind.settings.failures_max = 2;
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        roster.serve(address(), patient(), Http::new(Forward::new(&behind, roster.lane()).timeout(2 * S)));
        [BEHIND, OTHER].iter().for_each(|port| roster.serve(at(*port), patient(), Odd::new(book.clone(), 1)));
    });
    // Each of both has two of these.
    let peers: Vec<_> = (1..=4).map(|number| rig.connect(number)).collect();
    rig.wait(MS);
    peers.iter().for_each(|peer| assert!(peer.send(get("/silent/1").as_bytes()) > 0));
    rig.wait(4 * S);
    assert!(peers.iter().all(|peer| peer.read(usize::MAX).starts_with(b"HTTP/1.1 504 ")));
    // The last one that is there stays.
    assert_eq!((rig.named("forwards_timed_out"), rig.named("ejections")), (4, 1));
    peers.iter().for_each(Peer::close);
    rig.wait(5 * MS);
    rig.close(&mut crate::simulated::rig::Nobody);
}

#[test]
fn an_idempotent_request_is_sent_once_more_where_an_idle_connection_has_closed() {
    let mut case = Case::new(3, |forward| forward);
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    let ask = |case: &mut Case, request: &str| {
        peer.send(request.as_bytes());
        case.hear(&peer)
    };
    assert!(ask(&mut case, &get("/whole/1")).ends_with("1:0"));
    // The next one is lost on the connection that was kept, and then on its own.
    assert!(ask(&mut case, &get("/reset/2")).starts_with("HTTP/1.1 502 "));
    assert_eq!(case.seen().len(), 3, "it was sent twice, and not thrice");
    assert!(ask(&mut case, &get("/whole/3")).ends_with("3:0"));
    let post = "POST /reset/4 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert!(ask(&mut case, post).starts_with("HTTP/1.1 502 "));
    assert_eq!(case.seen().len(), 2, "what may change something is sent once");
    assert!(ask(&mut case, &get("/whole/5")).ends_with("5:0"));
    let put = "PUT /reset/6 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    assert!(ask(&mut case, put).starts_with("HTTP/1.1 502 "));
    assert_eq!(case.seen().len(), 2, "what has content is sent once");
    assert_eq!((case.rig.named("forwards_retried"), case.rig.named("forwards_reused")), (1, 3));
    peer.close();
    case.close();
}

#[test]
fn a_client_that_waits_is_invited_by_the_server_behind() {
    let mut case = Case::new(4, |forward| forward);
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    peer.send(b"PUT /whole/1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    // This server never says so, and the client goes on after a while.
    assert_eq!(case.hear(&peer), "");
    peer.send(b"xy");
    assert!(case.hear(&peer).ends_with("\r\n\r\n1:2"));
    assert!(case.seen()[0].is("expect", "100-continue"));
    // This one answers at once: the content does not come, and the connection says so.
    peer.send(b"PUT /early/2 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 20\r\n\r\n");
    let answer = case.hear(&peer);
    assert!(
        answer.starts_with("HTTP/1.1 413 ") && answer.contains("Connection: close\r\n") && answer.ends_with("early"),
        "{answer}"
    );
    assert!(peer.status() != Status::Open);
    case.close();
}

#[test]
fn content_that_must_not_come_is_never_read_as_the_next_answer() {
    for_seeds(60, |seed| {
        let mut case = Case::new(seed, |forward| forward);
        let peer = case.rig.connect(1);
        case.rig.wait(MS);
        for stray in ["HEAD /stray/1", "GET /stray304/1", "GET /stray204/1"] {
            peer.send(format!("{stray} HTTP/1.1\r\nHost: a\r\n\r\n{}", get("/whole/2")).as_bytes());
            let heard = case.hear(&peer);
            assert!(heard.ends_with("\r\n\r\n2:0") && !heard.contains("stray"), "{stray}: {heard}");
        }
        peer.close();
        case.close();
    });
}

/// The next request would be read as the rest of the content, or its answer as the rest of this one.
#[test]
fn a_connection_on_which_anything_is_unclear_carries_no_other_request() {
    for_seeds(30, |seed| {
        let mut case = Case::new(seed, |forward| forward);
        let peer = case.rig.connect(1);
        case.rig.wait(MS);
        peer.send(b"PUT /early/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n");
        let heard = case.hear(&peer);
        assert!(heard.starts_with("HTTP/1.1 413 ") && heard.ends_with("early") && peer.status() == Status::Open, "{heard}");
        peer.send(format!("{}{}", "x".repeat(20), get("/whole/2")).as_bytes());
        let heard = case.hear(&peer);
        assert!(heard.ends_with("\r\n\r\n2:0"), "{heard}");
        for id in 3..6 {
            peer.send(get("/long/1").as_bytes());
            assert!(case.hear(&peer).ends_with("\r\n\r\n1:0"));
            peer.send(get(&format!("/whole/{id}")).as_bytes());
            let heard = case.hear(&peer);
            assert!(heard.ends_with(&format!("\r\n\r\n{id}:0")) && !heard.contains("502"), "{heard}");
        }
        peer.close();
        case.close();
    });
}

#[test]
fn a_client_that_waits_to_be_invited_is_told_that_the_server_behind_is_silent() {
    let mut case = Case::with(4, patient().read_limit(3 * S), |forward| forward);
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    peer.send(b"PUT /whole/1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    case.rig.wait(4 * S);
    let told = case.hear(&peer);
    assert!(told.starts_with("HTTP/1.1 504 ") && told.ends_with("nor asked for the content in time\n"), "{told}");
    assert_eq!(case.rig.named("forwards_timed_out"), 1);
    peer.close();
    // One that has begun to send is at fault itself.
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    peer.send(b"PUT /whole/1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nx");
    case.rig.wait(4 * S);
    assert!(case.hear(&peer).starts_with("HTTP/1.1 408 "));
    peer.close();
    case.close();
}

#[test]
fn early_hints_are_passed_on_to_who_knows_of_them() {
    let mut case = Case::new(1, |forward| forward);
    let heard = case.ask(&get("/interim/7")).0;
    assert!(
        heard.starts_with("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\n") && heard.ends_with("\r\n\r\n7:0"),
        "{heard}"
    );
    assert_eq!(case.rig.named("answers_1xx"), 1);
    let heard = case.ask("GET /interim/7 HTTP/1.0\r\n\r\n").0;
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n") && heard.ends_with("7:0"), "{heard}");
    case.close();
}

#[test]
fn a_head_that_may_be_sent_again_lies_in_the_lanes_memory() {
    let mut case = Case::new(1, |forward| forward.timeout(2 * S));
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    let long = "x".repeat(12_000);
    let ask = |case: &mut Case, request: &str| {
        assert_eq!(peer.send(request.as_bytes()), request.len());
        case.hear(&peer)
    };
    assert!(ask(&mut case, &get("/whole/1")).ends_with("1:0"));
    assert_eq!(ask(&mut case, &format!("GET /silent/1 HTTP/1.1\r\nHost: a\r\nX-Long: {long}\r\n\r\n")), "");
    // On a link that was used before, and of which nothing was heard yet.
    let held: usize = case.rig.arenas[0].holders().iter().map(|holder| holder.bytes).sum();
    assert!(case.rig.named("forwards_reused") == 1 && held >= 12_000, "{held} bytes are held");
    case.rig.wait(5 * S);
    assert!(case.hear(&peer).starts_with("HTTP/1.1 504 "));
    peer.close();
    case.rig.wait(10 * MS);
    assert_eq!(case.rig.lane_count(LaneCounter::MemoryUsed), 0);
    case.close();
}

#[test]
fn an_answer_is_heard_though_the_request_is_not_read() {
    let mut case = Case::new(6, |forward| forward);
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    peer.send(b"PUT /early/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
    let (piece, mut sent, mut heard) = (vec![b'x'; 64 << 10], 0, Vec::new());
    while !heard.ends_with(b"early") && sent < 8_000_000 {
        sent += peer.send(&piece);
        case.rig.wait(MS);
        heard.extend(peer.read(usize::MAX));
    }
    let heard = String::from_utf8_lossy(&heard).into_owned();
    assert!(heard.starts_with("HTTP/1.1 413 ") && heard.contains("Connection: close\r\n") && heard.ends_with("early"), "{heard}");
    assert!(sent < 4_000_000, "{sent} bytes were taken for an upstream that reads none");
    peer.close();
    case.close();
}

#[test]
fn a_changed_protocol_passes_both_ways_until_either_ends() {
    let mut case = Case::new(5, |forward| forward);
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    peer.send(b"GET /switch/1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nearly");
    let answer = case.hear(&peer);
    assert_eq!(answer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nX-Mine: 1\r\nUpgrade: x\r\n\r\nEARLY");
    peer.send(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(case.hear(&peer), "GET / HTTP/1.1\r\n\r\n");
    assert_eq!(case.rig.named("answers_1xx"), 1);
    peer.finish();
    case.rig.wait(10 * MS);
    assert!(peer.status() != Status::Open);
    peer.close();
    case.rig.wait(5 * MS);
    assert_eq!(case.rig.connections(), 0, "the other end has ended with it");
    case.close();
}

#[test]
fn behind_a_changed_protocol_a_reset_is_a_reset() {
    let mut case = Case::new(5, |forward| forward);
    let changed = |case: &mut Case| {
        let peer = case.rig.connect(1);
        case.rig.wait(MS);
        peer.send(b"GET /switch/1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
        assert!(case.hear(&peer).starts_with("HTTP/1.1 101 "));
        peer
    };
    let breaks = changed(&mut case);
    breaks.reset();
    case.rig.wait(10 * MS);
    assert_eq!(std::mem::take(&mut case.book.borrow_mut().halves), [(Vec::new(), corelane::service::Ending::Error)]);
    let broken = changed(&mut case);
    broken.send(b"break off");
    case.rig.wait(10 * MS);
    assert!(matches!(broken.status(), Status::Failed(_)), "{:?}", broken.status());
    broken.close();
    case.rig.wait(5 * MS);
    assert_eq!(case.rig.connections(), 0);
    case.close();
}

#[test]
fn a_client_that_leaves_is_noticed_while_its_request_waits() {
    let mut case = Case::new(7, |forward| forward.abort_on_close(true));
    // One server says nothing, the other one half of its content; one request has content of its own.
    let requests =
        [get("/silent/1"), get("/stall/1"), "PUT /silent/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok".to_owned()];
    let mut left = 0;
    for request in &requests {
        for leaves in [Peer::finish, Peer::close, Peer::reset] {
            let peer = case.rig.connect(1);
            case.rig.wait(MS);
            assert_eq!(peer.send(request.as_bytes()), request.len());
            case.rig.wait(20 * MS);
            assert_eq!((case.seen().len(), case.rig.connections()), (1, 3), "a client, a link, and its other end");
            leaves(&peer);
            case.rig.wait(20 * MS);
            left += 1;
            assert_eq!(case.rig.named("forwards_abandoned"), left, "{request}");
            peer.close();
            case.rig.wait(20 * MS);
            assert_eq!(case.rig.connections(), 0, "what was under way is let go");
        }
    }
    // One that asks for more at once is no one that leaves, and each of its requests is answered in turn.
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    peer.send(get("/whole/1").repeat(3).as_bytes());
    let answer = case.hear(&peer);
    assert_eq!(answer.matches("1:0").count(), 3, "{answer}");
    // It is the upstream's answer that decides, where that is there already.
    peer.send(get("/whole/1").as_bytes());
    assert!(case.hear(&peer).ends_with("1:0"));
    peer.close();
    case.rig.wait(20 * MS);
    assert_eq!((case.rig.named("forwards_abandoned"), case.rig.named("forwards_reused")), (left, 3));
    case.close();
    // Who has finished and hears on is answered otherwise.
    let mut case = Case::new(8, |forward| forward.timeout(2 * S));
    for (leaves, abandoned) in [(Peer::finish as fn(&Peer), 0), (Peer::reset, 1)] {
        let peer = case.rig.connect(1);
        case.rig.wait(MS);
        peer.send(get("/silent/1").as_bytes());
        case.rig.wait(20 * MS);
        leaves(&peer);
        case.rig.wait(20 * MS);
        assert_eq!(case.rig.named("forwards_abandoned"), abandoned);
        case.rig.wait(4 * S);
        assert_eq!(case.hear(&peer).starts_with("HTTP/1.1 504 "), abandoned == 0);
        peer.close();
        case.rig.wait(20 * MS);
        assert_eq!(case.rig.connections(), 0);
    }
    case.close();
}

#[test]
fn who_is_not_there_is_said_in_words() {
    let world = World::new(1, Faults::none());
    let mut behind = behind_at(9999);
    behind.targets = "10.0.0.1:9999,10.0.0.1:9998".parse().unwrap();
    behind.settings.check = Some(Check::every(S));
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1), patient(), |lane| Http::new(Forward::new(&behind, lane)));
    let peer = rig.connect(1);
    rig.wait(MS);
    let first = rig.ask(&peer, &get("/"));
    assert!(first.starts_with("HTTP/1.1 502 ") && first.ends_with("refuses connections\n"), "{first}");
    assert_eq!(rig.named("forwards_retried"), 1, "the other one is tried");
    // Once their checks have failed, nobody is asked.
    rig.wait(10 * S);
    let second = rig.ask(&peer, &get("/"));
    assert!(second.starts_with("HTTP/1.1 503 ") && second.ends_with("can be reached\n"), "{second}");
    assert_eq!((rig.named("forwards_failed"), rig.named("forwards_refused")), (1, 1));
    peer.close();
    rig.wait(5 * MS);
    rig.close(&mut crate::simulated::rig::Nobody);
}

#[test]
fn hosts_send_their_requests_on_to_servers_of_their_own() {
    let (world, book) = (World::new(1, Faults::none()), BookRef::default());
    let mut behind = behind_at(BEHIND);
    behind.settings.check = Some(Check::every(S));
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        let site = |tokens| Forward::new(&behind, roster.lane()).tokens(tokens).timeout(2 * S);
        let mut hosts = Hosts::new(Some(site));
        hosts.add("other.test", |tokens| Forward::new(&behind_at(9999), roster.lane()).tokens(tokens)).unwrap();
        hosts.add("third.test", site).unwrap();
        roster.serve(address(), patient(), Http::new(hosts));
        roster.serve(at(BEHIND), patient(), Odd::new(book.clone(), 1));
    });
    let peer = rig.connect(1);
    rig.wait(5 * S);
    for (host, answer) in [("a.test", "7:0"), ("other.test", "refuses connections\n"), ("third.test", "7:0")] {
        let answer_is = rig.ask(&peer, &format!("GET /whole/7 HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(answer_is.ends_with(answer), "{host}: {answer_is}");
    }
    // The alarm of a site comes to it.
    peer.send(b"GET /silent/7 HTTP/1.1\r\nHost: third.test\r\n\r\n");
    rig.wait(5 * S);
    assert!(peer.read(usize::MAX).starts_with(b"HTTP/1.1 504 "));
    peer.close();
    rig.wait(5 * MS);
    rig.close(&mut crate::simulated::rig::Nobody);
}

const KINDS: [&str; 26] = [
    "whole", "whole", "whole", "chunked", "close", "old", "short", "cut", "long", "headless", "garbage", "both", "badchunk",
    "reset", "stall", "interim", "endless", "switch", "leave", "204", "304", "large", "early", "twice", "whole", "silent",
];

struct Question {
    method: Method<'static>,
    kind: &'static str,
    id: u64,
    content: usize,
}

fn question(random: &mut Random, id: u64) -> (Question, Vec<u8>) {
    let kind = KINDS[random.below(KINDS.len() as u64) as usize];
    let method = [Method::Get, Method::Get, Method::Head, Method::Put, Method::Post][random.below(5) as usize];
    let has_content = matches!(method, Method::Put | Method::Post) || kind == "early";
    let (method, content) = if has_content { (Method::Post, random.below(3_000) as usize) } else { (method, 0) };
    let mut request = format!("{} /{kind}/{id} HTTP/1.1\r\nHost: a\r\n", method.name()).into_bytes();
    match random.below(2) {
        _ if !has_content => request.extend_from_slice(b"\r\n"),
        0 => {
            request.extend_from_slice(format!("Content-Length: {content}\r\n\r\n").as_bytes());
            request.extend((0..content).map(|_| b'x'));
        }
        _ => {
            request.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for left in [content / 2, content - content / 2].into_iter().filter(|left| *left > 0) {
                request.extend_from_slice(format!("{left:x};e\r\n{}\r\n", "x".repeat(left)).as_bytes());
            }
            request.extend_from_slice(b"0\r\nT: 1\r\n\r\n");
        }
    }
    (Question { method, kind, id, content }, request)
}

/// Whether this may be heard as the answer to a question.
fn is_right(question: &Question, heard: &Heard) -> bool {
    let Question { method, kind, id, content } = question;
    let own = match *kind {
        "204" => heard.status == 204,
        "304" => heard.status == 304,
        // Where the content has come with the head, it is looked at.
        "early" if heard.status == 413 => heard.content == b"early",
        "large" => heard.status == 200 && (heard.content.len() == 500_000 || *method == Method::Head),
        "short" | "cut" | "headless" | "garbage" | "both" | "twice" | "badchunk" | "reset" | "stall" | "endless" | "switch"
        | "silent" => {
            // Who asks for the head alone may hear that alone.
            *method == Method::Head && heard.status == 200
        }
        _ => heard.status == 200 && (*method == Method::Head || heard.content == format!("{id}:{content}").as_bytes()),
    };
    own || matches!(heard.status, 502..=504)
}

fn run(seed: u64, faults: Faults) {
    let (world, book) = (World::new(seed, faults), BookRef::default());
    let mut random = Random::new(seed);
    let plan = RigPlan::lanes(1).memory(16 << 20);
    let timeout = if faults == Faults::none() { 20 * S } else { S };
    let mut rig = forwarding(
        &world,
        &plan,
        (patient().connect_limit(FOR_EVER), patient()),
        |forward| forward.timeout(timeout).kept(3),
        |_| Odd::new(book.clone(), seed),
    );
    let mut all = Vec::new();
    let mut talkers = Vec::new();
    for number in 0..3_u64 {
        let count = random.one_to(8) as u64;
        let (questions, requests): (Vec<_>, Vec<_>) = (0..count).map(|at| question(&mut random, number * 100 + at)).unzip();
        all.push(questions);
        talkers.push(Talker::new(rig.connect(number as usize), seed, requests.concat()));
        if seed.is_multiple_of(4) {
            talkers.last_mut().unwrap().read_most = 1 + seed as usize % 3_000;
        }
    }
    assert!(rig.play(&mut talkers), "clients wait for ever");
    rig.close(&mut talkers);
    for (talker, questions) in talkers.iter().zip(&all) {
        let methods: Vec<_> = questions.iter().map(|question| question.method).collect();
        let (heard, _, interim) = answers(&talker.got, &methods, false);
        let hinting = questions.iter().filter(|question| question.kind == "interim").count();
        assert!(interim <= hinting, "nobody waited for 100 (Continue)");
        for (question, heard) in questions.iter().zip(&heard) {
            assert!(is_right(question, heard), "/{}/{}: {} {}", question.kind, question.id, heard.status, text(&heard.content));
        }
        let breaks = |question: &Question| matches!(question.kind, "short" | "cut" | "badchunk" | "stall" | "early" | "reset");
        let is_whole = heard.len() == questions.len();
        assert!(
            is_whole || faults != Faults::none() || questions.iter().any(breaks),
            "{} of {}: {:?}",
            heard.len(),
            questions.len(),
            talker.end
        );
    }
    // What may change something was sent once; all that was seen was looked at by the server.
    let mut times = BTreeMap::new();
    for seen in book.borrow().requests.iter().filter(|seen| seen.method == "POST") {
        *times.entry(seen.target.clone()).or_insert(0) += 1;
    }
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    assert_eq!(["panics", "heads_refused"].map(|counter| rig.named(counter)), [0; 2]);
}

#[test]
fn no_answer_is_another_ones_or_taken_for_whole() {
    for_seeds(700, |seed| run(seed, Faults::none()));
}

#[test]
fn no_answer_is_another_ones_or_taken_for_whole_under_every_fault() {
    for_seeds(700, |seed| run(seed, Faults::all(seed)));
}
