//! What a run counts is what the server counts; and what it says of the server is the server's.

use super::*;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

on_each_driver!(the_server_counts_as_many_requests, every_workload_and_mode_makes_sense);

/// A run against this server, with its pages where the server's are.
fn load_beside(server: &Server, arguments: &[&str]) -> Run {
    let mut command = load_command(&[], &server.run, &[&["--json", "--quiet"], arguments].concat());
    Run::of(&output(&mut command))
}

fn urls(server: &Server) -> (String, String) {
    (format!("tcp://{}", server.tcp()), format!("udp://{}", server.udp()))
}

fn the_server_counts_as_many_requests(driver: Driver) {
    let Some(server) = driver.start("load::counts::the_server_counts_as_many_requests", &[TCP, UDP]) else { return };
    let (tcp, udp) = urls(&server);
    let (mut bytes, mut connections) = (0, 0);
    for (more, each, opened) in [
        (&["--requests", "1"][..], 1, 1),
        (&["--requests", "1001", "--connections", "7", "--depth", "3"], 1, 7),
        (&["--requests", "3", "--connections", "9"], 1, 9),
        (&["--requests", "500", "--rate", "5000", "--connections", "3"], 1, 3),
        (&["--requests", "333", "--rate", "5000", "--arrivals", "poisson", "--connections", "8"], 1, 8),
        (&["--requests", "30", "--connection-rate", "500", "--requests-per-connection", "4"], 4, 30),
    ] {
        let run = load_beside(&server, &[&["--driver", driver.name(), "echo", &tcp], more].concat());
        let wanted = more[1].parse::<u64>().unwrap() * each;
        run.met(&[]).doubted(&[]);
        assert_eq!((run.report.requests, run.report.bytes_sent, run.report.bytes_received), (wanted, wanted * 64, wanted * 64));
        bytes += wanted * 64;
        connections += opened;
        server.comes_to("bytes_in", bytes);
        server.comes_to("accepts", connections);
    }
    let run = load_beside(&server, &["udp", &udp, "--requests", "777", "--connections", "5", "--depth", "4", "--timeout", "20s"]);
    run.met(&[]).doubted(&[]);
    server.comes_to("datagrams_in", run.report.requests);
    assert_eq!(run.report.requests, 777);
}

fn every_workload_and_mode_makes_sense(driver: Driver) {
    let Some(server) = driver.start("load::counts::every_workload_and_mode_makes_sense", &[TCP, UDP]) else { return };
    let (tcp, udp) = urls(&server);
    let window = ["--warmup", "300ms", "--duration", "1300ms", "--timeout", "20s"];
    for arguments in [
        &["echo", &tcp, "--connections", "8", "--depth", "8", "--quantiles", "0,1,50,99.99,100"][..],
        &["echo", &tcp, "--connections", "8", "--rate", "3000", "--arrivals", "poisson"],
        &["echo", &tcp, "--connection-rate", "300"],
        &["idle", &tcp, "--connections", "200", "--every", "500ms"],
        &["udp", &udp, "--connections", "4", "--depth", "16"],
        &["udp", &udp, "--rate", "3000", "--connections", "4", "--singles"],
    ] {
        let run = load_beside(&server, &[&["--driver", driver.name()], arguments, &window].concat());
        run.met(&[]).doubted(&[]);
        let report = &run.report;
        assert!(report.requests > 0, "{arguments:?}");
        assert_eq!((report.settings.driver.as_str(), report.settings.warm_up_s, report.seconds), (driver.name(), 0.3, 1.3));
        // The warm-up's part of a second, a whole one, and what is left of the window.
        let series: Vec<(f64, f64)> = report.series.iter().map(|second| (second.at_s, second.length_s)).collect();
        assert_eq!(series, [(-0.3, 0.3), (0.0, 1.0), (1.0, 0.3)], "{arguments:?}");
        let names: Vec<&str> = report.latency_us.keys().map(String::as_str).collect();
        if arguments.contains(&"0,1,50,99.99,100") {
            assert_eq!(names, ["0", "1", "100", "50", "99.99", "max", "mean", "min", "stddev"]);
        } else {
            assert_eq!(names, ["50", "90", "99", "99.9", "max", "mean", "min", "stddev"]);
        }
    }
}

