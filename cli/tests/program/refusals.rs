//! What the program cannot do as asked: one line on standard error with what, where and the remedy; exit code 2.

use crate::common::*;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::process::Output;

/// Runs `corelane serve`, which is to refuse.
fn refused(wrapper: &[&str], arguments: &[&str]) -> Output {
    let run = Scratch::new();
    let output = output(wrapped(wrapper, PROGRAM).arg("serve").args(arguments).env("CORELANE_RUN_DIR", run.path()));
    assert_eq!(output.status.code(), Some(2), "{arguments:?} ended with {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?} announced {output:?}");
    output
}

/// The refusal of these arguments is one line that has all these words.
fn refuses(wrapper: &[&str], arguments: &[&str], words: &[&str]) {
    let text = String::from_utf8(refused(wrapper, arguments).stderr).unwrap();
    assert!(text.starts_with("corelane: ") && text.lines().count() == 1, "{arguments:?}: {text:?}");
    for word in words {
        assert!(text.contains(word), "{arguments:?}: {word:?} is not in {text:?}");
    }
}

#[test]
fn bad_places_are_named() {
    let form = "write tcp://HOST:PORT or udp://HOST:PORT or tls://HOST:PORT or unix:PATH or unixgram:PATH";
    let cases: &[(&str, &[&str])] = &[
        ("echo", &["\"echo\" is not SERVICE=URL", "write for example echo=tcp://"]),
        ("tcp://127.0.0.1:0", &["\"tcp://127.0.0.1:0\" is not SERVICE=URL"]),
        ("udp://127.0.0.1:0?reflect=true", &["is not SERVICE=URL"]),
        ("echo=", &["\"\"", "there is no ://", form]),
        ("echo=127.0.0.1:0", &["\"127.0.0.1:0\"", "there is no ://", form]),
        ("echo=http://127.0.0.1:0", &["http://127.0.0.1:0", "only be served at tcp:// or udp://"]),
        ("echo=udp://127.0.0.1:0?reflekt", &["echo", "\"reflekt\"", "no such option", "there are reflect"]),
        ("echo=udp://127.0.0.1:0?reflect=2", &["\"reflect\"", "\"2\" is neither true nor false"]),
        ("rpc=tcp://127.0.0.1:0?reflect", &["rpc", "\"reflect\"", "there are register"]),
        ("echo=tcp://", &["\"tcp://\"", "HOST:PORT", form]),
        ("echo=tcp://::1:0", &["tcp://::1:0", "brackets", form]),
        ("echo=tcp://[::1:0", &["tcp://[::1:0", "brackets", form]),
        ("echo=tcp://127.0.0.1:0/path", &["tcp://127.0.0.1:0/path", "a path behind it means nothing", form]),
        ("http=http://127.0.0.1:0/path?root=/", &["http://127.0.0.1:0/path", "a path behind it means nothing"]),
        ("http=http://127.0.0.1:0?reply=8&certificate=/c", &["\"certificate\"", "no such option", "at https:// there is"]),
        ("echo=tcp://127.0.0.1:65536", &["tcp://127.0.0.1:65536", "a number from 0 to 65535", form]),
        ("echo=tcp://127.0.0.1:-1", &["tcp://127.0.0.1:-1", "a number from 0 to 65535"]),
        ("echo=tcp://127.0.0.1:seven", &["tcp://127.0.0.1:seven", "a number from 0 to 65535"]),
        ("daytime=tcp://127.0.0.1:0", &["no service \"daytime\"", "echo"]),
        ("echo=tcp://no-such-host.invalid:0", &["no-such-host.invalid", "check the name, or give an address"]),
        ("echo=tcp://192.0.2.7:0", &["tcp://192.0.2.7:0", "not an address of this machine", "ip address"]),
        ("echo=udp://192.0.2.7:0", &["udp://192.0.2.7:0", "\"reflect\"", "udp://192.0.2.7:0?reflect"]),
        ("echo=udp://0.0.0.0:0", &["udp://0.0.0.0:0", "forged", "127.0.0.1", "?reflect"]),
        ("echo=udp://[::]:0", &["udp://[::]:0", "?reflect"]),
    ];
    for (place, words) in cases {
        refuses(&[], &[place], words);
        refuses(&[], &[TCP, UDP, place], words); // nor does anything else begin to be served
    }
}

