//! What clients get, whoever else is there.

use corelane::admin::watch::{
    Counter, CounterName, Description, Kind, LaneCounter, LaneHistogram, LaneName, LaneState, PacketCounter, Page, Reader,
    ServiceCounter, ServiceName,
};
use corelane_metrics::{CLIENTS_MAX, Listen, Metrics};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a test waits for anything.
const LONG: Duration = Duration::from_secs(60);

fn page(lanes: usize, services: usize) -> Page {
    let own = CounterName { name: "answers_2xx".into(), kind: Kind::Counter, unit: "answers".into() };
    let service =
        |i| ServiceName { name: format!("web{i}"), url: format!("tcp://[::]:{i}?a=\"b\\"), counters: vec![own.clone()] };
    let lane = LaneName { cpu: Some(0), driver: "sim".into(), steering: "table".into() };
    let page = Page::heap(&Description {
        services: (0..services).map(service).collect(),
        lanes: vec![lane; lanes],
        started_unix_nanoseconds: 1_700_000_000_500_000_000,
        ..Description::default()
    });
    let page = page.unwrap();
    (0..lanes).for_each(|lane| set(&page, lane, LaneState::Running, corelane::now().nanoseconds()));
    page
}

fn set(page: &Page, lane: usize, state: LaneState, last_turn: u64) {
    let row = page.lane(lane).unwrap();
    row.set(LaneCounter::LaneState, state as u64);
    row.set(LaneCounter::LastTurnNanoseconds, last_turn);
}

fn serve(page: &Page) -> (Metrics, SocketAddr) {
    serve_at(page, "127.0.0.1:0")
}

fn serve_at(page: &Page, place: &str) -> (Metrics, SocketAddr) {
    let listen = Listen { metrics: Some(place.parse().unwrap()), ..Listen::default() };
    let server = Metrics::start(Reader::of(page).unwrap(), &listen).unwrap();
    let (what, address) = server.places().next().unwrap();
    assert_eq!(what, "metrics");
    (server, address)
}

fn asked(address: SocketAddr, question: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(question.as_bytes()).unwrap();
    stream
}

/// The whole answer; none if the connection was broken off.
fn answer(mut stream: TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => (!bytes.is_empty()).then(|| String::from_utf8(bytes).unwrap()),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
        Err(error) => panic!("{error}"),
    }
}

fn get(address: SocketAddr, path: &str) -> String {
    get_as(address, path, "")
}

fn get_as(address: SocketAddr, path: &str, fields: &str) -> String {
    let stream = asked(address, &format!("GET {path} HTTP/1.1\r\nHost: here\r\n{fields}\r\n"));
    answer(stream).expect("who reads is answered")
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap()
}

#[test]
fn every_counter_is_told_once_by_its_name_and_with_its_value() {
    let page = page(2, 2);
    let row = page.lane(1).unwrap();
    row.add(LaneCounter::SpinNanoseconds, 1_500_000_000);
    row.set(LaneCounter::MemoryUsed, 4096);
    [700, 700, 5_000_000].iter().for_each(|&one| row.record(LaneHistogram::TurnNanoseconds, one));
    page.service(1, 0).unwrap().add(ServiceCounter::BytesIn, 77);
    page.steering().set("", &[0, 1, 1]);
    let polled = [(PacketCounter::NetworkNanoseconds, 2_500_000_000), (PacketCounter::PollingUserFrac, 30)];
    // A row without protocols is no row.
    page.packets(1).unwrap().together(|row| {
        row.set_protocols(1);
        polled.iter().for_each(|&(counter, value)| row.set(counter, value));
    });
    let (_server, address) = serve(&page);
    let answer =
        get_as(address, "/metrics", "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n");
    assert!(answer.contains("\r\ncontent-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"), "{answer}");
    let text = answer.split_once("\r\n\r\n").unwrap().1;
    assert!(text.ends_with("# EOF\n"));
    for line in [
        "corelane_lane_spin_seconds_total{lane=\"1\"} 1.5",
        "corelane_lane_memory_used_bytes{lane=\"1\"} 4096",
        "corelane_lane_buckets{lane=\"1\"} 2",
        "corelane_packets_network_seconds_total{lane=\"1\"} 2.5",
        "corelane_packets_polling_user_frac{lane=\"1\"} 30",
        "corelane_lane_stalled_seconds{lane=\"0\"} 0.0",
        "corelane_process_ready 1",
        "corelane_process_start_time_seconds 1700000000.5",
        "corelane_lane_turn_seconds_bucket{le=\"0.000001024\",lane=\"1\"} 2",
        "corelane_lane_turn_seconds_bucket{le=\"+Inf\",lane=\"1\"} 3",
        "corelane_lane_turn_seconds_count{lane=\"1\"} 3",
        "corelane_service_in_bytes_total{lane=\"1\",service=\"web0\",url=\"tcp://[::]:0?a=\\\"b\\\\\"} 77",
        "corelane_service_web1_answers_2xx_total{lane=\"0\",service=\"web1\",url=\"tcp://[::]:1?a=\\\"b\\\\\"} 0",
    ] {
        assert_eq!(text.lines().filter(|got| *got == line).count(), 1, "{line} is not in\n{text}");
    }
    let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let declared = LaneCounter::ALL.len() - 5 + ServiceCounter::ALL.len() + LaneHistogram::ALL.len() + PacketCounter::ALL.len();
    assert!(!text.contains("corelane_packets_network_seconds_total{lane=\"0\"}"), "it has no packets");
    assert_eq!(
        types.len(),
        declared + 7 + 2,
        "all but the five marks, seven that are told in other words, and two services' own"
    );
    assert!(types.iter().enumerate().all(|(at, one)| !types[..at].contains(one)), "each once");
}