#[test]
fn several_runs_come_to_one_report() {
    let server = Server::start(&[TCP, UDP]);
    let run = load_beside(&server, &["echo", &urls(&server).0, "--requests", "100", "--runs", "3", "--server-page"]);
    let repeated = run.report.repeated.as_ref().expect("the runs are there");
    assert_eq!(repeated.runs.iter().map(|run| run.requests).collect::<Vec<_>>(), [100; 3]);
    server.comes_to("bytes_in", 3 * 100 * 64);
    let rates: Vec<f64> = repeated.runs.iter().map(|run| run.requests_per_second).collect();
    let spread = repeated.figures["requests_per_second"];
    assert!(
        spread.least <= spread.low
            && spread.low <= spread.median
            && spread.median <= spread.high
            && spread.high <= spread.greatest
    );
    assert!(rates.contains(&spread.median) && run.report.requests_per_second == spread.median, "{rates:?} {spread:?}");
    assert!(repeated.runs.iter().all(|run| run.repeated.is_none()));
}

#[test]
fn two_targets_are_loaded_in_pairs() {
    let (a, b) = (Server::start(&[TCP, UDP]), Server::start(&[TCP, UDP]));
    let (pid_a, pid_b) = (a.pid().to_string(), b.pid().to_string());
    let (url_a, url_b) = (urls(&a).0, urls(&b).0);
    let pids = ["--server-pid", &pid_a, "--against-pid", &pid_b];
    let (code, paired) =
        compare(&[&["echo", &url_a, "--against", &url_b, "--runs", "3", "--requests", "400"][..], &pids].concat());
    assert!([GOOD, DOUBTS].contains(&code) && (code == GOOD) == paired.believable, "{code}");
    assert_eq!((paired.rounds, &paired.a.target, &paired.b.target), (3, &url_a, &url_b));
    a.comes_to("bytes_in", 3 * 400 * 64);
    b.comes_to("bytes_in", 3 * 400 * 64);
    let sides = [(&paired.a, &a), (&paired.b, &b)];
    assert!(sides.iter().all(|(report, server)| report.server.as_ref().is_some_and(|seen| seen.pid == server.pid())));
    let ratio = paired.ratios["requests_per_second"];
    assert!(ratio.median > 0.0 && ratio.least <= ratio.median && ratio.median <= ratio.greatest, "{ratio:?}");
}

#[test]
fn the_server_is_found_by_its_page() {
    let (server, _other) = (Server::start(&[TCP, UDP]), Server::start(&[TCP, UDP]));
    let (tcp, udp) = urls(&server);
    for arguments in [["echo", &tcp], ["udp", &udp]] {
        let run = load_beside(&server, &[&arguments[..], &["--duration", "500ms", "--depth", "8", "--server-page"]].concat());
        let seen = run.report.server.as_ref().expect("the server was measured");
        assert_eq!(seen.pid, server.pid());
        assert!(seen.resident_bytes > 1 << 20 && seen.cpus_used >= 0.0, "{seen:?}");
        let names: Vec<&str> = seen.per_request.keys().map(String::as_str).collect();
        assert_eq!(names, ["bytes_copied", "receives", "sends", "sleeps", "turns_empty", "turns_productive"]);
        // A request is one of the load's: of several that are received together each is one.
        assert!(seen.per_request["receives"] > 0.0 && seen.per_request["receives"] <= 1.1, "{:?}", seen.per_request);
        assert!((0.0..=1.0).contains(&seen.waiting_for_cpu), "{seen:?}");
        assert_eq!(seen.trains_dropped.is_some(), arguments[0] == "udp", "{seen:?}");
    }
    let elsewhere = url("127.0.0.1:1");
    let output = output(&mut load_command(&[], &server.run, &["--quiet", "echo", &elsewhere, "--server-page"]));
    assert_eq!(output.status.code(), Some(REFUSED), "{output:?}");
}

/// More datagrams than the socket of a server that does nothing for a while has room for: what the system drops is told by the server's
/// page, once it goes on.
#[test]
fn what_the_servers_sockets_had_no_room_for_is_counted() {
    const SENT: u64 = 20_000;
    let server = Server::start(&[UDP, "--lanes", "1"]);
    let socket = datagrams_to(server.udp());
    server.signal(Signal::SIGSTOP);
    for _ in 0..SENT {
        assert_eq!(socket.send(&[7; 1_000]).unwrap(), 1_000);
    }
    server.signal(Signal::SIGCONT);
    until("all is accounted for", || server.count("trains_dropped") + server.count("datagrams_in") == SENT);
    assert!(server.count("trains_dropped") > 0 && server.count("datagrams_in") > 0);
    let said = String::from_utf8(server.stat(&["--all"]).stdout).unwrap();
    assert!(said.contains("trains_dropped"), "{said}");
}

