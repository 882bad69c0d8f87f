//! Clients that mean harm: what they hold is bounded, and others are served meanwhile.

use super::rig::{MS, Rig, RigPlan, S, patient};
use super::shop::Shop;
use corelane::admin::watch::{LaneCounter, ServiceCounter as C};
use corelane::service::Limits;
use corelane::testing::{Faults, World};
use corelane_http::Http;
use std::time::Duration;

const SMALL: &str = "GET /now/100 HTTP/1.1\r\nHost: a\r\n\r\n";

fn rig(memory: usize, limits: Limits) -> Rig {
    let world = World::new(1, Faults::none());
    Rig::serving(&world, &RigPlan::lanes(1).memory(memory), limits, |_| Http::new(Shop::default()))
}

/// An honest client is served at once.
fn assert_served(rig: &mut Rig, number: usize) {
    let honest = rig.connect(number);
    rig.wait(MS);
    assert!(rig.ask(&honest, SMALL).starts_with("HTTP/1.1 200 OK\r\n"));
    honest.close();
}

#[test]
fn a_reader_that_never_reads_a_gigabyte_holds_little() {
    let mut rig = rig(16 << 20, patient().send_limit(Duration::from_secs(20)));
    let readers: Vec<_> = (1..=20).map(|number| rig.connect(number)).collect();
    rig.wait(MS);
    for reader in &readers {
        reader.send(b"GET /flood/1000000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for number in 100..110 {
        rig.wait(S);
        assert_served(&mut rig, number);
    }
    let held = rig.lane_count(LaneCounter::MemoryUsed);
    // Bytes count against `output_high`, and the memory that they lie in may be twice as much.
    assert!(held <= 20 * 2 * (256 << 10), "{held} bytes for 20 readers");
    rig.wait(30 * S);
    assert_eq!((rig.connections(), rig.count(C::SendLimitHits)), (0, 20), "who takes nothing is given up");
}

#[test]
fn heads_and_contents_that_are_announced_and_never_sent_hold_little() {
    let mut rig = rig(16 << 20, patient());
    let clients: Vec<_> = (0..200).map(|number| rig.connect(1 + number % 50)).collect();
    rig.wait(MS);
    for (number, client) in clients.iter().enumerate() {
        let request = match number % 4 {
            0 => format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}", "a".repeat(10_000)),
            1 => "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\nx".to_owned(),
            2 => "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx".to_owned(),
            _ => "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\nx".to_owned(),
        };
        client.send(request.as_bytes());
    }
    for number in 100..110 {
        rig.wait(50 * MS);
        assert_served(&mut rig, number);
    }
    let held = rig.lane_count(LaneCounter::MemoryUsed);
    assert!(held <= 200 * (32 << 10), "{held} bytes for 200 clients");
    clients.iter().for_each(|client| client.close());
    rig.wait(5 * MS);
    assert_eq!(rig.connections(), 0);
}

#[test]
fn one_client_with_a_pipeline_does_not_keep_others_waiting() {
    let mut rig = rig(16 << 20, patient());
    let greedy = rig.connect(1);
    rig.wait(MS);
    for round in 0..50 {
        greedy.send(SMALL.repeat(2_000).as_bytes());
        rig.wait(MS);
        assert_served(&mut rig, 2 + round);
    }
    assert!(greedy.read(usize::MAX).starts_with(b"HTTP/1.1 200 OK\r\n"));
    greedy.close();
    rig.wait(5 * MS);
    assert_eq!(rig.connections(), 0);
}

#[test]
fn what_is_sent_in_parts_is_sent_one_behind_the_other() {
    let mut rig = rig(16 << 20, patient());
    let greedy = rig.connect(1);
    rig.wait(MS);
    greedy.send("GET /sized/50000 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(500).as_bytes());
    for number in 2..12 {
        rig.wait(100 * MS);
        assert_served(&mut rig, number);
    }
    // Each may hold a file open: only what the network holds is under way, and one more.
    let served = rig.count(C::Requests) - 10;
    assert!(served < 50, "{served} answers are under way to a client that reads nothing");
    greedy.close();
    rig.wait(5 * MS);
    assert_eq!(rig.connections(), 0);
}

/// Each has asked once, and says nothing more: it holds a place and nothing else.
#[test]
fn ten_thousand_idle_clients_hold_nothing_and_are_let_go_in_their_time() {
    const CLIENTS: usize = 10_000;
    let mut rig = rig(16 << 20, patient().idle_limit(Duration::from_secs(75)));
    let mut idlers = Vec::new();
    for many in 0..CLIENTS / 100 {
        let newcomers: Vec<_> = (0..100).map(|number| rig.connect(1 + many * 100 + number)).collect();
        rig.wait(MS);
        newcomers.iter().for_each(|idler| assert_eq!(idler.send(SMALL.as_bytes()), SMALL.len()));
        rig.wait(MS);
        idlers.extend(newcomers);
    }
    for idler in &idlers {
        assert!(idler.read(usize::MAX).starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    assert_eq!((rig.connections(), rig.lane_count(LaneCounter::MemoryUsed)), (CLIENTS, 0));
    assert_served(&mut rig, 0);
    rig.wait(70 * S);
    assert_eq!((rig.connections(), rig.lane_count(LaneCounter::MemoryUsed)), (CLIENTS, 0));
    // Who asks again stays.
    assert!(rig.ask(&idlers[0], SMALL).starts_with("HTTP/1.1 200 OK\r\n"));
    rig.wait(10 * S);
    assert_eq!((rig.connections(), rig.count(C::IdleLimitHits)), (1, CLIENTS as u64 - 1));
}
