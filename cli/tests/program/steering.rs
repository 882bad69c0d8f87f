//! Steering in the real program: what is in force, why, and that it is so; and that nothing of it stays behind.

use crate::common::*;
use corelane::admin::rss::{FlowHasher, HashTypes, Key, Protocol, Table, Tuple};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// New flows for each check, as in the project's promise.
const FLOWS: usize = 400;
const LANES: usize = 3;
const PLACES: [&str; 4] = ["echo=tcp://127.0.0.1:0", "echo=tcp://[::1]:0", "echo=udp://127.0.0.1:0", "echo=udp://[::1]:0"];

/// A program's server with three lanes.
fn start(arguments: &[&str]) -> Server {
    Server::start(&[&["--lanes", "3"], arguments, &PLACES].concat())
}

/// The addresses that a server has for one protocol.
fn addresses(server: &Server, scheme: &str) -> Vec<SocketAddr> {
    let places = server.urls.iter().filter_map(|url| url.strip_prefix(scheme)?.strip_prefix("://"));
    places.map(|place| place.parse().unwrap()).collect()
}

/// How many of the flows belong to each lane.
fn expected(hasher: &FlowHasher, flows: &[Tuple]) -> Vec<u64> {
    let table = Table::even(corelane::admin::rss::Buckets::DEFAULT, LANES).unwrap();
    let mut counts = vec![0; LANES];
    flows.iter().for_each(|flow| counts[table.lane_of(hasher.tuple(flow).unwrap().flow)] += 1);
    counts
}

/// 400 flows of each protocol and family; returns those of TCP and those of UDP.
fn flows(server: &Server) -> [Vec<Tuple>; 2] {
    let mut streams = Vec::new();
    let mut sockets: Vec<UdpSocket> = Vec::new();
    for to in addresses(server, "tcp") {
        streams.extend((0..FLOWS).map(|_| connect(to)));
    }
    for to in addresses(server, "udp") {
        sockets.extend((0..FLOWS).map(|_| datagrams_to(to)));
    }
    streams.iter_mut().for_each(|stream| echo(stream, b"stream"));
    sockets.iter().for_each(|socket| echo_datagram(socket, b"datagram"));
    let tuple = |ends: [std::io::Result<SocketAddr>; 2], protocol| {
        let [from, to] = ends.map(Result::unwrap);
        Tuple::new(from, to, protocol).unwrap()
    };
    [
        streams.iter().map(|stream| tuple([stream.local_addr(), stream.peer_addr()], Protocol::TCP)).collect(),
        sockets.iter().map(|socket| tuple([socket.local_addr(), socket.peer_addr()], Protocol::UDP)).collect(),
    ]
}

/// Each lane has got exactly the flows that are its own: as many as belong to it, and none that belongs to another.
fn check_flows(server: &Server, hasher: &FlowHasher) {
    let [tcp, udp] = flows(server);
    assert_eq!((tcp.len(), udp.len()), (2 * FLOWS, 2 * FLOWS));
    server.comes_to("accepts", tcp.len() as u64);
    server.comes_to("datagrams_out", udp.len() as u64);
    assert_eq!(server.count("strays"), 0, "{}", server.steering);
    let page = server.page();
    let counted = |counter| -> Vec<u64> {
        let lanes = page["lanes"].as_array().unwrap().iter();
        let sum = |lane: &serde_json::Value| {
            lane["services"].as_array().unwrap().iter().map(|service| number(&service["counters"][counter])).sum()
        };
        lanes.map(sum).collect()
    };
    assert_eq!(counted("accepts"), expected(hasher, &tcp));
    assert_eq!(counted("datagrams_in"), expected(hasher, &udp));
}

/// What the server says that flows have to do without.
fn notes(server: &Server) -> Vec<&str> {
    server.notes.iter().map(String::as_str).filter(|note| note.contains("steering") || note.contains("hash")).collect()
}

fn hasher(key: &Key, types: HashTypes) -> FlowHasher {
    FlowHasher::new(key, types)
}

