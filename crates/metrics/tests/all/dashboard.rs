//! The page in a browser, and the stream behind it.

use crate::browser::{ask, browse, get, seen, serve_pages};
use corelane::admin::watch::{
    Description, LaneCounter, LaneHistogram, LaneName, LaneState, Page, ProcessId, Reader, ServiceCounter, ServiceName,
};
use corelane_metrics::{Listen, Metrics};
use corelane_testkit::{is_installed, skip};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Two lanes, one of which has stood still for five seconds, with a service whose name would be a script where it is believed.
fn page() -> Page {
    let service =
        |name: &str| ServiceName { name: name.into(), url: format!("tcp://[::]:7?{}", "x".repeat(90)), counters: Vec::new() };
    let lane = |cpu| LaneName { cpu: Some(cpu), driver: "sim".into(), steering: "table".into() };
    let page = Page::heap(&Description {
        program: "example 1.0".into(),
        process: ProcessId { pid: 4711, ..ProcessId::default() },
        services: vec![service("echo"), service("<img src=x onerror=executed=1>")],
        lanes: (0..2).map(lane).collect(),
        connections: 8,
        ..Description::default()
    });
    let page = page.unwrap();
    // The second is on the lane that its bucket does not name.
    let rows = page.connections(1).unwrap();
    rows.open(0, Some(0x2b), corelane::now().nanoseconds());
    rows.open(1, Some(0x2a), corelane::now().nanoseconds());
    page.steering().set("", &(0..128).map(|bucket| bucket % 2).collect::<Vec<u16>>());
    let now = corelane::now().nanoseconds();
    for (number, state, since) in [(0, LaneState::Sleeping, 1_000_000), (1, LaneState::Running, 5_000_000_000)] {
        let row = page.lane(number).unwrap();
        row.set(LaneCounter::LaneState, state as u64);
        row.set(LaneCounter::LastTurnNanoseconds, now.saturating_sub(since).max(1));
    }
    page
}

/// Counts as if there were load.
fn work(page: &Page) {
    for number in 0..2 {
        page.lane(number).unwrap().record_many(LaneHistogram::RequestNanoseconds, 8_000, 1000);
        page.service(number, 0).unwrap().add(ServiceCounter::Requests, 1000);
    }
}

fn serve(page: &Page) -> (Metrics, SocketAddr) {
    let listen = Listen { dashboard: Some("127.0.0.1:0".parse().unwrap()), ..Listen::default() };
    let server = Metrics::start(Reader::of(page).unwrap(), &listen).unwrap();
    let (what, address) = server.places().next().unwrap();
    assert_eq!(what, "dashboard");
    (server, address)
}

/// The looks of a stream, as they come.
fn events(address: SocketAddr) -> impl Iterator<Item = Value> {
    let lines = BufReader::new(ask(address, "/events")).lines().map_while(Result::ok);
    lines.filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).unwrap()))
}

#[test]
fn each_second_is_an_event_and_becomes_history() {
    let page = page();
    let (_server, address) = serve(&page);
    let mut events = events(address);
    let first = events.next().unwrap();
    assert_eq!((&first["pid"], first["lanes"].as_array().unwrap().len()), (&4711.into(), 2));
    assert!(first["lanes"][1]["stalled_s"].as_f64().unwrap() >= 5.0 && first["lanes"][0]["stalled_s"].is_null(), "{first}");
    work(&page);
    let second = events.find(|look| look["sample"][1].as_f64().unwrap_or(0.0) > 0.0).unwrap();
    assert!(second["sample"][3].as_f64().unwrap() > 8.0, "in microseconds: {second}");
    let past: Value = serde_json::from_str(&get(address, "/history").1).unwrap();
    assert!(past.as_array().unwrap().iter().any(|sample| *sample == second["sample"]), "{past}");
}

#[test]
fn the_page_may_ask_only_this_server_and_is_alone_at_its_address() {
    let (_server, address) = serve(&page());
    let (head, body) = get(address, "/");
    assert!(
        head.starts_with("HTTP/1.0 200") && head.contains("default-src 'none'") && head.contains("frame-ancestors 'none'"),
        "{head}"
    );
    let outside = ["http://", "https://", "//cdn", "@import", "url("];
    let loads = |body: &str| outside.iter().any(|one| body.replace("http://www.w3.org/2000/svg", "").contains(one));
    assert!(!loads(&body), "nothing from outside");
    assert!(get(address, "/metrics").0.starts_with("HTTP/1.0 404"), "metrics were not asked for here");
    assert!(loads("<script src=https://x>"));
}

