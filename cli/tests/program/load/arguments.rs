//! What the load generator cannot do as asked: one line with what and the remedy, exit code 2, and no run.

use super::*;
use std::fs;
use std::net::TcpListener;

const TARGET: &str = "tcp://127.0.0.1:1";

/// The arguments are refused in one line with all these words.
fn refuses(arguments: &[&str], words: &[&str]) {
    says(&[], &[&["echo", TARGET], arguments].concat(), REFUSED, words);
}

/// The command line is refused as the other subcommands' is: with the option, and the way to help.
fn does_not_understand(arguments: &[&str], words: &[&str]) {
    let output = ended(&[], &[&["echo", TARGET], arguments].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(REFUSED), 0), "{arguments:?}: {text}");
    for word in [&["error: ", "--help"], words].concat() {
        assert!(text.contains(word), "{arguments:?}: {word:?} is not in {text:?}");
    }
}

#[test]
fn numbers_out_of_bounds_are_named() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--connections", "0"], &["connections", "0 is not between 1 and 1000000"]),
        (&["--connections", "1000001"], &["connections", "1000001 is not between"]),
        (&["--depth", "0"], &["depth", "0 is not between 1 and 65536"]),
        (&["--depth", "65537"], &["depth", "65537"]),
        (&["--size", "0"], &["size", "0 bytes"]),
        (&["--size", "67108865"], &["size", "67108865 bytes"]),
        (&["--size", "18446744073709551615"], &["size", "18446744073709551615 bytes"]),
        (&["--size", "1048576", "--depth", "65"], &["size", "65 of them in flight"]),
        (&["--rate", "0"], &["rate", "0.0 a second is not between 0.001 and 1000000000"]),
        (&["--rate", "NaN"], &["rate", "NaN"]),
        (&["--rate", "inf"], &["rate", "inf"]),
        (&["--rate=-1"], &["rate", "-1.0 a second"]),
        (&["--rate", "1e300"], &["rate", "1e300 a second"]),
        (&["--connection-rate", "0"], &["rate", "0.0 a second"]),
        (&["--connection-rate", "NaN"], &["rate", "NaN"]),
        (&["--duration", "0s"], &["duration", "more than nothing"]),
        (&["--duration", "25h"], &["duration", "at most 86400s"]),
        (&["--warmup", "25h"], &["warm-up", "at most 86400s"]),
        (&["--requests", "0"], &["requests", "nothing to do"]),
        (&["--timeout", "0s"], &["timeout", "0ns is not between"]),
        (&["--timeout", "25h"], &["timeout", "86400s"]),
        (&["--lanes", "0"], &["--lanes", "one at least"]),
        (&["--quantiles", "x"], &["--quantiles", "\"x\" is no number"]),
        (&["--quantiles", ""], &["--quantiles", "\"\" is no number"]),
        (&["--quantiles", "50,101"], &["--quantiles", "101 is outside of 0 to 100"]),
        (&["--quantiles", "NaN"], &["--quantiles", "NaN is outside"]),
        (&["--quantiles", "50,90,50"], &["--quantiles", "50 is given twice"]),
    ];
    cases.iter().for_each(|(arguments, words)| refuses(arguments, words));
}

#[test]
fn what_is_no_number_is_not_understood() {
    let long = "99999999999999999999";
    let options =
        ["--connections", "--depth", "--size", "--rate", "--connection-rate", "--requests", "--lanes", "--spin", "--seed"];
    for option in options {
        does_not_understand(&[option, "many"], &[option, "many"]);
        does_not_understand(&[&format!("{option}=")], &[option]);
    }
    for option in ["--connections", "--depth", "--size", "--requests", "--lanes", "--server-pid", "--runs"] {
        does_not_understand(&[option, long], &[option, long]);
        does_not_understand(&[&format!("{option}=-1")], &[option, "-1"]);
    }
    for option in ["--duration", "--warmup", "--timeout"] {
        for value in ["", "soon", "1e3s", "10000000000000y", "3", "0.5"] {
            does_not_understand(&[&format!("{option}={value}")], &[option]);
        }
        does_not_understand(&[&format!("{option}=-1s")], &[option, "-1s"]);
    }
    does_not_understand(&["--runs", "0"], &["--runs", "1..=1000"]);
    does_not_understand(&["--runs", "1001"], &["--runs", "1..=1000"]);
    does_not_understand(&["--source", "localhost"], &["--source", "localhost"]);
    does_not_understand(&["--nonsense"], &["--nonsense"]);
    does_not_understand(&["again"], &["again"]);
}

