//! SIGTERM: what was asked is answered, nobody is cut off, and the program ends.

use crate::common::*;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

on_each_driver!(
    what_was_readable_at_the_signal_is_answered,
    queued_connections_are_served,
    who_was_to_begin_and_has_not_is_not_waited_for,
    clients_under_load_see_an_orderly_end,
    idle_connections_are_closed,
    datagrams_that_wait_are_answered,
    a_second_signal_ends_at_once,
    afterwards_connections_are_refused,
    the_end_says_how_connections_ended,
    a_hangup_ends_nothing,
);

/// Limits under which a drain goes on for as long as a client likes.
const PATIENT: [&str; 4] = ["--limit", "drain_limit=10m", "--limit", "linger_limit=10m"];

/// Starts a server that reports no turns which take long: on a busy machine there are some, and these servers are to say nothing.
fn start(driver: Driver, test: &str, arguments: &[&str]) -> Option<Server> {
    driver.start(test, &[&["--stall", "1h"][..], arguments].concat())
}

/// Stops the process, and waits until it has stopped.
pub fn stop(server: &Server) {
    server.signal(Signal::SIGSTOP);
    until("all its threads have stopped", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        // One may end meanwhile.
        let mut states = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
        states.all(|stat| stat.rsplit(')').next().unwrap().trim_start().starts_with('T'))
    });
}

/// Tells a stopped server to drain, and lets it run.
fn drain(server: &Server) {
    server.signal(Signal::SIGTERM);
    server.signal(Signal::SIGCONT);
}

/// Reads to the end, finishes, and asserts that exactly `data` came, and that the end was an orderly one.
fn got_all(stream: &mut TcpStream, data: &[u8]) {
    let (back, end) = read_to_end(stream);
    assert!(back == data, "{} of {} bytes came back, then {end:?}", back.len(), data.len());
    assert_eq!(end, Ok(()));
    stream.shutdown(Shutdown::Both).unwrap_or_default();
}

fn ends_well(server: &mut Server) {
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
    assert_eq!(server.words(), "");
    assert_eq!(server.count("endings_aborted") + server.count("endings_error"), 0);
}

/// How many bytes the peer of this socket has not yet acknowledged: tx_queue in /proc/net/tcp (proc_net(5)).
fn unacknowledged(stream: &TcpStream) -> u64 {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    // As the kernel writes them: an address is one number of this machine's byte order.
    let ends = [stream.local_addr(), stream.peer_addr()].map(|end| match end.unwrap() {
        std::net::SocketAddr::V4(end) => format!("{:08X}:{:04X}", u32::from_ne_bytes(end.ip().octets()), end.port()),
        std::net::SocketAddr::V6(end) => panic!("{end} is in another table"),
    });
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut own = fields.filter(|fields| fields[1] == ends[0] && fields[2] == ends[1]);
    let queues = own.next().unwrap()[4];
    u64::from_str_radix(queues.split_once(':').unwrap().0, 16).unwrap()
}

fn who_was_to_begin_and_has_not_is_not_waited_for(driver: Driver) {
    let plan = ["http=http://127.0.0.1:0?reply=2"];
    let Some(mut server) = start(driver, "drain::who_was_to_begin_and_has_not_is_not_waited_for", &plan) else { return };
    stop(&server);
    let [mut asking, mut silent] = [(); 2].map(|()| connect(server.address("http")));
    asking.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    drain(&server);
    let (answer, end) = read_to_end(&mut asking);
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && end == Ok(()), "{end:?}");
    asking.shutdown(Shutdown::Both).unwrap_or_default();
    ends_well(&mut server);
    // The kernel may have reset it already.
    let _ = silent.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(read_to_end(&mut silent).0, b"", "nobody is there to answer");
}

fn what_was_readable_at_the_signal_is_answered(driver: Driver) {
    let arguments = ["--limit", "receive_buffer=400000", TCP];
    let Some(mut server) = start(driver, "drain::what_was_readable_at_the_signal_is_answered", &arguments) else { return };
    let mut streams: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for (seed, stream) in streams.iter_mut().enumerate() {
        echo(stream, &pattern(100, seed as u64));
    }
    stop(&server);
    // Up to four receives' worth, so that the drain begins before all has been received.
    let data = |seed: usize| pattern(1 + seed * 5000, seed as u64);
    for (seed, stream) in streams.iter_mut().enumerate() {
        stream.write_all(&data(seed)).unwrap();
        until("all is in the server's receive queue", || unacknowledged(stream) == 0);
    }
    drain(&server);
    for (seed, stream) in streams.iter_mut().enumerate() {
        got_all(stream, &data(seed));
    }
    drop(streams);
    ends_well(&mut server);
    assert_eq!(server.count("endings_closing"), 50);
}

fn queued_connections_are_served(driver: Driver) {
    let Some(mut server) = start(driver, "drain::queued_connections_are_served", &[TCP]) else { return };
    stop(&server);
    let mut streams: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for (seed, stream) in streams.iter_mut().enumerate() {
        stream.write_all(&pattern(5000, seed as u64)).unwrap();
    }
    drain(&server);
    for (seed, stream) in streams.iter_mut().enumerate() {
        got_all(stream, &pattern(5000, seed as u64));
    }
    drop(streams);
    ends_well(&mut server);
    assert_eq!(server.count("accepts"), 50);
}

