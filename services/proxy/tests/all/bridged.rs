//! Pairs between which the kernel passes bytes, over real sockets and by both drivers.

use corelane::admin::watch::{LaneCounter, Reader, ServiceCounter};
use corelane::lanes::{DriverChoice, DriverSettings, Running};
use corelane::service::{Limits, Random};
use corelane::{Lanes, admin};
use corelane_proxy::ENTRY;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const DRIVERS: [DriverChoice; 2] = [DriverChoice::Epoll, DriverChoice::Uring];
const PATIENCE: Duration = Duration::from_secs(60);
/// Exchanges behind which a pair is bridged.
const EXCHANGES: usize = 24;
/// A pair ends that rests so long. On a busy machine threads, the kernel's as well, come late by some tenths of a second or more.
const REST: Duration = Duration::from_secs(3);
/// What the kernel takes in of a stream that nobody reads: two receive buffers and two send buffers, as they grow by themselves.
const TAKEN_MAX: usize = 48 << 20;

/// One lane that serves the proxy; none, and says so, where the kernel cannot be had for it.
fn start(test: &str, driver: DriverChoice, to: SocketAddr, change: impl FnOnce(Lanes) -> Lanes) -> Option<Running> {
    let lanes = Lanes::per_core().lanes(1).driver(driver);
    let lanes = change(lanes).serve_entry(&ENTRY, &format!("tcp://127.0.0.1:0?to={to}&in-kernel")).unwrap();
    let running = lanes.start().unwrap();
    let lacks = running.notes().iter().find(|note| note.code == Some(admin::messages::Degraded::NoBridge.code()));
    if let Some(note) = lacks {
        corelane_testkit::skip(test, &note.text);
        return None;
    }
    Some(running)
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A client that has exchanged enough with whoever echoes there.
fn joined(running: &Running) -> TcpStream {
    let mut client = patient(TcpStream::connect(running.address().inet().unwrap()).unwrap());
    (0..EXCHANGES).for_each(|_| exchange(&mut client));
    client
}

fn exchange(client: &mut TcpStream) {
    let mut got = [0; 64];
    client.write_all(&[7; 64]).unwrap();
    client.read_exact(&mut got).unwrap();
    assert_eq!(got, [7; 64]);
}

/// Echoes on each of its connections, until that ends.
fn echoing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    spawn(move || {
        for stream in listener.incoming() {
            spawn(move || echo(patient(stream.unwrap())));
        }
    });
    address
}

fn echo(mut stream: TcpStream) {
    let mut memory = vec![0; 64 << 10];
    while let Ok(bytes) = stream.read(&mut memory) {
        if bytes == 0 || stream.write_all(&memory[..bytes]).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}

/// Echoes the exchanges on one connection, and then does something else with it.
fn then<T: Send + 'static>(act: impl FnOnce(TcpStream) -> T + Send + 'static) -> (SocketAddr, std::thread::JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let acting = spawn(move || {
        let mut stream = patient(listener.accept().unwrap().0);
        let mut memory = [0; 64];
        for _ in 0..EXCHANGES {
            stream.read_exact(&mut memory).unwrap();
            stream.write_all(&memory).unwrap();
        }
        act(stream)
    });
    (address, acting)
}

fn counter(running: &Running, counter: LaneCounter) -> u64 {
    Reader::of(running.counters()).unwrap().snapshot(0).lanes[0].values.get(counter)
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(1));
    }
}

