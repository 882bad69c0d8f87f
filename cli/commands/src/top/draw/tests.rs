//! Screens, read as text.

use super::*;
use crate::top::record::Moment;
use crate::upstreams::{Beside as Upstreams, examples};
use corelane::admin::watch::{
    ConnectionState, Counter, Description, LaneCounter, LaneHistogram, LaneName, LaneState, Liveness, Page, ProcessId, Reader,
    ServiceCounter,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend as Paper; // tidy: allow(backend) the library's own name
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a screen of this size shows, line by line.
fn rendered(state: &State, shown: &[&Snapshot], width: u16, height: u16) -> String {
    rendered_with(&Crowd::default(), state, shown, width, height)
}

fn rendered_with(crowd: &Crowd, state: &State, shown: &[&Snapshot], width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(Paper::new(width, height)).unwrap();
    let record = recorded();
    let behind = Behind::default();
    terminal.draw(|frame| draw(frame, state, shown, &Beside { crowd, behind: &behind, record: Some(&record) })).unwrap();
    let paper = terminal.backend(); // tidy: allow(backend) the library's own name
    let buffer = paper.buffer();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}

/// Eight seconds of a process that comes to its load.
fn recorded() -> Record {
    let moment = |second| Moment {
        requests: f64::from(second) * 12_000.0,
        request_p99_nanoseconds: Some(8_191),
        errors: 0.0,
        cpus: Some(1.25),
    };
    Record { cpus: Some(1.25), resident_bytes: Some(45_200_000), past: (1..=8).map(moment).collect(), ..Record::default() }
}

fn page(pid: u32, lanes: usize, services: usize) -> Page {
    let lane = |cpu| LaneName { cpu: Some(cpu as u32), driver: "sim".into(), steering: "table".into() };
    let service = |i| ServiceName { name: format!("echo{i}"), url: format!("tcp://[::]:{i}"), counters: Vec::new() };
    Page::heap(&Description {
        program: "example 1.0".into(),
        process: ProcessId { pid, ..ProcessId::default() },
        services: (0..services).map(service).collect(),
        lanes: (0..lanes).map(lane).collect(),
        ..Description::default()
    })
    .unwrap()
}

const SECOND: u64 = 1_000_000_000;

/// Two lanes of which one sleeps half of the time, and one has much to do and stands still for nearly three seconds.
fn busy(page: &Page) -> Snapshot {
    let reader = Reader::of(page).unwrap();
    let before = reader.snapshot(2 * SECOND);
    page.steering().set("", &(0..128).map(|bucket| bucket % 2).collect::<Vec<u16>>());
    for (number, state, last) in [(0, LaneState::Sleeping, 3_900_000_000), (1, LaneState::Running, 1_200_000_000)] {
        let lane = page.lane(number).unwrap();
        lane.set(LaneCounter::LaneState, state as u64);
        lane.set(LaneCounter::LastTurnNanoseconds, last);
        lane.set(LaneCounter::MemoryUsed, 65_536 * (2 - number as u64));
        (0..100).for_each(|_| lane.record(LaneHistogram::TurnNanoseconds, 6_500));
        lane.record_many(LaneHistogram::RequestNanoseconds, 8_000, 64_000);
        let service = page.service(number, 0).unwrap();
        service.add(ServiceCounter::Requests, 64_000 * (1 + number as u64));
        service.add(ServiceCounter::Sends, 4_000);
        service.add(ServiceCounter::BytesIn, 4_096_000);
        service.set(ServiceCounter::ConnectionsOpen, 16);
    }
    page.lane(0).unwrap().add(LaneCounter::SleepNanoseconds, 900_000_000);
    page.lane(0).unwrap().add(LaneCounter::SpinNanoseconds, 400_000_000);
    page.service(0, 1).unwrap().add(ServiceCounter::ConnectionsMaxHits, 30);
    reader.snapshot(4 * SECOND).since(&before).unwrap()
}

/// The state after these processes were seen and these keys were pressed.
fn after(shown: &[&Snapshot], keys: &[KeyCode]) -> State {
    let mut state = State::default();
    state.settle(shown);
    for key in keys {
        assert_eq!(state.press(KeyEvent::new(*key, KeyModifiers::NONE)), crate::top::state::Next::Go);
        state.settle(shown);
    }
    state
}

fn letters(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

#[test]
fn a_process_is_one_screen() {
    let snapshot = busy(&page(12, 2, 2));
    let screen = rendered(&after(&[&snapshot], &[]), &[&snapshot], 80, 24);
    assert_eq!(screen, include_str!("80x24.txt"));
}

#[test]
fn lanes_are_sorted_by_the_column_that_is_marked() {
    let snapshot = busy(&page(12, 2, 2));
    let first = |state: &State| state.lanes(&state.figures(&snapshot).lanes)[0];
    let mut keys = Vec::new();
    for (name, lane) in
        [("LANE", 0), ("WORK", 1), ("REQUESTS", 1), ("OPEN", 0), ("STRAYS", 0), ("TURN P99", 0), ("MEMORY", 0), ("LANE", 0)]
    {
        let state = after(&[&snapshot], &keys);
        assert_eq!((state.sort.name(), first(&state)), (name, lane));
        assert!(columns(state.sort)[1].content == name);
        keys.push(KeyCode::Char('s'));
    }
}

/// The numbers of the lanes on a screen, and what is said of those that are not on it.
fn lanes_of(screen: &str) -> (Vec<usize>, String) {
    let mut lines = screen.lines().skip_while(|line| !line.starts_with("LANE CPU")).skip(1);
    let first: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let (said, lanes) = first.split_last().unwrap();
    (lanes.iter().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect(), said.trim().to_owned())
}

#[test]
fn lanes_scroll_by_one_and_no_further_than_the_last() {
    let page = page(12, 40, 1);
    let snapshot = Reader::of(&page).unwrap().snapshot(SECOND);
    let shown = [&snapshot];
    let after_keys = |keys: &[KeyCode]| lanes_of(&rendered(&after(&shown, keys), &shown, 80, 24));
    let (lanes, said) = after_keys(&[]);
    let rows = lanes.len();
    assert!((4..24).contains(&rows), "{lanes:?}");
    assert_eq!((lanes, said), (Vec::from_iter(0..rows), format!("0 above, {} below: up and down", 40 - rows)));
    let (lanes, said) = after_keys(&[KeyCode::Down; 3]);
    assert_eq!((lanes, said), (Vec::from_iter(3..3 + rows), format!("3 above, {} below: up and down", 37 - rows)));
    let (lanes, _) = after_keys(&[KeyCode::Down, KeyCode::Down, KeyCode::Up]);
    assert_eq!(lanes, Vec::from_iter(1..1 + rows));
    assert_eq!(after_keys(&[KeyCode::Up; 2]).0[0], 0);
    let mut keys = vec![KeyCode::Down; 100];
    assert_eq!(after_keys(&keys), (vec![39], "39 above, 0 below: up and down".to_owned()));
    // Keys beyond the last one are not to be taken back.
    keys.push(KeyCode::Up);
    assert_eq!(after_keys(&keys), (vec![38, 39], "38 above, 0 below: up and down".to_owned()));
}

#[test]
fn services_are_filtered_and_lanes_count_those_alone() {
    let snapshot = busy(&page(12, 2, 2));
    let mut keys = letters("/O1x");
    keys.extend([KeyCode::Backspace, KeyCode::Enter]);
    let screen = rendered(&after(&[&snapshot], &keys), &[&snapshot], 80, 24);
    assert!(screen.contains("filter: O1\n") && screen.contains("\necho1 ") && !screen.contains("\necho0 "), "{screen}");
    let lane = screen.lines().find(|line| line.starts_with("   0 ")).unwrap();
    assert_eq!(lane.split_whitespace().nth(7), Some("0"), "its requests are of another service: {lane}");
    let screen = rendered(&after(&[&snapshot], &letters("/q nobody")), &[&snapshot], 80, 24);
    assert!(screen.contains("none with this text") && screen.contains("filter: q nobody_"), "{screen}");
    let mut keys = letters("/echo1");
    keys.push(KeyCode::Esc);
    assert!(rendered(&after(&[&snapshot], &keys), &[&snapshot], 80, 24).contains("\necho0 "));
    let long = after(&[&snapshot], &letters(&format!("/{}", "x".repeat(200))));
    assert_eq!(long.filter.len(), 40, "what is typed is bounded");
}

#[test]
fn one_of_several_processes_is_chosen() {
    let (first, second) = (busy(&page(12, 2, 2)), busy(&page(13, 1 + 1, 2)));
    let shown = [&first, &second];
    let screen = rendered(&after(&shown, &[]), &shown, 80, 24);
    assert!(
        screen.starts_with("Several processes run: choose one") && screen.contains("13  alive    2 lanes  echo0 echo1"),
        "{screen}"
    );
    let pid = |keys: &[KeyCode]| after(&shown, keys).process(&shown).map(|snapshot| snapshot.process.pid);
    assert_eq!(pid(&[]), None);
    assert_eq!(pid(&[KeyCode::Enter]), Some(12));
    assert_eq!(pid(&[KeyCode::Down, KeyCode::Down, KeyCode::Enter]), Some(13));
    assert_eq!(pid(&[KeyCode::Enter, KeyCode::Char('n')]), Some(13));
    assert_eq!(pid(&[KeyCode::Enter, KeyCode::Char('n'), KeyCode::Char('n')]), Some(12));
    assert_eq!(pid(&[KeyCode::Enter, KeyCode::Char('p'), KeyCode::Down, KeyCode::Esc]), Some(12));
}

#[test]
fn a_process_that_ended_says_so() {
    let mut snapshot = busy(&page(12, 2, 2));
    snapshot.liveness = Liveness::Dead;
    let screen = rendered(&after(&[&snapshot], &[]), &[&snapshot], 80, 24);
    assert!(screen.starts_with("process 12 (dead)") && screen.contains("! the process is dead"), "{screen}");
    assert!(!screen.contains("stalled"), "{screen}");
}

#[test]
fn many_lanes_and_services_and_faults_leave_nothing_out_unsaid() {
    let page = page(12, 64, 9);
    for lane in 0..64 {
        let row = page.lane(lane).unwrap();
        LaneCounter::ALL.iter().for_each(|&counter| row.set(counter, u64::MAX));
        row.set(LaneCounter::LaneState, LaneState::Running as u64);
        row.set(LaneCounter::LastTurnNanoseconds, 1);
        row.set(LaneCounter::Serving, 3 << 32 | 5);
        (0..9).for_each(|service| {
            ServiceCounter::ALL.iter().for_each(|&one| page.service(lane, service).unwrap().set(one, u64::MAX))
        });
    }
    page.steering().set("", &(0..1024).map(|bucket| bucket % 64).collect::<Vec<u16>>());
    let reader = Reader::of(&page).unwrap();
    let snapshot = reader.snapshot(u64::MAX);
    let keys = vec![KeyCode::Down; 100];
    for keys in [&keys[..0], &keys[..10], &keys] {
        let screen = rendered(&after(&[&snapshot], keys), &[&snapshot], 80, 24);
        for part in ["below: up and down", "more: / filters", "BUCKETS  1024 by lane, 8 a cell", "more such lines", "q ends"] {
            assert!(screen.contains(part), "{part:?} is not in\n{screen}");
        }
        assert!(
            screen.lines().any(|line| line.starts_with("! lane 0 is stalled") && line.ends_with("serving echo2, connection 4")),
            "{screen}"
        );
    }
}

#[test]
fn every_size_is_drawn_and_a_small_one_says_what_it_needs() {
    let snapshot = busy(&page(12, 2, 2));
    let shown = [&snapshot];
    for (width, height) in [(1, 1), (10, 3), (40, 10), (79, 24), (80, 23), (80, 24), (200, 60)] {
        for keys in [&[][..], &[KeyCode::Char('h')], &[KeyCode::Char('p')], &[KeyCode::Char('c')]] {
            let screen = rendered(&after(&shown, keys), &shown, width, height);
            let is_small = width < COLUMNS_MIN || height < ROWS_MIN;
            assert_eq!(
                width >= 40 && screen.contains(&format!("This terminal has {width} by {height}.")),
                width >= 40 && is_small,
                "{screen}"
            );
        }
    }
    assert!(rendered(&State::default(), &[], 80, 24).contains("no process"));
}

#[test]
fn help_has_every_key_and_fits() {
    let screen = rendered(&after(&[], &letters("?")), &[], 80, 24);
    for key in ["q, Ctrl-C", "s ", "/ ", "space", "c ", "up, down", "n ", "p ", "h, ?", "Any key goes back"] {
        assert!(screen.lines().any(|line| line.trim_start().starts_with(key)), "{key:?} is not in\n{screen}");
    }
    assert!(help().iter().all(|line| line.width() <= 80));
}

#[test]
fn a_pause_holds_and_control_c_ends_everything() {
    let mut state = after(&[], &letters(" "));
    assert!(state.is_paused());
    assert!(rendered(&after(&[&busy(&page(1, 2, 2))], &letters(" ")), &[&busy(&page(1, 2, 2))], 80, 24).contains("PAUSED"));
    for keys in ["", "/", "h", "p", "c"] {
        let mut state = after(&[], &letters(keys));
        let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.press(end), crate::top::state::Next::End, "{keys:?}");
    }
    state.press(KeyEvent::new(KeyCode::Char(' '), KeyModifiers::NONE));
    assert!(!state.is_paused());
}

/// So many connections on lane 0; the first is a stray, and the second is ending.
fn crowd(count: u16) -> Crowd {
    use crate::connections::tests::{FLOW, connection, join, known, row};
    let mut found = vec![known(Some("lane-0"))];
    let ended = connection("192.0.2.1:9", "161.142.100.80:1766", Some("lane-0"));
    found.extend((1..count).map(|port| connection(&format!("192.0.2.1:{port}"), "161.142.100.80:1766", Some("lane-0"))));
    let (mut told, _) = join(found, &[(0, row(4, Some(FLOW), ConnectionState::Open))], &[1]);
    let (ending, _) = join(vec![ended.clone()], &[], &[0]);
    let flow = ending[0].alignment.flow;
    if count > 1 {
        told[1] = join(vec![ended], &[(0, row(5, flow, ConnectionState::Completed))], &[0]).0.remove(0);
    }
    Crowd { told, at_nanoseconds: 65 * SECOND, ..Crowd::default() }
}

#[test]
fn connections_are_a_line_each_and_scroll() {
    let snapshot = busy(&page(12, 2, 2));
    let (shown, crowd) = ([&snapshot], crowd(40));
    let mut state = after(&shown, &letters("c"));
    let screen = rendered_with(&crowd, &state, &shown, 80, 24);
    let lines: Vec<&str> = screen.lines().collect();
    assert_eq!(lines[0], "process 12: 40 TCP connections, 39 strays");
    assert_eq!(lines[2], "REMOTE                FLOW     BUCKET  OF  ON RECV-Q SEND-Q    AGE ENDING");
    assert_eq!(lines[3], "66.9.149.187:2794     51ccc178      0   1   0      7      0  60.0s -");
    assert!(lines[4].starts_with("192.0.2.1:9 ") && lines[4].ends_with("  60.0s completed"), "{screen}");
    assert!(lines[21].ends_with("0 above, 22 below: up and down") && lines[23].starts_with("q ends"), "{screen}");
    for _ in 0..100 {
        state.press(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
        state.settle(&shown);
        state.settle_rows(wanted(&state, &crowd).len());
    }
    let screen = rendered_with(&crowd, &state, &shown, 80, 24);
    assert!(screen.contains("39 above, 0 below") && screen.contains("\n192.0.2.1:39 "), "{screen}");
    state.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::NONE));
    assert_eq!((state.face, state.scrolled), (Face::Process, 0));
}

