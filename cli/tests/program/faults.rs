//! Peers that vanish, stall, or come in floods; descriptors and memory that run out; a process that is killed.

use crate::common::*;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect as begin, setsockopt, socket, sockopt};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

on_each_driver!(
    clients_that_vanish_leave_nothing_behind,
    who_never_reads_is_held_back_and_disturbs_nobody,
    who_says_nothing_is_closed_at_the_idle_limit,
    ten_thousand_connects_at_once_are_answered,
    without_descriptors_connections_wait,
    without_memory_connections_wait,
    nobody_silences_a_lane,
    a_killed_server_can_be_started_again_at_once,
    ten_thousand_idle_connections_cost_little,
    ten_thousand_that_were_answered_rest,
);

/// Makes the stream end with a reset when it is dropped (SO_LINGER, socket(7)).
pub fn reset_on_drop(stream: &TcpStream) {
    let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(stream, sockopt::Linger, &linger).unwrap();
}

fn clients_that_vanish_leave_nothing_behind(driver: Driver) {
    // On a busy machine some turns take long, and this server is to say nothing.
    let arguments = ["--stall", "1h", TCP];
    let Some(server) = driver.start("faults::clients_that_vanish_leave_nothing_behind", &arguments) else { return };
    let mut witness = server.connect();
    for seed in 0..60 {
        let mut stream = server.connect();
        match seed % 3 {
            0 => reset_on_drop(&stream), // without a word
            1 => {
                reset_on_drop(&stream);
                stream.set_nonblocking(true).unwrap();
                let _ = stream.write(&pattern(1 << 20, seed)); // in the middle, with echoes under way
            }
            _ => stream.write_all(&pattern(1000, seed)).unwrap(), // closed with an unread echo
        }
        drop(stream);
        echo(&mut witness, &pattern(100, seed));
    }
    // Some may still wait to be accepted, on the other lane.
    until("all have ended", || server.count("endings_error") + server.count("endings_end_of_stream") == 60);
    assert_eq!([server.count("connections_open"), server.count("endings_aborted"), server.count("panics")], [1, 0, 0]);
    assert!(server.count("endings_error") >= 20, "no reset was noticed");
    until("all memory is given back", || server.lane_count("memory_used") == 0);
    assert_eq!(server.words(), "");
}