/// A shell whose child serves, both ended when dropped.
struct Wrapped {
    shell: Child,
    url: String,
    _folder: Scratch,
}

impl Wrapped {
    fn start() -> Self {
        let folder = Scratch::new();
        let mut command = Command::new("sh");
        command.args(["-c", "\"$0\" serve \"$1\" & wait", PROGRAM, TCP]).env("CORELANE_RUN_DIR", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut shell = command.spawn().unwrap();
        let lines = lines(shell.stdout.take().unwrap());
        let said = std::iter::from_fn(|| Some(lines.recv_timeout(PATIENCE).unwrap()).filter(|line| line != "ready"));
        // All of them: who reads no further is where the server is not yet.
        let said: Vec<String> = said.collect();
        let url = said.iter().find_map(|line| line.strip_prefix("echo ")).unwrap_or_else(|| panic!("{said:?} name no place"));
        Self { shell, url: url.to_owned(), _folder: folder }
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.shell.id() as i32), Signal::SIGKILL);
        let _ = self.shell.wait();
    }
}

#[test]
fn the_cost_of_a_process_is_that_of_its_children_too() {
    let wrapped = Wrapped::start();
    let pid = wrapped.shell.id().to_string();
    let run = load(&["echo", &wrapped.url, "--requests", "20000", "--depth", "16", "--connections", "4", "--server-pid", &pid]);
    run.met(&[]).doubted(&[]);
    let seen = run.report.server.as_ref().expect("the server was measured");
    assert_eq!((seen.pid, seen.per_request.len()), (wrapped.shell.id(), 0));
    assert!(seen.cpus_used > 0.0 && run.report.server_us_per_request.is_some_and(|us| us > 0.0), "{seen:?}");
    // A shell alone needs less.
    assert!(seen.resident_bytes > 4 << 20 && seen.bytes_per_connection.is_some(), "{seen:?}");
}

/// Sixteen requests go together and are received together: a request costs a part of a receive.
#[test]
fn what_the_server_counts_is_divided_by_the_requests_of_the_load() {
    let server = Server::start(&[TCP, UDP]);
    let url = urls(&server).0;
    for extent in [&["--requests", "32000"][..], &["--duration", "500ms", "--warmup", "100ms"]] {
        let run = load_beside(&server, &[&["echo", &url, "--depth", "16", "--server-page"], extent].concat());
        run.met(&[]).doubted(&[]);
        let seen = run.report.server.as_ref().expect("the server was measured");
        assert!(seen.per_request["receives"] < 0.5, "{:?}", seen.per_request);
        assert!(seen.per_request["sleeps"] < 0.5, "{:?}", seen.per_request);
    }
}

/// A shell with more children that never rest than there are CPUs, ended with them when dropped.
struct Crowd(Child);

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.0.id() as i32), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_waits_for_no_more_than_all_of_the_time() {
    let server = Server::start(&[TCP, UDP]);
    let cpus = std::thread::available_parallelism().unwrap().get();
    let script = format!("i=0; while [ $i -lt {} ]; do (while :; do :; done) & i=$((i+1)); done; wait", 3 * cpus);
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let crowd = Crowd(command.spawn().unwrap());
    let pid = crowd.0.id().to_string();
    let run = load(&["echo", &urls(&server).0, "--duration", "700ms", "--warmup", "300ms", "--server-pid", &pid]);
    let seen = run.report.server.as_ref().expect("the crowd was measured");
    // Each of them has a third of a CPU, and waits for it for the rest of the time.
    assert!((0.1..=1.0).contains(&seen.waiting_for_cpu), "{seen:?}");
}

#[test]
fn offered_and_achieved_are_of_one_unit() {
    let server = Server::start(&[TCP, UDP]);
    let url = urls(&server).0;
    let run = load_beside(
        &server,
        &["echo", &url, "--connection-rate", "200", "--requests-per-connection", "3", "--duration", "1s", "--warmup", "0s"],
    );
    run.met(&[]).doubted(&[]);
    let report = &run.report;
    assert_eq!((report.offered_per_second, report.settings.rate), (Some(600.0), Some(200.0)));
    // No more than 200 connections are opened: what is above is counted in requests. The last ones may be answered
    // behind the end on a busy machine, and are then of no figure.
    assert!(
        report.requests_per_second <= 600.0 && (201..=600).contains(&report.requests),
        "{} of {}",
        report.requests_per_second,
        report.requests
    );
}

