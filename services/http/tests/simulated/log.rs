//! The access log: a line for each answer, whatever becomes of it.

use super::answers::answers;
use super::for_seeds;
use super::rig::{MS, Peer, Rig, RigPlan, S, Talker, patient};
use super::shop::Shop;
use corelane::service::Limits;
use corelane::testing::{Faults, Random, World};
use corelane_http::http1::Method;
use corelane_http::{AccessLog, Http, LogFormat};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// A log that goes with its test.
struct Logged {
    log: AccessLog,
    path: PathBuf,
    _folder: TempDir,
}

impl Logged {
    fn new(format: LogFormat) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        Self { log: AccessLog::open(&path, format).unwrap(), path, _folder: folder }
    }

    fn rig(&self, world: &World, lanes: usize) -> Rig {
        self.rig_within(world, lanes, patient())
    }

    fn rig_within(&self, world: &World, lanes: usize, limits: Limits) -> Rig {
        let plan = RigPlan::lanes(lanes).memory(16 << 20);
        Rig::serving(world, &plan, limits, |_| Http::new(Shop::default()).log(&self.log))
    }

    /// What was logged so far.
    fn lines(&self) -> Vec<String> {
        self.log.journal().flush();
        // The first line makes the file.
        let text = if self.path.exists() { fs::read_to_string(&self.path).unwrap() } else { String::new() };
        text.lines().map(str::to_owned).collect()
    }
}

/// Request line, status, bytes and end of a line.
fn parts(line: &str) -> (String, u16, u64, String) {
    let quoted: Vec<&str> = line.split('"').collect();
    let sent: Vec<&str> = quoted[2].split_whitespace().collect();
    let end = line.rsplit(' ').next().unwrap();
    (quoted[1].to_owned(), sent[0].parse().unwrap(), sent[1].parse().unwrap(), end.to_owned())
}

fn is(line: &str, request: &str, status: u16, bytes: u64, end: &str) {
    let expected = (request.to_owned(), status, bytes, end.to_owned());
    assert_eq!(parts(line), expected, "{line}");
}

/// A client that says this, and what it hears.
fn say(rig: &mut Rig, peer: Peer, text: &str) -> Vec<u8> {
    let mut talkers = vec![Talker::new(peer, 1, text.as_bytes().to_vec())];
    assert!(rig.play(&mut talkers));
    talkers.remove(0).got
}

#[test]
fn answers_of_every_kind_have_their_line() {
    let logged = Logged::new(LogFormat::Combined);
    let world = World::new(1, Faults::none());
    let mut rig = logged.rig(&world, 1);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let paths = ["/now/10", "/now/10", "/later/20", "/wait/30", "/late/40", "/sized/7000", "/chunks/8000", "/nowhere"];
    let requests: String = paths.iter().map(|path| get(path)).collect();
    let head = "HEAD /sized/9 HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde";
    let last = "PUT /sum HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde";
    let peer = rig.connect(0);
    say(&mut rig, peer, &format!("{requests}{head}{post}{last}"));
    let mut lines = logged.lines();
    // What is held has its line when it is answered.
    lines.sort_by_key(|line| parts(line).0);
    let due = [
        ("GET /chunks/8000 HTTP/1.1", 200, 8000, "+"),
        ("GET /late/40 HTTP/1.1", 200, 40, "+"),
        ("GET /later/20 HTTP/1.1", 200, 20, "+"),
        ("GET /now/10 HTTP/1.1", 200, 10, "+"),
        ("GET /now/10 HTTP/1.1", 200, 10, "+"),
        ("GET /nowhere HTTP/1.1", 404, 14, "+"),
        ("GET /sized/7000 HTTP/1.1", 200, 7000, "+"),
        ("GET /wait/30 HTTP/1.1", 200, 30, "+"),
        ("HEAD /sized/9 HTTP/1.1", 200, 0, "+"),
        ("POST /echo HTTP/1.1", 200, 5, "+"),
    ];
    let (last, lines) = lines.split_last().unwrap();
    assert_eq!(lines.len(), due.len(), "{lines:#?}");
    due.iter().zip(lines).for_each(|((request, status, bytes, end), line)| is(line, request, *status, *bytes, end));
    assert!(matches!(parts(last), (request, 200, 3.., end) if request == "PUT /sum HTTP/1.1" && end == "-"), "{last}");
    assert_eq!((rig.named("log_lines"), rig.named("log_lines_dropped")), (11, 0));
}

