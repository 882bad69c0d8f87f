//! Clients that do not take what they came for.

use super::{Reader, Readers, small};
use corelane::admin::watch::ServiceCounter as C;
use corelane::testing::{Faults, MS, Rig, S, Status, World, patient};
use corelane_push::{Push, SIZE_DEFAULT};

/// A lane that pushes, and a client that takes what it gets.
fn rig(limits: corelane::service::Limits) -> (Rig, Reader) {
    let world = World::new(3, Faults::none());
    let rig = Rig::serving(&world, &small(), limits, |_| Push::memory(SIZE_DEFAULT));
    let honest = Reader::new(rig.connect(0));
    (rig, honest)
}

/// Lets time pass in which the honest client reads; it must get something in each millisecond.
fn goes_on(rig: &mut Rig, honest: &mut Reader, rounds: usize) {
    for _ in 0..rounds {
        rig.wait(MS);
        assert!(honest.read(usize::MAX) > 0, "another disturbs it");
    }
}

/// Ends it, with the honest client reading.
fn end(mut rig: Rig, mut honest: Reader) {
    honest.read(usize::MAX);
    rig.close(&mut Readers(vec![honest]));
}

#[test]
fn those_who_never_read_end_at_the_limit_and_hold_no_memory() {
    let (mut rig, mut honest) = rig(patient().send_limit(S));
    goes_on(&mut rig, &mut honest, 10);
    let before = rig.arenas[0].used();
    let idle: Vec<_> = (1..300).map(|number| rig.connect(number)).collect();
    goes_on(&mut rig, &mut honest, 20);
    assert_eq!(rig.arenas[0].used(), before, "300 who do not read hold what one holds");
    assert!(idle.iter().all(|peer| peer.status() == Status::Open));
    goes_on(&mut rig, &mut honest, 1_500);
    drop(idle);
    assert_eq!((rig.connections(), rig.count(C::EndingsAborted)), (1, 299));
    end(rig, honest);
}

#[test]
fn what_clients_say_is_dropped_and_costs_nothing() {
    let (mut rig, mut honest) = rig(patient().record_max(10_000));
    let mut loud = Reader::new(rig.connect(1));
    let (mut said, rubbish) = (0, [0xa5; 8_192]);
    for _ in 0..300 {
        rig.wait(MS);
        said += loud.peer.send(&rubbish);
        assert!(honest.read(usize::MAX) > 0 && loud.read(usize::MAX) > 0);
    }
    rig.wait(5 * MS);
    assert!(said > 1 << 20 && rig.count(C::BytesIn) == said as u64, "{said} bytes of rubbish");
    assert_eq!((loud.peer.status(), rig.count(C::RecordMaxHits)), (Status::Open, 0));
    end(rig, honest);
}

#[test]
fn who_has_finished_gets_what_was_on_its_way_and_the_end() {
    let (mut rig, mut honest) = rig(patient());
    for says in [&b""[..], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut half = Reader::new(rig.connect(1));
        goes_on(&mut rig, &mut honest, 3);
        assert_eq!(half.peer.send(says), says.len());
        half.peer.finish();
        for _ in 0..50 {
            goes_on(&mut rig, &mut honest, 1);
            half.read(usize::MAX);
        }
        assert_eq!((half.peer.status(), half.heard % SIZE_DEFAULT as u64), (Status::Ended, 0));
        half.peer.close();
        goes_on(&mut rig, &mut honest, 5);
    }
    assert_eq!((rig.count(C::EndingsEndOfStream), rig.connections()), (2, 1));
    end(rig, honest);
}

#[test]
fn who_has_finished_and_never_reads_ends_at_the_limit_too() {
    let (mut rig, mut honest) = rig(patient().send_limit(S));
    let half = rig.connect(1);
    goes_on(&mut rig, &mut honest, 3);
    half.finish();
    goes_on(&mut rig, &mut honest, 2_500);
    assert_eq!(rig.connections(), 1);
    end(rig, honest);
}

#[test]
fn resets_and_those_who_come_and_go_disturb_nobody() {
    let (mut rig, mut honest) = rig(patient().send_limit(S));
    for round in 0..100 {
        let peers: Vec<_> = (1..5).map(|number| rig.connect(number)).collect();
        goes_on(&mut rig, &mut honest, round % 3);
        for (number, peer) in peers.iter().enumerate() {
            if number % 2 == 0 { peer.reset() } else { peer.close() }
        }
    }
    goes_on(&mut rig, &mut honest, 2_500);
    assert_eq!(rig.connections(), 1);
    assert!(rig.count(C::EndingsError) > 50, "{}", rig.count(C::EndingsError));
    end(rig, honest);
}

#[test]
fn a_drain_does_not_wait_for_who_never_reads_beyond_its_limit() {
    let (mut rig, mut honest) = rig(patient().drain_limit(2 * S));
    let idle = rig.connect(1);
    goes_on(&mut rig, &mut honest, 10);
    rig.begin_drain();
    for _ in 0..3_000 {
        rig.wait(MS);
        honest.read(usize::MAX);
    }
    assert!(rig.has_ended() && rig.holds_nothing());
    assert_eq!(honest.peer.status(), Status::Ended);
    assert!(matches!(idle.status(), Status::Failed(_)) || idle.readable_bytes() > 0);
}
