//! What goes one way: what `serve push` sends and `load sink` takes, datagrams in bursts, and the lines of an older program.

use super::*;
use crate::confined::{below, without};
use nix::libc;
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

on_each_driver!(what_is_pushed_is_taken_and_counted, bursts_arrive_in_trains);

const PUSH: &str = "push=tcp://127.0.0.1:0?size=5000";
const DISCARD: &str = "push=udp://127.0.0.1:0";

/// A run against this server, with its pages where the server's are.
fn load_beside(server: &Server, arguments: &[&str]) -> Run {
    Run::of(&output(&mut load_command(&[], &server.run, &[&["--json", "--quiet"], arguments].concat())))
}

fn what_is_pushed_is_taken_and_counted(driver: Driver) {
    let Some(server) = driver.start("load::bulk::what_is_pushed_is_taken_and_counted", &[PUSH]) else { return };
    let place = url(server.tcp());
    let window = ["--warmup", "200ms", "--duration", "1300ms", "--server-page"];
    let words = ["--driver", driver.name(), "sink", &place, "-c", "20", "--check", "1", "--opening-rate", "2k"];
    let run = load_beside(&server, &[&words[..], &window].concat());
    run.met(&[]).doubted(&[]);
    let (report, flow) = (&run.report, run.report.flow.as_ref().unwrap());
    assert!(report.bytes_received > 1 << 20 && report.counted["bytes_checked"] == report.bytes_received);
    assert!((flow.gigabits_per_second - report.bytes_received as f64 * 8.0 / 1.3e9).abs() < 1e-6, "{flow:?}");
    assert!(flow.server_s_per_gib.is_some_and(|cost| cost > 0.0) && flow.generator_s_per_gib.is_some_and(|cost| cost > 0.0));
    let open: u64 = report.series[1].flows.iter().map(|flow| flow.connections).sum();
    assert_eq!((open, report.settings.connections), (20, 20));
    assert!(server.count("bytes_out") >= report.bytes_received);
}

#[test]
fn where_nothing_can_be_sealed_the_lanes_memory_is_pushed_and_that_is_told() {
    let sealable = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    let sealable = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, sealable).unwrap();
    let filter = without(&[(libc::SYS_memfd_create, vec![SeccompRule::new(vec![sealable]).unwrap()])]);
    let server = below(&filter, || Server::start(&["--lanes", "1", "push=tcp://127.0.0.1:0?size=64KiB"]));
    until("it is told", || server.words().contains("what is pushed cannot be sealed"));
    let run =
        load_beside(&server, &["sink", &url(server.tcp()), "-c", "2", "--check", "1", "--warmup", "0s", "--duration", "300ms"]);
    run.met(&[]);
    assert!(run.report.bytes_received > 0 && server.lane_count("sends_sealed") == 0);
}

fn bursts_arrive_in_trains(driver: Driver) {
    let Some(server) = driver.start("load::bulk::bursts_arrive_in_trains", &[DISCARD]) else { return };
    let place = format!("udp://{}", server.udp());
    let run = load_beside(&server, &["--driver", driver.name(), "burst", &place, "--burst", "16", "-s", "500", "-n", "4800"]);
    run.met(&[]).doubted(&[]);
    assert_eq!((run.report.sent, run.report.bytes_sent, run.report.bytes_received), (4_800, 2_400_000, 0));
    let mut taken = 0;
    // While datagrams arrive, one counter is read after more of them than the other.
    until("each datagram is a request", || {
        taken = server.count("datagrams_in");
        taken > 0 && server.count("requests") == taken
    });
    assert!(taken <= 4_800, "{taken} datagrams");
}

#[test]
fn a_server_that_says_nothing_by_itself_is_told() {
    let server = Server::start(&["http=http://127.0.0.1:0?reply=8"]);
    let place = url(server.address("http"));
    let window = ["--warmup", "0s", "--duration", "300ms", "--timeout", "100ms"];
    let run = load(&[&["sink", &place][..], &window].concat());
    run.met(&["client_timeout"]);
    assert!(run.doubts().iter().any(|doubt| doubt.starts_with("nothing came")), "{:?}", run.doubts());
}

#[test]
fn an_older_clients_lines_are_printed_each_second() {
    let server = Server::start(&[PUSH, DISCARD]);
    let (tcp, udp) = (server.tcp().port().to_string(), server.udp().port().to_string());
    let lines = |words: &[&str]| {
        let output = ended(&[], words);
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(GOOD), ""), "{words:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let taken = lines(&["--style", "iapp-clt", "2", "3", "10", "5000", "127.0.0.1", &tcp, "--duration", "1200ms"]);
    let told =
        |thread: usize| taken.iter().filter(move |line| line.starts_with(&format!("thread {thread}: clients 3, new "))).count();
    assert_eq!([told(0), told(1)], [2, 2], "{taken:?}");
    assert!(taken.last().is_some_and(|line| line.starts_with("total: ") && line.contains(" Gb/s, CPU ")), "{taken:?}");
    let sent = lines(&["--style", "iapp-udp-clt", "1", "64", "32", "510", "127.0.0.1", &udp, "--duration", "500ms"]);
    let is_told =
        |line: &String| line.starts_with("thread 0: clients 1, new 1, closed 0, TX ") && line.ends_with(" packets), RX 0");
    assert!(sent.iter().any(is_told), "{sent:?}");
}

#[test]
fn what_makes_no_sense_for_it_is_refused_in_words() {
    for (words, why) in [
        (&["sink", "--rate", "5"][..], "sink makes no requests that could have a time"),
        (&["sink", "--connection-rate", "5"], "leave out --rate, --connection-rate"),
        (&["sink", "-n", "5"], "give a --duration"),
        (&["sink", "-d", "4"], "nothing is asked here"),
        (&["sink", "-s", "0"], "a piece has a byte at least"),
        (&["sink", "udp://127.0.0.1:9"], "sink is asked for by tcp://"),
        (&["burst", "tcp://127.0.0.1:9"], "burst is asked for by udp://"),
        (&["echo", "--check", "1"], "--check is for sink"),
        (&["sink", "--opening-rate", "0.5"], "are not between 1 and"),
    ] {
        says(&[], words, REFUSED, &[why]);
    }
}