#[test]
fn options_that_exclude_one_another_are_named() {
    let pairs: &[(&[&str], &[&str])] = &[
        (&["--rate", "5", "--connection-rate", "5"], &["--rate", "--connection-rate", "cannot be used with"]),
        (&["--requests", "5", "--duration", "5s"], &["--requests", "--duration", "cannot be used with"]),
        (&["--server-pid", "1", "--server-page"], &["--server-pid", "--server-page", "cannot be used with"]),
        (&["--connection-rate", "5", "--requests-per-connection", "0"], &["--requests-per-connection", "0 is not in 1.."]),
        (&["--against-pid", "1"], &["--against", "not provided"]),
        (&["--rate", "5", "--rate", "6"], &["--rate", "multiple times"]),
    ];
    pairs.iter().for_each(|(arguments, words)| does_not_understand(arguments, words));
    let folder = Scratch::new();
    let file = folder.path().join("file");
    fs::write(&file, "0\n1\n").unwrap();
    let file = file.to_str().unwrap();
    let pairs: &[(&[&str], &[&str])] = &[
        (&["--arrivals", "poisson"], &["--arrivals needs a --rate"]),
        (&["--arrivals", "fixed"], &["--arrivals needs a --rate"]),
        (&["--arrivals", file, "--rate", "5"], &["its own rate", "leave out --rate"]),
        (&["--arrivals", file, "--connection-rate", "5"], &["its own rate"]),
        (&["--arrivals", file, "--warmup", "1s"], &["leave out --warmup"]),
        (&["--every", "1s"], &["--every is for idle", "use --rate"]),
        (&["--singles"], &["--singles is for datagrams"]),
        (&["--hdr", file, "--runs", "2"], &["--hdr", "leave out --runs and --against"]),
        (&["--hdr", file, "--against", TARGET], &["--hdr", "leave out --runs and --against"]),
        (&["--hdr", file, "--report", file], &["--hdr and --report", "a file of its own"]),
        (&["--source", "::1"], &["::1", "the other IP version"]),
    ];
    pairs.iter().for_each(|(arguments, words)| refuses(arguments, words));
    assert_eq!(fs::read_to_string(file).unwrap(), "0\n1\n", "a refusal has written to it");
    for more in [&["--rate", "5"][..], &["--connection-rate", "5"], &["--depth", "2"], &["--arrivals", file]] {
        let arguments = [&["idle", TARGET], more].concat();
        says(&[], &arguments, REFUSED, &["--rate"]);
    }
    says(&[], &["udp", "--connection-rate", "5"], REFUSED, &["connection-rate", "datagrams have no connections"]);
    says(&[], &["udp", "--size", "0"], REFUSED, &["size", "0 bytes"]);
    says(&[], &["udp", "--size", "65508"], REFUSED, &["size", "65508 bytes"]);
    says(&[], &["idle", "--every", "0s"], REFUSED, &["every"]);
}

#[test]
fn places_that_cannot_be_loaded_are_named() {
    let form = "write tcp://HOST:PORT or tls://HOST:PORT or unix:PATH";
    let cases: &[(&str, &[&str])] = &[
        ("127.0.0.1:7", &["\"127.0.0.1:7\"", "there is no ://", form]),
        ("http://127.0.0.1:7", &["http://127.0.0.1:7", "echo is asked for by tcp:// or tls:// or unix:"]),
        ("udp://127.0.0.1:7", &["udp://127.0.0.1:7", "echo is asked for by tcp://"]),
        ("tcp://127.0.0.1:0", &["names no port"]),
        ("tcp://127.0.0.1:65536", &["a number from 0 to 65535"]),
        ("tcp://127.0.0.1:-1", &["a number from 0 to 65535"]),
        ("tcp://::1:7", &["brackets"]),
        ("tcp://", &["HOST:PORT"]),
        ("", &["there is no ://"]),
        ("tcp://no-such-host.invalid:7", &["no-such-host.invalid", "check the name"]),
    ];
    for (url, words) in cases {
        says(&[], &["echo", url], REFUSED, words);
        says(&[], &["echo", TARGET, "--against", url], REFUSED, words);
    }
    says(&[], &["udp", TARGET], REFUSED, &[TARGET, "udp is asked for by udp://"]);
    says(&[], &["nonsense", TARGET], REFUSED, &["no workload \"nonsense\"", "echo, http, idle, rpc, udp"]);
    // A URL alone is a place, and no other word is one.
    says(&[], &["127.0.0.1:7"], REFUSED, &["no workload \"127.0.0.1:7\""]);
    says(&[], &[TARGET, "echo"], REFUSED, &["no workload", TARGET]);
    says(
        &[],
        &["ftp://127.0.0.1:7"],
        REFUSED,
        &["ftp://127.0.0.1:7", "use http://, https://, tcp://, tls://, udp://, unix: or unixgram:"],
    );
}

