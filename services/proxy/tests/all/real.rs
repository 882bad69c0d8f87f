//! Over real sockets, by both drivers, as the program serves it.

use crate::bridged::until;
use corelane::lanes::{DriverChoice, Running};
use corelane::service::Random;
use corelane::{Address, Lanes};
use corelane_proxy::{ENTRY, Proxy};
use corelane_testkit::free;
use corelane_upstreams::entry::Behind;
use corelane_upstreams::{Settings, address_key};
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

const DRIVERS: [DriverChoice; 2] = [DriverChoice::Epoll, DriverChoice::Uring];

/// How long a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(driver: DriverChoice, to: &str) -> Running {
    let place = format!("tcp://127.0.0.1:0?to={to}");
    Lanes::per_core().lanes(1).driver(driver).serve_entry(&ENTRY, &place).unwrap().start().unwrap()
}

fn connect(running: &Running) -> TcpStream {
    patient(TcpStream::connect(running.address().inet().unwrap()).unwrap())
}

/// What a client hears that nobody takes, in its connect or behind it.
fn reset_of(running: &Running) -> Error {
    let heard = TcpStream::connect(running.address().inet().unwrap()).and_then(|mut stream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.read(&mut [0; 1])
    });
    heard.unwrap_err()
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    Random::new(seed).bytes(count)
}

/// Serves one connection at a port of its own; what it returns comes at the end of that.
fn upstream<T: Send + 'static>(serve: impl FnOnce(TcpStream) -> T + Send + 'static) -> (SocketAddr, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (address, spawn(move || serve(patient(listener.accept().unwrap().0))))
}

