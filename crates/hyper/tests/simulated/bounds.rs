//! Heads that have not come whole: their client pays for them, and others are served beside many of them.

use crate::simulated::frames::{CONTINUATION, END_STREAM, Frames, HEADERS, beginning, frame};
use crate::simulated::{rig, served};
use corelane::admin::watch::{LaneCounter, ServiceCounter};
use corelane::testing::parts::svc::bounds;
use corelane::testing::{Faults, MS, Nobody, Rig, RigPlan, Siege, Status, World, patient};

/// A head of HTTP/1 of so many bytes, that does not end.
fn begun_text(bytes: usize) -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nhost: x\r\na: ".to_vec();
    head.resize(bytes, b'a');
    head
}

/// One of HTTP/2 that does not end: a field whose value is announced, and comes in as many frames as are taken.
fn begun_frames() -> Vec<u8> {
    let field = [&[0x82, 0x86, 0x00, 1, b'a', 0x7f, 0x80, 0x80, 0x40][..], &[b'v'; 16_000]].concat();
    let more = frame(CONTINUATION, 0, 1, &[b'v'; 16 << 10]);
    [frame(HEADERS, END_STREAM, 1, &field), more.repeat(5)].concat()
}

#[test]
fn heads_that_do_not_end_silence_nobody() {
    let hits: Vec<u64> = bounds::of("hyper")
        .map(|bound| {
            assert_eq!((bound.name, bound.counter), ("heads that have not come whole", "memory_hits"));
            let world = World::new(1, Faults::none());
            let mut rig = Rig::serving(&world, &RigPlan::lanes(1).memory(16 << 20), patient(), |_| served());
            let says = |number: usize| match number % 2 {
                0 => begun_text(60_000),
                _ => [beginning(&[]), begun_frames()].concat(),
            };
            let siege = Siege::each(300, says).served_if(|heard| heard.starts_with(b"HTTP/1.1 200"));
            siege.lay(&mut rig, "GET /small HTTP/1.1\r\nhost: x\r\n\r\n");
            rig.count(ServiceCounter::MemoryHits)
        })
        .collect();
    assert!(hits.len() == 1 && hits[0] > 0, "{hits:?}");
}

#[test]
fn a_client_pays_for_its_head_until_that_has_come_whole() {
    let (_world, mut rig) = rig(served);
    let (text, mut framed) = (rig.connect(0), Frames::begin(&mut rig, 1, &[]));
    let end = "\r\n\r\n";
    for (what, begins, bytes) in [("text", begun_text(50_000), 40_000), ("frames", begun_frames(), 90_000)] {
        let peer = if what == "text" { &text } else { &framed.peer };
        let mut rest = &begins[..];
        while !rest.is_empty() {
            rest = &rest[peer.send(rest)..];
            rig.wait(MS);
        }
        rig.wait(10 * MS);
        let used = rig.lane_count(LaneCounter::MemoryUsed);
        assert!((bytes..4 * bytes).contains(&usize::try_from(used).unwrap()), "{what}: {used} bytes are paid for");
        match what {
            "text" => assert!(rig.ask(&text, end).ends_with("hello from /")),
            _ => framed.say(&frame(CONTINUATION, 4, 1, &[])),
        }
        rig.wait(10 * MS);
        assert_eq!(rig.lane_count(LaneCounter::MemoryUsed), 0, "{what}: nothing is held when it is hyper's");
    }
    assert_ne!(framed.hear(&mut rig), [], "h2 has its word on such a head");
    text.close();
    rig.wait(MS);
    rig.close(&mut Nobody);
}

#[test]
fn a_head_of_text_has_a_bound_and_one_below_it_is_answered() {
    let (_world, mut rig) = rig(served);
    for (bytes, status) in [(60_000, "200"), (200_000, "431")] {
        let peer = rig.connect(0);
        let head = [&begun_text(bytes)[..], b"\r\n\r\n"].concat();
        let (mut rest, mut heard) = (&head[..], Vec::new());
        while !rest.is_empty() && peer.status() != Status::Closed {
            rest = &rest[peer.send(rest)..];
            rig.wait(MS);
            heard.extend(peer.read(usize::MAX));
        }
        rig.wait(10 * MS);
        heard.extend(peer.read(usize::MAX));
        let heard = String::from_utf8_lossy(&heard);
        assert!(heard.starts_with(&format!("HTTP/1.1 {status}")), "{bytes} bytes: {heard}");
        peer.close();
        rig.wait(10 * MS);
    }
    rig.close(&mut Nobody);
}