#[test]
fn every_flow_is_on_its_lane_by_the_program() {
    let test = "steering::every_flow_is_on_its_lane_by_the_program";
    if !is_root(test) {
        return;
    }
    let server = start(&[]);
    if !server.steering.starts_with("program, ") {
        return skip(test, &server.notes.join("; "));
    }
    assert_eq!(notes(&server), [""; 0], "nothing is lost");
    check_flows(&server, &hasher(&Key::MICROSOFT, HashTypes::ALL));
    // The kernel's own counts say the same, and are in the page soon.
    let all = 4 * FLOWS as u64;
    until("all selections are told", || server.lane_count("selections") >= all);
    assert_eq!(server.lane_count("selections"), all);
    let off_cpu = server.lane_count("selections_off_cpu");
    assert!(off_cpu <= all, "{off_cpu}");
    assert!(server.page()["lanes"].as_array().unwrap().iter().all(|lane| lane["steering"] == "program"));
    let text = String::from_utf8(server.stat(&["--all"]).stdout).unwrap();
    assert!(text.contains("steering program"), "{text}");
}

#[test]
fn every_flow_is_on_its_lane_for_an_ordinary_user() {
    let test = "steering::every_flow_is_on_its_lane_for_an_ordinary_user";
    if !is_root(test) || !have(test, &["setpriv"]) {
        return;
    }
    let folder = Arc::new(Scratch::new());
    let program = copy_for_all(&folder);
    let wrapper = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];
    let arguments = [&["--lanes", "3", "--driver", "epoll"][..], &PLACES].concat();
    let server = Server::start_as(Launch { wrapper: &wrapper, program: &program, arguments: &arguments, run: folder });
    assert!(server.steering.starts_with("classic program, "), "{}", server.steering);
    let [note] = notes(&server)[..] else { panic!("{:?}", server.notes) };
    assert!(note.contains("without counts") && note.contains("CAP_BPF"), "{note}");
    assert_eq!(server.page()["notes"], serde_json::json!(server.notes));
    check_flows(&server, &hasher(&Key::MICROSOFT, HashTypes::ALL));
    assert_eq!(server.lane_count("selections"), 0);
}

#[test]
fn key_and_hash_types_are_obeyed() {
    let key: Key = Key::random(40, {
        let mut state = 7_u64;
        move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state ^ state >> 29
        }
    })
    .unwrap();
    let server = start(&["--steering", "classic", "--key", &key.to_string(), "--udp-hash", "2"]);
    assert!(server.steering.starts_with("classic program, 128 buckets"), "{}", server.steering);
    check_flows(&server, &hasher(&key, HashTypes::DEFAULT));
}

/// The strays are what the kernel's own hash makes of it.
#[test]
fn without_steering_strays_are_counted() {
    let server = start(&["--steering", "kernel"]);
    assert_eq!(server.steering, "kernel hash, 128 buckets");
    flows(&server);
    server.comes_to("accepts", 2 * FLOWS as u64);
    let (strays, all) = (server.count("strays"), 4 * FLOWS as u64);
    assert!(strays > all / 3 && strays < all, "{strays} of {all}");
}

#[test]
fn one_lane_needs_nothing_and_says_so() {
    let server = Server::start(&["--lanes", "1", TCP, UDP]);
    assert_eq!(server.steering, "none, one lane has all flows");
    echo(&mut server.connect(), b"one");
    assert_eq!(server.count("strays"), 0);
}

#[test]
fn a_random_key_steers_too() {
    let server = start(&["--key", "random"]);
    let [tcp, _] = flows(&server);
    server.comes_to("accepts", tcp.len() as u64);
    assert_eq!(server.count("strays"), 0);
}

/// Opens connections with one request each until told to stop; returns how many, and what went wrong with others.
fn ask_until(stop: &AtomicBool, answered: &AtomicU64, to: SocketAddr) -> Vec<std::io::Error> {
    let mut lost = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let ask = || {
            let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            patient(&stream);
            stream.write_all(b"hand-over")?;
            stream.read_exact(&mut [0; 9])
        };
        match ask() {
            Ok(()) => drop(answered.fetch_add(1, Ordering::Relaxed)),
            Err(error) => lost.push(error),
        }
    }
    lost
}