/// Writes until the socket takes no more, and as the server then takes no more either. Returns how much went out.
fn fill(stream: &mut TcpStream, data: &[u8], may_stop: impl Fn() -> bool) -> usize {
    stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    until("the stream is full", || {
        loop {
            match stream.write(&data[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return may_stop(),
                Err(error) => panic!("{error}"),
            }
            assert!(sent < data.len(), "nobody holds the sender back");
        }
    });
    stream.set_nonblocking(false).unwrap();
    sent
}

fn who_never_reads_is_held_back_and_disturbs_nobody(driver: Driver) {
    let test = "faults::who_never_reads_is_held_back_and_disturbs_nobody";
    let Some(server) = driver.start(test, &["--lanes", "1", TCP]) else { return };
    let mut witness = server.connect();
    echo(&mut witness, b"before");
    let resident_kib = server.resident_kib();
    let data = pattern(64 << 20, 7);
    let mut stalled: Vec<_> = (0..8).map(|_| server.connect()).collect();
    let mut sent = Vec::new();
    for (before, stream) in stalled.iter_mut().enumerate() {
        sent.push(fill(stream, &data, || server.count("output_high_hits") > before as u64));
    }
    for seed in 0..100 {
        echo(&mut witness, &pattern(10_000, seed));
    }
    // Each may hold its output limit, and the one receive that goes beyond it.
    let held = server.lane_count("memory_used");
    assert!(held > 0 && held <= 8 * ((256 << 10) + (128 << 10)), "{held} bytes of lane memory are held");
    let grown_kib = server.resident_kib().saturating_sub(resident_kib);
    assert!(grown_kib < 8 << 10, "the process has grown by {grown_kib} KiB");
    for (stream, sent) in stalled.iter_mut().zip(sent) {
        patient(stream);
        let mut back = vec![0; sent];
        stream.read_exact(&mut back).unwrap();
        assert!(back == data[..sent], "what was held back came back changed");
    }
    until("all memory is given back", || server.lane_count("memory_used") == 0);
}

// Echo has no records, so that no record can be slow: what a trickle of bytes meets at services that have some (read_limit,
// receive_rate_min) cannot be met here, and who says nothing meets the idle limit.
fn who_says_nothing_is_closed_at_the_idle_limit(driver: Driver) {
    let test = "faults::who_says_nothing_is_closed_at_the_idle_limit";
    let Some(server) = driver.start(test, &["--limit", "idle_limit=5s", TCP]) else { return };
    let mut streams: Vec<_> = (0..20).map(|_| server.connect()).collect();
    streams[..10].iter_mut().for_each(|stream| echo(stream, b"once, and never again"));
    for stream in &mut streams {
        assert_eq!(read_to_end(stream), (Vec::new(), Ok(())));
    }
    drop(streams);
    server.comes_to("idle_limit_hits", 20);
    server.comes_to("endings_closing", 20);
    assert_eq!(server.count("endings_aborted"), 0);
}

/// Held by whoever has ten thousand connections: two such tests at once may be more than this process is allowed.
static CROWD: Mutex<()> = Mutex::new(());

/// Leave for ten thousand connections, with descriptors for them and for the tests beside; none, and the test is skipped by
/// name, where there are too few.
fn crowd(test: &str) -> Option<MutexGuard<'static, ()>> {
    let wanted = 14_000;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_err() || hard < wanted {
        skip(test, &format!("it needs {wanted} descriptors, and the limit is {hard}"));
        return None;
    }
    Some(CROWD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Begins a connection from `source` and does not wait for it. It ends with a reset: thousands of ports that rest (TIME-WAIT) would make each later look for a free port slow.
pub fn begin_from(source: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let SocketAddr::V4(to) = to else { panic!("an IPv4 address is needed") };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let made = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
    bind(made.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(source, 0))).unwrap();
    match begin(made.as_raw_fd(), &SockaddrIn::from(to)) {
        Ok(()) | Err(nix::Error::EINPROGRESS) => {}
        Err(error) => panic!("{error}"),
    }
    let stream = TcpStream::from(made);
    stream.set_nonblocking(false).unwrap(); // from now on reads and writes wait for the connection
    patient(&stream);
    reset_on_drop(&stream);
    stream
}

/// Ten thousand connections from a few addresses; all have been begun before the first is waited for.
fn begin_ten_thousand(server: &Server) -> Vec<TcpStream> {
    (0..10_000).map(|index| begin_from(Ipv4Addr::new(127, 0, 1, 1 + (index % 5) as u8), server.tcp())).collect()
}

fn echo_on_each(streams: &mut [TcpStream]) {
    for (index, stream) in streams.iter_mut().enumerate() {
        stream.write_all(&[index as u8]).unwrap();
    }
    for (index, stream) in streams.iter_mut().enumerate() {
        let mut back = [0];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back[0], index as u8);
    }
}

fn ten_thousand_connects_at_once_are_answered(driver: Driver) {
    let test = "faults::ten_thousand_connects_at_once_are_answered";
    let Some(_leave) = crowd(&driver.case(test)) else { return };
    let Some(server) = driver.start(test, &[TCP]) else { return };
    let mut streams = begin_ten_thousand(&server);
    echo_on_each(&mut streams);
    assert_eq!((server.count("accepts"), server.count("connections_open")), (10_000, 10_000));
    drop(streams);
    server.wait_for("connections_open", |open| open == 0);
}