/// Sends the same bytes again and again until the peer has finished; asserts that what came back is a beginning of that.
fn send_on_and_on(mut stream: TcpStream, seed: u64) -> usize {
    let data = pattern(1 << 20, seed);
    let mut writer = stream.try_clone().unwrap();
    thread::scope(|scope| {
        let failed = scope.spawn(|| data.chunks(1000).cycle().find_map(|part| writer.write_all(part).err()));
        let (back, end) = read_to_end(&mut stream);
        assert_eq!(end, Ok(()), "after {} bytes", back.len());
        stream.shutdown(Shutdown::Write).unwrap_or_default();
        // A reset would be told to whoever of the two asks first.
        assert_eq!(failed.join().unwrap().map(|error| error.kind()), Some(ErrorKind::BrokenPipe));
        assert!(back.chunks(data.len()).all(|part| data.starts_with(part)), "what came back is not what was sent");
        back.len()
    })
}

fn clients_under_load_see_an_orderly_end(driver: Driver) {
    let arguments = [&PATIENT[..], &[TCP]].concat();
    let Some(mut server) = start(driver, "drain::clients_under_load_see_an_orderly_end", &arguments) else { return };
    let streams: Vec<_> = (0..50).map(|_| server.connect()).collect();
    let clients: Vec<_> = streams
        .into_iter()
        .enumerate()
        .map(|(seed, stream)| thread::spawn(move || send_on_and_on(stream, seed as u64)))
        .collect();
    server.wait_for("bytes_out", |bytes| bytes > 10 << 20);
    server.signal(Signal::SIGTERM);
    let back: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
    ends_well(&mut server);
    assert_eq!(server.count("bytes_out"), back as u64);
}

fn idle_connections_are_closed(driver: Driver) {
    let Some(mut server) = start(driver, "drain::idle_connections_are_closed", &[TCP]) else { return };
    let mut streams: Vec<_> = (0..50).map(|_| server.connect()).collect();
    echo(&mut streams[0], b"the others never spoke");
    server.wait_for("accepts", |accepts| accepts == 50);
    server.signal(Signal::SIGINT);
    for stream in &mut streams {
        got_all(stream, b"");
    }
    drop(streams);
    ends_well(&mut server);
}

fn datagrams_that_wait_are_answered(driver: Driver) {
    let Some(mut server) = start(driver, "drain::datagrams_that_wait_are_answered", &[UDP]) else { return };
    let socket = datagrams_to(server.udp());
    stop(&server);
    let datagrams: Vec<_> = (0..20).map(|seed| pattern(100 + seed, seed as u64)).collect();
    for datagram in &datagrams {
        socket.send(datagram).unwrap();
    }
    drain(&server);
    let mut back = [0; 2000];
    for datagram in &datagrams {
        let length = socket.recv(&mut back).unwrap();
        assert!(back[..length] == *datagram);
    }
    ends_well(&mut server);
}

/// A server that drains, held by a client that has not finished. It has one lane: another might hear of the drain later.
fn held(driver: Driver, test: &str) -> Option<(Server, TcpStream)> {
    let server = start(driver, test, &[&PATIENT[..], &["--lanes", "1", TCP]].concat())?;
    let mut stream = server.connect();
    echo(&mut stream, b"before");
    server.signal(Signal::SIGTERM);
    let (rest, end) = read_to_end(&mut stream);
    assert_eq!((rest.len(), end), (0, Ok(())));
    Some((server, stream))
}

fn a_second_signal_ends_at_once(driver: Driver) {
    let Some((mut server, stream)) = held(driver, "drain::a_second_signal_ends_at_once") else { return };
    server.wait_for("connections_open", |open| open == 1);
    assert_eq!(server.child.try_wait().unwrap(), None, "it did not wait for the client");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
    drop(stream);
}

fn afterwards_connections_are_refused(driver: Driver) {
    let Some((mut server, mut stream)) = held(driver, "drain::afterwards_connections_are_refused") else { return };
    let address = server.tcp();
    // While the queue is emptied, who knocks hears nothing; then the listener is closed.
    until("it refuses", || match TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
        Err(error) => error.kind() == ErrorKind::ConnectionRefused,
        // A kernel may let only a privileged server filter its listener: others take who comes until it is closed.
        Ok(_) => {
            assert!(!geteuid().is_root(), "a connection was accepted after the drain had begun");
            false
        }
    });
    assert_eq!(server.child.try_wait().unwrap(), None);
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    ends_well(&mut server);
}

/// What it says at its end.
fn last_line(server: &Server) -> String {
    server.lines.recv_timeout(PATIENCE).unwrap()
}

fn the_end_says_how_connections_ended(driver: Driver) {
    let test = "drain::the_end_says_how_connections_ended";
    let Some(mut server) = start(driver, test, &["--lanes", "1", TCP]) else { return };
    let mut streams: Vec<_> = (0..5).map(|_| server.connect()).collect();
    streams.iter_mut().for_each(|stream| echo(stream, b"before"));
    drop(streams.remove(0)); // before the signal: it is not counted
    server.wait_for("connections_open", |open| open == 4);
    server.signal(Signal::SIGTERM);
    streams.iter_mut().for_each(|stream| got_all(stream, b""));
    drop(streams);
    ends_well(&mut server);
    assert_eq!(last_line(&server), "drained: connections that ended in order 4, cut 0, broken off by peers 0");
    let Some((mut server, stream)) = held(driver, test) else { return };
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
    drop(stream);
    assert_eq!(last_line(&server), "drained: connections that ended in order 0, cut 1, broken off by peers 0");
}

fn a_hangup_ends_nothing(driver: Driver) {
    let Some(mut server) = start(driver, "drain::a_hangup_ends_nothing", &[TCP]) else { return };
    let mut stream = server.connect();
    echo(&mut stream, b"before");
    server.signal(Signal::SIGHUP);
    until("it says so", || server.words().contains("files are read again by themselves when they change"));
    echo(&mut stream, b"after");
    echo(&mut server.connect(), b"another");
    drop(stream);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
    assert_eq!(server.words().lines().count(), 1, "{}", server.words());
}
