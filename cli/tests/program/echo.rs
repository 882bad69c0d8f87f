//! Every byte and every datagram comes back as it was sent.

use crate::common::*;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

on_each_driver!(
    streams_of_any_size_come_back,
    many_connections_do_not_mix,
    single_bytes_come_back,
    what_was_sent_before_the_end_comes_back,
    big_transfers_to_slow_readers_are_not_copied,
    datagrams_of_any_size_come_back,
    datagrams_are_answered_from_the_address_that_was_asked,
    trains_come_back,
    what_may_go_round_for_ever_is_not_answered,
    a_datagram_that_goes_round_ends,
);

const BOTH: [&str; 4] = [TCP, UDP, "echo=tcp://[::1]:0", "echo=udp://[::1]:0"];

/// The places of a scheme, IPv4 and IPv6.
fn places(server: &Server, scheme: &str) -> Vec<SocketAddr> {
    let places = server.urls.iter().filter_map(|url| url.strip_prefix(scheme)?.strip_prefix("://"));
    places.map(|place| place.parse().unwrap()).collect()
}

fn streams_of_any_size_come_back(driver: Driver) {
    let Some(server) = driver.start("echo::streams_of_any_size_come_back", &BOTH) else { return };
    let random: Vec<usize> =
        pattern(24, 5).chunks(3).map(|b| 1 + u32::from_le_bytes([b[0], b[1], b[2] & 0xf, 0]) as usize).collect();
    let fixed = [1, 2, 63, 64, 65, 1448, 4096, 65_535, 65_536, 65_537, 1 << 20, 10 << 20];
    for address in places(&server, "tcp") {
        let mut stream = connect(address);
        for (seed, &size) in fixed.iter().chain(&random).enumerate() {
            echo(&mut stream, &pattern(size, seed as u64));
        }
    }
    server.comes_to("bytes_out", server.count("bytes_in"));
    assert_eq!(server.count("bytes_forwarded"), server.count("bytes_out"));
}

fn many_connections_do_not_mix(driver: Driver) {
    let Some(server) = driver.start("echo::many_connections_do_not_mix", &[TCP]) else { return };
    let mut streams: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for round in 0..5 {
        let data = |seed| pattern(1 + (seed * 37 + round * 911) % 9000, (seed + round * 1000) as u64);
        for (seed, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&data(seed)).unwrap();
        }
        for (seed, stream) in streams.iter_mut().enumerate() {
            let expected = data(seed);
            let mut back = vec![0; expected.len()];
            stream.read_exact(&mut back).unwrap();
            assert!(back == expected, "connection {seed} got something else");
        }
    }
    assert_eq!((server.count("accepts"), server.count("connections_open")), (200, 200));
    drop(streams);
    server.comes_to("endings_end_of_stream", 200);
    server.wait_for("connections_open", |open| open == 0);
}

fn single_bytes_come_back(driver: Driver) {
    let Some(server) = driver.start("echo::single_bytes_come_back", &[TCP]) else { return };
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    let data = pattern(3000, 1);
    for byte in &data {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut back = vec![0; data.len()];
    stream.read_exact(&mut back).unwrap();
    assert!(back == data);
    for byte in data[..300].iter() {
        echo(&mut stream, &[*byte]);
    }
}

fn what_was_sent_before_the_end_comes_back(driver: Driver) {
    let Some(server) = driver.start("echo::what_was_sent_before_the_end_comes_back", &[TCP]) else { return };
    for (seed, size) in [0, 1, 1000, 3 << 20].into_iter().enumerate() {
        let data = pattern(size, seed as u64);
        let mut stream = server.connect();
        let mut writer = stream.try_clone().unwrap();
        let sent = data.clone();
        let written = thread::spawn(move || {
            writer.write_all(&sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let (back, end) = read_to_end(&mut stream);
        written.join().unwrap();
        assert_eq!(end, Ok(()));
        assert!(back == data, "{size} bytes before the end, {} came back", back.len());
    }
    server.comes_to("endings_end_of_stream", 4);
}

fn big_transfers_to_slow_readers_are_not_copied(driver: Driver) {
    let limits = ["--limit", "send_buffer=65536", TCP];
    let Some(server) = driver.start("echo::big_transfers_to_slow_readers_are_not_copied", &limits) else { return };
    let data = pattern(8 << 20, 3);
    let mut stream = server.connect();
    let mut writer = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&data).unwrap());
        // Nothing is read before the server has met a full buffer, and stopped reading. Whether a send is cut short by it is chance.
        server.wait_for("output_high_hits", |hits| hits > 0);
        let mut back = Vec::new();
        let mut part = [0; 3000];
        while back.len() < data.len() {
            let length = stream.read(&mut part).unwrap();
            assert_ne!(length, 0);
            back.extend_from_slice(&part[..length]);
        }
        assert!(back == data);
    });
    server.comes_to("bytes_out", data.len() as u64);
    assert_eq!(server.count("bytes_copied"), 0);
}

