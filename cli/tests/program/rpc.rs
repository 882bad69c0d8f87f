//! RPC over both transports: published bytes, a real client, bad input, slow readers.

use crate::common::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

const RPC_TCP: &str = "rpc=tcp://127.0.0.1:0";
const RPC_UDP: &str = "rpc=udp://127.0.0.1:0";

on_each_driver!(
    published_bytes_are_served,
    rpcinfo_finds_the_programs,
    calls_arrive_in_any_pieces,
    a_megabyte_comes_back,
    calls_that_come_together_leave_together,
    who_stops_reading_is_closed_and_others_are_served,
    bad_records_are_closed_and_counted,
    begun_records_do_not_hold_the_memory_for_ever,
);

/// The published bytes with this name, record mark included.
fn published(name: &str) -> Vec<u8> {
    let lines = include_str!("../../../crates/wire/tests/data/onc-rpc.tsv").lines();
    let hex = lines.filter_map(|line| line.split_once('\t')).find(|(what, _)| *what == name).expect("it is published").1;
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")).collect()
}

fn null() -> Vec<u8> {
    published("call NULL nfs v3, no auth, with record mark")
}

/// The NULL call with one of its words changed; the first is the record mark.
fn with(word: usize, value: u32) -> Vec<u8> {
    let mut call = null();
    call[4 * word..4 * word + 4].copy_from_slice(&value.to_be_bytes());
    call
}