/// The rules that `promtool check metrics` looks at (promlint): each family says what it is, and is called by what it counts.
#[test]
fn plain_text_is_told_to_who_does_not_ask_for_openmetrics_and_follows_the_rules_of_prometheus() {
    let page = page(2, 2);
    page.lane(1).unwrap().record(LaneHistogram::TurnNanoseconds, 700);
    page.packets(1).unwrap().together(|row| row.set_protocols(1));
    page.service(1, 0).unwrap().add(ServiceCounter::BytesIn, 77);
    let (_server, address) = serve(&page);
    let open = get_as(address, "/metrics", "Accept: application/openmetrics-text\r\n");
    for accept in ["", "Accept: */*\r\n", "Accept: text/plain;version=0.0.4\r\n"] {
        let answer = get_as(address, "/metrics", accept);
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n")
                && head.contains("\r\nvary: accept\r\n"),
            "{head}"
        );
        let is_sample = |line: &&str| !line.starts_with('#');
        assert_eq!(
            text.lines().filter(is_sample).count(),
            open.lines().skip_while(|line| !line.is_empty()).skip(1).filter(is_sample).count()
        );
        assert!(text.ends_with('\n') && !text.contains("# EOF") && !text.contains("# UNIT"));
        follows_promlint(text);
    }
}

/// Units that are no base units, or are cut short.
const ODD_UNITS: [&str; 14] = [
    "nanoseconds",
    "microseconds",
    "milliseconds",
    "minutes",
    "hours",
    "kilobytes",
    "percent",
    "ms",
    "us",
    "ns",
    "sec",
    "kb",
    "mb",
    "gb",
];

fn follows_promlint(text: &str) {
    let mut family = ("", "");
    let mut helped = "";
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => {
                assert!(!help.is_empty());
                helped = name;
            }
            ["#", "TYPE", name, kind] => {
                assert_eq!(helped, name, "its help stands before");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(["_count", "_sum", "_bucket"].iter().all(|end| !name.ends_with(end)), "{line}");
                let mut parts = name.split('_');
                assert!(
                    parts.all(|part| !ODD_UNITS.contains(&part) && !["counter", "gauge", "histogram"].contains(&part)),
                    "{line}"
                );
                family = (name, kind);
            }
            _ => {
                let name = line.split(['{', ' ']).next().unwrap();
                let end = name.strip_prefix(family.0).unwrap_or_else(|| panic!("{line} is none of {family:?}"));
                let ends: &[&str] = if family.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                assert!(ends.contains(&end) && (end == "_bucket") == line.contains("le=\""), "{line}");
            }
        }
    }
}

#[test]
fn many_services_on_many_lanes_are_told_together() {
    let page = page(300, 2);
    (0..300).for_each(|lane| page.service(lane, 1).unwrap().add(ServiceCounter::Requests, 2));
    let (_server, address) = serve(&page);
    let text = get(address, "/metrics");
    assert!(
        text.contains("corelane_service_requests_total{lane=\"all\",service=\"web1\",url=\"tcp://[::]:1?a=\\\"b\\\\\"} 600\n")
    );
    assert!(text.len() < 8 << 20, "{}", text.len());
}

#[test]
fn it_is_ready_while_it_serves_and_lives_unless_it_stands_still_for_long() {
    let page = page(2, 1);
    let (_server, address) = serve(&page);
    let now = corelane::now().nanoseconds();
    let cases = [
        (LaneState::Starting, now, "200", "503", "lane 1 is starting"),
        (LaneState::Sleeping, 1, "200", "200", "ready"),
        (LaneState::Spinning, now, "200", "200", "ready"),
        (LaneState::Draining, now, "200", "503", "lane 1 is draining"),
        (LaneState::Ended, now, "200", "503", "lane 1 is ended"),
        (LaneState::Running, now.saturating_sub(5_000_000_000), "200", "200", "ready"),
        (LaneState::Running, now.saturating_sub(61_000_000_000).max(1), "503", "200", "ready"),
    ];
    for (state, last_turn, live, ready, words) in cases {
        set(&page, 0, LaneState::Running, corelane::now().nanoseconds());
        set(&page, 1, state, last_turn);
        let answers = ["/livez", "/readyz"].map(|path| get(address, path));
        assert_eq!((status(&answers[0]), status(&answers[1])), (live, ready), "{answers:?}");
        assert!(answers[1].contains(words), "{answers:?}");
        assert!(live == "200" || answers[0].contains("lane 1 has been in one turn for "), "{answers:?}");
    }
}

