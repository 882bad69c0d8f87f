//! Each bound of HTTP's own is attacked from one address, while clients of another one and of the attackers' own ask for something small: each is served within a
//! second.

use super::rig::{MS, Rig, RigPlan, Siege, patient};
use super::shop::Shop;
use corelane::admin::watch::LaneCounter;
use corelane::testing::parts::svc::bounds::{self, Bound};
use corelane::testing::{Faults, World};
use corelane_http::{AccessLog, Http, LogFormat};

const SMALL: &str = "GET /now/100 HTTP/1.1\r\nHost: a\r\n\r\n";

fn is_served(heard: &[u8]) -> bool {
    heard.starts_with(b"HTTP/1.1 200")
}

/// A head that a line of the log shows much of, and in which each byte that it shows needs several there.
fn long_head(path: &str) -> Vec<u8> {
    let head = format!("GET {path}?{} HTTP/1.1\r\nHost: a\r\nZ: {}\r\n", "q".repeat(1_500), "z".repeat(12_000));
    let fields = [&b"Referer: "[..], &[0xff; 768], b"\r\nUser-Agent: ", &[0xff; 512], b"\r\n\r\n"].concat();
    [head.as_bytes(), &fields].concat()
}

fn logging(memory: usize) -> Rig {
    let log = AccessLog::open("/dev/null", LogFormat::Json).unwrap();
    let plan = RigPlan::lanes(1).memory(memory);
    Rig::serving(&World::new(1, Faults::none()), &plan, patient(), |_| Http::new(Shop::default()).log(&log))
}

/// Attacks a bound; how often it was met.
fn attack(bound: &Bound) -> u64 {
    match bound.name {
        "lines of the log that wait for their answer" => {
            let mut rig = logging(16 << 20);
            Siege::of(300, long_head("/never").repeat(10)).served_if(is_served).lay(&mut rig, SMALL);
            rig.named(bound.counter)
        }
        "answers that wait for memory" => {
            let world = World::new(1, Faults::none());
            let mut rig = Rig::serving(&world, &RigPlan::lanes(1).memory(16 << 20), patient(), |_| Http::new(Shop::default()));
            let says = "GET /now/60000 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20);
            Siege::of(300, says).served_if(is_served).lay(&mut rig, SMALL);
            rig.named(bound.counter)
        }
        other => panic!("nobody attacks {other}"),
    }
}

#[test]
fn no_bound_of_http_that_peers_can_meet_silences_anybody() {
    let fails = |bound: &&Bound| {
        println!("{}", bound.name);
        !std::panic::catch_unwind(|| attack(bound)).is_ok_and(|hits| hits > 0)
    };
    let failed: Vec<&str> = bounds::of("http").filter(fails).map(|bound| bound.name).collect();
    assert!(failed.is_empty(), "never met, or somebody waited: {failed:?}");
}

/// What the log keeps of a request until its answer is memory of its client's.
#[test]
fn a_client_pays_for_what_the_log_keeps_of_its_head() {
    let mut rig = logging(64 << 20);
    let client = rig.connect(1);
    rig.wait(MS);
    let mut held = Vec::new();
    for _ in 0..2 {
        client.send(&long_head("/never"));
        rig.wait(2 * MS);
        held.push(rig.lane_count(LaneCounter::MemoryUsed));
    }
    assert!(held[0] >= 8 << 10 && held[1] >= 2 * held[0], "{held:?} bytes for heads of 15 KB");
    rig.wait(1_000 * MS);
    assert_eq!(rig.lane_count(LaneCounter::MemoryUsed), 0, "and goes home with the line");
}