/// Messages of one size and of all sizes, with pauses and without, on six pairs at once: what comes back is what went.
#[test]
fn bytes_of_all_sizes_come_back_in_their_order() {
    const PAIRS: u64 = 6;
    const BYTES: usize = 4 << 20;
    for driver in DRIVERS {
        let Some(running) = start("bytes_of_all_sizes_come_back_in_their_order", driver, echoing(), |lanes| lanes) else {
            return;
        };
        let pairs = (0..PAIRS).map(|seed| {
            let client = joined(&running);
            spawn(move || {
                let said = Random::new(seed).bytes(BYTES);
                let (mut writing, to_say) = (client.try_clone().unwrap(), said.clone());
                let saying = spawn(move || {
                    let (mut random, mut rest) = (Random::new(seed), &to_say[..]);
                    while !rest.is_empty() {
                        let most = [64, 64, 500, 4_096, 100_000][random.below(5) as usize];
                        let (now, later) = rest.split_at(rest.len().min(1 + random.below(most) as usize));
                        writing.write_all(now).unwrap();
                        rest = later;
                        if random.below(64) == 0 {
                            sleep(Duration::from_micros(200));
                        }
                    }
                    writing.shutdown(Shutdown::Write).unwrap();
                });
                let mut heard = Vec::new();
                (&client).read_to_end(&mut heard).unwrap();
                saying.join().unwrap();
                assert!(heard == said, "{driver:?}: {} of {} bytes", heard.len(), said.len());
            })
        });
        pairs.collect::<Vec<_>>().into_iter().for_each(|pair| pair.join().unwrap());
        until("the kernel has passed on some of it", || counter(&running, LaneCounter::BytesBridged) > 0);
        until("pairs end", || counter(&running, LaneCounter::PairsBridged) == 0);
        let moved = || {
            let page = Reader::of(running.counters()).unwrap().snapshot(0);
            [ServiceCounter::BytesIn, ServiceCounter::BytesOut].map(|one| page.services[0].values.get(one))
        };
        let all = 2 * PAIRS * (BYTES + 64 * EXCHANGES) as u64;
        until("what the kernel passes on counts as well", || moved().iter().all(|bytes| *bytes >= all));
        assert_eq!(moved(), [all; 2], "{driver:?}: and counts once");
    }
}

#[test]
fn small_messages_do_not_come_to_the_lane() {
    const MESSAGES: usize = 1_000;
    for driver in DRIVERS {
        let Some(running) = start("small_messages_do_not_come_to_the_lane", driver, echoing(), |lanes| lanes) else { return };
        // A lane that comes late is given more of them, so that a pair of a busy machine shows nothing.
        until("the kernel passes on most of them", || {
            let before = counter(&running, LaneCounter::BytesBridged);
            let mut client = joined(&running);
            until("a pair is bridged", || counter(&running, LaneCounter::PairsBridged) == 1);
            (0..MESSAGES).for_each(|_| exchange(&mut client));
            drop(client);
            // At its end the lane is told of all.
            until("the pair ends", || counter(&running, LaneCounter::PairsBridged) == 0);
            let bridged = counter(&running, LaneCounter::BytesBridged) - before;
            let moved = 2 * 64 * (MESSAGES + EXCHANGES) as u64;
            assert!(bridged < moved, "{driver:?}: {bridged} of {moved} bytes");
            bridged > moved / 2
        });
    }
}

/// A verdict alone bounds nothing: what is redirected is counted against what the other has taken.
#[test]
fn a_reader_that_stops_stops_the_sender_and_gets_all_later() {
    const BYTES: usize = 96 << 20;
    for driver in DRIVERS {
        let sent = Arc::new(AtomicUsize::new(0));
        let progress = sent.clone();
        let (address, serving) = then(move |mut stream| {
            let piece = vec![9; 1_000];
            for _ in 0..BYTES / piece.len() {
                stream.write_all(&piece).unwrap();
                progress.fetch_add(piece.len(), Ordering::SeqCst);
            }
        });
        let Some(running) = start("a_reader_that_stops_stops_the_sender_and_gets_all_later", driver, address, |lanes| lanes)
        else {
            return;
        };
        let mut client = joined(&running);
        until("a pair is bridged", || counter(&running, LaneCounter::PairsBridged) == 1);
        let stops = || {
            let page = Reader::of(running.counters()).unwrap().snapshot(0);
            page.services[0].values.get(ServiceCounter::OutputHighHits)
        };
        until("the lane stops reading", || stops() > 0);
        assert!(sent.load(Ordering::SeqCst) < TAKEN_MAX, "{driver:?}: {} bytes were taken", sent.load(Ordering::SeqCst));
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        serving.join().unwrap();
        assert!(got.len() == BYTES / 1_000 * 1_000 && got.iter().all(|byte| *byte == 9), "{driver:?}: {} bytes", got.len());
    }
}

