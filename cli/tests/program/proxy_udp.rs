//! The proxy of datagrams as a program: clients and upstreams are plain sockets.

use crate::common::*;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

on_each_driver!(
    a_thousand_datagrams_of_fifty_clients_find_the_way_and_back,
    upstreams_that_refuse_are_left_out,
    what_is_owed_is_answered_in_a_drain,
    clients_of_ipv6_reach_upstreams_of_either_version,
    a_hangup_names_other_upstreams_for_new_clients,
    a_session_that_makes_room_before_an_answer_has_no_line,
);

/// Where nobody is bound: a port that is handed out to no test (tcpmux).
const NOBODY: &str = "127.0.0.1:1";

/// The most bytes of a datagram over IPv4.
const BYTES_MAX: usize = 65_507;

/// An upstream that sends each datagram back, each byte changed by its mark.
struct Upstream {
    at: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Upstream {
    fn start(mark: u8) -> Self {
        Self::start_at("127.0.0.1:0", mark)
    }

    fn start_at(place: &str, mark: u8) -> Self {
        let socket = UdpSocket::bind(place).unwrap();
        // It looks so often whether it is to end.
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (at, ends) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let over = ends.clone();
        let thread = spawn(move || {
            let mut memory = vec![0; BYTES_MAX];
            while !over.load(Ordering::Relaxed) {
                let Ok((bytes, from)) = socket.recv_from(&mut memory) else { continue };
                memory[..bytes].iter_mut().for_each(|byte| *byte ^= mark);
                socket.send_to(&memory[..bytes], from).unwrap();
            }
        });
        Self { at, ends, thread: Some(thread) }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        assert!(self.thread.take().unwrap().join().is_ok());
    }
}

/// A client that hears from no other address than it asks.
fn client(at: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind(if at.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
    client.connect(at).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client
}

/// The mark of the upstream that has answered this client's question, which is as long as the answer.
fn exchange(client: &UdpSocket, question: &[u8]) -> u8 {
    client.send(question).unwrap();
    answer(client, question)
}

fn answer(client: &UdpSocket, question: &[u8]) -> u8 {
    let mut memory = vec![0; BYTES_MAX + 1];
    let bytes = client.recv(&mut memory).expect("an answer comes");
    let mark = memory[0] ^ question[0];
    let expected: Vec<u8> = question.iter().map(|byte| byte ^ mark).collect();
    assert!(memory[..bytes] == expected, "{bytes} bytes came for {}", question.len());
    mark
}

/// `corelane proxy` of this server; what it says.
fn proxy(server: &Server, arguments: &[&str]) -> String {
    let pid = server.pid().to_string();
    let mut command = Command::new(PROGRAM);
    command.args(["proxy"]).args(arguments).args(["--pid", &pid]).env("CORELANE_RUN_DIR", server.run.path());
    let said = output(&mut command);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

/// A line of the log.
#[derive(Debug)]
struct Line {
    client: String,
    upstream: String,
    /// To the upstream, and from it.
    bytes: [u64; 2],
}

/// The lines of a log that end so.
fn logged(log: &Path, end: &str) -> Vec<Line> {
    let text = fs::read_to_string(log).unwrap();
    let line = |line: &str| {
        let (client, rest) = line.split_once(" [").unwrap();
        let (_, rest) = rest.split_once("GMT] ").unwrap();
        let fields: Vec<_> = rest.split(' ').collect();
        Line { client: client.into(), upstream: fields[0].into(), bytes: [1, 2].map(|field| fields[field].parse().unwrap()) }
    };
    text.lines().filter(|line| line.ends_with(end)).map(line).collect()
}

fn a_thousand_datagrams_of_fifty_clients_find_the_way_and_back(driver: Driver) {
    let test = "proxy_udp::a_thousand_datagrams_of_fifty_clients_find_the_way_and_back";
    let (upstreams, folder) = ([Upstream::start(1), Upstream::start(2)], tempfile::tempdir().unwrap());
    let (to, log) = ([0, 1].map(|number| upstreams[number].at.to_string()), folder.path().join("log"));
    let place = format!("proxy=udp://0.0.0.0:0?to={}&session-idle=15s&log={}", to.join(","), log.display());
    let Some(mut server) = driver.start(test, &["--lanes", "2", &place]) else { return };
    let port = server.udp().port();
    // They ask two addresses, and hear from the one that they have asked alone.
    let clients: Vec<_> = (0..50).map(|number| client(SocketAddr::from(([127, 0, 0, 1 + number % 2], port)))).collect();
    let mut marks: Vec<Option<u8>> = vec![None; clients.len()];
    let mut keep = |number: usize, mark: u8| assert!(*marks[number].get_or_insert(mark) == mark, "a client keeps its upstream");
    for round in 0..19 {
        let question = |number: usize| pattern(1 + round * 70 + number, (round * 50 + number) as u64);
        clients.iter().enumerate().for_each(|(number, client)| assert!(client.send(&question(number)).is_ok()));
        clients.iter().enumerate().for_each(|(number, client)| keep(number, answer(client, &question(number))));
    }
    // The last fifty are of all sizes up to the largest, one at a time.
    for (number, client) in clients.iter().enumerate() {
        keep(number, exchange(client, &pattern(1 + (BYTES_MAX - 1) * number / (clients.len() - 1), number as u64)));
    }
    for mark in [1, 2] {
        let has = marks.iter().filter(|known| **known == Some(mark)).count();
        assert!((15..=35).contains(&has), "each has a part, and this one {has} of 50 clients");
    }
    for (counter, expected) in [("sessions", 50), ("sessions_begun", 50), ("to_upstreams", 1_000), ("to_clients", 1_000)] {
        server.comes_to(counter, expected);
    }
    // One that is drained gets no new client; those that it has stay.
    proxy(&server, &["drain", &upstreams[0].at.to_string()]);
    assert_eq!((exchange(&clients[0], b"again"), exchange(&clients[1], b"again")), (marks[0].unwrap(), marks[1].unwrap()));
    for _ in 0..6 {
        assert_eq!(exchange(&client(SocketAddr::from(([127, 0, 0, 1], port))), b"new"), 2);
    }
    let rows: Vec<Value> = serde_json::from_str(&proxy(&server, &["show", "--json"])).unwrap();
    let total = |field: &str| rows.iter().map(|row| row[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((rows[0]["state"].as_str(), total("uses")), (Some("drained"), 56), "{rows:?}");
    assert_eq!(total("bytes_to"), total("bytes_from"));
    // All of them are idle then.
    server.wait_for("sessions", |sessions| sessions == 0);
    server.wait_for("datagram_sockets_open", |sockets| sockets == 2);
    assert_eq!(server.count("sessions_idle"), 56);
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    let lines = logged(&log, "closed idle");
    assert_eq!(lines.len(), 56, "{lines:?}");
    let own = clients[49].local_addr().unwrap().to_string();
    assert_eq!(lines.iter().filter(|line| line.client == own).count(), 1, "{lines:?}");
    assert!(to.iter().all(|upstream| lines.iter().any(|line| line.upstream == *upstream)), "{lines:?}");
    let bytes = |way: usize| lines.iter().map(|line| line.bytes[way]).sum::<u64>();
    assert_eq!((bytes(0), bytes(1)), (total("bytes_to"), total("bytes_from")));
}

fn upstreams_that_refuse_are_left_out(driver: Driver) {
    let test = "proxy_udp::upstreams_that_refuse_are_left_out";
    let (upstream, folder) = (Upstream::start(1), tempfile::tempdir().unwrap());
    let log = folder.path().join("log");
    let place = format!("proxy=udp://127.0.0.1:0?to={NOBODY},{}&failures=2&ejection=300s&log={}", upstream.at, log.display());
    let Some(mut server) = driver.start(test, &["--lanes", "1", &place]) else { return };
    let at = server.udp();
    let shown = || serde_json::from_str::<Vec<Value>>(&proxy(&server, &["show", "--json"])).unwrap();
    // Two sessions meet the one where nobody is, and the network says so.
    let clients: Vec<_> = (0..4).map(|_| client(at)).collect();
    clients.iter().for_each(|client| assert!(client.send(b"first").is_ok()));
    server.comes_to("sessions_failed", 2);
    server.wait_for("sessions", |sessions| sessions == 2);
    server.comes_to("to_clients", 2);
    assert_eq!((server.count("ejections"), server.count("upstreams_in_rotation")), (1, 1));
    let rows = shown();
    assert_eq!((rows[0]["state"].as_str(), rows[0]["failed_connect"].as_u64()), (Some("ejected"), Some(2)), "{rows:?}");
    // Who asks again is answered by the other one.
    let answered: Vec<_> = clients
        .iter()
        .filter(|client| {
            client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            client.recv(&mut [0; 16]).is_ok()
        })
        .map(|client| client.local_addr().unwrap())
        .collect();
    assert_eq!(answered.len(), 2);
    for client in clients {
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(exchange(&client, b"again"), 1);
    }
    assert_eq!(server.count("sessions"), 4);
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    assert!(logged(&log, "cut unreachable").iter().all(|line| line.upstream == NOBODY));
    assert_eq!((logged(&log, "cut unreachable").len(), logged(&log, "closed drain").len(), logged(&log, "").len()), (2, 4, 6));
}

fn a_session_that_makes_room_before_an_answer_has_no_line(driver: Driver) {
    let test = "proxy_udp::a_session_that_makes_room_before_an_answer_has_no_line";
    let (upstream, folder) = (UdpSocket::bind("127.0.0.1:0").unwrap(), tempfile::tempdir().unwrap());
    upstream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let log = folder.path().join("log");
    let place = format!("proxy=udp://127.0.0.1:0?to={}&log={}", upstream.local_addr().unwrap(), log.display());
    let Some(mut server) = driver.start(test, &["--lanes", "1", "--limit", "datagram_sockets_max=16", &place]) else { return };
    let at = server.udp();
    // Of fourteen places the first one is answered.
    let answered = client(at);
    answered.send(b"first").unwrap();
    let mut memory = [0; 16];
    let (bytes, from) = upstream.recv_from(&mut memory).unwrap();
    upstream.send_to(&memory[..bytes], from).unwrap();
    assert_eq!(answered.recv(&mut memory).unwrap(), bytes);
    for number in 2..22 {
        UdpSocket::bind((Ipv4Addr::new(127, 0, 0, number), 0)).unwrap().send_to(b"other", at).unwrap();
        upstream.recv_from(&mut memory).unwrap();
    }
    server.comes_to("sessions_made_room", 7);
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    let first: Vec<_> = logged(&log, "closed made-room").into_iter().map(|line| line.client).collect();
    assert_eq!(first, [answered.local_addr().unwrap().to_string()]);
    assert_eq!((logged(&log, "closed drain").len(), logged(&log, "").len()), (14, 15));
}

fn what_is_owed_is_answered_in_a_drain(driver: Driver) {
    let test = "proxy_udp::what_is_owed_is_answered_in_a_drain";
    let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
    upstream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let place = format!("proxy=udp://127.0.0.1:0?to={}", upstream.local_addr().unwrap());
    let Some(mut server) = driver.start(test, &["--lanes", "1", &place]) else { return };
    let client = client(server.udp());
    client.send(b"late").unwrap();
    let mut memory = [0; 16];
    let (bytes, from) = upstream.recv_from(&mut memory).unwrap();
    assert_eq!(&memory[..bytes], b"late");
    // The answer and the signal are there together.
    server.signal(Signal::SIGSTOP);
    upstream.send_to(b"LATE", from).unwrap();
    server.signal(Signal::SIGTERM);
    server.signal(Signal::SIGCONT);
    let bytes = client.recv(&mut memory).unwrap();
    assert_eq!(&memory[..bytes], b"LATE");
    assert!(server.ended().success());
}

fn clients_of_ipv6_reach_upstreams_of_either_version(driver: Driver) {
    let test = "proxy_udp::clients_of_ipv6_reach_upstreams_of_either_version";
    let upstreams = [Upstream::start_at("[::1]:0", 1), Upstream::start(2)];
    let place = format!("proxy=udp://[::]:0?to={},{}", upstreams[0].at, upstreams[1].at);
    let Some(mut server) = driver.start(test, &["--lanes", "2", &place]) else { return };
    let port = server.udp().port();
    // The socket takes both versions, so clients of IPv4 come to it as well.
    let clients: Vec<_> = (0..16).map(|number| client(if number % 4 == 3 { v4(port) } else { v6(port) })).collect();
    let mut counts = [0; 3];
    for (number, client) in clients.iter().enumerate() {
        let mark = exchange(client, &pattern(1 + number * 50, number as u64));
        assert_eq!(exchange(client, &pattern(BYTES_MAX - number, number as u64)), mark, "a client keeps its upstream");
        counts[usize::from(mark)] += 1;
    }
    assert!(counts[1] >= 4 && counts[2] >= 4, "each has a part: {counts:?}");
    for (counter, expected) in [("sessions", 16), ("to_upstreams", 32), ("to_clients", 32), ("clients_turned_away", 0)] {
        server.comes_to(counter, expected);
    }
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

fn v4(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn v6(port: u16) -> SocketAddr {
    SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port))
}

fn a_hangup_names_other_upstreams_for_new_clients(driver: Driver) {
    let test = "proxy_udp::a_hangup_names_other_upstreams_for_new_clients";
    let upstreams = [Upstream::start(1), Upstream::start(2)];
    let folder = Scratch::new();
    let file = folder.path().join("corelane.toml");
    let write = |to: &str| {
        put_whole(&file, &format!("services = [\"proxy=udp://127.0.0.1:0?to={to}\"]\nsandbox = \"off\"\n"));
    };
    write(&upstreams[0].at.to_string());
    let Some(mut server) = driver.start(test, &["--lanes", "2", "--config", file.to_str().unwrap()]) else { return };
    let before: Vec<_> = (0..4).map(|_| client(server.udp())).collect();
    before.iter().for_each(|client| assert_eq!(exchange(client, b"before"), 1));
    write(&upstreams[1].at.to_string());
    server.signal(Signal::SIGHUP);
    until("it is said", || server.words().contains("SIGHUP: the options of \"proxy=udp://127.0.0.1:0?to="));
    // Those that are there stay where they are, and all others come to the new one.
    before.iter().for_each(|client| assert_eq!(exchange(client, b"behind it"), 1));
    for _ in 0..4 {
        assert_eq!(exchange(&client(server.udp()), b"new"), 2);
    }
    let rows: Vec<Value> = serde_json::from_str(&proxy(&server, &["show", "--json"])).unwrap();
    for (upstream, state) in upstreams.iter().zip(["leaving", "up"]) {
        let row = rows.iter().find(|row| row["name"] == *upstream.at.to_string()).unwrap();
        assert_eq!(row["state"], state, "{rows:?}");
    }
    // What no datagram is passed on to is refused, and nothing changes.
    write(&format!("tls://{}", upstreams[0].at));
    server.signal(Signal::SIGHUP);
    until("it is refused", || server.words().contains("datagrams are not passed on by TLS"));
    assert_eq!(exchange(&client(server.udp()), b"as before"), 2);
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}
