//! `corelane stat`: what it shows of processes that serve, hang, or have ended, and what it says when there is nothing.

use crate::common::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server with one echoed connection, which stays open.
fn served() -> (Server, std::net::TcpStream) {
    let server = Server::start(&["--lanes", "1", TCP, UDP]);
    let mut stream = server.connect();
    echo(&mut stream, b"twelve bytes");
    server.comes_to("bytes_out", 12);
    (server, stream)
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// `corelane stat` on a run directory.
fn stat(run: &Scratch, arguments: &[&str]) -> Output {
    output(Command::new(PROGRAM).arg("stat").args(arguments).env("CORELANE_RUN_DIR", run.path()))
}

/// The lines of `text` that show this counter, as the counter's value.
fn shown(text: &str, counter: &str) -> Vec<u64> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.filter(|words| words.first() == Some(&counter)).map(|words| words[1].parse().unwrap()).collect()
}

#[test]
fn at_a_glance_a_service_and_a_lane_are_a_line_each() {
    let (server, _stream) = served();
    let text = text(&server.stat(&[]));
    assert!(text.starts_with(&format!("process {} (alive), corelane ", server.pid())), "{text}");
    for url in &server.urls {
        assert_eq!(text.lines().filter(|line| line.starts_with("echo ") && line.ends_with(url.as_str())).count(), 1, "{text}");
    }
    let lane: Vec<&str> = text.lines().find(|line| line.starts_with("   0 ")).unwrap().split_whitespace().collect();
    assert_eq!((lane.len(), lane[6]), (11, "1"), "eleven columns, and one connection is open: {text}");
    assert!(!text.contains("strays ") && !text.contains("stalled"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.lines().count() < 24, "{text}");
}

#[test]
fn all_shows_every_counter() {
    let (server, _stream) = served();
    let text = text(&server.stat(&["--all", "--pid", &server.pid().to_string()]));
    assert_eq!(shown(&text, "endings_aborted"), [0; 4]);
    assert_eq!(shown(&text, "bytes_in").iter().sum::<u64>(), 24);
    assert!(text.contains(&format!("service echo at {}, all lanes", server.urls[0])), "{text}");
    assert!(shown(&text, "turn_nanoseconds")[0] > 0, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn json_is_one_object_a_line_with_every_counter() {
    let run = std::sync::Arc::new(Scratch::new());
    let start =
        || Server::start_as(Launch { wrapper: &[], program: PROGRAM, arguments: &["--lanes", "2", TCP], run: run.clone() });
    let servers = [start(), start()];
    echo(&mut servers[0].connect(), b"seven..");
    let text = text(&stat(&run, &["--json"]));
    let pages: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(pages.len(), 2);
    for (server, bytes) in servers.iter().zip([7, 0]) {
        let page = pages.iter().find(|page| page["process"]["pid"] == server.pid()).unwrap();
        assert_eq!(page["process"]["liveness"], "alive");
        assert_eq!((&page["services"][0]["name"], &page["services"][0]["url"]), (&"echo".into(), &server.urls[0][..].into()));
        assert_eq!(page["services"][0]["counters"]["bytes_in"], bytes);
        assert_eq!(page["services"][0]["counters"]["endings_aborted"], 0);
        let lanes = page["lanes"].as_array().unwrap();
        assert_eq!(lanes.iter().map(|lane| number(&lane["services"][0]["counters"]["bytes_in"])).sum::<u64>(), bytes);
        assert!(lanes.iter().all(|lane| lane["driver"] == server.driver()));
    }
}

#[test]
fn every_goes_on_with_rates_until_interrupted() {
    let (server, mut stream) = served();
    let mut command = Command::new(PROGRAM);
    command.args(["stat", "--all", "--every", "50ms", "--pid", &server.pid().to_string()]);
    let mut child = command.env("CORELANE_RUN_DIR", server.run.path()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = lines(child.stdout.take().unwrap());
    let mut rates = 0;
    while rates < 3 {
        let line = lines.recv_timeout(PATIENCE).unwrap();
        rates += usize::from(line.contains("bytes_in") && line.ends_with("/s"));
        echo(&mut stream, b"more");
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGINT as i32));
}

#[test]
fn every_ends_with_the_process_that_it_shows() {
    let (mut server, _stream) = served();
    let mut command = Command::new(PROGRAM);
    command.args(["stat", "--every", "10ms", "--pid", &server.pid().to_string()]).env("CORELANE_RUN_DIR", server.run.path());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = lines(child.stdout.take().unwrap());
    assert!(lines.recv_timeout(PATIENCE).unwrap().contains("(alive)"));
    server.signal(Signal::SIGKILL);
    server.ended();
    until("it has ended", || child.try_wait().unwrap().is_some_and(|status| status.success()));
    assert!(lines.iter().any(|line| line.starts_with("! the process is dead: it was killed, or crashed")));
}

#[test]
fn every_needs_a_sensible_number() {
    for (number, words) in [
        ("0", "write a time from 10ms to 24h"),
        ("nan", "\"nan\" is no time"),
        ("1000000", "write 1000000s for seconds"),
        ("0.001", "\"0.001\" has no unit"),
        ("2d", "write a time from 10ms to 24h"),
        ("-1s", "\"-1s\" is no time"),
    ] {
        let output = stat(&Scratch::new(), &[&format!("--every={number}")]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(words));
    }
}

#[test]
fn nothing_that_runs_is_said_with_the_remedy() {
    let run = Scratch::new();
    for (arguments, words) in
        [(&[][..], "start one with `corelane serve`"), (&["--pid", "1"][..], "process 1 has no counter page")]
    {
        let output = stat(&run, arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.lines().count() == 1 && text.contains(words), "{text:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_dead_process_is_shown_when_it_is_asked_for() {
    let (mut server, _stream) = served();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let page = server.page();
    assert_eq!(page["process"]["liveness"], "dead");
    assert_eq!(page["services"][0]["counters"]["bytes_out"], 12);
    let running = server.stat(&[]);
    assert_eq!(running.status.code(), Some(2), "those that run are none: {running:?}");
    let text = text(&server.stat(&["--pid", &server.pid().to_string()]));
    assert!(text.starts_with(&format!("process {} (dead)", server.pid())), "{text}");
}

/// The age of the lane's last turn in the text, in seconds; the line may be broken anywhere.
fn age(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.windows(2).position(|pair| pair == ["last", "turn"]).unwrap();
    words[at + 2].parse().unwrap()
}

#[test]
fn a_process_that_hangs_is_shown() {
    let (server, _stream) = served();
    server.signal(Signal::SIGSTOP);
    until("it is stopped", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
    });
    let page = server.page();
    assert_eq!(page["process"]["liveness"], "stopped");
    assert_eq!(page["services"][0]["counters"]["bytes_out"], 12);
    until("one sees since when", || age(&text(&server.stat(&["--all"]))) > 0.0);
    server.signal(Signal::SIGCONT);
}

/// The page file of the server.
fn page_file(server: &Server) -> PathBuf {
    let files = fs::read_dir(server.run.path()).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|suffix| suffix == "page")).unwrap()
}

#[test]
fn a_page_that_cannot_be_read_is_named_and_the_others_are_shown() {
    let (server, _stream) = served();
    let good = page_file(&server);
    let bad = good.with_file_name(good.file_name().unwrap().to_str().unwrap().replace("-0.page", "-1.page"));
    let whole = fs::read(&good).unwrap();
    // The word behind the first is the version of the layout, and the next one stands for the counters.
    let with = |word: usize, value: u64| [&whole[..8 * word], &value.to_ne_bytes(), &whole[8 * word + 8..]].concat();
    let cases = [
        ("this is no page".repeat(100).into_bytes(), "no page"),
        (whole[..whole.len() / 2].to_vec(), "remove it, its process must write a new one"),
        (with(1, 1 << 20), "1048576"),
        (with(2, 7), "use the `corelane` that belongs to the service"),
        (Vec::new(), "this has 0"),
    ];
    for (bytes, why) in cases {
        fs::write(&bad, bytes).unwrap();
        let output = server.stat(&[]);
        assert!(String::from_utf8(output.stdout.clone()).unwrap().starts_with("process "), "{output:?}");
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(words.lines().count() == 1 && words.contains(bad.to_str().unwrap()) && words.contains(why), "{why}: {words:?}");
    }
}

#[test]
fn pages_of_somebody_else_are_refused_with_whose_they_are() {
    let test = "stat::pages_of_somebody_else_are_refused_with_whose_they_are";
    if !is_root(test) {
        return;
    }
    let (server, _stream) = served();
    nix::unistd::chown(server.run.path(), Some(nix::unistd::Uid::from_raw(ORDINARY_USER)), None).unwrap();
    for command in ["stat", "top", "profile"] {
        let refused = output(Command::new(PROGRAM).arg(command).env("CORELANE_RUN_DIR", server.run.path()));
        let words = String::from_utf8(refused.stderr).unwrap();
        let whose = format!("{} belongs to user {ORDINARY_USER}, not to user 0", server.run.path().display());
        assert!(refused.status.code() == Some(2) && words.contains(&whose), "{command}: {words}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let (server, _stream) = served();
    let mut command = Command::new(PROGRAM);
    command.args(["stat", "--all", "--every", "10ms"]).env("CORELANE_RUN_DIR", server.run.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// A service that does not come back from its call until it is let go.
struct Endless(Arc<AtomicBool>);

impl corelane::StreamService for Endless {
    type Talk = corelane::Silent;
    type Session = ();

    fn open(&mut self, _: &mut corelane::Cx, _: &corelane::Peer) {}

    fn receive(
        &mut self,
        _: &mut corelane::Cx,
        _: &mut (),
        input: &mut corelane::Input,
        _: &mut corelane::Output,
    ) -> corelane::Next {
        input.skip(input.len());
        while !self.0.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        corelane::Next::Continue
    }
}

#[test]
fn a_lane_in_an_endless_loop_is_named() {
    let is_let_go = Arc::new(AtomicBool::new(false));
    let service = is_let_go.clone();
    let lanes = corelane::Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", move |_| Endless(service.clone())).unwrap();
    let running = lanes.start().unwrap();
    let folder = running.page().expect("a page that others can read").parent().unwrap();
    let glance = || {
        let mut command = Command::new(PROGRAM);
        command.args(["stat", "--pid", &std::process::id().to_string()]).env("CORELANE_RUN_DIR", folder);
        text(&output(&mut command))
    };
    assert!(!glance().contains("stalled"), "nothing was asked of it yet");
    let mut stream = std::net::TcpStream::connect(running.address()).unwrap();
    std::io::Write::write_all(&mut stream, b"a question").unwrap();
    until("the stalled lane is named", || {
        let line = glance().lines().find(|line| line.starts_with("! lane 0 is stalled: in one turn for ")).map(str::to_owned);
        line.is_some_and(|line| line.contains(", serving ") && line.ends_with(", connection 0"))
    });
    is_let_go.store(true, Ordering::Relaxed);
    until("it goes on", || !glance().contains("stalled"));
}

/// `stat -R --json` of one server: its connections that are `connections`, or have `ended`.
fn flows(server: &Server, which: &str) -> Vec<Value> {
    let output = server.stat(&["-R", "--json", "--pid", &server.pid().to_string()]);
    let page: Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!(page["pid"], server.pid());
    page[which].as_array().unwrap().clone()
}

#[test]
fn every_connection_is_told_with_its_flow_also_of_a_process_that_is_stopped() {
    let server = Server::start(&["--lanes", "2", TCP]);
    let mut streams: Vec<std::net::TcpStream> = (0..20).map(|_| server.connect()).collect();
    streams.iter_mut().for_each(|stream| echo(stream, b"here"));
    server.signal(Signal::SIGSTOP);
    let waiting = server.connect();
    let found = flows(&server, "connections");
    for stream in &streams {
        let (local, remote) = (stream.peer_addr().unwrap().to_string(), stream.local_addr().unwrap().to_string());
        let flow = found.iter().find(|one| one["remote"] == remote.as_str()).unwrap();
        assert_eq!((&flow["local"], &flow["hash_type"]), (&local.as_str().into(), &"tcp4".into()), "{flow}");
        assert!(flow["age_seconds"].as_u64().is_some_and(|age| age < 600) && flow["number"].is_u64(), "{flow}");
        assert!(flow["ending"].is_null(), "{flow}");
        let hashed = text(&output(Command::new(PROGRAM).args(["rss", "hash", &remote, &local])));
        let flow_id = flow["flow_id"].as_u64().map(|flow_id| format!("{flow_id:08x}")).unwrap();
        assert!(hashed.contains(&flow_id), "{flow_id} is not in {hashed}");
        if ["program", "classic"].iter().any(|table| server.steering.starts_with(table)) {
            assert!(flow["of_lane"].is_u64() && flow["of_lane"] == flow["on_lane"], "each is on its bucket's lane: {flow}");
        }
    }
    drop(waiting);
    let shown = text(&server.stat(&["-R", "--pid", &server.pid().to_string()]));
    assert!(
        shown
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("Proto Recv-Q Send-Q Local Address          Foreign Address        flowid   ftype")
    );
    assert!(shown.lines().count() >= 22, "{shown}");
    server.signal(Signal::SIGKILL);
    until("it has ended", || server.page()["process"]["liveness"] == "dead");
    let gone = server.stat(&["-R", "--pid", &server.pid().to_string()]);
    let words = String::from_utf8(gone.stderr).unwrap();
    assert!(gone.status.success() && words.contains("has ended, and the kernel has closed its connections"), "{words}");
}

#[test]
fn how_connections_end_is_told_when_the_kernel_has_them_no_more() {
    let server = Server::start(&["--lanes", "2", TCP]);
    let mut streams: Vec<std::net::TcpStream> = (0..3).map(|_| server.connect()).collect();
    streams.iter_mut().for_each(|stream| echo(stream, b"here"));
    let of = |remote: &str| flows(&server, "connections").into_iter().find(|one| one["remote"] == remote).unwrap();
    let here: Vec<Value> = streams.iter().map(|stream| of(&stream.local_addr().unwrap().to_string())).collect();
    assert_eq!(flows(&server, "ended"), Vec::<Value>::new());
    crate::faults::reset_on_drop(&streams[1]);
    drop(streams.remove(1));
    drop(streams.remove(0));
    until("two have ended", || flows(&server, "ended").len() == 2);
    for ended in flows(&server, "ended") {
        let before = here.iter().find(|one| one["flow_id"] == ended["flow_id"]).unwrap();
        let ending = if before == &here[1] { "error" } else { "end_of_stream" };
        assert_eq!(ended["ending"], ending, "{ended}");
        for same in ["number", "bucket", "on_lane", "of_lane"] {
            assert_eq!(ended[same], before[same], "{ended} was {before}");
        }
    }
    let shown = text(&server.stat(&["-R"]));
    assert!(shown.contains("\nended last: end_of_stream 1, error 1\n"), "{shown}");
    assert_eq!(flows(&server, "connections").len(), 1);
}

#[test]
fn a_connection_that_lingers_is_told_with_its_ending() {
    let server = Server::start(&["--lanes", "1", "--limit", "linger_limit=10m", "http=http://127.0.0.1:0?reply=8"]);
    let mut stream = std::net::TcpStream::connect(server.address("http")).unwrap();
    std::io::Write::write_all(&mut stream, b"nonsense\r\n\r\n").unwrap();
    until("its ending is decided", || {
        let all = flows(&server, "connections");
        all.len() == 1 && all[0]["ending"] == "completed" && all[0]["age_seconds"].is_u64()
    });
    let shown = text(&server.stat(&["-R"]));
    assert!(shown.lines().any(|line| line.starts_with("tcp4 ") && line.ends_with(" completed")), "{shown}");
}

/// A load, until it is dropped.
struct Load(std::process::Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn connections_of_who_serves_nothing_are_no_strays() {
    let server = Server::start(&["--lanes", "2", TCP]);
    let mut load = Command::new(PROGRAM);
    load.args(["load", "echo", &format!("tcp://{}", server.tcp()), "-c", "20", "--lanes", "2", "--duration", "10m"]);
    load.env("CORELANE_RUN_DIR", server.run.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let load = Load(load.spawn().unwrap());
    let pid = load.0.id().to_string();
    let mut found = Vec::new();
    until("all are connected", || {
        let shown = server.stat(&["-R", "--json", "--pid", &pid]);
        let page: Option<Value> = serde_json::from_slice(&shown.stdout).ok();
        found = page.and_then(|page| page["connections"].as_array().cloned()).unwrap_or_default();
        found.len() == 20
    });
    for one in &found {
        assert!(one["flow_id"].is_u64() && one["bucket"].is_null() && one["of_lane"].is_null(), "{one}");
    }
    let shown = text(&server.stat(&["-R", "--pid", &pid]));
    assert!(shown.contains(": 20 TCP connections, of which 0 on another lane") && !shown.contains("STRAY"), "{shown}");
}

/// Standard error whose reader has gone away.
fn deaf() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn what_nobody_hears_changes_nothing() {
    let run = Scratch::new();
    // Of a directory in which others may write, each of these says so and goes on.
    fs::set_permissions(run.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for words in [&["stat"][..], &["stat", "-R"], &["stat", "--all", "--json"], &["rss", "table"], &["dispatch"]] {
        let heard = output(Command::new(PROGRAM).args(words).env("CORELANE_RUN_DIR", run.path()));
        let said = String::from_utf8_lossy(&heard.stderr);
        assert_eq!((heard.status.code(), said.lines().count()), (Some(2), 2), "{words:?}: {said}");
        let unheard = |program: &mut Command, stderr| {
            program.args(words).env("CORELANE_RUN_DIR", run.path()).stdout(Stdio::null()).stderr(stderr).status().unwrap().code()
        };
        assert_eq!(unheard(&mut Command::new(PROGRAM), deaf()), Some(2), "{words:?}: the reader has gone");
        let closed = &mut Command::new("sh");
        closed.args(["-c", "exec \"$0\" \"$@\" 2>&-", PROGRAM]);
        assert_eq!(unheard(closed, Stdio::null()), Some(2), "{words:?}: standard error is closed");
    }
}