#[test]
fn connections_are_filtered_by_their_addresses() {
    let snapshot = busy(&page(12, 2, 2));
    let (shown, crowd) = ([&snapshot], crowd(40));
    let mut keys = letters("c/66.9.");
    keys.push(KeyCode::Enter);
    let screen = rendered_with(&crowd, &after(&shown, &keys), &shown, 80, 24);
    assert!(screen.starts_with("process 12: 1 TCP connection, 1 stray  filter: 66.9.\n"), "{screen}");
    keys.extend([KeyCode::Esc, KeyCode::Esc]);
    assert_eq!(after(&shown, &keys).face, Face::Process, "first the filter goes, then the connections");
    let why_not = Crowd { why_not: Some("process 12 has ended".to_owned()), ..Crowd::default() };
    assert!(rendered_with(&why_not, &after(&shown, &letters("c")), &shown, 80, 24).contains("\nprocess 12 has ended\n"));
}

#[test]
fn keys_work_where_connections_are_shown() {
    let (first, second) = (busy(&page(12, 2, 2)), busy(&page(13, 2, 2)));
    let shown = [&first, &second];
    let state = |keys: &str| after(&shown, &[vec![KeyCode::Enter], letters(keys)].concat());
    let of = |state: &State| (state.face, state.process(&shown).map(|snapshot| snapshot.process.pid));
    assert_eq!(of(&state("c")), (Face::Connections, Some(12)));
    assert_eq!(of(&state("cn")), (Face::Connections, Some(13)), "the next process's connections");
    assert_eq!(of(&state("chx")), (Face::Connections, Some(12)), "help leads back");
    assert_eq!(of(&state("cp")).0, Face::Choice(0));
    let chosen = after(&shown, &[KeyCode::Enter, KeyCode::Char('c'), KeyCode::Char('p'), KeyCode::Down, KeyCode::Enter]);
    assert_eq!(of(&chosen), (Face::Connections, Some(13)));
    assert_eq!(of(&state("cc")), (Face::Process, Some(12)));
    let sorted = state("css");
    assert_eq!((sorted.crowd_sort.name(), sorted.sort.name()), (Some("RECV-Q"), "LANE"));
    let screen = rendered_with(&crowd(40), &sorted, &shown, 200, 50);
    let first_line = screen.lines().nth(3).unwrap();
    assert!(first_line.contains("ESTABLISHED") && first_line.contains("161.142.100.80:1766"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 200) && screen.lines().count() == 50);
    let mut paged = state("c");
    for code in [KeyCode::PageDown, KeyCode::Down, KeyCode::PageUp, KeyCode::End, KeyCode::Home, KeyCode::PageDown] {
        paged.press(KeyEvent::new(code, KeyModifiers::NONE));
        paged.settle_rows(40);
    }
    assert_eq!(paged.scrolled, 10);
}

