//! Over real sockets, by both drivers, as the program serves it.

use corelane::Lanes;
use corelane::admin::watch::LaneCounter;
use corelane::lanes::{DriverChoice, Running};
use corelane_push::ENTRY;
use corelane_wire::pattern::{self, PERIOD};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const DRIVERS: [DriverChoice; 2] = [DriverChoice::Epoll, DriverChoice::Uring];

fn start(driver: DriverChoice, place: &str) -> Running {
    Lanes::per_core().lanes(1).driver(driver).serve_entry(&ENTRY, place).unwrap().start().unwrap()
}

fn connect(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.address().inet().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Reads so many bytes, from this position of the stream on.
fn read(stream: &mut impl Read, from: u64, bytes: usize) {
    let mut got = vec![0; bytes];
    stream.read_exact(&mut got).unwrap();
    assert!(pattern::matches(from, &got), "{bytes} bytes from {from} on are others");
}

#[test]
fn each_client_gets_the_stream() {
    for driver in DRIVERS {
        for place in [
            "tcp://127.0.0.1:0",
            "tcp://127.0.0.1:0?size=1",
            "tcp://[::1]:0?size=100000",
            "tcp://127.0.0.1:0?size=4MiB",
            "tcp://127.0.0.1:0?size=4MiB&memory=lane",
            "tcp://127.0.0.1:0?size=1000&memory=sealed",
        ] {
            let running = start(driver, place);
            let mut streams: Vec<TcpStream> = (0..3).map(|_| connect(&running)).collect();
            for round in 0..3 {
                let bytes = if place.ends_with("size=1") { 3_000 } else { 700_001 };
                streams.iter_mut().for_each(|stream| read(stream, round * bytes as u64, bytes));
            }
        }
    }
}

/// Short pieces are copied, wherever they lie.
#[test]
fn long_pieces_and_files_give_their_very_pages_and_a_counter_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let of_file = format!("size=64KiB&file={}", patterned(folder.path()).display());
    let counters = [LaneCounter::SendsSealed, LaneCounter::SendsFromFile];
    for driver in DRIVERS {
        for (options, are_counted) in [
            ("size=64KiB", [true, false]),
            ("size=100000&memory=sealed", [true, false]),
            ("size=64KiB&memory=lane", [false, false]),
            ("size=16KiB", [false, false]),
            ("size=16KiB&memory=sealed", [false, false]),
            (&of_file, [false, true]),
        ] {
            let running = start(driver, &format!("tcp://127.0.0.1:0?{options}"));
            read(&mut connect(&running), 0, 3_000_000);
            let reader = corelane::admin::watch::Reader::of(running.counters()).unwrap();
            let counted = || counters.map(|counter| reader.snapshot(0).total.get(counter) > 0);
            // What a lane has in common with its driver is shown a turn later.
            let until = std::time::Instant::now() + Duration::from_secs(60);
            while counted() != are_counted && std::time::Instant::now() < until {
                std::thread::yield_now();
            }
            assert_eq!(counted(), are_counted, "{options}");
        }
    }
}

/// A file of three periods of the pattern.
fn patterned(folder: &std::path::Path) -> std::path::PathBuf {
    let (path, mut content) = (folder.join("bulk"), vec![0; 3 * PERIOD]);
    pattern::fill(0, &mut content);
    std::fs::write(&path, &content).unwrap();
    path
}

#[test]
fn who_finishes_gets_the_end_and_who_leaves_disturbs_nobody() {
    for driver in DRIVERS {
        let running = start(driver, "tcp://127.0.0.1:0");
        let mut honest = connect(&running);
        let mut half = connect(&running);
        half.write_all(b"rubbish").unwrap();
        half.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        half.read_to_end(&mut rest).unwrap();
        assert!(pattern::matches(0, &rest) && rest.len().is_multiple_of(16 << 10), "{} bytes", rest.len());
        // Closed with bytes that nobody has read: the system resets it.
        (0..20).for_each(|_| read(&mut connect(&running), 0, 100));
        read(&mut honest, 0, 5 << 20);
    }
}

#[test]
fn a_drain_ends_the_stream_behind_a_whole_piece() {
    for driver in DRIVERS {
        let running = start(driver, "tcp://127.0.0.1:0?size=5000");
        let mut stream = connect(&running);
        read(&mut stream, 0, 100_000);
        running.drain();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(pattern::matches(100_000, &rest) && rest.len() % 5_000 == 0, "{} bytes", rest.len());
        running.wait().unwrap();
    }
}

#[test]
fn a_file_is_sent_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = patterned(folder.path());
    for driver in DRIVERS {
        let running = start(driver, &format!("tcp://127.0.0.1:0?size=64KiB&file={}", path.display()));
        let mut stream = connect(&running);
        read(&mut stream, 0, 10 * PERIOD + 77);
    }
}

#[test]
fn unix_sockets_are_pushed_to_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("push");
    for driver in DRIVERS {
        let _running = start(driver, &format!("unix:{}?size=3000", path.display()));
        let mut stream = UnixStream::connect(&path).unwrap();
        read(&mut stream, 0, 300_000);
    }
}

#[test]
fn datagrams_are_dropped() {
    for driver in DRIVERS {
        let running = start(driver, "udp://127.0.0.1:0");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(running.address().inet().unwrap()).unwrap();
        for _ in 0..50 {
            socket.send(&[1; 500]).unwrap();
        }
        let reader = corelane::admin::watch::Reader::of(running.counters()).unwrap();
        let taken = || reader.snapshot(0).services[0].values.get(corelane::admin::watch::ServiceCounter::Requests);
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while taken() < 50 && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(taken(), 50);
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 10]).is_err(), "an answer came");
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (place, words) in [
        ("tcp://127.0.0.1:0?size=0", "from 1 to 4MiB"),
        ("tcp://127.0.0.1:0?size=5MiB", "from 1 to 4MiB"),
        ("tcp://127.0.0.1:0?file=", "has no value"),
        ("tcp://127.0.0.1:0?memory=huge", "none of auto, lane, sealed"),
        ("tcp://127.0.0.1:0?file=/dev/null&memory=sealed", "a file is sent in place of memory"),
        ("udp://127.0.0.1:0?size=1", "at tcp:// there is"),
        ("http://127.0.0.1:0", "tcp://"),
    ] {
        let error = Lanes::per_core().serve_entry(&ENTRY, place).err().unwrap().to_string();
        assert!(error.contains(words), "{place}: {error}");
    }
}