fn all_of(mut stream: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

#[test]
fn bulk_goes_both_ways_at_once_and_halves_end_alone() {
    for driver in DRIVERS {
        let (up, down) = (bytes(1, 6 << 20), bytes(2, 5 << 20));
        let said = down.clone();
        let (address, serving) = upstream(move |mut stream| {
            let mut reading = stream.try_clone().unwrap();
            let heard = spawn(move || {
                let mut heard = Vec::new();
                reading.read_to_end(&mut heard).unwrap();
                heard
            });
            stream.write_all(&said).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            heard.join().unwrap()
        });
        let running = start(driver, &address.to_string());
        let client = connect(&running);
        let mut writing = client.try_clone().unwrap();
        let to_say = up.clone();
        let saying = spawn(move || {
            writing.write_all(&to_say).unwrap();
            writing.shutdown(Shutdown::Write).unwrap();
        });
        assert!(all_of(client) == down, "{driver:?}: down");
        saying.join().unwrap();
        assert!(serving.join().unwrap() == up, "{driver:?}: up");
    }
}

#[test]
fn a_reader_that_stops_stops_the_sender_and_gets_all_later() {
    for driver in DRIVERS {
        let said = bytes(3, 64 << 20);
        let whole = said.clone();
        let sent = Arc::new(AtomicUsize::new(0));
        let progress = sent.clone();
        let (address, serving) = upstream(move |mut stream| {
            for piece in said.chunks(64 << 10) {
                stream.write_all(piece).unwrap();
                progress.fetch_add(piece.len(), Ordering::SeqCst);
            }
        });
        let running = start(driver, &address.to_string());
        let client = connect(&running);
        let reader = corelane::admin::watch::Reader::of(running.counters()).unwrap();
        let values = || reader.snapshot(0);
        let stops = || values().services[0].values.get(corelane::admin::watch::ServiceCounter::OutputHighHits);
        let until = Instant::now() + PATIENCE;
        while stops() == 0 && Instant::now() < until {
            std::thread::yield_now();
        }
        let held = values().lanes[0].values.get(corelane::admin::watch::LaneCounter::MemoryUsed);
        assert!(stops() > 0 && sent.load(Ordering::SeqCst) < whole.len(), "{driver:?}: all was taken though nobody read");
        assert!(held <= 512 << 10, "{driver:?}: {held} bytes are held for one reader");
        let got = all_of(client);
        serving.join().unwrap();
        assert!(got == whole, "{driver:?}: {} of {} bytes", got.len(), whole.len());
        let piped = values().lanes[0].values.get(corelane::admin::watch::LaneCounter::BytesPiped);
        assert!(piped > 0, "{driver:?}: bulk passes through pipes");
    }
}

#[test]
fn a_reset_is_a_reset_on_the_other_side() {
    for driver in DRIVERS {
        let (address, serving) = upstream(|mut stream| {
            stream.read_exact(&mut [0; 4]).unwrap();
            // Bytes that nobody reads make a reset of the close.
            stream.peek(&mut [0; 1]).unwrap();
        });
        let running = start(driver, &address.to_string());
        let mut client = connect(&running);
        client.write_all(b"abcdefgh").unwrap();
        let error = client.read(&mut [0; 10]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{driver:?}");
        serving.join().unwrap();
    }
}

#[test]
fn one_that_refuses_costs_no_client_and_none_is_told() {
    for driver in DRIVERS {
        let (address, serving) = upstream(|mut stream| {
            let heard = all_of(&stream);
            stream.write_all(&heard).unwrap();
        });
        let running = start(driver, &format!("{},{address},{}", free(), free()));
        let mut client = connect(&running);
        client.write_all(b"who is there").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(all_of(client), b"who is there", "{driver:?}");
        serving.join().unwrap();

        let running = start(driver, &free().to_string());
        assert_eq!(reset_of(&running).kind(), ErrorKind::ConnectionReset, "{driver:?}");
    }
}

#[test]
fn an_upstream_is_told_whose_connection_it_gets() {
    for driver in DRIVERS {
        for version in ["v1", "v2"] {
            let (address, serving) = upstream(|stream| all_of(&stream));
            let running = start(driver, &format!("localhost:{}&send-proxy={version}", address.port()));
            let mut client = connect(&running);
            let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            client.write_all(b"behind it").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let heard = serving.join().unwrap();
            let Ok(corelane_wire::proxy::Step::Header { ends: said, bytes }) = corelane_wire::proxy::parse(&heard) else {
                panic!("{version}: {heard:?}")
            };
            assert_eq!(said, corelane_wire::proxy::Ends::Ip { source: ends.0, destination: ends.1 }, "{driver:?} {version}");
            assert_eq!(&heard[bytes..], b"behind it");
        }
    }
}

#[test]
fn an_upstream_may_have_a_path() {
    let path = std::env::temp_dir().join(format!("corelane-proxy-{}", std::process::id()));
    for driver in DRIVERS {
        let listener = UnixListener::bind(&path).unwrap();
        let serving = spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let heard = all_of(&stream);
            stream.write_all(&heard).unwrap();
        });
        let running = start(driver, &format!("unix:{}", path.display()));
        let mut client = connect(&running);
        client.write_all(b"by a path").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(all_of(client), b"by a path", "{driver:?}");
        serving.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn idle_pairs_hold_no_memory_of_the_lane() {
    for driver in DRIVERS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let running = start(driver, &listener.local_addr().unwrap().to_string());
        let reader = corelane::admin::watch::Reader::of(running.counters()).unwrap();
        let used = || reader.snapshot(0).lanes[0].values.get(corelane::admin::watch::LaneCounter::MemoryUsed);
        let mut pairs = Vec::new();
        for _ in 0..50 {
            let mut client = connect(&running);
            let mut server = patient(listener.accept().unwrap().0);
            client.write_all(&[7; 1_000]).unwrap();
            server.read_exact(&mut [0; 1_000]).unwrap();
            server.write_all(&[8; 1_000]).unwrap();
            client.read_exact(&mut [0; 1_000]).unwrap();
            pairs.push((client, server));
        }
        let until = Instant::now() + PATIENCE;
        while used() > 0 && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(used(), 0, "{driver:?}");
    }
}

/// Whether a line has these words, then seconds, and last how it ended.
fn has(line: &str, words: &str, how: &str) -> bool {
    let seconds = line.split_once(words).and_then(|(_, behind)| behind.strip_suffix(how));
    seconds.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}

#[test]
fn each_client_has_a_line_at_its_end() {
    for driver in DRIVERS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (address, serving) = upstream(|mut stream| {
            let heard = all_of(&stream);
            stream.write_all(&[1; 9_000]).unwrap();
            heard.len()
        });
        let running = start(driver, &format!("{address}&log={}", path.display()));
        let mut client = connect(&running);
        let own = client.local_addr().unwrap();
        client.write_all(&[2; 700]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!((all_of(client).len(), serving.join().unwrap()), (9_000, 700));
        // Lanes that go earlier break its connection off.
        let lines = || std::fs::read_to_string(&path).unwrap_or_default().lines().count();
        until("the first has its line", || lines() == 1);
        drop(running);
        let running = start(driver, &format!("{}&log={}", free(), path.display()));
        assert_eq!(reset_of(&running).kind(), ErrorKind::ConnectionReset, "{driver:?}");
        until("the second has its line", || lines() == 2);
        drop(running);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with(&format!("{own} [")), "{text}");
        assert!(has(lines[0], &format!("GMT] {address} 700 9000 "), " end -"), "{text}");
        assert!(has(lines[1], "GMT] - 0 0 ", " turned-away unreachable"), "{text}");
    }
}

/// Whether the server of a name hangs.
static HANGS: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

fn hang(hangs: bool) {
    *HANGS.0.lock().unwrap() = hangs;
    HANGS.1.notify_all();
}

/// Asks for a name: one of them is answered when its server does not hang any more.
fn resolved(host: &str, port: u16) -> Result<Vec<Address>, String> {
    if host == "hangs.test" {
        drop(HANGS.1.wait_while(HANGS.0.lock().unwrap(), |hangs| *hangs).unwrap());
    }
    Ok(vec![SocketAddr::from(([127, 0, 0, 1], port)).into()])
}

#[test]
fn a_name_server_that_hangs_holds_up_no_lane_and_no_other_name() {
    for driver in DRIVERS {
        hang(true);
        let echo = |mut stream: TcpStream| {
            let mut said = [0; 5];
            stream.read_exact(&mut said).unwrap();
            stream.write_all(&said).unwrap();
        };
        let ((well, served), mut said) = (upstream(echo), [0; 5]);
        let targets = format!("hangs.test:{},well.test:{}", well.port(), well.port()).parse().unwrap();
        let behind = Behind { targets, settings: Settings::new(), key: address_key };
        let proxy = move |lane| Proxy::new(&behind, lane).resolving(resolved);
        let running = Lanes::per_core().lanes(1).driver(driver).serve("tcp://127.0.0.1:0", proxy).unwrap().start().unwrap();
        let mut client = connect(&running);
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"hello");
        served.join().unwrap();
        // Its helper thread ends with the lane.
        hang(false);
    }
}
