//! Memory of sends that have ended: late, acknowledged and not read, never released.

use crate::bench::Bench;
use corelane_seam::{Chain, Driver, Handle, Op, Outcome, RELEASE_LIMIT, Socket, StreamOp};
use corelane_sim::{Faults, Peer, Planted, Violation};

/// Has lane 0 send these bytes.
fn send(bench: &mut Bench, socket: Socket, bytes: &[u8]) -> Handle {
    let mut chain = Chain::new();
    chain.push(bench.arena.copy_of(bytes).unwrap().share());
    bench.push(0, StreamOp::Send { socket, chain })
}

/// A connection of lane 0 whose sends share their pages with the receiver, and a send that its peer has acknowledged and not read.
fn acknowledged() -> (Bench, Socket, Peer, Handle) {
    let mut bench = Bench::new(Faults { shared_pages: 1_000, ..Faults::none() });
    let (socket, peer) = bench.pipe();
    let send = send(&mut bench, socket, b"shared");
    bench.until(|bench| bench.lanes[0].unsent_bytes(socket) == Some(0) && !bench.completions.is_empty());
    assert!(!bench.take(send).unwrap().released);
    assert_eq!(peer.readable_bytes(), 6, "the peer has it");
    (bench, socket, peer, send)
}

#[test]
fn shared_pages_are_released_when_they_are_read_and_not_when_they_are_acknowledged() {
    for (read, is_all) in [(5, false), (6, true)] {
        let (mut bench, _socket, peer, send) = acknowledged();
        let before = bench.world.now().nanoseconds();
        peer.read(read);
        bench.until(|bench| !bench.completions.is_empty());
        let waited = bench.world.now().nanoseconds() - before;
        assert_eq!(waited < 500_000_000, is_all, "{waited} ns: with the last byte, or when it was copied");
        assert!(matches!(bench.take(send).unwrap().outcome, Outcome::Released) && bench.arena.used() == 0);
    }
    // What nobody will read any more is released as well.
    let (mut bench, _socket, peer, send) = acknowledged();
    peer.close();
    bench.settle();
    assert!(matches!(bench.take(send).unwrap().outcome, Outcome::Released) && bench.arena.used() == 0);
}

#[test]
fn a_release_at_acknowledgement_is_found() {
    for plants in [false, true] {
        let mut bench = Bench::new(Faults { shared_pages: 1_000, ..Faults::none() });
        if plants {
            bench.world.plant(Planted::ReleaseAtAcknowledgement);
        }
        let (socket, peer) = bench.pipe();
        let mut got = Vec::new();
        for _ in 0..200 {
            send(&mut bench, socket, b"shared");
            bench.settle();
            got.extend(peer.read(usize::MAX));
        }
        assert_eq!(got != b"shared".repeat(200), plants, "one send in sixteen is changed, if any");
    }
}

#[test]
fn what_is_never_released_is_withheld_in_time_and_never_lent_again() {
    let mut bench = Bench::new(Faults { late_release: 1_000, never_release: 1_000, ..Faults::none() });
    let (socket, peer) = bench.pipe();
    let send = send(&mut bench, socket, b"kept");
    let close = bench.push(0, Op::Close { socket, reset: false });
    let before = bench.world.now().nanoseconds();
    bench.until(|bench| bench.completions.iter().any(|(_, completion)| completion.handle == close));
    let waited = bench.world.now().nanoseconds() - before;
    assert_eq!(waited / 1_000_000, RELEASE_LIMIT.as_millis() as u64, "no longer than that");
    assert!(!bench.take(send).unwrap().released && bench.take(send).is_none());
    assert_eq!((bench.lanes[0].counters().sends.withheld_bytes, bench.arena.used()), (256, 256));
    let all: Vec<_> = std::iter::from_fn(|| bench.arena.lease_or_none(256)).collect();
    assert_eq!(all.len() * 256 + 256, bench.arena.limit());
    drop((all, peer));
    let found = bench.world.check();
    assert!(
        !matches!(found, Err(Violation::MemoryLeaked { .. } | Violation::NeverReleased { .. })),
        "what is withheld is no leak: {found:?}"
    );
}