#[test]
fn a_half_that_ends_with_bytes_on_their_way_loses_none() {
    for driver in DRIVERS {
        let (address, serving) = then(|mut stream| {
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).unwrap();
            // The other half goes on alone.
            stream.write_all(&heard).unwrap();
            heard.len()
        });
        let Some(running) = start("a_half_that_ends_with_bytes_on_their_way_loses_none", driver, address, |lanes| lanes) else {
            return;
        };
        let mut client = joined(&running);
        until("a pair is bridged", || counter(&running, LaneCounter::PairsBridged) == 1);
        let said = Random::new(5).bytes(3 << 20);
        let (mut writing, to_say) = (client.try_clone().unwrap(), said.clone());
        let saying = spawn(move || {
            writing.write_all(&to_say).unwrap();
            writing.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        saying.join().unwrap();
        assert!(serving.join().unwrap() == said.len() && got == said, "{driver:?}: {} bytes", got.len());
    }
}

#[test]
fn a_reset_is_a_reset_on_the_other_side() {
    for driver in DRIVERS {
        let (address, serving) = then(|mut stream| {
            stream.read_exact(&mut [0; 4]).unwrap();
            // Bytes that nobody reads make a reset of the close.
            stream.peek(&mut [0; 1]).unwrap();
        });
        let Some(running) = start("a_reset_is_a_reset_on_the_other_side", driver, address, |lanes| lanes) else { return };
        let mut client = joined(&running);
        until("a pair is bridged", || counter(&running, LaneCounter::PairsBridged) == 1);
        client.write_all(b"abcdefgh").unwrap();
        let error = client.read(&mut [0; 10]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{driver:?}");
        serving.join().unwrap();
        until("the pair ends", || counter(&running, LaneCounter::PairsBridged) == 0);
    }
}

/// What the kernel passes on is no rest of the pair, and what does rest ends.
#[test]
fn a_pair_ends_when_nothing_passes_any_more() {
    for driver in DRIVERS {
        let limits = |lanes: Lanes| lanes.limits(Limits::new().idle_limit(REST));
        let Some(running) = start("a_pair_ends_when_nothing_passes_any_more", driver, echoing(), limits) else { return };
        let mut client = joined(&running);
        let end = Instant::now() + 4 * REST / 3;
        while Instant::now() < end {
            exchange(&mut client);
            sleep(Duration::from_millis(5));
        }
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "{driver:?}: an end in order");
        until("the kernel has passed on some of it", || counter(&running, LaneCounter::BytesBridged) > 0);
    }
}

/// One half has ended, and what the kernel passes on in the other keeps both.
#[test]
fn a_half_that_goes_on_alone_is_no_rest() {
    const MESSAGES: usize = 100;
    for driver in DRIVERS {
        let (address, serving) = then(|mut stream| {
            assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
            for _ in 0..MESSAGES {
                stream.write_all(&[5; 64]).unwrap();
                sleep(Duration::from_millis(40));
            }
        });
        let limits = |lanes: Lanes| lanes.limits(Limits::new().idle_limit(REST));
        let Some(running) = start("a_half_that_goes_on_alone_is_no_rest", driver, address, limits) else { return };
        let mut client = joined(&running);
        until("a pair is bridged", || counter(&running, LaneCounter::PairsBridged) == 1);
        client.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), 64 * MESSAGES, "{driver:?}");
        serving.join().unwrap();
    }
}

#[test]
fn beyond_the_bound_pairs_pass_through_the_lane() {
    for driver in DRIVERS {
        let few = |lanes: Lanes| lanes.driver_settings(DriverSettings::new().bridged_pairs_max(3));
        let Some(running) = start("beyond_the_bound_pairs_pass_through_the_lane", driver, echoing(), few) else { return };
        // Places are used again.
        for _ in 0..3 {
            let mut clients: Vec<_> = (0..5).map(|_| joined(&running)).collect();
            until("three are bridged", || {
                clients.iter_mut().for_each(exchange);
                counter(&running, LaneCounter::PairsBridged) == 3
            });
            clients.iter_mut().for_each(exchange);
            assert!(counter(&running, LaneCounter::PairsBridged) <= 3, "{driver:?}");
            drop(clients);
            until("pairs end", || counter(&running, LaneCounter::PairsBridged) == 0);
        }
        until("others were refused", || counter(&running, LaneCounter::BridgedPairsMaxHits) > 0);
    }
}