#[test]
fn who_is_refused_or_cut_short_has_a_line_that_says_so() {
    let logged = Logged::new(LogFormat::Combined);
    let world = World::new(2, Faults::none());
    let mut rig = logged.rig(&world, 1);
    for (text, line, status, bytes, end) in [
        ("GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1", 400, 1.., "+-"),
        ("GARBAGE\r\n\r\n", "GARBAGE", 400, 1.., "-"),
        ("GET /short/5000 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /short/5000 HTTP/1.1", 200, 5000.., "X"),
        ("GET /slow/9 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /slow/9 HTTP/1.1", 200, 9.., "+"),
        ("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n", "POST /echo HTTP/1.1", 413, 1.., "-"),
        ("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "POST /echo HTTP/1.1", 400, 1.., "-"),
        ("PUT /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nazz\r\n", "PUT /sum HTTP/1.1", 400, 1.., "-"),
    ] {
        let before = logged.lines().len();
        let peer = rig.connect(0);
        say(&mut rig, peer, text);
        rig.wait(200 * MS);
        let lines = logged.lines();
        assert_eq!(lines.len(), before + 1, "{text:?}: {lines:#?}");
        let (request, heard, sent, ending) = parts(&lines[before]);
        assert!(request == line && heard == status && bytes.contains(&sent) && end.contains(&ending), "{}", lines[before]);
    }
}

#[test]
fn who_does_not_send_the_rest_has_a_line() {
    let logged = Logged::new(LogFormat::Combined);
    let world = World::new(3, Faults::none());
    let mut rig = logged.rig_within(&world, 1, patient().read_limit(Duration::from_secs(30)));
    for (number, text) in [
        "GET /a HTTP/1.1\r\nHost: a\r\n",
        "GE",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
        "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
    ]
    .into_iter()
    .enumerate()
    {
        let peer = rig.connect(number);
        rig.wait(MS);
        peer.send(text.as_bytes());
        rig.wait(29 * S);
        assert_eq!((logged.lines().len(), peer.read(usize::MAX).len()), (number, 0), "{text:?}");
        rig.wait(2 * S);
        let heard = String::from_utf8(peer.read(usize::MAX)).unwrap();
        assert!(heard.starts_with("HTTP/1.1 408 Request Timeout\r\n") && heard.contains("Connection: close"), "{heard}");
        let content = heard.split_once("\r\n\r\n").unwrap().1.len() as u64;
        is(&logged.lines()[number], text.split("\r\n").next().unwrap(), 408, content, "-");
        peer.close();
    }
}

#[test]
fn who_leaves_before_the_answer_is_logged_as_gone() {
    let logged = Logged::new(LogFormat::Combined);
    let world = World::new(3, Faults::none());
    let mut rig = logged.rig(&world, 1);
    let unfinished = "HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab";
    for (number, request) in ["POST /echo", "PUT /sum"].into_iter().enumerate() {
        let peer = rig.connect(0);
        say(&mut rig, peer, &format!("{request} {unfinished}"));
        is(&logged.lines()[number], &format!("{request} HTTP/1.1"), 499, 0, "X");
    }
    let request = "GET /flood/50000000 HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut talkers = vec![Talker::new(rig.connect(0), 1, request.as_bytes().to_vec())];
    talkers[0].read_most = 1_000;
    while talkers[0].got.len() < 10_000 {
        rig.pass(MS, &mut talkers);
    }
    talkers[0].peer.reset();
    rig.wait(500 * MS);
    let lines = logged.lines();
    let (_, status, bytes, end) = parts(&lines[2]);
    assert!((status, end.as_str()) == (200, "X") && (9_000..50_000_000).contains(&bytes), "{lines:#?}");
    assert_eq!(rig.named("log_lines"), 3);
}

#[test]
fn an_answer_that_comes_too_late_is_logged_as_what_was_sent_when_its_time_was_up() {
    let logged = Logged::new(LogFormat::Combined);
    let mut rig = logged.rig(&World::new(5, Faults::none()), 1);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let peer = rig.connect(0);
    let heard = say(&mut rig, peer, &get("/never"));
    assert!(heard.starts_with(b"HTTP/1.1 503 "), "{}", String::from_utf8_lossy(&heard));
    let lines = logged.lines();
    assert_eq!(lines.len(), 1, "it has its line when it is sent: {lines:#?}");
    is(&lines[0], "GET /never HTTP/1.1", 503, 0, "-");
    let peer = rig.connect(0);
    say(&mut rig, peer, &get("/release"));
    let lines = logged.lines();
    assert_eq!(lines.len(), 2, "and no other one: {lines:#?}");
    is(&lines[1], "GET /release HTTP/1.1", 200, 8, "+");
    assert_eq!(["answers_2xx", "answers_5xx", "log_lines"].map(|name| rig.named(name)), [1, 1, 2]);
}

#[test]
fn what_no_memory_is_lent_for_is_logged_and_counted_as_the_503_that_was_sent() {
    let logged = Logged::new(LogFormat::Combined);
    let mut rig = logged.rig(&World::new(6, Faults::none()), 1);
    let peer = rig.connect(0);
    let heard = say(&mut rig, peer, "GET /later/20000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(heard.starts_with(b"HTTP/1.1 503 "), "{} bytes", heard.len());
    let lines = logged.lines();
    is(&lines[0], "GET /later/20000000 HTTP/1.1", 503, 0, "+");
    assert_eq!(["answers_2xx", "answers_5xx", "log_lines"].map(|name| rig.named(name)), [0, 1, 1]);
}

/// Requests of many kinds under every fault: a client never hears an answer that has no line.
#[test]
fn every_answer_that_was_heard_was_logged_under_every_fault() {
    for_seeds(100, |seed| {
        let logged = Logged::new(LogFormat::Combined);
        let world = World::new(seed, Faults::all(seed));
        let mut random = Random::new(seed);
        let mut rig = logged.rig(&world, random.one_to(2));
        let paths: Vec<String> = (0..20)
            .map(|number| format!("/{}/{number}", ["now", "later", "wait", "late", "sized", "chunks"][random.below(6) as usize]))
            .collect();
        let requests: String = paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
        let mut talkers = vec![Talker::new(rig.connect(0), seed, requests.into_bytes())];
        rig.play(&mut talkers);
        rig.close(&mut talkers);
        let (heard, ..) = answers(&talkers[0].got, &[Method::Get; 20], false);
        let lines: Vec<_> = logged.lines().iter().map(|line| parts(line)).collect();
        for (number, heard) in heard.iter().enumerate() {
            let request = format!("GET {} HTTP/1.1", paths[number]);
            let due = (request, heard.status, heard.content.len() as u64);
            // A line that was lent no memory until its answer does not say what was asked for.
            let is_it = |line: &str| line == due.0 || line == "...";
            let found = lines.iter().filter(|(line, status, bytes, _)| is_it(line) && (*status, *bytes) == (due.1, due.2));
            let exact = found.clone().filter(|(line, ..)| *line == due.0).count();
            assert!(exact == 1 || exact == 0 && found.count() > 0, "{due:?}: {lines:#?}");
        }
        assert_eq!(lines.iter().filter(|(line, ..)| line == "...").count() as u64, rig.named("log_lines_cut"));
        assert!(lines.len() <= paths.len(), "nothing is logged twice: {lines:#?}");
        assert_eq!(rig.named("log_lines"), lines.len() as u64);
    });
}

#[test]
fn lines_that_find_no_room_are_dropped_and_counted_and_nobody_waits() {
    let logged = Logged::new(LogFormat::Json);
    let world = World::new(4, Faults::none());
    let mut rig = logged.rig(&world, 1);
    let request = format!("GET /now/1 HTTP/1.1\r\nHost: a\r\nUser-Agent: {}\r\n\r\n", "u".repeat(500));
    let asked = 1_000;
    let peer = rig.connect(0);
    let got = say(&mut rig, peer, &request.repeat(asked));
    let (heard, ..) = answers(&got, &vec![Method::Get; asked], false);
    assert_eq!(heard.len(), asked, "all are answered");
    let lines = logged.lines();
    assert!(lines.len() > 300 && lines.len() < asked, "{}", lines.len());
    assert_eq!((rig.named("log_lines"), rig.named("log_lines_dropped")), (asked as u64, (asked - lines.len()) as u64));
}