/// Serves `connections`, hands the port over to another process in the middle, and counts at the client.
fn hand_over(connections: u64) {
    let mut first = start(&[]);
    let to = first.tcp();
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| ask_until(&stop, &answered, to))).collect();
        let come_to = |count| until("so many are answered", || answered.load(Ordering::Relaxed) >= count);
        come_to(connections / 3);
        let places: Vec<String> = first.urls.iter().map(|url| format!("echo={url}")).collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let second = Server::start(&[&["--lanes", "2", "--join"], &places[..]].concat());
        assert!(second.steering.starts_with("program"), "{}", second.steering);
        // A connection that waits to be accepted by the first does not count as open; behind so many answers none waits any more.
        let now = answered.load(Ordering::Relaxed);
        come_to(now + 300);
        until("what the first had is answered", || first.count("connections_open") == 0);
        // Some may have been taken, and not counted on the page.
        let (mut of_first, mut looks) = (first.count("accepts"), 0);
        until("nothing new has come to the first for a while", || {
            let before = std::mem::replace(&mut of_first, first.count("accepts"));
            looks = if before == of_first { looks + 1 } else { 0 };
            looks == 40
        });
        come_to(connections * 2 / 3);
        assert_eq!(first.count("accepts"), of_first, "all that is new is the second's");
        first.signal(Signal::SIGTERM);
        assert!(first.ended().success());
        come_to(connections);
        stop.store(true, Ordering::Relaxed);
        let lost: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        assert!(lost.is_empty(), "{} lost: {:?}", lost.len(), lost[0]);
        second.comes_to("accepts", answered.load(Ordering::Relaxed) - of_first);
        println!(
            "{of_first} answered by the first, {} in all, {} strays",
            answered.load(Ordering::Relaxed),
            second.count("strays")
        );
    });
}

#[test]
fn a_port_is_handed_over_without_losing_a_connection() {
    let test = "steering::a_port_is_handed_over_without_losing_a_connection";
    if is_root(test) {
        hand_over(2_000);
    }
}

#[test]
#[ignore = "long: ten thousand connections"]
fn a_port_is_handed_over_without_losing_one_of_ten_thousand() {
    hand_over(10_000);
}

/// What the program says, and that it ends with 2.
fn refusal(wrapper: &[&str], program: &str, arguments: &[&str]) -> String {
    let run = Scratch::new();
    let output = output(wrapped(wrapper, program).arg("serve").args(arguments).env("CORELANE_RUN_DIR", run.path()));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_cannot_be_is_refused_with_the_remedy() {
    let zeros = ["00"; 40].join(":");
    for (arguments, words) in [
        (["--steering", "fast"], "use auto, program, classic or kernel"),
        (["--key", "6d:5a"], "--key: "),
        (["--key", &zeros], "--key: "),
        (["--key", "secret"], "--key: "),
        (["--buckets", "100"], "--buckets: "),
        (["--buckets", "2"], "3 lanes"),
    ] {
        let text = refusal(&[], PROGRAM, &[&["--lanes", "3"], &arguments[..], &[TCP]].concat());
        assert!(text.contains(words) && text.lines().count() == 1, "{arguments:?}: {text:?}");
    }
}

#[test]
fn the_program_is_refused_to_an_ordinary_user_who_asks_for_it() {
    let test = "steering::the_program_is_refused_to_an_ordinary_user_who_asks_for_it";
    if !is_root(test) || !have(test, &["setpriv"]) {
        return;
    }
    let folder = Scratch::new();
    let program = copy_for_all(&folder);
    let wrapper =
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "env"];
    let run = format!("CORELANE_RUN_DIR={}", folder.path().display());
    let wrapper = [&wrapper[..], &[&run]].concat();
    let text = refusal(&wrapper, &program, &["--lanes", "2", "--steering", "program", TCP]);
    assert!(text.contains("CAP_BPF") && text.contains("classic"), "{text}");
}

/// What is attached belongs to the sockets: after a kill the port is anybody's, and no program chooses there.
#[test]
fn nothing_stays_after_a_kill() {
    // An address of its own: the port of another one could be taken by another test before the next server has it.
    let mut server = Server::start(&["--lanes", "3", "echo=udp://127.77.1.1:0"]);
    flows(&server);
    server.child.kill().unwrap();
    server.ended();
    let place = server.udp();
    // The kernel's table (proc_net(5)) says so; a child that another test begins would have a socket that is bound here to look.
    let line = format!(": 01014D7F:{:04X} ", place.port());
    until("the port is free", || !fs::read_to_string("/proc/net/udp").unwrap().contains(&line));
    let next = Server::start(&["--lanes", "2", &format!("echo=udp://{place}")]);
    for _ in 0..FLOWS {
        echo_datagram(&datagrams_to(next.udp()), b"another's");
    }
    assert_eq!((next.count("datagrams_in"), next.count("strays")), (FLOWS as u64, 0));
}
