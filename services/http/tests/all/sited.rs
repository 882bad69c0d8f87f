//! Several sites at one place, each with upstreams, rules or files of its own, by the real drivers.

use corelane::Lanes;
use corelane::lanes::{DriverChoice, Running};
use corelane_http::ENTRY;
use corelane_upstreams::{Page, Row};
use serde_json::from_str;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub const DRIVERS: [DriverChoice; 2] = [DriverChoice::Epoll, DriverChoice::Uring];
const PATIENCE: Duration = Duration::from_secs(60);

pub fn serving(driver: DriverChoice, options: &str) -> Running {
    let place = format!("http://127.0.0.1:0?{options}");
    Lanes::per_core().lanes(1).driver(driver).serve_entry(&ENTRY, &place).unwrap().start().unwrap()
}

pub fn address(running: &Running) -> String {
    running.places()[0].url.to_string().split_once("://").unwrap().1.to_owned()
}

/// One request and its whole answer, on a connection that stays.
pub fn ask(stream: &mut TcpStream, target: &str, host: &str) -> String {
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let length = |head: &str| head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
    loop {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "it was cut: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..read]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, content)) = text.split_once("\r\n\r\n") else { continue };
        if length(head).is_some_and(|length| content.len() >= length) {
            return text.into_owned();
        }
    }
}

pub fn connect(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(address(running)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// How long the content is, or the status of an error: each upstream has a length of its own.
pub fn came(answer: &str) -> String {
    let status = answer.split(' ').nth(1).unwrap();
    let length = answer.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    if status == "200" { length.to_owned() } else { status.to_owned() }
}

pub fn rows(running: &Running, words: &str) -> Vec<Row> {
    let answers = running.services().ask_one(0, words, PATIENCE).unwrap();
    answers.iter().flat_map(|one| from_str::<Page>(&one.answer).unwrap().rows).collect()
}

pub fn told(running: &Running, words: &str) -> String {
    running.services().ask_one(0, words, PATIENCE).unwrap()[0].answer.clone()
}

#[test]
fn each_host_has_its_own_upstreams_rules_and_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "folder").unwrap();
    for driver in DRIVERS {
        let behind = [8, 9].map(|bytes| serving(driver, &format!("reply={bytes}")));
        let [first, second] = behind.each_ref().map(address);
        let options = format!(
            "host=shop.example,*.shop.example&to={first}&field=/*=X-A: 1&redirect=/old=/new&host=docs.example&root={}&field=/*=X-B: 2\
             &host=[::1],other.example&to={second}",
            folder.path().display()
        );
        let running = serving(driver, &options);
        let mut stream = connect(&running);
        for (target, host, expected) in [
            ("/", "shop.example", "8"),
            ("/", "SHOP.Example:8080", "8"),
            ("/", "shop.example.", "8"),
            ("/", "a.b.shop.example.:1", "8"),
            ("/old/x", "shop.example", "308"),
            ("/a.txt", "docs.example", "6"),
            ("/none", "docs.example", "404"),
            ("/old/x", "other.example", "9"),
            ("/", "[::1]:80", "9"),
            ("/", "unknown.example", "421"),
            ("/", "example", "421"),
            // The target precedes the field (RFC 9112 section 3.2.2).
            ("http://other.example/", "shop.example", "9"),
            ("http://shop.example/", "unknown.example", "8"),
            ("http://unknown.example/", "shop.example", "421"),
        ] {
            let answer = ask(&mut stream, target, host);
            assert_eq!(came(&answer), expected, "{target} of {host}: {answer}");
            let rules = ["X-A: 1", "X-B: 2"].map(|line| answer.lines().any(|found| found == line));
            let is_shop = matches!(expected, "8" | "308");
            assert_eq!(rules, [is_shop, matches!(expected, "6" | "404")], "{target} of {host}: {answer}");
        }
    }
}