#[test]
fn a_large_terminal_is_used_to_its_end() {
    let few = busy(&page(12, 2, 2));
    let screen = rendered(&after(&[&few], &[]), &[&few], 200, 50);
    for part in ["\nrequests ", "\nrequest p99 ", "\nerrors ", "\ncpu ", "1.25 CPUs", "45.2MB"] {
        assert!(screen.contains(part), "{part:?} is not in\n{screen}");
    }
    assert!(screen.lines().any(|line| line.ends_with('█')), "the past stands at the right of its words: {screen}");
    let many = Reader::of(&page(12, 64, 1)).unwrap().snapshot(SECOND);
    let screen = rendered(&after(&[&many], &[]), &[&many], 200, 50);
    assert!(!screen.contains("below: up and down"), "64 lanes fit side by side:\n{screen}");
    assert!(screen.lines().any(|line| line.matches("REQUESTS  OPEN").count() == 2), "{screen}");
}

/// One pair of looks at a page, by all who show figures of it.
#[test]
fn every_view_shows_the_same_figures() {
    let page = page(12, 2, 2);
    let before = Reader::of(&page).unwrap().snapshot(2 * SECOND);
    // Values on a bucket's upper end, so that nothing is rounded.
    for (number, turn, request) in [(0, 7_167, 114_687), (1, 3_145_727, 20_479)] {
        page.lane(number).unwrap().record_many(LaneHistogram::TurnNanoseconds, turn, 10);
        page.lane(number).unwrap().record_many(LaneHistogram::RequestNanoseconds, request, 10);
    }
    busy(&page);
    let since = Reader::of(&page).unwrap().snapshot(4 * SECOND).since(&before).unwrap();
    let parsed = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).unwrap();
    let (board, all) =
        (parsed(&corelane_metrics::look(&since)), parsed(crate::stat::json::json(&since, &Upstreams::None).as_bytes()));
    let (glance, top) =
        (crate::stat::glance::glance(&since, &Upstreams::None), rendered(&after(&[&since], &[]), &[&since], 80, 24));
    let lane_of = |view: &str, number: usize| -> Vec<String> {
        let mut lines = view.lines().skip_while(|line| !line.starts_with("LANE CPU"));
        lines.nth(1 + number).unwrap().split_whitespace().map(str::to_owned).collect()
    };
    let microseconds = |value: &serde_json::Value| (value.as_f64().unwrap() * 1e3).round() as u64;
    for number in 0..2 {
        let (stat, top, board) = (lane_of(&glance, number), lane_of(&top, number), &board["lanes"][number]);
        let of_all = |which: &str| all["lanes"][number]["histograms"][which]["p99"].as_u64().unwrap();
        let [turn, request] = [of_all("turn_nanoseconds"), of_all("request_nanoseconds")];
        assert_eq!((microseconds(&board["turn_p99_us"]), microseconds(&board["request_p99_us"])), (turn, request));
        assert_eq!((&stat[8], &stat[9], &top[10]), (&time(turn), &time(request), &time(turn)), "{stat:?} {top:?}");
        let text = text::text(&since, &Upstreams::None);
        let lane = &text[text.find(&format!("\nlane {number}: ")).unwrap()..];
        assert!(lane.contains(&format!("p99 {turn}, ")) && lane.contains(&format!("p99 {request}, ")), "{lane}");
        let (requests, worked) = (board["requests"].as_f64().unwrap(), board["shares"][0].as_f64().unwrap());
        assert_eq!((&stat[5], &top[7]), (&amount(requests), &amount(requests)));
        assert_eq!((&stat[4], &top[4]), (&percent(worked), &percent(worked)));
    }
    let sample = &board["sample"];
    let [half, most] = [3, 4].map(|place: usize| time(microseconds(&sample[place])));
    let [requests, imbalance] = [&sample[1], &board["imbalance"]].map(|figure| figure.as_f64().unwrap());
    for view in [&glance, &top] {
        assert!(view.contains(&format!("requests from receive to send: p50 {half}  p99 {most}  ")), "{half} {most} {view}");
    }
    assert!(
        top.contains(&format!("\nrequests {}  ", amount(requests))) && top.contains(&format!("imbalance {imbalance:.2}\n")),
        "{top}"
    );
}