/// Has malloc(3) map each big block by itself. Otherwise tables grow into memory that the process was resident in from its
/// start, and ten thousand connections seem to cost nothing.
const WITH_VISIBLE_BLOCKS: [&str; 2] = ["env", "MALLOC_MMAP_THRESHOLD_=65536"];

fn ten_thousand_idle_connections_cost_little(driver: Driver) {
    let test = "faults::ten_thousand_idle_connections_cost_little";
    let Some(_leave) = crowd(&driver.case(test)) else { return };
    let Some(server) = driver.start_under(test, &WITH_VISIBLE_BLOCKS, &[TCP]) else { return };
    let mut first: Vec<_> = (0..100).map(|_| server.connect()).collect();
    echo_on_each(&mut first); // each lane has now touched what it needs for its work
    let resident_kib = server.resident_kib();
    let mut streams = begin_ten_thousand(&server);
    echo_on_each(&mut streams);
    server.comes_to("bytes_out", 10_100);
    until("none holds memory", || server.lane_count("memory_used") == 0);
    assert_eq!(server.count("connections_open"), 10_100);
    cost_little(&server, resident_kib, driver);
}

/// Holds the process to what ten thousand idle connections may add, since so much of it was resident.
fn cost_little(server: &Server, resident_kib: u64, driver: Driver) {
    let bytes = (server.resident_kib() - resident_kib) * 1024 / 10_000;
    println!("{bytes} bytes for each idle connection on {}", driver.name());
    // Less than this no connection can do with: the growth would be hidden, and the test blind.
    assert!((50..=350).contains(&bytes), "{bytes} bytes for each idle connection");
}

/// Each asks for a page that is not kept anywhere, and stays (`Connection: keep-alive`, RFC 9112 section 9.3).
fn ask_on_each(streams: &mut [TcpStream]) {
    streams.iter_mut().for_each(|stream| stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap());
    for stream in streams {
        let mut answer = Vec::new();
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") || !answer.ends_with(b"corelane") {
            let mut bytes = [0; 256];
            let length = stream.read(&mut bytes).unwrap();
            assert!(length > 0, "it stays");
            answer.extend_from_slice(&bytes[..length]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
    }
}

fn ten_thousand_that_were_answered_rest(driver: Driver) {
    let test = "faults::ten_thousand_that_were_answered_rest";
    let Some(_leave) = crowd(&driver.case(test)) else { return };
    let Some(server) = driver.start_under(test, &WITH_VISIBLE_BLOCKS, &["http=http://127.0.0.1:0?reply=8"]) else { return };
    let from = |index: u16| Ipv4Addr::new(127, 0, 2, 1 + (index % 5) as u8);
    let begin = |many| (0..many).map(|index| begin_from(from(index), server.address("http"))).collect::<Vec<_>>();
    let mut first = begin(1_000);
    ask_on_each(&mut first); // each lane has now touched what it needs for its work
    let resident_kib = server.resident_kib();
    let mut streams = Vec::new();
    // Fewer at once than before: what lanes keep for reuse is theirs, and no connection's.
    for _ in 0..100 {
        let count = streams.len();
        streams.extend(begin(100));
        ask_on_each(&mut streams[count..]);
    }
    until("none holds memory", || server.lane_count("memory_used") == 0);
    assert_eq!(server.count("connections_open"), 11_000);
    cost_little(&server, resident_kib, driver);
    ask_on_each(&mut streams[..1_000]);
    drop((first, streams));
    server.wait_for("connections_open", |open| open == 0);
}

/// Whether the echo of one byte that was sent before has come.
fn is_answered(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let length = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    length.is_ok_and(|length| length == 1)
}

fn without_descriptors_connections_wait(driver: Driver) {
    let test = "faults::without_descriptors_connections_wait";
    if !have(&driver.case(test), &["prlimit"]) {
        return;
    }
    // All come from one address. On a busy machine some turns take long, and this server is to say nothing.
    let arguments = ["--lanes", "1", "--limit", "connections_per_peer_max=1000", "--stall", "1h", TCP];
    let Some(server) = driver.start_under(test, &["prlimit", "--nofile=64"], &arguments) else { return };
    let mut streams: Vec<_> = (0..100).map(|_| server.connect()).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(b"?").unwrap());
    let starved = || server.count("accepts_no_descriptor");
    server.wait_for("accepts_no_descriptor", |accepts| accepts > 0);
    // While it waits it tries again now and then, and does nothing else.
    let (starved_before, turns_before) = (starved(), turns(&server));
    until("it has tried again five times", || starved() >= starved_before + 5);
    // The tries are read last, so that no turn counts whose try does not.
    let turns = turns(&server) - turns_before;
    let tries = starved() - starved_before;
    assert!(turns <= 10 * (tries + 1), "{turns} turns for {tries} tries: the lane spins");
    let (served, waiting): (Vec<_>, Vec<_>) = streams.into_iter().partition(is_answered);
    assert!((10..64).contains(&served.len()), "{} were served with 64 descriptors", served.len());
    assert_eq!(server.count("accepts"), served.len() as u64);
    drop(served); // now there is room for the others
    for stream in waiting {
        let mut stream = stream;
        let mut back = [0];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"?");
    }
    assert_eq!((server.count("accepts"), server.words()), (100, String::new()));
}

