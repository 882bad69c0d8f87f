//! Wrappers around a port: they do what they say, count it, and keep its contract.

use corelane_seam::Instant;
use corelane_seam::{Frame, FrameMemory, Port};
use corelane_sim::{
    CapturedPort, CardSetup, CountedPort, Faults, FaultyPort, Interface, PortFaultCounts, PortFaults, Random, SimPort, World,
};
use corelane_testkit::skip;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const FRAMES: usize = 256;

fn port(world: &World) -> (Interface, SimPort, FrameMemory) {
    let (test, card) = (world.interface(CardSetup { queues: 0, ..CardSetup::default() }), world.interface(CardSetup::default()));
    world.join(&[&test, &card]);
    let memory = FrameMemory::new(FRAMES, 2048).unwrap();
    let port = SimPort::open(&card, 0, 0, memory.clone(), 64).unwrap();
    (test, port, memory)
}

fn arrive(world: &World, test: &Interface, frames: impl IntoIterator<Item = Vec<u8>>) {
    let _lane = world.driver(corelane_seam::Arena::new(1).unwrap(), Default::default());
    frames.into_iter().for_each(|frame| test.send(&frame));
    world.pass(Duration::from_millis(1));
}

#[test]
fn each_fault_happens_is_counted_and_keeps_to_the_budget() {
    let world = World::new(1, Faults::none());
    let (test, port, memory) = port(&world);
    let mut random = Random::new(7);
    let faults = PortFaults { drop: 100, duplicate: 100, reorder: 100, corrupt: 100, delay: 100, delay_nanoseconds: 5_000_000 };
    let (mut port, counts) = FaultyPort::new(port, faults, move || random.bits());
    let (mut seen, mut into) = (0, Vec::new());
    for round in 0..40 {
        arrive(&world, &test, (0..20u8).map(|number| vec![number; 80]));
        for _ in 0..8 {
            into.clear();
            port.receive(world.now().nanoseconds(), 7, &mut into).unwrap();
            assert!(into.len() <= 7, "round {round}");
            seen += into.len() as u64;
        }
    }
    while let Some(time) = port.wakes_at() {
        world.pass(Instant::from_nanoseconds(time) - world.now() + Duration::from_nanos(1));
        into.clear();
        port.receive(world.now().nanoseconds(), 64, &mut into).unwrap();
        seen += into.len() as u64;
    }
    let PortFaultCounts { dropped, duplicated, reordered, corrupted, delayed } = counts.get();
    assert!([dropped, duplicated, reordered, corrupted, delayed].iter().all(|&count| count > 10), "{:?}", counts.get());
    assert_eq!(seen + world.wire_counts().missed, 800 - dropped + duplicated);
    into.clear();
    drop(port);
    assert_eq!(memory.counts().free, FRAMES);
}

#[test]
fn a_counted_port_counts_what_passes() {
    let world = World::new(2, Faults::none());
    let (test, port, memory) = port(&world);
    let (mut port, counts) = CountedPort::new(port);
    arrive(&world, &test, [vec![1; 60], vec![2; 70]]);
    let mut into = Vec::new();
    port.receive(world.now().nanoseconds(), 8, &mut into).unwrap();
    let mut too_long = memory.frame().unwrap();
    too_long.append(&[3; 1600]);
    into.push(too_long);
    port.send(world.now().nanoseconds(), &mut into).unwrap();
    let seen = counts.get();
    assert_eq!((seen.received, seen.received_bytes, seen.sent, seen.sent_bytes, seen.refused), (2, 130, 2, 1730, 1));
}

#[test]
fn a_capture_that_nobody_takes_is_bounded() {
    let world = World::new(3, Faults::none());
    let (test, port, _memory) = port(&world);
    let (mut port, capture) = CapturedPort::new(port, 1000);
    arrive(&world, &test, (0..20).map(|_| vec![1; 100]));
    let mut into = Vec::new();
    port.receive(world.now().nanoseconds(), 64, &mut into).unwrap();
    assert_eq!((into.len(), capture.missed()), (20, 14));
    assert!(capture.take().len() <= 1000);
}

/// A UDP packet over IPv4 in an Ethernet frame.
fn packet(source: u16, payload: &[u8]) -> Vec<u8> {
    let udp = (8 + payload.len()) as u16;
    let mut bytes = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0].to_vec();
    bytes.extend((20 + udp).to_be_bytes());
    bytes.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 10, 0, 0, 1]);
    bytes.extend([source, 7, udp, 0].iter().flat_map(|word| word.to_be_bytes()));
    bytes.extend(payload);
    bytes
}

#[test]
fn another_program_reads_a_capture() {
    const NAME: &str = "another_program_reads_a_capture";
    if Command::new("tcpdump").arg("--version").output().is_err() {
        return skip(NAME, "tcpdump is not installed");
    }
    let world = World::new(4, Faults::none());
    let (test, port, memory) = port(&world);
    let (mut port, capture) = CapturedPort::new(port, 1 << 20);
    arrive(&world, &test, (0..5).map(|number| packet(1000 + number, &vec![b'x'; number as usize])));
    let mut frames: Vec<Frame> = Vec::new();
    port.receive(world.now().nanoseconds(), 64, &mut frames).unwrap();
    let times: Vec<_> = frames.iter().map(|frame| frame.facts.time).collect();
    frames.clear();
    let mut answer = memory.frame().unwrap();
    answer.append(&packet(9, b"answer"));
    frames.push(answer);
    port.send(world.now().nanoseconds(), &mut frames).unwrap();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capture-{}.pcapng", std::process::id()));
    std::fs::write(&path, capture.take()).unwrap();
    let read = Command::new("tcpdump").args(["--nano", "-nn", "-tt", "-r"]).arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let lines = String::from_utf8(read.stdout).unwrap();
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), 6, "{lines:?}");
    for (number, (line, time)) in lines.iter().zip(times.iter().chain([&world.now().nanoseconds()])).enumerate() {
        let (source, length) = if number < 5 { (1000 + number, number) } else { (9, 6) };
        let stamp = format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
        assert!(line.starts_with(&stamp), "{line} at {stamp}");
        assert!(line.contains(&format!("192.0.2.1.{source} > 10.0.0.1.7: UDP, length {length}")), "{line}");
    }
}