#[test]
fn hosts_of_no_site_have_what_stands_before_them() {
    let behind = [8, 9].map(|bytes| serving(DriverChoice::Epoll, &format!("reply={bytes}")));
    let [first, second] = behind.each_ref().map(address);
    let running = serving(DriverChoice::Epoll, &format!("to={first}&field=/*=X-A: 1&host=shop.example&to={second}"));
    let mut stream = connect(&running);
    let answers = ["shop.example", "unknown.example"].map(|host| ask(&mut stream, "/", host));
    assert_eq!(answers.each_ref().map(|answer| came(answer)), ["9", "8"]);
    assert_eq!(answers.map(|answer| answer.contains("X-A: 1")), [false, true]);
    write!(stream, "GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(came(&answer), "8", "HTTP/1.0 names no host: {answer}");
}

#[test]
fn upstreams_are_shown_with_their_sites_and_changed_by_site() {
    let behind = [8, 9].map(|bytes| serving(DriverChoice::Epoll, &format!("reply={bytes}")));
    let [first, second] = behind.each_ref().map(address);
    let sites = "host=a.example&to=@&field=/*=X-A: 1&host=b.example&to=@".replace('@', &first);
    let running = serving(DriverChoice::Epoll, &sites);
    let mut stream = connect(&running);
    let shown =
        || rows(&running, "upstreams show 0 4096").into_iter().map(|row| (row.name, row.state.word())).collect::<Vec<_>>();
    let [a, b] = ["a.example", "b.example"].map(|site| format!("{site}/{first}"));
    assert_eq!(shown(), [(a.clone(), "up"), (b.clone(), "up")]);
    assert_eq!(told(&running, &format!("upstreams drain {a}")), "{\"named\":1}");
    assert_eq!(shown(), [(a, "drained"), (b, "up")]);
    let answers = ["a.example", "b.example"].map(|host| came(&ask(&mut stream, "/", host)));
    assert_eq!(answers, ["503", "8"]);
    assert_eq!(told(&running, &format!("upstreams enable {first}")), "{\"named\":2}");

    let changed = format!("options host=a.example&to={second}&redirect=/x=/y&host=b.example&to={first}&field=/*=X-B: 2");
    assert_eq!(told(&running, &changed), "true");
    let answers = ["a.example", "b.example"].map(|host| ask(&mut stream, "/", host));
    assert_eq!(answers.each_ref().map(|answer| came(answer)), ["9", "8"]);
    assert!(!answers[0].contains("X-A: 1") && answers[1].contains("X-B: 2"));
    assert_eq!(came(&ask(&mut stream, "/x", "a.example")), "308");
    // All of them, or none.
    for waits in [
        format!("options host=a.example&to={first}"),
        format!("options host=a.example&to={first}&host=b.example"),
        format!("options host=a.example&to={first}&host=b.example&to=tls://{first}"),
    ] {
        assert_eq!(told(&running, &waits), "false", "{waits}");
        assert_eq!(came(&ask(&mut stream, "/", "a.example")), "9");
    }
}

#[test]
fn other_hosts_are_answered_for_as_long_as_they_are_redirected() {
    for driver in DRIVERS {
        let behind = serving(driver, "reply=8");
        let site = format!("host=a.example&to={}", address(&behind));
        let running = serving(driver, &site);
        let mut stream = connect(&running);
        let mut came_for = |host: &str| ["/x", "/"].map(|target| came(&ask(&mut stream, target, host)));
        assert_eq!(came_for("b.example"), ["421", "421"]);
        for (redirects, expected) in
            [("redirect=/x=/y&", ["308", "404"]), ("", ["421", "421"]), ("redirect=/=/y&", ["308", "308"])]
        {
            assert_eq!(told(&running, &format!("options {redirects}{site}")), "true");
            assert_eq!(
                (came_for("b.example"), came_for("a.example")),
                (expected.map(str::to_owned), ["8", "8"].map(str::to_owned)),
                "{redirects}"
            );
        }
        // Options of the whole place make no difference.
        let running = serving(driver, &format!("cache-bytes=1MiB&redirect=/x=/y&{site}"));
        assert_eq!(came(&ask(&mut connect(&running), "/x", "b.example")), "308");
        // Where there are upstreams, they are there without redirects as well.
        let running = serving(driver, &format!("to={0}&redirect=/x=/y&{site}", address(&behind)));
        let mut stream = connect(&running);
        assert_eq!(told(&running, &format!("options to={0}&{site}", address(&behind))), "true");
        assert_eq!(came(&ask(&mut stream, "/x", "b.example")), "8");
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_site() {
    let of = |options: &str| Lanes::per_core().serve_entry(&ENTRY, &format!("http://127.0.0.1:0?{options}")).map(drop);
    for right in ["host=a&to=b:1", "redirect=https&host=a&to=b:1", "head-bytes=4KiB&host=a,*.a&root=/&host=b&redirect=/=/x"] {
        assert!(of(right).is_ok(), "{right}: {:?}", of(right));
    }
    let many: String = (0..256).map(|number| format!("&host=h{number}&redirect=/a=/b")).collect();
    for (wrong, option, said) in [
        ("host=a", "host", "nobody answers for a: write to=HOST:PORT, root=DIR or redirect=PATH=URL"),
        ("host=a,,b&to=c:1", "host", "a host is missing"),
        ("host=a:80&to=c:1", "host", "\"a:80\" is no host"),
        ("host=a&to=b:1&host=c,A&to=d:1", "host", "\"A\" is named twice"),
        ("host=a&to=b", "to", "of a: \"b\": write HOST:PORT"),
        ("host=a&to=b:1&root=/", "root", "of a: with to=HOST:PORT all requests are sent on"),
        ("host=a&to=b:1&head-bytes=4KiB", "head-bytes", "write it before the first host="),
        ("host=a&to=b:1&certificate=/x", "certificate", "of a: it means nothing without TLS"),
        ("field=/*=X: 1&host=a&to=b:1", "field", "nobody answers for these"),
        ("site=c:/&host=a&to=b:1", "site", "with host=NAME write root=DIR"),
        (&many[1..], "host", "there are 256 sites"),
    ] {
        let error = of(wrong).unwrap_err();
        let corelane::Error::Option { option: found, why, .. } = &error else { panic!("{wrong}: {error}") };
        assert!(found == option && why.contains(said), "{wrong}: {error}");
    }
}
