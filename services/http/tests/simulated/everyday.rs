//! Clients with many requests of every kind, in pieces, one behind the other, under faults: each is answered once and in order, or the connection's ending
//! explains it.

use super::answers::{answers, text};
use super::for_seeds;
use super::rig::{MS, Rig, RigPlan, Talker, patient};
use super::shop::{Shop, pattern, sum};
use corelane::admin::watch::{LaneCounter, ServiceCounter as C};
use corelane::service::Limits;
use corelane::testing::{FaultCounts, FaultKind, Faults, Random, Report, World};
use corelane_http::Http;
use corelane_http::http1::Method;

pub const CLIENTS: u64 = 4;

/// A request and what is due for it.
pub struct Question {
    request: Vec<u8>,
    method: Method<'static>,
    status: u16,
    content: Vec<u8>,
}

/// Content as a request sends it: by its length, or in chunks with extensions and trailers.
fn framed(random: &mut Random, head: &str, content: &[u8]) -> Vec<u8> {
    if random.below(2) == 0 {
        return [format!("{head}Content-Length: {}\r\n\r\n", content.len()).as_bytes(), content].concat();
    }
    let mut request = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    let mut rest = content;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(random.one_to(rest.len().min(20_000)));
        let extension = if random.below(4) == 0 { ";a=\"b\"" } else { "" };
        request.extend_from_slice(format!("{:x}{extension}\r\n", piece.len()).as_bytes());
        request.extend_from_slice(piece);
        request.extend_from_slice(b"\r\n");
        rest = behind;
    }
    let end: &[u8] = if random.below(4) == 0 { b"0\r\nSum: 1\r\n\r\n" } else { b"0\r\n\r\n" };
    request.extend_from_slice(end);
    request
}

fn question(random: &mut Random, number: u64) -> Question {
    let most = [100, 100, 100, 100, 5_000, 40_000, 200_000][random.below(7) as usize];
    let bytes = random.below(most) as usize;
    let head = |method: &str, path: &str| {
        let long = if number.is_multiple_of(7) { format!("Long: {}\r\n", "x".repeat(3_000)) } else { String::new() };
        format!("{method} {path} HTTP/1.1\r\nHost: shop\r\n{long}")
    };
    let whole = |method, request, status, content| Question { request, method, status, content };
    let get = |path: &str| {
        let request = format!("{}\r\n", head("GET", &format!("{path}/{bytes}"))).into_bytes();
        whole(Method::Get, request, 200, pattern(bytes))
    };
    let content = pattern(bytes);
    match random.below(14) {
        0 | 1 => get("/now"),
        2 => get("/later"),
        3 => get("/wait"),
        4 => get("/sized"),
        5 => get("/chunks"),
        6 => get("/late"),
        7 => {
            let paths = ["/now", "/sized", "/later", "/wait", "/chunks"];
            let path = paths[random.below(paths.len() as u64) as usize];
            whole(Method::Head, format!("{}\r\n", head("HEAD", &format!("{path}/{bytes}"))).into_bytes(), 200, Vec::new())
        }
        8 | 9 => {
            let path = if random.below(2) == 0 { "/sum" } else { "/drip" };
            let due = format!("{} {:x}", content.len(), sum(0, &content)).into_bytes();
            whole(Method::Put, framed(random, &head("PUT", path), &content), 200, due)
        }
        10 | 11 => {
            let path = if random.below(2) == 0 { "/echo" } else { "/talk" };
            whole(Method::Post, framed(random, &head("POST", path), &content), 200, content)
        }
        12 => {
            let content = &content[..bytes.min(60_000)];
            whole(Method::Post, framed(random, &head("POST", "/ignore"), content), 200, b"ignored".to_vec())
        }
        _ => whole(Method::Get, format!("{}\r\n", head("GET", "/nowhere")).into_bytes(), 404, b"404 Not Found\n".to_vec()),
    }
}

pub fn questions(seed: u64) -> (Vec<Question>, Vec<u8>) {
    let mut random = Random::new(seed);
    let mut questions: Vec<_> = (0..random.one_to(30) as u64).map(|number| question(&mut random, number)).collect();
    // The last one may ask for the end.
    if random.below(3) == 0 {
        let request = if random.below(2) == 0 {
            b"GET /chunks/7000 HTTP/1.0\r\n\r\n".to_vec()
        } else {
            b"GET /chunks/7000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec()
        };
        questions.push(Question { request, method: Method::Get, status: 200, content: pattern(7_000) });
    }
    let stream = questions.iter().flat_map(|question| question.request.clone()).collect();
    (questions, stream)
}