/// As people write it: a URL alone, a number of seconds, thousands a second.
#[test]
fn short_forms_are_understood() {
    let server = Server::start(&[TCP, UDP]);
    let (tcp, udp) = (format!("tcp://{}", server.tcp()), format!("udp://{}", server.udp()));
    let run = load(&[&tcp, "--rate", "1k", "--duration", "500ms", "--warmup", "0", "--timeout", "4s", "--connections", "4"]);
    run.met(&[]).doubted(&[]);
    let settings = &run.report.settings;
    assert_eq!((run.report.workload.as_str(), run.report.target.as_str(), settings.rate), ("echo", tcp.as_str(), Some(1_000.0)));
    assert_eq!((settings.duration_s, settings.warm_up_s, settings.timeout_s), (Some(0.5), 0.0, 4.0));
    let run = load(&[&udp, "--requests", "10", "--timeout", "20s"]);
    run.met(&[]).doubted(&[]);
    assert_eq!((run.report.workload.as_str(), run.report.requests), ("udp", 10));
    let run = load(&[&tcp, "--connection-rate", "0.1k", "--requests", "10"]);
    assert_eq!((run.report.settings.rate, run.report.requests), (Some(100.0), 10));
    does_not_understand(&["--rate", "10K"], &["\"10K\" is no number a second", "10k (thousands)"]);
    does_not_understand(&["--duration", "3 apples"], &["\"3 apples\" is no time", "such as 500ms, 30s or 1m30s"]);
}

#[test]
fn lanes_that_cannot_be_had_are_named() {
    refuses(&["--cpus", "99"], &["cpus", "CPU 99"]);
    for list in ["x", "", "3-1", "0-4294967295", "99999999999999999999", "-1"] {
        refuses(&[&format!("--cpus={list}")], &["--cpus"]);
    }
    refuses(&["--driver", "kqueue"], &["driver", "\"kqueue\"", "auto, uring or epoll"]);
}

#[test]
fn recordings_that_cannot_be_played_are_named() {
    let folder = Scratch::new();
    let cases: [(&[u8], &str); 9] = [
        (b"", "there is no time in it"),
        (b"# nothing\n\n", "there is no time in it"),
        (b"0\n1\nsoon\n", "line 3"),
        (b"0\n2\n1\n", "line 3"),
        (b"-1\n", "line 1"),
        (b"0\nNaN\n", "line 2"),
        (b"0\n1e300\n", "line 2"),
        (b"0\n90000\n", "line 2"),
        (b"\xff\xfe\n", "UTF-8"),
    ];
    for (number, (text, word)) in cases.into_iter().enumerate() {
        let file = folder.path().join(number.to_string());
        fs::write(&file, text).unwrap();
        refuses(&["--arrivals", file.to_str().unwrap()], &["--arrivals", word]);
    }
    refuses(&["--arrivals", "/dev/zero"], &["--arrivals", "more than", "bytes"]);
    refuses(&["--arrivals", "/"], &["--arrivals", "\"/\" is neither fixed nor poisson nor a file"]);
    refuses(&["--arrivals", "uniform"], &["\"uniform\" is neither fixed nor poisson nor a file"]);
}

#[test]
fn what_cannot_be_written_costs_no_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = url(listener.local_addr().unwrap());
    for option in ["--report", "--hdr"] {
        for path in ["/", "/nonexistent/file", "/proc/nonexistent"] {
            says(&[], &["echo", &target, option, path], REFUSED, &[path, "cannot be written"]);
        }
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a run was made all the same");
}

#[test]
fn servers_whose_cost_cannot_be_read_are_named() {
    for pid in ["0", "4194304", "4294967295"] {
        refuses(&["--server-pid", pid], &[pid, "there is no process"]);
    }
    refuses(&["--server-page"], &["no counter page", TARGET]);
}

#[test]
fn addresses_that_are_not_of_this_machine_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = url(listener.local_addr().unwrap());
    says(&[], &["echo", &target, "--source", "192.0.2.7"], NOT_MADE, &["not an address of this machine", "(no_address)"]);
    says(&[], &["udp", "udp://127.0.0.1:7", "--source", "192.0.2.7"], NOT_MADE, &["not an address of this machine"]);
}