#[test]
fn a_lane_that_sleeps_while_it_drains_is_not_ready() {
    let page = page(2, 1);
    let (_server, address) = serve(&page);
    set(&page, 1, LaneState::Sleeping, corelane::now().nanoseconds());
    assert_eq!(status(&get(address, "/readyz")), "200");
    page.lane(1).unwrap().set(LaneCounter::DrainBeganNanoseconds, 7);
    let answer = get(address, "/readyz");
    assert!(status(&answer) == "503" && answer.contains("lane 1 is draining"), "{answer}");
}

#[test]
fn what_is_no_such_question_is_refused() {
    let (_server, address) = serve(&page(1, 1));
    assert!(get(address, "/").contains("there is /metrics /livez /readyz\n"));
    let refused = |question: &str| answer(asked(address, question)).unwrap_or_default();
    assert_eq!(status(&refused("POST /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\nabc")), "405");
    assert_eq!(status(&refused("nonsense\r\n\r\n")), "400");
    let long = "x".repeat(1 << 20);
    let mut stream = TcpStream::connect(address).unwrap();
    // It is not read to its end.
    let _ = stream.write_all(format!("GET /metrics HTTP/1.1\r\nLong: {long}\r\n\r\n").as_bytes());
    let said = answer(stream).unwrap_or_default();
    assert!(said.is_empty() || status(&said) == "431", "{said}");
    assert_eq!(status(&get(address, "/livez")), "200");
    // As a page of another site may have a browser do, whose name it has mean this address.
    let rebound = refused("GET /metrics HTTP/1.1\r\nHost: evil.example:9100\r\n\r\n");
    assert!(status(&rebound) == "421" && !rebound.contains("corelane_"), "{rebound}");
}

/// As many as there may be who ask for much and read nothing.
fn stuck(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| asked(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")).collect()
}

#[test]
fn who_never_reads_makes_room_for_those_who_do() {
    // An answer is larger than what the system holds for a reader.
    let page = page(250, 2);
    let (_server, address) = serve(&page);
    let stuck = stuck(address, CLIENTS_MAX);
    let silent: Vec<TcpStream> = (0..CLIENTS_MAX).map(|_| asked(address, "GET")).collect();
    for _ in 0..3 {
        assert_eq!(status(&get(address, "/livez")), "200");
    }
    // Room was made by those who have been there longest, not by all whose time is up.
    let last = silent.last().unwrap();
    last.set_nonblocking(true).unwrap();
    assert_eq!(last.peek(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop((stuck, silent));
}

#[test]
fn a_thousand_who_ask_at_once_are_all_answered() {
    let (_server, address) = serve(&page(2, 1));
    // All of them have asked before the first one reads.
    for stream in stuck(address, 1000) {
        let said = answer(stream).unwrap_or_default();
        assert!(
            said.starts_with("HTTP/1.1 200") && said.ends_with("\n") && said.contains("corelane_process_ready 1\n"),
            "{said}"
        );
    }
}

#[test]
fn an_end_breaks_off_who_is_there_and_frees_the_address() {
    let page = page(1, 1);
    // An address that no other test uses, so that nobody else takes the port.
    let (server, address) = serve_at(&page, "127.0.0.13:0");
    let waiting = asked(address, "GET /met");
    assert_eq!(status(&get(address, "/readyz")), "200");
    drop(server);
    assert_eq!(answer(waiting), None);
    // A program that another test starts has a copy of the listener until it begins.
    let give_up = Instant::now() + LONG;
    let taken = loop {
        let is_gone = TcpStream::connect(address).is_err();
        match std::net::TcpListener::bind(address) {
            Ok(taken) if is_gone => break taken,
            found => assert!(Instant::now() < give_up, "the address is not free: {found:?}"),
        }
        std::thread::yield_now();
    };
    let again = Listen { metrics: Some(address), ..Listen::default() };
    let error = Metrics::start(Reader::of(&page).unwrap(), &again).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    drop(taken);
}

#[test]
fn a_half_closed_client_is_answered() {
    let (_server, address) = serve(&page(1, 1));
    let stream = asked(address, "GET /livez HTTP/1.0\r\n\r\n");
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(status(&answer(stream).unwrap_or_default()), "200");
}