#[test]
fn a_server_that_dies_in_the_middle_is_counted_and_ends_nothing_else() {
    let mut server = Server::start(&[TCP, UDP]);
    let (folder, pid, (tcp, _)) = (Scratch::new(), server.pid().to_string(), urls(&server));
    let arguments = ["--json", "--quiet", "echo", &tcp, "--requests", "100000000", "--connections", "4", "--timeout", "300ms"];
    let mut command = load_command(&[], &folder, &[&arguments[..], &["--server-pid", &pid]].concat());
    let loading = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    server.wait_for("requests", |requests| requests > 1000);
    server.signal(Signal::SIGKILL);
    server.ended();
    let run = Run::of(&loading.wait_with_output().unwrap());
    assert!(run.report.requests > 1000 && run.report.errors["refused"] > 0, "{:?}", run.errors());
    assert!(run.doubts().iter().any(|doubt| doubt.contains("nothing was answered for")), "{:?}", run.doubts());
    // What it had used is not to be had any more: no figure is better than a wrong one.
    assert!(run.report.server.is_none() && run.report.server_us_per_request.is_none(), "{:?}", run.report.server);
    assert!(run.doubts().iter().any(|doubt| doubt.contains("process ended during the run")), "{:?}", run.doubts());
}

#[test]
fn a_slow_server_is_seen_to_fall_behind() {
    let host = super::hostile::answering(|bytes| {
        // reason: the server is to be slower than it is asked to be.
        std::thread::sleep(std::time::Duration::from_millis(20));
        bytes.to_vec()
    });
    let run = load(&["echo", &host.url(), "--rate", "1000", "--connections", "2", "--warmup", "0s", "--duration", "1s"]);
    run.met(&[]);
    let report = &run.report;
    assert!(run.code == DOUBTS && report.doubts.iter().any(|doubt| doubt.contains("the run fell behind")), "{:?}", report.doubts);
    // Two at a time, each for 20 ms: a hundred a second. The rest were offered, and never sent.
    assert_eq!(report.offered_per_second, Some(1000.0));
    assert!(
        report.requests <= 110 && report.not_sent.is_some_and(|count| count >= 890),
        "{} {:?}",
        report.requests,
        report.not_sent
    );
    // Latency counts from the intended start, and so rises with the queue; the service time does not know of it.
    assert!(report.latency_us["max"] > report.service_us.as_ref().unwrap()["max"]);
}

#[test]
fn a_recording_is_played_as_it_is() {
    let server = Server::start(&[TCP, UDP]);
    let folder = Scratch::new();
    let file = folder.path().join("arrivals");
    fs::write(&file, "# three at once, and one later\n100\n100\n100\n100.25\n").unwrap();
    let run = load_beside(&server, &["echo", &urls(&server).0, "--connections", "4", "--arrivals", file.to_str().unwrap()]);
    run.met(&[]).doubted(&[]);
    let settings = &run.report.settings;
    assert_eq!((run.report.requests, settings.arrivals.as_deref(), settings.warm_up_s), (4, Some("recorded"), 0.0));
    server.comes_to("bytes_in", 4 * 64);
}

#[test]
fn a_process_of_somebody_else_can_be_measured_or_is_named() {
    let test = "load::counts::a_process_of_somebody_else_can_be_measured_or_is_named";
    if !is_root(test) || !have(test, &["setpriv"]) {
        return;
    }
    let server = Server::start(&[TCP, UDP]);
    let folder = Scratch::new();
    let program = copy_for_all(&folder);
    let wrapper = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let pid = server.pid().to_string();
    let mut command = wrapped(&wrapper, &program);
    command.args(["load", "--quiet", "--json", "echo", &urls(&server).0, "--requests", "100", "--server-pid", &pid]);
    let output = output(command.env("CORELANE_RUN_DIR", folder.path()));
    if output.status.code() == Some(REFUSED) {
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.lines().count() == 1 && text.contains(&pid), "{text:?}");
        return;
    }
    assert_eq!(Run::of(&output).report.server.map(|server| server.pid), Some(server.pid()));
}