#[test]
fn bad_settings_are_named() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--lanes", "0"], &["lanes", "0 is not a number of lanes", "use 1 to 256"]),
        (&["--lanes", "257"], &["lanes", "257 is not a number of lanes", "use 1 to 256"]),
        (&["--lanes", "1000000"], &["lanes", "1000000 is not a number of lanes", "use 1 to 256"]),
        (&["--cpus", "99"], &["cpus", "CPU 99", "name others, or widen its affinity"]),
        (&["--cpus", "zero"], &["--cpus", "\"zero\" is not a CPU number", "like 0-3"]),
        (&["--cpus", "3-1"], &["--cpus", "\"3-1\"", "like 0-3"]),
        (&["--cpus", ""], &["--cpus", "\"\"", "like 0-3"]),
        (&["--driver", "nonsense"], &["driver", "\"nonsense\"", "use auto, uring or epoll"]),
        (&["--limit", "nonsense=1"], &["--limit", "no limit \"nonsense\"", "idle_limit", "no_delay"]),
        (&["--limit", "idle_limit=soon"], &["--limit", "idle_limit", "\"soon\" is no time", "such as 500ms, 30s or 1m30s"]),
        (&["--limit", "idle_limit=3"], &["--limit", "idle_limit: \"3\" has no unit: write 3s for seconds, 3ms"]),
        (&["--limit", "record_max=1kib"], &["--limit", "record_max: \"1kib\" is no size", "such as 64MiB"]),
        (&["--limit", "drain_limit=0s"], &["--limit", "drain_limit: 0s is too little: 1ms or more"]),
        (&["--limit", "no_delay=1"], &["--limit", "\"1\" is neither true nor false"]),
        (&["--memory", "0"], &["--memory", " 0 bytes", "use 4MiB to 64GiB"]),
        (&["--memory", "65GiB"], &["--memory", "65GiB", "use 4MiB to 64GiB"]),
        (&["--memory", "64"], &["--memory", "with 64 bytes", "use 4MiB to 64GiB, such as 64MiB"]),
        (&["--stall", "1ms"], &["stall", "1ms is no limit", "use 10 ms to an hour"]),
        (&["--spin", "1000001us"], &["spin", "1.000001s is too long", "use 0 to 1s"]),
        (&["--spin", "2s"], &["spin", "2s is too long", "use 0 to 1s"]),
    ];
    for (settings, words) in cases {
        refuses(&[], &[settings, [TCP].as_slice()].concat(), words);
    }
}

#[test]
fn a_limit_without_a_value_is_refused_with_the_form() {
    refuses(&[], &["--limit", "idle_limit", TCP], &["--limit", "\"idle_limit\" is not NAME=VALUE", "idle_limit=30s"]);
}

#[test]
fn limits_that_cannot_be_kept_are_refused() {
    let never = ["can never be received", "remedy: record_max=4MiB or less"];
    refuses(&[], &["--limit", "record_max=5000000", TCP], &never);
    refuses(&[], &["--memory", "4MiB", "--limit", "record_max=4M", TCP], &["4 MiB of memory", "or more memory (--memory)"]);
    refuses(&[], &["--limit", "output_max=1000", TCP], &["output_max=1000", "output_high=256KiB"]);
}

#[test]
fn less_memory_than_a_lane_can_work_with_is_refused() {
    refuses(&[], &["--memory", "3MiB", TCP], &["--memory", "3MiB", "use 4MiB to 64GiB"]);
}

#[test]
fn what_the_command_line_does_not_know_is_refused() {
    for threads in ["1", "257"] {
        let output = refused(&[], &["--offload-threads", threads]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("--offload-threads") && text.contains(threads) && text.contains("2..=256"), "{text}");
    }
    for (flag, wrong, range) in [
        ("--offload-max", "0", "1..=1048576"),
        ("--watches-max", "1048577", "0..=1048576"),
        ("--zero-copy", "much", "KiB"),
        ("--tasks-max", "0", "1..=16777216"),
        ("--channel-messages", "65537", "1..=65536"),
    ] {
        let text = String::from_utf8(refused(&[], &[flag, wrong]).stderr).unwrap();
        assert!(text.contains(flag) && text.contains(wrong) && text.contains(range), "{text}");
    }
    for (arguments, words) in [
        (["--udp-hash", "3"], "[possible values: 4, 2]"),
        (["--huge-pages", "some"], "[possible values: auto, off, required]"),
        (["--locked-memory", "true"], "[possible values: auto, off, required]"),
        (["--spin", "soon"], "such as 500ms, 30s or 1m30s"),
        (["--spin", "50"], "write 50s for seconds, 50ms"),
    ] {
        let text = String::from_utf8(refused(&[], &arguments).stderr).unwrap();
        assert!(text.contains(arguments[0]) && text.contains(words), "{text}");
    }
    for arguments in [["--lanes", "many"], ["--spin", "soon"], ["--nonsense", TCP]] {
        let output = refused(&[], &arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(arguments[0]) && text.contains("--help"), "{text}");
    }
}