/// What the program can be brought to answer, and the call that does. It denies nobody for a weak or a rejected verifier, and never fails by itself.
fn pairs() -> Vec<(&'static str, Vec<u8>)> {
    let echo_without_arguments = [&with(4, 0x2000_0007)[..20], &[1_u32, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat()].concat();
    vec![
        ("reply success, void", null()),
        ("reply success, void", with(5, 4)),
        ("reply PROG_UNAVAIL", with(4, 100_005)),
        ("reply PROG_MISMATCH low 3 high 4", with(5, 2)),
        ("reply PROG_MISMATCH low 3 high 4", with(5, 5)),
        ("reply PROC_UNAVAIL", with(6, 1)),
        ("reply GARBAGE_ARGS", echo_without_arguments),
        ("reply denied RPC_MISMATCH low 2 high 2", with(3, 3)),
        ("reply denied AUTH_ERROR AUTH_BADCRED", with(8, 401)),
        ("reply denied AUTH_ERROR AUTH_REJECTEDCRED", with(7, 99)),
        ("reply denied AUTH_ERROR AUTH_BADVERF", with(9, 1)),
    ]
}

fn exchange(stream: &mut TcpStream, call: &[u8], length: usize) -> Vec<u8> {
    stream.write_all(call).unwrap();
    let mut reply = vec![0; length];
    stream.read_exact(&mut reply).unwrap();
    reply
}

fn published_bytes_are_served(driver: Driver) {
    let Some(server) = driver.start("rpc::published_bytes_are_served", &[RPC_TCP, RPC_UDP]) else { return };
    let (mut stream, socket) = (server.connect(), datagrams_to(server.udp()));
    for (what, call) in pairs() {
        let reply = published(what);
        assert_eq!(exchange(&mut stream, &call, reply.len()), reply, "{what}");
        socket.send(&call[4..]).unwrap();
        let mut memory = [0; 100];
        let length = socket.recv(&mut memory).unwrap();
        assert_eq!(memory[..length], reply[4..], "{what}");
    }
    // A reply is not answered, and the connection goes on.
    let reply = published("reply success, void");
    assert_eq!(exchange(&mut stream, &[reply.clone(), null()].concat(), reply.len()), reply);
    let calls = pairs().len() as u64;
    server.comes_to("requests", 2 * calls + 2);
    server.comes_to("requests_refused", 2 * (calls - 2));
    server.comes_to("requests_dropped", 1);
}

/// An address as rpcinfo takes it (RFC 5665 section 5.2.3.3).
fn universal(address: SocketAddr) -> String {
    format!("{}.{}.{}", address.ip(), address.port() >> 8, address.port() & 0xff)
}

fn rpcinfo_finds_the_programs(driver: Driver) {
    let test = "rpc::rpcinfo_finds_the_programs";
    if !have(&driver.case(test), &["rpcinfo"]) {
        return;
    }
    let Some(server) = driver.start(test, &[RPC_TCP, RPC_UDP]) else { return };
    for (transport, address) in [("tcp", server.tcp()), ("udp", server.udp())] {
        let ask = |words: &[&str]| {
            let output = output(Command::new("rpcinfo").args(["-a", &universal(address), "-T", transport]).args(words));
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let ready = |version| format!("program 100003 version {version} ready and waiting\n");
        assert_eq!(ask(&["100003", "3"]), (true, ready(3)));
        // Without a version it asks for one that no program has, and then for all in the range that it is told.
        assert_eq!(ask(&["100003"]), (true, ready(3) + &ready(4)));
        let (is_ready, words) = ask(&["100005", "3"]);
        assert!(!is_ready && words.contains("not available"), "{words}");
    }
    assert_eq!(server.count("protocol_errors"), 0);
}

fn calls_arrive_in_any_pieces(driver: Driver) {
    let Some(server) = driver.start("rpc::calls_arrive_in_any_pieces", &[RPC_TCP]) else { return };
    // The second in three fragments: one byte, all but the last, that.
    let message = &null()[4..];
    let fragment = |bytes: &[u8], last: u32| [&(bytes.len() as u32 | last << 31).to_be_bytes(), bytes].concat();
    let second = [fragment(&message[..1], 0), fragment(&message[1..39], 0), fragment(&message[39..], 1)].concat();
    let calls = [null(), second].concat();
    let replies = published("reply success, void").repeat(2);
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    for at in 1..calls.len() {
        stream.write_all(&calls[..at]).unwrap();
        assert_eq!(exchange(&mut stream, &calls[at..], replies.len()), replies, "split at {at}");
    }
    calls.iter().for_each(|byte| stream.write_all(&[*byte]).unwrap());
    assert_eq!(exchange(&mut stream, &[], replies.len()), replies);
}

fn a_megabyte_comes_back(driver: Driver) {
    let limit = ["--limit", "record_max=1100000"];
    let Some(server) = driver.start("rpc::a_megabyte_comes_back", &[&limit[..], &[RPC_TCP, RPC_UDP]].concat()) else { return };
    let head = [7_u32, 0, 2, 0x2000_0007, 1, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    let call = |data: &[u8]| [&head[..], &(data.len() as u32).to_be_bytes(), data].concat();
    let reply =
        |data: &[u8]| [7_u32, 1, 0, 0, 0, 0, data.len() as u32].map(u32::to_be_bytes).concat().into_iter().chain(data.to_vec());
    let mut stream = server.connect();
    for length in [1 << 20, 4096, 0, 100_000, 1 << 20] {
        let data = pattern(length, 3);
        let record = |message: &[u8]| [&(message.len() as u32 | 1 << 31).to_be_bytes(), message].concat();
        let due = record(&reply(&data).collect::<Vec<_>>());
        let mut writer = stream.try_clone().unwrap();
        let got = std::thread::scope(|scope| {
            let written = scope.spawn(|| writer.write_all(&record(&call(&data))).unwrap());
            let got = exchange(&mut stream, &[], due.len());
            written.join().unwrap();
            got
        });
        assert!(got == due, "{length} bytes came back changed");
    }
    let socket = datagrams_to(server.udp());
    let data = pattern(60_000, 4);
    socket.send(&call(&data)).unwrap();
    let mut memory = vec![0; 65_536];
    let length = socket.recv(&mut memory).unwrap();
    assert!(memory[..length].iter().copied().eq(reply(&data)));
}

fn calls_that_come_together_leave_together(driver: Driver) {
    let test = "rpc::calls_that_come_together_leave_together";
    let Some(server) = driver.start(test, &[RPC_TCP, RPC_UDP]) else { return };
    let mut stream = server.connect();
    let replies = published("reply success, void").repeat(128);
    for _ in 0..50 {
        assert_eq!(exchange(&mut stream, &null().repeat(128), replies.len()), replies);
    }
    server.comes_to("requests", 50 * 128);
    assert!(server.count("sends") <= server.count("receives"), "more than one send for what came together");
    let (socket, call) = (datagrams_to(server.udp()), null());
    (0..64).for_each(|_| assert_eq!(socket.send(&call[4..]).unwrap(), 40));
    (0..64).for_each(|_| assert_eq!(socket.recv(&mut [0; 100]).unwrap(), 24));
    server.comes_to("datagrams_out", 64);
    assert!(server.count("datagram_sends") <= server.count("datagram_receives"));
}

fn who_stops_reading_is_closed_and_others_are_served(driver: Driver) {
    let limits = ["--lanes", "1", "--limit", "send_limit=2s", "--memory", "16MiB"];
    let test = "rpc::who_stops_reading_is_closed_and_others_are_served";
    let Some(server) = driver.start(test, &[&limits[..], &[RPC_TCP]].concat()) else { return };
    let mut slow = server.connect();
    let calls = null().repeat(20_000);
    let (mut other, reply) = (server.connect(), published("reply success, void"));
    // It sends until nobody takes it any more.
    slow.set_nonblocking(true).unwrap();
    let mut sent = 0;
    until("the slow reader's calls are no longer taken", || {
        while let Ok(taken) = slow.write(&calls[sent % calls.len()..]) {
            sent += taken;
        }
        assert_eq!(exchange(&mut other, &null(), reply.len()), reply);
        server.count("output_high_hits") > 0
    });
    assert!(server.lane_count("memory_used") < 8 << 20);
    server.comes_to("send_limit_hits", 1);
    assert_eq!(exchange(&mut other, &null(), reply.len()), reply);
}

fn begun_records_do_not_hold_the_memory_for_ever(driver: Driver) {
    let limits = ["--lanes", "1", "--memory", "4MiB", "--limit", "read_limit=500ms"];
    let test = "rpc::begun_records_do_not_hold_the_memory_for_ever";
    let Some(server) = driver.start(test, &[&limits[..], &[RPC_TCP]].concat()) else { return };
    let begun = [&(1_000_000_u32 | 1 << 31).to_be_bytes()[..], &null()[4..], &[0; 60_000]].concat();
    let waiting: Vec<TcpStream> = (0..150)
        .map(|_| {
            let mut stream = server.connect();
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(&begun);
            stream
        })
        .collect();
    // Those that wait for memory are given up as well, so that the lane comes to all of them.
    // On a machine that is slow some are ended before, for others want their memory.
    until("all have come and are given up", || server.count("accepts") >= 150 && server.count("connections_open") == 0);
    assert!(server.count("read_limit_hits") + server.count("memory_endings") > 0);
    drop(waiting);
    let reply = published("reply success, void");
    assert_eq!(exchange(&mut server.connect(), &null(), reply.len()), reply);
}

fn bad_records_are_closed_and_counted(driver: Driver) {
    let Some(server) = driver.start("rpc::bad_records_are_closed_and_counted", &[RPC_TCP]) else { return };
    let (mut other, reply) = (server.connect(), published("reply success, void"));
    let cases: [(&[u8], &str); 5] = [
        (&[0x80, 0, 0, 0], "protocol_errors"),
        (&[0x7f, 0xff, 0xff, 0xff], "record_max_hits"),
        (&[0xff, 0xff, 0xff, 0xff], "record_max_hits"),
        (&[0; 4096], "protocol_errors"),
        (&[0x80, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2], "protocol_errors"),
    ];
    for (bytes, counter) in cases {
        let before = server.count(counter);
        let mut stream = server.connect();
        // What was asked before is still answered.
        stream.write_all(&[&null()[..], bytes].concat()).unwrap();
        let (got, end) = read_to_end(&mut stream);
        assert_eq!((got, end), (reply.clone(), Ok(())), "{bytes:?}");
        server.comes_to(counter, before + 1);
        assert_eq!(exchange(&mut other, &null(), reply.len()), reply);
    }
}