fn turns(server: &Server) -> u64 {
    server.lane_count("turns_productive") + server.lane_count("turns_empty")
}

fn without_memory_connections_wait(driver: Driver) {
    let test = "faults::without_memory_connections_wait";
    // Small buffers in the kernel: what the clients do not read is the lane's to hold.
    let small = ["--limit", "send_buffer=32768", "--limit", "receive_buffer=32768"];
    let memory = 4 << 20;
    let Some(server) = driver.start(test, &[&small[..], &["--lanes", "1", "--memory", "4MiB", TCP]].concat()) else { return };
    let data: Vec<_> = (0..40).map(|seed| pattern(2 << 20, seed)).collect();
    let mut streams: Vec<_> = (0..40).map(|_| server.connect()).collect();
    thread::scope(|scope| {
        for (stream, data) in streams.iter().zip(&data) {
            let mut writer = stream.try_clone().unwrap();
            scope.spawn(move || writer.write_all(data).unwrap());
        }
        // Nobody reads yet: together they may hold more than twice what the lane has.
        until("their address holds its share", || server.count("memory_hits") > 0);
        for (stream, data) in streams.iter_mut().zip(&data) {
            scope.spawn(move || {
                let mut back = vec![0; data.len()];
                stream.read_exact(&mut back).unwrap();
                assert!(back == *data);
            });
        }
    });
    server.comes_to("bytes_out", 40 * (2 << 20));
    assert_eq!((server.count("connections_open"), server.count("output_max_hits")), (40, 0));
    assert_eq!(server.count("memory_endings"), 0, "nobody else needed what they held");
    assert!(server.lane_count("memory_peak") <= memory);
}

/// Sends until the socket takes no more, or the server has thrown the sender out.
fn push(stream: &TcpStream, data: &[u8]) {
    stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    while sent < data.len() {
        match (&mut &*stream).write(&data[sent..]) {
            Ok(bytes) => sent += bytes,
            Err(_) => return,
        }
    }
}