/// Every answer is right and in order; if all was heard to the end, none is missing. Where a server behind `may_fail`, the client is told so.
pub fn judge(questions: &[Question], talker: &Talker, is_whole: bool, may_fail: bool) {
    let methods: Vec<_> = questions.iter().map(|question| question.method).collect();
    let (heard, rest, interim) = answers(&talker.got, &methods, is_whole);
    for (question, heard) in questions.iter().zip(&heard) {
        // The server behind was lost.
        if may_fail && matches!(heard.status, 502..=504) {
            continue;
        }
        // Nothing was kept for it, and there was no memory when it was to be answered.
        if heard.status == 503 && text(&question.request).contains(" /later/") {
            continue;
        }
        assert_eq!(question.status, heard.status, "{} {}", text(&question.request), text(&heard.content));
        assert!(question.content == heard.content, "{}: {}", text(&question.request), text(&heard.content));
    }
    assert_eq!(interim, 0, "nobody waited for 100 (Continue)");
    // A client that was answered before its content was read is told that it is the last answer, unless the content is in chunks: how much is to come shows only then.
    let is_cut = may_fail && heard.last().is_some_and(|heard| heard.is_last || matches!(heard.status, 502..=504));
    let all = heard.len() == questions.len() && rest.is_empty() || is_cut;
    assert!(all || !is_whole, "{} of {} requests are answered; then {}", heard.len(), questions.len(), text(rest));
}

/// Bounds that a run meets often.
pub fn tight(random: &mut Random) -> Limits {
    patient().requests_in_flight_max(random.one_to(12) as u32).output_high(random.one_to(300_000))
}

fn run(seed: u64, faults: Faults) -> Report {
    let world = World::new(seed, faults);
    let mut random = Random::new(seed);
    let (lanes, limits) = (random.one_to(3), tight(&mut random));
    let mut rig = Rig::serving(&world, &RigPlan::lanes(lanes).memory(16 << 20), limits, |_| Http::new(Shop::default()));
    let (questions, streams): (Vec<_>, Vec<_>) = (0..CLIENTS).map(|number| questions(seed * 100 + number)).unzip();
    let talker = |(number, stream)| {
        let mut talker = Talker::new(rig.connect(number), seed, stream);
        if seed.is_multiple_of(3) {
            talker.read_most = 1 + seed as usize % 5_000;
        }
        talker
    };
    let mut talkers: Vec<Talker> = streams.into_iter().enumerate().map(talker).collect();
    let drains_early = seed.is_multiple_of(5);
    match drains_early {
        true => rig.pass(random.time_below(20 * MS), &mut talkers),
        false => assert!(rig.play(&mut talkers), "clients wait for ever"),
    }
    rig.close(&mut talkers);
    for (talker, questions) in talkers.iter().zip(&questions) {
        judge(questions, talker, talker.is_complete() && !drains_early, false);
        assert!(talker.is_complete() || faults != Faults::none() || drains_early, "{:?}", talker.end);
    }
    let never = ["panics", "heads_refused", "contents_refused", "answers_cut_short", "record_max_hits"];
    assert_eq!(never.map(|counter| rig.named(counter)), [0; 5]);
    if faults == Faults::none() && !drains_early {
        let requests = questions.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!((rig.count(C::Requests), rig.count(C::AnswersLate)), (requests, 0));
        assert_eq!(rig.named("answers_2xx") + rig.named("answers_4xx"), requests, "no answer is 503 where nothing is short");
        assert_eq!(rig.lane_count(LaneCounter::MemoryLimitHits), 0);
    }
    world.report()
}

#[test]
fn every_request_is_answered_once_and_in_order() {
    for_seeds(100, |seed| {
        run(seed, Faults::none());
    });
}

#[test]
fn every_request_is_answered_or_the_ending_explains_it_under_every_fault() {
    for_seeds(250, |seed| {
        run(seed, Faults::all(seed));
    });
}

#[test]
fn every_fault_of_connections_happens_and_the_same_seed_gives_the_same_run() {
    let mut all = FaultCounts::default();
    for_seeds(20, |seed| {
        let report = run(seed, Faults::all(seed));
        assert_eq!(report, run(seed, Faults::all(seed)), "seed {seed}");
    });
    (0..120).for_each(|seed| all.add(&run(seed, Faults::all(seed)).faults));
    let is_elsewhere = |name: &str| ["datagram", "file", "pipe", "bridge"].iter().any(|what| name.contains(what));
    let never = FaultKind::ALL.into_iter().filter(|&kind| all.of(kind) == 0).map(FaultKind::name);
    let never: Vec<_> = never.filter(|name| !is_elsewhere(name)).collect();
    assert!(never.is_empty(), "{never:?} never happened");
}