#[test]
fn streams_are_bounded_and_leave_room_for_others() {
    let (_server, address) = serve(&page());
    let streams: Vec<TcpStream> = (0..16).map(|_| ask(address, "/events")).collect();
    for stream in &streams {
        let mut first = [0; 12];
        stream.try_clone().unwrap().read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.0 200");
    }
    assert!(get(address, "/look").0.starts_with("HTTP/1.0 200"));
    // One more of the same address takes the place of its oldest, and of nobody else.
    let mut next = ask(address, "/events");
    next.read_exact(&mut [0; 12]).unwrap();
    let mut ended = Vec::new();
    let _ = (&streams[0]).read_to_end(&mut ended);
    let mut more = [0; 1 << 16];
    assert!((&streams[1]).read(&mut more).unwrap() > 0 && next.read(&mut more).unwrap() > 0, "the others look on");
}

#[test]
fn a_thousand_who_read_nothing_leave_room_for_who_does() {
    let (_server, address) = serve(&page());
    let paths = ["/events", "/history", "/look", "/"];
    let crowd: Vec<TcpStream> = (0..1000).map(|number| ask(address, paths[number % paths.len()])).collect();
    for path in ["/look", "/history", "/"] {
        assert!(get(address, path).0.starts_with("HTTP/1.0 200"), "{path}");
    }
    drop(crowd);
}

/// Serves the dashboard for frames. The streams end at once, so that the browser's clock does not wait for them; or are refused. Counts how often the last look
/// is asked for.
fn frames(dashboard: SocketAddr, has_streams: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let looks = Arc::new(AtomicUsize::new(0));
    let counts = looks.clone();
    let address = serve_pages(move |path| {
        counts.fetch_add(usize::from(path == "/look"), Ordering::Relaxed);
        match path {
            "/events" => has_streams.then(String::new),
            path => Some(get(dashboard, path).1),
        }
    });
    (address, looks)
}

#[test]
fn it_is_legible_on_wide_and_narrow_screens_by_day_and_by_night() {
    let name = "it_is_legible_on_wide_and_narrow_screens_by_day_and_by_night";
    if !is_installed("chromium") {
        return skip(name, "chromium is not installed");
    }
    let page = page();
    let (_server, address) = serve(&page);
    let mut looks = events(address);
    for _ in 0..3 {
        work(&page);
        looks.next().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/frames", frames(address, true).0);
    for night in [&[][..], &["--blink-settings=preferredColorScheme=0", "--force-prefers-reduced-motion"]] {
        let (printed, console) = browse(folder.path(), &url, night);
        assert_eq!(console, Vec::<String>::new());
        let seen = seen(&printed);
        assert_eq!(seen.len(), 2);
        for seen in &seen {
            assert_eq!((&seen["outside"], &seen["executed"]), (&Value::Array(Vec::new()), &false.into()), "{seen}");
            for what in ["unnamed", "headless", "unreached"] {
                assert_eq!(seen[what], Value::Array(Vec::new()), "{what}");
            }
            assert_eq!((&seen["scrolls"], &seen["language"], &seen["live"]), (&3.into(), &"en".into(), &1.into()), "{seen}");
            assert_eq!(seen["is_dark"], !night.is_empty(), "{seen}");
            assert!(seen["contrast"].as_f64().unwrap() >= 4.5 && seen["letters"].as_f64().unwrap() >= 11.0, "{seen}");
            assert_eq!((&seen["headings"], &seen["cells"], &seen["graphs"]), (&7.into(), &128.into(), &4.into()), "{seen}");
            assert!(seen["labels"].as_array().unwrap().iter().all(|label| label.as_str().unwrap().contains("now ")), "{seen}");
            let text = seen["text"].as_str().unwrap();
            for part in [
                "process 4711",
                "lane 1 is stalled",
                "128 buckets: lane 0 has 64, lane 1 has 64.",
                "<img src=x",
                "stalled for",
                "2 of 2 that are open",
                "0000002b",
                "0, a stray",
            ] {
                assert!(text.contains(part), "{part:?} is not in {text}");
            }
        }
    }
}

#[test]
fn a_page_for_which_there_is_no_stream_asks_for_each_look() {
    let name = "a_page_for_which_there_is_no_stream_asks_for_each_look";
    if !is_installed("chromium") {
        return skip(name, "chromium is not installed");
    }
    let page = page();
    let (_server, address) = serve(&page);
    let folder = tempfile::tempdir().unwrap();
    let (refuses, looks) = frames(address, false);
    let (printed, _) = browse(folder.path(), &format!("http://{refuses}/"), &[]);
    // The first is asked for in any case.
    assert!(looks.load(Ordering::Relaxed) >= 3, "{looks:?}");
    assert!(
        printed.contains("Corelane, process 4711") && printed.contains("id=\"state\" role=\"status\" class=\"faint\"></p>"),
        "{printed}"
    );
}