#[test]
fn upstreams_are_shown_and_those_out_of_rotation_first() {
    let mut state = State::default();
    state.press(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::NONE));
    let page = page(12, 1, 1);
    let snapshot = Reader::of(&page).unwrap().snapshot(SECOND);
    let mut behind = Behind::default();
    behind.beside = Upstreams::Shown { now: examples(20), since: None };
    let area = Area { width: 80, rows: 24 };
    let of = |state: &State, behind: &Behind| {
        upstreams::lines(state, &snapshot, behind, area).iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    let lines = of(&state, &behind);
    assert_eq!((lines.len(), lines[0].as_str()), (24, "process 12: 20 upstreams, 10 out of rotation"));
    assert!(lines[3].starts_with("10.0.0.1:1 a1.example:1    ejected ") && lines[21].ends_with("0 above, 2 below: up and down"));
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
    for key in [KeyCode::Char('/'), KeyCode::Char('a'), KeyCode::Char('7'), KeyCode::Char('.'), KeyCode::Enter] {
        state.press(KeyEvent::new(key, KeyModifiers::NONE));
    }
    assert_eq!((upstreams::count(&state, &behind), of(&state, &behind)[3].split(' ').nth(1)), (1, Some("a7.example:1")));
    behind.beside = Upstreams::Silent;
    assert!(of(&state, &behind)[3].starts_with("upstreams are not shown"));
}