/// 90 connections that each begin a record of 1 MiB and stop, and 300 that are echoed and never read, from 64 addresses: everybody
/// else is answered all the while, of each service.
fn nobody_silences_a_lane(driver: Driver) {
    let test = "faults::nobody_silences_a_lane";
    // Small buffers in the kernel: what the clients do not read is the lane's to hold.
    let small = ["--limit", "send_buffer=32768", "--limit", "receive_buffer=32768"];
    // No attacker ends at a limit of time, however long it takes until all are there.
    let long = ["--limit", "read_limit=10m", "--limit", "send_limit=10m"];
    let services = ["--lanes", "1", TCP, UDP, "rpc=tcp://127.0.0.1:0"];
    let Some(server) = driver.start(test, &[&small[..], &long, &services].concat()) else { return };
    let rpc = server.urls.last().unwrap().strip_prefix("tcp://").unwrap().parse().unwrap();
    let attacker = |number: usize, to| begin_from(Ipv4Addr::new(127, 0, 2, 1 + (number % 64) as u8), to);
    let begun = [&(1u32 << 31 | ((1 << 20) - 4)).to_be_bytes()[..], &vec![7; 65_000]].concat();
    let flood = pattern(1 << 20, 1);
    let null = [1u32 << 31 | 40, 9, 0, 2, 100_003, 3, 0, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    let (mut by_tcp, by_udp, mut by_rpc) = (server.connect(), datagrams_to(server.udp()), connect(rpc));
    let mut attackers = Vec::new();
    for number in 0..390 {
        let is_record = number % 13 < 3;
        let stream = attacker(number, if is_record { rpc } else { server.tcp() });
        push(&stream, if is_record { &begun } else { &flood });
        attackers.push(stream);
        attackers.iter().rev().take(20).for_each(|stream| push(stream, &flood[..64 << 10]));
        echo(&mut by_tcp, &flood[..4_000]);
        echo_datagram(&by_udp, &flood[..1_000]);
        by_rpc.write_all(&null).unwrap();
        by_rpc.read_exact(&mut [0; 28]).unwrap();
    }
    until("they are refused what they want", || server.lane_count("memory_limit_hits") + server.count("memory_hits") > 0);
    assert!(server.lane_count("memory_used") > 30 << 20, "they hold much of the lane's memory");
}

/// Whether nobody has these ports of 127.0.0.1, by the kernel's tables (proc_net(5)): a child that another test begins would have a socket that is bound here
/// to look.
fn are_free(tcp: SocketAddr, udp: SocketAddr) -> bool {
    let has = |table: &str, line: &str| fs::read_to_string(format!("/proc/net/{table}")).unwrap().contains(line);
    // State 0A listens; connections that have ended hold no port against it.
    let is_listener = has("tcp", &format!(": 0100007F:{:04X} 00000000:0000 0A ", tcp.port()));
    !is_listener && !has("udp", &format!(": 0100007F:{:04X} ", udp.port()))
}

fn a_killed_server_can_be_started_again_at_once(driver: Driver) {
    let test = "faults::a_killed_server_can_be_started_again_at_once";
    // Nobody else is given these ports while no server has them.
    let [tcp, udp] = ["tcp", "udp"].map(|scheme| format!("echo={scheme}://{}", corelane_testkit::free()));
    let Some(mut server) = driver.start(test, &[&tcp, &udp]) else { return };
    let arguments = ["--driver", driver.name(), &tcp, &udp];
    for round in 0..3 {
        let mut streams: Vec<_> = (0..20).map(|_| server.connect()).collect();
        streams.iter_mut().for_each(|stream| echo(stream, b"alive"));
        echo_datagram(&datagrams_to(server.udp()), b"alive");
        server.comes_to("bytes_out", 20 * 5 + 5);
        server.signal(Signal::SIGKILL);
        assert_eq!(server.ended().signal(), Some(Signal::SIGKILL as i32));
        // What io_uring held of a process the kernel lets go a moment after its end.
        until("the addresses are free", || are_free(server.tcp(), server.udp()));
        let next = Server::start_as(Launch { wrapper: &[], program: PROGRAM, arguments: &arguments, run: server.run.clone() });
        assert_eq!(next.urls, server.urls, "round {round}");
        let page = server.page();
        assert_eq!((&page["process"]["liveness"], server.count("bytes_out")), (&"dead".into(), 105));
        server = next;
    }
    echo(&mut server.connect(), b"served again");
}