fn datagrams_of_any_size_come_back(driver: Driver) {
    let Some(server) = driver.start("echo::datagrams_of_any_size_come_back", &BOTH) else { return };
    for address in places(&server, "udp") {
        let socket = datagrams_to(address);
        let largest = if address.is_ipv4() { 65_507 } else { 65_527 };
        for (seed, size) in [0, 1, 510, 1472, 1473, 9000, largest, 2].into_iter().enumerate() {
            echo_datagram(&socket, &pattern(size, seed as u64));
        }
    }
    server.comes_to("datagrams_out", 16);
    assert_eq!(server.count("datagrams_in"), 16);
    assert_eq!(server.count("records_truncated"), 0);
}

fn datagrams_are_answered_from_the_address_that_was_asked(driver: Driver) {
    let test = "echo::datagrams_are_answered_from_the_address_that_was_asked";
    for wildcard in ["echo=udp://0.0.0.0:0", "echo=udp://[::]:0"] {
        let Some(server) = driver.start(test, &[&format!("{wildcard}?reflect")]) else { return };
        // Not connected: it would take an answer from anywhere, and so sees where this one came from.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        for host in [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 9, 8, 7), Ipv4Addr::LOCALHOST] {
            let asked = SocketAddr::new(host.into(), server.udp().port());
            socket.send_to(b"from where?", asked).unwrap();
            let (_, from) = socket.recv_from(&mut [0; 64]).unwrap();
            assert_eq!(from, asked, "{wildcard}");
        }
    }
}

fn trains_come_back(driver: Driver) {
    let Some(server) = driver.start("echo::trains_come_back", &BOTH) else { return };
    for address in places(&server, "udp") {
        let socket = datagrams_to(address);
        let trains = [(10, 1000, 1000), (40, 100, 7), (1, 1400, 1400), (longest_train(), 500, 500)];
        for (seed, (datagrams, size, rest)) in trains.into_iter().enumerate() {
            let train = pattern((datagrams - 1) * size + rest, seed as u64);
            assert_eq!(send_train(&socket, &train, size as u16), Ok(train.len()));
            let expected: Vec<&[u8]> = train.chunks(size).collect();
            assert_eq!(expected.len(), datagrams);
            let mut back = [0; 65_536];
            for (place, datagram) in expected.into_iter().enumerate() {
                let length = socket.recv(&mut back).unwrap();
                assert!(back[..length] == *datagram, "datagram {place} of {datagrams} is another");
            }
        }
    }
    let all = 2 * (51 + longest_train() as u64);
    server.comes_to("datagrams_out", all);
    assert_eq!(server.count("datagrams_in"), all);
    assert!(server.count("trains_out") < all, "no train left as one");
}

/// Sends datagrams of `size` bytes, the last may be shorter, by one call (UDP_SEGMENT, udp(7)).
fn send_train(socket: &UdpSocket, train: &[u8], size: u16) -> nix::Result<usize> {
    let segments = [ControlMessage::UdpGsoSegments(&size)];
    sendmsg::<SockaddrStorage>(socket.as_raw_fd(), &[IoSlice::new(train)], &segments, MsgFlags::empty(), None)
}

/// Datagrams of the longest train that this kernel sends and delivers: 128, or 64 before 6.9.
fn longest_train() -> usize {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = datagrams_to(target.local_addr().unwrap());
    if send_train(&socket, &[1; 128], 1).is_ok() { 128 } else { 64 }
}

/// A socket of another address of loopback, at this port, that talks to the server.
fn from_port(server: &Server, address: [u8; 4], port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::from(address), port)).unwrap();
    socket.connect(server.udp()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn what_may_go_round_for_ever_is_not_answered(driver: Driver) {
    let test = "echo::what_may_go_round_for_ever_is_not_answered";
    for place in [UDP, "echo=udp://127.0.0.1:0?reflect"] {
        let port = corelane_testkit::free().port();
        let Some(server) = driver.start(test, &[&place.replace(":0", &format!(":{port}"))]) else { return };
        // Another echo service of ours, elsewhere.
        from_port(&server, [127, 0, 7, driver as u8 + 1], port).send(b"round").unwrap();
        server.comes_to("loops_refused", 1);
        if nix::unistd::geteuid().is_root() {
            for (number, port) in [(2, 7), (3, 13), (4, 17), (5, 19), (6, 37)] {
                from_port(&server, [127, 0, 8, driver as u8 + 1], port).send(b"round").unwrap();
                server.comes_to("loops_refused", number);
            }
        }
        assert_eq!(server.count("requests"), 0);
        echo_datagram(&datagrams_to(server.udp()), b"who sends once is answered");
    }
}

fn a_datagram_that_goes_round_ends(driver: Driver) {
    let test = "echo::a_datagram_that_goes_round_ends";
    let Some(server) = driver.start(test, &["--lanes", "1", "echo=udp://127.0.0.1:0?reflect"]) else { return };
    // A service that answers whatever it gets, at a port that nobody knows.
    let other = datagrams_to(server.udp());
    other.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut memory = [0; 100];
    other.send(b"round and round").unwrap();
    until("it is not answered any more", || {
        while let Ok(length) = other.recv(&mut memory) {
            other.send(&memory[..length]).unwrap();
        }
        server.count("loops_refused") > 0
    });
    // A minute may have ended meanwhile.
    assert!((1_000..=2_000).contains(&server.count("requests")), "{}", server.count("requests"));
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    echo_datagram(&other, b"something else is answered");
    echo_datagram(&datagrams_to(server.udp()), b"round and round");
}