#[test]
fn a_port_that_others_serve_is_refused() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for url in [format!("tcp://{}", tcp.local_addr().unwrap()), format!("udp://{}", udp.local_addr().unwrap())] {
        let place = format!("echo={url}");
        refuses(&[], &[&place], &[&url, "stop it, choose another port, or use --join, if it is of the same user"]);
        // They do not share it, so that asking for it does not help.
        refuses(&[], &["--join", &place], &[&url]);
    }
}

#[test]
fn the_port_of_another_server_is_refused_and_can_be_joined() {
    let first = Server::start(&["--join", TCP, UDP]);
    let places: Vec<String> = first.urls.iter().map(|url| format!("echo={url}")).collect();
    for (place, url) in places.iter().zip(&first.urls) {
        refuses(&[], &[place], &[url, "--join"]);
    }
    let mut stays = first.connect();
    echo(&mut stays, b"first");
    let second = Server::start(&["--join", &places[0], &places[1]]);
    assert_eq!(second.urls, first.urls);
    let mut open = Vec::new();
    let mut ask = || {
        let mut stream = first.connect();
        echo(&mut stream, b"whose?");
        echo_datagram(&datagrams_to(first.udp()), b"whose?");
        open.push(stream);
        open.len() as u64
    };
    if second.steering.starts_with("program") {
        // It has taken over all that is new.
        (0..50).for_each(|_| assert!(ask() > 0));
        second.comes_to("accepts", 50);
        second.comes_to("datagrams_in", 50);
        assert_eq!((first.count("accepts"), first.count("datagrams_in"), second.count("strays")), (1, 0, 0));
    } else {
        let mut asked = 0;
        until("both have accepted", || {
            asked = ask();
            first.count("accepts") > 1 && second.count("accepts") > 0
        });
        assert_eq!(first.count("accepts") + second.count("accepts"), asked + 1);
    }
    echo(&mut stays, b"still first");
}

#[test]
fn a_low_port_is_refused_to_an_ordinary_user() {
    let test = "refusals::a_low_port_is_refused_to_an_ordinary_user";
    if !is_root(test) || !have(test, &["unshare", "ip", "setpriv"]) {
        return;
    }
    let copy = Scratch::new();
    let program = copy_for_all(&copy);
    let script = "ip link set lo up && echo 1024 > /proc/sys/net/ipv4/ip_unprivileged_port_start && exec setpriv \
                  --reuid=65534 --regid=65534 --clear-groups \"$@\"";
    let wrapper = ["unshare", "--net", "sh", "-c", script, "sh", &program];
    for url in ["tcp://127.0.0.1:80", "udp://127.0.0.1:80"] {
        let output = output(wrapped(&wrapper, "serve").arg(format!("echo={url}")).env("CORELANE_RUN_DIR", copy.path()));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.lines().count() == 1 && text.starts_with(&format!("corelane: cannot listen on {url}: ")), "{text:?}");
        assert!(text.contains("ip_unprivileged_port_start") && text.contains("choose a higher port"), "{text:?}");
    }
}

#[test]
fn a_refused_start_leaves_no_page() {
    let run = Scratch::new();
    let arguments = ["serve", "--memory", "99999999999k", TCP];
    let output = output(wrapped(&[], PROGRAM).args(arguments).env("CORELANE_RUN_DIR", run.path()));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0, "a page of a process that never served");
}

#[test]
fn who_has_a_port_is_named() {
    let server = Server::start(&["--lanes", "2", TCP, UDP]);
    let places = [format!("echo={}", server.urls[0]), format!("echo={}", server.urls[1])];
    for sandbox in ["auto", "off"] {
        for place in &places {
            let holder = format!("process {} (corelane) serves this port", server.pid());
            refuses(&[], &["--sandbox", sandbox, place], &["cannot listen on", &holder, "stop it, choose another port"]);
        }
    }
}
